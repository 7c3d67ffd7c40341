"""The operations of an exported model: what the C shell of an FMU calls.

The functions are compiled and exported together with the kernel of the compiled engine. As a
Co-Simulation, the model runs like a run of rtsim, with its solvers, guards and messages. As a Model
Exchange, the importer integrates the states of the only plant and locates the zero crossings of its
guards; the kernel executes the events.
"""

from __future__ import annotations

import math
from typing import Any

from rtsim.core.tag import NS_PER_S
from rtsim.engine.compiled.kernel import instant, next_discrete, sample, settle_all, stretch
from rtsim.engine.compiled.messages import state_of
from rtsim.engine.compiled.records import (
    FAR,
    HEADER,
    NOTHING,
    PLACE,
    PLANT,
    PLANT_STATE,
    record,
)
from rtsim.engine.compiled.resets import (
    guard_slopes,
    guards_fired,
    guards_here,
    leave_tag,
    note_commit,
)
from rtsim.equations.addresses import (
    INTEGER,
    NUMBER,
    WORDS,
    record_at,
    records_of,
    vector_at,
    vector_of,
    words_of,
)
from rtsim.equations.calls import evaluate
from rtsim.equations.compiling import compiled
from rtsim.solve.guard_table import CAME_TO, GUARD_TABLE, LATE, LEFT_AT, SIDE_BEFORE, SIGN, sign
from rtsim.solve.guard_watch import NEAR

OPERATE = (WORDS, INTEGER, INTEGER, NUMBER)
"""The signature of :func:`operate`."""
MODEL = record(
    "header",  # address of a HEADER
    derivative=PLACE,  # argument table of the plant's derivative; empty for a loop
    guards=PLACE,  # argument table of the plant's guards
    g=PLACE, indicators=PLACE, sides=PLACE,  # guards, event indicators and their signs
)  # fmt: skip
BEGIN, RUN, SETTLE, TOUCH, OUTPUTS, DERIVATIVES, INDICATORS, EVENT, STEP_DONE, NEXT, NOW = range(11)
"""Operations of :func:`operate`."""
GOOD, ENDED, FAILED = 0, 1, -1
"""Results: the model goes on, a guard has ended the run, or the model cannot go on."""

_stretch, _evaluate = compiled(stretch), compiled(evaluate)
_EXACT_NS = 1e-4
"""Within this distance from a whole ns, a time in s means this ns."""


def operate(w: Any, operation: int, ns: int, time: float) -> int:
    """Execute one operation of the model whose record MODEL is at the address ``w[0]``.

    - BEGIN: initialise the model at 0 s.
    - RUN: advance to ``ns``.
    - SETTLE: let the plants react to the values that were written since the last RUN.
    - TOUCH: note that a value of plant number ``ns`` was written; -1 stands for a source.
    - OUTPUTS, DERIVATIVES, INDICATORS: compute these values at ``time`` (s).
    - EVENT: execute the events at ``time``. STEP_DONE: note the signs of the event indicators.
    - NEXT, NOW: return the time of the next time event, or of the last tag (ns).

    Returns GOOD, ENDED or FAILED.
    """
    model = record_at(w[0], MODEL)
    t = record_at(model.header, HEADER)
    if operation == RUN:
        return _run(t, ns)
    if operation == BEGIN:
        return _begin(t, model)
    if operation == SETTLE:
        return _answer(t, settle_all(t, state_of(t).now))
    if operation == TOUCH:
        _touch(t, ns)
        return GOOD
    if operation == OUTPUTS:
        return _outputs(t, time)
    if operation == DERIVATIVES:
        return GOOD if _evaluate(words_of(model.derivative), time) < 0 else FAILED
    if operation == INDICATORS:
        return _indicators(t, model, time)
    if operation == EVENT:
        return _event(t, model, time)
    if operation == STEP_DONE:
        return _note_sides(t, model, time)
    if operation == NOW:
        return int(state_of(t).now)
    t.limit = FAR
    return next_discrete(t)


@compiled
def _answer(t: Any, good: bool) -> int:
    if not good:
        return FAILED
    return ENDED if state_of(t).ended else GOOD


@compiled
def _begin(t: Any, model: Any) -> int:
    state = state_of(t)
    state.now, t.limit, t.last = NOTHING, 0, 0
    _call(t)
    if state.now != 0:
        return FAILED
    if model.sides.length:
        _take_sides(t, model, 0.0)
    return _answer(t, True)


@compiled
def _call(t: Any) -> int:
    """Call the kernel until it no longer pauses; return the number of tags."""
    tags, state = _stretch(words_of(t.own)), state_of(t)
    while state.paused:
        tags += _stretch(words_of(t.own))
    return tags


@compiled
def _run(t: Any, until_ns: int) -> int:
    state = state_of(t)
    t.limit, t.last = until_ns, 1
    while state.now < until_ns and not state.ended:
        if _call(t) == 0:
            return FAILED
    return _answer(t, True)


