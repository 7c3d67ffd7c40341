"""Debug a controller in Python at a recorded step, with pdb."""

from __future__ import annotations

import bdb
import io
import pdb
import sys
from collections.abc import Callable, Sequence
from types import CodeType, FrameType, TracebackType
from typing import Any

import numpy as np

from hitl.debugging.recorded import RecordedSteps, same_bits
from hitl.debugging.session import Answers, DebugError
from rtsim.components.controller import ControllerProtocol, PythonController
from rtsim.components.protocols import Fresh, Prepared, Savable
from rtsim.core.errors import ControllerError, ScenarioError
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import NS_PER_S
from rtsim.record.reading import Recording
from rtsim.runs.replay import scenario_of
from rtsim.scenario.standard_components import ControllerComponent

_SAVED_EVERY = 1000
"""Steps from one saved memory of the controller to the next."""


def is_python(steps: RecordedSteps) -> bool:
    """Return whether the controller was not built from an interface file."""
    return "interface" not in steps.about


def debug_in_python(
    recording: Recording, steps: RecordedSteps, target: int, script: Sequence[str] | None
) -> int:
    """Open pdb at the step ``target``, and return the exit status.

    ``script`` contains commands of pdb to run; without it, the user types the commands. Raises
    :class:`DebugError` for a controller outside Python.
    """
    controller = scenario_of(recording).of(ControllerComponent)[steps.name].controller
    if controller.outside:
        raise DebugError(
            f"{steps.name} of {steps.source} ran in a program of its own, without an interface "
            "file, so no debugger can open it"
        )
    debugger = _StepDebugger(controller, steps, script)
    answers = debugger.check()
    print(f"{steps.name}: {answers.in_words}")
    debugger.debug(target)
    return answers.outcome.value


