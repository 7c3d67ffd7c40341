"""The kernel for several runs at once (decision 250).

Each lane is a run with its own table, and runs its own tags with the functions of
:mod:`rtsim.engine.compiled.kernel`. All lanes take their next tag in turn. The steps and the
outputs of a plant, which take most of the time of a run, are computed for all lanes in one call
(:mod:`rtsim.equations.lanes`). The lanes may be at different times.

In all functions, ``p`` is the record ``rtsim.engine.compiled.records.PASS``.
"""

from __future__ import annotations

import math
from typing import Any

from rtsim.core.tag import NS_PER_S
from rtsim.engine.compiled.kernel import (
    advance,
    begin,
    commit,
    next_discrete,
    plant_row,
    rest_of_tag,
    sample,
)
from rtsim.engine.compiled.messages import save, save_plants, state_of
from rtsim.engine.compiled.records import (
    HEADER,
    LANE,
    NOTHING,
    PASS,
    PLANT,
    PLANT_STATE,
    WIDE,
)
from rtsim.equations.addresses import (
    call_lanes,
    record_at,
    records_of,
    vector_at,
    vector_of,
    words_of,
)
from rtsim.equations.calls import EVALUATION_LAYOUT
from rtsim.equations.compiling import compiled
from rtsim.solve.base import GOOD
from rtsim.solve.internal_steps import STEP_LAYOUT

_OUTPUT = EVALUATION_LAYOUT.at
_STEP = STEP_LAYOUT.at
_FEW = 2
"""Fewer lanes than this number are computed one by one."""
_IDLE, _GOES, _STEPS, _SAMPLES = range(4)
"""Values of a lane's word ``part``: what the lane does in the present tag."""


def stretch_of_lanes(w: Any) -> int:
    """Run the tags of each lane up to its limit, and return the number of calls for several lanes.

    The only element of ``w`` is the address of the record. A lane stops as ``stretch`` returns; the
    function returns when all lanes have stopped.
    """
    p = record_at(w[0], PASS)
    p.calls = p.alone = 0
    for j in range(p.lanes.length):
        lane = records_of(p.lanes, LANE)[j]
        lane.tags, lane.stale = 0, 1
        if lane.runs:
            t = record_at(lane.header, HEADER)
            state = state_of(t)
            state.paused = 0
            if state.now == NOTHING:
                if begin(t):
                    lane.tags = 1
                else:
                    lane.runs = 0
            lane.discrete = next_discrete(t)
    while _choose(p):
        _give_parameters(p)
        for i in range(p.wides.length):
            _advance_lanes(p, i)
        _open_tags(p)
        for i in range(p.wides.length):
            _commit_lanes(p, i)
        _close_tags(p)
    return int(p.calls)


@compiled
def _choose(p: Any) -> bool:
    """Stop the lanes whose stretch has ended; return whether a lane goes on."""
    found = False
    for j in range(p.lanes.length):
        lane = records_of(p.lanes, LANE)[j]
        lane.part = _IDLE
        if lane.runs:
            t = record_at(lane.header, HEADER)
            state = state_of(t)
            if lane.tags < t.most and state.now < t.limit and not state.rolled and not state.ended:
                lane.part = _GOES
                found = True
            else:
                lane.runs = 0
    return found


@compiled
def _give_parameters(p: Any) -> None:
    """Copy the parameters of the plants, which only scheduled changes write during a run."""
    for j in range(p.lanes.length):
        lane = records_of(p.lanes, LANE)[j]
        if lane.part != _IDLE and lane.stale:
            lane.stale = 0
            t = record_at(lane.header, HEADER)
            for i in range(p.wides.length):
                words = words_of(records_of(t.plants, PLANT)[i].words)
                parameters = vector_at(words, _STEP.p)
                _give(records_of(p.wides, WIDE)[i].p, parameters, p.lanes.length, j)


@compiled
def _stop(lane: Any) -> None:
    lane.runs, lane.part = 0, _IDLE


@compiled
def _advance_lanes(p: Any, i: int) -> None:
    """Take the provisional steps of plant ``i`` in all lanes that need one."""
    wide, count = records_of(p.wides, WIDE)[i], 0
    for j in range(p.lanes.length):
        lane = records_of(p.lanes, LANE)[j]
        if lane.part == _IDLE:
            continue
        state = records_of(record_at(lane.header, HEADER).plant_states, PLANT_STATE)[i]
        lane.part = _GOES
        if state.target > lane.discrete or state.target == NOTHING:
            lane.part = _STEPS
            lane.target = min(state.grid, lane.discrete)
            count += 1
    if not count:
        return
    width = p.lanes.length
    together = wide.step != 0 and count >= _FEW and _steps_together(p, i, wide)
    for j in range(p.lanes.length):
        lane = records_of(p.lanes, LANE)[j]
        if lane.part != _STEPS:
            continue
        lane.part = _GOES
        t = record_at(lane.header, HEADER)
        plant, state = records_of(t.plants, PLANT)[i], records_of(t.plant_states, PLANT_STATE)[i]
        if together and words_of(wide.answers)[j] == GOOD:
            words = words_of(plant.words)
            _take(wide.out, vector_at(words, _STEP.out), width, j)
            _take(wide.after, vector_at(words, _STEP.after), width, j)
            state.target = lane.target
            continue
        p.alone += 1
        target = advance(t, plant, state.ns, lane.target)
        if target == NOTHING:
            _stop(lane)
        else:
            state.target = target


