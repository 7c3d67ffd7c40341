"""A pseudo-terminal: any program can open its far end as a serial port.  POSIX only."""

from __future__ import annotations

import contextlib
import os
import select
import sys
from pathlib import Path

from hitl.boards.contract import BoardError
from hitl.boards.known import DEFAULT_URL

MOST_READ = 4096
_HUNG_UP = 0x10  # POLLHUP, which Windows lacks


class Terminal:
    """The near end of a pseudo-terminal; a client opens the far end as a serial port.

    ``link`` is a symbolic link that will point to the port.  The port is raw and does not echo.
    This process keeps no descriptor of the far end; otherwise it could not see that no client has
    the port open.  Raises :class:`BoardError` on Windows, or if the link cannot be made.
    """

    def __init__(self, link: Path | None = None) -> None:
        if sys.platform == "win32" or not hasattr(os, "openpty"):
            raise BoardError(
                "a served board needs a pseudo-terminal, and Windows has none; "
                f"use {DEFAULT_URL} in lockstep, or a board at a real port: serial://COM3"
            )
        import tty

        self._near, far = os.openpty()
        self._link: Path | None = None
        try:
            tty.setraw(far)
            self.port = os.ttyname(far)
            os.set_blocking(self._near, False)
            self._poll = select.poll()
            self._poll.register(self._near, select.POLLIN)
            if link is not None:
                self._point(link)
        except BaseException:
            self.close()
            raise
        finally:
            os.close(far)
        self.open = False
        """True if a client had the port open at the last call of :meth:`opened`."""
        self.unread = 0
        """Bytes that no client read: the port was not open, or the client did not read."""

    def fileno(self) -> int:
        return self._near

    def opened(self) -> bool:
        """Return True if another process has opened the free port since the last call."""
        events = self._poll.poll(0)
        free = bool(events) and bool(events[0][1] & _HUNG_UP) and not events[0][1] & select.POLLIN
        if self.open == (not free):
            return False
        self.open = not free
        if free:
            self._forget()
        return self.open

    def read(self) -> bytes:
        """Return the bytes that the client wrote, without waiting (``b""`` if there are none)."""
        try:
            return os.read(self._near, MOST_READ)
        except OSError:  # no bytes (EAGAIN) or no client (EIO)
            return b""

    def write(self, data: bytes) -> None:
        """Send ``data`` to the client; bytes that no client takes are lost and counted."""
        taken = 0
        if self.open:
            with contextlib.suppress(OSError):
                taken = os.write(self._near, data)
        self.unread += len(data) - taken

    def close(self) -> None:
        """Close the port and remove its link."""
        if self._link is not None:
            with contextlib.suppress(OSError):
                if os.readlink(self._link) == self.port:
                    self._link.unlink()
            self._link = None
        if self._near >= 0:
            os.close(self._near)
            self._near = -1

    def _forget(self) -> None:
        """Drop the bytes that the last client left unread; the next client must not get them."""
        if sys.platform != "win32":
            import termios

            with contextlib.suppress(OSError, termios.error):
                far = os.open(self.port, os.O_RDWR | os.O_NOCTTY)
                try:
                    termios.tcflush(far, termios.TCIFLUSH)
                finally:
                    os.close(far)

    def _point(self, link: Path) -> None:
        """Make ``link`` point to the port; replace a broken link that a killed server left."""
        try:
            if link.is_symlink() and not link.exists():
                link.unlink()
            link.symlink_to(self.port)
        except FileExistsError:
            raise BoardError(
                f"cannot make the link {link}: a file with this name exists; remove the file, "
                "or give another --link"
            ) from None
        except OSError as error:
            raise BoardError(f"cannot write the link {link}: {error.strerror}") from None
        self._link = link
