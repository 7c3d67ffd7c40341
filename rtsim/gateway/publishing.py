"""Looks for plotting tools: PlotJuggler's ZeroMQ subscriber.

PUB, two frames: the topic, and a MessagePack map of numbers with ``timestamp`` (s) in each.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

from rtsim.gateway.catalogue import Counters
from rtsim.messagepack import pack
from rtsim.signals import Vector
from rtsim.sockets import Broadcast
from rtsim.tag import NS_PER_S

PLOTJUGGLER = "tcp://127.0.0.1:9872"
RATE_HZ = 50.0


class Publisher:
    """Sends each look, a topic for each part; nothing where ``endpoint`` is empty."""

    def __init__(self, endpoint: str = "", rate_hz: float = RATE_HZ) -> None:
        self._socket = Broadcast(endpoint) if endpoint else None
        self.rate_hz = rate_hz if endpoint else 0.0
        self.lost = 0
        self._topics: dict[str, list[tuple[str, int]]] = {}

    def begin(self, signals: list[dict[str, Any]]) -> None:
        """``signals`` is the catalogue's."""
        topics: dict[str, list[tuple[str, int]]] = defaultdict(list)
        for k, row in enumerate(signals):
            part, _, name = str(row["name"]).partition(".")
            topics[part].append((name, k))
        self._topics = dict(topics)

    def publish(self, counters: Counters, values: Vector) -> None:
        if self._socket is None:
            return
        timestamp = counters.ns / NS_PER_S
        for topic, columns in self._topics.items():
            row: dict[str, float] = {"timestamp": timestamp}
            row |= {n: float(values[k]) for n, k in columns if math.isfinite(values[k])}
            self.lost += not self._socket.send(f"rtsim/{topic}", pack(row))
        state = {
            "timestamp": timestamp, "rate": counters.rate, "margin": counters.margin_ns / NS_PER_S,
            "overruns": counters.overruns, "late": counters.late, "missed": counters.missed,
        }  # fmt: skip
        self.lost += not self._socket.send("rtsim/timing", pack(state))

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
