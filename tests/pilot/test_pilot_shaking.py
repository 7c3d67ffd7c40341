"""The whole way of a warning: from a state in shared memory to a motor, a sound and a picture."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pygame
import pytest
from virtual_joystick import VirtualJoystick

from rtsim.core.clock import stopwatch
from rtsim.core.tag import NS_PER_S
from rtsim.pilot.cues import PULSE_NS
from rtsim.pilot.devices import horn
from rtsim.pilot.devices.calibration import own_mapping
from rtsim.pilot.devices.controls import Controls
from rtsim.pilot.devices.horn import BEAT_HZ, PITCH_HZ, RATE, Horn, NoSound, tone
from rtsim.pilot.loop import Cockpit
from rtsim.pilot.pacing import VideoFrames
from rtsim.pilot.playback import Playback
from rtsim.pilot.scenes.scene import scene_named
from rtsim.pilot.shared import RUN, Shared
from rtsim.pilot.viewer.cueing import Cueing, Sounding
from rtsim.pilot.viewer.frames import Display
from rtsim.pilot.viewer.player import Player
from rtsim.pilot.viewer.state import Picture, RunState, Telling
from rtsim.record.file import FileRecorder
from rtsim.record.reading import Recording
from rtsim.runs.simulation import simulate
from rtsim.scenario.loading import load_scenario
from rtsim.scenario.shown import Cue
from rtsim.testing.clock import FAKE_START, FakeClock

MS = 1_000_000
with_sound = pytest.mark.system("sound")
RED, AMBER = (255, 84, 72), (255, 190, 60)


class Aircraft:
    """A display of an F-16 whose angle of attack the test sets, flown by a virtual stick."""

    def __init__(self, *, shakes: bool = True) -> None:
        scenario = load_scenario("f16-by-hand", {})
        about = {"scene": "f16", "plant": "f16"}
        self.cockpit = Cockpit(scenario, "stick", about)
        self.values = scenario.build(0).plants[0].values
        self.shared = Shared.open(self.cockpit.shared.path)
        self.surface = pygame.display.set_mode((640, 480))
        self._clock, self._frames = FakeClock(), 0
        stick, signals = self.shared.schema.stick, dict(self.shared.schema.plants)["f16"]
        self._alpha = signals.slice("alpha").start
        cues = [Cue.from_plain(plain) for plain in self.shared.schema.about["cues"]]
        self.display = Display(
            self.surface, scene_named("f16", about), Picture(self.shared), RunState(self.shared),
            Telling(self.shared), Controls(own_mapping(stick), stick), VideoFrames(60, self._clock),
            self._clock, Cueing(cues, shakes=shakes),
        )  # fmt: skip
        self.fly(2.0)

    def fly(self, degrees: float, frames: int = 1, standing: bool = False) -> None:
        """Draw it at that angle of attack."""
        writer = self.cockpit.pictures._writers["f16"]
        told = dict.fromkeys(RUN, 0) | {"standing": int(standing)}
        self.cockpit.inbox._run.integers[:] = tuple(told.values())
        self.cockpit.inbox._run.publish()
        for _ in range(frames):
            ns = self._frames * 5 * MS
            self._frames += 1
            wall = FAKE_START + ns
            writer.integers[:] = (ns, ns + 5 * MS, wall, wall + 5 * MS, 0, 0, 0)
            values = self.values.copy()
            values[self._alpha] = math.radians(degrees)
            writer.floats[:] = np.tile(values, 2)
            writer.publish()
            self.display.frame()

    def pixels(self, colour: tuple[int, int, int]) -> int:
        """How many of that colour there are below what is looked at, above the notes."""
        area = pygame.surfarray.array3d(self.surface)[:, 310:360]
        return int((area == colour).all(axis=2).sum())

    def close(self) -> None:
        self.display.close()
        self.cockpit.shared.close()


@pytest.fixture(autouse=True)
def hidden(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setenv("SDL_AUDIODRIVER", "dummy")
    pygame.display.init()
    yield
    with suppress(ImportError):
        import_module("pygame.mixer").quit()
    pygame.display.quit()


@pytest.fixture
def aircraft() -> Iterator[Aircraft]:
    made = Aircraft()
    yield made
    made.close()


@pytest.fixture
def beats(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wall clock of half a beat at each look of a frame: each second frame is a beat."""
    now = [0]

    def later() -> int:
        now[0] += PULSE_NS // 4
        return now[0]

    monkeypatch.setattr("rtsim.pilot.viewer.frames.stopwatch", later)


