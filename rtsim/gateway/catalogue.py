"""What a run has that can be looked at or changed, as plain data; and one look at all of it."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.signals import Signal, Vector
from rtsim.system import System
from rtsim.timing.tally import CLASSES, Tally

_STATE = struct.Struct("<qqd?qqqqqqq")
STATE = (
    "ns", "wall_ns", "rate", "standing", "late", "missed", "overruns_compute", "overruns_wake",
    "margin_ns", "frames", "leg",
)  # fmt: skip
"""Of each look; rate is 0 where the run is as fast as possible."""


def catalogue(system: System) -> dict[str, Any]:
    """Signals in the order of :class:`Look`, what can be set, topics and tasks."""
    return {
        "signals": [row for _, rows in _vectors(system) for row in rows],
        "parameters": [
            {**_described(item.signals[item.name]), "name": target,
             "value": item.vector[item.signals.slice(item.name)].tolist()}
            for target, item in sorted(system.changeable.items())
        ],
        "topics": {
            name: list(topic.signals.columns) for name, topic in sorted(system.bus.topics.items())
        },
        "faults": {} if system.faults is None else {
            f.name: f"{f.kind.name} at {f.where}" for f in system.faults.faults
        },
        "tasks": sorted(t.name for t in system.tasks if t.period is not None),
    }  # fmt: skip


def _described(signal: Signal) -> dict[str, Any]:
    return {
        "unit": signal.unit,
        "type": signal.type,
        "shape": list(signal.shape),
        "low": None if math.isinf(signal.low) else signal.low,
        "high": None if math.isinf(signal.high) else signal.high,
        "description": signal.description[:200],
    }


def _vectors(system: System) -> Iterator[tuple[Vector, list[dict[str, Any]]]]:
    """Each vector of the run, and its columns with unit and kind."""
    for name, port in sorted(system.ports.items()):
        rows = [
            {"name": f"{name}.{column}", "unit": signal.unit, "kind": signal.kind}
            for signal in port.signals
            for column in signal.columns
        ]
        yield port.value, rows
    for target, item in sorted(system.changeable.items()):
        if target.partition(".")[0] in system.ports and target in _names(system):
            continue  # a source's value is a signal already
        signal = item.signals[item.name]
        part = target.rpartition(".")[0]
        rows = [{"name": f"{part}.{c}", "unit": signal.unit, "kind": "parameter"}
                for c in signal.columns]  # fmt: skip
        yield item.vector[item.signals.slice(item.name)], rows


def _names(system: System) -> set[str]:
    return {f"{n}.{c}" for n, p in system.ports.items() for c in p.signals.names}


@dataclass
class Counters:
    """The numbers of :data:`STATE`."""

    ns: int = 0
    wall_ns: int = 0
    rate: float = 0.0
    standing: bool = False
    late: int = 0
    missed: int = 0
    overruns_compute: int = 0
    overruns_wake: int = 0
    margin_ns: int = 0
    frames: int = 0
    leg: int = 1
    """One more each time the run was restored."""

    @property
    def overruns(self) -> int:
        return self.overruns_compute + self.overruns_wake


class Look:
    """Copies the whole of a run into one buffer: state, latencies counted, values.

    Some microseconds, whatever the length of the run.
    """

    def __init__(self, system: System, tally: Tally) -> None:
        self._vectors = [vector for vector, _ in _vectors(system)]
        self._counted = tally.counts.ravel()
        counts, size = self._counted.size, sum(v.size for v in self._vectors)
        self._buffer = bytearray(_STATE.size + 8 * (counts + size))
        self._counts = np.frombuffer(self._buffer, np.int64, counts, _STATE.size)
        self._values = np.frombuffer(self._buffer, np.float64, size, _STATE.size + 8 * counts)

    def take(self, counters: Counters) -> bytes:
        """One look; :func:`read_look` reads it."""
        _STATE.pack_into(self._buffer, 0, *(getattr(counters, name) for name in STATE))
        self._counts[:] = self._counted
        at = 0
        for vector in self._vectors:
            self._values[at : at + vector.size] = vector
            at += vector.size
        return bytes(self._buffer)


def read_look(data: bytes, links: int) -> tuple[Counters, NDArray[np.int64], Vector]:
    """State, counts (``links``, CLASSES), and the values in the catalogue's order.

    Raises :class:`ValueError` for another length.
    """
    begin = _STATE.size + 8 * links * CLASSES
    if len(data) < begin or (len(data) - begin) % 8:
        raise ValueError(f"a look of {len(data)} bytes")
    counters = Counters(*_STATE.unpack_from(data))
    counts = np.frombuffer(data, np.int64, links * CLASSES, _STATE.size).reshape(links, CLASSES)
    return counters, counts, np.frombuffer(data, np.float64, offset=begin)
