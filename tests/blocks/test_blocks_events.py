"""Blocks that happen at instants: samplers, holds, delays, crossings, resets, impulses."""

from __future__ import annotations

import inspect
import math
import sys
from typing import Any

import numpy as np
import pytest
from block_parts import crossed, flown

from rtsim.blocks import (
    Constant,
    Diagram,
    EventAt,
    EventClock,
    Expression,
    FirstOrderHold,
    Gain,
    Integrator,
    LevelCrossing,
    Noise,
    PeriodicSampler,
    Product,
    Quantiser,
    Ramp,
    SampledPID,
    Sampler,
    Saturation,
    Sine,
    StateSpace,
    Step,
    Sum,
    TransferFunction,
    TransportDelay,
    UnitDelay,
    ZeroOrderHold,
    source,
)
from rtsim.engine.checkpoint.file import Ring
from rtsim.engine.checkpoint.schedule import CheckpointSchedule
from rtsim.equations.addresses import TICK
from rtsim.equations.compiling import compile_function
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.simulation import simulate
from rtsim.scenario.scenario import Scenario

S = 1_000_000_000


def ramp(slope: float = 1.0) -> Diagram:
    """``ramp`` rises from 0."""
    d = Diagram("d")
    d.add("one", Constant(slope))
    d.add("ramp", Integrator(), "one")
    return d


def both(recording: Recording, t: str, name: str) -> tuple[float, float]:
    """x- and x+."""
    return tuple(recording.at(t, side)["d." + name] for side in ("-", "+"))  # type: ignore


# -- integrator ------------------------------------------------------------------------------------


def test_an_integrator_is_reset_where_it_crosses_a_level() -> None:
    d = Diagram("d")
    d.add("one", Constant(1.0))
    d.add("saw", Integrator(reset_to=0.0), "one", reset="top")
    d.add("top", LevelCrossing(1.0, 1), "saw")
    recording = flown(d, 3.5)
    assert np.abs(np.array(crossed(recording)) - np.array([S, 2 * S, 3 * S])).max() <= 3
    assert abs(recording["d.saw"][-1] - 0.5) < 1e-8
    first = crossed(recording)[0] / S
    before, behind = both(recording, f"{first:.9f}", "saw")
    assert (abs(before - 1.0) < 1e-8, behind) == (True, 0.0)


def test_an_integrator_is_reset_by_a_clock_to_the_events_value() -> None:
    d = Diagram("d")
    d.add("one", Constant(1.0))
    d.add("saw", Integrator(), "one", reset="clock")
    d.add("clock", EventClock("1/3", offset="1/3", value=-1.0))
    recording = flown(d, 1)
    third = f"{round(S / 3) / S:.9f}"
    assert np.allclose(both(recording, third, "saw"), (1 / 3, -1.0), atol=1e-8)
    assert math.isclose(recording.track("d").column("saw")[-2], -2 / 3, abs_tol=1e-8)  # x- at 1 s
    assert recording["d.saw"][-1] == -1.0


def test_a_sampler_may_reset_what_it_samples() -> None:
    d = Diagram("d")
    d.add("one", Constant(1.0))
    d.add("x", Integrator(1.0), "one", reset="halved")
    d.add("sampled", PeriodicSampler(1, offset=1), "x")
    d.add("halved", Gain(0.5), "sampled")
    recording = flown(d, 2)
    assert np.allclose(both(recording, "1", "x"), (2.0, 1.0))
    assert np.allclose(both(recording, "2", "x"), (2.0, 1.0))


def test_impulse_and_reset_at_once_add() -> None:
    d = Diagram("d")
    d.add("zero", Constant(0.0))
    d.add("x", Integrator(7.0), "zero", reset="z", impulse="kick")
    d.add("to", EventAt(1, 6.0))
    d.add("z", Gain(0.5), "to")  # later in the order than the impulse
    d.add("kick", EventAt(1, 0.5))
    assert both(flown(d, 2), "1", "x") == (7.0, 3.5)


