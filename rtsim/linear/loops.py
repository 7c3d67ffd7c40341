"""Open and closed loops of a scenario as sampled systems, and the delay margin of a loop."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import ModelError, ScenarioError, UnknownName
from rtsim.core.signals import Signal, Signals
from rtsim.core.tag import NS_PER_S, Duration, Period
from rtsim.engine.system import System
from rtsim.equations.compiling import Compilation
from rtsim.linear.assembling import Assembling
from rtsim.linear.crossings import delay_after
from rtsim.linear.network import Network, Sender, common_period
from rtsim.linear.period import PeriodMatrices, over_a_period
from rtsim.linear.points import system_at
from rtsim.linear.sampled_run import Cut
from rtsim.linear.state_space import StateSpace
from rtsim.scenario.scenario import Scenario

_NEUTRAL = 1e-7
"""A pole that is outside the unit circle by less counts as neutral: rounding moves it."""
_FINE, _FINE_PERIODS, _GROWTH = 8, 4, 1.1
"""The search for a delay margin takes 8 steps per period over 4 periods, then longer ones."""
_PERIODS = 60
"""Common periods up to which a delay margin is searched step by step by default."""
_MOST_PERIODS = 120
"""From this number of common periods on, the frequency response gives the delay margin: the closed
loop has a state for each message that is under way."""


class DelayMargin(NamedTuple):
    """The further delay (s) at which a loop becomes unstable, and the pole (1/s) that does."""

    seconds: float
    pole: complex

    @property
    def frequency(self) -> float:
        """Return the frequency of the oscillation, rad/s."""
        return abs(self.pole.imag)


@dataclass(frozen=True)
class Loop:
    """A loop of a scenario, cut at the signal ``start``.

    The signal keeps its sign: the loop is closed by ``input = output``, and the return ratio of
    textbooks, with negative feedback, is ``-system``.
    """

    network: Network
    start: str
    end: str
    period: Period
    """The common period of all tasks."""

    @cached_property
    def system(self) -> StateSpace:
        """The open loop from ``start`` to ``end``.

        The readers of ``start`` see the input instead of the signal.  If the signal is used several
        times in a common period, each use is an input and an output of its own.  An ``end`` other
        than ``start`` is sampled at the start of each period, before its instant.
        """
        port, rows = self._rows(self.start)
        found = over_a_period(self.network, self.period, Cut(port, rows, open=True), self._end())
        signals = self._labels(self.start)
        uses = found.inputs.shape[1] // max(1, len(rows))
        inputs = _repeated(signals, uses)
        outputs = inputs if self.end == self.start else _repeated(self._labels(self.end), 1)
        a, b, c, d, states = _pruned(found)
        return StateSpace(
            a, b, c, d, states, inputs, outputs, self.period,
            name=f"{self.start} to {self.end}", method="sampled over one common period",
            notes=self.network.notes,
        )  # fmt: skip

    @property
    def scalar(self) -> bool:
        """Return whether the open loop has one input and one output."""
        return self.system.d.shape == (1, 1)

    def closed_loop(self, delay: float = 0.0, gain: float = 1.0) -> StateSpace:
        """Return the closed loop over a common period, without inputs or outputs.

        ``delay`` (s) delays the signal further, and ``gain`` multiplies it.
        """
        found = self._closed(delay, gain)
        names = Signals(*(Signal(*label) for label in found.labels))
        n = len(found.state)
        return StateSpace(
            found.state, np.zeros((n, 0)), np.zeros((0, n)), np.zeros((0, 0)), names,
            period=self.period, name=f"closed loop of {self.start}",
        )  # fmt: skip

    def _closed(self, delay: float, gain: float) -> PeriodMatrices:
        port, rows = self._rows(self.start)
        if delay and not self.delayable:
            raise ScenarioError(
                f"{self.start} is not sent as a message, so it cannot be delayed; cut the loop at "
                f"an output of a controller or a sensor: {', '.join(self._senders)}"
            )
        extra = Fraction(round(delay * NS_PER_S * 1_000_000), 1_000_000)
        return over_a_period(self.network, self.period, Cut(port, rows, False, gain, extra))

    def poles(self, delay: float = 0.0, gain: float = 1.0) -> NDArray[np.complex128]:
        """Return the poles of the closed loop in the plane of z."""
        return np.linalg.eigvals(self._closed(delay, gain).state).astype(complex)

    def delay_margin(
        self, *, slow: float = 0.0, longest: float | None = None
    ) -> DelayMargin | None:
        """Return the further delay of the signal at which the closed loop becomes unstable.

        The delay adds to the latency of the message; at each delay the closed loop is formed anew
        and its eigenvalues are computed, so there is no approximation but that of the linear model.
        Beyond 120 common periods the delay comes from the frequency response, which treats the
        samples as a band-limited signal.  Poles with a frequency below ``slow`` (rad/s) are
        disregarded.  Returns ``None`` if the loop is stable up to ``longest`` (s).  Without
        ``longest``, ``None`` means that a loop with one signal is stable at each delay; loops with
        several signals are searched up to 60 common periods (:meth:`searched_delay_margin`).
        Raises :class:`ModelError` if the loop is unstable without further delay.
        """
        return self.searched_delay_margin(slow=slow, longest=longest)[0]

    def searched_delay_margin(
        self, *, slow: float = 0.0, longest: float | None = None
    ) -> tuple[DelayMargin | None, float]:
        """Return :meth:`delay_margin`, and the delay (s) up to which the search went.

        The second value is infinite if the loop is stable at each delay: its gain is 1 nowhere.
        It is finite if the gain may be 1 at a frequency too low for the search
        (:attr:`Margins.searched_above`).
        """
        step = self.period.seconds
        limit = _PERIODS * step if longest is None else longest

        first, pole = self._worst(0.0, slow)
        if first > _NEUTRAL / step:
            raise ModelError(
                f"the loop at {self.start} is unstable without further delay: a pole at "
                f"{pole.real:.4g} {pole.imag:+.4g}i 1/s; if this slow mode does not matter, give "
                f"slow= a frequency above {abs(pole):.3g} rad/s"
            )
        before, delay = 0.0, step / _FINE
        while delay <= limit:
            if self.growth(delay, slow) > _NEUTRAL / step:
                return self._between(before, delay, slow), delay
            before = delay
            delay = delay + step / _FINE if delay < _FINE_PERIODS * step else delay * _GROWTH
        if longest is not None or not self.scalar:
            return None, before
        return self._beyond(before, slow)

    def _beyond(self, stable: float, slow: float) -> tuple[DelayMargin | None, float]:
        """Return the delay margin beyond a delay (s) at which the loop is stable."""
        step, expected = self.period.seconds, stable
        while True:
            expected, frequency = delay_after(self.system, expected, feedback=1.0, slow=slow)
            if math.isinf(expected):
                return None, stable if frequency else math.inf
            if expected > _MOST_PERIODS * step:
                return DelayMargin(expected, 1j * frequency), expected
            before, expected = max(stable, expected - step), expected + step
            if self.growth(expected, slow) > _NEUTRAL / step:
                before = before if self.growth(before, slow) <= _NEUTRAL / step else stable
                return self._between(before, expected, slow), expected

    def _between(self, before: float, after: float, slow: float) -> DelayMargin:
        margin = self._crossing(before, after, slow)
        return DelayMargin(margin, self._worst(margin, slow)[1])

    def _crossing(self, before: float, after: float, slow: float) -> float:
        """Return the delay between two delays at which the growth rate becomes positive."""
        from scipy.optimize import brentq  # slow to load

        level = 0.0 if self.growth(before, slow) < 0.0 else _NEUTRAL / self.period.seconds

        def above(delay: float) -> float:
            return self.growth(delay, slow) - level

        return float(brentq(above, before, after, xtol=1e-12, rtol=1e-12))

    def growth(self, delay: float = 0.0, slow: float = 0.0) -> float:
        """Return the growth rate (1/s) of the closed loop's fastest growing pole.

        ``delay`` (s) delays the signal further; poles below ``slow`` (rad/s) are disregarded.
        """
        return self._worst(delay, slow)[0]

    def _worst(self, delay: float, slow: float) -> tuple[float, complex]:
        """Return the largest growth rate (1/s) of the poles above ``slow``, and its pole (1/s)."""
        values = self.poles(delay)
        rates = np.log(values[np.abs(values) > 1e-300]) / self.period.seconds
        rates = rates[np.abs(rates) >= slow]
        if not rates.size:
            return -math.inf, complex(-math.inf)
        worst = rates[int(np.argmax(rates.real))]
        return float(worst.real), complex(worst.real, abs(worst.imag))

    @property
    def delayable(self) -> bool:
        """Return whether the signal is sent as a message, so that it can be delayed further."""
        return self.start.partition(".")[0] in self._senders

    @property
    def _senders(self) -> list[str]:
        return [t.name for t in self.network.tasks if isinstance(t, Sender)]

    def _rows(self, name: str) -> tuple[str, tuple[int, ...]]:
        port, _, signal = name.partition(".")
        signals = self.network.ports[port]
        where = range(signals.size) if not signal else range(signals.size)[signals.slice(signal)]
        return port, tuple(where)

    def _end(self) -> tuple[str, tuple[int, ...]] | None:
        return None if self.end == self.start else self._rows(self.end)

    def _labels(self, name: str) -> list[Signal]:
        port, rows = self._rows(name)
        signals = self.network.ports[port]
        units = [s.unit for s in signals for _ in s.columns]
        return [Signal(f"{port}_{signals.columns[i]}", units[i]) for i in rows]


def open_loop(
    scenario: Scenario,
    start: str,
    end: str = "",
    *,
    time: Duration = 0,
    compile: Compilation = True,
) -> Loop:
    """Return the loop of ``scenario`` that passes through the signal ``start``.

    - ``start``: ``"component.signal"``, or ``"component"`` for all its signals.  Everything that
      reads it sees the input of the open loop instead.
    - ``end``: the signal that is the output of the open loop; default: ``start`` itself.
    - ``time``: the operating point is that of a run at this time, s.

    The result contains controllers with their sample periods and latencies, sensors, sampled
    blocks and updates of models.  Random values and external inputs are held constant; guards,
    declared changes and faults are left out.  Raises :class:`UnknownName` for unknown signals, and
    :class:`ModelError` for a random latency or a component without a linear model.

    Example:
        open_loop(scenario, "controller.force").delay_margin()
    """
    return loop_of(system_at(scenario, time, compile=compile), start, end)


def loop_of(system: System, start: str, end: str = "") -> Loop:
    """Return the loop of a system at its present time; see :func:`open_loop`."""
    network = Assembling(system).network()
    for name in (start, end or start):
        _check_signal(network, name)
    if not network.times:
        raise ScenarioError(
            "the scenario samples nothing, so it has no sampled loop; linearise its plant instead"
        )
    loop = Loop(network, start, end or start, common_period(network.times))
    if not end and not _is_computed(network, start):
        raise ScenarioError(
            f"{start} is a source, which no component computes; give end=, the output of the loop"
        )
    return loop


def _is_computed(network: Network, name: str) -> bool:
    port = name.partition(".")[0]
    return port in {p.name for p in network.plants} | {t.name for t in network.tasks}


def _check_signal(network: Network, name: str) -> None:
    port, dot, signal = name.partition(".")
    if port not in network.ports:
        raise UnknownName("component", port, network.ports, "the loop")
    if dot and signal not in network.ports[port]:
        raise UnknownName("signal", signal, network.ports[port].names, port)


def _repeated(signals: list[Signal], uses: int) -> Signals:
    if uses <= 1:
        return Signals(*signals)
    return Signals(*(Signal(f"{s.name}_{i}", s.unit) for i in range(uses) for s in signals))


def _pruned(
    found: PeriodMatrices,
) -> tuple[
    NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], Signals
]:
    """Return the matrices without the states that affect nothing."""
    kept = np.arange(len(found.state))
    while True:
        block = np.vstack((found.state[np.ix_(kept, kept)], found.output_state[:, kept]))
        used = np.abs(block).max(axis=0, initial=0.0) > 0.0
        if used.all():
            break
        kept = kept[used]
    labels = Signals(*(Signal(*found.labels[i]) for i in kept))
    return (
        found.state[np.ix_(kept, kept)], found.inputs[kept],
        found.output_state[:, kept], found.direct, labels,
    )  # fmt: skip
