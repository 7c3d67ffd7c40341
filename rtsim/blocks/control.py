"""PID controllers: continuous and sampled."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rtsim.blocks.block import Block, Equations, Port, When, Wires
from rtsim.blocks.sampled import timer
from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Signal, Signals
from rtsim.core.tag import Duration, Period


@dataclass(frozen=True)
class PID(Block):
    """A PID controller: ``y = kp u + ki integral(u) + kd u'``, limited to ``low`` … ``high``.

    ``u'`` is the derivative of ``u`` after a first-order filter with time constant ``1 / filter``
    s.  While the output is limited, back-calculation with the gain ``tracking`` (1/s; default
    ``ki / kp``) prevents integrator wind-up.
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
    """A :class:`PID` that is computed every ``period`` s; its output is held in between.

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
