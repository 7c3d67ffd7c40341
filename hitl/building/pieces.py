"""Generate C code that the units of host and board share: declarations, assertions, calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hitl.building.assertions import assertions
from hitl.building.objects import declared, objects_of
from hitl.interface import Field, Interface

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
    yield '#line 1 "the generated unit"'


def errors_of(cpp: bool) -> tuple[str, ...]:
    """Return the warnings that count as errors in the statements of an interface file."""
    return _CPP_ERRORS if cpp else _ERRORS


def at(line: int, file: str, text: str) -> str:
    """Return ``text`` after a ``#line`` directive, so that errors name ``line`` of ``file``."""
    return f'#line {line} "{_quoted(file)}"\n{text}'


def calls(interface: Interface, key: str, statements: Iterable[str], file: str) -> Iterator[str]:
    """Yield the C lines of ``statements``, which are the value of ``key`` in ``[code]``."""
    for k, statement in enumerate(statements):
        yield at(interface.lines.of("code", key, k), file, f"  {statement};")


def over(count: int, body: str) -> str:
    """Return C code that runs ``body`` with ``rtsim_k`` from 0 to ``count`` - 1."""
    if count == 1:
        return f"  {{ const unsigned rtsim_k = 0; (void)rtsim_k; {body} }}"
    return f"  for (unsigned rtsim_k = 0; rtsim_k < {count}u; rtsim_k++) {{ {body} }}"


def in_order(interface: Interface, settle: Iterable[str], file: str) -> list[str]:
    """Return the C lines of the initialisation.

    ``settle`` are the lines that set the parameters.  They precede or follow the calls of
    ``initialize``, as the interface file demands.
    """
    initialize = list(calls(interface, "initialize", interface.initialize, file))
    first, second = list(settle), initialize
    ordered = [*first, *second] if interface.parameters_first else [*second, *first]
    constructs = interface.language.cpp and interface.objects
    return ["  rtsim_end_objects();", "  rtsim_construct();", *ordered] if constructs else ordered


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
