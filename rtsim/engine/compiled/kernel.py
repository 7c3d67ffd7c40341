"""The kernel of the compiled engine (docs/semantics.md, section "The step").

One call of :func:`stretch` runs tag after tag, in the same order as
:class:`rtsim.engine.executive.Executive` and :class:`rtsim.engine.microsteps.Microsteps`. The two
classes are the reference for this module, with :class:`rtsim.components.plant.RunningPlant` for
plants. If compiled code cannot complete a tag, the tag is undone, and the interpreter executes it.

In all functions, ``t`` is the record ``rtsim.engine.compiled.records.HEADER``, which contains the
addresses of all other records.
"""

from __future__ import annotations

import math
from typing import Any

from rtsim.core.tag import NS_PER_S
from rtsim.engine.compiled.messages import (
    NO_DELAY,
    UNRECORDED,
    answer_in_order,
    apply_answers,
    arrives,
    block_of,
    deliver,
    draw,
    draw_delay,
    gather,
    new_row,
    save,
    save_plants,
    send,
    state_of,
    tick,
    ticked,
    wrote,
)
from rtsim.engine.compiled.pace import BEGIN, lap, ready, timing_row, wait
from rtsim.engine.compiled.records import (
    CHANGE,
    DRAW,
    FIRST_TASK_JOB,
    HEADER,
    MESSAGE,
    NOISE,
    NOTHING,
    PLANT,
    PLANT_STATE,
    SENSOR,
    TASK,
    TASK_STATE,
    TIMERS,
    UPDATE,
)
from rtsim.engine.compiled.resets import (
    END_OF_RUN,
    FAILURE,
    begin_guards,
    did_reset,
    fire_guards,
    guards_changed,
    guards_fire,
    leave_tag,
    note_commit,
    watch_at,
    write_changed,
    write_resets,
)
from rtsim.equations.addresses import (
    call_drive,
    call_equation,
    call_step,
    call_update,
    matrix_at,
    record_at,
    records_of,
    vector_at,
    vector_of,
    words_of,
)
from rtsim.equations.calls import evaluate
from rtsim.equations.compiling import compiled
from rtsim.solve.base import GOOD, PAUSED
from rtsim.solve.guard_table import CAME_TO, GUARD_TABLE, LEFT_AT, SIDE_BEFORE, SIGN, sign

_MOST_MICROSTEPS = 1000
_evaluate = compiled(evaluate)
_AT = GUARD_TABLE.at


def stretch(w: Any) -> int:
    """Run the tags before ``limit``; return their number.

    The only element of ``w`` is the address of the header. The names below are fields of the header
    and of its state:

    - With ``last`` = 1, a tag at the time ``limit`` is also executed.
    - If the field ``now`` is ``NOTHING``, the run begins with the tag at 0 ns.
    - The function returns early after ``most`` tags, and when a buffer is full.
    - The function also returns early if it cannot complete a tag. If ``in_tag`` is not 0
      afterwards, the caller must undo the incomplete tag.
    - During a long step of a plant, the function sets ``paused`` and returns. The next call
      continues the step.
    """
    t = record_at(w[0], HEADER)
    state = state_of(t)
    state.paused = 0
    tags = 0
    if state.now == NOTHING:
        if not begin(t):
            return 0
        tags = 1
    paced = t.pace.length > 0
    discrete = next_discrete(t)
    while tags < t.most and state.now < t.limit:
        if state.rolled and not paced:  # a paced run returns at wall-clock times
            return tags
        ns = _propagate(t, discrete)
        if ns == NOTHING or ns > t.limit or (ns == t.limit and not t.last):
            return tags
        if paced:
            state.answer = wait(t, ns)
            if state.answer != BEGIN:
                return tags
        if ns == discrete:
            save(t)
        else:
            save_plants(t)
        if not _commit_all(t, ns):
            return tags
        discrete = rest_of_tag(t, ns, discrete)
        if discrete == NOTHING:
            return tags
        if paced and not timing_row(t, state.now):
            return tags
        state.in_tag = 0
        state.now = ns
        if paced:
            ready(t)
        tags += 1
        if state.ended:
            return tags
    return tags


@compiled
def begin(t: Any) -> bool:
    """Execute the tag at 0 ns; return False if impossible."""
    save(t)
    if not _begin(t) or not instant(t, 0):
        return False
    state = state_of(t)
    state.in_tag = state.now = 0
    return True


