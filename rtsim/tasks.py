"""What reacts at a tag: controllers, discrete updates, sensors, noise.

A reaction sees the values as they stood before its microstep and leaves its writes with the
:class:`Moment`, which applies them together when all reactions of the microstep have run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from typing import Any, Protocol

import numpy as np

from rtsim.bus import Bus
from rtsim.controller import Controller
from rtsim.errors import ControllerError, ModelError, ScenarioError, ShapeError
from rtsim.latency import ZERO, LatencyModel, draw
from rtsim.plant import Plant
from rtsim.ports import Port, Wiring
from rtsim.random_streams import RandomStreams
from rtsim.signals import Vector
from rtsim.tag import NS_PER_S, Period, Tag

FAR = 2**63 - 1
"""Later than anything that happens."""
SILENCE_S = 10.0
"""Wall seconds after which a controller in lockstep counts as silent."""

LATE_POLICIES = ("hold", "fail", "stretch")


@dataclass(frozen=True)
class Environment:
    """What a reaction may use besides its own values."""

    bus: Bus
    streams: RandomStreams
    event: Callable[[Tag, str, str, str, dict[str, float]], None]
    now: Callable[[], int]
    """The clock's own ns."""
    paced: bool
    stretch: Callable[[int], None]
    """Re-anchor the clock: simulated ns is now."""
    write: Callable[[Vector, Vector, Plant | Port], None]
    """Leave a write for the end of the microstep: vector, new content, whose it is."""
    sampled: Callable[[str, Tag, Vector, int], None]
    """A request was sampled: controller, tag, inputs, sequence."""


class Task(Protocol):
    """Reacts at its ticks."""

    name: str
    period: Period | None
    priority: int
    next_ns: int

    def ticked(self) -> None:
        """The present tick is being served; look to the next."""
        ...

    def react(self, tag: Tag, environment: Environment) -> None: ...

    def save(self) -> dict[str, Any]: ...

    def restore(self, saved: dict[str, Any]) -> None: ...


class Ticking:
    """The ticks of a task: ``offset + round(k * period)``; none without a period."""

    def __init__(self, name: str, period: Period | None, offset_ns: int, priority: int) -> None:
        if offset_ns < 0:
            raise ScenarioError(f"task {name} has an offset of {offset_ns} ns; it must be >= 0")
        self.name = name
        self.period = period
        self.offset_ns = offset_ns
        self.priority = priority
        self.k = 0
        self.next_ns = self._tick()

    def _tick(self) -> int:
        return FAR if self.period is None else self.period.tick(self.k, self.offset_ns)

    def ticked(self) -> None:
        self.k += 1
        self.next_ns = self._tick()

    def save(self) -> dict[str, Any]:
        return {"k": self.k}

    def restore(self, saved: dict[str, Any]) -> None:
        self.k = saved["k"]
        self.next_ns = self._tick()


@dataclass
class Request:
    """A controller's request under way."""

    tag: Tag
    due: Tag
    sent: int
    """The clock's own ns when it was sent."""
    late: bool = False


