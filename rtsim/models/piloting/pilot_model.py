"""A scripted pilot, and a link that delays the stick signals.

The scripted pilot is McRuer's model of a human with a stick. For each axis the transfer function
from the error to the stick is

    Y_p(s) = gain * (lead s + 1) / (lag s + 1) * exp(-delay s) * w^2 / (s^2 + 2 z w s + w^2)

where (w, z) describe the neuromuscular system. A human adapts gain, lead and lag, so that the open
loop resembles ``w_c exp(-tau s) / s`` near its crossover. The pilot samples the error at fixed
ticks. Lead, lag and neuromuscular system are discretised by the bilinear transform. The pilot's
remnant is white noise, added to the error.

Sources: D. T. McRuer and H. R. Jex, "A Review of Quasi-Linear Pilot Models", IEEE Transactions on
Human Factors in Electronics, HFE-8 (1967); D. T. McRuer and E. S. Krendel, AGARDograph 188 (1974).

The link samples the stick at fixed ticks and stores the last samples. The link sends the stick
signals after a delay of ``latency`` s. Between two samples the link interpolates linearly. The
delay can be changed in flight with ``rtsim ctl set link.latency 0.2``.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rtsim.components.controller import PythonController
from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.equations.compiling import compiled

SAMPLES = 128
"""Number of samples that link and scripted pilot store for each signal."""


@compiled
def pushed(past: Vector, first: int, value: float) -> None:
    """Insert ``value`` before the stored samples of a signal, and drop the oldest sample.

    The samples are ``past[first:first + SAMPLES]``. Each sample moves to the next element. Samples
    move in memory, because a linear model would not contain a delay with a moving index.
    """
    for i in range(first + SAMPLES - 1, first, -1):
        past[i] = past[i - 1]
    past[first] = value


@compiled
def delayed(past: Vector, first: int, back: float) -> float:
    """Interpolate a signal at ``back`` samples before the newest sample."""
    back = max(0.0, min(back, SAMPLES - 2.0))
    whole = int(back)
    share = back - whole
    value: float = past[first + whole]
    if share > 0.0:
        value += share * (past[first + whole + 1] - value)
    return value


def carry(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    """Store the stick ``u`` (n,), and output the stick of ``p[1]`` s ago.

    ``p`` contains the period (s) and the latency (s). The function writes the delayed stick signals
    and the latency to ``y`` (n + 1,).
    """
    for i in range(u.size):
        pushed(s, i * SAMPLES, u[i])
        y[i] = delayed(s, i * SAMPLES, p[1] / p[0])
    y[u.size] = p[1]


def link(stick: Signals, period: float, latency: float = 0.0) -> PythonController:
    """Return a link for the signals ``stick`` that samples every ``period`` s.

    Raises ``ScenarioError`` for a latency that is negative or too long for the stored samples.
    """
    longest = (SAMPLES - 2) * period
    if not 0.0 <= latency <= longest:
        raise ScenarioError(
            f"latency = {latency:g} s; give seconds from 0 to {longest:g}, for example 0.1"
        )
    initial = stick.initial()
    past = [
        Signal(f"{s.name}_past", s.unit, shape=(SAMPLES,), initial=(float(v),) * SAMPLES)
        for s, v in zip(stick, initial, strict=True)
    ]
    outputs = (replace(s, initial=float(v)) for s, v in zip(stick, initial, strict=True))
    return PythonController(
        carry,
        stick,
        Signals(*outputs, Signal("used_latency", "s", initial=latency)),
        parameters=Signals(
            Signal("period", "s", initial=period, low=1e-6),
            Signal("latency", "s", initial=latency, low=0.0, high=longest),
        ),
        memory=Signals(*past),
        compile=True,
        name="link",
    )


_OF_AXIS = 9
"""Number of parameters of one axis.

The parameters are gain, lead, lag, delay, frequency, damping, rest, low and high.
"""
_STATES = 6
"""Number of filter states of one axis."""


@dataclass(frozen=True)
class PilotModel:
    """Parameters of a pilot for one axis.

    ``gain`` has the unit of the stick divided by the unit of the error. ``lead``, ``lag`` and
    ``delay`` are in s, ``neuromuscular`` is in rad/s, and ``damping`` is a ratio. The defaults of
    ``delay``, ``neuromuscular`` and ``damping`` are typical values from McRuer and Krendel.
    """

    gain: float
    lead: float = 0.0
    lag: float = 0.0
    delay: float = 0.15
    neuromuscular: float = 15.0
    damping: float = 0.7

    def __post_init__(self) -> None:
        if min(self.lead, self.lag, self.delay) < 0.0 or self.neuromuscular <= 0.0:
            raise ScenarioError(
                f"{self}: lead, lag and delay must be >= 0 s, and neuromuscular > 0 rad/s"
            )

    def response(self, frequencies: Vector) -> NDArray[np.complex128]:
        """Return the continuous pilot's frequency response (k,) at ``frequencies`` (rad/s)."""
        s = 1j * np.asarray(frequencies, float)
        w, z = self.neuromuscular, self.damping
        linear = self.gain * (self.lead * s + 1.0) / (self.lag * s + 1.0)
        muscles = w * w / (s * s + 2.0 * z * w * s + w * w)
        out: NDArray[np.complex128] = linear * muscles * np.exp(-self.delay * s)
        return out

    @property
    def effective_delay(self) -> float:
        """Sum of delay and neuromuscular lag (s), which is the delay of a crossover model."""
        return self.delay + 2.0 * self.damping / self.neuromuscular


