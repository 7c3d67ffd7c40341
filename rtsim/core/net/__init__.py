"""Connections between processes: ZeroMQ sockets, their keys, and MessagePack."""

from __future__ import annotations

LOOPBACK = "127.0.0.1"


def known_host(host: str) -> str:
    """Return 127.0.0.1 for ``localhost``, and any other ``host`` unchanged.

    ``localhost`` always denotes this machine (RFC 6761, section 6.3), but the system cannot resolve
    the name if /etc/hosts has no entry, as on a minimal Linux.
    """
    return LOOPBACK if host.lower() == "localhost" else host
