"""CAN links via python-can, for virtual buses and for adapters.

Names of interfaces, channels and options are those of python-can. If the channel consists of
digits, python-can receives it as a number, except for virtual buses.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from inspect import signature
from typing import Any

from hitl.buses.contract import LinkError
from rtsim.components.frames import Frame, FrameError
from rtsim.components.frames.contract import hexadecimal
from rtsim.core.clock import stopwatch
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.extras import extra
from rtsim.core.tag import NS_PER_S

_MULTICAST = "udp_multicast"
_MOST_ECHOES = 1024
_STRICT = ("virtual", _MULTICAST)
"""Interfaces that accept only known options.  Adapters may accept any option."""
_NETWORKED = ("socketcand",)


class CanLink:
    """A CAN bus, opened by python-can.

    ``options`` are passed to python-can.  ``remote`` allows frames of a multicast or networked bus
    to leave this machine.  Raises :class:`LinkError` if the bus cannot be opened.
    """

    addressed = True

    def __init__(
        self, text: str, interface: str, channel: str, options: Mapping[str, str], remote: bool
    ) -> None:
        self._can = can = extra("can", "can", "a CAN bus")
        self._name = text
        known = sorted(can.interfaces.VALID_INTERFACES)
        if interface not in known:
            raise UnknownName("CAN interface", interface, known, text)
        if not channel:
            raise ScenarioError(
                f"{text}: the URL names no channel; write can://{interface}/CHANNEL"
            )
        number = channel.isascii() and channel.isdecimal() and interface != "virtual"
        given: dict[str, Any] = {name: _value(value) for name, value in options.items()}
        if interface in _NETWORKED and not remote:
            raise ScenarioError(
                f"{text}: {interface} sends frames over a network; add remote=yes to the URL if "
                "they may leave this machine (they are not encrypted)"
            )
        if interface == _MULTICAST:
            given = {"hop_limit": 1 if remote else 0, "fd": False, **given}
            if given["hop_limit"] != 0 and not remote:
                raise ScenarioError(
                    f"{text}: with hop_limit={given['hop_limit']}, frames leave this machine "
                    "without encryption; add remote=yes to the URL to allow this"
                )
        self._echoes: deque[Frame] = deque(maxlen=_MOST_ECHOES)
        """Frames sent by multicast, which this end will receive as well."""
        self._hears_itself = interface == _MULTICAST
        try:
            self._bus: Any = can.Bus(
                interface=interface, channel=int(channel) if number else channel, **given
            )  # fmt: skip
        except TypeError as error:
            raise ScenarioError(f"{text}: python-can refuses these options: {error}") from None
        except (can.CanError, ValueError, OSError, ImportError, AttributeError) as error:
            raise LinkError(
                f"cannot open {text}: {str(error) or type(error).__name__}; check that the adapter "
                f"is there and that python-can's interface {interface} is installed"
            ) from None
        if interface in _STRICT:
            self._refuse_unknown(options)

    def _refuse_unknown(self, options: Mapping[str, str]) -> None:
        """Raise :class:`UnknownName` for an option that python-can would ignore."""
        # Without the parameters self and channel.
        parameters = [*signature(type(self._bus).__init__).parameters.values()][2:]
        known = [one.name for one in parameters if one.kind is not one.VAR_KEYWORD]
        for name in options:
            if name not in known:
                self.close()
                raise UnknownName("option", name, ["dbc", "frames", "remote", *known], self._name)

    def send(self, frame: Frame) -> None:
        bus, can = self._open(), self._can
        try:
            message = can.Message(
                arbitration_id=frame.identifier, is_extended_id=frame.extended, data=frame.data,
                is_fd=len(frame.data) > 8, check=True,
            )  # fmt: skip
            bus.send(message)
            if self._hears_itself:
                self._echoes.append(frame)
        except ValueError as error:
            identifier = hexadecimal(frame.identifier, frame.extended)
            raise LinkError(f"{self._name} cannot carry frame {identifier}: {error}") from None
        except (can.CanError, OSError) as error:
            raise LinkError(f"cannot send to {self._name}: {error}") from None

    def receive(self, timeout: float) -> Frame | None:
        until = stopwatch() + round(timeout * NS_PER_S)
        while True:
            frame = self._next(max(0, until - stopwatch()) / NS_PER_S)
            if frame is None or frame not in self._echoes:
                return frame
            self._echoes.remove(frame)

    def _next(self, timeout: float) -> Frame | None:
        bus, can = self._open(), self._can
        try:
            message = bus.recv(timeout)
        except can.CanError as error:
            if isinstance(error.__cause__, OSError):
                raise LinkError(f"cannot receive from {self._name}: {error}") from None
            raise FrameError(f"what arrived is no CAN frame: {error}") from None
        except OSError as error:
            raise LinkError(f"cannot receive from {self._name}: {error}") from None
        if message is None:
            return None
        identifier = hexadecimal(message.arbitration_id, message.is_extended_id)
        if message.is_error_frame:
            raise FrameError("the adapter reports an error frame")
        if message.is_remote_frame:
            raise FrameError(f"{identifier} is a remote frame, which carries no data")
        return Frame(bytes(message.data), message.arbitration_id, message.is_extended_id)

    def close(self) -> None:
        bus, self._bus = self._bus, None
        if bus is not None:
            bus.shutdown()

    def _open(self) -> Any:
        if self._bus is None:
            raise LinkError(f"{self._name} is closed")
        return self._bus


def _value(text: str) -> object:
    if text in ("yes", "no", "true", "false"):
        return text in ("yes", "true")
    try:
        return int(text, 0)
    except ValueError:
        return text
