"""The table of the compiled engine: records of 64-bit words with names.

The kernel (``rtsim.engine.compiled.kernel``) receives the address of a ``HEADER``, which contains
the addresses of all other records. Each kind of object, such as plants, has an array of constant
records and an array of changing records.

All changing records are in one block of memory. At the beginning of each tag, the words that can
change are saved, so that the tag can be undone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

NOTHING = -1
"""Value of a word that is not set: no provisional step, no message, or no random number."""
FAR = 2**63 - 1
"""A time (ns) later than the end of every run."""


def record(*names: str, **others: Any) -> np.dtype[np.void]:
    """Return a record type: 64-bit integers with the given names, then other fields."""
    return np.dtype([*((name, np.int64) for name in names), *others.items()])


PLACE = record("address", "length")
"""Address of a vector or an array of records, and its number of elements."""
RANGE = record("first", "count")
"""A range of another array: index of the first element, and number of elements."""


def in_order(kind: np.dtype[np.void]) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    """Return a function that converts values by name to a tuple for a record.

    Assigning a whole record takes as long as assigning two fields.
    """
    return itemgetter(*(kind.names or ()))


def by_name(records: NDArray[np.void]) -> list[dict[str, Any]]:
    names = records.dtype.names or ()
    return [dict(zip(names, row, strict=True)) for row in records.tolist()]


def place_of(vector: NDArray[Any]) -> tuple[int, int]:
    """Return address and length of an array."""
    assert vector.flags.c_contiguous or vector.size < 2
    return vector.ctypes.data, vector.size


HEADER = record(
    "limit",  # ns: this tag and later tags are not run
    "last",  # 1 if the tag at the limit is the last of the run, and is run too
    "most",  # number of tags after which the call returns
    "coupled",  # 1 if a plant reads another plant, or has not read a message yet
    "flight_room",  # messages that fit into ``flight``, which is a binary heap
    "payload_width",
    "plant_spans",  # number of spans of the plants, which come first
    "plant_words",  # number of changing words of plants and tracks, which come first
    "flight_at",  # index of the first word of ``flight`` among the changing words
    "timing",  # the track of the frames' timing
    state=PLACE,  # one STATE
    plants=PLACE, plant_states=PLACE,
    tracks=PLACE, track_states=PLACE,
    tasks=PLACE, task_states=PLACE,
    topics=PLACE, topic_states=PLACE,
    draws=PLACE, draw_states=PLACE,  # random numbers drawn in advance
    timers=PLACE, timer_states=PLACE,
    answers=PLACE,  # indices of controllers, in the order in which answers are sent
    wires=PLACE, readers=PLACE,  # readers: indices of plants
    spans=PLACE,  # vectors that change during a tag, and their copies
    changing=PLACE, saved=PLACE,  # the words that change, and their copies
    slots=PLACE,  # one word for each payload in transit: 1 if it is in use
    payloads=PLACE,  # a row of doubles for each slot
    flight=PLACE,  # messages in transit
    pace=PLACE,  # one PACE; a length of 0 if the run is not paced
    changes=PLACE,  # scheduled changes of an exported model, sorted by time
    own=PLACE,  # one word: the address of this record
)  # fmt: skip
STATE = record(
    "now", "in_flight", "next_slot", "rolled", "dry",
    "in_tag",  # what can be undone of the present tag; 0 between tags
    "answer",  # result of the latest wait of a paced run
    "paused",
    "ended",  # 1 after a guard has ended the run of an exported model
    "next_change",
)  # fmt: skip
UNDO_ALL, UNDO_PLANTS = 1, 2
"""Values of ``in_tag``."""

PLANT = record(
    "step",  # the solver's step
    "kept",  # index of the first double of the solver's memory that a change of state resets
    "numerator", "denominator",  # the step, ns
    "coupled", "track",
    "drive",  # function that takes a step with guards; 0 without guards
    words=PLACE,  # the block of the step's vectors
    output=PLACE,  # the block of the output function
    x=PLACE, next=PLACE, memory=PLACE, after=PLACE, values=PLACE, u=PLACE,
    into=PLACE,  # inputs copied from the wires
    copies=RANGE,
    guard_table=PLACE,  # of rtsim.solve.guard_table
    guards=PLACE,  # the block of the guards' values
    g=PLACE,
    watch=PLACE,  # one WATCH, if compiled code executes the resets; otherwise a length of 0
)  # fmt: skip
PLANT_STATE = record("ns", "target", "k", "grid", "stale", "touched", "unsettled", "here")

WATCH = record(
    "reset", "stop",  # functions of the model; stop: 0 without stop mode
    # vectors: present values; after the resets; before them; after the reset of one guard
    x=PLACE, z=PLACE, u=PLACE, p=PLACE,
    new_x=PLACE, new_z=PLACE,
    then_x=PLACE, then_z=PLACE, then_u=PLACE, then_p=PLACE,
    own_x=PLACE, own_z=PLACE, own_u=PLACE, own_p=PLACE,
    end=PLACE,  # state at the end of the step
    # argument tables of rtsim.solve.guard_watch.MOTION for these vectors, and their results
    moved=PLACE, moving=PLACE, holding=PLACE, own=PLACE,
    moves=PLACE, held=PLACE, own_found=PLACE,
    marks=PLACE, rules=PLACE, times=PLACE, notes=PLACE,  # of rtsim.engine.compiled.resets
)  # fmt: skip
CHANGE = record(
    "ns",
    "plant",  # index of the plant that the change writes, or NOTHING for a source or a controller
    into=PLACE, early=PLACE, value=PLACE,
)  # fmt: skip

CONTROLLER, SENSOR, UPDATE, NOISE, TIMERS = range(5)
"""Kinds of tasks."""
TASK = record(
    "kind", "function",
    "numerator", "denominator", "offset",  # the ticks, ns
    "topic",
    "track",  # of a controller's sampled inputs
    "delay", "draw",  # compute latency, ns; or the draws of a task
    "plant",
    "ordered",  # 1 if a declared order puts other tasks after it
    first=PLACE, second=PLACE, third=PLACE, fourth=PLACE,  # the function's four vectors
    into=PLACE,  # inputs copied from the wires
    copies=RANGE, timers=RANGE,
    z=PLACE,  # the discrete state that an update writes
    port=PLACE, early=PLACE,  # values of a noise; port: also random numbers of a timer
    readers=RANGE,  # plants that read it
)  # fmt: skip
TASK_STATE = record(
    "next_ns", "k", "sequence", "writes",
    "open", "tag", "tag_step", "due", "due_step",  # the pending request
)  # fmt: skip

TOPIC = record(
    "source", "name",  # ranks of sender and topic in the order of names
    "delay", "draw", "ordered", "track",
    "immediate",  # 1 if a zero delay arrives within the sender's microstep
    value=PLACE, early=PLACE, readers=RANGE,
    held=RANGE, held_early=RANGE,  # wires to readers with other values before the first message
)  # fmt: skip
TOPIC_STATE = record("sequence", "last", "last_step", "writes")

TRACK = record("width", "capacity")
TRACK_STATE = record("row", "rolled", block=PLACE, spare=PLACE)

LOST = -1
"""Delay of a lost message."""
DRAW = record("width", values=PLACE)
"""Numbers drawn in advance: rows of ``width`` doubles, or of one integer."""
DRAW_STATE = record("next")

TIMER = record("numerator", "denominator", "offset")
"""A timer. A timer with a denominator of 0 ticks once."""
TIMER_STATE = record("next_ns", "k")

COPY = record(into=PLACE, source=PLACE)
"""A wire, or a vector that changes during a tag (``source``) and its copy (``into``)."""

MESSAGE = record(
    "ns", "step", "source", "name", "sequence",  # a message in transit; ordered by these five
    "topic", "initiated", "initiated_step", "completed", "completed_step", "slot",
)  # fmt: skip

# Several runs at once

PASS = record(
    "calls",  # calls that computed several lanes
    "alone",  # steps that one lane computed alone
    lanes=PLACE, wides=PLACE,
)  # fmt: skip
LANE = record(
    "header",  # address of the lane's HEADER
    "runs",  # 1 until the lane stops
    "tags",  # tags since the call began
    "discrete", "part", "target", "ns",
    "stale",  # 1 if the parameters of the plants may have changed
)  # fmt: skip
WIDE = record(
    "step", "output",  # functions at several lanes; 0 if the lanes are computed one by one
    step_words=PLACE, output_words=PLACE, numbers=PLACE, answers=PLACE,
    # matrices with one column for each lane
    x=PLACE, z=PLACE, u=PLACE, p=PLACE, memory=PLACE, after=PLACE, out=PLACE, y=PLACE,
)  # fmt: skip
"""One plant in all lanes."""

# A paced run: its clock, the present frame, and the frames since the last call of Python

PACE = record(
    "time_call", "sleep_call", "read_call", "peek_call",  # addresses of the C library's functions
    "file",  # the open file with the run delay; -1 if there is none
    "socket", "given_seen",  # socket of commands, or -1; number of commands seen
    "simulated", "own", "numerator", "denominator",  # reference point and rate
    "spin", "least_spin", "most_spin", "bound",  # the busy-wait window, ns
    "tolerance",
    "called",  # time of the last call from Python, ns
    "brief", "long",  # intervals between calls of Python, ns: with and without slack
    "reached",  # tag whose wait is over; NOTHING if there is none
    # attributes of rtsim.timing.frames.Frame
    "resumed", "lap_at", "spent", "began_late", "late_by_wake", "woke_late", "margin", "tag_ns",
    "closed", "next", "culprit", "culprit_ns", "stood",
    "stood_before",
    "frames",  # number of frames since the last call of Python
    "least",  # a frame with a longer response [ns] is among the worst
    "worst_count", "overrun_count",
    "allowed", "consecutive", "counted", "frame_ns",  # counts of the overrun policy
    time=PLACE,  # buffer for a time of the C library: s and ns
    text=PLACE,  # contents of the file with the run delay
    given=PLACE,  # a word that counts commands
    columns=PLACE, row=PLACE,  # recorded columns: indices of their words; their values
    words=PLACE,  # this record as words
    jobs=PLACE,  # ns of each job
    spreads=PLACE,  # one SPREAD for each of the first columns
    worst=PLACE, overruns=PLACE,
)  # fmt: skip
SPREAD = record(bins=PLACE, totals=PLACE)
NO_SAMPLE = -(2**63)
JOB_NEXT, JOB_RECORDING, FIRST_TASK_JOB = range(3)
REST_JOB, NO_JOB = -1, -2
WORST_HEAD = 3
"""Number of words before the jobs of a worst frame: tag, lateness and compute time."""
OVERRUN = record("ns", "late", "by_wake", "job", "stood", "consecutive")
"""A row of :class:`rtsim.timing.policy.CaughtUp`."""
