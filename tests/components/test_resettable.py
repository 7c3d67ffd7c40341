"""Kinds of components and controllers from outside in prepared runs: put back, or built anew."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from rtsim import PythonController, Scenario, Signals, simulate
from rtsim.components.bus import Topic
from rtsim.components.ports import SignalPort, Source, Wiring
from rtsim.components.tasks import Environment, Ticking
from rtsim.core.signals import Vector
from rtsim.core.tag import Period, Tag
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.prepared import prepare
from rtsim.scenario import Built, Component, Settable, Site
from rtsim.scenario.component import Others, changeable, initials
from rtsim.scenario.standard_components import NoiseComponent
from rtsim.testing.components import check_component

U, GAIN, SUM = Signals("u [1]"), Signals("gain [1]"), Signals("sum [1]")


class SumTask(Ticking):
    """Adds its input up; ``forgets`` names what it does not save."""

    forgets = ""

    def __init__(self, name: str, wiring: Wiring, gain: Vector) -> None:
        super().__init__(name, Period.of(0.1), 0, 0)
        self.wiring, self.gain, self.sum = wiring, gain, 0.0

    def react(self, tag: Tag, environment: Environment) -> None:
        self.wiring.gather()
        self.sum += float(self.gain[0] * self.wiring.into[0])
        environment.send(self.name, tag, tag, np.array([self.sum]))

    def save(self) -> dict[str, Any]:
        return {**super().save(), "sum": self.sum, "gain": self.gain.tolist()}

    def restore(self, saved: dict[str, Any]) -> None:
        super().restore(saved)
        if self.forgets != "sum":
            self.sum = saved["sum"]
        if self.forgets != "gain":
            self.gain[:] = saved["gain"]


@dataclass
class Sum(Component):
    """A kind of component that the package does not know."""

    kind = "sum"
    inputs: dict[str, Source]
    gains: dict[str, object] = field(default_factory=dict)
    task = SumTask

    def signals(self, others: Others) -> Signals:  # noqa: ARG002
        return SUM

    def settable(self) -> list[Settable]:
        return [Settable(self.gains, GAIN, live=True), Settable(self.inputs, U)]

    def resettable(self) -> bool:
        return True

    def build(self, name: str, site: Site) -> Built:
        wiring = site.wiring(U.initial(), U, self.inputs, name)
        gain = GAIN.initial(self.gains)
        return Built(
            port=SignalPort(name, SUM, SUM.initial()), topic=Topic(name, name, SUM),
            tasks=[self.task(name, wiring, gain)], wiring=wiring,
            changeable=changeable(name, GAIN, gain), initials=initials(GAIN, gain),
        )  # fmt: skip


class ForgetsSum(SumTask):
    forgets = "sum"


class ForgetsGain(SumTask):
    forgets = "gain"


class ForgetfulOfSum(Sum):
    task = ForgetsSum


class ForgetfulOfGain(Sum):
    task = ForgetsGain


class OwnBuild(Sum):
    """Its ``build`` is not that about which the inherited answer speaks."""

    def build(self, name: str, site: Site) -> Built:
        return super().build(name, site)


class OwnBuildToo(OwnBuild):
    def resettable(self) -> bool:
        return True


class Mixin:
    """No component, but its ``build`` comes first."""

    def build(self, name: str, site: Site) -> Built:
        raise AssertionError(name, site)


class Mixed(Mixin, NoiseComponent):
    pass


class Renamed(NoiseComponent):
    kind = "renamed"


def with_source(scenario: Scenario) -> None:
    scenario.source("set", Signals("u [1]"), {"u": 0.5})
    scenario.at(0.7, "set.u", 2.0)


def summing(kind: type[Sum] = Sum) -> Scenario:
    out = Scenario("sums", until=1)
    with_source(out)
    out.add("sum", kind({"u": "set.u"}, {"gain": 2.0}))
    out.at(0.4, "sum.gain", 3.0)
    return out


def test_a_kind_from_outside_is_put_back() -> None:
    check_component(lambda: Sum({"u": "set.u"}, {"gain": 2.0}), beside=with_source)
    prepared = prepare(summing())
    assert prepared.rebuilt == ()
    systems = set()
    for gain in (1.0, 2.0, 1.0):
        changed = summing()
        changed.set("sum.gain", gain)
        wanted = simulate(changed, seed=3, recorder=MemoryRecorder()).recording().digest()
        result = prepared.run(seed=3, set={"sum.gain": gain})
        assert result.recording().digest() == wanted
        systems.add(id(result.system))
    assert len(systems) == 1


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (ForgetfulOfSum, "a run after a reset differs from a new run|continues from a saved state"),
        (ForgetfulOfGain, "restore.. does not put component.gain back"),
    ],
)
def test_the_suite_finds_what_is_not_put_back(kind: type[Sum], words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        check_component(lambda: kind({"u": "set.u"}, {"gain": 2.0}), beside=with_source)


def test_a_build_of_its_own_needs_an_answer_of_its_own() -> None:
    assert prepare(summing(OwnBuild)).rebuilt == ("sum",)
    assert prepare(summing(OwnBuildToo)).rebuilt == ()
    given = (Signals("n [1]"), 0.0, 1.0, Period.of(0.1))
    assert Renamed(*given).resettable()
    assert not Mixed(*given).resettable()


def double(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    y[0] = 2.0 * u[0]


class Derived(PythonController):
    """A class that may have memory of its own."""


class Said(PythonController):
    """A class that says that it has none."""

    @property
    def resettable(self) -> bool:
        return True


class Unsaved:
    """A controller without memory that cannot be saved."""

    inputs, outputs, outside, resettable = U, SUM, False, True

    def send(self, tag: Tag, inputs: Vector) -> None: ...

    def receive(self, tag: Tag, patience: float) -> Vector | None:  # noqa: ARG002
        return np.zeros(1)

    def close(self) -> None: ...


@pytest.mark.parametrize(
    ("controller", "rebuilt"),
    [
        (PythonController(double, U, SUM), ()),
        (Derived(double, U, SUM), ("law",)),
        (Said(double, U, SUM), ()),
        (Unsaved(), ("law",)),
    ],
    ids=lambda one: type(one).__name__,
)
def test_a_controller_says_whether_it_can_be_put_back(
    controller: Any, rebuilt: tuple[str, ...]
) -> None:
    out = Scenario("law", until=0.3)
    with_source(out)
    out.controller("law", controller, period=0.1, inputs={"u": "set.u"})
    assert prepare(out).rebuilt == rebuilt
