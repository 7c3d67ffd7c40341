"""Compare a function at several lanes with single calls."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.equations.addresses import EQUATION
from rtsim.equations.compiling import Native, source_at
from rtsim.equations.lanes import Lanes, lanes_of

Vectors = Sequence[NDArray[np.float64]]
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e300, -1e300, 5e-324, 1e-310, 0.5, -1.0])


def at_lanes(native: Native, width: int) -> Lanes:
    source = source_at(int(native.handle))
    assert source is not None
    return lanes_of(source, width)


def call_lanes(
    lanes: Lanes, numbers: NDArray[np.float64], vectors: Vectors, functions: Sequence[int] = ()
) -> tuple[int, NDArray[np.int64]]:
    """Call a widened function on vectors of shape (n, lanes) or (m, n, lanes).

    Returns the status and the integer result of each lane.
    """
    words = [*functions]
    for one in vectors:
        assert one.flags.c_contiguous
        assert one.shape[-1] == lanes.width
        words += [one.ctypes.data, *one.shape[:-1]]
    table, answers = np.array(words, np.int64), np.zeros(lanes.width, np.int64)
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, *3 * (ctypes.c_void_p,))
    given = np.ascontiguousarray(numbers)
    status = kind(lanes.entry)(table.ctypes.data, given.ctypes.data, answers.ctypes.data)
    return status, answers


def same_bits(a: NDArray[np.float64], b: NDArray[np.float64]) -> bool:
    """Return whether all bits are equal; the sign and the payload of a NaN do not count."""
    bits = a.view(np.int64) == b.view(np.int64)
    return bool((bits | (np.isnan(a) & np.isnan(b))).all())


def drawn(rng: np.random.Generator, base: Vectors, width: int, kind: int) -> list[Any]:
    """Return vectors near ``base`` for each lane; every third draw contains special values."""
    found = []
    for one in base:
        wide = np.repeat(one[:, None], width, axis=1)
        wide = wide * (1.0 + 0.05 * rng.standard_normal(wide.shape))
        if kind == 1:
            wide += rng.standard_normal(wide.shape)
        if kind == 2:
            at = rng.random(wide.shape) < 0.05
            wide[at] = rng.choice(SPECIAL, at.sum())
        found.append(np.ascontiguousarray(wide))
    return found


def differences(native: Native, base: Vectors, width: int, inputs: int, seed: int = 0) -> list[str]:
    """Compare ``inputs`` random inputs, and describe each difference.

    ``base`` contains typical vectors x, z, u and p, and for equations the vector of results.
    """
    lanes, rng = at_lanes(native, width), np.random.default_rng(seed)
    found: list[str] = []
    compared = 0
    for k in range(-(-inputs // width)):
        vectors = drawn(rng, base, width, k % 3)
        if native.signature == EQUATION:
            vectors[-1][...] = 0.0
        t = rng.uniform(0.0, 20.0, width)
        alone = [np.ascontiguousarray(np.moveaxis(one, -1, 0)) for one in vectors]
        failed = False
        for j in range(width):
            try:
                native.call(t[j], *(one[j] for one in alone))
            except Exception:
                failed = True
        status, _ = call_lanes(lanes, t, vectors)
        if status or failed:
            if bool(status) != failed:
                found.append(f"input {k}: status {status}, but failed: {failed}")
            continue
        compared += width
        for name, wide, single in zip("xzupy", vectors, alone, strict=False):
            if not same_bits(np.ascontiguousarray(wide.T), single):
                found.append(f"input {k}: {name} differs")
    assert compared, "no input gave results"
    return found
