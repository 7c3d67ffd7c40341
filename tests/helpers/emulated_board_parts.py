"""What the tests of the emulated board share: its back ends, its images, a pseudo-terminal."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from hitl.boards import BoardError, open_board
from hitl.boards.description import Emulator
from hitl.boards.emulated import EmulatedBoard
from hitl.boards.known import BOARDS, board_named

IMAGES = Path(__file__).parents[2] / "firmware" / "tests"
BACKENDS = ("avr8js", "simavr")
with_simavr = pytest.mark.system("simavr")
on_each = pytest.mark.parametrize("backend", ["avr8js", pytest.param("simavr", marks=with_simavr)])


@cache
def missing(backend: str) -> str:
    """Why ``backend`` cannot run here; empty where it can."""
    try:
        emulators: dict[str, Emulator] = {}
        for name in BOARDS:
            emulators |= board_named(name).emulators
        emulators[backend].command()
    except BoardError as error:
        return str(error)
    return ""


def need(*backends: str) -> None:
    """Skip the test, with the reason, where a back end is absent."""
    for backend in backends:
        if why := missing(backend):
            pytest.skip(why)


@contextmanager
def running(image: str, backend: str, baud: int | None = None) -> Iterator[EmulatedBoard]:
    """A board with ``firmware/tests/IMAGE.hex``, 1 ms after power came on."""
    need(backend)
    query = f"?backend={backend}" + (f"&baud={baud}" if baud else "")
    board = open_board(f"board:uno{query}", IMAGES / f"{image}.hex")
    try:
        board.advance(16_000)
        yield board
    finally:
        board.close()


@contextmanager
def echoing_terminal() -> Iterator[str]:
    """The name of a pseudo-terminal that sends back what it receives."""
    if not hasattr(os, "openpty"):
        pytest.skip("pseudo-terminals are of POSIX")
    import tty

    master, slave = os.openpty()
    tty.setraw(slave)

    def echo() -> None:
        while True:
            try:
                os.write(master, os.read(master, 4096))
            except OSError:  # nobody has the other end open any more
                return

    thread = threading.Thread(target=echo)
    thread.start()
    try:
        yield os.ttyname(slave)
    finally:
        os.close(slave)
        thread.join()
        os.close(master)
