"""Random numbers of a study: the numbers of run k depend on the study's seed and on k alone.

Each name has a Philox generator whose key is derived from the study's seed and the name, and whose
counter is the number of the run.  The order, the number of workers, a resume and later runs
therefore change nothing, and a new factor changes no value of another factor.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from rtsim.core.signals import Vector

_OUTPUTS = 4
"""64-bit outputs of Philox for each value of its counter; a run uses the first of them."""
_SEED_BITS = 53
"""Seeds of runs are below 2^53, so that programs that read JSON numbers as doubles keep them."""


def _key(seed: int, name: str) -> NDArray[np.uint64]:
    digest = hashlib.sha256(f"{seed}/study/{name}".encode()).digest()
    return np.frombuffer(digest[:16], dtype="<u8").astype(np.uint64)


def uniforms(seed: int, name: str, first: int, count: int) -> Vector:
    """Return the numbers (count,) in (0, 1) called ``name`` of the runs from ``first`` on."""
    stream = np.random.Philox(key=_key(seed, name), counter=first)
    raw = stream.random_raw(_OUTPUTS * count)[::_OUTPUTS]
    return ((raw >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


def seed_of(seed: int, name: str) -> int:
    """Return a seed below 2^53 that is derived from the study's ``seed`` by ``name``."""
    digest = hashlib.sha256(f"{seed}/study/{name}".encode()).digest()
    return int.from_bytes(digest[:8], "little") >> (64 - _SEED_BITS)


def seed32_of(seed: int, name: str) -> int:
    """Like :func:`seed_of`, but below 2^32, for libraries that take no larger seed."""
    return seed_of(seed, name) & 0xFFFFFFFF
