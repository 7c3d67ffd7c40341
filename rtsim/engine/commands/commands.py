"""Commands to a run in progress as plain data, and the queue of commands.

A command has a kind, named arguments and three time stamps.  *Initiated* is when the client gave
the command, in ns of the client's wall clock.  *Completed* is when the command reached the run, in
ns of the run's wall clock.  *Arrival* is the tag at which the command acts.

A client puts commands into the queue (``Inbox``), and receives their results. The loop takes
commands from the queue. A replay puts the recorded commands into the queue.
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rtsim.core.clock import Wake, stopwatch
from rtsim.core.errors import RtsimError, UnknownName
from rtsim.timing.frames import NO_SAMPLE

if TYPE_CHECKING:  # the process of a client must not import the engine
    from rtsim.engine.system import System
    from rtsim.engine.trace import Trace
    from rtsim.timing.pacing import Pacer

MOST_NUMBERS = 4096
MOST_TEXT = 1000
MOST_TAGS = 10**9
SLOWEST, FASTEST = 0.01, 1e6
"""Minimum and maximum rate; a slower run would take minutes to react to its next command."""
Argument = float | str | tuple[float, ...]


class CommandError(RtsimError):
    """A command is invalid, or this run cannot execute it.  The run has not changed."""


@dataclass(frozen=True)
class Command:
    """A command with checked arguments; ``kind`` is one of :data:`KINDS`."""

    kind: str
    arguments: Mapping[str, Argument] = field(default_factory=dict)
    initiated_ns: int = 0
    completed_ns: int = 0

    def __str__(self) -> str:
        told = " ".join(f"{k}={_short(v)}" for k, v in self.arguments.items())
        return f"{self.kind} {told}".strip()

    def to_json(self) -> str:
        """Return one line of JSON for ``from_json``."""
        return json.dumps({"kind": self.kind, **self.arguments}, sort_keys=True)


def _short(value: Argument) -> str:
    if isinstance(value, tuple):
        return ",".join(f"{v:g}" for v in value)
    return value if isinstance(value, str) else f"{value:g}"


def _text(value: object) -> str:
    if not isinstance(value, str) or not value or len(value) > MOST_TEXT:
        raise CommandError(f"expected a text of 1 to {MOST_TEXT} characters, got {_shown(value)}")
    if not value.isprintable():
        raise CommandError(f"{_shown(value)} has characters that cannot be printed")
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise CommandError(f"expected a number, got {_shown(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise CommandError(f"expected a finite number, got {_shown(value)}")
    return number


def _positive(value: object) -> float:
    number = _number(value)
    if number <= 0:
        raise CommandError(f"expected a number > 0, got {number:g}")
    return number


def _time(value: object) -> float:
    number = _number(value)
    if number < 0:
        raise CommandError(f"expected a time >= 0, got {number:g}")
    return number


def _rate(value: object) -> Argument:
    if isinstance(value, str) and value == "max":
        return value
    number = _positive(value)
    if not SLOWEST <= number <= FASTEST:
        raise CommandError(
            f"expected max, or a number from {SLOWEST:g} to {FASTEST:g}, got {number:g}"
        )
    return number


def _values(value: object) -> Argument:
    """Return a number or a list of numbers, whose range and shape are checked later."""
    if isinstance(value, list | tuple):
        if not 1 <= len(value) <= MOST_NUMBERS:
            raise CommandError(f"expected 1 to {MOST_NUMBERS} numbers, got {len(value)}")
        return tuple(_number(v) for v in value)
    return _number(value)


def _count(value: object) -> float:
    number = _positive(value)
    if number != round(number) or number > MOST_TAGS:
        raise CommandError(f"expected a whole number of tags from 1 to {MOST_TAGS}, got {number:g}")
    return number


def _start_or_clear(value: object) -> Argument:
    if not isinstance(value, str) or value not in ("start", "clear"):
        raise CommandError(f"expected start or clear, got {_shown(value)}")
    return value


@dataclass(frozen=True)
class CommandKind:
    """The arguments of a kind of command.

    ``needs`` contains required arguments, and ``may`` optional ones. At most one argument of
    ``choice`` may be given.
    """

    says: str
    needs: Mapping[str, Callable[[object], Argument]] = field(default_factory=dict)
    choice: Mapping[str, Callable[[object], Argument]] = field(default_factory=dict)
    may: Mapping[str, Callable[[object], Argument]] = field(default_factory=dict)


KINDS: dict[str, CommandKind] = {
    "pause": CommandKind("Pause the simulation after this tag."),
    "resume": CommandKind("Resume the simulation."),
    "step": CommandKind(
        "Continue to the next tag, to the next tick of a task, or for a duration, and pause.",
        choice={"tags": _count, "task": _text, "duration": _positive},
    ),
    "rate": CommandKind("Set the pace in simulated seconds per second, or max.", {"rate": _rate}),
    "set": CommandKind(
        "Set a parameter or the value of a source; a unit, if given, must be the declared unit.",
        {"target": _text, "value": _values},
        may={"unit": _text},
    ),
    "inject": CommandKind("Send a message on a topic, as if its source had sent it.", {
        "topic": _text, "value": _values}),
    "fault": CommandKind("Start or clear a declared fault.", {
        "name": _text, "do": _start_or_clear}),
    "checkpoint": CommandKind("Save a checkpoint of the run as it is after this tag."),
    "restore": CommandKind(
        "Go back to the checkpoint at or before a time or a number of seconds ago, or to the last.",
        choice={"at": _time, "back": _positive},
    ),
    "mark": CommandKind("Write a text into the recording.", {"text": _text}),
    "quit": CommandKind("End the run after this tag, as at its declared end."),
}  # fmt: skip


def read_command(data: object) -> Command:
    """Return the command in ``{"kind": ..., arguments}``.

    Raises :class:`CommandError` if the command is invalid.
    """
    if not isinstance(data, Mapping) or not isinstance(data.get("kind"), str):
        raise CommandError("a command must be a map with the kind and the arguments of the command")
    name = str(data["kind"])
    if name not in KINDS:
        raise CommandError(str(UnknownName("command", name[:MOST_TEXT], KINDS)))
    kind = KINDS[name]
    given = {str(k): v for k, v in data.items() if k != "kind"}
    known = {**kind.needs, **kind.choice, **kind.may}
    for argument in given:
        if argument not in known:
            raise CommandError(str(UnknownName("argument", argument[:100], known, name)))
    for argument in kind.needs:
        if argument not in given:
            raise CommandError(
                f"{name} needs the arguments {', '.join(kind.needs)}, but {argument} is missing"
            )
    if len(kind.choice.keys() & given.keys()) > 1:
        raise CommandError(
            f"{name} takes only one of the arguments {', '.join(kind.choice)}, but got "
            f"{', '.join(given)}"
        )
    return Command(name, {k: _read(name, k, known[k], v) for k, v in sorted(given.items())})


def _read(command: str, name: str, read: Callable[[object], Argument], value: object) -> Argument:
    try:
        return read(value)
    except CommandError as error:
        where = command if name == command else f"{command}: {name}"
        raise CommandError(f"{where}: {error}") from None


def from_json(text: str) -> Command:
    try:
        data: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CommandError(f"cannot read the command: {error}") from None
    return read_command(data)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


MOST_WAITING = 1024
"""Maximum number of commands that wait for a tag; further commands are rejected."""
NEXT_TAG = -1
"""Time in an answer while the run is paused: the command acts at the next tag after the pause."""

Answer = Callable[[str, int], None]
"""Function that the loop calls with the outcome: an error text or "", and the tag's time, ns."""


