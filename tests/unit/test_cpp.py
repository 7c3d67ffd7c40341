"""Controllers in C++, and Arduino code on simulated time, pins and boards."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from arduino_parts import rows_of
from click.testing import CliRunner
from emulated_board_parts import need

from hitl.building.sketch_text import cpp_text
from hitl.controllers.board import BoardController
from hitl.controllers.in_process import InProcess
from hitl.controllers.sil import SilController
from hitl.interface import InterfaceError, load_interface
from rtsim.cli import main
from rtsim.core.errors import ControllerError
from rtsim.core.tag import Tag

EXAMPLES = Path(__file__).resolve().parents[2] / "hitl" / "examples" / "arduino"
CPP = """
#include <stdexcept>
class Counter {
  public:
    explicit Counter(double *from) : from_(from), total_(new double(0.0)) {}
    ~Counter() { delete total_; }
    double step(double by) {
        if (by < 0) throw std::out_of_range("negative");
        return *total_ += by * *from_;
    }
  private:
    double *from_, *total_;
};
"""
TOML = """
name = "counter"
language = "c++"
period = "1/10"
sources = []
headers = ["counter.hpp"]
[code]
objects = ["Counter counter(&weight)"]
step = "total = counter.step(by)"
[inputs]
by = {}
weight = {}
[outputs]
total = {}
"""


def write(folder: Path, old: str = "", new: str = "") -> Path:
    assert old in TOML
    (folder / "counter.hpp").write_text(CPP)
    path = folder / "counter.toml"
    path.write_text(TOML.replace(old, new) if old else TOML)
    return path


@pytest.mark.parametrize("kind", [SilController, InProcess])
def test_objects_are_constructed_again_and_exceptions_are_named(
    kind: type[SilController] | type[InProcess], tmp_path: Path
) -> None:
    controller = kind(write(tmp_path)).fresh()
    for k, (by, total) in enumerate(((1.0, 2.0), (2.0, 6.0))):
        controller.send(Tag(k), np.array([by, 2.0]))
        assert controller.receive(Tag(k), 5.0) == total
    assert controller.restart()
    controller.send(Tag(2), np.array([1.0, 2.0]))
    assert controller.receive(Tag(2), 5.0) == 2.0  # a new object, which has counted nothing
    with pytest.raises(ControllerError, match="out_of_range: negative, which"):  # noqa: PT012
        controller.send(Tag(3), np.array([-1.0, 2.0]))
        controller.receive(Tag(3), 5.0)
    controller.close()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("by = {}", 'by = { type = "float32" }', "by is float32 here and double in C"),
        ("&weight)", "&weight), other", "does not declare one object"),
        ('"c++"', '"rust"', "is unknown; choose"),
        ("by = {}", 'by = { pin = "A0" }', "by has a pin; write arduino = true"),
        ("counter.step", "counter.stepp", "has no member named|no member named"),
    ],
)
def test_a_mistake_is_named_with_its_line(old: str, new: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(InterfaceError, match=rf"counter\.toml:\d+: .*{said}"):
        InProcess(write(tmp_path, old, new))


def test_a_sketch_gets_prototypes_and_keeps_its_lines() -> None:
    text = 'int a = 1; // int no() {\nvoid loop() {\n  f("{");\n}\n'
    text += "int f(const char *t) { return a; }\n"
    assert cpp_text(text, "s.ino").split("\n")[:7] == [
        "#include <Arduino.h>", '#line 1 "s.ino"', "int a = 1; // int no() {",
        "void loop();", "int f(const char *t);", '#line 2 "s.ino"', "void loop() {",
    ]  # fmt: skip


def test_a_pin_that_no_input_declares_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "s.ino").write_text("void setup() {}\nvoid loop() { analogRead(A3); }\n")
    path = tmp_path / "s.toml"
    path.write_text(
        'name = "s"\narduino = true\nperiod = 0.1\nsources = ["s.ino"]\n'
        "[outputs]\nl = { pin = 3 }\n"
    )
    said = r"the interface file does not fit the code: analogRead\(\) of the pin A3.*pin = \"A3\""
    with pytest.raises(ControllerError, match=said):
        rows_of(InProcess(path), np.zeros((1, 0)))
    controller = SilController(path, cases=None).fresh()
    with closing(controller):
        controller.send(Tag(0), np.zeros(0))
        with pytest.raises(ControllerError, match=said):
            controller.receive(Tag(0), 5.0)


def test_a_comparison_names_the_interface_file_that_lacks_a_pin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not say that the code differs: the code was not compared."""
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(main, ["sil", "init", ".", "--example", "arduino"]).exit_code == 0
    path = Path("thermostat.toml")
    path.write_text(path.read_text().replace('"A0"', '"A1"'))
    words = ["sil", "test", "scenario.py:room", "-c", str(path), "--open-only"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2
    assert done.output.startswith(
        "Error: thermostat.toml:6: the interface file does not fit the code: analogRead() of the "
        "pin A0, which no input of the interface file feeds; add to [inputs]: NAME"
    ), done.output
    assert "does not do" not in done.output


def test_a_library_that_checks_millis_skips_steps_in_sil() -> None:
    rows = rows_of(InProcess(EXAMPLES / "regulator.toml"), np.tile([10.0, 0.0], (300, 1)))
    assert rows[-1, 1] == 70  # of 300, as on the emulated board


@pytest.mark.system("avr-gcc")
def test_five_sketches_and_libraries_agree_with_the_emulated_board() -> None:
    """Their clocks too: the regulator skips the same steps."""
    need("avr8js")
    t = np.arange(60)
    text = np.zeros((60, 5))
    text[5], text[20, 0] = list(b"s120\n"), ord("?")
    given = {
        "regulator": np.tile([10.0, 0.0], (300, 1)),
        "thermostat": np.linspace(0.67, 0.74, 60)[:, None],
        "button": (t // 7 % 2)[:, None].astype(float),
        "dimmer": np.linspace(0.0, 5.0, 60)[:, None],
        "console": text,
    }
    for name, inputs in given.items():
        interface = load_interface(EXAMPLES / f"{name}.toml")
        board = rows_of(BoardController(interface, cases=None), inputs)
        assert np.array_equal(board, rows_of(InProcess(interface.path), inputs)), name
        assert len(np.unique(board, axis=0)) > 1, name


def test_a_sketch_cannot_be_initialised_again() -> None:
    interface = load_interface(EXAMPLES / "button.toml")
    assert not interface.restarts
    assert replace(interface, sources=()).restarts
