"""A run that Python code advances step by step.

Each assignment takes effect at the present time, at a tag of its own. The results therefore do not
depend on the lengths of the steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import TracebackType
from typing import Any, NoReturn, Self

import numpy as np

from rtsim.components.external_inputs import ExternalInput
from rtsim.core.errors import (
    CheckpointError,
    RtsimError,
    ScenarioError,
    ShapeError,
    UnknownName,
    memory_is_hidden,
)
from rtsim.core.raised import Interrupted
from rtsim.core.signals import Signal, Signals, Vector, as_float64
from rtsim.core.tag import NEVER, NS_PER_S, START, Duration, declared_ns
from rtsim.engine.checkpoint.file import Checkpoint
from rtsim.engine.checkpoint.schedule import check_savable
from rtsim.engine.commands.commands import Inbox, PendingCommand, read_command
from rtsim.engine.compiled.eligibility import AUTO
from rtsim.engine.system import System
from rtsim.equations.compiling import Compilation
from rtsim.record.recorders import KeptRows, MemoryRecorder, NullRecorder, Recorder
from rtsim.runs.live import LiveView
from rtsim.runs.request import FedInputs, Output, RunRequest
from rtsim.runs.result import RunResult
from rtsim.runs.simulation import OpenRun
from rtsim.scenario.handles import SignalName
from rtsim.scenario.scenario import Scenario

_SHOWN = 8
"""Maximum number of names in an error message."""


class _Assigned:
    value: Vector | None = None

    def poll(self) -> Vector | None:
        value, self.value = self.value, None
        return value


@dataclass(frozen=True)
class SavedSimulation:
    """A saved state of a ``Simulation``."""

    time_ns: int
    """Simulated time, ns."""
    header: Mapping[str, Any]
    """Header of the recording: scenario, seed and sources."""
    checkpoint: Checkpoint | None
    """State after the last tag before :attr:`time_ns`; ``None`` before the first tag."""
    assigned: Mapping[str, Vector] = field(default_factory=dict)
    """Values that will act at :attr:`time_ns`, by name."""
    kept: KeptRows | None = None
    """Rows and events so far, or ``None`` if they are not kept in memory."""

    @property
    def time(self) -> float:
        """Simulated time, s."""
        return self.time_ns / NS_PER_S

    def __repr__(self) -> str:
        return f"<checkpoint at {self.time:g} s>"


class Simulation:
    """A run that proceeds only during calls of ``advance``.

    ``s["cart.x"]`` is the present value of a signal or parameter: a number or an array (n,). A
    handle works too: ``s[cart.x]``. Events at the present time ``time`` occur at the beginning of
    the next ``advance``.

    Sources, external inputs and parameters can be assigned.  An assigned value acts from
    :attr:`time` on, like ``scenario.at(s.time, name, value)``, until the next assignment.  Assigned
    values replace the device of an external input.

    The results do not depend on the lengths of the steps or on the engine. Use a simulation in one
    thread only.

    Example:
        with Simulation(room) as s:
            while s.advance(10):
                s["thermostat.gain"] = 2.0 if s["heater.temperature"] < 290.0 else 1.0
        print(s.result()["heater.temperature"])
    """

    def __init__(
        self,
        scenario: Scenario,
        *,
        seed: int = 0,
        until: Duration | None = None,
        recorder: Recorder | None = None,
        record: bool = True,
        compile: Compilation = True,
        engine: str = AUTO,
    ) -> None:
        """Build ``scenario``; the arguments have the same meaning as in ``simulate``."""
        if recorder is None:
            recorder = MemoryRecorder() if record else NullRecorder()
        self._request = RunRequest(
            scenario.copy(), seed, until=until, compile=compile, output=Output(recorder),
            engine=engine,
        )  # fmt: skip
        self._time_ns = 0
        self._wall_ns = 0
        """Wall-clock time spent before the last restore, ns."""
        self._assigned: dict[str, Vector] = {}
        """Values that will act at the present time, by name."""
        self._seen: dict[str, Vector] | None = None
        """Present values of the plants, by name; ``None`` if they have not been read yet."""
        self._raised = False
        """True if :meth:`advance` has raised the error that ended the run."""
        self._result: RunResult | None = None
        self._views: list[LiveView] = []
        self._run = self._opened(self._request)

    def _opened(self, request: RunRequest, header: Mapping[str, Any] | None = None) -> OpenRun:
        parts = request.scenario.components
        self._devices = {name: _Assigned() for name, part in parts.items() if part.external}
        externals = {
            part.external.name: ExternalInput(
                part.external.name, part.external.signals, self._devices[name]
            )
            for name, part in parts.items()
            if part.external is not None
        }
        self._inbox = Inbox()
        self._inbox.announced = True
        request = replace(request, fed=FedInputs(external_inputs=externals))
        return OpenRun(request, self._inbox, header)

    # -- time

    @property
    def time(self) -> float:
        """Simulated time, s."""
        return self._time_ns / NS_PER_S

    @property
    def time_ns(self) -> int:
        """Simulated time, ns."""
        return self._time_ns

    @property
    def until(self) -> float:
        """End of the run, s."""
        return self._request.until_ns / NS_PER_S

    @property
    def ended(self) -> bool:
        """True after the end of the run."""
        return self._result is not None or self._run.over

    @property
    def ended_by(self) -> str:
        """The terminal guard (``"plant.guard"``) or the plant that ended the run, or ""."""
        return self._run.executive.ended_by

    def advance(
        self,
        duration: Duration | None = None,
        *,
        until: Duration | None = None,
        finish: bool = True,
    ) -> bool:
        """Advance by ``duration`` s, or to the time ``until`` s.

        Return False at the end of the run.

        A duration beyond the end of the run is shortened. With ``finish=False``, events at the end
        time do not occur yet, so that values can be assigned before them. After Ctrl-C, the run
        ends at a complete tag, and ``KeyboardInterrupt`` is raised. Raises ``ScenarioError`` for a
        wrong time, and after the end of the run. An error of a component ends the run and is
        raised.
        """
        self._check_going("advance")
        target = self._target(duration, until)
        if target > self._time_ns:
            self._hand_over()
            last = finish and target >= self._request.until_ns
            self._go(NEVER.ns if last else min(target, self._request.until_ns))
            target = min(target, self._request.until_ns)
            self._time_ns = self._system.ns if self._run.over else target
            self._raise_what_ended()
            self._follow(self._run.over)
        return not self._run.over

    def _target(self, duration: Duration | None, until: Duration | None) -> int:
        if (duration is None) == (until is None):
            raise ScenarioError(
                "give a duration or a time: advance(0.1) or advance(until=2.5), in s"
            )
        if duration is not None:
            ns = declared_ns(duration, "duration")
            if ns < 0:
                raise ScenarioError(
                    f"a duration of {duration!r} s is negative; give a duration >= 0, or go back "
                    "with restore(checkpoint)"
                )
            return self._time_ns + ns
        assert until is not None
        ns = declared_ns(until, "until")
        if ns < self._time_ns:
            raise ScenarioError(
                f"until is {until!r} s, but the run is at {self.time:g} s already; give a later "
                "time, or go back with restore(checkpoint)"
            )
        if ns > self._request.until_ns:
            raise ScenarioError(
                f"until is {until!r} s, but the run ends at {self.until:g} s; give an earlier "
                f"time, or a later end: Simulation(..., until={until!r})"
            )
        return ns

    def _hand_over(self) -> None:
        system, ns = self._system, self._time_ns
        for target, value in sorted(self._assigned.items()):
            component = target.partition(".")[0]
            if component in self._devices:
                self._devices[component].value = value
                continue
            numbers = value.tolist()
            plain = numbers if self._signals[target].shape else numbers[0]
            command = read_command({"kind": "set", "target": target, "value": plain})
            self._inbox.waiting.append(PendingCommand(command, None, ns))
        if self._assigned and ns > 0:  # the tag at 0 exists anyway
            system.insert(ns)
        self._assigned.clear()

    def _go(self, before_ns: int) -> None:
        self._seen = None
        self._run.advance(before_ns)

    def _raise_what_ended(self) -> None:
        if self._run.interrupted:
            raise Interrupted
        if self._run.error is not None:
            self._raised = True
            raise self._run.error

    def _check_going(self, what: str) -> None:
        if self.ended:
            raise ScenarioError(
                f"cannot {what}: the run has ended at {self.time:g} s; begin another Simulation, "
                "go back with restore(checkpoint) before result(), or give a later end: "
                "Simulation(..., until=...)"
            )

    # -- values

    @property
    def _system(self) -> System:
        return self._run.executive.system

    def __getitem__(self, name: SignalName) -> Any:
        """Return the present value of a signal or parameter: a number or an array (n,).

        An unknown name raises :class:`UnknownName`.
        """
        target = self._known(name)
        value = self._assigned.get(target)
        component, _, signal = target.partition(".")
        if component in self._devices and component in self._assigned:
            port = self._system.ports[component]
            value = self._assigned[component][port.signals.slice(signal)]
        if value is None:
            value = self._present(component, signal)
        return value.copy() if self._signals[target].shape else float(value[0])

    def _present(self, component: str, signal: str) -> Vector:
        system = self._system
        port = system.ports.get(component)
        if port is None or signal not in port.signals:
            known = system.changeable[f"{component}.{signal}"]
            return known.vector[known.signals.slice(known.name)]
        if self._seen is None:
            self._seen = self._run.executive.values_at(self._time_ns)
        return self._seen.get(component, port.value)[port.signals.slice(signal)]

    def __setitem__(self, name: SignalName, value: object) -> None:
        """Set a source, an external input or a parameter, from the present time on.

        A value that cannot be assigned, is not finite or is out of range raises
        :class:`ScenarioError`.  An unknown name raises :class:`UnknownName`.
        """
        target = self._known(name)
        self._check_going(f"assign {target}")
        component, _, signal = target.partition(".")
        if component not in self._devices and target not in self._system.changeable:
            self._refuse(target)
        new = self._checked(target, value)
        if component not in self._devices:
            self._assigned[target] = new
            return
        port = self._system.ports[component]
        whole = self._assigned.get(component, port.value).copy()
        whole[port.signals.slice(signal)] = new
        self._assigned[component] = whole

    def _checked(self, target: str, value: object) -> Vector:
        signal = self._signals[target]
        try:
            given = as_float64(value, target).ravel()
        except (TypeError, ValueError):
            raise ScenarioError(
                f"{target} = {value!r} is not a number; give a value in {signal.unit}"
            ) from None
        if not np.isfinite(given).all():
            raise ScenarioError(
                f"{target} = {value} is not finite; give a value in {signal.unit} from "
                f"{signal.low:g} to {signal.high:g}"
            )
        plain = given if signal.shape or given.size != 1 else float(given[0])
        try:
            return Signals(signal).initial({signal.name: plain})
        except ShapeError as error:
            raise ShapeError(f"{target}: {error}") from None
        except ScenarioError as error:
            raise ScenarioError(f"{target}: {error}") from None

    def _refuse(self, target: str) -> NoReturn:
        owner, _, name = target.partition(".")
        inputs: Mapping[str, Any] = getattr(self._request.scenario.components[owner], "inputs", {})
        source = inputs.get(name)
        can = ", ".join(_first([*self._devices, *sorted(self._system.changeable)]))
        if isinstance(source, str):
            raise ScenarioError(f"{target} is connected to {source}; assign {source} instead")
        if name in inputs:
            raise ScenarioError(
                f"{target} is an input with a constant value; connect it to a source, and assign "
                f"the source: scenario.source(...), scenario.connect(source, {target!r})"
            )
        at_start = ""
        with suppress(RtsimError):  # an output has no value to begin with
            self._request.scenario.settable_of(target)
            at_start = (
                f". For another value at the start, use scenario.set({target!r}, value) before "
                "the run"
            )
        raise ScenarioError(
            f"{target} is computed by the run and cannot be assigned; assign a parameter, a "
            f"source or an external input ({can or 'this run has none'}){at_start}"
        )

    def _known(self, name: SignalName) -> str:
        target = str(name)
        if target in self._signals:
            return target
        component, dot, signal = target.partition(".")
        parts = self._request.scenario.components
        if component not in parts:
            raise UnknownName("component", component, parts, "this run")
        own = [n for n in self._signals if n.startswith(f"{component}.")]
        memory = self._request.scenario.controller_memory().get(component, {})
        if signal in memory:
            raise memory_is_hidden(target, memory[signal])
        if not dot:
            raise ScenarioError(
                f"{target} is a component; give one of its signals: {', '.join(_first(own))}"
            )
        raise UnknownName("signal", signal, (n.partition(".")[2] for n in own), component)

    @cached_property
    def _signals(self) -> Mapping[str, Signal]:
        system = self._system
        changeable = {name: one.signals[one.name] for name, one in system.changeable.items()}
        read = {f"{name}.{s.name}": s for name, port in system.ports.items() for s in port.signals}
        return {**changeable, **read}

    def signal(self, name: SignalName) -> Signal:
        """Return the declaration of a signal or parameter, with its unit, limits and shape."""
        return self._signals[self._known(name)]

    def show(self, *names: SignalName) -> None:
        """Show the values of signals during the run, five times per second.

        A notebook shows them in the present cell, with a plot of each value after each
        :meth:`advance`; a terminal shows them in one line.  An unknown name raises
        :class:`UnknownName`.
        """
        if not names:
            raise ScenarioError("show needs the names of signals, such as show('cart.x')")
        known = [self._known(name) for name in names]
        view = LiveView({name: self._signals[name] for name in known})
        self._views.append(view)
        view.follow(self, last=self.ended)

    def _follow(self, last: bool) -> None:
        for view in self._views:
            view.follow(self, last)

    # -- checkpoints

    def save(self) -> SavedSimulation:
        """Return a checkpoint of the run.

        Raises ``CheckpointError`` if a component's state cannot be saved.
        """
        self._check_going("save")
        executive = self._run.executive
        check_savable(executive.system)
        checkpoint = None
        if executive.started:
            rows, events = executive.position()
            checkpoint = Checkpoint(
                executive.system.ns, self._run.header, executive.save(), rows, events
            )
        recorder = self._request.output.recorder
        kept = recorder.kept() if isinstance(recorder, MemoryRecorder) else None
        return SavedSimulation(
            self._time_ns, self._run.header, checkpoint, dict(self._assigned), kept
        )

    def restore(self, checkpoint: SavedSimulation) -> None:
        """Go back to a checkpoint of this or another run of the scenario.

        Afterwards, the recording equals that of a run which reached the checkpoint directly. A
        checkpoint of another scenario or seed, or a run that is recorded in a file, raises
        :class:`CheckpointError`.
        """
        if self._result is not None:
            raise ScenarioError("cannot restore: result() has closed this run; call restore before")
        recorder = self._recorder_from(checkpoint)
        other = _difference(self._run.header, checkpoint.header)
        if other:
            raise CheckpointError(
                f"this checkpoint is of another run: {other} differs; restore it in a Simulation "
                "with the same scenario, seed and end"
            )
        self._wall_ns += self._run.finish("interrupted").wall_ns
        self._request = replace(self._request, start=checkpoint.checkpoint, output=Output(recorder))
        self._run = self._opened(self._request, checkpoint.header)
        self._time_ns, self._assigned = checkpoint.time_ns, dict(checkpoint.assigned)
        self._seen, self._raised = None, False

    def _recorder_from(self, saved: SavedSimulation) -> Recorder:
        recorder = self._request.output.recorder
        if isinstance(recorder, NullRecorder):
            return recorder
        if type(recorder) is not MemoryRecorder:
            raise CheckpointError(
                "a run that is recorded in a file cannot go back to a checkpoint; leave out "
                "recorder=, so that the run is recorded in memory"
            )
        if saved.kept is None:
            raise CheckpointError(
                "the run of this checkpoint recorded no rows, but this run records rows; give "
                "record=False to both runs or to neither run"
            )
        return MemoryRecorder(saved.kept)

    # -- the end

    def result(self) -> RunResult:
        """End the run at the present time, and return its result.

        The result equals that of ``simulate(scenario, until=s.time)`` with the assigned values. The
        end of a ``with`` block calls this method. Raises the errors of ``simulate``, except an
        error that ``advance`` has already raised.
        """
        if self._result is None:
            if not self._run.over:
                self._hand_over()
                if self._time_ns > 0:
                    self._system.insert(self._time_ns)
                self._go(self._time_ns + 1)
                self._follow(last=True)
            self._finish()
        assert self._result is not None
        return self._result if self._raised else self._result.checked()

    def _finish(self, reason: str = "") -> None:
        found = self._run.finish(reason)
        self._result = replace(found, began=START, wall_ns=self._wall_ns + found.wall_ns)

    def close(self) -> None:
        """Close the components and the recording.

        Call this method if no result is needed.
        """
        if self._result is None:
            self._finish("interrupted")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        if kind is None and self._result is None:
            self.result()
        self.close()

    def __repr__(self) -> str:
        state = "ended at" if self.ended else "at"
        name = self._request.scenario.name
        return f"<Simulation of {name} {state} {self.time:g} s of {self.until:g} s>"


def _first(names: Iterable[str]) -> list[str]:
    found = list(names)
    return found if len(found) <= _SHOWN else [*found[:_SHOWN], "..."]


def _difference(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str:
    if ours is theirs:
        return ""
    keys = sorted(ours.keys() | theirs.keys())
    return next((key for key in keys if ours.get(key) != theirs.get(key)), "")
