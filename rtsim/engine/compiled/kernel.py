"""The compiled engine: docs/semantics.md, section "The step", where all that happens is compiled.

One call of :func:`stretch` runs tag after tag, in the order in which
:class:`rtsim.engine.executive.Executive` and :class:`rtsim.engine.microsteps.Microsteps` run it:
they are the reference.  A tag that needs more than this module has is undone and left to them.

``w`` is the table of :mod:`rtsim.engine.compiled.layout`.
"""

from __future__ import annotations

import math
from typing import Any

from rtsim.core.tag import NS_PER_S
from rtsim.engine.compiled import layout as at
from rtsim.engine.compiled.messages import (
    UNRECORDED,
    answer_in_order,
    apply_answers,
    deliver,
    draw,
    gather,
    new_row,
    save,
    save_plants,
    send,
    ticked,
    wrote,
)
from rtsim.engine.compiled.pace import BEGIN, lap, ready, timing_row, wait
from rtsim.engine.compiled.plants import begin, commit_all, propagate, read_wires, refresh
from rtsim.equations.addresses import call_equation, call_update, vector_at, words_at
from rtsim.equations.compiling import compiled

_MOST_MICROSTEPS = 1000


def stretch(w: Any) -> int:
    """Run the tags before ``LIMIT``; return how many were run.

    If ``LAST`` is set, the tag at ``LIMIT`` is run too.  If ``NOW`` is ``NOTHING``, the run begins
    with the tag at 0 ns; otherwise that tag was run before.  The call returns early after ``MOST``
    tags, or if the buffer of a track is full.  It also returns early in a tag that it cannot
    finish; ``IN_TAG`` is then not 0, and the caller must undo this tag.  If ``PAUSED`` is set, a
    step of a plant takes long, and the next call continues it.
    """
    state = w[at.CHANGING]
    w[state + at.PAUSED] = 0
    tags = 0
    if w[state + at.NOW] == at.NOTHING:
        save(w)
        if not begin(w) or not _instant(w, 0):
            return 0
        w[state + at.IN_TAG] = w[state + at.NOW] = 0
        tags = 1
    paced = w[at.PACE_LENGTH] > 0
    discrete = _next_discrete(w)
    while tags < w[at.MOST] and w[state + at.NOW] < w[at.LIMIT]:
        if w[state + at.ROLLED] and not paced:  # a paced run returns by the wall clock
            return tags
        ns = propagate(w, discrete)
        if ns == at.NOTHING or ns > w[at.LIMIT] or (ns == w[at.LIMIT] and not w[at.LAST]):
            return tags
        if paced:
            w[state + at.ANSWER] = wait(w, ns)
            if w[state + at.ANSWER] != BEGIN:
                return tags
        if ns == discrete:
            save(w)
        else:
            save_plants(w)
        if not commit_all(w, ns):
            return tags
        if ns == discrete:
            if not _instant(w, ns):
                return tags
            discrete = _next_discrete(w)
        elif w[at.COUPLED] and not refresh(w, ns, 0):
            return tags
        if paced and not timing_row(w, w[state + at.NOW]):
            return tags
        w[state + at.IN_TAG] = 0
        w[state + at.NOW] = ns
        if paced:
            ready(w)
        tags += 1
    return tags


@compiled
def _next_discrete(w: Any) -> int:
    """The earliest time at which something other than a plant's own grid happens."""
    ns = w[at.LIMIT]
    if w[w[at.CHANGING] + at.IN_FLIGHT] and w[w[at.FLIGHT] + at.F_NS] < ns:
        ns = w[w[at.FLIGHT] + at.F_NS]
    for i in range(w[at.TASK_COUNT]):
        s = w[w[at.TASKS] + i * at.TASK + at.T_STATE]
        if w[s + at.K_NEXT] < ns:
            ns = w[s + at.K_NEXT]
        if w[s + at.K_OPEN] and w[s + at.K_DUE] < ns:
            ns = w[s + at.K_DUE]
    return int(ns)


