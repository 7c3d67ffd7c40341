"""Write the source text of generated Python functions.

Long functions are split into several functions (pieces), because compile time grows faster than the
length of a function.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from rtsim.core.cache import cache_folder
from rtsim.equations.compiling import compiled
from rtsim.equations.scratch import scratch
from rtsim.equations.source_hash import source_hash

LINES = 60
"""Maximum number of lines in one piece."""
_SET = re.compile(r"\s*([A-Za-z_]\w*) = ")
_NAME = re.compile(r"[A-Za-z_]\w*")


def function(name: str, arguments: str, doc: str, items: Sequence[Sequence[str]]) -> str:
    """Return the text of ``def name(arguments)`` with the lines of ``items``.

    The lines of one item stay together in one piece.  A vector ``w`` passes numbers from one piece
    to later pieces.
    """
    pieces = _pieces(items)
    if len(pieces) == 1:
        return _def(name, arguments, doc, pieces[0] or ["pass"])
    defined, used = [_defined(piece) for piece in pieces], [_used(piece) for piece in pieces]
    places = Counter(name for names in used for name in names)
    several = {n for n in set().union(*defined) if places[n] > 1}
    shared = {name: i for i, name in enumerate(sorted(several))}
    out, calls = [], [f"w = scratch({len(shared)})"]
    ready: set[str] = set()
    for i, piece in enumerate(pieces):
        first = [f"{n} = w[{shared[n]}]" for n in sorted(used[i] & ready) if n in shared]
        last = [f"w[{shared[n]}] = {n}" for n in sorted(defined[i]) if n in shared]
        ready |= defined[i]
        piece_name, passed = f"{name}_{i}", f"{arguments}, w"
        out.append("@compiled\n" + _def(piece_name, passed, f"{doc} ({i})", first + piece + last))
        calls.append(f"{piece_name}({passed})")
    return "\n\n".join((*out, _def(name, arguments, doc, calls)))


@dataclass(frozen=True)
class FunctionBody:
    """The content of a function: the numbers of the signals that it needs, and its own lines."""

    name: str
    out: str
    doc: str
    needed: Sequence[int]
    rest: Sequence[Sequence[str]]


def functions(
    arguments: str, doc: str, signals: Sequence[Sequence[str]], bodies: Sequence[FunctionBody]
) -> list[str]:
    """Return the text of functions; long functions share the pieces that compute ``signals``."""
    wholes = [[*(signals[i] for i in body.needed), *body.rest] for body in bodies]
    if all(sum(map(len, whole)) <= LINES for whole in wholes):
        return [
            function(body.name, f"{arguments}, {body.out}", body.doc, whole)
            for body, whole in zip(bodies, wholes, strict=True)
        ]
    shared = _Shared(signals, sorted(set().union(*(body.needed for body in bodies))), bodies)
    passed = f"{arguments}, w"
    out = [
        "@compiled\n" + _def(f"signals_{k}", passed, f"{doc} ({k})", shared.lines(k))
        for k in range(len(shared.pieces))
    ]
    for body in bodies:
        calls = [f"w = scratch({len(shared.slots)})"]
        calls += [f"signals_{k}({passed})" for k in shared.called_by(body)]
        for i, piece in enumerate(_pieces(body.rest)):
            given = f"{arguments}, {body.out}, w"
            lines = [*shared.loads(_used(piece)), *piece] or ["pass"]
            out.append("@compiled\n" + _def(f"{body.name}_{i}", given, f"{body.doc} ({i})", lines))
            calls.append(f"{body.name}_{i}({given})")
        out.append(_def(body.name, f"{arguments}, {body.out}", body.doc, calls))
    return out


class _Shared:
    """The pieces that compute signals, and the vector that passes values between pieces."""

    def __init__(
        self,
        signals: Sequence[Sequence[str]],
        needed: Sequence[int],
        bodies: Sequence[FunctionBody],
    ) -> None:
        self.pieces: list[list[str]] = [[]]
        self._piece_of: dict[int, int] = {}
        for i in needed:
            if self.pieces[-1] and len(self.pieces[-1]) + len(signals[i]) > LINES:
                self.pieces.append([])
            self.pieces[-1] += signals[i]
            self._piece_of[i] = len(self.pieces) - 1
        self._sets = [_defined(piece) for piece in self.pieces]
        self._uses = [_used(piece) for piece in self.pieces]
        maker = {name: k for k, names in enumerate(self._sets) for name in names}
        wanted = [_used(piece) for body in bodies for piece in _pieces(body.rest)]
        wanted += [uses - sets for uses, sets in zip(self._uses, self._sets, strict=True)]
        crossing = set().union(*wanted) & maker.keys()
        self.slots = {name: i for i, name in enumerate(sorted(crossing))}
        self._needs = [
            {maker[n] for n in uses if n in maker} - {k} for k, uses in enumerate(self._uses)
        ]

    def loads(self, names: set[str]) -> list[str]:
        return [f"{n} = w[{self.slots[n]}]" for n in sorted(names & self.slots.keys())]

    def lines(self, k: int) -> list[str]:
        stores = [f"w[{self.slots[n]}] = {n}" for n in sorted(self._sets[k] & self.slots.keys())]
        return [*self.loads(self._uses[k] - self._sets[k]), *self.pieces[k], *stores]

    def called_by(self, body: FunctionBody) -> list[int]:
        """Return the pieces that ``body`` needs, directly or indirectly."""
        found = {self._piece_of[i] for i in body.needed}
        waiting = list(found)
        while waiting:
            for k in self._needs[waiting.pop()] - found:
                found.add(k)
                waiting.append(k)
        return sorted(found)


def _defined(lines: Sequence[str]) -> set[str]:
    return {m[1] for line in lines if (m := _SET.match(line))}


def _used(lines: Sequence[str]) -> set[str]:
    return {name for line in lines for name in _NAME.findall(line)}


def _pieces(items: Sequence[Sequence[str]]) -> list[list[str]]:
    out: list[list[str]] = [[]]
    for item in items:
        if out[-1] and len(out[-1]) + len(item) > LINES:
            out.append([])
        out[-1] += item
    return out


def _def(name: str, arguments: str, doc: str, lines: Sequence[str]) -> str:
    body = "\n".join(f"    {line}" for line in lines)
    return f'def {name}({arguments}):\n    """{doc}"""\n{body}\n'


def indented(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for text in lines for line in text.splitlines()]


def module(text: str, names: Mapping[str, Any]) -> ModuleType:
    """Return ``text`` as a module in which ``names`` are defined.

    The text is also written to a file in the cache folder, so that numba can cache the machine code
    and a debugger can show the lines.  The file is never executed.  If it cannot be written, each
    process compiles the model again.
    """
    key = hashlib.sha256(text.encode())
    key.update(source_hash(*(part for item in sorted(names.items()) for part in item)).encode())
    name = f"rtsim_diagram_{key.hexdigest()[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    path = cache_folder() / "diagrams" / f"{name}.py"
    _write(path, text)
    made = ModuleType(name)
    made.__file__ = str(path)
    made.__dict__.update(names)
    made.__dict__.update(math=sys.modules["math"], np=np, compiled=compiled, scratch=scratch)
    exec(compile(text, str(path), "exec"), made.__dict__)
    sys.modules[name] = made
    return made


def _write(path: Path, text: str) -> None:
    """Write ``text`` to a file, unless the file has it already: the cache compares dates."""
    try:
        if path.read_text(encoding="utf-8") == text:
            return
    except (OSError, UnicodeDecodeError):
        pass
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}.part")
        part.write_text(text, encoding="utf-8")
        part.replace(path)