@compiled
def rest_of_tag(t: Any, ns: int, discrete: int) -> int:
    """Execute what follows the steps to ``ns``; return the time (ns) of the next discrete event.

    Return NOTHING if impossible.
    """
    if ns == discrete or _fires(t, ns):
        return next_discrete(t) if instant(t, ns) else NOTHING
    if t.coupled and not settle_all(t, ns):
        return NOTHING
    return discrete


@compiled
def next_discrete(t: Any) -> int:
    """Return the time (ns) of the next message, task or answer, at most ``limit``."""
    ns, coming = t.limit, state_of(t).next_change
    if coming < t.changes.length:
        ns = min(ns, records_of(t.changes, CHANGE)[coming].ns)
    if state_of(t).in_flight:
        ns = min(ns, records_of(t.flight, MESSAGE)[0].ns)
    for i in range(t.tasks.length):
        state = records_of(t.task_states, TASK_STATE)[i]
        ns = min(ns, state.next_ns)
        if state.open:
            ns = min(ns, state.due)
    return int(ns)


@compiled
def instant(t: Any, ns: int) -> bool:
    """Execute the microsteps at ``ns``; return False if impossible."""
    if not _apply_changes(t, ns) or not _fire(t, ns):
        return False
    answers = words_of(t.answers)
    for i in range(answers.size):
        state = records_of(t.task_states, TASK_STATE)[answers[i]]
        if state.open and state.due <= ns and not _answer(t, answers[i]):
            return False
    deliver(t, ns, 0)
    for i in range(t.tasks.length):
        if records_of(t.task_states, TASK_STATE)[i].next_ns == ns:
            ticked(t, i, ns)
            if not _react(t, i, ns):
                return False
            if records_of(t.tasks, TASK)[i].ordered:
                answer_in_order(t, ns, 0)
            lap(t, FIRST_TASK_JOB + i)
    apply_answers(t)
    _apply_writes(t)
    return settle_all(t, ns)


@compiled
def settle_all(t: Any, ns: int) -> bool:
    """Read the inputs of the plants, and execute the remaining microsteps at ``ns``."""
    step = 0
    while True:
        if not _refresh(t, ns, step):
            return False
        if not (arrives(t, ns, _MOST_MICROSTEPS + 1) or _fires(t, ns)):
            return True
        step += 1
        if step > _MOST_MICROSTEPS or not _fire(t, ns):
            return False
        deliver(t, ns, step)
        _write_resets(t)


# Changes and resets of exported models. A run of rtsim executes both in the interpreter.


@compiled
def _apply_changes(t: Any, ns: int) -> bool:
    """Apply the scheduled changes up to ``ns``, before microstep 0."""
    state = state_of(t)
    while state.next_change < t.changes.length:
        change = records_of(t.changes, CHANGE)[state.next_change]
        if change.ns > ns:
            break
        state.next_change += 1
        write_changed(change.into, change.value)
        if change.plant != NOTHING:
            records_of(t.plant_states, PLANT_STATE)[change.plant].touched = 1
            if not _settle(t, change.plant, ns, 0):
                return False
        elif change.early.length:
            write_changed(change.early, change.value)
            for i in range(t.plants.length):
                records_of(t.plant_states, PLANT_STATE)[i].stale = 1
    return True


@compiled
def _fires(t: Any, ns: int) -> bool:
    """Return whether a guard of an exported model fires at ``ns``."""
    found = False
    for i in range(t.plants.length):
        plant = records_of(t.plants, PLANT)[i]
        if plant.watch.length and records_of(t.plant_states, PLANT_STATE)[i].ns == ns:
            found = found or guards_fire(plant)
    return found


@compiled
def _fire(t: Any, ns: int) -> bool:
    """Compute the resets of the guards that fire."""
    for i in range(t.plants.length):
        plant, at = records_of(t.plants, PLANT)[i], records_of(t.plant_states, PLANT_STATE)[i].ns
        if plant.watch.length and at == ns and guards_fire(plant):
            answer = fire_guards(plant, ns)
            if answer == FAILURE:
                return False
            if answer == END_OF_RUN:
                state_of(t).ended = 1
    return True


@compiled
def _write_resets(t: Any) -> None:
    for i in range(t.plants.length):
        plant = records_of(t.plants, PLANT)[i]
        if did_reset(plant) and write_resets(plant):
            records_of(t.plant_states, PLANT_STATE)[i].touched = 1


# Tasks


