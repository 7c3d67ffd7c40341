"""Steps before a paced run, for an emulator that compiles its code while it runs."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from hitl.boards.contract import BoardError, BoardLink
from hitl.controllers.board_link import ServedLink
from hitl.controllers.protocols import interface_of
from hitl.interface.ranges import ranges_of
from rtsim.components.controller import Controller
from rtsim.core.clock import stopwatch
from rtsim.core.errors import ControllerError
from rtsim.core.signals import Vector
from rtsim.core.tag import NS_PER_S, Tag

MOST_NS, MOST_STEPS = NS_PER_S, 100
"""Limits of one round."""
ROUNDS = 5
"""After a reset the emulator has a new chip, for which a part of its code is compiled again."""
_BETWEEN_NS = 1_000_000


def warmed(
    open_link: Callable[[], BoardLink], meet: Callable[[BoardLink], Controller], silence: float
) -> BoardLink:
    """Open a link with ``open_link`` and warm its emulator up.

    If the emulator ends meanwhile, which it may do at inputs that the run never has, the result is
    another link whose emulator was not warmed up.
    """
    link = open_link()
    if not isinstance(link, ServedLink):
        return link
    try:
        warm_up(link, lambda: meet(link), silence)
    except (BoardError, ControllerError):
        link.close()
        return open_link()
    except BaseException:
        link.close()
        raise
    return link


def warm_up(link: ServedLink, meet: Callable[[], Controller], silence: float) -> None:
    """Let the controller execute steps over ``link``, and reset the board; :data:`ROUNDS` times.

    The inputs are drawn at random around the initial inputs, within their ranges, because V8
    compiles the branches of the emulator that were taken, and compiles again at the first
    instruction of another kind.
    ``meet`` returns a controller that is connected to the board.  ``silence`` is the time to wait
    for the answer to one step, s.  A step that fails ends its round; the next rounds have the
    initial inputs.  A step without an answer ends all rounds.  Neither is an error: if the run has
    such a step, it fails there.  Raises :class:`BoardError` if the emulator ends.
    """
    rng, wide = np.random.default_rng(1), 1.0
    for _ in range(ROUNDS):
        controller = meet()
        initial, until = controller.inputs.initial(), stopwatch() + MOST_NS
        spread = wide * np.maximum(1.0, np.abs(initial))
        answered = True
        try:
            for step in range(1, MOST_STEPS + 1):
                tag, inputs = Tag(step * _BETWEEN_NS), rng.normal(initial, spread)
                controller.send(tag, _allowed(controller, inputs))
                answered = controller.receive(tag, min(silence, MOST_NS / NS_PER_S)) is not None
                if not answered or stopwatch() > until:
                    break
        except ControllerError:
            wide = 0.0
        link.restart()
        if not answered:
            return


def _allowed(controller: Controller, inputs: Vector) -> Vector:
    """Return the values nearest to ``inputs`` that the interface file of the controller allows."""
    interface = interface_of(controller)
    if interface is None:
        return inputs
    ranges = ranges_of(interface, math.inf)
    return np.array([one.fitted(x) for one, x in zip(ranges, inputs.tolist(), strict=True)])
