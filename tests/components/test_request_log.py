"""The log of a controller's requests, entry by entry: what it keeps, counts, saves and feeds."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

from rtsim.components.request_log import MOST_BYTES, RequestLog, feed, steps_of
from rtsim.core.errors import ControllerError
from rtsim.core.signals import Vector
from rtsim.core.tag import Tag

ROWS = 1024
"""Rows of a block; the oldest block is forgotten as a whole."""
ROW_BYTES = 8 * (2 + 2)
"""A tag and two inputs."""


def logged(steps: int, most_bytes: int = MOST_BYTES) -> RequestLog:
    """Step ``k`` is of ``Tag(k, k % 3)`` with the inputs ``k / 2`` and ``-k``."""
    log = RequestLog(2, most_bytes)
    for k in range(steps):
        log.add(Tag(k, k % 3), np.array([k / 2, -k]))
    return log


def plain(log: RequestLog) -> dict[str, Any]:
    """What it saves; the blocks as one list each."""
    saved = log.save()
    for name in ("tags", "inputs"):
        saved[name] = [value for block in saved[name] for value in block.tolist()]
    return saved


def test_a_log_begins_without_steps() -> None:
    log = RequestLog(2)
    assert (log.steps, log.open, log.asked, log.checksum, log.forgotten) == (0, False, 0, 0, 0)
    assert log.tags.shape == log.inputs.shape == (0, 2)
    assert log.tags.dtype == np.int64
    assert log.inputs.dtype == np.float64
    assert plain(log) == {
        "steps": 0, "open": False, "asked": 0, "checksum": 0, "tags": [], "inputs": [],
    }  # fmt: skip


def test_a_request_is_open_until_its_answer_and_counts_empty_polls() -> None:
    log = logged(1)
    assert (log.open, log.asked, log.checksum) == (True, 0, 0)
    log.heard(None)
    log.heard(None)
    assert (log.open, log.asked, log.checksum) == (True, 2, 0)
    log.heard(np.array([1.5]))
    first = zlib.crc32(np.array([1.5]).tobytes())
    assert (log.open, log.asked, log.checksum) == (False, 2, first)
    log.add(Tag(1), np.zeros(2))
    assert (log.open, log.asked) == (True, 0)
    log.heard(np.array([2.5]))
    assert log.checksum == zlib.crc32(np.array([2.5]).tobytes(), first)


def test_the_checksum_stays_unknown_after_an_answer_that_is_not_known() -> None:
    log = logged(1)
    log.checksum = None
    log.heard(np.array([1.5]))
    assert (log.checksum, log.open) == (None, False)


@pytest.mark.parametrize(
    ("most_bytes", "blocks"),
    [
        (0, 1),
        (ROWS * ROW_BYTES, 1),
        (2 * ROWS * ROW_BYTES - 1, 1),
        (2 * ROWS * ROW_BYTES, 2),
        (3 * ROWS * ROW_BYTES - 1, 2),
        (3 * ROWS * ROW_BYTES, 3),
    ],
)
def test_the_oldest_block_is_forgotten_where_one_more_would_take_too_many_bytes(
    most_bytes: int, blocks: int
) -> None:
    full = logged(blocks * ROWS, most_bytes)
    assert (full.forgotten, len(full.tags)) == (0, blocks * ROWS)
    full.add(Tag(-1), np.zeros(2))
    assert (full.forgotten, len(full.tags)) == (ROWS, (blocks - 1) * ROWS + 1)


def test_all_rows_that_are_kept_are_the_last_ones() -> None:
    log = logged(5 * ROWS + 7, 3 * ROWS * ROW_BYTES)
    kept = range(3 * ROWS, 5 * ROWS + 7)
    assert log.tags.tolist() == [[k, k % 3] for k in kept]
    assert log.inputs.tolist() == [[k / 2, -k] for k in kept]
    saved = plain(log)
    assert saved["tags"] == [value for k in kept for value in (k, k % 3)]
    assert saved["inputs"] == [value for k in kept for value in (k / 2, -k)]
    assert (saved["steps"], saved["open"]) == (5 * ROWS + 7, True)


@pytest.mark.parametrize("first", [0, 3, ROWS - 1, ROWS])
def test_many_requests_at_once_are_added_as_one_by_one(first: int) -> None:
    one, many = RequestLog(2), RequestLog(2)
    for log in (one, many):
        for k in range(first):
            log.add(Tag(k), np.array([k / 2, -k]))
    count = 2 * ROWS + 5
    ns = np.arange(first, first + count)
    inputs = np.column_stack([ns / 2, -ns]).astype(np.float64)
    for k, row in zip(ns.tolist(), inputs, strict=True):
        one.add(Tag(k), row)
        one.heard(np.array([2.0 * k]))
    many.extend(ns, inputs, np.array([[2.0 * k] for k in ns]))
    assert plain(many) == plain(one)


def test_what_was_saved_does_not_grow() -> None:
    log = logged(3)
    saved = log.save()
    log.add(Tag(9), np.ones(2))
    assert steps_of(saved, 2, "law")[-1][0] == Tag(2, 2)


def test_ninety_minutes_at_1_khz_with_four_inputs_are_kept() -> None:
    assert MOST_BYTES == 256 * 1024**2
    assert MOST_BYTES // (8 * (2 + 4)) > 90 * 60 * 1000


# -- saved steps ----------------------------------------------------------------------------------


def test_saved_steps_are_tags_and_inputs_in_order() -> None:
    found = steps_of(logged(ROWS + 2).save(), 2, "law")
    assert [(tag, row.tolist()) for tag, row in found] == [
        (Tag(k, k % 3), [k / 2, -k]) for k in range(ROWS + 2)
    ]


def test_a_controller_without_inputs_has_steps_too() -> None:
    log = RequestLog(0)
    log.add(Tag(3, 1), np.zeros(0))
    ((tag, row),) = steps_of(log.save(), 0, "law")
    assert (tag, row.shape) == (Tag(3, 1), (0,))
    assert log.inputs.shape == (1, 0)


def test_steps_with_another_number_of_inputs_are_refused() -> None:
    match = r"the saved request log of law has 4 tags, but 2 rows of 4 inputs"
    with pytest.raises(ControllerError, match=match):
        steps_of(logged(4).save(), 4, "law")


def test_forgotten_steps_are_counted_in_the_refusal() -> None:
    saved = logged(2 * ROWS + 1, ROWS * ROW_BYTES).save()
    with pytest.raises(ControllerError) as raised:
        steps_of(saved, 2, "law")
    assert str(raised.value).startswith(
        "law cannot be restored: it ran 2049 steps, and the inputs of the first 2048 were not kept "
        "(at most 256 MB are kept)"
    )


# -- feeding --------------------------------------------------------------------------------------


class Fed:
    """A controller that answers ``answer``, or nothing."""

    def __init__(self, answer: float | None = 1.5) -> None:
        self.log = RequestLog(2)
        self.answer = answer
        self.received: list[Tag] = []

    def send(self, tag: Tag, inputs: Vector) -> None:
        self.log.add(tag, inputs)

    def receive(self, tag: Tag) -> Vector | None:
        self.received.append(tag)
        said = None if self.answer is None else np.array([self.answer])
        self.log.heard(said)
        return said

    def fed(self, saved: dict[str, Any]) -> Fed:
        feed(saved, self.log, "law", self.send, self.receive)
        return self


def flown(steps: int, open: bool = False) -> Fed:
    """One that was asked so often; ``open``: the last answer has not come, after three polls."""
    out = Fed()
    for k in range(steps):
        out.send(Tag(k), np.array([k, 0.0]))
        if open and k == steps - 1:
            for _ in range(3):
                out.log.heard(None)
        else:
            out.receive(Tag(k))
    return out


@pytest.mark.parametrize("steps", [0, 1, 3])
@pytest.mark.parametrize("open", [False, True])
def test_a_controller_is_fed_all_its_steps_and_the_open_one_stays_open(
    steps: int, open: bool
) -> None:
    saved = flown(steps, open and steps > 0).log.save()
    again = Fed().fed(saved)
    assert again.log.steps == steps
    assert again.log.open is saved["open"] is (open and steps > 0)
    assert again.log.asked == saved["asked"] == (3 if open and steps else 0)
    assert again.received == [Tag(k) for k in range(steps - (open and steps > 0))]
    assert again.log.checksum == saved["checksum"]


def test_a_controller_that_does_not_answer_a_fed_step_is_refused() -> None:
    with pytest.raises(
        ControllerError, match=r"law cannot be .* no answer to the step of 0\.000000000 s"
    ):
        Fed(None).fed(flown(2).log.save())


def test_other_answers_than_before_are_refused() -> None:
    with pytest.raises(ControllerError, match="its 2 steps were repeated and gave other answers"):
        Fed(2.5).fed(flown(2).log.save())


def test_answers_are_not_compared_where_one_of_the_checksums_is_not_known() -> None:
    saved = {**flown(2).log.save(), "checksum": None}
    assert Fed(2.5).fed(saved).log.checksum is None
    unknown = Fed(2.5)
    unknown.log.checksum = None
    saved = flown(2).log.save()
    assert unknown.fed(saved).log.checksum == saved["checksum"]
