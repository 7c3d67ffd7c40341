"""Measure the branches that inputs take in a reference controller in Python.

The controller runs once more in plain Python, while ``sys.settrace`` reports each instruction. The
instruction after a conditional jump shows whether the condition was true. Functions such as ``max``
and ``np.clip`` are replaced by functions that report the deciding argument.
"""

from __future__ import annotations

import ast
import builtins
import dis
import linecache
import math
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hitl.stimuli.generating import MOST_OPEN
from rtsim.components.controller import ControllerProtocol, PythonController
from rtsim.core.tag import Tag

Place = tuple[str, int, int, int, int]
"""File, first line, first column, last line and last column of an expression."""
Ways = list[int]
MOST_INSTRUCTIONS = 3_000_000
"""Number of Python instructions that are observed, which takes seconds."""


def _least(values: Sequence[Any]) -> Ways:
    return _extreme([-v for v in values])


def _extreme(values: Sequence[Any]) -> Ways:
    out = [k for k, v in enumerate(values) if all(v >= w for w in values)]
    return out if len(out) == 1 else []


def _sign(value: Any) -> Ways:
    some = np.asarray(value)
    return [*([0] if (some > 0).any() else []), *([1] if (some < 0).any() else [])]


def _selected(given: Sequence[Any]) -> Ways:
    some = np.asarray(given[0], np.bool_)
    return [*([0] if some.any() else []), *([1] if (~some).any() else [])]


def _elements(given: Sequence[Any], ways: Callable[[Sequence[Any]], Ways]) -> Ways:
    rows = zip(*(np.ravel(one).tolist() for one in np.broadcast_arrays(*given)), strict=True)
    return sorted({way for row in rows for way in ways(row)})


def _clipped(row: Sequence[Any]) -> Ways:
    x, low, high = row
    return [1] if x < low else [2] if x > high else [0]


@dataclass(frozen=True)
class _Call:
    count: int
    """Number of operands; 0 for two or more."""
    sides: tuple[str, ...]
    """Texts of the sides; empty if each operand is a side."""
    ways: Callable[[Sequence[Any]], Ways]


_MAX = _Call(0, (), lambda given: _elements(given, _extreme))
_MIN = _Call(0, (), lambda given: _elements(given, _least))
_ABS = _Call(1, ("{0}", "-{0}"), lambda given: _sign(given[0]))
_COPYSIGN = _Call(2, ("positive", "negative"), lambda given: _sign(given[1]))
_SIGN = _Call(1, ("1", "-1"), lambda given: _sign(given[0]))
_WHERE = _Call(3, ("{1}", "{2}"), _selected)
_CLIP = _Call(
    3, ("{0}", "{1}", "{2}"), lambda given: _elements(given, _clipped),
)  # fmt: skip
_CALLS: dict[Any, _Call] = {
    max: _MAX, min: _MIN, abs: _ABS,
    math.fabs: _ABS, math.copysign: _COPYSIGN,
    np.maximum: _MAX, np.minimum: _MIN, np.fmax: _MAX, np.fmin: _MIN, np.abs: _ABS,
    np.fabs: _ABS, np.copysign: _COPYSIGN, np.sign: _SIGN, np.where: _WHERE, np.clip: _CLIP,
}  # fmt: skip
_BY_NAME = {one.__name__: call for one, call in _CALLS.items()} | {"absolute": _ABS, "abs": _ABS}


@dataclass(frozen=True)
class DesignReach:
    """The branches of a reference controller, and those that no input reached."""

    count: int = 0
    open: tuple[str, ...] = ()
    """Texts such as ``scenario.py:38: wanted < -LIMIT is true, in Regulator.step()``."""
    steps: int = 0
    of: int = 0
    """Numbers of measured steps and of all steps."""
    why: str = ""
    """Why nothing was measured, or ""."""

    @property
    def in_brief(self) -> list[str]:
        left = len(self.open)
        if not left:
            return []
        were = "was" if left == 1 else "were"
        part = "" if self.steps == self.of else f" in the first {self.steps} of {self.of} steps"
        return [f"{left} of {self.count} branches of the reference model {were} not reached{part}"]

    @property
    def in_words(self) -> list[str]:
        if self.why:
            return [f"which branches of the reference model ran was not measured: {self.why}"]
        out = [f"{clause}; a longer run or a stimulus reaches them" for clause in self.in_brief]
        out += [f"never taken: {one}" for one in self.open[:MOST_OPEN]]
        if (more := len(self.open) - MOST_OPEN) > 0:
            out.append(f"never taken: {more} more, which --json lists")
        return out

    def to_json(self) -> dict[str, Any]:
        return {
            "branches": self.count,
            "open": list(self.open),
            "not_measured": [self.why] if self.why else [],
            "steps": self.steps,
        }