@compiled
def _instant(w: Any, ns: int) -> bool:
    """The microsteps at ``ns``; false where the tag cannot be finished."""
    for i in range(w[at.ANSWER_COUNT]):
        r = w[w[at.ANSWERS] + i]
        s = w[r + at.T_STATE]
        if w[s + at.K_OPEN] and w[s + at.K_DUE] <= ns and not _answer(w, r):
            return False
    deliver(w, ns, 0)
    for i in range(w[at.TASK_COUNT]):
        r = w[at.TASKS] + i * at.TASK
        s = w[r + at.T_STATE]
        if w[s + at.K_NEXT] == ns:
            ticked(w, r, s, ns)
            if not _react(w, r, ns):
                return False
            if w[r + at.T_ORDERED]:
                answer_in_order(w, ns, 0)
            lap(w, at.FIRST_TASK_JOB + i)
    apply_answers(w)
    _apply_writes(w)
    step = 0
    while True:
        if not refresh(w, ns, step):
            return False
        waiting = w[w[at.CHANGING] + at.IN_FLIGHT] > 0 and w[w[at.FLIGHT] + at.F_NS] <= ns
        if not waiting:
            return True
        step += 1
        if step > _MOST_MICROSTEPS:
            return False
        deliver(w, ns, step)


@compiled
def _react(w: Any, r: int, ns: int) -> bool:
    kind = w[r + at.T_KIND]
    if kind == at.UPDATE:
        return _update(w, r, ns)
    if kind == at.TIMERS:
        return _tick_timers(w, r, ns)
    if kind == at.NOISE:
        drawn = draw(w, w[r + at.T_DRAW])
        w[w[r + at.T_STATE] + at.K_WRITES] = drawn + 1
        return drawn != at.NOTHING
    gather(w, w[r + at.T_COPIES], w[r + at.T_COPY_COUNT])
    if kind == at.SENSOR:
        return send(w, w[r + at.T_TOPIC], ns, 0, ns, 0, r + at.T_INTO)
    return _request(w, r, ns)


@compiled
def _request(w: Any, r: int, ns: int) -> bool:
    """A controller samples its inputs and computes; its answer is sent when it is due."""
    s = w[r + at.T_STATE]
    if w[s + at.K_OPEN] or not _sampled_row(w, r, ns):
        return False
    w[s + at.K_SEQUENCE] += 1
    into, u = vector_at(w, r + at.T_INTO), vector_at(w, r + at.T_FIRST)
    for j in range(u.size):
        u[j] = into[j]
    y = vector_at(w, r + at.T_FOURTH)
    call_update(
        w[r + at.T_FUNCTION], ns / NS_PER_S, u, vector_at(w, r + at.T_SECOND),
        vector_at(w, r + at.T_THIRD), y,
    )  # fmt: skip
    if not _finite(y):  # it failed, which the interpreter reports
        return False
    w[s + at.K_OPEN], w[s + at.K_TAG], w[s + at.K_TAG_STEP] = 1, ns, 0
    delay = w[r + at.T_DELAY]
    if w[r + at.T_DRAW] != at.NOTHING:
        drawn = draw(w, w[r + at.T_DRAW])
        if drawn == at.NOTHING:
            return False
        delay = words_at(w, w[at.DRAWS] + w[r + at.T_DRAW] * at.DRAW + at.D_VALUES)[drawn]
    w[s + at.K_DUE], w[s + at.K_DUE_STEP] = ns + delay, 0
    return delay > 0 or _answer(w, r)


@compiled
def _answer(w: Any, r: int) -> bool:
    s = w[r + at.T_STATE]
    y = vector_at(w, r + at.T_FOURTH)
    for j in range(y.size):
        if not math.isfinite(y[j]):
            return False
    w[s + at.K_OPEN] = 0
    return send(
        w, w[r + at.T_TOPIC], w[s + at.K_TAG], w[s + at.K_TAG_STEP], w[s + at.K_DUE],
        w[s + at.K_DUE_STEP], r + at.T_FOURTH,
    )  # fmt: skip


