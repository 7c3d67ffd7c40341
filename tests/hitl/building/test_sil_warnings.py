"""What the compiler warns of in the user's C: in every result of a comparison, and as an error."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner, Result
from emulated_board_parts import need
from junit_schema import valid

from hitl.cli.interfaces import write_starter
from hitl.firmware import firmware
from hitl.results.page import MARK
from rtsim.cli import main

UNUSED = "unused variable"


def rtsim(*arguments: object) -> Result:
    return CliRunner().invoke(main, list(map(str, arguments)))


@pytest.fixture
def motor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The example, with a variable that nothing uses."""
    monkeypatch.chdir(tmp_path)
    write_starter(tmp_path)
    source = tmp_path / "motor.c"
    text = source.read_text()
    source.write_text(text.replace("real error =", "int forgotten;\n    real error =", 1))
    return tmp_path / "motor.toml"


def test_a_comparison_shows_them_everywhere(motor: Path) -> None:
    asked = ("sil", "test", "scenario.py", "-c", motor, "--until", 0.2)
    told = rtsim(*asked, "--junit", "r.xml", "--html", "r.html")
    assert told.exit_code == 0, told.output
    assert "Compiler warnings about controller:" in told.stdout
    assert told.stdout.count(f"{UNUSED} 'forgotten'") == 1
    root = valid(ET.fromstring(Path("r.xml").read_text()))
    (said,) = root.iter("system-out")
    assert said.text is not None
    assert said.text.startswith("Compiler warnings about controller:\n")
    assert UNUSED in said.text
    page = Path("r.html").read_text()
    assert MARK in page
    assert "<h2>Compiler warnings</h2>" in page
    assert UNUSED in page
    told = rtsim(*asked, "--json")
    assert told.exit_code == 0, told.output
    assert UNUSED in json.loads(told.stdout)["open"]["controller"]["warnings"]


def test_a_c_without_them_says_nothing(motor: Path) -> None:
    source = motor.with_name("motor.c")
    source.write_text(source.read_text().replace("int forgotten;", ""))
    asked = ("sil", "test", "scenario.py", "-c", motor, "--until", 0.2, "--warnings", "error")
    told = rtsim(*asked, "--junit", "r.xml", "--html", "r.html")
    assert told.exit_code == 0, told.output
    assert "warns" not in told.output
    assert "system-out" not in Path("r.xml").read_text()
    assert "Compiler warnings" not in Path("r.html").read_text()
    assert rtsim("sil", "build", motor, "--warnings", "error").exit_code == 0


@pytest.mark.parametrize(
    "command",
    [
        ("build", "motor.toml"),
        ("check", "motor.toml"),
        ("test", "scenario.py", "-c", "motor.toml", "--junit", "r.xml", "-o", "r.mcap"),
    ],
    ids=lambda command: command[0],
)
def test_as_errors_they_end_it_with_status_1(command: tuple[str, ...], motor: Path) -> None:
    told = rtsim("sil", *command, "--warnings", "error")
    assert told.exit_code == 1, told.output
    assert "the compiler warns about " in told.stderr
    assert f"{UNUSED} 'forgotten'" in told.stderr
    assert told.stdout == ""
    assert not list(motor.parent.glob("r.*")), "nothing was compared"
    told = rtsim("sil", *command, "--warnings", "error", "--json")
    assert told.exit_code == 1
    assert json.loads(told.stdout)["error"]["type"] == "Warnings"


def test_a_check_shows_them(motor: Path) -> None:
    told = rtsim("sil", "check", motor)
    assert told.exit_code == 0
    assert UNUSED in told.stderr


@pytest.mark.system("avr-gcc")
def test_the_boards_compiler_is_heard_too(motor: Path) -> None:
    """Of the controller's sources alone; the project's own and Arduino's are not looked at."""
    source = motor.with_name("motor.c")
    source.write_text(
        source.read_text().replace("int forgotten;", "long far = 1 << 20; (void)far;")
    )
    for _ in range(2):  # the second one is kept
        made = firmware(f"{motor}:float")
        assert "left shift count >= width of type" in made.warnings
        assert made.warnings.count("warning:") == 1
    told = rtsim("board", "build", f"{motor}:float")
    assert (told.exit_code, told.stderr) == (0, made.warnings)
    told = rtsim("board", "build", f"{motor}:float", "--warnings", "error")
    assert told.exit_code == 1
    assert "the compiler warns about motor (--warnings error):" in told.stderr
    source.write_text(source.read_text().replace("1 << 20", "1l << 20"))
    assert firmware(f"{motor}:float").warnings == ""


@pytest.mark.system("avr-gcc")
def test_a_board_shows_those_of_both_compilers(motor: Path) -> None:
    need("avr8js")
    asked = ("pitl", "scenario.py", "-c", f"{motor}:float", "--until", 0.2, "--latency", 0.005)
    told = rtsim(*asked)
    assert told.exit_code == 0, told.output
    for side in ("host C", "board"):
        assert f"Compiler warnings about controller ({side}):" in told.stdout
    told = rtsim(*asked, "--warnings", "error")
    assert told.exit_code == 1
    assert "the compiler warns about controller (host C), controller (board)" in told.stderr
    assert "request" not in told.output, "no board was met"
