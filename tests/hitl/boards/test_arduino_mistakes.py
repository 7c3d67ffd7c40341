"""Arduino code that a board cannot run: pins that it lacks, and libraries that rtsim lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from hitl.boards.known import board_named
from hitl.building.build import build
from hitl.building.toolchain import BuildError
from hitl.firmware import firmware
from hitl.interface import Interface, InterfaceError, load_interface
from hitl.interface.targets import Pins, check_target

with_avr_gcc = pytest.mark.system("avr-gcc")


def written(folder: Path, pin: str = '"D2"', include: str = "") -> Interface:
    """Write a sketch that copies a pin to D13, and its interface file; return the interface."""
    (folder / "copy.ino").write_text(
        f"{include}\nvoid setup() {{}}\nvoid loop() {{ digitalWrite(13, digitalRead(2)); }}\n"
    )
    (folder / "copy.toml").write_text(
        'name = "copy"\narduino = true\nperiod = "1/100"\nsources = ["copy.ino"]\n'
        f'[inputs]\na = {{ pin = {pin}, type = "bool" }}\n'
        '[outputs]\nlamp = { pin = "D13", type = "bool" }\n'
    )
    return load_interface(folder / "copy.toml")


@pytest.mark.parametrize(
    ("board", "pin", "told"),
    [
        ("uno", '"A22"', "pin A22, but an Uno has only the pins D0 to D13 and A0 to A5"),
        ("uno", '"A6"', "pin A6, but an Uno has only the pins D0 to D13 and A0 to A5"),
        ("uno", '"D45"', "pin D45, but an Uno has only the pins D0 to D13 and A0 to A5"),
        ("nano", '"A8"', "but a Nano has only the pins D0 to D13 and A0 to A7"),
        ("mega2560", '"A16"', "but a Mega 2560 has only the pins D0 to D53 and A0 to A15"),
        ("pico", '"GP30"', "pin GP30, but a Pico has only the pins GP0 to GP25 and A0 to A3"),
    ],
)
def test_a_pin_that_the_board_lacks_is_refused(
    board: str, pin: str, told: str, tmp_path: Path
) -> None:
    interface = written(tmp_path, pin)
    with pytest.raises(InterfaceError, match=rf"copy\.toml:6: a is at .*{told}$"):
        check_target(interface, board_named(board).target)


@pytest.mark.parametrize(
    ("board", "pin"),
    [
        ("uno", '"A5"'), ("uno", '"D19"'), ("nano", '"A7"'), ("mega2560", '"D69"'),
        ("mega2560", '"A15"'), ("pico", '"GP29"'), ("pico", '"A3"'), ("uno", "13"),
    ],
)  # fmt: skip
def test_a_pin_that_the_board_has_is_taken(board: str, pin: str, tmp_path: Path) -> None:
    check_target(written(tmp_path, pin), board_named(board).target)


def test_a_pin_that_the_host_lacks_is_refused_before_the_compiler(tmp_path: Path) -> None:
    interface = written(tmp_path, '"A22"')
    told = "a is at pin A22, but this host has only the pins D0 to D69 and A0 to A7"
    with pytest.raises(InterfaceError, match=told):
        build(interface)


def test_pins_with_other_names_are_not_known() -> None:
    assert Pins.of(["PB0", "PB1"], ["PB1"]) is None


def test_13_is_d13(tmp_path: Path) -> None:
    assert {written(tmp_path, pin).input_fields[0].pin for pin in ("13", '"13"', '"D13"')} == {"13"}


@pytest.mark.parametrize("library", ["Wire", "SPI", "EEPROM"])
def test_a_library_that_rtsim_lacks_is_told_on_the_host(library: str, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=rf"{library}\.h(.|\n)*\n{library} is not available in rt"):
        build(written(tmp_path, include=f"#include <{library}.h>"))


@with_avr_gcc
def test_a_library_that_rtsim_lacks_is_told_on_a_board(tmp_path: Path) -> None:
    interface = written(tmp_path, include="#include <Wire.h>")
    with pytest.raises(BuildError, match="\nWire is not available in rtsim: leave its calls out"):
        firmware(interface)


def test_another_missing_header_has_no_such_hint(tmp_path: Path) -> None:
    with pytest.raises(BuildError) as failed:
        build(written(tmp_path, include="#include <MyWire.h>"))
    assert "not available" not in str(failed.value)
