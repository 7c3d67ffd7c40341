"""Run one controller on several emulated boards, and compare each with the C code on this host."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from hitl.boards.contract import BoardError
from hitl.boards.description import BoardDescription
from hitl.boards.known import board_named
from hitl.building.toolchain import BuildError
from hitl.comparison.on_boards import check_processor
from hitl.controllers.board import BoardController
from hitl.controllers.sil import SilController
from hitl.firmware.firmware import Firmware, firmware
from hitl.interface import Interface, InterfaceError
from rtsim.core.errors import ControllerError
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import Tag

PATIENCE_S = 10.0
_UNBOUNDED = 100.0
"""Largest magnitude of an input without a range."""


@dataclass(frozen=True)
class OnOneBoard:
    """What one board measured, or why it could not run the controller."""

    board: BoardDescription
    image: Firmware | None = None
    emulator: str = ""
    baud: int = 0
    steps: int = 0
    equal: int = 0
    """Number of steps whose outputs have the bits of the host's build."""
    cycles: tuple[int, ...] = ()
    exchange_ns: tuple[int, ...] = ()
    stack: int = 0
    why: str = ""
    """Why the controller cannot run on this board, or stopped; "" if it ran all steps."""


def random_inputs(signals: Signals, count: int, seed: int) -> list[Vector]:
    """Return ``count`` inputs, uniform in the declared ranges, and within +-100 without a range."""
    chance = np.random.default_rng(seed)
    lows = np.concatenate([np.full(s.size, max(s.low, -_UNBOUNDED)) for s in signals])
    highs = np.concatenate([np.full(s.size, min(s.high, _UNBOUNDED)) for s in signals])
    return [chance.uniform(lows, highs) for _ in range(count)]


def on_boards(
    interface: Interface, boards: Iterable[str], inputs: Sequence[Vector]
) -> list[OnOneBoard]:
    """Give ``inputs`` to ``interface`` on this host and on each of the emulated ``boards``.

    A board on which the controller cannot run has the reason in its row.  Raises the error of the
    host's build, and :class:`BoardError` for an unknown board.
    """
    known = [board_named(name) for name in boards]
    host = _on_host(interface, inputs)
    return [_on_board(interface, board, inputs, host) for board in known]


def _on_host(interface: Interface, inputs: Sequence[Vector]) -> list[bytes]:
    out = []
    with closing(SilController(interface).fresh()) as host:
        for k, given in enumerate(inputs):
            tag = Tag(interface.period.tick(k))
            host.send(tag, given)
            answer = host.receive(tag, PATIENCE_S)
            if answer is None:
                raise ControllerError(
                    f"{interface.name} did not answer step {k} on this host within {PATIENCE_S:g} s"
                )
            out.append(answer.tobytes())
    return out


def _on_board(
    interface: Interface, board: BoardDescription, inputs: Sequence[Vector], host: list[bytes]
) -> OnOneBoard:
    try:
        check_processor(interface, board)
        if not board.emulators:
            raise BoardError(f"{board.phrase} has no emulator")
        image = firmware(interface, board=board)
        board.emulator(next(iter(board.emulators))).command()
    except (BoardError, BuildError, InterfaceError) as error:
        return OnOneBoard(board, why=str(error))
    equal, steps, why = 0, 0, ""
    prototype = BoardController(interface, url=board.url, firmware=image.path)
    with closing(prototype.fresh()) as running:
        try:
            for k, given in enumerate(inputs):
                tag = Tag(interface.period.tick(k))
                running.send(tag, given)
                answer = running.receive(tag, PATIENCE_S)
                if answer is None:
                    why = f"no answer to step {k} within {PATIENCE_S:g} s"
                    break
                steps += 1
                equal += answer.tobytes() == host[k]
        except ControllerError as error:
            why = str(error)
    return OnOneBoard(
        board, image, next(iter(board.emulators)), running.baud, steps, equal,
        tuple(running.cycles), tuple(running.exchange_ns), running.stack, why,
    )  # fmt: skip
