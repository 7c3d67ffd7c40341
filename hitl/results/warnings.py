"""What compilers said of the C that was held against its design: by controller, once each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hitl.comparison.verdict import BackToBack


def warnings_of(pairs: Sequence[BackToBack]) -> Mapping[str, str]:
    """By controller, of several pairs with the name of the side, where there is something."""
    out: dict[str, str] = {}
    for pair in pairs:
        of = f" ({pair.sides.translation})" if len(pairs) > 1 else ""
        out |= {f"{name}{of}": loop.warnings for name, loop in pair.open.items() if loop.warnings}
    return out
