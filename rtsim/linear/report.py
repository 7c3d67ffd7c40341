"""Report of ``rtsim linearise``: the linear model of a plant, and the margins of its loops."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rtsim.core.errors import ModelError, ScenarioError
from rtsim.core.tag import NS_PER_S, Duration, Period, to_ns
from rtsim.engine.system import System
from rtsim.equations.compiling import Compilation
from rtsim.linear.crossings import Margins, margins
from rtsim.linear.linearising import NOISE_HELD, DelayMargin, Loop, linear_plant, loop_of
from rtsim.linear.plants import plant_of, point_in, system_at
from rtsim.linear.state_space import StateSpace
from rtsim.linear.timed_loops import timed_loop_of
from rtsim.linear.timing_cost import JitterMargin, TimedLoop, TimingCost
from rtsim.scenario.scenario import Scenario


@dataclass(frozen=True)
class LoopReport:
    """Margins of a loop that is opened at the signal ``name``.

    ``margins`` is ``None`` for a loop with several signals. ``delay`` is ``None`` if the loop is
    stable for all delays up to ``delay_searched`` s, or if ``delay_problem`` gives a reason. For a
    signal that is not a message, the report contains only the approximate delay margin
    ``approximate`` (s).
    """

    name: str
    period: Period
    system: StateSpace
    margins: Margins | None
    delay: DelayMargin | None
    delay_searched: float = 0.0
    delay_problem: str = ""
    approximate: float | None = None

    def to_json(self) -> dict[str, Any]:
        m = self.margins
        return {
            "loop": self.name,
            "period": self.period.seconds,
            "stable": None if m is None else m.stable,
            "gain_margin": None if m is None else [m.gain_low, m.gain_high],
            "phase_margin_deg": None if m is None else m.phase_deg,
            "crossings_searched_above": None if m is None else m.searched_above or None,
            "delay_margin": None if self.delay is None else self.delay.seconds,
            "delay_frequency": None if self.delay is None else self.delay.frequency,
            "delay_margin_approximate": self.approximate,
            "delay_searched": self._searched(),
            "delay_problem": self.delay_problem or None,
        }

    def _searched(self) -> float | None:
        failed = self.delay is None and not self.delay_problem and self.approximate is None
        return self.delay_searched if failed else None


@dataclass(frozen=True)
class TimingReport:
    """The cost of timing of the loop of a scenario; ``jitter`` is ``None`` if it is unstable."""

    loop: TimedLoop
    cost: TimingCost
    jitter: JitterMargin | None

    def to_json(self) -> dict[str, Any]:
        cost, jitter = self.cost, self.jitter
        return {
            "stable": cost.stable,
            "cost": _finite(cost.cost),
            "parts": {name: _finite(part) for name, part in cost.parts.items()},
            "from_disturbance": _finite(cost.from_disturbance),
            "from_measurement": _finite(cost.from_measurement),
            "growth": cost.growth,
            "jitter_margin": None if jitter is None else _finite(jitter.seconds),
            "jitter_margin_above": None if jitter is None else jitter.latency,
        }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


@dataclass(frozen=True)
class LinearReport:
    """The linear model of a plant, an open loop, margins and cost of loops, at ``time`` (s)."""

    plant_name: str
    time: float
    plant: StateSpace
    system: StateSpace | None
    loops: tuple[LoopReport, ...]
    notes: tuple[str, ...]
    timing: TimingReport | None = None

    @property
    def scalar_loops(self) -> dict[str, StateSpace]:
        """The open loops with one input and one output, by name."""
        shown = {one.name: one.system for one in self.loops if one.margins is not None}
        if self.system is not None and self.system.d.shape == (1, 1):
            shown[self.system.name] = self.system
        return shown

    def to_json(self) -> dict[str, Any]:
        plant = self.plant
        return {
            "plant": self.plant_name,
            "time": self.time,
            "method": plant.method,
            "poles": _poles(plant),
            **matrices(plant),
            "open_loop": None
            if self.system is None
            else {"name": self.system.name, "poles": _poles(self.system), **matrices(self.system)},
            "loops": [one.to_json() for one in self.loops],
            "timing_cost": None if self.timing is None else self.timing.to_json(),
            "notes": list(self.notes),
        }


def _poles(system: StateSpace) -> list[dict[str, float]]:
    return [
        {
            "real": p.value.real,
            "imaginary": p.value.imag,
            "frequency": p.frequency,
            "damping": p.damping,
        }
        for p in system.poles
    ]


def matrices(system: StateSpace) -> dict[str, Any]:
    labels = {
        kind: [{"name": c, "unit": s.unit} for s in getattr(system, kind) for c in s.columns]
        for kind in ("states", "inputs", "outputs")
    }
    period = None if system.period is None else system.period.seconds
    return {**labels, "period": period, **{m: getattr(system, m).tolist() for m in "abcd"}}


def linear_report(
    scenario: Scenario,
    *,
    plant: str = "",
    start: str = "",
    end: str = "",
    time: Duration = 0,
    slow: float = 0.0,
    cost: Mapping[str, float] | None = None,
    compile: Compilation = True,
) -> LinearReport:
    """Return the poles of a plant and the margins of its loops at ``time`` (s) of a run.

    By default, the report covers one loop for each signal and each message that the plant receives.
    With ``start``, the report covers the loop through another signal, or the loops through all
    signals of a component. With ``start`` and ``end``, the report contains the open loop between
    both signals, without margins.

    If a default loop has no linear model, the report contains the poles of the plant and a note. If
    the loop through ``start`` has no linear model, an error is raised. With ``cost``, the weights
    of signals, the report contains the cost of timing.
    """
    name, _ = plant_of(scenario, plant)
    system = system_at(scenario, time, compile=compile)
    bound = next(p for p in system.plants if p.name == name).bound
    linear = linear_plant(bound, point_in(system, name))
    seconds = to_ns(time) / NS_PER_S
    if end and not start:
        raise ScenarioError("--to needs --from, the signal at which the open loop begins")
    if end:
        opened = loop_of(system, start, end).system
        return LinearReport(name, seconds, linear, opened, (), _notes(linear, opened))
    cuts = _cuts(system, name, start)
    loops: list[LoopReport] = []
    lost = ""
    try:
        loops = [_report(loop_of(system, cut), slow) for cut in cuts]
    except (ModelError, ScenarioError) as error:
        if start:
            raise
        lost = f"no margins: {error}"
    notes = _notes(linear, *(one.system for one in loops))
    if lost:
        notes += (lost,)
    elif not loops:
        notes += ("no controller or sensor sends messages to this plant; give --from for a loop",)
    timing = _timing(timed_loop_of(system, cost)) if cost else None
    if timing is not None:
        others = (note for note in notes if not note.startswith(NOISE_HELD))
        notes = tuple(dict.fromkeys((*others, *timing.loop.notes)))
    return LinearReport(name, seconds, linear, None, tuple(loops), notes, timing)


def _timing(loop: TimedLoop) -> TimingReport:
    try:
        jitter = loop.jitter_margin()
    except ModelError:
        jitter = None
    return TimingReport(loop, loop.timing_cost(), jitter)


def _notes(*systems: StateSpace) -> tuple[str, ...]:
    return tuple(dict.fromkeys(note for system in systems for note in system.notes))


def _cuts(system: System, plant: str, start: str) -> list[str]:
    wiring = next(p for p in system.plants if p.name == plant).wiring
    sources = [s for s in wiring.sources.values() if isinstance(s, str)] if wiring else []
    if start:
        component, dot, _ = start.partition(".")
        if dot or component not in system.ports:
            return [start]
        return _each(component, [f"{component}.{n}" for n in system.ports[component].signals.names])
    topics = list(dict.fromkeys(s.partition(".")[0] for s in sorted(sources)))
    out: list[str] = []
    for topic in topics:
        if topic in system.bus.topics:
            out += _each(
                topic, list(dict.fromkeys(s for s in sources if s.startswith(f"{topic}.")))
            )
    return out


def _each(component: str, signals: Sequence[str]) -> list[str]:
    return [component, *signals] if len(signals) > 1 else list(signals)


def _report(loop: Loop, slow: float) -> LoopReport:
    system = loop.system
    found = margins(system, feedback=1.0, slow=slow) if system.d.shape == (1, 1) else None
    if not loop.delayable:
        about = None if found is None or not found.stable else found.delay
        problem = "no message" if about is None else ""
        return LoopReport(loop.start, loop.period, system, found, None, 0.0, problem, about)
    try:
        delay, searched = loop.searched_delay_margin(slow=slow)
    except ModelError:
        return LoopReport(loop.start, loop.period, system, found, None, 0.0, "unstable")
    problem = ""
    if math.isinf(searched):
        problem = f"none: gain < 1 above {slow:g} rad/s" if slow else "none: gain < 1"
    return LoopReport(loop.start, loop.period, system, found, delay, searched, problem)
