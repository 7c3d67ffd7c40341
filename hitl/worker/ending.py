"""How a worker ended, in words: its exit status or signal, and what it said last."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass

from rtsim.core.errors import ControllerError

_MEANINGS = {
    "SIGFPE": "an integer division by zero, or one that overflows",
    "SIGSEGV": "an address that is not its own, or a stack that is too deep",
    "SIGBUS": "an address that is not there",
    "SIGABRT": "abort(), or a failed assertion",
    "SIGILL": "an instruction that is none",
    "SIGTRAP": "a trap of the compiler: what cannot be was reached",
    "SIGKILL": "somebody killed it, or memory ran out",
}
KILLED = "was ended by SIGKILL"
"""What is said of a process that somebody else has ended."""
_REPORT = re.compile(r"^.*(?:ERROR: AddressSanitizer|runtime error: ).*", re.M)
_AFTER_REPORT = re.compile(r"^Shadow bytes around", re.M)
_LEFT = re.compile(r"^worker: the C called exit\(\) in its (\w+)\n?", re.M)
_MOST_CHARACTERS = 4000


@dataclass(frozen=True)
class WorkerEnding:
    """The exit status of a process (negative: the signal), and what it printed."""

    code: int
    stdout: str
    stderr: str
    unresponsive: bool = False
    """It was asked to end, did not, and was killed."""
    silent: bool = False
    """It was asked to end, and ended without the message that it is done."""

    @property
    def ok(self) -> bool:
        """It did what it was asked to, and ended."""
        return self.code == 0 and not self.unresponsive and not self.silent

    @property
    def killed(self) -> bool:
        """Somebody else ended it, such as a system without memory: no C does that to itself."""
        return self.code == -signal.SIGKILL and not self.unresponsive

    @property
    def in_words(self) -> str:
        if self.unresponsive:
            return "did not end when it was told to, and was killed"
        if self.code >= 0:
            return f"ended with exit status {self.code}{self._by_whom}"
        try:
            name = signal.Signals(-self.code).name
        except ValueError:
            return f"was ended by signal {-self.code}"
        meaning = _MEANINGS.get(name, "")
        return f"was ended by {name}" + (f" ({meaning})" if meaning else "")

    @property
    def _by_whom(self) -> str:
        """Whose doing an exit status is, where that is known."""
        if found := _LEFT.search(self.stderr):
            return f": the C called exit({self.code}) in its {found[1]}, where it is to return"
        return "" if self.code else " before it was done: does the C call _exit()?"

    @property
    def said(self) -> str:
        """A sanitizer's report without its hex dump, else the end of stderr."""
        found = _REPORT.search(self.stderr)
        if found is None:
            return _LEFT.sub("", self.stderr)[-_MOST_CHARACTERS:].rstrip()
        report = self.stderr[found.start() :]
        cut = _AFTER_REPORT.search(report)
        return report[: cut.start() if cut else None][:_MOST_CHARACTERS].rstrip()


class Died(ControllerError):
    """A worker ended before it was asked to, or not as it should."""

    def __init__(self, about: str, ending: WorkerEnding) -> None:
        self.ending = ending
        self.environment = ending.killed
        said = f"; it said:\n{ending.said}" if ending.said else ""
        super().__init__(f"{about} {ending.in_words}{said}")
