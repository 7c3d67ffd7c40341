"""Jacobians of a model's derivative: declared, or by difference quotients in groups of columns.

:class:`Jacobian` gives an implicit solver the matrix d f_i / d x_j (n, n), as a SciPy sparse matrix
if most elements are zero.  It is used if the model declares ``sparsity`` or ``jacobian``, or has at
least :data:`PROBED_FROM` states; otherwise a solver uses its own dense difference quotients.

Each matrix is compared with one more difference quotient, along a vector that changes all states.
If they disagree, each column is computed alone.  An element that a declaration lacks is an error;
an element that probing missed is added.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from rtsim.core.errors import ModelError
from rtsim.core.signals import Vector
from rtsim.equations.compiling import ABSENT
from rtsim.equations.model import BoundModel
from rtsim.equations.sparsity import Indices, Sparsity, probed

PROBED_FROM = 100
"""The least number of states for which a sparsity that is not declared is found by probing."""
_FULL = 1 / 8
"""A probed pattern with a larger part of its elements is treated as dense."""
_NARROW = 32
"""From this number of diagonals on, LAPACK's band solver is used."""
_SMALL = 32
"""A matrix with fewer rows is solved as a dense array."""
CHANGE = 1.5e-8
"""Change of a state in a difference quotient, in units of the state's size."""
_PROBE = 1e-3
"""Change of a state in probing, in units of the state's size."""
ROW_ERROR, ROUNDING, NEGLIGIBLE = 1e-3, 1e-7, 1e-9
"""A row may disagree by this part of its terms, of its derivative, and of the fastest row."""

Slope = Callable[[float, Vector], Vector]
"""The derivative (n,) at t (s) and a state (n,)."""


def wanted(bound: BoundModel) -> bool:
    """Return whether :class:`Jacobian` computes the Jacobian of this model."""
    model = bound.model
    declared = model.sparsity is not None or model.jacobian is not None
    return declared or model.states.size >= PROBED_FROM


def spread(n: int) -> Vector:
    """Return a vector (n,) without structure, so that a missing element changes its product."""
    part: Vector = np.arange(1, n + 1, dtype=np.float64) * ((math.sqrt(5.0) - 1.0) / 2.0) % 1.0
    signs: Vector = np.where(np.arange(n) % 2, -1.0, 1.0)
    return (0.5 + part) * signs