@compiled
def _steps_together(p: Any, i: int, wide: Any) -> bool:
    """Compute the steps in one call; return False if a lane has failed."""
    width, numbers = p.lanes.length, vector_of(wide.numbers)
    for j in range(width):
        lane = records_of(p.lanes, LANE)[j]
        if lane.part != _STEPS:
            continue
        t = record_at(lane.header, HEADER)
        plant, state = records_of(t.plants, PLANT)[i], records_of(t.plant_states, PLANT_STATE)[i]
        words = words_of(plant.words)
        numbers[j] = state.ns / NS_PER_S
        numbers[width + j] = (lane.target - state.ns) / NS_PER_S
        _give(wide.x, vector_at(words, _STEP.x), width, j)
        _give(wide.z, vector_at(words, _STEP.z), width, j)
        _give(wide.u, vector_at(words, _STEP.u), width, j)
        _give(wide.memory, vector_at(words, _STEP.memory), width, j)
    p.calls += 1
    return bool(
        call_lanes(
            wide.step, wide.step_words.address, wide.numbers.address, wide.answers.address
        ) == 0
    )  # fmt: skip


@compiled
def _open_tags(p: Any) -> None:
    """Find the time of the next tag of each lane, and save what it may change."""
    for j in range(p.lanes.length):
        lane = records_of(p.lanes, LANE)[j]
        if lane.part == _IDLE:
            continue
        t = record_at(lane.header, HEADER)
        ns = lane.discrete
        for i in range(t.plants.length):
            ns = min(ns, records_of(t.plant_states, PLANT_STATE)[i].target)
        if ns > t.limit or (ns == t.limit and not t.last):
            _stop(lane)
            continue
        lane.ns = ns
        if ns == lane.discrete:
            save(t)
        else:
            save_plants(t)


@compiled
def _commit_lanes(p: Any, i: int) -> None:
    """Commit the steps of plant ``i`` that end at the tags, and compute its outputs."""
    wide, count = records_of(p.wides, WIDE)[i], 0
    for j in range(p.lanes.length):
        lane = records_of(p.lanes, LANE)[j]
        if lane.part == _IDLE:
            continue
        t = record_at(lane.header, HEADER)
        plant, state = records_of(t.plants, PLANT)[i], records_of(t.plant_states, PLANT_STATE)[i]
        lane.part = _GOES
        if state.target == lane.ns:
            lane.part = _SAMPLES
            count += 1
            if not commit(plant, state, lane.ns):
                _stop(lane)
                count -= 1
    if not count:
        return
    width = p.lanes.length
    together = wide.output != 0 and count >= _FEW and _outputs_together(p, i, wide)
    for j in range(p.lanes.length):
        lane = records_of(p.lanes, LANE)[j]
        if lane.part != _SAMPLES:
            continue
        lane.part = _GOES
        t = record_at(lane.header, HEADER)
        plant = records_of(t.plants, PLANT)[i]
        if together and _finite(wide.y, width, j):
            _take(wide.y, vector_at(words_of(plant.output), _OUTPUT.out), width, j)
        elif not sample(plant, lane.ns):
            _stop(lane)
            continue
        if not plant_row(t, plant, lane.ns, 0, 0):
            _stop(lane)


@compiled
def _outputs_together(p: Any, i: int, wide: Any) -> bool:
    width, numbers = p.lanes.length, vector_of(wide.numbers)
    for j in range(width):
        lane = records_of(p.lanes, LANE)[j]
        if lane.part != _SAMPLES:
            continue
        t = record_at(lane.header, HEADER)
        words = words_of(records_of(t.plants, PLANT)[i].output)
        numbers[j] = lane.ns / NS_PER_S
        _give(wide.x, vector_at(words, _OUTPUT.x), width, j)
        _give(wide.z, vector_at(words, _OUTPUT.z), width, j)
        _give(wide.u, vector_at(words, _OUTPUT.u), width, j)
        _give(wide.y, vector_at(words, _OUTPUT.out), width, j)
    p.calls += 1
    return bool(
        call_lanes(
            wide.output, wide.output_words.address, wide.numbers.address, wide.answers.address
        ) == 0
    )  # fmt: skip


@compiled
def _close_tags(p: Any) -> None:
    for j in range(p.lanes.length):
        lane = records_of(p.lanes, LANE)[j]
        if lane.part == _IDLE:
            continue
        t = record_at(lane.header, HEADER)
        state = state_of(t)
        changes = state.next_change
        discrete = rest_of_tag(t, lane.ns, lane.discrete)
        lane.stale = changes != state.next_change
        if discrete == NOTHING:
            _stop(lane)
            continue
        lane.discrete = discrete
        state.in_tag = 0
        state.now = lane.ns
        lane.tags += 1


# Vectors of one lane, and matrices of all lanes


@compiled
def _give(into: Any, vector: Any, width: int, j: int) -> None:
    matrix = vector_of(into)
    for i in range(vector.size):
        matrix[i * width + j] = vector[i]


@compiled
def _take(source: Any, vector: Any, width: int, j: int) -> None:
    matrix = vector_of(source)
    for i in range(vector.size):
        vector[i] = matrix[i * width + j]


@compiled
def _finite(source: Any, width: int, j: int) -> bool:
    matrix = vector_of(source)
    finite = True
    for i in range(j, matrix.size, width):
        finite = finite and math.isfinite(matrix[i])
    return finite
