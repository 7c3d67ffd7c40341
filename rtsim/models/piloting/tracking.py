"""Tracking tasks: the pilot makes an aircraft follow a target on one or more axes.

The target of each axis is a sum of sines. All frequencies are multiples of one base frequency, so
the measured interval contains whole periods of each sine. Different axes have different
frequencies. An error at a frequency of another axis therefore shows cross coupling.

Source of the method: D. T. McRuer and E. S. Krendel, "Mathematical Models of Human Pilot
Behavior", AGARDograph 188 (1974).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.equations.compiling import compiled
from rtsim.equations.model import Model
from rtsim.models.piloting.findings import TaskData

if TYPE_CHECKING:
    from rtsim.models.piloting.findings import Findings
    from rtsim.record.reading import Recording

COMPENSATORY, PURSUIT = "compensatory", "pursuit"
DISPLAYS = (COMPENSATORY, PURSUIT)
MULTIPLES = (3, 5, 8, 13, 19, 29, 43, 67, 103, 163)
"""Sines of the first axis, in periods per measured interval.

For 60 s they are between 0.31 and 17 rad/s, the range of McRuer's experiments.
"""
_GRID_S = 0.01
"""Sampling period of the measures, s."""
_FASTEST = 60.0
"""Highest frequency of a sine, rad/s.

