"""Machine code in files: what is read is what was written, or it is compiled again."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pytest

from rtsim.components.controller import PythonController
from rtsim.core.raised import in_words
from rtsim.core.signals import Signals
from rtsim.core.tag import Tag
from rtsim.equations import compiling
from rtsim.equations.addresses import EQUATION, MATRIX, NUMBER, RESET, WORDS, AddressBlock
from rtsim.equations.compiling import announced, compile_function
from rtsim.equations.machine_code import MachineCode, link
from rtsim.equations.model import Model, bind
from rtsim.equations.source_hash import source_hash
from rtsim.solve import GOOD, solver_named

NONE = np.zeros(0)
Law = Callable[..., Any]


def law(t: Any, x: Any, z: Any, u: Any, p: Any, out: Any) -> None:  # noqa: ARG001
    out[0] = 3.0 * x[0] + t


def allocates(t: Any, x: Any, z: Any, u: Any, p: Any, out: Any) -> None:  # noqa: ARG001
    out[:] = np.dot(np.ones((x.size, x.size)), x)


def refuses(t: Any, x: Any, z: Any, u: Any, p: Any, out: Any) -> None:  # noqa: ARG001
    out[0] = 0.0
    if x[0] > 1.0:
        raise ValueError("beyond its table")
    if x[0] < 0.0:
        raise IndexError("row", x[0])  # known only when it is raised


def limited(t: Any, x: Any, z: Any, u: Any, p: Any, out: Any) -> None:  # noqa: ARG001
    out[0] = 0.0
    if x[0] > 1.0:
        raise ValueError("beyond its table")


def counts(i: Any, t: Any, x: Any, z: Any, u: Any, p: Any) -> None:  # noqa: ARG001
    x[0] = i + t


@pytest.fixture
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is compiled meanwhile, with a folder of its own that is empty."""
    monkeypatch.setenv("RTSIM_CACHE_DIR", str(tmp_path))
    compiling._ready.cache_clear()
    names: list[str] = []
    really = compiling._compile

    def noted(wanted: Any) -> MachineCode:
        names.append(wanted.plain.__name__)
        return really(wanted)

    monkeypatch.setattr(compiling, "_compile", noted)
    return names


def another_process() -> None:
    """As far as what was compiled before is concerned."""
    compiling._ready.cache_clear()


def at(function: Law, x: float) -> float:
    out = np.zeros(1)
    compile_function(function, EQUATION, "law").call(0.5, np.array([x]), NONE, NONE, NONE, out)
    return float(out[0])


def test_another_process_reads_what_one_compiled(compiled: list[str], tmp_path: Path) -> None:
    assert at(law, 2.0) == 6.5
    another_process()
    assert at(law, 2.0) == 6.5
    assert compiled == ["law"]
    assert [file.suffix for file in (tmp_path / "compiled").iterdir()] == [".code"]


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "text"])
def test_a_damaged_file_is_compiled_again(damage: str, compiled: list[str], tmp_path: Path) -> None:
    at(law, 2.0)
    (file,) = (tmp_path / "compiled").iterdir()
    good = file.read_bytes()
    middle = len(good) // 2
    file.write_bytes({
        "cut": good[:middle],
        "flipped": good[:middle] + bytes([good[middle] ^ 1]) + good[middle + 1 :],
        "empty": b"",
        "text": b"not code",
    }[damage])  # fmt: skip
    assert MachineCode.read(file) is None
    another_process()
    assert at(law, 2.0) == 6.5
    assert compiled == ["law", "law"]
    assert MachineCode.read(file) is not None


def test_two_places_of_a_function_that_raises_have_a_file_each(compiled: list[str]) -> None:
    """Two installations share the cache, and neither compiles again what the other has replaced."""
    code = limited.__code__.replace(co_filename="/elsewhere/laws.py")
    moved = FunctionType(code, limited.__globals__, "limited")
    assert compiling._place(moved, EQUATION) == compiling._place(limited, EQUATION)
    for _ in range(2):
        for function in (limited, moved):
            assert at(function, 0.5) == 0.0
            another_process()
    assert compiled == ["limited", "limited"]