def test_an_integrator_stands_at_its_limits_and_leaves_them() -> None:
    """x' = cos t between -0.5 and 0.5: it leaves a limit where cos changes its sign."""
    d = Diagram("d")
    d.add("rate", Sine(1.0, 1 / (2 * math.pi), phase=math.pi / 2))
    d.add("x", Integrator(low=-0.5, high=0.5), "rate")
    recording = flown(d, 6.0)
    times = np.array(crossed(recording)) / S
    assert np.allclose(times, [math.pi / 6, math.pi / 2, math.pi, 3 * math.pi / 2], atol=2e-8)
    assert np.abs(recording.track("d").column("x")).max() < 0.5 + 1e-9, (
        "x- lies within the ns in which it crossed"
    )
    assert abs(recording["d.x"][-1] - (math.sin(6.0) + 0.5)) < 1e-7


def test_an_impulse_at_a_level_that_is_met_at_a_grid_point_happens_once() -> None:
    """The ramp is 1 at 1 s to the last bit; the impulse writes another state."""
    d = Diagram("d")
    d.add("clock", Ramp())
    d.add("up", LevelCrossing(1.0, direction=1), "clock")
    d.add("one", Constant(1.0))
    d.add("dose", Sampler(), "one", "up")
    d.add("x", Integrator(), "decay", impulse="dose")
    d.add("decay", Gain(-1.0), "x")
    recording = flown(d, 2)
    assert crossed(recording) == [S]
    assert abs(recording["d.x"][-1] - math.exp(-1)) < 1e-4


@pytest.mark.parametrize("engine", ["interpreted", "compiled"])
@pytest.mark.parametrize(
    ("given", "end"),
    [({"states": {"x": 5.0}}, 0.5), ({"parameters": {"x_high": -0.25}}, -0.25), ({}, 0.5)],
)
def test_an_integrator_that_begins_beyond_its_limit_is_put_on_it(
    given: dict[str, Any], end: float, engine: Any
) -> None:
    """A state or a limit of the scenario can differ from those that the block declares."""
    d = Diagram("d")
    d.add("one", Constant(1.0))
    d.add("x", Integrator(low=-0.5, high=0.5), "one")
    scenario, recorder = Scenario("s", until=2), MemoryRecorder()
    scenario.plant("d", d.model(), step="1/10", **given)
    simulate(scenario, recorder=recorder, engine=engine)
    recording = recorder.recording()
    assert recording["d.x"][-1] == end
    assert len(crossed(recording)) == 1
    assert (crossed(recording) == [0]) == bool(given)


def test_a_kick_takes_an_integrator_off_its_limit() -> None:
    d = Diagram("d")
    d.add("one", Constant(1.0))
    d.add("x", Integrator(low=0.0, high=1.0), "one", impulse="kick")
    d.add("kick", EventAt(2, -0.25))
    recording = flown(d, 3)
    assert np.allclose(np.array(crossed(recording)) / S, [1.0, 2.25], atol=1e-8)
    assert both(recording, "2", "x") == (1.0, 0.75)


def test_an_impulse_response() -> None:
    """h(t) of 1/(s^2 + s + 4), as it comes from the impulse port of a transfer function."""
    d = Diagram("d")
    d.add("zero", Constant(0.0))
    d.add("h", TransferFunction([1], [1, 1, 4]), "zero", impulse="dirac")
    d.add("dirac", EventAt("1/5", 2.0))
    d.output("h")
    recording = flown(d, 2)
    t = recording.track("d").ns / S - 0.2
    w = math.sqrt(3.75)
    exact = np.where(t > 0, 2 * np.exp(-t / 2) * np.sin(w * t) / w, 0.0)
    assert np.abs(recording.track("d").column("h") - exact).max() < 1e-8


def test_an_impulse_has_as_many_elements_as_the_input() -> None:
    d = Diagram("d")
    d.add("zero", Constant((0.0, 0.0)))
    d.add("x", StateSpace([[0, 0], [0, 0]], [[1, 0], [2, 3]], [[1, 1]]), "zero", "kick")
    d.add("kick", Sampler(), "weights", "clock")
    d.add("weights", Constant((1.0, 10.0)))
    d.add("clock", EventAt(1))
    d.output("x")
    assert both(flown(d, 2), "1", "x") == (0.0, 33.0)


