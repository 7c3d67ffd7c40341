"""Jacobians for implicit solvers, from the model or from difference quotients.

The Jacobian is the matrix d f_i / d x_j, shape (n, n), of a model's derivative f. rtsim computes it
for models that declare ``sparsity`` or ``jacobian``, and for models with at least
:data:`PROBED_FROM` states. For other models, a solver uses its own dense difference quotients.

One evaluation can give several columns if no two of them share a row. rtsim checks each Jacobian
with an additional difference quotient. If the check fails, each column is computed separately. A
nonzero element outside a declared sparsity is an error.

The class ``Jacobian`` is for solvers of SciPy and SUNDIALS, and extends a wrong probed sparsity.
The function ``jacobian`` is for rtsim's own solvers, where a wrong sparsity is an error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import ModelError, ScenarioError
from rtsim.core.extras import needs
from rtsim.core.signals import Vector
from rtsim.equations.calls import call_at
from rtsim.equations.compiling import ABSENT, in_both
from rtsim.equations.model import BoundModel
from rtsim.equations.sparsity import Indices, Sparsity, probed
from rtsim.solve.adaptive import LAYOUT as ADAPTIVE
from rtsim.solve.base import WRONG_JACOBIAN
from rtsim.solve.internal_steps import SPENT
from rtsim.solve.linear_algebra import assign, height

PROBED_FROM = 100
"""Number of states from which an undeclared sparsity is found by probing."""
_FULL = 1 / 8
"""A probed matrix is treated as dense if more than this fraction of its elements can be nonzero."""
_NARROW = 32
"""Matrices with up to this number of diagonals are solved by LAPACK's band solver."""
_SMALL = 32
"""A matrix with fewer rows is solved as a dense array."""
CHANGE = 1.5e-8
"""Change of a state in a difference quotient, relative to the state's size."""
_PROBE = 1e-3
"""Change of a state in probing, relative to the state's size."""
ROW_ERROR, ROUNDING, NEGLIGIBLE = 1e-3, 1e-7, 1e-9
"""Tolerances of the check of a row, relative to its terms, its derivative, and the fastest row."""

Slope = Callable[[float, Vector], Vector]
"""A function that returns the derivative (n,) at a time (s) and a state (n,)."""


def wanted(bound: BoundModel) -> bool:
    model = bound.model
    declared = model.sparsity is not None or model.jacobian is not None
    return declared or model.states.size >= PROBED_FROM


def spread(n: int) -> Vector:
    """Return a vector (n,) of irregular numbers, with which a Jacobian is checked."""
    part: Vector = np.arange(1, n + 1, dtype=np.float64) * ((math.sqrt(5.0) - 1.0) / 2.0) % 1.0
    signs: Vector = np.where(np.arange(n) % 2, -1.0, 1.0)
    return (0.5 + part) * signs


