"""Calls of compiled functions by their machine addresses, and arrays passed by address.

A compiled solver works for all models, because it calls the functions of a model by their
addresses. In plain Python, a solver receives functions instead of addresses.

An argument table is an array with the addresses of functions and arrays and the lengths of the
arrays. A ``Layout`` declares the functions and arrays of an argument table, with their order and
shapes. All arrays are checked before a table is made, because compiled code relies on the addresses
and lengths.
"""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.core.signals import Vector

Signature = tuple[str, ...]
"""The kind of each argument of a compiled function, in order."""
NUMBER = "float64"
INTEGER = "int64"
"""An integer or an address."""
VECTOR = "float64[]"
WORDS = "int64[]"
"""An array of integers: the words of an :class:`AddressBlock`, or times in ns."""
MATRIX = "float64[,]"


def is_array(kind: str) -> bool:
    """Return whether an argument of this kind is an array.

    Arrays must be contiguous in compiled code.
    """
    return kind.endswith("]")


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
    handle(t, x, z, u, p, out)


def call_update(handle: Any, t: float, x: Any, z: Any, u: Any, p: Any) -> None:
    handle(t, x, z, u, p)


def call_tick(handle: Any, due: Any, t: float, x: Any, z: Any, u: Any, p: Any) -> None:
    handle(due, t, x, z, u, p)


def call_reset(handle: Any, i: int, t: float, x: Any, z: Any, u: Any, p: Any) -> None:
    handle(i, t, x, z, u, p)


def call_project(handle: Any, x: Any) -> None:
    handle(x)


def call_step(handle: Any, words: Any, t: float, h: float) -> int:
    return int(handle(words, t, h))


def call_drive(handle: Any, words: Any, table: Any, begin: int, end: int) -> int:
    return int(handle(words, table, begin, end))


def call_lanes(handle: Any, words: int, numbers: int, answers: int) -> int:
    """Call a function at several lanes (``rtsim.equations.lanes``), in compiled code only."""
    return int(handle(words, numbers, answers))


def call_clock(handle: Any, clock: int, into: int) -> int:
    return int(handle(clock, into))


def call_sleep(handle: Any, clock: int, flags: int, until: int) -> int:
    return int(handle(clock, flags, until, 0))


def call_read(handle: Any, file: int, into: int, count: int) -> int:
    return int(handle(file, into, count, 0))


def call_peek(handle: Any, socket: int, into: int, flags: int) -> int:
    return int(handle(socket, into, 1, flags))


def call_fmi2_values(handle: Any, component: int, references: int, count: int, values: int) -> int:
    """Call a function of FMI 2.0 that gets or sets variables, such as ``fmi2GetReal``."""
    return int(handle(component, references, count, values))


def call_fmi3_values(
    handle: Any, component: int, references: int, count: int, values: int, size: int
) -> int:
    """Call a function of FMI 3.0 that gets or sets variables, such as ``fmi3GetFloat64``."""
    return int(handle(component, references, count, values, size))


def call_fmi2_step(handle: Any, component: int, t: float, h: float, no_return: int) -> int:
    """Call ``fmi2DoStep`` by its address."""
    return int(handle(component, t, h, no_return))


def call_fmi3_step(
    handle: Any,
    component: int,
    t: float,
    h: float,
    no_return: int,
    event: int,
    ended: int,
    early: int,
    last: int,
) -> int:
    """Call ``fmi3DoStep`` by its address; the last four arguments are addresses of results."""
    return int(handle(component, t, h, no_return, event, ended, early, last))


def call_fmi_state(handle: Any, component: int, state: int) -> int:
    """Call a function that gets or sets the state of an FMU; ``state`` is its last argument."""
    return int(handle(component, state))


# -- argument tables -------------------------------------------------------------------------------
#
# Passing ten arrays to compiled code costs 0.6 us, half of what a short step computes.  A plant
# keeps its arrays for the whole run, so their addresses are collected in one argument table.


