"""Connections between processes: ZeroMQ sockets, their keys, and MessagePack."""

from __future__ import annotations

LOOPBACK = "127.0.0.1"


def known_host(host: str) -> str:
    """Return 127.0.0.1 for ``localhost``, and every other ``host`` unchanged.

    ``localhost`` always names this machine (RFC 6761, section 6.3), but a minimal Linux has no
    entry for it in /etc/hosts, so the system cannot resolve it.
    """
    return LOOPBACK if host.lower() == "localhost" else host
