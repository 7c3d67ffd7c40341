"""Layouts of argument tables, through which compiled code receives functions and arrays.

An argument table is an array with the addresses of functions and arrays and the lengths of the
arrays.  A :class:`Layout` declares the functions and arrays of one kind of argument table: their
names, their order and the shape of each array.  It computes the index of each function and array in
the table.  It also checks every array before a table is made, because compiled code relies on the
addresses and lengths in the table.  Code that uses a layout also runs uncompiled, as plain Python.

Compiled code reads an array by name: ``vector_at(words, AT.x)`` with ``AT = LAYOUT.at``.
"""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.equations.addresses import AddressBlock

Size = int | str
"""Length of an axis: a number, or a formula of names and numbers such as ``"2 + 3 * states"``."""
Shape = tuple[Size, ...]


class Layout:
    """The names and indices of the functions and arrays in one kind of argument table.

    An argument table for compiled code has one word for each function, then for each array its
    address and the length of each axis.  An argument table for plain Python is a list with the same
    indices, which has the functions and arrays themselves in place of their addresses.
    """

    def __init__(self, what: str, functions: Sequence[str], arrays: Mapping[str, Shape]) -> None:
        """Compute the index of each function and array.

        ``what`` names the argument table in error messages.  ``arrays`` gives the shape of each
        array, with one or two axes.  A shape may use any names for lengths; equal names mean equal
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

    def extended(self, what: str, **arrays: Shape) -> Layout:
        """Return this layout with ``arrays`` added at the end.

        An array that this layout already has gets the new shape and keeps its index.  All indices
        of this layout are valid in the extended layout.
        """
        for name in arrays.keys() & self.arrays.keys():
            if len(arrays[name]) != len(self.arrays[name]):
                raise ValueError(
                    f"{what} declares {name} with {len(arrays[name])} axes; {self.what} declares "
                    f"{len(self.arrays[name])}"
                )
        return Layout(what, self.functions, {**self.arrays, **arrays})

    def zeros(self, name: str, sizes: Mapping[str, int]) -> NDArray[np.float64]:
        """Return zeros in the declared shape of array ``name``."""
        return np.zeros([self._length(name, size, sizes) for size in self.arrays[name]])

    def block(
        self,
        functions: Sequence[Any],
        arrays: Mapping[str, NDArray[np.float64]],
        sizes: Mapping[str, int],
        owner: object = None,
    ) -> AddressBlock:
        """Return the argument table for compiled code.

        ``functions`` are machine addresses in the declared order.  ``owner`` is the object that
        keeps their machine code loaded.  See :meth:`check` for ``sizes`` and for errors.
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
    ) -> list[Any]:
        """Return the argument table for plain Python.

        See :meth:`check` for ``sizes`` and for errors.
        """
        checked = self.check(functions, arrays, sizes)
        return [*functions, *(word for array in checked for word in (array, *array.shape))]

    def check(
        self,
        functions: Sequence[Any],
        arrays: Mapping[str, NDArray[np.float64]],
        sizes: Mapping[str, int],
    ) -> tuple[NDArray[np.float64], ...]:
        """Return the arrays in the declared order, after a check of their types and shapes.

        ``sizes`` gives lengths by name.  A name that is not in ``sizes`` gets its length from the
        first array that has an axis declared by this name alone, such as ``"states"``.

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
        """Return ``array`` after a check of type and shape; add new lengths to ``sizes``."""
        if array.dtype != np.float64 or not array.flags.c_contiguous:
            raise TypeError(
                f"{name} of {self.what} must be a contiguous float64 array; got {array.dtype}"
                + ("" if array.flags.c_contiguous else ", not contiguous")
            )
        declared = self.arrays[name]
        for size, length in zip(declared, array.shape, strict=False):
            if isinstance(size, str) and size.isidentifier():
                sizes.setdefault(size, length)
        expected = tuple(self._length(name, size, sizes) for size in declared)
        if array.shape != expected:
            named = ", ".join(map(str, declared))
            raise ValueError(
                f"{name} of {self.what} has shape {array.shape}; expected ({named}) = {expected}"
            )
        return array

    def _length(self, name: str, size: Size, sizes: Mapping[str, int]) -> int:
        """Return ``size`` as a number."""
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
