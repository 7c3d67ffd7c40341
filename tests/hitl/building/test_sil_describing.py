"""``rtsim sil header`` and ``check``, and the table of keys in docs/sil.md."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hitl.building.c_code import header_text
from hitl.building.toolchain import find_toolchain
from hitl.cli.interfaces import write_starter
from hitl.interface import fields, file, load_interface
from rtsim.cli import main

PAGE = Path(__file__).resolve().parents[3] / "docs" / "sil.md"


def rtsim_sil(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["sil", *map(str, arguments)])


@pytest.fixture
def motor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The example; what is built would go into a cache of the test's own."""
    monkeypatch.setenv("RTSIM_CACHE_DIR", str(tmp_path / "cache"))
    write_starter(tmp_path)
    return tmp_path / "motor.toml"


# -- header


def test_the_header_goes_to_the_terminal_or_over_an_older_one(motor: Path) -> None:
    text = header_text(load_interface(f"{motor}:float"))
    told = rtsim_sil("header", f"{motor}:float")
    assert (told.exit_code, told.stdout) == (0, text)
    file = motor.with_name("signals.h")
    for reference in (motor, f"{motor}:float"):
        told = rtsim_sil("header", reference, "-o", file)
        assert told.exit_code == 0, told.output
        assert told.stdout == f"written: {file}\n"
    assert file.read_text() == text
    assert not motor.with_name("cache").exists(), "nothing is built"


def test_the_header_is_written_over_nothing_else(motor: Path) -> None:
    mine = motor.with_name("motor.h")
    before = mine.read_text()
    told = rtsim_sil("header", motor, "-o", mine)
    assert told.exit_code == 2
    assert "not overwritten" in told.stderr
    assert mine.read_text() == before
    told = rtsim_sil("header", motor, "-o", motor.with_name("no") / "signals.h")
    assert told.exit_code == 2
    assert "does not exist; create it" in told.stderr


# -- check


def test_check_says_what_fits_and_how_it_was_checked(motor: Path) -> None:
    told = rtsim_sil("check", motor)
    first, second = told.stdout.splitlines()
    assert (told.exit_code, first) == (0, "motor fits host: 2 inputs, 1 outputs, 2 parameters")
    assert second == f"compiled and linked for this host by {find_toolchain().version}"
    told = rtsim_sil("check", f"{motor}:float", "--target", "avr", "--json")
    assert told.exit_code == 0, told.output
    schema = f"{load_interface(f'{motor}:float').schema:016x}"
    answer = json.loads(told.stdout)
    built, room = answer.pop("checked")
    assert re.match("compiled and linked for an Uno by avr-gcc .*ships with rtsim", built)
    assert re.fullmatch(
        r"\d+ bytes of flash, \d+ bytes of static RAM; \d+ bytes of RAM are left for the stack",
        room,
    )
    assert answer == {
        "name": "motor", "target": "avr", "schema": schema,
        "inputs": 2, "outputs": 1, "parameters": 2,
        "fits": True, "not_checked": "", "warnings": "",
        "outcome": "passed", "exit_status": 0, "why": None,
    }  # fmt: skip


def test_check_names_the_line_that_does_not_fit(motor: Path) -> None:
    told = rtsim_sil("check", motor, "--target", "avr")
    assert told.exit_code == 1
    assert "motor.toml:12: setpoint is float64, which avr does not have" in told.stderr
    motor.write_text(motor.read_text().replace('"control.gain"', '"control.gian"'))
    told = rtsim_sil("check", motor)
    assert told.exit_code == 1
    assert re.search(r"motor\.toml:\d+: .*gian", told.stderr)
    assert rtsim_sil("check", motor, "--target", "pdp11").exit_code == 2
    assert rtsim_sil("check", motor.with_name("nothing.toml")).exit_code == 2


STEP = "real error ="
WRONG = {
    "no C": ("motor.c", "#include", "Dear reader,\n#include", "motor.c:"),
    "an undefined function": (
        "motor.c", STEP, "real nowhere(real);\n    real error = nowhere(speed) +", "nowhere"
    ),
    "a step that nobody defines": (
        "motor.c", "real motor_control_step(", "real motor_control_stop(",
        "motor.toml:9: no source defines motor_control_step",
    ),
    "a file that is no C by its name": (
        "motor.toml", '["motor.c"]', '["motor.c", "README.md"]',
        "motor.toml:3: README.md is not a C source",
    ),
}  # fmt: skip
MUCH = (
    "motor.c", STEP,
    "static real past[4096]; static int at;\n"
    "    past[at++ & 4095] = speed;\n    real error = past[at & 4095] +",
    "motor has 16",
)  # fmt: skip


