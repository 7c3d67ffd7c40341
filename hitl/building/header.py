"""Generate the C header for code that sets and reads the vectors of a unit, such as firmware.

The header gives the index of each column by name, and the schema.  The host and the firmware
compare their schemas.
"""

from __future__ import annotations

from collections.abc import Iterable

from hitl.interface import Interface
from rtsim.core.signals import Signals

MARK = "Generated from an interface file"
"""Text by which a generated header is recognised."""


def header_text(interface: Interface) -> str:
    """Return the C header of ``interface``; its names begin with the controller's name."""
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
    """Yield a C enumeration of the elements of a vector, and the number of elements."""
    yield f"enum {prefix}s {{"
    for signal in signals:
        for column in signal.columns:
            yield f"    {prefix}_{column}, /* {_comment(signal.type, signal.unit)} */"
    yield f"    {prefix}s_count"
    yield "};\n"


def _comment(*words: str) -> str:
    text = " ".join(words).replace("*/", "* /")
    return "".join(c if c.isprintable() else "?" for c in text)
