"""The source hash changes with what is computed, and with nothing else."""

from __future__ import annotations

import copyreg
import itertools
import math
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numba
import numpy as np
import pytest
import simpy

from rtsim.core.signals import Signal, Signals
from rtsim.equations.source_hash import source_hash

BASE = """
import math
import numpy as np
TABLE = np.array([1.0, 2.0, 3.0])
GAIN = 2.5
NAMES = {"roll", "pitch", "yaw"}

def helper(x):
    "Twice."
    return GAIN * x

class Law:
    limit = 3.0
    def act(self, x):
        return min(helper(x), self.limit)

def derivative(x):
    if x in {1.0, 2.0, "a", "b", "c"}:
        return 0.0
    return helper(x) + TABLE[0] * math.sin(x) + Law().act(x) + len(NAMES)
"""


def load(source: str, file: str = "a.py") -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "somewhere"}
    exec(compile(source, file, "exec"), names)
    return names


def hashed(source: str, file: str = "a.py") -> str:
    return source_hash(load(source, file)["derivative"])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("GAIN = 2.5", "GAIN = 2.6"),
        ("GAIN = 2.5", "GAIN = -2.5"),
        ("[1.0, 2.0, 3.0]", "[1.0, 2.0, 3.5]"),
        ("GAIN * x", "x * GAIN"),
        ("limit = 3.0", "limit = 4.0"),
        ('"yaw"', '"yow"'),
        ('"c"}:', '"d"}:'),
        ("return 0.0", "return -0.0"),
        ("math.sin", "math.cos"),
        ("min(", "max("),
    ],
)
def test_what_is_computed_shows(old: str, new: str) -> None:
    assert old in BASE
    assert hashed(BASE) != hashed(BASE.replace(old, new))


def test_where_it_stands_and_how_it_is_described_does_not_show() -> None:
    moved = "\n\n# a comment\n" + BASE.replace('"Twice."', '"Twice the value."')
    assert hashed(BASE) == hashed(moved, "/elsewhere/b.py")
    assert hashed(BASE) == hashed(BASE + "\nUNUSED = 5\n")


def test_a_docstring_that_is_also_used_counts() -> None:
    one = 'def derivative():\n    "abc"\n    return "abc"\n'
    assert hashed(one) != hashed(one.replace("abc", "abd"))


def test_same_in_every_process(tmp_path: Path) -> None:
    (tmp_path / "somewhere.py").write_text(BASE)
    program = (
        "import somewhere; from rtsim.equations.source_hash import source_hash;"
        "print(source_hash(somewhere.derivative, somewhere.Law, somewhere, somewhere.NAMES))"
    )
    out = set()
    for seed in ("0", "1", "77"):
        path = os.pathsep.join((str(tmp_path), str(Path(__file__).resolve().parents[2])))
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path}
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        out.add(done.stdout)
    assert len(out) == 1


def make(gain: float) -> Callable[[float], float]:
    def inner(x: float) -> float:
        return gain * x

    return inner


def test_closures_defaults_and_instances_count() -> None:
    assert source_hash(make(1.0)) == source_hash(make(1.0))
    assert source_hash(make(1.0)) != source_hash(make(2.0))
    one = load("def derivative(x=1.0): return x")["derivative"]
    two = load("def derivative(x=2.0): return x")["derivative"]
    assert source_hash(one) != source_hash(two)


def test_recursion_ends() -> None:
    names = load("def derivative(x): return other(x)\ndef other(x): return derivative(x)")
    assert source_hash(names["derivative"])
    loop: list[object] = []
    loop.append(loop)
    assert source_hash(loop)


def plain(x: float) -> float:
    return math.sin(x) + 1.0


def test_numba_functions_are_followed() -> None:
    jitted: Any = numba.njit(plain)
    fast: Any = numba.njit(fastmath=True)(plain)
    again: Any = numba.njit(plain)
    assert source_hash(jitted) == source_hash(again) != source_hash(fast)
    before = source_hash(jitted)
    jitted(1.0)
    assert source_hash(jitted) == before


def test_running_a_function_does_not_change_its_hash() -> None:
    function = make(2.0)
    before = source_hash(function)
    for _ in range(10_000):
        function(1.0)
    assert source_hash(function) == before


def test_filled_caches_do_not_count() -> None:
    signals = Signals(Signal("x", "m"), Signal("q", shape=(4,)))
    before = source_hash(signals)
    assert signals.columns
    assert signals.slice("q")
    assert source_hash(signals) == before
    assert before != source_hash(Signals(Signal("x", "ft"), Signal("q", shape=(4,))))


def test_arrays_count_by_content() -> None:
    a = np.arange(6.0).reshape(2, 3)
    assert source_hash(a) == source_hash(np.asfortranarray(a))
    assert source_hash(a) != source_hash(a.reshape(3, 2))
    assert source_hash(a) != source_hash(a.astype(np.float32))
    assert source_hash(np.array([0.0])) != source_hash(np.array([-0.0]))


def test_attributes_of_own_modules_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    air = ModuleType("air_for_test")
    air.__file__ = "/project/air_for_test.py"
    monkeypatch.setitem(sys.modules, "air_for_test", air)
    exec("def density(h): return 1.2 * h\nOTHER = 1", air.__dict__)
    names = load("def derivative(x): return air.density(x)")
    names["air"] = air
    before = source_hash(names["derivative"])
    air.__dict__["OTHER"] = 2
    assert source_hash(names["derivative"]) == before
    exec("def density(h): return 1.3 * h", air.__dict__)
    assert source_hash(names["derivative"]) != before


def of_global(value: object) -> str:
    """Return the hash of a function that uses ``value``."""
    names = load("def derivative(x):\n    return next(SOURCE)\n")
    names["SOURCE"] = value
    return source_hash(names["derivative"])


ITERATORS: list[tuple[Callable[[], object], Callable[[], object]]] = [
    (lambda: itertools.count(3), lambda: itertools.count(4)),
    (lambda: itertools.count(3), lambda: itertools.count(3, 2)),
    (lambda: itertools.repeat(2.0), lambda: itertools.repeat(2.0, 4)),
    (lambda: itertools.cycle([1, 2]), lambda: itertools.cycle([1, 3])),
    (lambda: itertools.chain([1], [2]), lambda: itertools.chain([1], [3])),
    (lambda: itertools.product([1], [2]), lambda: itertools.product([1], [3])),
    (lambda: itertools.accumulate([1, 2]), lambda: itertools.accumulate([1, 3])),
    (lambda: itertools.repeat(2.0), lambda: itertools.cycle([2.0])),
]


@pytest.mark.parametrize(("one", "other"), ITERATORS)
def test_objects_of_itertools_count_and_are_never_pickled(
    one: Callable[[], object], other: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From Python 3.14 on, they cannot be pickled; 3.12 and 3.13 warn of it."""

    def pickled(value: object) -> tuple[object, ...]:
        raise AssertionError(f"{value} was pickled")

    for kind in (type(one()), type(other())):
        monkeypatch.setitem(copyreg.dispatch_table, kind, pickled)
    assert of_global(one()) == of_global(one())
    assert of_global(one()) != of_global(other())


def test_an_installed_object_with_a_counter_inside_has_a_hash() -> None:
    """An environment of SimPy numbers its events with itertools.count."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first, other = of_global(simpy.Environment(1.0)), of_global(simpy.Environment(2.0))
        assert first == of_global(simpy.Environment(1.0))
    assert first != other
