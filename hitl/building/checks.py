"""Check an interface file with the compiler, and shorten the error messages.

In a call, C converts a variable to the type of the parameter without a warning. For example, a
float that is passed to a parameter of the type signed char loses its fraction. This module
therefore checks the types of variables in calls.

C has no expression for the type of a parameter. For each variable, the module compiles a copy of
the call in which a structure replaces the variable. The error message of the compiler then names
the expected type. The module uses only the compiler's errors.

The module also checks that the size of pointers is that of this process.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from hitl.building.c_code import preamble, type_bytes
from hitl.building.toolchain import BuildError, CannotBuild, Toolchain
from hitl.interface import Field, Interface, InterfaceError
from hitl.interface.fields import KEYWORDS, limits
from hitl.interface.file import is_cpp

# -- short error messages

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
    """Convert a ``BuildError`` that the interface file causes into an ``InterfaceError``.

    The message begins with ``file:line:``, and ``__cause__`` contains the output of the compiler.
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
    """Return an error with the first three messages and the number of further ones."""
    lines = list(complaints)
    shown = lines[:_MOST]
    if len(lines) > _MOST:
        shown.append(f"and {len(lines) - _MOST} more")
    return InterfaceError("\n".join(shown))


def no_c(interface: Interface, number: int) -> InterfaceError:
    """Return the error for a source that is no valid C."""
    line = interface.lines.of("", "sources", number)
    name = interface.sources[number].name
    text = f"{name} is not a C source: name files that end in .c"
    return refused([located(interface, line, text)])


def _complaints(interface: Interface, said: str) -> list[str]:
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
    """Return a message with file, line number and the text of the line."""
    return f"{interface.lines.path}:{line}: {text}\n    {interface.lines.text(line)}"


_TOKEN = re.compile(
    r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|\.?\d(?:[eEpP][+-]|[\w.])*|[A-Za-z_]\w*|->|\S'
)
_WORD = re.compile(r"[A-Za-z_]\w*\Z")
_NOTHING = "rtsim_nothing"
_FILE = "rtsim call"
_TYPE_ERROR = re.compile(r": (?:fatal )?error: ")
_PROBE = re.compile(rf"^{_FILE} (\d+):\d+:")
_SAID = re.compile(
    r"(?:expected|parameter of incompatible type|from incompatible type|from type) "
    r"'(?P<type>[^'{]*)'?(?: ?[{(]aka '?(?P<meant>[^'})]*)'?[})])?"
)
"""Pattern of the type errors of gcc and clang.

For a typedef, the errors also contain its meaning: after the name, or in an older gcc before the
closing quote.
"""
_VERDICT = re.compile(r"rtsim expects: (\w[\w ]*)")
_NAMES = (
    "bool", "char", "signed char", "unsigned char", "short", "unsigned short", "int",
    "unsigned int", "long", "unsigned long", "long long", "unsigned long long", "float", "double",
    "long double",
)  # fmt: skip
_FACT = re.compile(r"rtsim: (int|long|double) has (\d+)|rtsim: char is (unsigned)")
_ALONE = ("()", "(,", ",,", ",)")
"""Tokens before and after an argument that is a single variable."""
_STOPS_EARLY = ("-Wfatal-errors", "-fmax-errors", "-ferror-limit")


@dataclass(frozen=True)
class _Place:
    field: Field
    statement: str
    begins: int
    ends: int
    sets: bool = False
    function: str = ""
    """Name of the function whose result sets the variable. A macro of this name is not checked."""

    @property
    def probe(self) -> str:
        call = f"{self.statement[: self.begins]}{_NOTHING}{self.statement[self.ends :]}"
        return f"static void rtsim_probe(void) {{ {call}; }}"


def check_arguments(
    interface: Interface, toolchain: Toolchain, flags: Sequence[str | Path],
    more: Sequence[str] = (),
) -> None:  # fmt: skip
    """Check that conversions of arguments and results keep all values.

    ``flags`` are the flags of the compiler. The checked code also includes the rtsim headers
    ``more``. Arguments of macros, and of functions without a prototype, cannot be checked. Raises
    ``InterfaceError`` for a variable of the wrong type.
    """
    places = list(_places(interface))
    if not places:
        return
    said = _said(interface, toolchain, flags, places, more)
    target = _Target.of(said)
    lines = []
    for number, found in _expected(said).items():
        place, name = places[number], _canonical(found)
        if name and not target.fits(place.field.signal.type, name, place.sets):
            lines.append(_complaint(interface, place, name))
    if lines:
        raise refused(dict.fromkeys(lines))


