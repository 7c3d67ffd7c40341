"""Delay differential equations against independent computations.

No figure is copied: the Mackey-Glass equation is solved again by the method of steps, with SciPy's
DOP853 and its dense output on each interval between two breaks.

The delay margin of the linear model against the latency at which simulated runs begin to grow.

The growth rate of an oscillation is measured at latencies just below and above the margin, and
interpolated to 0.  Both loops agree within 0.1 %.

The latency that the `unstable` loop bears: simulated, and from its discretised closed loop.
"""

# ruff: noqa: ARG001

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from delay_parts import S, ran, single
from numpy.typing import NDArray
from scipy.integrate import solve_ivp
from scipy.linalg import expm
from scipy.optimize import brentq

from rtsim import Delayed, Model, Signals
from rtsim.blocks import (
    Constant,
    Diagram,
    Expression,
    Gain,
    Integrator,
    Product,
    Step,
    Sum,
    TransportDelay,
)
from rtsim.core.signals import Vector
from rtsim.linear import Loop, open_loop
from rtsim.models.f16.scenario import scenario as f16
from rtsim.models.unstable import scenario
from rtsim.models.unstable import scenario as unstable
from rtsim.scenario.scenario import Scenario
from rtsim.solve import Adaptive, Solver
from rtsim.testing.determinism import trace_of

LAG, END = 17.0, 100.0


