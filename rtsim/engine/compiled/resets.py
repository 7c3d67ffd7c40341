"""Resets of guards in compiled code, for exported models.

In a run of rtsim, the interpreter executes the tags at which a guard fires, with
:class:`rtsim.solve.guard_watch.GuardWatch`. The class is the reference for this module, and its
docstrings explain each rule. An exported model has no interpreter. Its plants have a record
:data:`~rtsim.engine.compiled.records.WATCH`, and the kernel calls the functions of this module.

In all functions, ``plant`` is a record ``rtsim.engine.compiled.records.PLANT``, and ``ns`` the time
of the tag. A function returns False if the run must end with an error.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rtsim.components.plant import RunningPlant
from rtsim.core.tag import NS_PER_S
from rtsim.engine.compiled.records import WATCH, place_of
from rtsim.equations.addresses import (
    call_reset,
    matrix_at,
    records_of,
    vector_at,
    vector_of,
    words_of,
)
from rtsim.equations.calls import evaluate
from rtsim.equations.compiling import compiled
from rtsim.equations.delays import ZENO
from rtsim.solve.guard_table import CAME_TO, GUARD_TABLE, LATE, LEFT_AT, SIDE_BEFORE, SIGN, sign
from rtsim.solve.guard_watch import (
    CHATTER_IN_A_ROW,
    NEAR,
    ZENO_IN_A_ROW,
    ZENO_NS,
    motion_block,
    resident_moving,
)

_AT = GUARD_TABLE.at
_evaluate, _moving = compiled(evaluate), compiled(resident_moving)

CROSSED, CROSSED_FROM, LEVEL, NOTED, STARTING, OWN, OWN_LEVEL, OWN_CHANGE = range(8)
"""Rows of the array ``marks``, one column for each guard.

- ``CROSSED``: 1 if the guard fired at this tag; ``CROSSED_FROM`` is then its side.
- ``LEVEL``, ``NOTED``, ``STARTING``: as the attributes of GuardWatch with these names.
- ``OWN``: 1 if the guard's own reset was executed at this tag; the next two rows are then the value
  and the slope of the guard after this reset.
