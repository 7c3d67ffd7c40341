"""Between two states: exact at the ends, the short way round, and as smooth as can be predicted.

The motion that is drawn: no steps, by the horizon's own pixels, on the whole way to them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pygame
import pytest
from pilot_parts import flight, watched

from rtsim.core.signals import Signal, Signals, Vector
from rtsim.models.f16.aircraft import PILOTED_F16 as F16
from rtsim.models.f16.piloted_scenario import RUNWAY
from rtsim.pilot.interpolation import Interpolation, StatePair, slerp
from rtsim.pilot.loop import Cockpit
from rtsim.pilot.scenes.f16 import F16Scene
from rtsim.pilot.scenes.scene import COCKPIT
from rtsim.pilot.scenes.world import draw_horizon
from rtsim.pilot.shared import Shared
from rtsim.pilot.viewer.state import Picture
from rtsim.scenario.scenario import Scenario
from rtsim.testing.clock import FAKE_START

MS = 1_000_000
STEP = 20 * MS
FRAME_S, STEP_S = 1 / 60, 0.020
SIGNALS = Signals(
    Signal("position", "m", shape=(2,)),
    Signal("velocity", "m/s", shape=(2,), derivative_of="position"),
    Signal("attitude", shape=(4,), kind="quaternion", initial=(1.0, 0.0, 0.0, 0.0)),
    Signal("heading", "deg", kind="angle"),
    Signal("angle", "rad", kind="angle"),
    Signal("spin", "rad/s", derivative_of="angle"),
    Signal("plain", "V"),
)


def pair_of(last: Vector, next_: Vector, k: int = 0, step: int = STEP) -> StatePair:
    """The k-th step, in real time from the wall's 1000 ms on."""
    at = k * step
    wall = 1000 * MS + at
    return StatePair(at, at + step, wall, wall + step, False, last, next_)


def about(axis: int, angle: float) -> Vector:
    """The quaternion that turns by ``angle`` rad about an axis."""
    q = np.zeros(4)
    q[0], q[1 + axis] = math.cos(angle / 2), math.sin(angle / 2)
    return q


def state(**values: object) -> Vector:
    return SIGNALS.initial(values)


def test_the_ends_are_exact() -> None:
    rng = np.random.default_rng(1)
    interpolate = Interpolation(SIGNALS)
    for _ in range(50):
        last, next_ = rng.normal(size=(2, SIGNALS.size))
        for ends in (last, next_):
            ends[4:8] /= np.linalg.norm(ends[4:8])
        pair = pair_of(last, next_)
        assert interpolate.at(pair, 0.0).tobytes() == last.tobytes()
        assert interpolate.at(pair, 1.0).tobytes() == next_.tobytes()
        near = interpolate.at(pair, 1.0 - 1e-12)
        assert near[[0, 1, 2, 3, 8, 10, 11]] == pytest.approx(
            next_[[0, 1, 2, 3, 8, 10, 11]], abs=1e-9
        )
        assert abs(float(near[4:8] @ next_[4:8])) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("before", "after", "middle"),
    [(179.0, -179.0, 180.0), (-170.0, 160.0, 175.0), (10.0, 30.0, 20.0), (-10.0, 10.0, 0.0)],
)
def test_angles_go_the_short_way(before: float, after: float, middle: float) -> None:
    pair = pair_of(
        state(heading=before, angle=math.radians(before)),
        state(heading=after, angle=math.radians(after)),
    )
    got = Interpolation(SIGNALS).at(pair, 0.5)
    assert math.remainder(got[8] - middle, 360.0) == pytest.approx(0.0, abs=1e-9)
    assert math.remainder(got[9] - math.radians(middle), math.tau) == pytest.approx(0.0, abs=1e-9)
    assert -180.0 <= got[8] <= 180.0


def test_a_full_turn_in_degrees_has_no_jump() -> None:
    """Through +-180: no frame differs from the one before by more than its share of a step."""
    interpolate = Interpolation(SIGNALS)
    shown = []
    for k in range(40):
        before, after = (math.remainder(10.0 * (k + d), 360.0) for d in (0, 1))
        pair = pair_of(state(heading=before), state(heading=after), k)
        shown += [interpolate.at(pair, f)[8] for f in (0.0, 0.25, 0.5, 0.75)]
    moved = [math.remainder(b - a, 360.0) for a, b in itertools.pairwise(shown)]
    assert moved == pytest.approx([2.5] * len(moved))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_attitude_turns_at_a_constant_rate_and_the_short_way(sign: float) -> None:
    q, r = about(2, 0.2), sign * about(2, 1.4)
    for f in (0.1, 0.5, 0.9, 1.3):
        got = slerp(q, r, f)
        assert abs(float(got @ about(2, 0.2 + 1.2 * f))) == pytest.approx(1.0)
        assert float(got @ got) == pytest.approx(1.0)
    close = slerp(q, about(2, 0.2 + 1e-9), 0.5)
    assert close == pytest.approx(about(2, 0.2 + 0.5e-9), abs=1e-15)


