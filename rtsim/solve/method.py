"""What a solver is made of: the functions and arrays of its step, and their common layout."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.core.signals import Vector
from rtsim.equations.addresses import NUMBER, WORDS
from rtsim.equations.compiling import Native, compile_function
from rtsim.equations.layout import Layout
from rtsim.equations.model import BoundModel
from rtsim.solve.look import NOTES

STEP_LAYOUT = Layout(
    "a step",
    ("f", "project", "jacobian", "leg", "retake"),
    {
        "x": ("states",),
        "z": ("discrete",),
        "u": ("inputs",),
        "p": ("parameters",),
        "out": ("states",),
        "memory": (0,),
        "after": (0,),
        "notes": (NOTES,),
    },
)
"""The first functions and arrays of every method's argument table, which adds arrays of its own.

- ``f``, ``project``, ``jacobian``: derivative, projection and Jacobian of the model; the last two
  are 0 if the model has none.
- ``leg``, ``retake``: the method's own functions for internal steps, if they call each other by
  address, else 0.  A function that is called by address is compiled once.
- ``x``: state at the beginning of the step; ``out``: state at its end.
- ``memory``: the solver memory after the last committed step; ``after``: the solver memory that
  becomes valid once the step is committed.  Zeros mean that nothing is known of earlier steps.
- ``notes``: the present advance of a method with internal steps
  (:data:`rtsim.solve.look.PHASE`).
"""
AT = STEP_LAYOUT.at


@dataclass(frozen=True)
class Inner:
    """The internal steps of a method that takes several steps to reach a tag.

    ``leg``, ``retake`` and the arrays are those of :class:`rtsim.solve.legs.Legs`.
    """

    leg: Callable[..., int]
    retake: Callable[..., int]
    now: Vector
    k: NDArray[np.float64] | None = None
    dense: NDArray[np.float64] | None = None


@dataclass(frozen=True)
class Method:
    """The functions and arrays from which :func:`stepper` makes a stepper for one model."""

    step: Callable[..., int]
    layout: Layout
    """:data:`STEP_LAYOUT`, extended by the arrays of ``own``."""
    own: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    """The method's own arrays: coefficients and arrays for intermediate results."""
    kept: int = 0
    """The number of first elements of the memory that ``Stepper.forget`` does not clear."""
    unbounded: int | None = None
    """Index of the element of the memory that counts steps without an error bound; ``None``: they
    are not counted.
    """
    new_frame: Callable[[Vector], None] | None = None
    """A function that is called with the memory when a solver frame begins."""
    inner: Inner | None = None
    """The method's internal steps; ``None`` if the method reaches each tag in a single step."""
    by_address: bool = False
    """True if ``step`` calls the functions of ``inner`` by their addresses in the argument table.
    """
    settle: Callable[[Mapping[str, NDArray[np.float64]]], None] | None = None
    """A function that is called with the arrays of the argument table before it is made."""


def functions_of(bound: BoundModel, leg: Any = 0, retake: Any = 0) -> tuple[Any, ...]:
    """Return the functions of :data:`STEP_LAYOUT` as their addresses, or as plain Python."""
    return bound.derivative.handle, bound.project.handle, bound.jacobian.handle, leg, retake


def model_sizes(bound: BoundModel) -> dict[str, int]:
    """Return the lengths of x, z, u and p and the number of guards, by their names in layouts."""
    model = bound.model
    return {
        "states": model.states.size,
        "discrete": model.discrete.size,
        "inputs": model.inputs.size,
        "parameters": model.parameters.size + (bound.history is not None),
        "guards": len(model.guards),
    }


@cache
def native_step(step: Callable[..., int]) -> Native:
    """Return a step function, compiled."""
    return compile_function(step, (WORDS, NUMBER, NUMBER), f"solver {step.__module__}")


def address_of(step: Callable[..., int]) -> Any:
    """Return the machine address of a step function."""
    return native_step(step).handle
