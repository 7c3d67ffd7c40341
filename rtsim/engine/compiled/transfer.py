"""Copy the state of a run to arrays for compiled code, and back.

The state is copied before and after each call of compiled code. While the interpreter runs, the
objects contain the complete state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rtsim.components.bus import DELIVERED, LOST, Message
from rtsim.components.controller_task import ControllerRequest, ControllerTask
from rtsim.components.plant import NONE_NS
from rtsim.components.tasks import Task, Ticking, TimerTask
from rtsim.core.clock import Clock
from rtsim.core.tag import Tag
from rtsim.engine.compiled.records import (
    MESSAGE,
    PLANT_STATE,
    STATE,
    TASK_STATE,
    TOPIC_STATE,
    UNDO_ALL,
    by_name,
    in_order,
)
from rtsim.engine.compiled.table import Table
from rtsim.record.track import Track

_INITIATED, _COMPLETED, _ARRIVAL, _STATUS = 2, 4, 6, 8
"""Columns of a message's row."""

# Calls


def call(table: Table, kernel: Callable[[], int], interrupt_check: Callable[[], object]) -> int:
    """Call the kernel until it no longer pauses; return the number of tags.

    ``interrupt_check`` is called in each pause.
    """
    try:
        tags = int(kernel())
        while table.state["paused"]:
            interrupt_check()
            tags += int(kernel())
    except BaseException:
        give_up(table)
        raise
    return tags


def give_up(table: Table) -> None:
    """Discard the paused step of each plant."""
    for plant in table.system.plants:
        plant.give_up()


# Into the table


def copy_in(table: Table, flight: Sequence[Message]) -> None:
    """Copy the system into ``table``.

    ``flight`` contains the messages in transit, sorted by arrival.
    """
    system = table.system
    table.changing[: table.flight_at] = 0
    table.state["now"] = system.ns
    table.header["coupled"] = any(
        p.reads_plants or (p.behind and p.ns < system.ns) for p in system.plants
    )
    for i, plant in enumerate(system.plants):
        ns, k = plant.position
        table.plant_states[i] = _plant_state({
            "ns": ns, "k": k, "grid": plant.step.tick(k), "target": NONE_NS, "here": 0,
            **{name: getattr(plant, name) for name in _FLAGS},
        })  # fmt: skip
    for i, task in enumerate(table.task_list):
        _task_in(table, i, task)
    for i, name in enumerate(table.topic_list):
        sequence, (ns, step) = system.bus.position(name)
        table.topic_states[i] = _topic_state(
            {"sequence": sequence, "last": ns, "last_step": step, "writes": 0}
        )
    if table.frames is not None:
        table.frames.copy_in()
    lend_rows(table)
    for i, message in enumerate(flight):  # a sorted list is a heap
        _message_in(table, i, message)
    table.state["in_flight"] = table.state["next_slot"] = len(flight)


_FLAGS = ("stale", "touched", "unsettled")
"""Flags for a plant's next microstep: attributes of the plant and words of its record."""


_plant_state, _task_state = in_order(PLANT_STATE), in_order(TASK_STATE)
_topic_state, _message = in_order(TOPIC_STATE), in_order(MESSAGE)
_NO_TASK = dict.fromkeys(TASK_STATE.names or (), 0)


def _task_in(table: Table, i: int, task: Task) -> None:
    state = _NO_TASK | {"next_ns": task.next_ns}
    if isinstance(task, Ticking):
        state |= {name: getattr(task, name) for name in task.counts}
    if isinstance(task, TimerTask):
        first, count = table.timer_ranges[task.name]
        timers = table.timer_states[first : first + count]
        timers["k"], timers["next_ns"] = task.ticks, task.coming
    if isinstance(task, ControllerTask) and (request := task.request) is not None:
        state["open"] = 1
        state["tag"], state["tag_step"] = request.tag
        state["due"], state["due_step"] = request.due
    table.task_states[i] = _task_state(state)


def lend_rows(table: Table) -> None:
    """Give the buffers of all tracks to compiled code."""
    for i, track in enumerate(table.track_list):
        table.tracks[i], table.track_states[i] = _lent(track)


def take_rows(table: Table) -> None:
    """Take back the buffers of all tracks, with the rows of complete tags."""
    for rows, rolled, track in _written(table):
        _take(table, track, rows, rolled)


def note_rows(table: Table) -> None:
    """Add the rows of complete tags to the tracks, and replace full blocks."""
    for i, (rows, rolled, track) in enumerate(_written(table)):
        if rolled or rows == table.tracks[i]["capacity"]:
            _take(table, track, rows, rolled)
            table.tracks[i], table.track_states[i] = _lent(track)
            continue
        if table.tally is not None and track.name in table.links:
            _count(table, track, rows, rolled=False)
        track.wrote(rows)