@dataclass(frozen=True)
class AddressBlock:
    """An argument table for compiled code, with the entries that a ``Layout`` declares.

    ``words`` contains the addresses of functions and arrays, and the lengths of the arrays. The
    attributes ``arrays`` and ``owner`` keep the arrays and functions in memory.
    """

    words: NDArray[np.int64]
    arrays: tuple[NDArray[np.float64], ...]
    owner: object = None
    """The object that keeps the machine code of the functions loaded."""


def vector_at(words: Any, place: int) -> Any:
    return words[place]


def words_at(words: Any, place: int) -> Any:
    return words[place]


def vector_of(place: Any) -> Any:
    """Return a vector of an argument table, in compiled code only."""
    return place


def words_of(place: Any) -> Any:
    return place


def records_of(place: Any, kind: Any) -> Any:  # noqa: ARG001
    """Return an array of records of the type ``kind``, in compiled code only."""
    return place


def record_at(address: int, kind: Any) -> Any:  # noqa: ARG001
    """Return the record of the type ``kind`` at an address, in compiled code only."""
    return address


def matrix_at(words: Any, place: int) -> Any:
    return words[place]


Size = int | str
"""Length of an axis: a number, or a formula of names and numbers such as ``"2 + 3 * states"``."""
Shape = tuple[Size, ...]


class PlainTable(list[Any]):
    """An argument table for plain Python, which contains functions and arrays instead of addresses.

    Indices are as in compiled code. Each function and array is also an attribute of the table.
    """


