"""What docs/compiling.md says compiles does; what does not is named, with a substitute.

Machine code: read once in a process, another where what it reaches is, and called rightly.

Machine code in files: what is read is what was written, or it is compiled again.
"""

from __future__ import annotations

import builtins
import gc
import math
import os
import re
import subprocess
import sys
import weakref
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary, proxy

import numba
import numpy as np
import pytest
import scipy.special
from numba import types

from rtsim.components.controller import PythonController
from rtsim.core.errors import ModelError
from rtsim.core.raised import Interrupted, in_words, interrupt
from rtsim.core.signals import Signals
from rtsim.core.tag import Tag
from rtsim.equations import compilable, compiling
from rtsim.equations.addresses import EQUATION, MATRIX, NUMBER, RESET, WORDS, AddressBlock
from rtsim.equations.compiling import announced, compile_function
from rtsim.equations.machine_code import MachineCode, link
from rtsim.equations.model import Model, bind
from rtsim.equations.source_hash import source_hash
from rtsim.solve import GOOD, solver_named

PAGE = Path(__file__).resolve().parents[2] / "docs" / "compiling.md"
F, I = types.float64, types.int64  # noqa: E741
V, M = types.Array(F, 1, "C"), types.Array(F, 2, "C")
KINDS = {
    **dict.fromkeys(("len", "sum", *compilable.ARRAYS, "zeros_like"), (V,)),
    **dict.fromkeys(compilable.LINEAR, (M,)),
    **dict.fromkeys(("zeros", "empty"), (I,)),
    **dict.fromkeys(("cross", "dot"), (V, V)),
    "gcd": (I, I),
    "ldexp": (F, I),
    "range": (I,),
    "interp": (F, V, V),
    "searchsorted": (V, F),
    "solve": (M, V),
    "full": (I, F),
    "norm": (V,),
}
TWO = (
    *("atan2", "copysign", "hypot", "nextafter", "pow", "divmod", "max", "min", "arctan2", "fmax"),
    *("fmin", "fmod", "logaddexp", "maximum", "minimum", "mod", "power"),
)


def calls(function: Any, count: int) -> Callable[..., Any]:
    one: list[Callable[..., Any]] = [
        lambda a: function(a),
        lambda a, b: function(a, b),
        lambda a, b, c: function(a, b, c),
    ]
    return one[count - 1]


def compiles(home: ModuleType, name: str) -> None:
    kinds = (F, F) if name in TWO else KINDS.get(name, (F,))
    if home is not builtins and name in ("max", "min"):
        kinds = (V,)
    function = calls(getattr(home, name), len(kinds))
    numba.njit(kinds, no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)


@pytest.mark.parametrize(
    ("home", "names"),
    [(math, compilable.MATH), (builtins, compilable.BUILTIN), (np, compilable.NUMBERS)],
    ids=["math", "builtins", "numbers"],
)
def test_each_listed_function_of_numbers_compiles(home: ModuleType, names: tuple[str, ...]) -> None:
    for name in names:
        compiles(home, name)


@pytest.mark.long
@pytest.mark.parametrize(
    ("home", "names"),
    [(np, (*compilable.ARRAYS, *compilable.MAKING)), (np.linalg, compilable.LINEAR)],
    ids=["arrays", "linear"],
)
def test_each_listed_function_of_arrays_compiles(home: ModuleType, names: tuple[str, ...]) -> None:
    for name in names:
        compiles(home, name)


def test_the_page_has_these_functions_and_no_others() -> None:
    listed = {
        f"{home}{name}"
        for home, names in {
            "math.": compilable.MATH, "": compilable.BUILTIN, "np.linalg.": compilable.LINEAR,
            "np.": (*compilable.NUMBERS, *compilable.ARRAYS, *compilable.MAKING),
        }.items()
        for name in names
    }  # fmt: skip
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| of ")]
    shown = {name for row in rows for name in re.findall(r"`([\w.]+)`", row.split("|")[2])}
    assert shown == listed
    page = PAGE.read_text("utf-8")
    for name in compilable.SUBSTITUTES:
        assert f"| `{name.replace('numpy.', 'np.')}` |" in page


