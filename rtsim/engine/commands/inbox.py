"""A queue of commands between the client that sends them and the command handler of the loop.

The client is another thread or process, and receives the outcome of each command.  A replay puts
the recorded commands into the queue, each with its tag.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rtsim.core.clock import Wake
from rtsim.engine.commands.commands import Command, CommandError
from rtsim.engine.system import System
from rtsim.engine.trace import Trace
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

    def attach(self, system: System, pacer: Pacer, trace: Trace) -> None:
        """Prepare for a run; called before the run's first tag."""

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

    def close(self, why: str) -> None:
        """Refuse all waiting and all later commands, with the reason ``why``."""
        self.closed = why
        while self.waiting:
            waiting = self.waiting.popleft()
            if waiting.answer is not None:
                waiting.answer(f"{waiting.command.kind}: {why}", -1)
