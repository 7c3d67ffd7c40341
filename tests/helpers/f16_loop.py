"""What the loop of case 13.1 makes of errors of its commands: linear, about trim, sampled.

Each command c is off by e as the law is computed in float32: c_k = K x_k + e_k with |e_k| <= what
``f16_rounding`` derives for one step.  With the linear aircraft, held commands and the latency,
the two loops are apart by the convolution of e with the impulse response of the sensitivity S, so
by the sum over all steps of |S| times the bound of one step at most (the l1 norm).

Source: K. J. Astrom, B. Wittenmark, Computer-Controlled Systems (1997), sections 3.2 and 4.3; the
latency below one period is that of their section 2.3.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from f16_laws import control_law
from numpy.typing import NDArray
from scipy.linalg import expm

from rtsim.linear import StateSpace, linearise
from rtsim.models.f16.controller import LAW_INPUTS, LAW_OUTPUTS, LAW_PARAMETERS
from rtsim.models.f16.plant import F16
from rtsim.models.f16.scenario import case

Matrix = NDArray[np.float64]
COMMANDS = LAW_OUTPUTS.size


@cache
def aircraft() -> StateSpace:
    """About the trim at which the case begins."""
    return linearise(F16, at=case("13.1").trim.values)


@cache
def gain() -> Matrix:
    """(4, 13): commands by state, as the law has them where nothing is limited."""
    flown = case("13.1")
    sensed = dict(flown.trim.outputs)
    at = {**flown.law_inputs, "base_course": sensed["yaw_deg"]}
    at |= {name: sensed[name] for name in LAW_INPUTS.names if name in sensed}
    u = LAW_INPUTS.initial({name: at.get(name, 0.0) for name in LAW_INPUTS.names})
    p = LAW_PARAMETERS.initial(flown.law_parameters)
    gains = np.zeros((COMMANDS, F16.states.size))
    for name in set(LAW_INPUTS.names) & set(F16.outputs.names):
        high, low = np.zeros(COMMANDS), np.zeros(COMMANDS)
        moved = u.copy()
        column = LAW_INPUTS.slice(name).start
        for sign, out in ((1, high), (-1, low)):
            moved[column] = u[column] + sign * 1e-5
            control_law(moved, p, out)
        gains += np.outer((high - low) / 2e-5, aircraft().c[F16.outputs.slice(name).start])
    return gains


def closed_loop(period: float, latency: float) -> tuple[Matrix, Matrix]:
    """One period of (state, command before): what it makes of itself, and of e; s, s."""
    n = F16.states.size
    assert 0 <= latency <= period
    after, new = _held(period - latency)
    _, old = _held(latency)
    whole, _ = _held(period)
    loop = np.zeros((n + COMMANDS, n + COMMANDS))
    loop[:n, :n] = whole + new @ gain()
    loop[:n, n:] = after @ old
    loop[n:, :n] = gain()
    return loop, np.vstack((new, np.eye(COMMANDS)))


def _held(seconds: float) -> tuple[Matrix, Matrix]:
    """The aircraft's state after ``seconds`` with its controls held: by state, by controls."""
    model = aircraft()
    n, m = model.b.shape
    both = np.zeros((n + m, n + m))
    both[:n, :n], both[:n, n:] = model.a, model.b
    moved = expm(both * seconds)
    return moved[:n, :n], moved[:n, n:]


def growth(period: float, latency: float) -> float:
    """The largest eigenvalue of one period; 1 where only the position on the Earth drifts."""
    return float(np.abs(np.linalg.eigvals(closed_loop(period, latency)[0])).max())


def amplification(period: float, latency: float, seconds: float = 60.0) -> Matrix:
    """(4, 4): how many times the bound of one step (column) commands (rows) can be apart."""
    loop, entry = closed_loop(period, latency)
    apart = np.eye(COMMANDS)
    for _ in range(round(seconds / period)):
        apart += np.abs(gain() @ entry[: F16.states.size])
        entry = loop @ entry
    return apart
