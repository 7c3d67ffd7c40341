"""The cost of timing against published figures, textbook formulas and other computations.

Published figures are those of Jitterbug (https://github.com/ControlLTH/Jitterbug): its example
``multirate.m`` states costs to 5 digits, and a picture of its manual (``overrun.eps``) contains a
curve with a resolution of 0.0009.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad_vec
from scipy.linalg import expm, solve_continuous_lyapunov, solve_discrete_are

from rtsim import Empirical, Fixed, Gamma, Loss, TruncatedNormal, Uniform
from rtsim.core.errors import ModelError, ScenarioError, UnknownName
from rtsim.core.tag import Period
from rtsim.linear import StateSpace, TimedLoop
from rtsim.linear.state_space import Matrix
from rtsim.linear.timing_cost import integrals

SERVO = StateSpace([[0.0, 1.0], [0.0, -1.0]], [0.0, 1000.0], [1, 0])


def servo(period: float = 0.01, **options: object) -> TimedLoop:
    """The servo with a PD controller of Cervin and others (Control Systems Magazine, 2003)."""
    gain, derivative = 1.5, 0.035 / period
    law = StateSpace([0.0], [1.0], [gain * derivative], -gain * (derivative + 1), period=period)
    noise = SERVO.b @ SERVO.b.T
    return TimedLoop(SERVO, law, {"y_0": 1.0, "u_0": 1.0}, noise, **options)  # type: ignore[arg-type]


def gramian(a: Matrix, q: Matrix, seconds: float) -> Matrix:
    """Integrate by quadrature, as a check that is independent of the module under test."""

    def integrand(t: float, /) -> Any:
        return expm(a.T * t) @ q @ expm(a * t)

    return np.asarray(quad_vec(integrand, 0.0, seconds, epsabs=1e-12)[0])


class Design:
    """The optimal sampled controller (LQG) of a plant for a constant delay below one period.

    Source: K. J. Astrom, B. Wittenmark, Computer-Controlled Systems (1997), chapter 11.
    """

    def __init__(
        self, plant: StateSpace, q: Matrix, w: Matrix, v: Matrix, period: float, delay: float = 0.0
    ) -> None:
        a, b, c = plant.a, plant.b, plant.c
        n, m = b.shape
        system = np.zeros((n + m, n + m))
        system[:n] = np.hstack((a, b))
        first = np.eye(n + m, n + 2 * m)
        second = np.zeros_like(first)
        second[:n] = (expm(system * delay) @ first)[:n]
        second[n:, n + m :] = np.eye(m)
        weight = first.T @ gramian(system, q, delay) @ first
        weight += second.T @ gramian(system, q, period - delay) @ second
        end = (expm(system * (period - delay)) @ second)[:n]
        phi, gamma = np.zeros((n + m, n + m)), np.zeros((n + m, m))
        phi[:n], gamma[:n], gamma[n:] = end[:, : n + m], end[:, n + m :], np.eye(m)
        kept, mixed, used = (
            weight[: n + m, : n + m], weight[: n + m, n + m :], weight[n + m :, n + m :]
        )  # fmt: skip
        self.s = solve_discrete_are(phi, gamma, kept, used, s=mixed)
        self.inner = used + gamma.T @ self.s @ gamma
        self.gain = np.linalg.solve(self.inner, gamma.T @ self.s @ phi + mixed.T)
        self.r1 = gramian(a.T, w, period)
        moved = expm(a * period)
        predicted = solve_discrete_are(moved.T, c.T, self.r1, v)
        kalman = predicted @ c.T @ np.linalg.inv(c @ predicted @ c.T + v)
        keep = np.eye(n) - kalman @ c
        self.filtered = keep @ predicted
        gain_x, gain_u = self.gain[:, :n], self.gain[:, n:]
        law_c = np.hstack((-gain_x @ keep, -gain_u))
        law_d = -gain_x @ kalman
        next_x = np.hstack((phi[:n, :n] @ keep, phi[:n, n:])) + gamma[:n] @ law_c
        next_in = phi[:n, :n] @ kalman + gamma[:n] @ law_d
        self.controller = StateSpace(
            np.vstack((next_x, law_c)), np.vstack((next_in, law_d)), law_c, law_d, period=period
        )


# -- published figures -------------------------------------------------------------------------


def matched(numerator: Any, denominator: Any, period: float) -> StateSpace:
    """Match poles and zeros. The gain is matched at s = 0.1 / period, because of the integrator."""
    at = 0.1 / period
    poles, zeros = (np.exp(np.roots(p) * period) for p in (denominator, numerator))
    wanted = np.polyval(numerator, at) / np.polyval(denominator, at)
    z = math.exp(at * period)
    factor = wanted * np.polyval(np.poly(poles), z) / np.polyval(np.poly(zeros), z)
    return StateSpace.of_polynomials(factor * np.poly(zeros), np.poly(poles), Period.of(period))


@pytest.mark.parametrize(("period", "published"), [(0.1, 3.3955), (0.05, 1.9329)])
def test_the_cost_of_the_ball_and_beam_is_that_of_jitterbug(
    period: float, published: float
) -> None:
    """Example multirate.m: a cascade of a PID and a P controller."""
    gain, ti, td, most = 0.2, 10.0, 1.0, 10.0
    slow, fast = np.array([ti, 0.0]), np.array([td / most, 1.0])
    above = np.polymul(slow, fast)
    above = np.polyadd(above, fast)
    above = np.polyadd(above, np.polymul([td, 0.0], slow))
    pid = matched(gain * above, np.polymul(slow, fast), period)
    beam = StateSpace(
        [[0.0, 0.0, 0.0], [0.0, 0.0, 1.0], [-9.0, 0.0, 0.0]], [4.4, 0.0, 0.0], np.eye(2, 3)
    )  # fmt: skip
    law = StateSpace(
        pid.a, np.hstack((np.zeros((2, 1)), pid.b)), 4.0 * pid.c,
        np.hstack(([[-4.0]], 4.0 * pid.d)), period=period,
    )  # fmt: skip
    loop = TimedLoop(beam, law, {"y_0": 1.0, "y_1": 1.0}, beam.b @ beam.b.T)
    assert loop.timing_cost().cost == pytest.approx(published, abs=5e-5)


PIXEL = 2.5 / 2896.0
OVERRUN = {  # largest delay in 1/20 of the period: cost, from the coordinates of the picture
    0: 1.8254, 4: 1.8694, 8: 1.9143, 12: 1.9618, 16: 2.0118, 20: 2.0627, 21: 2.5047, 22: 3.1753,
}  # fmt: skip


@pytest.mark.parametrize(("largest", "published"), OVERRUN.items())
def test_the_cost_of_random_delays_is_that_of_jitterbugs_manual(
    largest: int, published: float
) -> None:
    """Example overrun.m: delays up to 2 periods; a delay above one period skips the controller."""
    period, damping = 0.25, 0.2
    plant = StateSpace(
        [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, -1.0, -2.0 * damping]], [0, 0, 1], [1, 0, 0]
    )
    q, w, v = np.diag([1.0, 0, 0, 1]), plant.b @ plant.b.T, np.array([[1e-3]])
    design = Design(plant, q, w, v, period, delay=largest * period / 40)
    steps = min(largest, 20) + 1
    delays = {k * period / 20: 1.0 / steps for k in range(steps)}
    skipped = max(0, largest - 20) / (largest + 1)
    loop = TimedLoop(plant, design.controller, {"xu": q}, w, v, delays, skipped=skipped)
    assert loop.timing_cost().cost == pytest.approx(published, abs=PIXEL)


def test_a_delay_of_one_period_makes_the_servo_of_the_paper_unstable_at_10_ms() -> None:
    """The text of the manual: negligible degradation at 1 ms, infinite cost at 10 ms."""
    assert servo(0.001, latency=0.001).timing_cost().cost < 1.07 * servo(0.001).timing_cost().cost
    found = servo(0.01, latency=0.01).timing_cost()
    assert not found.stable
    assert math.isinf(found.cost)
    assert math.isinf(found.parts["y_0"])


def test_systems_of_other_packages_are_accepted() -> None:
    from scipy import signal

    loop = servo()
    theirs = signal.StateSpace(SERVO.a, SERVO.b, SERVO.c, SERVO.d)
    law = signal.StateSpace(*(getattr(loop.controller, m) for m in "abcd"), dt=0.01)
    other = TimedLoop(theirs, law, {"y_0": 1.0, "u_0": 1.0}, loop.disturbance)  # type: ignore[arg-type]
    assert other.timing_cost().cost == loop.timing_cost().cost


# -- limits ------------------------------------------------------------------------------------


def test_without_latency_the_cost_is_that_of_the_textbooks_lqg() -> None:
    plant = StateSpace([[0.0, 1.0], [2.0, -0.3]], [0, 1], [1, 0])
    q, w, v, period = np.diag([1.0, 0.2, 0.1]), np.diag([0.1, 1.0]), np.array([[0.01]]), 0.2
    design = Design(plant, q, w, v, period)
    found = TimedLoop(plant, design.controller, {"xu": q}, w, v).timing_cost()

    def variance(t: float, /) -> Any:
        return np.trace(q[:2, :2] @ gramian(plant.a.T, w, t))

    between = quad_vec(variance, 0.0, period, epsabs=1e-10)[0]
    state_gain = design.gain[:, :2]
    lost = np.trace(design.filtered @ state_gain.T @ design.inner @ state_gain)
    wanted = (np.trace(design.s[:2, :2] @ design.r1) + lost + between) / period
    assert found.cost == pytest.approx(wanted, rel=1e-9)
    for factor in (0.98, 1.02):  # the optimum
        law = replace(design.controller, c=factor * design.controller.c)
        assert TimedLoop(plant, law, {"xu": q}, w, v).timing_cost().cost > found.cost


def test_a_shorter_period_tends_to_the_continuous_cost() -> None:
    plant = StateSpace([[0, 1], [1, 0]], [0, 1], np.eye(2))
    gain, w = np.array([[3.0, 2.0]]), np.diag([0.0, 1.0])
    closed = plant.a - plant.b @ gain
    covariance = solve_continuous_lyapunov(closed, -w)
    wanted = covariance[0, 0] + 0.5 * (gain @ covariance @ gain.T)[0, 0]

    def excess(period: float) -> float:
        law = StateSpace(np.zeros((0, 0)), np.zeros((0, 2)), np.zeros((1, 0)), -gain, period=period)
        loop = TimedLoop(plant, law, {"x_0": 1.0, "u_0": 0.5}, w)
        return loop.timing_cost().cost / float(wanted) - 1.0

    assert abs(excess(1e-5)) < 2e-5
    assert excess(0.02) / excess(0.01) == pytest.approx(2.0, rel=0.1)  # of first order


# -- the equation of the second moments --------------------------------------------------------


def test_parts_and_sources_add_up_and_scale_with_the_noise() -> None:
    loop = servo(latency=Uniform(0.0, 0.004), measurement=1e-6, loss=0.1)
    found, louder = loop.timing_cost(), replace(loop, measurement=4e-6).timing_cost()
    assert sum(found.parts.values()) == pytest.approx(found.cost)
    assert found.from_disturbance + found.from_measurement == pytest.approx(found.cost)
    assert louder.from_disturbance == pytest.approx(found.from_disturbance)
    assert louder.from_measurement == pytest.approx(4.0 * found.from_measurement)


def test_a_latency_above_one_period_is_a_delay_inside_the_controller() -> None:
    """A controller that delays its command by one period does the same."""
    loop = servo(0.004)
    law = loop.controller
    delayed = StateSpace(
        [[law.a[0, 0], 0.0], [law.c[0, 0], 0.0]], [law.b[0, 0], law.d[0, 0]], [0.0, 1.0], 0.0,
        period=0.004,
    )  # fmt: skip
    for late in (0.0, 0.0013, 0.0039):
        wanted = replace(loop, controller=delayed).timing_cost(latency=late)
        found = loop.timing_cost(latency=0.004 + late)
        assert found.cost == pytest.approx(wanted.cost, rel=1e-9)
    jitter = replace(loop, controller=delayed).timing_cost(latency=Uniform(0.0, 0.002), loss=0.1)
    found = loop.timing_cost(latency=Uniform(0.004, 0.006), loss=0.1)
    assert found.cost == pytest.approx(jitter.cost, rel=1e-9)
    at, before = (loop.timing_cost(latency=s).cost for s in (0.004, 0.004 - 1e-9))
    assert at == pytest.approx(before, rel=1e-5)


def test_a_lost_command_of_a_controller_without_memory_is_a_skipped_period() -> None:
    law = StateSpace(
        np.zeros((0, 0)), np.zeros((0, 2)), np.zeros((1, 0)), [[-0.5, -0.05]], period=0.01
    )  # fmt: skip
    loop = TimedLoop(
        replace(SERVO, c=np.eye(2), d=np.zeros((2, 1)), outputs=SERVO.states), law, {"x_0": 1.0},
        SERVO.b @ SERVO.b.T, np.diag([1e-4, 1e-2]), latency=0.002,
    )  # fmt: skip
    lost = [
        loop.timing_cost(loss=0.3), loop.timing_cost(skipped=0.3),
        loop.timing_cost(latency=Loss(Fixed(0.002), 0.3)),
        loop.timing_cost(latency=Loss(Loss(Fixed(0.002), 0.2), 0.125)),
    ]  # fmt: skip
    assert np.ptp([one.cost for one in lost]) < 1e-9 * lost[0].cost
    assert lost[0].cost > loop.timing_cost().cost
    assert math.isinf(loop.timing_cost(loss=1.0).cost)


def test_mean_square_stability_is_stricter_than_the_mean() -> None:
    """x' = x + u with lost commands: the second moment grows first (scalar case, by hand)."""
    plant = StateSpace([1.0], [1.0], [1.0])
    period = 0.5
    phi = math.exp(period)
    law = StateSpace(
        np.zeros((0, 0)), np.zeros((0, 1)), np.zeros((1, 0)), -phi / (phi - 1.0), period=period
    )
    loop = TimedLoop(plant, law, {"x_0": 1.0}, 1.0)

    def second_moments(loss: float) -> float:
        """Spectral radius over (x x, x u, u u), where u is held if a command is lost."""
        hold = np.array([[phi, phi - 1.0], [0.0, 1.0]])
        send = np.array([[0.0, 0.0], [law.d[0, 0], 0.0]])
        both = loss * np.kron(hold, hold) + (1.0 - loss) * np.kron(send, send)
        return float(np.abs(np.linalg.eigvals(both)).max())

    for loss in (0.0, 0.1, 0.2, 0.4):
        found = loop.timing_cost(loss=loss)
        assert found.growth == pytest.approx(second_moments(loss), abs=1e-9)
        assert found.stable == (second_moments(loss) < 1.0)


