"""What was raised, and by whom: the user who ends the program, or the code of a part.

Ctrl-C, SIGTERM and SIGHUP raise :class:`Interrupted`.  A part that raises ``SystemExit``,
``GeneratorExit`` or a ``KeyboardInterrupt`` of its own has no such wish to speak for: that is an
error of the part, which :func:`blame` names with the part and the time.
"""

from __future__ import annotations

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
"""Signals that end a run; Windows has no SIGHUP."""
NOT_FOR_PARTS = (SystemExit, GeneratorExit, KeyboardInterrupt)
"""Exceptions that are no :class:`Exception`: ``except Exception`` lets them pass."""

_NOT_THE_USERS = (
    *(
        os.path.join(folder, "")
        for folder in (
            os.path.dirname(os.path.dirname(__file__)),
            *map(sysconfig.get_path, ("stdlib", "platstdlib", "purelib", "platlib")),
        )
    ),
    "<",
)


def own_frames(error: BaseException) -> list[traceback.FrameSummary]:
    """The frames of an exception that lie in the user's own files, outermost first."""
    return [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(_NOT_THE_USERS)
    ]


def in_words(error: BaseException) -> str:
    """What a user's function raised, and where: ``ZeroDivisionError: … (mine.py:12 in law)``."""
    frames = own_frames(error)
    where = f" ({frames[-1].filename}:{frames[-1].lineno} in {frames[-1].name})" if frames else ""
    said = f": {error}" if str(error) else ""
    return f"{type(error).__name__}{said}{where}"


class OutOfBounds(IndexError):
    """Compiled code that checks its indices met one that is outside; it keeps no line of it."""

    def __init__(self) -> None:
        super().__init__("an index is outside of its array; --plain says which one and where")


class Interrupted(KeyboardInterrupt):
    """The program was asked to end, from outside of it."""


def interrupt(*_: object) -> NoReturn:
    """A signal handler."""
    raise Interrupted


@contextmanager
def on_signals(
    handler: Callable[[int, FrameType | None], object], numbers: tuple[int, ...] = ENDING
) -> Iterator[None]:
    """Within this, ``handler`` is called for the signals ``numbers``; in the main thread only.

    SIGHUP stays ignored where it was: ``nohup`` asks for that.
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


def on_ctrl_c(
    handler: Callable[[int, FrameType | None], object],
) -> AbstractContextManager[None]:
    """The same of Ctrl-C alone."""
    return on_signals(handler, ENDING[:1])


def from_outside(error: BaseException) -> bool:
    """Whether the program was asked to end; false for an exception that a part raised itself.

    Where Python's own handler of SIGINT is in place, a ``KeyboardInterrupt`` is taken for Ctrl-C.
    """
    if not isinstance(error, KeyboardInterrupt) or isinstance(error, Interrupted):
        return isinstance(error, Interrupted)
    if threading.current_thread() is not threading.main_thread():
        return False
    return signal.getsignal(signal.SIGINT) is signal.default_int_handler


def blame(
    what: str,
    when: object,
    error: BaseException,
    kind: type[RtsimError] = ModelError,
    sure: bool = False,
) -> NoReturn:
    """Raise ``error`` as an error of ``what`` at ``when``, with the line that raised it.

    Errors of rtsim say whose they are already, and an interrupt is nobody's: these are raised as
    they are.  So is, unless it is ``sure`` that code of the part raised it, an exception without a
    line of the user's: a mistake of rtsim.
    """
    if isinstance(error, RtsimError) or from_outside(error):
        raise error
    hint = ""
    if isinstance(error, NOT_FOR_PARTS):
        hint = "; a part cannot end the program: let it return, and end a run by a terminal guard"
    elif not (sure or own_frames(error) or isinstance(error, OutOfBounds)):
        raise error
    raise kind(f"{what} raised at {when}: {in_words(error)}{hint}") from error
