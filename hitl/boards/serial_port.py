"""A board at a serial port. Only this module uses pyserial."""

from __future__ import annotations

import errno
import os
import select
import sys
from contextlib import suppress
from typing import Any

if sys.platform != "win32":
    import fcntl
    import termios

from hitl.boards.contract import BoardError, BoardGone
from hitl.boards.known import BOARDS, board_named

_WRITE_PATIENCE_S = 10.0
_INSTALL = "pip install 'rtsim[pitl]'"
_PSEUDO = "/dev/pts/"
_IN_USE = (errno.EBUSY, errno.EAGAIN)
"""Error numbers for a port that another program has locked or opened exclusively."""


def pyserial() -> Any:
    """Return the module ``serial``.

    Raises ``BoardError``, with the command for the installation, if pyserial is missing.
    """
    try:
        import serial
    except ModuleNotFoundError as error:
        if error.name != "serial":
            raise
        raise BoardError(f"a serial port needs pyserial; type: {_INSTALL}") from None
    return serial


class SerialLink:
    """A :class:`hitl.boards.contract.BoardLink` over the port ``port`` at ``baud`` bit/s, 8N1.

    Opening the port resets most boards, and the boot loader then uses the line for about a second.
    No other program can open the port until ``close``. Raises ``hitl.boards.contract.BoardGone`` if
    the port cannot be opened.
    """

    def __init__(self, port: str, baud: int) -> None:
        serial = pyserial()
        self._name = f"serial port {port}"
        self._early = b""
        self._pseudo = os.path.realpath(port).startswith(_PSEUDO)
        try:
            self._port: Any = serial.Serial(
                port, baud, timeout=0, write_timeout=_WRITE_PATIENCE_S, exclusive=True
            )
        except (OSError, ValueError) as error:
            if getattr(error, "errno", None) in _IN_USE:
                raise BoardGone(
                    f"cannot open {self._name}: another program uses it; end that program (type: "
                    f"fuser -v {port}   to see it), or give another port"
                ) from None
            raise BoardGone(f"cannot open {self._name}: {_reason(error)}; {_hint(port)}") from None
        self._keep_others_out(True)

    def send(self, data: bytes) -> None:
        port = self._open()
        try:
            port.write(data)
            port.flush()
        except OSError as error:
            raise BoardGone(
                f"cannot write to {self._name}: {_reason(error)}; check the board and its cable"
            ) from None

    def receive(self) -> bytes:
        port = self._open()
        early, self._early = self._early, b""
        try:
            return early + bytes(port.read(port.in_waiting))
        except (OSError, TypeError) as error:
            raise BoardGone(_lost(self._name, error)) from None

    def wait(self, timeout: float) -> bool:
        port = self._open()
        if self._early:
            return True
        try:
            if os.name == "posix":
                return bool(select.select([port.fileno()], [], [], max(0.0, timeout))[0])
            port.timeout = max(0.0, timeout)
            self._early = bytes(port.read(1))
            port.timeout = 0
        except OSError as error:
            raise BoardGone(_lost(self._name, error)) from None
        return bool(self._early)

    def close(self) -> None:
        if self._port is not None:
            self._keep_others_out(False)
            self._port.close()
            self._port = None

    def _keep_others_out(self, out: bool) -> None:
        if sys.platform != "win32" and not self._pseudo:
            with suppress(OSError):  # the device may be gone
                fcntl.ioctl(self._port.fileno(), termios.TIOCEXCL if out else termios.TIOCNXCL)

    def _open(self) -> Any:
        if self._port is None:
            raise BoardError(f"{self._name} is closed")
        return self._port


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def _lost(name: str, error: Exception) -> str:
    return f"the connection to {name} is lost: {_reason(error)}; check the board and its cable"


def _hint(port: str) -> str:
    if os.name == "posix" and os.path.exists(port) and not os.access(port, os.R_OK | os.W_OK):
        return "you may not use this port; type: sudo usermod -aG dialout $USER   then log in again"
    return _known_ports()


def _known_ports() -> str:
    from serial.tools.list_ports import comports

    ids = {usb: board.title for board in map(board_named, BOARDS) for usb in board.usb}
    ports = sorted(comports(), key=lambda port: port.device)
    ports = [port for port in ports if port.vid is not None] or ports
    found = [(port.device, ids.get((port.vid, port.pid), "")) for port in ports]
    if not found:
        return "this machine has no serial port; check the board and its cable"
    names = (f"{name} ({title})" if title else name for name, title in found)
    return f"the ports of this machine are {', '.join(names)}"
