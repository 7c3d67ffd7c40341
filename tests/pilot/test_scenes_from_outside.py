"""A scene of another package: found by its entry point, declared by a scenario, and drawn."""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pygame
import pytest
from click.testing import CliRunner

from rtsim import Body, Cue, Scenario
from rtsim.cli import main
from rtsim.cli.telemetry import header_for_viewers
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.models.ball import BALL
from rtsim.models.orbit import ORBIT
from rtsim.pilot.loop import Cockpit
from rtsim.pilot.playback import Playback
from rtsim.pilot.processes import Window
from rtsim.pilot.scenes.checking import check_scene
from rtsim.pilot.scenes.orbit import OrbitScene
from rtsim.pilot.scenes.scene import SceneMoment, Shown, check_scene_name, known_scenes, scene_named
from rtsim.pilot.scenes.strips import StripScene
from rtsim.pilot.viewer.player import play
from rtsim.record.reading import Recording
from rtsim.scenario.loading import load_scenario
from rtsim.testing.clock import FakeClock
from rtsim.testing.determinism import trace_of

SCENE = """
class Meadow:
    def __init__(self, about):
        self.about = about
        self.colour = tuple(about["colour"])

    def draw(self, surface, moment):
        surface.fill(self.colour)


class NoScene:
    def __init__(self, about):
        pass
"""
ENTRIES = """[rtsim.scenes]
meadow = outside_meadow:Meadow
orbit = outside_meadow:NoScene
no-scene = outside_meadow:NoScene
missing = outside_meadow:Missing
"""
GREEN = (30, 140, 60)
BODY = Body("ball", north_east_down=("a.x", "a.y", "a.z"), euler=("a.r", "a.p", "a.w"))


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A distribution as pip would install it: a module, and metadata with entry points."""
    site = tmp_path / "site"
    about = site / "outside_meadow-1.0.dist-info"
    about.mkdir(parents=True)
    (site / "outside_meadow.py").write_text(SCENE, encoding="utf-8")
    (about / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: outside-meadow\nVersion: 1.0\n", encoding="utf-8"
    )
    (about / "entry_points.txt").write_text(ENTRIES, encoding="utf-8")
    monkeypatch.syspath_prepend(site)
    importlib.invalidate_caches()
    yield site
    sys.modules.pop("outside_meadow", None)


def ball(**shown: Any) -> Scenario:
    out = Scenario("ball", until=1)
    out.plant("ball", BALL, step=0.01)
    if shown:
        out.show(**shown)
    return out


def colour_of(surface: pygame.Surface) -> tuple[int, ...]:
    return tuple(surface.get_at((5, 5)))[:3]


# -- found


def test_a_scene_is_found_by_its_entry_point_and_gets_its_options(installed: Path) -> None:
    surface = pygame.Surface((160, 120))
    scene = scene_named("meadow", {"colour": GREEN, "depth": 3})
    scene.draw(surface, SceneMoment({}))
    assert colour_of(surface) == GREEN
    assert scene.about["depth"] == 3  # type: ignore[attr-defined]
    assert installed.exists()


@pytest.mark.usefixtures("installed")
def test_a_scene_of_rtsim_keeps_its_name() -> None:
    assert isinstance(scene_named("orbit", {"plant": "moon"}), OrbitScene)
    assert known_scenes()["orbit"].value == "rtsim.pilot.scenes.orbit:OrbitScene"


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("name", "about", "said"),
    [
        ("meadow", {}, r"scene meadow \(outside_meadow:Meadow\) cannot be created: KeyError"),
        ("missing", {}, "cannot be created: AttributeError: module 'outside_meadow'"),
        ("no-scene", {}, r"has no method draw\(surface, moment\); .* is NoScene"),
    ],
)
def test_what_is_no_scene_is_said(name: str, about: dict[str, Any], said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        scene_named(name, about)


def test_a_scene_that_is_not_installed_here_is_strips_that_say_so() -> None:
    scene = scene_named("meadow", {})
    assert isinstance(scene, StripScene)
    moment = SceneMoment({"ball": Shown(BALL.states, BALL.states.initial(), np.zeros(2), 0)})
    pictures = []
    for each in (scene, StripScene()):
        surface = pygame.Surface((640, 200))
        each.draw(surface, moment)
        pictures.append(pygame.surfarray.array2d(surface))
    assert (pictures[0][:, :30] != pictures[1][:, :30]).any(), "the head says what is missing"
    assert (pictures[0][:, 30:] == pictures[1][:, 30:]).all()
    with pytest.raises(
        UnknownName, match=r"unknown scene 'meadow'.*known: bodies, f16, orbit, strips"
    ):
        check_scene_name("meadow")


# -- declared


@pytest.mark.usefixtures("installed")
def test_one_declaration_serves_window_and_foxglove() -> None:
    cue = Cue("low", "ball.height", horn=0.1, below=True)
    place, turn = ("ball.height",) * 3, ("ball.restitution",) * 4
    body = Body("ball", north_east_down=place, quaternion=turn)
    scenario = ball()
    scenario.show(body, cue, scene="meadow", colour=GREEN)
    scenario.show(scene="meadow", depth=3)
    assert (scenario.bodies, scenario.cues) == ((body,), (cue,))
    assert header_for_viewers(scenario, ())["scene"] == [body.to_plain()]
    with Cockpit(scenario) as cockpit:
        about = cockpit.shared.schema.about
    window = {"scene": "meadow", "colour": list(GREEN), "depth": 3, "bodies": [body.to_plain()]}
    assert {name: about[name] for name in window} == window
    assert about["cues"] == [cue.to_plain()]
    assert scenario.copy().presentation == scenario.presentation
    assert ball().presentation.window() == {}


def test_what_cannot_be_shown_is_refused() -> None:
    with pytest.raises(ScenarioError, match=r"show\('f16'\): expected a Body, a Cue"):
        ball().show("f16")  # type: ignore[arg-type]
    with pytest.raises(ScenarioError, match=r"show\(depth=\.\.\.\): options need a scene"):
        ball(depth=3)
    with pytest.raises(
        ScenarioError, match="scenes strips and orbit are declared, but a window shows only one"
    ):
        ball(scene="strips").show(scene="orbit")
    with pytest.raises(ScenarioError, match="scene orbit: rtsim itself uses an option named pid"):
        ball(scene="orbit", pid=3)
    with pytest.raises(ScenarioError, match="scene orbit: an option must be a number, a text"):
        ball(scene="orbit", track=print)
    with pytest.raises(UnknownName, match="unknown plant 'moon' in scene orbit"):
        Cockpit(ball(scene="orbit", plant="moon"))


@pytest.mark.parametrize(
    ("name", "window"),
    [
        ("f16-by-hand", {"scene": "f16", "plant": "f16"}),
        ("orbit", {"scene": "orbit", "plant": "moon"}),
        ("ball", {}),
    ],
)
def test_scenarios_of_rtsim_declare_their_scenes(name: str, window: dict[str, Any]) -> None:
    shown = load_scenario(name).presentation.window()
    drawn = {"bodies", "ground"} if name == "f16-by-hand" else set()
    assert {key: value for key, value in shown.items() if key not in drawn} == window
    assert drawn <= shown.keys()


def test_the_f16_declares_its_scene_and_its_body() -> None:
    window = load_scenario("f16").presentation.window()
    assert (window["scene"], window["plant"]) == ("f16", "f16")
    assert [body["name"] for body in window["bodies"]] == ["f16"]


def test_what_is_shown_changes_no_bit_of_a_run() -> None:
    shown = ball()
    shown.show(Cue("low", "ball.height", horn=0.1, below=True), scene="strips", depth=3)
    assert trace_of(shown).digest() == trace_of(ball()).digest()


# -- shown


@pytest.mark.usefixtures("installed")
def test_a_recording_is_played_in_the_scene_that_it_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    playback = Playback(trace_of(ball(scene="meadow", colour=GREEN)))
    pygame.display.init()
    try:
        surface = pygame.display.set_mode((320, 180))
        play(surface, playback, Window(headless=True), 16.0, (0, playback.end_ns), FakeClock())
        assert colour_of(surface) == GREEN
    finally:
        pygame.display.quit()


def test_a_recording_of_version_0_1_is_played_in_the_scene_of_its_scenario() -> None:
    run = trace_of(load_scenario("orbit"), until=1)
    header = {name: value for name, value in run.header.items() if name != "shown"}
    old = Recording("old", header, None, run.tracks)
    assert Playback(old).about == {"scenario": "orbit", "scene": "orbit", "plant": "moon"}
    spoilt = Recording("spoilt", {**header, "shown": 5}, None, run.tracks)
    assert Playback(spoilt).about["scene"] == "orbit"


SCENARIO = """
from rtsim.models.ball import scenario as bouncing