class Jacobian:
    """The Jacobian of a model, for one stepper.

    ``typical`` (n,) contains the size of each state.
    """

    def __init__(self, bound: BoundModel, typical: Vector) -> None:
        model = bound.model
        self._model, self._typical, self._native = model, typical, bound.jacobian
        n = model.states.size
        self._declared: Sparsity | None = model.sparsity
        if self._native is not ABSENT and self._declared is None:
            self._declared = Sparsity.of(np.ones((n, n)), n, "")
        self._kept: Sparsity | None = self._declared
        """The sparsity after the last commit; ``None`` before probing."""
        self._dense = self._kept_dense = False
        self.sparsity = self._kept
        self._settled = np.zeros(n, dtype=bool)
        """Rows that failed the check in this advance although their sparsity is correct."""
        self._values: Callable[[float, Vector], Vector] | None = None
        self._weights = spread(n)

    @property
    def declared(self) -> bool:
        return self._declared is not None

    def bind(self, z: Vector, u: Vector, p: Vector) -> None:
        """Set the arrays z, u and p for the model's function ``jacobian``."""
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
        """Begin an advance from the time ``t`` (s) and the state ``x``.

        Returns False if the solver should use its own Jacobian.
        """
        self.sparsity, self._dense = self._kept, self._kept_dense
        self._settled[:] = False
        if self.sparsity is None and not self._dense:
            self.sparsity = self._probe(slope, t, x)
            self._dense = self.sparsity is None
        return not self._dense

    def options(self, method: str, slope: Slope, t: float, x: Vector) -> dict[str, Any]:
        """Return the options of the solver for the Jacobian.

        ``method`` is one of :data:`TAKERS`. The result is empty if the solver should use its own
        Jacobian.
        """
        return TAKERS[method](self, slope, t, x) if self.begin(slope, t, x) else {}

    def _by_function(self, slope: Slope, *_: Any) -> dict[str, Any]:
        return {"jac": lambda t, y: self.at(slope, t, y)}

    def _by_band(self, slope: Slope, t: float, x: Vector) -> dict[str, Any]:
        assert self.sparsity is not None
        if self.sparsity.count == x.size**2:
            return self._by_function(slope)
        self.at(slope, t, x)  # compares the sparsity with the derivative
        below, above = self.sparsity.band
        return {"lband": below, "uband": above} if below + above < x.size // 2 else {}

    def _by_sundials(self, slope: Slope, t: float, x: Vector) -> dict[str, Any]:
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
            # Probing missed an element, which the solver uses from the next tag on.
            if found.nnz != pattern.count:
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
        """Return the Jacobian (n, n) at ``t`` s and ``x``, as an array or a SciPy sparse matrix.

        Raises :class:`ModelError` if the model's declaration disagrees with the derivative, and
        :class:`ValueError` if an element is not finite.
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
        n = self._typical.size
        dense = n < _SMALL or matrix.nnz > n * n / 4
        return matrix.toarray() if dense else matrix

    def _quotients(self, slope: Slope, t: float, x: Vector, base: Vector) -> Vector:
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
        """Keep the sparsity of the committed step."""
        self._kept, self._kept_dense = self.sparsity, self._dense

    def save(self) -> dict[str, Any]:
        """Return the probed sparsity as plain data; empty if declared or unknown."""
        if self._kept_dense:
            return {"dense": True}
        if self._kept is None or self._declared is not None:
            return {}
        return {"rows": self._kept.rows.tolist(), "starts": self._kept.starts.tolist()}

    def restore(self, saved: dict[str, Any]) -> None:
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
"""Functions that return the solver options for the Jacobian, by name of the method."""


def _ranges(starts: Indices, sizes: Indices) -> Indices:
    ends = np.cumsum(sizes)
    within: Indices = np.arange(int(ends[-1]) if ends.size else 0, dtype=np.int64)
    out: Indices = within + np.repeat(starts - (ends - sizes), sizes)
    return out


BELOW, ABOVE, NATURAL, CHECKED, DECLARED = range(5)
"""Elements of the array ``matrix``:

- ``BELOW``, ``ABOVE``: number of diagonals of the ordered Jacobian below and above the main one.
- ``NATURAL``: 1 if the matrix has the states in their declared order.
- ``CHECKED``: 1 if each Jacobian is compared with a difference quotient.
- ``DECLARED``: 1 if the model's function ``jacobian`` gives the elements.
"""

JACOBIAN_LAYOUT = ADAPTIVE.extended(
    "a step with a Jacobian",
    matrix=(DECLARED + 1,),
    typical=("states",),
    sizes=("states",),
    spread=("states",),
    slope=("states",),
    settled=("states",),
    starts=("states + 1",),
    rows=("elements",),
    elements=("elements",),
    given=("elements",),
    by_rows=("elements",),
    places=("elements",),
    diagonal=("states",),
    order=("states",),
    members=("states",),
    groups=("edges",),
    lu=("states", "height"),
    pivots=("states + 1",),
)
"""The arrays of a step with a Jacobian.

- ``typical``: size of each state below which a change does not matter.
- ``sizes``: size of each state in the present step; changes of states are relative to it.
- ``spread``: direction of the checking difference quotient.
- ``slope``: derivative at ``now``.
- ``settled``: 1 for a row whose disagreement in this advance is not an error of the pattern.
- ``starts``, ``rows``: the sparsity; ``elements``: the values of its elements.
- ``given``: values from the model's function ``jacobian``; ``by_rows``: their indices in
  ``elements``.
