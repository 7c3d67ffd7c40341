"""Compares a value of one run with the value of another run, bit for bit."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

import numpy as np

Value: TypeAlias = float | int | str | None
"""``None``: the value does not exist or is not known."""


def bits(value: float) -> int:
    """Return the bits of a double as an unsigned 64-bit integer."""
    word: int = struct.unpack("<Q", struct.pack("<d", value))[0]
    return word


def same(a: Value, b: Value) -> bool:
    """Return True if two values are equal bit for bit: -0.0 is not 0.0, a NaN equals itself."""
    if isinstance(a, float) and isinstance(b, float):
        return bits(a) == bits(b)
    return type(a) is type(b) and a == b


def in_full(value: Value) -> str:
    """Return a value as text that determines every bit."""
    if isinstance(value, float):
        return f"{value!r} (0x{bits(value):016x})"
    return "not known" if value is None else str(value)


@dataclass(frozen=True)
class ValuePair:
    """A named value in both runs; ``source`` is the signal from which it came."""

    name: str
    a: Value
    b: Value
    source: str = ""

    @property
    def equal(self) -> bool:
        return same(self.a, self.b)

    @property
    def apart(self) -> str:
        """Return the distance of two finite doubles in ulp as text; empty for other values."""
        a, b = self.a, self.b
        if not (isinstance(a, float) and isinstance(b, float)) or self.equal:
            return ""
        if not (math.isfinite(a) and math.isfinite(b)):
            return ""
        steps = abs(_rank(a) - _rank(b))
        if not steps:
            return "0.0 and -0.0"
        return f"{steps} ulp apart" if steps < 10**6 else f"{b - a:.3g} apart"

    def to_json(self) -> dict[str, Any]:
        out: dict[str, Any] = {"name": self.name, "equal": self.equal}
        for key, value in (("a", self.a), ("b", self.b)):
            out[key] = value
            if isinstance(value, float):
                out[f"{key}_bits"] = f"0x{bits(value):016x}"
        if self.source:
            out["source"] = self.source
        return out


def _rank(value: float) -> int:
    """Return the position of a double in the order of all doubles; both zeros have position 0."""
    word = bits(value)
    return -(word & (1 << 63) - 1) if word >> 63 else word


def columns(name: str, size: int) -> Sequence[str]:
    """Return the names of the ``size`` elements of a value, as :class:`Signals` names them."""
    return [name] if size == 1 else [f"{name}_{i}" for i in range(size)]


# Compare two saved states, including data that no trace contains: memories, random streams.

_NOT_COMPARED = frozenset(("inserted", "streams"))
"""Keys that the general comparison leaves out.  ``inserted``: a replay knows all tags to insert,
but the original run only the next.  ``streams``: random streams are compared one by one."""
_STREAM = "streams."
_MOST = 1000


def parting(
    a: Mapping[str, Any], b: Mapping[str, Any], ignoring: Sequence[str] = ()
) -> list[ValuePair]:
    """Return every value that differs between two states, by its path; empty if none differs.

    ``ignoring``: paths to leave out, with everything below them.
    """
    known = tuple(ignoring)

    def ignored(path: str) -> bool:
        return any(path == one or path.startswith((f"{one}.", f"{one}[")) for one in known)

    pairs = (p for p in (*_in_streams(a, b), *walk("", _rest(a), _rest(b))) if not ignored(p.name))
    return list(islice(pairs, _MOST))


def part_of(path: str) -> tuple[str, str]:
    """Return the kind (``plants``, ``tasks``, ``bus``, ...) and the name in a path of a state."""
    kind, _, rest = path.partition(".")
    if kind == "streams":
        return kind, rest
    name = rest.removesuffix(".update") if kind == "tasks" else rest
    return kind, name.partition(".")[0].partition("[")[0]


def drawn(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return the names of the random streams that were used between two states of a run."""
    return [pair.name.removeprefix(_STREAM) for pair in _in_streams(before, after)]


def first_apart(times: Sequence[int], agree: Callable[[int], bool]) -> int:
    """Return the index of the first of ``times`` at which two runs differ; ``len(times)`` if none.

    The search is a bisection: runs that have begun to differ are assumed to stay different.
    """
    low, high = 0, len(times)
    while low < high:
        middle = (low + high) // 2
        if agree(times[middle]):
            low = middle + 1
        else:
            high = middle
    return low


def _in_streams(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[ValuePair]:
    """Give one pair for each random stream whose positions differ."""
    one, other = a["streams"], b["streams"]
    seeds = one["seed"], other["seed"]
    if seeds[0] != seeds[1]:
        yield ValuePair("streams", f"seed {seeds[0]}", f"seed {seeds[1]}")
        return
    for name in sorted(one["streams"].keys() | other["streams"].keys()):
        states = one["streams"].get(name), other["streams"].get(name)
        if next(walk("", *states), None) is not None:
            yield ValuePair(f"{_STREAM}{name}", *(_how_far(state) for state in states))


def _how_far(state: Mapping[str, Any] | None) -> str:
    """Return the position of a stream as text; a Philox generator makes four words at a time."""
    if state is None:
        return "absent"
    words = 4 * int(state["state"]["counter"][0]) + int(state["buffer_pos"]) - 4
    return f"{words} words drawn" + (" and a half" if state["has_uint32"] else "")


def _rest(state: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in state.items() if key not in _NOT_COMPARED}


def walk(path: str, a: Any, b: Any) -> Iterator[ValuePair]:
    """Give every differing leaf of two trees of plain data, named by its path."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        if a.get("known") is False or b.get("known") is False:
            return  # the memory of a controller whose answers were replayed is not known
        for key in sorted(a.keys() | b.keys(), key=str):
            yield from walk(f"{path}.{key}" if path else str(key), a.get(key), b.get(key))
        return
    a, b = _plain(a), _plain(b)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        if len(a) != len(b):
            yield ValuePair(path, f"{len(a)} elements", f"{len(b)} elements")
        for i, (one, other) in enumerate(zip(a, b, strict=False)):
            yield from walk(f"{path}[{i}]", one, other)
        return
    if type(a) in (float, int, str) and type(b) in (float, int, str):
        if not same(a, b):
            yield ValuePair(path, a, b)
    elif a is not b and a != b:
        yield ValuePair(path, _text(a), _text(b))


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def _text(value: Any) -> str:
    return "absent" if value is None else f"{value!r:.80}"
