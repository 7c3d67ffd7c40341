"""What is drawn, and where: the horizon, the flight path, gates; and that nothing jumps.

What the window shows of a pilot's task is what the run has counted.

The moon's picture: where it stands, the track behind it, and that all of it fits.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pygame
import pytest
from pilot_parts import flight, watched

from rtsim.core.signals import Signal, Signals, Vector
from rtsim.equations import earth
from rtsim.models.f16.aircraft import PILOTED_F16 as F16
from rtsim.models.f16.piloted_scenario import RUNWAY, scenario
from rtsim.models.orbit import ORBIT
from rtsim.models.piloting import Tracking, task_named
from rtsim.pilot.interpolation import Interpolation, StatePair
from rtsim.pilot.scenes import hud as flat
from rtsim.pilot.scenes import orbit
from rtsim.pilot.scenes.camera import Camera, axes_of, cut_lines, cut_polygon
from rtsim.pilot.scenes.checking import check_scene
from rtsim.pilot.scenes.f16 import F16Scene, TaskDrawing
from rtsim.pilot.scenes.hud import GREEN, FlightScene, Ground, HeadUp, HudFigures, geodetic, pegged
from rtsim.pilot.scenes.orbit import ARROW, MOON, PLANET, TRACK, OrbitScene
from rtsim.pilot.scenes.scene import CHASE, COCKPIT, SceneMoment, Shown, scene_named
from rtsim.pilot.scenes.strips import StripScene
from rtsim.pilot.scenes.text import Colour
from rtsim.pilot.scenes.tracking import BACK, OWN, TARGET, TrackingScene
from rtsim.pilot.scenes.world import BANDS, SKY, Terrain, draw_horizon
from rtsim.scenario.standard_components import PlantComponent
from rtsim.testing.clock import FAKE_START

SIGNALS = F16.states + F16.discrete + F16.inputs + F16.outputs
FRAME_S, STEP_S = 1 / 60, 0.020


def camera(roll: float = 0.0, pitch: float = 0.0, height: float = 500.0) -> Camera:
    """Angles in deg."""
    axes = axes_of(*map(math.radians, (roll, pitch, 0.0)))
    return Camera(np.array([0.0, 0.0, -height]), axes, 400, 300)


@pytest.fixture
def surface() -> pygame.Surface:
    return pygame.Surface((400, 300))


@pytest.fixture(scope="module")
def shown() -> Shown:
    """The start of a flight by hand, as it is published."""
    _, pairs = watched(scenario(step=0.01), 0.05)
    return at(pairs[0], 0.0)


def at(pair: StatePair, share: float) -> Shown:
    between = Interpolation(SIGNALS)
    return Shown(SIGNALS, between.at(pair, share), between.slope(pair), pair.ns(share))


# -- geometry


def test_constants_are_those_of_the_models() -> None:
    assert flat.EQUATORIAL_RADIUS == earth.EQUATORIAL_RADIUS
    assert flat.FLATTENING == earth.FLATTENING
    assert flat.EARTH_RATE == earth.EARTH_RATE
    assert flat.GRAVITATION == earth.GRAVITATIONAL_PARAMETER


@pytest.mark.parametrize("latitude", [-80.0, 0.0, 36.0, 89.9])
def test_latitude_and_height_of_a_position(latitude: float) -> None:
    x = earth.from_geodetic(
        math.radians(latitude), 1.0, 12000.0, earth.EQUATORIAL_RADIUS, earth.FLATTENING
    )
    found, height = geodetic(np.array(x))
    assert math.degrees(found) == pytest.approx(latitude, abs=1e-9)
    assert height == pytest.approx(12000.0, abs=1e-4)


def test_the_flight_is_that_of_the_models_outputs(shown: Shown) -> None:
    """Place, attitude and velocity from the state, against what the model says of them."""
    found = Ground(RUNWAY[0], RUNWAY[1]).flight(shown)
    assert found.height == pytest.approx(shown["altitude"], abs=1e-3)
    for name in ("roll", "pitch"):
        assert getattr(found, name) == pytest.approx(shown[name], abs=1e-9)
    assert found.heading == pytest.approx(shown["yaw"] % math.tau, abs=1e-9)
    wanted = [shown[f"velocity_{axis}"] for axis in ("north", "east", "down")]
    assert found.velocity == pytest.approx(wanted, abs=1e-6)
    assert found.load == pytest.approx(1.0, abs=0.01)
    away = np.hypot(found.place[0], found.place[1])
    assert away == pytest.approx(9000.0, rel=0.01)
    assert math.degrees(math.atan2(-found.place[1], -found.place[0])) == pytest.approx(45, abs=0.5)


def test_what_lies_ahead_is_in_the_middle_and_what_lies_behind_is_not_drawn() -> None:
    view = camera()
    assert view.direction(np.array([1.0, 0.0, 0.0])) == pytest.approx((200.0, 150.0))
    right = view.direction(np.array([1.0, 0.1, 0.0]))
    assert right is not None
    assert right == pytest.approx((200.0 + 0.1 * view.focal, 150.0))
    assert view.direction(np.array([-1.0, 0.0, 0.0])) is None
    behind = np.array([[[-10.0, 0, 0], [-20.0, 5, 0]]])
    assert view.lines(behind)[0].size == 0
    assert view.areas(np.array([[[-9.0, 0, 0], [-9.0, 9, 0], [-19.0, 9, 0]]])) == []


def test_areas_in_the_picture_come_in_their_order_and_cut_in_front_of_the_eye() -> None:
    """Through the eye, behind it, ahead, beside the picture, and again ahead."""
    square = np.array([[0.0, -1, 0], [0, 1, 0], [1, 1, 0], [1, -1, 0]])
    placed = [square * [99, 9, 0] + [start, east, 0.0] for start, east in (
        (-50.0, 0.0), (-150.0, 0.0), (50.0, 0.0), (50.0, 900.0), (60.0, 0.0)
    )]  # fmt: skip
    found = dict(camera(height=10.0).areas(np.array(placed)))
    assert list(found) == [0, 2, 4]
    assert all(np.isfinite(outline).all() for outline in found.values())
    assert max(y for _, y in found[0]) > 300.0
    assert max(y for _, y in found[2]) == pytest.approx(150.0 + 0.2 * camera().focal)


def _outside(surface: pygame.Surface, view: Camera) -> None:
    draw_horizon(surface, view)
    Terrain().draw(surface, view)


@pytest.mark.parametrize("off", [0.0, 1e-17, 3e-17, 1e-9])
def test_straight_down_there_is_ground_and_straight_up_there_is_sky(
    surface: pygame.Surface, off: float
) -> None:
    """Where the horizon has no direction any more, or hardly one."""
    for up, colour in ((-1.0, BANDS[-1][1]), (1.0, SKY)):
        axes = np.array([[off, 0.0, -up], [0.0, 1.0, off], [up, 0.0, off]])
        _outside(surface, Camera(np.zeros(3), axes, 400, 300))
        assert (pygame.surfarray.array3d(surface) == colour).all()


def test_lines_are_cut_at_the_edges_of_the_picture() -> None:
    """Against their points; far out, beside it, along its edges, and of no length."""
    rng = np.random.default_rng(5)
    ends = rng.normal(size=(2000, 2, 2)) * 10.0 ** rng.uniform(1, 7, size=(2000, 1, 1)) + 150.0
    ends[::7, 1, 0] = ends[::7, 0, 0]
    ends[::11, 1] = ends[::11, 0]
    parts, which = cut_lines(ends, 400, 300)
    assert 300 < len(which) < 1700
    assert (parts > -16.001).all()
    assert (parts < (416.001, 316.001)).all()
    shares = np.linspace(0.0, 1.0, 4001)[:, np.newaxis, np.newaxis]
    points = ends[:, 0] + shares * (ends[:, 1] - ends[:, 0])
    inside = np.all((points >= -16.0) & (points <= (416.0, 316.0)), axis=2)
    assert set(np.flatnonzero(inside.any(axis=0))) <= set(which.tolist())
    for k, (start, end) in zip(which, parts, strict=True):
        along = ends[k, 1] - ends[k, 0]
        for at in (start, end):
            off = at - ends[k, 0]
            assert abs(along[0] * off[1] - along[1] * off[0]) <= 1e-6 * (1.0 + along @ along)
        seen = points[inside[:, k], k]
        if len(seen):  # nothing of what is inside is lost
            low, high = np.minimum(start, end), np.maximum(start, end)
            assert (seen.min(axis=0) >= low - 1e-6).all()
            assert (seen.max(axis=0) <= high + 1e-6).all()


def test_bands_leave_no_seam_between_them(surface: pygame.Surface) -> None:
    """However the picture is rolled, no sky shows below the horizon."""
    for roll in range(0, 180, 7):
        view = camera(roll, -20.0, height=0.0)
        _outside(surface, view)
        seen = pygame.surfarray.array3d(surface).reshape(-1, 3)
        x = (np.indices((400, 300)).reshape(2, -1).T - [200.0, 150.0]) / view.focal
        ahead, right, down = view.axes[:, 2]
        below = ahead + x @ [right, down] > 0.02
        assert below.any()
        assert not (seen[below] == SKY).all(axis=1).any()


def test_a_line_through_the_eye_is_cut_in_front_of_it() -> None:
    pixels, kept = camera(height=10.0).lines(np.array([[[-100.0, 0, 0], [100.0, 0, 0]]]))
    assert kept.tolist() == [0]
    assert np.isfinite(pixels).all()
    assert pixels[0, 1, 0] == pytest.approx(200.0)
    assert pixels[0, 1, 1] > 150.0


@pytest.mark.parametrize(
    ("roll", "pitch", "sky", "ground"),
    [
        (0, 0, (200, 20), (200, 280)),
        (90, 0, (20, 150), (380, 150)),
        (-90, 0, (380, 150), (20, 150)),
        (180, 0, (200, 280), (200, 20)),
        (0, 60, (200, 280), None),
        (0, -60, None, (200, 20)),
    ],
)
def test_sky_and_ground_are_on_their_sides(
    surface: pygame.Surface,
    roll: float,
    pitch: float,
    sky: tuple[int, int] | None,
    ground: tuple[int, int] | None,
) -> None:
    """A roll to the right lifts the ground on the right."""
    _outside(surface, camera(roll, pitch))
    if sky is not None:
        red, _, blue, _ = surface.get_at(sky)
        assert blue > red + 40
    if ground is not None:
        red, green, blue, _ = surface.get_at(ground)
        assert green > blue


def test_the_horizon_is_where_it_should_be_to_the_pixel(surface: pygame.Surface) -> None:
    for pitch in (-5.0, 0.0, 7.5):
        view = camera(pitch=pitch)
        _outside(surface, view)
        row = 150 + view.focal * math.tan(math.radians(pitch))
        column = [surface.get_at((200, y)) for y in range(300)]
        first = next(y for y, c in enumerate(column) if c[1] > c[2])
        assert first == pytest.approx(row, abs=1.0)


def test_a_polygon_cut_to_nothing_and_not_cut() -> None:
    square = [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)]
    assert cut_polygon(square, [x + 1 for x, _ in square]) == square
    assert cut_polygon(square, [x - 2 for x, _ in square]) == []
    half = cut_polygon(square, [x - 0.5 for x, _ in square])
    assert sorted(map(tuple, half)) == [(0.5, 0.0), (0.5, 1.0), (1.0, 0.0), (1.0, 1.0)]


# -- whole pictures


@pytest.mark.sample(2)
@pytest.mark.parametrize("view", [COCKPIT, CHASE])
@pytest.mark.parametrize("size", [(1280, 720), (160, 120), (400, 900)])
def test_a_picture_is_not_black_at_any_size(shown: Shown, view: str, size: tuple[int, int]) -> None:
    surface = pygame.Surface(size)
    F16Scene({"runway": RUNWAY}).draw(surface, SceneMoment({"f16": shown}, view, {"throttle": 0.5}))
    pixels = pygame.surfarray.array3d(surface)
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 30
    assert (pixels.sum(axis=2) < 30).mean() < 0.2


@pytest.mark.parametrize("attitude", [(0, 90, 0), (180, -90, 0), (37, 89.9, 200), (-120, -45, 359)])
def test_no_attitude_is_too_much(shown: Shown, attitude: tuple[float, float, float]) -> None:
    """At the zenith there is no heading, and nobody minds."""
    scene, surface = F16Scene({}), pygame.Surface((320, 180))
    found = scene.ground.flight(shown)
    axes = axes_of(*map(math.radians, attitude))
    turned = FlightScene(found.place, axes, found.velocity, found.load)
    for view in (COCKPIT, CHASE):
        scene.ground.flight = lambda body: turned  # type: ignore[method-assign] # noqa: ARG005
        scene.draw(surface, SceneMoment({"f16": shown}, view))


def test_below_the_ground_and_far_away(shown: Shown) -> None:
    surface = pygame.Surface((320, 180))
    for change in ((0.0, 0.0, -2000.0), (3e5, 3e5, 0.0)):
        values = shown.values.copy()
        values[:3] += change
        moved = Shown(SIGNALS, values, shown.slope, shown.ns)
        F16Scene({}).draw(surface, SceneMoment({"f16": moved}))


def test_any_other_run_shows_its_signals(shown: Shown, surface: pygame.Surface) -> None:
    scene = scene_named("", {})
    assert isinstance(scene, StripScene)
    scene.draw(surface, SceneMoment({"f16": shown}))
    assert len(np.unique(pygame.surfarray.array2d(surface))) > 20
    assert isinstance(scene_named("f16", {}), F16Scene)
    assert SKY[2] > SKY[0]


# -- motion


def test_the_horizon_of_a_slow_simulation_shows_no_steps() -> None:
    """F-16 at a step of 20 ms, 60 frames a second, rolling to and fro as fast as it can.

    Drawn is a chain of chords: second differences are at most a*dt*(dt + h) for roll
    accelerations up to a, which are read from the states.  Not interpolated, one is a whole step.
    """
    script = [(0.2 * k, (0.0, (-1.0) ** k, 0.0, 0.4)) for k in range(1, 9)]
    out = flight(script, step=STEP_S, rate=50.0)
    assert isinstance(out.component("f16"), PlantComponent)
    _, pairs = watched(out, 2.0)
    rates = np.array([p.last[SIGNALS.slice("roll_rate")][0] for p in pairs])
    peak = float(np.abs(np.diff(rates)).max()) / STEP_S
    drawn = unwrapped([horizon(pairs, n, True) for n in range(115)])
    held = unwrapped([horizon(pairs, n, False) for n in range(115)])
    bound = peak * FRAME_S * (FRAME_S + STEP_S)
    assert np.ptp(drawn) > 0.2
    assert np.abs(np.diff(drawn, 2)).max() <= 1.05 * bound
    assert np.abs(np.diff(held, 2)).max() > 1.05 * bound


def horizon(pairs: list[StatePair], frame: int, between: bool) -> float:
    """The drawn horizon's angle in a frame, rad."""
    wall = FAKE_START + round(frame * 1e9 / 60)
    pair = next(p for p in reversed(pairs) if p.last_wall <= wall)
    body = at(pair, pair.fraction(wall) if between else 0.0)
    found = Ground(RUNWAY[0], RUNWAY[1]).flight(body)
    return math.atan2(found.axes[1, 2], found.axes[2, 2])


