"""Sources, and blocks with continuous state, against what is known exactly."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from block_parts import flown

from rtsim.blocks import (
    PID,
    Block,
    Constant,
    Diagram,
    Equations,
    Expression,
    Integrator,
    Noise,
    Port,
    Product,
    Ramp,
    Saturation,
    Sine,
    SquareClock,
    StateSpace,
    Step,
    Sum,
    TransferFunction,
    Waveform,
    Wire,
)
from rtsim.core.errors import ModelError, ScenarioError
from rtsim.core.signals import Signals
from rtsim.solve import Adaptive

S = 1_000_000_000


def shown(source: Block, until: float = 2.0, step: str = "1/50") -> tuple[np.ndarray, ...]:
    """Times, the source, and its integral."""
    d = Diagram("d")
    d.add("source", source)
    d.add("x", Integrator(), "source")
    d.output("source")
    recording = flown(d, until, step=step)
    return (
        recording.track("d").ns / S,
        recording.track("d").column("source"),
        recording.track("d").column("x"),
    )


Array = np.ndarray
SOURCES: list[tuple[Block, Callable[[Array], Array], Callable[[Array], Array]]] = [
    (Constant(2.0), lambda t: 2.0 + 0 * t, lambda t: 2.0 * t),
    (Sine(2.0, 0.5, 1.0, 3.0), lambda t: 3 + 2 * np.sin(np.pi * t + 1),
     lambda t: 3 * t + 2 / np.pi * (np.cos(1.0) - np.cos(np.pi * t + 1))),
    (Step("1/3", 1.0, 4.0), lambda t: np.where(t < 1 / 3, 1.0, 4.0),
     lambda t: t + 3 * np.maximum(0, t - 1 / 3)),
    (Ramp(2.0, "1/3", 1.0), lambda t: 1 + 2 * np.maximum(0, t - 1 / 3),
     lambda t: t + np.maximum(0, t - 1 / 3) ** 2),
    (SquareClock("2/3", -1.0, 1.0), lambda t: np.where((t * 1.5) % 1 < 0.5, 1.0, -1.0),
     lambda t: 1 / 3 - np.abs((t % (2 / 3)) - 1 / 3)),
    (SquareClock(1, 0.0, 2.0, offset="1/7", width="1/5"),
     lambda t: np.where(((t - 1 / 7) % 1 < 0.2) & (t >= 1 / 7), 2.0, 0.0),
     lambda t: 2 * np.floor(t - 1 / 7 + 1) * 0.2 - 0.4 * (t > 1 / 7)
     + 2 * np.where(t > 1 / 7, np.minimum((t - 1 / 7) % 1, 0.2), 0)),
    (Waveform([0.0, 1.0, 0.0, -1.0], "1/4"),
     lambda t: np.interp(t % 1, [0, 0.25, 0.5, 0.75, 1], [0, 1, 0, -1, 0]),
     lambda t: np.interp(t % 1, np.linspace(0, 1, 4001), _triangle())),
]  # fmt: skip


def _triangle() -> Array:
    t = np.linspace(0, 1, 4001)
    wave = np.interp(t, [0, 0.25, 0.5, 0.75, 1], [0, 1, 0, -1, 0])
    return np.concatenate(([0.0], np.cumsum((wave[1:] + wave[:-1]) / 2) / 4000))


@pytest.mark.parametrize(("source", "exact", "integral"), SOURCES)
def test_a_source_is_what_it_says_and_so_is_its_integral(
    source: Block, exact: Callable[[Array], Array], integral: Callable[[Array], Array]
) -> None:
    """The integral is exact only where each jump and bend is a tag, and steps see x+ behind it."""
    t, y, x = shown(source)
    smooth = np.abs(y - exact(t)) < 1e-8
    jumps = np.flatnonzero(~smooth)
    assert np.allclose(x, integral(t), atol=2e-8)
    for row in jumps.tolist():  # x- of a jump, or a time rounded across it
        assert abs(t[row] - t[min(row + 1, len(t) - 1)]) < 1e-12 or t[row] == t[row - 1]
    assert len(jumps) < 12


def test_a_hermite_waveform_is_smooth_and_goes_through_its_samples() -> None:
    samples = [math.sin(2 * math.pi * k / 16) for k in range(16)]
    t, y, _ = shown(Waveform(samples, "1/16", "hermite"), step="1/320")
    assert np.abs(y - np.sin(2 * np.pi * t)).max() < 2e-3
    at = np.isclose((t * 16) % 1, 0.0, atol=1e-9)
    assert np.abs(y[at] - np.sin(2 * np.pi * t[at])).max() < 1e-9
    bends = np.diff(np.unique(np.round(np.stack((t, y)), 12), axis=1), 2)[1]
    assert np.abs(bends).max() < 1.2 * (2 * math.pi / 320) ** 2, "no corner at a sample"


def test_a_square_wave_jumps_on_its_ns() -> None:
    d = Diagram("d")
    d.add("clock", SquareClock("1/3"))
    d.add("x", Integrator(), "clock")
    d.output("clock")
    rows = flown(d, 1, step="1/10").track("d").rows
    on = [int(ns) for ns, side in zip(rows.ns, rows.integers[:, 1], strict=True) if side == 1]
    assert on == [0, 166666667, 333333333, 500000000, 666666667, 833333334, 1000000000]


# -- noise -----------------------------------------------------------------------------------------


def walk(deviation: float, period: str = "1/100") -> Diagram:
    d = Diagram("d")
    d.add("force", Noise(deviation, period))
    d.add("v", Integrator(), "force")
    return d


def test_noise_makes_a_wiener_process() -> None:
    """Its integral grows by N(0, deviation^2) each second, whatever the period of the draws."""
    d = Diagram("d")
    for name, period in (("a", "1/10"), ("b", "1/5")):
        d.add(f"n{name}", Noise(0.5, period))
        d.add(name, Integrator(), f"n{name}")
    recording = flown(d, 500, step="1/1")
    at = np.searchsorted(recording.track("d").ns, np.arange(501) * S)
    a, b = (np.diff(recording.track("d").column(name)[at]) for name in "ab")
    for grown in (a, b):
        assert abs(grown.var() / 0.25 - 1) < 4 * math.sqrt(2 / 500)
        assert abs(grown.mean()) < 4 * 0.5 / math.sqrt(500)
        assert abs(np.corrcoef(grown[:-1], grown[1:])[0, 1]) < 4 / math.sqrt(500)
    assert abs(np.corrcoef(a, b)[0, 1]) < 4 / math.sqrt(500), "streams of their own"


def test_another_noise_moves_no_draw() -> None:
    alone, beside = walk(1.0), walk(1.0)
    beside.add("a", Noise(1.0, "1/100"))
    assert len(beside.model().timers) == 1, "timers that tick alike are one"
    drawn = [flown(d, 1)["d.force_drawn"] for d in (alone, beside)]
    assert np.array_equal(drawn[0], drawn[1])


def test_noise_does_not_depend_on_steps_and_costs_none() -> None:
    ends, steps = set(), set()
    for solver, step in (("rk4", "1/100"), ("rk4", "1/37"), (Adaptive(rtol=1e-9), 1)):
        ends.add(round(float(flown(walk(1.0), 1, solver, step)["d.v"][-1]), 9))  # type: ignore[arg-type]
    assert len(ends) == 1
    for deviation in (0.0, 1.0, 1e6):
        rows = flown(walk(deviation), 1, Adaptive(rtol=1e-9), 1, seed=5)  # type: ignore[arg-type]
        steps.add(len(np.unique(rows.track("d").ns)))
    assert steps == {101}


# -- continuous ------------------------------------------------------------------------------------


def test_a_transfer_function_with_feedthrough() -> None:
    """(2 s + 3)/(s + 1) = 2 + 1/(s + 1), to a unit step: 2 + 1 - exp(-t)."""
    d = Diagram("d")
    d.add("one", Constant(1.0))
    d.add("h", TransferFunction([2, 3], [1, 1]), "one")
    d.output("h")
    recording = flown(d, 2)
    t = recording.track("d").ns / S
    assert np.abs(recording.track("d").column("h") - (3 - np.exp(-t))).max() < 1e-8


def test_state_space_and_transfer_function_agree() -> None:
    rng = np.random.default_rng(1)
    poles = [-1.0, -2.0, -3.0]
    denominator, numerator = np.poly(poles), rng.uniform(-1, 1, 3)
    residues = [np.polyval(numerator, p) / np.polyval(np.polyder(denominator), p) for p in poles]
    d = Diagram("d")
    d.add("u", Sine())
    d.add("h", TransferFunction(list(numerator), list(2 * denominator)), "u")
    d.add("modes", StateSpace(np.diag(poles), np.ones(3), np.array(residues) / 2), "u")
    d.output("h")
    d.output("modes", name="m")
    recording = flown(d, 3)
    assert np.abs(recording.track("d").column("h") - recording.track("d").column("m")).max() < 1e-12
    assert np.abs(recording.track("d").column("m")).max() > 0.01


def test_a_pid_in_its_loop() -> None:
    """Plant 1/s, PI control: 1/(s^2 + kp s + ki) closed, to a step of the set point."""
    kp, ki = 3.0, 2.0  # poles at -1 and -2
    d = Diagram("d")
    d.add("one", Constant(1.0))
    d.add("error", Sum("+-"), "one", "x")
    d.add("pid", PID(kp, ki), "error")
    d.add("x", Integrator(), "pid")
    recording = flown(d, 3)
    t = recording.track("d").ns / S
    exact = 1 - 2 * np.exp(-2 * t) + np.exp(-t)
    assert np.abs(recording.track("d").column("x") - exact).max() < 1e-7


def test_the_derivative_of_a_pid_is_filtered() -> None:
    """kd u' of a ramp of slope 2 is 2 kd (1 - exp(-filter t))."""
    d = Diagram("d")
    d.add("r", Ramp(2.0))
    d.add("pid", PID(0.0, 0.0, 0.5, filter=10.0), "r")
    d.add("x", Integrator(), "pid")
    d.output("pid")
    recording = flown(d, 1)
    t = recording.track("d").ns / S
    assert np.abs(recording.track("d").column("pid") - (1 - np.exp(-10 * t))).max() < 1e-5


