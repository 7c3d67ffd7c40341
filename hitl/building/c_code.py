"""Generate C and C++ code that is equal for the host and for boards.

The code declares and calls a controller, checks its types, and connects the pins of Arduino code.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from hitl.interface import Interface, InterfaceError
from hitl.interface.fields import SERIAL, Field, limits
from hitl.interface.file import WRAP
from rtsim.core.signals import Signals

# Static assertions compare the type and the shape of each C object with the interface file. All
# assertions of one signal are on one line of C, so that a compiler error names the signal's line in
# the interface file. ``_Generic`` is applied to the address of the object, because C does not
# convert the type behind an address.

_SIGNED = ("signed char", "short", "int", "long", "long long")
_UNSIGNED = tuple(f"unsigned {kind.removeprefix('signed ')}" for kind in _SIGNED)
_FLOATING = ("float", "double", "long double")
_TYPES = ("_Bool", "char", *_SIGNED, *_UNSIGNED, *_FLOATING)
_ALLOWED = {
    "bool": ("_Bool", "char", "signed char", "unsigned char"),
    "int": ("char", *_SIGNED),
    "uint": ("char", *_UNSIGNED),
    "float": _FLOATING,
}
"""Allowed C types by kind of type in the interface file. Another assertion checks the size."""
_CHAR_IS = {"int": "(char)-1 < 0", "uint": "(char)-1 > 0"}


def type_bytes(type: str) -> int:
    return 1 if type == "bool" else int(type.lstrip("abcdefghijklmnopqrstuvwxyz")) // 8


def element_of(place: Field, index: str = "0") -> str:
    """Return the C expression of an element, counted row by row."""
    shape, out = place.signal.shape, f"({place.lvalue})"
    if len(shape) < 2:
        return f"{out}[{index}]" if shape else out
    if index == "0":
        return out + "[0]" * len(shape)
    below = place.signal.size
    for count in shape:
        below //= count
        out += f"[{index} / {below}u % {count}u]"
    return out


def assertions(place: Field, written: bool, cpp: bool = False) -> str:
    """Return static assertions about a variable as a line of C, or with ``cpp`` of C++.

    ``written`` is True if the generated code assigns to the variable.
    """
    name, word = place.signal.name, "static_assert" if cpp else "_Static_assert"
    return " ".join(
        f'{word}({check}, "{name}{text}");' for check, text in _checks(place, written, cpp)
    )


def _array(element: str, shape: list[int], cpp: bool) -> str:
    """Return the type of an array; g++ would read ``__typeof__(x)[3]`` as an expression."""
    if not cpp:
        return element + "".join(f"[{n}]" for n in shape)
    for count in reversed(shape):
        element = f"rtsim_array<{element} RTSIM_COMMA {count}>::plain"
    return element


def _checks(place: Field, written: bool, cpp: bool) -> Iterator[tuple[str, str]]:
    signal, element = place.signal, element_of(place)
    # no macro, because the error for an object without an address must name this line
    yield f"sizeof(&{element}) > 0", " is no object of C"
    if signal.shape:
        said, of = list(signal.shape), f"__typeof__({element})"
        check = f"RTSIM_SAME({place.lvalue}, {_array(of, said, cpp)})"
        yield check, f" has shape = {said} here and another shape in C"
    kind = signal.type.rstrip("0123456789")
    size = type_bytes(signal.type)
    yield f"!RTSIM_IS_ADDRESS({element})", " is an array or a pointer in C: give its shape"
    for other in _TYPES:
        c_type = "bool" if cpp and other == "_Bool" else other
        check = f"!RTSIM_IS({element}, {c_type})"
        if other in _ALLOWED[kind]:
            check += f" || (sizeof({c_type}) == {size}"
            check += f" && {_CHAR_IS[kind]})" if other == "char" and kind in _CHAR_IS else ")"
        yield check, f" is {signal.type} here and {c_type} in C: make them the same"
    yield f"RTSIM_IS_NUMBER({element})", " is no number in C: name one of its members"
    if written:
        yield f"!RTSIM_IS_CONST({element})", " is const in C: nothing can be written to it"


# In C an object is a static variable, which ``initialize`` sets. A C++ object is set by its
# constructor. The generated code therefore constructs all objects in static memory at each
# initialisation, and destroys them at termination. An exception in a constructor is then an
# exception of the initialisation, on the host as on a board.

_NAME = re.compile(r"([A-Za-z_]\w*)\s*((?:\[[^\]]*\]\s*)*)\Z")
_OPENS = {"(": ")", "{": "}"}


@dataclass(frozen=True)
class CppObject:
    """The declaration of a C++ object, such as ``Pid pid(&input, 2.0)``."""

    type: str
    name: str
    dimensions: str
    """Dimensions such as ``[2]`` of an array, or ""."""
    arguments: str
    """Arguments of the constructor with brackets, such as ``(&input, 2.0)`` or ``()``."""
    line: int


def objects_of(interface: Interface) -> list[CppObject]:
    """Return the C++ objects that an interface file declares.

    Raises ``InterfaceError`` for a text that is not the declaration of an object.
    """
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
    """Yield the declaration of each object, with its line number in the interface file."""
    if not objects:
        return
    yield 0, "struct rtsim_objects {"
    for each in objects:
        yield each.line, f"  {each.type} {each.name}{each.dimensions};"
    yield 0, "  rtsim_objects()"
    # Empty brackets would set the members of a class without a constructor to zero.
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
"""The same warnings for C++. C++ compilers reject the other cases anyway."""


def preamble(interface: Interface, support: Iterable[str], file: str) -> Iterator[str]:
    """Yield the first lines of the generated code: includes, objects and assertions.

    ``support`` contains names of rtsim's headers, and ``file`` is the name of the interface file in
    errors.
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
    """Return the warnings that are errors in statements of an interface file."""
    return _CPP_ERRORS if cpp else _ERRORS


