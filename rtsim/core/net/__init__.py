"""Connections between processes: ZeroMQ sockets, their keys, and MessagePack."""

from __future__ import annotations

LOOPBACK = "127.0.0.1"


def known_host(host: str) -> str:
    """Return 127.0.0.1 for ``localhost``, and any other ``host`` unchanged.

    A minimal Linux without an entry for ``localhost`` in /etc/hosts cannot resolve this name.
    """
    return LOOPBACK if host.lower() == "localhost" else host
