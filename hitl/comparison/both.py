"""Runs a reference model and its translation on the same inputs, step by step (open loop).

The translation, such as C code, is then initialised a second time. It must give the same answers
again.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hitl.comparison.checks import INITIALIZED_AGAIN, Check
from hitl.comparison.execution import Execution, clock_of, timed
from hitl.controllers.protocols import Restartable, interface_of, took_ns_of
from rtsim.components.controller import Controller
from rtsim.components.protocols import Explaining, own_time, silence_s
from rtsim.core.clock import stopwatch
from rtsim.core.errors import ControllerError, UnknownName
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import Period, Tag
from rtsim.record.verdict import short

Table = NDArray[np.float64]
Observer = Callable[[int, int], None]
"""A function called after each step with two numbers: the completed steps and all steps."""
_ONCE = (
    "if a reset of the processor always comes before initialize, write initialize_once = true "
    "under [code] of the interface file"
)
MOST_AGAIN = 1000
"""The largest number of steps that are repeated after the second initialisation."""


class Driven:
    """A reference model and its translation, both running, and their answers to the same inputs.

    ``inputs`` (k, m) has one row for each step, with columns in the order of the reference model's
    inputs. ``tags`` (k, 2) has the simulated time in ns and the microstep of each step.
    """

    def __init__(
        self, design: Controller, translation: Controller, inputs: Table, tags: NDArray[np.int64]
    ) -> None:
        self.design, self.translation = design, translation
        self.inputs, self.tags = inputs, tags
        self.sent = _order(design.inputs, translation.inputs)
        theirs = translation.outputs.columns
        self.columns = {c: theirs.index(c) for c in design.outputs.columns if c in theirs}
        self.wanted = np.full((len(inputs), design.outputs.size), np.nan)
        self.given = np.full((len(inputs), design.outputs.size), np.nan)
        self.answered = 0
        self.error = ""
        self.environment = False
        """True if the environment failed, and not the translation."""
        self._before = len(took_ns_of(translation) or ())
        self._exchanges: list[int] = []
        self._into = [i for i, c in enumerate(design.outputs.columns) if c in self.columns]
        self._of = list(self.columns.values())

    def run(self, observe: Observer | None) -> None:
        """Run every step on both controllers, but stop the translation after its first error."""
        for step, row in enumerate(self.inputs):
            self.wanted[step] = _exchange(self.design, self._tag(step), row)
            if not self.error:
                began = stopwatch()
                try:
                    answer = self._answer(step)
                except ControllerError as error:
                    self._failed(step, error)
                else:
                    self._exchanges.append(stopwatch() - began)
                    self.given[step] = answer
                    self.answered += 1
            if observe is not None:
                observe(step + 1, len(self.inputs))

    def again(self) -> Check | None:
        """Initialise the translation a second time, and check that it gives the same answers again.

        Returns ``None`` if the translation has no function to initialise it, cannot be restarted,
        or has failed already.
        """
        translation = self.translation
        if not isinstance(translation, Restartable) or self.error:
            return None
        step = 0
        try:
            if not translation.restart():
                return None
            for step in range(min(self.answered, MOST_AGAIN)):
                problem = self._different(step, self._answer(step))
                if problem:
                    return Check(INITIALIZED_AGAIN, problem)
        except ControllerError as error:
            if error.environment:
                self._failed(step, error)
                return None
            return Check(
                INITIALIZED_AGAIN,
                f"the C code fails when it is initialised a second time: {error}; {_ONCE}",
            )
        return Check(INITIALIZED_AGAIN)

    def _different(self, step: int, answer: Vector) -> str:
        """Return how ``answer`` differs from the answer of the first time, as a sentence, or ""."""
        before = self.given[step]
        same = (answer == before) | (np.isnan(answer) & np.isnan(before))
        if same.all():
            return ""
        at = int(np.argmin(same))
        column = self.design.outputs.columns[at]
        return (
            f"after a second initialisation, {column} is {float(answer[at])!r} at step {step} "
            f"({short(self._tag(step))}); after the first it was {float(before[at])!r} on the same "
            f"inputs: {self._remedy()}"
        )

    def _remedy(self) -> str:
        """Return why the second initialisation gave other answers, and what to type."""
        interface = interface_of(self.translation)
        resets = (
            "initialize does not reset everything that a run changes; reset the rest there, or, "
            f"{_ONCE}"
        )
        if interface is None or not (interface.language.cpp and interface.objects):
            return resets
        return (
            f"a constructor of {', '.join(interface.objects)} leaves a member without a value; "
            f"give each member one, such as float sum = 0. Or {resets}"
        )

    def execution(self, period: Period | None) -> Execution | None:
        """Return the execution times of the steps.

        They are the times that the C code measured, or else the times of the exchanges.
        Returns ``None`` for an instrumented build.
        """
        if not timed(self.translation):
            return None
        own = took_ns_of(self.translation)
        if own is None:
            return Execution.of(self._exchanges, period)
        took = own[self._before : self._before + self.answered]
        return Execution.of(took, period, clock=clock_of(self.translation))

    def _answer(self, step: int) -> Vector:
        """Return the translation's answer (n,) to ``step``, in the order of ``design.outputs``.

        Outputs of the reference model that the translation does not have are NaN.
        """
        answer = _exchange(self.translation, self._tag(step), self.inputs[step][self.sent])
        out = np.full(self.design.outputs.size, np.nan)
        out[self._into] = answer[self._of]
        return out

    def _tag(self, step: int) -> Tag:
        return Tag(int(self.tags[step, 0]), int(self.tags[step, 1]))

    def _failed(self, step: int, error: ControllerError) -> None:
        self.error = f"step {step} ({short(self._tag(step))}): {error}"
        self.environment = error.environment


def _exchange(controller: Controller, tag: Tag, inputs: Vector) -> Vector:
    if (own := own_time(controller)) is not None:
        own.advance(tag)
    controller.send(tag, inputs)
    patience = silence_s(controller)
    answer = controller.receive(tag, patience)
    if answer is None:
        if isinstance(controller, Explaining):
            raise controller.silent(tag)
        raise ControllerError(
            f"the controller did not answer the request of {tag} within {patience:g} s"
        )
    if answer.shape != (controller.outputs.size,):
        raise ControllerError(
            f"the answer to the request of {tag} has shape {answer.shape}; expected "
            f"({controller.outputs.size},)"
        )
    return answer


def _order(ours: Signals, theirs: Signals) -> list[int]:
    """Return the index in ``ours`` of each column of ``theirs``."""
    for column in theirs.columns:
        if column not in ours.columns:
            raise UnknownName("input", column, ours.columns, "the reference model")
    return [ours.columns.index(c) for c in theirs.columns]
