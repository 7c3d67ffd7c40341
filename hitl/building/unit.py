"""Generate C code of a controller: three functions on vectors of doubles.

::

    int  rtsim_initialize(const double *p)             parameters (k,); RTSIM_KEEP: unchanged
    double rtsim_own[k]                                values in the C code before initialisation
    int  rtsim_step(const double *u, double *y)        inputs (m,) -> outputs (n,)
    void rtsim_terminate(void)

``rtsim_initialize`` and ``rtsim_step`` return 0 if all values fit their C types. If ``k`` is the
index of the first element that does not fit, they return ``1 + k`` for ``p`` or ``u``, and ``-1 -
k`` for ``y``. The worker, the shared library and the firmware contain the same generated code.
Static assertions check all types and sizes. Errors of the compiler name the lines of the interface
file.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from hitl.building.c_code import (
    at,
    clock_constants,
    element_of,
    elements,
    ending,
    feed_pins,
    in_order,
    over,
    preamble,
    read_pins,
    start_pins,
)
from hitl.building.checks import check_arguments, check_width, in_few_words
from hitl.building.toolchain import Toolchain, find_toolchain
from hitl.interface import Field, Interface, StepEntry
from hitl.interface.targets import check_target

SUPPORT = Path(__file__).parent / "c"
"""Folder of ``rtsim_unit.h``."""
ARDUINO = SUPPORT / "arduino"
"""Folder of rtsim's ``Arduino.h``."""
ARDUINO_FLAGS = (f"-I{ARDUINO}", "-DARDUINO=10819")
"""Flags for Arduino code on the host. Libraries test ``ARDUINO`` before they include a header."""
ARDUINO_HOST = tuple(ARDUINO / name for name in ("clock_host.cpp", "rtsim_arduino.cpp", "text.cpp"))
"""Sources of Arduino's functions on the host."""


def support_of(interface: Interface) -> tuple[str, ...]:
    """Return the names of rtsim's headers for the generated code."""
    if not interface.language.cpp:
        return ("rtsim_unit.h",)
    arduino = ("Arduino.h",) if interface.language.clock else ()
    return ("rtsim_unit.h", "rtsim_thrown.h", *arduino)


def unit_text(interface: Interface) -> str:
    file = str(interface.path)
    parts = [
        *preamble(interface, support_of(interface), file),
        f"const unsigned long long rtsim_schema = 0x{interface.schema:016x}ULL;",
        _size("inputs", interface.input_fields),
        _size("outputs", interface.output_fields),
        _size("parameters", interface.parameter_fields),
        f"double rtsim_own[{max(1, elements(interface.parameter_fields))}];",
        "long long rtsim_time_ns;",
        "char rtsim_thrown[RTSIM_THROWN_BYTES];",
        *clock_constants(interface),
        _initialize(interface, file),
        _step(interface, file),
        f"void rtsim_terminate(void)\n{_tried(interface)}{{",
        *ending(interface, file),
        f"}}{_caught(interface, '')}",
    ]
    return "\n".join(parts) + "\n"


def check(interface: Interface, toolchain: Toolchain | None = None, target: str = "host") -> None:
    """Check an interface file for a target with the compiler, without a build.

    ``target`` is ``"host"`` or a processor. Raises ``InterfaceError`` for a mistake in the
    interface file, and ``BuildError`` for a mistake in a header.
    """
    check_target(interface, target)
    toolchain = toolchain or find_toolchain(interface.language.cpp)
    check_width(interface, toolchain)
    arduino = ARDUINO_FLAGS if interface.language.clock else ()
    folders = [*arduino, *(f"-I{folder}" for folder in (SUPPORT, *interface.include))]
    with TemporaryDirectory(prefix="rtsim-") as scratch, in_few_words(interface):
        unit = Path(scratch) / "unit.c"
        unit.write_text(unit_text(interface), encoding="utf-8")
        only = ["-c", "-o", f"{unit}.o"] if toolchain.family == "zig" else ["-fsyntax-only"]
        cpp = interface.language.cpp
        flags = [*(("-x", "c++", "-std=gnu++11") if cpp else ("-std=gnu11",)), *folders]
        flags += interface.flags
        toolchain = toolchain.cpp() if cpp else toolchain
        toolchain.run([*flags, *only, unit], interface.path.parent)
    check_arguments(interface, toolchain, flags, support_of(interface)[2:])


def _size(name: str, fields: Iterable[Field]) -> str:
    return f"const unsigned rtsim_{name} = {elements(fields)}u;"


