"""The stationary quadratic cost of a sampled loop with noise, and the jitter margin.

The loop is a jump linear system: each period has an independent latency, and a message of the
controller may be lost. The second moment P of its state at the samples obeys a linear equation,
P = E[G P G'] + R, where G is the transition of one period. The cost between the samples is
integrated exactly.

Sources: B. Lincoln, A. Cervin, "Jitterbug: a tool for analysis of real-time control performance",
CDC 2002. C. F. Van Loan, "Computing integrals involving the matrix exponential", IEEE Transactions
on Automatic Control 23 (1978). C.-Y. Kao, B. Lincoln, "Simple stability criteria for systems with
time-varying delays", Automatica 40 (2004). A. Cervin, B. Lincoln, J. Eker, K.-E. Årzén, G.
Buttazzo, "The jitter margin and its application in the design of real-time control systems", RTCSA
2004.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rtsim.core.errors import ModelError, ScenarioError, UnknownName
from rtsim.core.extras import needs
from rtsim.linear.distributions import Distribution, Latency, distribution
from rtsim.linear.state_space import Matrix, StateSpace
from rtsim.record import markup

_COUNTS = (8, 16, 32, 64, 128)
"""Numbers of quadrature nodes, which are tried in this order."""
_AGREE = 1e-10
"""The quadrature ends when the cost changes by less than this fraction."""
_STABLE = 1.0 - 1e-9
"""Above this growth of the second moments in a period, rounding could hide an unstable loop."""
_MOST = 80
"""Largest number of states at the samples. The computation grows with its fourth power."""


@dataclass(frozen=True)
class TimingCost:
    """The stationary cost of a loop: the expected time average of its weighted squares.

    - ``cost``: the sum of ``parts``. The cost is infinite if the loop is not mean-square stable.
    - ``parts``: the part of the cost for each term, by the name of the term.
    - ``from_disturbance``, ``from_measurement``: the parts of the cost that the noise of the plant
      and the noise of the measurements cause.
    - ``growth``: the factor by which second moments grow in a period: the spectral radius of the
      equation of the second moments. For a constant latency without losses, this is the square of
      the absolute value of the largest pole.
    - ``accuracy``: relative change of the cost when the number of quadrature nodes was doubled. The
      value is 0 for a discrete latency, and NaN for an unstable loop.
    - ``moments``: second moments at the samples, before the controller runs: the states of the
      plant, the states of the controller, and the held commands, the newest first.
    """

    cost: float
    parts: Mapping[str, float]
    from_disturbance: float
    from_measurement: float
    growth: float
    accuracy: float
    moments: Matrix = field(repr=False, compare=False)

    @property
    def stable(self) -> bool:
        """Whether the loop is mean-square stable: the second moments stay bounded."""
        return self.growth < _STABLE

    def _repr_html_(self) -> str:
        facts = {
            "cost": self.cost, **{f"of {name}": part for name, part in self.parts.items()},
            "from disturbance": self.from_disturbance,
            "from measurement noise": self.from_measurement,
            "mean-square stable": "yes" if self.stable else "no",
        }  # fmt: skip
        return markup.shown("TimingCost", facts)


class JitterMargin(NamedTuple):
    """Width (s) of a range of latencies in which the loop is stable, and the critical frequency.

    The loop is stable if each latency is between ``latency`` and ``latency + seconds``, however the
    latencies vary. ``frequency`` (rad/s) is the frequency at which the criterion is tightest.
    """

    seconds: float
    latency: float
    frequency: float


class _Integrals(NamedTuple):
    phi: Matrix
    single: Matrix
    double: Matrix


def integrals(a: Matrix, q: Matrix, seconds: float) -> _Integrals:
    """Integrate ``e^(A't) Q e^(At)`` over ``seconds``.

    Returns the matrix exponential, the integral, and the integral of the integral. The integrals
    are computed over a short time by Van Loan's method, and this time is doubled until it is
    ``seconds``. The result is therefore accurate for fast decaying modes too.
    """
    with needs("scipy", "the cost of timing"):
        from scipy.linalg import expm  # Imported here because it is slow to load.

    n = len(a)
    size = float(np.abs(a).sum(axis=0).max(initial=0.0)) * seconds
    doublings = max(0, math.ceil(math.log2(size / 0.5))) if size > 0.0 else 0
    t = seconds / 2**doublings
    block = np.zeros((3 * n, 3 * n))
    block[:n, :n] = block[n : 2 * n, n : 2 * n] = -a.T
    block[:n, n : 2 * n] = np.eye(n)
    block[n : 2 * n, 2 * n :], block[2 * n :, 2 * n :] = q, a
    moved = expm(block * t)
    phi = moved[2 * n :, 2 * n :]
    double, single = phi.T @ moved[:n, 2 * n :], phi.T @ moved[n : 2 * n, 2 * n :]
    for _ in range(doublings):
        double = double + t * single + phi.T @ double @ phi
        single = single + phi.T @ single @ phi
        phi, t = phi @ phi, 2.0 * t
    return _Integrals(phi, single, double)


class _Jump(NamedTuple):
    """What happens at a sample: its probability, and the matrices for the state and the noise."""

    probability: float
    state: Matrix
    noise: Matrix


class _Flow(NamedTuple):
    """The motion of one period with a given latency: transition, and a weight for each term."""

    probability: float
    state: Matrix
    weights: tuple[Matrix, ...]


@dataclass(frozen=True, eq=False)
class TimedLoop:
    """A plant with noise, a sampled controller, the timing of their loop, and a quadratic cost.

    Plant and controller may also be systems of python-control or scipy.signal.

    Args:
        plant: Continuous system with n states, m inputs and r outputs. Its inputs are the commands,
            its outputs the measurements.
        controller: Sampled system with r inputs and m outputs. The sign of the feedback is part of
            the controller: the command is the output of the controller. Its period is the period
            of the samples.
        cost: Terms of the cost by name. A number is the weight of the mean square of the state,
            input or output of this name. A matrix (n + m, n + m) weights the vector of all states
            and inputs.
        disturbance: Intensity (n, n) of the white noise on the derivatives of the states: the
            states' covariance grows by ``disturbance`` per s. If the noise w with intensity W acts
            by ``dx/dt = A x + B u + G w``, this is ``G W G'``.
        measurement: Covariance (r, r) of the noise of each sample. The default is no noise.
        latency: Time from the sample to the actuation: a number of seconds, a latency model with
            bounded values, or a mapping of latencies (s) to probabilities. Latencies of different
            periods are independent.
        loss: Probability that a command does not arrive, so that the plant keeps the last command.
        skipped: Probability that the controller does not run in a period. The states of the
            controller and the command keep their values then.
        notes: Effects that the analysis ignores.
        check: Function that is called with each cost of a stable loop, and may raise an error.

    All latencies must be between the same two multiples of the period, for example between 0 and
    one period. Raises :class:`ScenarioError` for arguments that do not fit together, and
    :class:`ModelError` for latencies that the analysis cannot represent.

    Example:
        TimedLoop(plant, controller, {"angle": 1.0}, plant.b @ plant.b.T, latency=0.002)
    """

    plant: StateSpace
    controller: StateSpace
    cost: Mapping[str, float | ArrayLike]
    disturbance: ArrayLike
    measurement: ArrayLike | None = None
    latency: Latency = 0.0
    loss: float = 0.0
    skipped: float = 0.0
    notes: tuple[str, ...] = ()
    check: Callable[[TimingCost], None] | None = None

    def __post_init__(self) -> None:
        for name in ("plant", "controller"):
            object.__setattr__(self, name, StateSpace.of(getattr(self, name)))
        plant, controller = self.plant, self.controller
        if plant.period is not None or controller.period is None:
            raise ScenarioError(
                "TimedLoop needs a plant without a period and a controller with a period"
            )
        for what, have, want in (
            ("inputs", controller.d.shape[1], plant.d.shape[0]),
            ("outputs", controller.d.shape[0], plant.d.shape[1]),
        ):
            if have != want:
                other = "outputs" if what == "inputs" else "inputs"
                raise ScenarioError(
                    f"the controller has {have} {what}, but the plant has {want} {other}; the "
                    "numbers must be equal"
                )
        for what, probability in (("loss", self.loss), ("skipped", self.skipped)):
            if not 0.0 <= probability <= 1.0:
                raise ScenarioError(f"{what} = {probability!r} is not a probability from 0 to 1")
        if self._size > _MOST:
            raise ModelError(
                f"the loop has {self._size} states at its samples, with the memory of the "
                f"controller and the held commands; the cost of timing needs {_MOST} or fewer: "
                "reduce the plant with StateSpace.part"
            )
        _ = self._intensity, self._noise, self._terms, self._spread, self._whole  # checks

    # -- sizes and arguments ---------------------------------------------------------------------

    @property
    def period(self) -> float:
        """The period of the samples, s."""
        assert self.controller.period is not None
        return self.controller.period.seconds

    @property
    def latency_text(self) -> str:
        """The latency and the probability of a lost command, as text."""
        low, high = 1e3 * self._spread.low, 1e3 * self._spread.high
        text = f"{low:g} ms" if low == high else f"{low:g} to {high:g} ms"
        return f"{text}, loss {100.0 * self._loss:g} %" if self._loss else text

    @cached_property
    def _loss(self) -> float:
        return 1.0 - (1.0 - self.loss) * (1.0 - self._spread.loss)

    @cached_property
    def _spread(self) -> Distribution:
        return distribution(self.latency)

    @cached_property
    def _whole(self) -> int:
        """Number of whole periods in every latency."""
        low, high, period = self._spread.low, self._spread.high, self.period
        whole = math.floor(low / period + 1e-9)
        if high > (whole + 1) * period * (1.0 + 1e-9):
            raise ModelError(
                f"the latency is between {low:g} and {high:g} s, but the period is {period:g} s; "
                f"all latencies must be between the same multiples of the period, here between "
                f"{whole * period:g} and {(whole + 1) * period:g} s: give a longer period, or "
                "count the latencies above this limit as lost (loss= or skipped=)"
            )
        return whole

    @property
    def _size(self) -> int:
        return len(self.plant.a) + len(self.controller.a) + self._inputs * (self._whole + 1)

    @property
    def _inputs(self) -> int:
        return int(self.plant.b.shape[1])

    @cached_property
    def _intensity(self) -> Matrix:
        return _covariance("disturbance", self.disturbance, len(self.plant.a), "state")

    @cached_property
    def _noise(self) -> Matrix:
        given = np.zeros((len(self.plant.c),) * 2) if self.measurement is None else self.measurement
        return _covariance("measurement", given, len(self.plant.c), "output")

    @cached_property
    def _terms(self) -> dict[str, Matrix]:
        return {name: self._term(name, given) for name, given in self.cost.items()}

    def _term(self, name: str, given: float | ArrayLike) -> Matrix:
        plant, n, m = self.plant, len(self.plant.a), self._inputs
        weight = np.asarray(given, dtype=float)
        if not np.isfinite(weight).all():
            raise ScenarioError(f"the weight of {name!r} is {given!r}; give finite numbers")
        if weight.ndim:
            if weight.shape != (n + m, n + m):
                raise ScenarioError(
                    f"the weight {name!r} has shape {weight.shape}; expected {(n + m, n + m)}, the "
                    "states and inputs of the plant"
                )
            symmetric: Matrix = (weight + weight.T) / 2.0
            return symmetric
        rows = {
            **dict(zip(plant.outputs.columns, np.hstack((plant.c, plant.d)), strict=True)),
            **dict(zip((*plant.states.columns, *plant.inputs.columns), np.eye(n + m), strict=True)),
        }
        if name not in rows:
            raise UnknownName("signal", name, rows, "the plant")
        square: Matrix = float(weight) * np.outer(rows[name], rows[name])
        return square

    # -- one period ------------------------------------------------------------------------------

    @cached_property
    def _jumps(self) -> list[_Jump]:
        """Return the possible changes at a sample.

        The state before is (states of the plant, states of the controller, commands of the periods
        before, the newest first). The last command acts. The state after has one command more.
        """
        plant, law, m, r = self.plant, self.controller, self._inputs, len(self.plant.c)
        n, k, size = len(plant.a), len(law.a), self._size
        measured = np.zeros((r, size))
        measured[:, :n], measured[:, size - m :] = plant.c, plant.d
        command, after = law.d @ measured, law.b @ measured
        command[:, n : n + k] += law.c
        after[:, n : n + k] += law.a
        kept = np.zeros((size + m, size))
        kept[: n + k, : n + k] = np.eye(n + k)
        kept[n + k : n + k + m, n + k : n + k + m] = np.eye(m)
        kept[n + k + m :, n + k :] = np.eye(size - n - k)
        silent = np.zeros((size + m, r))
        lost, noise_lost = kept.copy(), silent.copy()
        lost[n : n + k], noise_lost[n : n + k] = after, law.b
        sent, noise = lost.copy(), noise_lost.copy()
        sent[n + k : n + k + m], noise[n + k : n + k + m] = command, law.d
        loss = self._loss
        runs = 1.0 - self.skipped
        jumps = [
            _Jump(runs * (1.0 - loss), sent, noise),
            _Jump(runs * loss, lost, noise_lost),
            _Jump(self.skipped, kept, silent),
        ]
        return [jump for jump in jumps if jump.probability > 0.0]

    def _flow(self, probability: float, latency: float) -> _Flow:
        n, m, size = len(self.plant.a), self._inputs, self._size
        tau = min(max(latency - self._whole * self.period, 0.0), self.period)
        system = np.zeros((n + m, n + m))
        system[:n] = np.hstack((self.plant.a, self.plant.b))
        first = np.zeros((n + m, size + m))
        first[:n, :n], first[n:, size:] = np.eye(n), np.eye(m)
        second = np.zeros_like(first)
        second[n:, size - m : size] = np.eye(m)
        weights = []
        end = second
        for term in self._terms.values() or [np.zeros_like(system)]:
            before = integrals(system, term, tau)
            second[:n] = (before.phi @ first)[:n]
            later = integrals(system, term, self.period - tau)
            end = later.phi @ second
            weights.append(first.T @ before.single @ first + second.T @ later.single @ second)
        state = np.eye(size, size + m)
        state[:n] = end[:n]
        return _Flow(probability, state, tuple(weights))

    # -- the cost --------------------------------------------------------------------------------

    def timing_cost(
        self,
        *,
        latency: Latency | None = None,
        loss: float | None = None,
        skipped: float | None = None,
    ) -> TimingCost:
        """Return the stationary cost of the loop. Arguments replace those of the loop.

        The equation of the second moments is solved directly. The expected value over a continuous
        latency is computed by Gauss-Legendre quadrature. The number of nodes is doubled until the
        cost changes by less than 1e-10 of its value; ``accuracy`` is the last change.
        """
        given = {"latency": latency, "loss": loss, "skipped": skipped}
        changes = {name: value for name, value in given.items() if value is not None}
        if changes:
            return replace(self, **changes).timing_cost()  # type: ignore[arg-type]
        found = self._converged()
        if self.check is not None and found.stable:
            self.check(found)
        return found

    def _converged(self) -> TimingCost:
        if self._spread.discrete:
            return self._evaluated(1)
        found = self._evaluated(_COUNTS[0])
        for count in _COUNTS[1:]:
            again = self._evaluated(count)
            if found.stable and again.stable:
                change = abs(again.cost - found.cost)
                found = replace(again, accuracy=change / max(abs(again.cost), 1e-300))
                if found.accuracy < _AGREE or again.cost == 0.0:
                    break
            else:
                settled = abs(again.growth - found.growth) < _AGREE * again.growth
                found = again
                if settled:
                    break
        return found

    def _evaluated(self, count: int) -> TimingCost:
        points = self._spread.points(count)
        flows = [self._flow(p, s) for s, p in zip(*points, strict=True)]
        n, size = len(self.plant.a), self._size
        rows, columns = np.tril_indices(size)
        twice = (rows != columns).astype(float)
        operator = np.zeros((len(rows), len(rows)))
        sources = np.zeros((2, size, size))
        sources[0, :n, :n] = integrals(self.plant.a.T, self._intensity, self.period).single
        for flow in flows:
            for jump in self._jumps:
                share, g, v = (
                    flow.probability * jump.probability,
                    flow.state @ jump.state, flow.state @ jump.noise,
                )  # fmt: skip
                a, b = g[rows], g[columns]
                operator += share * (
                    a[:, rows] * b[:, columns] + twice * a[:, columns] * b[:, rows]
                )
                sources[1] += share * (v @ self._noise @ v.T)
        growth = float(np.abs(np.linalg.eigvals(operator)).max(initial=0.0))
        names = list(self._terms)
        if growth >= _STABLE:
            infinite = dict.fromkeys(names, math.inf)
            nowhere = np.full((size, size), math.inf)
            return TimingCost(math.inf, infinite, math.inf, math.inf, growth, math.nan, nowhere)
        solved = np.linalg.solve(
            np.eye(len(rows)) - operator, sources[:, rows, columns].T
        ).T  # (2, moments)
        moments = np.zeros_like(sources)
        moments[:, rows, columns] = moments[:, columns, rows] = solved
        parts = np.zeros((2, len(names)))
        for i, term in enumerate(self._terms.values()):
            double = integrals(self.plant.a, term[:n, :n], self.period).double
            parts[0, i] = np.sum(self._intensity * double)
            for flow in flows:
                for jump in self._jumps:
                    share = flow.probability * jump.probability
                    weight = jump.state.T @ flow.weights[i] @ jump.state
                    parts[:, i] += share * np.einsum("ij,kij->k", weight, moments)
                    seen = jump.noise.T @ flow.weights[i] @ jump.noise
                    parts[1, i] += share * np.sum(seen * self._noise)
        parts /= self.period
        return TimingCost(
            float(parts.sum()), dict(zip(names, map(float, parts.sum(axis=0)), strict=True)),
            float(parts[0].sum()), float(parts[1].sum()), growth, 0.0, moments.sum(axis=0),
        )  # fmt: skip

    # -- the jitter margin -----------------------------------------------------------------------

    def jitter_margin(self, latency: float | None = None) -> JitterMargin:
        """Return the jitter for which the loop is guaranteed to be stable.

        ``latency`` is the least latency (s), by default the least latency of the loop. The
        criterion of Kao and Lincoln is sufficient: with more jitter, the loop may be stable or
        unstable. For a loop with one command, the criterion is |P C / (1 + P C)| < 1 / (N |z - 1|)
        at each frequency, where P in the numerator is the aliased plant and N = sqrt(jitter /
        period) for a jitter below one period. Losses are not part of the criterion. Raises
        :class:`ModelError` if the loop is unstable at the constant latency.
        """
        least = self._spread.low if latency is None else latency
        if self.plant.d.any():
            raise ModelError(
                "a measurement of the plant contains the command directly, and the jitter margin "
                "needs a plant without this feedthrough (D = 0)"
            )
        loop = replace(self, latency=least, loss=0.0, skipped=0.0)
        poles = np.linalg.eigvals(loop._transition).astype(complex)
        if np.abs(poles).max(initial=0.0) >= 1.0 - 1e-9:
            raise ModelError(
                f"the loop is unstable with a constant latency of {least:g} s, so it has no jitter "
                "margin"
            )
        gain, angle = loop._largest_gain(poles)
        if gain == 0.0:
            return JitterMargin(math.inf, least, 0.0)
        square = 1.0 / (gain * gain * self.period)
        whole = math.floor(math.sqrt(square))
        part = (square - whole * whole) / (2.0 * whole + 1.0)
        return JitterMargin((whole + part) * self.period, least, angle / self.period)

    @cached_property
    def _transition(self) -> Matrix:
        jump = self._jumps[0]
        return self._flow(1.0, self._spread.low).state @ jump.state

    def _largest_gain(self, poles: NDArray[np.complex128]) -> tuple[float, float]:
        """Return the largest gain from a held error to the change of the command, and its angle.

        The error is a signal in continuous time, of which the integral of the square is bounded.
        """
        with needs("scipy", "a jitter margin"):
            from scipy.optimize import minimize_scalar  # Imported here because it is slow to load.

        n, m, size = len(self.plant.a), self._inputs, self._size
        k = len(self.controller.a)
        change = self._jumps[0].state[n + k : n + k + m].copy()
        change[:, n + k : n + k + m] -= np.eye(m)
        reach = integrals(self.plant.a.T, self.plant.b @ self.plant.b.T, self.period).single
        values, vectors = np.linalg.eigh(reach)
        root = np.zeros((size, n))
        root[:n] = vectors * np.sqrt(np.maximum(values, 0.0))
        # The error enters between two samples, so the command does not read the error directly.
        unit = np.eye(size)

        def gain(angle: float) -> float:
            z = np.exp(1j * angle)
            response = change @ np.linalg.solve(z * unit - self._transition, root)
            return float(np.linalg.svd(response, compute_uv=False)[0])

        near = np.abs(np.angle(poles))[:, None] * np.linspace(0.8, 1.2, 41)
        grid = np.unique(np.clip(np.concatenate((
            np.linspace(0.0, math.pi, 400), np.geomspace(1e-6, math.pi, 400), near.ravel()
        )), 0.0, math.pi))  # fmt: skip
        gains = np.array([gain(float(angle)) for angle in grid])
        best = int(np.argmax(gains))
        low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
        found = minimize_scalar(
            lambda angle: -gain(float(angle)), bounds=(low, high), method="bounded",
            options={"xatol": 1e-12},
        )  # fmt: skip
        if -found.fun > gains[best]:
            return float(-found.fun), float(found.x)
        return float(gains[best]), float(grid[best])


def _covariance(name: str, given: ArrayLike, size: int, what: str) -> Matrix:
    made = np.atleast_2d(np.asarray(given, dtype=float))
    if made.shape != (size, size):
        raise ScenarioError(
            f"{name} has shape {made.shape}; expected {(size, size)}, one row and column for each "
            f"{what} of the plant"
        )
    least = float(np.linalg.eigvalsh((made + made.T) / 2.0).min(initial=0.0))
    if not np.allclose(made, made.T) or least < -1e-9 * max(1.0, float(np.abs(made).max())):
        raise ScenarioError(
            f"{name} is not a covariance; give a symmetric matrix without negative eigenvalues"
        )
    return made