@compiled
def _react(t: Any, i: int, ns: int) -> bool:
    task, state = records_of(t.tasks, TASK)[i], records_of(t.task_states, TASK_STATE)[i]
    if task.kind == UPDATE:
        return _update(t, task, state, ns)
    if task.kind == TIMERS:
        return _tick_timers(t, task, state, ns)
    if task.kind == NOISE:
        drawn = draw(t, task.draw)
        state.writes = drawn + 1
        return drawn != NOTHING
    gather(t, task.copies)
    if task.kind == SENSOR:
        return send(t, task.topic, ns, 0, ns, 0, task.into)
    return _request(t, i, ns)


@compiled
def _request(t: Any, i: int, ns: int) -> bool:
    """Sample the inputs of a controller and compute its answer, which is sent when it is due."""
    task, state = records_of(t.tasks, TASK)[i], records_of(t.task_states, TASK_STATE)[i]
    if state.open or not _sampled_row(t, task, state.sequence, ns):
        return False
    state.sequence += 1
    into, u, y = vector_of(task.into), vector_of(task.first), vector_of(task.fourth)
    for j in range(u.size):
        u[j] = into[j]
    call_update(task.function, ns / NS_PER_S, u, vector_of(task.second), vector_of(task.third), y)
    if not _finite(y):  # the interpreter reports the failure
        return False
    state.open, state.tag, state.tag_step = 1, ns, 0
    delay = draw_delay(t, task.delay, task.draw)
    if delay == NO_DELAY:
        return False
    state.due, state.due_step = ns + delay, 0
    return delay > 0 or _answer(t, i)


@compiled
def _answer(t: Any, i: int) -> bool:
    task, state = records_of(t.tasks, TASK)[i], records_of(t.task_states, TASK_STATE)[i]
    if not _finite(vector_of(task.fourth)):
        return False
    state.open = 0
    return send(t, task.topic, state.tag, state.tag_step, state.due, state.due_step, task.fourth)


@compiled
def _sampled_row(t: Any, task: Any, sequence: int, ns: int) -> bool:
    first = new_row(t, task.track)
    if first < 0:
        return first == UNRECORDED
    block = block_of(t, task.track)
    words, doubles, into = words_of(block), vector_of(block), vector_of(task.into)
    words[first], words[first + 1] = ns, sequence
    for j in range(3):
        words[first + 2 + 2 * j], words[first + 3 + 2 * j] = ns, 0
    words[first + 8] = 0
    for j in range(into.size):
        doubles[first + 9 + j] = into[j]
    return True


@compiled
def _update(t: Any, task: Any, state: Any, ns: int) -> bool:
    """Compute the discrete update of a plant, and store the result in a buffer."""
    _read_wires(t, task.plant)
    now, z = vector_of(task.z), vector_of(task.second)
    for j in range(z.size):
        z[j] = now[j]
    call_update(
        task.function, ns / NS_PER_S, vector_of(task.first), z, vector_of(task.third),
        vector_of(task.fourth),
    )  # fmt: skip
    state.writes = 1
    return _finite(z)


@compiled
def _tick_timers(t: Any, task: Any, state: Any, ns: int) -> bool:
    """Execute the due timers of a plant, and store the results in buffers."""
    _read_wires(t, task.plant)
    x_now, x = vector_of(records_of(t.plants, PLANT)[task.plant].x), vector_of(task.first)
    z_now, z = vector_of(task.z), vector_of(task.second)
    for j in range(x.size):
        x[j] = x_now[j]
    for j in range(z.size):
        z[j] = z_now[j]
    if task.draw != NOTHING:
        drawn = draw(t, task.draw)
        if drawn == NOTHING:
            return False
        values = vector_of(records_of(t.draws, DRAW)[task.draw].values)
        into = vector_of(task.port)
        for j in range(into.size):
            into[j] = values[drawn + j]
    call_equation(
        task.function, ns / NS_PER_S, vector_of(task.into), x, z, vector_of(task.third),
        vector_of(task.fourth),
    )  # fmt: skip
    state.writes = 1
    return _finite(x) and _finite(z)


@compiled
def _finite(vector: Any) -> bool:
    finite = True
    for j in range(vector.size):
        finite = finite and math.isfinite(vector[j])
    return finite


