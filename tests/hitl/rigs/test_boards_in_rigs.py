"""Boards of other packages in rigs, at ports and in commands: what fits, and what is refused."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import rtsim
from emulated_board_parts import need
from rig_parts import changed
from rtsim_mega import MEGA

from hitl.boards import open_board
from hitl.boards.avr import UNO
from hitl.boards.known import BOARDS, add_board
from hitl.controllers.board import BoardController
from hitl.interface import InterfaceError
from hitl.rigs.file import load_rig
from hitl.rigs.rig import NODE
from hitl.rigs.wiring import WiredBoards

ROOT = Path(__file__).resolve().parents[3]
ECHO = ROOT / "firmware/tests/echo_500000.hex"
PID = f"{ROOT / 'firmware/core/pid.toml'}:single"


@pytest.fixture(autouse=True)
def _none_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BOARDS, "_added", {})
    add_board(replace(MEGA, emulators=UNO.emulators, uart=UNO.uart))


def test_an_io_node_is_a_board_that_its_firmware_runs_on(tmp_path: Path) -> None:
    path = changed(tmp_path, '"board:uno"', '"board:mega"')
    with pytest.raises(InterfaceError, match=r"a Mega cannot run .* node; write board"):
        load_rig(path)
    path = changed(tmp_path, '"board:uno"', '"serial:///dev/a?board=mega"')
    with pytest.raises(InterfaceError, match="a Mega cannot run"):
        load_rig(path)


def test_wires_end_at_the_pins_of_each_board(tmp_path: Path) -> None:
    """The Mega has a pin D40 and a channel A15, and the Uno has not."""
    device = 'firmware = "illumination.hex"'
    one = changed(tmp_path, '"switch.A0"', '"switch.A15"').read_text(encoding="utf-8")
    path = tmp_path / "rig.toml"
    path.write_text(one.replace(device, f'{device}\nboard = "board:mega"'), encoding="utf-8")
    assert str(load_rig(path).wires[0].target) == "switch.A15"
    path.write_text(one, encoding="utf-8")
    with pytest.raises(InterfaceError, match="unknown pin 'A15' in switch"):
        load_rig(path)
    text = one.replace("switch.A15", "switch.D40")
    path.write_text(text.replace(device, f'{device}\nboard = "board:mega"'), encoding="utf-8")
    with pytest.raises(InterfaceError, match="a low pass must end at A0 to A15"):
        load_rig(path)


def test_wired_boards_of_two_clocks_keep_one_time() -> None:
    need("avr8js")
    add_board(replace(UNO, name="slow", clock_hz=7_000_000))
    with (
        closing(open_board("board:uno", ECHO)) as node,
        closing(open_board("board:slow", ECHO)) as slow,
    ):
        wired = WiredBoards({NODE: node, "dimmer": slow}, (), 3200)
        for cycles in (1, 3198, 2, 10_000):
            wired.advance(cycles)
            assert slow.cycles == node.cycles * 7 // 16


def test_a_controller_on_a_board_has_its_rate_and_its_time() -> None:
    slow = BoardController(PID, url="serial:///dev/a?board=mega")
    fast = BoardController(PID, url="serial:///dev/a")
    assert (slow.baud, fast.baud) == (250_000, 500_000)
    assert slow.budget.request_ns == 2 * fast.budget.request_ns
    size = slow.budget.request_bytes, slow.budget.reply_bytes
    assert slow.budget.handling_ns == (2000 + 15 * size[0] + 40 * size[1]) * 1000 // 16


def test_two_names_of_a_board_may_not_contradict(tmp_path: Path) -> None:
    add_board(replace(MEGA, name="other"))
    words = ("flash", str(ECHO), "--dry-run", "--port", "serial:///dev/a?board=other")
    done = rtsim(*words, "--board", "mega")
    assert done.exit_code == 2
    assert "--board mega contradicts the board in --port serial:///dev/a?board=other" in done.output
    assert "-p atmega2560" in rtsim(*words).output
    add_board(replace(MEGA, name="other", flasher=None))
    done = rtsim(*words)
    assert "rtsim cannot flash a Mega: its description names no flasher" in done.output
    assert not list(tmp_path.iterdir())


def test_the_help_names_a_board_that_exists() -> None:
    for words in (("link-test",), ("sil", "check"), ("hitl",), ("board", "install"), ("pitl",)):
        told = rtsim(*words, "--help").output
        assert "uno" in told
        assert "{" not in told


def test_unknown_boards_are_errors_in_json_too() -> None:
    done = rtsim("sil", "check", PID, "--board", "meg", "--json")
    assert done.exit_code == 2
    assert done.output.startswith("{")
    assert "unknown board 'meg'; known: uno, " in done.output
