"""Ctrl-C, SIGTERM and SIGHUP end a run alike: the recording is finished, then the command ends."""

from __future__ import annotations

from contextlib import AbstractContextManager

from rtsim.core.raised import interrupt, on_signals


def sigterm_interrupts() -> AbstractContextManager[None]:
    """Within this, each of them raises :class:`~rtsim.core.raised.Interrupted`; in the main
    thread."""
    return on_signals(interrupt)
