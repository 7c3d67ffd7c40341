"""The firmware as an Arduino library, and the sketches of ``rtsim board export``.

Arduino code that a board cannot run: pins that it lacks, and libraries that rtsim lacks.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from arduino_parts import arduino_build, rows_of
from click.testing import CliRunner, Result
from emulated_board_parts import need

from hitl.boards import BoardError
from hitl.boards.known import board_named
from hitl.building.build import build
from hitl.building.toolchain import BuildError
from hitl.controllers.board import BoardController
from hitl.controllers.in_process import InProcess
from hitl.firmware import firmware
from hitl.firmware.exporting import exported, library_example
from hitl.interface import Interface, InterfaceError, load_interface
from hitl.interface.shipped import FIRMWARE
from hitl.interface.targets import Pins, check_target
from rtsim.cli import main

HITL = Path(__file__).resolve().parents[3] / "hitl"
MOTOR = f"{HITL / 'starter' / 'motor.toml'}:float"
EXAMPLES = HITL / "examples" / "arduino"
with_avr_gcc = pytest.mark.system("avr-gcc")
SETPOINTS = np.column_stack([np.linspace(0.0, 60.0, 20), np.linspace(0.0, 40.0, 20)])


def test_the_librarys_files_agree_on_its_name_and_version() -> None:
    text = (FIRMWARE / "library.properties").read_text(encoding="utf-8")
    properties = dict(line.split("=", 1) for line in text.splitlines())
    about = json.loads((FIRMWARE / "library.json").read_text(encoding="utf-8"))
    assert (properties["name"], properties["version"]) == (about["name"], about["version"])
    assert (FIRMWARE / "src" / properties["includes"]).is_file()
    for key in ("author", "maintainer", "sentence", "category", "architectures"):
        assert properties[key]


def test_the_librarys_example_is_what_the_interface_file_of_the_motor_gives() -> None:
    made = library_example(load_interface(MOTOR))
    folder = FIRMWARE / "examples" / "Motor"
    files = {"Motor.ino" if name == "motor.ino" else name: t for name, t in made.files.items()}
    assert {p.name: p.read_text(encoding="utf-8") for p in folder.iterdir()} == files


def test_an_export_replaces_only_an_export(tmp_path: Path) -> None:
    made = exported(load_interface(MOTOR), baud=115_200)
    place = made.write(tmp_path)
    assert "Serial.begin(115200);" in (place / "motor.ino").read_text(encoding="utf-8")
    assert "src_dir = .\n" in (place / "platformio.ini").read_text(encoding="utf-8")
    made.write(tmp_path)
    (place / "platformio.ini").unlink()
    with pytest.raises(BoardError, match="was not written by rtsim board export"):
        made.write(tmp_path)


@pytest.mark.parametrize("name", ["motor.ino", "src/controller/motor.c", "src/own/more.h"])
def test_an_export_replaces_no_edited_file(name: str, tmp_path: Path) -> None:
    def export(*more: str) -> Result:
        return CliRunner().invoke(main, ["board", "export", MOTOR, str(tmp_path), *more])

    done = export()
    assert "not compiled; next: open " in done.output
    place = tmp_path / "motor"
    (place / "notes.txt").write_text("mine", encoding="utf-8")
    assert export("--baud", "115200").exit_code == 0, "a file that the export wrote is replaced"
    (place / name).parent.mkdir(exist_ok=True)
    (place / name).write_text("mine", encoding="utf-8")
    done = export("--baud", "115200")
    assert done.exit_code == 2
    assert f"{place / name} would be replaced, but rtsim board export did not" in done.output
    assert (place / name).read_text(encoding="utf-8") == "mine"
    assert export("--force").exit_code == 0
    assert not (place / name).exists() or (place / name).read_text(encoding="utf-8") != "mine"
    assert (place / "notes.txt").read_text(encoding="utf-8") == "mine"


def test_an_export_without_a_list_of_sums_is_replaced_only_by_the_same(tmp_path: Path) -> None:
    place = exported(load_interface(MOTOR)).write(tmp_path)
    (place / "rtsim-export.sha256").unlink()
    exported(load_interface(MOTOR)).write(tmp_path)
    (place / "rtsim-export.sha256").unlink()
    with pytest.raises(BoardError, match=r"motor\.ino would be replaced"):
        exported(load_interface(MOTOR), baud=115_200).write(tmp_path)


def test_a_board_without_an_arduino_core_has_other_types() -> None:
    with pytest.raises(BoardError, match="uses no Arduino core, so its types are not those"):
        exported(load_interface(MOTOR), board=board_named("pico"))


def test_the_command_prints_where_the_sketch_is(tmp_path: Path) -> None:
    arguments = ["board", "export", MOTOR, str(tmp_path), "--json"]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    said = json.loads(done.output)
    assert said["sketch"] == str(tmp_path / "motor")
    assert {str(p.relative_to(tmp_path / "motor")) for p in (tmp_path / "motor").rglob("*.*")} >= {
        "motor.ino", "src/rtsim.h", "src/rtsim/board.c", "src/controller/motor.c",
    }  # fmt: skip


@with_avr_gcc
@pytest.mark.parametrize("name", ["library", "motor", "thermostat"])
def test_a_sketch_of_the_library_answers_on_the_emulated_board(name: str, tmp_path: Path) -> None:
    """Compiled as by the IDE, without rtsim's Makefile, and with a clock of micros() only."""
    need("avr8js")
    reference = str(EXAMPLES / "thermostat.toml") if name == "thermostat" else MOTOR
    interface = load_interface(reference)
    if name == "library":
        image = arduino_build(FIRMWARE / "examples" / "Motor", [FIRMWARE], tmp_path / "build")
    else:
        place = exported(interface).write(tmp_path)
        image = arduino_build(place, [], tmp_path / "build")
    inputs = SETPOINTS if name != "thermostat" else np.linspace(0.67, 0.74, 45)[:, None]
    board = BoardController(interface, firmware=image, cases=None)
    host = InProcess(reference)
    rows = rows_of(board, inputs)
    assert np.array_equal(rows, rows_of(host, inputs))
    assert len(set(rows[:, 0])) > 1


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
