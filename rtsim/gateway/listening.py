"""Where Foxglove connects: the address typed, and the socket there, before anything runs."""

from __future__ import annotations

import importlib.util
import socket

from rtsim.errors import ScenarioError

FOXGLOVE = "127.0.0.1:8765"
INSTALL = "pip install 'rtsim[foxglove]'"


def read_address(text: str) -> tuple[str, int]:
    """``HOST:PORT``, ``PORT`` or ``[IPV6]:PORT``; without a host it is this machine's loopback."""
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or not 0 < int(port) < 65536:
        raise ScenarioError(
            f"--foxglove {text!r} is no address; write HOST:PORT, such as {FOXGLOVE}, "
            "or nothing, and the scenario before it"
        )
    return host.strip("[]") or "127.0.0.1", int(port)


def check_foxglove(text: str) -> None:
    """That the address can be read and the package is there; nothing is imported."""
    read_address(text)
    if importlib.util.find_spec("foxglove") is None:
        raise ScenarioError(f"--foxglove needs the package foxglove-sdk; type: {INSTALL}")


def listen(text: str, option: str = "--foxglove") -> socket.socket:
    """A socket that listens there; :class:`ScenarioError` says why it cannot."""
    host, port = read_address(text.removeprefix("tcp://"))
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    end = socket.socket(family, socket.SOCK_STREAM)
    try:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        end.bind((host, port))
        end.listen(16)
    except (OSError, UnicodeError) as error:
        end.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise ScenarioError(
            f"cannot serve {option} at {text}: {reason}; end the other run"
            + (", or give another HOST:PORT" if option == "--foxglove" else "")
        ) from None
    return end
