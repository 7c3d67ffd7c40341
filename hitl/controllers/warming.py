"""Steps before a paced run, for an emulator that compiles its code while it runs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import numpy as np

from hitl.controllers.board_link import ServedLink
from rtsim.components.controller import Controller
from rtsim.core.clock import stopwatch
from rtsim.core.errors import ControllerError
from rtsim.core.tag import NS_PER_S, Tag

MOST_NS, MOST_STEPS = NS_PER_S, 100
"""Limits of one round."""
ROUNDS = 5
"""After a reset the emulator has a new chip, for which a part of its code is compiled again."""
_BETWEEN_NS = 1_000_000


def warm_up(link: ServedLink, meet: Callable[[], Controller], silence: float) -> None:
    """Let the controller execute steps over ``link``, and reset the board; :data:`ROUNDS` times.

    The inputs are drawn at random around the initial inputs, because V8 compiles the branches of
    the emulator that were taken, and compiles again at the first instruction of another kind.
    ``meet`` returns a controller that is connected to the board.  ``silence`` is the time to wait
    for the answer to one step, s.  A step that fails ends its round, and is no error: if the run
    has such a step, it fails there.  Raises :class:`BoardError` if the emulator ends.
    """
    rng = np.random.default_rng(1)
    for _ in range(ROUNDS):
        controller = meet()
        initial, until = controller.inputs.initial(), stopwatch() + MOST_NS
        spread = np.maximum(1.0, np.abs(initial))
        with suppress(ControllerError):
            for step in range(1, MOST_STEPS + 1):
                tag, inputs = Tag(step * _BETWEEN_NS), rng.normal(initial, spread)
                controller.send(tag, inputs)
                if controller.receive(tag, silence) is None or stopwatch() > until:
                    break
        link.restart()