def _written(table: Table) -> Iterator[tuple[int, bool, Track]]:
    """Return (row, rolled, track) for each track.

    ``row`` is the index of the next row, which is in the second block if ``rolled`` is True.
    """
    rows, rolled = table.track_states["row"].tolist(), table.track_states["rolled"].tolist()
    return zip(rows, map(bool, rolled), table.track_list, strict=True)


def _take(table: Table, track: Track, rows: int, rolled: bool) -> None:
    if table.tally is not None and track.name in table.links:
        _count(table, track, rows, rolled)
    track.returned(rows, rolled)


def _count(table: Table, track: Track, rows: int, rolled: bool) -> None:
    """Count the latencies of the messages that were recorded since the last call."""
    lent = track.lend()
    end = len(lent.block) if rolled else rows
    for words in (lent.block[lent.row : end], lent.spare[: rows * rolled]):
        arrived = words[words[:, _STATUS] != LOST]
        assert table.tally is not None
        link = table.links[track.name]
        table.tally.add_many(link, arrived[:, _ARRIVAL] - arrived[:, _INITIATED])
        if len(arrived):
            table.tally.stamp(link, *arrived[-1, [_INITIATED, _COMPLETED, _ARRIVAL]].tolist())


def _lent(track: Track) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    lent = track.lend()
    block, spare = ((address, lent.block.size) for address in lent.addresses)
    return (lent.width, lent.capacity), (lent.row, 0, block, spare)


def _message_in(table: Table, i: int, message: Message) -> None:
    topic = table.topic_numbers[message.topic]
    source, name = table.topics[topic]["source"], table.topics[topic]["name"]
    table.flight[i] = _message({
        "ns": message.arrival.ns, "step": message.arrival.step, "source": source, "name": name,
        "sequence": message.sequence, "topic": topic, "slot": i,
        "initiated": message.initiated.ns, "initiated_step": message.initiated.step,
        "completed": message.completed.ns, "completed_step": message.completed.step,
    })  # fmt: skip
    table.slots[i] = 1
    table.payloads[i, : message.payload.size] = message.payload


# Out of the table


def undo(table: Table) -> None:
    """Undo an incomplete tag."""
    whole = table.state["in_tag"] == UNDO_ALL
    spans, words = int(table.header["plant_spans"]), table.plant_words
    if whole:
        spans = len(table.span_list)
        in_flight = int(table.saved[: STATE.itemsize // 8].view(STATE)["in_flight"][0])
        words = table.flight_at + in_flight * (MESSAGE.itemsize // 8)
    for span, copy in zip(table.span_list[:spans], table.saved_spans[:spans], strict=True):
        span[:] = copy
    table.changing[:words] = table.saved[:words]


def copy_out(table: Table, clock: Clock, undone: bool) -> None:
    """Copy the values of ``table`` to the system.

    ``undone`` is True if compiled code has undone the last tag.
    """
    if table.frames is not None:
        table.frames.copy_out(undone)
    system = table.system
    for state, plant in zip(by_name(table.plant_states), system.plants, strict=True):
        plant.adopt_compiled_state(state["ns"], state["k"])
        for name in _FLAGS:
            setattr(plant, name, bool(state[name]))
    for state, task in zip(by_name(table.task_states), table.task_list, strict=True):
        _task_out(table, state, task, clock)
    for state, name in zip(by_name(table.topic_states), table.topic_list, strict=True):
        last = Tag(state["last"], state["last_step"])
        system.bus.adopt_position(name, state["sequence"], last)
    take_rows(table)
    in_flight = int(table.state["in_flight"])
    if in_flight:
        system.bus.put(_message_out(table, row) for row in by_name(table.flight[:in_flight]))
    system.ns = int(table.state["now"])


def _task_out(table: Table, found: dict[str, Any], task: Task, clock: Clock) -> None:
    if isinstance(task, ControllerTask):
        request = None
        if found["open"]:
            tag, due = Tag(found["tag"], found["tag_step"]), Tag(found["due"], found["due_step"])
            request = ControllerRequest(tag, due, clock.now())
        task.adopt_compiled_state({name: found[name] for name in task.counts}, request)
    elif isinstance(task, TimerTask):
        first, count = table.timer_ranges[task.name]
        task.adopt_compiled_state(table.timer_states["k"][first : first + count].tolist())
    else:
        assert isinstance(task, Ticking)
        task.adopt_compiled_state({name: found[name] for name in task.counts})


def _message_out(table: Table, found: dict[str, Any]) -> Message:
    name = table.topic_list[found["topic"]]
    topic = table.system.bus.topics[name]
    payload = table.payloads[found["slot"], : topic.signals.size].copy()
    payload.setflags(write=False)
    return Message(
        name, topic.source, found["sequence"],
        Tag(found["initiated"], found["initiated_step"]),
        Tag(found["completed"], found["completed_step"]),
        Tag(found["ns"], found["step"]), payload, DELIVERED,
    )  # fmt: skip
