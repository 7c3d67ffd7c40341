"""How a run ended, as its recording says: at the end that was asked for, or before, and by what."""

from __future__ import annotations

import builtins
import re
from dataclasses import dataclass, replace

from rtsim.core.tag import NS_PER_S
from rtsim.record.event import Event
from rtsim.record.reading import Recording

TO_THE_END = frozenset(("end", "terminal"))
"""Reasons of a run that came to its end: the time that was asked for, or a terminal guard."""
LACKING = (OSError, ImportError, MemoryError)
"""Errors of what a run needs and has not: a file, a device, a library, memory."""
CUT_OFF, UNKNOWN, ERROR = "cut off", "unknown", "error"
_STOPPED = {
    "interrupted": "was interrupted at",
    "quit": "was told to quit at",
    "restored": "went back to a checkpoint at",
    CUT_OFF: "was cut off at",
}
_EACH_TIME = re.compile(r"\b0x[0-9a-fA-F]+\b|\([^()]+:\d+ in [^()]+\)")
"""Addresses, and the file and line at which it was raised: of another folder it is the same one."""
_NAMED = re.compile(r"\b([A-Z]\w*): ")
_OF_A_DEVICE = "the device of input "
"""How :mod:`rtsim.engine.microsteps` begins what it says of one."""
_OF_THE_LOOP = "OverrunError"
"""The error of a run that fell behind the wall's clock, which a run at another pace does not."""


@dataclass(frozen=True)
class RunEnding:
    """How one run ended; its text goes on from the name of the run."""

    reached_ns: int
    asked_ns: int | None
    """The end that was asked for; ``None`` where the recording does not say."""
    reason: str
    """The footer's, or ``cut off``, or ``unknown`` where no run wrote the recording."""
    error: str = ""

    @classmethod
    def of(cls, recording: Recording) -> RunEnding:
        """What header, footer and damage say together."""
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
        """The same for a comparison that ends at ``ns``: who reached that reached the end.

        Of what was cut off nobody knows which of the last rows are missing.
        """
        if ns is None or self.reached_ns < ns or self.reason == CUT_OFF:
            return self
        return replace(self, reached_ns=ns, asked_ns=ns, reason="end", error="")

    @property
    def complete(self) -> bool:
        """Nothing is known of an end that it missed."""
        return self.reason in TO_THE_END or self.reason == UNKNOWN

    @property
    def stopped(self) -> bool:
        """Something from outside ended it early, which says nothing about what was run."""
        return self.reason in _STOPPED

    def __str__(self) -> str:
        at = f"{self.reached_ns / NS_PER_S:g} s"
        early = self.asked_ns is not None and self.reached_ns < self.asked_ns
        of = f"{at} of {self.asked_ns / NS_PER_S:g} s" if early and self.asked_ns else at
        if self.reason in _STOPPED:
            return f"{_STOPPED[self.reason]} {of}"
        if self.reason == ERROR:
            return f"ended in an error at {of}: {self.error}"
        if self.reason == "terminal":
            return f"ended at {at}, where a terminal guard fired"
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
    """The event of the error that ended a run, whatever it was of."""
    return next((e for e in reversed(recording.events) if e.kind == "Error"), None)


def died_of(recording: Recording) -> Event | None:
    """The error of its own that ended the run, which it meets again wherever it is repeated.

    ``None`` for one of the wall's clock, or of a device or a file that was not there.
    """
    error = last_error(recording)
    outside = error is not None and (
        error.source == _OF_THE_LOOP or is_lack(error.source) or error.text.startswith(_OF_A_DEVICE)
    )
    return None if outside else error


def in_words(died: Event | None) -> str:
    """An error that ended a run, when and of what, without what may differ each time."""
    return "" if died is None else _EACH_TIME.sub("", f"{died.tag} {died.source}: {died.text}")


def is_lack(name: str) -> bool:
    """The name is that of an error of files, devices, libraries or memory."""
    known = getattr(builtins, name, None)
    return isinstance(known, type) and issubclass(known, LACKING)


def names_lack(text: str) -> bool:
    """A text that tells what a part raised tells of such an error."""
    return any(map(is_lack, _NAMED.findall(text)))
