"""A medium: a ring on which a token passes from station to station."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from rtsim import Signals
from rtsim.core.random_streams import RandomStreams
from rtsim.extend import (
    Carrier,
    Hop,
    Lines,
    MediumLine,
    Openings,
    SharedTransport,
    Transmission,
)


@dataclass(frozen=True)
class TokenRing:
    """Each of ``stations`` stations holds the token for ``hold_ns``."""

    stations: int
    hold_ns: int
    name: str = "ring"

    def frame(self, station: int) -> RingFrame:
        return RingFrame(self, station)

    def check(self, topics: Iterable[tuple[str, SharedTransport]]) -> None:
        pass

    def start(self, streams: RandomStreams) -> Lines:  # noqa: ARG002
        return Lines(self.name)


@dataclass(frozen=True)
class RingFrame:
    """The messages of one station."""

    medium: TokenRing
    station: int
    ordered: bool = field(default=True, init=False)

    def delays(self, stream: np.random.Generator, size_bytes: int) -> tuple[int, ...]:  # noqa: ARG002
        return (0,)

    def carrier(self, signals: Signals, topic: str) -> Carrier:  # noqa: ARG002
        ring = self.medium
        token = Openings((self.station * ring.hold_ns,), ring.stations * ring.hold_ns)
        hops = (Hop(ring.hold_ns // 2, line=MediumLine(topic, opens=token)),)
        return lambda values: Transmission((0,), hops, values.copy())
