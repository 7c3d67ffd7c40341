"""Find the origin of an exception: a signal from the user or system, or the code of a component.

Ctrl-C, SIGTERM and SIGHUP raise :class:`Interrupted`.
"""

from __future__ import annotations

import errno
import os
import signal
import sysconfig
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType
from typing import NoReturn

from rtsim.core.errors import ModelError, RtsimError

ENDING = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
"""Signals that end a run.  Windows has no SIGHUP."""
NOT_FOR_PARTS = (SystemExit, GeneratorExit, KeyboardInterrupt)
"""Exceptions that ``except Exception`` does not catch."""

_PACKAGE = os.path.dirname(os.path.dirname(__file__))
_NOT_THE_USERS = (
    *(
        os.path.join(folder, "")
        for folder in (
            _PACKAGE,
            os.path.join(os.path.dirname(_PACKAGE), "hitl"),
            *map(sysconfig.get_path, ("stdlib", "platstdlib", "purelib", "platlib")),
        )
    ),
    "<",
)


def own_frames(error: BaseException) -> list[traceback.FrameSummary]:
    """Return the stack frames of an exception that lie in the user's own files."""
    return [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(_NOT_THE_USERS)
    ]


_DISK = "free some space on the disk, or set RTSIM_CACHE_DIR and TMPDIR to folders on another disk"
_FILES = "close other programs, or raise the limit, for example with: ulimit -n 1024"
_LACKS = {
    errno.ENOSPC: _DISK,
    errno.EDQUOT: _DISK,
    errno.EROFS: "give a folder that can be written, also with RTSIM_CACHE_DIR and TMPDIR",
    errno.EMFILE: _FILES,
    errno.ENFILE: _FILES,
    errno.ENOMEM: "end other programs, or use a machine with more memory",
    errno.EAGAIN: "end other programs, or raise the limit of processes: ulimit -u",
    errno.EIO: "check the device",
}
"""Remedies for missing resources of the machine, by error number."""
_LONGEST_PATH = 100


def from_the_machine(error: BaseException) -> str:
    """Return a message about a missing resource such as disk space, or ""."""
    if not isinstance(error, OSError) or error.errno not in _LACKS:
        return ""
    return f"{_of_the_system(error)}; {_LACKS[error.errno]}"


def from_a_path(error: BaseException) -> str:
    """Return a message about a path that cannot be used, or "" if the error has another cause."""
    if not isinstance(error, OSError) or error.filename is None or error.strerror is None:
        return ""
    return f"{_of_the_system(error)}; check the path, its permissions, and what is there"


def _of_the_system(error: OSError) -> str:
    path = "" if error.filename is None else os.fsdecode(error.filename)
    if len(path) > _LONGEST_PATH:
        path = f"{path[:_LONGEST_PATH]}... ({len(path)} characters)"
    return f"cannot use {path}: {error.strerror}" if path else f"the system says: {error.strerror}"


def in_words(error: BaseException) -> str:
    """Return type, text and place, such as ``ZeroDivisionError: … (mine.py:12 in step)``."""
    frames = own_frames(error)
    where = f" ({frames[-1].filename}:{frames[-1].lineno} in {frames[-1].name})" if frames else ""
    said = f": {error}" if str(error) else ""
    return f"{type(error).__name__}{said}{where}"


class OutOfBounds(IndexError):
    """An array index in compiled code is out of bounds.  The line number is unknown."""

    def __init__(self) -> None:
        super().__init__(
            "an array index is out of bounds; run with --plain to see which one, and where"
        )


class Interrupted(KeyboardInterrupt):
    """Exception that ends the program after an operating-system signal such as SIGTERM."""


def interrupt(*_: object) -> NoReturn:
    """Raise :class:`Interrupted`, as a signal handler."""
    raise Interrupted


@contextmanager
def on_signals(
    handler: Callable[[int, FrameType | None], object], numbers: tuple[int, ...] = ENDING
) -> Iterator[None]:
    """Context manager that calls ``handler`` for the operating-system signals ``numbers``.

    An ignored SIGHUP stays ignored, as ``nohup`` requires.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    hang_up = getattr(signal, "SIGHUP", None)
    before = {
        number: signal.signal(number, handler)
        for number in numbers
        if number != hang_up or signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, kept in before.items():
            signal.signal(number, kept)


@contextmanager
def held_back() -> Iterator[None]:
    """Context manager that delays signal handlers, except in ``ENDING``, until its end.

    Python ignores an exception within a callback of the garbage collector, so a signal at that time
    would be lost.
    """
    came: list[tuple[int, FrameType | None]] = []
    handlers = {number: signal.getsignal(number) for number in ENDING}
    raising = tuple(number for number, handler in handlers.items() if callable(handler))
    with on_signals(lambda number, frame: came.append((number, frame)), raising):
        yield
    for number, frame in came:
        handlers[number](number, frame)  # type: ignore[operator,misc,unused-ignore]


def on_ctrl_c(
    handler: Callable[[int, FrameType | None], object],
) -> AbstractContextManager[None]:
    return on_signals(handler, ENDING[:1])


def from_outside(error: BaseException) -> bool:
    """Return True if an operating-system signal caused the exception."""
    if not isinstance(error, KeyboardInterrupt) or isinstance(error, Interrupted):
        return isinstance(error, Interrupted)
    if threading.current_thread() is not threading.main_thread():
        return False
    return signal.getsignal(signal.SIGINT) is signal.default_int_handler


def interrupted(error: BaseException) -> bool:
    """Return True if an interrupt is among the causes of ``error``."""
    seen: set[int] = set()
    found: list[BaseException | None] = [error]
    while found:
        one = found.pop()
        if one is None or id(one) in seen:
            continue
        if isinstance(one, Interrupted):
            return True
        seen.add(id(one))
        found += [one.__cause__, one.__context__]
    return False


def attribute_to(
    what: str,
    when: object,
    error: BaseException,
    kind: type[RtsimError] = ModelError,
    sure: bool = False,
) -> NoReturn:
    """Raise an error that names the component, the time and the cause.

    ``what`` is the name of the component, and ``when`` the time of the exception. Interrupts and
    errors of rtsim are raised unchanged. If no frame of the traceback is in a file of the user, the
    exception is a bug of rtsim and is raised unchanged. With ``sure=True``, the exception never
    counts as a bug of rtsim.
    """
    if isinstance(error, RtsimError) or from_outside(error):
        raise error
    hint = ""
    if isinstance(error, NOT_FOR_PARTS):
        hint = "; a component cannot end the program: return instead, or use a terminal guard"
    elif not (sure or own_frames(error) or isinstance(error, OutOfBounds)):
        raise error
    raise kind(f"{what} raised at {when}: {in_words(error)}{hint}") from error
