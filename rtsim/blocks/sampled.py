"""Between signals and events: samplers, holds, delays, crossings.

A sampler reads its signal as x-, the value before anything changes at its instant; what follows it
along wires of events happens in the same instant, and a hold makes it a signal again, from x+ on.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from rtsim.blocks import units
from rtsim.blocks.block import (
    Block,
    Equations,
    Numbers,
    Port,
    When,
    Wire,
    Wires,
    each,
    number,
    numbers,
    shape,
    start,
)
from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Signal, Signals
from rtsim.core.tag import NS_PER_S, Duration, Period, exact_seconds, to_ns
from rtsim.equations.model import Guard, Timer


def timer(period: Duration | Period, offset: Duration = 0) -> Timer:
    """Ticks at ``offset + k * period`` s, exactly."""
    return Timer(Period.of(period), to_ns(offset, "offset"))


@dataclass(frozen=True)
class PeriodicSampler(Block):
    """``u`` as an event, each ``period`` s."""

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
    """``u`` as an event, whenever ``trigger`` happens."""

    inputs = (Port("u", "signal", None), Port("trigger", "event", None))
    outputs = (Port("y", "event", None),)

    def carries(self, wires: Wires) -> dict[str, Wire]:
        return {"y": Wire("event", wires["u"].size, wires["u"].unit)} if "u" in wires else {}

    def equations(self, wires: Wires) -> Equations:
        return Equations(when=(When(("trigger",), each(wires["u"].size, "y{i} = u{i}")),))


@dataclass(frozen=True)
class LevelCrossing(Block):
    """An event where ``u`` crosses ``level``: rising (``direction`` 1), falling (-1) or both (0).

    Located to the ns.  Its value is ``u`` there.
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
        return {"y": Wire("event", 1, wires["u"].unit if "u" in wires else units.ANY)}

    def equations(self, wires: Wires) -> Equations:
        return Equations(
            parameters=Signals(Signal("level", wires["u"].unit, initial=self.level)),
            guards=(Guard("crosses", self.direction),),
            guard="crosses = u - level",
            when=(When(("crosses",), "y = u"),),
        )


@dataclass(frozen=True)
class _Held(Block):
    """Base: as many elements as ``initial``."""

    initial: Numbers = 0.0
    unit: str = units.ANY
    period: Duration | Period | None = None
    offset: Duration = 0

    @property
    def inputs(self) -> tuple[Port, ...]:  # type: ignore[override]
        kind = "event" if self.period is None else "signal"
        remedy = "it is held already; leave the hold out, or give it a period= to sample anew"
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
        """``do`` at each event, or at each tick where there is a ``period``."""
        on, timers = "u", {}
        if self.period is not None:
            on, timers = "tick", {"tick": timer(self.period, self.offset)}
        return Equations(memory=memory, output=output, when=(When((on,), do),), timers=timers)


@dataclass(frozen=True)
class ZeroOrderHold(_Held):
    """The value of the last event at ``u``.  With a ``period``: ``u`` is a signal, sampled so."""

    @property
    def label(self) -> str:
        return "hold"

    def equations(self, wires: Wires) -> Equations:  # noqa: ARG002
        give, take = each(self.size, "y{i} = held{i}"), each(self.size, "held{i} = u{i}")
        return self.taking(Signals(self.held("held")), give, take)


@dataclass(frozen=True)
class FirstOrderHold(_Held):
    """On from the last event along the line through the last two; level behind the first."""

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
    """An event each ``period`` s: what ``u`` was one period before.

    ``u`` is a signal, or events that happen at each of these instants; others between them are
    passed over.  Its own output does not wait for its input, so that it may close a loop of events.
    """

    period: Duration | Period
    offset: Duration = 0
    initial: Numbers = 0.0
    unit: str = units.ANY

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


class TransportDelay(Block):
    """``y(t) = u(t - delay)``; ``initial`` before that.

    ``u`` is sampled ``samples`` times in a delay, at tags of their own, and ``y`` is a polynomial
    through the samples about: a cubic, or a line with ``interpolation="linear"``.  With h the time
    between samples the error is of order h^4, or h^2; a jump of ``u`` becomes a ramp as long as h.
    """

    inputs = (Port("u"),)

    def __init__(
        self,
        delay: Duration,
        samples: int = 20,
        initial: float = 0.0,
        interpolation: str = "cubic",
        unit: str = units.ANY,
    ) -> None:
        if interpolation not in ("linear", "cubic"):
            raise ScenarioError(f"interpolation {interpolation!r}; give 'linear' or 'cubic'")
        if samples < 2:
            raise ScenarioError(f"TransportDelay with {samples} samples; give at least 2")
        if exact_seconds(delay, "delay") <= 0:
            raise ScenarioError(f"TransportDelay({delay!r}): give a delay > 0 s")
        number(initial, "TransportDelay(initial=")
        self.step = Period(Period.of(delay).ns / samples)
        self.samples, self.initial, self.cubic = samples, initial, interpolation == "cubic"
        self.unit, self.delay = unit, float(Fraction(Period.of(delay).ns) / NS_PER_S)
        self.inputs = (Port("u", unit=unit),)
        self.outputs = (Port("y", unit=unit),)

    @property
    def label(self) -> str:
        return f"delay {self.delay:g} s"

    def equations(self, wires: Wires) -> Equations:  # noqa: ARG002
        n = self.samples + 2
        # the oldest sample stands where the next will: a delay and one step ago
        a, b, c, d = (f"buffer[(int(at) + {i}) % {n}]" for i in range(4))
        text = [f"_s = (t - since) / {self.step.seconds!r}", f"_b = {b}", f"_c = {c}"]
        if self.cubic:
            text += [
                f"_d = {d}",
                f"_a = 3.0 * (_b - _c) + _d if count == {self.samples + 1} else {a}",
                "_v = _b * (_s + 1.0) * (_s - 1.0) * (_s - 2.0) / 2.0"
                " - _c * (_s + 1.0) * _s * (_s - 2.0) / 2.0"
                " + (_d * (_s + 1.0) - _a * (_s - 2.0)) * _s * (_s - 1.0) / 6.0",
            ]
        else:
            text.append("_v = _b + _s * (_c - _b)")
        text.append(f"y = _v if count > {self.samples} else initial")
        return Equations(
            memory=Signals(
                Signal("buffer", self.unit, shape=(n,), initial=(self.initial,) * n),
                "at",
                "count",
                Signal("since", "s"),
            ),
            parameters=Signals(Signal("initial", self.unit, initial=self.initial)),
            output="\n".join(text),
            timers={"tick": Timer(self.step)},
            when=(
                When(
                    ("tick",),
                    f"_place = at\n_value = u\nat = (at + 1.0) % {n}\n"
                    "count = count + 1.0\nsince = t",
                    "buffer[int(_place)] = _value",
                ),
            ),
        )
