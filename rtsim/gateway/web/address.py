"""The address of a page: a port of this machine only, and a token that no other user can guess."""

from __future__ import annotations

import secrets
import socket
from dataclasses import dataclass

from rtsim.core.errors import ScenarioError
from rtsim.core.extras import extra
from rtsim.gateway.listening import listen

OPTION = "--web"
HOST = "127.0.0.1"
PORT = 8760
"""The usual port; if another program uses it, a free port is chosen."""
_TOKEN_BYTES = 16


@dataclass(frozen=True)
class PageAddress:
    """The address of a page on this machine; who knows ``token`` may open it."""

    port: int
    token: str

    @classmethod
    def of(cls, listener: socket.socket) -> PageAddress:
        """Return the address of a page at ``listener``, with a new token of 128 random bits."""
        return cls(int(listener.getsockname()[1]), secrets.token_urlsafe(_TOKEN_BYTES))

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}/{self.token}/"

    def lines(self) -> list[str]:
        """Return what a user types here, and on another machine."""
        forward = f"ssh -L {self.port}:{HOST}:{self.port} {socket.gethostname()}"
        return [
            f"web page: {self.url}",
            f"from another machine: {forward}, then open the same address there",
        ]


def check_installed() -> None:
    """Raise :class:`ScenarioError` if the packages of the page are not installed."""
    extra("viser", "web", OPTION)


def open_port(port: int | None) -> socket.socket:
    """Return a socket that listens at ``port`` of this machine; ``None`` asks for :data:`PORT`.

    If :data:`PORT` is in use, a free port is chosen.  A port that the user gave is not replaced:
    raises :class:`ScenarioError` if it is in use.
    """
    if port is not None:
        return listen(f"{HOST}:{port}", OPTION)
    try:
        return listen(f"{HOST}:{PORT}", OPTION)
    except ScenarioError:
        end = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        end.bind((HOST, 0))
        end.listen()
        return end
