"""One side of a conversation between two machines: latest only, little under way.

Neither side waits.  What changes while too much is under way is told by the next message that may
go, with what it is then.
"""

from __future__ import annotations

from collections.abc import Callable

from rtsim.pilot.wire import RECORDS, WHOLE, Changes, ClockOffset, Format, Head, WireMessage

MOST_UNDER_WAY = 4
"""Messages that were sent and are not heard yet."""
_EVERY_NS = 2_000_000
_QUIET_NS = 100_000_000
"""So often something is said at the least."""
_LOST_NS = 1_000_000_000
"""What was not heard by then is not under way any more: the line was cut, and all is told again."""


class Flow:
    """What is due to be sent, and what is known from what came."""

    def __init__(self, format: Format, changes: Changes, now: int) -> None:
        self.offset = ClockOffset()
        self.heard_ns = now
        """When something came last."""
        self._format, self._changes = format, changes
        self._number = self._acknowledged = self._theirs = 0
        self._echo = self._received = 0
        self._sent_ns = now - _QUIET_NS
        self._moved_ns = now
        self._owed = False
        self._whole = True
        """The next one tells all that there is."""

    def hear(self, message: WireMessage, now: int) -> None:
        head = message.head
        self.heard_ns = now
        self.offset.add(head, now)
        self._echo, self._received = head.sent, now
        if message.records:
            self._owed = True
            if head.kind == WHOLE or head.number in (self._theirs, self._theirs + 1):
                self._theirs = head.number  # else one before it is missing, and is not heard
        if self._acknowledged < head.heard <= self._number:
            self._acknowledged, self._moved_ns = head.heard, now

    def due(self, now: int, clock: Callable[[], int], later_ns: int = 0) -> list[bytes]:
        """What to send now; moments of the wall by a clock that is ``later_ns`` ahead."""
        if now - self._sent_ns < _EVERY_NS:
            return []
        if self._number > self._acknowledged and now - self._moved_ns >= _LOST_NS:
            self._acknowledged, self._moved_ns = self._number, now
            self._changes.again()
            self._whole = True
        records = {}
        if self._number - self._acknowledged < MOST_UNDER_WAY:
            records = self._changes.take(later_ns)
        if not records and not self._owed and now - self._sent_ns < _QUIET_NS:
            return []
        if records:
            if self._number == self._acknowledged:
                self._moved_ns = now
            self._number += 1
        self._sent_ns, self._owed = now, False
        kind = WHOLE if self._whole and records else RECORDS
        self._whole = self._whole and not records
        head = Head(kind, self._number, self._theirs, clock(), self._echo, self._received)
        return self._format.records(head, records)
