"""How a recorded run ended: at its requested end, or earlier, and why."""

from __future__ import annotations

import builtins
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rtsim.core.tag import NS_PER_S
from rtsim.record.event import Event

if TYPE_CHECKING:
    from rtsim.record.reading import Recording

TO_THE_END = frozenset(("end", "terminal"))
"""Reasons of a complete run: its requested end, or a terminal guard."""
LACKING = (OSError, ImportError, MemoryError)
"""Errors of missing resources: a file, a device, a library, memory."""
CUT_OFF, UNKNOWN, ERROR = "cut off", "unknown", "error"
_STOPPED = {
    "interrupted": "was interrupted at",
    "quit": "was ended by the command quit at",
    "restored": "went back to a checkpoint at",
    CUT_OFF: "was cut off at",
}
_EACH_TIME = re.compile(r"\b0x[0-9a-fA-F]+\b|\([^()]+:\d+ in [^()]+\)")
"""Matches addresses and source lines, which are ignored when two errors are compared."""
_NAMED = re.compile(r"\b([A-Z]\w*): ")
_OF_A_DEVICE = "the device of input "
"""Beginning of the messages of :mod:`rtsim.engine.microsteps` about a device."""
_OF_THE_LOOP = "OverrunError"
"""Error of a run that fell behind the wall clock; at another pace it would not occur."""


@dataclass(frozen=True)
class RunEnding:
    """How one run ended; as text, it completes a sentence that begins with the name of the run."""

    reached_ns: int
    asked_ns: int | None
    """The requested end; ``None`` if the recording does not contain it."""
    reason: str
    """Reason of the footer, or ``cut off``, or ``unknown`` if no run wrote the recording."""
    error: str = ""
    """The error that ended the run, or the failure that a terminal guard declares."""

    @classmethod
    def of(cls, recording: Recording) -> RunEnding:
        """Return the end of a recorded run, from its header, its footer and its damage."""
        until = recording.header.get("until")
        asked = None if until is None else int(until)
        footer = recording.footer
        if recording.truncated is not None or (footer is None and asked is not None):
            return cls(recording.end_ns, asked, CUT_OFF)
        if footer is None:
            return cls(recording.end_ns, asked, UNKNOWN)
        reached = int(footer.get("ended", recording.end_ns))
        reason, error = str(footer.get("reason", "end")), str(footer.get("error", ""))
        return cls(reached, asked, reason, error)

    def up_to(self, ns: int | None) -> RunEnding:
        """Return the ending for a comparison up to ``ns``: a run that reached ``ns`` is complete.

        A recording that was cut off stays incomplete, because any of its last rows may be missing.
        """
        if ns is None or self.reached_ns < ns or self.reason == CUT_OFF:
            return self
        return replace(self, reached_ns=ns, asked_ns=ns, reason="end", error="")

    @property
    def complete(self) -> bool:
        """True if the run reached its end, or if its end is not known."""
        return self.reason in TO_THE_END or self.reason == UNKNOWN

    @property
    def stopped(self) -> bool:
        """True if something outside the simulation ended the run early."""
        return self.reason in _STOPPED

    def __str__(self) -> str:
        return f"{self.in_brief}: {self.error}" if self.error else self.in_brief

    @property
    def failed(self) -> bool:
        """True if the run ended in an error, or at a guard that declares a failure."""
        return self.reason == ERROR or (self.reason == "terminal" and bool(self.error))

    @property
    def in_brief(self) -> str:
        """Return the text about the end of the run, without the message of an error."""
        at = f"{self.reached_ns / NS_PER_S:g} s"
        early = self.asked_ns is not None and self.reached_ns < self.asked_ns
        of = f"{at} of {self.asked_ns / NS_PER_S:g} s" if early and self.asked_ns else at
        if self.reason in _STOPPED:
            return f"{_STOPPED[self.reason]} {of}"
        if self.reason == ERROR:
            return f"ended in an error at {of}"
        if self.reason == "terminal":
            return f"was ended by a terminal guard at {at}"
        if self.reason == UNKNOWN:
            return f"ends at {at}"
        return f"stopped at {of}" if early else f"reached its end at {at}"

    def to_json(self) -> dict[str, object]:
        asked = None if self.asked_ns is None else self.asked_ns / NS_PER_S
        return {
            "reason": self.reason,
            "reached_s": self.reached_ns / NS_PER_S,
            "asked_s": asked,
            "error": self.error,
        }


def last_error(recording: Recording) -> Event | None:
    """Return the event of the error that ended a run; ``None`` if no error ended it."""
    return next((e for e in reversed(recording.events) if e.kind == "Error"), None)


def died_of(recording: Recording) -> Event | None:
    """Return the error that ended the run and that occurs again if the run is repeated.

    Returns ``None`` for an overrun of the wall clock and for a missing device or file.
    """
    error = last_error(recording)
    outside = error is not None and (
        error.source == _OF_THE_LOOP or is_lack(error.source) or error.text.startswith(_OF_A_DEVICE)
    )
    return None if outside else error


def in_words(died: Event | None) -> str:
    """Return time, type and text of an error, without addresses and places in source files."""
    return "" if died is None else _EACH_TIME.sub("", f"{died.tag} {died.source}: {died.text}")


def is_lack(name: str) -> bool:
    """Return True if ``name`` is an exception type for a missing file, library, memory etc."""
    known = getattr(builtins, name, None)
    return isinstance(known, type) and issubclass(known, LACKING)


def names_lack(text: str) -> bool:
    """Return True if ``text``, a component's error message, names such an exception type."""
    return any(map(is_lack, _NAMED.findall(text)))
