"""Names for what is wrong with a system of equations: which equations, and which unknowns.

The structural rank of a matrix is the greatest rank that a matrix with the same non-zero elements
can have.  If it is less than the number of equations, some equations determine too few unknowns,
whatever the values are.  The maximal matching of equations and unknowns shows them.
Source: Dulmage, Mendelsohn, Canadian Journal of Mathematics 10, 1958, p. 517.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rtsim.core.extras import needs
from rtsim.core.signals import Vector

_SMALL = 1e-12
"""A singular value below this share of the greatest one counts as zero."""


def singular_matrix(matrix: Vector, unknowns: Sequence[str], equation: str = "row {0}") -> str:
    """Return which equations and unknowns make ``matrix`` (n, n) singular; else an empty text.

    ``equation`` is the pattern of an equation's name.  The rows are scaled to equal size first.
    """
    sizes = np.abs(matrix).max(axis=1, initial=0.0)
    scaled = matrix / np.where(sizes > 0.0, sizes, 1.0)[:, np.newaxis]
    said = by_structure(scaled != 0.0, unknowns, equation)
    return said or _by_values(scaled, unknowns, equation)


def by_structure(pattern: NDArray[np.bool_], unknowns: Sequence[str], equation: str) -> str:
    """Return which equations and unknowns make the structural rank too small, or an empty text.

    ``pattern`` (n, n) is true where an unknown (column) occurs in an equation (row).
    """
    with needs("scipy", "a model with constraints"):
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import maximum_bipartite_matching

    n = len(unknowns)
    column_of = maximum_bipartite_matching(csr_array(pattern.astype(np.int8)), perm_type="column")
    free = [i for i in range(n) if column_of[i] < 0]
    if not free:
        return ""
    row_of = {int(column): row for row, column in enumerate(column_of) if column >= 0}
    rows, columns = set(free), set[int]()
    waiting = list(free)
    while waiting:
        for column in map(int, np.flatnonzero(pattern[waiting.pop()])):
            if column not in columns:
                columns.add(column)
                if row_of[column] not in rows:
                    rows.add(row_of[column])
                    waiting.append(row_of[column])
    missing = [unknowns[j] for j in range(n) if j not in row_of]
    named = _listed(equation.format(i) for i in sorted(rows))
    many = "depend" if len(rows) > 1 else "depends"
    on = _listed(unknowns[j] for j in sorted(columns))
    return (
        f"{named} {many} on {f'{on} only' if on else 'no unknown'}, and nothing determines "
        f"{_listed(missing)} (structural rank {n - len(free)} of {n})"
    )


def _by_values(matrix: Vector, unknowns: Sequence[str], equation: str) -> str:
    if not np.isfinite(matrix).all():
        rows = [i for i in range(len(matrix)) if not np.isfinite(matrix[i]).all()]
        return f"{_listed(equation.format(i) for i in rows)} has values that are not finite"
    left, sizes, right = np.linalg.svd(matrix)
    if sizes[-1] > _SMALL * sizes[0]:
        return ""
    rows = np.flatnonzero(np.abs(left[:, -1]) > 1e-3).tolist()
    columns = np.flatnonzero(np.abs(right[-1]) > 1e-3).tolist()
    return (
        f"{_listed(equation.format(i) for i in rows)} "
        f"{'depend' if len(rows) > 1 else 'depends'} linearly on each other at these values, so "
        f"{_listed(unknowns[j] for j in columns)} "
        f"{'are' if len(columns) > 1 else 'is'} not determined"
    )


def _listed(names: object) -> str:
    """Return ``a, b and c``."""
    *first, last = [*names] or [""]  # type: ignore[misc]
    return f"{', '.join(first)} and {last}" if first else str(last)
