"""Stiff problems on which implicit solvers are compared, each with the size of its states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse
from scipy.integrate import solve_ivp

from rtsim.core.signals import Signal, Signals, Vector
from rtsim.equations.model import Model, bind

NONE = np.zeros(0)


def _van_der_pol(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = x[1]
    dx[1] = 1000.0 * (1.0 - x[0] * x[0]) * x[1] - x[0]


def _robertson(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    slow, fast, square = 0.04 * x[0], 1e4 * x[1] * x[2], 3e7 * x[1] * x[1]
    dx[0] = fast - slow
    dx[1] = slow - fast - square
    dx[2] = square


def _rod(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    n = x.size
    for i in range(n):
        left = x[i - 1] if i > 0 else 0.0
        right = x[i + 1] if i < n - 1 else 0.0
        dx[i] = (n + 1.0) ** 2 * (left - 2.0 * x[i] + right) - x[i] * x[i] * x[i]


def _rod_in_numpy(t: float, x: Vector, dx: Vector) -> None:  # noqa: ARG001
    wide = np.concatenate(([0.0], x, [0.0]))
    dx[:] = (x.size + 1.0) ** 2 * (wide[:-2] - 2.0 * x + wide[2:]) - x * x * x


def _plate(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    m = round(x.size**0.5)
    for i in range(m):
        for j in range(m):
            here = i * m + j
            around = -4.0 * x[here]
            if i > 0:
                around += x[here - m]
            if i < m - 1:
                around += x[here + m]
            if j > 0:
                around += x[here - 1]
            if j < m - 1:
                around += x[here + 1]
            dx[here] = (m + 1.0) ** 2 * around - x[here] * x[here] * x[here]


def _plate_in_numpy(t: float, x: Vector, dx: Vector) -> None:  # noqa: ARG001
    m = round(x.size**0.5)
    wide = np.pad(x.reshape(m, m), 1)
    around = wide[:-2, 1:-1] + wide[2:, 1:-1] + wide[1:-1, :-2] + wide[1:-1, 2:]
    dx[:] = (m + 1.0) ** 2 * (around.ravel() - 4.0 * x) - x * x * x


def _in_python(model: Callable[..., None]) -> Callable[[float, Vector, Vector], None]:
    return lambda t, x, dx: model(t, x.tolist(), NONE, NONE, NONE, dx)


@dataclass(frozen=True)
class Stiff:
    """A stiff model, its end time (s), and what users of other packages would write for it."""

    name: str
    model: Model
    end_s: float
    sizes: Vector
    """Size of each state, to which its error is compared."""
    written: Callable[[float, Vector, Vector], None]
    """The derivative in plain Python or NumPy, as a user of scikit-sundae writes it."""
    pattern: Any = None
    """The sparsity (n, n) for SciPy, as a user declares it."""
    linear: dict[str, Any] = field(default_factory=dict)
    """The linear solver for scikit-sundae, as a user chooses it."""

    def slope(self) -> Callable[[float, Vector], Vector]:
        """The compiled derivative as SciPy calls it."""
        n = self.model.states.size
        at, dx = np.zeros(n), np.zeros(n)
        call = bind(self.model).derivative.on(at, NONE, NONE, NONE, dx)

        def slope(t: float, x: Vector) -> Vector:
            at[:] = x
            call(float(t))
            return dx.copy()

        return slope

    def exact(self) -> Vector:
        """By Radau, tighter by two decades than the tightest that is compared."""
        done = solve_ivp(
            self.slope(), (0.0, self.end_s), self.model.states.initial(), method="Radau",
            jac_sparsity=self.pattern, rtol=1e-11, atol=1e-13 * self.sizes,
        )  # fmt: skip
        end: Vector = done.y[:, -1]
        return end


def problems(quick: bool) -> tuple[Stiff, ...]:
    """Van der Pol and Robertson, and diffusion with a reaction on a line and on a plane."""
    n, m = (100, 8) if quick else (1000, 24)
    at, across = np.arange(1, n + 1) / (n + 1), np.arange(1, m + 1) / (m + 1)
    rod = np.sin(np.pi * at) + at
    plate = np.add.outer(np.sin(np.pi * across), across).ravel()
    line = scipy.sparse.diags_array([1.0, 1.0, 1.0], offsets=[-1, 0, 1], shape=(n, n))
    chain = scipy.sparse.diags_array([1.0, 1.0, 1.0], offsets=[-1, 0, 1], shape=(m, m))
    one: Any = scipy.sparse.eye_array(m)
    plane = scipy.sparse.kron(chain, one) + scipy.sparse.kron(one, chain)
    oscillator = Signals(Signal("x", initial=2.0), "v")
    return (
        Stiff("van der Pol, mu = 1000", Model("van der Pol", oscillator, _van_der_pol), 2000.0,
              np.array([1.0, 1e-3]), _in_python(_van_der_pol)),
        Stiff("Robertson", Model("robertson", Signals("a = 1", "b", "c"), _robertson), 40.0,
              np.array([1.0, 1e-5, 1.0]), _in_python(_robertson)),
        Stiff(f"line of {n:,} states", _of("rod", rod, _rod, line), 0.1, np.ones(n), _rod_in_numpy,
              line, {"linsolver": "band", "lband": 1, "uband": 1}),
        Stiff(f"plane of {m * m:,} states", _of("plate", plate, _plate, plane), 0.1, np.ones(m * m),
              _plate_in_numpy, plane, {"linsolver": "band", "lband": m, "uband": m}),
    )  # fmt: skip


def _of(name: str, x: Vector, derivative: Any, sparsity: Any) -> Model:
    states = Signals(Signal("x", shape=x.shape, initial=tuple(x)))
    return Model(name, states, derivative, sparsity=sparsity)
