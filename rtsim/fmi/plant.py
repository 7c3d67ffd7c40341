"""A plant whose values a program outside rtsim computes.

:class:`ForeignPlant` is a plant for the executive.  If the program has its own solver, a step is
one call.  Otherwise a solver of rtsim integrates the states, and rtsim finds the crossings of the
event indicators.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from rtsim.components.plant import RunningPlant
from rtsim.components.ports import Wiring
from rtsim.components.tasks import Environment
from rtsim.core.errors import CheckpointError, Ended, ModelError, ScenarioError
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.core.tag import NEVER, NS_PER_S, Period, Tag
from rtsim.equations.addresses import EQUATION, RESET, AddressBlock
from rtsim.equations.compiling import ABSENT, LATER, Compilation, Native
from rtsim.equations.delays import Guard
from rtsim.equations.model import BoundModel, Model, standing
from rtsim.fmi.compiled_steps import CompiledSteps, compiled_before
from rtsim.fmi.process import opened
from rtsim.fmi.program import (
    BACK,
    COMPLETED,
    DERIVATIVE,
    EVENT,
    INDICATORS,
    KEEP,
    NOTHING,
    OUTPUTS,
    RESTORE,
    SAVE,
    START,
    STEP,
    TUNE,
    Interface,
    Program,
)
from rtsim.scenario.component import Built, Settable, Site, Validity, changeable, initials
from rtsim.scenario.standard_components import PlantComponent
from rtsim.solve import Solver
from rtsim.solve.adaptive import StepTolerance
from rtsim.solve.base import GOOD, PAUSED
from rtsim.solve.internal_steps import nothing
from rtsim.solve.resident import NativeStep

EVENTS = Signals(Signal("events", description="number of events so far"))
STEP_EVENT = "step_event"
"""The guard for events that a program reports at the end of a solver step."""


class Evaluations:
    """The equations of a program, as functions with the arguments of a model's functions.

    Until the first step, the program starts again whenever a start value changes.
    """

    def __init__(self, program: Program, interface: Interface, x: Vector) -> None:
        self.program, self.interface = program, interface
        self.compiled: CompiledSteps | None = None
        """The steps by compiled code, if there are any."""
        self.moved = False
        """True after the first step or event."""
        self.next_event = math.inf
        """Time of the next time event, s."""
        self.x = x.copy()
        """States after the start, shape (n,)."""
        self.after: Vector | None = None
        """States after the events of the present microstep, or ``None`` without an event."""
        self.ended: Ended | None = None
        """Present after the last step or event, if it ended the simulation of the program."""
        self._request = np.zeros(2 + interface.inputs.size)
        self._begun: tuple[bytes, ...] = ()
        self._known: tuple[bytes, Vector] | None = None
        """Inputs, and the outputs of the last step at these inputs."""

    def begin(self, x: Vector, u: Vector, p: Vector) -> None:
        """Start the program with these values, unless it already runs with them."""
        if self.moved:
            return
        given = (p.tobytes(), u.tobytes())
        if given == self._begun[:2] and x.tobytes() in self._begun[2:]:
            return
        self._known = self.ended = None
        found, _ = self.program.call(START, np.concatenate(((0.0,), p, x, u)))
        self.next_event, self.x = float(found[0]), found[1:].copy()
        self._begun = (*given, x.tobytes(), self.x.tobytes())
        if self.compiled is not None:
            self.compiled.begun(u)

    def again(self) -> None:
        """Return to the state before the first step."""
        self.moved, self._begun, self.ended = False, (), None
        if self.compiled is not None:
            self.compiled.again()

    def forget(self) -> None:
        """Forget the outputs of the last step, because the program's state has changed."""
        self._known = self.ended = None
        if self.compiled is not None:
            self.compiled.forget_outputs()

    def step(self, t: float, length: float, u: Vector, p: Vector) -> None:
        self.begin(NOTHING, u, p)
        self.moved = True
        request = self._request
        request[0], request[1], request[2:] = t, length, u
        try:
            y, _ = self.program.call(STEP, request)
        except Ended as ended:
            self._known, self.ended = None, ended.at(t + length)
            return
        self._known = (u.tobytes(), y)

    def event(self, t: float, x: Vector, u: Vector) -> Vector:
        """Handle the events at ``t`` (s), and return the states after the events."""
        self.moved = True
        x = x if self.after is None else self.after
        if self.ended is not None:
            self.next_event, self.after = math.inf, x.copy()
            return x
        try:
            found, _ = self.program.call(EVENT, np.concatenate(((t,), x, u)))
        except Ended as ended:
            self.ended, found = ended, np.array(ended.answer)
        self.next_event, self.after = float(found[0]), found[1:].copy()
        if self.next_event <= t:
            raise ModelError(
                f"{self.interface.name} announced at {t:g} s its next event for "
                f"{self.next_event:g} s, which is not later"
            )
        return self.after

    def tune(self, t: float, p: Vector) -> None:
        """Set the tunable parameters at ``t`` (s)."""
        try:
            self.program.call(TUNE, p)
        except Ended as ended:
            self.ended = ended.at(t)
            return
        self.forget()

    def last_outputs(self, y: Vector) -> None:
        """Store the outputs after the end of the simulation in ``y`` (k,), if there are any."""
        nothing = np.zeros(1 + self.x.size + self.interface.inputs.size)
        with suppress(ModelError):  # an FMU may refuse to read them
            y[:] = self.program.call(OUTPUTS, nothing)[0]

    def _evaluated(
        self, operation: str, t: float, x: Vector, _: Vector, u: Vector, p: Vector, out: Vector
    ) -> None:
        if self._begun[:2] != (p.tobytes(), u.tobytes()):  # a stage of the first step is no start
            self.begin(x, u, p)
        out[:] = self.program.call(operation, np.concatenate(((t,), x, u)))[0]
        if self.compiled is not None:
            self.compiled.forget()

    def output(self, t: float, x: Vector, z: Vector, u: Vector, p: Vector, y: Vector) -> None:
        if self._known is not None and self._known[0] == u.tobytes():
            y[:] = self._known[1]
        else:
            self._evaluated(OUTPUTS, t, x, z, u, p, y)

    def guard(self, t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:
        if self.interface.indicators:
            self._evaluated(INDICATORS, t, x, z, u, p, g[: len(self.interface.indicators)])
        if self.interface.completes:
            g[-1] = 1.0

    def reset(self, i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG002
        if self.after is None:  # one event handles all guards that fired
            self.event(t, x, u)
            z[0] += 1.0
        assert self.after is not None
        x[:] = self.after

    def bound(self, model: Model) -> BoundModel:
        exchange = self.interface.exchange
        plain = Native.plain
        derivative = partial(self._evaluated, DERIVATIVE) if exchange else standing
        return BoundModel(
            model,
            plain(derivative, EQUATION),
            plain(self.output, EQUATION) if model.outputs.size else ABSENT,
            ABSENT,
            ABSENT,
            compiled=False,
            guard=plain(self.guard, EQUATION) if model.guards else ABSENT,
            reset=plain(self.reset, RESET) if model.guards else ABSENT,
        )


class ForeignPlant(RunningPlant):
    """A plant that a program computes; the arguments are those of :class:`RunningPlant`.

    In real time, a step is computed before its tag is due, if the program can return to the state
    before a discarded step.  Otherwise the step is computed at its tag, when nothing can discard
    the step.
    """

    outside = True

    def __init__(
        self,
        name: str,
        interface: Interface,
        evaluations: Evaluations,
        model: Model,
        solver: Solver,
        step: Period,
        vectors: tuple[Vector, Vector, Vector, Vector],
        wiring: Wiring,
        compile: Compilation = True,
    ) -> None:
        self.interface, self.evaluations = interface, evaluations
        self._compile = compile
        self._own_steps = not interface.exchange
        self._at_ns = 0
        """Time of the program's last committed step, ns."""
        self._ahead_ns = -1
        """Time of a provisional step that the program has taken, ns, or -1."""
        self._held = vectors[2].copy()
        """Inputs at the beginning of a step of fixed length."""
        self._tuned = vectors[3].copy()
        discrete = [
            s.name in interface.discrete_inputs for s in interface.inputs for _ in s.columns
        ]
        self._discrete = np.array(discrete, bool)
        self._latched = vectors[2].copy()
        super().__init__(name, evaluations.bound(model), solver, step, vectors, wiring)

    def _bind_functions(self) -> None:
        super()._bind_functions()
        compiled = self._compiled_steps()
        self.evaluations.compiled = compiled
        self._compiled = compiled
        if compiled is not None:
            self._evaluate_output = compiled.evaluate

    @property
    def ended(self) -> str:  # type: ignore[override]
        """Why the program has ended its simulation; empty if it has not."""
        found = self.evaluations.ended
        if found is None or self._ahead_ns >= 0:
            return ""
        compiled = self._compiled
        return "" if compiled is not None and compiled.ahead_of(self.ns) else str(found)

    def _compiled_steps(self) -> CompiledSteps | None:
        """Return the steps by compiled code, if the program is in this process and allows them."""
        if not self._compile or (self._compile == LATER and not compiled_before()):
            return None
        fixed = self.interface.fixed_step
        if fixed and self.step.ratio[1] != 1:
            return None
        functions = self.evaluations.program.functions()
        if functions is None:
            return None
        length = self.step.tick(1) / NS_PER_S if fixed else 0.0
        return CompiledSteps(self.name, functions, self.u, self._held, self.y, length)

    @property
    def unsaved(self) -> str:
        if self.interface.saves:
            return ""
        return f"{self.interface.name} cannot save its state"

    def _advance(self, target: int) -> tuple[int, int]:
        if not self._own_steps:
            return super()._advance(target)
        compiled = self._compiled
        if self.ended:
            raise ModelError(f"{self.evaluations.ended}; end the run at this time (until=)")
        if compiled is not None:
            if (answer := compiled.step(self.ns, target)) != GOOD:
                try:
                    self._complete(compiled, target, answer)
                except Ended as ended:
                    self.evaluations.ended = ended.at(target / NS_PER_S)
            if not self.evaluations.moved:
                self.evaluations.moved = compiled.moved
            return GOOD, target
        if self._at_ns == self.ns:
            self._held[:] = self.u
        if self.paced and self.interface.keeps and self._ends_step(target):
            program = self.evaluations.program
            self.evaluations.begin(self.x, self.u, self.p)
            program.call(KEEP, NOTHING)
            self._step(target)
            self._ahead_ns = target
        return GOOD, target

    def _complete(self, compiled: CompiledSteps, target: int, answer: int) -> None:
        """Complete a step by compiled code that paused, or that needs the program to begin."""
        if answer != PAUSED:
            if compiled.at_ns == self.ns:
                self._held[:] = self.u
            self.evaluations.begin(NOTHING, self._held, self.p)
            answer = compiled.step(self.ns, target)
        while answer == PAUSED:
            (self._interrupt_check or nothing)()
            answer = compiled.step(self.ns, target)
        if answer != GOOD:
            compiled.check()
            raise ModelError(f"{self.name} refused a step to {target} ns, without a reason")

    def _refuse(self, from_ns: int, to_ns: int, when: str) -> None:
        if self._compiled is not None:
            self._compiled.check()
        super()._refuse(from_ns, to_ns, when)

    def _ends_step(self, ns: int) -> bool:
        """Return whether the program takes a step to ``ns``."""
        return not self.interface.fixed_step or ns == self._grid_ns

    def _step(self, target: int) -> None:
        length = (target - self._at_ns) / NS_PER_S
        self.evaluations.step(self._at_ns / NS_PER_S, length, self._held, self.p)

    def discard(self) -> None:
        super().discard()
        self._go_back()

    def _go_back(self) -> None:
        """Return to the state before a provisional step that the program has taken."""
        compiled, ahead = self._compiled, self._ahead_ns >= 0
        if compiled is not None:
            ahead = compiled.holds and compiled.ahead_of(self.ns)
        if not ahead:
            return
        self._ahead_ns = -1
        self.evaluations.program.call(BACK, NOTHING)
        self.evaluations.forget()
        if compiled is not None:
            compiled.returned()

    def begin_run(self, interrupt_check: Callable[[], object], paced: bool = False) -> None:
        super().begin_run(interrupt_check, paced)
        if (compiled := self._compiled) is not None:
            compiled.begin_run(paced and self.interface.keeps, paced)
            self.evaluations.begin(self.x, self.u, self.p)

    def adopt_compiled_state(self, ns: int, k: int) -> None:
        super().adopt_compiled_state(ns, k)
        if self._compiled is not None:
            self.evaluations.moved = self.evaluations.moved or self._compiled.moved
        self._go_back()

    def commit(self) -> int:
        target, compiled = self.target_ns, self._compiled
        if (
            self.evaluations.ended is None
            and compiled is not None
            and not self.evaluations.moved
            and self._ends_step(target)
        ):
            # The inputs at the end of the first step must not act on the initialisation.
            self.evaluations.begin(NOTHING, self._held, self.p)
            self._evaluate_output(target / NS_PER_S)
            self.evaluations.moved = compiled.moved
        if self._own_steps and compiled is None and self._ends_step(target):
            if self._ahead_ns != target:
                try:
                    self._step(target)
                except BaseException as error:
                    self._raise_attributed(error)
            self._at_ns, self._ahead_ns = target, -1
        if not self._own_steps:
            self.evaluations.moved = True
        unbounded = super().commit()
        if self.interface.completes and self._completed():
            assert self.watch is not None
            self.watch.fired = (*self.watch.fired, len(self.bound.model.guards) - 1)
        return unbounded

    def _completed(self) -> bool:
        t = self.ns / NS_PER_S
        try:
            asks, _ = self.evaluations.program.call(
                COMPLETED, np.concatenate(((t,), self.x, self.u))
            )
        except Ended as ended:
            self.evaluations.ended = ended
            return False
        return bool(asks[0])

    def sample(self) -> None:
        evaluations = self.evaluations
        if self.ended:
            evaluations.last_outputs(self.y)
            return
        if not evaluations.moved:
            evaluations.begin(self.x, self.u, self.p)
            self.x[:] = evaluations.x
        first = self.y[:1].copy()
        try:
            super().sample()
        except Ended as ended:  # in a step by compiled code
            self.y[:1], evaluations.ended = first, ended.at(self.ns / NS_PER_S)
            evaluations.last_outputs(self.y)

    def changed(self) -> None:
        evaluations = self.evaluations
        if evaluations.moved:
            if self.p.tobytes() != self._tuned.tobytes():
                evaluations.tune(self.ns / NS_PER_S, self.p)
            differs = (self.u != self._latched) & self._discrete
            if self.interface.exchange and differs.any() and evaluations.ended is None:
                self.x[:] = evaluations.event(self.ns / NS_PER_S, self.x, self.u)
                self.z[0] += 1.0
        if evaluations.after is not None:
            evaluations.after = None
            if self.watch is not None:
                self.watch.adopt(self.ns)
        self._tuned[:], self._latched[:] = self.p, self.u
        super().changed()

    def take_steps(self, limit_ns: int) -> None:  # noqa: ARG002
        return None

    def native_step(self) -> NativeStep | None:
        return None if self._compiled is None else self._compiled.native

    def native_output(self) -> AddressBlock | None:
        return None if self._compiled is None else self._compiled.native_output

    def save(self) -> dict[str, Any]:
        evaluations, compiled = self.evaluations, self._compiled
        state, ahead, at_ns = "", self._ahead_ns >= 0, self._at_ns
        if compiled is not None:
            ahead = compiled.ahead_of(self.ns)
            at_ns = compiled.before_ns if ahead else compiled.at_ns
            if ahead and not compiled.holds:
                raise CheckpointError(
                    f"the program of {self.name} has already taken the next step, so no checkpoint "
                    "can be saved at this time; continue the run to its next tag"
                )
        if evaluations.moved:
            if self.unsaved:
                raise CheckpointError(
                    f"{self.name}: {self.unsaved}, so no run can return to an earlier time; run "
                    "without checkpoints, --rewind and steps that are taken back"
                )
            kept = b"kept" if ahead else b"present"
            _, data = evaluations.program.call(SAVE, NOTHING, kept)
            state = base64.b64encode(data).decode()
        return {
            **super().save(),
            "program": state,
            "at": at_ns,
            "held": self._held.tolist(),
            "latched": self._latched.tolist(),
            "next_event": repr(evaluations.next_event),
        }

    def restore(self, saved: dict[str, Any]) -> None:
        evaluations = self.evaluations
        self._ahead_ns = -1
        evaluations.forget()
        if saved["program"]:
            if not evaluations.moved:
                evaluations.begin(self.x, self.u, self.p)
            evaluations.program.call(RESTORE, NOTHING, base64.b64decode(saved["program"]))
            evaluations.moved = True
            if self._compiled is not None:
                self._compiled.restored(saved["at"])
            evaluations.next_event = float(saved["next_event"])
        else:
            evaluations.again()
        self._at_ns = saved["at"]
        self._held[:], self._latched[:] = saved["held"], saved["latched"]
        super().restore(saved)
        self._tuned[:] = self.p

    def close(self) -> None:
        self.evaluations.program.close()


class EventTask:
    """The time events of a program; the task reacts at each announced time."""

    period: Period | None = None

    def __init__(self, plant: ForeignPlant, priority: int) -> None:
        self.name, self.plant, self.priority = f"{plant.name}.events", plant, priority

    @property
    def next_ns(self) -> int:
        at = self.plant.evaluations.next_event
        return NEVER.ns if not at < NEVER.ns / NS_PER_S else math.ceil(at * NS_PER_S - 1e-3)

    def ticked(self) -> None:
        """Do nothing, because the event announces the time of the next event."""

    def react(self, tag: Tag, environment: Environment) -> None:  # noqa: ARG002
        plant = self.plant
        x = plant.evaluations.event(plant.evaluations.next_event, plant.x, plant.u)
        environment.write(plant.x, x, plant)
        environment.write(plant.z, plant.z + 1.0, plant)

    def save(self) -> dict[str, Any]:
        return {}

    def restore(self, saved: dict[str, Any]) -> None:
        """Do nothing, because the plant restores the time of the next event."""


def _elsewhere(*_: object) -> None:
    raise ModelError(
        "the equations of this plant are in another program, so rtsim can simulate the plant, but "
        "cannot linearise, trim or compile it"
    )


def skeleton(interface: Interface) -> Model:
    """Return a model with the signals of ``interface``, whose functions raise an error."""

    def derivative(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
        _elsewhere(t, x, z, u, p, dx)

    def output(t: float, x: Vector, z: Vector, u: Vector, p: Vector, y: Vector) -> None:
        _elsewhere(t, x, z, u, p, y)

    def guard(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:
        _elsewhere(t, x, z, u, p, g)

    def reset(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:
        _elsewhere(i, t, x, z, u, p)

    names = [*interface.indicators, *([STEP_EVENT] if interface.completes else [])]
    return Model(
        interface.name,
        states=interface.states,
        derivative=derivative if interface.exchange else None,
        discrete=EVENTS if interface.exchange else Signals(),
        inputs=interface.inputs,
        outputs=interface.outputs,
        parameters=interface.parameters,
        output=output if interface.outputs.size else None,
        guards=tuple(map(Guard, names)),
        guard=guard if names else None,
        reset=reset if names else None,
        limits=interface.limits,
    )


@dataclass(kw_only=True)
class ForeignComponent(PlantComponent):
    """Declaration of a plant that another program computes."""

    source: ForeignModel

    @property
    def _interface(self) -> Interface:
        return self.source.interface

    def settable(self) -> list[Settable]:
        parameters, tunable = self.model.parameters, self._interface.tunable
        return [
            Settable(self.parameters, Signals(*(s for s in parameters if s.name in tunable)), True),
            Settable(self.parameters, Signals(*(s for s in parameters if s.name not in tunable))),
            *super().settable()[1:],
        ]

    def number(self, name: str, text: str) -> object:
        return self.source.number(name, text)

    def not_settable(self, name: str) -> str:
        return self.source.not_settable(name)

    def functions(self) -> list[Any]:
        return []

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "program": dict(self._interface.description)}

    def validity(self) -> Validity:
        return Validity((), self._interface.limits)

    def resettable(self) -> bool:
        return True

    def build(self, name: str, site: Site) -> Built:
        model, interface = self.model, self._interface
        constants = {k: v for k, v in self.inputs.items() if not isinstance(v, str)}
        x, z = model.states.initial(self.states), model.discrete.initial(self.discrete)
        u = model.inputs.initial({**self.initial_inputs, **constants})
        p = model.parameters.initial(self.parameters)
        wiring = site.wiring(
            u.copy(), model.inputs, self.inputs, name, items=False, initial=self.initial_inputs
        )
        evaluations = Evaluations(self.source.open(name), interface, x)
        plant = ForeignPlant(
            name, interface, evaluations, model, self._scaled(), self.step, (x, z, u, p), wiring,
            site.compile,
        )  # fmt: skip
        live = Signals(*(s for s in model.parameters if s.name in interface.tunable))
        return Built(
            port=plant.port,
            tasks=[EventTask(plant, self.priority)] if interface.exchange else [],  # type: ignore[list-item]
            wiring=wiring,
            plant=plant,
            changeable=[
                one
                for one in changeable(name, model.parameters, plant.p, plant)
                if one.name in live
            ],
            initials=[
                *initials(model.parameters, plant.p),
                *initials(model.states, plant.x),
                *initials(model.inputs, plant.u, wiring.into, sources=self.inputs),
            ],
        )

    def _scaled(self) -> Solver:
        """Return the solver; its absolute tolerance is scaled by the states' nominal values."""
        solver, nominal = self.solver, self._interface.nominal
        if isinstance(solver, StepTolerance) and not isinstance(solver.atol, Mapping) and nominal:
            atol = {s.name: solver.atol * nominal.get(s.name, 1.0) for s in self.model.states}
            return replace(solver, atol=atol)
        return solver


class ForeignModel:
    """Base class of a model for :meth:`rtsim.Scenario.plant` that another program computes.

    A derived class sets ``interface``, and ``patience``: the timeout of an operation, s.  With
    ``in_process``, the program runs in this process, where a crash of the program ends the run.
    """

    interface: Interface
    patience: float = 10.0
    in_process: bool = False
    kind: ClassVar[str] = "program"

    def model(self) -> Model:
        """Return the signals of the plant as a model."""
        return skeleton(self.interface)

    def check_options(self, plant: str, given: Collection[str]) -> None:
        """Raise :class:`ScenarioError` if an option in ``given`` has no effect on the plant."""
        own = () if self.interface.exchange else ("solver", "priority", "states", "discrete")
        unused = [option for option in given if option in (*own, "algebraic")]
        if unused:
            raise ScenarioError(
                f"plant {plant}: {unused[0]}= has no effect, because {self._why_unused(unused[0])}"
            )

    def _why_unused(self, option: str) -> str:
        """Return why ``option`` has no effect, and what to write instead."""
        reasons = {
            "solver": "has its own solver",
            "priority": "has no events of its own",
            "algebraic": "solves its equations itself",
            "states": "keeps its states itself",
            "discrete": "keeps its discrete states itself",
        }
        starts = option in ("states", "discrete") and self.interface.parameters.size
        remedy = "give start values as parameters=" if starts else f"omit {option}="
        return f"{self.interface.name} {reasons[option]}; {remedy}"

    def number(self, name: str, text: str) -> object:  # noqa: ARG002
        """Return the number of the parameter ``name`` for ``text``, or ``text`` without one."""
        return text

    def not_settable(self, name: str) -> str:  # noqa: ARG002
        """Return why the value ``name`` cannot be set, or "" if no value has this name."""
        return ""

    def component(self, *arguments: Any) -> ForeignComponent:
        """Return the component, with the arguments of :class:`PlantComponent`."""
        return ForeignComponent(*arguments, source=self)

    def open(self, component: str) -> Program:
        """Start the program for the plant ``component``."""
        interface = self.interface
        what = f"{component} ({interface.name})"
        return opened(what, interface.program, interface.spec, self.patience, self.in_process)
