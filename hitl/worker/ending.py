"""Explain why a worker ended or rejected a step.

Workers and libraries use the same statuses.
"""

from __future__ import annotations

import re
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass

from hitl.worker.messages import OF_ANOTHER_SIZE
from rtsim.core.errors import ControllerError
from rtsim.core.outcome import Judged, Outcome
from rtsim.core.signals import Signals, Vector

EXITED = 0x40000000
"""Status of a library whose C code called exit(): this number plus the exit status
(``guard.c``)."""
THREW = 0x20000000
"""Status of a library whose C++ code threw an uncaught exception (``rtsim_unit.h``)."""
THROWN_BYTES = 256
"""Maximum length of an exception's text in bytes, as in ``rtsim_unit.h``."""

_UNDECLARED, _WRAPPED = "rtsim_undeclared: ", "rtsim_wrapped: "
"""Prefixes of the texts of two exceptions: something is missing from the interface file
(``rtsim_arduino.cpp``), or the clock cannot continue on this host (``clock_host.cpp``)."""
MISFIT = "the interface file does not fit the code: "
"""Prefix of the error for something that is missing from the interface file."""


def misfit(thrown: str) -> str:
    """Return why the interface file does not match the C code, or ""."""
    for sign in (_UNDECLARED, _WRAPPED):
        _, found, lacking = thrown.partition(sign)
        if found:
            return f"{MISFIT}{lacking}"
    return ""


def refusal(
    name: str, status: int, given: Signals, values: Vector, outputs: Signals, thrown: str = ""
) -> str:
    """Explain the answer of a controller with a ``status`` other than 0.

    Args:
        name: Name of the controller.
        status: The controller's answer.
        given: Layout of ``values``.
        values: Inputs or parameters that were sent to the controller.
        outputs: Layout of the outputs, to which a negative status refers.
        thrown: Text of an uncaught C++ exception.
    """
    if status == OF_ANOTHER_SIZE:
        return f"{name} was sent a wrong number of values"
    if status == THREW:
        if lacking := misfit(thrown):
            return f"{name}: {lacking}"
        return f"{name} threw {thrown}, which nothing caught"
    if status >= EXITED:
        return f"{name} called exit({status - EXITED}), but it must return"
    column = abs(status) - 1
    signals = given if status > 0 else outputs
    if column >= signals.size:
        return f"{name} answered with the unknown status {status}"
    element = signals.columns[column]
    kind = next(s for s in signals if element in s.columns).type
    if status < 0:
        return f"output {element} of {name} is an {kind} above 2^53 that no float64 can represent"
    return (
        f"{element} = {float(values[column])!r} of {name} does not fit its type {kind}; correct "
        "its source, change its type or scale, or let it saturate (overflow = 'saturate')"
    )


_MEANINGS = {
    "SIGFPE": "an integer division by zero or with overflow",
    "SIGSEGV": "an access outside of its memory, or a stack overflow",
    "SIGBUS": "an access to an address without memory",
    "SIGABRT": "a call of abort(), or a failed assertion",
    "SIGILL": "an invalid instruction",
    "SIGTRAP": "a trap that the compiler inserted: code that must not be reached was reached",
    "SIGKILL": "it was killed from outside, or the memory was exhausted",
    "SIGXCPU": "its CPU time reached the limit of this shell: ulimit -t",
}
FROM_OUTSIDE = (
    "SIGKILL",
    "SIGTERM",
    "SIGHUP",
    "SIGINT",
    "SIGQUIT",
    "SIGUSR1",
    "SIGUSR2",
    "SIGXCPU",
)
"""Signals that usually come from another program, so they do not count against the C code.

The exit status does not show who sent a signal.  A process that sends one of these signals to
itself is therefore also undecided.
"""
_STOPPED = "was stopped from outside"
_REPORT = re.compile(r"^.*(?:ERROR: AddressSanitizer|runtime error: ).*", re.M)
_AFTER_REPORT = re.compile(r"^Shadow bytes around", re.M)
_LEFT = re.compile(r"^worker: the C called exit\(\) in its (\w+)\n?", re.M)
_THREW = re.compile(r"^worker: the C\+\+ code threw (.*) in its (\w+)\n?", re.M)
_MOST_CHARACTERS = 4000


@dataclass(frozen=True)
class WorkerEnding(Judged):
    """The exit status of a process (negative for a signal), and its output."""

    code: int
    stdout: str
    stderr: str
    unresponsive: bool = False
    """True if the process did not end on request and was killed."""
    silent: bool = False
    """True if the process ended on request, but without its final message."""
    stopped: bool = False
    """True if a signal had stopped the process, so that it could not end on request."""

    def _judge(self) -> Outcome:
        if self.killed:
            return Outcome.UNDECIDED
        well = self.code == 0 and not self.unresponsive and not self.silent
        return Outcome.PASSED if well else Outcome.FAILED

    @property
    def killed(self) -> bool:
        """True if a signal from outside ended the process, for example for lack of memory."""
        return self.stopped or (_name(self.code) in FROM_OUTSIDE and not self.unresponsive)

    @property
    def in_words(self) -> str:
        if self.stopped:
            return f"{_STOPPED}, so it did not end on request and was killed"
        if self.unresponsive:
            return "did not end on request and was killed"
        if self.code >= 0:
            return f"ended with exit status {self.code}{self._by_whom}"
        name = _name(self.code)
        meaning = _MEANINGS.get(name, "")
        return f"was ended by {name}" + (f" ({meaning})" if meaning else "")

    @property
    def _by_whom(self) -> str:
        if found := _LEFT.search(self.stderr):
            return f": the C called exit({self.code}) in its {found[1]}, which must return"
        if found := _THREW.search(self.stderr):
            if lacking := misfit(found[1]):
                return f": {lacking}"
            return f": the C++ code threw {found[1]}, which nothing caught, in its {found[2]}"
        return "" if self.code else " before it had finished: check whether the C calls _exit()"

    @property
    def said(self) -> str:
        """The report of a sanitizer, or the end of stderr."""
        found = _REPORT.search(self.stderr)
        if found is None:
            return _THREW.sub("", _LEFT.sub("", self.stderr))[-_MOST_CHARACTERS:].rstrip()
        report = self.stderr[found.start() :]
        cut = _AFTER_REPORT.search(report)
        return report[: cut.start() if cut else None][:_MOST_CHARACTERS].rstrip()


def _name(code: int) -> str:
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def end_process(process: subprocess.Popen[bytes], patience: float) -> None:
    """Close the input of a process; kill the process after ``patience`` s."""
    with suppress(OSError):
        if process.stdin is not None:
            process.stdin.close()
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


class Stopped(ControllerError):
    """A worker does not answer, because a signal such as SIGSTOP has suspended it."""

    environment = True

    def __init__(self, about: str) -> None:
        super().__init__(
            f"{about} {_STOPPED} (SIGSTOP, or a debugger) and does not answer; start the run again"
        )


class Died(ControllerError):
    """A worker ended without a request to end."""

    def __init__(self, about: str, ending: WorkerEnding) -> None:
        self.ending = ending
        self.environment = ending.outcome is Outcome.UNDECIDED
        said = f"; it said:\n{ending.said}" if ending.said else ""
        super().__init__(f"{about} {ending.in_words}{said}")
