"""A controller outside of the process, with the stamps that a test wants, and a small loop."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import rtsim as rt
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import Tag


class Stamping:
    """An outside controller whose answers have the stamps that a test wants."""

    outside = True
    inputs = Signals("x [1]")
    outputs = Signals("y [1]")

    def __init__(self, took_ns: Sequence[int], way_ns: int = 0, **about: object) -> None:
        self._took = took_ns
        self._way = way_ns
        self._about = about
        self._steps = -1

    def describe(self) -> dict[str, object]:
        return dict(self._about)

    def send(self, tag: Tag, inputs: Vector) -> None:  # noqa: ARG002
        self._steps += 1

    def receive(self, tag: Tag, patience: float) -> Vector:  # noqa: ARG002
        return np.zeros(1)

    def stamps(self) -> tuple[int, int, int, int]:
        sent = 10**15 + self._steps * 10**8
        ended = sent + int(self._took[self._steps])
        return sent, sent, ended, ended + self._way

    def close(self) -> None: ...


class Cart(rt.Plant):
    x = rt.state("m", 1)
    v = rt.state("m/s")
    force = rt.input("N/kg")

    def derivative(self, d: Cart) -> None:
        d.x = self.v
        d.v = self.force


class Brake(rt.Controller):
    x = rt.input("m")
    v = rt.input("m/s")
    force = rt.output("N/kg")

    def step(self) -> None:
        self.force = -4 * self.x - 2 * self.v
