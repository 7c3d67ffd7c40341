"""Messages and recorded rows of the compiled engine.

Messages in transit form a binary heap, ordered by arrival, sender, topic and sequence number. Each
payload has a slot, and slots are used one after another. The payloads of arrived messages are
therefore still available if a tag is undone.

In all functions, ``t`` is the record ``rtsim.engine.compiled.records.HEADER``, which contains the
addresses of all other records.
"""

from __future__ import annotations

from typing import Any

from rtsim.engine.compiled.records import (
    COPY,
    DRAW,
    DRAW_STATE,
    FAR,
    LOST,
    MESSAGE,
    NOTHING,
    PLANT_STATE,
    STATE,
    TASK,
    TASK_STATE,
    TIMER,
    TIMER_STATE,
    TIMERS,
    TOPIC,
    TOPIC_STATE,
    TRACK,
    TRACK_STATE,
    UNDO_ALL,
    UNDO_PLANTS,
)
from rtsim.equations.addresses import record_at, records_of, vector_of, words_of
from rtsim.equations.compiling import compiled

# Rows of the recording, copies along wires, and the copy for undoing a tag

FULL = -2
"""Result of :func:`new_row` if the buffer of the track has no free row."""
UNRECORDED = -3
"""Result of :func:`new_row` if the track is not recorded."""


@compiled
def state_of(t: Any) -> Any:
    """Return the record STATE with all changing values."""
    return record_at(t.state.address, STATE)


@compiled
def tick(numerator: int, denominator: int, k: int, offset: int) -> int:
    """Return the time (ns) of the tick with the number ``k``."""
    if denominator == 1:  # avoids a division, which would dominate the time
        return offset + k * numerator
    return offset + (2 * k * numerator + denominator) // (2 * denominator)


@compiled
def ticked(t: Any, i: int, ns: int) -> None:
    """Advance task ``i`` from its tick at ``ns`` to its next tick."""
    task, state = records_of(t.tasks, TASK)[i], records_of(t.task_states, TASK_STATE)[i]
    if task.kind != TIMERS:
        state.k += 1
        state.next_ns = tick(task.numerator, task.denominator, state.k, task.offset)
        return
    due, first = vector_of(task.into), FAR
    for j in range(task.timers.count):
        timer = records_of(t.timers, TIMER)[task.timers.first + j]
        coming = records_of(t.timer_states, TIMER_STATE)[task.timers.first + j]
        due[j] = 0.0
        if coming.next_ns == ns:
            due[j] = 1.0
            coming.k += 1
            coming.next_ns = FAR
            if timer.denominator != 0:
                coming.next_ns = tick(timer.numerator, timer.denominator, coming.k, timer.offset)
        first = min(first, coming.next_ns)
    state.next_ns = first


@compiled
def gather(t: Any, copies: Any) -> None:
    for i in range(copies.count):
        wire = records_of(t.wires, COPY)[copies.first + i]
        into, source = vector_of(wire.into), vector_of(wire.source)
        for j in range(into.size):
            into[j] = source[j]


@compiled
def new_row(t: Any, track: int) -> int:
    """Begin a row of a track; return the index of its first word, FULL or UNRECORDED."""
    kept, state = records_of(t.tracks, TRACK)[track], records_of(t.track_states, TRACK_STATE)[track]
    if state.block.length == 0:
        state.row += 1
        return UNRECORDED
    if state.row == kept.capacity:
        if state.rolled:
            return FULL
        state.block.address = state.spare.address
        state.row, state.rolled = 0, 1
        state_of(t).rolled = 1
    row = state.row
    state.row = row + 1
    return int(row * kept.width)


@compiled
def block_of(t: Any, track: int) -> Any:
    """Return address and length of the buffer for the rows of a track."""
    return records_of(t.track_states, TRACK_STATE)[track].block


@compiled
def save(t: Any) -> None:
    """Save all values that a tag can change."""
    state = state_of(t)
    _copy_spans(t, t.spans.length)
    _copy_words(t, t.flight_at + state.in_flight * _MESSAGE_WORDS)
    state.in_tag = UNDO_ALL


