"""Short error messages for an interface file, made from the compiler's errors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from hitl.building.toolchain import BuildError
from hitl.interface import Interface, InterfaceError
from hitl.interface.language import is_cpp

_ERROR = r":(?P<line>\d+):(?:\d+:)? (?:fatal )?error: (?P<text>.*)$"
_ASSERTION = re.compile(
    r"static[_ ]assert(?:ion)? failed(?: due to requirement '.*')?:? \"?(?P<text>.*?)\"?\Z"
)
_UNDEFINED = re.compile(r"undefined (?:reference to|symbol:) [`'\"]?(?P<name>\w+)")
_CPP_LIBRARY = re.compile(
    r"undefined (?:reference to|symbol:) [`'\"]?"
    r"(?:__cxa_|__gxx_personality|operator (?:new|delete)|vtable for __cxxabiv1|std::)"
)
_NO_LIBRARY = re.compile(r"error: '?(?P<name>Wire|SPI|EEPROM)\.h'?(?:: No such| file not found)")
_HINTS = (
    ("implicit declaration", "name its header under headers"),
    ("undeclared function", "name its header under headers"),
    ("No such file", "name its folder under include; paths are relative to the interface file"),
    ("file not found", "name its folder under include; paths are relative to the interface file"),
    ("no effect", "a call needs parentheses"),
    ("result unused", "a call needs parentheses"),
    ("unused-value", "a call needs parentheses"),
    ("private", "name a public member, or call a public method in initialize or step"),
    ("protected", "name a public member, or call a public method in initialize or step"),
    ("was not declared", "name its header under headers"),
    ("undeclared identifier", "name its header under headers"),
    ("subscripted value", "give the shape that the variable has in C"),
    ("for array subscript", "give the shape that the variable has in C"),
    ("bit-field", "copy it to a variable in an inline function of a header; name that variable"),
)
_MOST = 3


@contextmanager
def in_few_words(interface: Interface) -> Iterator[None]:
    """Turn a :class:`BuildError` that the interface file causes into :class:`InterfaceError`.

    The new message begins with ``file:line:``.  Its ``__cause__`` holds the compiler's output.
    """
    try:
        yield
    except BuildError as error:
        lines = _complaints(interface, str(error)) or _undefined(interface, str(error))
        if not lines:
            if (missing := _NO_LIBRARY.search(str(error))) and interface.language.clock is not None:
                raise BuildError(f"{error}\n{_without(missing['name'])}") from error
            if not interface.language.cpp and any(map(is_cpp, interface.sources)):
                hint = f'{interface.lines.path}: C++ code needs the line language = "c++"'
                raise BuildError(f"{error}\n{hint}") from error
            raise
        raise refused(lines) from error


def _without(library: str) -> str:
    return (
        f"{library} is not available in rtsim: leave its calls out of the controller, and declare "
        "the values as signals (docs/arduino.md)"
    )


def refused(complaints: Iterable[str]) -> InterfaceError:
    """Return one error with the first three messages, and the number of further messages."""
    lines = list(complaints)
    shown = lines[:_MOST]
    if len(lines) > _MOST:
        shown.append(f"and {len(lines) - _MOST} more")
    return InterfaceError("\n".join(shown))


def no_c(interface: Interface, number: int) -> InterfaceError:
    """Return the error for source ``number``, which the compiler does not accept as C."""
    line = interface.lines.of("", "sources", number)
    name = interface.sources[number].name
    text = f"{name} is not a C source: name files that end in .c"
    return refused([located(interface, line, text)])


def _complaints(interface: Interface, said: str) -> list[str]:
    """Return the first compiler error of each line; further errors of a line are consequences."""
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
    """Return the errors for undefined functions that the interface file calls."""
    out = []
    if not interface.language.cpp and _CPP_LIBRARY.search(said):
        line = interface.lines.of("", "sources")
        text = 'the sources need the library of C++; write language = "c++"'
        return [located(interface, line, text)]
    for name in dict.fromkeys(match["name"] for match in _UNDEFINED.finditer(said)):
        if line := interface.lines.using(name):
            text = f"no source defines {name}; add its file to sources or its library to libraries"
            out.append(located(interface, line, text))
    return out


def located(interface: Interface, line: int, text: str) -> str:
    """Return ``text`` in the form of a compiler's error: file, line number, and the quoted line."""
    return f"{interface.lines.path}:{line}: {text}\n    {interface.lines.text(line)}"
