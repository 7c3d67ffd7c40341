"""Blocks between signals and events.

Samplers, holds, unit delays, level crossings and PID controllers.

A sampler reads its signal just before the changes at the sampling instant. A block reacts to an
event of another block at the instant of the event. A hold turns an event into a signal. The output
of a hold has its new value just after the instant of the event.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from rtsim.blocks import block
from rtsim.blocks.block import (
    Block,
    Equations,
    Numbers,
    Port,
    When,
    Wire,
    Wires,
    each,
    numbers,
    shape,
    start,
)
from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Signal, Signals
from rtsim.core.tag import Duration, Period, declared_ns
from rtsim.equations.model import Guard, Timer


def timer(period: Duration | Period, offset: Duration = 0) -> Timer:
    """Return a timer that ticks exactly at ``offset + k * period`` (s)."""
    return Timer(Period.of(period), declared_ns(offset, "offset"))


@dataclass(frozen=True)
class PeriodicSampler(Block):
    """Sample ``u`` every ``period`` s; each sample is an event with the value of ``u``."""

    period: Duration | Period
    offset: Duration = 0
    inputs = (Port("u", "signal", None),)
    outputs = (Port("y", "event", None),)

    @property
    def label(self) -> str:
        return f"sample {Period.of(self.period)}"

    def carries(self, wires: Wires) -> dict[str, Wire]:
        return {"y": Wire("event", wires["u"].size, wires["u"].unit)} if "u" in wires else {}

    def equations(self, wires: Wires) -> Equations:
        text = each(wires["u"].size, "y{i} = u{i}")
        return Equations(
            timers={"tick": timer(self.period, self.offset)}, when=(When(("tick",), text),)
        )


@dataclass(frozen=True)
class Sampler(Block):
    """Sample ``u`` at each event at ``trigger``; each event at ``y`` has the value of ``u``."""

    inputs = (Port("u", "signal", None), Port("trigger", "event", None))
    outputs = (Port("y", "event", None),)

    def carries(self, wires: Wires) -> dict[str, Wire]:
        return {"y": Wire("event", wires["u"].size, wires["u"].unit)} if "u" in wires else {}

    def equations(self, wires: Wires) -> Equations:
        return Equations(when=(When(("trigger",), each(wires["u"].size, "y{i} = u{i}")),))


@dataclass(frozen=True)
class LevelCrossing(Block):
    """Emit an event when ``u`` crosses ``level``.

    ``direction`` is 1 for rising crossings, -1 for falling crossings, and 0 for both. The
    solver locates the crossing to 1 ns. The event has the value of ``u`` at that time.
    """

    level: float = 0.0
    direction: int = 0
    inputs = (Port("u"),)
    outputs = (Port("y", "event", 1),)

    @property
    def label(self) -> str:
        sign = {1: "rises to", -1: "falls to", 0: "crosses"}[self.direction]
        return f"{sign} {self.level:g}"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.direction not in (-1, 0, 1):
            raise ScenarioError(
                f"LevelCrossing(direction={self.direction!r}): give 1 (rising), -1 (falling) or "
                "0 (both)"
            )

    def carries(self, wires: Wires) -> dict[str, Wire]:
        return {"y": Wire("event", 1, wires["u"].unit if "u" in wires else block.ANY)}

    def equations(self, wires: Wires) -> Equations:
        return Equations(
            parameters=Signals(Signal("level", wires["u"].unit, initial=self.level)),
            guards=(Guard("crosses", self.direction),),
            guard="crosses = u - level",
            when=(When(("crosses",), "y = u"),),
        )


@dataclass(frozen=True)
class _Held(Block):
    """Base class of holds, whose input and output have as many elements as ``initial``."""

    initial: Numbers = 0.0
    unit: str = block.ANY
    period: Duration | Period | None = None
    offset: Duration = 0

    @property
    def inputs(self) -> tuple[Port, ...]:  # type: ignore[override]
        kind = "event" if self.period is None else "signal"
        remedy = "remove the hold, because signals need none, or give it a period= to sample"
        return (Port("u", kind, self.size, self.unit, remedy=remedy),)  # type: ignore[arg-type]

    @property
    def outputs(self) -> tuple[Port, ...]:  # type: ignore[override]
        return (Port("y", "signal", self.size, self.unit),)

    @property
    def size(self) -> int:
        return len(numbers(self.initial))

    def held(self, name: str) -> Signal:
        return Signal(name, self.unit, shape=shape(self.size), initial=start(numbers(self.initial)))

    def taking(self, memory: Signals, output: str, do: str) -> Equations:
        on, timers = "u", {}
        if self.period is not None:
            on, timers = "tick", {"tick": timer(self.period, self.offset)}
        return Equations(memory=memory, output=output, when=(When((on,), do),), timers=timers)


@dataclass(frozen=True)
class ZeroOrderHold(_Held):
    """Zero-order hold: the output keeps the value of the last event at ``u``.

    With ``period`` (s), the block itself samples the signal ``u``.
    """

    @property
    def label(self) -> str:
        return "hold"

    def equations(self, wires: Wires) -> Equations:  # noqa: ARG002
        give, take = each(self.size, "y{i} = held{i}"), each(self.size, "held{i} = u{i}")
        return self.taking(Signals(self.held("held")), give, take)


@dataclass(frozen=True)
class FirstOrderHold(_Held):
    """First-order hold: the output is the straight line through the last two events at ``u``.

    With ``period`` (s), the block itself samples the signal ``u``.
    """

    @property
    def label(self) -> str:
        return "first-order hold"

    def equations(self, wires: Wires) -> Equations:  # noqa: ARG002
        n = self.size
        text = each(
            n, "slope{i} = (u{i} - last{i}) / (t - since) if seen != 0.0 and t > since else 0.0"
        )
        return self.taking(
            Signals(
                self.held("last"), Signal("slope", shape=shape(n)), Signal("since", "s"), "seen"
            ),
            each(n, "y{i} = last{i} + slope{i} * (t - since)"),
            "\n".join((text, each(n, "last{i} = u{i}"), "since = t\nseen = 1.0")),
        )


@dataclass(frozen=True)
class UnitDelay(Block):
    """Delay ``u`` by one period; the output is an event every ``period`` s.

    ``u`` is a signal or an event. An event must arrive at each tick of the block; events between
    two ticks are ignored. A loop of events needs a unit delay, because its output does not depend
    on the input at the same instant.
    """

    period: Duration | Period
    offset: Duration = 0
    initial: Numbers = 0.0
    unit: str = block.ANY

    @property
    def inputs(self) -> tuple[Port, ...]:  # type: ignore[override]
        return (Port("u", None, len(numbers(self.initial)), self.unit),)

    @property
    def outputs(self) -> tuple[Port, ...]:  # type: ignore[override]
        return (Port("y", "event", len(numbers(self.initial)), self.unit),)

    @property
    def label(self) -> str:
        return f"1/z {Period.of(self.period)}"

    def equations(self, wires: Wires) -> Equations:
        n = len(numbers(self.initial))
        give, take = each(n, "y{i} = stored{i}"), each(n, "stored{i} = u{i}")
        events = wires["u"].kind == "event"
        initial = start(numbers(self.initial))
        return Equations(
            memory=Signals(Signal("stored", self.unit, shape=shape(n), initial=initial)),
            timers={"tick": timer(self.period, self.offset)},
            when=(When(("tick",), give), When(("tick", "u") if events else ("tick",), take)),
            meets={"u": "tick"} if events else {},
        )


@dataclass(frozen=True)
class PID(Block):
    """A PID controller: ``y = kp u + ki integral(u) + kd u'``, limited to ``low`` … ``high``.

    In the derivative term, a first-order filter with the time constant ``1 / filter`` (s) smooths
    the derivative of ``u``. While the output is limited, back-calculation prevents integrator
    wind-up. Its gain is ``tracking`` (1/s), by default ``ki / kp``, or ``abs(ki)`` if ``kp`` is 0.
    """

    kp: float = 1.0
    ki: float = 0.0
    kd: float = 0.0
    filter: float = 100.0
    low: float = -math.inf
    high: float = math.inf
    tracking: float | None = None
    inputs = (Port("u"),)
    outputs = (Port("y"),)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.low < self.high and self.filter > 0):
            raise ScenarioError(
                f"PID(low={self.low:g}, high={self.high:g}, filter={self.filter:g}): "
                "give low < high and filter > 0 (1/s)"
            )

    @property
    def parameters(self) -> Signals:
        given = self.tracking
        if given is None:
            given = self.ki / self.kp if self.kp else abs(self.ki)
        return Signals(
            *(Signal(n, initial=getattr(self, n)) for n in ("kp", "ki", "kd", "low", "high")),
            Signal("filter", "1/s", initial=self.filter),
            Signal("tracking", "1/s", initial=given),
        )

    def equations(self, wires: Wires) -> Equations:  # noqa: ARG002
        wanted = "_v = kp * u + integral + kd * filter * (u - lagged)"
        return Equations(
            states=Signals("integral", "lagged"),
            parameters=self.parameters,
            output=f"{wanted}\ny = min(max(_v, low), high)",
            rate=f"{wanted}\nd_integral = ki * u + tracking * (min(max(_v, low), high) - _v)\n"
            "d_lagged = filter * (u - lagged)",
        )


@dataclass(frozen=True)
class SampledPID(PID):
    """A PID controller with the sampling period ``period`` (s).

    The block reads ``u`` as x-. The integral uses the forward Euler method.  The filter of the
    derivative uses backward Euler, which is stable for any period.
    """

    period: Duration | Period = 0.1
    offset: Duration = 0

    @property
    def label(self) -> str:
        return f"PID {Period.of(self.period)}"

    def equations(self, wires: Wires) -> Equations:  # noqa: ARG002
        h = Period.of(self.period).seconds
        return Equations(
            memory=Signals("held", "integral", "slope", "before"),
            parameters=self.parameters,
            output="y = held",
            timers={"tick": timer(self.period, self.offset)},
            when=(
                When(
                    ("tick",),
                    f"slope = (slope + filter * (u - before)) / (1.0 + filter * {h!r})\n"
                    "before = u\n"
                    "_v = kp * u + integral + kd * slope\n"
                    "held = min(max(_v, low), high)\n"
                    f"integral = integral + {h!r} * (ki * u + tracking * (held - _v))",
                ),
            ),
        )