class Layout:
    """Declaration of one kind of argument table.

    An argument table for compiled code has one word for each function. For an array, a table has
    one word for the address and one for the length of each axis. For a table ``words``, ``words.x``
    is its function or array ``x``, in compiled code and in plain Python.
    """

    def __init__(self, what: str, functions: Sequence[str], arrays: Mapping[str, Shape]) -> None:
        """Compute the positions of the functions and arrays in the table.

        ``what`` names the argument table in error messages. ``arrays`` contains the shape of each
        array, with one or two axes. Lengths in a shape can be names, and equal names mean equal
        lengths.
        """
        self.what = what
        self.functions = tuple(functions)
        self.arrays = dict(arrays)
        places, length = list(range(len(functions))), len(functions)
        for shape in arrays.values():
            places.append(length)
            length += 1 + len(shape)
        make: Any = namedtuple  # the fields depend on the arguments
        self.at: Any = make("Places", (*functions, *arrays))(*places)
        """The index of each function and array by name; a constant in compiled code."""
        axes = (f"{name}:{len(shape)}" for name, shape in arrays.items())
        self.kind = f"table[{' '.join((*functions, *axes))}]"
        """The kind of this argument table in the signature of a compiled function."""

    def extended(self, what: str, **arrays: Shape) -> Layout:
        """Return this layout with ``arrays`` added at the end.

        An array of the same name as an existing one keeps its position and gets the new shape.
        """
        for name in arrays.keys() & self.arrays.keys():
            if len(arrays[name]) != len(self.arrays[name]):
                raise ValueError(
                    f"{what} declares {name} with {len(arrays[name])} axes, but {self.what} "
                    f"declares {name} with {len(self.arrays[name])}; declare the same number of "
                    "axes in both"
                )
        return Layout(what, self.functions, {**self.arrays, **arrays})

    def zeros(self, name: str, sizes: Mapping[str, int]) -> NDArray[np.float64]:
        return np.zeros([self._length(name, size, sizes) for size in self.arrays[name]])

    def filled(
        self, arrays: Mapping[str, NDArray[np.float64]], sizes: Mapping[str, int]
    ) -> dict[str, NDArray[np.float64]]:
        """Return ``arrays``, with zeros for each missing array."""
        known = dict(sizes)
        for name, array in arrays.items():
            self._learn(name, array, known)
        return {
            name: arrays[name] if name in arrays else self.zeros(name, known)
            for name in (*self.arrays, *(arrays.keys() - self.arrays.keys()))
        }

    def block(
        self,
        functions: Sequence[Any],
        arrays: Mapping[str, NDArray[np.float64]],
        sizes: Mapping[str, int],
        owner: object = None,
    ) -> AddressBlock:
        """Return the argument table for compiled code.

        ``functions`` are machine addresses in the declared order. ``owner`` keeps the machine code
        in memory. See :meth:`check` for ``sizes`` and for errors.
        """
        checked = self.check(functions, arrays, sizes)
        places = [word for array in checked for word in (array.ctypes.data, *array.shape)]
        words = np.array([*map(int, functions), *places], dtype=np.int64)
        return AddressBlock(words, checked, owner)

    def plain(
        self,
        functions: Sequence[Any],
        arrays: Mapping[str, NDArray[np.float64]],
        sizes: Mapping[str, int],
    ) -> PlainTable:
        """Return the argument table for plain Python.

        See :meth:`check` for ``sizes`` and for errors.
        """
        checked = self.check(functions, arrays, sizes)
        table = PlainTable(functions)
        for array in checked:
            table += (array, *array.shape)
        vars(table).update(
            zip((*self.functions, *self.arrays), (*functions, *checked), strict=True)
        )
        return table

    def check(
        self,
        functions: Sequence[Any],
        arrays: Mapping[str, NDArray[np.float64]],
        sizes: Mapping[str, int],
    ) -> tuple[NDArray[np.float64], ...]:
        """Return the arrays in the declared order, after checks of their types and shapes.

        ``sizes`` gives lengths by name. A length that ``sizes`` lacks is determined from the
        arrays.

        Raises :class:`TypeError` for an array that is not contiguous float64, and
        :class:`ValueError` for a wrong shape and for a function or array that is missing or extra.
        """
        if len(functions) != len(self.functions):
            raise ValueError(
                f"got {len(functions)} functions for {self.what}; "
                f"expected {', '.join(self.functions)}"
            )
        if arrays.keys() != self.arrays.keys():
            wrong = sorted(arrays.keys() ^ self.arrays.keys())
            raise ValueError(
                f"the arrays of {self.what} differ from its layout; missing or extra: "
                f"{', '.join(wrong)}"
            )
        known = dict(sizes)
        return tuple(self._checked(name, arrays[name], known) for name in self.arrays)

    def _checked(
        self, name: str, array: NDArray[np.float64], sizes: dict[str, int]
    ) -> NDArray[np.float64]:
        if array.dtype != np.float64 or not array.flags.c_contiguous:
            raise TypeError(
                f"{name} of {self.what} must be a contiguous float64 array; got {array.dtype}"
                + ("" if array.flags.c_contiguous else ", not contiguous")
            )
        self._learn(name, array, sizes)
        declared = self.arrays[name]
        expected = tuple(self._length(name, size, sizes) for size in declared)
        if array.shape != expected:
            named = ", ".join(map(str, declared))
            raise ValueError(
                f"{name} of {self.what} has shape {array.shape}; expected ({named}) = {expected}"
            )
        return array

    def _learn(self, name: str, array: NDArray[np.float64], sizes: dict[str, int]) -> None:
        for size, length in zip(self.arrays.get(name, ()), array.shape, strict=False):
            if isinstance(size, str) and size.isidentifier():
                sizes.setdefault(size, length)

    def _length(self, name: str, size: Size, sizes: Mapping[str, int]) -> int:
        if isinstance(size, int):
            return size
        try:
            terms = ([int(w) if w.isdigit() else sizes[w] for w in term.split(" * ")]
                     for term in size.split(" + "))  # fmt: skip
            return sum(map(math.prod, terms))
        except KeyError as error:
            raise ValueError(
                f"{name} of {self.what} needs a value for the size {error.args[0]}; give that size"
            ) from None


def scratch(size: int) -> Vector:
    """Return a vector of ``size`` zeros; in compiled code, ``size`` must be a literal.

    In compiled code, the vector is valid until the calling function returns.
    """
    return np.zeros(size)