class Jacobian:
    """The Jacobian of one model for one stepper.

    ``typical`` (n,) are sizes of the states below which a change does not matter to the tolerance.
    """

    def __init__(self, bound: BoundModel, typical: Vector) -> None:
        model = bound.model
        self._model, self._typical, self._native = model, typical, bound.jacobian
        n = model.states.size
        self._declared: Sparsity | None = model.sparsity
        if self._native is not ABSENT and self._declared is None:
            self._declared = Sparsity.of(np.ones((n, n)), n, "")
        self._kept: Sparsity | None = self._declared
        """The sparsity after the last commit; ``None``: not probed yet."""
        self._dense = self._kept_dense = False
        """True if the probed pattern is so full that the solver uses its own Jacobian."""
        self.sparsity = self._kept
        self._settled = np.zeros(n, dtype=bool)
        """Rows whose disagreement in this advance was found to be no error of the pattern."""
        self._values: Callable[[float, Vector], Vector] | None = None
        self._weights = spread(n)

    @property
    def declared(self) -> bool:
        """True if the model declares its sparsity or its Jacobian."""
        return self._declared is not None

    def bind(self, z: Vector, u: Vector, p: Vector) -> None:
        """Use the arrays z, u and p in the model's function ``jacobian``."""
        if self._native is ABSENT:
            return
        assert self._declared is not None
        at, out = np.zeros(self._typical.size), np.zeros(self._declared.count)
        call, order = self._native.on(at, z, u, p, out), self._declared.by_rows

        def values(t: float, x: Vector) -> Vector:
            at[:] = x
            call(float(t))
            by_columns = np.empty(out.size)
            by_columns[order] = out
            return by_columns

        self._values = values

    def begin(self, slope: Slope, t: float, x: Vector) -> bool:
        """Begin an advance at ``t`` s and ``x``, and find the sparsity if it is not known.

        Returns whether the solver is to use this Jacobian.
        """
        self.sparsity, self._dense = self._kept, self._kept_dense
        self._settled[:] = False
        if self.sparsity is None and not self._dense:
            self.sparsity = self._probe(slope, t, x)
            self._dense = self.sparsity is None
        return not self._dense

    def options(self, method: str, slope: Slope, t: float, x: Vector) -> dict[str, Any]:
        """Begin an advance at ``t`` s and ``x``, and return the Jacobian's options of a solver.

        ``method`` is one of :data:`TAKERS`.  Returns no options if the solver is to compute a dense
        Jacobian itself.
        """
        return TAKERS[method](self, slope, t, x) if self.begin(slope, t, x) else {}

    def _by_function(self, slope: Slope, *_: Any) -> dict[str, Any]:
        return {"jac": lambda t, y: self.at(slope, t, y)}

    def _by_band(self, slope: Slope, t: float, x: Vector) -> dict[str, Any]:
        """Return the options of LSODA, which knows bands but no other sparse matrices."""
        assert self.sparsity is not None
        if self.sparsity.count == x.size**2:
            return self._by_function(slope)
        self.at(slope, t, x)  # compares the sparsity with the derivative
        below, above = self.sparsity.band
        return {"lband": below, "uband": above} if below + above < x.size // 2 else {}

    def _by_sundials(self, slope: Slope, t: float, x: Vector) -> dict[str, Any]:
        """Return the options of CVODE: its band solver is the fastest one for narrow bands."""
        import scipy.sparse

        pattern = self.sparsity
        assert pattern is not None
        matrix = self.at(slope, t, x)
        below, above = pattern.band
        if isinstance(matrix, np.ndarray):

            def dense(t: float, y: Vector, _: Vector, out: Any) -> None:
                out[:] = self.at(slope, t, y)

            return {"linsolver": "dense", "jacfn": dense}
        if below + above < x.size // 4:
            kind = "band" if below + above < _NARROW else "lapackband"
            return {"linsolver": kind, "lband": below, "uband": above}

        def sparse(t: float, y: Vector, _: Vector, out: Any) -> None:
            found: Any = scipy.sparse.csc_matrix(self.at(slope, t, y))
            if found.nnz != pattern.count:  # an element that probing missed: used from the next tag
                found = found[pattern.rows, pattern.columns]
                out[:] = np.asarray(found).ravel()
            else:
                out[:] = found.data

        return {"linsolver": "sparse", "sparsity": pattern.matrix(np.ones(pattern.count)),
                "jacfn": sparse}  # fmt: skip

    def _probe(self, slope: Slope, t: float, x: Vector) -> Sparsity | None:
        changes = _PROBE * self._sizes(x) * self._weights
        found = probed(lambda y: slope(t, y), x, changes)
        if found is None:
            return None
        again = probed(lambda y: slope(t, y), x + changes[::-1], changes)
        if again is not None:
            found = found.with_elements(again.rows, again.columns)
        n = x.size
        full = found.count > _FULL * n * n or len(found.groups) > n / 2
        return None if full else found

    def _sizes(self, x: Vector) -> Vector:
        return np.maximum(np.abs(x), self._typical)

    def at(self, slope: Slope, t: float, x: Vector) -> Any:
        """Return the matrix (n, n) at ``t`` s and ``x``.

        The matrix is dense if nothing is known to be zero.  Raises :class:`ModelError` if it
        disagrees with what the model declares, and :class:`ValueError` for a value that is not
        finite.
        """
        assert self.sparsity is not None
        base, sizes = slope(t, x), self._sizes(x)
        while True:
            values = self._values(t, x) if self._values else self._quotients(slope, t, x, base)
            if not np.all(np.isfinite(values)):
                raise ValueError("an element of the Jacobian is not finite")
            matrix = self.sparsity.matrix(values)
            along = CHANGE * sizes * self._weights
            moved = x + along
            seen = slope(t, moved) - base
            terms = abs(matrix) @ sizes
            fastest = float(np.max(terms / sizes, initial=0.0))
            allowed = ROW_ERROR * terms + ROUNDING * np.abs(base)
            allowed += NEGLIGIBLE * fastest * sizes
            wrong = np.abs(seen - matrix @ (moved - x)) > CHANGE * allowed
            if not np.any(wrong & ~self._settled):
                return self._as_solved(matrix)
            self._correct(slope, t, x, base, values, wrong, allowed)

    def _as_solved(self, matrix: Any) -> Any:
        """Return a dense array if the matrix is so small or full that it is solved faster."""
        n = self._typical.size
        dense = n < _SMALL or matrix.nnz > n * n / 4
        return matrix.toarray() if dense else matrix

    def _quotients(self, slope: Slope, t: float, x: Vector, base: Vector) -> Vector:
        """Return the difference quotients of the elements, one evaluation for each group."""
        assert self.sparsity is not None
        out, starts = np.empty(self.sparsity.count), self.sparsity.starts
        changed = x + CHANGE * self._sizes(x)
        change = changed - x
        for group in self.sparsity.groups:
            moved = x.copy()
            moved[group] = changed[group]
            rise = slope(t, moved) - base
            sizes = starts[group + 1] - starts[group]
            at = _ranges(starts[group], sizes)
            out[at] = rise[self.sparsity.rows[at]] / np.repeat(change[group], sizes)
        return out

    def _correct(
        self, slope: Slope, t: float, x: Vector, base: Vector, values: Vector, wrong: Any,
        allowed: Vector,
    ) -> None:  # fmt: skip
        """Compare the rows ``wrong`` with the difference quotient of each column.

        Adds the elements that probing missed.  If no element is wrong, the function is too curved
        or has a kink here, and these rows are not compared again in this advance.
        """
        assert self.sparsity is not None
        sizes, starts, elements = self._sizes(x), self.sparsity.starts, self.sparsity.rows
        rows, columns = [], []
        for j in range(x.size):
            moved = x.copy()
            moved[j] += CHANGE * sizes[j]
            rise = slope(t, moved) - base
            given, inside = np.zeros(x.size), slice(starts[j], starts[j + 1])
            given[elements[inside]] = values[inside]
            lacking = wrong & (rise != 0.0)
            lacking[elements[inside]] = False
            if self._declared is not None:
                quotient = rise / (moved[j] - x[j])
                off = wrong & (np.abs(quotient - given) * sizes[j] > allowed / 4)
                off[elements[inside]] &= self._values is not None
                for i in map(int, np.flatnonzero(off | lacking)):
                    self._refuse(t, i, j, float(given[i]), float(quotient[i]), bool(lacking[i]))
            found = np.flatnonzero(lacking)
            rows.append(found)
            columns.append(np.full(found.size, j))
        if not sum(map(len, rows)):
            self._settled |= wrong
            return
        self.sparsity = self.sparsity.with_elements(np.concatenate(rows), np.concatenate(columns))

    def _refuse(
        self, t: float, i: int, j: int, given: float, quotient: float, lacking: bool
    ) -> None:
        model, columns = self._model, self._model.states.columns
        if lacking:
            raise ModelError(
                f"sparsity of model {model.name} declares that d{columns[i]}/dt does not depend on "
                f"{columns[j]} (row {i}, column {j}), but the difference quotient is "
                f"{quotient:g} at {t:g} s; add this element to the sparsity"
            )
        raise ModelError(
            f"jacobian of model {model.name} gives {given:g} for the derivative of "
            f"d{columns[i]}/dt by {columns[j]} (row {i}, column {j}), but the difference quotient "
            f"is {quotient:g} at {t:g} s; correct the function jacobian, or remove it"
        )

    def accept(self) -> None:
        """Keep what the last advance found, because its result was committed."""
        self._kept, self._kept_dense = self.sparsity, self._dense

    def save(self) -> dict[str, Any]:
        """Return the probed sparsity as plain data; nothing if it is declared or not known."""
        if self._kept_dense:
            return {"dense": True}
        if self._kept is None or self._declared is not None:
            return {}
        return {"rows": self._kept.rows.tolist(), "starts": self._kept.starts.tolist()}

    def restore(self, saved: dict[str, Any]) -> None:
        """Restore what :meth:`save` returned."""
        self._kept, self._kept_dense = self._declared, bool(saved.get("dense"))
        if "rows" in saved:
            starts, rows = (np.array(saved[key], np.int64) for key in ("starts", "rows"))
            self._kept = Sparsity(starts, rows)


TAKERS: dict[str, Callable[..., dict[str, Any]]] = {
    "Radau": Jacobian._by_function,
    "BDF": Jacobian._by_function,
    "LSODA": Jacobian._by_band,
    "CVODE": Jacobian._by_sundials,
}
"""The solvers that take a Jacobian, by the name of their method, and how each of them takes it."""


def _ranges(starts: Indices, sizes: Indices) -> Indices:
    """Return the concatenation of ``range(start, start + size)`` of all pairs."""
    ends = np.cumsum(sizes)
    within: Indices = np.arange(int(ends[-1]) if ends.size else 0, dtype=np.int64)
    out: Indices = within + np.repeat(starts - (ends - sizes), sizes)
    return out
