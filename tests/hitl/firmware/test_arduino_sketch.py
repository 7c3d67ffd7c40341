"""Arduino sketches that use the pins of a board: what belongs to them, and what is refused."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from emulated_board_parts import need
from firmware_parts import with_avr_gcc

from hitl.boards import BoardError, open_board
from hitl.boards.avr import MEGA, NANO, UNO
from hitl.boards.description import BoardDescription
from hitl.boards.pico import PICO
from hitl.building.toolchain import BuildError
from hitl.cli.board_tools import build
from hitl.cli.link import flash
from hitl.firmware.arduino_sketch import image_of_sketch
from hitl.firmware.compiling import NoTools

BLINK = """
void setup() { pinMode(8, OUTPUT); }
void loop() { toggle(); delayMicroseconds(500); }
void toggle() { digitalWrite(8, !digitalRead(8)); }
"""


def written(path: Path, text: str = BLINK) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@with_avr_gcc
@pytest.mark.parametrize("board", [UNO, NANO, MEGA], ids=lambda board: str(board.name))
def test_a_sketch_runs_on_the_pins_of_each_board(board: BoardDescription, tmp_path: Path) -> None:
    """Its functions are used before they are defined."""
    need("avr8js")
    made = image_of_sketch(written(tmp_path / "blink.ino"), board)
    assert made.warnings == ""
    with closing(open_board(board.url, made.path)) as opened:
        opened.advance(opened.clock_hz // 100)
        edges = [edge for edge in opened.pins.edges() if edge.pin == "D8"]
        assert 15 < len(edges) < 21
        assert opened.receive() == b""


@with_avr_gcc
def test_all_files_of_a_folder_with_the_name_of_the_sketch_belong_to_it(tmp_path: Path) -> None:
    folder = tmp_path / "main"
    path = written(folder / "main.ino", '#include "src/deep.h"\nvoid setup() { a(); deep(); }\n')
    written(folder / "b.ino", "void loop() {}\n")
    written(folder / "a.ino", "void a() { c(); }\n")
    written(folder / "c.h", 'extern "C" void c();\n')
    path.write_text('#include "c.h"\n' + path.read_text())
    written(folder / "c.c", "void c(void) {}\n")
    written(folder / "src" / "deep.h", "void deep();\n")
    written(folder / "src" / "deep.cpp", '#include "deep.h"\nvoid deep() {}\n')
    first = image_of_sketch(path)
    assert image_of_sketch(path).path == first.path
    written(folder / "src" / "deep.cpp", '#include "deep.h"\nvoid deep() { while (1) {} }\n')
    assert image_of_sketch(path).path != first.path
    written(folder / "a.ino", "void a() { c(); }\nint wrong() { return no; }\n")
    with pytest.raises(BuildError, match=r"main/a\.ino:2:.*'no' was not declared"):
        image_of_sketch(path)


@with_avr_gcc
def test_other_files_beside_a_sketch_of_another_name_do_not_belong_to_it(tmp_path: Path) -> None:
    written(tmp_path / "other.ino", "void setup() {}\n")
    written(tmp_path / "controller.c", "#error not for a board\n")
    written(tmp_path / "limits.h", "const int most = 3;\n")
    text = '#include "limits.h"\nvoid setup() {}\nvoid loop() { analogWrite(9, most); }\n'
    first = image_of_sketch(written(tmp_path / "one.ino", text))
    written(tmp_path / "limits.h", "const int most = 4;\n")
    assert image_of_sketch(tmp_path / "one.ino").path != first.path


@with_avr_gcc
def test_libraries_of_the_core_are_found_by_their_headers(tmp_path: Path) -> None:
    text = "#include <Wire.h>\n#include <EEPROM.h>\nvoid setup() { Wire.begin(); }\n"
    text += "void loop() { EEPROM.update(0, Wire.available()); }\n"
    assert image_of_sketch(written(tmp_path / "bus.ino", text)).flash_bytes > 1000
    folder = tmp_path / "deep"
    written(folder / "src" / "bus.h", "#include <Wire.h>\ninline void bus() { Wire.begin(); }\n")
    text = '#include "src/bus.h"\nvoid setup() { bus(); }\nvoid loop() {}\n'
    assert image_of_sketch(written(folder / "deep.ino", text)).flash_bytes > 1000


@with_avr_gcc
def test_a_missing_library_is_named_with_where_to_put_it(tmp_path: Path) -> None:
    path = written(tmp_path / "dht.ino", "#include <DHT.h>\n" + BLINK)
    with pytest.raises(BuildError, match=r"DHT\.h is neither .*copy .* to dht/src.*arduino-cli"):
        image_of_sketch(path)


@with_avr_gcc
def test_a_program_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    text = "volatile char many[3000];\nvoid setup() {}\nvoid loop() { many[0] = many[1]; }\n"
    with pytest.raises(BoardError, match=r"big has 3\d\d\d bytes of static data, but an Uno has"):
        image_of_sketch(written(tmp_path / "big.ino", text))
    assert image_of_sketch(tmp_path / "big.ino", MEGA).ram_bytes > 3000


def test_what_is_no_sketch_and_what_has_no_core_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "blink.ino")
    with pytest.raises(BoardError, match=r"no Arduino core for a Pico.*give its HEX file"):
        image_of_sketch(path, PICO)
    with pytest.raises(BoardError, match=r"blink\.c is not an Arduino sketch; give a file NAME"):
        image_of_sketch(tmp_path / "blink.c")
    with pytest.raises(BoardError, match=r"none/none\.ino"):
        image_of_sketch(tmp_path / "none" / "none.ino")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoTools, match=r"blink without avr-gcc.*type: sudo apt install gcc-avr"):
        image_of_sketch(path)


@with_avr_gcc
def test_the_command_writes_the_image_where_it_is_asked_to(tmp_path: Path) -> None:
    path = written(tmp_path / "blink.ino")
    done = typed(path, "-o", tmp_path / "made")
    assert done.exit_code == 0, done.output
    assert "blink.ino for an Uno: avr-gcc" in done.output
    assert done.output.splitlines()[-1] == f"image: {tmp_path / 'made' / 'blink.hex'}"
    told = json.loads(typed(path, "--board", "mega2560", "--json").output)
    assert (told["name"], told["board"]) == ("blink", "mega2560")
    assert Path(told["image"]).read_text()[0] == ":"
    wrong = typed(path, "--baud", "9600")
    assert wrong.exit_code == 2
    assert "blink.ino, which sets its own rate" in wrong.output
    warned = written(tmp_path / "warned.ino", BLINK + "static int unused;\n")
    assert "unused" in typed(warned).stderr
    assert typed(warned, "--warnings", "error").exit_code == 1


@with_avr_gcc
def test_a_sketch_is_flashed_and_the_board_is_not_asked(tmp_path: Path) -> None:
    path = written(tmp_path / "blink.ino")
    words = [str(path), "--port", "/dev/ttyACM0", "--dry-run"]
    done = CliRunner().invoke(flash, words)
    assert done.exit_code == 0, done.output
    assert done.output.startswith("avrdude -p atmega328p")
    assert f"{image_of_sketch(path).path}" in done.output
    assert "baud (" not in done.output, "the sketch sets the rate of its line"
    wrong = CliRunner().invoke(flash, [*words, "--baud", "9600"])
    assert wrong.exit_code == 2
    assert "which sets its own rate" in wrong.output


def typed(*arguments: object) -> Any:
    return CliRunner().invoke(build, [str(a) for a in arguments])
