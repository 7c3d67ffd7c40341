"""The protocol of solvers, and the coefficients (tableaus) of Runge-Kutta methods.

A solver integrates a plant from one tag to the next and ends exactly there.  The solver chooses the
number of internal steps. The new state is provisional until the run commits the tag.

Some solvers have a memory, for example of the next step length or of past derivatives.
``Stepper.accept`` commits the new memory. If a step is discarded, the old memory stays valid.
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
"""The result of a successful step.

A result >= 0 is the index of the first state that is not finite.
"""
TOO_SMALL = -2
"""The result if even the shortest step has an error above the tolerance."""
OUT_OF_BUDGET = -3
"""The result if the budget of the solver frame is used up and the fallback is ``"stop"``."""
TOO_MANY = -4
"""The result if an advance took more internal steps than the solver's ``most_steps``."""
PAUSED = -5
"""The result of a paused advance, which continues when the same call is repeated.

Only functions for internal steps return this value (:mod:`rtsim.solve.internal_steps`);
``Stepper.advance`` never does.
"""
WRONG_JACOBIAN = -7
"""The result if the declared or probed Jacobian disagrees with the derivative."""
NO_NUMBER = -8
"""The result of an advance in which a guard was not a number (NaN)."""
HISTORY_FULL = -6
"""The result if the history of delayed signals is full.

The plant then enlarges the history and repeats the advance.
"""


@dataclass(frozen=True)
class Stall:
    """An internal step that an adaptive solver could not complete.

    The step begins at ``t`` s in the state ``x``, shape (n,), and is ``length`` s long. ``tried``
    is the number of internal steps since the last tag.
    """

    t: float
    length: float
    x: Vector
    tried: int


class Stepper(Protocol):
    """Protocol of a stepper, which integrates one model and has a memory.

    ``Solver.stepper`` creates a stepper.
    """

    def advance(
        self, from_ns: int, to_ns: int, x: Vector, z: Vector, u: Vector, p: Vector, out: Vector
    ) -> int:
        """Integrate the state ``x`` from ``from_ns`` to ``to_ns`` and store the result in ``out``.

        ``x`` and ``out`` have shape (n,). The discrete values ``z``, inputs ``u`` and parameters
        ``p`` are constant in this time.

        Returns ``GOOD``, the index of the first element of ``out`` that is not finite, or an error
        code such as ``TOO_SMALL``.
        """
        ...

    def accept(self) -> None:
        """Commit the memory after the last ``advance``."""
        ...

    def forget(self) -> None:
        """Clear the memory after a change of x, z, u or p between steps."""
        ...

    def save(self) -> dict[str, Any]:
        """Return the committed memory as plain data, for a checkpoint."""
        ...

    def restore(self, saved: dict[str, Any]) -> None:
        """Restore a memory that ``save`` returned."""
        ...


class Solver(Protocol):
    """Protocol of solvers; a solver is a numerical method with its settings.

    The optional attribute ``plain_bits`` is True if plain Python and machine code give exactly
    equal results. A run with such a solver can begin in plain Python and continue in machine code.
    """

    @property
    def name(self) -> str: ...

    @property
    def order(self) -> int:
        """Order of convergence: the power of the step length to which errors are proportional."""
        ...

    def stepper(self, bound: BoundModel) -> Stepper:
        """Return a new stepper for the model ``bound``."""
        ...


@dataclass(frozen=True)
class Tableau:
    """The coefficients of an explicit Runge-Kutta method (Butcher tableau), as exact fractions.

    ``a`` is a strictly lower triangle, whose row i has i entries. ``b`` contains the weights and
    ``c`` the nodes of the s stages. Raises ``ScenarioError`` if a row of ``a`` does not sum to its
    node, or if the weights do not sum to 1.
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
        """Return whether the last stage of a step is the first stage of the next step."""
        return self.a[-1] == self.b[:-1] and self.b[-1] == 0


@dataclass(frozen=True)
class EmbeddedTableau(Tableau):
    """The coefficients of an embedded Runge-Kutta pair with dense output.

    ``lower`` is the order and ``hat`` (s,) contains the weights of the embedded method. The field
    ``dense``, shape (s, d), gives the weights at the fraction theta (0 to 1) of a step:
    ``b_i(theta) = sum_j dense[i][j] theta^(j+1)``.

    The last stage of a step must be the first stage of the next step. The weights ``hat`` must sum
    to 1. Row i of ``dense`` must sum to the weight ``b[i]``. Raises :class:`ScenarioError` for
    other coefficients.
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
        return weights(tuple(b - hat for b, hat in zip(self.b, self.hat, strict=True)))

    @property
    def dense_weights(self) -> NDArray[np.float64]:
        """Return the weights of the stages in the dense output, shape (s, d)."""
        return np.array([weights(row) for row in self.dense])


@dataclass(frozen=True)
class NystromTableau:
    """The coefficients of a Runge-Kutta-Nystrom method for q'' = f(t, q, q'), as exact fractions.

    At stage i, the position is ``q + c_i h v + h^2 sum_j abar_ij k_j`` and the velocity is ``v + h
    sum_j a_ij k_j``.  At the end of the step, ``bbar`` and ``b`` replace ``abar`` and ``a``. Raises
    :class:`ScenarioError` if the coefficients are not consistent.
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
                    f"tableau {self.name}: each row of a must sum to c, and each row of abar must "
                    "sum to c^2/2"
                )
        if sum(self.b) != 1 or sum(self.bbar) * 2 != 1:
            raise ScenarioError(f"tableau {self.name}: b must sum to 1, and bbar must sum to 1/2")


def lower_triangle(rows: Sequence[Sequence[Fraction | float]]) -> NDArray[np.float64]:
    """Return an array (s, s) with the rows of a strictly lower triangle."""
    out = np.zeros((len(rows), len(rows)))
    for i, row in enumerate(rows):
        out[i, : len(row)] = [float(v) for v in row]
    return out


def weights(row: Sequence[Fraction | float]) -> Vector:
    """Return coefficients as a float64 array, shape (s,)."""
    return np.array([float(v) for v in row])
