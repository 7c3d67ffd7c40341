"""The delay margin of the linear model against the latency at which simulated runs begin to grow.

The growth rate of an oscillation is measured at latencies just below and above the margin, and
interpolated to 0.  Both loops agree within 0.1 %.
"""

from __future__ import annotations

import numpy as np
import pytest

from rtsim.linear import Loop, open_loop
from rtsim.models.f16.scenario import scenario as f16
from rtsim.models.unstable import scenario as unstable
from rtsim.scenario.scenario import Scenario
from rtsim.testing.determinism import trace_of

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
    time, values = recording.time(signal.partition(".")[0]) / 1e9, recording[signal]
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
