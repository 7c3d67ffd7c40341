"""Every kind of component passes the suite: those that rtsim ships, and one from outside.

Wires: units on both ends, sensors that pass them on, arrays and constants.

Kinds of components and controllers from outside in prepared runs: put back, or built anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from rtsim import PythonController, Scenario, Signals, simulate
from rtsim.components.bus import Topic
from rtsim.components.external_inputs import ExternalInput
from rtsim.components.latency import ZERO, Fixed, Loss
from rtsim.components.ports import SignalPort, Source, Wiring
from rtsim.components.tasks import Environment, Ticking
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.signals import Signal, Vector
from rtsim.core.tag import Period, Tag
from rtsim.equations.model import Model
from rtsim.models.ball import BALL
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.prepared import prepare
from rtsim.scenario import Built, Component, Settable, Site
from rtsim.scenario.component import Others, changeable, initials
from rtsim.scenario.standard_components import (
    ControllerComponent,
    ExternalInputComponent,
    NoiseComponent,
    PlantComponent,
    SensorComponent,
    SourceComponent,
)
from rtsim.solve import RK4
from rtsim.testing.components import check_component
from rtsim.testing.determinism import trace_of

# -- a kind of component that the package does not know


class CounterTask(Ticking):
    """Adds its input up and sends the sum."""

    def __init__(self, name: str, period: Period, wiring: Wiring, gain: Vector) -> None:
        super().__init__(name, period, 0, 0)
        self.wiring, self.gain, self.total = wiring, gain, 0.0

    def react(self, tag: Tag, environment: Environment) -> None:
        self.wiring.gather()
        self.total += float(self.gain[0] * self.wiring.into[0])
        environment.send(self.name, tag, tag, np.array([self.total]))

    def save(self) -> dict[str, Any]:
        return {**super().save(), "total": self.total}

    def restore(self, saved: dict[str, Any]) -> None:
        super().restore(saved)
        self.total = saved["total"]


@dataclass
class Counter(Component):
    """What is declared of it."""

    kind = "counter"
    inputs: dict[str, Source]
    gains: dict[str, object] = field(default_factory=dict)

    INPUTS = Signals("u [1]")
    GAINS = Signals("gain [1]")
    OUTPUTS = Signals("total [1]")

    def signals(self, others: Others) -> Signals:  # noqa: ARG002
        return self.OUTPUTS

    def settable(self) -> list[Settable]:
        return [Settable(self.gains, self.GAINS, live=True), Settable(self.inputs, self.INPUTS)]

    def build(self, name: str, site: Site) -> Built:
        wiring = site.wiring(self.INPUTS.initial(), self.INPUTS, self.inputs, name)
        gain = self.GAINS.initial(self.gains)
        return Built(
            port=SignalPort(name, self.OUTPUTS, self.OUTPUTS.initial()),
            topic=Topic(name, name, self.OUTPUTS),
            tasks=[CounterTask(name, Period.of(0.1), wiring, gain)],
            wiring=wiring,
            changeable=changeable(name, self.GAINS, gain),
        )


def counter() -> Counter:
    return Counter({"u": "set.u"}, {"gain": 2.0})


def with_source(scenario: Scenario) -> None:
    scenario.source("set", Signals("u [1]"), {"u": 0.5})
    scenario.at(0.7, "set.u", 2.0)


class Stick:
    def poll(self) -> Vector | None:
        return np.array([0.25])


def double(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    y[0] = p[0] * u[0]


def law() -> ControllerComponent:
    U = Signals("u [1]")
    made = PythonController(double, U, Signals("y [1]"), parameters=Signals("k [1]"))
    return ControllerComponent(made, Period.of(0.1), 0, 0, {"u": "set.u"}, ZERO, ZERO, "hold", ())


def ball() -> PlantComponent:
    return PlantComponent(BALL, Period.of(0.01), RK4, {}, {}, {}, {}, None, 0, 0)


SHIPPED: dict[str, Callable[[], Component]] = {
    "plant": ball,
    "controller": law,
    "sensor": lambda: SensorComponent({"u": "set.u"}, Period.of(0.1), 0, 0, ZERO),
    "noise": lambda: NoiseComponent(Signals("n [1]"), 0.0, 1.0, Period.of(0.1)),
    "source": lambda: SourceComponent(Signals("n [1]")),
    "inlet": lambda: ExternalInputComponent(ExternalInput("component", Signals("n [1]"), Stick())),
}


@pytest.mark.parametrize("make", SHIPPED.values(), ids=SHIPPED)
def test_a_shipped_kind_passes(make: Callable[[], Component]) -> None:
    def beside(scenario: Scenario) -> None:
        with_source(scenario)
        if make is not ball:
            scenario.plant("ball", BALL, step=0.01)

    check_component(make, beside=beside)


def test_a_kind_from_outside_passes() -> None:
    check_component(counter, beside=with_source)


# -- the kind from outside in a scenario


def counted() -> Scenario:
    out = Scenario("counted", until=1)
    with_source(out)
    out.add("count", counter())
    return out


def test_it_is_recorded_read_set_and_described() -> None:
    scenario = counted()
    scenario.sensor("s", {"copy": "count.total"}, period=0.5, offset=0.05)
    scenario.set("count.gain", 4)
    scenario.at(0.35, "count.gain", 0.0)
    trace = trace_of(scenario)
    assert trace.messages["count"]["total"].tolist() == [2, 4, 6, 8, 8, 8, 8, 8, 8, 8, 8]
    assert trace.messages["s"]["copy"].tolist() == [2, 8]
    about = trace.header["scenario"]["parts"]["count"]
    assert about == {
        "kind": "counter",
        "type": "Counter",
        "values": {"gain": 4.0, "u": "set.u"},
    }


def test_a_copy_of_the_scenario_has_values_of_its_own() -> None:
    scenario = counted()
    other = scenario.copy()
    other.set("count.gain", 9)
    assert scenario.components["count"].describe()["values"]["gain"] == 2.0


def test_a_change_of_its_source_is_noticed() -> None:
    assert Counter in counted().functions()


class Pair(Counter):
    """Comes with another component."""

    def companions(self, name: str) -> dict[str, Component]:
        return {f"{name}_start": SourceComponent(Signals("n [1]"))}


def test_companions_are_added_with_it() -> None:
    scenario = Scenario("pair")
    scenario.add("count", Pair({"u": 1.0}))
    assert list(scenario.components) == ["count", "count_start"]


# -- what is refused


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (3.0, "it is a float, not a component; give an object of a class that derives from"),
        (Counter, r"component it is the class Counter; give an object: Counter\(\.\.\.\)"),
        (BALL, "it is a Model, not a component"),
    ],
)
def test_what_is_no_component_is_refused(given: Any, words: str) -> None:
    with pytest.raises(ScenarioError, match=words):
        Scenario("none").add("it", given)


class Nothing(Counter):
    def build(self, name: str, site: Site) -> Built:
        super().build(name, site)
        return None  # type: ignore[return-value]


class Misnamed(Counter):
    def build(self, name: str, site: Site) -> Built:
        return super().build(f"{name}_", site)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Nothing, r"build\(\) of count returned a NoneType; return rtsim.scenario.Built"),
        (
            Misnamed,
            r"build\(\) of count returned a port with the name count_; give it the name count",
        ),
    ],
)
def test_what_build_returns_is_checked(kind: type[Counter], words: str) -> None:
    scenario = Scenario("wrong")
    scenario.add("count", kind({"u": 1.0}))
    with pytest.raises(ScenarioError, match=words):
        scenario.build()


# -- the suite finds what is wrong


class Forgetful(CounterTask):
    def save(self) -> dict[str, Any]:
        return Ticking.save(self)

    def restore(self, saved: dict[str, Any]) -> None:
        Ticking.restore(self, saved)


class WithForgetful(Counter):
    def build(self, name: str, site: Site) -> Built:
        built = super().build(name, site)
        (task,) = built.tasks
        assert isinstance(task, CounterTask)
        return replace(built, tasks=[Forgetful(name, Period.of(0.1), task.wiring, task.gain)])


SHARED = np.zeros(1)


class Sharing(Counter):
    def build(self, name: str, site: Site) -> Built:
        return replace(super().build(name, site), port=SignalPort(name, self.OUTPUTS, SHARED))


class Unlike(Counter):
    def signals(self, others: Others) -> Signals:  # noqa: ARG002
        return Signals("sum [1]")


class NotLive(Counter):
    def settable(self) -> list[Settable]:
        return [Settable(self.gains, self.GAINS), Settable(self.inputs, self.INPUTS)]


class Address(Counter):
    def describe(self) -> dict[str, Any]:
        return {"kind": "counter", "at": id(self)}


class NotPlain(Counter):
    def describe(self) -> dict[str, Any]:
        return {"kind": "counter", "signals": self.INPUTS}


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (
            WithForgetful,
            "continues from a saved state differs from the whole run in messages/component",
        ),
        (Sharing, "two builds of component share the vector of their port"),
        (Unlike, r"the port of component has total, but signals\(\) has sum"),
        (NotLive, r"component.gain is settable with live=False, and build\(\) returned a"),
        (Address, r"describe\(\) of component differs between two equal components"),
        (NotPlain, r"describe\(\) of component is not plain data"),
    ],
)
def test_the_suite_says_what_is_wrong(kind: type[Counter], words: str) -> None:
    with pytest.raises((AssertionError, ScenarioError), match=words):
        check_component(lambda: kind({"u": "set.u"}, {"gain": 1.0}), beside=with_source)


def turn(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = 10.0
    dx[1] = u[0] + u[1]


ARM = Model(
    "arm",
    Signals(Signal("angle", "rad", kind="angle"), "speed [rad/s]"),
    turn,
    inputs=Signals(Signal("torques", "N m", shape=(2,))),
)


def echo(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    y[0] = u[0]
    y[1] = 2.0 * u[0]


def make(unit: str, source: str = "arm.speed") -> Scenario:
    scenario = Scenario("arm", until=0.1)
    scenario.plant("arm", ARM, step=0.01, inputs={"torques": "drive.torques"})
    drive = PythonController(
        echo, Signals(f"speed [{unit}]"), Signals(Signal("torques", "N m", shape=(2,)))
    )
    scenario.controller("drive", drive, period=0.02, inputs={"speed": source})
    return scenario


@pytest.mark.parametrize("unit", ["rad/s", "rad / s", "1"])
def test_the_same_unit_or_none_declared(unit: str) -> None:
    make(unit).build()


@pytest.mark.parametrize("unit", ["deg/s", "rad", "rpmm"])
def test_another_unit_is_refused(unit: str) -> None:
    message = f"arm.speed is in rad/s, but drive.speed is in {unit}; declare the same unit"
    with pytest.raises(ScenarioError, match=message):
        make(unit).build()


def test_a_sensor_passes_units_and_kinds_on() -> None:
    scenario = make("rad/s", "encoder.speed")
    sources = {"angle": "arm.angle", "speed": "arm.speed"}
    scenario.sensor("encoder", sources, period=0.01, transport=Loss(Fixed(0.002), 0.3))
    recording = trace_of(scenario)
    seen = recording.track("messages/encoder").signals
    assert (seen["angle"].unit, seen["angle"].kind) == ("rad", "angle")
    assert seen["speed"].unit == "rad/s"
    statuses = recording.track("messages/encoder").integer("status").tolist()
    assert set(statuses) == {0, 1}
    wrong = make("deg/s", "encoder.speed")
    wrong.sensor("encoder", sources, period=0.01)
    with pytest.raises(ScenarioError, match=r"encoder\.speed is in rad/s"):
        wrong.build()


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        ("arm", ScenarioError, "names no signal"),
        ("arms.angle", UnknownName, "did you mean arm"),
        ("arm.angel", UnknownName, "did you mean angle"),
        ("encoder.angle", ScenarioError, "in a cycle"),
    ],
)
def test_a_sensor_of_nothing_is_named(source: str, error: type[Exception], message: str) -> None:
    scenario = make("rad/s")
    scenario.sensor("encoder", {"angle": source}, period=0.01)
    with pytest.raises(error, match=message):
        scenario.build()


def test_arrays_are_wired_whole() -> None:
    recording = trace_of(make("rad/s"))
    torques = recording.track("arm").column("torques")
    assert torques.shape == (len(torques), 2)
    assert (torques[:, 1] == 2.0 * torques[:, 0]).all()


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


def doubled(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
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
        (PythonController(doubled, U, SUM), ()),
        (Derived(doubled, U, SUM), ("law",)),
        (Said(doubled, U, SUM), ()),
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
