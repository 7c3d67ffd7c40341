"""What an input is before the first message of its source has arrived, on both engines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from engine_parts import check_equal

import rtsim as rt
from rtsim.components.latency import Uniform
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.core.tag import Tag
from rtsim.engine.compiled.eligibility import COMPILED, INTERPRETED
from rtsim.linear.trimming import trim
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.diverging.inputs import Teller
from rtsim.runs.prepared import prepare
from rtsim.runs.replay import rerun

engines = pytest.mark.parametrize("engine", [INTERPRETED, COMPILED])
LATE = 0.25
"""Latency of the messages that the tests wait for, s."""


class Cart(rt.Plant):
    """Its output shows the force at once."""

    speed = rt.state("m/s")
    force = rt.input("N", 3.0)
    felt = rt.output("N")

    def derivative(self, d: Any) -> None:
        d.speed = self.force

    def outputs(self) -> None:
        self.felt = 2.0 * self.force


class Brake(rt.Controller, compile=True):
    speed = rt.input("m/s", 5.0)
    force = rt.output("N")

    def step(self) -> None:
        self.force = -self.speed - 1.0


class Copy(rt.Controller, compile=True):
    u = rt.input("N")
    y = rt.output("N")

    def step(self) -> None:
        self.y = self.u


def cart(transport: Any = LATE, **given: float) -> rt.Scenario:
    """Return a loop of a cart and its brake, whose messages come late."""
    loop = rt.Scenario("cart", until=4)
    body = loop.plant(Cart(**given), step=0.01)
    brake = loop.controller(Brake(), period=0.1, transport=transport)
    eye = loop.sensor("eye", {"speed": "cart.speed"}, period=0.1, transport=0.15)
    loop.connect(eye.speed, brake.speed)
    loop.connect(brake.force, body.force)
    return loop


def row(run: Any, name: str, time: float) -> Any:
    """Return the value of a signal at ``time``, s."""
    return run[name][np.searchsorted(run.time, time - 1e-9)]


@pytest.mark.rule("held-before-arrival")
@engines
def test_an_input_has_its_own_initial_value_until_the_first_message(engine: str) -> None:
    run = rt.simulate(cart(), engine=engine)
    assert run["cart.force"][[0, 24]].tolist() == [3.0, 3.0]
    assert run["cart.force"][25] == -6.0, "what the brake made of its own initial value"
    assert run["cart.felt"][[0, 24, 25]].tolist() == [6.0, 6.0, -12.0]
    assert [row(run, "brake.speed", t) for t in (0.0, 0.1)] == [5.0, 5.0]
    assert row(run, "brake.speed", 0.2) == 0.0, "the sample of 0 s"
    assert row(run, "cart.speed", 0.2) == pytest.approx(0.6)


@pytest.mark.parametrize("transport", [0, LATE, Uniform(0.05, 0.3)])
def test_both_engines_give_the_same_rows_before_and_after_the_first_message(transport: Any) -> None:
    assert check_equal(lambda: cart(transport)) > 300


@pytest.mark.rule("held-before-arrival")
@engines
def test_an_input_without_an_initial_value_has_that_of_the_signal_that_it_reads(
    engine: str,
) -> None:
    """Also beside inputs of the same signal that declare other values, be it 0."""

    class Sender(rt.Controller, compile=True):
        u = rt.input("N", optional=True)
        y = rt.output("N", initial=-7.0)

        def step(self) -> None:
            self.y = 1.0

    class Three(rt.Plant):
        x = rt.state("N")
        plain = rt.input("N")
        zero = rt.input("N", 0.0)
        four = rt.input("N", 4.0)

        def derivative(self, d: Any) -> None:
            d.x = self.plain + self.zero + self.four

    loop = rt.Scenario("three", until=4)
    sender = loop.controller(Sender(), period=0.1, transport=LATE)
    three = loop.plant(Three(), step=0.01)
    copied = loop.controller(Copy(), period=0.1)
    for sink in (three.plain, three.zero, three.four, copied.u):
        loop.connect(sender.y, sink)
    run = rt.simulate(loop, engine=engine)
    for name, first in (("plain", -7.0), ("zero", 0.0), ("four", 4.0)):
        assert run[f"three.{name}"][[0, 24, 25]].tolist() == [first, first, 1.0], name
    assert [row(run, "copy.u", t) for t in (0.0, 0.2, 0.3)] == [-7.0, -7.0, 1.0]


@engines
def test_initial_values_of_vectors(engine: str) -> None:
    """Two vectors and a number of one message, of which only some declare a value."""

    class Sender(rt.Controller, compile=True):
        u = rt.input("N", optional=True)
        pair = rt.output("N", shape=(2,))
        one = rt.output("N")

        def step(self) -> None:
            self.pair[0], self.pair[1], self.one = 1.0, 2.0, 3.0

    class Reader(rt.Plant):
        x = rt.state("N")
        one = rt.input("N")
        pair = rt.input("N", (8.0, 9.0))
        again = rt.input("N", 6.0, shape=(2,))
        plain = rt.input("N", shape=(2,))

        def derivative(self, d: Any) -> None:
            d.x = self.pair[0] * self.again[1] + self.one + self.plain[0]

    def made() -> rt.Scenario:
        loop = rt.Scenario("vectors", until=4)
        sender = loop.controller(Sender(), period=0.1, transport=LATE)
        reader = loop.plant(Reader(), step=0.01)
        for sink in (reader.pair, reader.again, reader.plain):
            loop.connect(sender.pair, sink)
        loop.connect(sender.one, reader.one)
        return loop

    run = rt.simulate(made(), engine=engine)
    assert run["reader.pair"][[0, 24, 25]].tolist() == [[8.0, 9.0], [8.0, 9.0], [1.0, 2.0]]
    assert run["reader.again"][[24, 25]].tolist() == [[6.0, 6.0], [1.0, 2.0]]
    assert run["reader.plain"][[24, 25]].tolist() == [[0.0, 0.0], [1.0, 2.0]]
    assert run["reader.one"][[24, 25]].tolist() == [0.0, 3.0]
    assert row(run, "reader.x", 0.2) == pytest.approx(0.2 * 8.0 * 6.0)
    check_equal(made)


@engines
def test_within_a_declared_order_an_answer_ends_the_initial_value_at_once(engine: str) -> None:
    """Later in the order ``after`` reads the answer of this microstep, ``apart`` only after it."""

    class After(rt.Controller, compile=True):
        u = rt.input("N", 4.0)
        y = rt.output("N")

        def step(self) -> None:
            self.y = self.u

    loop = rt.Scenario("order", until=4)
    body = loop.plant(Cart(), step=0.01)
    loop.controller("first", Copy(), period=0.1, offset=0.1, inputs={"u": 1.0})
    loop.controller("after", After(), period=0.1, inputs={"u": "first.y"})
    loop.controller("apart", After(), period=0.1, inputs={"u": "first.y"})
    loop.order("first", "after")
    loop.connect("first.y", body.force)
    prepared = prepare(loop, engine=engine)
    prepared.run()  # the next one is compiled from its first tag on
    for run in (rt.simulate(loop, engine=engine), prepared.run()):
        assert run["cart.force"][[0, 9, 10]].tolist() == [3.0, 3.0, 1.0]
        assert [row(run, "after.u", t) for t in (0.0, 0.1, 0.2)] == [4.0, 1.0, 1.0]
        assert [row(run, "apart.u", t) for t in (0.0, 0.1, 0.2)] == [4.0, 4.0, 1.0]


def test_a_value_in_the_constructor_replaces_the_declared_one() -> None:
    run = rt.simulate(cart(force=2.0))
    assert run["cart.force"][[0, 24, 25]].tolist() == [2.0, 2.0, -6.0]
    assert rt.simulate(cart(force=0.0))["cart.force"][24] == 0.0


@engines
def test_a_run_in_steps_and_a_result_give_the_same_initial_values(engine: str) -> None:
    run = rt.simulate(cart(), engine=engine)
    with rt.Simulation(cart(), engine=engine) as s:
        for k in range(60):
            assert s["cart.force"] == run["cart.force"][max(k - 1, 0)], k
            assert s["cart.felt"] == run["cart.felt"][max(k - 1, 0)], k
            s.advance(0.01)


@engines
@pytest.mark.parametrize("at", [0.13, 0.31])
def test_a_run_goes_on_from_a_checkpoint_before_and_after_the_first_message(
    at: float, engine: str
) -> None:
    loop = cart()
    with rt.Simulation(loop, engine=engine) as s:
        s.advance(at)
        saved = s.save()
    with rt.Simulation(loop, engine=engine) as again:
        again.advance(0.4)
        again.restore(saved)
        again.advance(4 - at)
    whole = rt.simulate(loop, engine=INTERPRETED)
    assert np.array_equal(again.result()["cart.speed"], whole["cart.speed"])
    assert compare_exact(whole.recording(), again.result().recording()) is None


@engines
def test_a_delayed_input_was_its_initial_value_before_the_run(engine: str) -> None:
    class Lag(rt.Plant):
        x = rt.state("N.s")
        u = rt.input("N", 3.0)
        before = rt.delayed("u", 0.1)

        def derivative(self, d: Any) -> None:
            d.x = self.before

    loop = rt.Scenario("late", until=4)
    late = loop.plant(Lag(), step=0.01)
    sender = loop.controller(Copy(), period=0.1, transport=LATE, inputs={"u": 1.0})
    loop.connect(sender.y, late.u)
    run = rt.simulate(loop, engine=engine)
    assert row(run, "lag.x", 0.35) == pytest.approx(3.0 * 0.35)
    assert row(run, "lag.x", 0.45) == pytest.approx(3.0 * 0.35 + 0.1)


class Silent:
    """A device whose first value comes at its 30th tag."""

    def __init__(self) -> None:
        self.polls = 0

    def poll(self) -> Vector | None:
        self.polls += 1
        return np.array([1.0]) if self.polls == 30 else None


def test_an_input_has_its_initial_value_until_a_device_gives_one() -> None:
    loop = rt.Scenario("pedal", until=1)
    body = loop.plant(Cart(), step=0.01)
    loop.external_input("pedal", Signals("force [N]"), Silent())
    loop.connect("pedal.force", body.force)
    run = rt.simulate(loop)
    assert run["cart.force"][[0, 28, 29]].tolist() == [3.0, 3.0, 1.0]
    recording = run.recording()
    assert compare_exact(recording, rerun(recording, loop)) is None


def test_a_fault_acts_on_the_initial_value() -> None:
    loop = cart()
    loop.faults({"name": "off", "kind": "offset", "where": "cart.force", "amount": 10.0})
    run = rt.simulate(loop)
    assert run["cart.force"][[1, 24, 25]].tolist() == [13.0, 13.0, 4.0]


def test_a_source_or_another_plant_has_its_value_from_the_beginning_on() -> None:
    loop = rt.Scenario("wired", until=1)
    body = loop.plant(Cart(), step=0.01)
    wanted = loop.source("wanted", rt.Signals("force [N] = 1"))
    other = loop.plant("other", Cart(), step=0.01)
    loop.connect(wanted.force, body.force)
    loop.connect(body.felt, other.force)
    run = rt.simulate(loop)
    assert set(run["cart.force"]) == {1.0}
    assert set(run["other.force"]) == {2.0}


class Double(rt.Plant):
    x = rt.state()
    u = rt.input()
    y = rt.output()

    def derivative(self, d: Any) -> None:
        d.x = -self.u

    def outputs(self) -> None:
        self.y = 2.0 * self.u


@pytest.mark.rule("own-grid")
@pytest.mark.parametrize(("source", "first"), [("wanted.v", 5.0), ("sender.y", -7.0)])
def test_at_the_start_a_value_passes_through_all_plants_at_once(source: str, first: float) -> None:
    """The names are in the order against the direction of the values."""

    class Sender(rt.Controller, compile=True):
        u = rt.input()
        y = rt.output(initial=-7.0)

        def step(self) -> None:
            self.y = self.u

    def made() -> rt.Scenario:
        loop = rt.Scenario("chain", until=4)
        loop.source("wanted", rt.Signals("v = 5"))
        loop.controller("sender", Sender(), period=0.5, transport=LATE, inputs={"u": 1.0})
        for name, reads in (("c", source), ("b", "c.y"), ("a", "b.y")):
            loop.plant(name, Double(), step=0.01, inputs={"u": reads})
        loop.controller("law", Sender(), period=0.1, inputs={"u": "a.y"})
        return loop

    prepared = prepare(made(), engine=COMPILED)
    prepared.run()
    plain = rt.simulate(made(), engine=INTERPRETED)
    for run in (plain, rt.simulate(made(), engine=COMPILED), prepared.run()):
        assert run.recording().track("a").column("u")[0] == 4.0 * first
        assert run["law.u"][0] == 8.0 * first
        assert run.recording().digest() == plain.recording().digest()


@engines
def test_prepared_runs_begin_with_the_initial_values_again(engine: str) -> None:
    loop = cart()
    wanted = rt.simulate(loop, engine=engine).recording().digest()
    prepared = prepare(loop, engine=engine)
    for _ in range(5):
        assert prepared.run().recording().digest() == wanted


class Wing(rt.Plant):
    """Holds its angle at one elevator only."""

    angle = rt.state("rad")
    rate = rt.state("rad/s")
    elevator = rt.input()

    def derivative(self, d: Any) -> None:
        d.angle = self.rate
        d.rate = 2.0 - 40.0 * self.elevator - self.angle - self.rate


@engines
def test_a_trimmed_input_stays_until_the_first_message(engine: str) -> None:
    loop = rt.Scenario("wing", until=4)
    wing = loop.plant(Wing(), step=0.01)
    law = loop.controller(Copy(), period=0.1, transport=LATE, inputs={"u": 1.0})
    loop.connect(law.y, wing.elevator)
    found = trim(loop, plant="wing", free=("elevator",), fixed={"angle": 0.0, "rate": 0.0})
    found.set_in(loop)
    run = rt.simulate(loop, engine=engine)
    assert run["wing.elevator"][0] == run["wing.elevator"][24] == pytest.approx(0.05)
    assert np.abs(run["wing.angle"][:25]).max() < 1e-9
    assert run["wing.elevator"][25] == 1.0


def test_a_replacement_has_the_initial_values_of_the_design() -> None:
    class Design(rt.Controller):
        u = rt.input("N", 4.0)
        y = rt.output("N", initial=-7.0)

        def step(self) -> None:
            self.y = 2.0 * self.u

    def law(u: Vector, y: Vector) -> None:
        y[0] = 2.0 * u[0]

    loop = rt.Scenario("replaced", until=1)
    late = loop.controller("sender", Copy(), period=0.1, transport=LATE, inputs={"u": 1.0})
    design = loop.controller("law", Design(), period=0.1, transport=LATE)
    reader = loop.controller("reader", Copy(), period=0.1)
    loop.connect(late.y, design.u)
    loop.connect(design.y, reader.u)
    wanted = rt.simulate(loop)
    assert wanted["law.u"][0] == 4.0
    other = loop.copy()
    other.replace_controller("law", rt.PythonController(law, Signals("u [N]"), Signals("y [N]")))
    assert compare_exact(wanted.recording(), rt.simulate(other).recording()) is None


def test_a_comparison_of_runs_tells_the_initial_value_that_was_read() -> None:
    teller = Teller(rt.simulate(cart()).recording())
    assert teller.wires("cart", Tag(0)) == {"cart.force": (3.0, "brake.force")}
    assert teller.wires("cart", Tag(300_000_000)) == {"cart.force": (-6.0, "brake.force")}
    assert teller.wires("brake", Tag(0)) == {"brake.speed": (5.0, "eye.speed")}


def test_a_description_has_the_initial_values_of_connected_inputs() -> None:
    parts = cart().describe()["parts"]
    assert parts["cart"]["before_messages"] == {"force": 3.0}
    assert parts["brake"]["before_messages"] == {"speed": 5.0}
    assert "before_messages" not in rt.Scenario("empty").describe()


def test_whether_an_initial_value_was_declared_is_kept() -> None:
    signals = Signals("a", "b = 0", Signal("c", shape=(2,)), Signal("d", initial=1.0))
    assert [s.declares_initial for s in signals] == [False, True, False, True]
    assert [s.declares_initial for s in signals.prefixed("x_")] == [False, True, False, True]
    assert signals.declared_initial() == {"b": 0.0, "d": 1.0}
    assert Signals.from_json(signals.to_json()) == signals
    found = signals.beginning_with({"a": 2.0, "c": [3.0, 4.0]})
    assert found.initial().tolist() == [2.0, 0.0, 3.0, 4.0, 1.0]
    assert found.declared_initial()["c"] == [3.0, 4.0]
