"""What became of tags that began too late, and what two of a design do not share, in words.

What is kept of frames: figures in fixed memory, the worst with their jobs, tallies of links.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hitl.comparison.verdict import mismatches, reservation, too_slow
from rtsim.components.latency import Empirical, Fixed
from rtsim.core.signals import Signals
from rtsim.core.tag import Period
from rtsim.timing.frames import (
    BLOCK,
    CLASSES,
    MOST_LINKS,
    NO_SAMPLE,
    UNACCOUNTED,
    Frame,
    FrameLog,
    Tally,
    WorstFrame,
    quantile_us,
    upper_us,
)
from rtsim.timing.pacing import Ledger
from rtsim.timing.policy import Abort, CatchUp, Freeze
from rtsim.timing.statistics import Spread

MS = 1_000_000
TENTH = Period.of("0.1")


def test_tags_within_a_frame_count_once_towards_the_limit() -> None:
    ledger = Ledger(CatchUp(), 10)
    counted = [ledger.judge(ns, 5, "compute").consecutive for ns in (0, 0, 9, 10, 19, 20, 31)]
    assert counted == [1, 1, 1, 2, 2, 3, 4]
    ledger.on_time()
    assert ledger.judge(32, 5, "compute").consecutive == 1
    assert ledger.judge(41, 5, "compute").consecutive == 1
    assert ledger.judge(42, 5, "wake").consecutive == 2
    assert ledger.overruns == {"compute": 9, "wake": 1}


def test_a_frame_begins_with_the_tag_that_was_late_first() -> None:
    ledger = Ledger(CatchUp(), 10)
    assert [ledger.judge(ns, 5, "wake").consecutive for ns in (7, 16, 17)] == [1, 1, 2]


def test_jobs_are_blamed_by_name_and_none_where_none_is_named() -> None:
    ledger = Ledger(CatchUp(), 0)
    for job in ("law", "", "plant", "law"):
        ledger.judge(0, 5, "compute", job)
    assert ledger.blamed == {"law": 2, "plant": 1}


def test_who_stood_in_line_for_more_than_half_of_the_lateness_is_counted() -> None:
    ledger = Ledger(CatchUp(), 0)
    ledger.judge(0, 10, "wake")
    assert ledger.in_line is None, "the system has not said"
    counted: list[int | None] = []
    for stood in (0, 5, 6, None, 10):
        found = ledger.judge(0, 10, "wake", stood_ns=stood)
        assert found.stood_ns == stood
        counted.append(ledger.in_line)
    assert counted == [0, 0, 1, 1, 2]


def test_a_run_ends_beyond_what_its_policy_allows() -> None:
    assert Ledger(Abort(), 0).judge(0, 5, "compute").action == "abort"
    ledger = Ledger(CatchUp(2), 0)
    found = [ledger.judge(ns, 5, "compute") for ns in (1, 2, 3)]
    assert [one.action for one in found] == ["catch_up", "catch_up", "abort"]
    assert [one.allowed for one in found] == [2, 2, 2]
    assert (found[2].tag_ns, found[2].amount_ns, found[2].cause) == (3, 5, "compute")
    assert str(found[2]) in str(ledger.limit(found[2]))
    freeze = Ledger(Freeze(), 0)
    assert {freeze.judge(ns, 5, "compute").action for ns in range(50)} == {"freeze"}


# -- mismatches


def one(*parameters: str, interface: Any = None) -> Any:
    return SimpleNamespace(parameters=Signals(*parameters), interface=interface)


def declared(period: str) -> Any:
    return SimpleNamespace(period=Period.of(period), any_period=False, path=Path("law.toml"))


def told(design: Any, translation: Any, period: Period | None = None) -> list[str]:
    return list(mismatches("law", design, translation, period))


def test_parameters_that_only_one_has_are_named() -> None:
    assert told(one("a", "b"), one("b", "a")) == []
    assert told(one("a", "b", "c"), one("b")) == [
        "law: only the reference model has the parameters a, c"
    ]
    assert told(one("a"), one("a", "d")) == ["law: only the interface file has the parameters d"]
    assert len(told(one("a"), one("b"))) == 2
    assert told(SimpleNamespace(), SimpleNamespace()) == []


def test_another_period_is_told_where_both_are_known() -> None:
    fine, other = one(interface=declared("0.1")), one(interface=declared("0.2"))
    assert told(one(), fine, TENTH) == []
    (text,) = told(one(), other, TENTH)
    assert "declares a period of 0.2 s, but the scenario samples the controller every 0.1 s" in text
    assert told(one(), other) == []
    assert told(one(), one(), TENTH) == []


@pytest.mark.parametrize(("seconds", "slow"), [(0.1, False), (0.100000001, True), (0.25, True)])
def test_a_latency_longer_than_the_period_is_told(seconds: float, slow: bool) -> None:
    assert bool(list(too_slow("law", Fixed(seconds), TENTH))) is slow
    assert not list(too_slow("law", Fixed(seconds), None))
    if seconds == 0.25:
        (text,) = too_slow("law", Fixed(seconds), TENTH)
        assert text.startswith(
            "law: a latency of 0.25 s is longer than its period of 0.1 s, so most"
        )
    assert not list(too_slow("law", Empirical((300 * MS, 400 * MS)), TENTH)), (
        "one that varies may be short"
    )


def test_what_a_good_verdict_has_to_add_is_added_once() -> None:
    assert reservation([]) == ""
    assert reservation(["a", "b", "a"]) == "; but a; b"


def add(log: FrameLog, response_ns: int) -> None:
    """A frame whose work was done so long after it was due."""
    log.add(0, response_ns, 0)
    if log.is_among_worst(response_ns):
        log.keep(WorstFrame(0, 0, response_ns, {}))


def responses(log: FrameLog) -> list[int]:
    return [frame.response_ns for frame in log.worst]


def counted(spread: Spread) -> tuple[int, int | None, int | None]:
    return spread.count, spread.min, spread.max


def test_the_ten_worst_are_kept_in_whatever_order_they_come() -> None:
    log = FrameLog()
    for response in (0, *range(7, 30), *range(40, 6, -3)):
        add(log, response)
    assert responses(log) == [40, 37, 34, 31, 29, 28, 28, 27, 26, 25]


def test_a_frame_without_a_response_is_among_the_worst_while_there_is_room() -> None:
    log = FrameLog(keep_worst=2)
    for _ in range(3):
        assert log.is_among_worst(0)
        add(log, 0)
    log.add(0, 0, 0)
    assert not log.is_among_worst(0), "two of the same are kept"
    assert log.is_among_worst(1)
    assert not FrameLog(keep_worst=0).is_among_worst(2**62)


def test_a_frame_that_is_not_over_is_taken_back_with_all_that_is_known_of_it() -> None:
    log = FrameLog(keep_worst=1)
    add(log, 5)
    log.add(17, 1000, 3)
    log.keep(WorstFrame(0, 17, 1000, {}))
    assert (log.frames, log.buffered, log.last) == (2, 2, (17, 1000, 3))
    assert responses(log) == [1017]
    assert log.reopen() == 17
    assert (log.frames, log.buffered) == (1, 1)
    assert responses(log) == [5]
    log.count()
    assert counted(log.compute) == (1, 5, 5)


def test_frames_are_counted_a_block_at_a_time_and_none_twice() -> None:
    log = FrameLog(keep_worst=0)
    for k in range(BLOCK):
        log.add(k, k, k)
    assert (BLOCK, log.buffered, log.lateness.count) == (4096, 4096, 0)
    log.add(9, 9, 9)
    assert (log.buffered, log.lateness.count, log.frames) == (1, 4096, 4097)
    log.count()
    log.count()
    assert log.buffered == 0
    for spread in (log.lateness, log.compute, log.margin):
        assert counted(spread) == (4097, 0, 4095)


def test_what_there_was_no_sample_of_does_not_count_and_every_time_is_one() -> None:
    assert np.iinfo(np.int64).min == NO_SAMPLE
    log = FrameLog()
    assert log.last == (NO_SAMPLE, 0, NO_SAMPLE)
    log.add(NO_SAMPLE, 1, NO_SAMPLE)
    log.add(-126, 2, -126)
    log.count()
    log.add_wake(NO_SAMPLE)
    assert (log.lateness.count, log.compute.count, log.margin.count) == (1, 2, 1)
    log.add_wake(70)
    assert counted(log.lateness) == (2, -126, 70)


def test_the_shares_of_a_frame_are_the_longest_first_with_what_no_job_owns() -> None:
    frame = WorstFrame(0, 5, 100, {"a": 20, "none": 0, "b": 50})
    assert frame.response_ns == 105
    assert frame.shares == [("b", 50), (UNACCOUNTED, 30), ("a", 20)]
    over = WorstFrame(0, 0, 10, {"a": 11})
    assert (over.unaccounted_ns, over.shares) == (0, [("a", 11)])
    assert WorstFrame(0, 0, 10, {"a": 9}).unaccounted_ns == 1


@pytest.mark.parametrize(
    ("ns", "row"),
    [
        (-1000, 0), (-1, 0), (0, 0), (999, 0),
        (1000, 1), (1999, 1), (2000, 2), (3999, 2), (4000, 3),
        (1_023_999, 10), (1_024_000, 11), (1_047_551, 11),
        (2**21 * 1000, 22), (2**22 * 1000 - 1, 22), (2**22 * 1000, 23), (2**62, 23),
    ],
)  # fmt: skip
def test_a_duration_is_counted_in_its_class_of_a_factor_of_two(ns: int, row: int) -> None:
    tally = Tally(["link", "other"])
    tally.add("link", ns)
    tally.add("nobody", ns)
    expected = np.zeros((2, CLASSES), int)
    expected[0, row] = 1
    assert CLASSES == 24
    assert np.array_equal(tally.counts, expected)
    tally.add("link", ns)
    assert tally.counts[0, row] == 2
    tally.add_many("link", np.array([ns, ns], np.int64))
    tally.add_many("nobody", np.array([ns], np.int64))
    assert np.array_equal(tally.counts, 4 * expected)


def test_the_first_64_links_are_counted() -> None:
    names = [f"link{k}" for k in range(70)]
    tally = Tally(names)
    for name in names:
        tally.add(name, 0)
    assert tally.links == names[:64]
    assert tally.counts.shape == (64, CLASSES)
    assert tally.counts.sum() == MOST_LINKS == 64


def test_a_quantile_is_the_end_of_its_class() -> None:
    assert [upper_us(k) for k in (0, 1, 10)] == [1, 2, 1024]
    assert quantile_us([], 0.5) is None
    assert quantile_us([0, 0], 0.5) is None
    counts = [0, 5, 0, 4, 1]
    for p, end in ((0.0, 2), (0.5, 2), (0.51, 8), (0.9, 8), (0.91, 16), (1.0, 16)):
        assert quantile_us(counts, p) == end, p
    assert quantile_us([1, 0], 1.0) == 1


def test_the_stamps_of_the_latest_message_are_kept() -> None:
    tally = Tally(["link", "other"])
    tally.stamp("link", 1, 2, 3)
    tally.stamp("link", 4, 5, 6)
    tally.stamp("unknown", 7, 8, 9)
    assert tally.latest.tolist() == [[4, 5, 6], [-1, -1, -1]]


def test_the_longest_frame_since_last_on_time_is_the_culprit() -> None:
    frame = Frame()
    for spent, job in ((5, "a"), (9, "b"), (7, "c"), (9, "d")):
        frame.begin(0, 0)
        frame.spent, frame.jobs[job] = spent, spent
        frame.accuse()
    assert (frame.culprit, frame.culprit_ns) == ("b", 9)
