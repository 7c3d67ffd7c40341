"""The Jacobian of a model for compiled steps: declared, or by difference quotients in groups.

The elements are computed in the order of :class:`rtsim.equations.sparsity.Sparsity`: column by
column.  If the model declares a sparsity or a Jacobian, or the sparsity was probed, the matrix is
compared with one more difference quotient, as in :mod:`rtsim.solve.jacobians`, which has the same
figures for plain matrices.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import ScenarioError
from rtsim.core.extras import needs
from rtsim.core.signals import Vector
from rtsim.equations.addresses import call_equation, matrix_at, vector_at
from rtsim.equations.compiling import ABSENT, in_both
from rtsim.equations.model import BoundModel
from rtsim.equations.sparsity import Sparsity
from rtsim.solve.adaptive_step import LAYOUT as ADAPTIVE
from rtsim.solve.band import height
from rtsim.solve.base import WRONG_JACOBIAN
from rtsim.solve.jacobians import CHANGE, NEGLIGIBLE, ROUNDING, ROW_ERROR, Jacobian, spread, wanted
from rtsim.solve.look import SPENT
from rtsim.solve.vectors import assign

BELOW, ABOVE, NATURAL, CHECKED, DECLARED = range(5)
"""Elements of the array ``matrix``:

- ``BELOW``, ``ABOVE``: number of diagonals of the ordered Jacobian below and above the main one.
- ``NATURAL``: 1 if the states keep their order in the matrix.
- ``CHECKED``: 1 if each Jacobian is compared with a difference quotient.
- ``DECLARED``: 1 if the elements are those of the model's function ``jacobian``.
"""

LAYOUT = ADAPTIVE.extended(
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

- ``typical``: size of each state below which a change does not matter; ``sizes``: size of each
  state in the present step, in units of which it is changed; ``spread``: direction of the check.
- ``slope``: derivative at ``now``; ``settled``: 1 for a row whose disagreement in this advance is
  no error of the pattern.
- ``starts``, ``rows``: the sparsity; ``elements``: its values; ``given``: the values of the model's
  function ``jacobian``, and ``by_rows`` their indices in ``elements``.
- ``places``: index of each element in ``lu``, counted through its rows; ``diagonal``: index of each
  state's element of the main diagonal; ``order``: position of each state in the matrix.
- ``members``: the columns, group by group; ``groups``: where each group begins in ``members``.
- ``lu``, ``pivots``: see :mod:`rtsim.solve.band`.
"""
AT = LAYOUT.at
_PART = 1e-4
"""Part of the change of a state in a step that counts as its size."""
MOST_ELEMENTS = 50_000_000
"""The most elements of ``lu`` (400 MB)."""


@in_both
def note_sizes(words: Any, h: float) -> None:
    """Fill ``sizes`` for a step of about ``h`` s.

    A state that starts at 0 has at least a part of the size that it gets in the step: a change of
    less would be lost in the rounding of its derivative.
    """
    now, slope = vector_at(words, AT.now), vector_at(words, AT.slope)
    sizes, typical = vector_at(words, AT.sizes), vector_at(words, AT.typical)
    for j in range(now.size):
        sizes[j] = max(abs(now[j]), max(typical[j], _PART * h * abs(slope[j])))


