"""The block that delays a signal."""

from __future__ import annotations

from fractions import Fraction

from rtsim.blocks import units
from rtsim.blocks.block import Block, Equations, InputDelay, Port, When, Wires, number
from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Signal, Signals
from rtsim.core.tag import NS_PER_S, Duration, Period, exact_seconds
from rtsim.equations.model import Timer


class TransportDelay(Block):
    """Delay a signal: ``y(t) = u(t - delay)``; before ``delay`` s, ``y`` is ``initial``.

    The past of ``u`` is taken from the solver's own steps (docs/delays.md): ``y`` is as accurate as
    the solver, and a jump of ``u`` stays a jump.  The solver must be one of rtsim's own.

    With ``samples``, the block works with every solver: it samples ``u`` that many times per
    ``delay``; each sample is a tag.  ``y`` interpolates between neighbouring samples with a cubic,
    or with a line if ``interpolation="linear"``.  If h is the time between samples, the error is of
    order h^4 for the cubic and h^2 for the line.  A jump of ``u`` becomes a ramp of length h.
    """

    inputs = (Port("u"),)

    def __init__(
        self,
        delay: Duration,
        samples: int | None = None,
        initial: float = 0.0,
        interpolation: str = "cubic",
        unit: str = units.ANY,
    ) -> None:
        if interpolation not in ("linear", "cubic"):
            raise ScenarioError(
                f"TransportDelay(interpolation={interpolation!r}): give 'linear' or 'cubic'"
            )
        if samples is None and interpolation != "cubic":
            raise ScenarioError(
                "TransportDelay(interpolation='linear') needs samples=, such as samples=20; "
                "without samples, the delay interpolates as the solver does"
            )
        if samples is not None and samples < 2:
            raise ScenarioError(f"TransportDelay(samples={samples}): give at least 2")
        if exact_seconds(delay, "delay") <= 0:
            raise ScenarioError(f"TransportDelay({delay!r}): give a delay > 0 s")
        number(initial, "TransportDelay(initial=")
        self.samples, self.initial, self.cubic = samples, initial, interpolation == "cubic"
        self.unit, self.delay = unit, float(Fraction(Period.of(delay, "delay").ns) / NS_PER_S)
        self._delay_ns = Period.of(delay).ns
        self.inputs = (Port("u", unit=unit),)
        self.outputs = (Port("y", unit=unit),)

    @property
    def label(self) -> str:
        return f"delay {self.delay:g} s"

    def equations(self, wires: Wires) -> Equations:  # noqa: ARG002
        initial = Signal("initial", self.unit, initial=self.initial)
        if self.samples is not None:
            return self._sampled(self.samples, initial)
        return Equations(
            parameters=Signals(initial, Signal("delay", "s", initial=self.delay, low=1e-9)),
            delays={"late": InputDelay("u", lag="delay", before="initial")},
            output="y = late",
        )

    def _sampled(self, samples: int, initial: Signal) -> Equations:
        n, step = samples + 2, Period(self._delay_ns / samples)
        # The ring buffer covers one delay and one interval; the next sample overwrites the oldest.
        a, b, c, d = (f"buffer[(int(at) + {i}) % {n}]" for i in range(4))
        text = [f"_s = (t - since) / {step.seconds!r}", f"_b = {b}", f"_c = {c}"]
        if self.cubic:
            text += [
                f"_d = {d}",
                f"_a = 3.0 * (_b - _c) + _d if count == {samples + 1} else {a}",
                "_v = _b * (_s + 1.0) * (_s - 1.0) * (_s - 2.0) / 2.0"
                " - _c * (_s + 1.0) * _s * (_s - 2.0) / 2.0"
                " + (_d * (_s + 1.0) - _a * (_s - 2.0)) * _s * (_s - 1.0) / 6.0",
            ]
        else:
            text.append("_v = _b + _s * (_c - _b)")
        text.append(f"y = _v if count > {samples} else initial")
        buffer = Signal("buffer", self.unit, shape=(n,), initial=(self.initial,) * n)
        return Equations(
            memory=Signals(buffer, "at", "count", Signal("since", "s")),
            parameters=Signals(initial),
            output="\n".join(text),
            timers={"tick": Timer(step)},
            when=(
                When(
                    ("tick",),
                    f"_place = at\n_value = u\nat = (at + 1.0) % {n}\n"
                    "count = count + 1.0\nsince = t",
                    "buffer[int(_place)] = _value",
                ),
            ),
        )