def unwrapped(angles: list[float]) -> Vector:
    return np.unwrap(np.array(angles))


def test_a_rung_of_the_ladder_lies_at_its_elevation() -> None:
    """5 deg above the horizon, 4 deg beside the nose, also in a bank."""
    surface = pygame.Surface((800, 600))
    axes = axes_of(math.radians(30), math.radians(2), math.radians(70))
    found = FlightScene(np.array([0.0, 0.0, -500.0]), axes, np.array([100.0, 0.0, 0.0]), 1.0)
    view = Camera(found.place, axes, 800, 600)
    HeadUp().draw(surface, view, found, HudFigures(100.0, 0.0, 0.3))
    up, beside = math.radians(5), math.tan(math.radians(4))
    north, east = math.cos(math.radians(70)), math.sin(math.radians(70))
    c, s = math.cos(up), math.sin(up)
    at = view.direction(np.array([c * north - beside * east, c * east + beside * north, -s]))
    assert at is not None
    x, y = map(round, at)
    near = [
        tuple(surface.get_at((x + i, y + k)))[:3] for i in (-1, 0, 1) for k in (-2, -1, 0, 1, 2)
    ]
    assert near.count(GREEN) > 0


def test_there_are_fields_that_stay_where_they_are() -> None:
    """The same colours from two places: seen from above, moved by just one cell."""
    pictures = []
    for north in (0.0, 500.0):
        surface = pygame.Surface((300, 300))
        axes = axes_of(0.0, math.radians(-89.9), 0.0)
        view = Camera(np.array([north, 0.0, -1500.0]), axes, 300, 300)
        _outside(surface, view)
        pictures.append(pygame.surfarray.array3d(surface))
    assert len(np.unique(pictures[0].reshape(-1, 3), axis=0)) > 4
    cell = round(500.0 / 1500.0 * view.focal)
    first, second = pictures[0][:, : 300 - cell], pictures[1][:, cell:]
    assert (first != second).any(axis=2).mean() < 0.05