"""
_ROWS = 8
TERMINAL, STOPS, ENDS = range(3)
"""Rows of the array ``rules``: 1 if the guard ends the run, has a stop mode, or ends the run when
its crossings accumulate."""
AT_ONCE, CLOSE, BEGAN, STOPPED, COUNT, FIRST_TIME = range(6)
"""Words of each guard in the array ``times``: the attributes of
:class:`rtsim.solve.guard_watch.Crossings`, and the latest crossing times (ns)."""
_WORDS = FIRST_TIME + ZENO_IN_A_ROW + 1
DID_RESET = 0
"""Element of the array ``notes``: 1 if a reset of this microstep has not been written yet."""


def watch_of(plant: RunningPlant) -> tuple[Any, list[Any]]:
    """Return the record WATCH of a plant with guards, and its arrays."""
    bound, guards = plant.bound, plant.bound.model.guards
    vectors, m = (plant.x, plant.z, plant.u, plant.p), len(guards)
    then, own = ([v.copy() for v in vectors] for _ in range(2))
    moves, held, own_found = np.zeros((2, 2, m)), np.zeros((2, m)), np.zeros((2, m))
    blocks = {
        "moved": motion_block(bound, tuple(then), moves[0]),
        "moving": motion_block(bound, vectors, moves[1]),
        "holding": motion_block(bound, (plant.next_x, *vectors[1:]), held),
        "own": motion_block(bound, tuple(own), own_found),
    }
    stop = bound.model.stop is not None
    rules = [
        [float(g.terminal is True), float(stop and g.stops), float(g.terminal == ZENO)]
        for g in guards
    ]
    times = np.zeros((m, _WORDS), np.int64)
    times[:, STOPPED] = -ZENO_NS
    arrays = {
        "marks": np.zeros((_ROWS, m)).reshape(-1),
        "rules": np.array(rules).T.reshape(-1).copy(),
        "times": times.reshape(-1),
        "notes": np.zeros(1),
        "moves": moves.reshape(-1),
        "held": held.reshape(-1),
        "own_found": own_found.reshape(-1),
        "new_x": plant.x.copy(),
        "new_z": plant.z.copy(),
        "end": plant.next_x,
        **dict(zip("xzup", vectors, strict=True)),
        **{f"then_{n}": v for n, v in zip("xzup", then, strict=True)},
        **{f"own_{n}": v for n, v in zip("xzup", own, strict=True)},
        **{name: block.words for name, block in blocks.items()},
    }
    record = np.zeros(1, WATCH)
    record["reset"] = int(bound.reset.handle)
    record["stop"] = int(bound.stop.handle) if stop else 0
    for name, array in arrays.items():
        record[name] = place_of(array)
    return record, [*blocks.values(), *arrays.values(), record]


@compiled
def watch_at(plant: Any) -> Any:
    return records_of(plant.watch, WATCH)[0]


@compiled
def guards_here(plant: Any) -> Any:
    """Return the array ``here`` of the guard table, shape (5, m)."""
    return matrix_at(words_of(plant.guard_table), _AT.here)


@compiled
def guards_fired(plant: Any) -> Any:
    """Return the array ``fired`` of the guard table, shape (m,)."""
    return vector_at(words_of(plant.guard_table), _AT.fired)


@compiled
def _seconds(plant: Any, ns: int) -> float:
    """Return the time (s) of the state at ``ns``, up to 1 ns earlier after a crossing."""
    return float(ns / NS_PER_S - guards_here(plant)[LATE, 0])


@compiled
def _copy(source: Any, into: Any) -> None:
    old, new = vector_of(source), vector_of(into)
    for j in range(new.size):
        new[j] = old[j]


@compiled
def guards_fire(plant: Any) -> bool:
    """Return whether a guard of the plant fires."""
    if plant.drive == 0:
        return False
    fired, found = guards_fired(plant), False
    for i in range(fired.size):
        found = found or fired[i] != 0.0
    return found


@compiled
def leave_tag(plant: Any) -> None:
    """Forget the crossings of the latest tag, when the plant's next step begins."""
    marks, m = vector_of(watch_at(plant).marks), plant.g.length
    for i in range(m):
        marks[CROSSED * m + i] = marks[OWN * m + i] = 0.0


@compiled
def note_commit(plant: Any) -> None:
    """Note the guards that fire at the end of the committed step."""
    here, came = guards_here(plant), False
    for i in range(here.shape[1]):
        came = came or here[CAME_TO, i] != 0.0
    if came or guards_fire(plant):
        _note_fired(plant)


@compiled
def _note_fired(plant: Any) -> None:
    watch, m, here, fired = watch_at(plant), plant.g.length, guards_here(plant), guards_fired(plant)
    marks = vector_of(watch.marks)
    for i in range(m):
        if fired[i] != 0.0 and marks[NOTED * m + i] == 0.0:
            marks[NOTED * m + i] = marks[CROSSED * m + i] = 1.0
            side = here[SIGN, i]
            marks[CROSSED_FROM * m + i] = side if side != 0.0 else here[CAME_TO, i]
            marks[LEVEL * m + i] = here[LEFT_AT, i]
            here[LEFT_AT, i] = 0.0
    _copy(watch.x, watch.then_x)
    _copy(watch.z, watch.then_z)
    _copy(watch.u, watch.then_u)
    _copy(watch.p, watch.then_p)


ON, END_OF_RUN, FAILURE = range(3)
"""Results of :func:`fire_guards`."""


