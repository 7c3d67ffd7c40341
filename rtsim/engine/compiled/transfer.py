"""What changes, between the system's objects and the table of the compiled engine.

Before a stretch the objects are copied in; after it the table is copied out.  Between two stretches
the objects hold all state, as they do without the compiled engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rtsim.components.bus import DELIVERED, LOST, Message
from rtsim.components.controller_task import ControllerRequest, ControllerTask
from rtsim.components.plant import NONE_NS
from rtsim.components.tasks import Task, Ticking, TimerTask
from rtsim.core.clock import Clock
from rtsim.core.tag import Tag
from rtsim.engine.compiled import layout as at
from rtsim.engine.compiled.table import Row, Table
from rtsim.record.track import Track

_INITIATED, _COMPLETED, _ARRIVAL, _STATUS = 2, 4, 6, 8
"""Columns of a message's row."""

# -- calls


def call(table: Table, kernel: Callable[[], int], interrupt_check: Callable[[], object]) -> int:
    """Call the kernel, and again after each pause; return the number of tags that it ran.

    ``interrupt_check`` is called in each pause.
    """
    paused = table.changing + at.PAUSED
    try:
        tags = int(kernel())
        while table.w[paused]:
            interrupt_check()
            tags += int(kernel())
    except BaseException:
        give_up(table)
        raise
    return tags


def give_up(table: Table) -> None:
    """Give up the paused step of a plant, if there is one."""
    for plant in table.system.plants:
        plant.give_up()


# -- in


def copy_in(table: Table, flight: Sequence[Message]) -> None:
    """Copy the system into ``table``; ``flight`` are the messages in transit, by arrival."""
    system, w, state = table.system, table.w, table.changing
    w[state : state + at.HEADER_STATE] = 0
    w[state + at.NOW] = system.ns
    w[at.COUPLED] = any(p.reads_plants or (p.behind and p.ns < system.ns) for p in system.plants)
    for row, plant in zip(table.plants, system.plants, strict=True):
        s = row.state
        w[s + at.S_NS], w[s + at.S_K] = plant.position
        w[s + at.S_GRID] = plant.step.tick(plant.position[1])
        w[s + at.S_TARGET] = NONE_NS
        w[s + at.S_STALE], w[s + at.S_TOUCHED] = plant.stale, plant.touched
        w[s + at.S_UNSETTLED] = plant.unsettled
    for row, task in zip(table.task_rows, table.tasks, strict=True):
        _task_in(table, row.state, task)
    for row, name in zip(table.topic_rows, table.topics, strict=True):
        s = row.state
        w[s + at.Q_SEQUENCE], (w[s + at.Q_LAST], w[s + at.Q_LAST_STEP]) = system.bus.position(name)
        w[s + at.Q_WRITES] = 0
    if table.frames is not None:
        table.frames.copy_in()
    lend_rows(table)
    w[table.slots : table.slots + table.room] = 0
    for i, message in enumerate(flight):  # a sorted list is a heap
        _message_in(table, i, message)
    w[state + at.IN_FLIGHT] = w[state + at.NEXT_SLOT] = len(flight)


def _task_in(table: Table, s: int, task: Task) -> None:
    w = table.w
    w[s + at.K_NEXT], w[s + at.K_WRITES] = task.next_ns, 0
    if isinstance(task, Ticking):
        w[s + at.K_TICKS] = task.k
    if isinstance(task, TimerTask):
        first = table.timer_states[task.name]
        for i, (k, ns) in enumerate(zip(task.ticks, task.coming, strict=True)):
            j = first + i * at.TIMER_STATE
            w[j + at.J_TICKS], w[j + at.J_NEXT] = k, ns
    if isinstance(task, ControllerTask):
        request = task.request
        w[s + at.K_SEQUENCE], w[s + at.K_OPEN] = task.sequence, request is not None
        if request is not None:
            w[s + at.K_TAG], w[s + at.K_TAG_STEP] = request.tag
            w[s + at.K_DUE], w[s + at.K_DUE_STEP] = request.due


def lend_rows(table: Table) -> None:
    """Give the buffers of all tracks to compiled code."""
    for row, track in zip(table.track_rows, table.tracks, strict=True):
        _lend(table, row, track)


def take_rows(table: Table) -> None:
    """Take back the buffers of all tracks, with the rows of the complete tags."""
    for row, track in zip(table.track_rows, table.tracks, strict=True):
        _take(table, row, track)


def note_rows(table: Table) -> None:
    """Note the rows of the tags that are done; only tracks whose block is full get new blocks."""
    w = table.w
    for row, track in zip(table.track_rows, table.tracks, strict=True):
        rows = int(w[row.state + at.B_ROW])
        if w[row.state + at.B_ROLLED] or rows == w[row.at + at.R_CAPACITY]:
            _take(table, row, track)
            _lend(table, row, track)
            continue
        if table.tally is not None and track.name in table.links:
            _count(table, track, rows, rolled=False)
        track.wrote(rows)


def _take(table: Table, row: Row, track: Track) -> None:
    rows, rolled = int(table.w[row.state + at.B_ROW]), bool(table.w[row.state + at.B_ROLLED])
    if table.tally is not None and track.name in table.links:
        _count(table, track, rows, rolled)
    track.returned(rows, rolled)


