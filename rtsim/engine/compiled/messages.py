"""Messages and rows of the compiled engine.

Messages in transit are a binary heap of rows, as :class:`rtsim.components.bus.Bus` has them,
ordered by arrival, sender, topic and sequence number.  Payloads lie in slots, which are used in
turn: a payload that arrived within a tag is still there if the tag has to be undone.
"""

from __future__ import annotations

from typing import Any

from rtsim.engine.compiled import layout as at
from rtsim.equations.addresses import vector_at, words_at
from rtsim.equations.compiling import compiled

# Rows of the recording, copies along wires, and the copy of a tag.

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


_KEYS = 5
_LOST = 1
"""The status of a lost message: :data:`rtsim.components.bus.LOST`."""


@compiled
def _before(w: Any, i: int, j: int) -> bool:
    """Row ``i`` of the heap arrives before row ``j``."""
    a, b = w[at.FLIGHT] + i * at.MESSAGE, w[at.FLIGHT] + j * at.MESSAGE
    for key in range(_KEYS):
        if w[a + key] != w[b + key]:
            return bool(w[a + key] < w[b + key])
    return False


@compiled
def _swap(w: Any, i: int, j: int) -> None:
    a, b = w[at.FLIGHT] + i * at.MESSAGE, w[at.FLIGHT] + j * at.MESSAGE
    for key in range(at.MESSAGE):
        w[a + key], w[b + key] = w[b + key], w[a + key]


