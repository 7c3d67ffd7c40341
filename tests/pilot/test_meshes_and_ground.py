"""Meshes from files, and the ground: as they are declared, sent and drawn."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from vehicle_parts import SIZE, about, moment, picture, sky

from rtsim.core.errors import ScenarioError
from rtsim.gateway.shapes import KIND_COLOURS, ground_triangles, solid_of
from rtsim.pilot.scenes.bodies import BodyScene
from rtsim.pilot.scenes.camera import Camera
from rtsim.pilot.scenes.scene import COCKPIT
from rtsim.pilot.scenes.world import Relief, is_closed
from rtsim.scenario.body import MOST_TRIANGLES, RUNWAY, Body, Ground, GroundGrid, Mesh
from rtsim.scenario.scenario import Scenario

# -- meshes

ARROW = """
v 0 0 0
v 2 0 0
v 0 1 0
v 0 0 3
f 1 2 3
f 1 2 4
f 1 3 4
f 2 3 4
"""


def test_a_mesh_is_turned_to_body_axes_and_travels_without_its_file(tmp_path: Path) -> None:
    """2 long forward, 1 to the left and 3 up, as the file's axes x, y and z say."""
    (file := tmp_path / "arrow.obj").write_text(ARROW)
    mesh = Mesh(file)
    low, high = (f(mesh.corners.reshape(-1, 3), axis=0).tolist() for f in (np.min, np.max))
    assert (low, high) == ([0.0, -1.0, -3.0], [2.0, 0.0, 0.0])
    turned = Mesh(file, forward="-z", up="+y", scale=0.1)
    low, high = (f(turned.corners.reshape(-1, 3), axis=0).tolist() for f in (np.min, np.max))
    assert low == pytest.approx([-0.3, 0.0, -0.1])
    assert high == pytest.approx([0.0, 0.2, 0.0])
    body = Body("it", north_east_down=(0, 0, 0), euler=(0, 0, 0), shape=mesh)
    assert body.length == 2.0
    file.unlink()
    again = Body.from_plain(body.to_plain())
    assert again == body
    assert again.shape == mesh != turned
    shown = moment(0, 0, -9, 0, 0, 0.3)
    assert (picture(BodyScene(about(mesh)), shown) != picture(BodyScene(about()), shown)).any()


def test_of_a_closed_mesh_only_the_outside_is_drawn() -> None:
    """A surface with a hole, or with its normals inwards, is drawn from both sides."""
    trimesh = pytest.importorskip("trimesh")
    ball = np.asarray(trimesh.creation.icosphere(subdivisions=2).triangles)
    assert is_closed(ball)
    assert not is_closed(ball[1:])
    assert not is_closed(ball[:, ::-1])
    assert is_closed(np.concatenate([ball, ball + 5.0])), "two balls"
    assert not is_closed(np.concatenate([ball, ball])), "each edge belongs to four triangles"
    assert not is_closed(solid_of("box", 1.0).corners)


def test_a_mesh_of_gltf_has_its_own_axes_and_colours(tmp_path: Path) -> None:
    trimesh = pytest.importorskip("trimesh")
    box = trimesh.creation.box((1.0, 2.0, 4.0))  # right, up, forward
    box.visual.face_colors = (10, 200, 30, 255)
    box.export(tmp_path / "box.glb")
    mesh = Mesh(tmp_path / "box.glb")
    assert np.ptp(mesh.corners.reshape(-1, 3), axis=0).tolist() == pytest.approx([4.0, 1.0, 2.0])
    assert mesh.colours.tolist() == [[10, 200, 30]] * 12


