"""Interface of engines, which run several tags at once without the interpreter.

The main loop calls each engine in turn.  The interpreter runs each tag that no engine runs.  Each
engine must give the same results as the interpreter.
"""

from __future__ import annotations

from typing import Protocol


class Loop(Protocol):
    """The attributes of a run's main loop that an engine may read and change."""

    @property
    def stopping(self) -> str:
        """Reason why the loop ends after the present tag; empty if the loop continues."""
        ...

    def limit_ns(self) -> int:
        """Return the earliest time at which the loop must act, ns."""
        ...

    def between(self, ns: int) -> bool:
        """Record all rows up to the tag at ``ns``; return whether the engine must stop."""
        ...

    def interrupt_check(self) -> None:
        """During a long step, raise ``Interrupted`` if the run must end at once."""
        ...


class Engine(Protocol):
    """Interface of engines that run many tags in one call, such as the compiled engine."""

    def advance(self, loop: Loop) -> bool:
        """Run the tags before ``loop.limit_ns()``, but stop at a tag that needs the interpreter.

        Returns False if no tag was run.
        """
        ...
