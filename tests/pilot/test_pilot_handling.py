"""The F-16 by hand against published criteria of flying qualities, from scripted sticks.

The criteria are those of MIL-F-8785C (1980), "Flying qualities of piloted airplanes", Level 1, for
an airplane of class IV (a fighter) in flight phase category A (air combat, ground attack).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from pilot_parts import Script, flight
from scipy.optimize import least_squares

from rtsim.core.clock import stopwatch
from rtsim.core.signals import Vector
from rtsim.linear import margins, open_loop
from rtsim.record.file import FileRecorder
from rtsim.record.reading import Recording
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.replay import rerun
from rtsim.runs.simulation import simulate
from rtsim.scenario.loading import load_scenario

CAP = 0.28, 3.6
"""3.2.2.1.1, figure 1: control anticipation parameter, 1/(g s2)."""
SHORT_PERIOD_DAMPING = 0.35, 1.30
"""3.2.2.1.2, table IV."""
SHORT_PERIOD_LEAST = 1.0
"""3.2.2.1.1, figure 1: least frequency of the short period, rad/s."""
ROLL_TIME = 1.0
"""3.3.1.2, table VII: greatest time constant of the roll mode, s."""
DUTCH_ROLL = 0.4, 0.4, 1.0
"""3.3.1.1, table VI (air combat): least damping, damping times frequency, frequency (rad/s)."""
RESPONSE_DELAY = 0.1
"""3.5.3, table XIV: greatest delay of the response to the stick, s."""
PULLED = 1.0
"""When the scripted stick moves, s."""
TURNS_ABOUT = 1.7
"""From the centre of mass forward to the place that the elevator's lift leaves at rest, m; the
criteria are about the load factor there."""
SPEEDS = [(250.0, 0.1), (250.0, 0.3), (335.0, 0.3), (335.0, -0.5), (450.0, 0.5)]


@dataclass
class Flown:
    """A flight, with one row for each time."""

    time: Vector
    rec: Recording

    def __getitem__(self, name: str) -> Vector:
        return self.rec[f"f16.{name}"]

    def at(self, name: str, seconds: float) -> float:
        return float(np.interp(seconds, self.time, self[name]))


@pytest.fixture
def fly(tmp_path: Path):  # type: ignore[no-untyped-def]
    def flown(script: Script, until: float, **settings: float) -> Flown:
        path = tmp_path / "flight.mcap"
        path.unlink(missing_ok=True)
        simulate(flight(script, **settings), until=until, recorder=FileRecorder(path, stopwatch))
        rec = Recording.open(path)
        return Flown(rec.time, rec)

    return flown


def second_order(t: Vector, omega: float, zeta: float, delay: float) -> Vector:
    """The step response of a second-order system with a delay, by its two poles."""
    t = np.maximum(t - delay, 0.0)
    root = omega * np.sqrt(complex(zeta * zeta - 1.0) + 1e-9)
    fast, slow = -zeta * omega - root, -zeta * omega + root
    return np.real(1.0 + (slow * np.exp(fast * t) - fast * np.exp(slow * t)) / (fast - slow))


@pytest.mark.sample(2)
@pytest.mark.parametrize(("knots", "stick"), SPEEDS)
def test_the_load_factor_follows_the_stick_as_level_1_demands(fly, knots, stick) -> None:  # type: ignore[no-untyped-def]
    script = [(PULLED, (stick, 0.0, 0.0, 0.3))]
    flown = fly(script, PULLED + 2.0, speed_kt=knots)
    asked = stick * (6.0 if stick > 0 else 2.5)
    after = flown.time - PULLED
    load = flown["load_factor"] - flown.at("load_factor", PULLED)
    assert np.interp(1.0, after, load) / asked > 0.9
    assert (load / asked).max() < 1.15
    pitch = np.gradient(flown["pitch_rate"], flown.time)
    reached = (load + TURNS_ABOUT / 9.80665 * pitch) / asked
    moved = after > 0.0

    def off(guess: Vector) -> Vector:
        gain, *figures = guess
        return np.array(gain * second_order(after[moved], *figures) - reached[moved])

    gain, omega, zeta, delay = least_squares(off, (1.0, 4.0, 0.8, 0.05)).x
    cap = (pitch[moved] / asked).max() / gain
    print(
        f"{knots} kt {stick}: CAP {cap:.2f}, {omega:.2f} rad/s, damping {zeta:.2f}, {delay:.3f} s"
    )
    assert CAP[0] < cap < CAP[1]
    assert SHORT_PERIOD_DAMPING[0] < zeta < SHORT_PERIOD_DAMPING[1]
    assert omega > SHORT_PERIOD_LEAST
    assert delay < RESPONSE_DELAY


@pytest.mark.parametrize("knots", [250.0, 450.0])
def test_the_roll_mode_is_as_fast_as_level_1_demands(fly, knots) -> None:  # type: ignore[no-untyped-def]
    flown = fly([(PULLED, (0.0, 0.3, 0.0, 0.3))], PULLED + 1.5, speed_kt=knots)
    rate, after = flown["roll_rate"], flown.time - PULLED
    final = float(rate[after > 1.2].mean())
    assert final == pytest.approx(0.9, rel=0.1)
    moved = (after > 0.0) & (after < 1.0)

    def off(guess: Vector) -> Vector:
        constant, delay = guess
        fitted = final * (1.0 - np.exp(-np.maximum(after[moved] - delay, 0.0) / constant))
        return np.asarray(fitted - rate[moved])

    constant, delay = least_squares(off, (0.3, 0.05)).x
    print(f"{knots} kt: roll mode {constant:.2f} s, delay {delay:.3f} s")
    assert 0.1 < constant < ROLL_TIME
    assert delay < RESPONSE_DELAY


@pytest.mark.parametrize("knots", [250.0, 450.0])
def test_loops_have_margins_and_the_dutch_roll_is_damped(knots: float) -> None:
    scenario = load_scenario("f16-by-hand", {"speed_kt": str(knots)})
    for surface in ("elevator", "rudder"):
        loop = open_loop(scenario, f"by_wire.{surface}")
        found = margins(loop.system, feedback=1.0, slow=0.05)
        assert found.stable
        assert found.phase_deg > 45.0
        assert found.gain_high > 2.0  # 6 dB
        assert found.delay > RESPONSE_DELAY
    least, product, frequency = DUTCH_ROLL
    swings = [p for p in loop.closed_loop().poles if 2.5 < p.frequency < 7.0 and p.rate.imag > 0]
    (dutch,) = [p for p in swings if -p.rate.real < 0.8 * p.frequency]
    print(f"{knots} kt: Dutch roll {dutch.frequency:.2f} rad/s, damping {dutch.damping:.2f}")
    assert dutch.damping > least
    assert dutch.damping * dutch.frequency > product
    assert dutch.frequency > frequency


FULL = {
    "aft": (1.0, 0.0), "forward": (-1.0, 0.0),
    "aft and right": (1.0, 1.0), "forward and right": (-1.0, 1.0), "right": (0.0, 1.0),
}  # fmt: skip


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("way", "knots"),
    [
        *((way, 300.0) for way in FULL),
        ("forward and right", 200.0),
        *(pytest.param(way, 450.0, marks=pytest.mark.full) for way in FULL),
    ],
)
def test_a_stick_at_its_stop_stays_within_the_limits(fly, way: str, knots: float) -> None:  # type: ignore[no-untyped-def]
    pitch, roll = FULL[way]
    flown = fly([(0.5, (pitch, roll, 0.0, 0.8))], 8.0, altitude_ft=10_000.0, speed_kt=knots)
    alpha, load = np.degrees(flown["alpha"]), flown["load_factor"]
    assert -8.5 < alpha.min() <= alpha.max() < 22.0
    assert -2.7 < load.min() <= load.max() < 7.2
    assert np.abs(np.degrees(flown["beta"])).max() < 8.0
    if pitch > 0:
        assert load.min() > 0.8  # a roll must not push the nose down
    if roll and pitch:  # the roll rate is reduced, so that the pitch axis keeps its control power
        assert np.abs(flown["roll_rate"]).max() < 2.0


def test_the_lowest_angle_of_attack_holds_for_half_a_minute(fly) -> None:  # type: ignore[no-untyped-def]
    flown = fly([(0.5, (-1.0, 0.0, 0.0, 0.3))], 30.0, altitude_ft=10_000.0, speed_kt=180.0)
    assert np.degrees(flown["alpha"]).min() > -8.5


@pytest.mark.parametrize("seed", [1, *(pytest.param(k, marks=pytest.mark.full) for k in (7, 11))])
def test_a_stick_thrown_about_does_not_leave_controlled_flight(fly, seed: int) -> None:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(seed)
    script = [
        (0.7 * k, (*rng.choice((-1.0, 0.0, 1.0), 2), rng.choice((-0.5, 0.0, 0.5)), 0.8))
        for k in range(1, 42)
    ]
    flown = fly(script, 30.0, altitude_ft=15_000.0, speed_kt=300.0 + 15 * seed)
    alpha = np.degrees(flown["alpha"])
    assert -9.0 < alpha.min() <= alpha.max() < 24.0
    assert -5.0 < flown["load_factor"].min() <= flown["load_factor"].max() < 9.0
    assert np.abs(np.degrees(flown["beta"])).max() < 11.0


@pytest.mark.full  # another aircraft to compile
def test_in_severe_turbulence_the_stick_at_rest_holds_the_altitude(fly) -> None:  # type: ignore[no-untyped-def]
    flown = fly([], 10.0, turbulence=1e-5)
    assert 0.1 < flown["load_factor"].std() < 1.0
    assert np.abs(np.degrees(flown["roll"])).max() < 20.0
    assert np.ptp(flown["altitude"]) < 40.0
    assert compare_exact(flown.rec, rerun(flown.rec)) is None
