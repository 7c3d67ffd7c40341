"""Open loop: a reference controller and its translation receive the same inputs step by step.

An output passes if it differs by at most ``max(absolute, relative * |design|)``, as in comparisons
of recordings (:mod:`rtsim.record.verdict`). The outputs have no effect on the inputs, so each
difference belongs to one step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hitl.comparison.execution import Execution, OnTarget, clock_of, timed
from hitl.comparison.exercise import Exercise
from hitl.comparison.outputs import (
    C_AGAINST_DESIGN,
    DESIGN,
    OutputResult,
    Sides,
    StepMoment,
    judged,
    lined_up,
    missing,
)
from hitl.comparison.tolerances import (
    INITIALIZED_AGAIN,
    Check,
    Tolerances,
    by_type,
    checked,
    declared,
    names_of,
    of_interface,
    of_output,
    one_after_the_other,
    one_step,
    refuse_unknown,
)
from hitl.controllers.c_controller import (
    Restartable,
    interface_of,
    name_of,
    took_ns_of,
    warnings_of,
)
from rtsim.components.controller import ControllerProtocol
from rtsim.components.protocols import Described, Explaining, Fresh, own_time, silence_s
from rtsim.core.clock import stopwatch
from rtsim.core.errors import ControllerError, ScenarioError, ShapeError, UnknownName
from rtsim.core.outcome import Judged, Outcome
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import Period, Tag
from rtsim.record.verdict import Tolerance, short

Table = NDArray[np.float64]
Observer = Callable[[int, int], None]
"""A function that is called after each step with the number of completed steps and of all steps."""
_ONCE = (
    "if a reset of the processor always comes before initialize, write initialize_once = true "
    "under [code] of the interface file"
)
MOST_AGAIN = 1000
"""Greatest number of steps that are repeated after a second initialisation."""


class Driven:
    """A reference controller and the compared controller, with their outputs for the same inputs.

    ``inputs`` (k, m) has a row for each step, in the order of the reference controller's inputs.
    ``tags`` (k, 2) contains the time (ns) and the microstep of each step.
    """

    def __init__(
        self,
        design: ControllerProtocol,
        translation: ControllerProtocol,
        inputs: Table,
        tags: NDArray[np.int64],
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
        """Run all steps.

        After an error, only the reference controller executes the remaining steps.
        """
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
        """Initialise the compared controller again, and check that its outputs are the same.

        Returns ``None`` if the controller cannot be initialised again.
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
        """Return the execution times of the steps, or ``None`` for an instrumented build.

        If the C code does not measure its steps, the result contains the durations of the
        exchanges.
        """
        if not timed(self.translation):
            return None
        own = took_ns_of(self.translation)
        if own is None:
            return Execution.of(self._exchanges, period)
        took = own[self._before : self._before + self.answered]
        return Execution.of(took, period, clock=clock_of(self.translation))

    def _answer(self, step: int) -> Vector:
        answer = _exchange(self.translation, self._tag(step), self.inputs[step][self.sent])
        out = np.full(self.design.outputs.size, np.nan)
        out[self._into] = answer[self._of]
        return out

    def _tag(self, step: int) -> Tag:
        return Tag(int(self.tags[step, 0]), int(self.tags[step, 1]))

    def _failed(self, step: int, error: ControllerError) -> None:
        self.error = f"step {step} ({short(self._tag(step))}): {error}"
        self.environment = error.environment


def _exchange(controller: ControllerProtocol, tag: Tag, inputs: Vector) -> Vector:
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
    for column in theirs.columns:
        if column not in ours.columns:
            raise UnknownName("input", column, ours.columns, "the reference model")
    return [ours.columns.index(c) for c in theirs.columns]


class First(NamedTuple):
    """The first step that fails, with its output."""

    signal: str
    step: int