def at(line: int, file: str, text: str) -> str:
    """Return ``text`` with ``#line`` directives, so that errors name a line of ``file``."""
    return f'#line {line} "{_quoted(file)}"\n{text}\n#line 1 "the generated unit"'


def calls(interface: Interface, key: str, statements: Iterable[str], file: str) -> Iterator[str]:
    """Yield C code for ``statements`` of an interface file."""
    for k, statement in enumerate(statements):
        yield at(interface.lines.of("code", key, k), file, f"  {statement};")


def over(count: int, body: str) -> str:
    """Return C code that runs ``body`` with ``rtsim_k`` from 0 to ``count`` - 1."""
    if count == 1:
        return f"  {{ const unsigned rtsim_k = 0; (void)rtsim_k; {body} }}"
    return f"  for (unsigned rtsim_k = 0; rtsim_k < {count}u; rtsim_k++) {{ {body} }}"


def cleared(interface: Interface) -> Iterator[str]:
    """Yield C code that initialises the generated variables.

    Inputs get their initial values, and all other variables 0. A second initialisation therefore
    has the same result as the first one.
    """
    for place in filter(lambda place: place.declared, interface.fields):
        yield f"  __builtin_memset(&{place.lvalue}, 0, sizeof {place.lvalue});"
    for place in interface.input_fields:
        if place.declared and place.given:
            for k, value in enumerate(np.broadcast_to(place.signal.initial, place.signal.size)):
                if raw := _literal(place, float(value)):
                    yield f"  {element_of(place, str(k))} = {raw};"


def _literal(place: Field, value: float) -> str:
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

    The first lines initialise the generated variables and construct the C++ objects. ``settle``
    contains the lines that set the parameters. The interface file determines whether the parameters
    are set before or after ``initialize``.
    """
    initialize = list(calls(interface, "initialize", interface.initialize, file))
    first, second = list(settle), initialize
    ordered = [*first, *second] if interface.parameters_first else [*second, *first]
    constructs = interface.language.cpp and interface.objects
    before = ["  rtsim_end_objects();", *cleared(interface)] if constructs else cleared(interface)
    return [*before, *(["  rtsim_construct();"] if constructs else []), *ordered]


def ending(interface: Interface, file: str) -> Iterator[str]:
    yield from calls(interface, "terminate", interface.terminate, file)
    if interface.language.cpp and interface.objects:
        yield "  rtsim_end_objects();"


def _quoted(text: str) -> str:
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
    return sum(f.signal.size for f in fields)


# The pins of Arduino code are connected to signals in the same way on the host and on a board.


def start_pins(interface: Interface) -> Iterator[str]:
    clock = interface.language.clock
    if clock is None:
        return
    if clock.start_us:
        yield f"  rtsim_clock_begin({clock.start_us % WRAP}u, {clock.start_ms % WRAP}u);"
    serial = any(place.pin == SERIAL for place in interface.output_fields)
    yield f"  rtsim_arduino_start({str(serial).lower()});"
    for place in interface.input_fields:
        if place.pin and place.pin != SERIAL:
            yield f"  rtsim_pin_declare({place.pin});"


def feed_pins(interface: Interface) -> Iterator[str]:
    """Yield C code that writes the inputs of a step to their pins."""
    if interface.language.clock is None:
        return
    yield "  rtsim_arduino_step();"
    for place in interface.input_fields:
        name = place.lvalue
        if place.pin == SERIAL:
            yield f"  rtsim_serial_feed({name}, sizeof {name});"
        elif place.pin:
            yield f"  rtsim_pin_feed({place.pin}, {name});"


def read_pins(interface: Interface) -> Iterator[str]:
    for place in interface.output_fields:
        name = place.lvalue
        if place.pin == SERIAL:
            yield f"  rtsim_serial_drain({name}, sizeof {name});"
        elif place.pin:
            not_zero = " != 0" if place.signal.type == "bool" else ""
            yield f"  {name} = rtsim_pin_driven({place.pin}){not_zero};"


def clock_constants(interface: Interface) -> Iterator[str]:
    """Yield C code that defines the clock of Arduino code on the host."""
    clock = interface.language.clock
    if clock is None:
        return
    yield 'extern "C" {'
    yield "extern const long long rtsim_setup_us, rtsim_first_step_us;"
    yield "extern const bool rtsim_timer_is_avr;"
    yield f"const long long rtsim_setup_us = {clock.start_us + clock.setup_us};"
    yield f"const long long rtsim_first_step_us = {clock.start_us + clock.first_step_us};"
    yield f"const bool rtsim_timer_is_avr = {str(clock.timer == 'avr').lower()};"
    yield "}"


# The header for code such as firmware that sets and reads the vectors of a unit. It contains the
# index of each column by name, and the schema, which host and firmware compare.

MARK = "Generated from an interface file"
"""Text that identifies a generated header."""


def header_text(interface: Interface) -> str:
    """Return a C header of a controller, whose names begin with the controller's name."""
    name = interface.name
    guard = f"RTSIM_{name.upper()}_SIGNALS_H"
    parts = [
        f"/* {MARK}; change that instead. */",
        f"#ifndef {guard}",
        f"#define {guard}",
        "",
        f"#define {name.upper()}_SCHEMA 0x{interface.schema:016x}ULL",
        f"#define {name.upper()}_PERIOD_S {interface.period.seconds!r}",
        "",
        *_columns(f"{name}_input", interface.inputs),
        *_columns(f"{name}_output", interface.outputs),
        *_columns(f"{name}_parameter", interface.parameters),
        f"#endif /* {guard} */",
    ]
    return "\n".join(parts) + "\n"


