"""The contract of a link that carries frames; ``check_frame_link`` tests a link against it."""

from __future__ import annotations

from typing import Protocol

from rtsim.components.frames import Frame
from rtsim.core.errors import ControllerError


class LinkError(ControllerError):
    """A link cannot be opened, or has failed."""


class FrameLink(Protocol):
    """An open connection that carries whole frames and may lose some of them."""

    addressed: bool
    """True if frames have identifiers, so that frames for other nodes also arrive, as on CAN."""

    def send(self, frame: Frame) -> None:
        """Send a frame without waiting for a receiver; raise :class:`LinkError` on failure."""
        ...

    def receive(self, timeout: float) -> Frame | None:
        """Return the next frame, or None if no frame arrives within ``timeout`` s.

        With ``timeout`` 0, the method does not wait.  Raises :class:`LinkError` if the link has
        failed or is closed.  Raises :class:`rtsim.components.frames.FrameError` if the received
        data is not a frame.
        """
        ...

    def close(self) -> None:
        """Close the link; a second call has no effect."""
        ...
