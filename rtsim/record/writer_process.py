"""The process that writes a recording: its start, and how it ended."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import sys
from pathlib import Path
from typing import IO

from rtsim.record.frames import LONGEST_STATUS
from rtsim.timing.background import ONE_THREAD

_KEEP_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(64 << 20),
}
"""Environment of the writing process: glibc keeps the memory of a written chunk for the next one.
Otherwise page faults take a third of the process's time."""


def start_writer(
    path: Path, theirs: socket.socket, stderr: int, handles: tuple[int, ...]
) -> subprocess.Popen[bytes]:
    """Start the writing process in its own session, so that Ctrl-C does not reach it.

    The process inherits ``handles``, which hold the claim on the file until the process ends.
    """
    # -P: a file in the working folder must not stand in for a module of the standard library.
    command = [sys.executable, "-P", "-m", "rtsim.record.writer", os.path.abspath(path)]
    environment = {**_KEEP_MEMORY, **os.environ, **ONE_THREAD}
    root = Path(__file__).resolve().parents[2]
    if not {"site-packages", "dist-packages"} & set(root.parts):
        known = filter(None, [str(root), os.environ.get("PYTHONPATH")])
        environment["PYTHONPATH"] = os.pathsep.join(known)
    if sys.platform == "win32":
        process = subprocess.Popen(
            [*command, "share", str(os.getpid())],
            stdin=subprocess.PIPE,
            stderr=stderr,
            env=environment,
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
        env=environment,
        pass_fds=[theirs.fileno(), *handles],
        start_new_session=True,
    )


def await_end(process: subprocess.Popen[bytes], patience: float) -> None:
    """Wait up to ``patience`` s until ``process`` has ended.

    Raises :class:`subprocess.TimeoutExpired`.  Where the system tells the end of a process by a
    descriptor, the wait ends at once; ``Popen.wait`` looks after 0.5, 1.5, 3.5, 7.5 ms and so on.
    """
    if hasattr(os, "pidfd_open"):
        with contextlib.suppress(OSError):  # an older Linux, or the process has ended
            handle = os.pidfd_open(process.pid)
            try:
                select.select([handle], [], [], patience)
            finally:
                os.close(handle)
            patience = 0.0
    process.wait(patience)


def how_it_ended(status: int, stderr: IO[bytes]) -> str:
    """Return text with the signal and the last error line of the writing process; may be empty."""
    stderr.seek(0)
    lines = stderr.read(LONGEST_STATUS).decode(errors="replace").split("\n")
    said = next((f"; it printed: {line.strip()}" for line in reversed(lines) if line.strip()), "")
    return f" (killed by signal {-status}){said}" if status < 0 else said