def _columns(prefix: str, signals: Signals) -> Iterable[str]:
    yield f"enum {prefix}s {{"
    for signal in signals:
        for column in signal.columns:
            yield f"    {prefix}_{column}, /* {_comment(signal.type, signal.unit)} */"
    yield f"    {prefix}s_count"
    yield "};\n"


def _comment(*words: str) -> str:
    text = " ".join(words).replace("*/", "* /")
    return "".join(c if c.isprintable() else "?" for c in text)


# A sketch (``.ino``) needs no ``#include <Arduino.h>``, and may call functions before their
# definition. Like Arduino's tools, this module adds the include at the top and the prototypes
# before the first function. ``#line`` directives preserve the line numbers in compiler errors.

_QUIET = re.compile(
    r"//[^\n]*|/\*.*?\*/|R\"\((?:.*?)\)\"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'"
    r"|^[ \t]*#(?:[^\n\\]|\\.|\\\n)*",
    re.S | re.M,
)
_HEAD = re.compile(
    r"(?P<head>(?:template\s*<[^{};]*>\s*)?[A-Za-z_][\w:<>,*&\s\[\]]*?[\s*&]"
    r"(?P<name>[A-Za-z_]\w*)\s*\((?P<parameters>[^{};]*)\)\s*)\Z",
    re.S,
)
_NO_FUNCTIONS = frozenset(("if", "while", "for", "switch", "else", "do", "return", "namespace"))


def cpp_text(text: str, name: str, header: str = "<Arduino.h>") -> str:
    """Convert an Arduino sketch to C++.

    In errors of the compiler, the sketch has the name ``name``. ``header`` declares Arduino's
    functions.
    """
    found = _functions(text)
    first, prototypes = (found[0][0], [p for _, p in found]) if found else (0, [])
    line = text.count("\n", 0, first) + 1
    named = name.replace("\\", "\\\\").replace('"', '\\"')
    before, after = text[:first], text[first:]
    parts = [f"#include {header}", f'#line 1 "{named}"', before.removesuffix("\n")]
    if prototypes:
        parts += [*prototypes, f'#line {line} "{named}"']
    return "\n".join([*parts, after])


def _functions(text: str) -> list[tuple[int, str]]:
    bare = _QUIET.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)
    out: list[tuple[int, str]] = []
    depth = begins = 0
    for at, letter in enumerate(bare):
        if letter == "{":
            if depth == 0 and (found := _HEAD.search(bare[begins:at])):
                start = begins + found.start("head")
                start += len(found["head"]) - len(found["head"].lstrip())
                if prototype := _prototype(found):
                    out.append((bare.rfind("\n", 0, start) + 1, prototype))
            depth += 1
        elif letter == "}":
            depth -= 1
            if depth == 0:
                begins = at + 1
        elif letter == ";" and depth == 0:
            begins = at + 1
    return out


def _prototype(found: re.Match[str]) -> str:
    head = " ".join(found["head"].split())
    words = set(re.findall(r"\w+", head[: head.index("(")]))
    if words & _NO_FUNCTIONS or "::" in head[: head.index("(")] or "template" in words:
        return ""
    if "=" in found["parameters"]:  # a default argument may be given only once
        return ""
    return f"{head};"