class ControllerTask(Ticking):
    """Samples a controller's inputs at its ticks and sends its answer when it is due."""

    def __init__(
        self,
        name: str,
        controller: Controller,
        wiring: Wiring,
        period: Period | None,
        offset_ns: int = 0,
        priority: int = 0,
        compute: LatencyModel = ZERO,
        late: str = "hold",
    ) -> None:
        super().__init__(name, period, offset_ns, priority)
        if late not in LATE_POLICIES:
            raise ScenarioError(
                f"late policy {late!r} of {name}; choose one of {', '.join(LATE_POLICIES)}"
            )
        self.controller = controller
        self.wiring = wiring
        self.compute = compute
        self.late = late
        self.sequence = 0
        self.request: Request | None = None
        self._stream, self._link = f"compute/{name}", f"the computation of {name}"
        self.successors: frozenset[str] = frozenset()
        """Controllers that a declared order puts after this one: they hear it within the tag."""
        self.lates = 0
        self.missed = 0

    @property
    def immediate(self) -> bool:
        return bool(self.successors)

    @property
    def due_ns(self) -> int:
        """When the answer under way is due; far away when none is, or when it was given up."""
        return FAR if self.request is None or self.request.late else self.request.due.ns

    def react(self, tag: Tag, environment: Environment) -> None:
        if self.request is not None and not self._given_up(tag, environment):
            self.missed += 1
            text = f"{self.name} is still busy with the request of {self.request.tag}"
            environment.event(tag, "Missed", self.name, text, {})
            return
        self.wiring.gather()
        inputs = self.wiring.into
        environment.sampled(self.name, tag, inputs, self.sequence)
        self.sequence += 1
        delays = draw(self.compute, environment.streams, self._stream, 8 * inputs.size, self._link)
        if len(delays) != 1:
            raise ControllerError(
                f"the compute latency of {self.name} gave {len(delays)} delays; a computation "
                "takes one time: put Loss and Duplicate on its transport"
            )
        self.controller.send(tag, inputs)
        due = Tag(tag.ns + delays[0], 0) if delays[0] else tag
        self.request = Request(tag, due, environment.now())
        if due == tag:
            self.answer(environment)

    def _given_up(self, tag: Tag, environment: Environment) -> bool:
        """True where a late answer came in the meantime: it is discarded, and that is recorded."""
        request = self.request
        assert request is not None
        if not request.late or self.controller.receive(request.tag, 0.0) is None:
            return False
        environment.event(tag, "Discarded", self.name, f"the answer of {request.tag} was late", {})
        self.request = None
        return True

    def answer(self, environment: Environment) -> None:
        """The answer is due: send it on, or record that it is late."""
        request = self.request
        assert request is not None
        answer = self.controller.receive(request.tag, self._patience(request, environment))
        if answer is None:
            answer = self._overdue(request, environment)
            if answer is None:
                return
        if getattr(answer, "shape", None) != (self.controller.outputs.size,):
            raise ShapeError(
                f"{self.name} answered {request.tag} with shape "
                f"{getattr(answer, 'shape', type(answer).__name__)}; expected "
                f"({self.controller.outputs.size},): {', '.join(self.controller.outputs.columns)}"
            )
        if not all(map(isfinite, answer.tolist())):
            bad = int(np.flatnonzero(~np.isfinite(answer))[0])
            raise ControllerError(
                f"{self.name} answered {answer[bad]} for {self.controller.outputs.columns[bad]} "
                f"at {request.tag}; its inputs were "
                + ", ".join(
                    f"{n}={v:g}"
                    for n, v in zip(self.controller.inputs.columns, self.wiring.into, strict=True)
                )
            )
        self.request = None
        environment.bus.send(self.name, request.tag, request.due, answer)

    def _patience(self, request: Request, environment: Environment) -> float:
        if not environment.paced:
            return SILENCE_S
        allowed = request.due.ns - request.tag.ns
        return max(0, request.sent + allowed - environment.now()) / NS_PER_S

    def _overdue(self, request: Request, environment: Environment) -> Vector | None:
        allowed_ns = request.due.ns - request.tag.ns
        if not environment.paced and self.controller.outside:
            raise ControllerError(
                f"{self.name} did not answer the request of {request.tag} within {SILENCE_S:g} s"
            )
        actual_ns = environment.now() - request.sent
        self.lates += 1
        text = f"{self.name}: no answer after {actual_ns} ns, allowed {allowed_ns} ns"
        values = {"allowed": float(allowed_ns), "actual": float(actual_ns)}
        environment.event(request.due, "Late", self.name, text, values)
        if self.late == "fail":
            raise ControllerError(
                f"{text} (request of {request.tag}); allow more, or choose late='hold'"
            )
        if self.late == "stretch":
            answer = self.controller.receive(request.tag, SILENCE_S)
            if answer is None:
                raise ControllerError(f"{text}, and none within {SILENCE_S:g} s")
            environment.stretch(request.due.ns)
            return answer
        request.late = True
        return None

    def save(self) -> dict[str, Any]:
        request = None
        if self.request is not None:
            request = [list(self.request.tag), list(self.request.due), self.request.late]
        keep = getattr(self.controller, "save", None)
        return {
            **super().save(),
            "sequence": self.sequence,
            "request": request,
            "inputs": self.wiring.into.tolist(),
            "controller": keep() if keep else None,
            "counts": [self.lates, self.missed],
        }

    def restore(self, saved: dict[str, Any]) -> None:
        super().restore(saved)
        self.sequence = saved["sequence"]
        self.lates, self.missed = saved["counts"]
        self.wiring.into[:] = saved["inputs"]
        self.request = None
        if saved["request"] is not None:
            tag, due, late = saved["request"]
            self.request = Request(Tag(*tag), Tag(*due), 0, late)
        if saved["controller"] is not None:
            self.controller.restore(saved["controller"])  # type: ignore[attr-defined]


class UpdateTask(Ticking):
    """The discrete part of a model, at its own period."""

    def __init__(self, plant: Plant, period: Period, offset_ns: int = 0, priority: int = 0) -> None:
        super().__init__(f"{plant.name}.update", period, offset_ns, priority)
        self._plant = plant

    def react(self, tag: Tag, environment: Environment) -> None:
        plant = self._plant
        plant.read_wires()
        u = plant.u if plant.wiring is None else plant.wiring.into
        z = plant.z.copy()
        plant.bound.update.call(tag.ns / NS_PER_S, plant.x, z, u, plant.p)
        if not np.isfinite(z).all():
            bad = plant.bound.model.discrete.columns[int(np.flatnonzero(~np.isfinite(z))[0])]
            raise ModelError(
                f"update of {plant.name} (model {plant.bound.model.name}) made {bad} not finite "
                f"at {tag}; mend the update function"
            )
        environment.write(plant.z, z, plant)


class SensorTask(Ticking):
    """Samples signals at its period and sends them as messages."""

    def __init__(
        self, name: str, wiring: Wiring, period: Period, offset_ns: int = 0, priority: int = 0
    ) -> None:
        super().__init__(name, period, offset_ns, priority)
        self._wiring = wiring

    def react(self, tag: Tag, environment: Environment) -> None:
        self._wiring.gather()
        environment.bus.send(self.name, tag, tag, self._wiring.into)


class NoiseTask(Ticking):
    """Draws N(mean, deviation^2 / dt) each dt and holds it: white noise for continuous dynamics.

    ``deviation`` is the root of the two-sided spectral density; what it drives does not depend on
    how steps are cut.
    """

    def __init__(
        self, port: Port, mean: float, deviation: float, period: Period, priority: int = 0
    ) -> None:
        super().__init__(port.name, period, 0, priority)
        if not (isfinite(mean) and isfinite(deviation) and deviation >= 0.0):
            raise ScenarioError(
                f"noise {port.name} has mean {mean} and deviation {deviation}; "
                "both are finite, and a deviation is >= 0"
            )
        self._port = port
        self._mean = mean
        self._scale = deviation / period.seconds**0.5

    def react(self, tag: Tag, environment: Environment) -> None:  # noqa: ARG002
        stream = environment.streams.stream(f"noise/{self.name}")
        drawn = self._mean + self._scale * stream.standard_normal(self._port.value.size)
        environment.write(self._port.value, drawn, self._port)
