"""The data that the compiled engine needs about a task: the function's address and vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rtsim.components.latency import Fixed, LatencyModel
from rtsim.components.plant import Plant
from rtsim.components.ports import SignalPort, Wiring
from rtsim.core.signals import Vector
from rtsim.core.tag import Period

Kind = Literal["controller", "sensor", "update", "noise", "timers"]


@dataclass(frozen=True)
class CompiledReaction:
    """A task whose reactions run in compiled code.

    ``vectors`` are the function's four vectors, in the order of its arguments after the time.
    """

    kind: Kind
    wiring: Wiring | None = None
    function: int = 0
    vectors: tuple[Vector, ...] = ()
    compute: LatencyModel = Fixed(0)
    """The latency of a controller's computation."""
    plant: Plant | None = None
    due: Vector | None = None
    """For timers: a vector with one element for each timer, 1 if the timer ticks now, else 0."""
    timers: tuple[tuple[Period | None, int], ...] = ()
    """Period and offset [ns] of each timer; a timer without a period ticks once."""
    port: SignalPort | None = None
    """For noise: the port to which the noise writes."""
    draws: Callable[[np.random.Generator, int], NDArray[np.float64]] | None = None
    """For noise: a function that returns the values (k, n) of the next k ticks."""
    drawn: tuple[str, Vector] | None = None
    """For timers: a random stream, and the elements of a vector that get numbers from N(0, 1) from
    this stream before each tick."""
