"""The tests of a mutant, in processes that end with the one that started them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence

TIMEOUT = "timeout"
"""What is said of tests that did not end."""


def as_interrupts() -> None:
    """What asks this process to end interrupts it, so that it ends what it started first."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):  # a shell's background ignores the first
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.default_int_handler)


def passes(command: Sequence[str], timeout_s: float) -> tuple[bool, str]:
    """Whether it exits with 0 in time, and what it printed; nothing of it goes on after that.

    Without bytecode: two changes may come within the resolution of a file's time.
    """
    with subprocess.Popen(
        command,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:
        try:
            printed, _ = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            return False, TIMEOUT
        finally:  # an interrupt reaches no other session
            _end(process)
    return process.returncode == 0, printed.decode("utf-8", "replace")


def _end(process: subprocess.Popen[bytes]) -> None:
    """It and all that it started, as far as they are of its group."""
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()
