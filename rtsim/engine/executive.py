"""The main loop of a run (docs/semantics.md, section "The step")."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from rtsim.components.plant import NONE_NS, RunningPlant, TooSlow
from rtsim.core.clock import Clock, Wake
from rtsim.core.raised import Interrupted
from rtsim.core.signals import Vector
from rtsim.core.tag import NEVER, NS_PER_S, Tag
from rtsim.engine.advance import Engine
from rtsim.engine.checkpoint.schedule import CheckpointSchedule
from rtsim.engine.commands.command_handler import CommandHandler
from rtsim.engine.commands.commands import Inbox
from rtsim.engine.compiled.eligibility import AUTO, EXACT_NS
from rtsim.engine.compiled.engine import CompiledEngine
from rtsim.engine.microsteps import Microsteps
from rtsim.engine.plain_start import PlainStart
from rtsim.engine.process_batch import ProcessBatch
from rtsim.engine.system import System
from rtsim.engine.trace import Trace
from rtsim.record.events import VIOLATED, VIOLATION, Event
from rtsim.record.recorders import Recorder
from rtsim.timing.frames import RECORDING
from rtsim.timing.pacing import CommandsInWait, Pacer

RECORDING_LOST = "recording lost"
"""Reason for the end of a run whose recording failed."""


class StatePublisher(Protocol):
    """Receiver of the states at both ends of each step."""

    def publish(self, plant: str, ns: int, x: Vector, next_ns: int, next_x: Vector) -> None: ...

    def withdraw(self, plant: str) -> None:
        """Withdraw the states of a discarded step."""
        ...


class Executive:
    """The main loop, which runs a ``System`` to ``until_ns``.

    For a restored system, ``before`` contains the numbers of earlier rows and events.
    ``checkpoints`` takes checkpoints between two tags. ``engine`` is one of
    ``rtsim.engine.compiled.eligibility.ENGINES``, or the compiled engine of an earlier run of the
    same system.
    """

    def __init__(
        self,
        system: System,
        pacer: Pacer,
        recorder: Recorder,
        until_ns: int,
        publisher: StatePublisher | None = None,
        observe: Callable[[int], None] | None = None,
        inbox: Inbox | None = None,
        stop_ns: int | None = None,
        before: tuple[Mapping[str, int], int] | None = None,
        checkpoints: CheckpointSchedule | None = None,
        engine: str | CompiledEngine = AUTO,
    ) -> None:
        self.system = system
        self.until_ns = until_ns
        self.stop_ns = until_ns if stop_ns is None else stop_ns
        """Stop after the first tag at or after this time, ns; the stop adds no tag."""
        self.stopping = ""
        """Reason why the loop stops after the present tag; empty if the loop continues."""
        self.compiled_engine: CompiledEngine | None = None
        """The compiled engine; ``None`` if a viewer is connected."""
        self.unrecorded = ""
        """Time after which rows are lost, and the reason; empty if all rows are recorded."""
        self.checkpoints = checkpoints
        self._violated: set[str] = set()
        self._before: tuple[Mapping[str, int], int] = before or ({}, 0)
        """Numbers of rows and of events in earlier recordings of this run."""
        self.started = before is not None or system.ns > 0
        """True after the first instant, and from the beginning for a restored system."""
        self._sampled = self.started
        """True after the first x- has been recorded."""
        self._running = False
        """True after the first call of :meth:`run`."""
        self._before_ns = NEVER.ns
        """The loop runs only tags before this time, ns."""
        self._waiting = False
        self._pacer = pacer
        self._clock: Clock = pacer.clock
        self._recorder = recorder
        self._publisher = publisher
        self._observe = observe
        self._wake: Wake | None = system.wake
        self._asked = inbox is not None and not inbox.announced
        """True if commands can arrive at any time."""
        self._trace = Trace(system, recorder, pacer.clock.paced or self._asked)
        self.handler: CommandHandler | None = None
        if inbox is not None:
            self.handler = CommandHandler(
                inbox, system, pacer, self._trace, checkpoints, lambda: self.stopping
            )
        self._commands_in_wait: CommandsInWait = None
        """Function that executes commands in a long wait.

        The value is None if there are event inputs, because commands would delay their events.
        """
        if system.wake is None and self.handler is not None:
            self._commands_in_wait = self._execute_in_wait
        latch = None if self.handler is None else self.handler.latch
        self._instant = Microsteps(system, self._trace, pacer.clock, pacer.anchor, pacer.lap, latch)
        self._run_instant: Callable[[int, bool], None] = self._instant.run
        self._sample: Callable[[int], None] = self._instant.sample
        for plant in system.plants:
            plant.begin_run(self.interrupt_check, pacer.clock.paced)
        self._guarded = any(plant.watch is not None for plant in system.plants)
        self._outside = any(plant.outside for plant in system.plants)
        self._coupled = any(p.reads_plants for p in system.plants)
        self._looks = bool(system.external_inputs) or self._asked
        """True if inputs from outside can act at each tag."""
        # If nothing can happen between grid steps, the solver takes all of them up to the next
        # discrete tag at once.  Beyond 2^53 ns, this would round the times in s differently.
        self._ahead = (
            not (pacer.clock.paced or self._coupled or self._looks or publisher)
            and not system.processors
            and len(system.plants) == 1
            and until_ns < EXACT_NS
        )
        if system.faults is not None:
            system.faults.record(self._trace.event)
            self._run_instant = system.faults.telling(self._instant.run)
            self._sample = system.faults.telling(self._instant.sample)

        self._plain = PlainStart.of(system)
        """Part of the run in plain Python before machine code, or ``None``."""
        self._engines: list[Engine] = []
        """Engines that run several tags at once."""
        self._choose_engines(engine)

    def _choose_engines(self, engine: str | CompiledEngine) -> None:
        self._engines.clear()
        # A viewer receives each step, so single steps are necessary.
        if self._publisher is None:
            self.compiled_engine = self._compiled_engine(engine)
            if self.compiled_engine.usable:
                self._engines.append(self.compiled_engine)
            if not (self._clock.paced or self._asked):
                batch = ProcessBatch.of(self.system, self._trace)
                self._engines += [] if batch is None else [batch]

    def _compile(self) -> None:
        """Compile functions that ran in plain Python, and continue in machine code."""
        assert self._plain is not None
        self._plain.end()
        self._plain = None
        self._choose_engines(AUTO)

    def _compiled_engine(self, engine: str | CompiledEngine) -> CompiledEngine:
        """Return the compiled engine, ready for use if the run needs it certainly.

        Loading machine code can lose a Ctrl-C, so it must take place before the recording.
        """
        if isinstance(engine, CompiledEngine):
            return engine.again(self._trace, self._pacer)
        inbox = None if self.handler is None else self.handler.inbox
        end = min(self.until_ns, self.stop_ns)
        made = CompiledEngine(self.system, self._trace, self._pacer, engine, end, inbox)
        if self._clock.paced or not made.interpreted:
            made.prepare()
        return made

    def run(self, before_ns: int = NEVER.ns) -> None:
        """Run from the present state to the end.

        With ``before_ns``, only tags before this time (ns) are executed. The stop adds no tag.
        """
        self._before_ns = before_ns
        if self._plain is not None:
            self._plain.resume()
        if not (self._begin(before_ns) and self._running_on()):
            return
        system, engines = self.system, self._engines
        end = min(self.until_ns, self.stop_ns)
        while system.ns < end and not (self.stopping or self.ended_by):
            if self._plain is not None and self._plain.over:
                self._compile()
            for engine in engines:
                if engine.advance(self):
                    if not self._clock.paced:
                        self._pacer.wait(system.ns)
                        self._pacer.ready(system.ns)
                    break
            else:
                try:
                    goes_on = self._tag()
                except TooSlow:
                    self._compile()
                    continue
                if not goes_on:
                    return

    @property
    def over(self) -> bool:
        """True after the end of the run."""
        handler = self.handler
        told = handler is not None and handler.quitting
        at_end = self.started and self.system.ns >= min(self.until_ns, self.stop_ns)
        return at_end or told or bool(self.stopping or self.ended_by)

    def values_at(self, ns: int) -> dict[str, Vector]:
        """Return the values (n,) of each plant just before ``ns``.

        The executive must have executed all tags before ``ns`` and no later tag.
        """
        if not self._running:
            self._sample_first()
        try:
            return self._values_at(ns)
        except TooSlow:
            self._compile()
            return self._values_at(ns)

    def _values_at(self, ns: int) -> dict[str, Vector]:
        found = {}
        for plant in self.system.plants:
            if plant.ns >= ns:
                found[plant.name] = plant.values.copy()
                continue
            before = plant.save()
            if plant.target_ns != ns:
                self._discard(plant)
                plant.propagate(ns)
            plant.commit()
            found[plant.name] = plant.values.copy()
            plant.restore(before)
        return found

    def _tag(self) -> bool:
        """Execute the next tag in the interpreter, or handle a wait that ended early.

        Returns False if the run has ended, or if the next tag is not before ``before_ns`` of
        :meth:`run`.
        """
        system, pacer, trace, handler = self.system, self._pacer, self._trace, self.handler
        discrete = system.next_discrete_ns(self.until_ns)
        if self._ahead:
            self._grid_steps(min(discrete, self.limit_ns()))
        ns = self._propagate(discrete)
        if ns >= self._before_ns:
            return False
        if not self._wait(ns):
            if handler is not None:
                self._look_again(handler, ns)
            return self._running_on()
        fires = self._commit(ns)
        if ns == discrete or self._looks or system.postponed or fires:
            self._run_instant(ns, ns == discrete)
        elif self._coupled or self._instant.behind:
            self._sample(ns)
        if self._outside:
            self._instant.end_of_plants(ns, ns < self.until_ns)
        paced = self._clock.paced  # a command can change the pacing
        if paced:
            trace.frame(system.ns, pacer.log.last)
        system.ns = ns
        if system.processors:
            trace.schedules(ns)
        self._recorder.pump(wait=not paced)
        if paced:
            pacer.lap(RECORDING)
        if self.checkpoints is not None and ns >= self.checkpoints.next_ns:
            self.checkpoints.observe(ns)
        if self._observe is not None:
            self._observe(ns)
        pacer.ready(ns)
        if handler is not None and not self.ended_by:
            handler.after(ns)
        return self._running_on()

    def _running_on(self) -> bool:
        return not (self.ended_by or (self.handler is not None and self.handler.quitting))

    @property
    def ended_by(self) -> str:
        """Name of the terminal guard or of the plant that ended the run, or ""."""
        return self._instant.ended_by

    @property
    def plant_ended(self) -> bool:
        """True if a plant ended its simulation, and therefore the run, before its end."""
        return self._instant.plant_ended

    @property
    def failure(self) -> str:
        """Name and text of the guard or the plant that declared a failure, or empty."""
        return f"{self.ended_by}: {self._instant.failure}" if self._instant.failure else ""

    @property
    def reported(self) -> tuple[Event, ...]:
        return tuple(self._instant.reported)

    def save(self) -> dict[str, Any]:
        """Return the state of the run, between two tags."""
        return self.system.save()

    def position(self) -> tuple[dict[str, int], int]:
        """Return the numbers of rows and events since the start of the run."""
        rows, events = self._before
        now = self._trace.position()
        return {name: rows.get(name, 0) + n for name, n in now.items()}, events + self._trace.events

    def in_hand(self) -> int | None:
        """Return the slack (ns) of the last frame, or ``None`` without real time."""
        return self._pacer.margin_ns if self._clock.paced else None

    def interrupt(self) -> None:
        """End the run after the present tag; called by a signal handler.

        A paused run ends at its tag. During a wait, and at the second call, ``Interrupted`` is
        raised.
        """
        if self._waiting or self.stopping:
            raise Interrupted
        self.stopping = "interrupted"
        if self.handler is not None and self.handler.resting:
            raise Interrupted

    def watched(self, found: Sequence[Mapping[str, Any]], end: bool) -> list[str]:
        """Take the robustness of requirements; return a text for each new violation.

        The violations are recorded. With ``end``, a violation ends the run after the present tag.
        """
        if self.handler is not None:
            self.handler.inbox.watched(found)
        texts = []
        for one in found:
            name, (_, high), at_ns = str(one["name"]), one["robustness"], one["at_ns"]
            if one["outcome"] != "failed" or name in self._violated:
                continue
            self._violated.add(name)
            margin = -math.inf if high is None else high
            text = f"violated at {at_ns / NS_PER_S:.9g} s, robustness {margin:.6g} so far"
            values = {"robustness": margin, "at": at_ns / NS_PER_S}
            self._trace.event(Tag(self.system.ns), VIOLATION, name, text, values)
            texts.append(f"requirement {name} is {text}")
        if texts and end:
            self.stopping = self.stopping or VIOLATED
        return texts

    def lose_recording(self, cause: str, kept_ns: int | None, end: bool) -> str:
        """Store when and why the recording failed, and return this as a text.

        ``cause`` is the reason. The rows up to ``kept_ns`` are recorded. ``kept_ns=None`` means
        that the recorded part is unknown. With ``end``, the run ends after the present tag.
        """
        since = "perhaps from the start on" if kept_ns is None else f"after {Tag(kept_ns)}"
        self.unrecorded = f"{since}: {cause}"
        if end:
            self.stopping = self.stopping or RECORDING_LOST
        if self.handler is not None:
            self.handler.inbox.lose_recording(self.unrecorded)
        return self.unrecorded

    def _begin(self, before_ns: int) -> bool:
        """Begin the run; return whether its first tag has run.

        After a restore, the first tag has already been executed.
        """
        system = self.system
        if not self._running:
            self._running = True
            self._pacer.start(system.ns)
            for task in system.controllers:
                if task.request is not None:
                    task.request.sent = self._clock.now()
            self._sample_first()
            if self.started:
                self._after_first()
        if self.started or before_ns <= 0:
            return self.started
        self.started = True
        while not self._wait(0, first=True):
            if self.handler is not None:
                self.handler.frozen(0)
        self._run_instant(0, True)
        if self._outside:
            self._instant.end_of_plants(0, self.until_ns > 0)
        self._trace.schedules(0)
        self._after_first()
        return True

    def _sample_first(self) -> None:
        if self._sampled:
            return
        self._sampled = True
        plants = self.system.plants
        for _ in plants:  # a value can pass through all plants at once
            for plant in plants:
                plant.read_wires()
            changed = [plant.settle() for plant in plants]
            if not (any(changed) and any(plant.reads_plants for plant in plants)):
                break
        for plant in plants:
            if plant.watch is not None:
                plant.watch.begin()
            self._trace.x_minus(plant)

    def _after_first(self) -> None:
        ns, kept, handler = self.system.ns, self.checkpoints, self.handler
        # A comparison of two runs starts with the first state.
        if kept is not None and ns >= kept.next_ns:
            kept.observe(ns)
        if handler is not None:
            handler.begin(ns)

    def _grid_steps(self, limit_ns: int) -> None:
        """Take and record the steps of a single plant before ``limit_ns``."""
        plant = self.system.plants[0]
        taken = plant.take_steps(limit_ns)
        if taken is not None:
            self._trace.x_minus_many(plant, *taken)
            self.system.ns = plant.ns

    @property
    def engine(self) -> str:
        if self.compiled_engine is None:
            return "interpreted: a viewer gets each step"
        return str(self.compiled_engine)

    # -- what an engine asks for

    def limit_ns(self) -> int:
        """Return the next time (ns) at which the loop must act."""
        limit = min(self.until_ns, self.stop_ns, self._before_ns)
        if self.checkpoints is not None:
            limit = min(limit, self.checkpoints.next_ns)
        return limit if self.handler is None else min(limit, self.handler.quiet_until())

    def between(self, ns: int) -> bool:
        """Record the rows up to the tag at ``ns``; return whether the engine must stop."""
        self._recorder.pump(wait=not self._clock.paced)
        if self._observe is not None:
            self._observe(ns)
        if self.handler is not None:
            self.handler.inbox.after(ns, standing=False)
            return bool(self.stopping) or self.handler.quiet_until() != NEVER.ns
        return bool(self.stopping)

    def interrupt_check(self) -> None:
        """Raise an error if the run must end or continue in machine code."""
        if self.stopping:
            raise Interrupted
        if self._plain is not None and self._plain.over:
            raise TooSlow

    # -- the next tag

    def _propagate(self, discrete: int) -> int:
        """Take provisional steps of all plants; return the time (ns) of the next tag.

        No step ends after ``discrete``, the time (ns) of the next discrete event.
        """
        tag_ns = discrete
        for plant in self.system.plants:
            if plant.target_ns > discrete:
                self._discard(plant)
            if plant.target_ns == NONE_NS:
                plant.propagate(discrete)
                if self._publisher is not None:
                    self._publisher.publish(
                        plant.name, plant.ns, plant.x, plant.target_ns, plant.next_x
                    )
            if plant.target_ns < tag_ns:
                tag_ns = plant.target_ns
        return tag_ns

    def _discard(self, plant: RunningPlant) -> None:
        plant.discard()
        if self._publisher is not None:
            self._publisher.withdraw(plant.name)

    def _wait(self, ns: int, first: bool = False) -> bool:
        """Wait for the tag at ``ns``; return False if the wait ended early."""
        pacer, wake = self._pacer, self._wake
        # The first tag is due within milliseconds, so a signal ends the run after it.
        self._waiting = pacer.frozen or not first
        try:
            due = pacer.begin(ns) if first else pacer.wait(ns, wake, self._commands_in_wait)
        finally:
            self._waiting = False
            if pacer.overrun is not None:  # an overrun is recorded even if its policy ends the run
                self._trace.overrun(pacer.overrun)
        if not (due or first) and wake is not None and wake.is_set():
            # The event input inserts a tag now: after the last tag, and not later than ``ns``.
            wake.clear()
            now = self._clock.simulated(self._clock.now())
            self.system.insert(max(self.system.ns + 1, min(now, ns)))
        return due

    def _execute_in_wait(self, ns: int) -> bool:
        assert self.handler is not None
        self._waiting = False  # an interrupt must not stop a command before it is complete
        try:
            return self.handler.execute_in_wait(self.system.ns, ns) or bool(self.stopping)
        finally:
            self._waiting = True

    def _look_again(self, handler: CommandHandler, ns: int) -> None:
        if self._pacer.frozen:
            handler.frozen(self.system.ns)
        elif self._wake is None:
            for plant in self.system.plants:
                self._discard(plant)
            handler.begin(self.system.ns, ns)

    def _commit(self, ns: int) -> bool:
        fires = False
        for plant in self.system.plants:
            if plant.target_ns == ns:
                if unbounded := plant.commit():
                    self._trace.unbounded(plant, unbounded)
                self._trace.x_minus(plant)
                fires = fires or (self._guarded and plant.fires)
        return fires
