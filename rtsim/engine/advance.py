"""Interface of engines, which run many tags in compiled code.

The main loop calls the engines in turn. T The interpreter executes all tags that no engine can run.
Engines must give the same results as the interpreter.
"""

from __future__ import annotations

from typing import Protocol


class Loop(Protocol):
    """Attributes of the main loop that an engine may read and change."""

    @property
    def stopping(self) -> str:
        """Why the loop ends after the present tag; empty otherwise."""
        ...

    def limit_ns(self) -> int:
        """Return the next time (ns) at which the loop must act."""
        ...

    def between(self, ns: int) -> bool:
        """Record the rows up to the tag at ``ns``; return whether the engine must stop."""
        ...

    def interrupt_check(self) -> None:
        """Raise ``Interrupted`` during a long step if the run must end."""
        ...


class Engine(Protocol):
    """Interface of engines that run many tags in one call."""

    def advance(self, loop: Loop) -> bool:
        """Run tags before ``loop.limit_ns()``, up to a tag that needs the interpreter.

        Returns False if no tag was run.
        """
        ...