# -- samplers, holds, delays -----------------------------------------------------------------------


def test_a_hold_follows_its_samples_from_x_plus_on() -> None:
    d = ramp()
    d.add("s", PeriodicSampler("1/4"), "ramp")
    d.add("h", ZeroOrderHold(-1.0), "s")
    d.add("direct", ZeroOrderHold(-1.0, period="1/4"), "ramp")
    recording = flown(d, 1)
    for name in ("h", "direct"):
        assert both(recording, "0", name) == (-1.0, 0.0)
        assert np.allclose(both(recording, "1/2", name), (0.25, 0.5), atol=1e-12)
        assert np.allclose(both(recording, "0.6", name), (0.5, 0.5), atol=1e-12)


def test_the_held_value_of_a_block_is_an_output_of_its_diagram() -> None:
    d = ramp()
    d.add("h", ZeroOrderHold(period="1/4"), "ramp")
    d.add("pid", SampledPID(2.0, period="1/4"), "ramp")
    d.add("pair", ZeroOrderHold((0.0, 0.0), period="1/4"), "values")
    d.add("values", Constant((3.0, 4.0)))
    for name in ("h", "pid", "pair"):
        d.output(name)
    d.output("h", "again")
    assert d.model().outputs.names == ("again",), "the others are discrete signals of the plant"
    recording = flown(d, 1)
    for name, value in {"h": 0.5, "again": 0.5, "pid": 1.0, "pair_1": 4.0}.items():
        assert both(recording, "0.6", name) == pytest.approx((value, value), abs=1e-12)


def test_a_first_order_hold_goes_on_along_a_line() -> None:
    d = ramp(2.0)
    d.add("line", FirstOrderHold(period="1/4"), "ramp")
    d.add("curve", FirstOrderHold(period="1/4"), "square")
    d.add("square", Expression(lambda x: x * x), "ramp")
    d.output("line")
    d.output("curve")
    recording = flown(d, 1)
    t = recording.track("d").ns / S
    behind = t > 0.25
    assert np.allclose(recording.track("d").column("line")[behind], 2 * t[behind], atol=1e-9)
    before, after = both(recording, "3/4", "curve")  # 4 t^2 at 0.25 and 0.5, then at 0.75
    assert np.allclose((before, after), (1.0 + 0.25 * 3.0, 2.25), atol=1e-9)


def test_a_unit_delay_is_one_period_behind() -> None:
    d = ramp()
    d.add("of_signal", UnitDelay("1/4", initial=-1.0), "ramp")
    d.add("held", ZeroOrderHold(), "of_signal")
    d.add("s", PeriodicSampler("1/4"), "ramp")
    d.add("of_event", UnitDelay("1/4", initial=-1.0), "s")
    d.add("too", ZeroOrderHold(), "of_event")
    recording = flown(d, 1)
    for name in ("held", "too"):
        found = [both(recording, t, name)[1] for t in ("0.1", "0.3", "0.6", "0.9")]
        assert np.allclose(found, (-1.0, 0.0, 0.25, 0.5), atol=1e-12)


def test_events_of_different_rates_meet_where_both_happen() -> None:
    d = ramp()
    d.add("fast", PeriodicSampler("1/10"), "ramp")
    d.add("slow", PeriodicSampler("3/20"), "ramp")
    d.add("sum", Sum(), "fast", "slow")
    d.add("held", ZeroOrderHold(), "sum")
    held = flown(d, 1)["d.held"]
    assert np.allclose(np.unique(held.round(9)), (0.0, 0.6, 1.2, 1.8), atol=1e-9)


