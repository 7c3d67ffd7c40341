"""Sends packets to FlightGear by UDP; a slow or absent FlightGear never delays the sender."""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass

from rtsim.core.errors import RtsimError, ScenarioError
from rtsim.core.net.hosts import known_host

PORT = 5500
_ADDRESS = re.compile(r"(?P<host>[A-Za-z0-9._-]{1,253})(:(?P<port>[0-9]{1,5}))?")


@dataclass(frozen=True)
class Address:
    """The host and UDP port at which a FlightGear receives."""

    host: str
    port: int = PORT

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    @classmethod
    def of(cls, text: str) -> Address:
        """Read ``HOST[:PORT]``; raises :class:`ScenarioError`."""
        found = _ADDRESS.fullmatch(text)
        port = int(found["port"] or PORT) if found else 0
        if found is None or not 1 <= port <= 65535:
            raise ScenarioError(
                f"--flightgear {text!r} is malformed; write HOST or HOST:PORT, such as "
                f"localhost:{PORT}"
            )
        return cls(found["host"], port)


class Sender:
    """Sends each packet at once, or drops it; raises :class:`RtsimError` for an unknown host."""

    def __init__(self, address: Address) -> None:
        self.sent = self.lost = 0
        """Numbers of packets: given to the system, and refused by it."""
        host = known_host(address.host)
        try:
            found = socket.getaddrinfo(host, address.port, socket.AF_INET, socket.SOCK_DGRAM)
        except OSError as error:
            raise RtsimError(
                f"--flightgear {address}: the host cannot be found ({error.strerror or error}); "
                "give the name or the IPv4 address of the machine on which FlightGear runs"
            ) from error
        self._to = found[0][4]
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setblocking(False)

    def send(self, packet: bytes) -> None:
        try:
            self._socket.sendto(packet, self._to)
        except OSError:  # no route, a full buffer, or nobody at the port: the next packet is newer
            self.lost += 1
        else:
            self.sent += 1

    def close(self) -> None:
        self._socket.close()