@dataclass(frozen=True, eq=False)
class OpenLoop(Judged):
    """The result of k steps in open loop; steps without an answer are NaN."""

    name: str
    signals: list[OutputResult]
    """The verdict on each output column of the reference model."""
    input_names: tuple[str, ...]
    inputs: Table
    """The inputs, shape (k, m), in the order of the reference model's inputs."""
    tags: NDArray[np.int64]
    """The ns and microstep of each step, shape (k, 2)."""
    design: Table
    """The outputs of the reference model, shape (k, n)."""
    translation: Table
    """The outputs of the translation, shape (k, n), in the order of ``design``."""
    answered: int
    """Number of steps that the translation answered."""
    execution: Execution | None = None
    """Execution times; ``None`` for an instrumented build, or if no step was answered."""
    error: str = ""
    """The error with which the translation stopped or failed to close, or ""."""
    about: Mapping[str, Any] = field(default_factory=dict)
    sides: Sides = C_AGAINST_DESIGN
    target: OnTarget | None = None
    """The reports of the board, if the translation ran on a board."""
    warnings: str = ""
    """Compiler warnings about the C code of the translation."""
    environment: bool = False
    """True if the environment caused the error, for example a host without free memory."""
    checks: tuple[Check, ...] = ()
    """Checks of the translation other than those of its answers."""
    exercise: Exercise = Exercise()

    def _judge(self) -> Outcome:
        differs = any(s.reason and (s.step is None or s.step < self.answered) for s in self.signals)
        if differs or any(check.problem for check in self.checks):
            return Outcome.FAILED
        if self.error:
            return Outcome.UNDECIDED if self.environment else Outcome.FAILED
        return Outcome.PASSED if self.exercise.any else Outcome.UNDECIDED

    @property
    def steps(self) -> int:
        return len(self.inputs)

    @property
    def first(self) -> First | None:
        failing = [(s.step, i, s.name) for i, s in enumerate(self.signals) if s.step is not None]
        return First(min(failing)[2], min(failing)[0]) if failing else None

    @property
    def failures(self) -> list[OutputResult]:
        return [s for s in self.signals if s.reason]

    def worst_first(self) -> list[OutputResult]:
        """Return the outputs, first those that fail, sorted by their difference."""
        return sorted(self.signals, key=lambda s: (not s.reason, -s.share, -s.max_rel))

    def tag(self, step: int) -> Tag:
        return Tag(int(self.tags[step][0]), int(self.tags[step][1]))

    def moment(self, signal: OutputResult, step: int) -> StepMoment:
        """Return value, tolerance and inputs of an output at a step."""
        column = self.signals.index(signal)
        absolute, relative = signal.tolerance
        size = abs(float(self.design[step, column]))
        return StepMoment(
            f"{self.name}.{signal.name}",
            step,
            self.tag(step),
            float(self.design[step, column]),
            float(self.translation[step, column]) if step < self.answered else None,
            max(absolute, relative * size) if isfinite(size) else absolute,
            dict(zip(self.input_names, self.inputs[step].tolist(), strict=True)),
            self.sides,
        )

    @property
    def first_moment(self) -> StepMoment | None:
        first = self.first
        if first is None:
            return None
        return self.moment(next(s for s in self.signals if s.name == first.signal), first.step)

    @property
    def in_words(self) -> str:
        if self.error:
            return f"{self.name}: {self.error}"
        problems = [_about_it(self.name, check.problem) for check in self.checks if check.problem]
        if self.failures:
            moment = self.first_moment
            first = f"{self.name}.{self.failures[0].name}: {self.failures[0].reason}"
            return "\n".join([first if moment is None else moment.in_words, *problems])
        if problems:
            return problems[0]
        if not self.exercise.any:
            return f"{self.name}: {self.exercise.nothing}"
        close = max(self.signals, key=lambda s: s.share)
        return (
            f"{self.name}: all {self.steps} steps agree, at most {100 * close.share:.3g} % of "
            f"the tolerance ({close.name})"
        )

    @property
    def covered(self) -> str:
        outputs = f"{len(self.signals)} output{'s' * (len(self.signals) != 1)}"
        inputs = f"{len(self.input_names)} input{'s' * (len(self.input_names) != 1)}"
        steps = f"{self.answered} of {self.steps} steps"
        span = f"{short(self.tag(0))} to {short(self.tag(self.steps - 1))}"
        return f"{self.name}: {outputs}, {inputs}, {steps}, {span}"

    def to_json(self) -> dict[str, Any]:
        first = self.first
        return {
            "ok": self._judge() is Outcome.PASSED,
            "outcome": self._judge().name.lower(),
            "error": self.error,
            "checks": [check._asdict() for check in self.checks],
            **self.exercise.to_json(),
            "steps": self.steps,
            "answered": self.answered,
            "first": None if first is None else first._asdict(),
            "signals": [s.to_json() for s in self.signals],
            "worst": [
                self.moment(s, s.worst_step).to_json()
                for s in self.worst_first()
                if s.worst_step is not None
            ],
            "execution": None if self.execution is None else self.execution.to_json(),
            "target": None if self.target is None else self.target.to_json(),
            "about": dict(self.about),
            "warnings": self.warnings,
        }


