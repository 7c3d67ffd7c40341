"""A queue of commands between the client that sends them and the command handler of the loop.

The client is another thread or process, and receives the outcome of each command.  A replay puts
the commands of the recording here, by tag.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rtsim.core.clock import Wake
from rtsim.engine.commands.commands import Command, CommandError
from rtsim.engine.system import System
from rtsim.engine.trace import Trace
from rtsim.timing.pacing import Pacer

MOST_WAITING = 1024
"""Commands that may wait for a tag; more are refused."""
NEXT_TAG = -1
"""Told instead of a tag's ns: simulated time stands, and it acts when that goes on."""

Answer = Callable[[str, int], None]
"""Told ``(what went wrong or "", ns of the tag at which it acts)``; called from the loop."""


@dataclass(frozen=True)
class PendingCommand:
    """A command that has arrived and acts at the next tag, or, in a replay, at that of ``ns``."""

    command: Command
    answer: Answer | None = None
    ns: int = 0
    """Of the tag, where it is one to come."""


class Inbox:
    """A queue of pending commands that blocks neither the sender nor the loop."""

    def __init__(self, fed: Sequence[PendingCommand] = ()) -> None:
        self.waiting: deque[PendingCommand] = deque(fed)
        self.wake = Wake()
        self.closed = ""
        """Why nothing more is taken."""
        self.trouble = ""
        """Why nobody is heard any more, before the run was over."""
        self.unrecorded = ""
        """From when on the run is not recorded, and why."""
        self.standing = False
        """The run stands where it begins: it was restored while it stood."""

    def attach(self, system: System, pacer: Pacer, trace: Trace) -> None:
        """Before the run: what can be told and what it would be told of."""

    def poll(self) -> None:
        """At a tag, before what waits is taken: where it comes through a pipe, look there."""

    def goes_on(self, **about: object) -> None:
        """The run was restored and goes on: what is new ``about`` it, before it does."""

    def lose_recording(self, since: str) -> None:
        """The run is not recorded any more: for who is at the other side."""
        self.unrecorded = since

    def figures(self) -> dict[str, Any]:
        """For the recording's footer: what is known at the end of who was at the other side."""
        return {}

    def after(self, ns: int, standing: bool) -> None:
        """The tag at ``ns`` is done, or simulated time stands there: a place to tell of it."""

    def wait(self, seconds: float) -> None:
        """While simulated time stands: until something comes."""
        self.wake.clear()
        if not self.waiting:
            self.wake.wait(seconds)

    def give(self, command: Command, answer: Answer | None = None) -> None:
        """Queue a command; :class:`CommandError` if the queue is full or closed."""
        if self.closed:
            raise CommandError(f"{command.kind}: {self.closed}")
        if len(self.waiting) >= MOST_WAITING:
            raise CommandError(
                f"{MOST_WAITING} commands are waiting for the run; send them more slowly"
            )
        self.waiting.append(PendingCommand(command, answer))
        self.wake.set()

    def close(self, why: str) -> None:
        """Refuse all waiting and all later commands, with the reason ``why``."""
        self.closed = why
        while self.waiting:
            waiting = self.waiting.popleft()
            if waiting.answer is not None:
                waiting.answer(f"{waiting.command.kind}: {why}", -1)
