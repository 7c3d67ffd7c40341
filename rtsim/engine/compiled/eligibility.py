"""Determine whether a run and its tasks can be compiled."""

from __future__ import annotations

from dataclasses import dataclass, field

from rtsim.components.latency import remembers_nothing
from rtsim.components.ports import Wiring
from rtsim.components.tasks import CompiledReaction, Task
from rtsim.core.tag import Period
from rtsim.engine.compiled.kernel import stretch
from rtsim.engine.compiled.pace import unpaceable
from rtsim.engine.compiled.table import SENDERS
from rtsim.engine.system import System
from rtsim.engine.trace import Trace
from rtsim.equations.addresses import WORDS
from rtsim.equations.compiling import kept
from rtsim.timing.pacing import Pacer

AUTO, COMPILED, INTERPRETED = ENGINES = ("auto", "compiled", "interpreted")
"""Engines that can run a scenario.

The compiled engine is compiled once on each machine, which takes some seconds. ``auto`` therefore
uses it only if it is compiled already, or if the run is long.
"""
_LONG = 100_000
"""Number of steps that the interpreter computes in the time of compiling the engine."""
_SHORT = 200
"""Number of steps that the interpreter computes in the time of loading the engine."""
EXACT_NS = 2**53
"""Time (ns) up to which compiled code and Python round the value in s equally."""


@dataclass
class Eligibility:
    """Result of the tests for one run."""

    why_not: list[str] = field(default_factory=list)
    """Reasons why the run cannot use the compiled engine at all. Empty if it can."""
    interpreted: list[str] = field(default_factory=list)
    """The components that react in Python, each with the reason."""
    reactions: dict[str, CompiledReaction] = field(default_factory=dict)
    """The compiled reactions by the name of their task."""


def examine(
    system: System, trace: Trace, pacer: Pacer, engine: str, until_ns: int, loaded: bool
) -> Eligibility:
    """Return which parts of a run can be compiled.

    ``engine`` is one of :data:`ENGINES`. ``loaded`` is True if this process has already loaded the
    compiled engine.
    """
    found = Eligibility()
    if engine == INTERPRETED:
        found.why_not.append("the interpreter was asked for")
        return found
    if not system.plants:
        found.why_not.append("the scenario has no plant")
    for plant in system.plants:
        if plant.bound.later:
            found.why_not.append(f"{plant.name} is not compiled, because the run is short")
        elif plant.native_step() is None and plant.outside:
            found.why_not.append(f"another program computes {plant.name}")
        elif plant.native_step() is None:
            found.why_not.append(f"the solver or the model of {plant.name} is not compiled")
    if system.plants and pacer.clock.paced and (why := why_unpaceable(system, pacer)):
        found.why_not.append(why)
    if until_ns >= EXACT_NS:
        found.why_not.append("the run ends after 104 days")
    if system.faults is not None:
        found.why_not.append("faults are declared")
    if system.processors:
        found.why_not.append("tasks run on a processor")
    if system.external_inputs:
        found.why_not.append("external inputs are read at each tag")
    for task in system.tasks:
        reaction = _reaction(task, system, trace)
        if isinstance(reaction, CompiledReaction):
            found.reactions[task.name] = reaction
        else:
            found.interpreted.append(reaction)
    if engine == AUTO and not found.why_not and (why := _why_too_short(system, until_ns, loaded)):
        found.why_not.append(why)
    return found


def _why_too_short(system: System, until_ns: int, loaded: bool) -> str:
    steps = (until_ns - system.ns) / min(p.step.ns for p in system.plants)
    if steps < _SHORT:
        return "the run is short"
    if steps < _LONG and not (loaded or kept(stretch, (WORDS,))):
        return (
            "the run is short, and the engine was not compiled on this machine yet "
            "(--engine compiled compiles it)"
        )
    return ""


def why_unpaceable(system: System, pacer: Pacer) -> str:
    """Return why compiled code cannot wait at the present rate, or ""."""
    return unpaceable(pacer, round(min(p.step.ns for p in system.plants)))


def _reaction(task: Task, system: System, trace: Trace) -> CompiledReaction | str:
    reacts, described = _owner(task, "react"), _owner(task, "compiled")
    if described is None or reacts is not described:  # a subclass reacts in its own way
        return f"{task.name} reacts in Python"
    found: CompiledReaction | str = task.compiled()  # type: ignore[attr-defined]
    if isinstance(found, str):
        return found
    periods = [p for p, _ in found.timers if p is not None] if found.timers else [task.period]
    if not all(p is not None and _exact(p) for p in periods):
        return f"{task.name} has no period, or too long a one"
    if found.wiring is not None and type(found.wiring) is not Wiring:
        return f"the inputs of {task.name} are changed on their way"
    if found.kind in SENDERS:
        topic = system.bus.topics[task.name]
        if system.bus.on_medium(task.name):
            return f"messages of {task.name} wait for a medium"
        if trace.tally is not None and not trace.topic_track(task.name).keeps:
            return f"clients see the latencies of {task.name}, and no row of it is kept"
        for model in (topic.transport, found.compute):
            if not remembers_nothing(model):
                return f"the latency model {type(model).__name__} of {task.name} has a state"
        if system.triggers.get(task.name) or system.listeners.get(task.name):
            return f"messages of {task.name} trigger other components"
    return found


def _owner(task: Task, method: str) -> type | None:
    return next((c for c in type(task).__mro__ if method in vars(c)), None)


def _exact(period: Period) -> bool:
    return max(period.ratio) < 2**40
