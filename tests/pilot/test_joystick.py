"""``rtsim joystick``: what it shows, what it asks, what it writes; by sticks that SDL makes up."""

from __future__ import annotations

import io
import json
import math
import os
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pygame
import pytest
from click.testing import CliRunner
from rich.console import Console
from virtual_joystick import GAMEPAD, HAT_UP, VirtualJoystick

from rtsim.cli import main
from rtsim.cli.joystick import ask, open_devices, watch
from rtsim.core.errors import RtsimError
from rtsim.core.signals import Signal, Signals
from rtsim.models.f16.by_wire import STICK
from rtsim.pilot.devices.controls import Controls, Moved
from rtsim.pilot.devices.device import DeviceSample, Stick
from rtsim.pilot.devices.mapping import mapping_of, read_mapping
from rtsim.pilot.devices.sdl import Devices
from rtsim.pilot.viewer import overlay


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")


@pytest.fixture
def devices() -> Iterator[Devices]:
    with open_devices() as found:
        yield found


def told(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, ["joystick", *arguments])
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def plugged(monkeypatch: pytest.MonkeyPatch) -> list[VirtualJoystick]:
    """Two sticks that come at the third look: before that, SDL is not open."""
    sticks: list[VirtualJoystick] = []
    looks = [0]
    real, real_close = Devices.look, Devices.close

    def look(self: Devices) -> object:
        looks[0] += 1
        if looks[0] == 3:
            sticks.append(VirtualJoystick(3, 12, hats=1, name="[red]T.16000M[/", rumbles=True))
            sticks.append(VirtualJoystick(6, 15, GAMEPAD, name="Pad"))
            sticks[0].move(0, 1.0)
            sticks[0].press(7)
            sticks[0].point(0, HAT_UP)
        return real(self)

    def close(self: Devices) -> None:
        for stick in sticks:
            stick.unplug()
        real_close(self)

    monkeypatch.setattr(Devices, "look", look)
    monkeypatch.setattr(Devices, "close", close)
    return sticks


def test_a_list_for_people(plugged: list[VirtualJoystick]) -> None:
    code, out, _ = told("--once")
    assert code == 0
    assert len(plugged) == 2
    for line in (
        "[red]T.16000M[/",
        "3 axes, 12 buttons, 1 hat; rumbles; joystick",
        "axis 0  ───────────────┼──────────────█ +1.000",
        "buttons 7",
        "hat 0   up",
        "6 axes, 15 buttons, 0 hats; does not rumble; gamepad",
        "gamepad mapping a:b0 b:b1",
    ):
        assert line in out


def test_what_each_control_does(plugged: list[VirtualJoystick]) -> None:
    """By a mapping of one's own."""
    assert plugged == []
    mapping = Path("my.toml")
    mapping.write_text(
        '[pitch]\njoystick = { axis = 1 }\ntrimmers = { button = "hat0up", by = -0.02 }\n'
        '[commands]\nmark = { button = "button7" }\n'
    )
    code, out, _ = told("--once", "--mapping", str(mapping))
    assert code == 0
    for line in (
        "axis 1  pitch",
        "button7 mark: sets a mark in the recording",
        "hat0up  pitch: trim -0.02",
    ):
        assert line in out
    code, _, error = told("--once", "--mapping", "none.toml")
    assert code == 2
    assert "none.toml: No such file or directory; give the path of a mapping" in error


def test_a_list_for_machines(plugged: list[VirtualJoystick]) -> None:
    code, out, _ = told("--json")
    assert code == 0
    first, second = json.loads(out)["devices"]
    assert [first["number"], second["number"]] == [stick.number for stick in plugged]
    assert first["axes"] == pytest.approx([1.0, 0.0, 0.0], abs=1e-4)
    assert first["buttons"][7] is True
    assert first["hats"] == [[0, 1]]
    assert (first["rumble"], first["gamepad"]) == (True, None)
    assert second["gamepad"]["rightx"] == "a2"
    assert first["held"] == ["button7", "hat0up"]
    assert first["does"]["hat0up"] == "pitch: trim -0.01"
    assert second["does"]["start"] == "pause: pauses or resumes"
    assert len(second["guid"]) == 32