def test_integrals_are_accurate_for_modes_that_decay_fast() -> None:
    """Van Loan's matrix alone would overflow: e^(1e6 * 0.1)."""
    found = integrals(np.diag([-1e6, -1.0]), np.eye(2), 0.1)
    assert found.single[0, 0] == pytest.approx(5e-7, rel=1e-12)
    assert found.single[1, 1] == pytest.approx((1.0 - math.exp(-0.2)) / 2.0, rel=1e-10)
    wanted = 0.1 / 2.0 - (1.0 - math.exp(-0.2)) / 4.0
    assert found.double[1, 1] == pytest.approx(wanted, rel=1e-10)


# -- latencies ---------------------------------------------------------------------------------


@pytest.mark.long
def test_the_quadrature_of_a_continuous_latency_agrees_with_many_discrete_ones() -> None:
    loop = servo(0.006)
    count = 400
    middles = (np.arange(count) + 0.5) / count * 0.004 + 0.001
    uniform = loop.timing_cost(latency=Uniform(0.001, 0.005))
    many = loop.timing_cost(latency=dict.fromkeys(middles.tolist(), 1.0 / count))
    assert uniform.cost == pytest.approx(many.cost, rel=1e-5)
    assert uniform.accuracy < 1e-10
    assert many.accuracy == 0.0
    normal = TruncatedNormal(0.003, 0.0003, low=0.001, high=0.005)
    weights = np.exp(-(((middles - 0.003) / 0.0003) ** 2) / 2.0)
    shares = dict(zip(middles.tolist(), (weights / weights.sum()).tolist(), strict=True))
    found = loop.timing_cost(latency=normal)
    assert found.cost == pytest.approx(loop.timing_cost(latency=shares).cost, rel=1e-5)
    assert found.accuracy < 1e-10
    assert loop.timing_cost(latency=0.003).cost < found.cost < uniform.cost


