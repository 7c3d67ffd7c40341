"""Functions called by their machine addresses, and arrays passed by theirs.

A solver is compiled once for all models.  It receives each model function as an address and calls
it with :func:`call_equation`.  The same source also runs as plain Python, where the "address" is
the function itself.  :mod:`rtsim.equations.calls` has the compiled forms of these functions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Signature = tuple[str, ...]
"""The kind of each argument of a compiled function, in order."""
NUMBER = "float64"
INTEGER = "int64"
"""A whole number, or an address."""
VECTOR = "float64[]"
WORDS = "int64[]"
"""The words of an :class:`AddressBlock`, or times in ns."""
MATRIX = "float64[,]"
ARRAYS = frozenset({VECTOR, WORDS, MATRIX})
"""The kinds that are arrays.  Compiled code expects contiguous arrays."""

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
    """Call a derivative, an output or the guards from a solver, compiled or plain."""
    handle(t, x, z, u, p, out)


def call_update(handle: Any, t: float, x: Any, z: Any, u: Any, p: Any) -> None:
    """Call an update or a controller from compiled code, by its address; or plain."""
    handle(t, x, z, u, p)


def call_project(handle: Any, x: Any) -> None:
    """Call a projection from a solver, compiled or plain."""
    handle(x)


def call_step(handle: Any, words: Any, t: float, h: float) -> int:
    """Call a step of a solver on a block.  Compiled code calls the step by its address."""
    return int(handle(words, t, h))


def call_drive(
    handle: Any, leg: Any, retake: Any, between: Any, words: Any, look: Any, begin: int, end: int
) -> int:  # fmt: skip
    """Call a solver's way under guards (:func:`rtsim.solve.guarded.drive`) by its address."""
    return int(handle(leg, retake, between, words, look, begin, end))


def call_clock(handle: Any, clock: int, into: int) -> int:
    """Call ``clock_gettime(clock, into)`` of the C library by its address."""
    return int(handle(clock, into))


def call_sleep(handle: Any, clock: int, flags: int, until: int) -> int:
    """Call ``clock_nanosleep(clock, flags, until, 0)`` of the C library by its address."""
    return int(handle(clock, flags, until, 0))


def call_read(handle: Any, file: int, into: int, count: int) -> int:
    """Call ``pread(file, into, count, 0)`` of the C library by its address."""
    return int(handle(file, into, count, 0))


# -- blocks ----------------------------------------------------------------------------------------
#
# Passing ten arrays to compiled code costs 0.6 us, half of what a short step computes.  A plant
# keeps its arrays for the whole run, so their addresses are collected in one block.


@dataclass(frozen=True)
class AddressBlock:
    """The block of a :class:`rtsim.equations.layout.Layout` for compiled code.

    ``words`` holds the addresses and lengths.  The other attributes keep alive what the addresses
    point to.
    """

    words: NDArray[np.int64]
    arrays: tuple[NDArray[np.float64], ...]
    owner: object = None
    """Holds the machine code of the functions."""


def vector_at(words: Any, place: int) -> Any:
    """Return the vector at ``place`` of a block; compiled code reads its address and length."""
    return words[place]


def words_at(words: Any, place: int) -> Any:
    """Return the vector of integers at ``place``; compiled code reads its address and length."""
    return words[place]


def matrix_at(words: Any, place: int) -> Any:
    """Return the matrix at ``place``; compiled code reads its address, rows and columns."""
    return words[place]
