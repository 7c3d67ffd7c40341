"""Named random streams, which are independent of each other.

Each stream is a Philox generator, whose key is a hash of the seed and the name of the stream. The
numbers of a stream do not change if other streams are added.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np


class RandomStreams:
    """The random streams of one run."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._streams: dict[str, np.random.Generator] = {}

    def stream(self, name: str) -> np.random.Generator:
        if name not in self._streams:
            digest = hashlib.sha256(f"{self.seed}/{name}".encode()).digest()
            key = np.frombuffer(digest[:16], dtype="<u8").astype(np.uint64)
            self._streams[name] = np.random.Generator(np.random.Philox(key=key))
        return self._streams[name]

    def restart(self, seed: int) -> None:
        """Set a new ``seed``; each stream restarts at the next call of :meth:`stream`."""
        self.seed = seed
        self._streams.clear()

    def save(self) -> dict[str, Any]:
        """Return the states of all streams as plain data."""
        streams = {n: _plain(g.bit_generator.state) for n, g in sorted(self._streams.items())}
        return {"seed": self.seed, "streams": streams}

    def restore(self, saved: dict[str, Any]) -> None:
        """Restore saved states; a stream that was not saved begins with its first number."""
        self.seed = saved["seed"]
        for name in list(self._streams):
            if name not in saved["streams"]:
                del self._streams[name]
        for name, state in saved["streams"].items():
            self.stream(name).bit_generator.state = _arrays(state)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, np.ndarray):
        return [int(v) for v in value]
    return int(value) if isinstance(value, np.integer) else value


def _arrays(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _arrays(v) for k, v in value.items()}
    return np.array(value, dtype=np.uint64) if isinstance(value, list) else value