Steps = tuple[NDArray[np.float64], Sequence[tuple[int, int]]]
"""Inputs (k, m) of a controller from its start, and the tag of each step."""


def reach_of(design: ControllerProtocol, sequences: Sequence[Steps]) -> DesignReach:
    """Measure which branches a reference controller takes."""
    if not isinstance(design, PythonController):
        return DesignReach(why="it is not a function of Python")
    watch = _Watch()
    law = watch.copied(design.law)
    done = 0
    for table, tags in sequences:
        running = design.fresh()
        vars(running).pop("_native", None)
        running.law, running._compile = law, False
        for row, (ns, microstep) in zip(table, tags, strict=True):
            if watch.left <= 0 or not watch.missing:
                break
            tag = Tag(ns, microstep)
            with watch:
                running.send(tag, row)
            running.receive(tag, 0.0)
            done += 1
    total = sum(len(table) for table, _ in sequences)
    missing = watch.missing
    open_ = tuple(watch.in_words(one, way) for one, way in missing)
    return DesignReach(watch.count, open_, done if missing else total, total)


@dataclass
class _Decision:
    function: str
    text: str
    sides: tuple[str, ...]
    taken: set[int] = field(default_factory=set)


@dataclass(frozen=True)
class _Jump:
    decision: _Decision
    target: int
    for_true: bool


class _Watch:
    def __init__(self) -> None:
        self.left = MOST_INSTRUCTIONS
        self._decisions: dict[Place, _Decision] = {}
        self._jumps: dict[types.CodeType, dict[int, _Jump]] = {}
        self._copies: dict[Any, Any] = {}
        self._calls: dict[tuple[types.CodeType, int], _Decision] = {}
        self._before: Any = None

    @property
    def count(self) -> int:
        return sum(len(one.sides) for one in self._decisions.values())

    @property
    def missing(self) -> list[tuple[Place, int]]:
        return [
            (place, way)
            for place, one in sorted(self._decisions.items(), key=lambda item: item[0])
            for way in range(len(one.sides))
            if way not in one.taken
        ]

    def in_words(self, place: Place, way: int) -> str:
        """Return text such as ``scenario.py:38: wanted < -LIMIT is true, in Regulator.step()``."""
        one = self._decisions[place]
        where = f"{Path(place[0]).name}:{place[1]}"
        return f"{where}: {one.text} is {one.sides[way]}, in {one.function}()"

    # Copies of functions, in which functions that decide are replaced by reporting ones.

    def copied(self, function: Any) -> Any:
        if isinstance(function, types.ModuleType) and function in (np, math):
            return _Reporting(function, self)
        if _decides(function):
            return self._reporting(function)
        function = getattr(function, "py_func", function)
        if not isinstance(function, types.FunctionType) or _installed(function):
            return function
        if function in self._copies:
            return self._copies[function]
        code, space = function.__code__, dict(function.__globals__)
        cells = tuple(types.CellType() for _ in function.__closure__ or ())
        out = types.FunctionType(
            code, space, function.__name__, function.__defaults__, cells or None
        )
        out.__kwdefaults__ = function.__kwdefaults__
        self._copies[function] = out
        for codes in _codes(code):
            self._read(codes)
            for name in codes.co_names:
                if name in space:
                    space[name] = self.copied(space[name])
                elif hasattr(builtins, name):
                    space[name] = self.copied(getattr(builtins, name))
        for cell, own in zip(cells, function.__closure__ or (), strict=True):
            try:
                cell.cell_contents = self.copied(own.cell_contents)
            except ValueError:  # it is empty
                continue
        return out

    def _reporting(self, function: Any) -> Callable[..., Any]:
        call = _CALLS[function]

        def reporting(*given: Any, **more: Any) -> Any:
            frame = sys._getframe(1)
            decision = self._calls.get((frame.f_code, frame.f_lasti))
            if decision is not None and not more and len(given) > 1 - (call.count == 1):
                decision.taken.update(call.ways(given))
            return function(*given, **more)

        return reporting

    # Decisions in the bytecode and in the source.

    def _read(self, code: types.CodeType) -> None:
        jumps = self._jumps.setdefault(code, {})
        every = list(dis.get_instructions(code))
        for one, following in zip(every, [*every[1:], None], strict=True):
            place = _place(code, one)
            if place is None:
                continue
            if "JUMP" in one.opname and "_IF_" in one.opname:
                text = _text(place)
                if text:
                    known = self._decision(place, code, text, ("true", "false"))
                    # "IF_NOT_NONE" does not jump for None, which counts as false.
                    for_true = "_IF_TRUE" in one.opname or "NOT_NONE" in one.opname
                    jumps[one.offset] = _Jump(known, one.argval, for_true)
            elif one.opname.startswith("CALL"):
                text = _text(place)
                if sides := _sides(text):
                    known = self._decision(place, code, text, sides)
                    # The position of a waiting frame is at the call or at the cache after the call.
                    end = one.offset + 2 if following is None else following.offset
                    for at in range(one.offset, end, 2):
                        self._calls[code, at] = known

    def _decision(
        self, place: Place, code: types.CodeType, text: str, sides: tuple[str, ...]
    ) -> _Decision:
        return self._decisions.setdefault(place, _Decision(code.co_qualname, text, sides))

    # Observation.

    def __enter__(self) -> None:
        self._before = sys.gettrace()
        sys.settrace(self._trace)

    def __exit__(self, *error: object) -> None:
        sys.settrace(self._before)

    def _trace(self, frame: types.FrameType, event: str, given: Any) -> Any:  # noqa: ARG002
        jumps = self._jumps.get(frame.f_code)
        if not jumps:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        pending: _Jump | None = None

        def stepped(frame: types.FrameType, event: str, given: Any) -> Any:  # noqa: ARG001
            nonlocal pending
            if event == "opcode":
                at = frame.f_lasti
                self.left -= 1
                if pending is not None:
                    jumped = at == pending.target
                    pending.decision.taken.add(0 if jumped == pending.for_true else 1)
                pending = jumps.get(at)
            return stepped

        return stepped


