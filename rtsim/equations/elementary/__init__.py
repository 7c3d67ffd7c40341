"""Define elementary functions that give the same bits on each processor and in each system.

The functions use only operations that IEEE 754 defines exactly: the four basic operations, square
roots, comparisons, and operations on the bits of a number. A multiplication and an addition are
never fused. The tables have fewer than 8 kB.

Common arguments take operations without branches, or with branches whose two sides are safe.
Arguments that are rare take another function, which is not inlined: angles from ``angles.FAR`` on,
numbers that are subnormal or not finite, and powers near the limits of a float. Compiled code can
therefore evaluate the functions of several arguments at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from rtsim.equations.elementary import angles, powers

FUNCTIONS: Mapping[str, Callable[..., float]] = MappingProxyType(
    {
        **{
            name: getattr(angles, name)
            for name in ("sin", "cos", "tan", "asin", "acos", "atan", "atan2")
        },
        **{
            name: getattr(powers, name)
            for name in (
                *("exp", "expm1", "log", "log1p", "log2", "log10", "pow", "cbrt"),
                *("sinh", "cosh", "tanh", "hypot", "fmod"),
            )
        },
    }
)
"""The functions by their names in the C library."""
