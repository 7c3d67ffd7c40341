"""Gain, phase and delay margins of a loop, computed from its frequency response."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import ScenarioError
from rtsim.core.extras import needs
from rtsim.core.signals import Vector
from rtsim.linear.state_space import StateSpace
from rtsim.record import markup

_POINTS = 4000
_NEAR = np.array([0.9, 0.97, 0.99, 0.997, 1.0, 1.003, 1.01, 1.03, 1.1])
_WIDE = 1e4
_FURTHER = 500
_EXACT = 1e-13
"""If a loop has one pole at 0, rounding is negligible above this fraction of the frequency scale.
"""
_RISES = 1e-3
"""Change of log(gain) per decade below which the gain is treated as constant."""
_NEUTRAL = 1e-7
"""A pole that grows more slowly than this (1/s or per period) is treated as neutral, because
rounding can cause such growth.
"""


@dataclass(frozen=True)
class Margins:
    """Stability margins of a closed loop through one signal.

    - ``stable`` is True if no mode of the closed loop grows. All margins of an unstable loop are
      NaN.
    - ``gain_low`` and ``gain_high`` limit the gain factors for which the loop is stable. A missing
      limit is 0 or infinity.
    - ``phase`` is the smallest change of phase (rad, positive) that makes the loop unstable. The
      phase margin is infinite if the loop gain is never 1.
    - ``delay`` is the smallest additional delay (s) that makes the loop unstable. In a sampled
      loop, ``delay`` is an approximation for signals below half the sample rate.
      :meth:`Loop.delay_margin` instead delays the held signal.
    - ``crossover`` is the frequency (rad/s) of the oscillation at the delay margin. A continuous
      loop whose gain stays above 1 at high frequencies has ``delay`` 0 and infinite ``crossover``.
    - ``searched_above`` is the lowest frequency (rad/s) of an incomplete search for gain crossings.
      Below this frequency, the gain may still cross 1. After a complete search, ``searched_above``
      is 0.
    """

    stable: bool
    gain_low: float
    gain_high: float
    phase: float
    delay: float
    crossover: float
    searched_above: float = 0.0

    @property
    def phase_deg(self) -> float:
        """The phase margin in deg."""
        return math.degrees(self.phase)

    def _repr_html_(self) -> str:
        facts = {
            "stable": "yes" if self.stable else "no",
            "gain": f"{self.gain_low:.6g} to {self.gain_high:.6g}",
            "phase [deg]": self.phase_deg, "delay [s]": self.delay,
            "crossover [rad/s]": self.crossover,
        }  # fmt: skip
        if self.searched_above:
            facts["crossings searched above [rad/s]"] = self.searched_above
        return markup.shown("Margins", facts)


def margins(loop: StateSpace, *, feedback: float = -1.0, slow: float = 0.0) -> Margins:
    """Return the stability margins of a loop with one input and one output.

    The loop is closed by ``input = feedback * output``. With the default -1, ``loop`` is the loop
    transfer function L of textbooks. For the result of ``rtsim.linear.open_loop``, use
    ``feedback=1``, because that system includes the sign of the feedback.

    The search covers the frequencies from 1/10,000 of the lowest pole or zero to 10,000 times the
    highest. In a sampled loop, the search ends at half the sample rate. If the gain can cross 1
    beyond this range, the search continues up to the limit of rounding
    (``Margins.searched_above``). Poles and crossings below ``slow`` (rad/s) are ignored. Raises
    :class:`ScenarioError` for a loop with several inputs or outputs.
    """
    if loop.d.shape != (1, 1):
        raise ScenarioError(
            f"{loop.name or 'the loop'} has {loop.d.shape[1]} inputs and {loop.d.shape[0]} "
            "outputs; margins need one input and one output: choose them with part(inputs=, "
            "outputs=)"
        )
    if not _closed(loop, feedback, slow):
        return Margins(False, *(math.nan,) * 5)
    grid = frequencies(loop)
    grid = grid[grid >= slow]
    omega, above = _beyond(loop, grid, slow)
    values = return_ratio(loop, omega, feedback)
    near = np.isin(omega, grid)
    low, high = _nearest_gain_margins(loop, grid, values[near], feedback, slow)
    phase, delay, at = math.inf, math.inf, math.nan
    for crossing, angle in _phases(loop, omega, values, feedback):
        phase = min(phase, abs(angle))
        lag = (angle % (2.0 * math.pi)) / crossing
        if lag < delay:
            delay, at = lag, crossing
    if loop.period is None and abs(loop.d[0, 0] * feedback) >= 1.0:
        delay, at = 0.0, math.inf
    return Margins(True, low, high, phase, delay, at, above)


def delay_after(
    loop: StateSpace, after: float, *, feedback: float = -1.0, slow: float = 0.0
) -> tuple[float, float]:
    """Return the shortest delay (s) above ``after`` that puts a pole on the stability boundary.

    The second result is the frequency (rad/s) of this pole. The samples count as a signal below
    half the sample rate.

    If no gain crossing was found, the delay is infinite and the second value is
    :attr:`Margins.searched_above`. A second value of 0 then means that no delay makes a stable loop
    unstable.
    """
    omega = frequencies(loop)
    omega, above = _beyond(loop, omega[omega >= slow], slow)
    found = [(math.inf, above)]
    for crossing, angle in _phases(loop, omega, return_ratio(loop, omega, feedback), feedback):
        turns = math.ceil((after * crossing - angle % (2.0 * math.pi)) / (2.0 * math.pi))
        lag = (angle % (2.0 * math.pi) + 2.0 * math.pi * max(0, turns)) / crossing
        found.append((lag, crossing))
    return min(found)


def _phases(
    loop: StateSpace, omega: Vector, values: NDArray[np.complex128], feedback: float
) -> Iterator[tuple[float, float]]:
    for crossing in _crossings(loop, omega, np.log(np.abs(values) + 1e-300), feedback, _log_gain):
        yield crossing, float(np.angle(-return_ratio(loop, np.array([crossing]), feedback)[0]))


def _gains(loop: StateSpace, omega: Vector) -> Vector:
    gains: Vector = np.log(np.abs(loop.response(omega)[:, 0, 0]) + 1e-300)
    return gains


def _beyond(loop: StateSpace, omega: Vector, slow: float) -> tuple[Vector, float]:
    if not omega.size:
        return omega, 0.0
    least, direct = float(omega[0]), abs(float(loop.d[0, 0]))
    scale = omega[-1] if loop.period is not None else omega[-1] / _WIDE
    while loop.period is None and direct != 1.0 and omega[-1] < 1e100:
        if (_gains(loop, omega[-1:])[0] >= 0.0) == (direct > 1.0):
            break
        omega = np.append(omega, 10.0 * omega[-1])
    # Poles that cancel zeros leave a residue of rounding, which grows by w^-1 for each pole.
    poles = sum(1 + (p.value.imag != 0.0) for p in loop.poles if p.frequency < least)
    zeros = any(f < least for f in _zero_frequencies(loop))
    end = float(scale) * _EXACT ** (1.0 / max(1, poles))
    if slow:
        return omega, 0.0
    if end < least and (poles or zeros or _tends_to_one(loop, least)):
        omega = np.concatenate((np.geomspace(end, least, _FURTHER, endpoint=False), omega))
    return omega, float(omega[0]) if _tends_to_one(loop, omega[0]) else 0.0


def _tends_to_one(loop: StateSpace, omega: float) -> bool:
    here, above = _gains(loop, np.array([omega, 10.0 * omega]))
    return bool(here - above > _RISES if here < 0.0 else above - here > _RISES)


def return_ratio(loop: StateSpace, omega: Vector, feedback: float = -1.0) -> NDArray[np.complex128]:
    """Return the loop transfer function L (k,) at the frequencies ``omega`` (k,) in rad/s.

    The loop is closed by ``-L``.
    """
    out: NDArray[np.complex128] = -feedback * loop.response(omega)[:, 0, 0]
    return out


def frequencies(loop: StateSpace, points: int = _POINTS) -> Vector:
    """Return frequencies (k,) in rad/s for a plot, dense near poles and zeros."""
    corners = [p.frequency for p in loop.poles if 1e-9 < p.frequency < 1e12]
    corners += [f for f in _zero_frequencies(loop) if 1e-9 < f < 1e12]
    if not corners:
        corners = [1.0]
    low, high = min(corners) / _WIDE, max(corners) * _WIDE
    if loop.period is not None:
        high = math.pi / loop.period.seconds
        low = min(low, high * 1e-5)
    omega = np.geomspace(low, high, points)
    near = np.concatenate([c * _NEAR for c in corners])
    return np.unique(np.concatenate((omega, near[(near > low) & (near < high)])))


def _zero_frequencies(loop: StateSpace) -> list[float]:
    with needs("scipy", "the zeros of a loop"):
        from scipy.linalg import eigvals  # Imported here because it is slow to load.

    n = len(loop.a)
    if loop.d.shape != (1, 1) or not n:
        return []
    pencil = np.block([[loop.a, loop.b], [loop.c, loop.d]])
    unit = np.zeros_like(pencil)
    unit[:n, :n] = np.eye(n)
    found = eigvals(pencil, unit)
    zeros = found[np.isfinite(found) & (np.abs(found) > 1e-12)].astype(complex)
    rates = zeros if loop.period is None else np.log(zeros) / loop.period.seconds
    return [float(f) for f in np.abs(rates)]


def _closed(loop: StateSpace, feedback: float, slow: float) -> bool:
    gain = 1.0 - feedback * loop.d[0, 0]
    if gain == 0.0:
        return False
    a = loop.a + loop.b @ loop.c * (feedback / gain)
    closed = StateSpace(a, np.zeros((len(a), 1)), np.zeros((1, len(a))), period=loop.period)
    scale = 1.0 if loop.period is None else loop.period.seconds
    return all(p.rate.real * scale < _NEUTRAL for p in closed.poles if p.frequency >= slow)


def _nearest_gain_margins(
    loop: StateSpace,
    omega: Vector,
    values: NDArray[np.complex128],
    feedback: float,
    slow: float,
) -> tuple[float, float]:
    factors: list[float] = []
    for crossing in _crossings(loop, omega, values.imag, feedback, _imaginary):
        value = return_ratio(loop, np.array([crossing]), feedback)[0].real
        if value < 0.0:
            factors.append(float(-1.0 / value))
    ends = [] if slow else [0.0]
    ends += [] if loop.period is None else [math.pi / loop.period.seconds]
    for end in ends:  # The response is real at both ends.
        try:
            value = return_ratio(loop, np.array([end]), feedback)[0].real
        except np.linalg.LinAlgError:  # A pole lies exactly at the end.
            continue
        if np.isfinite(value) and value < -1e-12 and abs(value) < 1e12:
            factors.append(float(-1.0 / value))
    above = [f for f in factors if f > 1.0]
    below = [f for f in factors if f < 1.0]
    return max(below, default=0.0), min(above, default=math.inf)


def _log_gain(value: complex) -> float:
    return math.log(abs(value) + 1e-300)


def _imaginary(value: complex) -> float:
    return value.imag


def _crossings(
    loop: StateSpace, omega: Vector, values: Vector, feedback: float, measure: object
) -> list[float]:
    with needs("scipy", "a stability margin"):
        from scipy.optimize import brentq  # Imported here because it is slow to load.

    assert callable(measure)

    def at(frequency: float) -> float:
        return float(measure(return_ratio(loop, np.array([frequency]), feedback)[0]))

    changes = np.flatnonzero(np.signbit(values[1:]) != np.signbit(values[:-1]))
    found = []
    for i in changes:
        low, high = float(omega[i]), float(omega[i + 1])
        if at(low) * at(high) <= 0.0:  # The value may be exactly 0 at a frequency of the grid.
            found.append(float(brentq(at, low, high, xtol=1e-14 * high, rtol=1e-13)))
    return found
