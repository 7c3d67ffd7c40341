"""The contract of a link that carries frames; ``check_frame_link`` checks it."""

from __future__ import annotations

from typing import Protocol

from rtsim.components.frames import Frame
from rtsim.core.errors import ControllerError


class LinkError(ControllerError):
    """A link cannot be opened, or is broken."""


class FrameLink(Protocol):
    """An open connection that carries whole frames, of which some may be lost."""

    addressed: bool
    """True if frames have identifiers, so that frames for others pass by, as on a CAN bus."""

    def send(self, frame: Frame) -> None:
        """Send a frame; must not wait for a receiver.  Raises :class:`LinkError`."""
        ...

    def receive(self, timeout: float) -> Frame | None:
        """Return the next frame, or None if none arrives within ``timeout`` s; 0: do not wait.

        Raises :class:`LinkError` if the link is broken or closed, and
        :class:`rtsim.components.frames.FrameError` if something arrived that is no frame.
        """
        ...

    def close(self) -> None:
        """Close the link; a second call does nothing."""
        ...