def test_a_folder_that_cannot_be_written_is_no_error(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    taken = tmp_path / "a file"
    taken.write_text("in the way of a folder")
    monkeypatch.setenv("RTSIM_CACHE_DIR", str(taken))
    assert at(law, 2.0) == 6.5
    assert at(allocates, 2.0) == 2.0
    assert compiled == ["law", "allocates"]


def test_what_needs_numbas_runtime_stays_with_numba(compiled: list[str], tmp_path: Path) -> None:
    told: list[str] = []
    with announced(told.append):
        assert at(allocates, 2.0) == 2.0
        (folder,) = (tmp_path / "compiled").iterdir()
        assert folder.suffix == ".numba"
        another_process()
        assert at(allocates, 2.0) == 2.0
    assert compiled == ["allocates", "allocates"]
    assert told == ["law"], "the second time it is read from numba's files"


def test_code_that_lacks_a_symbol_is_compiled_again(compiled: list[str], tmp_path: Path) -> None:
    """As where the system's libraries changed."""
    at(law, 2.0)
    (file,) = (tmp_path / "compiled").iterdir()
    code = MachineCode.read(file)
    assert code is not None
    MachineCode(code.objects[1:], code.handle, code.entry).write(file)
    with pytest.raises(RuntimeError):
        link(MachineCode(code.objects[1:], code.handle, code.entry))
    another_process()
    assert at(law, 2.0) == 6.5
    assert compiled == ["law", "law"]


@pytest.mark.parametrize("through_a_file", [False, True])
def test_what_it_raises_is_raised_and_says_where(through_a_file: bool, compiled: list[str]) -> None:
    if through_a_file:
        at(refuses, 0.5)
        another_process()
    with pytest.raises(ValueError, match="beyond its table") as raised:
        at(refuses, 2.0)
    line = refuses.__code__.co_firstlineno + 3
    assert in_words(raised.value).endswith(f"({__file__}:{line} in refuses)")
    with pytest.raises(IndexError) as other:
        at(refuses, -2.0)
    assert other.value.args == ("row", -2.0)
    assert set(compiled) == {"refuses"}


def test_a_solver_passes_on_what_is_known_only_when_it_is_raised() -> None:
    x, out = np.array([-1.0]), np.zeros(1)
    stepper = solver_named("rk4").stepper(bind(Model("refuses", Signals("a"), refuses)))
    with pytest.raises(IndexError) as raised:
        stepper.advance(0, 10**9, x, NONE, NONE, NONE, out)
    assert raised.value.args == ("row", -1.0)
    assert stepper.advance(0, 10**9, np.array([0.5]), NONE, NONE, NONE, out) == GOOD


def test_whole_numbers_and_numbers_keep_their_places() -> None:
    x = np.zeros(1)
    native = compile_function(counts, RESET, "counts")
    native.call(7, 0.25, x, NONE, NONE, NONE)
    assert x.tolist() == [7.25]
    native.on(x, NONE, NONE, NONE)(-3, 0.5)
    assert x.tolist() == [-2.5]


def summed(words: Any, rows: Any, factor: Any) -> int:
    total = 0.0
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            total += (10 * i + j) * rows[i, j]
    return int(int(total * factor) + words[0])


def test_arrays_of_each_kind_are_handed_over() -> None:
    native = compile_function(summed, (WORDS, MATRIX, NUMBER), "summed")
    rows, words = np.arange(6.0).reshape(2, 3), np.array([1000])
    expected = 1000 + int(2 * sum((10 * i + j) * rows[i, j] for i in range(2) for j in range(3)))
    assert native.call(words, rows, 2.0) == expected
    assert native.on(AddressBlock(words, ()), rows)(2.0) == expected


@pytest.mark.parametrize(
    "wrong", [np.zeros(2, np.float32), np.zeros((2, 2)), np.zeros(4)[::2]], ids=str
)
def test_an_array_that_it_would_misread_is_refused(wrong: Any) -> None:
    native = compile_function(law, EQUATION, "law")
    with pytest.raises(TypeError, match="expects a contiguous float64 array"):
        native.call(0.0, wrong, NONE, NONE, NONE, np.zeros(1))


def test_a_kept_flight_starts_without_compiler_and_solver_library(tmp_path: Path) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "rtsim", "run", "f16", "--until", "0.1"]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    for _ in range(2):
        done = subprocess.run(
            [*command, "--no-record"], cwd=tmp_path, env=environment, capture_output=True,
            text=True, check=True,
        )  # fmt: skip
    names = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert {"numpy", "rtsim.components.plant"} <= names
    heavy = ("numba", "scipy", "rich", "google.protobuf", "mcap", "simpy", "plotly", "zmq")
    assert [name for name in heavy if name in names] == []


def test_where_code_lies_in_memory_is_no_part_of_a_sources_hash() -> None:
    """A hash that differs from process to process would never find its machine code again."""
    signals = Signals("a")
    hashes = []
    for _ in range(2):
        controller = PythonController(steers, signals, signals, compile=True)
        controller.send(Tag(0), np.ones(1))
        hashes.append(source_hash(controller))
        another_process()
        at(law, 1.0)
    assert hashes[0] == hashes[1]


def steers(t: Any, u: Any, s: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    y[0] = -u[0]


RAISES = """{blank}def law(t, x, z, u, p, out):
    out[0] = x[0]
    if x[0] > 1.0:
        raise ValueError("beyond its table")
"""


def test_the_same_law_in_another_file_or_line_says_its_own(
    compiled: list[str], tmp_path: Path
) -> None:
    for name, blank in (("a.py", ""), ("b.py", ""), ("b.py", "\n\n")):
        another_process()
        file = tmp_path / name
        file.write_text(RAISES.format(blank=blank))
        module: dict[str, Any] = {"__name__": "users"}
        exec(compile(file.read_text(), str(file), "exec"), module)
        with pytest.raises(ValueError, match="beyond") as raised:
            at(module["law"], 2.0)
        assert in_words(raised.value).endswith(f"({file}:{4 + len(blank)} in law)")
    assert compiled == ["law"] * 3


def test_another_processor_has_a_file_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    places = []
    for name in ("one", "another"):
        monkeypatch.setattr(compiling, "processor", lambda name=name: name)
        compiling._made_by.cache_clear()
        places.append(compiling._place(law, EQUATION))
    compiling._made_by.cache_clear()
    assert places[0] != places[1]


def test_code_stays_while_a_stepper_calls_it_by_its_address() -> None:
    stepper = solver_named("rk4").stepper(bind(Model("law", Signals("a"), law)))
    native: Any = stepper._bound.derivative  # type: ignore[attr-defined]
    linked = weakref.ref(native.call._linked)
    del native
    another_process()
    gc.collect()
    assert linked() is not None
    out = np.zeros(1)
    assert stepper.advance(0, 10**9, np.ones(1), NONE, NONE, NONE, out) == GOOD
