"""The suite of controllers: a law, and one that runs elsewhere and is defined outside rtsim."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

from rtsim import PythonController, Scenario
from rtsim.components.controller import ControllerProtocol
from rtsim.components.latency import Fixed
from rtsim.components.protocols import (
    OPTIONAL,
    Assignable,
    ByAddress,
    Described,
    Explaining,
    FreeRunning,
    Fresh,
    OwnTime,
    Paced,
    Parametrised,
    Patient,
    Prepared,
    Savable,
    Sourced,
    Stamped,
    Tunable,
    check_controller,
)
from rtsim.core.errors import ControllerError, ScenarioError
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import Tag
from rtsim.testing import controllers
from rtsim.testing.determinism import trace_of

U, Y = Signals("u [1]"), Signals("y [1]")


class Remote:
    """A running sum, as if another machine kept it: a new kind of controller."""

    inputs, outputs, outside, silence = U, Y, True, 2.5

    def __init__(self) -> None:
        self.total = 0.0

    def fresh(self) -> ControllerProtocol:
        return type(self)()

    def send(self, tag: Tag, inputs: Vector) -> None:  # noqa: ARG002
        self.total += float(inputs[0])

    def receive(self, tag: Tag, patience: float) -> Vector | None:  # noqa: ARG002
        return np.array([self.total])

    def close(self) -> None:
        pass

    def describe(self) -> dict[str, Any]:
        return {"type": "Remote", "machine": "elsewhere"}

    def stamps(self) -> tuple[int, ...]:
        return (1, 2, 3, 4)

    def save(self) -> dict[str, Any]:
        return {"total": self.total}

    def restore(self, saved: dict[str, Any]) -> None:
        self.total = saved["total"]

    def silent(self, tag: Tag) -> ControllerError:
        return ControllerError(f"the machine is gone at {tag}")

    def explained(self, tag: Tag, error: ControllerError) -> ControllerError:  # noqa: ARG002
        return error


def double(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    s[0] += u[0]
    y[0] = p[0] * s[0]


def law() -> PythonController:
    return PythonController(double, U, Y, parameters=Signals("k = 2"), memory=Signals("s"))


@pytest.mark.parametrize("make", [law, Remote])
def test_it_passes_the_suite(make: Any) -> None:
    controllers.check_controller(make)


def scenario_of(controller: Any) -> Scenario:
    out = Scenario("remote", until=0.5)
    out.source("set", U, {"u": 1.0})
    out.controller("c", controller, period=0.1, inputs={"u": "set.u"}, compute=Fixed(0.01))
    return out


def test_one_from_outside_runs_is_measured_and_described() -> None:
    trace = trace_of(scenario_of(Remote()))
    assert trace.messages["c"]["y"].tolist() == [1, 2, 3, 4, 5]
    assert trace.header["scenario"]["parts"]["c"]["machine"] == "elsewhere"
    assert len(trace.tracks["measured/c"]) == 5


def test_what_a_controller_can_do_is_a_protocol() -> None:
    remote, python = Remote(), law()
    has = (Fresh, Patient, Explaining, Savable, Stamped, Described)
    lacks = (
        OwnTime,
        Prepared,
        Parametrised,
        Assignable,
        Tunable,
        Sourced,
        FreeRunning,
        Paced,
        ByAddress,
    )
    assert [p for p in (*has, *lacks) if isinstance(remote, p)] == list(has)
    ours = (Fresh, Prepared, Savable, Parametrised, Assignable, Tunable, Sourced, ByAddress)
    assert all(isinstance(python, p) for p in ours)


class NoClose:
    inputs, outputs, outside = U, Y, True

    def send(self, tag: Tag, inputs: Vector) -> None: ...

    def receive(self, tag: Tag, patience: float) -> Vector | None: ...


class Plain(NoClose):
    def close(self) -> None: ...


class SaveAlone(Plain):
    def save(self) -> dict[str, Any]:
        return {}


class OnlyAdvances(Plain):
    own_time = True

    def advance(self, tag: Tag) -> None: ...


class OwnTimeAlone(Plain):
    own_time = True


class Unflagged(Plain):
    def advance(self, tag: Tag) -> None: ...

    def anchor(self, tag: Tag) -> None: ...


class Mute(Plain):
    def silent(self, tag: Tag) -> ControllerError:
        return ControllerError(f"{tag}")


class WithoutParameters(Plain):
    def tunable(self) -> Vector:
        return np.zeros(1)


class StampsValue(Plain):
    stamps = (1, 2, 3, 4)


class NoSignals(Plain):
    inputs = ("u",)  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (
            NoClose,
            r"controller c \(NoClose\) has no close\(\); a controller needs inputs, outputs, ",
        ),
        (SaveAlone, r"\(SaveAlone\) has save\(\) but no restore\(\); Savable needs save and rest"),
        (OnlyAdvances, r"has advance\(\) but no anchor\(\); OwnTime needs own_time, advance and"),
        (OwnTimeAlone, r"has own_time but no advance\(\); OwnTime needs"),
        (Unflagged, r"has advance\(\) but no own_time; OwnTime needs"),
        (Mute, r"has silent\(\) but no explained\(\); Explaining needs silent and explained"),
        (WithoutParameters, r"has tunable\(\) but no parameters; Tunable needs"),
        (StampsValue, r"stamps of controller c \(StampsValue\) is a tuple; it must be a method"),
        (NoSignals, r"inputs of controller c \(NoSignals\) is a tuple; give Signals\(\.\.\.\)"),
    ],
)
def test_one_that_lacks_a_member_is_refused_when_the_scenario_is_built(
    kind: Any, words: str
) -> None:
    scenario = Scenario("refused", until=0.5)
    scenario.controller("c", kind(), period=0.1, inputs={"u": 1.0})
    with pytest.raises(ScenarioError, match=words):
        scenario.build()


def test_a_class_is_refused_with_what_to_write() -> None:
    with pytest.raises(
        ScenarioError, match=r"controller c is the class Remote; give an object: Remote\("
    ):
        check_controller("c", Remote)


def test_own_time_that_is_off_asks_for_nothing() -> None:
    one = Plain()
    one.own_time = False  # type: ignore[attr-defined]
    check_controller("c", one)


def test_the_table_of_protocols_lists_their_members() -> None:
    every = {OwnTime, Explaining, Savable, Tunable, ByAddress}
    assert {protocol for protocol, *_ in OPTIONAL} == every
    for protocol, methods, others in OPTIONAL:
        for member in methods:
            assert callable(getattr(protocol, member))
        named = {name for one in protocol.__mro__ for name in (*vars(one), *_annotations(one))}
        assert set(others) <= named


def _annotations(of: type) -> dict[str, Any]:
    found: dict[str, Any] = vars(of).get("__annotations__", {})
    return found


# -- the suite finds what is wrong


class Keeping(Remote):
    """Looks at the vector that it was sent only when it is asked."""

    def send(self, tag: Tag, inputs: Vector) -> None:  # noqa: ARG002
        self.sent = inputs

    def receive(self, tag: Tag, patience: float) -> Vector | None:  # noqa: ARG002
        return np.array([float(self.sent[0])])


class Forgetful(Remote):
    def save(self) -> dict[str, Any]:
        return {"total": 0.0}


class Wide(Remote):
    def receive(self, tag: Tag, patience: float) -> Vector | None:  # noqa: ARG002
        return np.zeros(2)


class Shared(Remote):
    count: ClassVar = [0.0]

    def receive(self, tag: Tag, patience: float) -> Vector | None:  # noqa: ARG002
        self.count[0] += 1.0
        return np.array(self.count)


class Backwards(Remote):
    def stamps(self) -> tuple[int, ...]:
        return (4, 3, 2, 1)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Keeping, r"copy the inputs in send\(\)"),
        (Forgetful, r"save\(\) must include all its memory"),
        (Wide, r"return a vector of shape \(1,\): y"),
        (Shared, "two new controllers answer the same inputs differently"),
        (Backwards, "expected sent <= received and begun <= ended"),
    ],
)
def test_the_suite_says_what_is_wrong(kind: Any, words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        controllers.check_controller(kind)


def test_a_table_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ScenarioError, match=r"inputs have shape \(3, 2\); give shape \(k, 1\)"):
        controllers.check_controller(Remote, inputs=np.zeros((3, 2)))
