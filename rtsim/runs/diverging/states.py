"""Two saved runs side by side: what a trace does not show, such as memories and streams."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from rtsim.runs.diverging.values import ValuePair, same

_NOT_COMPARED = frozenset(("inserted", "streams"))
"""A replay knows all tags that are to be inserted, the run only the next one; streams are
compared one by one."""
_STREAM = "streams."
_MOST = 1000


def parting(
    a: Mapping[str, Any], b: Mapping[str, Any], ignoring: Sequence[str] = ()
) -> list[ValuePair]:
    """Every value of two states that differs, by its path; empty where the runs are equal.

    ``ignoring``: paths that are known to differ, with all that is below them.
    """
    known = tuple(ignoring)

    def ignored(path: str) -> bool:
        return any(path == one or path.startswith((f"{one}.", f"{one}[")) for one in known)

    pairs = (p for p in (*_in_streams(a, b), *walk("", _rest(a), _rest(b))) if not ignored(p.name))
    return list(islice(pairs, _MOST))


def part_of(path: str) -> tuple[str, str]:
    """Kind (``plants``, ``tasks``, ``bus``, ...) and name of what a path of a state is about."""
    kind, _, rest = path.partition(".")
    if kind == "streams":
        return kind, rest
    name = rest.removesuffix(".update") if kind == "tasks" else rest
    return kind, name.partition(".")[0].partition("[")[0]


def drawn(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Names of the random streams that were drawn from between two states of a run."""
    return [pair.name.removeprefix(_STREAM) for pair in _in_streams(before, after)]


def first_apart(times: Sequence[int], agree: Callable[[int], bool]) -> int:
    """Index of the first of ``times`` at which two runs do not agree; their number where all do.

    By bisection: runs that have parted stay apart.
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
    """One pair for each stream: how far it was drawn."""
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
    """A Philox generator makes four words at a time."""
    if state is None:
        return "absent"
    words = 4 * int(state["state"]["counter"][0]) + int(state["buffer_pos"]) - 4
    return f"{words} words drawn" + (" and a half" if state["has_uint32"] else "")


def _rest(state: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in state.items() if key not in _NOT_COMPARED}


def walk(path: str, a: Any, b: Any) -> Iterator[ValuePair]:
    """Every leaf of two trees of plain data that differs, by its path."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        if a.get("known") is False or b.get("known") is False:
            return  # the memory of one that was fed, and nobody knows it
        for key in sorted(a.keys() | b.keys(), key=str):
            yield from walk(f"{path}.{key}" if path else str(key), a.get(key), b.get(key))
        return
    a, b = _plain(a), _plain(b)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        if len(a) != len(b):
            yield ValuePair(path, f"{len(a)} of them", f"{len(b)} of them")
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
