"""Conformance checks for controllers in Python, in C or on a board."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.components.controller import ControllerProtocol
from rtsim.components.protocols import (
    Described,
    Explaining,
    Fresh,
    Prepared,
    Savable,
    Stamped,
    Tunable,
    WarmedUp,
    own_time,
    silence_s,
)
from rtsim.components.protocols import check_controller as check_members
from rtsim.core.errors import ControllerError, ScenarioError
from rtsim.core.signals import Vector
from rtsim.core.tag import NS_PER_S, Tag

NAME = "controller"


def check_controller(
    make: Callable[[], ControllerProtocol],
    *,
    inputs: NDArray[np.float64] | None = None,
    period_s: float = 0.01,
) -> None:
    """Check a controller, and each protocol that the controller implements.

    ``make`` returns a new controller. ``inputs`` (k, m) contains the sampled inputs of k steps,
    which are ``period_s`` s apart. By default, the check uses 20 steps near the initial values. The
    message of an error describes the necessary change.
    """
    prototype = make()
    check_members(NAME, prototype)
    table = _table(prototype) if inputs is None else np.asarray(inputs, dtype=np.float64)
    if table.ndim != 2 or table.shape[1] != prototype.inputs.size or len(table) < 2:
        raise ScenarioError(
            f"the inputs have shape {table.shape}; give shape (k, {prototype.inputs.size}) "
            "with k >= 2"
        )
    tags = [Tag(round(k * period_s * NS_PER_S)) for k in range(len(table))]
    _check_described(prototype)
    wanted = _answers(make, tags, table)
    again = _answers(make, tags, table)
    assert np.array_equal(wanted, again), (
        "two new controllers answer the same inputs differently; reset all memory in fresh(), and "
        "use no clock and no random numbers"
    )
    assert np.array_equal(wanted, _answers(make, tags, table, warmed_up=True)), (
        "the controller answers differently after its warm_up() was called; a warm-up must not "
        "change the controller"
    )
    if not prototype.outside and not isinstance(prototype, Prepared | Fresh):
        one = make()
        first = _answers(lambda: one, tags, table)
        assert np.array_equal(first, _answers(lambda: one, tags, table)), (
            "the controller has no fresh(), so its one object serves every run, and in a second "
            "run it answers the same inputs differently; add fresh(), which returns a new object"
        )
    _check_saved(make, tags, table, wanted)
    _check_explained(prototype)
    _check_tunable(make)


def _table(controller: ControllerProtocol) -> NDArray[np.float64]:
    first = controller.inputs.initial({s.name: 0.0 for s in controller.inputs if not s.shape})
    drawn = np.random.default_rng(1).standard_normal((20, controller.inputs.size))
    low = np.concatenate([np.full(s.size, s.low) for s in controller.inputs] or [np.zeros(0)])
    high = np.concatenate([np.full(s.size, s.high) for s in controller.inputs] or [np.zeros(0)])
    return np.clip(first + 0.1 * drawn, low, high)


def _started(controller: ControllerProtocol) -> ControllerProtocol:
    if isinstance(controller, Prepared):
        return controller.ready(False)
    return controller.fresh() if isinstance(controller, Fresh) else controller


def _answer(
    controller: ControllerProtocol, tag: Tag, inputs: Vector, warmed_up: bool = False
) -> Vector:
    if (own := own_time(controller)) is not None:
        own.advance(tag)
    if warmed_up and isinstance(controller, WarmedUp):
        warm_up = controller.warm_up()
        if warm_up is not None:
            warm_up()
    handed = inputs.copy()
    controller.send(tag, handed)
    handed[:] = np.nan  # The simulation also reuses this vector.
    answer = controller.receive(tag, silence_s(controller))
    assert answer is not None, f"no answer to the request of {tag} within the timeout"
    shape = getattr(answer, "shape", None)
    assert shape == (controller.outputs.size,), (
        f"receive() returned {type(answer).__name__} of shape {shape}; return a vector of shape "
        f"({controller.outputs.size},): {', '.join(controller.outputs.columns)}"
    )
    assert np.isfinite(answer).all(), (
        f"the answer to the request of {tag} is {answer}, expected finite numbers; copy the inputs "
        "in send(), because the vector is reused"
    )
    if isinstance(controller, Stamped):
        _check_stamps(controller.stamps())
    return answer.copy()


def _check_stamps(stamps: tuple[int, ...]) -> None:
    whole = len(stamps) == 4 and all(isinstance(ns, int) for ns in stamps)
    assert whole, f"stamps() returned {stamps}; return four integers, in ns"
    sent, begun, ended, received = stamps
    in_order = sent <= received and begun <= ended
    assert in_order, f"stamps() returned {stamps}; expected sent <= received and begun <= ended"


def _answers(
    make: Callable[[], ControllerProtocol],
    tags: list[Tag],
    table: NDArray[np.float64],
    warmed_up: bool = False,
) -> NDArray[np.float64]:
    controller = _started(make())
    try:
        rows = zip(tags, table, strict=True)
        return np.array([_answer(controller, tag, row, warmed_up) for tag, row in rows])
    finally:
        controller.close()


def _check_described(controller: ControllerProtocol) -> None:
    if isinstance(controller, Described):
        about = _plain("describe()", controller.describe())
        assert "type" in about, "describe() has no 'type'; add type(self).__name__"


def _check_saved(
    make: Callable[[], ControllerProtocol],
    tags: list[Tag],
    table: NDArray[np.float64],
    wanted: NDArray[np.float64],
) -> None:
    half = len(tags) // 2
    one, other = _started(make()), _started(make())
    try:
        if not (isinstance(one, Savable) and isinstance(other, Savable)):
            return
        for tag, row in zip(tags[:half], table, strict=False):
            _answer(one, tag, row)
        other.restore(_plain("save()", one.save()))
        for k in range(half, len(tags)):
            answer = _answer(other, tags[k], table[k])
            assert np.array_equal(answer, wanted[k]), (
                f"restored after {half} steps, the controller answers {answer} to the request of "
                f"{tags[k]}, but {wanted[k]} in the whole run; save() must include all its memory"
            )
    finally:
        one.close()
        other.close()


def _check_explained(controller: ControllerProtocol) -> None:
    if isinstance(controller, Explaining):
        for error in (
            controller.silent(Tag(0)),
            controller.explained(Tag(0), ControllerError("an example")),
        ):
            assert isinstance(error, ControllerError), (
                "silent() and explained() must return a ControllerError, got "
                f"{type(error).__name__}"
            )


def _check_tunable(make: Callable[[], ControllerProtocol]) -> None:
    controller = _started(make())
    try:
        if isinstance(controller, Tunable):
            vector = controller.tunable()
            assert vector.shape == (controller.parameters.size,), (
                f"tunable() has shape {vector.shape}; its parameters need shape "
                f"({controller.parameters.size},)"
            )
            assert vector is controller.tunable(), "tunable() must return the vector in use"
    finally:
        controller.close()


def _plain(what: str, value: Any) -> Any:
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError) as error:
        raise ScenarioError(
            f"{what} is not plain data: {error}; use numbers, text, lists and dicts"
        ) from None
