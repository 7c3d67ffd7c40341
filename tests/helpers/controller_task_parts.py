"""A controller's task by itself: a controller that answers by script, and all that it does."""

from __future__ import annotations

from collections.abc import Mapping
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
        self._bus = Bus(RandomStreams(1))
        self._bus.add(Topic("c", "c", OUTPUTS, ZERO))
        self.streams = RandomStreams(1)
        self.events: list[tuple[Tag, str, str, Mapping[str, float]]] = []
        self.samples: list[tuple[str, Tag, list[float], int]] = []
        self.stamped: list[tuple[str, Tag, tuple[int, ...]]] = []
        self.stretched: list[int] = []
        self.time = 0
        self.rate = 1
        self.paced = paced
        self.environment: Environment = self

    def now(self) -> int:
        return self.time

    def wall(self, ns: int) -> int:
        return ns // self.rate

    def stretch(self, ns: int) -> None:
        self.stretched.append(ns)

    def send(self, topic: str, initiated: Tag, completed: Tag, payload: Vector) -> None:
        self.messages += self._bus.send(topic, initiated, completed, payload)

    def write(self, vector: Vector, new: Vector, owner: Any) -> None:
        raise NotImplementedError

    def event(
        self, tag: Tag, kind: str, source: str, text: str, values: Mapping[str, float]
    ) -> None:
        self.events.append((tag, kind, f"{source}: {text}", values))

    def sampled(self, controller: str, tag: Tag, inputs: Vector, sequence: int) -> None:
        self.samples.append((controller, tag, inputs.tolist(), sequence))

    def measured(self, controller: str, tag: Tag, stamps: tuple[int, ...]) -> None:
        self.stamped.append((controller, tag, stamps))

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
