"""A pseudo-terminal whose far end any program opens as a serial port.  POSIX."""

from __future__ import annotations

import contextlib
import os
import select
import sys
from pathlib import Path

from hitl.boards.contract import BoardError

MOST_READ = 4096
_HUNG_UP = 0x10  # POLLHUP, which Windows lacks


class Terminal:
    """The near end: what a client writes is read here.  ``link``: a name for it in the file system.

    The port is raw and does not echo.  Only while nobody has it open is it known to be free, so
    this side holds no descriptor of the far end.
    """

    def __init__(self, link: Path | None = None) -> None:
        if sys.platform == "win32" or not hasattr(os, "openpty"):
            raise BoardError(
                "a served board needs a pseudo-terminal, which Windows has not; "
                "fly the emulated one in lockstep, or type a real port: serial://COM3"
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
        """A client has it open, as far as was seen."""
        self.unread = 0
        """Bytes that nobody took: no client, or one that does not read."""

    def fileno(self) -> int:
        return self._near

    def opened(self) -> bool:
        """Look who is there: True once for each opening of a port that was free."""
        events = self._poll.poll(0)
        free = bool(events) and bool(events[0][1] & _HUNG_UP) and not events[0][1] & select.POLLIN
        if self.open == (not free):
            return False
        self.open = not free
        if free:
            self._forget()
        return self.open

    def read(self) -> bytes:
        """What the client wrote; never waits."""
        try:
            return os.read(self._near, MOST_READ)
        except OSError:  # nothing there (EAGAIN), or nobody (EIO)
            return b""

    def write(self, data: bytes) -> None:
        """To the client; as on a wire, what nobody takes is gone, and counted."""
        taken = 0
        if self.open:
            with contextlib.suppress(OSError):
                taken = os.write(self._near, data)
        self.unread += len(data) - taken

    def close(self) -> None:
        """The port and its link are gone."""
        if self._link is not None:
            with contextlib.suppress(OSError):
                if os.readlink(self._link) == self.port:
                    self._link.unlink()
            self._link = None
        if self._near >= 0:
            os.close(self._near)
            self._near = -1

    def _forget(self) -> None:
        """What the client that went has left unread is not for the next one."""
        if sys.platform != "win32":
            import termios

            with contextlib.suppress(OSError, termios.error):
                far = os.open(self.port, os.O_RDWR | os.O_NOCTTY)
                try:
                    termios.tcflush(far, termios.TCIFLUSH)
                finally:
                    os.close(far)

    def _point(self, link: Path) -> None:
        """``link`` leads to the port; one that leads nowhere, from a server that was killed, may
        be replaced."""
        try:
            if link.is_symlink() and not link.exists():
                link.unlink()
            link.symlink_to(self.port)
        except FileExistsError:
            raise BoardError(f"{link} is in the way; remove it, or give another --link") from None
        except OSError as error:
            raise BoardError(f"cannot write the link {link}: {error.strerror}") from None
        self._link = link
