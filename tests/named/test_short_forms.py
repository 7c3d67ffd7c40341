"""Short ways to write fields, connections, periods and runs equal the long ways."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import pytest

import rtsim as rt
from rtsim.core.errors import ModelError, ScenarioError
from rtsim.discrete import Agenda, processes


class Cart(rt.Plant):
    x = rt.state("m", 1)
    v = rt.state("m/s")
    force = rt.input("N/kg")

    def derivative(self, d: Self) -> None:
        d.x = self.v
        d.v = self.force


class Brake(rt.Controller):
    period = 0.1
    x = rt.input("m")
    v = rt.input("m/s")
    force = rt.output("N/kg")

    def step(self) -> None:
        self.force = -4 * self.x - 2 * self.v


# -- several fields of one line ------------------------------------------------------------------


class Turning(rt.Plant):
    x, y = rt.state("m", (1, 2), low=-5.0, description="place")
    place, speed = rt.state(((0.0, 1.0), (2.0, 3.0)))
    gain, offset = rt.parameter((4, 5))
    wind, rain = rt.input("m/s", shape=(2,))
    calm, loud = rt.memory((0.0, 1.0))
    one, other = rt.output("m", shape=(2,))

    def derivative(self, d: Self) -> None:
        d.x, d.y = self.gain * self.y, self.offset * self.x
        d.place, d.speed = self.speed, -self.place

    def outputs(self) -> None:
        self.one, self.other = self.x, self.y


def test_elements_and_rows_are_fields_with_the_options_of_the_line() -> None:
    model = Turning.model()
    assert model.states.names == ("x", "y", "place", "speed")
    assert [s.initial for s in model.states] == [1, 2, (0.0, 1.0), (2.0, 3.0)]
    assert [s.shape for s in model.states] == [(), (), (2,), (2,)]
    assert [(s.unit, s.low, s.description) for s in model.states][:2] == [("m", -5.0, "place")] * 2
    assert model.parameters.names == ("gain", "offset")
    assert model.inputs.names == ("wind", "rain")
    assert model.discrete.names == ("calm", "loud")
    assert model.outputs.names == ("one", "other")
    assert "- y [m] = 2, state: place" in (Turning.__doc__ or "")


@pytest.mark.long
def test_a_tuple_of_derivatives_is_each_derivative() -> None:
    run = rt.simulate(Turning(wind=0, rain=0), until=1)
    assert run.final("turning.place") == pytest.approx(
        np.cos(1) * np.array([0, 1]) + np.sin(1) * np.array([2, 3]), abs=1e-5
    )


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (rt.state("m"), "is one number.*shape="),
        (rt.memory(shape=(2,), name="x"), "signal name 'x'.*leave name= out"),
        (rt.state("1", (1, 0, 0, 0), kind="quaternion"), "kind='quaternion'.*one name"),
        (rt.state("1", shape=(2,), derivative_of="x"), "derivative_of=.*leave derivative_of= out"),
    ],
)
def test_a_field_that_has_no_elements_of_its_own_is_refused(field: Any, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        list(field)


def test_the_number_of_names_is_checked() -> None:
    with pytest.raises(ValueError, match="too many values to unpack"):
        _a, _b = rt.state((1, 2, 3))


@pytest.mark.parametrize("field", [rt.state, rt.parameter, rt.memory, rt.input, rt.algebraic])
def test_a_value_without_unit_is_the_initial_value(field: Callable[..., Any]) -> None:
    assert (field(5.0).signal.unit, field(5.0).signal.initial) == ("1", 5.0)


# -- components whose signals have equal names ---------------------------------------------------


def loop_of() -> tuple[rt.Scenario, Cart, Brake]:
    loop = rt.Scenario("cart", until=2)
    return loop, loop.plant(Cart(), step=0.01), loop.controller(Brake())


def digest_of(scenario: rt.Scenario) -> str:
    return rt.simulate(scenario).recording().digest()


def test_two_components_are_connected_by_the_names_of_their_signals() -> None:
    loop, cart, brake = loop_of()
    loop.connect(cart.x, brake.x)
    loop.connect(cart.v, brake.v)
    loop.connect(brake.force, cart.force)
    for names in (lambda one, other: (one, other), lambda one, other: (str(other), str(one))):
        short, first, second = loop_of()
        short.connect(*names(first, second))
        assert short.describe() == loop.describe()
    assert digest_of(short) == digest_of(loop)
    made = rt.Scenario.from_components(Cart(), Brake(), until=2, step=0.01)
    assert made.describe() == loop.describe()
    run = rt.simulate(Cart(), Brake(), until=2, step=0.01)
    assert run.recording().digest() == digest_of(loop)


def test_an_input_has_one_source() -> None:
    loop, cart, brake = loop_of()
    loop.connect(cart.x, brake.x)
    with pytest.raises(ScenarioError, match=r"(?s)connect\(cart, brake\).*brake\.x is al") as said:
        loop.connect(cart, brake)
    assert "test_short_forms.py" in str(said.value)
    with pytest.raises(
        ScenarioError, match=r"turning\.x and brake\.x have the same name, but.*Scenario"
    ):
        rt.simulate(Cart(), Brake(), Turning(), until=1)


class Room(rt.Plant):
    warmth = rt.state("K", 290)

    def derivative(self, d: Self) -> None:
        d.warmth = -0.01 * self.warmth


def test_wrong_components_are_refused() -> None:
    loop, cart, brake = loop_of()
    room = loop.plant(Room(), step=0.1)
    wrong: list[tuple[Any, Any, str]] = [
        (brake, room, "brake and room cannot be .*inputs x, v and the signals force.*none.*warmth"),
        (
            cart,
            brake.x,
            "source of the connection is the component cart; give .* such as cart.force",
        ),
        ("cart.x", "brake", "target of the connection is the component brake.*or two components"),
        (cart, cart, "cannot be connected to itself"),
        (cart, "brak", "unknown component 'brak'.*did you mean brake"),
        (cart, Brake(), r"Brake\(\) is no component of cart; give the object that plant"),
    ]
    for source, target, message in wrong:
        with pytest.raises(ScenarioError, match=message):
            loop.connect(source, target)


def test_an_input_with_a_value_is_not_connected_by_its_name() -> None:
    loop = rt.Scenario("cart", until=2)
    cart, brake = loop.plant(Cart(force=1.0), step=0.1), loop.controller(Brake())
    with pytest.raises(
        ScenarioError,
        match=r"cart\.force has the value 1\.0, so it cannot also be connected to brake\.force",
    ):
        loop.connect(cart, brake)
    with pytest.raises(ScenarioError, match=r"cart\.force has the value 1\.0"):
        rt.simulate(Cart(force=1.0), Brake(), until=1)


def test_units_of_equal_names_are_checked() -> None:
    class Metric(Brake):
        x = rt.input("m/s")

    loop = rt.Scenario("cart", until=2)
    with pytest.raises(ScenarioError, match=r"m/s"):
        loop.connect(loop.plant(Cart(), step=0.01), loop.controller(Metric()))


# -- a period that the class gives ---------------------------------------------------------------


def test_a_step_reads_the_period_of_its_class() -> None:
    class Clock(rt.Controller):
        period = 0.25
        now = rt.output("s")
        sum = rt.memory("s")

        def step(self) -> None:
            self.sum += self.period
            self.now = self.sum

    run = rt.simulate(Clock(), until=1)
    assert run.final("clock.now") == 1.25
    loop = rt.Scenario("clock", until=1)
    loop.controller(Clock(), period=0.25)
    with pytest.raises(ModelError, match=r"Clock.period is 0\.25 s, but period=0\.5 is given"):
        loop.controller("other", Clock(), period=0.5)
    with pytest.raises(ScenarioError, match="exactly one of period= and on="):
        loop.controller("third", Clock(), on=("clock",))


def test_a_period_that_is_a_field_is_no_sample_period() -> None:
    class Beat(rt.Controller):
        period = rt.parameter("s", 3.0)
        beat = rt.output()

        def step(self) -> None:
            self.beat = self.t / self.period

    loop = rt.Scenario("beat", until=1)
    loop.controller(Beat(), period=0.5)
    assert rt.simulate(loop).final("beat.beat") == pytest.approx(1 / 3)
    with pytest.raises(ScenarioError, match="exactly one of period= and on="):
        rt.simulate(Beat(), until=1)


# -- runs of components --------------------------------------------------------------------------


class Decay(rt.Plant):
    x = rt.state(1.0)

    def derivative(self, d: Self) -> None:
        d.x = -self.x


def test_a_run_without_step_controls_its_error() -> None:
    run = rt.simulate(Decay(), until=2)
    assert len(run.time) == 1001
    assert run.final("decay.x") == pytest.approx(np.exp(-2), rel=1e-6)
    assert run.system.plants[0].solver.name == "dp54"
    assert rt.simulate(Decay(), until=2, step=0.5).system.plants[0].solver.name == "rk4"
    assert rt.simulate(Decay(), until=2, solver="euler").system.plants[0].solver.name == "euler"


def test_wrong_runs_of_components_are_refused() -> None:
    wrong: list[tuple[Callable[[], Any], str]] = [
        (
            lambda: rt.simulate(Decay()),
            r"with a Decay; .* the end of the run, in s: simulate\(Cart\(\), until=10\)",
        ),
        (lambda: rt.simulate(loop_of()[0], step=0.1), "scenario cart already has its components"),
        (lambda: rt.simulate(loop_of()[0], Decay()), "scenario cart already has its components"),
        (lambda: rt.simulate(Decay, until=1), r"give an object: Decay\(\)"),  # type: ignore[arg-type]
        (lambda: rt.simulate(3, until=1), "3 is not a plant, a controller or processes"),  # type: ignore[arg-type]
        (lambda: rt.simulate(Decay(), Decay(), until=1), "decay is declared twice"),
        (lambda: rt.Scenario.from_components(until=1), "give one or more components"),
    ]
    for run, message in wrong:
        with pytest.raises(ScenarioError, match=message):
            run()


@processes(outputs=rt.Signals("done"), messages={"parts": rt.Signals("took [s]")})
def machine(agenda: Agenda) -> None:
    def work() -> Any:
        for done in range(1, 4):
            took = agenda.random("work").exponential(1.0)
            yield agenda.timeout(took)
            agenda.write(done=done)
            agenda.send("parts", took=took)

    agenda.process(work())


def test_processes_have_the_name_of_their_set_up() -> None:
    from rtsim.testing import mean_after, replicate

    run = rt.simulate(machine, until=100)
    assert run.final("machine.done") == 3
    loop = rt.Scenario("shop", until=100)
    assert str(loop.processes(machine)) == "machine"
    made = replicate(
        machine, lambda r: {"took": mean_after(r, "messages/parts.took")}, count=3, until=100
    )
    assert len(set(made["took"])) == 3
    decays = replicate(Decay, lambda r: {"x": r["decay.x"][-1]}, count=2, until=1)
    assert decays["x"] == pytest.approx([np.exp(-1)] * 2)


def test_processes_without_a_name_need_one() -> None:
    from rtsim.discrete import Processes

    loop = rt.Scenario("shop", until=1)
    with pytest.raises(ScenarioError, match=r"no name; give it first: processes\('name'"):
        loop.processes(Processes(lambda agenda: None))  # noqa: ARG005
