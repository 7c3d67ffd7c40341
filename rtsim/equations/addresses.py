"""Calls of compiled functions by machine address, and arrays that are passed by address.

A solver is compiled once for all models.  It receives each model function as an address and calls
it with :func:`call_equation`.  The same source also runs as plain Python, where the "address" is
the function itself.  :mod:`rtsim.equations.calls` has the compiled forms of the functions of this
module.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
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
"""An array of integers: the words of an :class:`AddressBlock`, or times in ns."""
MATRIX = "float64[,]"
ARRAYS = frozenset({VECTOR, WORDS, MATRIX})
"""The kinds that are arrays.  Compiled code expects contiguous arrays."""

EQUATION: Signature = (NUMBER, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR)
"""Arguments of derivative, output and guards: t, x, z, u, p and the vector that they fill."""
UPDATE: Signature = (NUMBER, VECTOR, VECTOR, VECTOR, VECTOR)
IN_PLACE: Signature = (VECTOR,)
RESET: Signature = (INTEGER, NUMBER, VECTOR, VECTOR, VECTOR, VECTOR)
"""Arguments of reset and stop: the guard's index, t, x, z, u, p."""
TICK: Signature = (VECTOR, NUMBER, VECTOR, VECTOR, VECTOR, VECTOR)
"""Arguments of tick: a flag for each timer (1 if it ticks now), t, x, z, u, p."""

INLINED = {"forceinline": True, "error_model": "numpy"}


def call_equation(handle: Any, t: float, x: Any, z: Any, u: Any, p: Any, out: Any) -> None:
    """Call a derivative, output or guard function; ``handle`` is its address, or the function."""
    handle(t, x, z, u, p, out)


def call_update(handle: Any, t: float, x: Any, z: Any, u: Any, p: Any) -> None:
    """Call an update function or a controller; ``handle`` is its address, or the function."""
    handle(t, x, z, u, p)


def call_tick(handle: Any, due: Any, t: float, x: Any, z: Any, u: Any, p: Any) -> None:
    """Call the timers of a model; ``handle`` is their address, or the function."""
    handle(due, t, x, z, u, p)


def call_project(handle: Any, x: Any) -> None:
    """Call a projection; ``handle`` is its address, or the function."""
    handle(x)


def call_step(handle: Any, words: Any, t: float, h: float) -> int:
    """Call the step function of a solver; ``handle`` is its address, or the function."""
    return int(handle(words, t, h))


def call_drive(
    handle: Any, leg: Any, retake: Any, between: Any, words: Any, look: Any, begin: int, end: int
) -> int:  # fmt: skip
    """Call :func:`rtsim.solve.guarded.drive`; ``handle`` is its address, or the function."""
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


def call_peek(handle: Any, socket: int, into: int, flags: int) -> int:
    """Call ``recv(socket, into, 1, flags)`` of the C library by its address."""
    return int(handle(socket, into, 1, flags))


# -- argument tables -------------------------------------------------------------------------------
#
# Passing ten arrays to compiled code costs 0.6 us, half of what a short step computes.  A plant
# keeps its arrays for the whole run, so their addresses are collected in one argument table.


@dataclass(frozen=True)
class AddressBlock:
    """An argument table for compiled code, as a :class:`rtsim.equations.layout.Layout` declares it.

    ``words`` holds the addresses of functions and arrays, and the lengths of the arrays.  The other
    attributes keep these functions and arrays alive.
    """

    words: NDArray[np.int64]
    arrays: tuple[NDArray[np.float64], ...]
    owner: object = None
    """The object that keeps the machine code of the functions loaded."""


def vector_at(words: Any, place: int) -> Any:
    """Return the vector at index ``place`` of an argument table."""
    return words[place]


def words_at(words: Any, place: int) -> Any:
    """Return the vector of integers at index ``place`` of an argument table."""
    return words[place]


def vector_of(place: Any) -> Any:
    """Return the vector at ``place``, a record with its address and length; in compiled code."""
    return place


def words_of(place: Any) -> Any:
    """Return the vector of integers at ``place``, as :func:`vector_of` does."""
    return place


def records_of(place: Any, kind: Any) -> Any:  # noqa: ARG001
    """Return the array of records of the type ``kind`` at ``place``, as :func:`vector_of` does."""
    return place


def record_at(address: int, kind: Any) -> Any:  # noqa: ARG001
    """Return the record of the type ``kind`` at an address; in compiled code."""
    return address


def matrix_at(words: Any, place: int) -> Any:
    """Return the matrix at index ``place`` of an argument table."""
    return words[place]


@cache
def plain_tables() -> dict[int, Any]:
    """Return the argument tables that :func:`table_at` finds in plain Python, by number.

    They are not a global name, because the source hash of each function that uses them would
    contain their contents.
    """
    return {}


def table_at(number: float) -> Any:
    """Return the argument table whose address is ``number``, which a float64 holds exactly."""
    return plain_tables()[int(number)]