@with_sound
@pytest.mark.usefixtures("beats")
def test_the_stick_that_flies_is_felt_to_shake_the_horn_sounds_and_it_is_seen(
    aircraft: Aircraft,
) -> None:
    stick = VirtualJoystick(rumbles=True)
    aircraft.fly(5.0, 4)
    assert (stick.felt, pygame.mixer.get_busy()) == ([], False)
    assert aircraft.pixels(RED) == aircraft.pixels(AMBER) == 0

    aircraft.fly(17.0, 30)
    strong = [low for low, _ in stick.felt if low > 0.3]
    weak = [low for low, _ in stick.felt if 0.0 < low < 0.3]
    assert len(strong) > 3
    assert len(weak) > 3
    assert max(strong) < 0.6
    assert not pygame.mixer.get_busy()
    assert aircraft.pixels(AMBER) > 200

    stick.felt.clear()
    aircraft.fly(21.5, 30)
    assert max(stick.felt)[0] == pytest.approx(1.0, abs=1e-4)
    assert pygame.mixer.get_busy()
    assert aircraft.pixels(RED) > 200

    aircraft.fly(21.5, 2, standing=True)  # paused: still, and silent
    assert stick.felt[-1] == (0.0, 0.0)
    assert aircraft.display._cueing._horn is not None
    assert not aircraft.display._cueing._horn.sounds  # type: ignore[attr-defined]
    aircraft.fly(21.5, 2)
    assert stick.felt[-1] != (0.0, 0.0)
    aircraft.fly(10.0, 3)
    assert stick.felt[-1] == (0.0, 0.0)
    aircraft.fly(21.5, 2)
    aircraft.display.close()
    assert stick.felt[-1] == (0.0, 0.0)  # who leaves does not leave it shaking
    assert pygame.mixer.get_init() is None


@pytest.mark.usefixtures("beats")
def test_a_stick_that_is_only_plugged_in_is_left_alone(aircraft: Aircraft) -> None:
    """Flown by the first, on which a button was pressed; the second lies on the table."""
    flying, lying = VirtualJoystick(rumbles=True), VirtualJoystick(rumbles=True)
    aircraft.fly(21.5, 2)
    flying.press(0)
    aircraft.fly(21.5, 10)
    assert flying.felt
    assert lying.felt == []
    flying.unplug()
    aircraft.fly(21.5, 10)
    assert lying.felt


@pytest.mark.usefixtures("beats")
def test_quiet_is_quiet_and_seen() -> None:
    aircraft = Aircraft(shakes=False)
    stick = VirtualJoystick(rumbles=True)
    aircraft.fly(21.5, 10)
    assert stick.felt == []
    assert aircraft.pixels(RED) > 200
    aircraft.close()


def test_without_a_sound_card_the_person_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Horn:
        raise NoSound("nothing to hear it by")

    monkeypatch.setattr(horn, "Horn", none)
    cueing = Cueing([Cue("stall", "f16.alpha", horn=1.0)])
    assert cueing.news == ["no sound: nothing to hear it by"]
    assert Cueing([Cue("stall", "f16.alpha", shaker=(1.0, 2.0))]).news == []  # nothing to sound
    sounding = Sounding()
    sounding.news.append("no sound: nothing to hear it by")
    both = Cueing([Cue("stall", "f16.alpha", horn=1.0)], sounding=sounding)
    assert both.news == cueing.news, "said once"