@pytest.mark.parametrize("name", compilable.SUBSTITUTES)
def test_what_has_a_substitute_does_not_compile(name: str) -> None:
    homes = {"": builtins, "math": math, "numpy": np, "numpy.linalg": np.linalg}
    home = homes[name.rpartition(".")[0]]
    function = getattr(home, name.rpartition(".")[2], None)
    if function is None:
        pytest.skip(f"this Python has no {name}")
    three = name in ("math.hypot", "math.fma", "numpy.clip", "numpy.roll")
    two = "dist comb fmod isclose lcm perm remainder sumprod heaviside ldexp cross matmul polyval"
    tail = name.rpartition(".")[2]
    kinds = (F, F, F) if three else (F, F) if tail in two.split() else (F,)
    if tail == "lcm":
        kinds = (I, I)
    with pytest.raises(Exception, match=r"(?s)."):
        numba.njit(kinds)(calls(function, len(kinds)))


def helper(v: float) -> float:
    return 2.0 * v


def remainder(t: Any, x: Any, z: Any, u: Any, p: Any, out: Any) -> None:  # noqa: ARG001
    out[0] = math.remainder(x[0], 2.0)


def gradient(t: Any, x: Any, z: Any, u: Any, p: Any, out: Any) -> None:  # noqa: ARG001
    out[0] = np.gradient(x)[0]


def unmarked(t: Any, x: Any, z: Any, u: Any, p: Any, out: Any) -> None:  # noqa: ARG001
    out[0] = helper(x[0])


def three_sides(t: Any, x: Any, z: Any, u: Any, p: Any, out: Any) -> None:  # noqa: ARG001
    out[0] = math.hypot(x[0], 1.0, 2.0)


def special(t: Any, x: Any, z: Any, u: Any, p: Any, out: Any) -> None:  # noqa: ARG001
    out[0] = scipy.special.gamma(x[0])


def renamed(t: Any, x: Any, z: Any, u: Any, p: Any, out: Any) -> None:  # noqa: ARG001
    out[0] = whole(x[0])


whole = math.modf


def method(t: Any, x: Any, z: Any, u: Any, p: Any, out: Any) -> None:  # noqa: ARG001
    out[0] = x.dump()


def clipped(t: Any, x: Any, z: Any, u: Any, p: Any, out: Any) -> None:  # noqa: ARG001
    out[0] = np.clip(x[0], 0.0, 1.0)


def built_in(t: Any, x: Any, z: Any, u: Any, p: Any, out: Any) -> None:  # noqa: ARG001
    out[0] = any([x[0] > 1.0])


def misspelt(t: Any, x: Any, z: Any, u: Any, p: Any, out: Any) -> None:  # noqa: ARG001
    out[0] = thrsut * x[0]  # type: ignore[name-defined]  # noqa: F821


def statement(t: Any, x: Any, z: Any, u: Any, p: Any, out: Any) -> None:  # noqa: ARG001
    with np.errstate() as out[0]:
        pass


HERE = r"\(test_compilable\.py:\d+\)"


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (clipped, rf"clip\(float64, .*\) {HERE} does not compile; use min\(max\(x, low\), high"),
        (built_in, rf"any {HERE} does not compile; write a loop over the elements"),
        (misspelt, r"the name thrsut, which is not defined, does not compile; define or import it"),
        (statement, r"the statement with does not compile; write it with statements that compile"),
        (remainder, r"math\.remainder \(test_compilable\.py:\d+\) does not compile; use x - y"),
        (gradient, r"numpy\.gradient \(.*\) does not compile; write a loop over the elements"),
        (
            unmarked,
            rf"the function helper {HERE} does not compile; mark helper with @rtsim\.compiled",
        ),
        (three_sides, r"hypot\(float64, .*\) does not compile; use math\.sqrt\(x \* x"),
        (special, r"scipy\.special\.gamma \(.*\) does not compile; SciPy's functions"),
        (renamed, rf"math\.modf {HERE} does not compile; use math\.trunc\(x\) and"),
        (method, r"the method dump of an array \(.*\) does not compile; write a loop"),
    ],
)
def test_what_does_not_compile_is_named_with_a_substitute(function: Any, said: str) -> None:
    with pytest.raises(
        ModelError, match=rf"^law does not compile: {said}.*\. To run without compilation"
    ) as raised:
        compile_function(function, EQUATION, "law")
    assert raised.value.__suppress_context__  # the compiler's trace would hide the message


