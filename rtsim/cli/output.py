"""Handling of a standard output that is closed, full, or no longer read.

If the reader closes the pipe (``head``), the command continues without output and exits with its
own status.  Any other failure to write is an error.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

from rtsim.core.errors import RtsimError

_NOBODY_READS = (errno.EPIPE, errno.EIO)
"""Error numbers of a pipe whose reader has ended, and of a terminal that is gone."""


class OutputError(RtsimError):
    """Raised when standard output cannot be written."""


class _Output(io.TextIOWrapper):
    """Standard output; after a failed write, further text is dropped.

    It uses the interpreter's own buffer and file, which write each byte exactly once even if a
    signal interrupts the write.
    """

    lost = ""
    """Cause of a failed write; empty if no write failed, or if only the reader has gone."""
    gone = False
    """True if the reader has closed the pipe."""

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError as error:
            self._fail(error)
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, self.fileno())  # takes the text that is still in the buffer
        os.close(nothing)
        if error.errno in _NOBODY_READS:
            self.gone = True
            return
        self.lost = error.strerror or str(error)
        raise OutputError(_complaint(self.lost)) from error


def _complaint(why: str) -> str:
    return f"cannot write to standard output: {why}; the output of this command is incomplete"


def reader_gone() -> bool:
    """Return True if the reader of standard output has gone, so that endless output can stop."""
    return bool(getattr(sys.stdout, "gone", False))


@contextmanager
def minded_output() -> Iterator[None]:
    """Context in which a failed write to standard output ends the program with status 2."""
    if sys.stdout is None:
        _end("standard output is closed; redirect it to a file or to /dev/null")
    before = sys.stdout
    binary = getattr(before, "buffer", None)
    if not isinstance(getattr(binary, "raw", binary), io.FileIO):
        yield  # a test or a notebook has replaced standard output
        return
    before.flush()
    output = _Output(
        io.BufferedWriter(io.FileIO(before.fileno(), "wb", closefd=False)),
        before.encoding, before.errors,
        line_buffering=bool(before.line_buffering) or isinstance(binary, io.FileIO),
    )  # fmt: skip
    sys.stdout = output
    try:
        yield
    except OutputError as error:
        _end(str(error))
    finally:
        told = bool(output.lost)
        with suppress(OutputError):
            output.flush()
        sys.stdout = before
        if output.lost and not told:
            _end(_complaint(output.lost))


def _end(why: str) -> NoReturn:
    with suppress(OSError):
        sys.stderr.write(f"Error: {why}\n")
    sys.exit(2)
