"""What warns: declared by a scenario, worked out from what is shown, felt, heard and seen."""

from __future__ import annotations

import json
import math
from collections.abc import Set as AbstractSet
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pygame
import pytest
from pilot_parts import flight, watched

from rtsim.core.errors import RtsimError
from rtsim.core.signals import Signal, Signals
from rtsim.models.ball import scenario as ball
from rtsim.models.f16.piloted_scenario import PULL_UP, PUSHED, STALL
from rtsim.pilot.cues import PULSE_NS, Cues, Shaker
from rtsim.pilot.loop import Cockpit
from rtsim.pilot.scenes.scene import Shown, Warned
from rtsim.pilot.scenes.text import draw_cues
from rtsim.pilot.viewer.cueing import Cueing
from rtsim.record.file import FileRecorder
from rtsim.record.reading import Recording
from rtsim.scenario.shown import Cue

HIGH = Cue("high", "ball.height", shaker=(2.0, 4.0), horn=3.0, band=0.5)
SIGNALS = Signals(Signal("height", "m"))


def at(height: float) -> dict[str, Shown]:
    return {"ball": Shown(SIGNALS, np.array([height]), np.zeros(1), 0)}


def test_a_shaker_grows_and_a_horn_comes_on_its_own_limit() -> None:
    cues = Cues([HIGH])
    assert cues.look(at(1.9)) == ()
    (begun,) = cues.look(at(2.001))
    assert (begun.text, begun.signal, begun.horn) == ("HIGH", "ball.height", False)
    assert 0.3 < begun.shaker < 0.4  # less cannot be felt
    (more,) = cues.look(at(3.5))
    assert begun.shaker < more.shaker < 1.0
    assert more.horn
    (full,) = cues.look(at(9.0))
    assert full.shaker == 1.0


def test_what_has_begun_ends_a_band_before_its_limit() -> None:
    cues = Cues([HIGH])
    cues.look(at(3.1))
    (still,) = cues.look(at(2.6))
    assert still.horn
    (quieter,) = cues.look(at(1.6))
    assert not quieter.horn
    assert cues.look(at(1.4)) == ()
    assert cues.look(at(1.6)) == ()


