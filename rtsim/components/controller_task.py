"""The task of a controller: sample inputs at ticks, and send answers when they are due.

Irregularities are recorded as events: Late, Discarded, Missed, Failed or Restarted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np

from rtsim.components.controller import ControllerProtocol
from rtsim.components.latency import ZERO, LatencyModel, draw, latency_state, put_latency_back
from rtsim.components.ports import Wiring
from rtsim.components.protocols import (
    Explaining,
    Replayed,
    Savable,
    Stamped,
    StartedAgain,
    WarmedUp,
    by_address,
    own_time,
    silence_s,
)
from rtsim.components.tasks import FAR, CompiledReaction, Environment, Ticking
from rtsim.core.errors import ControllerError, ScenarioError, ShapeError
from rtsim.core.raised import attribute_to
from rtsim.core.signals import Vector
from rtsim.core.tag import NS_PER_S, Period, Tag

LATE_POLICIES = ("hold", "fail", "stretch")
FAILED, RESTARTED = "Failed", "Restarted"
"""Kinds of events."""
FAILURE_POLICIES = ("end", "hold", "restart")


@dataclass
class ControllerRequest:
    """The pending request of a controller."""

    tag: Tag
    due: Tag
    sent: int
    """Clock time at which the request was sent, ns."""
    late: bool = False
    asked: int = 0
    """Number of ``receive`` calls that returned no answer to the request."""


class ControllerTask(Ticking):
    counts = ("k", "sequence")

    def __init__(
        self,
        name: str,
        controller: ControllerProtocol,
        wiring: Wiring,
        period: Period | None,
        offset_ns: int = 0,
        priority: int = 0,
        compute: LatencyModel = ZERO,
        late: str = "hold",
        failure: str = "end",
        successors: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(name, period, offset_ns, priority)
        for what, policy, known in (
            ("late", late, LATE_POLICIES),
            ("failure", failure, FAILURE_POLICIES),
        ):
            if policy not in known:
                raise ScenarioError(
                    f"unknown {what} policy {policy!r} of {name}; choose one of {', '.join(known)}"
                )
        if failure == "restart" and not isinstance(controller, StartedAgain):
            raise ScenarioError(
                f"failure='restart' of {name}: a {type(controller).__name__} cannot be started "
                "again during a run; give failure='hold' or failure='end'"
            )
        self.controller = controller
        self.wiring = wiring
        self.compute = compute
        self.late = late
        self.failure = failure
        self.failed: str | None = None
        """Reason of a failure after which the run continues without the controller, or None."""
        self.sequence = 0
        self.request: ControllerRequest | None = None
        self._stream, self._link = f"compute/{name}", f"the computation of {name}"
        self._unsent: ControllerError | None = None
        self._silence_s = silence_s(controller)
        # Done only once, because isinstance with a protocol takes microseconds.
        self._stamped = controller if isinstance(controller, Stamped) else None
        self._own = own_time(controller)
        """The controller if its own clock decides whether an answer is late, otherwise None."""
        self._by_address = by_address(controller)
        self.successors = successors
        """Later controllers of a declared order, which receive the answer at the same tag."""
        self.lates = 0
        self.missed = 0
        self.restarts = 0

    @property
    def immediate(self) -> bool:
        return bool(self.successors)

    @property
    def forgets(self) -> bool:
        """True if the controller's memory cannot be saved."""
        return not isinstance(self.controller, Savable)

    @property
    def due_ns(self) -> int:
        """Due time of a pending answer (ns), or ``FAR``."""
        return FAR if self.request is None or self.request.late else self.request.due.ns

    def compiled(self) -> CompiledReaction | str:
        native = None if self._by_address is None else self._by_address.by_address()
        if native is None or self._own is not None or self._stamped is not None:
            return f"{self.name} is not compiled"
        if self._failed_or_late:
            return f"{self.name} failed, or is late"
        return CompiledReaction("controller", self.wiring, native[0], native[1], self.compute)

    def warm_up(self) -> Callable[[], object] | None:
        """Return a function that warms up the controller, or ``None``."""
        return self.controller.warm_up() if isinstance(self.controller, WarmedUp) else None

    @property
    def _failed_or_late(self) -> bool:
        failed = self.failed is not None or self._unsent is not None
        return failed or (self.request is not None and self.request.late)

    @property
    def checked(self) -> bool:
        """True if compiled code may execute the next tick."""
        checked: bool = getattr(self.controller, "checked", True)
        return checked and not self._failed_or_late

    def adopt_compiled_state(
        self, counts: Mapping[str, int], request: ControllerRequest | None = None
    ) -> None:
        """Set the state after ticks in compiled code; ``request`` is a pending request or None."""
        before = self.sequence
        super().adopt_compiled_state(counts)
        steps, self.request = self.sequence - before, request
        assert self._by_address is not None
        self._by_address.ran_by_address(steps, None if request is None else request.tag)

    def react(self, tag: Tag, environment: Environment) -> None:
        if self._own is not None and self.failed is None:
            self._own.advance(tag)
        if self._unavailable(tag, environment):
            return
        self.wiring.gather()
        inputs = self.wiring.into
        environment.sampled(self.name, tag, inputs, self.sequence)
        self.sequence += 1
        delays = draw(self.compute, environment.streams, self._stream, 8 * inputs.size, self._link)
        if len(delays) != 1:
            raise ControllerError(
                f"the compute latency of {self.name} gave {len(delays)} delays instead of one; use "
                "Loss and Duplicate as transport latency"
            )
        self._send(tag, inputs)
        due = Tag(tag.ns + delays[0], 0) if delays[0] else tag
        self.request = ControllerRequest(tag, due, environment.now())
        if due == tag:
            self.answer(environment)

    def _unavailable(self, tag: Tag, environment: Environment) -> bool:
        """Return whether the controller has failed or is busy; if so, record a missed tick."""
        if self.request is not None and self.request.late:
            try:
                self._discard_late(self.request, tag, environment)
            except ControllerError as error:
                self._fail(tag, error, environment)
        if self.failed is not None:
            text = f"{self.name} is dead: {self.failed.partition(chr(10))[0]}"
        elif self.request is not None:
            text = f"{self.name} is still busy with the request of {self.request.tag}"
        else:
            return False
        self.missed += 1
        environment.event(tag, "Missed", self.name, text, {})
        return True

    def _discard_late(self, request: ControllerRequest, tag: Tag, environment: Environment) -> None:
        passed = 0.0 if self._own is None else (tag.ns - request.tag.ns) / NS_PER_S
        if self.controller.receive(request.tag, passed) is not None:
            text = f"the answer of {request.tag} was late"
            environment.event(tag, "Discarded", self.name, text, {})
            self.request = None
        else:
            request.asked += 1

    def _send(self, tag: Tag, inputs: Vector) -> None:
        try:
            try:
                self.controller.send(tag, inputs)
            except BaseException as error:
                attribute_to(f"controller {self.name}", tag, error, ControllerError)
        except ControllerError as error:
            if self.failure == "end" and not self.controller.outside:
                raise
            self._unsent = error  # reported when the answer is due, like any other failure

    def _fail(self, tag: Tag, error: ControllerError, environment: Environment) -> None:
        if self.name not in str(error):  # two controllers can have the same interface file
            error.add_note(f"this was the scenario's controller {self.name!r}")
        if self.failure == "end":
            raise error
        self.request, self._unsent = None, None
        environment.event(tag, FAILED, self.name, str(error), {})
        if isinstance(self.controller, StartedAgain) and self.failure == "restart":
            self.restarts += 1
            self.controller.start_again(tag)
            text = f"{self.name} is started again (restart {self.restarts})"
            environment.event(tag, RESTARTED, self.name, text, {"restarts": float(self.restarts)})
            return
        self.failed = str(error)
        with suppress(ControllerError):
            self.controller.close()

    def answer(self, environment: Environment) -> None:
        """Send the answer that is due, or record that the answer is late."""
        request = self.request
        assert request is not None
        try:
            try:
                answer = self._received(request, environment)
            except BaseException as error:
                attribute_to(f"controller {self.name}", request.tag, error, ControllerError)
        except ControllerError as error:
            self._fail(request.due, error, environment)
            return
        if answer is None:
            return
        self.request = None
        if self._stamped is not None:
            environment.measured(self.name, request.tag, self._stamped.stamps())
        environment.send(self.name, request.tag, request.due, answer)

    def _received(self, request: ControllerRequest, environment: Environment) -> Vector | None:
        if self._unsent is not None:
            raise self._unsent
        answer = self.controller.receive(request.tag, self._patience(request, environment))
        if answer is None:
            answer = self._overdue(request, environment)
            if answer is None:
                return None
        if getattr(answer, "shape", None) != (self.controller.outputs.size,):
            raise ShapeError(
                f"{self.name} answered the request of {request.tag} with a value of shape "
                f"{getattr(answer, 'shape', type(answer).__name__)}; expected "
                f"({self.controller.outputs.size},): "
                f"{', '.join(self.controller.outputs.columns)}"
            )
        if not all(map(isfinite, answer.tolist())):
            raise self._not_finite(request.tag, answer)
        return answer

    def _not_finite(self, tag: Tag, answer: Vector) -> ControllerError:
        bad = int(np.flatnonzero(~np.isfinite(answer))[0])
        text = f"{self.name} answered {answer[bad]} for {self.controller.outputs.columns[bad]}"
        if isinstance(self.controller, Explaining):
            return self.controller.explained(tag, ControllerError(text))
        names = self.controller.inputs.columns
        inputs = ", ".join(f"{n}={v:g}" for n, v in zip(names, self.wiring.into, strict=True))
        return ControllerError(f"{text} at {tag}; its inputs were {inputs}")

    def _patience(self, request: ControllerRequest, environment: Environment) -> float:
        allowed = request.due.ns - request.tag.ns
        if self._own is not None and allowed:
            return allowed / NS_PER_S
        if self._own is not None or not environment.paced:
            return self._silence_s
        due = request.sent + _on_the_clock(request, environment)
        return max(0, due - environment.now()) / NS_PER_S

    def _overdue(self, request: ControllerRequest, environment: Environment) -> Vector | None:
        allowed_ns = request.due.ns - request.tag.ns
        judged = allowed_ns > 0 if self._own is not None else environment.paced
        if self.controller.outside and not judged:
            raise self._silent(request.tag)
        actual_ns, limit_ns = allowed_ns, allowed_ns
        if self._own is None:
            actual_ns = environment.now() - request.sent
            limit_ns = _on_the_clock(request, environment)
        self.lates += 1
        request.asked += 1
        text = f"{self.name}: no answer after {actual_ns} ns, allowed {limit_ns} ns"
        values = {"allowed": float(allowed_ns), "actual": float(actual_ns)}
        environment.event(request.due, "Late", self.name, text, values)
        if self.late == "fail":
            raise ControllerError(
                f"{text} (request of {request.tag}); give a longer latency, or choose late='hold'"
            )
        if self.late == "stretch":
            answer = self.controller.receive(request.tag, self._silence_s)
            if answer is None:
                raise self._silent(request.tag)
            if self._own is not None:
                self._own.anchor(request.due)
            else:
                environment.stretch(request.due.ns)
            return answer
        request.late = True
        return None

    def _silent(self, tag: Tag) -> ControllerError:
        if isinstance(self.controller, Explaining):
            return self.controller.silent(tag)
        return ControllerError(
            f"{self.name} did not answer the request of {tag} within {self._silence_s:g} s"
        )

    def save(self) -> dict[str, Any]:
        request = None
        if self.request is not None:
            under_way = self.request
            request = [list(under_way.tag), list(under_way.due), under_way.late, under_way.asked]
        kept = None
        if self.failed is None and isinstance(self.controller, Savable):
            kept = self.controller.save()
        latency = latency_state(self.compute)
        return {
            **super().save(),
            **({"latency": latency} if latency else {}),
            "request": request,
            "inputs": self.wiring.into.tolist(),
            "controller": kept,
            "counts": [self.lates, self.missed, self.restarts],
            "failed": self.failed,
            "unsent": None if self._unsent is None else str(self._unsent),
        }

    def restore(self, saved: dict[str, Any]) -> None:
        dead = saved["failed"] is not None
        if saved["controller"] is None and saved["sequence"] and not dead:
            raise ScenarioError(
                f"{self.name} ({type(self.controller).__name__}) saved no memory, so the "
                "controller cannot be restored; add save() and restore() to its class, or "
                "replay the recording"
            )
        super().restore(saved)
        put_latency_back(self.compute, saved.get("latency", {}))
        self.lates, self.missed, *restarts = saved["counts"]
        self.restarts = sum(restarts)
        self.failed = saved["failed"]
        self._unsent = None if saved["unsent"] is None else ControllerError(saved["unsent"])
        self.wiring.into[:] = saved["inputs"]
        self.request = None
        if saved["request"] is not None:
            tag, due, late, asked = saved["request"]
            self.request = ControllerRequest(Tag(*tag), Tag(*due), 0, late, asked)
        if saved["controller"] is not None and isinstance(self.controller, Savable):
            self.controller.restore(saved["controller"])
            if isinstance(self.controller, Replayed) and self.request is not None:
                self.controller.asked_for(self.request.asked)
        if dead:
            self.controller.close()