- ``places``: index of each element in ``lu``, flattened.
- ``diagonal``: index of each state's diagonal element in ``lu``, flattened.
- ``order``: position of each state in the matrix.
- ``members``: the columns, group by group; ``groups``: the beginning of each group in ``members``.
- ``lu``, ``pivots``: see :func:`rtsim.solve.linear_algebra.factor`.
"""
_PART = 1e-4
"""Minimum size of a state in difference quotients, as a fraction of its change in the step."""
MOST_ELEMENTS = 50_000_000
"""Limit on the number of elements of ``lu`` (400 MB)."""


@in_both
def note_sizes(words: Any, h: float) -> None:
    """Estimate the size of each state for a step of about ``h`` s, and store it in ``sizes``.

    A size is at least ``_PART`` of the state's change in the step, so that rounding errors stay
    small.
    """
    now, slope, sizes, typical = words.now, words.slope, words.sizes, words.typical
    for j in range(now.size):
        sizes[j] = max(abs(now[j]), max(typical[j], _PART * h * abs(slope[j])))


def jacobian(words: Any, t: float) -> int:
    """Compute the Jacobian at ``t`` (s) and the state ``now``; store it in ``elements``.

    ``slope`` must contain the derivative at ``t`` and ``now``. ``out`` and ``work`` are
    overwritten. Returns the number of evaluations of the derivative, or :data:`WRONG_JACOBIAN`.
    """
    now, slope, y, elements = words.now, words.slope, words.out, words.elements
    matrix, starts, rows, members = words.matrix, words.starts, words.rows, words.members
    groups, there, sizes = words.groups, words.work, words.sizes
    spent = 0
    if matrix[DECLARED] != 0.0:
        given, by_rows = words.given, words.by_rows
        call_at(words, words.jacobian, t, now, given)
        for e in range(given.size):
            elements[int(by_rows[e])] = given[e]
    else:
        assign(y, now)
        for g in range(groups.size - 1):
            begin, end = int(groups[g]), int(groups[g + 1])
            for m in range(begin, end):
                j = int(members[m])
                y[j] = now[j] + CHANGE * sizes[j]
            call_at(words, words.f, t, y, there)
            spent += 1
            for m in range(begin, end):
                j = int(members[m])
                change = y[j] - now[j]
                y[j] = now[j]
                for e in range(int(starts[j]), int(starts[j + 1])):
                    i = int(rows[e])
                    elements[e] = (there[i] - slope[i]) / change
    if matrix[CHECKED] != 0.0:
        spent += 1
        if disagrees(words, t):
            spent += now.size
            if is_wrong(words, t):
                return WRONG_JACOBIAN
    return spent


jacobian = in_both(jacobian, inlined=False)


@in_both
def disagrees(words: Any, t: float) -> bool:
    """Return whether a row of the Jacobian differs from a difference quotient.

    Rows in ``settled`` are not checked. ``k[1]`` receives the allowed difference of each wrong row,
    and 0 for all other rows.
    """
    now, slope, y, elements, rows = words.now, words.slope, words.out, words.elements, words.rows
    starts, along, there, settled = words.starts, words.spread, words.work, words.settled
    k, sizes = words.k, words.sizes
    allowed, expected = k[1], k[2]
    for j in range(now.size):
        y[j] = now[j] + CHANGE * sizes[j] * along[j]
        allowed[j] = expected[j] = 0.0
    call_at(words, words.f, t, y, there)
    for j in range(now.size):
        change = y[j] - now[j]
        for e in range(int(starts[j]), int(starts[j + 1])):
            i = int(rows[e])
            expected[i] += elements[e] * change
            allowed[i] += abs(elements[e]) * sizes[j]
    fastest = 0.0
    for i in range(now.size):
        fastest = max(fastest, allowed[i] / sizes[i])
    wrong = False
    for i in range(now.size):
        may = ROW_ERROR * allowed[i] + ROUNDING * abs(slope[i])
        may += NEGLIGIBLE * fastest * sizes[i]
        off = abs(there[i] - slope[i] - expected[i]) > CHANGE * may and settled[i] == 0.0
        allowed[i] = max(may, 1e-300) if off else 0.0
        wrong = wrong or off
    return wrong


@in_both
def is_wrong(words: Any, t: float) -> bool:
    """Return whether a wrong row has a missing or wrong element.

    ``k[1]`` is not 0 for a failed row. The function computes a difference quotient for each column.
    If all elements are right, the derivative has a kink or a strong curvature. ``settled`` is then
    set to 1 for these rows.
    """
    now, slope, y, elements, rows = words.now, words.slope, words.out, words.elements, words.rows
    starts, there, k, settled, sizes = words.starts, words.work, words.k, words.settled, words.sizes
    declared = words.matrix[DECLARED] != 0.0
    allowed = k[1]
    assign(y, now)
    for j in range(now.size):
        y[j] = now[j] + CHANGE * sizes[j]
        change = y[j] - now[j]
        call_at(words, words.f, t, y, there)
        y[j] = now[j]
        for e in range(int(starts[j]), int(starts[j + 1])):
            i = int(rows[e])
            off = abs((there[i] - slope[i]) / change - elements[e]) * sizes[j] > allowed[i] / 4
            if declared and allowed[i] != 0.0 and off:
                return True
            there[i] = slope[i]
        for i in range(now.size):
            if allowed[i] != 0.0 and there[i] != slope[i]:
                return True
    for i in range(now.size):
        if allowed[i] != 0.0:
            settled[i] = 1.0
    return False


@in_both
def note_factors(words: Any) -> None:
    matrix, n = words.matrix, words.now.size
    work = n * matrix[BELOW] * (matrix[BELOW] + matrix[ABOVE])
    words.notes[SPENT] += _EVALUATIONS_OF_A_PRODUCT * work


_EVALUATIONS_OF_A_PRODUCT = 1e-3
"""Cost of a multiplication in the factorisation, as a fraction of an evaluation of the derivative.
"""


def matrix_arrays(bound: BoundModel, typical: Vector) -> Mapping[str, NDArray[np.float64]]:
    """Return the arrays of ``JACOBIAN_LAYOUT`` for a model.

    ``typical`` (n,) contains the size of each state. Raises ``ScenarioError`` if the LU factors
    need too much memory.
    """
    model, n = bound.model, bound.model.states.size
    found = model.sparsity
    if found is None and model.jacobian is None and wanted(bound):
        found = _probed(bound, typical)
    checked = found is not None or model.jacobian is not None
    if found is None:
        found = Sparsity.of(np.ones((n, n)), n, "")
    order = _order(found)
    rows, columns = order[found.rows], order[found.columns]
    off = rows - columns
    below, above = (int(max(0, np.max(d, initial=0))) for d in (off, -off))
    kept = height(n, below, above)
    if n * kept > MOST_ELEMENTS:
        raise ScenarioError(
            f"the Jacobian of model {model.name} ({n} states) has a band of {below + above + 1} "
            f"diagonals, whose factors need {8 * n * kept / 1e6:.0f} MB; use radau or bdf, which "
            "keep sparse factors, or declare a sparsity with a narrower band"
        )
    groups = found.groups if n else ()
    ends = np.cumsum([0, *map(len, groups)])

    def place(row: Any, column: Any) -> Any:
        return column * kept + row - np.minimum(np.maximum(0, column - above - below), n - kept)

    settings = np.zeros(DECLARED + 1)
    settings[BELOW], settings[ABOVE], settings[CHECKED] = below, above, checked
    settings[NATURAL] = np.array_equal(order, np.arange(n))
    settings[DECLARED] = bound.jacobian is not ABSENT
    by_rows = found.by_rows if n else np.zeros(0)
    members = np.concatenate(groups) if n else np.zeros(0)
    numbers: dict[str, Any] = {
        "matrix": settings, "typical": typical, "spread": spread(n), "starts": found.starts,
        "rows": found.rows, "by_rows": by_rows, "places": place(rows, columns),
        "diagonal": place(order, order), "order": order, "members": members, "groups": ends,
        "lu": np.zeros((n, kept)),
    }  # fmt: skip
    return {name: np.ascontiguousarray(v, dtype=np.float64) for name, v in numbers.items()}


def _probed(bound: BoundModel, typical: Vector) -> Sparsity | None:
    model, x = bound.model, bound.model.states.initial()
    at, out = x.copy(), np.zeros(x.size)
    z, u, p = (s.initial() for s in (model.discrete, model.inputs, model.parameters))
    call = bound.derivative.on(at, z, u, p, out)

    def slope(t: float, y: Vector) -> Vector:
        at[:] = y
        call(t)
        return out.copy()

    probing = Jacobian(bound, typical)
    probing.begin(slope, 0.0, x)
    return probing.sparsity


def _order(sparsity: Sparsity) -> NDArray[np.int64]:
    with needs("scipy", "an implicit solver"):
        from scipy.sparse.csgraph import reverse_cuthill_mckee

    n = sparsity.size
    same = np.arange(n)
    if sparsity.count == n * n:
        return same
    matrix = sparsity.matrix(np.ones(sparsity.count))
    where = np.argsort(reverse_cuthill_mckee((matrix + matrix.T).tocsr(), symmetric_mode=True))
    rows, columns = where[sparsity.rows], where[sparsity.columns]
    wide = int(np.max(np.abs(rows - columns), initial=0))
    return where.astype(np.int64) if wide < max(sparsity.band) else same
