"""A compiler's complaints about an interface file, in few words, as errors of that file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from hitl.building.toolchain import BuildError
from hitl.interface import Interface, InterfaceError

_ERROR = r":(?P<line>\d+):(?:\d+:)? (?:fatal )?error: (?P<text>.*)$"
_ASSERTION = re.compile(
    r"static[_ ]assert(?:ion)? failed(?: due to requirement '.*')?:? \"?(?P<text>.*?)\"?\Z"
)
_UNDEFINED = re.compile(r"undefined (?:reference to|symbol:) [`'\"]?(?P<name>\w+)")
_HINTS = (
    ("implicit declaration", "name its header under headers"),
    ("undeclared function", "name its header under headers"),
    ("No such file", "name its folder under include; paths are relative to the interface file"),
    ("file not found", "name its folder under include; paths are relative to the interface file"),
    ("no effect", "a call needs its parentheses"),
    ("result unused", "a call needs its parentheses"),
    ("unused-value", "a call needs its parentheses"),
    ("bit-field", "copy it in a header's inline function, and name that variable"),
)
_MOST = 3


@contextmanager
def in_few_words(interface: Interface) -> Iterator[None]:
    """Raise a :class:`BuildError` that is the interface file's as its :class:`InterfaceError`.

    That begins with ``file:line:``; what the compiler said stands in its ``__cause__``.
    """
    try:
        yield
    except BuildError as error:
        lines = _complaints(interface, str(error)) or _undefined(interface, str(error))
        if not lines:
            raise
        raise refused(lines) from error


def refused(complaints: Iterable[str]) -> InterfaceError:
    """All of them in one error, or the first few and how many more there are."""
    lines = list(complaints)
    shown = lines[:_MOST]
    if len(lines) > _MOST:
        shown.append(f"and {len(lines) - _MOST} more")
    return InterfaceError("\n".join(shown))


def no_c(interface: Interface, number: int) -> InterfaceError:
    """Of a source of which the compiler makes nothing: it takes such a file for the linker's."""
    line = interface.lines.of("", "sources", number)
    name = interface.sources[number].name
    return refused([located(interface, line, f"{name} is no C: name files that end in .c")])


def _complaints(interface: Interface, said: str) -> list[str]:
    """The first of each line: what follows there follows from it."""
    out: dict[int, str] = {}
    for match in re.finditer("^" + re.escape(str(interface.path)) + _ERROR, said, re.M):
        line = int(match["line"])
        out.setdefault(line, located(interface, line, _worded(match["text"])))
    return list(out.values())


def _worded(text: str) -> str:
    if assertion := _ASSERTION.match(text):
        return assertion["text"]
    hint = next((f"; {hint}" for sign, hint in _HINTS if sign in text), "")
    bare = re.sub(r"\s*\[-W[^\]]*\]\Z", "", text)
    return re.sub(r"; did you mean '(rtsim|RTSIM)\w*'\?", "", bare) + hint


def _undefined(interface: Interface, said: str) -> list[str]:
    """What the linker misses, where the interface file calls it."""
    out = []
    for name in dict.fromkeys(match["name"] for match in _UNDEFINED.finditer(said)):
        if line := interface.lines.using(name):
            text = f"no source defines {name}; add its file to sources, or its library to libraries"
            out.append(located(interface, line, text))
    return out


def located(interface: Interface, line: int, text: str) -> str:
    """``text`` as compilers write it: the file and the line, which is shown below."""
    return f"{interface.lines.path}:{line}: {text}\n    {interface.lines.text(line)}"