def test_positions_follow_the_cubic_of_their_derivative() -> None:
    """A cubic is drawn exactly; where the derivative is not known, the straight line."""

    def x(t: float) -> float:
        return 3.0 + 2.0 * t - 50.0 * t**2 + 900.0 * t**3

    def v(t: float) -> float:
        return 2.0 - 100.0 * t + 2700.0 * t**2

    last = state(position=(x(0), 1), velocity=(v(0), 0), angle=3.1, spin=5.0, plain=1)
    end = math.remainder(3.1 + 0.1, math.tau)
    next_ = state(position=(x(STEP_S), 1), velocity=(v(STEP_S), 0), angle=end, spin=5.0, plain=3)
    got = Interpolation(SIGNALS).at(pair_of(last, next_), 0.3)
    assert got[0] == pytest.approx(x(0.3 * STEP_S), rel=1e-12)
    assert got[1] == 1.0
    assert math.remainder(got[9] - 3.13, math.tau) == pytest.approx(0.0, abs=1e-9)
    assert got[11] == pytest.approx(1.6)
    beyond = Interpolation(SIGNALS).at(pair_of(last, next_), 1.5)
    assert beyond[0] == pytest.approx(x(STEP_S) + 0.5 * STEP_S * v(STEP_S))


def shown(signal: str, of: Callable[[float], Vector], ahead: int = 0, frames: int = 240) -> Vector:
    """What 60 frames a second show of ``of(t)`` at a step of 20 ms, (frames, size)."""
    interpolate, rows = Interpolation(SIGNALS), []
    for n in range(frames):
        wall = round(n * 1e9 / 60)
        k = max(0, wall - ahead) // STEP
        pair = pair_of(of(k * STEP_S), of((k + 1) * STEP_S), k)
        rows.append(interpolate.at(pair, pair.fraction(1000 * MS + wall, ahead)))
    return np.array(rows)[:, SIGNALS.slice(signal)]


def second_difference(values: Vector) -> float:
    """The greatest second difference."""
    return float(np.abs(np.diff(np.unwrap(values), 2)).max())


AMPLITUDE, OMEGA = 0.6, 4.0


def rolling(t: float) -> Vector:
    """0.6 rad at 4 rad/s: at most 2.4 rad/s and 9.6 rad/s^2."""
    angle = AMPLITUDE * math.sin(OMEGA * t)
    return state(attitude=about(0, angle), heading=math.degrees(angle), plain=angle)


@pytest.mark.parametrize(("ahead", "factor"), [(0, 1.0), (round(1e9 / 60), 3.0)])
def test_the_horizon_shows_no_steps(ahead: int, factor: float) -> None:
    """A chain of chords bends by a*h at each step: second differences up to a*dt*(dt + h).

    Without interpolation one is as large as the angle of a whole step, rate*h: 5 times as much.
    Shown one frame before the next state is known, a bend is mended as well: 3 times the bound.
    """
    peak = AMPLITUDE * OMEGA**2
    bound = factor * peak * FRAME_S * (FRAME_S + STEP_S)
    q = shown("attitude", rolling, ahead)
    roll = 2.0 * np.arctan2(q[:, 1], q[:, 0])
    assert second_difference(roll) <= bound
    assert second_difference(shown("plain", rolling, ahead)[:, 0]) <= bound
    held = np.array([rolling(math.floor(n / 60 / STEP_S) * STEP_S)[11] for n in range(240)])
    assert second_difference(held) > 4.0 * peak * FRAME_S * (FRAME_S + STEP_S)


def swinging(t: float) -> Vector:
    """A position with its velocity."""
    x, v = 100.0 * math.sin(OMEGA * t), 100.0 * OMEGA * math.cos(OMEGA * t)
    return state(position=(x, 0), velocity=(v, 0))


def test_positions_are_off_by_the_fourth_power_of_the_step() -> None:
    """|x - H| <= h^4 max|x''''| / 384: de Boor, A Practical Guide to Splines."""
    drawn = shown("position", swinging)[:, 0]
    exact = np.array([100.0 * math.sin(OMEGA * round(n * 1e9 / 60) * 1e-9) for n in range(240)])
    bound = STEP_S**4 * 100.0 * OMEGA**4 / 384
    assert np.abs(drawn - exact).max() <= bound
    assert np.abs(np.diff(drawn, 2)).max() <= 1.05 * 100.0 * OMEGA**2 * FRAME_S**2


def test_where_a_moment_of_the_wall_lies() -> None:
    pair = pair_of(state(), state())
    at = [pair.fraction(1000 * MS + d * MS) for d in (-5, 0, 5, 20, 30)]
    assert at == [0.0, 0.0, 0.25, 1.0, 1.0]
    assert pair.fraction(1100 * MS, ahead=5 * MS) == 1.25
    assert pair.fraction(1100 * MS, ahead=500 * MS) == 2.0  # not more than a step
    gone = StatePair(0, STEP, 1000 * MS, 1020 * MS, True, state(), state())
    assert gone.fraction(1100 * MS, ahead=5 * MS) == 1.0
    assert pair.ns(0.25) == 5 * MS
    unpaced = StatePair(0, STEP, 1000 * MS, 1000 * MS, False, state(), state())
    assert unpaced.fraction(0) == 1.0