def test_without_a_device_it_is_said_what_is_missing() -> None:
    code, out, error = told("--json")
    assert code == 2
    assert json.loads(out)["error"]["message"] in error
    assert "no joystick or gamepad" in error
    assert told("--once")[0] == 2


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ((), "without a terminal, type: rtsim joystick --once"),
        (("calibrate",), "needs a terminal"),
        (("--json", "calibrate"), "do not work with calibrate"),
    ],
)
def test_mistakes(arguments: tuple[str, ...], what: str) -> None:
    code, _, error = told(*arguments)
    assert code == 2
    assert what in error


def test_an_older_mapping_is_not_written_over() -> None:
    Path("joystick.toml").write_text("mine")
    code, _, error = told("calibrate")
    assert code == 2
    assert "joystick.toml exists already; add --force" in error
    assert Path("joystick.toml").read_text() == "mine"
    assert "needs a terminal" in told("calibrate", "--force")[2]


def console() -> Console:
    able = {"TERM": "xterm-256color"}  # a dumb terminal is shown nothing while it lives
    return Console(file=io.StringIO(), force_terminal=True, width=100, height=40, _environ=able)


def test_live_until_a_key_and_a_shake_on_demand(devices: Devices) -> None:
    stick = VirtualJoystick(name="Moving", rumbles=True)
    screen, presses = console(), iter("r")
    reads = [0]

    def read(_: float) -> list[str]:
        reads[0] += 1
        if reads[0] < 100:
            stick.move(0, 0.5 if reads[0] < 60 else -0.5)
        if reads[0] == 40:
            return [next(presses)]
        if reads[0] == 100:
            stick.unplug()
        return ["q"] if reads[0] == 130 else []

    watch(devices, read, screen)
    assert isinstance(screen.file, io.StringIO)
    shown = screen.file.getvalue()
    for words in (
        ": Moving ",
        "+0.500",
        "-0.500",
        "Moving was unplugged",
        "no joystick or gamepad",
    ):
        assert words in shown
    assert max(stick.felt) == (1.0, 1.0)


class Hand:
    """Does with a virtual stick what each step asks: where its axes are, then a key."""

    def __init__(self, stick: VirtualJoystick, *steps: tuple[dict[int, float], str]) -> None:
        self._stick, self._steps = stick, list(steps)
        self._reads = 0

    def __call__(self, _: float) -> list[str]:
        assert self._steps, "it asks for more"
        held, key = self._steps[0]
        self._reads += 1
        jitter = 0.01 * math.sin(2.4 * self._reads)
        for axis in range(4):
            self._stick.move(axis, max(-1.0, min(1.0, held.get(axis, 0.0) + jitter)))
        if self._reads % 50:
            return []
        self._steps.pop(0)
        return [key]


def test_a_calibration_from_the_first_question_to_a_flying_stick(devices: Devices) -> None:
    """Aft is negative on this stick, its middle is off, its lever opens at -0.9."""
    stick = VirtualJoystick(name="Worn")
    rest, lever = {1: 0.1}, {3: 0.9}
    hand = Hand(
        stick,
        ({**rest, **lever}, "\r"),  # its axes jump from SDL's zeros to where they are
        ({**rest, **lever}, "\r"),
        ({1: -0.8, **lever}, "\r"),
        ({**rest, **lever}, "\r"),  # let go too early: it is asked again
        ({1: 0.95, **lever}, "\r"),
        ({**rest, **lever, 0: 1.0}, "\r"),
        ({**rest, **lever, 0: -1.0}, "\r"),
        ({**rest, **lever}, "s"),
        ({**rest, 3: -0.9}, "\r"),
        ({**rest, **lever}, "\r"),
        ({**rest, **lever}, "\r"),
    )
    screen = console()
    said = ask(devices, hand, screen, STICK, Path("mine.toml"))
    assert isinstance(screen.file, io.StringIO)
    shown = screen.file.getvalue()
    assert "pitch (aft is positive: nose up): move its control fully in the positive" in shown
    assert "of Worn moves: let go of all controls" in shown
    assert "axis 1 of Worn is at rest: hold the control at its other end" in shown
    assert "step 10 of 10" in shown
    assert "pitch: axis 1 of Worn" in said
    assert "inverted" in said
    tables = tomllib.loads(Path("mine.toml").read_text())
    assert tables["pitch"]["joystick"]["invert"] is True
    assert 0.01 <= tables["pitch"]["joystick"]["dead_zone"] < 0.05
    assert tables["yaw"]["joystick"] == {"axis": 2}  # left out: as it was
    assert tables["pitch"]["curve"] == 0.4
    controls = Controls(read_mapping(Path("mine.toml"), STICK), STICK)
    for k, (held, wanted) in enumerate(
        [
            ({0: 0.0, 1: 0.1, 3: 0.9}, (0.0, 0.0, 0.0, 0.0)),
            ({0: 1.0, 1: -0.8, 3: -0.9}, (1.0, 1.0, 0.0, 1.0)),
            ({0: -1.0, 1: 0.95, 3: 0.0}, (-1.0, -1.0, 0.0, 0.5)),
        ]
    ):
        for axis in range(4):
            stick.move(axis, held.get(axis, 0.0))
        devices.look()
        values = controls.update(devices.look(), k)
        assert values[:4].tolist() == pytest.approx(wanted, abs=0.02)
    stick.unplug()