def _complaint(interface: Interface, place: _Place, name: str) -> str:
    signal = place.field.signal
    what = "sets" if place.sets else "passes"
    whole = "int" in signal.type and "float" not in name and "double" not in name
    wider = f", or give {signal.name} a type that holds each {name}" if whole and place.sets else ""
    text = (
        f"{signal.name} is {signal.type} here and {name} in C, where {place.statement!r} {what} "
        f"it: make them the same{wider}"
    )
    return located(interface, place.field.line, text)


def _places(interface: Interface) -> Iterator[_Place]:
    declared = {f.signal.name: f for f in interface.fields if f.declared and not f.signal.shape}
    statements = (
        *interface.initialize, *(step.call for step in interface.steps), *interface.terminate
    )  # fmt: skip
    for statement in dict.fromkeys(statements):
        words = [(m[0], m.start(), m.end()) for m in _TOKEN.finditer(statement)]
        yield from _passed(declared, statement, words)
        yield from _set(declared, statement, words)


Words = Sequence[tuple[str, int, int]]


def _passed(declared: dict[str, Field], statement: str, words: Words) -> Iterator[_Place]:
    opened: list[bool] = []
    """For each open bracket, True if the bracket belongs to a call."""
    for k, (word, begins, ends) in enumerate(words):
        before = words[k - 1][0] if k else ""
        after = words[k + 1][0] if k + 1 < len(words) else ""
        if word in "([{":
            named = _WORD.match(before) and before not in KEYWORDS
            opened.append(word == "(" and bool(named or before in (")", "]")))
        elif word in ")]}":
            opened[-1:] = []
        elif word in declared and opened[-1:] == [True] and (before + after) in _ALONE:
            yield _Place(declared[word], statement, begins, ends)


def _set(declared: dict[str, Field], statement: str, words: Words) -> Iterator[_Place]:
    """Yield the occurrence of ``y`` in ``y = step(...)``, but not in ``y = step(...) + 1``."""
    texts = [word for word, *_ in words]
    if len(texts) < 5 or texts[0] not in declared or texts[1] != "=" or texts[-1] != ")":
        return
    opens = texts.index("(") if "(" in texts else 0
    callee = texts[2:opens]
    named = len(callee) % 2 and all(_WORD.match(w) and w not in KEYWORDS for w in callee[::2])
    if not named or any(w not in (".", "->") for w in callee[1::2]):
        return
    depth = 0
    for word in texts[opens:-1]:
        depth += (word == "(") - (word == ")")
        if depth == 0:
            return
    yield _Place(declared[texts[0]], statement, *words[0][1:], sets=True, function=callee[0])


def _said(
    interface: Interface, toolchain: Toolchain, flags: Sequence[str | Path], places: list[_Place],
    more: Sequence[str],
) -> str:  # fmt: skip
    cpp = interface.language.cpp
    word = "static_assert" if cpp else "_Static_assert"
    checks = "rtsim_checks_cpp.h" if cpp else "rtsim_checks.h"
    nothing = f"static struct rtsim_nothing {{ int rtsim_none; }} {_NOTHING};"
    parts = [
        *preamble(interface, (checks, *more), str(interface.path)),
        *([] if cpp else [nothing]),
        *(
            f'{word}(sizeof({kind}) != {size}, "rtsim: {kind} has {size}");'
            for kind, size in (("int", 2), ("int", 4), ("long", 4), ("long", 8))
        ),
        *(f'{word}(sizeof(double) != {n}, "rtsim: double has {n}");' for n in (4, 8)),
        f'{word}((char)-1 < 0, "rtsim: char is unsigned");',
    ]
    for number, place in enumerate(places):
        probe = place.probe.replace("rtsim_probe", f"rtsim_probe_{number}", 1)
        probe = (
            f"{_converted(number) if cpp else ''}{probe.replace(_NOTHING, _nothing(number, cpp))}"
        )
        probe = f'#line 1 "{_FILE} {number}"\n{probe}'
        parts.append(f"#ifndef {place.function}\n{probe}\n#endif" if place.sets else probe)
    with TemporaryDirectory(prefix="rtsim-") as scratch:
        unit = Path(scratch) / "calls.c"
        unit.write_text("\n".join(parts) + "\n", encoding="utf-8")
        only = ["-c", "-o", f"{unit}.o"] if toolchain.family == "zig" else ["-fsyntax-only"]
        all_of_them = [] if toolchain.family == "gcc" else ["-ferror-limit=0"]
        given = [f for f in map(str, flags) if not f.startswith(_STOPS_EARLY)]
        try:
            toolchain.run([*given, *only, *all_of_them, unit], interface.path.parent)
        except CannotBuild:
            raise
        except BuildError as error:
            return str(error)
    return ""


def _nothing(number: int, cpp: bool) -> str:
    return f"{_NOTHING}_{number}" if cpp else _NOTHING