def open_loop(
    design: ControllerProtocol,
    translation: ControllerProtocol,
    inputs: ArrayLike,
    tags: ArrayLike | None = None,
    *,
    name: str = "",
    period: Period | None = None,
    tolerances: Tolerances | None = None,
    observe: Observer | None = None,
    sides: Sides = C_AGAINST_DESIGN,
    labels: Signals | None = None,
) -> OpenLoop:
    """Compare two running controllers on the same inputs.

    A ``ControllerError`` of the translation is part of the result. Errors of the reference model
    are raised. Raises :class:`ShapeError` for inputs or tags of a wrong shape, and
    :class:`ScenarioError` for tolerances that match no output.

    Args:
        design: Reference controller.
        translation: Controller to compare with it.
        inputs: Inputs of all steps, shape (k, m), in the order of the reference controller's
            inputs.
        tags: Time (ns) and microstep of each step, shape (k, 2). By default, step i is at tick i.
        name: Name of the controller in messages.
        period: Period of the steps; by default that of the translation.
        tolerances: See ``hitl.comparison.tolerances``. By default, tolerances depend on the C
            types.
        observe: Function that is called after each step.
        sides: Names of both controllers in messages.
        labels: Units and kinds of the outputs, if ``design`` is in C.
    """
    name = name or name_of(translation)
    interface = interface_of(translation)
    period = period or (None if interface is None else interface.period)
    table = _table(inputs, design.inputs)
    when = _tags(tags, len(table), period)
    rules = checked(tolerances)
    columns = design.outputs.columns
    refuse_unknown(rules, [n for c in columns for n in names_of(name, c)])
    rules = one_after_the_other(declared([translation]), rules)
    driven = Driven(design, translation, table, when)
    driven.run(observe)
    target = OnTarget.of(translation, period)
    again = driven.again()
    return OpenLoop(
        name=name,
        signals=_results(driven, _limits(driven, rules, name), sides, labels or design.outputs),
        input_names=design.inputs.columns,
        inputs=table,
        tags=when,
        design=driven.wanted,
        translation=driven.given,
        answered=driven.answered,
        execution=driven.execution(period),
        error=driven.error,
        about=_about(translation),
        sides=sides,
        target=target,
        warnings=warnings_of(translation),
        environment=driven.environment,
        checks=() if again is None else (again,),
        exercise=Exercise.of(design, table, driven.wanted),
    )


def _limits(driven: Driven, rules: Mapping[str, Tolerance], name: str) -> dict[str, Tolerance]:
    out = {}
    default, known = defaults(driven.translation), driven.design.outputs.columns
    for signal in driven.translation.outputs:
        values = driven.wanted[:, [known.index(c) for c in signal.columns if c in known]]
        for column in signal.columns:
            own = one_step(default[column], signal, values)
            out[column] = of_output(rules, name, column, own)
    return out


def defaults(translation: ControllerProtocol, floating: bool = False) -> dict[str, Tolerance]:
    """Return the default tolerance of each output; see ``by_type``.

    With ``floating``, only floating-point outputs are included.
    """
    interface = interface_of(translation)
    fields = () if interface is None else interface.output_fields
    scales = {f.signal.name: f.scale for f in fields}
    return {
        column: by_type(signal, scales.get(signal.name, 1.0))
        for signal in translation.outputs
        if not floating or signal.type.startswith("float")
        for column in signal.columns
    }


