"""A serial port by pyserial; the only module that knows it."""

from __future__ import annotations

import os
import select
from typing import Any

from hitl.boards.contract import BoardError, BoardGone

_WRITE_PATIENCE_S = 10.0
_INSTALL = "pip install 'rtsim[pitl]'"


def pyserial() -> Any:
    """The module; :class:`BoardError` with what to type where it is not installed."""
    try:
        import serial
    except ModuleNotFoundError as error:
        if error.name != "serial":
            raise
        raise BoardError(f"a serial port needs pyserial; type: {_INSTALL}") from None
    return serial


class SerialLink:
    """A :class:`hitl.boards.contract.BoardLink` over the port ``port`` at ``baud`` bit/s, 8N1.

    Opening it resets an Uno (DTR): its boot loader takes the line for about a second.
    """

    def __init__(self, port: str, baud: int) -> None:
        serial = pyserial()
        self._name = f"serial port {port}"
        self._early = b""
        try:
            self._port: Any = serial.Serial(port, baud, timeout=0, write_timeout=_WRITE_PATIENCE_S)
        except (OSError, ValueError) as error:
            raise BoardGone(f"cannot open {self._name}: {_reason(error)}; {_hint(port)}") from None

    def send(self, data: bytes) -> None:
        port = self._open()
        try:
            port.write(data)
            port.flush()
        except OSError as error:
            raise BoardGone(f"{self._name} took nothing: {_reason(error)}") from None

    def receive(self) -> bytes:
        port = self._open()
        early, self._early = self._early, b""
        try:
            return early + bytes(port.read(port.in_waiting))
        except (OSError, TypeError) as error:
            raise BoardGone(f"{self._name} is gone: {_reason(error)}; is it plugged in?") from None

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
            raise BoardGone(f"{self._name} is gone: {_reason(error)}; is it plugged in?") from None
        return bool(self._early)

    def close(self) -> None:
        if self._port is not None:
            self._port.close()
            self._port = None

    def _open(self) -> Any:
        if self._port is None:
            raise BoardError(f"{self._name} is closed")
        return self._port


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def _hint(port: str) -> str:
    if os.name == "posix" and os.path.exists(port) and not os.access(port, os.R_OK | os.W_OK):
        return "it is not yours: sudo usermod -aG dialout $USER, then log in again"
    return "type: python -m serial.tools.list_ports   to see what is plugged in"