def track(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    """Compute the stick signals ``y`` (n,) from targets, answers of the aircraft, and noise.

    ``u`` contains n targets, then n answers, then n values of the remnant. ``p`` contains the
    period (s) and nine parameters for each axis. ``s`` contains six filter states for each axis,
    then the last samples of each axis.
    """
    n = y.size
    for i in range(n):
        a = 1 + _OF_AXIS * i
        gain, lead, lag, delay, w, z = p[a], p[a + 1], p[a + 2], p[a + 3], p[a + 4], p[a + 5]
        f = _STATES * i
        past = _STATES * n + SAMPLES * i
        c = 2.0 / p[0]
        seen = u[i] - u[n + i] + u[2 * n + i]
        smooth = seen
        if lag > 0.0:  # 1 / (lag s + 1) with s = c (1 - 1/q) / (1 + 1/q)
            smooth = (seen + s[f] - (1.0 - lag * c) * s[f + 1]) / (lag * c + 1.0)
        s[f] = seen
        s[f + 1] = smooth
        pushed(s, past, gain * smooth)
        late = delayed(s, past, delay / p[0])
        # One section for w^2 (lead s + 1) / (s^2 + 2 z w s + w^2), because a lead alone is not
        # proper.
        w2 = w * w
        led = (lead * c + 1.0) * late + 2.0 * s[f + 2] + (1.0 - lead * c) * s[f + 3]
        back = (2.0 * w2 - 2.0 * c * c) * s[f + 4] + (c * c - 2.0 * z * w * c + w2) * s[f + 5]
        out = (w2 * led - back) / (c * c + 2.0 * z * w * c + w2)
        s[f + 3] = s[f + 2]
        s[f + 2] = late
        s[f + 5] = s[f + 4]
        s[f + 4] = out
        y[i] = max(p[a + 7], min(p[a + 8], p[a + 6] + out))


def pilot(stick: Signals, models: Mapping[str, PilotModel], period: float) -> PythonController:
    """Return a scripted pilot who moves the signals ``stick`` every ``period`` s.

    ``models`` contains the pilot's parameters, by name of the stick signal. Other signals stay at
    their initial values. For each signal, the pilot has the inputs ``NAME_target``, ``NAME_answer``
    and ``NAME_remnant``. The pilot reacts to the error (target minus answer) plus the remnant.
    Target and answer are separate inputs, so that the pilot samples both at the same time.
    """
    for name in models:
        if name not in stick:
            raise ScenarioError(
                f"the stick has no signal {name!r}, which the pilot moves; choose one of "
                f"{', '.join(stick.names)}"
            )
    parameters = [Signal("period", "s", initial=period)]
    states, samples = [], []
    rest = dict(zip(stick.names, map(float, stick.initial()), strict=True))
    for s in stick:
        m = models.get(s.name, PilotModel(0.0))
        values = {
            "gain": m.gain, "lead": m.lead, "lag": m.lag, "delay": m.delay,
            "neuromuscular": m.neuromuscular, "damping": m.damping, "rest": rest[s.name],
            "low": max(s.low, -1e9), "high": min(s.high, 1e9),
        }  # fmt: skip
        parameters += [Signal(f"{s.name}_{k}", initial=v) for k, v in values.items()]
        states += [Signal(f"{s.name}_filter", shape=(_STATES,), initial=(0.0,) * _STATES)]
        samples += [Signal(f"{s.name}_past", shape=(SAMPLES,), initial=(0.0,) * SAMPLES)]
    return PythonController(
        track,
        Signals(
            *(
                Signal(f"{name}_{what}", optional=True)
                for what in ("target", "answer", "remnant")
                for name in stick.names
            )
        ),
        stick,
        parameters=Signals(*parameters),
        memory=Signals(*states, *samples),
        compile=True,
        name="pilot",
    )


def crossover_gain(frequency: float, plant: complex, model: PilotModel) -> float:
    """Return the pilot's gain for a crossover at ``frequency`` (rad/s).

    ``plant`` is the frequency response of the vehicle at this frequency.
    """
    at = model.response(np.array([frequency]))[0] / model.gain
    return 1.0 / (abs(complex(at)) * abs(plant))


def phase_deg(value: complex) -> float:
    """Return the phase of ``value``, deg, from -180 to 180."""
    return math.degrees(cmath.phase(value))
