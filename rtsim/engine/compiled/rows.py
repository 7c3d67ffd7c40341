"""Parts of the compiled engine: rows of the recording, copies along wires, the copy of a tag."""

from __future__ import annotations

from typing import Any

from rtsim.engine.compiled import layout as at
from rtsim.equations.addresses import vector_at, words_at
from rtsim.equations.compiling import compiled

FULL = -2
"""No block of the track has a free row."""
UNRECORDED = -3
"""The track keeps no rows."""


@compiled
def tick(numerator: int, denominator: int, k: int, offset: int) -> int:
    """The time of tick ``k``: :meth:`rtsim.core.tag.Period.tick`."""
    return offset + (2 * k * numerator + denominator) // (2 * denominator)


@compiled
def gather(w: Any, first: int, count: int) -> None:
    """Copy along ``count`` wires, of which the first is the row at ``first``."""
    for i in range(count):
        into, source = vector_at(w, first + i * at.COPY), vector_at(w, first + i * at.COPY + 2)
        for j in range(into.size):
            into[j] = source[j]


@compiled
def new_row(w: Any, track: int) -> int:
    """Begin a row; return its first word in the track's present block, or FULL, or UNRECORDED."""
    r = w[at.TRACKS] + track * at.TRACK
    s = w[r + at.R_STATE]
    if w[s + at.B_BLOCK_LENGTH] == 0:
        w[s + at.B_ROW] += 1
        return UNRECORDED
    if w[s + at.B_ROW] == w[r + at.R_CAPACITY]:
        if w[s + at.B_ROLLED]:
            return FULL
        w[s + at.B_BLOCK] = w[s + at.B_SPARE]
        w[s + at.B_ROW], w[s + at.B_ROLLED] = 0, 1
        w[w[at.CHANGING] + at.ROLLED] = 1
    row = w[s + at.B_ROW]
    w[s + at.B_ROW] = row + 1
    return row * w[r + at.R_WIDTH]


@compiled
def save(w: Any) -> None:
    """Copy all that a tag can change."""
    saved, first = vector_at(w, at.SAVED), 0
    for i in range(w[at.SPAN_COUNT]):
        span = vector_at(w, w[at.SPANS] + 2 * i)
        for j in range(span.size):
            saved[first + j] = span[j]
        first += span.size
    words, start = words_at(w, at.SAVED_WORDS), w[at.CHANGING]
    end = w[at.FLIGHT] + w[start + at.IN_FLIGHT] * at.MESSAGE
    for j in range(end - start):
        words[j] = w[start + j]
