"""The F-16 by hand: what a stick asks for is what it does, and a flight replays bit for bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pilot_parts import flight

from rtsim.core.clock import stopwatch
from rtsim.record.file import FileRecorder
from rtsim.record.reading import Recording
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.replay import rerun
from rtsim.runs.simulation import simulate

REST = (0.0, 0.0, 0.0, 0.3)


def flown(path: Path, *script: tuple[float, tuple[float, ...]], until: float) -> Recording:
    recorder = FileRecorder(path, stopwatch)
    simulate(flight(script, step=0.01), until=until, recorder=recorder)
    return Recording.open(path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "flight.mcap"


def test_with_the_stick_at_rest_it_flies_straight(path: Path) -> None:
    rec = flown(path, until=20)
    assert np.ptp(rec.track("f16").column("altitude")) < 3.0
    assert np.abs(rec.track("f16").column("roll")).max() < 0.01
    assert np.ptp(rec.track("f16").column("yaw")) < 0.01


def test_a_turn_with_the_stick_released_holds_height_and_bank(path: Path) -> None:
    rec = flown(path, (1.0, (0.0, 1.0, 0.0, 0.2)), (1.25, (0.0, 0.0, 0.0, 0.2)), until=10)
    time = rec.track("f16").ns / 1e9
    roll = np.degrees(rec.track("f16").column("roll")[time > 3])
    assert 25 < roll.min() <= roll.max() < 45
    assert np.ptp(roll) < 5
    assert np.ptp(rec.track("f16").column("altitude")) < 30
    assert np.abs(np.degrees(rec.track("f16").column("beta"))).max() < 2


def test_full_stick_rolls_as_asked_and_does_not_slip(path: Path) -> None:
    rec = flown(path, (0.5, (0.0, 1.0, 0.0, 0.3)), until=2.5)
    time = rec.track("f16").ns / 1e9
    assert rec.track("f16").column("roll_rate")[time > 1.5] == pytest.approx(3.0, rel=0.15)
    assert np.abs(np.degrees(rec.track("f16").column("beta"))).max() < 6


def test_full_aft_stick_meets_the_limit_of_the_angle_of_attack(path: Path) -> None:
    rec = flown(path, (0.5, (1.0, 0.0, 0.0, 1.0)), until=10)
    alpha = np.degrees(rec.track("f16").column("alpha"))
    assert 15 < alpha.max() < 22
    assert np.abs(np.degrees(rec.track("f16").column("beta"))).max() < 5


@pytest.mark.long
def test_two_minutes_of_a_wild_stick_replay_bit_for_bit(path: Path) -> None:
    rng = np.random.default_rng(6)
    script = [
        (0.1 * k, (*rng.uniform(-0.6, 0.6, 2), rng.uniform(-0.3, 0.3), rng.uniform(0.2, 0.8)))
        for k in range(1, 1200)
    ]
    recorder = FileRecorder(path, stopwatch)
    high = flight(script, step=0.02, rate=50.0, altitude_ft=25_000.0)
    simulate(high, until=120, recorder=recorder)
    rec = Recording.open(path)
    assert len(rec.track("inputs/stick").ns) == len(script)
    assert compare_exact(rec, rerun(rec)) is None


def test_a_sideslip_dies_out_when_the_pedals_are_released(path: Path) -> None:
    rec = flown(path, (0.5, (0.0, 0.0, 0.5, 0.3)), (2.5, REST), until=6)
    time, beta = rec.track("f16").ns / 1e9, np.degrees(rec.track("f16").column("beta"))
    assert 4.0 < np.abs(beta[time < 2.6]).max() < 6.5  # the law helps the fin: 7.7 if it did not
    assert np.abs(beta[time > 4.5]).max() < 0.35
