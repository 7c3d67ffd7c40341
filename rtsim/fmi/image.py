"""The memory of a compiled run as data that a C program can copy.

Compiled code reads and writes only arrays, which it reaches from one address through records and
argument tables. The image contains all arrays of the run, and a list of the words that are
addresses. After these addresses are adapted, a copy of the image is an independent instance of the
model.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import ScenarioError
from rtsim.equations.addresses import AddressBlock
from rtsim.equations.compiling import Source, source_at

Words = NDArray[np.int64]
_WORD = 8
_ADDRESSES = 1 << 46
"""On 64-bit systems, the heap and shared libraries are at addresses from 2^46 to 2^47."""


@dataclass(frozen=True)
class Image:
    """The memory of a model: ``words``, and the positions of words that are addresses.

    ``places`` has the shape (k, 2): the index of a word, and the index of the word to which it
    refers. ``functions``, shape (m, 2), contains the index of a word and the number of a function
    in ``sources``. ``spans`` are the address, the number of bytes and the first word of each array
    in this process.
    """

    words: Words
    places: Words
    functions: Words
    sources: tuple[Source, ...]
    spans: tuple[tuple[int, int, int], ...]

    def holds(self, array: NDArray[Any]) -> bool:
        """Return whether ``array`` is part of the image."""
        return _within(self.spans, array.ctypes.data) is not None

    def place(self, array: NDArray[Any]) -> int:
        """Return the index of the first word of ``array``, an array of the model."""
        found = _within(self.spans, array.ctypes.data)
        assert found is not None, "the array is not part of the image"
        return found


def arrays_in(objects: Iterable[Any]) -> list[NDArray[Any]]:
    """Return all arrays in ``objects``: arrays, argument tables and sequences of both."""
    found: list[NDArray[Any]] = []
    for one in objects:
        if isinstance(one, np.ndarray):
            found.append(one)
        elif isinstance(one, AddressBlock):
            found += [one.words, *one.arrays]
        elif isinstance(one, list | tuple):
            found += arrays_in(one)
        elif isinstance(one, dict):
            found += arrays_in(one.values())
    return found


def freeze(arrays: Iterable[NDArray[Any]], what: Callable[[int], str]) -> Image:
    """Return the image of ``arrays``, in which addresses refer only to these arrays.

    ``what`` returns a text about a function that was not compiled from a Python function. Raises
    :class:`ScenarioError` for an address of any other memory.
    """
    given = [a for a in arrays if a.flags.c_contiguous or a.ndim < 2]
    spans, whole = _spans(given), {}
    for address, size, first in spans:
        whole[first] = np.frombuffer(ctypes.string_at(address, size), np.int64)
    words = np.concatenate([whole[first] for _, _, first in spans])
    empty = {a.ctypes.data for a in given if a.size == 0}
    places, functions, sources = [], [], dict[int, int]()
    known: list[Source] = []
    for index in sorted(_integers(given, spans)):
        value = int(words[index])
        if (target := _within(spans, value)) is not None:
            places.append((index, target))
        elif (source := source_at(value)) is not None:
            if value not in sources:
                sources[value] = len(known)
                known.append(source)
            functions.append((index, sources[value]))
        elif value in empty:
            pass
        elif _ADDRESSES <= value < 2 * _ADDRESSES:
            raise ScenarioError(what(value))
        else:
            continue
        words[index] = 0
    pair = np.zeros((0, 2), np.int64)
    return Image(
        words,
        np.array(places, np.int64) if places else pair,
        np.array(functions, np.int64) if functions else pair,
        tuple(known),
        tuple(spans),
    )


def _spans(arrays: list[NDArray[Any]]) -> list[tuple[int, int, int]]:
    """Return address, bytes and first word of each piece of memory; views share a piece.

    The pieces are in the order of the arrays, so that equal models give equal images.
    """
    order: dict[tuple[int, int], int] = {}
    for array in arrays:
        if array.size:
            order.setdefault((array.ctypes.data, _extent(array)), len(order))
    merged: list[list[int]] = []
    for (address, size), rank in sorted(order.items()):
        if merged and address < merged[-1][0] + merged[-1][1]:
            last = merged[-1]
            last[1], last[2] = max(last[1], address + size - last[0]), min(last[2], rank)
        else:
            merged.append([address, size, rank])
    found, first = [], 0
    for address, size, _ in sorted(merged, key=lambda piece: piece[2]):
        assert address % _WORD == size % _WORD == 0
        found.append((address, size, first))
        first += size // _WORD
    return found


def _extent(array: NDArray[Any]) -> int:
    """Return the number of bytes from the first to the last element."""
    last = sum((n - 1) * stride for n, stride in zip(array.shape, array.strides, strict=True))
    return int(last) + array.itemsize


def _within(spans: Iterable[tuple[int, int, int]], address: int) -> int | None:
    for begin, size, first in spans:
        if begin <= address < begin + size:
            return first + (address - begin) // _WORD
    return None


def _integers(arrays: list[NDArray[Any]], spans: list[tuple[int, int, int]]) -> set[int]:
    """Return the indices of all words that are not floating-point numbers."""
    found: set[int] = set()
    for array in arrays:
        if array.size and array.dtype != np.float64:
            first = _within(spans, array.ctypes.data)
            assert first is not None
            found.update(range(first, first + _extent(array) // _WORD))
    return found
