"""Compiler warnings about the C code of a comparison, by controller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hitl.comparison.verdict import BackToBack


def warnings_of(pairs: Sequence[BackToBack]) -> Mapping[str, str]:
    """Return compiler warnings by controller, and also by side if there are several pairs.

    A controller without warnings has no entry.
    """
    out: dict[str, str] = {}
    for pair in pairs:
        of = f" ({pair.sides.translation})" if len(pairs) > 1 else ""
        out |= {f"{name}{of}": loop.warnings for name, loop in pair.open.items() if loop.warnings}
    return out