def scenario():
    out = bouncing()
    out.show(scene="meadow", colour=[30, 140, 60])
    return out
"""


@pytest.mark.usefixtures("installed")
def test_the_window_of_a_run_draws_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'site'}:{':'.join(sys.path)}")
    Path("meadow.py").write_text(SCENARIO, encoding="utf-8")
    words = ["run", "meadow.py", "--view", "--headless", "--frames", "seen", "--every", "0.01"]
    done = CliRunner().invoke(main, [*words, "--until", "20", "--pace", "20", "--no-record"])
    assert done.exit_code == 0, done.output
    pictures = sorted(Path("seen").glob("*.png"))
    assert pictures
    assert colour_of(pygame.image.load(pictures[-1])) == GREEN


def test_a_run_with_a_scene_that_nobody_installed_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("meadow.py").write_text(SCENARIO, encoding="utf-8")
    done = CliRunner().invoke(main, ["run", "meadow.py", "--view", "--headless", "--no-record"])
    assert done.exit_code == 2
    assert "unknown scene 'meadow'" in done.stderr
    done = CliRunner().invoke(main, ["run", "meadow.py", "--until", "1", "--no-record"])
    assert done.exit_code == 0, "without a window no scene is needed"


# -- the suite


def test_the_suite_passes_scenes_of_rtsim() -> None:
    def moment(turn: float) -> SceneMoment:
        values = np.array([math.cos(turn), math.sin(turn), -math.sin(turn), math.cos(turn)])
        return SceneMoment({"moon": Shown(ORBIT.states, values, np.zeros(4), round(turn * 1e9))})

    moments = [moment(0.0), moment(0.5)]
    check_scene(OrbitScene, moments, {"plant": "moon"})
    check_scene(StripScene, moments)


class _Good:
    def __init__(self, about: Any) -> None:
        self.about = about

    def draw(self, surface: pygame.Surface, moment: SceneMoment) -> None:  # noqa: ARG002
        surface.fill(GREEN)


class _Nothing(_Good):
    def draw(self, surface: pygame.Surface, moment: SceneMoment) -> None: ...


class _Counts(_Good):
    made = 0

    def __init__(self, about: Any) -> None:
        super().__init__(about)
        _Counts.made += 1

    def draw(self, surface: pygame.Surface, moment: SceneMoment) -> None:  # noqa: ARG002
        surface.fill((self.made % 256, 0, 0))


class _Writes(_Good):
    def draw(self, surface: pygame.Surface, moment: SceneMoment) -> None:
        surface.fill(GREEN)
        moment.plants["ball"].values[:] = 0.0


class _Fragile(_Good):
    def draw(self, surface: pygame.Surface, moment: SceneMoment) -> None:
        surface.fill((round(moment.plants["ball"]["height"]), 0, 0))


class _Forgets(_Good):
    def draw(self, surface: pygame.Surface, moment: SceneMoment) -> None:  # noqa: ARG002
        surface.fill(GREEN)
        self.about.clear()


@pytest.mark.parametrize(
    ("scene", "wrong", "said"),
    [
        (_Nothing, AssertionError, "nothing is drawn"),
        (_Counts, AssertionError, "two scenes draw the same run differently"),
        (_Writes, ValueError, "read-only"),
        (_Fragile, ValueError, "NaN"),
        (_Forgets, AssertionError, "the scene changed its options"),
    ],
)
def test_the_suite_finds_a_scene_that_breaks_a_rule(
    scene: type[_Good], wrong: type[Exception], said: str
) -> None:
    moment = SceneMoment({"ball": Shown(BALL.states, BALL.states.initial(), np.zeros(2), 0)})
    check_scene(_Good, [moment])
    with pytest.raises(wrong, match=said):
        check_scene(scene, [moment], {"plant": "ball"})
