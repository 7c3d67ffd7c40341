"""The verdict of ``rtsim board compare``: no evidence, a difference, a step without an end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from emulated_board_parts import need

from hitl.comparison import on_boards as on_boards_module
from hitl.comparison.on_boards import Difference, OfBoards, OnHost, on_boards, random_inputs
from hitl.interface import load_interface
from rtsim.cli import main
from rtsim.core.errors import ControllerError
from rtsim.core.outcome import Outcome

SOURCE = """
#include <math.h>
float same(float a) { return a; }
float zero(float a) { (void)a; return 0.0f; }
float still(float a) { (void)a; return 3.0f; }
float never(float a) { (void)a; return NAN; }
float size(float a) { return a < 0.0f ? 0.0f : (float)sizeof(int); }
float endless(float a) { for (volatile int i = 0; a < 0.0f; i = i) {} return a; }
"""
HEADER = """
float same(float), zero(float), still(float), never(float), size(float), endless(float);
"""
ARDUINO = Path("hitl/examples/arduino").resolve()


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("laws.c").write_text(f'#include "laws.h"\n{SOURCE}')
    Path("laws.h").write_text(HEADER)


def written(step: str, inputs: str = 'a = { type = "float32" }', outputs: str = "y") -> str:
    """Write an interface file whose outputs have the type of C's ``float``; return its path."""
    rows = "\n".join(f'{name.strip()} = {{ type = "float32" }}' for name in outputs.split(","))
    Path("law.toml").write_text(
        'name = "law"\nperiod = "1/100"\nsources = ["laws.c"]\nheaders = ["laws.h"]\n'
        f"[code]\nstep = '''{step}'''\n[inputs]\n{inputs}\n[outputs]\n{rows}\n"
    )
    return "law.toml"


def compared(path: str, board: str = "pico") -> tuple[int, dict[str, Any], str]:
    """Return the exit status, the JSON and the text of two runs of the command."""
    words = ["board", "compare", path, "--steps", "5", "--boards", board]
    text = CliRunner().invoke(main, words)
    data = CliRunner().invoke(main, [*words, "--json"])
    assert text.exit_code == data.exit_code
    return data.exit_code, json.loads(data.stdout), " ".join(text.output.split())


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("law", "told"),
    [
        ("zero", "outputs that never moved: y; so C that does nothing agrees"),
        ("never", "outputs that were never finite: y; so there is no value to compare"),
    ],
)
def test_outputs_that_show_nothing_are_undecided(law: str, told: str) -> None:
    need("rp2040js")
    status, data, text = compared(written(f"y = {law}(a)"))
    assert (status, data["outcome"]) == (2, "undecided")
    assert f"law: {told}" in text
    assert f"law: {told}" in data["why"]
    assert "5 of 5 steps" in text


@pytest.mark.long
def test_an_output_beside_one_that_moved_is_reserved() -> None:
    need("rp2040js")
    status, data, text = compared(written("y = same(a); z = still(a)", outputs="y, z"))
    assert (status, data["outcome"]) == (0, "passed")
    assert data["not_exercised"] == ["law.z never moved"]
    assert text.endswith("but law.z never moved")


def test_an_output_that_stays_at_3_is_compared_and_reserved() -> None:
    """C code that does nothing answers 0."""
    need("rp2040js")
    status, data, text = compared(written("y = still(a)"))
    assert (status, data["outcome"]) == (0, "passed")
    assert text.endswith("but law.y never moved")


def test_a_controller_without_inputs_is_compared() -> None:
    need("rp2040js")
    status, data, _ = compared(written("y = same(1.0f)", inputs=""))
    assert (status, data["outcome"]) == (0, "passed")


