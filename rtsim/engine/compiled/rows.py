"""Parts of the compiled engine: rows of the recording, copies along wires, the copy of a tag."""

from __future__ import annotations

from typing import Any

from rtsim.engine.compiled import layout as at
from rtsim.equations.addresses import vector_at, words_at
from rtsim.equations.compiling import compiled

FULL = -2
"""Result of :func:`new_row` if the buffer of the track has no free row."""
UNRECORDED = -3
"""Result of :func:`new_row` if the track is not recorded."""


@compiled
def tick(numerator: int, denominator: int, k: int, offset: int) -> int:
    """Return the time of tick ``k`` in ns, as :meth:`rtsim.core.tag.Period.tick` does."""
    if denominator == 1:  # a division takes longer than all else here
        return offset + k * numerator
    return offset + (2 * k * numerator + denominator) // (2 * denominator)


@compiled
def ticked(w: Any, r: int, s: int, ns: int) -> None:
    """Advance the task at ``r`` from its tick at ``ns`` to its next tick."""
    if w[r + at.T_KIND] != at.TIMERS:
        k = w[s + at.K_TICKS] + 1
        w[s + at.K_TICKS] = k
        n, d = w[r + at.T_NUMERATOR], w[r + at.T_DENOMINATOR]
        w[s + at.K_NEXT] = tick(n, d, k, w[r + at.T_OFFSET])
        return
    due, first = vector_at(w, r + at.T_INTO), at.FAR
    for i in range(w[r + at.T_TIMER_COUNT]):
        timer = w[r + at.T_TIMERS] + i * at.TIMER
        j = w[timer + at.I_STATE]
        due[i] = 0.0
        if w[j + at.J_NEXT] == ns:
            due[i] = 1.0
            k = w[j + at.J_TICKS] + 1
            w[j + at.J_TICKS] = k
            n, d = w[timer + at.I_NUMERATOR], w[timer + at.I_DENOMINATOR]
            w[j + at.J_NEXT] = at.FAR if d == 0 else tick(n, d, k, w[timer + at.I_OFFSET])
        first = min(first, w[j + at.J_NEXT])
    w[s + at.K_NEXT] = first


@compiled
def gather(w: Any, first: int, count: int) -> None:
    """Copy the values of ``count`` wires; the first wire is the row at ``first``."""
    for i in range(count):
        into, source = vector_at(w, first + i * at.COPY), vector_at(w, first + i * at.COPY + 2)
        for j in range(into.size):
            into[j] = source[j]


@compiled
def new_row(w: Any, track: int) -> int:
    """Begin a row; return the index of its first word in the buffer, FULL, or UNRECORDED."""
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
    return int(row * w[r + at.R_WIDTH])


@compiled
def save(w: Any) -> None:
    """Copy all words that a tag can change, so that the tag can be undone."""
    start = w[at.CHANGING]
    end = w[at.FLIGHT] + w[start + at.IN_FLIGHT] * at.MESSAGE
    _copy_spans(w, w[at.SPAN_COUNT])
    _copy_words(w, end - start)
    w[start + at.IN_TAG] = at.UNDO_ALL


@compiled
def save_plants(w: Any) -> None:
    """Copy the words that a tag can change in which only plants reach steps of their grids."""
    _copy_spans(w, w[at.PLANT_SPANS])
    _copy_words(w, w[at.PLANT_WORDS])
    w[w[at.CHANGING] + at.IN_TAG] = at.UNDO_PLANTS


@compiled
def _copy_spans(w: Any, count: int) -> None:
    for i in range(count):
        row = w[at.SPANS] + i * at.SPAN
        span, saved = vector_at(w, row), vector_at(w, row + 2)
        for j in range(span.size):
            saved[j] = span[j]


@compiled
def _copy_words(w: Any, count: int) -> None:
    words, saved = words_at(w, at.CHANGED), words_at(w, at.SAVED_WORDS)
    for j in range(count):
        saved[j] = words[j]


@compiled
def draw(w: Any, row: int) -> int:
    """Take a row of the random numbers drawn ahead; return its first index, or NOTHING."""
    r = w[at.DRAWS] + row * at.DRAW
    i = w[w[r + at.D_STATE] + at.C_NEXT]
    if (i + 1) * w[r + at.D_WIDTH] > w[r + at.D_VALUES_LENGTH]:
        w[w[at.CHANGING] + at.DRY] = 1
        return at.NOTHING
    w[w[r + at.D_STATE] + at.C_NEXT] = i + 1
    return int(i * w[r + at.D_WIDTH])
