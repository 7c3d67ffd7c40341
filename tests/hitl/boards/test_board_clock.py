"""``rtsim board clock``: when Arduino code on an emulated board begins its first step."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from emulated_board_parts import need

from hitl.controllers.board_clock import measured_clock
from hitl.interface import load_interface
from hitl.interface.file import AVR, EXACT
from rtsim.cli import main

ROOT = Path(__file__).resolve().parents[3]
REGULATOR = ROOT / "hitl/examples/arduino/regulator.toml"
MOVED_US = 100
"""By how much the measurement itself may move a time."""


@pytest.mark.system("avr-gcc")
def test_the_first_step_on_an_uno_is_that_of_the_interface_file() -> None:
    need("avr8js")
    interface = load_interface(REGULATOR)
    found = measured_clock(interface)
    assert found == measured_clock(interface)
    assert found.timer == AVR
    assert found.setup_us % 4 == found.first_step_us % 4 == 0  # the steps of micros() at 16 MHz
    assert 0 < found.setup_us < found.first_step_us
    assert interface.language.clock is not None
    assert abs(found.first_step_us - interface.language.clock.first_step_us) < MOVED_US


@pytest.mark.usefixtures("pico")
def test_the_clock_of_a_pico_has_no_steps_of_a_ms() -> None:
    done = CliRunner().invoke(
        main, ["board", "clock", str(REGULATOR), "--board", "board:pico", "--json"]
    )
    assert done.exit_code == 0, done.output
    told = json.loads(done.output)
    assert (told["timer"], told["board"]) == (EXACT, "board:pico")
    assert 0.0 < told["setup_s"] < told["first_step_s"] < 0.01


def test_code_without_a_clock_is_refused() -> None:
    motor = ROOT / "firmware/core/pid.toml"
    done = CliRunner().invoke(main, ["board", "clock", f"{motor}:single"])
    assert done.exit_code == 2
    assert "is not Arduino code, so it reads no clock; write arduino = true" in done.output
    done = CliRunner().invoke(
        main, ["board", "clock", str(REGULATOR), "--board", "serial:///dev/none"]
    )
    assert done.exit_code == 2
    assert "change from run to run; give an emulated board, such as" in done.output