def test_a_limited_pid_does_not_wind_up() -> None:
    def overshoot(tracking: float | None) -> float:
        d = Diagram("d")
        d.add("ten", Constant(10.0))
        d.add("error", Sum("+-"), "ten", "x")
        d.add("pid", PID(2.0, 1.0, low=-1.0, high=1.0, tracking=tracking), "error")
        d.add("x", Integrator(), "pid")
        d.output("pid")
        recording = flown(d, 30)
        assert np.abs(recording.track("d").column("pid")).max() == 1.0
        return float(recording.track("d").column("x").max()) - 10.0

    assert overshoot(0.0) > 3.0
    assert overshoot(None) < 0.5


def test_algebra() -> None:
    d = Diagram("d")
    d.add("a", Constant((6.0, -6.0)))
    d.add("b", Constant((2.0, 4.0)))
    d.add("product", Product("**/"), "a", "b", "a")
    d.add("inverse", Product("/*"), "a", "b")
    d.add("sum", Sum("-+-"), "a", "b", "b")
    d.add("cut", Saturation(-1.0, 3.0), "a")
    d.add("x", Integrator((0.0, 0.0)), "a")
    for name in ("product", "inverse", "sum", "cut"):
        d.output(name)
    recording = flown(d, 1)
    assert recording.track("d").column("product")[0].tolist() == [2.0, 4.0]
    assert recording.track("d").column("inverse")[0].tolist() == [2 / 6, -4 / 6]
    assert recording.track("d").column("sum")[0].tolist() == [-6.0, 6.0]
    assert recording.track("d").column("cut")[0].tolist() == [3.0, -1.0]


