"""Generate C code that the units of host and board share: declarations, assertions, calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hitl.building.assertions import assertions
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
    yield from (f'#pragma GCC diagnostic error "-W{name}"' for name in _ERRORS)
    for k, declaration in enumerate(interface.objects):
        yield at(lines.of("code", "objects", k), file, f"static {declaration};")
    yield from _declarations(interface, file)
    yield from (at(f.line, file, assertions(f, written=True)) for f in written)
    yield from (at(f.line, file, assertions(f, written=False)) for f in interface.output_fields)
    yield '#line 1 "the generated unit"'


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
    return [*first, *second] if interface.parameters_first else [*second, *first]


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
