"""Sources of signals and events.

The solver stops at each jump or bend of a source.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rtsim.blocks import block
from rtsim.blocks.block import Block, Equations, Numbers, Port, When, numbers, shape, start
from rtsim.blocks.block import Wires as _Wires
from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Signal, Signals
from rtsim.core.tag import Duration, Period, declared_ns
from rtsim.equations.model import Timer


class Source(Block):
    """Base class of sources with one output ``y`` of one element."""

    unit: str = block.ANY

    @property
    def outputs(self) -> tuple[Port, ...]:  # type: ignore[override]
        return (Port("y", unit=self.unit),)

    def numbers(self, **values: float) -> Signals:
        """Convert the numbers in ``values`` to parameters in the unit of the output."""
        return Signals(*(Signal(name, self.unit, initial=v) for name, v in values.items()))


def _switched(begins_ns: int, parameters: Signals, output: str) -> Equations:
    return Equations(
        memory=Signals("on"),
        parameters=parameters,
        output=output,
        timers={"now": Timer(None, begins_ns)},
        when=(When(("now",), "on = 1.0"),),
    )


@dataclass(frozen=True)
class Constant(Source):
    """A constant of one or several elements, as a parameter of the model."""

    value: Numbers = 0.0
    unit: str = block.ANY

    @property
    def outputs(self) -> tuple[Port, ...]:  # type: ignore[override]
        return (Port("y", "signal", len(numbers(self.value)), self.unit),)

    @property
    def label(self) -> str:
        return ", ".join(f"{v:g}" for v in numbers(self.value))

    def equations(self, wires: _Wires) -> Equations:  # noqa: ARG002
        given = numbers(self.value)
        n = len(given)
        text = "y = value" if n == 1 else "\n".join(f"y[{i}] = value[{i}]" for i in range(n))
        value = Signal("value", self.unit, shape=shape(n), initial=start(given))
        return Equations(parameters=Signals(value), output=text)


@dataclass(frozen=True)
class Step(Source):
    """A step from ``before`` to ``after`` at ``time`` s."""

    time: Duration = 0
    before: float = 0.0
    after: float = 1.0
    unit: str = block.ANY

    @property
    def label(self) -> str:
        return f"step {self.before:g} → {self.after:g} at {self.time} s"

    def equations(self, wires: _Wires) -> Equations:  # noqa: ARG002
        return _switched(
            declared_ns(self.time, "time of a step"),
            self.numbers(before=self.before, after=self.after),
            "y = after if on != 0.0 else before",
        )


@dataclass(frozen=True)
class Ramp(Source):
    """Stay at ``initial`` until ``time`` s, then rise by ``slope`` per second."""

    slope: float = 1.0
    time: Duration = 0
    initial: float = 0.0
    unit: str = block.ANY

    @property
    def label(self) -> str:
        return f"ramp {self.slope:g}/s from {self.time} s"

    def equations(self, wires: _Wires) -> Equations:  # noqa: ARG002
        begins = declared_ns(self.time, "time of a ramp")
        slope = Signal("slope", block.times(self.unit, "s", -1), initial=self.slope)
        return _switched(
            begins,
            Signals(*self.numbers(initial=self.initial), slope),
            f"y = initial + on * slope * (t - {begins / 1e9!r})",
        )


@dataclass(frozen=True)
class Sine(Source):
    """A sine wave: ``bias + amplitude * sin(2 pi frequency t + phase)``.

    ``frequency`` is in Hz and ``phase`` in rad.
    """

    amplitude: float = 1.0
    frequency: float = 1.0
    phase: float = 0.0
    bias: float = 0.0
    unit: str = block.ANY

    @property
    def label(self) -> str:
        return f"sine {self.frequency:g} Hz"

    def equations(self, wires: _Wires) -> Equations:  # noqa: ARG002
        return Equations(
            parameters=Signals(
                *self.numbers(amplitude=self.amplitude, bias=self.bias),
                Signal("frequency", "Hz", initial=self.frequency),
                Signal("phase", "rad", initial=self.phase),
            ),
            output="y = bias + amplitude * math.sin(2.0 * math.pi * frequency * t + phase)",
        )


@dataclass(frozen=True)
class SquareClock(Source):
    """A square wave: ``high`` for ``width`` s of each ``period`` s, else ``low``.

    The first pulse begins at ``offset`` s. The default ``width`` is half a period.  Each edge is at
    an exact nanosecond.
    """

    period: Duration | Period = 1
    low: float = 0.0
    high: float = 1.0
    offset: Duration = 0
    width: Duration | None = None
    unit: str = block.ANY

    @property
    def label(self) -> str:
        return f"square {Period.of(self.period)}"

    def equations(self, wires: _Wires) -> Equations:  # noqa: ARG002
        period, offset = Period.of(self.period), declared_ns(self.offset, "offset")
        width = round(period.ns / 2) if self.width is None else declared_ns(self.width, "width")
        if not 0 < width < period.ns:
            raise ScenarioError(
                f"SquareClock: width {width / 1e9:g} s must be > 0 s and less than the period "
                f"of {period}"
            )
        return Equations(
            memory=Signals("on"),
            parameters=self.numbers(low=self.low, high=self.high),
            output="y = high if on != 0.0 else low",
            timers={"rise": Timer(period, offset), "fall": Timer(period, offset + width)},
            when=(When(("rise",), "on = 1.0"), When(("fall",), "on = 0.0")),
        )


class Waveform(Source):
    """A periodic signal given by ``samples`` at intervals of ``step`` s.

    ``interpolation`` is ``"linear"`` or ``"hermite"``. A Hermite curve through the samples is
    smooth: its slope at a sample is the slope between the two neighbouring samples.
    """

    def __init__(
        self,
        samples: Numbers,
        step: Duration | Period,
        interpolation: str = "linear",
        unit: str = block.ANY,
    ) -> None:
        if interpolation not in ("linear", "hermite"):
            raise ScenarioError(
                f"Waveform(interpolation={interpolation!r}): give 'linear' or 'hermite'"
            )
        self.samples = np.array(numbers(samples, "Waveform(samples="))
        if len(self.samples) < 2:
            raise ScenarioError(f"a Waveform needs at least 2 samples, got {len(self.samples)}")
        self.step, self.smooth, self.unit = Period.of(step), interpolation == "hermite", unit

    @property
    def label(self) -> str:
        return f"waveform of {len(self.samples)}"

    def equations(self, wires: _Wires) -> Equations:  # noqa: ARG002
        n, h = len(self.samples), self.step.seconds
        text = [f"_s = (t - since) / {h!r}", "_k = int(at)"]
        text += [f"_{name} = _samples[(_k + {k}) % {n}]" for k, name in enumerate("bc")]
        if self.smooth:
            text += [
                f"_p = (_c - _samples[(_k + {n - 1}) % {n}]) / 2.0",
                f"_q = (_samples[(_k + 2) % {n}] - _b) / 2.0",
                "y = _b + _s * (_p + _s * (3.0 * (_c - _b) - 2.0 * _p - _q"
                " + _s * (2.0 * (_b - _c) + _p + _q)))",
            ]
        else:
            text.append("y = _b + _s * (_c - _b)")
        return Equations(
            memory=Signals(Signal("at", initial=n - 1.0), Signal("since", "s", initial=-h)),
            output="\n".join(text),
            timers={"next": Timer(self.step)},
            when=(When(("next",), f"at = (at + 1.0) % {n}\nsince = t"),),
            functions={"_samples": self.samples},
        )


@dataclass(frozen=True)
class Noise(Source):
    """Band-limited white noise: a normally distributed number is drawn every ``period`` s and held.

    ``deviation`` is the square root of the two-sided spectral density, in the unit of the output
    times s^(1/2). The spectrum is flat up to about a third of ``1 / period`` Hz. The random numbers
    do not depend on the solver's steps.
    """

    deviation: float = 1.0
    period: Duration | Period = 0.01
    mean: float = 0.0
    unit: str = block.ANY

    @property
    def label(self) -> str:
        return f"noise {Period.of(self.period)}"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.deviation < 0:
            raise ScenarioError(f"Noise(deviation={self.deviation!r}): give a number >= 0")

    def equations(self, wires: _Wires) -> Equations:  # noqa: ARG002
        period = Period.of(self.period)
        return Equations(
            memory=Signals("drawn"),
            parameters=Signals(
                *self.numbers(mean=self.mean), Signal("deviation", initial=self.deviation, low=0.0)
            ),
            output=f"y = mean + {period.seconds**-0.5!r} * deviation * drawn",
            timers={"draw": Timer(period, 0, ("drawn",))},
        )


class _Events(Block):
    value: float
    unit: str

    @property
    def outputs(self) -> tuple[Port, ...]:  # type: ignore[override]
        return (Port("y", "event", 1, self.unit),)

    def at(self, name: str, timer: Timer) -> Equations:
        return Equations(
            parameters=Signals(Signal("value", self.unit, initial=self.value)),
            timers={name: timer},
            when=(When((name,), "y = value"),),
        )


@dataclass(frozen=True)
class EventClock(_Events):
    """An event with the given value every ``period`` s, from ``offset`` s on."""

    period: Duration | Period = 1
    offset: Duration = 0
    value: float = 1.0
    unit: str = block.ANY

    @property
    def label(self) -> str:
        return f"each {Period.of(self.period)}"

    def equations(self, wires: _Wires) -> Equations:  # noqa: ARG002
        return self.at("tick", Timer(Period.of(self.period), declared_ns(self.offset, "offset")))


@dataclass(frozen=True)
class EventAt(_Events):
    """One event with the given value at ``time`` s.

    At an input ``impulse``, the event acts as a Dirac impulse of weight ``value``.
    """

    time: Duration = 0
    value: float = 1.0
    unit: str = block.ANY

    @property
    def label(self) -> str:
        return f"{self.value:g} at {self.time} s"

    def equations(self, wires: _Wires) -> Equations:  # noqa: ARG002
        return self.at("now", Timer(None, declared_ns(self.time, "time of an event")))