def _count(table: Table, track: Track, rows: int, rolled: bool) -> None:
    """Count the latencies of the messages that were recorded since the track was lent."""
    lent = track.lend()
    end = len(lent.block) if rolled else rows
    for words in (lent.block[lent.row : end], lent.spare[: rows * rolled]):
        arrived = words[words[:, _STATUS] != LOST]
        assert table.tally is not None
        link = table.links[track.name]
        table.tally.add_many(link, arrived[:, _ARRIVAL] - arrived[:, _INITIATED])
        if len(arrived):
            table.tally.stamp(link, *arrived[-1, [_INITIATED, _COMPLETED, _ARRIVAL]].tolist())


def _lend(table: Table, row: Row, track: Track) -> None:
    w, lent, s = table.w, track.lend(), row.state
    w[row.at + at.R_STATE], w[row.at + at.R_WIDTH] = s, lent.width
    w[row.at + at.R_CAPACITY] = lent.capacity
    w[s + at.B_BLOCK], w[s + at.B_SPARE] = lent.addresses
    w[s + at.B_BLOCK_LENGTH] = w[s + at.B_SPARE_LENGTH] = lent.block.size
    w[s + at.B_ROW], w[s + at.B_ROLLED] = lent.row, 0


def _message_in(table: Table, i: int, message: Message) -> None:
    w, f, topic = table.w, table.flight + i * at.MESSAGE, table.topic_numbers[message.topic]
    r = table.topic_rows[topic].at
    w[f + at.F_NS], w[f + at.F_STEP] = message.arrival
    w[f + at.F_SOURCE], w[f + at.F_NAME] = w[r + at.M_SOURCE], w[r + at.M_NAME]
    w[f + at.F_SEQUENCE], w[f + at.F_TOPIC], w[f + at.F_SLOT] = message.sequence, topic, i
    w[f + at.F_INITIATED], w[f + at.F_INITIATED_STEP] = message.initiated
    w[f + at.F_COMPLETED], w[f + at.F_COMPLETED_STEP] = message.completed
    w[table.slots + i] = 1
    table.payloads[i, : message.payload.size] = message.payload


# -- out


def undo(table: Table) -> None:
    """Undo the tag that is not complete: restore the state at its beginning."""
    w, start, saved = table.w, table.changing, table.saved_words
    whole = w[start + at.IN_TAG] == at.UNDO_ALL
    spans = len(table.spans) if whole else int(w[at.PLANT_SPANS])
    for span, copy in zip(table.spans[:spans], table.saved[:spans], strict=True):
        span[:] = copy
    end = table.flight + int(saved[at.IN_FLIGHT]) * at.MESSAGE
    if not whole:
        end = start + int(w[at.PLANT_WORDS])
    w[start:end] = saved[: end - start]


def copy_out(table: Table, clock: Clock, undone: bool) -> None:
    """Copy ``table`` into the system, without provisional steps.

    ``undone``: the last tag was begun and then undone.
    """
    if table.frames is not None:
        table.frames.copy_out(undone)
    system, w, state = table.system, table.w.tolist(), table.changing
    for row, plant in zip(table.plants, system.plants, strict=True):
        s = row.state
        plant.go_on(w[s + at.S_NS], w[s + at.S_K])
        plant.stale, plant.touched = bool(w[s + at.S_STALE]), bool(w[s + at.S_TOUCHED])
        plant.unsettled = bool(w[s + at.S_UNSETTLED])
    for row, task in zip(table.task_rows, table.tasks, strict=True):
        _task_out(table, w, row.state, task, clock)
    for row, name in zip(table.topic_rows, table.topics, strict=True):
        s = row.state
        last = Tag(w[s + at.Q_LAST], w[s + at.Q_LAST_STEP])
        system.bus.adopt_position(name, w[s + at.Q_SEQUENCE], last)
    take_rows(table)
    system.bus.put(_message_out(table, w, i) for i in range(w[state + at.IN_FLIGHT]))
    system.ns = w[state + at.NOW]


def _task_out(table: Table, w: list[int], s: int, task: Task, clock: Clock) -> None:
    if isinstance(task, ControllerTask):
        request = None
        if w[s + at.K_OPEN]:
            tag = Tag(w[s + at.K_TAG], w[s + at.K_TAG_STEP])
            due = Tag(w[s + at.K_DUE], w[s + at.K_DUE_STEP])
            request = ControllerRequest(tag, due, clock.now())
        task.go_on(w[s + at.K_TICKS], w[s + at.K_SEQUENCE], request)
    elif isinstance(task, TimerTask):
        first, step = table.timer_states[task.name] + at.J_TICKS, at.TIMER_STATE
        task.go_on([w[first + i * step] for i in range(len(task.ticks))])
    else:
        assert isinstance(task, Ticking)
        task.go_to(w[s + at.K_TICKS])


def _message_out(table: Table, w: list[int], i: int) -> Message:
    f = table.flight + i * at.MESSAGE
    name = table.topics[w[f + at.F_TOPIC]]
    topic = table.system.bus.topics[name]
    payload = table.payloads[w[f + at.F_SLOT], : topic.signals.size].copy()
    payload.setflags(write=False)
    return Message(
        name, topic.source, w[f + at.F_SEQUENCE],
        Tag(w[f + at.F_INITIATED], w[f + at.F_INITIATED_STEP]),
        Tag(w[f + at.F_COMPLETED], w[f + at.F_COMPLETED_STEP]),
        Tag(w[f + at.F_NS], w[f + at.F_STEP]), payload, DELIVERED,
    )  # fmt: skip
