"""A queue of commands between the client that sends them and the command handler of the loop.

The client is another thread or process, and receives the outcome of each command.  A replay puts
the recorded commands into the queue, each with its tag.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rtsim.core.clock import Wake, stopwatch
from rtsim.engine.commands.commands import Command, CommandError, read_command
from rtsim.engine.system import System
from rtsim.engine.trace import Trace
from rtsim.timing.frames import NO_SAMPLE
from rtsim.timing.pacing import Pacer

MOST_WAITING = 1024
"""The most commands that can wait for a tag; further commands are refused."""
NEXT_TAG = -1
"""Stands for a time if the run is paused: the command acts at the next tag after the pause."""

Answer = Callable[[str, int], None]
"""A function that the loop calls with the outcome: an error text or "", and the tag's time, ns."""


@dataclass(frozen=True)
class PendingCommand:
    """A command that acts at the next tag, or in a replay at the tag at ``ns``."""

    command: Command
    answer: Answer | None = None
    ns: int = 0
    """Time of the tag at which the command acts, ns; 0 for the next tag."""


class Inbox:
    """A queue of pending commands that blocks neither the sender nor the loop."""

    def __init__(self, fed: Sequence[PendingCommand] = ()) -> None:
        self.waiting: deque[PendingCommand] = deque(fed)
        self.wake = Wake()
        self.given = np.zeros(1, np.int64)
        """Number of commands given so far; compiled code reads it between two frames."""
        self.period_ns = 0
        """How often clients want to see the run, ns of the wall clock; 0 if none does."""
        self.closed = ""
        """Reason why commands are refused; empty if commands are accepted."""
        self.trouble = ""
        """Reason why clients cannot reach the run any more; empty if they can."""
        self.unrecorded = ""
        """Time from which on the run is not recorded, and the reason; empty if it is recorded."""
        self.standing = False
        """True if the run starts paused, because it was paused when it was restored."""

    def attach(self, system: System, pacer: Pacer, trace: Trace) -> None:  # noqa: ARG002
        """Prepare for a run; called before the run's first tag."""
        self._system, self._pacer = system, pacer

    def state(self, ns: int, wall_ns: int, standing: bool) -> dict[str, Any]:
        """Return the state of the run after the tag at ``ns``, as all clients see it; times in ns.

        ``rate`` is 0 if the run is as fast as possible, and ``lateness_ns`` -1 if it is not known.
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
        """Return the file from which :meth:`poll` reads; -1 if there is none."""
        return -1

    def poll(self) -> None:
        """Read new commands, for example from a pipe; the loop calls this at each tag."""

    def goes_on(self, **about: object) -> None:
        """Note that the run was restored and continues; ``about`` has its new properties."""

    def lose_recording(self, since: str) -> None:
        """Note that the run is not recorded any more, so that clients can be informed."""
        self.unrecorded = since

    def figures(self) -> dict[str, Any]:
        """Return data about the clients for the footer of the recording."""
        return {}

    def after(self, ns: int, standing: bool) -> None:
        """Report that the tag at ``ns`` is done; ``standing``: that the run is paused after it."""

    def wait(self, seconds: float) -> None:
        """Wait at most ``seconds`` for a command while the run is paused."""
        self.wake.clear()
        if not self.waiting:
            self.wake.wait(seconds)

    def give(self, command: Command, answer: Answer | None = None) -> None:
        """Queue a command; raises :class:`CommandError` if the queue is full or closed."""
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
        """Queue the command of :func:`read_command` in ``data``, or answer why it is refused."""
        try:
            command = read_command(data)
            stamped = replace(command, initiated_ns=initiated_ns, completed_ns=stopwatch())
            self.give(stamped, answer)
        except CommandError as error:
            answer(str(error), -1)

    def close(self, why: str) -> None:
        """Refuse all waiting and all later commands, with the reason ``why``."""
        self.closed = why
        while self.waiting:
            waiting = self.waiting.popleft()
            if waiting.answer is not None:
                waiting.answer(f"{waiting.command.kind}: {why}", -1)
