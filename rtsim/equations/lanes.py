"""Machine code that computes one function of a model for several lanes in one call.

A lane is one of several runs of the same scenario. :func:`rtsim.equations.widening.widen` makes the
code from the function that numba has compiled. The code is kept in the cache.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite.binding as llvm

from rtsim.core.cache import not_kept
from rtsim.core.errors import ModelError
from rtsim.equations.addresses import INTEGER, NUMBER, Signature, is_array
from rtsim.equations.compiling import Source, code_of_llvm, lanes_folder
from rtsim.equations.llvm_text import Function, NotWidened, definition_of, function_of
from rtsim.equations.machine_code import (
    Linked,
    MachineCode,
    link,
    target_machine,
    vectors_have_their_own_functions,
    write_at_once,
)
from rtsim.equations.widening import widen

WIDTHS = (2, 4, 8)
"""Numbers of lanes."""


@cache
def native_width() -> int:
    """Return the number of doubles in a vector register of this processor."""
    features = llvm.get_host_cpu_features()
    if features.get("avx512f"):
        return 8
    return 4 if features.get("avx") else 2


@cache
def _own() -> str:
    here = Path(__file__).parent
    names = ("divergence.py", "lanes.py", "llvm_text.py", "vector_text.py", "widening.py")
    own = b"".join((here / name).read_bytes() for name in names)
    return hashlib.sha256(own).hexdigest()[:8]


class Lanes(NamedTuple):
    """A function for ``width`` lanes.

    ``entry(words, numbers, answers)`` is a C function of three addresses. ``words`` is the argument
    table, or the addresses and lengths of the vectors. ``numbers`` contains the arguments that are
    numbers, and ``answers`` receives the integer results; both contain one row of ``width`` words
    for each. The result is 0, or another number if a lane has failed. The vectors then contain no
    results, and each lane must be computed on its own.

    ``handle`` is the function that other widened functions call.
    """

    width: int
    entry: int
    handle: int
    linked: Linked


def lanes_of(source: Source, width: int) -> Lanes:
    """Return the function at several lanes; raise :class:`NotWidened` if impossible."""
    return _lanes(source, width)


@lru_cache(maxsize=256)
def _lanes(source: Source, width: int) -> Lanes:
    if vectors_have_their_own_functions():
        raise NotWidened("the compiler uses Intel's vector functions, which round differently")
    try:
        text, name, key = code_of_llvm(source)
    except ModelError as error:
        raise NotWidened(str(error)) from None
    place = lanes_folder() / f"{key}-{width}-{_own()}.code"
    refused = place.with_suffix(".refused")
    code = MachineCode.read(place)
    if code is None:
        if refused.exists():
            raise NotWidened(refused.read_text())
        try:
            code = _made(text, name, source.signature, width)
        except NotWidened as reason:
            _write(refused, str(reason).encode())
            raise
        try:
            code.write(place)
        except OSError as error:
            not_kept(place.parent, error)
    linked = link(code)
    return Lanes(width, linked.entry, linked.handle, linked)


def _write(path: Path, data: bytes) -> None:
    try:
        write_at_once(path, data)
    except OSError as error:
        not_kept(path.parent, error)


def _made(text: str, name: str, signature: Signature, width: int) -> MachineCode:
    # The loops of a solver run over lengths that are known only later.
    unrolled = not any(kind.startswith("table[") for kind in signature)
    if _CALLS.search(definition_of(text, name)):
        text = str(_optimised(inlined(text, name), unrolled))
    widened = widen(text, name, width, "rtsim_wide")
    function = function_of(definition_of(text, name))
    entry = _entry_text(function, signature, width)
    whole = _optimised(widened.text + entry, unrolled)
    return MachineCode((target_machine().emit_object(whole),), "rtsim_wide", "rtsim_lanes")


_CALLS = re.compile(r"call [^\n]*@\"?(?:_Z|NRT_)")
"""A call of another function of the module, which optimised code does not contain."""
_REFERENCES = re.compile(r"^define [^\n]*@NRT_(incref|decref)\(.*?^}\n", re.M | re.S)
_NO_REFERENCES = "define internal void @NRT_{}(ptr %p) {{\n  ret void\n}}\n"
_SHARED = re.compile(r"^(define|@\S+ =) (?:linkonce_odr|weak_odr|common)", re.M)


def inlined(text: str, name: str) -> str:
    """Return the text of a module in which the function ``name`` contains all it calls.

    All arrays are passed by address, so their references need not be counted.
    """
    text = _REFERENCES.sub(lambda m: _NO_REFERENCES.format(m.group(1)), text)
    text = re.sub(r"\bnoinline\b", "nounwind", _SHARED.sub(r"\1 internal", text))
    module = llvm.parse_assembly(text)
    for function in module.functions:
        if not function.is_declaration and function.name != name:
            function.linkage = "internal"
            function.add_function_attribute("alwaysinline")
    return str(module)


def _optimised(text: str, unrolled: bool = True) -> Any:
    """Optimise a module without vectors over loops, which numba's optimisation may contain."""
    module = llvm.parse_assembly(text)
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = options.slp_vectorization = options.loop_interleaving = False
    options.loop_unrolling = unrolled
    builder = llvm.create_pass_builder(target_machine(), options)
    builder.getModulePassManager().run(module, builder)
    return module


def _entry_text(function: Function, signature: Signature, width: int) -> str:
    """Return the code of the entry, which passes its arguments to the widened function."""
    vector = f"<{width} x double>"
    lines, arguments, numbers = ["  %raised = alloca ptr"], ["ptr %answers", "ptr %raised"], 0
    kinds = [kind for kind in signature if kind != INTEGER]
    if len(kinds) != len(signature):
        raise NotWidened("it has an integer argument")
    for kind in kinds:
        if kind == NUMBER:
            at = 8 * width * numbers
            lines.append(f"  %at{numbers} = getelementptr i8, ptr %numbers, i64 {at}")
            lines.append(f"  %n{numbers} = load {vector}, ptr %at{numbers}, align 8")
            arguments.append(f"{vector} %n{numbers}")
            numbers += 1
    if any(map(is_array, kinds)) and len(function.arguments) == 3 + numbers:
        arguments.append("ptr %words")
    else:
        tables = [kind for kind in kinds if kind.startswith("table[")]
        if tables != [kind for kind in kinds if is_array(kind)] or len(tables) != 1:
            raise NotWidened("its arguments are not an argument table and numbers")
        own = ["ptr null", "ptr null", "i64 0", "i64 8", "ptr %words", "i64 0", "i64 8"]
        arguments[2:2] = own
    lines.append(f"  %status = call i32 @rtsim_wide({', '.join(arguments)})")
    lines.append("  %result = zext i32 %status to i64")
    head = "define i64 @rtsim_lanes(ptr %words, ptr %numbers, ptr %answers) {"
    return "\n".join((head, *lines, "  ret i64 %result", "}", ""))