def test_a_triggered_sampler() -> None:
    d = ramp()
    d.add(
        "wave",
        Sine(),
    )
    d.add("zero", LevelCrossing(0.0, 1), "wave")
    d.add("s", Sampler(), "ramp", "zero")
    d.add("h", ZeroOrderHold(), "s")
    recording = flown(d, 2.5)
    assert np.allclose(np.array(crossed(recording)) / S, [0.0, 1.0, 2.0], atol=3e-9)
    assert abs(recording["d.h"][-1] - 2.0) < 1e-8


@pytest.mark.parametrize(("how", "error"), [("cubic", 4e-6), ("linear", 4e-4)])
def test_a_transport_delay(how: str, error: float) -> None:
    d = Diagram("d")
    d.add("wave", Sine(1.0, 1.0, phase=1.0))
    d.add("late", TransportDelay("3/10", 40, initial=-1.0, interpolation=how), "wave")
    d.add("x", Integrator(), "late")
    d.output("late")
    recording = flown(d, 2, step="1/400")
    t = recording.track("d").ns / S
    exact = np.where(t < 0.3, -1.0, np.sin(2 * np.pi * (t - 0.3) + 1.0))
    off = np.abs(recording.track("d").column("late") - exact)
    assert off[np.abs(t - 0.3) > 1e-12].max() < error
    wanted = -0.3 + (math.cos(1.0) - math.cos(2 * math.pi * 1.7 + 1.0)) / (2 * math.pi)
    assert abs(recording["d.x"][-1] - wanted) < error


def test_what_depends_on_its_own_past() -> None:
    """x' = -x(t - 1), x = 1 before: by the method of steps 1 - t, then (t - 2)^2/2 - 1/2, …"""
    d = Diagram("d")
    d.add("x", Integrator(1.0), "rate")
    d.add("late", TransportDelay(1, 20, initial=1.0), "x")
    d.add("rate", Gain(-1.0), "late")
    recording = flown(d, 3)
    for t, exact in ((1, 0.0), (2, -0.5), (3, -1 / 6)):
        assert abs(both(recording, str(t), "x")[0] - exact) < 5e-6  # h^2/8 x'' where that jumps


# -- crossings -------------------------------------------------------------------------------------


def test_a_quantiser_jumps_at_tags_of_its_own() -> None:
    d = ramp(-1.0)
    d.add("wave", Sine(1.0, 0.25))
    d.add("q", Quantiser(0.5), "wave")
    d.add("step", Step(1, 0.0, -7.3))
    d.add("far", Quantiser(1.0), "step")
    d.add("back", Gain(-1.0), "step")
    d.add("up", Quantiser(1.0), "back")
    d.output("q")
    d.output("far")
    d.output("up")
    d.output("wave")
    recording = flown(d, 4)
    q, wave = recording.track("d").column("q"), recording.track("d").column("wave")
    assert set(np.unique(q)) == {-1.0, -0.5, 0.0, 0.5, 1.0}
    assert np.abs(q - wave).max() < 0.25 + 1e-8
    up = 4 / (2 * math.pi) * np.arcsin([0.25, 0.75])
    wanted = sorted([*up, *(2 - up), *(2 + up), *(4 - up), 1.0, 1.0])
    assert np.allclose(np.array(crossed(recording)) / S, wanted, atol=1e-8)
    assert both(recording, "1", "far") == (0.0, -7.0)
    assert both(recording, "1", "up") == (0.0, 7.0)
    level = [e.source for e in recording.events if e.source == "d.up_above"]
    assert len(level) == 1, "one event, however far"


