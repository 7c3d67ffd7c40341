"""The link between stick and aircraft: it delays the stick by a latency that can be changed.

The link is a controller that samples the stick at fixed ticks, keeps the last samples, and sends
the stick as it was ``latency`` s ago.  Between two samples it interpolates linearly.  ``latency``
is a parameter, so ``rtsim ctl set link.latency 0.2`` changes it in flight.
"""

from __future__ import annotations

from dataclasses import replace

from rtsim.components.controller import PythonController
from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.equations.compiling import compiled

SAMPLES = 256
"""Samples of the stick that the link keeps."""
LONGEST_S = 2.0
"""The longest latency, s, if the samples last as long."""


@compiled
def delayed(past: Vector, first: int, newest: int, back: float) -> float:
    """Return the value of ``back`` samples ago, from a ring at ``past[first:first + SAMPLES]``."""
    whole = int(back)
    share = back - whole
    i = (newest - whole) % SAMPLES
    value: float = past[first + i]
    if share > 0.0:
        value += share * (past[first + (i - 1) % SAMPLES] - value)
    return value


def carry(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    """Keep the stick ``u`` (n,) in the memory, and send it as it was ``p[1]`` s ago.

    ``p`` is the period and the latency, s.  ``y`` (n + 1,) is the delayed stick and the latency.
    """
    at = int(s[0])
    back = max(0.0, min(p[1] / p[0], SAMPLES - 2.0))
    for i in range(u.size):
        s[1 + i * SAMPLES + at] = u[i]
        y[i] = delayed(s, 1 + i * SAMPLES, at, back)
    y[u.size] = back * p[0]
    s[0] = (at + 1) % SAMPLES


def link(stick: Signals, period: float, latency: float = 0.0) -> PythonController:
    """Return the controller for the signals ``stick``, with ticks every ``period`` s.

    Raises :class:`ScenarioError` for a latency that is negative or longer than the kept samples.
    """
    longest = min(LONGEST_S, (SAMPLES - 2) * period)
    if not 0.0 <= latency <= longest:
        raise ScenarioError(
            f"latency = {latency:g} s; give seconds from 0 to {longest:g}, for example 0.1"
        )
    initial = stick.initial()
    ring = [Signal("at")]
    ring += [
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
        memory=Signals(*ring),
        compile=True,
        name="link",
    )