def test_a_limit_passed_downwards_and_what_is_not_a_number() -> None:
    low = Cues([Cue("low", "ball.height", shaker=(2.0, 1.0), horn=1.5, text="TOO LOW", below=True)])
    assert low.look(at(2.1)) == ()
    (warned,) = low.look(at(1.25))
    assert warned.text == "TOO LOW"
    assert warned.horn
    assert 0.5 < warned.shaker < 1.0
    assert low.look(at(math.nan)) == ()
    assert Cues([HIGH]).look(at(math.nan)) == ()
    assert Cues([HIGH]).look({}) == ()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"signal": "height", "horn": 1.0}, "is not of the form 'plant.signal'"),
        ({"signal": "ball.height"}, "has shaker=None and horn=None; give two limits"),
        ({"signal": "ball.height", "shaker": (2.0, 1.0)}, "or give below=True"),
        ({"signal": "ball.height", "shaker": (1.0, 2.0), "below": True}, "or give below=False"),
        ({"signal": "ball.height", "shaker": (1.0,)}, "has shaker=.1.0,. and horn=None"),
        ({"signal": "ball.height", "horn": math.nan}, "limits must be finite numbers"),
        ({"signal": "ball.height", "horn": 1.0, "band": -1.0}, "band must be 0 or more"),
        ({"signal": "ball.height", "horn": 1.0, "name": "a b"}, "not an identifier"),
    ],
)
def test_a_cue_that_cannot_be_meant(arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(RtsimError, match=told):
        Cue(**{"name": "high", **arguments})


def test_a_cue_crosses_to_another_process_as_plain_data() -> None:
    assert Cue.from_plain(json.loads(json.dumps(HIGH.to_plain()))) == HIGH
    for broken in ({}, {"name": 3, "signal": "a.b"}, {"name": "x", "signal": "a.b", "horn": "y"}):
        with pytest.raises(RtsimError, match="is not a valid cue"):
            Cue.from_plain(broken)


@pytest.mark.parametrize(
    ("signal", "told"),
    [("bal.height", "plant 'bal'.*ball"), ("ball.hight", "signal 'hight'.*height")],
)
def test_a_cue_of_a_signal_that_is_not_there(signal: str, told: str) -> None:
    scenario = ball()
    scenario.show(Cue("high", signal, horn=1.0))
    with pytest.raises(RtsimError, match=told):
        Cockpit(scenario)


def test_a_shaker_beats_and_is_told_to_stop_once() -> None:
    shaker = Shaker()
    assert shaker.due(0.0, 0) is None
    first = shaker.due(1.0, 5)
    assert first is not None
    assert (first.low, first.high) == (1.0, 0.5)
    assert first.milliseconds * 1_000_000 > 2 * PULSE_NS  # without a gap, and not for long
    assert shaker.due(1.0, 4 + PULSE_NS) is None
    weak = shaker.due(1.0, 5 + PULSE_NS)
    assert weak is not None
    assert 0.0 < weak.low < 0.5
    stop = shaker.due(0.0, 6 + PULSE_NS)
    assert stop is not None
    assert (stop.low, stop.high) == (0.0, 0.0)
    assert shaker.due(0.0, 7 + PULSE_NS) is None


class Horn:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.said: list[bool] = []

    def sound(self, on: bool) -> None:
        if not self.said or self.said[-1] != on:
            self.said.append(on)

    def close(self) -> None:
        self.said.append(False)


class Hand:
    """Feels."""

    def __init__(self) -> None:
        self.felt: list[tuple[float, frozenset[int]]] = []

    def rumble(self, low: float, high: float, milliseconds: int, only: AbstractSet[int]) -> bool:  # noqa: ARG002
        self.felt.append((low, frozenset(only)))
        return True


@pytest.fixture
def horn(monkeypatch: pytest.MonkeyPatch) -> Horn:
    made = Horn()
    monkeypatch.setattr("rtsim.pilot.devices.horn.Horn", lambda: made)
    return made


def test_the_hand_that_flies_feels_it_and_the_ear_hears_it(horn: Horn) -> None:
    cueing, hand, flying = Cueing([HIGH]), Hand(), frozenset({7})
    assert cueing.follow(at(1.0), False, hand.rumble, flying, 0) == ()
    assert (hand.felt, horn.said) == ([], [False])
    (warned,) = cueing.follow(at(5.0), False, hand.rumble, flying, 1)
    assert warned.shaker == 1.0
    assert (hand.felt, horn.said) == ([(1.0, flying)], [False, True])
    # a run that stands is still and silent, and the picture says what is on
    assert cueing.follow(at(5.0), True, hand.rumble, flying, 2) == (warned,)
    assert hand.felt[-1] == (0.0, flying)
    assert horn.said[-1] is False
    cueing.follow(at(5.0), False, hand.rumble, flying, PULSE_NS)
    cueing.close(hand.rumble)
    assert hand.felt[-1] == (0.0, flying)
    assert horn.said[-1] is False


def test_quiet(horn: Horn) -> None:
    cueing, hand = Cueing([HIGH], shakes=False, sounds=False), Hand()
    (warned,) = cueing.follow(at(5.0), False, hand.rumble, frozenset({7}), 0)
    assert warned.horn
    cueing.close(hand.rumble)
    assert (hand.felt, horn.said) == ([], [])


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("pitch", "cue", "shaken", "sounded"),
    [(1.0, STALL, (15.9, 16.5), (18.9, 19.5)), (-1.0, PUSHED, (-6.5, -5.9), (-7.5, -6.9))],
    ids=["aft", "forward"],
)
def test_the_aircraft_warns_before_both_its_limits_and_flies_the_same(
    tmp_path: Path,
    pitch: float,
    cue: Cue,
    shaken: tuple[float, float],
    sounded: tuple[float, float],
) -> None:
    """Full stick, no throttle: by the model's own angle of attack."""
    script = [(0.2, (pitch, 0.0, 0.0, 0.0))]
    scenario = flight(script, speed_kt=200.0, altitude_ft=6000.0)
    assert scenario.cues == (STALL, PUSHED, PULL_UP)
    plain = [one.to_plain() for one in scenario.cues]
    signals: list[Signals] = []
    recorder = FileRecorder(tmp_path / "warned.mcap", lambda: 0)

    def see(cockpit: Cockpit) -> None:
        assert cockpit.shared.schema.about["cues"] == plain
        signals.append(dict(cockpit.shared.schema.plants)["f16"])

    _, pairs = watched(scenario, 6.0, recorder, on=see)
    cues, alpha = Cues(scenario.cues), signals[0].slice("alpha").start
    seen: list[tuple[float, bool, bool]] = []
    for pair in pairs:
        found = cues.look({"f16": Shown(signals[0], pair.next, pair.next, pair.next_ns)})
        seen.append((math.degrees(pair.next[alpha]), bool(found), bool(found) and found[0].horn))
        assert all(warned.text == (cue.text or "STALL") for warned in found)
    shakes = [degrees for degrees, on, _ in seen if on]
    horns = [degrees for degrees, _, on in seen if on]
    assert shaken[0] < shakes[0] < shaken[1]
    assert sounded[0] < horns[0] < sounded[1]
    assert seen[0][1:] == (False, False)

    silent = flight(script, speed_kt=200.0, altitude_ft=6000.0)
    silent.presentation = replace(silent.presentation, cues=())
    watched(silent, 6.0, FileRecorder(tmp_path / "silent.mcap", lambda: 0))
    warned = Recording.open(tmp_path / "warned.mcap")
    assert warned.digest() == Recording.open(tmp_path / "silent.mcap").digest()
    assert warned.header["cues"] == plain


def test_the_picture_shows_it_and_shakes() -> None:
    def drawn(warned: tuple[Warned, ...], ns: int) -> Any:
        surface = pygame.Surface((640, 360))
        surface.fill((90, 120, 160))
        draw_cues(surface, warned, ns)
        return pygame.surfarray.array3d(surface).astype(int)

    shaking, sounding = (Warned("STALL", "f16.alpha", 1.0, horn) for horn in (False, True))
    nothing, amber, red = drawn((), 0), drawn((shaking,), 0), drawn((sounding,), 0)
    assert (nothing == nothing[0, 0]).all()
    for picture, colour in ((amber, (255, 190, 60)), (red, (255, 84, 72))):
        assert (picture == colour).all(axis=2).sum() > 300
    assert (drawn((shaking,), 0) == amber).all()
    assert (drawn((shaking,), 22_000_000) != amber).any()
    silent = Warned("STALL", "f16.alpha", 0.0, True)
    assert (drawn((silent,), 0) == drawn((silent,), 22_000_000)).all()