The limit is about a tenth of the sampling frequency, and faster than any hand.
"""
_SHARES = 5
"""Number of scalar parameters: begin, fade, measured, compensatory, and the number of axes."""


@dataclass(frozen=True)
class Tracking(TaskData):
    """Task to make each signal in ``axes``, such as ``pitch``, follow a sum of sines.

    ``rms`` is the RMS of the target of each axis, in ``unit``. Above the frequency ``bandwidth``
    (rad/s), the amplitudes are multiplied by ``shelf``. The target fades in over ``fade`` s. The
    measured interval begins at ``begin`` s and lasts ``measured`` s. ``realisation`` selects the
    phases. With the display ``compensatory``, the pilot sees the error only; with ``pursuit``, the
    pilot sees target and aircraft.
    """

    kind: ClassVar[str] = "tracking"

    axes: tuple[str, ...] = ("pitch",)
    rms: tuple[float, ...] = (0.02,)
    unit: str = "rad"
    display: str = COMPENSATORY
    bandwidth: float = 2.5
    shelf: float = 0.1
    multiples: tuple[int, ...] = MULTIPLES
    fade: float = 5.0
    begin: float = 10.0
    measured: float = 60.0
    realisation: int = 1
    title: str = field(default="follow a target", compare=False)

    def __post_init__(self) -> None:
        if self.display not in DISPLAYS:
            raise UnknownName("display", self.display, DISPLAYS, "a tracking task")
        if not self.axes or len(set(self.axes)) != len(self.axes):
            raise ScenarioError(f"axes = {list(self.axes)}; give one or more different axes")
        if len(self.rms) != len(self.axes) or min(self.rms) <= 0.0:
            raise ScenarioError(
                f"rms = {list(self.rms)}; give one number > 0 for each axis of "
                f"{', '.join(self.axes)}"
            )
        if len(self.multiples) < 2 or any(m < 1 for m in np.diff((0, *self.multiples))):
            raise ScenarioError(
                f"multiples = {list(self.multiples)}; give two or more increasing whole numbers > 0"
            )
        spread = [m + i for i in range(len(self.axes)) for m in self.multiples]
        if len(set(spread)) != len(spread):
            raise ScenarioError(
                f"multiples = {list(self.multiples)} give the same sine to two axes, because each "
                "axis adds 1 to the multiples of the axis before it; give multiples that are at "
                f"least {len(self.axes)} apart, the number of axes"
            )
        if self.measured <= 0.0 or self.begin < 0.0 or self.fade < 0.0:
            raise ScenarioError(
                f"begin = {self.begin:g}, fade = {self.fade:g}, measured = {self.measured:g}; give "
                "begin and fade >= 0 s, and measured > 0 s"
            )
        if any(abs(v / _GRID_S - round(v / _GRID_S)) > 1e-6 for v in (self.begin, self.measured)):
            raise ScenarioError(
                f"begin = {self.begin:g}, measured = {self.measured:g}; give multiples of "
                f"{_GRID_S:g} s, so that the measured interval has whole periods of all sines"
            )
        if (fastest := float(self.frequencies().max())) > _FASTEST:
            raise ScenarioError(
                f"multiples = {list(self.multiples)}, measured = {self.measured:g} s: the fastest "
                f"sine has {fastest:.3g} rad/s, but at most {_FASTEST:g} rad/s can be measured; "
                "give smaller multiples, or a longer interval"
            )
        if self.bandwidth <= 0.0 or self.shelf <= 0.0:
            raise ScenarioError(
                f"bandwidth = {self.bandwidth:g}, shelf = {self.shelf:g}; give numbers > 0"
            )

    @property
    def duration(self) -> float:
        return self.begin + self.measured

    @property
    def needs(self) -> tuple[str, ...]:
        return self.axes

    @property
    def scene(self) -> str:
        return "tracking"

    def shown(self) -> Mapping[str, Any]:
        return {"axes": list(self.axes), "display": self.display, "rms": list(self.rms)}

    def frequencies(self) -> Vector:
        """Return the frequencies (axes, k), rad/s.

        Each sine of an axis has one period more in the measured interval than on the axis before.
        """
        shifts = np.arange(len(self.axes))[:, None]
        periods = np.asarray(np.array(self.multiples, float) + shifts, np.float64)
        return periods * (math.tau / self.measured)

    def amplitudes(self) -> Vector:
        """Return amplitudes (axes, k), in ``unit``, for targets with the RMS ``rms``."""
        shape = np.where(self.frequencies() <= self.bandwidth, 1.0, self.shelf)
        level = np.sqrt(0.5 * (shape**2).sum(axis=1))
        return np.asarray(shape * (np.array(self.rms) / level)[:, None], np.float64)

    def phases(self) -> Vector:
        """Return the phases (axes, k), rad, which depend only on ``realisation``."""
        count = len(self.axes) * len(self.multiples)
        return math.tau * uniform(f"tracking/{self.realisation}", count).reshape(len(self.axes), -1)

    def model(self) -> Model:
        """Return the plant ``task``, which computes the target and the error of each axis."""
        n, k = len(self.axes), len(self.multiples)
        arrays = {
            "frequencies": (self.frequencies(), "rad/s"),
            "amplitudes": (self.amplitudes(), self.unit),
            "phases": (self.phases(), "rad"),
        }
        return Model(
            name=self.kind,
            states=Signals(*(Signal(f"{a}_squared", f"{self.unit}^2 s") for a in self.axes)),
            inputs=Signals(*(Signal(a, self.unit) for a in self.axes)),
            outputs=Signals(
                *(
                    Signal(f"{a}_{what}", self.unit)
                    for what in ("target", "error", "centre")
                    for a in self.axes
                )
            ),
            parameters=Signals(
                Signal("begin", "s", initial=self.begin),
                Signal("fade", "s", initial=self.fade),
                Signal("measured", "s", initial=self.measured),
                Signal("compensatory", initial=float(self.display == COMPENSATORY)),
                Signal("axes", initial=float(n)),
                *(Signal(f"{a}_centre", self.unit) for a in self.axes),
                *(
                    Signal(name, unit, shape=(n * k,), initial=tuple(values.ravel().tolist()))
                    for name, (values, unit) in arrays.items()
                ),
            ),
            derivative=derivative,
            output=output,
            assumptions=("the target is a sum of sines, and no part of it is known to the pilot",),
        )

    @staticmethod
    def findings(recording: Recording, name: str) -> Findings:
        """Return the measures of the task in the plant ``name`` of ``recording``."""
        from rtsim.models.piloting.tracking_measures import tracked

        return tracked(recording, name)


def uniform(name: str, count: int) -> Vector:
    """Return ``count`` numbers in [0, 1) that depend only on ``name``."""
    words = (hashlib.sha256(f"{name}/{i}".encode()).digest()[:7] for i in range(count))
    return np.array([int.from_bytes(word, "little") / 2.0**56 for word in words])


@compiled
def target(t: float, axis: int, axes: int, p: Vector) -> float:
    """Return the target of an axis at ``t`` s; ``p`` contains the parameters of the model."""
    k = (p.size - _SHARES - axes) // (3 * axes)
    first = _SHARES + axes + axis * k
    total = 0.0
    for i in range(first, first + k):
        total += p[i + axes * k] * math.sin(p[i] * t + p[i + 2 * axes * k])
    fade = 1.0 if t >= p[1] else t / p[1]
    centre: float = p[_SHARES + axis]
    return centre + fade * total


def derivative(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    """Compute the squared tracking errors, which are 0 outside the measured interval."""
    on = p[0] <= t < p[0] + p[2]
    for i in range(u.size):
        error = target(t, i, u.size, p) - u[i]
        dx[i] = error * error if on else 0.0


def output(t: float, x: Vector, z: Vector, u: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    """Compute the targets, the errors and the centres of all axes."""
    for i in range(u.size):
        y[i] = target(t, i, u.size, p)
        y[u.size + i] = y[i] - u[i]
        y[2 * u.size + i] = p[_SHARES + i]


def stick_axes(axes: Sequence[str], stick: Sequence[str]) -> list[str]:
    """Return the stick signal for each axis, or an empty text."""
    return [a if a in stick else stick[0] if len(stick) == 1 else "" for a in axes]