def mackey_glass(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
    dx[0] = 0.2 * u[0] / (1.0 + u[0] ** 10) - 0.1 * x[0]


MACKEY_GLASS = Model(
    "mackey_glass",
    states=Signals("x = 1.2"),
    derivative=mackey_glass,
    delays=(Delayed("x", LAG, before=1.2),),
)
"""x' = 0.2 x(t - 17) / (1 + x(t - 17)^10) - 0.1 x, with x = 1.2 for t <= 0.

Source of the equation: M. C. Mackey and L. Glass, Science 197, 1977, p. 287."""


@pytest.fixture(scope="module")
def by_steps() -> NDArray[np.float64]:
    """x at 0, 1, …, 100 s, by the method of steps."""
    pieces: list[Callable[[float], NDArray[np.float64]]] = []

    def before(t: float) -> float:
        return 1.2 if t <= 0 else float(pieces[int(t // LAG)](t)[0])

    def rate(t: float, x: NDArray[np.float64], k: int) -> list[float]:
        s = t - LAG
        late = 1.2 if k == 0 else float(pieces[k - 1](s)[0])
        return [0.2 * late / (1.0 + late**10) - 0.1 * float(x[0])]

    at, first = [1.2], 1.2
    for k in range(6):
        begin = k * LAG
        found = solve_ivp(
            rate, (begin, begin + LAG), [first], "DOP853", dense_output=True, args=(k,),
            rtol=1e-12, atol=1e-13,
        )  # fmt: skip
        assert found.sol is not None
        sol = found.sol
        pieces.append(sol)
        first = float(found.y[0, -1])
        at += [float(sol(t)[0]) for t in range(int(begin) + 1, int(begin + LAG) + 1)]
    return np.array(at[: int(END) + 1])


@pytest.mark.parametrize(
    ("solver", "step", "error"),
    [
        ("rk4", "1/4", 2e-6),
        (Adaptive(rtol=1e-6, atol=1e-8), "1", 2e-5),
        (Adaptive(rtol=1e-10, atol=1e-12), "1", 1e-8),
    ],
)
def test_mackey_glass(
    solver: Solver | str, step: str, error: float, by_steps: NDArray[np.float64]
) -> None:
    recording = ran(single(MACKEY_GLASS, END, solver, step))
    t = recording.track("a").ns
    x = recording.track("a").column("x")[t % S == 0]
    assert len(x) == len(by_steps)
    assert np.abs(x - by_steps).max() < error


def test_mackey_glass_as_a_diagram(by_steps: NDArray[np.float64]) -> None:
    """The delay is the block TransportDelay."""
    d = Diagram("mackey_glass")
    d.add("x", Integrator(1.2), "rate")
    d.add("late", TransportDelay(LAG, initial=1.2), "x")
    d.add("feed", Expression(lambda a: 0.2 * a / (1.0 + a**10)), "late")
    d.add("decay", Gain(0.1), "x")
    d.add("rate", Sum("+-"), "feed", "decay")
    recording = ran(single(d.model(), END, Adaptive(rtol=1e-9, atol=1e-11), "1"))
    assert np.abs(recording.track("a").column("x") - by_steps).max() < 1e-7


def test_a_delay_of_a_jump_and_of_a_delay() -> None:
    """The first delay passes the step on as a jump; the second one delays it again."""
    d = Diagram("line")
    d.add("step", Step("1/3", 0.0, 2.0))
    d.add("first", TransportDelay("1/7"), "step")
    d.add("second", TransportDelay("1/11", initial=-1.0), "first")
    d.add("x", Integrator(), "first")
    d.add("y", Integrator(), "second")
    d.output("first")
    d.output("second")
    model = d.model()
    assert [p.name for p in model.parameters if p.name.endswith("delay")] == [
        "first_delay",
        "second_delay",
    ]
    recording = ran(single(model, 1, "rk4", "1/10"))
    ns = 1e-9  # the lags are whole ns
    assert abs(recording["a.x"][-1] - 2 * (1 - 1 / 3 - 1 / 7)) < 4 * ns
    assert abs(recording["a.y"][-1] - (2 * (1 - 1 / 3 - 1 / 7 - 1 / 11) - 1 / 11)) < 4 * ns
    assert set(np.unique(recording.track("a").column("second")).round(12)) == {-1.0, 0.0, 2.0}


def test_a_product_of_a_delayed_signal_in_a_loop() -> None:
    """x' = -x(t - 1) by blocks, with the lag as a parameter of the plant."""
    d = Diagram("decay")
    d.add("x", Integrator(1.0), "rate")
    d.add("late", TransportDelay(2, initial=1.0), "x")
    d.add("minus", Constant(-1.0))
    d.add("rate", Product("**"), "minus", "late")
    scenario = single(d.model(), 3, "dp54", "1/2")
    scenario.set("a.late_delay", 1.0)
    assert abs(ran(scenario)["a.x"][-1] + 1 / 6) < 1e-14


_OFF = 0.005


def swinging_unstable(latency: float) -> Scenario:
    return unstable(latency=round(latency, 9), until=120)


def swinging_f16(latency: float) -> Scenario:
    """Stability augmentation alone, after a tug at the stick that is too small for its limits."""
    out = f16(latency=round(latency, 9), until=12, autopilot_on=False)
    out.at(1.0, "pilot.lat_stick", 1e-4)
    out.at(1.2, "pilot.lat_stick", 0.0)
    return out


def growth(scenario: Scenario, signal: str, frequency: float, begin: float) -> float:
    """Return the growth rate (1/s) between two windows of ten oscillations."""
    recording = trace_of(scenario)
    time, values = recording.time, recording[signal]
    window = 20.0 * np.pi / frequency
    last = time[-1] - window
    sizes = [np.std(values[(time >= t) & (time < t + window)]) for t in (begin, last)]
    return float(np.log(sizes[1] / sizes[0]) / (last - begin))


def check(loop: Loop, make: object, signal: str, begin: float, slow: float) -> tuple[float, float]:
    assert callable(make)
    margin = loop.delay_margin(slow=slow)
    assert margin is not None
    delays = [margin.seconds * (1.0 - _OFF), margin.seconds * (1.0 + _OFF)]
    rates = [growth(make(delay), signal, margin.frequency, begin) for delay in delays]
    assert rates[0] < 0.0 < rates[1]
    simulated = float(np.interp(0.0, rates, delays))
    assert simulated == pytest.approx(margin.seconds, rel=1e-3)
    assert simulated != pytest.approx(0.997 * margin.seconds, rel=1e-3)  # a planted error
    return margin.seconds, simulated


def test_unstable() -> None:
    loop = open_loop(unstable(), "controller.force")
    analytic, simulated = check(loop, swinging_unstable, "plant.x", 30.0, 0.0)
    assert analytic == pytest.approx(0.236163, abs=1e-6)
    assert simulated == pytest.approx(analytic, rel=5e-4)


def test_f16_stability_augmentation() -> None:
    """Poles below 0.05 rad/s are those of position and altitude, which nothing holds."""
    loop = open_loop(f16(autopilot_on=False), "autopilot")
    analytic, _ = check(loop, swinging_f16, "f16.roll_rate", 4.0, 0.05)
    assert analytic == pytest.approx(0.0059496, abs=1e-6)


PERIOD = 0.1
Matrix = NDArray[np.float64]
A = np.array([[0.0, 1.0], [2.0, 0.0]])
B = np.array([[0.0], [1.0]])
GAIN = np.array([8.0, 4.0])


def held(seconds: float) -> tuple[Matrix, Matrix]:
    """Transition over ``seconds`` with the input held: Phi (2, 2) and Gamma (2, 1)."""
    block = expm(np.block([[A, B], [np.zeros((1, 3))]]) * seconds)
    return block[:2, :2], block[:2, 2:]


def spectral_radius(latency: float) -> float:
    """Of the loop over one period; the state is (x, v, sum, forces under way, newest first)."""
    whole, rest = divmod(latency, PERIOD)
    under_way = int(whole) + 1
    phi, _ = held(PERIOD)
    phi_new, gamma_new = held(PERIOD - rest)
    _, gamma_old = held(rest)
    closed = np.zeros((3 + under_way, 3 + under_way))
    force = np.concatenate((-GAIN, [-1.0], np.zeros(under_way)))  # u_k = -K x - s
    # Newest first: u_k, then column 3 is u_(k-1); within a period u_(k-d-1) acts, then u_(k-d).
    arriving = force if under_way == 1 else np.eye(3 + under_way)[1 + under_way]
    closed[:2, :2] = phi
    closed[:2, 2 + under_way] += (phi_new @ gamma_old)[:, 0]
    closed[:2] += gamma_new @ arriving[None, :]
    closed[2, [0, 2]] = 0.5, 1.0  # s_k = s + x / 2
    closed[3] = force
    for i in range(1, under_way):
        closed[3 + i, 2 + i] = 1.0
    return float(max(abs(np.linalg.eigvals(closed))))


def grows(latency_ms: float) -> bool:
    """Whether the simulated state is larger in the last tenth of 120 s than in the fifth."""
    recording = trace_of(scenario(latency=round(latency_ms * 1e-3, 9), until=120))
    size = np.abs(recording.track("plant").column("x"))
    time = recording.track("plant").ns / 1e9
    return bool(size[(time > 108)].max() > size[(time > 48) & (time < 60)].max())


@pytest.mark.long
def test_simulated_limit_is_that_of_the_eigenvalues() -> None:
    limit = brentq(lambda latency: spectral_radius(latency) - 1.0, 0.0, 0.3, xtol=1e-9)
    low, high = 0.0, 300.0
    while high - low > 0.1:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if grows(middle) else (middle, high)
    assert limit == pytest.approx(0.23616, abs=1e-5)
    assert 1e3 * limit == pytest.approx(0.5 * (low + high), abs=1.0)


def test_the_loop_without_latency_is_stable() -> None:
    assert spectral_radius(0.0) < 1.0
    assert not grows(0.0)