def test_the_earth_turns_below() -> None:
    """After two seconds the place is still that of the model's latitude and longitude."""
    _, pairs = watched(scenario(step=0.02), 2.0)
    body = at(pairs[-1], 0.0)
    ground = Ground(RUNWAY[0], RUNWAY[1])
    wanted = ground.place(body["latitude"], body["longitude"], body["altitude"])
    assert ground.flight(body).place == pytest.approx(wanted, abs=0.01)


@pytest.mark.parametrize(
    ("nose", "sides"),
    [
        ((0.0, 0.0, 0.0), (0, 0)),  # in the picture
        ((0.0, 0.0, 1.2), (-1, 0)),  # the path is far to the left of the nose
        ((0.0, 0.9, 0.0), (0, 1)),  # far below
        ((0.0, 0.0, math.pi - 0.1), (-1, 0)),  # behind
        ((0.0, 0.0, math.pi), (0, 1)),  # exactly behind
    ],
)
def test_the_flight_path_marker_stays_at_the_edge(
    nose: tuple[float, float, float], sides: tuple[int, int]
) -> None:
    camera = Camera(np.zeros(3), axes_of(*nose), 640, 360)
    x, y, outside = pegged(camera, np.array([200.0, 0.0, 0.0]), (640, 360), 12.0)
    assert outside == (sides != (0, 0))
    assert 12.0 <= x <= 628.0
    assert 12.0 * 3.8 - 1e-9 <= y <= 336.0
    if outside:
        assert x == pytest.approx({-1: 12.0, 0: 320.0}[sides[0]], abs=30.0)
        assert y == pytest.approx({0: 180.0, 1: 336.0}[sides[1]], abs=30.0)


