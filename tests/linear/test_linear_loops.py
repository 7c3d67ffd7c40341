"""The linear model of a loop against runs of the same scenario, which is linear itself.

If Phi is the matrix of a period, the recorded states at the ends of periods satisfy Phi's
characteristic polynomial (Cayley and Hamilton).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from rtsim import Fixed, Gamma, Model, PythonController, Scenario, Signal, Signals, linear
from rtsim.blocks import Diagram, Integrator, StateSpace, TransportDelay, ZeroOrderHold
from rtsim.core.errors import ModelError, ScenarioError, UnknownName
from rtsim.core.signals import Vector
from rtsim.linear import Loop, linearise, margins, open_loop
from rtsim.models.unstable import scenario as unstable
from rtsim.testing.determinism import trace_of


def motion(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = x[1]
    dx[1] = -0.3 * x[1] + u[0]


def position(t: float, x: Vector, z: Vector, u: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    y[0] = x[0] + 0.1 * u[0]


CART = Model("cart", Signals("x = 1", "v"), motion, inputs=Signals("force"), outputs=Signals("at"),
             output=position)  # fmt: skip


def law(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    y[0] = -1.5 * u[0] - 0.2 * s[0]
    s[0] += 0.1 * u[0]


def half(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    y[0] = 0.5 * u[0]


def controller(function: Callable[..., None] = law) -> PythonController:
    return PythonController(function, Signals("at"), Signals("force"), memory=Signals("sum"))


def simple() -> Scenario:
    out = Scenario("simple", until=12)
    out.plant("cart", CART, step=0.01, inputs={"force": "brake.force"})
    out.controller("brake", controller(), period=0.1, inputs={"at": "cart.at"})
    return out


def with_latencies() -> Scenario:
    """A sensor, an offset, latencies of computation and transport longer than a period."""
    out = Scenario("latencies", until=12)
    out.plant("cart", CART, step=0.01, inputs={"force": "brake.force"})
    out.sensor("sensor", {"at": "cart.x"}, period=0.1, offset=0.03, transport=Fixed(0.017))
    wires = {"at": "sensor.at"}
    out.controller("brake", controller(), period=0.1, inputs=wires, compute=Fixed(0.05),
                   transport=Fixed(0.213))  # fmt: skip
    return out


def at_the_tick() -> Scenario:
    """A message arrives at the instant at which the controller samples it."""
    out = Scenario("tick", until=12)
    out.plant("cart", CART, step=0.01, inputs={"force": "brake.force"})
    out.sensor("sensor", {"at": "cart.x"}, period=0.1, transport=Fixed(0.05))
    wires = {"at": "sensor.at"}
    out.controller("brake", controller(), period=0.1, offset=0.05, inputs=wires)
    return out


def two_rates() -> Scenario:
    """Sensor and controller with different periods; a tick that finds the controller busy."""
    out = Scenario("rates", until=24)
    out.plant("cart", CART, step=0.02, inputs={"force": "brake.force"})
    out.sensor("sensor", {"at": "cart.at"}, period=0.04)
    wires = {"at": "sensor.at"}
    out.controller("brake", controller(), period=0.06, inputs=wires, compute=Fixed(0.07))
    return out


def triggered() -> Scenario:
    """A controller that a message triggers, and a declared order."""
    out = Scenario("triggered", until=12)
    out.plant("cart", CART, step=0.01, inputs={"force": "last.force"})
    out.controller("brake", controller(), period=0.1, inputs={"at": "cart.at"})
    out.controller("middle", controller(half), on=("brake",), inputs={"at": "brake.force"})
    out.controller("last", controller(half), period=0.1, inputs={"at": "middle.force"})
    return out


def ordered() -> Scenario:
    out = Scenario("ordered", until=12)
    out.plant("cart", CART, step=0.01, inputs={"force": "last.force"})
    out.controller("last", controller(half), period=0.1, inputs={"at": "brake.force"})
    out.controller("brake", controller(), period=0.1, inputs={"at": "cart.at"})
    out.order("brake", "last")
    return out


def fall(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = -x[0] + u[0]


def coupled() -> Scenario:
    """Two plants with steps of their own, each of which samples the other."""
    out = Scenario("coupled", until=12)
    lag = Model("lag", Signals("y"), fall, inputs=Signals("in"))
    out.plant("cart", CART, step=0.05, inputs={"force": "brake.force"})
    out.plant("lag", lag, step=0.02, inputs={"in": "cart.at"})
    out.controller("brake", controller(), period=0.1, inputs={"at": "lag.y"})
    return out


def count(t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
    z[0] = 0.8 * z[0] - 0.3 * x[0]


def held(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = x[1]
    dx[1] = -0.3 * x[1] + z[0]


def updated() -> Scenario:
    out = Scenario("updated", until=12)
    cart = Model("cart", Signals("x = 1", "v"), held, discrete=Signals("z"), update=count)
    out.plant("cart", cart, step=0.01, update_period=0.1)
    out.controller("watch", controller(half), period=0.1, inputs={"at": "cart.x"})
    return out


def diagram() -> Scenario:
    """A sampled loop inside a diagram."""
    d = Diagram("loop")
    d.add("plant", StateSpace([[0, 1], [0, -0.3]], [[0], [-1]], [[1, 0]], initial=[1, 0]), "hold")
    d.add("hold", ZeroOrderHold(period="0.1"), "plant")
    d.output("plant", "at")
    out = Scenario("diagram", until=12)
    out.plant("cart", d.model(), step=0.01)
    out.controller("watch", controller(half), period=0.1, inputs={"at": "cart.at"})
    return out


CASES = (
    (simple, "brake.force", "cart.x"), (with_latencies, "brake.force", "cart.x"),
    (with_latencies, "sensor.at", "cart.x"), (at_the_tick, "brake.force", "cart.x"),
    (two_rates, "brake.force", "cart.x"),
    (triggered, "brake.force", "cart.x"), (ordered, "last.force", "cart.x"),
    (coupled, "brake.force", "cart.x"), (coupled, "lag.y", "lag.y"),
    (updated, "watch.force", "cart.x"), (diagram, "watch.force", "cart.at"),
)  # fmt: skip


@pytest.mark.parametrize(("make", "cut", "seen"), CASES)
def test_runs_satisfy_the_characteristic_polynomial(
    make: Callable[[], Scenario], cut: str, seen: str
) -> None:
    loop = open_loop(make(), cut, compile=False)
    polynomial = np.poly(loop.poles())
    recording = trace_of(make(), compile=False)
    period = loop.period.seconds
    last = int(recording.track("cart").ns[-1] / 1e9 / period + 1e-9)
    values = np.array([recording.at(str(round(k * period, 9)), "-")[seen] for k in range(last)])
    n = len(polynomial)
    assert last > n + 10
    left = [polynomial @ values[k : k + n][::-1] for k in range(6, last - n)]
    scale = np.abs(polynomial).max() * np.abs(values).max()
    most = np.abs(left).max()
    assert most < 1e-9 * scale
    if cut != "watch.force":  # which acts on nothing
        wrong = np.poly(loop.poles(gain=2.0))
        left = [wrong @ values[k : k + n][::-1] for k in range(6, last - n)]
        assert np.abs(left).max() > 100.0 * max(most, 1e-12)


@pytest.mark.parametrize(("make", "cut"), [(simple, "brake.force"), (with_latencies, "sensor.at")])
def test_closing_the_open_loop_gives_the_closed_loop(
    make: Callable[[], Scenario], cut: str
) -> None:
    loop = open_loop(make(), cut, compile=False)
    opened = loop.system
    assert loop.scalar
    closed = opened.a + opened.b @ opened.c / (1.0 - opened.d[0, 0])
    ours = np.sort(np.abs(np.linalg.eigvals(closed)))[::-1]
    theirs = np.sort(np.abs(loop.poles()))[::-1]
    k = int((ours > 1e-3).sum())
    np.testing.assert_allclose(ours[:k], theirs[:k], rtol=1e-9)


def test_gain_margins_are_where_a_pole_reaches_the_unit_circle() -> None:
    loop = open_loop(unstable(), "controller.force")
    found = margins(loop.system, feedback=1.0)
    for gain in (found.gain_low, found.gain_high):
        assert np.abs(loop.poles(gain=gain)).max() == pytest.approx(1.0, abs=1e-9)
    assert 20.0 < found.phase_deg < 60.0


def test_delay_margin_of_unstable() -> None:
    """236.16 ms: tests/reference/test_delay_equations.py has matrices of its own."""
    found = open_loop(unstable(), "controller.force").delay_margin()
    assert found is not None
    assert found.seconds == pytest.approx(0.23616, abs=5e-6)
    for latency in (0.05, 0.2):
        rest = open_loop(unstable(latency=latency), "controller").delay_margin()
        assert rest is not None
        assert rest.seconds + latency == pytest.approx(found.seconds, rel=1e-9)
    approximate = margins(open_loop(unstable(), "controller.force").system, feedback=1.0).delay
    assert approximate == pytest.approx(found.seconds, rel=2e-3)


def decays(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = -x[0] + u[0]


def proportional(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    y[0] = -p[0] * u[0]


def lagging(period: float, gain: float) -> Scenario:
    """A first-order lag: its gain crosses 1 at sqrt(gain^2 - 1), with the phase -atan of that."""
    out = Scenario("lagging", until=1)
    model = Model("lag", Signals("x = 1"), decays, inputs=Signals("u"))
    out.plant("lag", model, step=period, inputs={"u": "law.y"})
    gains = Signals(Signal("gain", initial=gain))
    law = PythonController(proportional, Signals("x"), Signals("y"), parameters=gains)
    out.controller("law", law, period=period, inputs={"x": "lag.x"})
    return out


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("period", "gain"),
    [(0.05, 2.0), (0.02, 2.0), (0.05, 1.2), (0.002, 1.5), (0.001, 1.01)],
)  # margins of 24, 60, 77, 900 and 21,000 periods
def test_the_search_for_a_delay_margin_goes_on_until_it_finds_it(
    period: float, gain: float
) -> None:
    crossover = np.sqrt(gain**2 - 1.0)
    expected = (np.pi - np.arctan(crossover)) / crossover - period / 2  # half a period of the hold
    loop = open_loop(lagging(period, gain), "law.y")
    found = loop.delay_margin()
    assert found is not None
    assert found.seconds == pytest.approx(expected, abs=0.1 * period)
    assert found.frequency == pytest.approx(crossover, rel=2e-3)
    if expected < 80 * period:
        assert loop.growth(found.seconds - 0.1 * period) < 0.0
        assert loop.growth(found.seconds + 0.1 * period) > 0.0


@pytest.mark.long
def test_a_loop_with_a_small_gain_bears_each_delay_and_a_search_that_ends_says_where() -> None:
    assert open_loop(lagging(0.05, 0.9), "law.y").searched_delay_margin() == (None, np.inf)
    ended, searched = open_loop(lagging(0.05, 1.2), "law").searched_delay_margin(longest=2.0)
    assert ended is None
    assert 1.8 < searched <= 2.0


def integrates(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = u[0]


def integrating(gain: float) -> Scenario:
    """An integrator sampled each 0.02 s: its gain crosses 1 at ``gain`` rad/s, at -90 deg."""
    out = lagging(0.02, gain)
    out.components["lag"].model = Model(  # type: ignore[attr-defined]
        "lag", Signals("x = 1"), integrates, inputs=Signals("u")
    )
    return out


@pytest.mark.sample(2)
@pytest.mark.parametrize("gain", [0.5, 1e-2, 1e-3, 1e-5, 1e-9])
def test_a_crossover_far_below_the_sample_rate_is_found(gain: float) -> None:
    loop = open_loop(integrating(gain), "law.y")
    found = margins(loop.system, feedback=1.0)
    assert found.crossover == pytest.approx(gain, rel=1e-4)
    assert found.phase_deg == pytest.approx(90.0, abs=0.5)
    assert found.searched_above == 0.0
    delay = loop.delay_margin()
    assert delay is not None
    assert delay.seconds == pytest.approx(np.pi / 2 / gain, abs=0.011, rel=1e-4)


def test_a_search_for_a_crossover_that_ends_before_it_says_where() -> None:
    loop = open_loop(integrating(1e-13), "law.y")
    found = margins(loop.system, feedback=1.0)
    assert found.phase == np.inf
    assert 1e-13 < found.searched_above < 1e-9
    margin, searched = loop.searched_delay_margin()
    assert margin is None
    assert 1.0 < searched < 1.3  # the search step by step: 60 periods


@pytest.mark.parametrize(
    ("loop", "crossover", "phase"),
    [
        (linear.StateSpace(0, 1, 1e-8), 1e-8, 90.0),
        (linear.StateSpace(-1e-11, 1, 1e-10), np.sqrt(99) * 1e-11, 95.74),
        (linear.StateSpace(0, 1, 1e10), 1e10, 90.0),
        (linear.StateSpace(-1, 1, 1e9, 0.5), 1e9 / np.sqrt(0.75), 120.0),
        (linear.StateSpace(-1, 1, -1e6, 1e6), np.inf, 90.0),
        (linear.StateSpace([[0, 1], [0, 0]], [0, 1], [1e-8, 1e-2]), 1e-2, 90.0),
        (linear.StateSpace([[0, 1], [0, 0]], [0, 1], [1e-10, 2e-5]), 2.0582e-5, 76.35),
    ],
)
def test_a_crossover_beyond_the_grid_is_found(
    loop: linear.StateSpace, crossover: float, phase: float
) -> None:
    """The loop with an infinite crossover crosses 1 at 1e-6 rad/s; its gain then stays above."""
    found = margins(loop)
    assert found.crossover == pytest.approx(crossover, rel=1e-3)
    assert found.phase_deg == pytest.approx(phase, abs=0.1)
    assert found.searched_above == 0.0


@pytest.mark.parametrize(
    "loop",
    [
        linear.StateSpace(-1, 1, 0.5),
        linear.StateSpace(-1e-10, 1, 5e-11),
        linear.StateSpace([[0, 0], [0, -1]], [0, 1], [1, 0.5]),
        linear.StateSpace([[0, 1, 0], [0, 0, 0], [0, 0, -1]], [0, 0, 1], [1, 1, 0.5]),
    ],
)
def test_a_gain_that_stays_below_1_has_no_crossover(loop: linear.StateSpace) -> None:
    """The last two loops contain integrators that the input does not reach."""
    found = margins(loop)
    assert (found.phase, found.delay, found.searched_above) == (np.inf, np.inf, 0.0)


def test_states_have_names_and_units() -> None:
    loop = open_loop(unstable(latency=0.13), "controller.force", "plant.x")
    names = loop.system.states.columns
    assert names[:3] == ("plant_x", "plant_v", "controller_sum")
    assert "controller_force_in_transit_1" in names
    assert [s.unit for s in loop.system.outputs] == ["m"]
    assert [s.unit for s in loop.system.inputs] == ["N/kg"]
    assert str(loop.system.period) == "0.1 s"
    assert linearise(unstable(), start="controller.force") == open_loop(
        unstable(), "controller.force"
    ).system  # fmt: skip


def test_a_source_is_an_input() -> None:
    out = simple()
    out.source("pilot", Signals("push"))
    out.components["brake"].inputs["at"] = "pilot.push"  # type: ignore[attr-defined]
    system = open_loop(out, "pilot.push", "cart.x", compile=False).system
    assert system.d.shape == (1, 1)
    with pytest.raises(ScenarioError, match=r"pilot.push is a source.*give end="):
        open_loop(out, "pilot.push", compile=False)


def test_several_uses_in_a_period_are_inputs_of_their_own() -> None:
    loop = open_loop(two_rates(), "sensor.at", compile=False)
    assert loop.system.d.shape == (3, 3)
    assert loop.system.inputs.names == ("sensor_at_0", "sensor_at_1", "sensor_at_2")
    with pytest.raises(ScenarioError, match="has 3 inputs and 3 outputs; margins need one input"):
        margins(loop.system)
    assert isinstance(loop, Loop)
    assert loop.delay_margin(longest=0.01) is None


def random_latency() -> Scenario:
    out = simple()
    out.components["brake"].transport = Gamma(2.0, 0.001)  # type: ignore[attr-defined]
    return out


def transport_delay() -> Scenario:
    d = Diagram("late")
    d.add("late", TransportDelay("0.2"), d.input("u"))
    d.add("sum", Integrator(), "late")
    d.output("sum", "y")
    out = Scenario("late", until=1)
    out.plant("behind", d.model(), step=0.01, inputs={"u": "brake.force"})
    out.controller("brake", controller(half), period=0.1, inputs={"at": "behind.y"})
    return out


def on_a_processor() -> Scenario:
    out = Scenario("shared", until=1)
    out.plant("cart", CART, step=0.01, inputs={"force": "brake.force"})
    out.processor("mcu")
    out.controller("brake", controller(half), period=0.1, inputs={"at": "cart.at"},
                   processor="mcu", execution=0.01)  # fmt: skip
    return out


def rises(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = x[0]


def nothing_sampled() -> Scenario:
    out = Scenario("free", until=1)
    out.plant("cart", Model("m", Signals("x"), rises), step=0.1)
    return out


@pytest.mark.parametrize(
    ("make", "cut", "problem"),
    [
        (random_latency, "brake.force", r"the latency of topic brake is random .* declare Fixed"),
        (transport_delay, "brake.force", "late has delayed signals.*TransportDelay"),
        (on_a_processor, "brake.force", r"brake: .* leave out processor='mcu', .* compute="),
        (nothing_sampled, "cart.x", "no component of the scenario samples a signal"),
        (simple, "brakes.force", "unknown component 'brakes'.*did you mean brake"),
        (simple, "brake.force_", "unknown signal 'force_' in brake"),
    ],
)
def test_refusals_name_the_part_and_the_remedy(
    make: Callable[[], Scenario], cut: str, problem: str
) -> None:
    with pytest.raises((ModelError, ScenarioError, UnknownName), match=problem):
        open_loop(make(), cut, compile=False)


def test_an_unstable_loop_has_no_margins() -> None:
    late = open_loop(unstable(latency=0.3), "controller.force")
    with pytest.raises(ModelError, match="unstable without any additional delay: it has a pole at"):
        late.delay_margin()
    found = margins(late.system, feedback=1.0)
    assert not found.stable
    assert np.isnan(found.delay)
    with pytest.raises(ScenarioError, match=r"plant.x is not sent as a message.*controller"):
        open_loop(unstable(), "plant.x").delay_margin()


def square(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    y[0] = -u[0] * u[0]


def test_a_law_is_linearised_at_its_present_inputs() -> None:
    """Between two ticks the plant has moved on from the inputs of the last tick."""
    out = Scenario("curved", until=1)
    out.plant("cart", CART, step=0.01, states={"v": 2.0}, inputs={"force": "brake.force"})
    out.controller("brake", controller(square), period=0.1, inputs={"at": "cart.x"})
    x = trace_of(out, until=0.05, compile=False)["cart.x"][-1]
    found = open_loop(out, "brake.force", time=0.05, compile=False).system
    assert found.c[0, 0] == pytest.approx(-2.0 * x, rel=1e-12)
    assert x > 1.05


def test_operating_point_at_a_later_time() -> None:
    at_start, later = (open_loop(unstable(), "controller.force", time=t).system for t in (0, 2))
    np.testing.assert_allclose(at_start.a, later.a, rtol=1e-12, atol=1e-12)
    with pytest.raises(ScenarioError, match="before the start of the run"):
        open_loop(unstable(), "controller.force", time=-1)
