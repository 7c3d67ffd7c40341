"""The contract of a solver, and the tableaus of Runge-Kutta methods.

A solver advances a state from one tag to the next and ends exactly on it; the solver decides the
number of steps in between.  The result is provisional until the executive commits it.
:meth:`Stepper.accept` then makes the new solver memory valid.  Examples of solver memory are a
derivative that is used again, the history of a multistep method, and the length of the next step.
Without ``accept`` the new solver memory is discarded together with the provisional state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Vector
from rtsim.equations.model import BoundModel

GOOD = -1
"""Result of a successful step.

A result >= 0 is the index of the first element that is not finite.
"""
TOO_SMALL = -2
"""Result of a step if even the shortest step exceeded the tolerance."""
OUT_OF_BUDGET = -3
"""Result of a step if the budget of the frame is used up and the fallback is ``"stop"``."""
TOO_MANY = -4
"""Result of an advance that took more internal steps than the solver's ``most_steps``."""
PAUSED = -5
"""Result of a paused advance: the same call continues it (:mod:`rtsim.solve.internal_steps`).

``Stepper.advance`` never returns it."""
WRONG_JACOBIAN = -7
"""Result of a step if the derivative disagrees with the declared or probed Jacobian."""
NO_NUMBER = -8
"""Result of an advance in which a guard was not a number (NaN)."""
HISTORY_FULL = -6
"""Result of a step if the past of a model with delays has no room; the plant makes room."""


@dataclass(frozen=True)
class Stall:
    """The internal step that an adaptive solver could not take.

    It begins at ``t`` s in the state ``x`` (n,) and is ``length`` s long; the advance tried
    ``tried`` internal steps, the rejected ones included.
    """

    t: float
    length: float
    x: Vector
    tried: int


class Stepper(Protocol):
    """The protocol of a stepper, which is a solver at work on one model.

    A solver's ``stepper`` method makes it.
    """

    def advance(
        self, from_ns: int, to_ns: int, x: Vector, z: Vector, u: Vector, p: Vector, out: Vector
    ) -> int:
        """Advance the state ``x`` (n,) from ``from_ns`` to ``to_ns``, and write it to ``out`` (n,).

        ``z`` (d,), ``u`` (m,) and ``p`` (k,) are constant during the advance; ``x`` is not changed.
        Returns :data:`GOOD`, the index of the first element of ``out`` that is not finite,
        :data:`TOO_SMALL`, :data:`TOO_MANY` or :data:`OUT_OF_BUDGET`.
        """
        ...

    def accept(self) -> None:
        """Make the memory after the last ``advance`` valid, because its result was committed."""
        ...

    def forget(self) -> None:
        """Clear the memory of earlier steps, because x, z, u or p was changed from outside."""
        ...

    def save(self) -> dict[str, Any]:
        """Return the committed memory as plain data, for a checkpoint."""
        ...

    def restore(self, saved: dict[str, Any]) -> None:
        """Restore the memory that :meth:`save` returned."""
        ...


class Solver(Protocol):
    """The protocol of a numerical method.

    A solver may have an attribute ``plain_bits``: True if it gives equal bits as plain Python and
    as machine code, so that a run can begin with the one and continue with the other.
    """

    @property
    def name(self) -> str:
        """The name under which a scenario chooses the solver."""
        ...

    @property
    def order(self) -> int:
        """The order of convergence: the error of a run falls with this power of the step length."""
        ...

    def stepper(self, bound: BoundModel) -> Stepper:
        """Return a new stepper for ``bound``."""
        ...