@compiled
def _apply_writes(t: Any) -> None:
    """Apply the changes of resets, then those of tasks.

    If both change a plant, a task writes only the values that it has changed.
    """
    for i in range(t.tasks.length):
        state, task = records_of(t.task_states, TASK_STATE)[i], records_of(t.tasks, TASK)[i]
        if state.writes and task.kind != NOISE:
            plant = records_of(t.plants, PLANT)[task.plant]
            if did_reset(plant):
                watch = watch_at(plant)
                _keep(watch.new_z, watch.z, task.second)
                if task.kind == TIMERS:
                    _keep(watch.new_x, watch.x, task.first)
    _write_resets(t)
    for i in range(t.tasks.length):
        state = records_of(t.task_states, TASK_STATE)[i]
        writes = state.writes
        if not writes:
            continue
        state.writes = 0
        task = records_of(t.tasks, TASK)[i]
        if task.kind == NOISE:
            values = vector_of(records_of(t.draws, DRAW)[task.draw].values)
            port, early = vector_of(task.port), vector_of(task.early)
            for j in range(port.size):
                port[j] = values[writes - 1 + j]
                early[j] = values[writes - 1 + j]
            wrote(t, task.readers)
            continue
        touched = write_changed(task.z, task.second)
        if task.kind == TIMERS:
            x = records_of(t.plants, PLANT)[task.plant].x
            touched = write_changed(x, task.first) or touched
        if touched:
            records_of(t.plant_states, PLANT_STATE)[task.plant].touched = 1


@compiled
def _keep(written: Any, now: Any, source: Any) -> None:
    """Keep the values of a reset that a task has not changed."""
    new, before, task = words_of(written), words_of(now), words_of(source)
    for j in range(task.size):
        if task[j] == before[j]:
            task[j] = new[j]


# Plants


@compiled
def _begin(t: Any) -> bool:
    """Compute and record the plants at 0 ns.

    Return False if the interpreter must begin the run.
    """
    for i in range(t.plants.length):
        if not sample(records_of(t.plants, PLANT)[i], 0):
            return False
    for _ in range(t.plants.length):  # an input can depend on a chain of plants
        changed = reads = False
        for i in range(t.plants.length):
            _read_wires(t, i)
        for i in range(t.plants.length):
            plant = records_of(t.plants, PLANT)[i]
            state = records_of(t.plant_states, PLANT_STATE)[i]
            state.touched = state.unsettled = 0
            reads = reads or plant.coupled != 0
            if _take_inputs(plant):
                changed = True
                if not sample(plant, 0):
                    return False
        if not (changed and reads):
            break
    for i in range(t.plants.length):
        plant = records_of(t.plants, PLANT)[i]
        if plant.watch.length:
            if not begin_guards(plant):
                return False
        elif plant.drive and not _guards_begin(plant):
            return False
        if not plant_row(t, plant, 0, 0, 0):
            return False
    return True


@compiled
def _guards_begin(plant: Any) -> bool:
    """Store the sign of each guard at 0 ns; return False if the interpreter is necessary."""
    guards, g = words_of(plant.guard_table), vector_of(plant.g)
    known, at_start = matrix_at(guards, _AT.here), vector_at(guards, _AT.at_start)
    _evaluate(words_of(plant.guards), 0.0)
    for j in range(g.size):
        for row in range(known.shape[0]):
            known[row, j] = 0.0
        known[SIGN, j] = known[SIDE_BEFORE, j] = sign(g[j])
        if math.isnan(g[j]) or (at_start[j] != 0.0 and sign(g[j]) == at_start[j]):
            return False
    return True


@compiled
def _take_inputs(plant: Any) -> bool:
    """Copy connected values to the inputs; return whether an input has changed."""
    into, u = words_of(plant.into), words_of(plant.u)
    written = False
    for j in range(into.size):
        if u[j] != into[j]:
            u[j] = into[j]
            written = True
    return written


@compiled
def _propagate(t: Any, discrete: int) -> int:
    """Take provisional steps of all plants; return the time (ns) of the next tag.

    No step ends after ``discrete``, the time (ns) of the next discrete event. Return NOTHING after
    a failure or a pause. The next call continues a paused step.
    """
    ns = discrete
    for i in range(t.plants.length):
        plant, state = records_of(t.plants, PLANT)[i], records_of(t.plant_states, PLANT_STATE)[i]
        if state.target > discrete or state.target == NOTHING:
            target = advance(t, plant, state.ns, min(state.grid, discrete))
            if target == NOTHING:
                return NOTHING
            state.target = target
        ns = min(ns, state.target)
    return int(ns)


@compiled
def advance(t: Any, plant: Any, now: int, target: int) -> int:
    """Take a provisional step to ``target``; return its end.

    Return NOTHING after a failure or a pause.
    """
    words = words_of(plant.words)
    if plant.drive == 0:
        answer = call_step(plant.step, words, now / NS_PER_S, (target - now) / NS_PER_S)
        if answer == GOOD:
            return target
        state_of(t).paused = answer == PAUSED
        return NOTHING
    if plant.watch.length:
        leave_tag(plant)
    guards = words_of(plant.guard_table)
    answer = call_drive(plant.drive, words, guards, now, target)
    if answer != GOOD:
        state_of(t).paused = answer == PAUSED
        return NOTHING
    return now + int(vector_at(guards, _AT.reached)[0])


