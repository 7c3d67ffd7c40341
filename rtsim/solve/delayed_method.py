"""Any method of rtsim's own solvers, extended to models with delays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import ScenarioError
from rtsim.equations.delayed_values import FIRST_END, HEAD, LIVE, ORDER
from rtsim.equations.history import Function
from rtsim.equations.model import BoundModel
from rtsim.solve.delayed_step import BUDGETED, KEPT, delayed_leg, delayed_retake, delayed_step
from rtsim.solve.look import NOTES
from rtsim.solve.method import STEP_LAYOUT, Inner, Method, address_of, functions_of, model_sizes

CUBIC = 3
"""Degree of the dense output of a solver that has none of its own."""


def with_history(method: Method, bound: BoundModel) -> Method:
    """Return ``method`` with steps that end at breaks and keep the past of ``bound``.

    Raises :class:`ScenarioError` for a budget of evaluations with a lag that is a function.
    """
    history, model = bound.history, bound.model
    assert history is not None
    if history.variable and method.unbounded is not None:
        raise ScenarioError(
            f"model {model.name} has a variable lag, which a solver with a budget cannot "
            "integrate; leave the budget out"
        )
    sizes, n, delays = model_sizes(bound), model.states.size, len(model.delays)
    inner = method.inner
    leg, retake = (method.step, method.step) if inner is None else (inner.leg, inner.retake)
    steps = (leg, retake, delayed_leg)
    no_k, no_dense = np.zeros((0, n)), np.zeros((0, 0))
    k, dense = (None, None) if inner is None else (inner.k, inner.dense)
    degree = CUBIC if dense is None else dense.shape[1]
    own = method.layout.zeros("memory", sizes)
    remembered = HEAD + 2 * delays + own.size + 1
    settings, live = np.zeros(2), np.zeros(LIVE)
    settings[KEPT], settings[BUDGETED] = method.kept, method.unbounded is not None
    live[ORDER] = degree + 1
    began, own_after, inner_notes = np.zeros(n), np.zeros(own.size), np.zeros(NOTES)
    nodes = np.arange(degree + 1) / degree
    arrays = {
        "live": live,
        "began": began,
        "own": own,
        "own_after": own_after,
        "settings": settings,
        "inner_notes": inner_notes,
        "k": no_k if k is None else k,
        "dense": no_dense if dense is None else dense,
        "fit": np.linalg.inv(np.vander(nodes, increasing=True)),
        "nodes_v": np.zeros((degree + 1, model.lines.size)),
    }
    width = FIRST_END + history.elements * (degree + 2)

    def settle(given: Mapping[str, NDArray[np.float64]]) -> None:
        """Let the solver's own steps begin at ``began``, and the past know all functions."""
        vectors = {name: given[name] for name in ("z", "u", "p", "out")}
        memory = {"memory": own, "after": own_after, "notes": inner_notes}
        inside = {**vectors, "x": began, **memory, **method.own}
        functions = functions_of(bound)
        found: dict[str, Function]
        alive: Any = None
        if bound.compiled:
            alive = method.layout.block(functions, inside, sizes)
            words = alive.words
            places = (words.ctypes.data, words.size)
            found = {
                name: (address_of(step), step)
                for name, step in zip(("leg", "retake", "whole_leg"), steps, strict=True)
            }
            found |= {"inner": (places[0], 0), "inner_words": (places[1], 0)}
        else:
            plain = method.layout.plain(functions, inside, sizes)
            found = {"leg": (0, steps[0]), "retake": (0, steps[1]), "whole_leg": (0, steps[2])}
            found["inner"] = (0, plain)
        outer = {name: given[name] for name in ("memory", "after", "notes")}
        history.attach(found, {**arrays, **outer}, width, alive)

    first = HEAD + 2 * delays
    unbounded = None if method.unbounded is None else first + method.unbounded
    return Method(
        delayed_step,
        STEP_LAYOUT.extended("a step with delays", memory=(remembered,), after=(remembered,)),
        kept=remembered - 1,
        unbounded=unbounded,
        new_frame=_within(method.new_frame, first, own.size),
        inner=Inner(
            delayed_leg,
            delayed_retake,
            began,
            k,
            dense,
        ),
        settle=settle,
    )


def _within(
    new_frame: Callable[[NDArray[np.float64]], None] | None, first: int, size: int
) -> Callable[[NDArray[np.float64]], None] | None:
    """Return ``new_frame`` for a memory that has the solver's own memory from ``first`` on."""
    if new_frame is None:
        return None
    return lambda memory: new_frame(memory[first : first + size])
