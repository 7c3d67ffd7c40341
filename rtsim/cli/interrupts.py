"""Ctrl-C, SIGTERM and SIGHUP end a run: the recording is completed, then the command ends."""

from __future__ import annotations

from contextlib import AbstractContextManager

from rtsim.core.raised import interrupt, on_signals


def sigterm_interrupts() -> AbstractContextManager[None]:
    """Context in which Ctrl-C, SIGTERM and SIGHUP raise :class:`~rtsim.core.raised.Interrupted`.

    The context must be entered in the main thread.
    """
    return on_signals(interrupt)
