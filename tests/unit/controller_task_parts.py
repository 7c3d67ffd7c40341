"""A controller's task by itself: a controller that answers by script, and all that it does."""

from __future__ import annotations

from typing import Any

import numpy as np

from rtsim.components.bus import Bus, Message, Topic
from rtsim.components.controller_task import ControllerTask
from rtsim.components.latency import ZERO, Fixed
from rtsim.components.ports import Wiring
from rtsim.components.tasks import Environment
from rtsim.core.errors import ControllerError
from rtsim.core.random_streams import RandomStreams
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import Period, Tag

MS = 1_000_000
INPUTS, OUTPUTS = Signals("u [1]", "v [1]"), Signals("y [1]")


class Answers:
    """A controller that answers what it is told to, one for each time that it is asked."""

    inputs, outputs, outside = INPUTS, OUTPUTS, False

    def __init__(self, *answers: Any) -> None:
        self.ahead = list(answers)
        self.sent: list[tuple[Tag, list[float]]] = []
        self.asked: list[tuple[Tag, float]] = []
        self.refuses: str | None = None
        self.closed = 0
        self.state: Any = 0

    def send(self, tag: Tag, inputs: Vector) -> None:
        self.sent.append((tag, inputs.tolist()))
        if self.refuses is not None:
            raise ControllerError(self.refuses)

    def receive(self, tag: Tag, patience: float) -> Vector | None:
        self.asked.append((tag, patience))
        answer = self.ahead.pop(0) if self.ahead else 1.0
        if isinstance(answer, Exception):
            raise answer
        return np.array([answer]) if isinstance(answer, float) else answer

    def close(self) -> None:
        self.closed += 1

    def save(self) -> Any:
        return {"state": self.state}

    def restore(self, saved: Any) -> None:
        self.state = saved["state"]


class Knowing(Answers):
    """One that knows more about its failures."""

    def silent(self, tag: Tag) -> ControllerError:
        return ControllerError(f"hush {tag.ns}")

    def explained(self, tag: Tag, error: ControllerError) -> ControllerError:
        return ControllerError(f"{tag}: {error}, more")


class Stand:
    """A task, and all that it does to its surroundings."""

    def __init__(self, controller: Any, paced: bool = False, **options: Any) -> None:
        self.controller = controller
        self.inputs = np.zeros(2)
        options.setdefault("period", Period.of("0.010"))
        wiring = Wiring(self.inputs, INPUTS, {"u": 2.0, "v": -3.0}, "c")
        self.task = ControllerTask("c", controller, wiring, **options)
        self.messages: list[Message] = []
        bus = Bus(RandomStreams(1))
        bus.add(Topic("c", "c", OUTPUTS, ZERO))
        bus.record = self.messages.append
        self.events: list[tuple[Tag, str, str, dict[str, float]]] = []
        self.samples: list[tuple[str, Tag, list[float], int]] = []
        self.stamped: list[tuple[str, Tag, tuple[int, ...]]] = []
        self.stretched: list[int] = []
        self.now = 0
        self.paced = paced
        self.environment = Environment(
            bus,
            RandomStreams(1),
            lambda tag, kind, source, text, values: self.events.append(
                (tag, kind, f"{source}: {text}", values)
            ),
            lambda: self.now,
            lambda: self.paced,
            self.stretched.append,
            lambda *_: None,
            lambda name, tag, inputs, n: self.samples.append((name, tag, inputs.tolist(), n)),
            lambda *measured: self.stamped.append(measured),
        )

    def tick(self, ms: int) -> None:
        self.task.react(Tag(ms * MS), self.environment)

    def due(self) -> None:
        self.task.answer(self.environment)

    @property
    def told(self) -> list[tuple[int, str]]:
        return [(tag.ns // MS, kind) for tag, kind, *_ in self.events]


def at_once(*answers: Any, **options: Any) -> Stand:
    return Stand(Answers(*answers), **options)


def after(ms: int, *answers: Any, **options: Any) -> Stand:
    return Stand(Answers(*answers), compute=Fixed(ms / 1000), **options)
