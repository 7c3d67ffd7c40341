"""Which sockets a process and all that it started listen at, as the kernel tells."""

from __future__ import annotations

import os
import re
from pathlib import Path

LOOPBACK = ("0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F")
"""127.0.0.1, ::1 and ::ffff:127.0.0.1 as the kernel writes them."""


def tree(pid: int) -> list[int]:
    """A process and all that it started, in sessions of their own too."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


def _sockets(pids: list[int]) -> set[str]:
    """Inodes of their sockets."""
    found = set()
    for pid in pids:
        for path in Path(f"/proc/{pid}/fd").glob("*"):
            try:
                match = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(path))
            except OSError:
                continue
            if match is not None:
                found.add(match[1])
    return found


def reached(pid: int) -> list[tuple[str, str, int]]:
    """(protocol, address, port) that the process tree of ``pid`` listens at; UDP: is bound to."""
    ours, found = _sockets(tree(pid)), []
    for protocol in ("tcp", "tcp6", "udp", "udp6", "raw", "raw6"):
        table = Path(f"/proc/net/{protocol}")
        for line in table.read_text().splitlines()[1:] if table.exists() else ():
            fields = line.split()
            listens = fields[3] == "0A" or not protocol.startswith("tcp")
            if listens and fields[9] in ours:
                address, _, port = fields[1].partition(":")
                found.append((protocol, address, int(port, 16)))
    return found
