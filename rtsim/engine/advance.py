"""What runs the tags of a run that Python need not see one by one.

The main loop asks each engine in turn to advance.  If none does, the next tag is one that Python
must see, and the interpreter runs it; it defines the result of all engines.
"""

from __future__ import annotations

from typing import Protocol


class Loop(Protocol):
    """The main loop of a run, for an engine."""

    @property
    def stopping(self) -> str:
        """Why the loop ends after the present tag; empty if it continues."""
        ...

    def limit_ns(self) -> int:
        """Return the time before which the loop has nothing to do, ns."""
        ...

    def between(self, ns: int) -> bool:
        """Hand over the rows up to the tag at ``ns``; return whether the engine has to stop."""
        ...

    def interrupt_check(self) -> None:
        """Raise :class:`Interrupted` to end the run at once; for a step that takes long."""
        ...


class Engine(Protocol):
    """A way to run many tags: the compiled engine, or a batch of processes."""

    def advance(self, loop: Loop) -> bool:
        """Run tags before ``loop.limit_ns()``, up to the next tag that Python must see.

        Returns False if no tag was run.
        """
        ...
