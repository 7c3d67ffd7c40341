"""What a notebook shows of a linear system: its names, its poles, and small matrices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from rtsim.record import markup

_MOST_COLUMNS = 12
"""Greatest number of states and inputs together whose matrices are shown."""


def shown_system(
    name: str,
    facts: Mapping[str, object],
    poles: Sequence[tuple[complex, float, float]],
    matrix: NDArray[np.float64],
    rows: Sequence[str],
    columns: Sequence[str],
) -> str:
    """Return a linear system as HTML.

    ``poles``: value (rad/s), frequency (rad/s) and damping of each pole.  ``matrix``: [A B; C D],
    with the names of its rows and of its columns.
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
