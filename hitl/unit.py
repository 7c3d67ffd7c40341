"""The generated C: signals as vectors of doubles, entry points as three calls.

::

    int  rtsim_initialize(const double *p)             parameters (k,)
    int  rtsim_step(const double *u, double *y)        inputs (m,) -> outputs (n,)
    void rtsim_terminate(void)

The two that return something return 0, or 1 + the index of the element that its C type cannot hold
(of ``u`` and ``p``; as a negative number, of ``y``).  The same text is compiled into the worker,
into the shared library of the fast path and into firmware.  Every type and size is asserted;
``#line`` makes the compiler name the interface file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from hitl.interface import Field, Interface, Step

_C_TYPES = {"float64": "double", "float32": "float", "bool": "unsigned char"}
_BYTES = {"float64": 8, "float32": 4, "bool": 1}
SUPPORT = Path(__file__).parent / "c"
"""Where ``rtsim_unit.h`` stands."""


def c_type(type: str) -> str:
    """The C type in which a signal of ``type`` is read and written."""
    return _C_TYPES.get(type, f"{type}_t")


def unit_text(interface: Interface) -> str:
    """The translation unit of ``interface``."""
    file = str(interface.path)
    parts = [
        f"/* Generated from {interface.path.name}; change that file instead. */",
        '#include "rtsim_unit.h"',
        *(
            _at(interface.lines.of("", "headers"), file, f'#include "{h}"')
            for h in interface.headers
        ),
        *(
            _at(interface.lines.of("code", "objects"), file, f"static {o};")
            for o in interface.objects
        ),
        *_declarations(interface, file),
        *(_assertions(f, file) for f in interface.fields),
        '#line 1 "the generated unit"',
        f"const unsigned long long rtsim_schema = 0x{interface.schema:016x}ULL;",
        _size("inputs", interface.input_fields),
        _size("outputs", interface.output_fields),
        _size("parameters", interface.parameter_fields),
        _initialize(interface, file),
        _step(interface, file),
        "void rtsim_terminate(void)\n{",
        *_calls(interface.terminate, interface.lines.of("code", "terminate"), file),
        "}",
    ]
    return "\n".join(parts) + "\n"


def _at(line: int, file: str, text: str) -> str:
    return f'#line {line} "{_quoted(file)}"\n{text}'


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _size(name: str, fields: Iterable[Field]) -> str:
    return f"const unsigned rtsim_{name} = {sum(f.signal.size for f in fields)}u;"


def _declarations(interface: Interface, file: str) -> Iterable[str]:
    for place in interface.fields:
        if place.declared:
            signal = place.signal
            kind = "_Bool" if signal.type == "bool" else c_type(signal.type)
            dimensions = "".join(f"[{n}]" for n in signal.shape)
            yield _at(place.line, file, f"static {kind} {signal.name}{dimensions};")


def _assertions(place: Field, file: str) -> str:
    """One line of C, so that each complaint has the line of the interface file."""
    signal, element = place.signal, place.lvalue + "[0]" * len(place.signal.shape)
    size = _BYTES.get(signal.type) or int(signal.type.strip("uint")) // 8
    kind = "BOOL" if signal.type == "bool" else signal.type.rstrip("0123456789").upper()
    shape = "x".join(map(str, signal.shape))
    of = f" of {signal.name}"
    checks = [
        (f"sizeof({element}) == {size}", f"the C object{of} has another size than {signal.type}"),
        (f"RTSIM_IS_{kind}({element})", f"the C object{of} is no {signal.type}"),
    ]
    if shape:
        count = f"sizeof({place.lvalue}) == {size * signal.size}"
        checks.append((count, f"the C object{of} has another shape than {shape}"))
    lines = " ".join(f'_Static_assert({check}, "{text}");' for check, text in checks)
    return _at(place.line, file, lines)


def _initialize(interface: Interface, file: str) -> str:
    settle = [
        "  rtsim_status = rtsim_set_parameters(p);",
        "  if (rtsim_status) return rtsim_status;",
    ]
    calls = list(_calls(interface.initialize, interface.lines.of("code", "initialize"), file))
    order = [*settle, *calls] if interface.parameters_first else [*calls, *settle]
    return "\n".join(
        [
            "static int rtsim_set_parameters(const double *p)\n{\n  (void)p;",
            *_sets(interface.parameter_fields, "p"),
            "  return 0;\n}",
            "static unsigned long long rtsim_tick;",
            "int rtsim_initialize(const double *p)\n{\n  int rtsim_status;",
            "  rtsim_tick = 0;",
            *order,
            "  return 0;\n}",
        ]
    )


def _step(interface: Interface, file: str) -> str:
    return "\n".join(
        [
            "int rtsim_step(const double *u, double *y)\n{\n  (void)u;",
            *_sets(interface.input_fields, "u"),
            *(_entry(step, file) for step in interface.steps),
            "  rtsim_tick++;",
            *_gets(interface.output_fields),
            "  return 0;\n}",
        ]
    )


def _entry(step: Step, file: str) -> str:
    call = _at(step.line, file, f"  {step.call};")
    if step.every == 1 and step.offset == 0:
        return call
    due = f"rtsim_tick >= {step.offset}u && (rtsim_tick - {step.offset}u) % {step.every}u == 0"
    return f"  if ({due}) {{\n{call}\n  }}"


def _calls(statements: Sequence[str], line: int, file: str) -> Iterable[str]:
    return (_at(line, file, f"  {statement};") for statement in statements)


def _sets(fields: Iterable[Field], vector: str) -> Iterable[str]:
    at = 0
    for place in fields:
        signal, kind = place.signal, c_type(place.signal.type)
        count = signal.size
        head = f"  {{ {kind} *to = ({kind} *)(void *)&({place.lvalue}); double v; (void)v;"
        loop = f" for (unsigned k = 0; k < {count}u; k++) {{"
        body = _set(place, f"{vector}[{at}u + k]")
        yield f"{head}{loop} {body} return 1 + {at} + (int)k; {_stored(place)} }} }}"
        at += count


def _set(place: Field, source: str) -> str:
    type = place.signal.type
    if type in ("float64", "float32", "bool"):
        return f"v = {source}; if (RTSIM_BAD_{type.upper()}(v))"
    saturate = int(place.overflow == "saturate")
    scale = f"{place.scale!r}, {place.bias!r}"
    limits = f"RTSIM_{type.upper()}_LOW, RTSIM_{type.upper()}_HIGH"
    return f"if (rtsim_raw({source}, {scale}, {limits}, {saturate}, &v))"


def _stored(place: Field) -> str:
    if place.signal.type == "bool":
        return "to[k] = v != 0.0;"
    return f"to[k] = ({c_type(place.signal.type)})v;"


def _gets(fields: Iterable[Field]) -> Iterable[str]:
    at = 0
    for place in fields:
        kind, count = c_type(place.signal.type), place.signal.size
        head = f"  {{ const {kind} *from = (const {kind} *)(const void *)&({place.lvalue});"
        loop = f" for (unsigned k = 0; k < {count}u; k++) {{"
        scaled = f"* {place.scale!r} + {place.bias!r}" if place.scaled else ""
        exact = ""
        if place.signal.type in ("int64", "uint64"):
            exact = f" if (RTSIM_INEXACT(from[k])) return -(1 + {at} + (int)k);"
        value = "from[k] != 0" if place.signal.type == "bool" else "(double)from[k]"
        yield f"{head}{loop}{exact} y[{at}u + k] = {value} {scaled}; }} }}"
        at += count