class _Reporting(types.ModuleType):
    def __init__(self, module: types.ModuleType, watch: _Watch) -> None:
        super().__init__(module.__name__)
        self.__dict__["_module"], self.__dict__["_watch"] = module, watch

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.__dict__["_module"], name)
        return self.__dict__["_watch"].copied(value) if _decides(value) else value


def _decides(function: object) -> bool:
    try:
        return function in _CALLS
    except TypeError:  # it has no hash
        return False


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            yield from _codes(one)


def _installed(function: types.FunctionType) -> bool:
    name = function.__code__.co_filename
    return not Path(name).is_file() or "site-packages" in name or name.startswith(_PYTHON)


_PYTHON = str(Path(dis.__file__).parent)


def _place(code: types.CodeType, one: dis.Instruction) -> Place | None:
    where = one.positions
    if where is None or where.lineno is None or where.col_offset is None:
        return None
    if where.end_lineno is None or where.end_col_offset is None:
        return None
    rows = (where.lineno, where.col_offset, where.end_lineno, where.end_col_offset)
    return (code.co_filename, *rows)


def _text(place: Place) -> str:
    file, first, start, last, end = place
    rows = [linecache.getline(file, n).encode() for n in range(first, last + 1)]
    if not all(rows):
        return ""
    rows[-1] = rows[-1][:end]
    rows[0] = rows[0][start:]
    return " ".join(b" ".join(rows).decode(errors="replace").split())


def _sides(text: str) -> tuple[str, ...]:
    try:
        node = ast.parse(text, mode="eval").body
    except SyntaxError:
        return ()
    if not isinstance(node, ast.Call) or node.keywords:
        return ()
    name = getattr(node.func, "id", getattr(node.func, "attr", ""))
    call = _BY_NAME.get(name)
    given = [ast.unparse(one) for one in node.args]
    if call is None or any(isinstance(one, ast.Starred) for one in node.args):
        return ()
    if call.count != len(given) and (call.count or len(given) < 2):
        return ()
    return tuple(way.format(*given) for way in call.sides) or tuple(given)
