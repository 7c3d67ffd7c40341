"""The class StateSpace: a linear system as matrices with names and units.

Source of the discretisation: C. F. Van Loan, "Computing integrals involving the matrix
exponential", IEEE Transactions on Automatic Control 23 (1978).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.extras import extra, needs
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.core.tag import Duration, Period
from rtsim.record import markup

_LABEL = re.compile(r"(?P<name>.*?)(?: \[(?P<unit>[^\]]*)\])?\Z", re.S)


def is_foreign(system: object) -> bool:
    """Return whether ``system`` looks like a linear system of python-control or scipy.signal."""
    return (
        not isinstance(system, type)
        and hasattr(system, "dt")
        and (all(hasattr(system, name) for name in "ABCD") or is_fraction(system))
    )


def is_fraction(system: object) -> bool:
    return hasattr(system, "num") and hasattr(system, "den") and hasattr(system, "dt")


def labels_of(system: Any, kind: str, default: Signals) -> Signals:
    """Convert labels such as ``"name [unit]"`` to signals.

    ``kind`` is "state", "input" or "output". Without labels, the result is ``default``.
    """
    labels = getattr(system, f"{kind}_labels", None)
    if labels is None or len(labels) != default.size:
        return default
    signals = []
    for label in labels:
        match = _LABEL.match(str(label))
        assert match is not None
        name = re.sub(r"\W", "_", match["name"])
        name = name if name and not name[0].isdigit() else f"_{name}"
        signals.append(Signal(name, match["unit"] or "1"))
    return Signals(*signals)


def period_of(system: Any) -> Period | None:
    """Return the sample period of ``system``, or ``None`` for continuous time."""
    dt = system.dt
    if dt is None or (dt is not True and dt == 0):
        return None
    if dt is True:
        raise ScenarioError(
            "the system is sampled, but has no sample period (dt=True); give its dt in s"
        )
    return Period.of(float(dt))


def polynomials(system: Any) -> tuple[list[float], list[float]]:
    out: list[list[float]] = []
    for name in ("num", "den"):
        given = getattr(system, name)
        while isinstance(given, list) or (isinstance(given, np.ndarray) and given.ndim > 1):
            if len(given) != 1:
                if not isinstance(given[0], list | np.ndarray):
                    break
                raise ScenarioError(
                    "the transfer function has several inputs or outputs; convert it to a state "
                    "space first: control.ss(system)"
                )
            given = given[0]
        out.append([float(v) for v in np.atleast_1d(given)])
    return out[0], out[1]


_MOST_COLUMNS = 12


def shown_system(
    name: str,
    facts: Mapping[str, object],
    poles: Sequence[tuple[complex, float, float]],
    matrix: NDArray[np.float64],
    rows: Sequence[str],
    columns: Sequence[str],
) -> str:
    """Return a linear system as HTML.

    ``poles`` contains the value (rad/s), frequency (rad/s) and damping of each pole. ``matrix`` is
    [A B; C D].
    """
    seen = [[f"{value:.6g}", frequency, damping] for value, frequency, damping in poles]
    head = ("pole", "frequency [rad/s]", "damping")
    out = markup.shown(name, facts, head, seen)
    if len(columns) > _MOST_COLUMNS:
        return out
    return out + markup.shown("", {}, ["", *columns], _rows(matrix, rows))


def _rows(matrix: NDArray[np.float64], names: Sequence[str]) -> Iterator[list[object]]:
    for name, row in zip(names, matrix, strict=True):
        yield [name, *map(float, row)]


# Export to python-control (extra ``control``; docs/decisions/139). No other module imports it.


def to_control(
    matrices: Sequence[NDArray[np.float64]],
    signals: Sequence[Signals],
    period: Period | None,
    name: str,
) -> Any:
    control = extra("control", "control", "a system of python-control")
    dt = 0 if period is None else period.seconds
    states, inputs, outputs = map(_column_labels, signals)
    names = {"name": name.replace(".", "_")} if name else {}
    return control.StateSpace(
        *matrices, dt, states=states, inputs=inputs, outputs=outputs,
        remove_useless_states=False, **names,
    )  # fmt: skip


def _column_labels(signals: Signals) -> list[str]:
    return [
        column if signal.unit in ("", "1") else f"{column} [{signal.unit}]"
        for signal in signals
        for column in signal.columns
    ]


Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Pole:
    """A real pole, or a pair of conjugate poles.

    ``value`` is the pole in the s plane (1/s); for a sampled system, it is the pole in the z plane.
    ``rate`` is the pole in the s plane; for a sampled system, it is ``log(z) / period``.
    """

    value: complex
    rate: complex

    @property
    def frequency(self) -> float:
        """The natural frequency in rad/s."""
        return abs(self.rate)

    @property
    def damping(self) -> float:
        """The damping ratio; a real pole has 1 if it decays and -1 if it grows."""
        size = abs(self.rate)
        if math.isinf(self.rate.real):
            return 1.0
        return -self.rate.real / size if size else math.nan


@dataclass(frozen=True, eq=False, init=False)
class StateSpace:
    """Linear system with matrices A (n, n), B (n, m), C (r, n) and D (r, m).

    Without ``period``, the system is ``dx/dt = A x + B u``, ``y = C x + D u``. With a ``period`` in
    s, the system is ``x[k+1] = A x[k] + B u[k]``, ``y[k] = C x[k] + D u[k]``. ``states``,
    ``inputs`` and ``outputs`` contain names and units. The default names are ``x_0``, ``u_0``,
    ``y_0`` and so on. Raises :class:`ScenarioError` for matrices or names of inconsistent sizes.

    :func:`rtsim.linearise` sets further attributes. ``method`` describes how the derivatives were
    computed. ``errors`` (n + r, n + m) estimates the absolute error of each element of ``[A B; C
    D]``. ``notes`` lists effects that the linear model does not include.

    Example:
        StateSpace([[0, 1], [-4, -0.4]], [0, 1], [1, 0])
    """

    a: Matrix
    b: Matrix
    c: Matrix
    d: Matrix
    states: Signals
    inputs: Signals
    outputs: Signals
    period: Period | None
    name: str
    method: str
    errors: Matrix | None
    notes: tuple[str, ...]

    def __init__(
        self,
        a: ArrayLike,
        b: ArrayLike,
        c: ArrayLike,
        d: ArrayLike = 0.0,
        states: Signals | None = None,
        inputs: Signals | None = None,
        outputs: Signals | None = None,
        period: Duration | Period | None = None,
        name: str = "",
        method: str = "",
        errors: Matrix | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        matrices = _fitting(*(matrix_of(n, m) for n, m in zip("ABCD", (a, b, c, d), strict=True)))
        rows, columns = matrices[3].shape
        given: dict[str, object] = dict(zip("abcd", matrices, strict=True))
        for letter, kind, size, signals in (
            ("x", "states", len(matrices[0]), states),
            ("u", "inputs", columns, inputs),
            ("y", "outputs", rows, outputs),
        ):
            if signals is None:
                signals = Signals(*(f"{letter}_{i}" for i in range(size)))
            if signals.size != size:
                raise ScenarioError(
                    f"{name or 'StateSpace'} has {size} {kind}, but {signals.size} names: "
                    f"{', '.join(signals.columns)}"
                )
            given[kind] = signals
        given |= {"period": None if period is None else Period.of(period), "name": name}
        given |= {"method": method, "errors": errors, "notes": tuple(notes)}
        for key, value in given.items():
            object.__setattr__(self, key, value)

    # -- other forms ---------------------------------------------------------------------------

    @classmethod
    def of(cls, system: Any) -> StateSpace:
        """Convert a linear system of another package to a :class:`StateSpace`.

        ``system`` is a ``StateSpace`` or ``TransferFunction`` of python-control or scipy.signal.
        The names and the matrices of a state space are kept. A :class:`StateSpace` of rtsim is
        returned unchanged. Raises :class:`ScenarioError` for any other object.
        """
        if isinstance(system, StateSpace):
            return system
        if not is_foreign(system):
            raise ScenarioError(
                f"{type(system).__name__} is not a linear system; give a StateSpace, or a state "
                "space or transfer function of python-control or scipy.signal"
            )
        period = period_of(system)
        if is_fraction(system):
            made = cls.of_polynomials(*polynomials(system), period)
        else:
            a, b, c, d = (np.asarray(getattr(system, m), float) for m in "ABCD")
            made = cls(a, b, c, d, period=period)
        return replace(
            made,
            states=labels_of(system, "state", made.states),
            inputs=labels_of(system, "input", made.inputs),
            outputs=labels_of(system, "output", made.outputs),
            name=str(getattr(system, "name", "") or ""),
        )

    @classmethod
    def of_polynomials(
        cls, numerator: ArrayLike, denominator: ArrayLike, period: Period | None = None
    ) -> StateSpace:
        """Return ``numerator / denominator`` in the controllable canonical form.

        The coefficients begin with the highest power of s, or of z if ``period`` is given. The
        degree of the denominator must be at least 1 and at least the degree of the numerator.
        Otherwise, :class:`ScenarioError` is raised.
        """
        below = np.trim_zeros(np.atleast_1d(matrix_of("denominator", denominator)), "f")
        above = np.atleast_1d(matrix_of("numerator", numerator))
        n = len(below) - 1
        if n < 1 or len(np.trim_zeros(above, "f")) > n + 1:
            raise ScenarioError(
                "the degree of the denominator must be at least 1, and at least that of the "
                "numerator"
            )
        above = np.concatenate((np.zeros(max(0, n + 1 - len(above))), above))[-(n + 1) :] / below[0]
        below = below / below[0]
        a = np.eye(n, k=1)
        a[-1] = -below[:0:-1]
        b = np.zeros((n, 1))
        b[-1] = 1.0
        c = (above[1:] - above[0] * below[1:])[::-1]
        return cls(a, b, c.reshape(1, n), above[0], period=period)

    def to_control(self) -> Any:
        """Return the system as a ``StateSpace`` of python-control (extra ``control``).

        Labels have the form ``"name [unit]"``, or ``"name"`` without a unit. The method ``of``
        converts the result back without a difference.
        """
        matrices = (self.a, self.b, self.c, self.d)
        signals = (self.states, self.inputs, self.outputs)
        return to_control(matrices, signals, self.period, self.name)

    def part(
        self,
        *,
        states: Sequence[str] | None = None,
        inputs: Sequence[str] | None = None,
        outputs: Sequence[str] | None = None,
    ) -> StateSpace:
        """Return the system with selected states, inputs and outputs, in the given order.

        ``None`` selects all elements. States that are not selected count as constant.
        """
        x, u, y = (
            _chosen(kind, signals, names)
            for kind, signals, names in (
                ("state", self.states, states),
                ("input", self.inputs, inputs),
                ("output", self.outputs, outputs),
            )
        )
        errors = self.errors
        if errors is not None:
            n = len(self.a)
            errors = errors[np.ix_([*x, *(n + i for i in y)], [*x, *(n + i for i in u)])]
        return replace(
            self,
            a=self.a[np.ix_(x, x)], b=self.b[np.ix_(x, u)],
            c=self.c[np.ix_(y, x)], d=self.d[np.ix_(y, u)],
            states=_scalars(self.states, x), inputs=_scalars(self.inputs, u),
            outputs=_scalars(self.outputs, y), errors=errors,
        )  # fmt: skip

    def sampled(self, period: Duration | Period) -> StateSpace:
        """Discretise the system for inputs that are constant during each ``period`` (s).

        The method is zero-order hold. Raises :class:`ScenarioError` for a sampled system.
        """
        if self.period is not None:
            raise ScenarioError(f"{self.name or 'the system'} is sampled already ({self.period})")
        every = Period.of(period)
        phi, gamma = held(self.a, self.b, every.seconds)
        return replace(self, a=phi, b=gamma, period=every, errors=None)

    # -- properties ----------------------------------------------------------------------------

    @property
    def poles(self) -> list[Pole]:
        """The poles, sorted by frequency.

        A pair of conjugate poles is one entry, with a positive imaginary part.
        """
        values = np.linalg.eigvals(self.a) if len(self.a) else np.zeros(0)
        found = [Pole(complex(v), self._rate(complex(v))) for v in values if v.imag >= 0.0]
        return sorted(found, key=lambda p: (p.frequency, p.rate.real, p.rate.imag))

    def _rate(self, value: complex) -> complex:
        if self.period is None:
            return value
        if abs(value) < 1e-300:
            return complex(-math.inf, 0.0)
        return complex(np.log(value)) / self.period.seconds

    @property
    def stable(self) -> bool:
        """True if all poles are in the left half-plane or, if sampled, inside the unit circle."""
        values = np.linalg.eigvals(self.a) if len(self.a) else np.zeros(0)
        if self.period is None:
            return bool((values.real < 0.0).all())
        return bool((np.abs(values) < 1.0).all())

    def response(self, frequencies: ArrayLike) -> NDArray[np.complex128]:
        """Return the frequency response (k, r, m) at ``frequencies`` (k,) in rad/s."""
        omega = np.atleast_1d(np.asarray(frequencies, dtype=float))
        seconds = 1.0 if self.period is None else self.period.seconds
        points = 1j * omega * seconds
        if self.period is not None:
            points = np.exp(points)
        n = len(self.a)
        if not n:
            return np.broadcast_to(self.d, (omega.size, *self.d.shape)).astype(complex)
        shifted = points[:, None, None] * np.eye(n) - self.a
        solved = np.linalg.solve(shifted, np.broadcast_to(self.b, (omega.size, *self.b.shape)))
        return np.asarray(self.c @ solved + self.d, dtype=np.complex128)

    def _repr_html_(self) -> str:
        named = {kind: getattr(self, kind).columns for kind in ("states", "inputs", "outputs")}
        facts: dict[str, object] = {f"{len(n)} {kind}": ", ".join(n) for kind, n in named.items()}
        if self.period is not None:
            facts["period [s]"] = self.period.seconds
        facts |= {"stable": "yes" if self.stable else "no", "notes": " ".join(self.notes)}
        after = "d {}/dt" if self.period is None else "next {}"
        rows = [*map(after.format, named["states"]), *named["outputs"]]
        return shown_system(
            self.name or "StateSpace",
            facts,
            [(pole.value, pole.frequency, pole.damping) for pole in self.poles],
            np.block([[self.a, self.b], [self.c, self.d]]),
            rows,
            [*named["states"], *named["inputs"]],
        )

    def __eq__(self, other: object) -> bool:
        """Return whether matrices, names, units and period are exactly equal."""
        if not isinstance(other, StateSpace):
            return NotImplemented
        return (
            all(np.array_equal(getattr(self, m), getattr(other, m)) for m in "abcd")
            and all(
                _labels(getattr(self, kind)) == _labels(getattr(other, kind))
                for kind in ("states", "inputs", "outputs")
            )
            and _seconds(self.period) == _seconds(other.period)
        )

    __hash__ = None  # type: ignore[assignment]


def held(a: Matrix, b: Matrix, seconds: float) -> tuple[Matrix, Matrix]:
    """Discretise the system for inputs that are constant during ``seconds``.

    Returns the transition matrix (n, n) and the input matrix (n, m).
    """
    with needs("scipy", "a sampled linear model"):
        from scipy.linalg import expm  # Imported here because it is slow to load.

    n, m = b.shape
    both = np.zeros((n + m, n + m))
    both[:n, :n], both[:n, n:] = a, b
    moved = expm(both * seconds)
    return moved[:n, :n], moved[:n, n:]


def unit_of(signals: Signals, column: int) -> str:
    return [s.unit for s in signals for _ in s.columns][column]


def _labels(signals: Signals) -> list[tuple[str, str]]:
    return [(column, signal.unit) for signal in signals for column in signal.columns]


def _scalars(signals: Signals, chosen: Sequence[int]) -> Signals:
    labels = _labels(signals)
    return Signals(*(Signal(*labels[i]) for i in chosen))


def _chosen(kind: str, signals: Signals, names: Sequence[str] | None) -> list[int]:
    if names is None:
        return list(range(signals.size))
    out: list[int] = []
    for name in names:
        if name in signals:
            where = signals.slice(name)
            out += range(where.start, where.stop)
        elif name in signals.columns:
            out.append(signals.columns.index(name))
        else:
            raise UnknownName(kind, name, (*signals.names, *signals.columns))
    return out


def _seconds(period: Period | None) -> float | None:
    return None if period is None else period.seconds


def matrix_of(name: str, given: object) -> Vector:
    """Convert ``given`` to an array of finite numbers. ``name`` appears in error messages."""
    try:
        made = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ScenarioError(f"StateSpace: {name} is not a matrix of numbers ({error})") from error
    if not np.isfinite(made).all():
        raise ScenarioError(f"StateSpace: {name} has an element that is not finite")
    return made


def _fitting(a: Vector, b: Vector, c: Vector, d: Vector) -> tuple[Matrix, Matrix, Matrix, Matrix]:
    a = np.zeros((0, 0)) if a.size == 0 else np.atleast_2d(a)
    n = len(a)
    if a.shape != (n, n):
        raise ScenarioError(f"A has shape {a.shape}; it must be square")
    if n:
        b = _shaped("B", b, (n, -1), "a row for each state")
        c = _shaped("C", c, (-1, n), "a column for each state")
    else:
        rows, columns = np.atleast_2d(d).shape
        b, c = np.zeros((0, columns)), np.zeros((rows, 0))
    rows, columns = len(c), b.shape[1]
    if d.ndim == 0:
        d = np.full((rows, columns), d)
    else:
        what = f"{rows} x {columns}, outputs by inputs, or one number"
        d = _shaped("D", d, (rows, columns), what)
    found = tuple(np.array(matrix) for matrix in (a, b, c, d))
    for matrix in found:
        matrix.setflags(write=False)
    return found  # type: ignore[return-value]


def _shaped(name: str, given: Vector, wanted: tuple[int, ...], what: str) -> Matrix:
    n = max(wanted) if -1 in wanted else 0
    if (given.size == 0 and n) or (given.size % n if n else given.size != np.prod(wanted)):
        if not (given.ndim == 2 and 0 in given.shape and _fits(given.shape, wanted)):
            raise ScenarioError(f"StateSpace: {name} has shape {given.shape}; expected {what}")
        return given
    return given.reshape(wanted)


def _fits(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    return all(w in (-1, s) for s, w in zip(shape, wanted, strict=True))