ABOUT: dict[str, Any] = {"axes": ["pitch"], "display": "compensatory", "rms": [0.02]}


def scene_shown(values: dict[str, float]) -> SceneMoment:
    numbers = np.array(list(values.values()))
    task = Shown(Signals(*values), numbers, np.zeros_like(numbers), 0)
    return SceneMoment({"task": task})


def tracked(error: float, target: float = 0.0) -> SceneMoment:
    return scene_shown({"pitch_error": error, "pitch_target": target, "pitch_centre": 0.1})


def height_of(surface: pygame.Surface, colour: tuple[int, int, int]) -> float:
    """Return the mean height of the pixels of ``colour`` above the middle, pixels."""
    pixels = pygame.surfarray.array3d(surface)
    rows = np.nonzero((pixels == colour).all(axis=2))[1]
    assert len(rows)
    return float(surface.get_height() / 2 - rows.mean())


@pytest.mark.parametrize("display", ["compensatory", "pursuit"])
def test_the_scene_of_tracking_passes_the_check(display: str) -> None:
    about = {**ABOUT, "display": display}
    check_scene(TrackingScene, [tracked(0.01), tracked(0.02)], about)
    check_scene(TrackingScene, [SceneMoment({})], {})


def test_a_compensatory_display_shows_the_error_and_nothing_else() -> None:
    surface = pygame.Surface((640, 360))
    TrackingScene(ABOUT).draw(surface, tracked(0.02, target=0.5))
    first = pygame.surfarray.array3d(surface).copy()
    assert height_of(surface, TARGET) == pytest.approx(45.0, abs=3.0)
    TrackingScene(ABOUT).draw(surface, tracked(0.02, target=-0.3))
    assert np.array_equal(first, pygame.surfarray.array3d(surface))
    TrackingScene(ABOUT).draw(surface, tracked(-0.02))
    assert height_of(surface, TARGET) == pytest.approx(-45.0, abs=3.0)
    TrackingScene(ABOUT).draw(surface, tracked(np.nan))
    assert not (pygame.surfarray.array3d(surface) == TARGET).all(axis=2).any()