@pytest.mark.system("avr-gcc")
def test_a_pin_that_the_interface_file_lacks_is_no_verdict_on_the_code() -> None:
    Path("pin.ino").write_text("void setup() {}\nvoid loop() { analogWrite(3, analogRead(A2)); }\n")
    Path("pin.toml").write_text(
        'name = "pin"\narduino = true\nperiod = "1/10"\nsources = ["pin.ino"]\n'
        '[inputs]\na = { pin = "A3" }\n[outputs]\nout = { pin = "D3" }\n'
    )
    done = CliRunner().invoke(main, ["board", "compare", "pin.toml", "--boards", "uno"])
    assert done.exit_code == 2
    assert "pin.toml:5: the interface file does not fit the code: analogRead() of" in done.output


@pytest.mark.system("avr-gcc")
def test_the_first_difference_is_told() -> None:
    need("avr8js")
    status, data, text = compared(written("y = size(a)"), "uno")
    (row,) = data["boards"]
    inputs = random_inputs(load_interface("law.toml"), 5, 0)
    first = next(k for k, (a,) in enumerate(inputs) if a >= 0)
    assert status == 1
    assert row["first_difference"] == {"step": first, "output": "y", "host": 4.0, "board": 2.0}
    assert (
        f"uno: y differs first at step {first}: host C 4.0, board 2.0, a difference of -2" in text
    )
    assert "of 5 steps" in text


@pytest.mark.parametrize(
    ("host", "board", "told"),
    [
        (0.0, -0.0, "other bits of the same value"),
        (1.0, float("nan"), "NaN against another value"),
        (1.0, 1.5, "a difference of 0.5"),
    ],
)
def test_a_difference_in_words(host: float, board: float, told: str) -> None:
    assert Difference(3, "y", host, board).in_words.endswith(f"board {board!r}, {told}")


def test_an_endless_loop_on_the_host_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_boards_module, "PATIENCE_S", 0.3)
    path = written("y = endless(a)")
    inputs = random_inputs(load_interface(path), 5, 0)
    first = next(k for k, (a,) in enumerate(inputs) if a < 0)
    status, data, text = compared(path)
    assert (status, data["outcome"], data["boards"]) == (1, "failed", [])
    assert f"step {first} did not return on this host: law failed at " in text
    assert "look for an endless loop in its step" in text
    assert "rtsim sil case cases" in text
    assert "was killed" not in text


def test_a_host_without_memory_decides_nothing() -> None:
    failed = OnHost(
        "law", [], on_boards(load_interface(written("y = same(a)")), [], []).host.exercise
    )
    for environment, outcome in ((True, Outcome.UNDECIDED), (False, Outcome.FAILED)):
        host = OnHost("law", [], failed.exercise, "no memory", environment)
        assert OfBoards(host, []).outcome is outcome
        assert OfBoards(host, []).why == "no memory"


# -- random inputs


@pytest.mark.parametrize(
    ("row", "low", "high", "whole"),
    [
        ('type = "uint8"', 0, 255, True),
        ('type = "int8"', -128, 127, True),
        ('type = "bool"', 0, 1, True),
        ('type = "uint32"', 0, 100, True),
        ('type = "int16", scale = 0.5, low = -3, high = 2.5', -3, 2.5, False),
        ('type = "float32", low = 200', 200, 600, False),
        ('type = "float64", low = -1e308, high = 1e308', -1e308, 1e308, False),
    ],
)
def test_random_inputs_are_within_the_type_and_the_range(
    row: str, low: float, high: float, whole: bool
) -> None:
    interface = load_interface(written("y = same((float)a)", f"a = {{ {row} }}"))
    table = np.array(random_inputs(interface, 300, 1))
    (place,) = interface.input_fields
    assert low <= table.min() < table.max() <= high
    assert table.max() / 2 - table.min() / 2 > 0.45 * high - 0.45 * low
    assert all(place.holds(value) for value in table[:, 0].tolist())
    assert not whole or np.array_equal(table, np.round(table))


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["console", "button", "dimmer", "thermostat"])
def test_the_arduino_examples_take_random_inputs(name: str) -> None:
    interface = load_interface(ARDUINO / f"{name}.toml")
    try:
        result = on_boards(interface, [], random_inputs(interface, 50, 0))
    except ControllerError as error:
        pytest.fail(str(error))
    assert len(result.host.answers) == 50
    assert not result.host.error
