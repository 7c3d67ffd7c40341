"""The effects of processes on the rest of a run: messages, changed values and recorded events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rtsim.core.errors import ModelError, ShapeError, UnknownName
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import Tag

PLAIN = frozenset({float, int, np.float64})
"""Types of numbers that are written without a conversion."""
LARGE = 1e300
"""Numbers below this are finite; larger numbers are checked one by one."""


@dataclass(frozen=True)
class Changed:
    """A new value for a parameter of a plant, or for a value of a source."""

    target: str
    value: object


@dataclass(frozen=True)
class Told:
    """An event for the recording.  Its ``repr`` enters the checksum of checkpoints."""

    kind: str
    text: str
    values: Mapping[str, float]


Effect = tuple[bytes, bytes | Changed | Told, int]
"""What a reaction does to the rest of the run, and the time of the reaction, ns.

For a message: its topic (as UTF-8) and its values (as bytes).  Otherwise the topic is empty.
"""


class Payload:
    """The values of one topic in memory that is quick to write."""

    def __init__(self, name: str, signals: Signals, vector: Vector) -> None:
        self.name = name
        self.topic = name.encode()
        self.signals = signals
        self.vector = vector
        self.initial = vector.copy()
        self.memory: Any = vector.data
        """The elements of ``vector``; reading and writing one takes a third of numpy's time."""
        self.places = {s.name: signals.slice(s.name).start for s in signals if s.size == 1}
        """Index of each signal with one element."""

    def put(self, name: str, value: object, what: str, ns: int) -> None:
        """Write any ``value`` that can be converted to the elements of the signal ``name``.

        ``what`` and ``ns`` (the present time) are for the messages of errors.
        """
        signals, where = self.signals, f"{what} {self.name}"
        if name not in signals:
            raise UnknownName("signal", name, signals.names, where)
        at = signals.slice(name)
        given = np.asarray(value, dtype=np.float64).ravel()
        if given.size != at.stop - at.start:
            raise ShapeError(
                f"{name} of {where} has {at.stop - at.start} elements, but got {given.size} values"
            )
        if not np.isfinite(given).all():
            raise ModelError(
                f"{name} of {where} was set to {value} at {Tag(ns)}; give a finite value"
            )
        self.vector[at] = given


def scalars(signals: Signals, vector: Vector) -> dict[str, tuple[Any, int]]:
    """Return the memory of ``vector`` and the index in it for each scalar of ``signals``."""
    return {s.name: (vector.data, signals.slice(s.name).start) for s in signals if not s.shape}