def test_a_calibration_that_is_left_writes_nothing(devices: Devices) -> None:
    stick = VirtualJoystick()
    hand = Hand(stick, ({}, "\r"), ({1: 1.0}, "\r"), ({}, "b"), ({}, "q"))
    with pytest.raises(KeyboardInterrupt, match=r"mine.toml was not changed"):
        ask(devices, hand, console(), STICK, Path("mine.toml"))
    hand = Hand(stick, ({}, "\r"), *[({}, "s")] * 4, ({}, "\r"))
    with pytest.raises(RtsimError, match=r"every signal was skipped, so mine.toml was not changed"):
        ask(devices, hand, console(), STICK, Path("mine.toml"))
    assert not Path("mine.toml").exists()
    stick.unplug()


@pytest.mark.parametrize(
    ("movers", "asks"),
    [
        ({"pitch": Moved(""), "throttle": Moved("keyboard")}, True),
        ({"pitch": Moved("Worn"), "throttle": Moved("keyboard")}, False),
        ({"flaps": Moved("", by_device=False)}, False),
        ({}, False),
    ],
)
def test_who_flies_by_keys_reads_where_to_ask_for_a_joystick(
    monkeypatch: pytest.MonkeyPatch, movers: dict[str, Moved], asks: bool
) -> None:
    said: list[str] = []
    monkeypatch.setattr(overlay, "write", lambda _, text, *__: said.append(text))
    overlay.draw_help(pygame.Surface((640, 600)), movers)
    assert any("rtsim joystick" in text for text in said) == asks


def test_what_moves_a_value_is_told_from_the_mapping() -> None:
    """Not rtsim's own keys where others fly, and no keys where there are none."""
    stick = Signals(Signal("push"), Signal("lift"), Signal("flaps"))
    keys = {"minus": "a", "plus": "left shift"}
    tables = {
        "push": {"keyboard": keys, "mouse": {"axis": "y"}}, "lift": {"joystick": {"axis": 0}},
    }  # fmt: skip
    flown = Controls(mapping_of(tables, stick, "here"), stick)
    rows = dict(overlay.help_rows(flown.movers))
    assert rows["push"] == "left shift: +, a: -; mouse (M)"
    assert rows["lift"] == "joystick (not plugged in)"
    assert rows["flaps"] == "nothing: see --mapping"
    assert not any("rudder" in says for says in rows.values())
    assert "no joystick?" in rows
    flown.update(DeviceSample({1: Stick("joystick", "Extreme 3D", (0.5,))}), 0)
    rows = dict(overlay.help_rows(flown.movers))
    assert rows["lift"] == "Extreme 3D"
    assert "no joystick?" not in rows


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="a pseudo terminal")
def test_in_a_real_terminal_it_is_live_and_leaves_it_as_it_was(tmp_path: Path) -> None:
    """Also with nothing plugged in: it says what is missing, and waits for it."""
    from terminal_parts import Terminal  # not on Windows

    terminal = Terminal([sys.executable, "-m", "rtsim", "joystick"], dict(os.environ))
    try:
        assert "r rumble" in terminal.until("q quit")
        terminal.press("q")
        assert terminal.process.wait(30) == 0
        terminal.read(0.3)
        assert terminal.as_it_was
    finally:
        terminal.close()
    (tmp_path / "kept.toml").write_text("mine")
    asked = Terminal(
        [sys.executable, "-m", "rtsim", "joystick", "calibrate", "--mapping", "kept.toml",
         "--force"], dict(os.environ),
    )  # fmt: skip
    try:
        asked.until("step 1 of 10")
        asked.press("\x03")
        assert asked.process.wait(30) == 130
        asked.read(0.3)
        assert asked.as_it_was
        assert "kept.toml was not changed" in asked.raw
    finally:
        asked.close()
    assert (tmp_path / "kept.toml").read_text() == "mine"