def test_measured_latencies_are_a_discrete_distribution() -> None:
    loop = servo(0.006)
    assert loop.timing_cost(latency=np.float64(0.001)).cost == loop.timing_cost(latency=0.001).cost
    measured = loop.timing_cost(latency=Empirical.of([1_000_000, 1_000_000, 4_000_000]))
    assert measured.cost == loop.timing_cost(latency={0.001: 2 / 3, 0.004: 1 / 3}).cost


@pytest.mark.parametrize(
    ("latency", "reason"),
    [
        (Gamma(2.0, 0.001), "an upper bound"),
        (TruncatedNormal(0.002, 0.001), "an upper bound"),
        (Uniform(0.005, 0.02), "between 0 and 0.01 s"),
        ({0.001: 0.5}, "sum is 1"),
        (Fixed, "give a number of seconds"),
    ],
)
def test_a_latency_that_the_analysis_cannot_represent_is_an_error(
    latency: object, reason: str
) -> None:
    with pytest.raises((ModelError, ScenarioError), match=reason):
        servo().timing_cost(latency=latency)  # type: ignore[arg-type]


# -- wrong arguments ---------------------------------------------------------------------------


def test_arguments_that_do_not_fit_are_errors() -> None:
    loop = servo()
    with pytest.raises(ScenarioError, match="a plant without a period"):
        replace(loop, plant=loop.controller)
    with pytest.raises(ScenarioError, match="1 inputs, but the plant has 2 outputs"):
        replace(loop, plant=StateSpace(SERVO.a, SERVO.b, np.eye(2)))
    with pytest.raises(ScenarioError, match=r"disturbance has shape \(1, 1\); expected \(2, 2\)"):
        replace(loop, disturbance=1.0)
    with pytest.raises(ScenarioError, match="measurement is not a covariance"):
        replace(loop, measurement=-1.0)
    with pytest.raises(ScenarioError, match=r"loss = 1\.5 is not a probability"):
        loop.timing_cost(loss=1.5)
    with pytest.raises(UnknownName, match="angle"):
        replace(loop, cost={"angle": 1.0})
    with pytest.raises(ScenarioError, match=r"'xu' has shape \(2, 2\); expected \(3, 3\)"):
        replace(loop, cost={"xu": np.eye(2)})
    with pytest.raises(ScenarioError, match="'y_0' is nan; give finite numbers"):
        replace(loop, cost={"y_0": math.nan})
    with pytest.raises(ModelError, match="102 states"):
        loop.timing_cost(latency=0.01 * 98)


