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

SAMPLES = 128
"""Samples that link and scripted pilot keep of each signal."""


@compiled
def pushed(past: Vector, first: int, value: float) -> None:
    """Put ``value`` in front of the samples at ``past[first:first + SAMPLES]``; the last one goes.

    All samples move, instead of an index, so that a linear model sees the delay.
    """
    for i in range(first + SAMPLES - 1, first, -1):
        past[i] = past[i - 1]
    past[first] = value


@compiled
def delayed(past: Vector, first: int, back: float) -> float:
    """Return the value of ``back`` samples ago, from the samples that begin at ``first``."""
    back = max(0.0, min(back, SAMPLES - 2.0))
    whole = int(back)
    share = back - whole
    value: float = past[first + whole]
    if share > 0.0:
        value += share * (past[first + whole + 1] - value)
    return value


def carry(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    """Keep the stick ``u`` (n,) in the memory, and send it as it was ``p[1]`` s ago.

    ``p`` is the period and the latency, s.  ``y`` (n + 1,) is the delayed stick and the latency.
    """
    for i in range(u.size):
        pushed(s, i * SAMPLES, u[i])
        y[i] = delayed(s, i * SAMPLES, p[1] / p[0])
    y[u.size] = p[1]


def link(stick: Signals, period: float, latency: float = 0.0) -> PythonController:
    """Return the controller for the signals ``stick``, with ticks every ``period`` s.

    Raises :class:`ScenarioError` for a latency that is negative or longer than the kept samples.
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
