"""The generated C header: for C that sets and reads the vectors of a unit, as firmware does.

Columns by name, and the schema that both ends compare.
"""

from __future__ import annotations

from collections.abc import Iterable

from hitl.interface import Interface
from rtsim.core.signals import Signals

MARK = "Generated from an interface file"
"""By which an older header is known again."""


def header_text(interface: Interface) -> str:
    """The header of ``interface``; its names begin with that of the controller."""
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
    """An enumeration of the vector's elements, and their number."""
    yield f"enum {prefix}s {{"
    for signal in signals:
        for column in signal.columns:
            yield f"    {prefix}_{column}, /* {_comment(signal.type, signal.unit)} */"
    yield f"    {prefix}s_count"
    yield "};\n"


def _comment(*words: str) -> str:
    text = " ".join(words).replace("*/", "* /")
    return "".join(c if c.isprintable() else "?" for c in text)