def changed(motor: Path, file: str, old: str, new: str) -> None:
    path = motor.with_name(file)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


@pytest.mark.parametrize("what", WRONG)
def test_what_does_not_compile_or_link_does_not_fit(what: str, motor: Path) -> None:
    *change, text = WRONG[what]
    changed(motor, *change)
    told = rtsim_sil("check", motor)
    assert told.exit_code == 1, told.output
    assert text in told.stderr
    assert "fits" not in told.output


@pytest.mark.system("avr-gcc")
@pytest.mark.parametrize("what", [*WRONG, "16 kB of data"])
def test_what_the_board_cannot_take_does_not_fit(what: str, motor: Path) -> None:
    """The board's own compiler and linker say it."""
    *change, text = WRONG.get(what, MUCH)
    changed(motor, *change)
    if what not in WRONG:
        assert rtsim_sil("check", f"{motor}:float").exit_code == 0, "a desk has room for it"
    told = rtsim_sil("check", f"{motor}:float", "--target", "avr")
    assert told.exit_code == 1, told.output
    assert text in told.stderr
    assert "fits" not in told.output


def test_without_the_boards_compiler_it_is_not_said_to_fit(
    motor: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = motor.with_name("motor.c")
    source.write_text(source.read_text() + "\n/* not the source of the image that ships */\n")
    monkeypatch.setattr("hitl.firmware.compiling._TOOLS", ("gcc-of-nowhere",))
    told = rtsim_sil("check", f"{motor}:float", "--target", "avr")
    assert told.exit_code == 2, told.output
    *checked, not_checked = told.stdout.splitlines()
    assert checked == [
        "could not decide whether motor fits avr",
        "checked: the types of its signals for avr; compiled and linked for this host by "
        + find_toolchain().version,
    ]
    # Arduino's core may be absent too, and is named then
    needs = (
        "not checked: the build for avr and its size: cannot build the firmware of motor without "
    )
    assert not_checked.startswith(f"{needs}avr-gcc-of-nowhere")
    assert not_checked.endswith("; type: sudo apt install gcc-avr avr-libc arduino-core-avr")
    told = rtsim_sil("check", f"{motor}:float", "--target", "avr", "--json")
    answer = json.loads(told.stdout)
    assert (told.exit_code, answer["fits"]) == (2, None)
    assert answer["not_checked"].startswith("the build for avr")


def test_without_any_compiler_nothing_is_said_of_the_c(
    motor: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    told = rtsim_sil("check", motor)
    assert told.exit_code == 2
    assert "CC=no-such-compiler: no such program" in told.stderr


# -- the table of keys


def documented(page: str) -> dict[str, set[str]]:
    """The first cells of the table by the bold row above them; ``top`` before the first one."""
    table = page[page.index("| key | meaning |") :].partition("\n\n")[0]
    section, out = "top", {"top": set[str]()}
    for row in table.splitlines()[2:]:
        _, first, meaning, _ = (cell.strip() for cell in row.split("|"))
        if first.startswith("**"):
            section = first.strip("*`")
            out[section] = set()
            if "NAME" in section:
                out[section] = set(re.findall(r"`(\w+)`", meaning.partition("that replace")[0]))
        else:
            out[section] |= set(re.findall(r"`(\w+)`", first))
    return out


def test_the_table_of_the_page_has_the_keys_that_are_read() -> None:
    page = PAGE.read_text()
    tables = {"code", "inputs", "outputs", "parameters", "tolerance", "variants"}
    signals = "[inputs]`, `[outputs]`, `[parameters]"
    assert documented(page) == {
        "top": set(file._TOP) - tables,
        "[code]": set(file._CODE),
        signals: set(fields.FIELD),
        "[tolerance]": set(),
        "[variants.NAME]": set(file._VARIANT),
    }
    step = next(line for line in page.splitlines() if line.startswith("| `step` |"))
    assert set(re.findall(r"(\w+) = ", step)) == set(file._STEP)
    for words in (file.WHEN, fields.OVERFLOW):
        assert all(f'`"{word}"`' in page for word in words), words


@pytest.mark.parametrize("line", ["| `real` |", "| `overflow` |", "| `terminate` |"])
def test_a_key_that_is_not_in_the_table_is_missed(line: str) -> None:
    page = PAGE.read_text()
    cut = "\n".join(row for row in page.split("\n") if not row.startswith(line))
    assert documented(cut) != documented(page)