def test_a_pursuit_display_shows_target_and_answer_around_the_centre() -> None:
    surface, scene = pygame.Surface((640, 360)), TrackingScene({**ABOUT, "display": "pursuit"})
    scene.draw(surface, tracked(0.03, target=0.12))
    assert height_of(surface, TARGET) == pytest.approx(45.0, abs=3.0)
    assert height_of(surface, OWN) == pytest.approx(-22.0, abs=3.0)
    assert list(surface.get_at((2, 200)))[:3] == list(BACK)


def test_gates_are_shown_as_the_run_has_counted_them() -> None:
    gates = task_named("gates").shown()
    drawing = TaskDrawing(gates, 0.0)
    assert drawing.text(SceneMoment({})) == "gate 1/14"
    signals = Signals("next", "missed", Signal("passed", shape=(14,), initial=(0.0,) * 14))
    values = np.array([3.0, 1.0, 1.0, 0.0, 1.0, *(0.0,) * 11])
    task = Shown(signals, values, np.zeros_like(values), 0)
    drawing._follow(task)
    assert drawing.course.passed[:4] == [True, False, True, False]
    assert drawing.text(SceneMoment({"task": task})) == "gate 4/14, missed 1"
    between = Shown(signals, values - 0.4, np.zeros_like(values), 0)  # an interpolated picture
    drawing._follow(between)
    assert drawing.course.next == 2