@compiled
def fire_guards(plant: Any, ns: int) -> int:
    """Compute the resets of all guards that have fired.

    Return END_OF_RUN if a guard ends the run, FAILURE after an error, and otherwise ON.
    """
    watch, m, fired = watch_at(plant), plant.g.length, guards_fired(plant)
    marks, rules = vector_of(watch.marks), vector_of(watch.rules)
    _copy(watch.x, watch.new_x)
    _copy(watch.z, watch.new_z)
    _note_fired(plant)
    answer, last = ON, 0
    for i in range(m):
        marks[NOTED * m + i] = marks[STARTING * m + i] = marks[OWN * m + i] = 0.0
        if fired[i] != 0.0:
            last = i
            if rules[TERMINAL * m + i] != 0.0:
                answer = END_OF_RUN
    for i in range(m):
        if fired[i] == 0.0:
            continue
        _count(watch, i, ns)
        function, ends = watch.reset, rules[ENDS * m + i] != 0.0
        if _accumulates(watch, i):
            if ends:
                answer = END_OF_RUN
            if rules[STOPS * m + i] != 0.0:
                if not _stops(watch, i, ns):
                    return FAILURE
                function = watch.stop
            elif not ends:
                return FAILURE
        x, z, t = vector_of(watch.new_x), vector_of(watch.new_z), _seconds(plant, ns)
        if function != 0:  # 0: no guard of the model has a reset
            call_reset(function, i, t, x, z, vector_of(watch.u), vector_of(watch.p))
        if not (_finite(x) and _finite(z)):
            return FAILURE
        _note_own(watch, m, i, t, i == last)
    for i in range(m):
        fired[i] = 0.0
    vector_of(watch.notes)[DID_RESET] = 1.0
    return answer


@compiled
def _finite(vector: Any) -> bool:
    finite = True
    for j in range(vector.size):
        finite = finite and math.isfinite(vector[j])
    return finite


@compiled
def _note_own(watch: Any, m: int, i: int, t: float, last: bool) -> None:
    """Store the value and slope of guard ``i`` after its own reset, unless no reset follows."""
    marks = vector_of(watch.marks)
    marks[OWN * m + i] = 1.0
    marks[OWN_LEVEL * m + i], marks[OWN_CHANGE * m + i] = math.inf, 0.0
    if last:
        return
    _copy(watch.new_x, watch.own_x)
    _copy(watch.new_z, watch.own_z)
    _copy(watch.u, watch.own_u)
    _copy(watch.p, watch.own_p)
    _moving(words_of(watch.own), t)
    found = vector_of(watch.own_found)
    marks[OWN_LEVEL * m + i], marks[OWN_CHANGE * m + i] = found[i], found[m + i]


@compiled
def did_reset(plant: Any) -> bool:
    """Return whether a reset was computed but not yet written."""
    return bool(plant.watch.length and vector_of(watch_at(plant).notes)[DID_RESET] != 0.0)


@compiled
def write_resets(plant: Any) -> bool:
    """Write the results of resets; return whether a value has changed."""
    watch = watch_at(plant)
    vector_of(watch.notes)[DID_RESET] = 0.0
    x_changed = write_changed(watch.x, watch.new_x)
    return write_changed(watch.z, watch.new_z) or x_changed


@compiled
def write_changed(into: Any, source: Any) -> bool:
    """Copy a vector; return whether a bit has changed."""
    now, new, changed = words_of(into), words_of(source), False
    for j in range(now.size):
        if now[j] != new[j]:
            now[j] = new[j]
            changed = True
    return changed


# Zeno behaviour, as in rtsim.solve.guard_watch.Crossings


@compiled
def _count(watch: Any, i: int, ns: int) -> None:
    times, at = words_of(watch.times), i * _WORDS
    count, most = times[at + COUNT], ZENO_IN_A_ROW + 1
    first = at + FIRST_TIME
    if count and times[first + count - 1] == ns:
        times[at + AT_ONCE] += 1
        return
    times[at + AT_ONCE] = 1
    if count and ns - times[first + count - 1] < ZENO_NS:
        times[at + CLOSE] += 1
    else:
        times[at + CLOSE], times[at + BEGAN] = 0, ns
    if count == most:
        for j in range(most - 1):
            times[first + j] = times[first + j + 1]
        count -= 1
    times[first + count] = ns
    times[at + COUNT] = count + 1


