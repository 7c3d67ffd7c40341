"""Replace the C library's functions in LLVM code by the functions of this package.

Both the operations and their order are those of plain Python, so that the bits of a result depend
neither on the C library nor on the processor. Functions that IEEE 754 defines exactly, such as
square roots and remainders, are not replaced, nor are functions that this package lacks.
"""

from __future__ import annotations

import hashlib
import re
import sys
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir

from rtsim.core.cache import cache_folder, not_kept
from rtsim.equations.addresses import NUMBER
from rtsim.equations.compiling import prepare_compiler
from rtsim.equations.elementary import FUNCTIONS
from rtsim.equations.machine_code import processor, write_at_once
from rtsim.equations.numba_private import Changes

_OWN = "rtsim."
_NAMES = "|".join(sorted(set(FUNCTIONS) - {"fmod"}, key=len, reverse=True))
_CALLED = re.compile(rf'@"?(?:llvm\.({_NAMES})\.f64|({_NAMES}))"?(?=\()')
_NEEDED = re.compile(rf'^declare [^@\n]*@"?{re.escape(_OWN)}(\w+)"?\(', re.M)
_DECLARATION = re.compile(rf"^declare [^@\n]*@{re.escape(_OWN)}(\w+)\(.*\n", re.M)
_DEFINED = re.compile(r"^(define|@\S+ =) (?:linkonce_odr|weak_odr|common)", re.M)
_PROCESSOR = re.compile(r'"(?:target-cpu|target-features)"="[^"]*"')


def renamed(module: Any) -> Any:
    """Return an LLVM module that calls the functions of this package by their own names."""
    text = str(module)
    changed = _CALLED.sub(lambda found: f"@{_OWN}{found[1] or found[2]}", text)
    if changed == text:
        return module
    declared: set[str] = set()

    def first(found: re.Match[str]) -> str:
        known = found[1] in declared
        declared.add(found[1])
        return "" if known else found[0]

    return _parsed(_DECLARATION.sub(first, changed), module.name)


def linked(module: Any) -> Any:
    """Return the module with the definitions of the functions that it calls."""
    module = renamed(module)
    needed = set(_NEEDED.findall(str(module)))
    for name in sorted(needed):
        module.link_in(llvm.parse_assembly(definition(name)))
    for name in needed:
        module.get_function(f"{_OWN}{name}").linkage = "internal"
    return module


CHANGES = Changes(renamed, linked)
"""What :func:`rtsim.equations.lowering.lower` needs to use the functions of this package."""


def _parsed(text: str, name: str) -> Any:
    made = llvm.parse_assembly(text)
    made.name = name
    made.verify()
    return made


@cache
def _kept(name: str) -> Path:
    sources = b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
    versions = f"{name} {version('numba')} {version('llvmlite')} {sys.version} "
    key = hashlib.sha256(versions.encode() + processor().encode() + sources).hexdigest()[:32]
    return cache_folder() / "compiled" / f"{key}.ll"


@cache
def definition(name: str) -> str:
    """Return the LLVM code of one function, which takes and returns floats.

    The code is kept in the cache.
    """
    kept = _kept(name)
    with suppress(OSError, UnicodeDecodeError):
        return kept.read_text()
    text = _made(name)
    try:
        write_at_once(kept, text.encode())
    except OSError as error:
        not_kept(kept.parent, error)
    return text


def _made(name: str) -> str:
    prepare_compiler()
    from rtsim.equations.lowering import native_code

    function = FUNCTIONS[name]
    count = function.__code__.co_argcount
    text, native, convention = native_code(function, (NUMBER,) * count)
    whole = llvm.parse_assembly(_PROCESSOR.sub("", _DEFINED.sub(r"\1 internal", text)))
    whole.link_in(llvm.parse_assembly(_wrapper(name, count, native, convention)))
    whole.get_function(native).linkage = "internal"
    return str(whole)


def _wrapper(name: str, count: int, native: str, convention: Any) -> str:
    double, module = ir.DoubleType(), ir.Module(name)
    module.triple = llvm.get_process_triple()
    kind = ir.FunctionType(double, [double] * count)
    made = ir.Function(module, kind, f"{_OWN}{name}")
    made.attributes.add("alwaysinline")
    builder = ir.IRBuilder(made.append_basic_block())
    builder.ret(convention(builder, module, native, list(made.args)))
    return str(module)