class ScheduledController(ControllerTask):
    """Task of a controller that computes on a simulated processor.

    The processor calls :meth:`start_job`, :meth:`finish_job` and :meth:`drop_job`. The answer is
    computed when the job sends it: an aborted job does not change the memory of the controller.
    """

    release: Callable[[str, int], None]
    """Function of the processor that releases a job of the task of this name, at a time in ns."""

    def compiled(self) -> CompiledReaction | str:
        return f"{self.name} runs on a processor"

    def react(self, tag: Tag, environment: Environment) -> None:  # noqa: ARG002
        self.release(self.name, tag.ns)

    def start_job(self, tag: Tag, environment: Environment) -> Vector:
        """Sample the inputs at ``tag``, and return them (m,)."""
        if self._unavailable(tag, environment):
            return self.wiring.into
        self.wiring.gather()
        environment.sampled(self.name, tag, self.wiring.into, self.sequence)
        self.sequence += 1
        self.request = ControllerRequest(tag, Tag(FAR), 0)
        return self.wiring.into

    def finish_job(self, tag: Tag, environment: Environment) -> None:
        """Compute the answer from the sampled inputs, and send it at ``tag``."""
        if self.request is None:
            return
        self.request.due, self.request.sent = tag, environment.now()
        self._send(self.request.tag, self.wiring.into)
        self.answer(environment)

    def drop_job(self) -> None:
        """Discard the sampled inputs, because the job was aborted."""
        self.request = None

    def _patience(self, request: ControllerRequest, environment: Environment) -> float:  # noqa: ARG002
        return self._silence_s

    def _overdue(self, request: ControllerRequest, environment: Environment) -> Vector | None:  # noqa: ARG002
        raise self._silent(request.tag)


def _on_the_clock(request: ControllerRequest, environment: Environment) -> int:
    """Return the compute latency of ``request`` in wall-clock ns at the present rate."""
    return environment.wall(request.due.ns) - environment.wall(request.tag.ns)