@compiled
def _sampled_row(w: Any, r: int, ns: int) -> bool:
    track = w[r + at.T_TRACK]
    first = new_row(w, track)
    if first < 0:
        return first == UNRECORDED
    block = w[w[at.TRACKS] + track * at.TRACK + at.R_STATE] + at.B_BLOCK
    words, doubles, into = words_at(w, block), vector_at(w, block), vector_at(w, r + at.T_INTO)
    words[first], words[first + 1] = ns, w[w[r + at.T_STATE] + at.K_SEQUENCE]
    for j in range(3):
        words[first + 2 + 2 * j], words[first + 3 + 2 * j] = ns, 0
    words[first + 8] = 0
    for j in range(into.size):
        doubles[first + 9 + j] = into[j]
    return True


@compiled
def _update(w: Any, r: int, ns: int) -> bool:
    """The discrete update of a plant, into a scratch of its own."""
    read_wires(w, w[r + at.T_PLANT])
    now, z = vector_at(w, r + at.T_Z), vector_at(w, r + at.T_SECOND)
    for j in range(z.size):
        z[j] = now[j]
    call_update(
        w[r + at.T_FUNCTION], ns / NS_PER_S, vector_at(w, r + at.T_FIRST), z,
        vector_at(w, r + at.T_THIRD), vector_at(w, r + at.T_FOURTH),
    )  # fmt: skip
    w[w[r + at.T_STATE] + at.K_WRITES] = 1
    return _finite(z)


@compiled
def _tick_timers(w: Any, r: int, ns: int) -> bool:
    """The timers of a plant that are due, into scratches of its states and discrete states."""
    plant = w[r + at.T_PLANT]
    read_wires(w, plant)
    x_now, x = vector_at(w, plant + at.P_X), vector_at(w, r + at.T_FIRST)
    z_now, z = vector_at(w, r + at.T_Z), vector_at(w, r + at.T_SECOND)
    for j in range(x.size):
        x[j] = x_now[j]
    for j in range(z.size):
        z[j] = z_now[j]
    if w[r + at.T_DRAW] != at.NOTHING:
        drawn = draw(w, w[r + at.T_DRAW])
        if drawn == at.NOTHING:
            return False
        values = vector_at(w, w[at.DRAWS] + w[r + at.T_DRAW] * at.DRAW + at.D_VALUES)
        into = vector_at(w, r + at.T_PORT)
        for j in range(into.size):
            into[j] = values[drawn + j]
    call_equation(
        w[r + at.T_FUNCTION], ns / NS_PER_S, vector_at(w, r + at.T_INTO), x, z,
        vector_at(w, r + at.T_THIRD), vector_at(w, r + at.T_FOURTH),
    )  # fmt: skip
    w[w[r + at.T_STATE] + at.K_WRITES] = 1
    return _finite(x) and _finite(z)


@compiled
def _finite(vector: Any) -> bool:
    finite = True
    for j in range(vector.size):
        finite = finite and math.isfinite(vector[j])
    return finite


@compiled
def _apply_writes(w: Any) -> None:
    """What the updates, timers and noises of this microstep wrote."""
    for i in range(w[at.TASK_COUNT]):
        r = w[at.TASKS] + i * at.TASK
        kind, writes = w[r + at.T_KIND], w[w[r + at.T_STATE] + at.K_WRITES]
        if not writes:
            continue
        w[w[r + at.T_STATE] + at.K_WRITES] = 0
        if kind == at.NOISE:
            values = vector_at(w, w[at.DRAWS] + w[r + at.T_DRAW] * at.DRAW + at.D_VALUES)
            port, early = vector_at(w, r + at.T_PORT), vector_at(w, r + at.T_EARLY)
            for j in range(port.size):
                port[j] = values[writes - 1 + j]
                early[j] = values[writes - 1 + j]
            wrote(w, r + at.T_READERS)
            continue
        _write(w, r, r + at.T_Z, r + at.T_SECOND)
        if kind == at.TIMERS:
            _write(w, r, w[r + at.T_PLANT] + at.P_X, r + at.T_FIRST)


@compiled
def _write(w: Any, r: int, into: int, source: int) -> None:
    now, new = words_at(w, into), words_at(w, source)
    for j in range(now.size):
        if now[j] != new[j]:
            now[j] = new[j]
            w[w[w[r + at.T_PLANT] + at.P_STATE] + at.S_TOUCHED] = 1