@compiled
def _commit_all(t: Any, ns: int) -> bool:
    """Commit the steps to ``ns``; return False if the interpreter is necessary."""
    for i in range(t.plants.length):
        plant, state = records_of(t.plants, PLANT)[i], records_of(t.plant_states, PLANT_STATE)[i]
        if state.target != ns:
            continue
        if not commit(plant, state, ns) or not sample(plant, ns):
            return False
        if not plant_row(t, plant, ns, 0, 0):
            return False
    return True


@compiled
def commit(plant: Any, state: Any, ns: int) -> bool:
    """Commit the step of a plant to ``ns``; return False if the interpreter is necessary."""
    if plant.drive:
        if guards_fire(plant) and not plant.watch.length:
            return False
        guards = words_of(plant.guard_table)
        known, ahead = matrix_at(guards, _AT.here), matrix_at(guards, _AT.there)
        for row in range(known.shape[0]):
            for j in range(known.shape[1]):
                known[row, j] = ahead[row, j]
    x, end = vector_of(plant.x), vector_of(plant.next)
    for j in range(x.size):
        x[j] = end[j]
    memory, after = vector_of(plant.memory), vector_of(plant.after)
    for j in range(memory.size):
        memory[j] = after[j]
    if plant.watch.length:
        note_commit(plant)
    state.ns, state.target = ns, NOTHING
    if state.grid == ns:
        state.k += 1
        state.grid = tick(plant.numerator, plant.denominator, state.k, 0)
    return True


@compiled
def sample(plant: Any, ns: int) -> bool:
    """Compute the outputs; return False if one is not finite."""
    if plant.output.length == 0:
        return True
    return _evaluate(words_of(plant.output), ns / NS_PER_S) < 0


@compiled
def plant_row(t: Any, plant: Any, ns: int, step: int, side: int) -> bool:
    first = new_row(t, plant.track)
    if first < 0:
        return first == UNRECORDED
    block = block_of(t, plant.track)
    words, doubles, values = words_of(block), vector_of(block), vector_of(plant.values)
    words[first], words[first + 1], words[first + 2] = ns, step, side
    for j in range(values.size):
        doubles[first + 3 + j] = values[j]
    return True


@compiled
def _refresh(t: Any, ns: int, step: int) -> bool:
    """Read the inputs of the plants at ``ns``, and record each plant that has changed."""
    for i in range(t.plants.length):
        state = records_of(t.plant_states, PLANT_STATE)[i]
        stirred = state.stale or state.touched or state.unsettled
        state.here = state.ns == ns and (stirred or records_of(t.plants, PLANT)[i].coupled)
        if state.here:
            _read_wires(t, i)
    for i in range(t.plants.length):
        if records_of(t.plant_states, PLANT_STATE)[i].here and not _settle(t, i, ns, step):
            return False
    return True


@compiled
def _read_wires(t: Any, i: int) -> None:
    plant, state = records_of(t.plants, PLANT)[i], records_of(t.plant_states, PLANT_STATE)[i]
    if plant.into.length and (state.stale or plant.coupled):
        state.stale, state.unsettled = 0, 1
        gather(t, plant.copies)


@compiled
def _settle(t: Any, i: int, ns: int, step: int) -> bool:
    """Copy connected values to the inputs, and record the plant after a change."""
    plant, state = records_of(t.plants, PLANT)[i], records_of(t.plant_states, PLANT_STATE)[i]
    written = state.touched
    state.touched = state.unsettled = 0
    if _take_inputs(plant):
        written = 1
    if not written:
        return True
    memory = vector_of(plant.memory)
    for j in range(plant.kept, memory.size):
        memory[j] = 0.0
    if plant.watch.length:
        if not guards_changed(plant, ns):
            return False
    elif plant.drive and not _guards_stay(plant, ns):
        return False
    return sample(plant, ns) and plant_row(t, plant, ns, step, 1)


@compiled
def _guards_stay(plant: Any, ns: int) -> bool:
    """Check the guards of a plant that has changed.

    Return False if a guard may fire. Only the interpreter handles these rare cases.
    """
    guards, g = words_of(plant.guard_table), vector_of(plant.g)
    known, directions = matrix_at(guards, _AT.here), vector_at(guards, _AT.directions)
    _evaluate(words_of(plant.guards), ns / NS_PER_S)
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