@compiled
def _touch(t: Any, plant: int) -> None:
    for i in range(t.plants.length):
        state = records_of(t.plant_states, PLANT_STATE)[i]
        if plant == NOTHING:
            state.stale = 1
        elif plant == i:
            state.touched = 1


@compiled
def _outputs(t: Any, time: float) -> int:
    good = True
    for i in range(t.plants.length):
        plant = records_of(t.plants, PLANT)[i]
        if plant.output.length:
            good = _evaluate(words_of(plant.output), time) < 0 and good
    return GOOD if good else FAILED


# Model Exchange. An event indicator is the value of its guard. If a reset left the guard beyond
# zero, the event indicator is the distance from that value, until the guard fires again.


@compiled
def _indicators(t: Any, model: Any, time: float) -> int:
    here = guards_here(records_of(t.plants, PLANT)[0])
    _evaluate(words_of(model.guards), time)
    g, into, good = vector_of(model.g), vector_of(model.indicators), True
    for i in range(g.size):
        into[i] = g[i] - here[LEFT_AT, i]
        good = good and not math.isnan(g[i])
    return GOOD if good else FAILED


@compiled
def _note_sides(t: Any, model: Any, time: float) -> int:
    """Note the new signs of the event indicators, except those of guards that are about to fire."""
    plant = records_of(t.plants, PLANT)[0]
    directions = vector_at(words_of(plant.guard_table), _AT.directions)
    answer, found = _indicators(t, model, time), vector_of(model.indicators)
    signs = vector_of(model.sides)
    for i in range(found.size):
        now, way = sign(found[i]), directions[i]
        fires = way == now or (way == 0.0 and signs[i] != 0.0)
        if now != 0.0 and not fires:
            signs[i] = now
    return answer


@compiled
def _take_sides(t: Any, model: Any, time: float) -> None:
    """Take over the signs of the event indicators after an event."""
    _indicators(t, model, time)
    found, signs = vector_of(model.indicators), vector_of(model.sides)
    for i in range(signs.size):
        signs[i] = sign(found[i])


@compiled
def _event(t: Any, model: Any, time: float) -> int:
    plant, state = records_of(t.plants, PLANT)[0], state_of(t)
    exact = time * NS_PER_S
    ns = math.floor(exact + 0.5)
    late = 0.0
    if abs(exact - ns) > _EXACT_NS:
        ns = math.ceil(exact)
        late = ns / NS_PER_S - time
    t.limit = FAR
    if model.sides.length and not _cross(t, model, plant, time, late):
        return FAILED
    state.now = records_of(t.plant_states, PLANT_STATE)[0].ns = ns
    good = sample(plant, ns) and instant(t, ns)
    if good and model.sides.length:
        _take_sides(t, model, time)
    return _answer(t, good)


@compiled
def _cross(t: Any, model: Any, plant: Any, time: float, late: float) -> bool:
    """Note which guards crossed zero since the last event or step of the importer."""
    here, fired = guards_here(plant), guards_fired(plant)
    directions = vector_at(words_of(plant.guard_table), _AT.directions)
    signs, found, g = vector_of(model.sides), vector_of(model.indicators), vector_of(model.g)
    if _indicators(t, model, time) != GOOD:
        return False
    leave_tag(plant)
    slopes = guard_slopes(plant, time)
    x, end = vector_of(plant.x), vector_of(plant.next)
    for j in range(x.size):
        end[j] = x[j]
    for i in range(signs.size):
        side, now, way = signs[i], sign(found[i]), directions[i]
        if side == 0.0:
            side = -way if way != 0.0 else here[SIDE_BEFORE, i]
        level = here[LEFT_AT, i]
        leaves = now == -side and now != 0.0 and way in (0.0, now)
        # After an event, rounding errors of the importer can move a guard beyond zero.
        returns = slopes[i] * now < 0.0 or (slopes[i] == 0.0 and signs[i] == 0.0)
        if leaves and returns and abs(found[i]) <= abs(slopes[i]) * NEAR:
            leaves, here[LEFT_AT, i] = False, g[i]
        reaches = now == 0.0 and signs[i] != 0.0 and way in (0.0, -side)
        fired[i] = 1.0 if leaves or reaches else 0.0
        here[SIGN, i], here[LATE, i], here[CAME_TO, i] = sign(g[i]), late, 0.0
        if g[i] != 0.0:
            here[SIDE_BEFORE, i] = sign(g[i])
        if reaches and level == 0.0:
            here[CAME_TO, i] = -side
        if here[LEFT_AT, i] * g[i] <= 0.0 and fired[i] == 0.0:
            here[LEFT_AT, i] = 0.0
    note_commit(plant)
    return True


_AT = GUARD_TABLE.at
