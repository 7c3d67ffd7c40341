"""Parts of the compiled engine: what plants do at a tag.

The reference is :class:`rtsim.components.plant.Plant`.
"""

from __future__ import annotations

import math
from typing import Any

from rtsim.core.tag import NS_PER_S
from rtsim.engine.compiled import layout as at
from rtsim.engine.compiled.messages import UNRECORDED, gather, new_row, tick
from rtsim.equations.addresses import call_drive, call_step, matrix_at, vector_at, words_at
from rtsim.equations.calls import evaluate
from rtsim.equations.compiling import compiled
from rtsim.solve import GOOD, PAUSED
from rtsim.solve.guard_table import CAME_TO, GUARD_TABLE, LEFT_AT, SIDE_BEFORE, SIGN, sign

_evaluate = compiled(evaluate)
_AT = GUARD_TABLE.at


@compiled
def begin(w: Any) -> bool:
    """Compute and record the plants at 0 ns.

    Returns False if an output is not finite, or a guard is not a number or fires at the start.
    """
    for i in range(w[at.PLANT_COUNT]):
        if not _sample(w, w[at.PLANTS] + i * at.PLANT, 0):
            return False
    for i in range(w[at.PLANT_COUNT]):
        read_wires(w, w[at.PLANTS] + i * at.PLANT)
    for i in range(w[at.PLANT_COUNT]):
        r = w[at.PLANTS] + i * at.PLANT
        s = w[r + at.P_STATE]
        w[s + at.S_TOUCHED], w[s + at.S_UNSETTLED] = 0, 0
        if _take_inputs(w, r) and not _sample(w, r, 0):
            return False
        if w[r + at.P_DRIVE]:
            guards, g = words_at(w, r + at.P_GUARD_TABLE), vector_at(w, r + at.P_G)
            known, at_start = matrix_at(guards, _AT.here), vector_at(guards, _AT.at_start)
            _evaluate(words_at(w, r + at.P_GUARDS), 0.0)
            for j in range(g.size):
                for row in range(known.shape[0]):
                    known[row, j] = 0.0
                known[SIGN, j] = known[SIDE_BEFORE, j] = sign(g[j])
                if math.isnan(g[j]) or (at_start[j] != 0.0 and sign(g[j]) == at_start[j]):
                    return False
        if not _plant_row(w, r, 0, 0, 0):
            return False
    return True


@compiled
def _take_inputs(w: Any, r: int) -> bool:
    """Make what the wires brought the inputs; true if one of them differs."""
    into, u = words_at(w, r + at.P_INTO), words_at(w, r + at.P_U)
    written = False
    for j in range(into.size):
        if u[j] != into[j]:
            u[j] = into[j]
            written = True
    return written


@compiled
def propagate(w: Any, discrete: int) -> int:
    """Take provisional steps up to ``discrete``; return the next tag's ns.

    Returns NOTHING if a step fails or pauses; the next call continues a paused step.
    """
    ns = discrete
    for i in range(w[at.PLANT_COUNT]):
        r = w[at.PLANTS] + i * at.PLANT
        s = w[r + at.P_STATE]
        if w[s + at.S_TARGET] > discrete or w[s + at.S_TARGET] == at.NOTHING:
            target = _advance(w, r, w[s + at.S_NS], min(w[s + at.S_GRID], discrete))
            if target == at.NOTHING:
                return at.NOTHING
            w[s + at.S_TARGET] = target
        if w[s + at.S_TARGET] < ns:
            ns = w[s + at.S_TARGET]
    return ns


@compiled
def _advance(w: Any, r: int, now: int, target: int) -> int:
    """A provisional step to ``target``, or to where a guard fires; else NOTHING."""
    words = words_at(w, r + at.P_WORDS)
    if w[r + at.P_DRIVE] == 0:
        h = (target - now) / NS_PER_S
        answer = call_step(w[r + at.P_STEP], words, now / NS_PER_S, h)
        if answer == GOOD:
            return target
        w[w[at.CHANGING] + at.PAUSED] = answer == PAUSED
        return at.NOTHING
    guards = words_at(w, r + at.P_GUARD_TABLE)
    answer = call_drive(w[r + at.P_DRIVE], words, guards, now, target)
    if answer != GOOD:
        w[w[at.CHANGING] + at.PAUSED] = answer == PAUSED
        return at.NOTHING
    return now + int(vector_at(guards, _AT.reached)[0])