@compiled
def save_plants(t: Any) -> None:
    """Save all values that a tag with steps of plants only can change."""
    _copy_spans(t, t.plant_spans)
    _copy_words(t, t.plant_words)
    state_of(t).in_tag = UNDO_PLANTS


@compiled
def _copy_spans(t: Any, count: int) -> None:
    for i in range(count):
        span = records_of(t.spans, COPY)[i]
        source, into = vector_of(span.source), vector_of(span.into)
        for j in range(source.size):
            into[j] = source[j]


@compiled
def _copy_words(t: Any, count: int) -> None:
    words, saved = words_of(t.changing), words_of(t.saved)
    for j in range(count):
        saved[j] = words[j]


@compiled
def draw(t: Any, row: int) -> int:
    """Return the index of the next random numbers, or NOTHING."""
    drawn, state = records_of(t.draws, DRAW)[row], records_of(t.draw_states, DRAW_STATE)[row]
    i = state.next
    if (i + 1) * drawn.width > drawn.values.length:
        state_of(t).dry = 1
        return NOTHING
    state.next = i + 1
    return int(i * drawn.width)


@compiled
def draw_delay(t: Any, constant: int, row: int) -> int:
    """Return a delay in ns, or LOST.

    If ``row`` is NOTHING, the delay is ``constant``; otherwise it is the next number of
    ``t.draws[row]``. Return NO_DELAY if no drawn numbers are left.
    """
    if row == NOTHING:
        return constant
    drawn = draw(t, row)
    if drawn == NOTHING:
        return NO_DELAY
    return int(words_of(records_of(t.draws, DRAW)[row].values)[drawn])


NO_DELAY = -(2**62)
_MESSAGE_WORDS = MESSAGE.itemsize // 8
_LOST = 1
"""Status of a lost message, as :data:`rtsim.components.bus.LOST`."""


@compiled
def _before(a: Any, b: Any) -> bool:
    if a.ns != b.ns:
        return bool(a.ns < b.ns)
    if a.step != b.step:
        return bool(a.step < b.step)
    if a.source != b.source:
        return bool(a.source < b.source)
    if a.name != b.name:
        return bool(a.name < b.name)
    return bool(a.sequence < b.sequence)


@compiled
def _swap(t: Any, i: int, j: int) -> None:
    words = words_of(t.changing)
    a, b = t.flight_at + i * _MESSAGE_WORDS, t.flight_at + j * _MESSAGE_WORDS
    for k in range(_MESSAGE_WORDS):
        words[a + k], words[b + k] = words[b + k], words[a + k]


