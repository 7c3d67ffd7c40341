"""Generate the objects of a controller in C++: they are constructed at each initialisation.

In C an object is a static variable, and ``initialize`` gives it its first values.  A C++ object
gets them from its constructor.  The generated code therefore constructs all objects in static
memory each time the controller is initialised, and destroys them when it is terminated.  An
exception in a constructor is then an exception of the initialisation, on the host as on a board.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from hitl.interface import Interface, InterfaceError

_NAME = re.compile(r"([A-Za-z_]\w*)\s*((?:\[[^\]]*\]\s*)*)\Z")
_OPENS = {"(": ")", "{": "}"}


@dataclass(frozen=True)
class CppObject:
    """The declaration of one object: ``Pid pid(&input, 2.0)`` in parts."""

    type: str
    name: str
    dimensions: str
    """``[2]`` of an array; "" of another object."""
    arguments: str
    """What the object is constructed from, with its brackets: ``(&input, 2.0)``; ``()`` if nothing.
    """
    line: int


def objects_of(interface: Interface) -> list[CppObject]:
    """Return the objects of ``interface``; raises :class:`InterfaceError` for another text."""
    out = []
    for k, text in enumerate(interface.objects):
        line = interface.lines.of("code", "objects", k)
        found = _parsed(text, line)
        if found is None:
            raise InterfaceError(
                f"{interface.lines.path}:{line}: {text!r} does not declare one object of C++; "
                "write, for example, 'Pid pid(&input, &output, 2.0)' or 'Filter filters[2]'"
            )
        out.append(found)
    return out


def declared(objects: list[CppObject]) -> Iterator[tuple[int, str]]:
    """Yield the line in the interface file and the text of each line that declares the objects."""
    if not objects:
        return
    yield 0, "struct rtsim_objects {"
    for each in objects:
        yield each.line, f"  {each.type} {each.name}{each.dimensions};"
    yield 0, "  rtsim_objects()"
    # Empty brackets would fill the members of a class without a constructor with zeros.
    given = [each for each in objects if each.arguments != "()"]
    for k, each in enumerate(given):
        yield each.line, f"  {',' if k else ':'} {each.name}{each.arguments}"
    yield 0, "  {}\n};"
    yield 0, "alignas(rtsim_objects) static unsigned char rtsim_memory[sizeof(rtsim_objects)];"
    yield 0, "static bool rtsim_constructed;"
    everything = "reinterpret_cast<rtsim_objects &>(rtsim_memory)"
    for each in objects:
        type = f"decltype(rtsim_objects::{each.name})"
        yield 0, f"static {type} &{each.name} = {everything}.{each.name};"
    yield (
        0,
        "static void rtsim_construct(void)\n{\n"
        "  static unsigned char pattern = 0x01; /* in its inverse, a float is -1.7e38 */\n"
        "  volatile unsigned char *const bytes = rtsim_memory; /* so that none is left out */\n"
        "  pattern = (unsigned char)~pattern;\n"
        "  for (unsigned long k = 0; k < sizeof rtsim_memory; k++) bytes[k] = pattern;\n"
        "  new (rtsim_place{rtsim_memory}) rtsim_objects;\n  rtsim_constructed = true;\n}",
    )
    yield (
        0,
        "static void rtsim_end_objects(void)\n{\n  if (!rtsim_constructed) return;\n"
        f"  rtsim_constructed = false;\n  rtsim_destroy({everything});\n}}",
    )


def _parsed(text: str, line: int) -> CppObject | None:
    """Return the parts of a declaration, or ``None`` if they are not recognised."""
    head, arguments = _split(text.strip())
    found = _NAME.search(head)
    if found is None or arguments is None:
        return None
    type = head[: found.start()].strip()
    array = found[2].strip()
    if arguments[1:-1].isspace() and arguments[0] == "(":
        arguments = "()"
    if not type or (array and arguments != "()"):
        return None
    return CppObject(type, found[1], array, arguments, line)


def _split(text: str) -> tuple[str, str | None]:
    """Return the text before the initialiser, and the initialiser in brackets."""
    depth = 0
    for at, letter in enumerate(text):
        if letter in "<[":
            depth += 1
        elif letter in ">]":
            depth -= 1
        elif depth == 0 and letter == "=":
            return text[:at].rstrip(), f"({text[at + 1 :].strip()})"
        elif depth == 0 and letter in _OPENS:
            whole = text[at:].endswith(_OPENS[letter])
            return text[:at].rstrip(), text[at:] if whole else None
        elif depth == 0 and letter == ",":
            return text, None
    return text, "()"
