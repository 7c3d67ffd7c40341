"""Checks the addresses for viewers before the simulation starts, and opens their sockets."""

from __future__ import annotations

import importlib.util
import ipaddress
import socket
from contextlib import suppress

from rtsim.core.errors import ScenarioError
from rtsim.core.net.hosts import LOOPBACK, known_host

FOXGLOVE = "127.0.0.1:8765"
INSTALL = "pip install 'rtsim[foxglove]'"
UNENCRYPTED = "--foxglove-unencrypted"


def read_address(text: str) -> tuple[str, int]:
    """Return host and port of ``HOST:PORT``, ``PORT`` or ``[IPV6]:PORT``.

    The default host is the loopback address.
    """
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or not 0 < int(port) < 65536:
        raise ScenarioError(
            f"--foxglove {text!r} is not an address; write HOST:PORT, such as {FOXGLOVE}, or "
            "leave it out and write the scenario before --foxglove"
        )
    return known_host(host.strip("[]")) or LOOPBACK, int(port)


def check_exposure(text: str, unencrypted: bool) -> None:
    """Raise an error for an address that other machines can reach, unless ``unencrypted`` is true.

    The protocol of the viewer has neither keys nor encryption.
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
    """Check that the address is valid and that the packages are installed, without importing."""
    check_exposure(text, unencrypted)
    for module, package in (("foxglove", "foxglove-sdk"), ("websockets", "websockets")):
        if importlib.util.find_spec(module) is None:
            raise ScenarioError(f"--foxglove needs the package {package}; type: {INSTALL}")


def listen(text: str, option: str = "--foxglove", unencrypted: bool = False) -> socket.socket:
    """Return a socket that listens at ``text``; raises :class:`ScenarioError` with the reason."""
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
    """Raise an error if the address ``tcp://HOST:PORT`` for PlotJuggler is in use."""
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
