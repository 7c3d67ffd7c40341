"""The two kinds of link to a worker: ZeroMQ, and memory that both processes share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

from rtsim.core.errors import ScenarioError, UnknownName

SHM, ZMQ = "shm", "zmq"
LINKS = (SHM, ZMQ)
"""Names of the links: shared memory, and ZeroMQ."""


class Link(Protocol):
    """A connection to one worker, which sends and receives one message at a time."""

    endpoint: str
    """What the worker is given to connect to, and the link's name in error messages."""

    def hide(self) -> None:
        """Remove what is needed only until both ends are connected."""
        ...

    def send(self, data: bytes | memoryview) -> bool:
        """Send ``data``; return False if the other end is gone or its queue is full."""
        ...

    def receive(self, until_ns: int = 0) -> bytes | None:
        """Return the next message, or ``None`` if none arrived.

        Waits for a short time, at most until ``until_ns`` of the stopwatch.
        """
        ...

    def lost(self) -> bool:
        """Return True if the other end was connected and has disconnected."""
        ...

    def close(self) -> None: ...


def chosen_link(asked: str | None, library: Path, *, ours: bool, served: bool) -> str:
    """Return the link to use: ``asked``, or by default shared memory where it is possible.

    ``library`` is the runtime's end of shared memory in the worker's build.  ``ours`` is true if
    the worker is a build of rtsim; another program may know ZeroMQ only.  ``served`` is true if the
    worker is behind ``rtsim sil serve``.  Raises :class:`ScenarioError` if ``asked`` is impossible.
    """
    if asked not in (None, *LINKS):
        raise UnknownName("link", asked, list(LINKS), "a worker")
    if served:
        if asked == SHM:
            raise ScenarioError(
                "a worker behind 'rtsim sil serve' cannot share memory with this process; use "
                "--link zmq"
            )
        return ZMQ
    shares = hasattr(os, "memfd_create") and library.is_file()
    if asked == SHM and not shares:
        raise ScenarioError(
            "the link over shared memory needs Linux, and a worker that was built on this "
            "machine; use --link zmq"
        )
    return asked or (SHM if ours and shares else ZMQ)