class _StepDebugger(pdb.Pdb):
    """A pdb whose commands ``next-step``, ``previous-step`` and ``step-at`` choose the step."""

    def __init__(
        self, controller: ControllerProtocol, steps: RecordedSteps, script: Sequence[str] | None
    ) -> None:
        text = None if script is None else io.StringIO("\n".join(script) + "\n")
        super().__init__(
            stdin=text, stdout=sys.stdout if text else None, nosigint=True, readrc=script is None
        )
        if text is not None:
            self.prompt = ""
        self.identchars += "-"
        self._prototype, self._steps = controller, steps
        self._controller = _started(controller)
        self._code = _code_of(self._controller)
        self._rewritten = hasattr(getattr(self._controller, "law", None), "rewritten")
        self._saved: dict[int, Any] = {}
        self._entering = False
        self._step = 0
        self._wanted: int | None = None

    def check(self) -> Answers:
        """Compute all steps, and compare the answers with the recording."""
        steps, equal = self._steps, []
        stopped = ""
        try:
            for step in range(len(steps)):
                answer = self._computed(step)
                equal.append(bool(same_bits(answer[None], steps.recorded[step][None])[0]))
        except ControllerError as error:
            stopped = str(error).partition("\n")[0]
        done = len(equal)
        compared = steps.answered[:done]
        different = np.flatnonzero(compared & ~np.array(equal, np.bool_))
        first = int(different[0]) if len(different) else None
        return Answers(len(steps), int(compared.sum()), first, stopped, done, build="Python")

    def _computed(self, step: int) -> Vector:
        if step % _SAVED_EVERY == 0 and isinstance(self._controller, Savable):
            self._saved.setdefault(step, self._controller.save())
        tag = self._steps.tag(step)
        self._controller.send(tag, self._steps.given[step])
        answer: Vector | None = self._controller.receive(tag, 0.0)
        assert answer is not None
        return answer

    def debug(self, target: int) -> None:
        """Debug from the step ``target`` on, until the user ends pdb."""
        self._wanted = target
        while self._wanted is not None:
            step, self._wanted = self._wanted, None
            if step != self._step or step == target:
                self._restore(step)
            self._step, self._entering = step, True
            self.message(self._in_words(step))
            try:
                answer = self.runcall(self._computed, step)
            except bdb.BdbQuit:
                continue
            except ControllerError as error:
                if not self.quitting:
                    self.message(str(error))
                continue
            if answer is not None:
                self.message(f"answer {_listed(self._steps.outputs, answer)}")
            self._step = step + 1

    def _restore(self, target: int) -> None:
        """Give the controller the memory that it had before the step ``target``."""
        self._controller, begun = _started(self._prototype), 0
        if isinstance(self._controller, Savable) and (
            before := max((step for step in self._saved if step <= target), default=0)
        ):
            self._controller.restore(self._saved[before])
            begun = before
        for step in range(begun, target):
            self._computed(step)

    def _in_words(self, step: int) -> str:
        steps = self._steps
        time = steps.tag(step).ns / NS_PER_S
        recorded = "no recorded answer"
        if steps.answered[step]:
            recorded = f"recorded answer {_listed(steps.outputs, steps.recorded[step])}"
        inputs = _listed(steps.inputs, steps.given[step])
        return f"step {step} of {len(steps)} at {time:g} s: {inputs}; {recorded}"

    def setup(self, frame: FrameType | None, tb: TracebackType | None) -> None:
        """Select a frame; in a method of a class with fields, ``self`` has the signals."""
        super().setup(frame, tb)
        here = self.curframe
        if here is not None and here.f_code is self._code and self._rewritten:
            here.f_locals["self"] = _Signals(self._controller, here)

    def user_line(self, frame: FrameType) -> None:
        """Stop at a line; at first in the function of the controller."""
        if self._entering and frame.f_code is not self._code:
            return
        self._entering = False
        super().user_line(frame)

    def user_call(self, frame: FrameType, argument_list: None) -> None:
        if not self._entering:
            super().user_call(frame, argument_list)

    def user_return(self, frame: FrameType, return_value: object) -> None:
        if not self._entering:
            super().user_return(frame, return_value)

    def _go(self, step: int, finish: bool = False) -> bool:
        if not 0 <= step < len(self._steps):
            self.error(f"the steps are 0 to {len(self._steps) - 1}; there is no step {step}")
            return False
        self._wanted = step
        if finish:
            self.set_continue()
        else:
            self.set_quit()
        return True

    def next_step(self, _: str) -> bool:
        """Finish this step, and stop in the next one with the present memory."""
        return self._go(self._step + 1, finish=True)

    def previous_step(self, _: str) -> bool:
        """Go back to the previous step, with the memory of the recorded run."""
        return self._go(self._step - 1)

    def step_at(self, time: str) -> bool:
        """Go to the latest step at or before a time in s, with the memory of the recorded run."""
        try:
            return self._go(self._steps.step_at(time))
        except ScenarioError as error:
            self.error(str(error))
            return False


_COMMANDS: dict[str, Callable[[_StepDebugger, str], bool]] = {
    "next-step": _StepDebugger.next_step,
    "previous-step": _StepDebugger.previous_step,
    "step-at": _StepDebugger.step_at,
}
for _name, _does in _COMMANDS.items():
    setattr(_StepDebugger, f"do_{_name}", _does)


class _Signals:
    """The signals of a controller whose law uses vectors in place of ``self``."""

    def __init__(self, controller: PythonController, frame: FrameType) -> None:
        self._vectors = (
            (controller.inputs, "_u"), (controller.memory, "_z"), (controller.parameters, "_p"),
            (controller.outputs, "_y"),
        )  # fmt: skip
        self._frame = frame

    def __getattr__(self, name: str) -> Any:
        for signals, local in self._vectors:
            if name in signals:
                values = self._frame.f_locals[local][signals.slice(name)]
                return values if signals[name].shape else float(values[0])
        known = [one for signals, _ in self._vectors for one in signals.names]
        raise AttributeError(f"there is no signal {name}; the signals are {', '.join(known)}")


def _started(controller: ControllerProtocol) -> Any:
    if isinstance(controller, Prepared):
        return controller.ready(False)
    return controller.fresh() if isinstance(controller, Fresh) else controller


def _code_of(controller: Any) -> CodeType:
    law = getattr(controller, "law", None) or type(controller).send
    code: CodeType = law.__code__
    return code


def _listed(signals: Signals, values: Vector) -> str:
    return ", ".join(f"{n}={v!r}" for n, v in zip(signals.columns, values.tolist(), strict=True))
