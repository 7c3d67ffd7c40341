"""Start a child process that runs a module of rtsim, connected by a socket pair."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

LONGEST_STATUS = 1 << 16


def start_child(
    module: str,
    argument: str,
    theirs: socket.socket,
    stderr: int,
    environment: Mapping[str, str],
    handles: tuple[int, ...] = (),
) -> subprocess.Popen[bytes]:
    """Start a process that runs ``module`` and does not receive Ctrl-C.

    The child inherits the socket ``theirs`` and the file descriptors ``handles``. The error output
    of the child goes to the file descriptor ``stderr``.
    """
    # -P: a file in the working folder must not replace a module of the standard library.
    command = [sys.executable, "-P", "-m", module, argument]
    variables = dict(environment)
    root = Path(__file__).resolve().parents[2]
    if not {"site-packages", "dist-packages"} & set(root.parts):
        known = filter(None, [str(root), os.environ.get("PYTHONPATH")])
        variables["PYTHONPATH"] = os.pathsep.join(known)
    if sys.platform == "win32":
        process = subprocess.Popen(
            [*command, "share", str(os.getpid())],
            stdin=subprocess.PIPE,
            stderr=stderr,
            env=variables,
            creationflags=subprocess.CREATE_NEW_PROCESS_GROUP,
        )
        assert process.stdin is not None
        process.stdin.write(theirs.share(process.pid))
        process.stdin.close()
        return process
    return subprocess.Popen(
        [*command, str(theirs.fileno()), str(os.getpid())],
        stdin=subprocess.DEVNULL,
        stderr=stderr,
        env=variables,
        pass_fds=[theirs.fileno(), *handles],
        start_new_session=True,
    )


def inherited_socket(arguments: Sequence[str]) -> tuple[str, socket.socket, int]:
    """Return the argument, the socket and the parent's process id, in a child process."""
    argument, handle, parent = arguments
    if sys.platform == "win32":
        return argument, socket.fromshare(sys.stdin.buffer.read()), int(parent)
    return argument, socket.socket(fileno=int(handle)), int(parent)


def await_end(process: subprocess.Popen[bytes], patience: float) -> None:
    """Wait until ``process`` has ended, at most ``patience`` s.

    Raises :class:`subprocess.TimeoutExpired` after this time. ``Popen.wait`` would check only after
    0.5, 1.5, 3.5, 7.5 ms and so on.
    """
    if hasattr(os, "pidfd_open"):
        with contextlib.suppress(OSError):  # the Linux kernel is too old, or the process has ended
            handle = os.pidfd_open(process.pid)
            try:
                select.select([handle], [], [], patience)
            finally:
                os.close(handle)
            patience = 0.0
    process.wait(patience)


def how_it_ended(status: int, stderr: IO[bytes]) -> str:
    """Return the signal that ended the process and its last error line, or ""."""
    stderr.seek(0)
    lines = stderr.read(LONGEST_STATUS).decode(errors="replace").split("\n")
    said = next((f"; it printed: {line.strip()}" for line in reversed(lines) if line.strip()), "")
    return f" (killed by signal {-status}){said}" if status < 0 else said
