"""A wireless channel with CSMA/CA: unslotted IEEE 802.15.4, with bursts of loss.

A node waits for a random number of backoff periods, senses the channel, and sends if the channel is
free.  Frames that overlap are lost.  The receiver acknowledges each frame; without an
acknowledgement, the node sends again.  All times are multiples of a symbol of 4 bits (16 us at 250
kbit/s).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

from rtsim.components.framed import ALL, NEWEST, Framed, Names, check_keep, names_of
from rtsim.components.frames.contract import FrameCodec
from rtsim.components.lines import LineQueue
from rtsim.components.medium import (
    CORRUPTED,
    FULL,
    REPLACED,
    Carrier,
    Entry,
    Hop,
    MediumLine,
    Outcome,
    PeriodicSender,
    RunningMedium,
    SenderLoad,
    SharedTransport,
    Transmission,
    duration_ns,
    row_of,
)
from rtsim.core.errors import ScenarioError
from rtsim.core.random_streams import RandomStreams
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import NEVER, NS_PER_S, Duration, declared_ns

UNIT_BACKOFF, SENSING, TURNAROUND, ACK_WAIT = 20, 8, 12, 54
"""Symbols of a backoff period, of a clear channel assessment, of the change from receiving to
sending, and for which a sender waits for an acknowledgement."""
SHORT_SPACING, LONG_SPACING, SHORT_FRAME = 12, 40, 18
"""Symbols after a frame of up to 18 bytes, and after a longer frame."""
PHYSICAL_HEADER, MAC_BYTES, ACK_BYTES = 6, 11, 5
"""Bytes of preamble, delimiter and length; of header and check sequence with 16-bit addresses; and
of an acknowledgement."""
MOST_BYTES = 127 - MAC_BYTES
NO_CHANNEL, NO_ANSWER = "the channel was busy", "no acknowledgement came"
COLLIDED, BURST = "frames collided", "the channel was bad"


@dataclass(frozen=True)
class GilbertElliott:
    """Losses in bursts: a channel that is alternately good and bad, for random times.

    The times are exponentially distributed, so the state is a Markov chain in continuous time. A
    sender that sends every T s sees the discrete chain of Gilbert (1960) and Elliott (1963), whose
    probability to stay bad is ``bad_after(True, T)``. The loss of a frame depends on the state at
    its start.

    Args:
        good: Mean duration of the good state, s.
        bad: Mean duration of the bad state, s.
        loss_good: Probability that a frame is lost in the good state.
        loss_bad: Probability that a frame is lost in the bad state.
    """

    good: Duration
    bad: Duration
    loss_good: float = 0.0
    loss_bad: float = 1.0

    def __post_init__(self) -> None:
        if min(self._times) <= 0:
            raise ScenarioError(
                f"GilbertElliott: mean durations of {self.good!r} s and {self.bad!r} s; give "
                "durations > 0"
            )
        for name, value in (("loss_good", self.loss_good), ("loss_bad", self.loss_bad)):
            if not 0.0 <= value <= 1.0:
                raise ScenarioError(
                    f"GilbertElliott: {name} = {value!r} is not a probability; give a number from "
                    "0 to 1"
                )

    @cached_property
    def _times(self) -> tuple[int, int]:
        return declared_ns(self.good, "GilbertElliott: good"), declared_ns(
            self.bad, "GilbertElliott: bad"
        )

    @cached_property
    def share_bad(self) -> float:
        """Share of time in the bad state."""
        good, bad = self._times
        return bad / (good + bad)

    @property
    def loss(self) -> float:
        """Share of frames that are lost in the long run."""
        return self.share_bad * self.loss_bad + (1 - self.share_bad) * self.loss_good

    def bad_after(self, bad: bool, seconds: float) -> float:
        """Return the probability of the bad state ``seconds`` s after a known state."""
        good_ns, bad_ns = self._times
        rate = NS_PER_S / good_ns + NS_PER_S / bad_ns
        return self.share_bad + (bad - self.share_bad) * math.exp(-rate * seconds)


@dataclass(frozen=True)
class WirelessChannel:
    """A channel of unslotted IEEE 802.15.4 on which all nodes hear each other.

    Args:
        bitrate: Bit/s.
        name: Name of the channel.
        bursts: Losses of data frames, independent for each sender.
        acknowledge: True if receivers acknowledge frames, and senders repeat frames.
        exponents: Smallest and largest backoff exponent (macMinBe, macMaxBe).
        backoffs: Largest number of backoffs after a busy channel (macMaxCsmaBackoffs).
        retries: Largest number of repetitions of a frame (macMaxFrameRetries).
        queue: Largest number of messages that wait at one node.

    Example:
        air = WirelessChannel(bursts=GilbertElliott(good=0.5, bad=0.05))
        out.sensor("tank", {"level": "tank.level"}, period=0.1, transport=air.frame(length=20))
    """

    bitrate: int = 250_000
    name: str = "wireless"
    bursts: GilbertElliott | None = None
    acknowledge: bool = True
    exponents: tuple[int, int] = (3, 5)
    backoffs: int = 4
    retries: int = 3
    queue: int = 16
    kind: ClassVar[str] = "Channel"

    def __post_init__(self) -> None:
        object.__setattr__(self, "exponents", tuple(self.exponents))
        bursts: Any = self.bursts
        if isinstance(bursts, Mapping):  # a table of a network file
            object.__setattr__(self, "bursts", GilbertElliott(**bursts))
        if not isinstance(self.bitrate, int) or self.bitrate < 1_000:
            raise ScenarioError(
                f"WirelessChannel: bitrate = {self.bitrate!r}; give a whole number >= 1000, in "
                "bit/s, such as 250_000"
            )
        low, high = self.exponents
        if not 0 <= low <= high <= 8:
            raise ScenarioError(
                f"WirelessChannel: exponents = {self.exponents}; give 0 <= smallest <= largest <= 8"
            )
        if self.backoffs < 0 or self.retries < 0 or self.queue < 1:
            raise ScenarioError(
                f"WirelessChannel: backoffs = {self.backoffs}, retries = {self.retries}, queue = "
                f"{self.queue}; give backoffs >= 0, retries >= 0 and queue >= 1"
            )

    def symbols(self, count: int) -> int:
        """Return the duration of ``count`` symbols, ns."""
        return duration_ns(4 * count, self.bitrate)

    def frame(
        self,
        of: FrameCodec | None = None,
        *,
        node: str = "",
        length: int | None = None,
        signals: Mapping[str, str] | None = None,
        keep: str = ALL,
    ) -> WirelessFrame:
        """Return the transport of messages that a node sends on this channel.

        Args:
            of: Codec that rounds values to the bits of the data.
            node: Name of the sending node; by default, each sender is a node of its own.
            length: Bytes of data, at most 116. The default is the length of ``of``, or 8 bytes for
                each value.
            signals: Names in the codec by names in the message, for signals whose names differ.
            keep: If messages wait at the node, ``"newest"`` keeps the newest one and loses the
                others; ``"all"`` keeps up to ``queue`` messages.
        """
        check_keep(keep, self.name)
        if length is None and of is not None:
            length = of.length
        return WirelessFrame(self, node, length, of, names_of(signals), keep)

    def check(self, topics: Iterable[tuple[str, SharedTransport]]) -> None:
        """Accept all topics, because several senders can use one node."""

    def start(self, streams: RandomStreams) -> RunningChannel:
        return RunningChannel(self, streams)

    def load(self, senders: Iterable[PeriodicSender]) -> list[SenderLoad]:
        """Return the load of periodic senders without repetitions, with acknowledgements."""
        answer = self.symbols(TURNAROUND + 2 * (PHYSICAL_HEADER + ACK_BYTES))
        rows = []
        for one in senders:
            frame = one.transport
            if isinstance(frame, WirelessFrame):
                bits = frame.bits(one.values)
                taken = duration_ns(bits, self.bitrate) + answer * self.acknowledge
                node = f"node {frame.node or one.sender}"
                share = taken / one.period_ns
                rows.append(
                    SenderLoad(one.sender, node, bits, one.period_ns, share, analysed=False)
                )
        return rows


@dataclass(frozen=True)
class WirelessFrame(Framed):
    """Latency model of messages that a node sends on ``channel``."""

    channel: WirelessChannel
    node: str = ""
    length: int | None = None
    codec: FrameCodec | None = None
    names: Names = ()
    keep: str = ALL
    ordered: bool = field(default=True, init=False)

    @property
    def medium(self) -> WirelessChannel:
        return self.channel

    def __repr__(self) -> str:
        node = f"node {self.node}" if self.node else "own node"
        return self.described(f"{node}, keeps {self.keep}", self.length, self.channel)

    def bits(self, values: int) -> int:
        """Return the bits of a frame with ``values`` values, with preamble and header."""
        return 8 * (PHYSICAL_HEADER + MAC_BYTES + self._length(values))

    def _length(self, values: int) -> int:
        return 8 * values if self.length is None else self.length

    def carrier(self, signals: Signals, topic: str) -> Carrier:
        channel, length = self.channel, self._length(signals.size)
        if not 0 <= length <= MOST_BYTES:
            raise ScenarioError(
                f"messages of {topic} have {length} bytes of data; a frame of IEEE 802.15.4 has at "
                f"most {MOST_BYTES}"
            )
        content = self.content(signals, topic, "wireless", length)
        spacing = SHORT_SPACING if MAC_BYTES + length <= SHORT_FRAME else LONG_SPACING
        takes = duration_ns(self.bits(signals.size), channel.bitrate)
        newest = self.keep == NEWEST
        limit = 1 if newest else channel.queue
        line = MediumLine(self.node or topic, limit=limit, newest=newest)
        hops = (Hop(takes, channel.symbols(spacing), line=line),)

        def carry(values: Vector) -> Transmission:
            return Transmission((0,), hops, content(values)[1])

        return carry


class _Sent(NamedTuple):
    """A transmission on the channel, of a node or of an acknowledgement."""

    start_ns: int
    end_ns: int
    sender: str


IDLE, SENSE, SEND, ACKNOWLEDGE, RETRY = range(5)


class _Node:
    """The queue of a node, and the progress of its present message."""

    def __init__(self, line: MediumLine) -> None:
        self.queue = LineQueue(line)
        self.entry: Entry | None = None
        self.resumed = 0
        """Number of the entry that a restored node expects."""
        self.delivered = False
        self.phase, self.at_ns = IDLE, NEVER.ns
        self.backoffs = self.exponent = self.retries = 0

    @property
    def next_ns(self) -> int:
        return min(self.queue.next_ns, self.at_ns)

    def save(self) -> list[Any]:
        entry = self.entry
        row = row_of(entry) if entry is not None and self.delivered else None
        progress = self.phase, self.at_ns, self.backoffs, self.exponent, self.retries
        number = 0 if entry is None else entry.number
        return [self.queue.free_ns, self.queue.until_ns, number, row, *progress]


class RunningChannel(RunningMedium):
    """The state of a wireless channel during one run.

    A node whose sensing ends at ``s`` sees all frames that begin before ``s``. Each frame begins a
    turnaround after the sensing. When a frame begins, all frames that overlap it are therefore
    known.
    """

    def __init__(self, channel: WirelessChannel, streams: RandomStreams) -> None:
        super().__init__(channel.name)
        self._channel, self._streams = channel, streams
        self._nodes: dict[str, _Node] = {}
        self._air: list[_Sent] = []
        self._states: dict[str, tuple[bool, int]] = {}
        """Last known state of the bursts and its time (ns), by topic."""
        self._sensing, self._turnaround = channel.symbols(SENSING), channel.symbols(TURNAROUND)
        self._ack_ns = channel.symbols(2 * (PHYSICAL_HEADER + ACK_BYTES))

    @property
    def next_ns(self) -> int:
        return min((node.next_ns for node in self._nodes.values()), default=NEVER.ns)

    def decide(self, ns: int) -> list[Outcome]:
        found: list[Outcome] = []
        nodes = self._nodes.items()
        busy = [(n, node, node.entry) for n, node in nodes if node.entry and node.at_ns <= ns]
        # Sensing comes first: its frames can overlap the frames that begin at the same instant.
        for name, node, entry in sorted(busy, key=lambda one: one[1].phase != SENSE):
            if node.phase == SENSE:
                found += self._sense(name, node, entry, ns)
            elif node.phase == SEND:
                found += self._send(name, node, entry, ns)
            elif node.phase == ACKNOWLEDGE:
                self._acknowledged(name, node, entry, ns)
            else:
                found += self._retry(name, node, entry, ns)
        for name, node in nodes:
            if node.queue.next_ns <= ns:
                entry_or_none, lost = node.queue.begin(ns)
                reason = REPLACED if node.queue.line.newest else FULL
                found += [self._lose(one, reason) for one in lost]
                if entry_or_none is not None:
                    node.entry, node.queue.free_ns = entry_or_none, NEVER.ns
                    self._compete(name, node, ns)
        self._air = [one for one in self._air if one.end_ns > ns - self._sensing]
        return found

    def _compete(self, name: str, node: _Node, ns: int) -> None:
        node.backoffs, node.exponent = 0, self._channel.exponents[0]
        self._back_off(name, node, ns)

    def _back_off(self, name: str, node: _Node, ns: int) -> None:
        stream = self._streams.stream(f"medium/{self.name}/{name}/backoff")
        units = int(stream.integers(1 << node.exponent))
        node.phase = SENSE
        node.at_ns = ns + self._channel.symbols(units * UNIT_BACKOFF) + self._sensing

    def _sense(self, name: str, node: _Node, entry: Entry, ns: int) -> list[Outcome]:
        if not any(one.start_ns < ns and one.end_ns > ns - self._sensing for one in self._air):
            node.phase, node.at_ns = SEND, ns + self._turnaround
            self._air.append(_Sent(node.at_ns, node.at_ns + entry.hop.takes_ns, name))
            return []
        node.backoffs += 1
        if node.backoffs > self._channel.backoffs:
            return self._finish(node, entry, ns, NO_CHANNEL)
        node.exponent = min(node.exponent + 1, self._channel.exponents[1])
        self._back_off(name, node, ns)
        return []

    def _send(self, name: str, node: _Node, entry: Entry, ns: int) -> list[Outcome]:
        found: list[Outcome] = []
        end = ns + entry.hop.takes_ns
        reason = COLLIDED if self._overlapped(_Sent(ns, end, name)) else ""
        if self._in_burst(entry.parcel.topic, ns):
            reason = reason or BURST
        if entry.parcel.failures:
            parcel = entry.parcel._replace(failures=entry.parcel.failures - 1)
            node.entry = entry = replace(entry, parcel=parcel)
            reason = CORRUPTED
        if not reason and not node.delivered:  # receivers ignore repetitions of a known frame
            found.append(self._delivered(entry, end))
            node.delivered = True
        if not self._channel.acknowledge:
            return found + self._finish(node, entry, end + entry.hop.gap_ns, reason)
        if reason:
            node.phase, node.at_ns = RETRY, end + self._channel.symbols(ACK_WAIT)
        else:
            node.phase, node.at_ns = ACKNOWLEDGE, end + self._turnaround
            self._air.append(_Sent(node.at_ns, node.at_ns + self._ack_ns, f"to {name}"))
        return found

    def _acknowledged(self, name: str, node: _Node, entry: Entry, ns: int) -> None:
        end = ns + self._ack_ns
        if self._overlapped(_Sent(ns, end, f"to {name}")):
            node.phase = RETRY
            node.at_ns = ns - self._turnaround + self._channel.symbols(ACK_WAIT)
        else:
            self._finish(node, entry, end + entry.hop.gap_ns, "")

    def _retry(self, name: str, node: _Node, entry: Entry, ns: int) -> list[Outcome]:
        node.retries += 1
        if node.retries > self._channel.retries:
            return self._finish(node, entry, ns, NO_ANSWER)
        self._compete(name, node, ns)
        return []

    def _finish(self, node: _Node, entry: Entry, ns: int, reason: str) -> list[Outcome]:
        """End the transmission of ``entry``; the node is free again at ``ns``."""
        lost = bool(reason) and not node.delivered
        node.entry, node.delivered, node.retries = None, False, 0
        node.phase, node.at_ns, node.queue.free_ns = IDLE, NEVER.ns, ns
        return [self._lose(entry, reason)] if lost else []

    def _overlapped(self, sent: _Sent) -> bool:
        return any(
            one.start_ns < sent.end_ns and one.end_ns > sent.start_ns
            for one in self._air
            if one != sent
        )

    def _in_burst(self, topic: str, ns: int) -> bool:
        bursts = self._channel.bursts
        if bursts is None:
            return False
        stream = self._streams.stream(f"medium/{self.name}/{topic}/bursts")
        chance = bursts.share_bad
        if topic in self._states:
            was_bad, before = self._states[topic]
            chance = bursts.bad_after(was_bad, (ns - before) / NS_PER_S)
        bad = bool(stream.random() < chance)
        self._states[topic] = bad, ns
        return bool(stream.random() < (bursts.loss_bad if bad else bursts.loss_good))

    def _enter(self, entry: Entry) -> None:
        line = entry.hop.line
        if line.name not in self._nodes:
            self._nodes = dict(sorted({**self._nodes, line.name: _Node(line)}.items()))
        node = self._nodes[line.name]
        node.queue.line = line  # a restored queue knows only the name of its line
        if node.resumed == entry.number:
            node.entry, node.resumed = entry, 0
        else:
            node.queue.enter(entry)

    def _entries(self) -> Iterable[Entry]:
        for node in self._nodes.values():
            if node.entry is not None and not node.delivered:
                yield node.entry
            yield from node.queue.entries()

    def _save_state(self) -> Any:
        return {
            "nodes": {name: node.save() for name, node in self._nodes.items()},
            "air": [list(one) for one in self._air],
            "bursts": {topic: list(state) for topic, state in self._states.items()},
        }

    def _restore_state(self, saved: Any) -> None:
        self._nodes = {name: _Node(MediumLine(name)) for name in saved["nodes"]}
        for name, node in self._nodes.items():
            node.queue.free_ns, node.queue.until_ns, number, row, *rest = saved["nodes"][name]
            node.delivered = row is not None
            node.phase, node.at_ns, node.backoffs, node.exponent, node.retries = rest
            if row is not None:
                node.entry = self._entry_of(row)
            else:
                node.resumed = number
        self._air = [_Sent(*one) for one in saved["air"]]
        self._states = {topic: (bad, ns) for topic, (bad, ns) in saved["bursts"].items()}
