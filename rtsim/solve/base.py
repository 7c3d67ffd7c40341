"""The contract of a solver, and the tableaus that fixed-step ones are made of.

A solver carries a state from one tag to another, *exactly* from the one to the other; how many
steps it takes inside is its own affair.  What it computes is provisional until the executive
commits it: :meth:`Stepper.accept` makes solver memory (first-same-as-last, a multistep history, the
next step size) current, and not calling it throws that memory away with the scratch state.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Vector
from rtsim.equations.model import BoundModel

GOOD = -1
"""Result of a successful step; a result >= 0 is the index of the first non-finite element."""
TOO_SMALL = -2
"""Result if even the smallest step exceeded the tolerance."""
OUT_OF_BUDGET = -3
"""Result if the frame's budget is exceeded and this ends the run."""


class Stepper(Protocol):
    """One solver at work on one bound model."""

    def advance(
        self, from_ns: int, to_ns: int, x: Vector, z: Vector, u: Vector, p: Vector, out: Vector
    ) -> int:
        """Propagate ``x`` (n,) at ``from_ns`` to ``out`` (n,) at ``to_ns``; ``x`` is untouched.

        Returns :data:`GOOD`, the index of the first element that is not finite,
        :data:`TOO_SMALL` or :data:`OUT_OF_BUDGET`.
        """
        ...

    def accept(self) -> None:
        """The last ``advance`` was committed."""
        ...

    def forget(self) -> None:
        """x, z, u or p changed from outside: drop what was remembered of the past."""
        ...

    def save(self) -> dict[str, Any]:
        """Committed memory as plain data."""
        ...

    def restore(self, saved: dict[str, Any]) -> None: ...


class Solver(Protocol):
    """A method; makes steppers."""

    @property
    def name(self) -> str: ...

    @property
    def order(self) -> int: ...

    def stepper(self, bound: BoundModel) -> Stepper: ...


@dataclass(frozen=True)
class Tableau:
    """An explicit Runge-Kutta method as Butcher writes it; checks itself when made.

    ``a`` is the strictly lower triangle (row i has i entries), ``b`` the weights, ``c`` the nodes.
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
        return self.a[-1] == self.b[:-1] and self.b[-1] == 0


@dataclass(frozen=True)
class EmbeddedTableau(Tableau):
    """A method with a second one inside it, and with dense output.

    ``hat`` are the weights of the embedded method, of order ``lower``; ``dense`` (s, d) gives the
    weights within a step: ``b_i(theta) = sum_j dense[i][j] theta^(j+1)``.  First same as last.
    """

    hat: tuple[Fraction, ...] = ()
    lower: int = 0
    dense: tuple[tuple[Fraction, ...], ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.first_same_as_last:
            raise ScenarioError(f"tableau {self.name}: the last row of a must equal b")
        if sum(self.hat) != 1 or len(self.hat) != len(self.b):
            raise ScenarioError(f"tableau {self.name}: hat needs one weight per stage, with sum 1")
        if tuple(sum(row) for row in self.dense) != self.b:
            raise ScenarioError(
                f"tableau {self.name}: each row of dense must sum to its weight in b"
            )


@dataclass(frozen=True)
class NystromTableau:
    """A Runge-Kutta-Nystrom method for q'' = f(t, q, q').

    Stage i: ``q + c h v + h^2 sum(abar k)`` and ``v + h sum(a k)``; at the end ``bbar`` and ``b``.
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
                    f"tableau {self.name}: a row of a must sum to c, of abar to c^2/2"
                )
        if sum(self.b) != 1 or sum(self.bbar) * 2 != 1:
            raise ScenarioError(f"tableau {self.name}: b must sum to 1, and bbar to 1/2")


def lower_triangle(rows: tuple[tuple[Fraction, ...], ...]) -> NDArray[np.float64]:
    """The rows as a square (s, s) float64 array."""
    out = np.zeros((len(rows), len(rows)))
    for i, row in enumerate(rows):
        out[i, : len(row)] = [float(v) for v in row]
    return out


def weights(row: tuple[Fraction, ...]) -> Vector:
    """The row as a float64 array."""
    return np.array([float(v) for v in row])
