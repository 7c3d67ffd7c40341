"""A recording in a window: what is shown when, the keys, the bar; on a clock of its own."""

from __future__ import annotations

import gc
import json
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pygame
import pytest
from click.testing import CliRunner

from rtsim.cli import main
from rtsim.core.clock import stopwatch
from rtsim.core.errors import RecordingError
from rtsim.core.tag import NS_PER_S
from rtsim.pilot.pacing import VideoFrames
from rtsim.pilot.playback import MOST_RATE, Playback
from rtsim.pilot.processes import Window
from rtsim.pilot.scenes.scene import SceneMoment, scene_named
from rtsim.pilot.viewer.overlay import SeekBar
from rtsim.pilot.viewer.player import Player, play
from rtsim.record.file import FileRecorder
from rtsim.record.reading import Recording
from rtsim.runs.simulation import simulate
from rtsim.scenario.loading import load_scenario
from rtsim.testing.clock import FakeClock

SIZE = (400, 300)
HZ = 50
SECONDS = 20.0


def recorded(path: Path, name: str, until: float) -> Recording:
    simulate(load_scenario(name, {}), until=until, recorder=FileRecorder(path, stopwatch))
    return Recording.open(path)


@pytest.fixture(scope="module")
def orbit(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return recorded(tmp_path_factory.mktemp("player") / "orbit.mcap", "orbit", SECONDS)


@pytest.fixture(scope="module")
def ball(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """It bounces: there are two sides to those tags."""
    return recorded(tmp_path_factory.mktemp("player") / "ball.mcap", "ball", 1.0)


# -- what is shown of a moment


def test_recorded_states_are_shown_as_they_are_and_between_them_the_cubic(
    orbit: Recording,
) -> None:
    playback = Playback(orbit)
    assert (playback.first_ns, playback.end_ns) == (0, int(SECONDS) * NS_PER_S)
    x, times = orbit.track("moon").column("x"), orbit.track("moon").ns
    for k in (0, 57, len(x) - 1):
        assert playback.at(int(times[k]), 0).plants["moon"]["x"] == x[k]
    between = playback.at(550_000_000, 0).plants["moon"]
    exact = np.cos(2 * np.pi * 0.55 / 30)
    assert between["x"] == pytest.approx(exact, abs=1e-7)
    assert abs(0.5 * (x[5] + x[6]) - exact) > 1e-5


def test_before_and_after_a_bounce(ball: Recording) -> None:
    """Just before it what fell, just after it what rises: never something between the two."""
    track = ball.track("ball")
    again = np.flatnonzero(np.diff(track.rows.ns) == 0)
    assert again.size
    k, ns = int(again[0]), int(track.rows.ns[again[0]])
    name = next(n for n in track.signals.names if track.column(n)[k] * track.column(n)[k + 1] < 0)
    playback = Playback(ball)
    for at, row in ((ns - 1, k), (ns, k + 1), (ns + 1, k + 1)):
        value = playback.at(at, 0).plants["ball"][name]
        assert value == pytest.approx(track.column(name)[row], abs=1e-4)


def test_traces_are_the_recorded_rows_up_to_now(orbit: Recording) -> None:
    past = Playback(orbit).at(5 * NS_PER_S, 2 * NS_PER_S).past["moon"]
    assert past.span == 2 * NS_PER_S
    assert past.ns[-1] == 5 * NS_PER_S
    assert 2.8e9 <= past.ns[0] <= 3.0e9
    assert (np.diff(past.ns) >= 0).all()
    wanted = orbit.track("moon").column("x")[np.isin(orbit.track("moon").ns, past.ns)]
    assert past.values[:-1, 0].tolist() == wanted.tolist()


def test_a_long_trace_is_thinned_and_its_points_stay_where_they_are(tmp_path: Path) -> None:
    scenario = load_scenario("orbit", {"step": "0.001"})
    path = tmp_path / "fine.mcap"
    simulate(scenario, until=6, recorder=FileRecorder(path, stopwatch))
    playback = Playback(Recording.open(path))
    one, two = (playback.at(ns, 5 * NS_PER_S).past["moon"] for ns in (5_500_000_000, 5_501_000_000))
    assert 300 < len(one.ns) <= 1002
    assert len(set(one.ns.tolist()) & set(two.ns.tolist())) >= len(one.ns) - 3


def test_a_recording_without_states_is_refused(orbit: Recording) -> None:
    empty = Recording("empty.mcap", orbit.header, None, {})
    with pytest.raises(
        RecordingError,
        match=r"empty.mcap cannot be shown in a window, because it contains no state",
    ):
        Playback(empty)


def test_the_scene_is_that_of_the_scenario(orbit: Recording, ball: Recording) -> None:
    assert Playback(orbit).about["scene"] == "orbit"
    assert "scene" not in Playback(ball).about
    other = Recording("x", orbit.header, None, {"sun": orbit.track("moon")})
    assert "scene" not in Playback(other).about


# -- the bar


@pytest.mark.parametrize("size", [SIZE, (1280, 720), (160, 120)])
def test_the_bar_there_and_back(size: tuple[int, int]) -> None:
    bar = SeekBar(NS_PER_S, 3 * NS_PER_S)
    line = bar.line(size)
    assert bar.ns(size, line.left) == NS_PER_S
    assert bar.ns(size, line.right) == 3 * NS_PER_S
    assert (bar.ns(size, -50), bar.ns(size, 9999)) == (NS_PER_S, 3 * NS_PER_S)
    for x in range(line.left, line.right, 7):
        assert bar.x(size, bar.ns(size, x)) == x
    assert bar.holds(size, line.center)
    assert not bar.holds(size, (line.centerx, line.top - 40))
    assert SeekBar(5, 5).ns(size, line.right) == 5


# -- the player


class Playing:
    """A player of 20 s on a made-up clock, 50 frames a second; what it was shown last."""

    def __init__(self, recording: Recording, rate: float = 1.0) -> None:
        self.surface = pygame.display.set_mode(SIZE)
        self.playback = Playback(recording)
        self.moment: SceneMoment | None = None
        frames = VideoFrames(HZ, FakeClock())
        self.player = Player(self.surface, self, self.playback, frames, rate)
        pygame.event.clear()

    def draw(self, surface: pygame.Surface, moment: SceneMoment) -> None:
        self.moment = moment
        surface.fill((10, 20, 30))

    def frames(self, count: int = 1) -> float:
        """Simulated seconds shown by the last of them."""
        for _ in range(count):
            self.player.frame()
        assert self.moment is not None
        assert self.moment.plants["moon"].ns == self.player.ns
        return self.player.ns / NS_PER_S

    def press(self, *keys: int, mod: int = 0) -> float:
        for key in keys:
            pygame.event.post(pygame.event.Event(pygame.KEYDOWN, key=key, mod=mod))
        return self.frames()

    def mouse(self, kind: int, x: int, y: int) -> float:
        pygame.event.post(pygame.event.Event(kind, pos=(x, y), button=1))
        return self.frames()


@pytest.fixture
def playing(orbit: Recording, monkeypatch: pytest.MonkeyPatch) -> Iterator[Playing]:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    pygame.display.init()
    yield Playing(orbit)
    pygame.display.quit()


DT = 1.0 / HZ


def test_time_goes_by_deadlines_at_any_rate_and_back(playing: Playing) -> None:
    assert playing.frames() == 0.0
    assert playing.frames(50) == pytest.approx(1.0)
    assert playing.press(pygame.K_PLUS, pygame.K_PLUS) == pytest.approx(1.0 + 4 * DT)
    assert playing.frames(50) == pytest.approx(5.0 + 4 * DT)
    assert playing.press(pygame.K_r, pygame.K_MINUS) == pytest.approx(5.0 + 2 * DT)
    assert playing.player.rate == -2.0
    assert playing.frames(50) == pytest.approx(3.0 + 2 * DT)
    assert playing.press(pygame.K_1) == pytest.approx(3.0 + 3 * DT)
    for _ in range(40):
        playing.press(pygame.K_PLUS)
    assert playing.player.rate == MOST_RATE


def test_it_stands_and_is_moved_by_arrows(playing: Playing) -> None:
    playing.frames(51)
    assert playing.press(pygame.K_SPACE) == pytest.approx(1.0)
    assert playing.frames(20) == pytest.approx(1.0)
    assert playing.press(pygame.K_RIGHT) == pytest.approx(6.0)
    assert playing.press(pygame.K_LEFT, mod=pygame.KMOD_LSHIFT) == pytest.approx(5.0)
    assert playing.press(pygame.K_RIGHT, mod=pygame.KMOD_LCTRL) == pytest.approx(5.0 + DT)
    assert playing.press(pygame.K_LEFT, pygame.K_LEFT) == 0.0
    assert playing.press(pygame.K_END) == SECONDS
    assert playing.press(pygame.K_RIGHT) == SECONDS
    assert playing.press(pygame.K_HOME) == 0.0
    assert playing.press(pygame.K_SPACE) == pytest.approx(DT)


def test_it_stays_at_its_end_and_begins_anew(playing: Playing) -> None:
    playing.press(pygame.K_END)
    assert playing.frames(3) == SECONDS
    assert playing.player.done
    assert playing.press(pygame.K_SPACE) == pytest.approx(DT)
    assert playing.press(pygame.K_HOME, pygame.K_r) == 0.0
    assert playing.player.done
    assert playing.press(pygame.K_SPACE) == pytest.approx(SECONDS - DT)


def test_the_mouse_on_the_bar_and_beside_it(playing: Playing) -> None:
    bar = SeekBar(0, int(SECONDS) * NS_PER_S)
    line = bar.line(SIZE)
    middle = bar.ns(SIZE, line.centerx) / NS_PER_S
    assert playing.mouse(pygame.MOUSEBUTTONDOWN, line.centerx, line.centery) == middle
    assert playing.frames(5) == middle  # held
    assert playing.mouse(pygame.MOUSEMOTION, line.left, 10) == 0.0
    assert playing.mouse(pygame.MOUSEMOTION, line.right + 90, 10) == SECONDS
    playing.mouse(pygame.MOUSEMOTION, line.left, 10)
    assert playing.mouse(pygame.MOUSEBUTTONUP, line.left, 10) == pytest.approx(DT)
    assert playing.mouse(pygame.MOUSEMOTION, line.right, 10) == pytest.approx(2 * DT)
    assert playing.mouse(pygame.MOUSEBUTTONDOWN, line.centerx, 20) == pytest.approx(3 * DT)


def test_the_rest_of_the_keys(playing: Playing) -> None:
    playing.press(pygame.K_v, pygame.K_PAGEDOWN)
    assert playing.moment is not None
    assert (playing.moment.view, playing.moment.page) == ("chase", 1)
    before = pygame.surfarray.array3d(playing.surface)
    playing.press(pygame.K_F1)
    assert (pygame.surfarray.array3d(playing.surface) != before).mean() > 0.05
    assert not playing.player.closed
    playing.press(pygame.K_ESCAPE)
    assert playing.player.closed


def test_a_picture_of_the_window(playing: Playing, tmp_path: Path) -> None:
    playing.player.screenshots = tmp_path
    playing.press(pygame.K_F12)
    playing.press(pygame.K_F12)
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["rtsim-001.png", "rtsim-002.png"]
    playing.player.playing = False
    with_note = pygame.surfarray.array3d(playing.surface)
    playing.frames(5 * HZ)
    assert (pygame.surfarray.array3d(playing.surface) != with_note).any()
    playing.player.screenshots = tmp_path / "gone"
    assert playing.press(pygame.K_F12) > 0.0
    assert playing.player._notes[-1][1].startswith("cannot save the picture ")


def test_the_collector_stands_still_while_it_plays(
    playing: Playing, monkeypatch: pytest.MonkeyPatch
) -> None:
    frozen: list[int] = []

    def frame(player: Player) -> None:
        frozen.append(gc.get_freeze_count())
        player.seek(math.inf)

    monkeypatch.setattr(Player, "frame", frame)
    window = Window(True, rate=HZ)
    play(playing.surface, playing.playback, window, 1.0, (0, NS_PER_S), FakeClock())
    assert len(frozen) == 1
    assert frozen[0] > gc.get_freeze_count()


def test_without_a_window_it_goes_to_its_end(
    playing: Playing, orbit: Recording, tmp_path: Path
) -> None:
    window = Window(True, tmp_path / "pictures", 1e-6, rate=HZ)
    surface, playback = playing.surface, Playback(orbit)
    clock = FakeClock()
    count = play(surface, playback, window, 4.0, (NS_PER_S, 3 * NS_PER_S), clock)
    assert count == 1 + round(2.0 / 4.0 * HZ)
    pictures = sorted((tmp_path / "pictures").iterdir())
    assert len(pictures) == count
    first, last = (pygame.surfarray.array3d(pygame.image.load(pictures[k])) for k in (0, -1))
    assert (first != last).mean() > 0.001
    assert play(surface, playback, Window(True, rate=HZ), -4.0, (0, NS_PER_S), FakeClock()) == 14


def test_scenes_are_drawn_from_a_recording(orbit: Recording, ball: Recording) -> None:
    """No picture before this one, and still a trace and a track."""
    for recording in (orbit, ball):
        playback = Playback(recording)
        scene = scene_named(str(playback.about.get("scene", "")), playback.about)
        surface = pygame.Surface(SIZE)
        scene.draw(surface, playback.at(0, NS_PER_S))
        start = pygame.surfarray.array3d(surface)
        scene.draw(surface, playback.at(playback.end_ns, 10 * NS_PER_S))
        assert (pygame.surfarray.array3d(surface) != start).any(axis=2).mean() > 0.005


# -- the command


@pytest.fixture
def hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")


@pytest.mark.usefixtures("hidden")
def test_the_command_shows_and_runs_nothing(
    orbit: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rtsim.cli.replay.check", None)
    arguments = ["--view", "--headless", "--size", "160x120", "--pace", "64", "--from", "2"]
    result = CliRunner().invoke(main, ["replay", orbit.source, *arguments, "--json"])
    assert result.exit_code == 0, result.stderr
    said = json.loads(result.stdout)
    assert (said["from_s"], said["until_s"]) == (2.0, SECONDS)
    assert said["frames"] > 1


@pytest.mark.usefixtures("hidden")
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--view", "--then", "run"), "--view only shows"),
        (("--view", "--abs", "1"), "--view only shows"),
        (("--view", "--headless", "--pace", "max"), "give a rate such as 1.0"),
        (("--view", "--headless", "--pace", "0"), "give a rate such as 1.0"),
        (("--view", "--from", "99"), "covers 0.000 to 20.000 s"),
        (("--frames", "pictures"), "work only with --view"),
        (("--view",), "--headless --frames"),
    ],
)
def test_mistakes(orbit: Recording, arguments: tuple[str, ...], told: str) -> None:
    result = CliRunner().invoke(main, ["replay", orbit.source, *arguments])
    assert result.exit_code == 2
    assert told in result.stderr
