"""What a run has that can be looked at or changed, as plain data; and one look at all of it."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from rtsim.signals import Signal, Vector
from rtsim.system import System

_STATE = struct.Struct("<qqd?qqqqq")
STATE = ("ns", "wall_ns", "rate", "standing", "late", "missed", "overruns", "margin_ns", "frames")
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
    overruns: int = 0
    margin_ns: int = 0
    frames: int = 0


class Look:
    """Copies the whole of a run into one buffer: states and values, some microseconds."""

    def __init__(self, system: System) -> None:
        self._vectors = [vector for vector, _ in _vectors(system)]
        size = sum(v.size for v in self._vectors)
        self._buffer = bytearray(_STATE.size + 8 * size)
        self._values = np.frombuffer(self._buffer, np.float64, size, _STATE.size)

    def take(self, counters: Counters) -> bytes:
        """One look; :func:`read_look` reads it."""
        _STATE.pack_into(self._buffer, 0, *(getattr(counters, name) for name in STATE))
        at = 0
        for vector in self._vectors:
            self._values[at : at + vector.size] = vector
            at += vector.size
        return bytes(self._buffer)


def read_look(data: bytes) -> tuple[Counters, Vector]:
    """Counters, and the values in the catalogue's order; :class:`ValueError` for another length."""
    if len(data) < _STATE.size or (len(data) - _STATE.size) % 8:
        raise ValueError(f"a look of {len(data)} bytes")
    counters = Counters(*_STATE.unpack_from(data))
    return counters, np.frombuffer(data, np.float64, offset=_STATE.size)