def test_a_block_of_ones_own() -> None:
    class Lag(Block):
        inputs, outputs = (Port("u"),), (Port("y"),)

        def equations(self, wires: dict[str, Wire]) -> Equations:  # type: ignore[override]  # noqa: ARG002
            return Equations(states=Signals("x"), output="y = x", rate="d_x = 2.0 * (u - x)")

    d = Diagram("d")
    d.add("one", Constant(1.0))
    d.add("lag", Lag(), "one")
    assert abs(flown(d, 1)["d.lag"][-1] - (1 - math.exp(-2))) < 1e-8

    class Broken(Lag):
        def equations(self, wires: dict[str, Wire]) -> Equations:  # type: ignore[override]  # noqa: ARG002
            return Equations(states=Signals("x"), output="y = = x")

    d.add("broken", Broken(), "one")
    with pytest.raises(ModelError, match="cannot read the equation"):
        d.model()


@pytest.mark.parametrize(
    "make",
    [
        lambda: Waveform([1.0], 1),
        lambda: Waveform([1.0, 2.0], 1, "spline"),
        lambda: SquareClock(1, width=1).equations({}),
        lambda: Step(-1).equations({}),
        lambda: PID(low=1.0, high=0.0),
    ],
)
def test_sources_refuse_what_cannot_be_meant(make: Callable[[], object]) -> None:
    with pytest.raises((ScenarioError, ModelError)):
        make()


def damped(t: float) -> float:
    return math.exp(-t) * math.sin(3.0 * t)


@pytest.mark.parametrize("compile", [False, True])
def test_an_expression_of_time_alone_is_a_source(compile: bool) -> None:
    d = Diagram("d")
    d.add("wave", Expression(damped, unit="m/s"))
    d.add("x", Integrator(unit="m"), "wave")
    d.output("wave", name="shown")
    recording = flown(d, 1, compile=compile)
    assert recording.track("d").column("shown").tolist() == [
        damped(t / 1e9) for t in recording.track("d").ns.tolist()
    ]
    exact = (3.0 - math.exp(-1.0) * (math.sin(3.0) + 3.0 * math.cos(3.0))) / 10.0
    assert recording["d.x"][-1] == pytest.approx(exact, abs=1e-8)


def test_an_expression_needs_an_argument() -> None:
    with pytest.raises(ScenarioError, match=r"has no argument; add one .* or use a Constant"):
        Expression(lambda: 1.0)
