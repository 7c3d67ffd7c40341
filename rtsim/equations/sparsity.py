"""The sparsity of a Jacobian: its non-zero elements, and groups of its columns.

Two columns of one group have no row in common. One evaluation of the derivative therefore gives the
difference quotients of all columns in a group. SciPy's ``group_columns`` forms the groups. Source:
Curtis, Powell, Reid, J. Inst. Maths Applics 13, 1974, p. 117.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import ModelError
from rtsim.core.extras import needs
from rtsim.core.signals import Vector

Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Sparsity:
    """The elements of a Jacobian (n, n) that can be non-zero.

    The rows of column j are ``rows[starts[j]:starts[j + 1]]``, in ascending order.
    """

    starts: Indices
    rows: Indices

    @classmethod
    def of(cls, pattern: Any, size: int, what: str) -> Sparsity:
        """Return the sparsity of an array or SciPy sparse matrix of shape (size, size).

        Raises ``ModelError`` for any other shape; the message calls the matrix ``what``.
        """
        if isinstance(pattern, cls):
            found, shape = pattern, (pattern.size, pattern.size)
        else:
            given: Any = pattern if hasattr(pattern, "nonzero") else np.asarray(pattern)
            shape = given.shape
            if shape == (size, size):
                rows, columns = given.nonzero()
                found = cls.of_elements(rows, columns, size)
        if shape != (size, size):
            raise ModelError(
                f"{what} has shape {shape}; give an array or a SciPy sparse matrix of shape "
                f"({size}, {size}), one row and one column for each state"
            )
        return found

    @classmethod
    def of_elements(cls, rows: Any, columns: Any, size: int) -> Sparsity:
        """Return the sparsity with the given elements, which may contain duplicates."""
        at = np.unique(np.asarray(columns, np.int64) * size + np.asarray(rows, np.int64))
        starts = np.searchsorted(at, np.arange(size + 1, dtype=np.int64) * size)
        return cls(starts.astype(np.int64), at % size)

    @property
    def size(self) -> int:
        return self.starts.size - 1

    @property
    def count(self) -> int:
        return self.rows.size

    @cached_property
    def columns(self) -> Indices:
        return np.repeat(np.arange(self.size), np.diff(self.starts))

    @cached_property
    def by_rows(self) -> Indices:
        """Indices that sort the elements by row and column."""
        return np.argsort(self.rows, kind="stable")

    @property
    def band(self) -> tuple[int, int]:
        """Numbers of diagonals with elements below and above the main diagonal."""
        off = self.rows - self.columns
        return (max(0, int(off.max())), max(0, int(-off.min()))) if off.size else (0, 0)

    @cached_property
    def groups(self) -> tuple[Indices, ...]:
        with needs("scipy", "an implicit solver"):
            from scipy.optimize._numdiff import group_columns

        number = group_columns(self.matrix(np.ones(self.count)), np.arange(self.size))
        order = np.argsort(number, kind="stable")
        return tuple(np.split(order, np.cumsum(np.bincount(number))[:-1]))

    def matrix(self, values: Vector) -> Any:
        """Return a SciPy sparse matrix with the elements ``values``, shape (count,)."""
        with needs("scipy", "a sparse Jacobian"):
            import scipy.sparse

        return scipy.sparse.csc_matrix((values, self.rows, self.starts), (self.size, self.size))

    def with_elements(self, rows: Any, columns: Any) -> Sparsity:
        return Sparsity.of_elements(
            np.concatenate((self.rows, rows)), np.concatenate((self.columns, columns)), self.size
        )


Function = Callable[[Vector], Vector]
"""The derivative (n,) as a function of the state (n,)."""
_DENSE_FROM = 64
"""From this number of blocks on, probing ends if the pattern is too full."""


def probed(function: Function, x: Vector, changes: Vector) -> Sparsity | None:
    """Return the states that affect each element of ``function`` near ``x`` (n,), or ``None``.

    The search changes blocks of states by ``changes`` (n,), and halves the blocks until each
    contains one state. Blocks that affect different elements share an evaluation, so a banded
    pattern takes about 10 log2(n) evaluations.

    The result is ``None`` if a value at ``x`` is not finite, or if the results of blocks contradict
    each other. For large models, the result is also ``None`` if more than a quarter of the elements
    are not zero. The search misses dependences without effect at ``x``, such as a product with zero
    or an unused branch.
    """
    n, base = x.size, function(x)
    if not np.all(np.isfinite(base)):
        return None
    edges, reach = np.array([0, n]), Sparsity.of_elements(np.arange(n), np.zeros(n), n)
    while True:
        halves = np.unique(np.concatenate((edges, (edges[:-1] + edges[1:]) // 2)))
        if halves.size == edges.size:
            return Sparsity(reach.starts[: n + 1], reach.rows)
        parents = np.searchsorted(edges, halves[:-1], side="right") - 1
        found = _reached(function, x, base, changes, halves, _columns(reach, parents))
        blocks = halves.size - 1
        if found is None or (blocks >= _DENSE_FROM and found[0].size > n * blocks // 4):
            return None
        edges, reach = halves, Sparsity.of_elements(*found, n)


def _columns(reach: Sparsity, which: Indices) -> Sparsity:
    sizes = np.diff(reach.starts)[which]
    rows = [reach.rows[reach.starts[k] : reach.starts[k + 1]] for k in which]
    ends = np.cumsum(sizes)
    starts = np.concatenate(([0], ends, np.full(reach.size - which.size, ends[-1])))
    return Sparsity(starts, np.concatenate(rows))


def _reached(
    function: Function, x: Vector, base: Vector, changes: Vector, edges: Indices, within: Sparsity
) -> tuple[Indices, Indices] | None:
    rows, blocks = [], []
    for group in within.groups:
        group = group[group < edges.size - 1]
        if not group.size:
            continue
        moved, owner = x.copy(), np.full(x.size, -1)
        for block in group:
            part = slice(edges[block], edges[block + 1])
            moved[part] += changes[part]
            owner[within.rows[within.starts[block] : within.starts[block + 1]]] = block
        changed = np.flatnonzero(function(moved) != base)
        if np.any(owner[changed] < 0):
            return None
        rows.append(changed)
        blocks.append(owner[changed])
    return np.concatenate(rows), np.concatenate(blocks)
