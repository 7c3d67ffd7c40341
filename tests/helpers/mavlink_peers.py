"""The other end of a MAVLink link: an autopilot of a few lines over pymavlink, in a thread."""

from __future__ import annotations

import os
import select
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from pymavlink.dialects.v20 import common

GAIN = -2.0
Exchange = tuple[Callable[[float], bytes], Callable[[bytes], Any]]
"""How to receive bytes within a time in s, and how to send them."""


class Autopilot:
    """Answers each HIL_SENSOR with HIL_ACTUATOR_CONTROLS: the control is GAIN times a rate."""

    def __init__(self, exchange: Exchange, **wrong: Any) -> None:
        self._receive, self._send = exchange
        self._wrong = wrong
        self._mavlink = common.MAVLink(None, srcSystem=1, srcComponent=1)
        self._mavlink.robust_parsing = True
        self.got: dict[str, list[Any]] = {}
        self.bad = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.is_set():
            with suppress(OSError):
                self._take(self._receive(0.05))

    def _take(self, data: bytes) -> None:
        for message in self._mavlink.parse_buffer(data) or ():
            if message.get_type() == "BAD_DATA":
                self.bad += 1
                continue
            self.got.setdefault(message.get_type(), []).append(message)
            if message.get_type() == "HIL_SENSOR":
                self._answer(message)

    def _answer(self, sensor: Any) -> None:
        stale = self._wrong.get("stale", 0)
        if 0 < stale <= sensor.time_usec:
            self._pack(sensor.time_usec - stale, 0.75)
        if self._wrong.get("garbage"):
            self._send(b"\xfd\x09\x00garbage" + bytes(range(64)))
        self._pack(sensor.time_usec, GAIN * sensor.xgyro)

    def _pack(self, time_usec: int, control: float) -> None:
        flags = self._wrong.get("flags", 1)
        message = common.MAVLink_hil_actuator_controls_message(
            time_usec, [control, *[0.0] * 15], 128, flags
        )
        data = message.pack(self._mavlink)
        self._mavlink.seq = (self._mavlink.seq + self._wrong.get("steps", 1)) % 256
        self._send(data)

    def close(self) -> None:
        self._ended.set()
        self._thread.join()


def over_socket(end: socket.socket, to: Any = None) -> Exchange:
    """Exchange bytes over a socket, which is connected or sends to an address."""

    def receive(timeout: float) -> bytes:
        return end.recv(65_536) if select.select([end], [], [], timeout)[0] else b""

    return receive, (end.sendall if to is None else lambda data: end.sendto(data, to))


def over_file(number: int) -> Exchange:
    """Exchange bytes over a file, such as a pseudo-terminal."""

    def receive(timeout: float) -> bytes:
        return os.read(number, 65_536) if select.select([number], [], [], timeout)[0] else b""

    return receive, lambda data: os.write(number, data)
