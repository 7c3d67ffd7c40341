"""Two saved runs side by side: what a trace does not show, such as memories and streams."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from rtsim.checkpoint.file import Checkpoint
from rtsim.diverging.values import Pair, same

_NOT_COMPARED = frozenset(("inserted",))
"""A replay knows all tags that are to be inserted, the run only the next one."""
_MOST = 1000


def parting(a: Checkpoint, b: Checkpoint) -> list[Pair]:
    """Every value of the two states that differs, by its path; empty where the runs are equal."""
    out: list[Pair] = []
    for pair in walk("", _comparable(a.state), _comparable(b.state)):
        out.append(pair)
        if len(out) == _MOST:
            break
    return out


def part_of(path: str) -> tuple[str, str]:
    """Kind (``plants``, ``tasks``, ``bus``, ...) and name of what a path of a state is about."""
    kind, _, rest = path.partition(".")
    name = rest.removesuffix(".update") if kind == "tasks" else rest
    return kind, name.partition(".")[0].partition("[")[0]


def drawn(before: Checkpoint | None, after: Checkpoint) -> list[str]:
    """Names of the random streams that were drawn from in between; ``None`` is the start."""
    then = {} if before is None else before.state["streams"]["streams"]
    now = after.state["streams"]["streams"]
    return [name for name in sorted(now) if list(walk("", then.get(name), now[name]))]


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


def _comparable(state: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in state.items() if key not in _NOT_COMPARED}


def walk(path: str, a: Any, b: Any) -> Iterator[Pair]:
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
            yield Pair(path, f"{len(a)} of them", f"{len(b)} of them")
        for i, (one, other) in enumerate(zip(a, b, strict=False)):
            yield from walk(f"{path}[{i}]", one, other)
        return
    if type(a) in (float, int, str) and type(b) in (float, int, str):
        if not same(a, b):
            yield Pair(path, a, b)
    elif a is not b and a != b:
        yield Pair(path, _text(a), _text(b))


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def _text(value: Any) -> str:
    return "absent" if value is None else f"{value!r:.80}"
