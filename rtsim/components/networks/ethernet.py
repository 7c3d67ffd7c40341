"""Switched Ethernet: full-duplex links, store-and-forward switches and eight priorities.

A frame occupies a link for 8 bytes of preamble, at least 64 bytes from the destination address to
the frame check sequence, and 12 bytes of inter-frame gap (IEEE 802.3).  Each output port sends its
waiting frames by strict priority (IEEE 802.1Q); a frame that has begun is not interrupted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from rtsim.components.framed import Framed, Names, names_of
from rtsim.components.frames.contract import FrameCodec
from rtsim.components.lines import Lines
from rtsim.components.medium import (
    Carrier,
    Hop,
    MediumLine,
    PeriodicSender,
    SenderLoad,
    SharedTransport,
    Transmission,
    duration_ns,
)
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.random_streams import RandomStreams
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import Duration, declared_ns

PREAMBLE, GAP = 8, 12
"""Bytes before a frame (preamble and start delimiter) and after it (inter-frame gap)."""
LEAST_FRAME = 64
HEADER, TAG, CHECK = 14, 4, 4
"""Bytes of the addresses and the type, of the 802.1Q tag, and of the frame check sequence."""
MOST_DATA = 1500
UDP_HEADERS = 28
"""Bytes of the headers of IPv4 and UDP."""
SWITCH = "switch"
"""The switch to which all stations are connected if no links are declared."""


def frame_bytes(length: int, tagged: bool) -> int:
    """Return the bytes of a frame with ``length`` bytes of data, without preamble and gap."""
    return max(LEAST_FRAME, HEADER + TAG * tagged + length + CHECK)


class EthernetLink(NamedTuple):
    """A full-duplex link between two stations or switches."""

    a: str
    b: str
    bitrate: int | None = None
    """Bit/s; None for the bit rate of the network."""
    propagation: Duration | None = None
    """Propagation delay, s; None for that of the network."""


@dataclass(frozen=True)
class Ethernet:
    """A switched Ethernet of ``bitrate`` bit/s; equal networks of one ``name`` are one network.

    Without ``links``, each station is connected to one switch.  With ``links``, every inner node is
    a switch; the links must form no loop.

    Args:
        bitrate: Bit rate of all links that declare none.
        links: Links, or pairs of names.
        switch_latency: Time from the reception of a whole frame by a switch until the frame
            competes for the output port, s.
        propagation: Propagation delay of all links that declare none, s.
        queue: Largest number of frames of one priority that wait at one output port.

    Example:
        net = Ethernet(100_000_000, "backbone", switch_latency=5e-6)
        out.sensor("radar", {"r": "car.r"}, period=0.01,
                   transport=net.frame("front", "computer", priority=6, length=1400))
    """

    bitrate: int = 100_000_000
    name: str = "ethernet"
    links: Sequence[EthernetLink | tuple[str, str]] = ()
    switch_latency: Duration = 0
    propagation: Duration = 0
    queue: int = 100
    kind: ClassVar[str] = "Network"

    def __post_init__(self) -> None:
        object.__setattr__(self, "links", tuple(_link(one) for one in self.links))
        rates = [one.bitrate for one in self.wires if one.bitrate is not None]
        for rate in (self.bitrate, *rates):
            if not isinstance(rate, int) or not 1_000_000 <= rate <= 10**12:
                raise ScenarioError(
                    f"Ethernet: a bit rate of {rate!r} is not valid; give a whole number from "
                    "1000000 to 10**12, in bit/s, such as 100_000_000"
                )
        if not isinstance(self.queue, int) or self.queue < 1:
            raise ScenarioError(f"Ethernet: queue = {self.queue!r}; give a whole number >= 1")
        for what in (self.switch_latency, *(self._propagation(one) for one in self.wires)):
            if declared_ns(what, "a latency of an Ethernet") < 0:
                raise ScenarioError(f"Ethernet: a latency of {what!r} s is negative")
        self._check_loops()

    @property
    def wires(self) -> tuple[EthernetLink, ...]:
        """The declared links."""
        return tuple(one for one in self.links if isinstance(one, EthernetLink))

    def _check_loops(self) -> None:
        group: dict[str, str] = {}

        def root(node: str) -> str:
            while group.setdefault(node, node) != node:
                node = group[node]
            return node

        for link in self.wires:
            a, b = root(link.a), root(link.b)
            if a == b:
                raise ScenarioError(
                    f"Ethernet: the link from {link.a} to {link.b} closes a loop; leave out the "
                    "links that the spanning tree protocol blocks"
                )
            group[a] = b

    def _propagation(self, link: EthernetLink) -> Duration:
        return self.propagation if link.propagation is None else link.propagation

    def frame(
        self,
        source: str,
        to: str,
        *,
        of: FrameCodec | None = None,
        priority: int | None = None,
        length: int | None = None,
        signals: Mapping[str, str] | None = None,
    ) -> EthernetFrame:
        """Return the transport of messages that station ``source`` sends to station ``to``.

        Args:
            source: Name of the sending station.
            to: Name of the receiving station.
            of: Codec that rounds values to the bits of the data.
            priority: 0 to 7, where 7 goes first, in a tag of 802.1Q. None sends frames without a
                tag, which have priority 0.
            length: Bytes of data, including the headers of higher protocols. The default is 28
                bytes for IPv4 and UDP, and the length of ``of`` or 8 bytes for each value.
            signals: Names in the codec by names in the message, for signals whose names differ.
        """
        if priority is not None and priority not in range(8):
            raise ScenarioError(f"Ethernet: priority = {priority!r}; give a number from 0 to 7")
        self.route(source, to)
        if length is None and of is not None:
            length = of.length + UDP_HEADERS
        return EthernetFrame(self, source, to, priority, length, of, names_of(signals))

    def route(self, source: str, to: str) -> list[EthernetLink]:
        """Return the links from ``source`` to ``to``, each in the direction of the route."""
        if source == to:
            raise ScenarioError(f"Ethernet: {source} sends to itself; give another station")
        if not self.links and SWITCH in (source, to):
            raise ScenarioError(
                f"Ethernet: {SWITCH} is the name of the switch between all stations; give the "
                "station another name, or declare links"
            )
        if not self.links:
            return [EthernetLink(source, SWITCH), EthernetLink(SWITCH, to)]
        onward: dict[str, list[EthernetLink]] = {}
        for link in self.wires:
            onward.setdefault(link.a, []).append(link)
            onward.setdefault(link.b, []).append(link._replace(a=link.b, b=link.a))
        for station in (source, to):
            if station not in onward:
                raise UnknownName("station", station, onward, self.name)
        reached: dict[str, list[EthernetLink]] = {source: []}
        nodes = deque([source])
        while nodes:
            node = nodes.popleft()
            for link in onward[node]:
                if link.b not in reached:
                    reached[link.b] = [*reached[node], link]
                    nodes.append(link.b)
        if to not in reached:
            raise ScenarioError(f"Ethernet: no links of {self.name} lead from {source} to {to}")
        return reached[to]

    def check(self, topics: Iterable[tuple[str, SharedTransport]]) -> None:
        """Accept all topics, because several senders can use one station and one priority."""

    def start(self, streams: RandomStreams) -> Lines:  # noqa: ARG002
        return Lines(self.name)

    def hops(self, source: str, to: str, size: int) -> tuple[Hop, ...]:
        """Return the transmissions of a frame of ``size`` bytes without preamble and gap."""
        found = []
        route = self.route(source, to)
        for link in route:
            rate = self.bitrate if link.bitrate is None else link.bitrate
            takes = duration_ns(8 * (PREAMBLE + size), rate)
            whole = duration_ns(8 * (PREAMBLE + size + GAP), rate)
            onward = declared_ns(self._propagation(link))
            if link is not route[-1]:
                onward += declared_ns(self.switch_latency)
            line = MediumLine(f"{link.a} to {link.b}", limit=self.queue)
            found.append(Hop(takes, whole - takes, onward_ns=onward, line=line))
        return tuple(found)

    def load(self, senders: Iterable[PeriodicSender]) -> list[SenderLoad]:
        """Return the load of periodic frames: a row for each sender and each link of its route."""
        rows = []
        for one in senders:
            frame = one.transport
            if isinstance(frame, EthernetFrame):
                size = frame.size(one.values)
                for hop in self.hops(frame.source, frame.to, size):
                    share = (hop.takes_ns + hop.gap_ns) / one.period_ns
                    bits = 8 * (PREAMBLE + size)
                    rows.append(
                        SenderLoad(
                            one.sender, frame.label, bits, one.period_ns, share,
                            analysed=False, line=hop.line.name,
                        )
                    )  # fmt: skip
        return sorted(rows, key=lambda row: row.line)


def _link(given: Any) -> EthernetLink:
    """Return a link given as such, as a pair, or as a table of its fields."""
    try:
        if isinstance(given, str):
            raise TypeError
        found = EthernetLink(**given) if isinstance(given, Mapping) else EthernetLink(*given)
    except TypeError:
        found = EthernetLink("", "")
    if not (isinstance(found.a, str) and isinstance(found.b, str) and found.a and found.b):
        raise ScenarioError(
            f"Ethernet: {given!r} is not a link; give a pair of names such as "
            '("radar", "switch"), or an EthernetLink'
        )
    return found


@dataclass(frozen=True)
class EthernetFrame(Framed):
    """Latency model of messages that are sent as frames on ``network``."""

    network: Ethernet
    source: str
    to: str
    priority: int | None = None
    length: int | None = None
    codec: FrameCodec | None = None
    names: Names = ()
    ordered: bool = field(default=True, init=False)

    @property
    def medium(self) -> Ethernet:
        return self.network

    @property
    def label(self) -> str:
        """The route and the priority of the frame."""
        tag = "" if self.priority is None else f", priority {self.priority}"
        return f"{self.source} to {self.to}{tag}"

    def __repr__(self) -> str:
        return self.described(self.label, self.length, self.network)

    def size(self, values: int) -> int:
        """Return the bytes of a frame with ``values`` values, without preamble and gap."""
        return frame_bytes(self._length(values), self.priority is not None)

    def _length(self, values: int) -> int:
        return UDP_HEADERS + 8 * values if self.length is None else self.length

    def carrier(self, signals: Signals, topic: str) -> Carrier:
        length = self._length(signals.size)
        if not 0 <= length <= MOST_DATA:
            raise ScenarioError(
                f"messages of {topic} have {length} bytes of data; an Ethernet frame has at most "
                f"{MOST_DATA}, and rtsim does not divide messages: send several messages"
            )
        content = self.content(signals, topic, "Ethernet", length)
        hops = self.network.hops(self.source, self.to, self.size(signals.size))
        priority = (7 - (self.priority or 0),)

        def carry(values: Vector) -> Transmission:
            return Transmission(priority, hops, content(values)[1])

        return carry
