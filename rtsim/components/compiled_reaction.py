"""What the compiled engine needs to know of a task: its function by address, and its vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rtsim.components.plant import Plant
from rtsim.components.ports import Wiring
from rtsim.core.signals import Vector

Kind = Literal["controller", "sensor", "update"]


@dataclass(frozen=True)
class CompiledReaction:
    """A task whose reactions run in compiled code.

    ``vectors`` are the function's four vectors, in the order of its arguments after the time.
    ``delay_ns`` is the compute latency of a controller, or 0.
    """

    kind: Kind
    wiring: Wiring | None = None
    function: int = 0
    vectors: tuple[Vector, ...] = ()
    delay_ns: int = 0
    plant: Plant | None = None
