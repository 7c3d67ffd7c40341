"""One run from start to end: build, pace, record, certify."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rtsim import __version__
from rtsim.clock import Clock, VirtualClock, WallClock, stopwatch
from rtsim.controller import Controller
from rtsim.errors import RtsimError, ScenarioError
from rtsim.executive import Executive, Publisher
from rtsim.inlets import Inlet
from rtsim.record.fingerprint import fingerprint
from rtsim.record.tape import NullRecorder, Recorder
from rtsim.scenario import Scenario
from rtsim.source_hash import source_hash
from rtsim.system import System
from rtsim.tag import NS_PER_S, Duration, Tag, to_ns
from rtsim.timing.certificate import Certificate, certify
from rtsim.timing.pacing import Pacer
from rtsim.timing.policy import CatchUp, Policy
from rtsim.timing.scheduling import Request, request

MAX = "max"
"""The pace that never waits."""


@dataclass(frozen=True)
class Pace:
    """How simulated time follows the wall: ``rate`` None is as fast as possible."""

    rate: float | None = None
    policy: Policy = CatchUp()
    scheduling: Request = Request()

    @classmethod
    def of(cls, text: str | float, **rest: Any) -> Pace:
        """From ``"max"`` or a rate such as ``"1.0"``."""
        if text == MAX:
            return cls(None, **rest)
        try:
            return cls(float(text), **rest)
        except ValueError:
            raise ScenarioError(f"pace {text!r}; give 'max' or a rate such as 1.0") from None

    def clock(self) -> Clock:
        return VirtualClock() if self.rate is None else WallClock(self.rate)

    def __str__(self) -> str:
        return MAX if self.rate is None else f"{self.rate:g}"


@dataclass(frozen=True)
class Outcome:
    """What a run came to."""

    reason: str
    """``end``, or ``interrupted``."""
    ended: Tag
    wall_ns: int
    certificate: Certificate
    late: int
    missed: int
    system: System

    @property
    def speed(self) -> float:
        """Simulated over wall time."""
        return self.ended.ns / self.wall_ns if self.wall_ns else float("inf")


@dataclass(frozen=True)
class Progress:
    """What an observer is shown, in the slack of a frame."""

    ns: int
    until_ns: int
    pacer: Pacer


@dataclass(frozen=True)
class Fed:
    """What a replay takes from a recording instead of from outside."""

    inlets: Mapping[str, Inlet] = field(default_factory=dict)
    controllers: Mapping[str, Controller] = field(default_factory=dict)
    inserted: Sequence[int] = ()
    """Tags (ns) that event inputs made."""


def simulate(
    scenario: Scenario,
    *,
    seed: int = 0,
    pace: Pace | str | float = MAX,
    until: Duration | None = None,
    recorder: Recorder | None = None,
    compile: bool = True,
    fed: Fed | None = None,
    publisher: Publisher | None = None,
    observe: Callable[[Progress], None] | None = None,
    clock: Clock | None = None,
    stop_ns: int | None = None,
) -> Outcome:
    """Run ``scenario`` once and record it.

    Whatever ends the run, the recording is finished first and says why.  Raises what the parts
    raise (:class:`RtsimError`); an interrupt from the keyboard is an ordinary end.
    """
    pace = pace if isinstance(pace, Pace) else Pace.of(pace)
    until_ns = scenario.until_ns if until is None else to_ns(until, "until")
    if until_ns <= 0:
        raise ScenarioError(f"until = {until!r} s; a run must last longer than 0 s")
    recorder = recorder or NullRecorder()
    fed = fed or Fed()
    system = scenario.build(seed, compile=compile, inlets=fed.inlets, controllers=fed.controllers)
    system.inserted = sorted(fed.inserted)
    clock = clock or pace.clock()
    if clock.paced:
        check_outside(system)
    pacer = Pacer(clock, pace.policy, frame_ns=shortest_period(system))
    watch = None if observe is None else _observer(observe, pacer, until_ns)
    executive = Executive(system, pacer, recorder, until_ns, publisher, watch)
    executive.stop_ns = until_ns if stop_ns is None else stop_ns
    recorder.start(header(scenario, seed, pace, until_ns, compile))
    reason, error = "end", None
    began = stopwatch()
    with request(pace.scheduling if clock.paced else Request(False, False)) as granted:
        if isinstance(clock, WallClock):
            clock.calibrate(pacer.frame_ns)
            began = stopwatch()
        try:
            executive.run()
        except KeyboardInterrupt:
            reason = "interrupted"
        except Exception as problem:
            reason, error = "error", problem
            recorder.event(Tag(system.ns), "Error", type(problem).__name__, str(problem))
        pacer.stop()
    wall_ns = stopwatch() - began
    certificate = certify(pacer, granted)
    late = sum(c.lates for c in system.controllers)
    missed = sum(c.missed for c in system.controllers)
    footer = {
        "reason": reason,
        "error": "" if error is None else f"{type(error).__name__}: {error}",
        "ended": system.ns,
        "wall_ns": wall_ns,
        "late": late,
        "missed": missed,
        "certificate": certificate.to_json(),
    }
    try:
        system.close()
    finally:
        _finish(recorder, footer, error)
    if error is not None:
        raise error
    return Outcome(reason, Tag(system.ns), wall_ns, certificate, late, missed, system)


def _finish(recorder: Recorder, footer: Mapping[str, object], error: Exception | None) -> None:
    """Close the recording; an error of the run itself is told first."""
    try:
        recorder.finish(footer)
    except RtsimError as problem:
        if error is None:
            raise
        error.add_note(str(problem))


def _observer(
    observe: Callable[[Progress], None], pacer: Pacer, until_ns: int
) -> Callable[[int], None]:
    shown = Progress(0, until_ns, pacer)
    return lambda ns: observe(replace(shown, ns=ns))


def shortest_period(system: System) -> int:
    """The loop's frame in ns: the shortest step or period that anything declares."""
    steps = [int(p.step.ns) for p in system.plants]
    periods = [int(t.period.ns) for t in system.tasks if t.period is not None]
    return min([*steps, *periods], default=0)


def check_outside(system: System) -> None:
    """In real time a controller outside the process must be given time to answer."""
    for task in system.controllers:
        if task.controller.outside and getattr(task.compute, "seconds", 1) == 0:
            raise ScenarioError(
                f"{task.name} lives outside the process and is allowed no time to answer; "
                "give it compute=Fixed(0.005), or run with --pace max"
            )


def header(
    scenario: Scenario, seed: int, pace: Pace, until_ns: int, compile: bool
) -> dict[str, Any]:
    """What a recording says of its run, before the run."""
    return {
        "rtsim": __version__,
        "scenario": scenario.describe(),
        "seed": seed,
        "pace": str(pace),
        "policy": str(pace.policy),
        "until": until_ns,
        "compile": compile,
        "source_hash": source_hash(*scenario.functions()),
        "fingerprint": fingerprint(),
    }


__all__ = ["MAX", "NS_PER_S", "Outcome", "Pace", "Progress", "simulate"]