@compiled
def _accumulates(watch: Any, i: int) -> bool:
    times, at = words_of(watch.times), i * _WORDS
    first = at + FIRST_TIME
    if times[at + AT_ONCE] >= CHATTER_IN_A_ROW or times[at + CLOSE] >= CHATTER_IN_A_ROW:
        return True
    if times[at + COUNT] <= ZENO_IN_A_ROW or times[first + 1] - times[first] >= ZENO_NS:
        return False
    faster = True
    for j in range(first, first + ZENO_IN_A_ROW - 1):
        faster = faster and times[j + 2] - times[j + 1] <= times[j + 1] - times[j]
    return faster


@compiled
def _stops(watch: Any, i: int, ns: int) -> bool:
    """Clear the crossing times of a guard; return False if its stop mode had no effect."""
    times, at = words_of(watch.times), i * _WORDS
    chatters = times[at + CLOSE] >= CHATTER_IN_A_ROW
    began = times[at + BEGAN] if chatters else times[at + FIRST_TIME]
    first = began - times[at + STOPPED] >= ZENO_NS
    times[at + COUNT] = times[at + AT_ONCE] = times[at + CLOSE] = 0
    times[at + STOPPED] = ns
    return bool(first)


# Guards that fire because values were written


@compiled
def begin_guards(plant: Any) -> bool:
    """Initialise the guards at 0 ns; a guard that is already beyond zero can fire."""
    here, g, m = guards_here(plant), vector_of(plant.g), plant.g.length
    at_start = vector_at(words_of(plant.guard_table), _AT.at_start)
    marks, fired = vector_of(watch_at(plant).marks), guards_fired(plant)
    _evaluate(words_of(plant.guards), 0.0)
    for i in range(m):
        if math.isnan(g[i]):
            return False
        for row in range(here.shape[0]):
            here[row, i] = 0.0
        here[SIGN, i] = here[SIDE_BEFORE, i] = sign(g[i])
        starts = at_start[i] != 0.0 and sign(g[i]) == at_start[i]
        marks[STARTING * m + i] = fired[i] = 1.0 if starts else 0.0
    return True


@compiled
def guards_changed(plant: Any, ns: int) -> bool:
    """Find the guards that fire because states or inputs changed at the time ``ns``."""
    watch, m, here, fired = watch_at(plant), plant.g.length, guards_here(plant), guards_fired(plant)
    directions = vector_at(words_of(plant.guard_table), _AT.directions)
    marks, g = vector_of(watch.marks), vector_of(plant.g)
    _evaluate(words_of(plant.guards), _seconds(plant, ns))
    beyond = came = any_crossed = False
    for i in range(m):
        if math.isnan(g[i]):
            return False
        now, way = sign(g[i]), directions[i]
        starting = marks[STARTING * m + i] != 0.0
        goes_on = starting and now == way
        marks[STARTING * m + i] = 1.0 if goes_on else 0.0
        fired[i] = 1.0 if goes_on or (fired[i] != 0.0 and not starting) else 0.0
        side = here[SIGN, i]
        if side == 0.0:
            side = here[CAME_TO, i]
        if side == 0.0:
            side = -way
        if side == 0.0:
            side = here[SIDE_BEFORE, i]
        here[SIGN, i] = now
        if now != 0.0:
            here[SIDE_BEFORE, i] = now
        if now == -side and now != 0.0 and way in (0.0, now):
            fired[i] = 1.0
        level = here[LEFT_AT, i]
        if level != 0.0 and not (g[i] * level > 0.0 and abs(g[i]) <= abs(level)):
            here[LEFT_AT, i] = 0.0
        came = came or here[CAME_TO, i] != 0.0
        if marks[CROSSED * m + i] != 0.0:
            any_crossed = True
            beyond = beyond or (now != 0.0 and now == marks[CROSSED_FROM * m + i])
    if not (beyond or came or (any_crossed and m > 1)):
        return True
    _moving(words_of(watch.moved), _seconds(plant, ns))
    _moving(words_of(watch.moving), _seconds(plant, ns))
    _moving(words_of(watch.holding), _seconds(plant, ns))
    moves = vector_of(watch.moves)
    if not any_crossed:
        for i in range(m):
            moves[m + i] = 0.0
    for i in range(m):
        if here[CAME_TO, i] != 0.0:
            _still_at_zero(watch, m, i, here, sign(g[i]))
    if any_crossed:
        for i in range(m):
            if marks[CROSSED * m + i] != 0.0:
                _turned_back(watch, m, i, here, sign(g[i]))
        for i in range(m):
            if fired[i] == 0.0 and _arrives(watch, m, i, here, directions[i]):
                fired[i] = 1.0
    return True