def _results(
    driven: Driven, limits: Mapping[str, Tolerance], sides: Sides, labels: Signals
) -> list[OutputResult]:
    n, out = driven.answered, []
    for own in driven.design.outputs:
        signal = replace(own, unit=labels[own.name].unit, kind=labels[own.name].kind)
        where = driven.design.outputs.slice(signal.name)
        wanted, given = driven.wanted[:n, where], driven.given[:n, where]
        if signal.kind == "quaternion":
            given = lined_up(wanted, given)
        for i, column in enumerate(signal.columns):
            if column not in driven.columns:
                out.append(missing(column, signal.unit))
                continue
            theirs = driven.translation.outputs.columns.index(column)
            kind = _type_of(driven.translation.outputs, theirs)
            pairs = wanted[:, i], given[:, i]
            out.append(judged(signal, column, kind, limits[column], pairs, driven.tags, sides))
    return out


def _about_it(name: str, problem: str) -> str:
    return problem if problem.startswith(f"{name}:") else f"{name}: {problem}"


def _type_of(outputs: Signals, column: int) -> str:
    return [s.type for s in outputs for _ in s.columns][column]


def _table(inputs: ArrayLike, layout: Signals) -> Table:
    table = np.ascontiguousarray(inputs, dtype=np.float64)
    if table.ndim != 2 or table.shape[1] != layout.size:
        raise ShapeError(
            f"the inputs have shape {table.shape}; expected (steps, {layout.size}): "
            f"{', '.join(layout.columns)}"
        )
    if not len(table):
        raise ScenarioError("the inputs have no rows, so there is no step to compare")
    return table


def _tags(tags: ArrayLike | None, steps: int, period: Period | None) -> NDArray[np.int64]:
    if tags is None:
        if period is None:
            raise ScenarioError(
                "the times of the steps are unknown; give the argument tags, of shape (k, 2), "
                "or the argument period"
            )
        return np.array([(period.tick(k), 0) for k in range(steps)], np.int64)
    given = np.asarray(tags, np.int64)
    if given.shape != (steps, 2):
        raise ShapeError(f"tags have shape {given.shape}; expected ({steps}, 2): ns, microstep")
    return given


def _about(translation: ControllerProtocol) -> dict[str, Any]:
    return dict(translation.describe()) if isinstance(translation, Described) else {}


# Start and close of both controllers, with errors as a part of the result.


def drive(
    name: str,
    design: ControllerProtocol,
    translation: ControllerProtocol,
    inputs: NDArray[np.float64],
    tags: NDArray[np.int64],
    *,
    period: Period | None = None,
    sides: Sides = C_AGAINST_DESIGN,
    **options: Any,
) -> OpenLoop:
    """Start both controllers, compare them in open loop, and close them.

    ``options`` are further arguments of :func:`open_loop`. A failure of the initialisation or the
    end of ``translation`` is part of the result.
    """
    with ExitStack() as stack:
        ours = stack.enter_context(closing(fresh(name, design)))
        theirs: ControllerProtocol
        try:
            theirs = fresh(name, translation)
        except ControllerError as error:
            theirs = _Dead(translation, error)
        stack.callback(closed, theirs)
        out = open_loop(
            ours, theirs, inputs, tags, name=name, period=period, sides=sides, **options
        )
        checks = of_interface(name, design, theirs, period) if sides.design == DESIGN else ()
        out = replace(out, checks=(*checks, *out.checks))
        ending = closed(theirs)
        if out.error or ending is None:
            return out
        return replace(out, error=str(ending), environment=ending.environment)


def fresh(name: str, controller: ControllerProtocol) -> ControllerProtocol:
    """Return a new controller from the method ``fresh`` of ``controller``.

    Raises ``ScenarioError`` if the controller has no such method.
    """
    if not isinstance(controller, Fresh):
        raise ScenarioError(
            f"{name}: a back-to-back test starts a controller several times, but a "
            f"{type(controller).__name__} has no method fresh(); add fresh(), which returns a new "
            "controller in its initial state"
        )
    return controller.fresh()


def closed(controller: ControllerProtocol) -> ControllerError | None:
    try:
        controller.close()
    except ControllerError as error:
        return error
    return None


class _Dead:
    outside = False

    def __init__(self, instead_of: ControllerProtocol, error: ControllerError) -> None:
        self.inputs, self.outputs = instead_of.inputs, instead_of.outputs
        self.warnings = warnings_of(instead_of)
        self._error = error

    def send(self, tag: object, inputs: object) -> None:  # noqa: ARG002
        raise self._error

    def receive(self, tag: object, patience: float) -> None:
        raise NotImplementedError

    def close(self) -> None:
        pass