def jacobian(words: Any, t: float) -> int:
    """Fill ``elements`` at ``t`` s and ``now``; ``slope`` is the derivative there.

    ``out`` and ``work`` are overwritten.  Returns the number of evaluations of the derivative, or
    :data:`WRONG_JACOBIAN`.
    """
    now, slope, y = vector_at(words, AT.now), vector_at(words, AT.slope), vector_at(words, AT.out)
    z, u, p = vector_at(words, AT.z), vector_at(words, AT.u), vector_at(words, AT.p)
    elements, matrix = vector_at(words, AT.elements), vector_at(words, AT.matrix)
    starts, rows = vector_at(words, AT.starts), vector_at(words, AT.rows)
    members, groups = vector_at(words, AT.members), vector_at(words, AT.groups)
    there, sizes = vector_at(words, AT.work), vector_at(words, AT.sizes)
    spent = 0
    if matrix[DECLARED] != 0.0:
        given, by_rows = vector_at(words, AT.given), vector_at(words, AT.by_rows)
        call_equation(words[AT.jacobian], t, now, z, u, p, given)
        for e in range(given.size):
            elements[int(by_rows[e])] = given[e]
    else:
        assign(y, now)
        for g in range(groups.size - 1):
            begin, end = int(groups[g]), int(groups[g + 1])
            for m in range(begin, end):
                j = int(members[m])
                y[j] = now[j] + CHANGE * sizes[j]
            call_equation(words[AT.f], t, y, z, u, p, there)
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
    """Return whether ``elements`` disagrees with a difference quotient in a row not yet settled.

    ``k[1]`` then marks these rows with the difference that each of them may have, and is 0 in the
    others.
    """
    now, slope, y = vector_at(words, AT.now), vector_at(words, AT.slope), vector_at(words, AT.out)
    z, u, p = vector_at(words, AT.z), vector_at(words, AT.u), vector_at(words, AT.p)
    elements, rows = vector_at(words, AT.elements), vector_at(words, AT.rows)
    starts, along = vector_at(words, AT.starts), vector_at(words, AT.spread)
    there, settled = vector_at(words, AT.work), vector_at(words, AT.settled)
    k, sizes = matrix_at(words, AT.k), vector_at(words, AT.sizes)
    allowed, expected = k[1], k[2]
    for j in range(now.size):
        y[j] = now[j] + CHANGE * sizes[j] * along[j]
        allowed[j] = expected[j] = 0.0
    call_equation(words[AT.f], t, y, z, u, p, there)
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
    """Compare the rows that ``k[1]`` marks with the difference quotient of each column.

    Returns whether an element is missing or wrong.  If none is, the function is too curved or has a
    kink here, and these rows count as settled.
    """
    now, slope, y = vector_at(words, AT.now), vector_at(words, AT.slope), vector_at(words, AT.out)
    z, u, p = vector_at(words, AT.z), vector_at(words, AT.u), vector_at(words, AT.p)
    elements, rows = vector_at(words, AT.elements), vector_at(words, AT.rows)
    starts, there = vector_at(words, AT.starts), vector_at(words, AT.work)
    k, settled = matrix_at(words, AT.k), vector_at(words, AT.settled)
    sizes = vector_at(words, AT.sizes)
    declared = vector_at(words, AT.matrix)[DECLARED] != 0.0
    allowed = k[1]
    assign(y, now)
    for j in range(now.size):
        y[j] = now[j] + CHANGE * sizes[j]
        change = y[j] - now[j]
        call_equation(words[AT.f], t, y, z, u, p, there)
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
    """Count the time of the factors towards the next pause."""
    matrix, n = vector_at(words, AT.matrix), vector_at(words, AT.now).size
    work = n * matrix[BELOW] * (matrix[BELOW] + matrix[ABOVE])
    vector_at(words, AT.notes)[SPENT] += _EVALUATIONS_OF_A_PRODUCT * work


_EVALUATIONS_OF_A_PRODUCT = 1e-3
"""A multiplication in the factors counts as this part of an evaluation in the rule for pauses."""


def matrix_arrays(bound: BoundModel, typical: Vector) -> Mapping[str, NDArray[np.float64]]:
    """Return the arrays that :data:`LAYOUT` adds to those of an adaptive step.

    ``typical`` (n,) are sizes of the states.  Raises :class:`ScenarioError` if the ordered Jacobian
    needs too much memory.
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
        "matrix": settings, "typical": typical, "sizes": np.zeros(n), "spread": spread(n),
        "slope": np.zeros(n), "settled": np.zeros(n), "starts": found.starts,
        "rows": found.rows, "elements": np.zeros(found.count), "given": np.zeros(found.count),
        "by_rows": by_rows, "places": place(rows, columns), "diagonal": place(order, order),
        "order": order, "members": members, "groups": ends, "lu": np.zeros((n, kept)),
        "pivots": np.zeros(n + 1),
    }  # fmt: skip
    return {name: np.ascontiguousarray(v, dtype=np.float64) for name, v in numbers.items()}


def _probed(bound: BoundModel, typical: Vector) -> Sparsity | None:
    """Return the sparsity at the declared initial values; ``None`` if the matrix is full."""
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
    """Return the position of each state: in the declared order, or in one with a narrower band.

    The other order is that of reverse Cuthill and McKee, which SciPy computes.
    """
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
