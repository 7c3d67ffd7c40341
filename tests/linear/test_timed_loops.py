"""The cost of timing of a scenario: against simulated runs, and against its sampled loop."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import stats

import rtsim as rt
from rtsim import Scenario, Signals, simulate
from rtsim.cli.main import main
from rtsim.core.errors import ModelError, ScenarioError, UnknownName
from rtsim.core.signals import Vector
from rtsim.core.tag import Tag
from rtsim.linear import open_loop, timed_loop

PERIOD = 0.05
WEIGHTS = {"servo.angle": 1.0, "pd.voltage": 0.1}


class Servo(rt.Plant):
    """A motor; ``spent`` integrates the cost, and nothing depends on it."""

    angle = rt.state("rad")
    rate = rt.state("rad/s")
    spent = rt.state("1")
    voltage = rt.input("V")
    torque = rt.input("V", optional=True)

    def derivative(self, d: Any) -> None:
        d.angle = self.rate
        d.rate = -self.rate + 10.0 * (self.voltage + self.torque)
        d.spent = self.angle**2 + 0.1 * self.voltage**2


class Pd(rt.Controller, compile=True):
    angle = rt.input("rad")
    dust = rt.input("rad", optional=True)
    voltage = rt.output("V")
    last = rt.memory("rad")
    limit = rt.parameter("V", 1000.0)

    def step(self) -> None:
        seen = self.angle + self.dust
        wanted = -2.0 * seen - 8.0 * (seen - self.last)
        self.voltage = max(-self.limit, min(self.limit, wanted))
        self.last = seen


def servo(
    compute: Any = 0, transport: Any = 0, until: float = 1.0, limit: float = 1000.0,
    wind_period: float = 0.005, dust_period: float = PERIOD,
) -> Scenario:  # fmt: skip
    loop = Scenario("servo", until=until)
    motor = loop.plant("servo", Servo(), step=PERIOD)
    pd = loop.controller("pd", Pd(limit=limit), period=PERIOD, compute=compute, transport=transport)
    wind = loop.noise("wind", Signals("torque [V]"), deviation=0.1, period=wind_period)
    dust = loop.noise("dust", Signals("angle [rad]"), deviation=0.002, period=dust_period)
    loop.connect(motor.angle, pd.angle)
    loop.connect(dust.angle, pd.dust)
    loop.connect(pd.voltage, motor.voltage)
    loop.connect(wind.torque, motor.torque)
    return loop


CHANCE = 1e-4
"""Probability that the interval of a correct run excludes the exact cost."""


def simulated(options: dict[str, Any], until: float, seed: int = 1) -> tuple[float, float]:
    """Return the mean cost of a run, and the half width of its interval by batch means."""
    run = simulate(servo(**options, until=until), seed=seed)
    run.assert_ok()  # SIGTERM ends a run early, and the rest of the batches would be 0
    edges = np.linspace(0.02 * until, until, 41)
    spent = np.interp(edges, np.asarray(run.time), np.asarray(run["servo.spent"]))
    means = np.diff(spent) / np.diff(edges)
    wide = stats.t.ppf(1.0 - 0.5 * CHANCE, len(means) - 1)
    return float(means.mean()), float(wide * means.std(ddof=1) / np.sqrt(len(means)))


TIMINGS: dict[str, dict[str, Any]] = {
    "constant delay": {"compute": 0.03},
    "uniform delay": {"compute": rt.Uniform(0.0, 0.045)},
    "lost samples": {"transport": rt.Loss(rt.Fixed(0), 0.3)},
}


def test_the_cost_is_that_of_a_short_run() -> None:
    options = TIMINGS["uniform delay"]
    mean, half = simulated(options, 400.0)
    found = timed_loop(servo(**options), WEIGHTS).timing_cost()
    assert half < 0.2 * mean
    assert abs(found.cost - mean) < half


@pytest.mark.long
@pytest.mark.parametrize("timing", TIMINGS)
def test_the_cost_is_inside_the_interval_of_a_long_run(timing: str) -> None:
    """The interval is narrow enough to exclude the cost of the loop without this timing."""
    mean, half = simulated(TIMINGS[timing], 12_000.0)
    found = timed_loop(servo(**TIMINGS[timing]), WEIGHTS).timing_cost()
    assert abs(found.cost - mean) < half
    assert abs(timed_loop(servo(), WEIGHTS).timing_cost().cost - mean) > 2.0 * half


@pytest.mark.parametrize("latency", [0, 0.02, 0.07, 0.12])
def test_second_moments_grow_with_the_square_of_the_largest_pole(latency: float) -> None:
    options = {"transport": latency}
    poles = np.abs(open_loop(servo(**options), "pd.voltage").poles())
    largest = max(pole for pole in poles if pole < 1.0 - 1e-9)  # except the integrated cost
    found = timed_loop(servo(**options), WEIGHTS).timing_cost()
    assert found.growth == pytest.approx(largest**2, rel=1e-9)


def test_the_matrices_of_a_scenario_are_those_of_its_components() -> None:
    loop = timed_loop(servo(compute=0.01, transport=rt.Loss(rt.Uniform(0.01, 0.02), 0.1)), WEIGHTS)
    assert loop.plant.states.names == ("angle", "rate")  # nothing depends on the integrated cost
    assert np.allclose(loop.plant.a, [[0, 1], [0, -1]])
    assert np.allclose(loop.plant.b, [[0], [10]])
    assert np.allclose(loop.disturbance, np.diag([0.0, (10 * 0.1) ** 2]))
    assert np.allclose(loop.measurement, np.diag([0.0, 0.002**2 / PERIOD]))  # type: ignore[arg-type]
    assert np.allclose(loop.controller.d, [[-10.0, -10.0]])
    assert np.allclose(loop.controller.c, [[8.0]])
    assert loop.latency == rt.Uniform(0.02, 0.03)
    assert loop.loss == pytest.approx(0.1)
    assert not loop.notes


def test_the_jitter_margin_is_below_the_delay_margin() -> None:
    delay = open_loop(servo(), "pd.voltage").delay_margin(slow=0.01)
    jitter = timed_loop(servo(), WEIGHTS).jitter_margin()
    assert delay is not None
    assert 0.5 * delay.seconds < jitter.seconds < delay.seconds


# -- scenarios without a cost of timing --------------------------------------------------------


def test_a_controller_that_saturates_within_three_deviations_is_not_linear() -> None:
    assert timed_loop(servo(limit=3.0), WEIGHTS).timing_cost().stable
    with pytest.raises(ModelError, match="pd is not linear for the signals of this loop: at 3 "):
        timed_loop(servo(limit=0.3), WEIGHTS).timing_cost()


def with_sensor() -> Scenario:
    out = servo()
    out.sensor("encoder", {"angle": "servo.angle"}, period=PERIOD)
    return out


def with_two_controllers() -> Scenario:
    out = servo()
    out.controller("other", Pd(), period=PERIOD, inputs={"angle": "servo.angle"})
    return out


def on_a_processor() -> Scenario:
    out = Scenario("processor", until=1.0)
    motor = out.plant("servo", Servo(), step=PERIOD)
    out.processor("mcu")
    pd = out.controller("pd", Pd(), period=PERIOD, processor="mcu", execution=0.001)
    out.connect(motor.angle, pd.angle)
    out.connect(pd.voltage, motor.voltage)
    return out


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (with_sensor, "encoder samples signals besides the controller pd"),
        (with_two_controllers, r"2 controllers \(other, pd\)"),
        (on_a_processor, "pd runs on a processor.*compute="),
        (lambda: servo(dust_period=2 * PERIOD), "each value of noise dust several times"),
        (lambda: servo(compute=PERIOD), "misses ticks"),
        (lambda: servo(transport=rt.Gamma(2.0, 0.001)), "random.*Gamma"),
        (lambda: servo(compute=rt.Uniform(0, 0.01), transport=rt.Uniform(0, 0.01)),
         "sum of two random latencies"),
    ],
)  # fmt: skip
def test_a_scenario_that_the_analysis_cannot_represent_is_an_error(
    make: Callable[[], Scenario], reason: str
) -> None:
    with pytest.raises(ModelError, match=reason):
        timed_loop(make(), WEIGHTS)


class InC:
    """A controller whose equations are not known, as C code in another process."""

    inputs, outputs, outside = Signals("angle"), Signals("voltage"), False

    def send(self, tag: Tag, inputs: Vector) -> None:
        """Accept the request."""

    def receive(self, tag: Tag, patience: float) -> Vector:  # noqa: ARG002
        return np.zeros(1)

    def close(self) -> None:
        """Release nothing."""


def test_a_controller_in_c_is_named() -> None:
    out = Scenario("c", until=1.0)
    motor = out.plant("servo", Servo(), step=PERIOD)
    out.controller("pd", InC(), period=PERIOD, inputs={"angle": "servo.angle"})
    out.connect("pd.voltage", motor.voltage)
    with pytest.raises(ModelError, match=r"InC, whose equations are not known.*reference model"):
        timed_loop(out, {"servo.angle": 1.0})


def test_wrong_signals_of_the_cost_are_named() -> None:
    for name in ("motor.angle", "servo.speed"):
        with pytest.raises(UnknownName, match=name.split(".")[1 if "servo" in name else 0]):
            timed_loop(servo(), {name: 1.0})
    with pytest.raises(ScenarioError, match=r"servo\.torque contains white noise"):
        timed_loop(servo(), {"servo.torque": 1.0})


def test_noise_with_a_long_period_is_noted() -> None:
    notes = timed_loop(servo(wind_period=PERIOD), WEIGHTS).notes
    assert notes == ("noise wind is treated as white, but a run holds each value for 0.05 s",)


# -- the command -------------------------------------------------------------------------------


def run(*arguments: str) -> str:
    result = CliRunner().invoke(main, ["linearise", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.long
def test_the_command_prints_the_cost_and_the_jitter_margin() -> None:
    where = f"{Path(__file__)}:servo"
    text = run(where, "--cost", "servo.angle=1", "--cost", "pd.voltage=0.1")
    assert "latency 0 ms, period 50 ms" in text
    assert "jitter margin: 135.0095 ms above a latency of 0 ms" in text
    assert "noise is held constant" not in text
    told = json.loads(run(where, "--cost", "servo.angle=1", "--cost", "pd.voltage=0.1", "--json"))
    wanted = timed_loop(servo(), WEIGHTS).timing_cost()
    assert told["timing_cost"]["cost"] == pytest.approx(wanted.cost)
    assert told["timing_cost"]["stable"]


def test_the_command_names_a_weight_that_is_not_a_number() -> None:
    result = CliRunner().invoke(main, ["linearise", "unstable", "--cost", "plant.x"])
    assert "--cost plant.x: give COMPONENT.SIGNAL=WEIGHT" in result.output


def test_the_cost_of_an_unstable_loop_is_infinite() -> None:
    found = timed_loop(servo(transport=0.16), WEIGHTS)
    assert not found.timing_cost().stable