@dataclass(frozen=True)
class Tableau:
    """An explicit Runge-Kutta method in Butcher's notation, with exact coefficients.

    ``a`` is the strictly lower triangle, so that row i has i entries.  ``b`` (s,) are the weights
    and ``c`` (s,) the nodes.  Raises :class:`ScenarioError` if a row of ``a`` does not sum to its
    node, or the weights do not sum to 1.
    """

    name: str
    order: int
    a: tuple[tuple[Fraction, ...], ...]
    b: tuple[Fraction, ...]
    c: tuple[Fraction, ...]
    source: str

    def __post_init__(self) -> None:
        if any(len(row) != i for i, row in enumerate(self.a)) or len(self.a) != len(self.b):
            raise ScenarioError(f"tableau {self.name}: row i of a must have i entries")
        if any(sum(row) != c for row, c in zip(self.a, self.c, strict=True)):
            raise ScenarioError(f"tableau {self.name}: a row of a does not sum to its node c")
        if sum(self.b) != 1:
            raise ScenarioError(f"tableau {self.name}: the weights b do not sum to 1")

    @property
    def first_same_as_last(self) -> bool:
        """Return whether the last stage of a step is also the first stage of the next step."""
        return self.a[-1] == self.b[:-1] and self.b[-1] == 0


@dataclass(frozen=True)
class EmbeddedTableau(Tableau):
    """A Runge-Kutta method with an embedded method that estimates the error, and dense output.

    ``hat`` (s,) are the weights of the embedded method, which has order ``lower``.  ``dense`` (s,
    d) gives the weights at the fraction theta (0 to 1) of a step: ``b_i(theta) = sum_j dense[i][j]
    theta^(j+1)``.  Raises :class:`ScenarioError` if the method is not first-same-as-last, or if
    ``hat`` or ``dense`` does not fit ``b``.
    """

    hat: tuple[Fraction, ...] = ()
    lower: int = 0
    dense: tuple[tuple[Fraction, ...], ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.first_same_as_last:
            raise ScenarioError(f"tableau {self.name}: the last row of a must equal b")
        if sum(self.hat) != 1 or len(self.hat) != len(self.b):
            raise ScenarioError(
                f"tableau {self.name}: hat must have one weight per stage, and the weights must "
                "sum to 1"
            )
        if tuple(sum(row) for row in self.dense) != self.b:
            raise ScenarioError(
                f"tableau {self.name}: each row of dense must sum to its weight in b"
            )

    @property
    def error_weights(self) -> Vector:
        """Return the weights (s,) of the stages in the error estimate."""
        return weights(tuple(b - hat for b, hat in zip(self.b, self.hat, strict=True)))

    @property
    def dense_weights(self) -> NDArray[np.float64]:
        """Return the weights (s, d) of the stages in the dense output."""
        return np.array([weights(row) for row in self.dense])


@dataclass(frozen=True)
class NystromTableau:
    """A Runge-Kutta-Nystrom method for q'' = f(t, q, q'), with exact coefficients.

    The position at stage i is ``q + c_i h v + h^2 sum_j abar_ij k_j``, and the velocity is
    ``v + h sum_j a_ij k_j``.  The formulas for the end of the step have ``bbar`` and ``b`` in place
    of ``abar`` and ``a``.  Raises :class:`ScenarioError` if the coefficients are not consistent.
    """

    name: str
    order: int
    abar: tuple[tuple[Fraction, ...], ...]
    a: tuple[tuple[Fraction, ...], ...]
    bbar: tuple[Fraction, ...]
    b: tuple[Fraction, ...]
    c: tuple[Fraction, ...]
    source: str

    def __post_init__(self) -> None:
        for row, bar, c in zip(self.a, self.abar, self.c, strict=True):
            if sum(row) != c or sum(bar) * 2 != c * c:
                raise ScenarioError(
                    f"tableau {self.name}: each row of a must sum to c, and of abar to c^2/2"
                )
        if sum(self.b) != 1 or sum(self.bbar) * 2 != 1:
            raise ScenarioError(f"tableau {self.name}: b must sum to 1, and bbar to 1/2")


def lower_triangle(rows: Sequence[Sequence[Fraction | float]]) -> NDArray[np.float64]:
    """Return the rows of a strictly lower triangle as a square float64 array (s, s)."""
    out = np.zeros((len(rows), len(rows)))
    for i, row in enumerate(rows):
        out[i, : len(row)] = [float(v) for v in row]
    return out


def weights(row: Sequence[Fraction | float]) -> Vector:
    """Return the coefficients as a float64 array (s,)."""
    return np.array([float(v) for v in row])