def _initialize(interface: Interface, file: str) -> str:
    settle = [
        "  rtsim_note_parameters();",
        "  rtsim_status = rtsim_set_parameters(rtsim_p);",
        "  if (rtsim_status) return rtsim_status;",
    ]
    return "\n".join(
        [
            "static void rtsim_note_parameters(void)\n{",
            *_notes(interface.parameter_fields),
            "}",
            "static int rtsim_set_parameters(const double *rtsim_p)\n{\n  (void)rtsim_p;",
            *_sets(interface.parameter_fields, "rtsim_p", "rtsim_kept"),
            "  return 0;\n}",
            "static unsigned long long rtsim_tick;",
            f"int rtsim_initialize(const double *rtsim_p)\n{_tried(interface)}{{",
            "  int rtsim_status;",
            "  rtsim_thrown[0] = 0;",
            "  rtsim_tick = 0;",
            *start_pins(interface),
            *in_order(interface, settle, file),
            f"  return 0;\n}}{_caught(interface, 'RTSIM_THREW')}",
        ]
    )


def _step(interface: Interface, file: str) -> str:
    return "\n".join(
        [
            "int rtsim_step(const double *rtsim_u, double *rtsim_y)",
            f"{_tried(interface)}{{\n  (void)rtsim_u;",
            *_sets(interface.input_fields, "rtsim_u"),
            *feed_pins(interface),
            *(_entry(step, file) for step in interface.steps),
            "  rtsim_tick++;",
            *read_pins(interface),
            *_gets(interface.output_fields),
            f"  return 0;\n}}{_caught(interface, 'RTSIM_THREW')}",
        ]
    )


def _tried(interface: Interface) -> str:
    return "RTSIM_TRY\n" if interface.language.cpp else ""


def _caught(interface: Interface, result: str) -> str:
    return f"\nRTSIM_CATCH({result})" if interface.language.cpp else ""


def _entry(step: StepEntry, file: str) -> str:
    call = at(step.line, file, f"  {step.call};")
    if step.every == 1 and step.offset == 0:
        return call
    due = f"rtsim_tick >= {step.offset}u && (rtsim_tick - {step.offset}u) % {step.every}u == 0"
    return f"  if ({due}) {{\n{call}\n  }}"


def _sets(fields: Iterable[Field], vector: str, spared: str = "") -> Iterable[str]:
    at = 0
    for place in fields:
        refused = _refused(place)
        if refused.endswith(")"):
            refused += f" return 1 + {at} + (int)rtsim_k;"
        body = f"{refused} {element_of(place, 'rtsim_k')} = {_raw(place)};"
        if spared:
            body = f"if (!{spared}(rtsim_v)) {{ {body} }}"
        yield over(place.signal.size, f"double rtsim_v = {vector}[{at}u + rtsim_k]; {body}")
        at += place.signal.size


def _refused(place: Field) -> str:
    type = place.signal.type
    if type == "float64":
        return ""
    if type in ("float32", "bool"):
        return f"if (RTSIM_BAD_{type.upper()}(rtsim_v))"
    saturate = int(place.overflow == "saturate")
    scale = f"{place.scale!r}, {place.bias!r}"
    limits = f"RTSIM_{type.upper()}_LOW, RTSIM_{type.upper()}_HIGH"
    return f"if (rtsim_raw(rtsim_v, {scale}, {limits}, {saturate}, &rtsim_v))"


def _raw(place: Field) -> str:
    if place.signal.type == "bool":
        return "rtsim_v != 0.0"
    return f"(rtsim_{place.signal.type})rtsim_v"


def _notes(fields: Iterable[Field]) -> Iterable[str]:
    at = 0
    for place in fields:
        type, element = place.signal.type, element_of(place, "rtsim_k")
        scaled = f" * {place.scale!r} + {place.bias!r}" if place.scaled else ""
        value = f"*(const unsigned char *)&{element} != 0" if type == "bool" else element
        own = f"(double)({value}){scaled}"
        if type in ("int64", "uint64"):
            own = f'rtsim_inexact_{type}({value}) ? __builtin_nan("") : {own}'
        body = f"rtsim_own[{at}u + rtsim_k] = {own};"
        yield over(place.signal.size, body)
        at += place.signal.size


def _gets(fields: Iterable[Field]) -> Iterable[str]:
    at = 0
    for place in fields:
        type, element = place.signal.type, element_of(place, "rtsim_k")
        scaled = f" * {place.scale!r} + {place.bias!r}" if place.scaled else ""
        body = f"const rtsim_{type} rtsim_v = {element}{' != 0' if type == 'bool' else ''};"
        if type in ("int64", "uint64"):
            body += f" if (rtsim_inexact_{type}(rtsim_v)) return -(1 + {at} + (int)rtsim_k);"
        yield over(place.signal.size, f"{body} rtsim_y[{at}u + rtsim_k] = (double)rtsim_v{scaled};")
        at += place.signal.size