FACTORS = np.array([2.0])


def by_table(t: Any, x: Any, z: Any, u: Any, p: Any, out: Any) -> None:  # noqa: ARG001
    out[0] = FACTORS[0] * x[0]


def lengths(t: Any, x: Any, z: Any, u: Any, p: Any, out: Any) -> None:
    out[0], out[1] = 1000 * x.size + 100 * z.size + 10 * u.size + p.size, z[0] + u[1] + p[2] + t


def times(factor: float) -> Callable[..., None]:
    def law(t: Any, x: Any, z: Any, u: Any, p: Any, out: Any) -> None:  # noqa: ARG001
        out[0] = factor * x[0]

    return law


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is read or compiled meanwhile; nothing was before."""
    names: list[str] = []
    really = compiling._native

    def noted(wanted: Any, code: Any) -> compiling.Native:
        names.append(wanted.plain.__name__)
        return really(wanted, code)

    monkeypatch.setattr(compiling, "_native", noted)
    compiling._ready.cache_clear()
    return names


def doubled(law: Callable[..., None]) -> float:
    out, none = np.zeros(1), np.zeros(0)
    compile_function(law, EQUATION, "law").call(0.0, np.ones(1), none, none, none, out)
    return float(out[0])


def test_a_function_is_read_once_in_a_process(compiled: list[str]) -> None:
    first, second = (compile_function(by_table, EQUATION, "law") for _ in range(2))
    assert first is second
    assert compiled == ["by_table"]


def test_what_it_reaches_is_what_counts(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [doubled(by_table), doubled(times(3.0)), doubled(times(4.0))] == [2.0, 3.0, 4.0]
    monkeypatch.setitem(globals(), "FACTORS", np.array([5.0]))
    assert doubled(by_table) == 5.0
    assert len(compiled) == 4


def test_the_ones_used_last_are_kept(compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "_ready", lru_cache(2)(compiling._ready.__wrapped__))
    for factor in (1.0, 2.0, 1.0, 3.0, 1.0, 2.0):
        assert doubled(times(factor)) == factor
    assert len(compiled) == 4, "1, 2, 3, and 2 again"


def test_a_solver_hands_each_vector_over_with_its_length() -> None:
    model = Model("lengths", Signals("a", "b"), lengths, discrete=Signals("z"),
                  inputs=Signals("u", "v"), parameters=Signals("p", "q", "r"))  # fmt: skip
    x, out = np.zeros(2), np.zeros(2)
    stepper = solver_named("euler").stepper(bind(model, x=x))
    vectors = np.array([1.0]), np.array([0.0, 2.0]), np.array([0.0, 0.0, 4.0])
    assert stepper.advance(8 * 10**9, 9 * 10**9, x, *vectors, out) == GOOD
    assert list(out) == [2123.0, 15.0]


def test_what_an_equation_raises_comes_through_the_solver() -> None:
    def refuses(t: Any, x: Any, z: Any, u: Any, p: Any, out: Any) -> None:  # noqa: ARG001
        out[0] = 0.0
        if t > 1.0:
            raise ValueError("beyond its table")

    x, none, out = np.zeros(1), np.zeros(0), np.zeros(1)
    stepper = solver_named("rk4").stepper(bind(Model("refuses", Signals("a"), refuses)))
    assert stepper.advance(0, 10**9, x, none, none, none, out) == GOOD
    with pytest.raises(ValueError, match="beyond its table"):
        stepper.advance(2 * 10**9, 3 * 10**9, x, none, none, none, out)


def test_an_interrupted_compilation_is_no_error_of_the_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A compiler can turn the interrupt into an error of its own."""

    def killed(_: object) -> object:
        try:
            interrupt()
        except KeyboardInterrupt as error:
            raise SystemError("a built-in function returned with an exception set") from error

    monkeypatch.setattr(compiling, "_ready", killed)
    with pytest.raises(Interrupted):
        compile_function(print, EQUATION, "derivative of model mine")


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
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
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


