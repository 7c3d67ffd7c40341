"""Media that consist of lines: each message passes its lines one after another.

A CAN bus is one line.  Each output port of a switched network is a line.  On a bus with time slots,
each sender has a line that opens at the sender's slots.  A line carries one message at a time, and
a transmission that has begun is not interrupted.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rtsim.components.medium import (
    CORRUPTED,
    FULL,
    REPLACED,
    Entry,
    MediumLine,
    Outcome,
    RunningMedium,
)
from rtsim.core.tag import NEVER


@dataclass(frozen=True)
class Openings:
    """Times at which transmissions of a line can begin: ``starts`` in each cycle, ns."""

    starts: tuple[int, ...]
    """In increasing order, from 0 to the end of the cycle."""
    cycle_ns: int

    def __call__(self, ns: int) -> int:
        """Return the first opening at ``ns`` or later."""
        cycles, within = divmod(ns, self.cycle_ns)
        k = bisect_left(self.starts, within)
        first = self.starts[k] if k < len(self.starts) else self.starts[0] + self.cycle_ns
        return cycles * self.cycle_ns + first

    @property
    def longest_wait_ns(self) -> int:
        """Longest time between two successive openings, ns."""
        after = (*self.starts[1:], self.starts[0] + self.cycle_ns)
        return max(b - a for a, b in zip(self.starts, after, strict=True))


class LineQueue:
    """The messages that wait for one line, and the time at which the line becomes free."""

    def __init__(self, line: MediumLine) -> None:
        self.line = line
        self.free_ns = 0
        self.until_ns = -1
        """Time up to which messages have been moved from ``coming`` to ``waiting``, ns."""
        self.coming: list[tuple[tuple[Any, ...], Entry]] = []
        """Messages that do not compete yet, by the time from which they compete."""
        self.waiting: list[tuple[tuple[Any, ...], Entry]] = []
        """Messages that compete, by priority."""
        self._counts: Counter[tuple[int, ...]] = Counter()

    def enter(self, entry: Entry) -> None:
        if entry.ready_ns <= self.until_ns:
            self.wait(entry)  # restored
        else:
            heapq.heappush(self.coming, ((entry.ready_ns, entry.number), entry))

    @property
    def next_ns(self) -> int:
        """Time at which the next transmission begins, or at which a message can be lost, ns."""
        comes = self.coming[0][1].ready_ns if self.coming else NEVER.ns
        if self.line.limit is not None and comes <= self.free_ns:
            return comes
        first = max(self.free_ns, self.until_ns if self.waiting else comes)
        if self.line.opens is None or first == NEVER.ns:
            return first
        opens = self.line.opens(first)
        return opens if self.line.limit is None else min(opens, comes)

    def begin(self, ns: int) -> tuple[Entry | None, list[Entry]]:
        """Return the message whose transmission begins at ``ns``, and those that are lost.

        A message that leaves the queue at ``ns`` makes room for a message that comes at ``ns``. If
        only the newest messages are kept, those that come at ``ns`` are among them.
        """
        while self.coming and self.coming[0][1].ready_ns <= ns:
            self.wait(heapq.heappop(self.coming)[1])
        self.until_ns = ns
        lost = self._trimmed() if self.line.newest else []
        opens = self.line.opens is None or self.line.opens(ns) == ns
        leaves = self._leave() if self.waiting and self.free_ns <= ns and opens else None
        return leaves, lost + self._trimmed()

    def entries(self) -> Iterable[Entry]:
        yield from (entry for _, entry in (*self.coming, *self.waiting))

    def wait(self, entry: Entry) -> None:
        priority = entry.transmission.priority
        order = priority, entry.ready_ns, entry.parcel.topic, entry.number
        heapq.heappush(self.waiting, (order, entry))
        self._counts[priority] += 1

    def _leave(self) -> Entry:
        entry = heapq.heappop(self.waiting)[1]
        self._counts[entry.transmission.priority] -= 1
        return entry

    def _trimmed(self) -> list[Entry]:
        """Remove and return the messages that exceed the limit of the line."""
        limit = self.line.limit
        if limit is None or all(count <= limit for count in self._counts.values()):
            return []
        lost: list[Entry] = []
        for priority, count in self._counts.items():
            if count > limit:
                queue = sorted(item for item in self.waiting if item[0][0] == priority)
                extra = queue[: count - limit] if self.line.newest else queue[limit:]
                lost += [entry for _, entry in extra]
                self._counts[priority] = limit
        gone = {entry.number for entry in lost}
        self.waiting = [item for item in self.waiting if item[1].number not in gone]
        heapq.heapify(self.waiting)
        return lost


class Lines(RunningMedium):
    """The state of a medium that consists of lines, during one run.

    The lines are those in the hops of the transmissions.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._queues: dict[str, LineQueue] = {}

    def _queue(self, line: MediumLine) -> LineQueue:
        if line.name not in self._queues:
            found = {**self._queues, line.name: LineQueue(line)}
            self._queues = dict(sorted(found.items()))
        return self._queues[line.name]

    def _enter(self, entry: Entry) -> None:
        queue = self._queue(entry.hop.line)
        queue.line = entry.hop.line  # a restored queue knows only the name of its line
        queue.enter(entry)

    @property
    def next_ns(self) -> int:
        return min((queue.next_ns for queue in self._queues.values()), default=NEVER.ns)

    def decide(self, ns: int) -> list[Outcome]:
        found: list[Outcome] = []
        for queue in self._queues.values():
            if queue.next_ns <= ns:
                entry, lost = queue.begin(ns)
                reason = REPLACED if queue.line.newest else FULL
                found += [self._lose(one, reason) for one in lost]
                if entry is not None:
                    found += self._transmit(queue, entry, ns)
        return found

    def _transmit(self, queue: LineQueue, entry: Entry, ns: int) -> list[Outcome]:
        hop, parcel = entry.hop, entry.parcel
        if parcel.failures and hop.line.repeats:
            queue.free_ns = ns + hop.failed_ns
            again = parcel._replace(failures=parcel.failures - 1)
            queue.wait(Entry(entry.ready_ns, entry.number, again, entry.transmission, entry.at))
            return []
        end = ns + hop.takes_ns
        queue.free_ns = end + hop.gap_ns
        if parcel.failures:
            return [self._lose(entry, CORRUPTED)]
        if entry.at + 1 == len(entry.transmission.hops):
            return [self._delivered(entry, end + hop.onward_ns)]
        onward = end + hop.onward_ns
        self._enter(Entry(onward, entry.number, parcel, entry.transmission, entry.at + 1))
        return []

    def _entries(self) -> Iterable[Entry]:
        for queue in self._queues.values():
            yield from queue.entries()

    def _save_state(self) -> Any:
        return {name: [q.free_ns, q.until_ns] for name, q in self._queues.items()}

    def _restore_state(self, saved: Any) -> None:
        self._queues = {name: LineQueue(MediumLine(name)) for name in sorted(saved)}
        for name, (free_ns, until_ns) in saved.items():
            self._queues[name].free_ns, self._queues[name].until_ns = free_ns, until_ns
