"""A link over UDP, with one frame per datagram."""

from __future__ import annotations

import ipaddress
import select
import socket
from collections.abc import Mapping
from contextlib import suppress

from hitl.buses.contract import LinkError
from rtsim.components.frames import Frame
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.net import known_host

MOST_BYTES = 65_507


class UdpLink:
    """A UDP link that sends datagrams to the address ``to`` (``HOST:PORT``).

    The option ``bind`` is the address at which datagrams are received.  Without ``bind``, the link
    receives answers at its own port.  Addresses outside this machine require ``remote``.
    """

    addressed = False

    def __init__(self, text: str, to: str, options: Mapping[str, str], remote: bool) -> None:
        for name in options:
            if name != "bind":
                raise UnknownName("option", name, ("bind", "frames", "remote"), text)
        family, self._to = address_of(text, to, remote, least=1)
        own = "[::1]:0" if family == socket.AF_INET6 else "127.0.0.1:0"
        if remote and "bind" not in options:
            own = "[::]:0" if family == socket.AF_INET6 else "0.0.0.0:0"
        own_family, bind = address_of(text, options.get("bind", own), remote, least=0)
        if own_family != family:
            raise ScenarioError(f"{text}: one address is IPv4 and the other IPv6; use one kind")
        self._name = text
        self._socket: socket.socket | None = socket.socket(family, socket.SOCK_DGRAM)
        try:
            self._socket.bind(bind)
            self._socket.setblocking(False)
        except OSError as error:
            self._socket.close()
            raise LinkError(
                f"cannot listen at {bind[0]}:{bind[1]} for {text}: {error.strerror}; another "
                "program may use this port"
            ) from None

    @property
    def port(self) -> int:
        """The port that receives datagrams."""
        port: int = self._open().getsockname()[1]
        return port

    def send(self, frame: Frame) -> None:
        link = self._open()
        if len(frame.data) > MOST_BYTES:
            raise LinkError(f"{self._name}: a datagram has at most {MOST_BYTES} bytes")
        with suppress(BlockingIOError):  # the buffer is full: lose the datagram
            try:
                link.sendto(frame.data, self._to)
            except ConnectionError:  # no program receives at the address
                pass
            except BlockingIOError:
                raise
            except OSError as error:
                raise LinkError(f"cannot send to {self._name}: {error.strerror}") from None

    def receive(self, timeout: float) -> Frame | None:
        link = self._open()
        if timeout > 0.0 and not select.select([link], [], [], timeout)[0]:
            return None
        try:
            return Frame(link.recv(MOST_BYTES + 1))
        except (BlockingIOError, ConnectionError):  # no datagram, or an earlier one was rejected
            return None
        except OSError as error:
            raise LinkError(f"cannot receive from {self._name}: {error.strerror}") from None

    def close(self) -> None:
        link, self._socket = self._socket, None
        if link is not None:
            link.close()

    def _open(self) -> socket.socket:
        if self._socket is None:
            raise LinkError(f"{self._name} is closed")
        return self._socket


def address_of(
    text: str, given: str, remote: bool, least: int, kind: int = socket.SOCK_DGRAM
) -> tuple[socket.AddressFamily, tuple[str, int]]:
    """Return family and address of ``HOST:PORT``; raise :class:`ScenarioError` if it is wrong."""
    host, colon, digits = given.rpartition(":")
    if not colon or not digits.isascii() or not digits.isdigit() or len(digits) > 5:
        raise ScenarioError(f"{text}: {given!r} is not an address; write HOST:PORT")
    port = int(digits)
    if not least <= port <= 65535:
        raise ScenarioError(f"{text}: port {port} is not from {least} to 65535")
    try:
        found = socket.getaddrinfo(known_host(host.strip("[]")), port, type=kind)
    except (OSError, UnicodeError):
        raise ScenarioError(f"{text}: the host {host!r} is unknown; write HOST:PORT") from None
    family, *_, address = found[0]
    if not remote and not ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback:
        raise ScenarioError(
            f"{text}: {host} is not this machine; add remote=yes to the URL if data may leave "
            "or enter it (the data is not encrypted)"
        )
    return family, (str(address[0]), int(address[1]))