@compiled
def _rise(w: Any, i: int) -> None:
    while i > 0 and _before(w, i, (i - 1) // 2):
        _swap(w, i, (i - 1) // 2)
        i = (i - 1) // 2


@compiled
def _sink(w: Any, count: int) -> None:
    i = 0
    while 2 * i + 1 < count:
        child = 2 * i + 1
        if child + 1 < count and _before(w, child + 1, child):
            child += 1
        if not _before(w, child, i):
            return
        _swap(w, i, child)
        i = child


@compiled
def _take(w: Any, ns: int, step: int) -> int:
    """Take the first message that arrives at the tag or before it out of the heap.

    Its row is then behind the heap's last one; returns where, or NOTHING.
    """
    state, f = w[at.CHANGING], w[at.FLIGHT]
    count = w[state + at.IN_FLIGHT] - 1
    if count < 0 or w[f + at.F_NS] > ns or (w[f + at.F_NS] == ns and w[f + at.F_STEP] > step):
        return at.NOTHING
    w[w[at.SLOTS] + w[f + at.F_SLOT]] = 0
    w[state + at.IN_FLIGHT] = count
    _swap(w, 0, count)
    _sink(w, count)
    return int(f + count * at.MESSAGE)


@compiled
def deliver(w: Any, ns: int, step: int) -> None:
    """Write the messages that arrive by the tag to their ports, and mark the ports' readers."""
    while True:
        f = _take(w, ns, step)
        if f == at.NOTHING:
            return
        topic = w[at.TOPICS] + w[f + at.F_TOPIC] * at.TOPIC
        first, payloads = w[f + at.F_SLOT] * w[at.PAYLOAD_WIDTH], vector_at(w, at.PAYLOADS)
        value, early = vector_at(w, topic + at.M_VALUE), vector_at(w, topic + at.M_EARLY)
        for j in range(value.size):
            value[j] = payloads[first + j]
            early[j] = payloads[first + j]
        wrote(w, topic + at.M_READERS)


@compiled
def answer_in_order(w: Any, ns: int, step: int) -> None:
    """Deliver zero-delay answers to later controllers of a declared order at once."""
    while True:
        f = _take(w, ns, step)
        if f == at.NOTHING:
            return
        topic = w[at.TOPICS] + w[f + at.F_TOPIC] * at.TOPIC
        first, payloads = w[f + at.F_SLOT] * w[at.PAYLOAD_WIDTH], vector_at(w, at.PAYLOADS)
        early = vector_at(w, topic + at.M_EARLY)
        for j in range(early.size):
            early[j] = payloads[first + j]
        w[w[topic + at.M_STATE] + at.Q_WRITES] = 1


@compiled
def apply_answers(w: Any) -> None:
    """Make the answers within a declared order visible to all readers, at the microstep's end."""
    for i in range(w[at.TOPIC_COUNT]):
        topic = w[at.TOPICS] + i * at.TOPIC
        if w[w[topic + at.M_STATE] + at.Q_WRITES]:
            w[w[topic + at.M_STATE] + at.Q_WRITES] = 0
            value, early = vector_at(w, topic + at.M_VALUE), vector_at(w, topic + at.M_EARLY)
            for j in range(value.size):
                value[j] = early[j]
            wrote(w, topic + at.M_READERS)


@compiled
def wrote(w: Any, readers: int) -> None:
    """Mark the plants in ``readers``: they must read their inputs again."""
    for i in range(w[readers + 1]):
        plant = w[w[readers] + i]
        w[w[plant + at.P_STATE] + at.S_STALE] = 1


@compiled
def send(
    w: Any, topic: int, initiated: int, initiated_step: int, completed: int, completed_step: int,
    source: int,
) -> bool:  # fmt: skip
    """Send the vector at ``source`` as a message, and record it; return False without room."""
    state, r = w[at.CHANGING], w[at.TOPICS] + topic * at.TOPIC
    s = w[r + at.M_STATE]
    count, room = w[state + at.IN_FLIGHT], w[at.FLIGHT_ROOM]
    if 2 * (count + 1) > room:
        return False
    delay = w[r + at.M_DELAY]
    if w[r + at.M_DRAW] != at.NOTHING:
        drawn = draw(w, w[r + at.M_DRAW])
        if drawn == at.NOTHING:
            return False
        delay = words_at(w, w[at.DRAWS] + w[r + at.M_DRAW] * at.DRAW + at.D_VALUES)[drawn]
    sequence = w[s + at.Q_SEQUENCE]
    w[s + at.Q_SEQUENCE] = sequence + 1
    f, payload = w[at.FLIGHT] + count * at.MESSAGE, vector_at(w, source)
    w[f + at.F_SEQUENCE], w[f + at.F_TOPIC] = sequence, topic
    w[f + at.F_INITIATED], w[f + at.F_INITIATED_STEP] = initiated, initiated_step
    w[f + at.F_COMPLETED], w[f + at.F_COMPLETED_STEP] = completed, completed_step
    if delay == at.LOST:
        w[f + at.F_NS], w[f + at.F_STEP] = -1, 0
        return _row(w, f, w[r + at.M_TRACK], payload, _LOST)
    ns, step = completed, completed_step
    if delay > 0:
        ns, step = completed + delay, 0
    elif completed == initiated and not w[r + at.M_IMMEDIATE]:
        step = completed_step + 1
    if w[r + at.M_ORDERED]:
        last, last_step = w[s + at.Q_LAST], w[s + at.Q_LAST_STEP]
        if last > ns or (last == ns and last_step > step):
            ns, step = last, last_step
        w[s + at.Q_LAST], w[s + at.Q_LAST_STEP] = ns, step
    slot = w[state + at.NEXT_SLOT]
    while w[w[at.SLOTS] + slot]:
        slot = (slot + 1) % room
    w[state + at.NEXT_SLOT] = (slot + 1) % room
    w[w[at.SLOTS] + slot] = 1
    payloads = vector_at(w, at.PAYLOADS)
    for j in range(payload.size):
        payloads[slot * w[at.PAYLOAD_WIDTH] + j] = payload[j]
    w[f + at.F_NS], w[f + at.F_STEP], w[f + at.F_SLOT] = ns, step, slot
    w[f + at.F_SOURCE], w[f + at.F_NAME] = w[r + at.M_SOURCE], w[r + at.M_NAME]
    w[state + at.IN_FLIGHT] = count + 1
    recorded = _row(w, f, w[r + at.M_TRACK], payload, 0)
    _rise(w, count)
    return recorded


@compiled
def _row(w: Any, f: int, track: int, payload: Any, status: int) -> bool:
    """Record the message whose row in the heap begins at ``f``."""
    first = new_row(w, track)
    if first < 0:
        return first == UNRECORDED
    block = w[w[at.TRACKS] + track * at.TRACK + at.R_STATE] + at.B_BLOCK
    words, doubles = words_at(w, block), vector_at(w, block)
    words[first], words[first + 1] = w[f + at.F_INITIATED], w[f + at.F_SEQUENCE]
    words[first + 2], words[first + 3] = w[f + at.F_INITIATED], w[f + at.F_INITIATED_STEP]
    words[first + 4], words[first + 5] = w[f + at.F_COMPLETED], w[f + at.F_COMPLETED_STEP]
    words[first + 6], words[first + 7] = w[f + at.F_NS], w[f + at.F_STEP]
    words[first + 8] = status
    for j in range(payload.size):
        doubles[first + 9 + j] = payload[j]
    return True