# -- the jitter margin -------------------------------------------------------------------------


def test_the_jitter_margin_is_the_published_criterion() -> None:
    """|P_alias C / (1 + P C)| < 1 / (N |z - 1|), with the alias as a sum over frequencies."""
    plant = StateSpace([[-1.0, 0.5], [0.0, -4.0]], [1.0, 2.0], [1.0, 0.3])
    period, gain = 0.1, 9.0
    law = StateSpace([0.5], [1.0], [-0.2], -gain, period=period)
    found = TimedLoop(plant, law, {}, np.zeros((2, 2))).jitter_margin()
    assert 0.0 < found.seconds < period
    angles = np.linspace(1e-3, math.pi, 4000)
    shifts = 2.0 * math.pi * np.arange(-4000, 4001)
    alias = np.sqrt([
        (np.abs(plant.response((angle + shifts) / period)[:, 0, 0]) ** 2).sum() for angle in
        angles[::10]
    ])  # fmt: skip
    omega = angles[::10] / period
    sampled = plant.sampled(period).response(omega)[:, 0, 0]
    controller = -law.response(omega)[:, 0, 0]
    ratio = alias * np.abs(controller / (1.0 + sampled * controller))
    most = (ratio * np.abs(np.exp(1j * angles[::10]) - 1.0)).max()
    assert found.seconds == pytest.approx(period / most**2, rel=2e-3)