@compiled
def commit_all(w: Any, ns: int) -> bool:
    """Commit the steps that end at ``ns``; return False on a non-finite output or a full track."""
    for i in range(w[at.PLANT_COUNT]):
        r = w[at.PLANTS] + i * at.PLANT
        s = w[r + at.P_STATE]
        if w[s + at.S_TARGET] != ns:
            continue
        if w[r + at.P_DRIVE]:
            if _fires(w, r):
                return False
            guards = words_at(w, r + at.P_GUARD_TABLE)
            known, ahead = matrix_at(guards, _AT.here), matrix_at(guards, _AT.there)
            for row in range(known.shape[0]):
                for j in range(known.shape[1]):
                    known[row, j] = ahead[row, j]
        x, end = vector_at(w, r + at.P_X), vector_at(w, r + at.P_NEXT)
        for j in range(x.size):
            x[j] = end[j]
        memory, after = vector_at(w, r + at.P_MEMORY), vector_at(w, r + at.P_AFTER)
        for j in range(memory.size):
            memory[j] = after[j]
        w[s + at.S_NS], w[s + at.S_TARGET] = ns, at.NOTHING
        if w[s + at.S_GRID] == ns:
            k = w[s + at.S_K] + 1
            w[s + at.S_K] = k
            w[s + at.S_GRID] = tick(w[r + at.P_NUMERATOR], w[r + at.P_DENOMINATOR], k, 0)
        if not _sample(w, r, ns) or not _plant_row(w, r, ns, 0, 0):
            return False
    return True


@compiled
def _fires(w: Any, r: int) -> bool:
    """A guard crosses zero at the end of the provisional step."""
    fired = vector_at(words_at(w, r + at.P_GUARD_TABLE), _AT.fired)
    found = False
    for i in range(fired.size):
        found = found or fired[i] != 0.0
    return found


@compiled
def _sample(w: Any, r: int, ns: int) -> bool:
    """The outputs at the present state and inputs; false where one is not finite."""
    if w[r + at.P_OUTPUT_LENGTH] == 0:
        return True
    return _evaluate(words_at(w, r + at.P_OUTPUT), ns / NS_PER_S) < 0


@compiled
def _plant_row(w: Any, r: int, ns: int, step: int, side: int) -> bool:
    track = w[r + at.P_TRACK]
    first = new_row(w, track)
    if first < 0:
        return first == UNRECORDED
    block = w[w[at.TRACKS] + track * at.TRACK + at.R_STATE] + at.B_BLOCK
    words, doubles, values = words_at(w, block), vector_at(w, block), vector_at(w, r + at.P_VALUES)
    words[first], words[first + 1], words[first + 2] = ns, step, side
    for j in range(values.size):
        doubles[first + 3 + j] = values[j]
    return True


@compiled
def refresh(w: Any, ns: int, step: int) -> bool:
    """Let all plants at ``ns`` read their inputs; then change them and record x+."""
    for i in range(w[at.PLANT_COUNT]):
        r = w[at.PLANTS] + i * at.PLANT
        s = w[r + at.P_STATE]
        stirred = w[s + at.S_STALE] or w[s + at.S_TOUCHED] or w[s + at.S_UNSETTLED]
        w[s + at.S_HERE] = w[s + at.S_NS] == ns and (stirred or w[r + at.P_COUPLED])
        if w[s + at.S_HERE]:
            read_wires(w, r)
    for i in range(w[at.PLANT_COUNT]):
        r = w[at.PLANTS] + i * at.PLANT
        if w[w[r + at.P_STATE] + at.S_HERE] and not _settle(w, r, ns, step):
            return False
    return True


@compiled
def read_wires(w: Any, r: int) -> None:
    s = w[r + at.P_STATE]
    if w[r + at.P_INTO_LENGTH] and (w[s + at.S_STALE] or w[r + at.P_COUPLED]):
        w[s + at.S_STALE], w[s + at.S_UNSETTLED] = 0, 1
        gather(w, w[r + at.P_COPIES], w[r + at.P_COPY_COUNT])


@compiled
def _settle(w: Any, r: int, ns: int, step: int) -> bool:
    """Make what the wires brought the inputs; record x+ if it differs from x-."""
    s = w[r + at.P_STATE]
    written = w[s + at.S_TOUCHED]
    w[s + at.S_TOUCHED], w[s + at.S_UNSETTLED] = 0, 0
    if _take_inputs(w, r):
        written = 1
    if not written:
        return True
    memory = vector_at(w, r + at.P_MEMORY)
    for j in range(w[r + at.P_KEPT], memory.size):
        memory[j] = 0.0
    if w[r + at.P_DRIVE] and not _guards_stay(w, r, ns):
        return False
    return _sample(w, r, ns) and _plant_row(w, r, ns, step, 1)


@compiled
def _guards_stay(w: Any, r: int, ns: int) -> bool:
    """After writes: no guard fires, none left zero, and none stands where it fired before.

    These cases are rare, and the interpreter's.
    """
    guards, g = words_at(w, r + at.P_GUARD_TABLE), vector_at(w, r + at.P_G)
    known, directions = matrix_at(guards, _AT.here), vector_at(guards, _AT.directions)
    _evaluate(words_at(w, r + at.P_GUARDS), ns / NS_PER_S)
    for i in range(g.size):
        now = sign(g[i])
        left = known[SIGN, i] != now and now != 0.0
        if (
            math.isnan(g[i])
            or (left and directions[i] in (0.0, now))
            or known[CAME_TO, i] != 0.0
            or known[LEFT_AT, i] != 0.0
        ):
            return False
        known[SIGN, i] = now
        if now != 0.0:
            known[SIDE_BEFORE, i] = now
    return True
