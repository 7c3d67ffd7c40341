"""Sounds of a scenario: samples without clicks, at the declared pitch and level, and when."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pygame
import pytest
from numpy.typing import NDArray

from rtsim.core.errors import RtsimError
from rtsim.core.signals import Signal, Signals
from rtsim.models.ball import scenario as ball
from rtsim.models.f16.piloted_scenario import SOUNDS
from rtsim.pilot.devices import horn
from rtsim.pilot.devices.horn import Stream
from rtsim.pilot.loop import Cockpit
from rtsim.pilot.processes import Window
from rtsim.pilot.scenes.scene import Shown
from rtsim.pilot.viewer.cueing import _LOUD, BLOCK, RATE, Cueing, Sounding, Synthesiser
from rtsim.pilot.viewer.process import _display, _mapping
from rtsim.pilot.viewer.state import RunState
from rtsim.scenario.shown import Sound

SIGNALS = Signals(Signal("power", "%"))
ENGINE = Sound(
    "engine", "car.power", pitch=((0.0, 100.0), (100.0, 500.0)), level=((0.0, 0.0), (50.0, 0.8)),
    harmonics=(1.0, 0.5),
)  # fmt: skip
WIND = Sound("wind", "car.power", pitch=((0, 300), (100, 900)), level=1.0, width=100.0)
FULL = _LOUD * 32767.0


def at(power: float) -> dict[str, Shown]:
    return {"car": Shown(SIGNALS, np.array([power]), np.zeros(1), 0)}


def heard(sound: Sound, powers: list[float]) -> NDArray[np.float64]:
    made = Synthesiser([sound])
    return np.concatenate([made.block(at(power)) for power in powers]).astype(float)


def peak_hz(wave: NDArray[np.float64]) -> float:
    """The middle of the power within the strongest 15 Hz of a second or more."""
    power = np.abs(np.fft.rfft(wave * np.hanning(wave.size))) ** 2
    hz = np.fft.rfftfreq(wave.size, 1.0 / RATE)
    wide = np.convolve(power, np.ones(max(1, round(15.0 / hz[1]))), "same")
    return float(hz[int(wide.argmax())])


@pytest.mark.parametrize(("power", "hz"), [(0.0, 100.0), (25.0, 200.0), (100.0, 500.0)])
def test_a_tone_has_the_declared_pitch(power: float, hz: float) -> None:
    sound = Sound("engine", "car.power", ENGINE.pitch, 0.5, (1.0, 0.5))
    assert peak_hz(heard(sound, [power] * 12)[BLOCK:]) == pytest.approx(hz, abs=8)


def test_noise_lies_around_the_declared_pitch_in_the_declared_width() -> None:
    wave = heard(WIND, [50.0] * 120)[BLOCK:]
    power = np.abs(np.fft.rfft(wave)) ** 2
    hz = np.fft.rfftfreq(wave.size, 1.0 / RATE)
    middle = float((hz * power).sum() / power.sum())
    assert middle == pytest.approx(600.0, abs=15)
    inside = power[np.abs(hz - 600.0) <= 50.0].sum() / power.sum()
    assert 0.6 < inside < 0.95
    assert wave.std() == pytest.approx(FULL / 3.0, rel=0.15)


@pytest.mark.parametrize("sound", [ENGINE, WIND], ids=lambda s: s.name)
def test_no_click_between_blocks_while_pitch_and_level_move(sound: Sound) -> None:
    """The step between two blocks is no larger than those within blocks."""
    wave = heard(sound, [0.0, 10.0, 90.0, 30.0, 100.0, 0.0, 60.0, 60.0, 5.0])
    steps = np.abs(np.diff(wave))
    seams = steps[BLOCK - 1 :: BLOCK]
    assert seams.size == 8
    for k, seam in enumerate(seams, start=1):
        around = steps[k * BLOCK - 400 : k * BLOCK + 400]
        within = np.delete(around, 399)
        assert seam <= within.max() + 1.0
    bends = np.abs(np.diff(wave, 2))  # also no corner: curvature at a seam is as elsewhere
    assert bends[BLOCK - 2 :: BLOCK].max() <= bends.max() * 0.999 + 1.0


def test_levels_follow_the_signal_and_silence_comes_without_a_jump() -> None:
    made = Synthesiser([ENGINE])
    first = made.block(at(50.0)).astype(float)
    assert abs(first[0]) < 0.02 * FULL  # from silence
    loud = np.abs(made.block(at(50.0)).astype(float)).max()
    assert 0.6 * 0.8 * FULL < loud <= 0.8 * FULL
    quiet = np.abs(made.block(at(12.5)).astype(float)[-200:]).max()
    assert quiet < 0.35 * loud
    silences = [made.silent]
    faded = made.block(at(50.0), silent=True).astype(float)
    assert np.abs(faded[-20:]).max() < 0.02 * FULL
    assert [*silences, made.silent] == [False, True]
    for lost in (at(math.nan), {}):  # no number, no sound
        assert np.abs(made.block(lost).astype(float)[-20:]).max() == 0.0


def test_harmonics_above_what_can_be_heard_are_left_out() -> None:
    whistle = Sound("whistle", "car.power", 7000.0, 1.0, (1.0, 1.0))  # 14 kHz would fold to 8 kHz
    wave = heard(whistle, [0.0] * 12)[BLOCK:]
    power = np.abs(np.fft.rfft(wave * np.hanning(wave.size))) ** 2
    hz = np.fft.rfftfreq(wave.size, 1.0 / RATE)
    assert power[np.abs(hz - 7000.0) < 50].sum() > 0.999 * power.sum()


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"name": "v 8"}, "not an identifier"),
        ({"signal": "power"}, "not of the form 'plant.signal'"),
        ({"pitch": 10.0}, "pitch 10 is not within 20 to 8000"),
        ({"pitch": ()}, "1 to 64 points"),
        ({"pitch": ((1.0, 50.0), (1.0, 60.0))}, "must rise"),
        ({"pitch": ((math.nan, 50.0),)}, "1 to 64 points"),
        ({"level": 2.0}, "level 2 is not within 0 to 1"),
        ({"level": math.nan}, "level nan is not within"),
        ({"harmonics": ()}, "1 to 16 amplitudes"),
        ({"harmonics": (0.0,)}, "amplitudes >= 0, at least one"),
        ({"width": -1.0}, "width -1 Hz"),
    ],
)
def test_a_wrong_declaration(wrong: dict[str, Any], told: str) -> None:
    right: dict[str, Any] = {"name": "s", "signal": "car.power", "pitch": 100.0, "level": 0.5}
    assert Sound.from_plain(Sound(**right).to_plain()) == Sound(**right)
    with pytest.raises(RtsimError, match=told):
        Sound(**{**right, **wrong})
    with pytest.raises(RtsimError, match="is not a valid sound"):
        Sound.from_plain({"name": "s", "pitch": 3})


def test_a_scenario_declares_sounds_of_signals_that_it_has() -> None:
    scenario = ball()
    scenario.show(Sound("air", "ball.heigth", 200.0, 0.5))
    with pytest.raises(RtsimError, match=r"'heigth' in sound air, ball; did you mean height"):
        Cockpit(scenario)
    assert {sound.name for sound in SOUNDS} == {"engine", "burner", "wind"}


class Loudspeaker:
    """Takes blocks as the mixer does: one plays and one waits."""

    def __init__(self) -> None:
        self.blocks: list[NDArray[np.int16]] = []
        self.playing = 0
        self.closed = False

    @property
    def dry(self) -> bool:
        return self.playing == 0

    @property
    def wants(self) -> bool:
        return self.playing < 2

    def feed(self, block: NDArray[np.int16]) -> None:
        self.blocks.append(block)
        self.playing += 1

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def speaker(monkeypatch: pytest.MonkeyPatch) -> Loudspeaker:
    made = Loudspeaker()
    monkeypatch.setattr("rtsim.pilot.devices.horn.Stream", lambda: made)
    return made


def test_a_window_keeps_two_blocks_ahead_and_a_pause_is_silent(speaker: Loudspeaker) -> None:
    cueing = Cueing((), sounding=Sounding([ENGINE]))

    def follow(standing: bool = False) -> None:
        cueing.follow(at(100.0), standing, lambda *_: None, frozenset(), 0)

    follow()
    follow()
    assert len(speaker.blocks) == 2
    speaker.playing -= 1
    follow()
    assert len(speaker.blocks) == 3
    for _ in range(5):
        speaker.playing = max(0, speaker.playing - 1)
        follow(standing=True)
    assert len(speaker.blocks) == 4  # one block that fades, then none
    assert np.abs(speaker.blocks[-1][-10:]).max() < 0.02 * FULL
    speaker.playing = 0  # it ran dry
    follow()
    assert np.abs(speaker.blocks[4][:3]).max() < 0.02 * FULL
    cueing.close(lambda *_: None)
    assert speaker.closed


def test_without_a_sound_card_the_person_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Stream:
        raise horn.NoSound("nothing to hear it by")

    monkeypatch.setattr("rtsim.pilot.devices.horn.Stream", none)
    silent = Cueing((), sounding=Sounding([ENGINE]))
    assert silent.news == ["no sound: nothing to hear it by"]
    silent.follow(at(1.0), False, lambda *_: None, frozenset(), 0)


def test_only_a_window_that_can_be_seen_and_is_not_quiet_opens_sound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    opened: list[Window] = []
    for window in (Window(), Window(quiet=True), Window(headless=True)):
        monkeypatch.setattr(Sounding, "_opened", lambda _, one=window: opened.append(one))
        _shown_in(window)
    assert opened == [Window()]


def _shown_in(window: Window) -> None:
    """Make and close the display of a run with a sound, as the viewer's process does."""
    scenario = ball()
    scenario.show(Sound("air", "ball.height", 200.0, 0.5))
    pygame.display.init()
    with Cockpit(scenario) as cockpit:
        shared, surface = cockpit.shared, pygame.display.set_mode((320, 180))
        mapping = _mapping(None, shared.schema)
        _display(shared, window, mapping, surface, RunState(shared)).close()
    pygame.display.quit()


@pytest.mark.system("sound")
def test_what_comes_out_of_the_mixer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """SDL's own driver that writes to a file what a loudspeaker would be given."""
    path = tmp_path / "heard.raw"
    monkeypatch.setenv("SDL_AUDIODRIVER", "disk")
    monkeypatch.setenv("SDL_DISKAUDIOFILE", str(path))
    monkeypatch.setenv("SDL_DISKAUDIODELAY", "20")
    stream = Stream()
    made = Synthesiser([Sound("engine", "car.power", 300.0, 1.0)])
    fed: list[NDArray[np.int16]] = []
    while len(fed) < 12:
        if stream.wants:
            fed.append(made.block(at(0.0)))
            stream.feed(fed[-1])
        pygame.time.wait(1)
    while not stream.dry:
        pygame.time.wait(1)
    stream.close()
    wave = np.fromfile(path, "<i2")
    begin = int(np.flatnonzero(wave)[0])
    all_fed = np.concatenate(fed)
    first = int(np.flatnonzero(all_fed)[0])
    got = wave[begin : begin + all_fed.size - first]
    assert np.array_equal(got, all_fed[first:])  # every sample in order, and no gap
