"""One side of the exchange between two machines: sends the latest records, never blocks.

Only a few messages may be in transit. A record that changes while too many messages are in transit
is sent with the next message, which contains the value at its sending time.
"""

from __future__ import annotations

from collections.abc import Callable

from rtsim.pilot.wire import RECORDS, WHOLE, Changes, ClockOffset, Format, Head, WireMessage

MOST_UNDER_WAY = 4
"""Limit of the messages that were sent and are not acknowledged yet."""
_EVERY_NS = 2_000_000
"""Shortest time between two messages, ns."""
_QUIET_NS = 100_000_000
"""Keep-alive period, ns: a message is sent at least this often."""
_LOST_NS = 1_000_000_000
"""Time without an acknowledgement after which messages count as lost and are sent again, ns."""


class Flow:
    """Decides which messages to send and when, given the messages that were received."""

    def __init__(self, format: Format, changes: Changes, now: int) -> None:
        self.offset = ClockOffset()
        self.heard_ns = now
        """The time of the last message received."""
        self._format, self._changes = format, changes
        self._number = self._acknowledged = self._theirs = 0
        self._echo = self._received = 0
        self._sent_ns = now - _QUIET_NS
        self._moved_ns = now
        self._owed = False
        self._whole = True
        """True if the next message must contain all records."""

    def hear(self, message: WireMessage, now: int) -> None:
        head = message.head
        self.heard_ns = now
        self.offset.add(head, now)
        self._echo, self._received = head.sent, now
        if message.records:
            self._owed = True
            if head.kind == WHOLE or head.number in (self._theirs, self._theirs + 1):
                self._theirs = head.number  # otherwise an earlier message is missing
        if self._acknowledged < head.heard <= self._number:
            self._acknowledged, self._moved_ns = head.heard, now

    def due(self, now: int, clock: Callable[[], int], later_ns: int = 0) -> list[bytes]:
        """Return the messages to send now.

        Wall-clock times in the records are converted to a clock that is ``later_ns`` ahead.
        """
        if now - self._sent_ns < _EVERY_NS:
            return []
        if self._number > self._acknowledged and now - self._moved_ns >= _LOST_NS:
            self._acknowledged, self._moved_ns = self._number, now
            self._changes.send_all()
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