def test_a_mesh_says_what_is_wrong_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trimesh = pytest.importorskip("trimesh")
    (arrow := tmp_path / "arrow.obj").write_text(ARROW)
    (tmp_path / "no.xyz").write_text("")
    (tmp_path / "empty.obj").write_text("v 0 0 0\n")
    (tmp_path / "broken.glb").write_bytes(b"glTF, they say")
    trimesh.creation.icosphere(subdivisions=4).export(tmp_path / "ball.stl")
    for given, told in (
        ({"file": "none.obj"}, "none.obj cannot be read: No such file.*Path.__file__.*"),
        ({"file": "no.xyz"}, "the format '.xyz' is unknown; give a file .obj, "),
        ({"file": "empty.obj"}, "has 0 triangles; expected 1 to 2000"),
        ({"file": "broken.glb"}, "broken.glb cannot be read: "),
        ({"file": "ball.stl"}, f"has 5120 triangles; expected 1 to {MOST_TRIANGLES}. Reduce"),
        ({"file": "arrow.obj", "up": "top"}, "axis 'top' is unknown; give one of"),
        ({"file": "arrow.obj", "up": "-x"}, "are on one axis; give two axes"),
        ({"file": "arrow.obj", "scale": -1.0}, "scale -1.0 is out of range"),
        ({"file": "arrow.obj", "scale": 9e5}, "coordinates that are infinite, NaN, or at least"),
    ):
        with pytest.raises(ScenarioError, match=told):
            Mesh(**{**given, "file": tmp_path / str(given["file"])})  # type: ignore[arg-type]
    plain = Mesh(arrow).to_plain()
    for change in ({"triangles": 10**9}, {"triangles": 5}, {"data": "!"}, {"data": "AAAA"}):
        with pytest.raises(ScenarioError, match="the data is not a mesh"):
            Mesh.from_plain({**plain, **change})
    monkeypatch.setitem(sys.modules, "trimesh", None)
    (other := tmp_path / "other.obj").write_text(ARROW)
    with pytest.raises(ScenarioError, match=r"needs the package trimesh.*rtsim\[mesh\]"):
        Mesh(other)


def flat_grid(height: float = 0.0, kind: int = 0) -> GroundGrid:
    axis = np.arange(-1000.0, 1001.0, 100.0)
    return GroundGrid(axis, axis, np.full((21, 21), height), np.full((20, 20), kind, np.uint8))


# -- ground


def test_a_ground_travels_as_plain_data_and_says_what_is_wrong() -> None:
    rng = np.random.default_rng(1)
    axis = np.cumsum(rng.uniform(1.0, 9.0, 40))
    height, kind = rng.uniform(-50, 900, (40, 40)), rng.integers(0, 6, (39, 39), np.uint8)
    ground = Ground(GroundGrid(axis, axis, height, kind), 36.0, -75.0)
    again = Ground.from_plain(ground.to_plain())
    assert np.abs(again.grid.height - height).max() <= 0.0051
    assert (again.grid.kind == kind).all()
    assert (again.latitude, again.longitude) == (36.0, -75.0)
    with pytest.raises(ValueError, match="read-only"):
        ground.grid.height[0, 0] = 1.0
    for change, told in (
        ({"north": axis[::-1]}, "north must be finite and increase"),
        ({"north": axis[:5]}, r"height has the shape \(40, 40\); expected \(5, 40\)"),
        ({"north": np.arange(600.0)}, "2 to 513 points"),
        ({"height": np.full((40, 40), np.nan)}, "height has values that are not finite"),
        ({"kind": np.full((39, 39), 6)}, "give only the known kinds: 0 grass, 1 field"),
        ({"kind": "x"}, "kind is not an array of numbers"),
    ):
        given: Mapping[str, Any] = {"north": axis, "east": axis, "height": height, "kind": kind}
        with pytest.raises(ScenarioError, match=told):
            GroundGrid(**{**given, **change})
    plain = ground.to_plain()
    for wrong in ({}, {"height": "AA"}, {"north": "x"}, {"kind": plain["grid"]["height"]}):
        with pytest.raises(ScenarioError, match="not a gr"):
            Ground.from_plain({"grid": {**plain["grid"], **wrong} if wrong else None})
    with pytest.raises(ScenarioError, match="give both latitude and longitude"):
        Ground(ground.grid, latitude=3.0)
    with pytest.raises(ScenarioError, match="the ground is declared twice"):
        Scenario("any", until=1).show(ground, ground)


