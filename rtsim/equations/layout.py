"""Blocks: the functions and arrays that a call of compiled code uses, by name.

A :class:`Layout` declares the functions and arrays of one kind of block: their names, their order
and the shape of each array.  It computes the place of each of them in the block.  It also checks
every array before a block is made, because compiled code trusts the addresses and lengths in a
block.  Code that uses a layout also runs uncompiled, as plain Python.

A kernel reads an array by name: ``vector_at(words, AT.x)`` with ``AT = LAYOUT.at``.
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
"""Length of one axis: a number, or a sum of products of names and numbers: ``"2 + 3 * states"``."""
Shape = tuple[Size, ...]


class Layout:
    """Names, places and shapes of the functions and arrays of one kind of block.

    A block holds one word for each function, then for each array its address and the length of each
    axis.  A plain block is a list with the same places: it holds the functions and arrays
    themselves.
    """

    def __init__(self, what: str, functions: Sequence[str], arrays: Mapping[str, Shape]) -> None:
        """Compute the places.

        ``what`` names the block in error messages.  ``arrays`` gives the shape of each array, with
        one or two axes.  Names of sizes are free: equal names mean equal lengths.
        """
        self.what = what
        self.functions = tuple(functions)
        self.arrays = dict(arrays)
        places, length = list(range(len(functions))), len(functions)
        for shape in arrays.values():
            places.append(length)
            length += 1 + len(shape)
        make: Any = namedtuple  # its fields are known only here
        self.at: Any = make("Places", (*functions, *arrays))(*places)
        """The place of each function and array by name.  Compiled code takes it as a constant."""

    def extended(self, what: str, **arrays: Shape) -> Layout:
        """Return this layout with ``arrays`` added at the end.

        An array that this layout has already gets the new shape and keeps its place.  All places of
        this layout are valid in the extended one.
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
        """Return the block for compiled code; see :meth:`check` for ``sizes`` and for errors.

        ``functions`` are machine addresses in the declared order.  ``owner`` holds their code.
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
        """Return the block for the same source as plain Python; see :meth:`check` for errors."""
        checked = self.check(functions, arrays, sizes)
        return [*functions, *(word for array in checked for word in (array, *array.shape))]

    def check(
        self,
        functions: Sequence[Any],
        arrays: Mapping[str, NDArray[np.float64]],
        sizes: Mapping[str, int],
    ) -> tuple[NDArray[np.float64], ...]:
        """Return the arrays in the declared order, or raise if one of them does not fit.

        ``sizes`` gives lengths by name.  A name that is not in ``sizes`` takes its length from the
        first array that has an axis of this name alone.

        Raises :class:`TypeError` for an array that is not contiguous float64, and
        :class:`ValueError` for a wrong shape and for a function or array that is missing or extra.
        """
        if len(functions) != len(self.functions):
            raise ValueError(
                f"{self.what} has {len(functions)} functions; expected {', '.join(self.functions)}"
            )
        if arrays.keys() != self.arrays.keys():
            wrong = sorted(arrays.keys() ^ self.arrays.keys())
            raise ValueError(
                f"{self.what} lacks these arrays, or does not declare them: {', '.join(wrong)}"
            )
        known = dict(sizes)
        return tuple(self._checked(name, arrays[name], known) for name in self.arrays)

    def _checked(
        self, name: str, array: NDArray[np.float64], sizes: dict[str, int]
    ) -> NDArray[np.float64]:
        """Return ``array`` if it fits; enter lengths that were not known into ``sizes``."""
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
        """Return the number that ``size`` stands for."""
        if isinstance(size, int):
            return size
        try:
            terms = ([int(w) if w.isdigit() else sizes[w] for w in term.split(" * ")]
                     for term in size.split(" + "))  # fmt: skip
            return sum(map(math.prod, terms))
        except KeyError as error:
            raise ValueError(
                f"{name} of {self.what} needs the size {error.args[0]}, which is not given"
            ) from None