@compiled
def guard_slopes(plant: Any, t: float) -> Any:
    """Return the change of each guard during the next 1e-6 s."""
    watch, m = watch_at(plant), plant.g.length
    _moving(words_of(watch.moving), t)
    return vector_of(watch.moves)[3 * m :]


# The motion of guard i: values before and after the resets are moves[i] and moves[2 m + i], the
# changes within 1e-6 s are moves[m + i] and moves[3 m + i].


@compiled
def _near(at: float, after: float, level: float) -> bool:
    return bool(abs(at - level) <= abs(after) * NEAR)


@compiled
def _still_at_zero(watch: Any, m: int, i: int, here: Any, now: float) -> None:
    moves, side = vector_of(watch.moves), here[CAME_TO, i]
    before, at, after = moves[m + i], moves[2 * m + i], moves[3 * m + i]
    leaves = now == -side or (now == 0.0 and _states_turn(watch, m, i, after))
    onward = before * side > 0.0 and after * side > 0.0
    goes_on = (onward or before == after) and _near(at, after, 0.0)
    if now == side or (leaves and not goes_on):
        here[CAME_TO, i] = 0.0
    else:
        here[SIGN, i] = 0.0


@compiled
def _states_turn(watch: Any, m: int, i: int, after: float) -> bool:
    """Return whether written states stopped, reversed or started the motion of guard ``i``."""
    x, end = words_of(watch.x), words_of(watch.end)
    same = True
    for j in range(x.size):
        same = same and x[j] == end[j]
    return bool(not same and sign(vector_of(watch.held)[m + i]) != sign(after))


@compiled
def _turned_back(watch: Any, m: int, i: int, here: Any, now: float) -> None:
    moves, marks = vector_of(watch.moves), vector_of(watch.marks)
    came, before, at, after = moves[i], moves[m + i], moves[2 * m + i], moves[3 * m + i]
    level, side = marks[LEVEL * m + i], marks[CROSSED_FROM * m + i]
    turned = before != 0.0 and before * after <= 0.0
    no_farther = abs(at - level) <= abs(came - level)
    paused = after == 0.0 and not _states_turn(watch, m, i, after)
    if now == side and side != 0.0 and turned and no_farther and not paused:
        here[LEFT_AT, i] = at


@compiled
def _arrives(watch: Any, m: int, i: int, here: Any, way: float) -> bool:
    """Return whether guard ``i`` is at zero and began to move because of the latest resets."""
    moves, marks = vector_of(watch.moves), vector_of(watch.marks)
    before, at, after = moves[m + i], moves[2 * m + i], moves[3 * m + i]
    side, left_at = sign(after), here[LEFT_AT, i]
    if marks[OWN * m + i] != 0.0:
        undone = marks[OWN_CHANGE * m + i] * side <= 0.0
        undone = undone and _near(at, after, marks[OWN_LEVEL * m + i])
        fires = side != 0.0 and side == marks[CROSSED_FROM * m + i] and undone
    elif side == 0.0 or before * side > 0.0 or (way != 0.0 and way != side):
        fires = False
    elif way == 0.0:
        fires = at == 0.0 and here[SIDE_BEFORE, i] == -side
    else:
        fires = _near(at, after, 0.0) or (left_at != 0.0 and _near(at, after, left_at))
    if fires and sign(at) != side:
        here[SIGN, i], here[CAME_TO, i], here[SIDE_BEFORE, i] = 0.0, side, 0.0
    return bool(fires)
