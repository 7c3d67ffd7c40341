"""A board that is none: answers what the design does, changed, and measures itself by a rule."""

from __future__ import annotations

from array import array
from pathlib import Path

import numpy as np
from back_to_back_parts import Change, Stand, write_law

from hitl.boards.paced import Timing
from hitl.comparison.back_to_back import compare_chain
from hitl.comparison.conditions import ComparisonRequest, Stage
from hitl.comparison.verdict import ComparisonChain
from hitl.interface import load_interface
from hitl.protocol.codec import name_hash, wire_schema
from hitl.protocol.line import Budget
from hitl.protocol.messages import VERSION, HelloReply
from hitl.protocol.session import EventCounts
from rtsim.components.controller import PythonController
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import Tag
from rtsim.models.unstable import controller, scenario

CLOCK_HZ = 16_000_000


def same(step: int, y: Vector) -> Vector:  # noqa: ARG001
    return y


class Host(Stand):
    """Stands for the C on the host."""

    def fresh(self) -> Host:
        return Host(self.law, self.change, self.outputs)


class FakeBoard(Stand):
    """Stands for a controller on a board: step k takes 20000 + k cycles, and 2 ms on the line."""

    own_time = True
    paced = False
    url = "board:fake"
    pacing: Timing | None = None

    def __init__(
        self, law: PythonController, change: Change, folder: Path, outputs: Signals | None = None
    ) -> None:
        super().__init__(law, change, outputs)
        self.folder = folder
        interface = load_interface(write_law(folder / "law", type="float32"))
        self.budget = Budget.of(interface, 500_000)
        self.board: HelloReply | None = None
        self.greeting = HelloReply(
            VERSION, 4, 128, wire_schema(interface), 0xC0FFEE, CLOCK_HZ, 7, name_hash("law")
        )
        self.cycles, self.took_ns, self.exchange_ns = array("q"), array("q"), array("q")
        self.stack, self.counts = 123, EventCounts(repeated=2)

    def fresh(self) -> FakeBoard:
        out = FakeBoard(self.law, self.change, self.folder, self.outputs)
        out.board, out.url, out.paced = out.greeting, self.url, self.paced
        return out

    def describe(self) -> dict[str, object]:
        return {"type": "FakeBoard", "url": self.url}

    def advance(self, tag: Tag) -> None:
        pass

    def anchor(self, tag: Tag) -> None:
        pass

    def receive(self, tag: Tag, patience: float) -> Vector | None:
        answer = super().receive(tag, patience)
        self.cycles.append(20_000 + self.step - 1)
        self.took_ns.append(self.cycles[-1] * 1_000_000_000 // CLOCK_HZ)
        self.exchange_ns.append(2_000_000 + self.took_ns[-1])
        return answer


def chain_of(
    folder: Path, host: Change = same, board: Change = same, **how: object
) -> ComparisonChain:
    """Design, host C and board of the unstable plant's controller."""
    options: dict[str, object] = {"until": 3, **how}
    stages = [
        Stage("host C", {"controller": Host(controller(), host)}),
        Stage("board", {"controller": FakeBoard(controller(), board, folder)}),
    ]
    return compare_chain(scenario(), stages, ComparisonRequest(**options))  # type: ignore[arg-type]


def as_float(step: int, y: Vector) -> Vector:  # noqa: ARG001
    """What a float32 costs."""
    return y.astype(np.float32).astype(np.float64)
