"""Addresses for viewers, and a check of the web pages that connect to a run.

All addresses are checked before the simulation starts.

A browser reports the site of a page in the header ``Origin``. Without a check of ``Origin``, any
page in a browser of this machine could read the data of the run. The check works for browsers only,
because other programs can send any origin.
"""

from __future__ import annotations

import ipaddress
import secrets
import socket
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from rtsim.core.errors import ScenarioError
from rtsim.core.extras import extra, installed
from rtsim.core.net import LOOPBACK, known_host

FOXGLOVE = "127.0.0.1:8765"
UNENCRYPTED = "--foxglove-unencrypted"


def read_address(text: str) -> tuple[str, int]:
    """Return host and port of ``HOST:PORT``, ``PORT`` or ``[IPV6]:PORT``.

    The default host is the loopback address.
    """
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or not 0 < int(port) < 65536:
        raise ScenarioError(
            f"--foxglove {text!r} is not an address; write HOST:PORT, such as {FOXGLOVE}; if "
            f"{text!r} is the scenario, write it before --foxglove"
        )
    return known_host(host.strip("[]")) or LOOPBACK, int(port)


def check_exposure(text: str, unencrypted: bool) -> None:
    """Raise an error for an address that other machines can reach, unless ``unencrypted`` is True.

    Foxglove's protocol has neither keys nor encryption.
    """
    host, _ = read_address(text)
    found: list[str] = []
    with suppress(OSError, UnicodeError):  # listen() reports an unknown host name
        found = [str(row[4][0]) for row in socket.getaddrinfo(host, None)]
    if not unencrypted and not all(map(_is_loopback, found)):
        raise _exposure_error(text)


def _is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


def _exposure_error(text: str) -> ScenarioError:
    _, port = read_address(text)
    return ScenarioError(
        f"--foxglove {text} would serve other machines without encryption or keys. Leave HOST "
        f"out, type on the viewer's machine: ssh -N -L {port}:127.0.0.1:{port} "
        f"{socket.gethostname()}, and connect Foxglove to ws://localhost:{port}. In a network "
        f"that you trust, add {UNENCRYPTED}"
    )


def check_foxglove(text: str, unencrypted: bool = False) -> None:
    """Check the address and that the packages for Foxglove are installed."""
    check_exposure(text, unencrypted)
    for module in ("foxglove", "websockets"):
        installed(module, "foxglove", "--foxglove")


def listen(text: str, option: str = "--foxglove", unencrypted: bool = False) -> socket.socket:
    """Return a socket that listens at the address ``text``.

    Raises ``ScenarioError`` if the address cannot be used, or if other machines could connect and
    ``unencrypted`` is False.
    """
    host, port = read_address(text.removeprefix("tcp://"))
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    end = socket.socket(family, socket.SOCK_STREAM)
    try:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        end.bind((host, port))
        if not unencrypted and not _is_loopback(str(end.getsockname()[0])):
            raise _exposure_error(text)
        end.listen(16)
    except ScenarioError:
        end.close()
        raise
    except (OSError, UnicodeError) as error:
        end.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise ScenarioError(
            f"cannot serve {option} at {text}: {reason}; if another program uses this address, "
            "end that program" + (", or give another HOST:PORT" if option == "--foxglove" else "")
        ) from None
    return end


def check_free(endpoint: str) -> None:
    """Raise an error if another program uses the address for PlotJuggler."""
    host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((host, int(port)))
        except OSError as error:
            raise ScenarioError(
                f"--plotjuggler cannot serve at {endpoint} ({error.strerror}): another run with "
                "--plotjuggler or another program uses this port; end that program, or leave "
                "--plotjuggler out"
            ) from None


# Origins of web pages.

ORIGIN_OPTION = "--foxglove-origin"
KNOWN = ("https://app.foxglove.dev", "file://")


def read_origins(given: Iterable[str]) -> tuple[str, ...]:
    """Return origins in the form of browsers: scheme and host, in lower case."""
    out = []
    for text in given:
        parts = urlsplit(text.rstrip("/"))
        if not parts.scheme or not parts.netloc or parts.path or parts.query:
            raise ScenarioError(
                f"{ORIGIN_OPTION} {text!r} is not an origin; write https://HOST or https://HOST:PORT"
            )
        out.append(f"{parts.scheme}://{parts.netloc}".lower())
    return tuple(out)


class OriginCheck:
    """Check of the request with which a browser opens a connection.

    ``more`` contains allowed origins in addition to ``KNOWN`` and this machine.
    """

    def __init__(self, more: Iterable[str] = ()) -> None:
        self._may = {*KNOWN, *read_origins(more)}

    def objection(self, origins: Iterable[str]) -> str:
        """Return why a request with these ``Origin`` headers is rejected, or ""."""
        foreign = [origin for origin in origins if not self._is_known(origin.strip().lower())]
        if not foreign:
            return ""
        return (
            f"a page of {foreign[0][:200]} may not watch this run; to allow it, start the run "
            f"with {ORIGIN_OPTION} ORIGIN"
        )

    def _is_known(self, origin: str) -> bool:
        if origin in self._may:
            return True
        try:
            parts = urlsplit(origin)
            host = parts.hostname or ""
        except ValueError:
            return False
        return parts.scheme in ("http", "https") and is_this_machine(host)


def is_this_machine(host: str) -> bool:
    """Return whether ``host`` always denotes this machine."""
    if host == "localhost":
        return True  # not shop.localhost, which a local proxy can serve for others
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


# The address of the page of ``--web``: a port of this machine, and a token that cannot be guessed.

PAGE_OPTION = "--web"
HOST = "127.0.0.1"
PORT = 8760
"""Default port. If another program uses this port, a free one is chosen."""
_TOKEN_BYTES = 16


@dataclass(frozen=True)
class PageAddress:
    """Address of a page on this machine. Anyone who knows ``token`` may open the page."""

    port: int
    token: str

    @classmethod
    def of(cls, listener: socket.socket) -> PageAddress:
        """Return the address of a page at ``listener``, with a random token of 128 bits."""
        return cls(int(listener.getsockname()[1]), secrets.token_urlsafe(_TOKEN_BYTES))

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}/{self.token}/"

    def lines(self) -> list[str]:
        """Return instructions for opening the page on this machine and on another machine."""
        forward = f"ssh -L {self.port}:{HOST}:{self.port} {socket.gethostname()}"
        return [
            f"web page: {self.url}",
            f"from another machine: {forward}, then open the same address there",
        ]


def check_installed() -> None:
    """Raise :class:`ScenarioError` if the packages for the page are not installed."""
    extra("viser", "web", PAGE_OPTION)


def open_port(port: int | None) -> socket.socket:
    """Return a socket that listens at ``port`` of this machine.

    With ``None``, the port is ``PORT``, or a free port if another program uses ``PORT``. If a port
    given by the user is in use, :class:`ScenarioError` is raised.
    """
    if port is not None:
        return listen(f"{HOST}:{port}", PAGE_OPTION)
    try:
        return listen(f"{HOST}:{PORT}", PAGE_OPTION)
    except ScenarioError:
        end = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        end.bind((HOST, 0))
        end.listen()
        return end