def test_the_text_of_other_tasks() -> None:
    drawing = TaskDrawing({}, 0.0)
    assert drawing.text(scene_shown({"glide_error": 0.26, "course_error": -0.1})) == (
        "GS +0.3, LOC -0.1"
    )
    assert drawing.text(scene_shown({"along_error": -3.2, "across_error": 4.0})) == (
        "fwd -3, right +4"
    )
    assert drawing.text(SceneMoment({})) == ""
    tracking = task_named("pitch-tracking")
    assert isinstance(tracking, Tracking)
    assert tracking.shown()["display"] == "compensatory"


SIZE = (400, 300)


def moment(turn: float, distance: float = 1.0) -> SceneMoment:
    """On a circle, ``turn`` rad from the start; the time goes with it."""
    x, y = distance * math.cos(turn), distance * math.sin(turn)
    values = np.array([x, y, -0.2 * y, 0.2 * x])
    return SceneMoment({"moon": Shown(ORBIT.states, values, np.zeros(4), round(turn * 1e9))})


def near(surface: pygame.Surface, at: tuple[float, float], colour: Colour, within: int) -> bool:
    """Whether there is a pixel of about that colour."""
    x, y = map(round, at)
    area = pygame.Rect(x - within, y - within, 2 * within + 1, 2 * within + 1)
    pixels = pygame.surfarray.array3d(surface.subsurface(area.clip(surface.get_rect())))
    return bool((np.abs(pixels.astype(int) - colour).max(axis=2) < 30).any())


