"""Bodies in space, as viewers are shown them: placed by signals, on the Earth's ellipsoid."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest

from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.equations.earth import EARTH_PARAMETERS, geodetic
from rtsim.gateway.shapes import BodyTrail, World, placed_bodies, to_quaternion, triangles
from rtsim.models.unstable import scenario as unstable
from rtsim.scenario.body import Body

SIGNALS = [
    {"name": "plane.latitude", "unit": "rad"},
    {"name": "plane.longitude", "unit": "deg"},
    {"name": "plane.altitude", "unit": "ft"},
    {"name": "plane.roll", "unit": "rad"},
    {"name": "plane.pitch", "unit": "rad"},
    {"name": "plane.yaw", "unit": "rad"},
]
PLANE = Body(
    "plane",
    geodetic=("plane.latitude", "plane.longitude", "plane.altitude"),
    euler=("plane.roll", "plane.pitch", "plane.yaw"),
)


def _pose(latitude: float, longitude: float, feet: float, *turn: float, world: World) -> Any:
    (body,) = placed_bodies([PLANE], SIGNALS)
    row = [latitude, math.degrees(longitude), feet, *turn]
    return body.pose(np.array(row), world)


def _turn(q: tuple[float, float, float, float], v: Any) -> Any:
    """v, rotated by (x, y, z, w)."""
    axis, w = np.array(q[:3]), q[3]
    return np.array(v) + 2.0 * np.cross(axis, np.cross(axis, v) + w * np.array(v))


def test_where_it_is_seen_first_is_the_origin_and_the_axes_are_east_north_up() -> None:
    world = World()
    first = _pose(0.6, -1.3, 10_000.0, 0.0, 0.0, 0.0, world=world)
    assert first.position == pytest.approx([0.0, 0.0, 0.0])
    assert first.location == pytest.approx((0.6, -1.3, 3048.0))
    assert _turn(first.rotation, (1, 0, 0)) == pytest.approx([0, 1, 0]), "its nose to the north"
    assert _turn(first.rotation, (0, 1, 0)) == pytest.approx([1, 0, 0]), "right wing to the east"
    assert _turn(first.rotation, (0, 0, 1)) == pytest.approx([0, 0, -1])
    north = _pose(0.6 + 1e-5, -1.3, 10_000.0, 0, 0, math.pi / 2, world=world)
    assert north.position == pytest.approx([0.0, 63.6, 0.0], abs=0.5)
    assert _turn(north.rotation, (1, 0, 0)) == pytest.approx([1, 0, 0], abs=1e-4), "nose east"
    up = _pose(0.6, -1.3, 10_100.0, 0, 0.3, 0, world=world)
    assert up.position == pytest.approx([0.0, 0.0, 30.48], abs=1e-6)
    assert _turn(up.rotation, (1, 0, 0)) == pytest.approx([0, math.cos(0.3), math.sin(0.3)])
    banked = _pose(0.6, -1.3, 10_000.0, 0.4, 0, 0, world=world)
    assert _turn(banked.rotation, (0, 1, 0))[2] == pytest.approx(-math.sin(0.4)), "right wing down"


def test_places_are_those_of_the_models_earth() -> None:
    chance, world = random.Random(1), World()
    _pose(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, world=world)
    p = dict(zip(EARTH_PARAMETERS.names, EARTH_PARAMETERS.initial(), strict=True))
    for _ in range(50):
        latitude, longitude = chance.uniform(-1.57, 1.57), chance.uniform(-3.1, 3.1)
        pose = _pose(latitude, longitude, 5000.0, 0, 0, 0, world=world)
        east, north, up = pose.position  # seen from latitude 0, longitude 0
        x, y, z = up + p["equatorial_radius"], east, north
        sine, _, altitude = geodetic(x, y, z, p["equatorial_radius"], p["flattening"])
        assert sine == pytest.approx(math.sin(latitude), abs=1e-9)
        assert altitude == pytest.approx(5000.0 * 0.3048, abs=1e-3)
        assert math.atan2(y, x) == pytest.approx(longitude, abs=1e-9)


def test_around_the_pole_the_nose_turns_evenly_though_yaw_jumps() -> None:
    """A ring at 89.95 deg, flown eastwards: a circle of 5.6 km, tangent to it all the way."""
    world, radius = World(), 0.0
    points, noses = [], []
    for k in range(360):
        pose = _pose(math.radians(89.95), math.radians(k - 180), 0.0, 0, 0, math.pi / 2,
                     world=world)  # fmt: skip
        points.append(pose.position)
        noses.append(_turn(pose.rotation, (1, 0, 0)))
    centre = np.mean(points, axis=0)
    radius = float(np.linalg.norm(points[0] - centre))
    assert radius == pytest.approx(5585.0, rel=1e-3)
    for k in range(360):
        assert np.linalg.norm(points[k] - centre) == pytest.approx(radius, rel=1e-3)
        step = points[(k + 1) % 360] - points[k - 1]
        assert float(noses[k] @ step) == pytest.approx(float(np.linalg.norm(step)), rel=1e-6)


def test_north_east_down_and_a_quaternion() -> None:
    names = ("boat.n", "boat.e", "boat.d", "boat.w", "boat.x", "boat.y", "boat.z")
    rows = [{"name": n, "unit": "m" if k < 3 else "1"} for k, n in enumerate(names)]
    body = Body("boat", north_east_down=names[:3], quaternion=names[3:])
    (boat,) = placed_bodies([body], rows)
    half = math.radians(45.0)
    values = np.array([100.0, 20.0, -5.0, math.cos(half), 0.0, 0.0, math.sin(half)])
    pose = boat.pose(values, World())
    assert pose is not None
    assert pose.position.tolist() == [20.0, 100.0, 5.0]
    assert pose.location is None
    assert _turn(pose.rotation, (1, 0, 0)) == pytest.approx([1, 0, 0]), "yaw 90 deg: east"
    values[1] = math.nan
    assert boat.pose(values, World()) is None


def test_every_rotation_comes_back_from_its_quaternion() -> None:
    chance = random.Random(2)
    for _ in range(300):
        q = np.array([chance.gauss(0, 1) * (chance.random() > 0.3) + 1e-9 for _ in range(4)])
        q /= np.linalg.norm(q)
        matrix = np.column_stack([_turn(tuple(q), v) for v in np.eye(3)])
        assert abs(float(np.array(to_quaternion(matrix)) @ q)) == pytest.approx(1.0)


def test_a_body_says_what_is_wrong_with_it() -> None:
    where, turned = PLANE.geodetic, PLANE.euler
    with pytest.raises(
        ScenarioError, match="position is missing or given twice; give geodetic= with 3"
    ):
        Body("plane", euler=turned)
    with pytest.raises(ScenarioError, match="given twice"):
        Body("plane", geodetic=where, north_east_down=where, euler=turned)
    with pytest.raises(ScenarioError, match="attitude is missing or given twice"):
        Body("plane", geodetic=where, euler=turned[:2])
    with pytest.raises(UnknownName, match="unknown shape 'ball'"):
        Body("plane", geodetic=where, euler=turned, shape="ball")
    with pytest.raises(ScenarioError, match="is not an identifier"):
        Body("the plane", geodetic=where, euler=turned)
    with pytest.raises(ScenarioError, match="length"):
        Body("plane", geodetic=where, euler=turned, length=math.nan)
    with pytest.raises(UnknownName, match=r"unknown signal 'plane\.height'"):
        placed_bodies([Body("p", geodetic=(*where[:2], "plane.height"), euler=turned)], SIGNALS)
    with pytest.raises(
        ScenarioError, match=r"plane\.altitude has the unit \[ft\]; expected one of"
    ):
        placed_bodies([Body("p", geodetic=where, euler=(*turned[:2], "plane.altitude"))], SIGNALS)
    assert Body.from_plain(PLANE.to_plain()) == PLANE


def test_a_scenario_shows_bodies_and_copies_show_them_too() -> None:
    scenario = unstable()
    scenario.show(PLANE)
    assert scenario.copy().bodies == (PLANE,)


def test_a_track_keeps_the_whole_flight_in_bounded_points() -> None:
    track = BodyTrail(spacing=1.0, most=100)
    for k in range(100_000):
        track.add(np.array([k * 0.5, 0.0, 0.0]))
    points = track.points(np.array([50_000.0, 0.0, 0.0]))
    assert 50 <= len(points) <= 101
    assert points[0].tolist() == [0.0, 0.0, 0.0]
    assert points[-1][0] == 50_000.0
    gaps = np.diff([p[0] for p in points[:-1]])
    assert gaps.min() == gaps.max(), "evenly spaced"
    track.clear()
    assert len(track.points(points[0])) == 1


@pytest.mark.parametrize("shape", ["aircraft", "box", "car", "quadcopter"])
def test_shapes_are_triangles_as_long_as_said(shape: str) -> None:
    corners, colours = triangles(shape, 15.0)
    assert len(corners) == len(colours)
    corners = corners.reshape(-1, 3)
    assert len(corners) % 3 == 0
    assert np.ptp(corners[:, 0]) == pytest.approx(15.0, rel=0.15)
    assert np.ptp(corners[:, 1]) > 0 < np.ptp(corners[:, 2])
