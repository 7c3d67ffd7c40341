"""Where Foxglove connects: the address typed, and the socket there, before anything runs."""

from __future__ import annotations

import importlib.util
import ipaddress
import socket
from contextlib import suppress

from rtsim.core.errors import ScenarioError

FOXGLOVE = "127.0.0.1:8765"
INSTALL = "pip install 'rtsim[foxglove]'"
UNENCRYPTED = "--foxglove-unencrypted"


def read_address(text: str) -> tuple[str, int]:
    """``HOST:PORT``, ``PORT`` or ``[IPV6]:PORT``; without a host it is this machine's loopback."""
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or not 0 < int(port) < 65536:
        raise ScenarioError(
            f"--foxglove {text!r} is no address; write HOST:PORT, such as {FOXGLOVE}, "
            "or nothing, and the scenario before it"
        )
    return host.strip("[]") or "127.0.0.1", int(port)


def check_beyond(text: str, unencrypted: bool) -> None:
    """A viewer's protocol has neither keys nor encryption: beyond loopback only by that word."""
    host, _ = read_address(text)
    found: list[str] = []
    with suppress(OSError, UnicodeError):  # a name that is none is said where it is served
        found = [str(row[4][0]) for row in socket.getaddrinfo(host, None)]
    if not unencrypted and not all(map(_is_loopback, found)):
        raise _beyond(text)


def _is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


def _beyond(text: str) -> ScenarioError:
    _, port = read_address(text)
    return ScenarioError(
        f"--foxglove {text} is beyond this machine, where anybody could watch, unencrypted. Leave "
        f"HOST out, and type on the viewer's machine: ssh -N -L {port}:127.0.0.1:{port} "
        f"{socket.gethostname()}; then ws://localhost:{port} is the run. In a network that you "
        f"trust: {UNENCRYPTED}"
    )


def check_foxglove(text: str, unencrypted: bool = False) -> None:
    """That the address can be read and the package is there; nothing is imported."""
    check_beyond(text, unencrypted)
    if importlib.util.find_spec("foxglove") is None:
        raise ScenarioError(f"--foxglove needs the package foxglove-sdk; type: {INSTALL}")


def listen(text: str, option: str = "--foxglove", unencrypted: bool = False) -> socket.socket:
    """A socket that listens there; :class:`ScenarioError` says why it cannot."""
    host, port = read_address(text.removeprefix("tcp://"))
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    end = socket.socket(family, socket.SOCK_STREAM)
    try:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        end.bind((host, port))
        if not unencrypted and not _is_loopback(str(end.getsockname()[0])):
            raise _beyond(text)
        end.listen(16)
    except ScenarioError:
        end.close()
        raise
    except (OSError, UnicodeError) as error:
        end.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise ScenarioError(
            f"cannot serve {option} at {text}: {reason}; end the other run"
            + (", or give another HOST:PORT" if option == "--foxglove" else "")
        ) from None
    return end


def check_free(endpoint: str) -> None:
    """That nothing else serves PlotJuggler at ``tcp://HOST:PORT``."""
    host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((host, int(port)))
        except OSError as error:
            raise ScenarioError(
                f"--plotjuggler serves at {endpoint}, and that is not free ({error.strerror}): "
                "another run with --plotjuggler is going on, or another program has the port; end "
                "it, or leave --plotjuggler out"
            ) from None