@pytest.mark.parametrize("turn", [0.0, 1.0, math.pi, 4.4])
def test_planet_in_the_middle_moon_where_it_is(turn: float) -> None:
    scene, surface = OrbitScene({}), pygame.Surface(SIZE)
    scene.draw(surface, moment(turn))
    assert near(surface, (200, 150), PLANET, 8)
    at = scene.pixel(surface, math.cos(turn), math.sin(turn))
    assert at == pytest.approx((200 + 125 * math.cos(turn), 150 - 125 * math.sin(turn)))
    assert near(surface, at, MOON, 4)
    other = scene.pixel(surface, -math.cos(turn), -math.sin(turn))
    assert not near(surface, other, MOON, 4)


def test_the_velocity_points_along_the_motion() -> None:
    """At the right end of a circle that is run through against the clock: up."""
    scene, surface = OrbitScene({}), pygame.Surface(SIZE)
    scene.draw(surface, moment(0.0))
    x, y = scene.pixel(surface, 1.0, 0.0)
    assert near(surface, (x, y - 30), ARROW, 2)
    assert not near(surface, (x, y + 30), ARROW, 2)


def test_the_track_lies_behind_and_goes_with_the_past() -> None:
    scene, surface = OrbitScene({}), pygame.Surface(SIZE)
    for k in range(61):
        scene.draw(surface, moment(k / 60 * 2.0))
    behind = scene.pixel(surface, math.cos(1.84), math.sin(1.84))
    ahead = scene.pixel(surface, math.cos(3.0), math.sin(3.0))
    assert near(surface, behind, TRACK, 3)
    assert not near(surface, ahead, TRACK, 3)
    scene.draw(surface, moment(0.5))  # back
    assert not near(surface, behind, TRACK, 3)


def test_all_of_an_orbit_fits_and_nothing_is_too_much() -> None:
    scene, surface = OrbitScene({}), pygame.Surface(SIZE)
    for distance in (1.0, 50.0, 1e-3, 1e9):
        scene.draw(surface, moment(1.0, distance))
        x, y = scene.pixel(surface, distance * math.cos(1.0), distance * math.sin(1.0))
        assert surface.get_rect().collidepoint(x, y)
    values: Vector = np.array([0.0, 0.0, 0.0, 0.0])
    for k, broken in enumerate((values, values + math.nan)):
        shown = Shown(ORBIT.states, broken, values, 10**10 + k)
        OrbitScene({}).draw(pygame.Surface((160, 120)), SceneMoment({"moon": shown}))


@pytest.mark.parametrize("distance", [0.2, 0.99999999, 1.0, 1.99, 2.0, 4.9, 5.0, 9.99, 3.8e8])
def test_there_are_some_rings_and_not_many(
    distance: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Just below a power of ten there is room for their figures too."""
    rings: list[str] = []
    monkeypatch.setattr(orbit, "write", lambda surface, text, *_: rings.append(text))  # noqa: ARG005
    OrbitScene({}).draw(pygame.Surface(SIZE), moment(0.3, distance))
    del rings[-3:]  # the figures
    assert 2 <= len(rings) <= 6
    assert float(rings[-1]) <= 1.2 * distance
    assert float(rings[-1]) + float(rings[0]) > 1.2 * distance * 0.999


def test_it_is_chosen_by_its_name() -> None:
    assert isinstance(scene_named("orbit", {"plant": "moon"}), OrbitScene)