def test_no_sequence_of_latencies_below_the_jitter_margin_is_unstable() -> None:
    loop = servo(0.01)
    margin = loop.jitter_margin()
    assert margin.seconds == pytest.approx(0.0069873, rel=1e-4)
    latest = 0.999 * margin.seconds
    worst = 0.0
    ends = [loop.timing_cost(latency=s).growth ** 0.5 for s in (0.0, latest)]
    matrices = [replace(loop, latency=s)._transition for s in (0.0, latest / 2, latest)]
    for length in range(1, 8):
        for choice in product(range(3), repeat=length):
            whole = np.linalg.multi_dot([np.eye(4), *(matrices[i] for i in choice)])
            worst = max(worst, float(np.abs(np.linalg.eigvals(whole)).max()) ** (1.0 / length))
    assert max(ends) <= worst + 1e-9 < 1.0 + 1e-9
    assert loop.timing_cost(latency=Uniform(0.0, latest)).stable


def test_a_jitter_margin_above_one_period_counts_the_commands_that_are_late() -> None:
    """For N = n + g periods, the criterion contains sqrt(n^2 + 2 n g + g) instead of N."""
    loop = servo(0.001)
    margin = loop.jitter_margin()
    n, g = divmod(margin.seconds / 0.001, 1.0)
    assert n == 17
    slower = replace(loop, latency=0.0005).jitter_margin()
    assert slower.latency == 0.0005
    assert 0.0 < slower.seconds < margin.seconds
    gain, _ = loop._largest_gain(np.linalg.eigvals(loop._transition).astype(complex))
    assert n * n + 2.0 * n * g + g == pytest.approx(1.0 / (gain * gain * 0.001))


def test_an_unstable_loop_has_no_jitter_margin() -> None:
    with pytest.raises(ModelError, match=r"unstable with a constant latency of 0\.01 s"):
        servo(0.01).jitter_margin(0.01)
    through = replace(servo(), plant=StateSpace(SERVO.a, SERVO.b, SERVO.c, 0.1))
    with pytest.raises(ModelError, match="D = 0"):
        through.jitter_margin()
