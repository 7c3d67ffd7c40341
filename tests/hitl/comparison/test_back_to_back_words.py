"""What a back-to-back verdict says of a failure: what was allowed, which was first, its values."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hitl.comparison.flight import LoopComparison, allowance
from hitl.comparison.verdict import BackToBack, _when, headline
from rtsim.core.signals import Signals
from rtsim.core.tag import Tag
from rtsim.record.comparison import Comparison
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.verdict import SignalResult, Tolerance


@pytest.mark.parametrize(
    ("unit", "tolerance", "text"),
    [
        ("N", (0.0, 0.0), "no difference"),
        ("N", (0.5, 0.0), "0.5 N"),
        ("1", (0.5, 0.0), "0.5"),
        ("", (0.5, 0.0), "0.5"),
        ("N", (0.5, 0.25), "max(0.5 N, 0.25 of the reference's value)"),
        ("1", (0.0, 0.25), "max(0, 0.25 of the reference's value)"),
    ],
)
def test_what_was_allowed(unit: str, tolerance: tuple[float, float], text: str) -> None:
    assert allowance(SignalResult("x", unit, Tolerance(*tolerance))) == text


def test_an_open_loop_failed_at_its_first_failure_or_at_its_last_step() -> None:
    def loop(first: int | None) -> Any:
        found = None if first is None else SimpleNamespace(step=first)
        return SimpleNamespace(steps=5, first=found, tag=lambda step: Tag(10 * step, step))

    assert _when(loop(None)) == (40, 4)
    assert _when(loop(2)) == (20, 2)


@pytest.mark.parametrize(
    ("error", "line"),
    [("it died", "it died"), ("it died\nmore", "it died"), ("it died; it said:\nx", "it died")],
)
def test_the_headline_of_an_error(error: str, line: str) -> None:
    assert headline(error) == line


def recorded(*rows: tuple[int, float], track: str = "p") -> Recording:
    recorder = MemoryRecorder()
    made = recorder.track(track, ("step",), Signals("x"))
    recorder.start({})
    for step, value in rows:
        made.append(7, (step,), np.array([value], np.float64))
    return recorder.recording()


def flight(ours: Recording, theirs: Recording, *results: SignalResult) -> LoopComparison:
    return LoopComparison(Comparison(list(results)), ours, theirs, (ours, theirs))


def test_the_values_of_a_failure_are_those_at_its_tag_that_differ() -> None:
    failed = SignalResult("p.x", first_failed=Tag(7, 1), reason="beyond")
    nan = math.nan
    ours, theirs = recorded((0, 1.0), (1, nan), (1, 3.0)), recorded((0, 9.0), (1, nan), (1, 4.0))
    found = flight(ours, theirs, failed)
    assert found.values(failed) == ("3.0", "4.0"), "NaN is no difference from NaN"
    assert found.values(replace(failed, first_failed=None)) is None
    assert found.values(replace(failed, name="q.x")) is None
    assert found.values(replace(failed, name="p.y")) is None
    alone = recorded((1, 3.0), track="q")
    for one, other in ((ours, alone), (alone, ours)):
        assert flight(one, other, failed).values(failed) is None, "one has no such track"
    text = found.failure(failed)
    assert text.startswith("p.x: beyond; with the reference model 3.0")
    assert "4.0, allowed no difference" in text


def test_the_first_failure_is_that_of_the_earliest_tag() -> None:
    run = recorded((0, 1.0))
    late, early = (
        SignalResult(name, first_failed=Tag(ns), reason="x") for name, ns in (("a", 9), ("b", 3))
    )
    fine, untimed = SignalResult("c", first_failed=None), SignalResult("d", reason="missing")
    assert flight(run, run, late, untimed, early, fine).first == early
    assert flight(run, run, untimed, fine).first is None


def test_a_verdict_is_itself_and_no_other() -> None:
    """It holds recordings, which have no equality: one is in a set or a table by identity."""
    run = recorded((0, 1.0))
    assert flight(run, run) != flight(run, run)
    assert len({flight(run, run), flight(run, run)}) == 2
    assert BackToBack("s", {}) != BackToBack("s", {})


def test_the_closed_loop_says_nothing_where_there_was_none_or_it_agreed() -> None:
    run = recorded((0, 1.0))
    assert BackToBack("s", {}).closed_in_words == ""
    agreed = flight(run, run, SignalResult("p.x", rows=1))
    assert agreed.ok
    assert BackToBack("s", {}, agreed).closed_in_words == ""
    failed = SignalResult("p.x", first_failed=Tag(7, 0), reason="beyond")
    assert BackToBack("s", {}, flight(run, run, failed)).closed_in_words.startswith("p.x: beyond")