@dataclass(frozen=True)
class PendingCommand:
    """A command that waits for its tag."""

    command: Command
    answer: Answer | None = None
    ns: int = 0
    """Time of the tag at which the command acts, ns; 0 for the next tag."""


class Inbox:
    """A queue of commands; neither clients nor the loop wait for it."""

    def __init__(self, fed: Sequence[PendingCommand] = ()) -> None:
        self.waiting: deque[PendingCommand] = deque(fed)
        self.wake = Wake()
        self.given = np.zeros(1, np.int64)
        """Number of commands given so far; compiled code reads it between two frames."""
        self.period_ns = 0
        """Period of the updates that clients request, ns of the wall clock; 0 without clients."""
        self.closed = ""
        """Reason why commands are rejected; "" if they are accepted."""
        self.trouble = ""
        """Reason why clients can no longer reach the run; "" if they can."""
        self.unrecorded = ""
        """When and why the recording stopped; "" if the run is recorded."""
        self.announced = False
        """True if each command inserts a tag, so that other tags need not check for commands."""
        self.standing = False
        """True if the run starts paused, because it was paused when it was restored."""

    def attach(self, system: System, pacer: Pacer, trace: Trace) -> None:  # noqa: ARG002
        """Prepare for a run; called before its first tag."""
        self._system, self._pacer = system, pacer

    def state(self, ns: int, wall_ns: int, standing: bool) -> dict[str, Any]:
        """Return the state of the run for clients, with times in ns.

        ``rate`` is 0 in a run without real time. ``lateness_ns`` is -1 if it is unknown.
        """
        pacer, controllers = self._pacer, self._system.controllers
        lateness = pacer.log.last[0]
        return {
            "ns": ns, "wall_ns": wall_ns, "standing": standing,
            "rate": float(getattr(pacer.clock, "rate", 0.0)) if pacer.clock.paced else 0.0,
            "late": sum(c.lates for c in controllers),
            "missed": sum(c.missed for c in controllers),
            "overruns_compute": pacer.overruns["compute"],
            "overruns_wake": pacer.overruns["wake"],
            "margin_ns": pacer.margin_ns, "frames": pacer.log.frames,
            "lateness_ns": -1 if lateness == NO_SAMPLE else lateness,
        }  # fmt: skip

    def fileno(self) -> int:
        """Return the file descriptor from which ``poll`` reads, or -1."""
        return -1

    def poll(self) -> None:
        """Read new commands, for example from a pipe."""

    def goes_on(self, **about: object) -> None:
        """Report that the run continues from a checkpoint."""

    def lose_recording(self, since: str) -> None:
        """Report to the clients that the recording has stopped."""
        self.unrecorded = since

    def watched(self, found: Sequence[Mapping[str, Any]]) -> None:
        """Report the changed robustness of requirements to the clients."""

    def figures(self) -> dict[str, Any]:
        """Return data about the clients for the footer of the recording."""
        return {}

    def after(self, ns: int, standing: bool) -> None:
        """Report that the tag at ``ns`` is complete; ``standing`` is True during a pause."""

    def wait(self, seconds: float) -> None:
        """Wait at most ``seconds`` for a command while the run is paused."""
        self.wake.clear()
        if not self.waiting:
            self.wake.wait(seconds)

    def give(self, command: Command, answer: Answer | None = None) -> None:
        """Queue a command; raise :class:`CommandError` if the queue is full or closed."""
        if self.closed:
            raise CommandError(f"{command.kind}: {self.closed}")
        if len(self.waiting) >= MOST_WAITING:
            raise CommandError(
                f"the command was refused, because {MOST_WAITING} commands are already waiting "
                "for the run; send commands more slowly"
            )
        self.waiting.append(PendingCommand(command, answer))
        self.given[0] += 1
        self.wake.set()

    def take(self, data: object, initiated_ns: int, answer: Answer) -> None:
        """Queue the command in ``data``, or answer why it is rejected."""
        try:
            command = read_command(data)
            stamped = replace(command, initiated_ns=initiated_ns, completed_ns=stopwatch())
            self.give(stamped, answer)
        except CommandError as error:
            answer(str(error), -1)

    def close(self, why: str) -> None:
        """Reject all waiting and all later commands for the reason ``why``."""
        self.closed = why
        while self.waiting:
            waiting = self.waiting.popleft()
            if waiting.answer is not None:
                waiting.answer(f"{waiting.command.kind}: {why}", -1)