def test_another_process_reads_what_one_compiled(built: list[str], tmp_path: Path) -> None:
    assert at(law, 2.0) == 6.5
    another_process()
    assert at(law, 2.0) == 6.5
    assert built == ["law"]
    assert [file.suffix for file in (tmp_path / "compiled").iterdir()] == [".code"]


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "text"])
def test_a_damaged_file_is_compiled_again(damage: str, built: list[str], tmp_path: Path) -> None:
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
    assert built == ["law", "law"]
    assert MachineCode.read(file) is not None


def test_two_places_of_a_function_that_raises_have_a_file_each(built: list[str]) -> None:
    """Two installations share the cache, and neither compiles again what the other has replaced."""
    code = limited.__code__.replace(co_filename="/elsewhere/laws.py")
    moved = FunctionType(code, limited.__globals__, "limited")
    assert compiling._place(moved, EQUATION) == compiling._place(limited, EQUATION)
    for _ in range(2):
        for function in (limited, moved):
            assert at(function, 0.5) == 0.0
            another_process()
    assert built == ["limited", "limited"]


def test_a_folder_that_cannot_be_written_is_no_error(
    built: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    taken = tmp_path / "a file"
    taken.write_text("in the way of a folder")
    monkeypatch.setenv("RTSIM_CACHE_DIR", str(taken))
    assert at(law, 2.0) == 6.5
    assert at(allocates, 2.0) == 2.0
    assert built == ["law", "allocates"]


def test_what_needs_numbas_runtime_stays_with_numba(built: list[str], tmp_path: Path) -> None:
    told: list[str] = []
    with announced(told.append):
        assert at(allocates, 2.0) == 2.0
        (folder,) = (tmp_path / "compiled").iterdir()
        assert folder.suffix == ".numba"
        another_process()
        assert at(allocates, 2.0) == 2.0
    assert built == ["allocates", "allocates"]
    assert told == ["law"], "the second time it is read from numba's files"


def test_code_that_lacks_a_symbol_is_compiled_again(built: list[str], tmp_path: Path) -> None:
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
    assert built == ["law", "law"]


@pytest.mark.parametrize("through_a_file", [False, True])
def test_what_it_raises_is_raised_and_says_where(through_a_file: bool, built: list[str]) -> None:
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
    assert set(built) == {"refuses"}


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


class Key:
    """What a cache with weak keys can hold."""


KEYS = [Key(), Key()]
CACHE: WeakKeyDictionary[Key, float] = WeakKeyDictionary()


def remembers(key: Key) -> float:
    return CACHE.setdefault(key, 1.0)


def test_a_weak_cache_is_no_part_of_a_sources_hash() -> None:
    """Its contents depend on what ran before in the same process."""
    before = source_hash(remembers)
    remembers(KEYS[0])
    assert source_hash(remembers) == before
    assert source_hash([proxy(KEYS[1])]) == source_hash([proxy(KEYS[0])])


def steers(t: Any, u: Any, s: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    y[0] = -u[0]


RAISES = """{blank}def law(t, x, z, u, p, out):
    out[0] = x[0]
    if x[0] > 1.0:
        raise ValueError("beyond its table")
"""


def test_the_same_law_in_another_file_or_line_says_its_own(
    built: list[str], tmp_path: Path
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
    assert built == ["law"] * 3


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