@compiled
def _rise(t: Any, i: int) -> None:
    flight = records_of(t.flight, MESSAGE)
    while i > 0 and _before(flight[i], flight[(i - 1) // 2]):
        _swap(t, i, (i - 1) // 2)
        i = (i - 1) // 2


@compiled
def _sink(t: Any, count: int) -> None:
    flight, i = records_of(t.flight, MESSAGE), 0
    while 2 * i + 1 < count:
        child = 2 * i + 1
        if child + 1 < count and _before(flight[child + 1], flight[child]):
            child += 1
        if not _before(flight[child], flight[i]):
            return
        _swap(t, i, child)
        i = child


@compiled
def arrives(t: Any, ns: int, step: int) -> bool:
    first = records_of(t.flight, MESSAGE)[0]
    waiting = state_of(t).in_flight > 0
    return bool(waiting and (first.ns < ns or (first.ns == ns and first.step <= step)))


@compiled
def _take(t: Any) -> Any:
    """Remove and return the first message."""
    state, flight = state_of(t), records_of(t.flight, MESSAGE)
    count = state.in_flight - 1
    words_of(t.slots)[flight[0].slot] = 0
    state.in_flight = count
    _swap(t, 0, count)
    _sink(t, count)
    return flight[count]


@compiled
def deliver(t: Any, ns: int, step: int) -> None:
    """Write the payloads of arrived messages to their ports."""
    while arrives(t, ns, step):
        message = _take(t)
        topic = records_of(t.topics, TOPIC)[message.topic]
        first, payloads = message.slot * t.payload_width, vector_of(t.payloads)
        value, early = vector_of(topic.value), vector_of(topic.early)
        for j in range(value.size):
            value[j] = payloads[first + j]
            early[j] = payloads[first + j]
        gather(t, topic.held)
        gather(t, topic.held_early)
        wrote(t, topic.readers)


@compiled
def answer_in_order(t: Any, ns: int, step: int) -> None:
    """Deliver answers without latency to later controllers in a declared order."""
    while arrives(t, ns, step):
        message = _take(t)
        topic = records_of(t.topics, TOPIC)[message.topic]
        first, payloads = message.slot * t.payload_width, vector_of(t.payloads)
        early = vector_of(topic.early)
        for j in range(early.size):
            early[j] = payloads[first + j]
        gather(t, topic.held_early)
        records_of(t.topic_states, TOPIC_STATE)[message.topic].writes = 1


@compiled
def apply_answers(t: Any) -> None:
    """Deliver answers in a declared order to all other readers."""
    for i in range(t.topics.length):
        state = records_of(t.topic_states, TOPIC_STATE)[i]
        if state.writes:
            state.writes = 0
            topic = records_of(t.topics, TOPIC)[i]
            value, early = vector_of(topic.value), vector_of(topic.early)
            for j in range(value.size):
                value[j] = early[j]
            gather(t, topic.held)
            wrote(t, topic.readers)


@compiled
def wrote(t: Any, readers: Any) -> None:
    """Mark the plants in ``readers``, which must read their inputs again."""
    for i in range(readers.count):
        plant = words_of(t.readers)[readers.first + i]
        records_of(t.plant_states, PLANT_STATE)[plant].stale = 1


@compiled
def send(
    t: Any, i: int, initiated: int, initiated_step: int, completed: int, completed_step: int,
    source: Any,
) -> bool:  # fmt: skip
    """Send the vector at ``source`` on topic ``i``, and record the message.

    Return False without enough memory or drawn delays.
    """
    topic, sent = records_of(t.topics, TOPIC)[i], records_of(t.topic_states, TOPIC_STATE)[i]
    state, count = state_of(t), state_of(t).in_flight
    if 2 * (count + 1) > t.flight_room:
        return False
    delay = draw_delay(t, topic.delay, topic.draw)
    if delay == NO_DELAY:
        return False
    message, payload = records_of(t.flight, MESSAGE)[count], vector_of(source)
    message.sequence, message.topic = sent.sequence, i
    sent.sequence += 1
    message.initiated, message.initiated_step = initiated, initiated_step
    message.completed, message.completed_step = completed, completed_step
    if delay == LOST:
        message.ns, message.step = -1, 0
        return _row(t, message, topic.track, payload, _LOST)
    ns, step = completed, completed_step
    if delay > 0:
        ns, step = completed + delay, 0
    elif completed == initiated and not topic.immediate:
        step = completed_step + 1
    if topic.ordered:
        if sent.last > ns or (sent.last == ns and sent.last_step > step):
            ns, step = sent.last, sent.last_step
        sent.last, sent.last_step = ns, step
    slots, slot = words_of(t.slots), state.next_slot
    while slots[slot]:
        slot = (slot + 1) % t.flight_room
    state.next_slot = (slot + 1) % t.flight_room
    slots[slot] = 1
    payloads = vector_of(t.payloads)
    for j in range(payload.size):
        payloads[slot * t.payload_width + j] = payload[j]
    message.ns, message.step, message.slot = ns, step, slot
    message.source, message.name = topic.source, topic.name
    state.in_flight = count + 1
    recorded = _row(t, message, topic.track, payload, 0)
    _rise(t, count)
    return recorded


@compiled
def _row(t: Any, message: Any, track: int, payload: Any, status: int) -> bool:
    first = new_row(t, track)
    if first < 0:
        return first == UNRECORDED
    words, doubles = words_of(block_of(t, track)), vector_of(block_of(t, track))
    words[first], words[first + 1] = message.initiated, message.sequence
    words[first + 2], words[first + 3] = message.initiated, message.initiated_step
    words[first + 4], words[first + 5] = message.completed, message.completed_step
    words[first + 6], words[first + 7] = message.ns, message.step
    words[first + 8] = status
    for j in range(payload.size):
        doubles[first + 9 + j] = payload[j]
    return True
