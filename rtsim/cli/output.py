"""Standard output that is closed, full or read no further.

A reader that has seen enough (``head``) is fine: the command goes on without being heard and ends
with the status that it has.  What could not be written for another reason is an error.
"""

from __future__ import annotations

import errno
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

from rtsim.errors import RtsimError

_NOBODY_READS = (errno.EPIPE, errno.EIO)
"""A pipe whose reader has ended, a terminal that is gone."""


class OutputError(RtsimError):
    """What a command says could not be written."""


class _Raw(io.FileIO):
    """The file behind standard output; after it has failed, what is written is dropped."""

    lost = ""
    """Why, where that is an error."""
    gone = False
    """Nobody reads it any more."""

    def write(self, data: Any) -> int:  # type: ignore[override,unused-ignore]
        if not (self.lost or self.gone):
            try:
                return super().write(data)
            except OSError as error:
                if error.errno in _NOBODY_READS:
                    self.gone = True
                    return memoryview(data).nbytes
                self.lost = error.strerror or str(error)
                raise OutputError(_complaint(self.lost)) from error
        return memoryview(data).nbytes


def _complaint(why: str) -> str:
    return f"cannot write to standard output: {why}; what this command had to say is lost"


def reader_gone() -> bool:
    """Whether nobody reads standard output any more: what is told without an end can stop."""
    return bool(getattr(getattr(getattr(sys.stdout, "buffer", None), "raw", None), "gone", False))


@contextmanager
def minded_output() -> Iterator[None]:
    """Within this, standard output that cannot be written ends the program with status 2."""
    if sys.stdout is None:
        _end("standard output is closed; send it to a file, or to /dev/null")
    before = sys.stdout
    binary = getattr(before, "buffer", None)
    if not isinstance(getattr(binary, "raw", binary), io.FileIO):
        yield  # a test's, or a notebook's
        return
    before.flush()
    raw = _Raw(before.fileno(), "wb", closefd=False)
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(raw), before.encoding, before.errors,
        line_buffering=bool(before.line_buffering) or isinstance(binary, io.FileIO),
    )  # fmt: skip
    try:
        yield
    except OutputError as error:
        _end(str(error))
    finally:
        told = bool(raw.lost)
        with suppress(OutputError):
            sys.stdout.flush()
        sys.stdout = before
        if raw.lost and not told:
            _end(_complaint(raw.lost))


def _end(why: str) -> NoReturn:
    with suppress(OSError):
        sys.stderr.write(f"Error: {why}\n")
    sys.exit(2)
