"""One controller on all emulated boards in one table; the Nano and the Mega 2560; board names."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from emulated_board_parts import need
from firmware_parts import started

from hitl.boards.avr import FIRST, MEGA, NANO
from hitl.boards.avr import MEGA_NUMBERS as NUMBERS
from hitl.boards.avr import mega_pwm as pwm
from hitl.boards.known import BOARDS, board_named
from hitl.cli.board_tools import _to_json
from hitl.comparison import on_boards as on_boards_module
from hitl.comparison.on_boards import OnHost, OnOneBoard, on_boards, random_inputs
from hitl.firmware import firmware
from hitl.interface import Interface, load_interface
from rtsim.cli import main
from rtsim.core.signals import Vector

F16 = "firmware/core/f16_control.toml"
ALL = ("uno", "nano", "mega2560", "pico", "stm32f4")


def rows(*arguments: str) -> tuple[int, list[dict[str, object]]]:
    done = CliRunner().invoke(main, ["board", "compare", *arguments, "--json"])
    return done.exit_code, json.loads(done.stdout)["boards"]


@pytest.mark.long
def test_all_boards_have_the_bits_of_the_host() -> None:
    need("avr8js", "rp2040js", "unicorn")
    status, found = rows(f"{F16}:single", "--steps", "10")
    by_name = {str(row["board"]): row for row in found}
    assert status == 0
    assert tuple(by_name) == ALL
    assert all(row["equal_steps"] == row["steps"] == 10 for row in found)
    uno, nano, mega, pico, stm32f4 = (by_name[name] for name in ALL)
    same = ("step_ns", "stack_bytes", "exchange_ns_max", "flash_bytes", "cycles_max")
    assert {name: uno[name] for name in same} == {name: nano[name] for name in same}
    calls = int(str(mega["cycles_max"])) - int(str(uno["cycles_max"]))
    assert 0 < calls < 1000, "calls and returns take a cycle more with addresses of three bytes"
    assert int(str(mega["stack_bytes"])) > int(str(uno["stack_bytes"]))
    assert int(str(pico["exchange_ns_max"])) < int(str(uno["exchange_ns_max"])) / 4
    assert int(str(stm32f4["cycles_max"])) < int(str(pico["cycles_max"])) / 20


def test_a_board_that_cannot_run_it_says_why() -> None:
    need("rp2040js")
    done = CliRunner().invoke(main, ["board", "compare", F16, "--steps", "3"])
    assert done.exit_code == 2
    assert "3 of 3 steps" in done.output
    assert "mega2560: " in done.output
    assert "type: f16_control.toml:single" in done.output


def test_an_output_that_differs_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    need("rp2040js")
    alone = on_boards_module._on_host

    def other(interface: Interface, inputs: Sequence[Vector]) -> OnHost:
        host = alone(interface, inputs)
        return replace(host, answers=[answer + 1.0 for answer in host.answers])

    monkeypatch.setattr(on_boards_module, "_on_host", other)
    status, (row,) = rows(F16, "--steps", "3", "--boards", "pico")
    assert (status, row["equal_steps"], row["steps"]) == (1, 0, 3)


def test_inputs_are_within_their_ranges_and_the_same_for_a_seed() -> None:
    interface = load_interface(F16)
    one, two = (np.array(random_inputs(interface, 50, seed)) for seed in (3, 4))
    assert one.tobytes() == np.array(random_inputs(interface, 50, 3)).tobytes()
    assert one.tobytes() != two.tobytes()
    assert (one[:, 0] >= 0.0).all()
    assert (one[:, 0] <= 1.0).all()
    assert np.abs(one).max() <= 100.0


def test_an_unknown_board_is_told() -> None:
    done = CliRunner().invoke(main, ["board", "compare", F16, "--boards", "pica"])
    assert done.exit_code == 2
    assert "unknown board 'pica'; known: uno, nano, mega2560, pico, stm32f4" in done.output


def test_a_board_without_an_emulator_is_told() -> None:
    bare = replace(MEGA, emulators={})
    (row,) = (on_boards_module._on_board(load_interface(f"{F16}:single"), bare, [], []),)
    assert row == OnOneBoard(bare, why="a Mega 2560 has no emulator")
    assert _to_json(row)["why"] == "a Mega 2560 has no emulator"
    assert on_boards(load_interface(F16), [], []).rows == []


def test_boards_are_listed() -> None:
    done = CliRunner().invoke(main, ["board", "list", "--json"])
    listed = json.loads(done.stdout)["boards"]
    assert [board["name"] for board in listed] == list(BOARDS)
    done = CliRunner().invoke(main, ["board", "info", "mega2560", "--json"])
    about = json.loads(done.stdout)
    assert about["mcu"] == "ATmega2560"
    assert set(about["tools"]) == {"compiler", "avr8js"}
    text = CliRunner().invoke(main, ["board", "info", "pico"]).output
    assert "RP2040 (cortex-m0plus), 125 MHz" in text
    assert "GP0 to GP29" in text


# -- Nano and Mega 2560


def test_the_mega_is_reset_and_answers_again() -> None:
    need("avr8js")
    with started(firmware(f"{F16}:single", board=MEGA)) as talk:
        talk.board.advance(16_000)
        talk.board.receive()
        talk.board.reset()
        talk.board.advance(160_000)
        assert talk.board.receive(), "the notice of the reset"
        assert talk.board.restarts == 0


def test_pins_of_the_mega_have_the_numbers_of_their_ports() -> None:
    assert len(set(NUMBERS.values())) == 70
    ports = "ABCDEFGHJKL"
    for name, place in {"D0": "E0", "D13": "B7", "D53": "B0", "A0": "F0", "A15": "K7"}.items():
        assert NUMBERS[name] == 8 * ports.index(place[0]) + int(place[1])
    assert board_named("mega2560").channel("A7") == 7


def test_pwm_of_a_timer_that_the_uno_lacks() -> None:
    """Timer 5, fast PWM with 8 bits at clk/64: D46 at 976.6 Hz, high for 128 of 256 counts."""
    registers = bytearray(MEGA.require_pins().registers.length)
    for address, value in ((0x120, 0x81), (0x121, 0x0B), (0x128, 127)):
        registers[address - FIRST] = value
    found = pwm("D46", bytes(registers))
    assert found is not None
    assert found.duty == 0.5
    assert found.frequency == pytest.approx(976.5625)
    assert pwm("D45", bytes(registers)) is None


def test_the_nano_has_two_more_analog_inputs() -> None:
    assert NANO.channel("A7") == 7
    assert NANO.compiler.core is not None
    assert NANO.compiler.core.variant == "eightanaloginputs"