def test_heights_are_those_of_a_plane_between_the_points() -> None:
    axis = np.array([-300.0, -100.0, 50.0, 400.0])
    north, east = np.meshgrid(axis, axis, indexing="ij")
    plane = Relief(
        GroundGrid(axis, axis, 0.1 * north - 0.2 * east + 7.0, np.zeros((3, 3), np.uint8))
    )
    for x, y in ((0.0, 0.0), (-299.0, 399.0), (49.0, 51.0)):
        assert plane.height(x, y) == pytest.approx(0.1 * x - 0.2 * y + 7.0)
    assert plane.height(401.0, 0.0) == 0.0


def test_the_ground_hides_what_is_behind_a_hill_and_shows_its_kinds() -> None:
    """From above a cell of the runway; from 50 m, a ridge of 200 m ahead covers the horizon."""
    below = {"ground": Ground(flat_grid(kind=RUNWAY)).to_plain()}
    shown = moment(0, 0, -300, 0, -1.5, 0, view=COCKPIT)
    pixels = picture(BodyScene(about("aircraft", **below)), shown)[150:250, 240:330]
    assert np.abs(pixels - KIND_COLOURS[RUNWAY].astype(int)).max(axis=2).mean() < 25
    axis = np.arange(-2000.0, 2001.0, 100.0)
    height = np.zeros((41, 41))
    height[25:27] = 200.0
    ridge = Ground(GroundGrid(axis, axis, height, np.zeros((40, 40), np.uint8)))
    ahead = moment(0, 0, -50, 0, 0.1, 0, view=COCKPIT)
    flat = sky(picture(BodyScene(about("aircraft")), ahead))
    high = sky(picture(BodyScene(about("aircraft", ground=ridge.to_plain())), ahead))
    assert flat[200:440].sum() > 1.3 * high[200:440].sum()


def test_low_over_the_ground_patches_move_past() -> None:
    """At 6 m the picture changes with each metre; at 1000 m a plain cell is one colour."""
    ground = {"ground": Ground(flat_grid()).to_plain()}
    for height, patches in ((6.0, True), (1000.0, False)):
        scene, pictures = BodyScene(about("aircraft", **ground)), []
        for north in (0.0, 3.0):
            shown = moment(north, 0, -height, 0, -0.2, 0, view=COCKPIT)
            pictures.append(picture(scene, shown)[20:620, 290:])
        assert (pictures[0] != pictures[1]).any() == patches


def test_the_number_of_drawn_cells_hardly_depends_on_the_size_of_the_grid() -> None:
    counts = []
    for many in (65, 513):
        axis: Any = np.arange(many) * 50.0 - 25.0 * (many - 1)
        kind = np.zeros((many - 1, many - 1), np.uint8)
        relief = Relief(GroundGrid(axis, axis, np.zeros((many, many)), kind))
        camera = Camera(np.array([0.0, 0.0, -100.0]), np.eye(3), *SIZE)
        corners, _ = relief.around(camera)
        counts.append(len(corners))
        area = (np.ptp(corners[..., 0], axis=1) * np.ptp(corners[..., 1], axis=1)).sum()
        assert area == pytest.approx((50.0 * (many - 1)) ** 2), "each place is covered once"
    assert counts[1] < 3 * counts[0] < 6000


def test_other_viewers_receive_the_same_ground_as_triangles() -> None:
    axis = np.arange(-1000.0, 1001.0, 10.0)
    north, east = np.meshgrid(axis, axis, indexing="ij")
    kind = np.zeros((200, 200), np.uint8)
    kind[:100] = RUNWAY
    corners, colours = ground_triangles(GroundGrid(axis, axis, 0.1 * north - 0.2 * east, kind))
    assert len(corners) == len(colours) <= 2 * 64 * 64
    x, y, z = np.moveaxis(corners, 2, 0)
    assert z == pytest.approx(0.1 * y - 0.2 * x)
    assert (colours[(y < -40.0).all(axis=1)] == KIND_COLOURS[RUNWAY]).all()
    across = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    assert (across[:, 2] > 0.0).all(), "all are seen from above"
    assert 0.5 * across[:, 2].sum() == pytest.approx(2000.0**2)
