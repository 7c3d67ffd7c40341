"""Any vehicle in three dimensions: the scene, and the views of its windows.

What a scenario declares of vehicles, and what of it is refused.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pygame
import pytest
from click.testing import CliRunner
from vehicle_parts import BODY, SIZE, about, moment, picture, sky

from rtsim.cli.main import main
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.signals import Signals
from rtsim.equations.model import Model
from rtsim.gateway.shapes import solid_of
from rtsim.pilot.playback import Playback
from rtsim.pilot.processes import Window
from rtsim.pilot.scenes.bodies import BodyScene
from rtsim.pilot.scenes.camera import Camera, axes_of
from rtsim.pilot.scenes.checking import check_scene
from rtsim.pilot.scenes.hud import declared
from rtsim.pilot.scenes.scene import CHASE, COCKPIT, SIGNALS, views_of
from rtsim.pilot.scenes.world import SUN, TOWARDS_SUN, draw_sky
from rtsim.pilot.viewer.overlay import STEP, Look
from rtsim.pilot.views import read_viewpoint
from rtsim.scenario.body import SHAPES, Body
from rtsim.scenario.scenario import Scenario
from rtsim.scenario.shown import Cue, Hud
from rtsim.testing.determinism import trace_of

# -- the scene


@pytest.mark.parametrize("shape", SHAPES)
def test_the_scene_of_each_shape_keeps_the_rules_of_scenes(shape: str) -> None:
    moments = [moment(0, 0, -20, 0, 0, 0), moment(20, 0, -21, 0.4, 0.1, 0.2, ns=10**9)]
    check_scene(BodyScene, moments, about(shape))


@pytest.mark.parametrize("view", [COCKPIT, CHASE])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_body_is_drawn_in_the_chase_view_alone(shape: str, view: str) -> None:
    """Without it the picture is another: around the middle, from behind."""
    shown = moment(0, 0, -20, 0, 0, 0.3, view=view)
    with_it = picture(BodyScene(about(shape)), shown)
    hidden = solid_of("box", 1e-3)
    scene = BodyScene(about(shape))
    scene.draw(pygame.Surface(SIZE), shown)
    assert scene._drawn is not None
    scene._drawn[0].shape = type(scene._drawn[0].shape)(
        type(hidden)(1e-6 * hidden.corners, hidden.colours, solid_of(shape, SHAPES[shape]).eye,
                     solid_of(shape, SHAPES[shape]).on_ground)
    )  # fmt: skip
    different = (with_it != picture(scene, shown)).any(axis=2)
    assert different.any() == (view == CHASE)
    if view == CHASE:
        x, y = (float(np.median(k)) for k in np.nonzero(different))
        assert (x, y) == pytest.approx((320, 210), abs=40)


@pytest.mark.parametrize(
    ("roll", "pitch", "above", "below"),
    [
        (0.0, 0.0, True, False),
        (math.pi, 0.0, False, True),
        (0.0, 1.5, True, True),
        (0.0, -1.5, False, False),
    ],
)
def test_attitudes_show_sky_and_ground_where_they_are(
    roll: float, pitch: float, above: bool, below: bool
) -> None:
    shown = moment(0, 0, -800, roll, pitch, 0.5, view=COCKPIT)
    pixels = sky(picture(BodyScene(about("aircraft")), shown))
    assert (pixels[200:440, 60:100].mean() > 0.8) == above
    assert (pixels[200:440, 270:330].mean() > 0.8) == below


def test_a_bank_tilts_the_horizon_to_the_other_side() -> None:
    """With the right wing down, the ground fills the right side of the picture."""
    shown = moment(0, 0, -800, 0.8, 0.0, 0.0, view=COCKPIT)
    pixels = sky(picture(BodyScene(about("aircraft")), shown))
    assert pixels[60:120, 80:130].mean() > 0.9
    assert pixels[520:580, 230:280].mean() < 0.1


def test_the_sun_is_where_it_is_said_to_be() -> None:
    surface = pygame.Surface(SIZE)
    azimuth = math.atan2(TOWARDS_SUN[1], TOWARDS_SUN[0])
    for roll in (0.0, 2.0):
        axes = axes_of(roll, -math.asin(TOWARDS_SUN[2]), azimuth)
        draw_sky(surface, Camera(np.array([0.0, 0.0, -500.0]), axes, *SIZE))
        assert tuple(surface.get_at((320, 180)))[:3] == SUN
    away = axes_of(0.0, 0.0, azimuth + math.pi)
    draw_sky(surface, Camera(np.array([0.0, 0.0, -500.0]), away, *SIZE))
    assert not (pygame.surfarray.array3d(surface) == SUN).all(axis=2).any()


def test_left_front_and_right_make_one_picture_without_a_gap() -> None:
    scene, edges = BodyScene(about("aircraft")), []
    for name in ("left", "front", "right"):
        look = read_viewpoint(name).look
        shown = moment(0, 0, -800, 0.3, 0.05, 0.0, view=COCKPIT, look=look)
        edges.append(sky(picture(scene, shown))[[0, -1]])
    (_, left), (first, last), (right, _) = edges
    for one, other in ((left, first), (last, right)):
        assert 40 < one.sum() < 320, "the horizon crosses the edge"
        assert abs(int(one.sum()) - int(other.sum())) <= 3


def test_page_down_follows_the_next_body_and_signals_are_strips() -> None:
    second = {**BODY.to_plain(), "name": "second", "north_east_down": [500.0, "a.e", "a.d"]}
    both = {"bodies": [BODY.to_plain(), second]}
    scene = BodyScene(both)
    assert views_of(scene) == (CHASE, COCKPIT, SIGNALS)
    assert views_of(BodyScene({**both, "view": COCKPIT}))[0] == COCKPIT
    shown = moment(0, 0, -20, 0, 0, 0.3)
    first = picture(scene, shown)
    assert (first != picture(scene, shown.seen(CHASE, 1))).mean() > 0.05
    assert (first == picture(scene, shown.seen(CHASE, 2))).all(), "there are two bodies"
    strips = picture(scene, shown.seen(SIGNALS, 0))
    assert (strips == np.array((26, 32, 40))).all(axis=2).mean() > 0.3, "the paper of strips"


def test_a_body_of_another_component_is_named_and_left_out() -> None:
    other = {**BODY.to_plain(), "name": "other", "north_east_down": ["law.n", "a.e", "a.d"]}
    with_it = picture(BodyScene({"bodies": [BODY.to_plain(), other]}), moment(0, 0, -9, 0, 0, 0))
    without = picture(BodyScene({"bodies": [BODY.to_plain()]}), moment(0, 0, -9, 0, 0, 0))
    assert (with_it[:, :30] != without[:, :30]).any(), "a note says what is missing"
    assert (with_it[:, 80:] == without[:, 80:]).mean() > 0.99


# -- the window


def test_looking_around_settles_where_it_was_ordered() -> None:
    look = Look(read_viewpoint("right").look)
    assert look.at(0.0) == pytest.approx((math.radians(70.0), 0.0))
    look.order("look_left")
    look.order("look_up")
    between = look.at(0.02)
    assert math.radians(70.0) > between[0] > math.radians(70.0) - STEP
    assert look.at(9.0) == pytest.approx((math.radians(55.0), STEP), abs=1e-3)
    for _ in range(20):
        look.order("look_up")
    assert look.at(9.0)[1] == pytest.approx(math.pi / 2, abs=1e-3)
    look.order("look_ahead")
    assert look.at(9.0) == pytest.approx((math.radians(70.0), 0.0), abs=1e-3)


def test_the_window_that_looks_ahead_has_the_stick() -> None:
    windows = Window(views=("left", "front", "35deg"), frames=Path("p")).each()
    assert [w.view for w in windows] == ["front", "35deg", "left"]
    assert [w.without_stick for w in windows] == [False, True, True]
    assert [w.quiet for w in windows] == [False, True, True]
    assert [str(w.frames) for w in windows] == ["p/front", "p/35deg", "p/left"]
    assert "--view=35deg" in windows[1].arguments()
    assert Window(frames=Path("p")).each() == [Window(frames=Path("p"))]


@pytest.mark.parametrize(
    ("views", "told"),
    [
        (["--view", "left", "--view", "left"], "give each time another view"),
        (["--view", "--view", "left"], "give each time another view"),
        (["--view", "-190deg"], "no such view; give one of front, left, right"),
        (["--view=sideways"], "no such view; give one of front, left, right"),
        (["--view", "tcp://127.0.0.1:5", "--view", "left"], "leave the other --view options out"),
    ],
)
def test_views_that_do_not_go_together_are_refused(views: list[str], told: str) -> None:
    result = CliRunner().invoke(main, ["run", "orbit", *views, "--headless", "--no-record"])
    assert result.exit_code == 2
    assert told in result.stderr.replace("\n", " ")


def test_an_unknown_view_is_named() -> None:
    assert read_viewpoint("-35deg").yaw == -35.0
    assert read_viewpoint("") == read_viewpoint("front").__class__()
    with pytest.raises(ScenarioError, match="--view sideways: no such view"):
        read_viewpoint("sideways")
    with pytest.raises(UnknownName, match="unknown shape 'boat'"):
        Body("it", north_east_down=(0, 0, 0), euler=(0, 0, 0), shape="boat")


# -- the declaration


def test_elements_are_signals_negatives_of_signals_and_numbers() -> None:
    body = Body("it", north_east_down=("a.n", 7.0, "-a.e"), euler=(0.0, 0.0, "a.yaw"), shape="car")
    assert body.signals == ("a.n", "a.e", "a.yaw")
    assert body.length == 4.5
    assert Body.from_plain(body.to_plain()) == body
    scene = BodyScene({"bodies": [body.to_plain()]})
    shown = moment(3.0, 5.0, math.nan, math.nan, math.nan, 0.0)
    assert len(np.unique(picture(scene, shown).reshape(-1, 3), axis=0)) > 30
    assert scene._drawn is not None
    values = shown.plants["a"].values
    seen = scene._drawn[0].seen(values, 0.0 * values, scene._world)  # type: ignore[arg-type]
    assert seen is not None
    assert seen.at.place.tolist() == [3.0, 7.0, -5.0]
    with pytest.raises(ScenarioError, match="nan gives no position or attitude; write"):
        Body("it", north_east_down=(math.nan, 0.0, 0.0), euler=(0.0, 0.0, 0.0))


def motion(t: float, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
    dx[0] = x[1]
    dx[1] = -9.81


FALLING = Model("fall", Signals("height [m] = 9", "speed [m/s]"), derivative=motion)


def falling(*items: Any) -> Scenario:
    out = Scenario("fall", until=0.02)
    out.plant("stone", FALLING, step=0.01)
    out.show(*items)
    return out


STONE = Body("stone", north_east_down=(0.0, 0.0, "-stone.height"), euler=(0.0, 0.0, 0.0))


@pytest.mark.parametrize(
    ("item", "told"),
    [
        (Body("it", north_east_down=("stone.hight", 0, 0), euler=(0, 0, 0)),
         "unknown signal 'stone.hight' in body it; did you mean stone.height"),
        (Body("it", north_east_down=("stone.speed", 0, 0), euler=(0, 0, 0)),
         r"body it: signal stone.speed has the unit \[m/s\]; expected one of m"),
        (Hud("stone.sped"), "unknown signal 'stone.sped' in hud; did you mean stone.speed"),
        (Cue("low", "stone.hight", horn=1.0), "unknown signal 'hight' in cue low, stone"),
    ],
)  # fmt: skip
def test_each_command_refuses_a_wrong_signal_because_build_does(item: Any, told: str) -> None:
    with pytest.raises(ScenarioError, match=told):
        falling(item).build()
    with pytest.raises(ScenarioError, match=told):
        trace_of(falling(item))


def test_a_number_of_the_display_says_what_is_wrong_with_it() -> None:
    assert Hud.from_plain(Hud("a.b", unit="km/h", factor=3.6).to_plain()).factor == 3.6
    for wrong, told in (
        ({"signal": "speed"}, "is not of the form"),
        ({"signal": "a.b", "factor": 2.0}, "factor 2 changes the unit; give unit="),
        ({"signal": "a.b", "factor": 0.0}, "must be a finite number other than 0"),
        ({"signal": "a.b", "digits": 9}, "digits 9 must be 0 to 6"),
        ({"signal": "a.b", "digits": "x"}, "is not a valid hud"),
        ({"signal": "a.b", "side": "top"}, "unknown side 'top'"),
    ):
        with pytest.raises(ScenarioError, match=told):
            Hud.from_plain(wrong)


def test_a_number_is_shown_in_its_own_unit() -> None:
    fast = declared(Hud("car.speed", unit="km/h", factor=3.6, digits=1), 10.0)
    assert (fast.text, fast.number, fast.unit) == ("speed", "36.0", "km/h")
    assert declared(Hud("car.speed", text="v"), -2.4).number == "-2"
    assert declared(Hud("car.speed"), math.nan).number == "---"


def test_the_declared_numbers_are_drawn_instead_of_speed_and_height() -> None:
    shown = moment(0, 0, -9, 0, 0, 0)
    plain = picture(BodyScene(about()), shown)
    numbers = picture(BodyScene(about(hud=[Hud("a.d", text="depth", digits=2).to_plain()])), shown)
    left, right = (slice(20, 160), slice(150, 180)), (slice(480, 620), slice(150, 180))
    assert (plain[left] != numbers[left]).any()
    green = (numbers[right] == (96, 255, 128)).all(axis=2)
    assert not green.any(), "nothing is declared for the right side"
    assert (plain[right] == (96, 255, 128)).all(axis=2).any()


def test_a_recording_is_shown_as_its_run_was_and_an_old_one_shows_its_bodies() -> None:
    recording = trace_of(falling(STONE, Hud("stone.speed")))
    shown = Playback(recording).about
    assert shown["scene"] == "bodies"
    assert shown["hud"][0]["signal"] == "stone.speed"
    picture(BodyScene(shown), Playback(recording).at(10_000_000, 0))
    header = {**recording.header, "bodies": [STONE.to_plain()]}
    header.pop("shown")
    assert Playback(replace(recording, header=header)).about["scene"] == "bodies"
    asked = falling(STONE)
    asked.show(scene="strips")
    assert Playback(trace_of(asked)).about["scene"] == "strips"
