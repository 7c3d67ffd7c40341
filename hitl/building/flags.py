"""Compiler flags that all builds share."""

from __future__ import annotations

from collections.abc import Iterable

ALWAYS = ("-fPIC", "-ffp-contract=off")
"""Flags for all sources: a fused multiply-add rounds differently from the reference model."""
OWN = ("-O2", "-g", *ALWAYS)
"""Flags for rtsim's own code in C or C++."""
C, CPP = ("-std=gnu11",), ("-x", "c++", "-std=gnu++17")
"""Flags that choose the language of rtsim's own C, and of a unit in C++."""
UNLOADABLE = ("-fno-gnu-unique", "-fno-lifetime-dse")
"""Flags of gcc for C++.

Without the first, copies of a library in one process share static variables.  Without the second,
the compiler may assume that nobody has written to an object's memory before its constructor."""
EXACT = ("-fno-fast-math", "-fno-finite-math-only")
"""Flags that follow the controller's own: the checks of values need NaN and infinity."""
ENTRY_POINTS = (
    "-Werror=implicit-function-declaration",
    "-Werror=int-conversion",
    "-Werror=incompatible-pointer-types",
)
"""Flags that refuse an undeclared function: C would assume that it returns int."""
_DIALECT = ("-W", "-std", "-ansi", "-pedantic")


def of_any_dialect(flags: Iterable[str]) -> list[str]:
    """Return ``flags`` without those that choose a dialect of C or its warnings."""
    return [flag for flag in flags if not flag.startswith(_DIALECT)]