def test_a_step_of_no_length_divides_by_nothing() -> None:
    pair = StatePair(5, 5, 1, 1, False, state(), state(plain=2))
    interpolate = Interpolation(SIGNALS)
    assert interpolate.at(pair, 0.5)[11] == 1.0
    assert not interpolate.slope(pair).any()


SIZE = (640, 360)
FRAMES = 75
MOTION = F16.states + F16.discrete + F16.inputs + F16.outputs
SEEN = 2.0 / SIZE[0]
"""rad: an area's corners are drawn at whole pixels, at either edge of the picture."""


def banked() -> Scenario:
    """To and fro as fast as it can, at a step of 20 ms."""
    script = [(0.2 * k, (0.0, (-1.0) ** k, 0.0, 0.4)) for k in range(1, 9)]
    return flight(script, step=STEP_S, rate=50.0)


@pytest.fixture(scope="module")
def pairs() -> list[StatePair]:
    return watched(banked(), 2.0)[1]


class Window:
    """What is published goes through shared memory to a picture of the horizon."""

    def __init__(self, pairs: list[StatePair], cockpit: Cockpit) -> None:
        self._pairs = pairs
        self._writer = cockpit.shared.writer("plant/f16")
        self._picture = Picture(Shared.open(cockpit.shared.path))
        self._scene, self._surface = F16Scene({"runway": RUNWAY}), pygame.Surface(SIZE)
        self.rolls: list[float] = []

    def angle(self, frame: int, lead_ns: int) -> float:
        """rad, of the horizon in the picture that is on the screen ``lead_ns`` after its frame."""
        due = FAKE_START + round(frame * FRAME_S * 1e9)
        self._publish(next(p for p in reversed(self._pairs) if p.last_wall <= due))
        self._picture.look()
        body = self._picture.at(due + lead_ns, round(FRAME_S * 1e9))["f16"]
        flown = self._scene.ground.flight(body)
        self.rolls.append(flown.roll)
        camera = self._scene.camera(flown, self._surface, COCKPIT)
        draw_horizon(self._surface, camera)
        self._scene._terrain.draw(self._surface, camera)
        return horizon(self._surface)

    def _publish(self, pair: StatePair) -> None:
        walls = pair.last_wall, pair.next_wall
        self._writer.integers[:] = (pair.last_ns, pair.next_ns, *walls, 0, 0, 0)
        self._writer.floats[:] = np.concatenate((pair.last, pair.next))
        self._writer.publish()


def horizon(surface: pygame.Surface) -> float:
    """The angle of the line between sky and ground; to the right and down is positive."""
    red, blue = pygame.surfarray.array_red(surface), pygame.surfarray.array_blue(surface)
    heights = (blue > red.astype(np.int16) + 20).sum(axis=1)
    x = np.flatnonzero((heights > 0) & (heights < SIZE[1]))
    return -math.atan(float(np.polyfit(x, heights[x], 1)[0]))


def drawn(pairs: list[StatePair], lead_ns: int = 0) -> tuple[Vector, Vector]:
    """The horizon's angle in each frame, and the roll that was to be shown."""
    with Cockpit(banked(), "stick") as cockpit:
        window = Window(pairs, cockpit)
        angles = np.array([window.angle(frame, lead_ns) for frame in range(FRAMES)])
        return angles, np.array(window.rolls)


def bend(angles: Vector) -> float:
    """The greatest second difference."""
    return float(np.abs(np.diff(np.unwrap(angles), 2)).max())


def allowed(pairs: list[StatePair], lead_ns: int = 0) -> float:
    """Chords bend by a*dt*(dt + h) at most, ``a`` being the greatest roll acceleration flown.

    A picture that is on the screen ``e`` after the next state is due goes on along the chord: it
    is off by no more than a*e*(h + e), once to either side.
    """
    rates = np.array([p.last[MOTION.slice("roll_rate")][0] for p in pairs])
    peak, e = float(np.abs(np.diff(rates)).max()) / STEP_S, lead_ns * 1e-9
    bound = peak * (FRAME_S * (FRAME_S + STEP_S) + 2.0 * e * (STEP_S + e))
    return 1.05 * bound


@pytest.mark.parametrize("lead_ns", [0, 4_000_000])
def test_the_drawn_horizon_bends_no_more_than_interpolation_predicts(
    pairs: list[StatePair], lead_ns: int
) -> None:
    angles, rolls = drawn(pairs, lead_ns)
    assert np.abs(angles - rolls).max() < SEEN
    assert np.ptp(angles) > 0.2
    assert bend(angles) <= allowed(pairs, lead_ns)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_picture_of_committed_states_alone_bends_more(
    pairs: list[StatePair], share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last state until the next one is there; or the next as soon as it is known."""
    monkeypatch.setattr(StatePair, "fraction", lambda *_: share)
    angles, _ = drawn(pairs)
    assert bend(angles) > 1.5 * allowed(pairs)