def test_a_jump_across_a_level_is_a_crossing() -> None:
    d = ramp()
    d.add("step", Step("1/2"))
    d.add("level", LevelCrossing(0.5), "step")
    d.add("s", Sampler(), "ramp", "level")
    d.add("h", ZeroOrderHold(), "s")
    recording = flown(d, 1)
    assert crossed(recording) == [S // 2]
    assert recording.events[0].tag.step == 1, "one microstep behind the jump"
    assert abs(recording["d.h"][-1] - 0.5) < 1e-12


def test_a_sampled_pid_is_what_its_recurrence_says() -> None:
    d = Diagram("d")
    d.add("error", Sine(2.0, 0.7))
    d.add("pid", SampledPID(2.0, 3.0, 0.1, filter=20.0, low=-4.0, high=4.0, period="1/20"), "error")
    d.add("x", Integrator(), "pid")
    recording = flown(d, 2)
    h, integral, slope, before = 0.05, 0.0, 0.0, 0.0
    for k in range(40):
        e = 2.0 * math.sin(2 * math.pi * 0.7 * k * h)
        slope = (slope + 20.0 * (e - before)) / (1 + 20.0 * h)
        before, v = e, 2.0 * e + integral + 0.1 * slope
        y = min(max(v, -4.0), 4.0)
        integral += h * (3.0 * e + 1.5 * (y - v))
        assert abs(both(recording, f"{k}/20", "pid")[1] - y) < 1e-12


def test_algebra_works_on_events() -> None:
    d = ramp()
    d.add("s", PeriodicSampler("1/10"), "ramp")
    d.add("ten", Gain(10.0), "s")
    d.add("quantised", Quantiser(2.0), "ten")
    d.add("cut", Saturation(1.0, 7.0), "quantised")
    d.add("product", Product("**"), "cut", "ramp")
    d.add("squared", Expression(lambda t, a: a * a + 0.0 * t), "product")
    d.add("held", ZeroOrderHold(), "squared")
    recording = flown(d, 1)
    assert not recording.events, "nothing is located"
    for k, wanted in ((1, 1.0), (2, 2.0), (4, 4.0), (5, 6.0), (8, 7.0)):
        assert abs(both(recording, f"{k}/10", "held")[1] - (wanted * k / 10) ** 2) < 1e-9


def everything() -> Diagram:
    d = Diagram("all")
    d.add("noise", Noise(0.3, "1/50"))
    d.add("x", Integrator(reset_to=0.0), "sum", reset="top")
    d.add("top", LevelCrossing(0.5, 1), "x")
    d.add("sum", Sum("+++"), "noise", "late", "bias")
    d.add("late", TransportDelay("1/10", 4), "x")
    d.add("bias", Constant(1.0))
    d.add("pid", SampledPID(1.0, 1.0, period="1/30"), "x")
    d.add("twice", Gain(2.0), "late")
    d.add("q", Quantiser(0.1), "twice")
    d.add("y", Integrator(), "q")
    d.output("twice")
    d.output("q")
    return d


@pytest.mark.parametrize("lines", [1, 4, 9])
def test_pieces_compute_what_the_whole_does(lines: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = flown(everything(), 1)
    monkeypatch.setattr(source, "LINES", lines)
    monkeypatch.setattr(source, "compiled", lambda function: function)
    assert np.array_equal(
        flown(everything(), 1).track("d").rows.floats, whole.track("d").rows.floats
    )


def test_compiled_pieces_compute_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "LINES", 12)
    d = ramp()
    d.add("s", PeriodicSampler("1/4"), "ramp")
    d.add("twice", Gain(2.0), "s")
    d.add("held", ZeroOrderHold(), "twice")
    model = d.model()
    assert model.tick is not None
    assert "tick_1(" in inspect.getsource(sys.modules[model.tick.__module__])
    z, p = np.zeros(1), model.parameters.initial()
    native = compile_function(model.tick, TICK, "tick")
    native.call(np.ones(1), 0.0, np.array([3.0]), z, np.zeros(0), p)
    assert z[0] == 6.0


def test_a_diagram_goes_on_from_any_checkpoint_bit_for_bit() -> None:
    ring = Ring(3)
    whole = flown(everything(), 2, seed=7, checkpoints=CheckpointSchedule(ring, every="1/7"))
    assert len(crossed(whole)) > 2
    for k in range(1, 13):
        kept = ring.before((2 * k + 1) * S // 14)
        assert kept is not None
        words = flown(everything(), 2, start=kept).tracks["d"].words
        assert np.array_equal(words, whole.tracks["d"].words[-len(words) :])
