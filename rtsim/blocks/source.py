"""Functions as text, long ones in pieces: a compiler's time grows faster than what it compiles."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from platformdirs import user_cache_dir

from rtsim.compiling import compiled
from rtsim.source_hash import source_hash

LINES = 60
"""Of one piece."""
_SET = re.compile(r"\s*([A-Za-z_]\w*) = ")
_NAME = re.compile(r"[A-Za-z_]\w*")


def function(name: str, arguments: str, doc: str, items: Sequence[Sequence[str]]) -> str:
    """``def name(arguments)`` of ``items``, each some lines that stay together.

    What a later piece needs of an earlier one, numbers all, goes through a vector ``w``.
    """
    pieces = _pieces(items)
    if len(pieces) == 1:
        return _def(name, arguments, doc, pieces[0] or ["pass"])
    defined = [{m[1] for line in piece if (m := _SET.match(line))} for piece in pieces]
    used = [{n for line in piece for n in _NAME.findall(line)} for piece in pieces]
    known: set[str] = set().union(*defined)
    shared: dict[str, int] = {}
    for i, names in enumerate(used):
        for other in sorted((names & known) - defined[i]):
            shared.setdefault(other, len(shared))
    out, calls = [], [f"w = np.empty({max(1, len(shared))})"]
    ready: set[str] = set()
    for i, piece in enumerate(pieces):
        first = [f"{n} = w[{shared[n]}]" for n in sorted(used[i] & ready) if n in shared]
        last = [f"w[{shared[n]}] = {n}" for n in sorted(defined[i]) if n in shared]
        ready |= defined[i]
        piece_name, passed = f"{name}_{i}", f"{arguments}, w"
        out.append("@compiled\n" + _def(piece_name, passed, f"{doc} ({i})", first + piece + last))
        calls.append(f"{piece_name}({passed})")
    return "\n\n".join((*out, _def(name, arguments, doc, calls)))


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
    """``text``, in which ``names`` are known, as a module.

    It is also written to a file beside the compiled models: there its machine code is kept under
    its name, and a debugger finds its lines.  What the file holds is never read; where it cannot
    be written the model is compiled in each process.
    """
    key = hashlib.sha256(text.encode())
    key.update(source_hash(*(part for item in sorted(names.items()) for part in item)).encode())
    name = f"rtsim_diagram_{key.hexdigest()[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    root = os.environ.get("RTSIM_CACHE_DIR") or user_cache_dir("rtsim")
    path = Path(root, "diagrams", f"{name}.py")
    _write(path, text)
    made = ModuleType(name)
    made.__file__ = str(path)
    made.__dict__.update(names)
    made.__dict__.update(math=sys.modules["math"], np=np, compiled=compiled)
    exec(compile(text, str(path), "exec"), made.__dict__)
    sys.modules[name] = made
    return made


def _write(path: Path, text: str) -> None:
    """Whole or not at all; an equal file stays, for its machine code goes with its date."""
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
