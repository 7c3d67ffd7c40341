"""The gust of the F-16, and the study of dispersed flights."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rtsim.models.f16.dispersed import study
from rtsim.models.f16.plant import gust_shape
from rtsim.record.reading import Recording
from rtsim.record.replay_comparison import compare_exact
from rtsim.scenario.loading import load_scenario
from rtsim.studies import MonteCarlo, start
from rtsim.testing.determinism import trace_of

START, LASTS = 6.0, 1.2


def flown(**settings: float) -> Recording:
    scenario = load_scenario("f16", {"case": "13.1"})
    for name, value in settings.items():
        scenario.set(f"f16.{name}", value)
    return trace_of(scenario, until=8)


@pytest.fixture(scope="module")
def calm() -> Recording:
    return flown()


def test_the_shape_is_one_minus_cosine() -> None:
    times = np.linspace(START - 1.0, START + LASTS + 1.0, 3201)
    shape = np.array([gust_shape(t, START, LASTS) for t in times])
    inside = (times > START) & (times < START + LASTS)
    assert not shape[~inside].any()
    expected = np.sin(math.pi * (times[inside] - START) / LASTS) ** 2
    np.testing.assert_allclose(shape[inside], expected, rtol=0, atol=1e-12)
    assert gust_shape(START + LASTS / 2, START, LASTS) == 1.0


def test_without_a_speed_of_the_air_the_flight_is_equal_bit_for_bit(calm: Recording) -> None:
    assert compare_exact(calm, flown(gust_start=START, gust_duration=LASTS)) is None


@pytest.mark.parametrize("axis", ["y", "z"])
def test_the_gust_changes_the_flow_angles_by_its_speed(calm: Recording, axis: str) -> None:
    """At its peak, by gust / airspeed, but for the answer of the aircraft until then."""
    peak = -0.5
    gusty = flown(**{f"gust_{axis}": peak, "gust_start": START, "gust_duration": 0.02})
    seconds = calm.time("f16") / 1e9
    angle = {"y": "beta", "z": "alpha"}[axis]
    before = seconds < START
    assert (gusty[f"f16.{angle}"][before] == calm[f"f16.{angle}"][before]).all()
    at = int(np.searchsorted(seconds, START + 0.01))
    change = gusty[f"f16.{angle}"][at] - calm[f"f16.{angle}"][at]
    assert change == pytest.approx(-peak / calm["f16.airspeed"][at], rel=0.02)
    other = {"y": "alpha", "z": "beta"}[axis]
    assert abs(gusty[f"f16.{other}"][at] - calm[f"f16.{other}"][at]) < 0.02 * abs(change)


def test_a_gust_from_below_lifts_the_aircraft(calm: Recording) -> None:
    seconds = calm.time("f16") / 1e9
    at = int(np.searchsorted(seconds, START + LASTS))
    for speed in (-10.0, 10.0):
        gusty = flown(gust_z=speed, gust_start=START, gust_duration=LASTS)
        lifted = gusty["f16.altitude"][at] - calm["f16.altitude"][at]
        assert 1.0 < lifted * math.copysign(1.0, -speed) < 10.0


def test_the_dispersed_flights_are_a_study(tmp_path: Path) -> None:
    assert study().runs == 10_000
    rows = (
        start("f16", tmp_path / "out", replace(study(), design=MonteCarlo(12))).table().to_pylist()
    )
    assert {row["state"] for row in rows} == {"ok"}
    assert len({row["digest"] for row in rows}) == 12
    assert all(5.0 < row["settled"] < 12.0 and row["error"] < 25.0 for row in rows)
    assert all(4.0 < row["alpha"] < 10.0 for row in rows)
