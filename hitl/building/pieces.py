"""Generate C code that the units of host and board share: declarations, assertions, calls."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np

from hitl.building.assertions import assertions, element_of
from hitl.building.objects import declared, objects_of
from hitl.interface import Field, Interface
from hitl.interface.fields import limits

_ERRORS = (
    "implicit-function-declaration",  # without its header, C would pass doubles as ints
    "implicit-int",
    "incompatible-pointer-types",
    "int-conversion",
    "empty-body",
    "unused-value",  # such as step = "controller_step", without parentheses
)
"""Compiler warnings that count as errors in the statements of an interface file."""
_CPP_ERRORS = ("unused-value",)
"""The same for C++, whose compilers refuse the others in any case."""


def preamble(interface: Interface, support: Iterable[str], file: str) -> Iterator[str]:
    """Yield the first lines of a unit: includes, objects and assertions.

    ``support`` are the names of rtsim's own headers; ``file`` is the interface file's name in
    compiler errors.
    """
    lines = interface.lines
    written = (*interface.input_fields, *interface.parameter_fields)
    yield f"/* Generated from {_plain(interface.path.name)}; change that file instead. */"
    yield from (f'#include "{name}"' for name in support)
    for k, name in enumerate(interface.headers):
        yield at(lines.of("", "headers", k), file, f"#include {_header(name)}")
    cpp = interface.language.cpp
    yield from (f'#pragma GCC diagnostic error "-W{name}"' for name in errors_of(cpp))
    if cpp:  # a constructor may take the address of a variable
        yield from _declarations(interface, file)
        for line, text in declared(objects_of(interface)):
            yield at(line, file, text) if line else text
    else:
        for k, declaration in enumerate(interface.objects):
            yield at(lines.of("code", "objects", k), file, f"static {declaration};")
        yield from _declarations(interface, file)
    for fields, are_written in ((written, True), (interface.output_fields, False)):
        yield from (at(f.line, file, assertions(f, are_written, cpp)) for f in fields)


def errors_of(cpp: bool) -> tuple[str, ...]:
    """Return the warnings that count as errors in the statements of an interface file."""
    return _CPP_ERRORS if cpp else _ERRORS


def at(line: int, file: str, text: str) -> str:
    """Return ``text`` between ``#line`` directives, so that its errors name ``line`` of ``file``.

    The lines after it belong to the generated unit again: they must not name a line of ``file``.
    """
    return f'#line {line} "{_quoted(file)}"\n{text}\n#line 1 "the generated unit"'


def calls(interface: Interface, key: str, statements: Iterable[str], file: str) -> Iterator[str]:
    """Yield the C lines of ``statements``, which are the value of ``key`` in ``[code]``."""
    for k, statement in enumerate(statements):
        yield at(interface.lines.of("code", key, k), file, f"  {statement};")


def over(count: int, body: str) -> str:
    """Return C code that runs ``body`` with ``rtsim_k`` from 0 to ``count`` - 1."""
    if count == 1:
        return f"  {{ const unsigned rtsim_k = 0; (void)rtsim_k; {body} }}"
    return f"  for (unsigned rtsim_k = 0; rtsim_k < {count}u; rtsim_k++) {{ {body} }}"


def cleared(interface: Interface) -> Iterator[str]:
    """Yield the C lines that give each variable of the unit itself the value of a new process.

    An input gets its initial value, and another variable 0.  Then a second initialisation finds the
    same as the first: the controller cannot reset variables that it does not have.
    """
    for place in filter(lambda place: place.declared, interface.fields):
        yield f"  __builtin_memset(&{place.lvalue}, 0, sizeof {place.lvalue});"
    for place in interface.input_fields:
        if place.declared and place.given:
            for k, value in enumerate(np.broadcast_to(place.signal.initial, place.signal.size)):
                if raw := _literal(place, float(value)):
                    yield f"  {element_of(place, str(k))} = {raw};"


def _literal(place: Field, value: float) -> str:
    """Return the raw value of ``value`` in C; "" for a raw 0."""
    type = place.signal.type
    if type.startswith("float"):
        text = '__builtin_nan("")' if math.isnan(value) else value.hex()
        text = f"{'-' * (value < 0)}__builtin_inf()" if math.isinf(value) else text
        return f"(rtsim_{type}){text}" if value else ""
    if type == "bool":
        return "1" if value else ""
    low, high = limits(type)
    raw = min(max(round((value - place.bias) / place.scale), low), high)
    suffix = "ULL" if type == "uint64" else "LL"
    whole = f"({raw + 1}{suffix} - 1)" if raw == -(2**63) else f"{raw}{suffix}"
    return f"(rtsim_{type}){whole}" if raw else ""


def in_order(interface: Interface, settle: Iterable[str], file: str) -> list[str]:
    """Return the C lines of the initialisation.

    Variables of the unit are cleared and objects of C++ constructed first.  ``settle`` are the
    lines that set the parameters.  They precede or follow the calls of ``initialize``, as the
    interface file demands.
    """
    initialize = list(calls(interface, "initialize", interface.initialize, file))
    first, second = list(settle), initialize
    ordered = [*first, *second] if interface.parameters_first else [*second, *first]
    constructs = interface.language.cpp and interface.objects
    before = ["  rtsim_end_objects();", *cleared(interface)] if constructs else cleared(interface)
    return [*before, *(["  rtsim_construct();"] if constructs else []), *ordered]


def ending(interface: Interface, file: str) -> Iterator[str]:
    """Yield the C lines of the termination."""
    yield from calls(interface, "terminate", interface.terminate, file)
    if interface.language.cpp and interface.objects:
        yield "  rtsim_end_objects();"


def _quoted(text: str) -> str:
    """Return ``text`` escaped for a string literal of C."""
    out = text.replace("\\", "\\\\").replace('"', '\\"')
    return "".join(c if c.isprintable() else "".join(f"\\{b:03o}" for b in c.encode()) for c in out)


def _plain(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)


def _header(name: str) -> str:
    return name if name.startswith("<") else f'"{name}"'


def _declarations(interface: Interface, file: str) -> Iterator[str]:
    for place in interface.fields:
        if place.declared:
            signal = place.signal
            dimensions = "".join(f"[{n}]" for n in signal.shape)
            text = f"static rtsim_{signal.type} {signal.name}{dimensions};"
            yield at(place.line, file, text)


def elements(fields: Iterable[Field]) -> int:
    """Return the number of elements of all ``fields`` together."""
    return sum(f.signal.size for f in fields)