def test_without_a_library_of_the_mixer_the_flight_goes_on_and_says_so_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The import tells why; pygame's stand-in for the module, which warns, is not touched."""

    def absent(name: str) -> Any:
        raise ImportError(f"libgthread-2.0.so.0: cannot open shared object\nfile ({name})")

    monkeypatch.setattr(horn, "import_module", absent)
    monkeypatch.delattr(pygame, "mixer")
    aircraft = Aircraft()
    stick = VirtualJoystick(rumbles=True)
    aircraft.fly(21.5, 4)
    assert max(stick.felt)[0] > 0.9
    aircraft.close()
    told = "no sound: libgthread-2.0.so.0: cannot open shared object file (pygame.mixer)"
    assert Cueing([Cue("stall", "f16.alpha", horn=1.0)]).news == [told]
    assert capfd.readouterr().err == ""


def test_a_driver_that_is_not_there_is_no_sound(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SDL_AUDIODRIVER", "none-such")
    with pytest.raises(NoSound):
        Horn()
    assert capfd.readouterr().err == ""


def test_the_tone_goes_round_without_a_seam() -> None:
    wave = tone().astype(float)
    spectrum = np.abs(np.fft.rfft(wave))
    assert int(spectrum.argmax()) == PITCH_HZ  # one second: a bin is 1 Hz
    largest = np.abs(np.diff(wave)).max()
    assert abs(wave[0] - wave[-1]) < largest
    loud = np.abs(wave) > 0.1 * np.abs(wave).max()
    sounding = (np.convolve(loud, np.ones(200), "same") > 10).astype(int)
    assert (np.diff(sounding) == -1).sum() == BEAT_HZ  # so often it ends


@with_sound
def test_what_comes_out_of_the_horn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """SDL's own driver that writes to a file what a loudspeaker would be given."""
    path = tmp_path / "heard.raw"
    monkeypatch.setenv("SDL_AUDIODRIVER", "disk")
    monkeypatch.setenv("SDL_DISKAUDIOFILE", str(path))
    monkeypatch.setenv("SDL_DISKAUDIODELAY", "1")
    made = Horn()

    def heard(since: int, samples: int) -> Any:
        until = stopwatch() + 20 * NS_PER_S
        while os.path.getsize(path) < 2 * (since + samples) and stopwatch() < until:
            pygame.time.wait(1)
        return np.fromfile(path, "<i2")[since : since + samples].astype(float)

    assert np.abs(heard(0, 2000)).max() == 0.0
    made.sound(True)
    made.sound(True)
    wave = heard(os.path.getsize(path) // 2 + 3 * RATE, RATE)  # it has gone round
    assert 8000 < np.abs(wave).max() < 16000
    assert int(np.abs(np.fft.rfft(wave)).argmax()) == pytest.approx(PITCH_HZ, abs=1)
    made.sound(False)
    until = stopwatch() + 20 * NS_PER_S  # it fades by the wall's time, and this goes faster
    while np.abs(heard(os.path.getsize(path) // 2, RATE)).max() > 0.0:
        assert stopwatch() < until
    made.close()


def test_a_recording_shows_what_warned(tmp_path: Path) -> None:
    """In a window as in flight; a header that somebody changed shows none."""
    scenario = load_scenario("ball", {})
    scenario.show(Cue("high", "ball.height", horn=0.0, text="UP"))
    path = tmp_path / "warned.mcap"
    simulate(scenario, until=0.5, recorder=FileRecorder(path, stopwatch))
    recording = Recording.open(path)
    playback = Playback(recording)
    assert playback.cues == scenario.cues
    surface = pygame.display.set_mode((480, 270))
    clock = FakeClock()
    player = Player(surface, scene_named("", {}), playback, VideoFrames(60, clock))
    player.frame()
    drawn = pygame.surfarray.array3d(surface)
    assert ((drawn == RED).all(axis=2)).sum() > 200
    for broken in ([{"name": "x"}], ["x"], 3, [Cue("a", "no.where", horn=1.0).to_plain()]):
        header = {**recording.header, "cues": broken}
        assert Playback(Recording("x", header, None, recording.tracks)).cues == ()