def _converted(number: int) -> str:
    said = " ".join(
        f'static_assert(!rtsim_same<T, {type}>::value, "rtsim expects: {type}");' for type in _NAMES
    )
    name = _nothing(number, cpp=True)
    return (
        f"static struct {name}_type {{ "
        f"template <class T> operator T() const {{ {said} return T(); }} "
        f"template <class T> void operator=(const T &) const {{ {said} }} }} {name}; "
    )


def _expected(said: str) -> dict[int, str]:
    out: dict[int, str] = {}
    current: int | None = None
    for line in said.splitlines():
        if _TYPE_ERROR.search(line):
            probe = _PROBE.match(line)
            current = int(probe[1]) if probe else None
        if current is not None and (verdict := _VERDICT.search(line)):
            out.setdefault(current, verdict[1])
        elif current is not None and _NOTHING in line and (found := _SAID.search(line)):
            out.setdefault(current, found["meant"] or found["type"])
    return out


def _canonical(spelled: str) -> str:
    words = [w for w in spelled.split() if w not in ("const", "volatile", "register", "_Atomic")]
    if "*" in spelled:
        return ""
    if words in (["_Bool"], ["bool"]):
        return "_Bool"
    if words in (["float"], ["double"], ["long", "double"]):
        return " ".join(words)
    known = {"signed", "unsigned", "char", "short", "int", "long"}
    if not words or not set(words) <= known:
        return " ".join(words)
    sign = "unsigned " if "unsigned" in words else ""
    if "char" in words:
        return ("signed " if "signed" in words else sign) + "char"
    if "short" in words:
        return f"{sign}short"
    return sign + (" ".join(["long"] * words.count("long")) or "int")


@dataclass(frozen=True)
class _Target:
    int_bytes: int = 4
    long_bytes: int = 8
    double_bytes: int = 8
    char_is_signed: bool = True

    @classmethod
    def of(cls, said: str) -> _Target:
        found: dict[str, int] = {}
        signed = True
        for kind, size, unsigned in _FACT.findall(said):
            if unsigned:
                signed = False
            else:
                found[kind] = int(size)
        return cls(found.get("int", 4), found.get("long", 8), found.get("double", 8), signed)

    def fits(self, type: str, name: str, sets: bool) -> bool:
        floating = name in ("float", "double", "long double")
        if type == "bool":
            return not floating
        if type.startswith("float"):
            sizes = {"float": 4, "double": self.double_bytes}
            return floating and sizes.get(name) == type_bytes(type)
        if floating or name == "_Bool":
            return False
        kind = name.removeprefix("unsigned ").removeprefix("signed ")
        sizes = {
            "char": 1, "short": 2, "int": self.int_bytes, "long": self.long_bytes, "long long": 8
        }  # fmt: skip
        if kind not in sizes:
            return True
        unsigned = name.startswith("unsigned") or (name == "char" and not self.char_is_signed)
        theirs_low, theirs_high = limits(f"{'u' * unsigned}int{8 * sizes[kind]}")
        low, high = limits(type)
        if sets:
            return low <= theirs_low and theirs_high <= high
        return theirs_low <= low and high <= theirs_high


# -- size of pointers

MACHINE = ("-m", "--target", "--sysroot", "-isysroot")
"""Prefixes of flags that select a processor."""
_OURS = struct.calcsize("P")
"""Size of a pointer in this process and in its libzmq, bytes."""
_OTHER = "rtsim: pointers of another width"


def check_width(interface: Interface, toolchain: Toolchain) -> None:
    """Check that pointers have the same size in the C code as in this process.

    Raises ``InterfaceError`` for another size, which this process could not load
    (docs/decisions/113).
    """
    flags = [flag for flag in interface.flags if flag.startswith(MACHINE)]
    if not flags:
        return
    with TemporaryDirectory(prefix="rtsim-") as scratch:
        unit = Path(scratch) / "width.c"
        asserted = f'_Static_assert(sizeof(void *) == {_OURS}, "{_OTHER}");\n'
        unit.write_text(asserted, encoding="utf-8")
        try:
            toolchain.run([*flags, "-c", unit, "-o", f"{unit}.o"], interface.path.parent)
        except BuildError as error:
            if _OTHER not in str(error):
                raise
            raise InterfaceError(_refusal(interface, flags)) from error


def _refusal(interface: Interface, flags: list[str]) -> str:
    lines = interface.lines
    line = next((n for flag in flags if (n := lines.using(flag.lstrip("-")))), 0)
    text = (
        f"{' '.join(flags)} generates code with pointers of another size than the {8 * _OURS} bits "
        f"of this process. Build for {8 * _OURS} bits with types of fixed size (int32_t instead of "
        "long), or run the controller on a machine for which the flags are right: rtsim sil serve "
        f"{interface.path.name}"
    )
    return located(interface, line or lines.of("", "flags"), text)
