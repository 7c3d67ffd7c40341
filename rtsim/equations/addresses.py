"""Machine code called by its address, and vectors handed over by theirs.

A solver is compiled once for all models: it receives each function as an address and calls it by
:func:`call_equation`.  The same source runs uncompiled, where the address is the function itself.
The compiled forms of these functions are in :mod:`rtsim.equations.lowering`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Signature = tuple[str, ...]
"""The kinds of a compiled function's arguments, in their order."""
NUMBER = "float64"
INTEGER = "int64"
"""A whole number, or an address."""
VECTOR = "float64[]"
WORDS = "int64[]"
"""A :class:`AddressBlock`, or times in ns."""
MATRIX = "float64[,]"
ARRAYS = frozenset({VECTOR, WORDS, MATRIX})
"""Arrays are contiguous."""

EQUATION: Signature = (NUMBER, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR)
"""Derivative, output and guards: t, x, z, u, p and the vector to fill."""
UPDATE: Signature = (NUMBER, VECTOR, VECTOR, VECTOR, VECTOR)
IN_PLACE: Signature = (VECTOR,)
RESET: Signature = (INTEGER, NUMBER, VECTOR, VECTOR, VECTOR, VECTOR)
"""Reset and stop: the guard's index, t, x, z, u, p."""
TICK: Signature = (VECTOR, NUMBER, VECTOR, VECTOR, VECTOR, VECTOR)
"""Tick: which timers are due, t, x, z, u, p."""

INLINED = {"forceinline": True, "error_model": "numpy"}


def call_equation(handle: Any, t: float, x: Any, z: Any, u: Any, p: Any, out: Any) -> None:
    """Call a derivative, an output or guards from a solver, compiled or plain."""
    handle(t, x, z, u, p, out)


def call_update(handle: Any, t: float, x: Any, z: Any, u: Any, p: Any) -> None:
    """Call an update or a controller from compiled code, by its address; or plain."""
    handle(t, x, z, u, p)


def call_project(handle: Any, x: Any) -> None:
    """Call a projection from a solver, compiled or plain."""
    handle(x)


def call_step(handle: Any, words: Any, t: float, h: float) -> int:
    """Call a solver's step on a block; in compiled code by its address."""
    return int(handle(words, t, h))


def call_drive(
    handle: Any, leg: Any, retake: Any, between: Any, words: Any, look: Any, begin: int, end: int
) -> int:  # fmt: skip
    """Call a solver's way under guards (:func:`rtsim.solve.guarded.drive`) by its address."""
    return int(handle(leg, retake, between, words, look, begin, end))


# -- vectors that stay where they are --------------------------------------------------------------
#
# Taking ten arrays apart costs a step 0.6 us, half of what it computes, and a plant's vectors are
# the same at every step: their addresses and lengths in one block are handed over at once.


@dataclass(frozen=True)
class AddressBlock:
    """Machine addresses, then (address, length) of each vector; holding these keeps them there."""

    words: NDArray[np.int64]
    vectors: tuple[NDArray[np.float64], ...]
    functions: object = None
    """Whose machine addresses they are."""

    @classmethod
    def of(
        cls,
        handles: tuple[Any, ...],
        vectors: tuple[NDArray[np.float64], ...],
        functions: object = None,
    ) -> AddressBlock:
        """Vectors must be contiguous; of an array with more dimensions all elements are meant."""
        places = [word for v in vectors for word in (v.ctypes.data, v.size)]
        words = np.array([*map(int, handles), *places], dtype=np.int64)
        return cls(words, vectors, functions)


def plain_block(functions: tuple[Any, ...], vectors: tuple[NDArray[np.float64], ...]) -> list[Any]:
    """What a :class:`AddressBlock` is to compiled code, for the same source run plain."""
    return [*functions, *(word for v in vectors for word in (v, v.size))]


def vector_at(words: Any, i: int) -> Any:
    """The vector at ``words[i]``: in compiled code its address, and its length follows."""
    return words[i]


def words_at(words: Any, i: int) -> Any:
    """The vector of integers at ``words[i]``: in compiled code its address, its length follows."""
    return words[i]


def matrix_at(words: Any, i: int, columns: int) -> Any:
    """The same as a matrix of so many ``columns``."""
    found = words[i]
    return found if found.ndim == 2 else found.reshape(-1, max(columns, 1))
