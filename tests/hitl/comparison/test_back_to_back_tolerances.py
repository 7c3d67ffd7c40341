"""Which rule counts for an output of the C, and for the signals of the loop it flies in.

What a back-to-back verdict says of a failure: what was allowed, which was first, its values.
"""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hitl.comparison.flight import LoopComparison, allowance
from hitl.comparison.tolerances import (
    DOUBLE,
    IN_THE_LOOP,
    SINGLE,
    _stated_shares,
    by_type,
    checked,
    declared,
    fitting,
    for_tracks,
    in_the_loop,
    of_output,
    one_step,
    refuse_unknown,
)
from hitl.comparison.verdict import BackToBack, _when, headline
from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Signal, Signals
from rtsim.core.tag import Tag
from rtsim.record.comparison import Comparison, compare
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.verdict import EXACT, SignalResult, Tolerance

LOOSE, TIGHT = Tolerance(1.0, 0.0), Tolerance(1e-6, 0.0)
DEFAULT = Tolerance(0.5, 0.25)
NAMES = ("force", "controller.force", "messages/controller.force")


@pytest.mark.parametrize("pattern", [*NAMES, "f*", "controller.*", "messages/*"])
def test_of_several_rules_that_fit_an_output_the_last_one_counts(pattern: str) -> None:
    for wildcard in ("*", "f*", "*.force"):
        if wildcard != pattern:
            later = {wildcard: LOOSE, pattern: TIGHT}
            assert of_output(later, "controller", "force", DEFAULT) == TIGHT
            earlier = {pattern: TIGHT, wildcard: LOOSE}
            assert of_output(earlier, "controller", "force", DEFAULT) == LOOSE


def test_a_rule_for_another_output_leaves_the_default() -> None:
    rules = {"torque": LOOSE, "other.force": LOOSE, "messages/other.*": LOOSE, "Force": LOOSE}
    assert of_output(rules, "controller", "force", DEFAULT) == DEFAULT
    assert of_output({}, "controller", "force", DEFAULT) == DEFAULT


def flight(force: float) -> MemoryRecorder:
    """A message of 1 N and a state; the message may be off."""
    recorder = MemoryRecorder()
    message = recorder.track("messages/controller", (), Signals("force [N]"))
    plant = recorder.track("plant", (), Signals("x [m]"))
    recorder.start({})
    message.append(0, (), np.array([1.0 + force]))
    plant.append(0, (), np.array([2.0]))
    return recorder


@pytest.mark.parametrize("pattern", NAMES)
def test_the_last_rule_counts_in_the_loop_too(pattern: str) -> None:
    """As ``compare`` reads what it is given."""
    known = ["messages/controller.force", "plant.x"]
    a, b = flight(0.0).recording(), flight(1e-3).recording()

    def agrees(rules: dict[str, Tolerance]) -> bool:
        given = for_tracks(rules, {"controller": ["force"]}, known)
        return compare(a, b, {"*": Tolerance(), **given}).ok

    assert agrees({pattern: LOOSE})
    assert not agrees({pattern: TIGHT})
    for wildcard in ("messages/*", "*force"):
        assert not agrees({wildcard: LOOSE, pattern: TIGHT})
        assert agrees({pattern: TIGHT, wildcard: LOOSE})
        # A rule that is repeated under another name of the output stands where it was said last.
        assert not agrees({pattern: LOOSE, wildcard: LOOSE, NAMES[0]: TIGHT, NAMES[1]: TIGHT})
        assert agrees({NAMES[0]: TIGHT, wildcard: TIGHT, NAMES[1]: LOOSE})


def test_a_rule_of_the_loop_means_the_tracks_that_there_are() -> None:
    known = ["messages/controller.force", "plant.x"]
    outputs = {"controller": ["force", "unrecorded"]}
    assert for_tracks({"unrecorded": LOOSE}, outputs, known) == {}
    assert for_tracks({"*": LOOSE}, outputs, known) == {"*": LOOSE}
    assert for_tracks({"plant.*": LOOSE}, outputs, known) == {"plant.*": LOOSE}
    assert for_tracks({"force": LOOSE}, outputs, known) == {NAMES[2]: LOOSE}


@pytest.mark.parametrize(
    "wrong",
    [
        (math.nan, 0.0), (0.0, math.nan), (-1e-9, 0.0), (0.0, -1.0), (math.inf, 0.0),
        (0.0, math.inf), (1.0,), (1.0, 0.0, 0.0), (),
    ],
)  # fmt: skip
def test_what_is_no_tolerance_is_refused(wrong: tuple[float, ...]) -> None:
    with pytest.raises(
        ScenarioError, match=r"of 'force' is not valid; give two finite numbers >= 0"
    ):
        checked({"x": (0.0, 0.0), "force": wrong})  # type: ignore[dict-item]


def test_what_is_a_tolerance_is_taken_in_its_order() -> None:
    given = {"b": (1.0, 2.0), "a": Tolerance(0.0, 0.0), "c": (1e300, 0.0)}
    assert list(checked(given).items()) == [
        ("b", Tolerance(1.0, 2.0)), ("a", EXACT), ("c", Tolerance(1e300, 0.0)),
    ]  # fmt: skip
    assert checked(None) == {}


def test_the_default_is_that_of_the_type_and_of_one_count() -> None:
    assert 0.0 < DOUBLE.absolute < SINGLE.absolute <= 1e-6
    assert 0.0 < DOUBLE.relative < SINGLE.relative <= 1e-5
    assert by_type(Signal("y")) == DOUBLE
    assert by_type(Signal("y", type="float32")) == SINGLE
    assert by_type(Signal("y", type="int16")) == by_type(Signal("y", type="bool")) == EXACT
    for scale in (0.25, -0.25):
        counts = by_type(Signal("y", type="int16"), scale)
        assert counts.relative == 0.0
        assert 0.25 < counts.absolute < 0.25 * (1 + 1e-8)


def test_the_default_of_the_loop_is_the_loosest_of_its_outputs() -> None:
    times = tuple(IN_THE_LOOP * v for v in DOUBLE)
    assert in_the_loop([]) == times
    assert in_the_loop([Tolerance(2.0, 1e-15), SINGLE]) == (IN_THE_LOOP * 2.0, IN_THE_LOOP * 1e-5)


def test_rules_of_interface_files_are_gathered() -> None:
    files = [
        SimpleNamespace(interface=SimpleNamespace(tolerances={"a": (1.0, 0.0), "b": (2.0, 0.0)})),
        SimpleNamespace(),
        SimpleNamespace(interface=SimpleNamespace(tolerances={"b": (3.0, 0.5)})),
    ]
    assert declared(files) == {"a": Tolerance(1.0, 0.0), "b": Tolerance(3.0, 0.5)}


def test_a_rule_that_fits_nothing_is_refused_and_others_are_sorted_out() -> None:
    rules = {"force": LOOSE, "plant.*": TIGHT}
    assert fitting(rules, ["force", "torque"]) == {"force": LOOSE}
    refuse_unknown(rules, ["force", "plant.x"])
    with pytest.raises(
        ScenarioError,
        match=r"no signal matches 'plant\.\*'; names of signals are, for example, a, b, c$",
    ):
        refuse_unknown({"a": LOOSE, **rules, "force": LOOSE}, ["a", "a", "b", "c", "d", "force"])


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


def flown(ours: Recording, theirs: Recording, *results: SignalResult) -> LoopComparison:
    return LoopComparison(Comparison(list(results)), ours, theirs, (ours, theirs))


def test_the_values_of_a_failure_are_those_at_its_tag_that_differ() -> None:
    failed = SignalResult("p.x", first_failed=Tag(7, 1), reason="beyond")
    nan = math.nan
    ours, theirs = recorded((0, 1.0), (1, nan), (1, 3.0)), recorded((0, 9.0), (1, nan), (1, 4.0))
    found = flown(ours, theirs, failed)
    assert found.values(failed) == ("3.0", "4.0"), "NaN is no difference from NaN"
    assert found.values(replace(failed, first_failed=None)) is None
    assert found.values(replace(failed, name="q.x")) is None
    assert found.values(replace(failed, name="p.y")) is None
    alone = recorded((1, 3.0), track="q")
    for one, other in ((ours, alone), (alone, ours)):
        assert flown(one, other, failed).values(failed) is None, "one has no such track"
    text = found.failure(failed)
    assert text.startswith("p.x: beyond; with the reference model 3.0")
    assert "4.0, allowed no difference" in text


def test_the_first_failure_is_that_of_the_earliest_tag() -> None:
    run = recorded((0, 1.0))
    late, early = (
        SignalResult(name, first_failed=Tag(ns), reason="x") for name, ns in (("a", 9), ("b", 3))
    )
    fine, untimed = SignalResult("c", first_failed=None), SignalResult("d", reason="missing")
    assert flown(run, run, late, untimed, early, fine).first == early
    assert flown(run, run, untimed, fine).first is None


def test_a_verdict_is_itself_and_no_other() -> None:
    """It holds recordings, which have no equality: one is in a set or a table by identity."""
    run = recorded((0, 1.0))
    assert flown(run, run) != flown(run, run)
    assert len({flown(run, run), flown(run, run)}) == 2
    assert BackToBack("s", {}) != BackToBack("s", {})


def test_the_closed_loop_says_nothing_where_there_was_none_or_it_agreed() -> None:
    run = recorded((0, 1.0))
    assert BackToBack("s", {}).closed_in_words == ""
    agreed = flown(run, run, SignalResult("p.x", rows=1))
    assert agreed.ok
    assert BackToBack("s", {}, agreed).closed_in_words == ""
    failed = SignalResult("p.x", first_failed=Tag(7, 0), reason="beyond")
    assert BackToBack("s", {}, flown(run, run, failed)).closed_in_words.startswith("p.x: beyond")


def test_the_tolerance_of_a_step_is_a_share_of_the_range_of_a_float() -> None:
    values = np.array([[-10.0], [30.0]])
    shares = Tolerance(0.01, 0.001)
    assert one_step(shares, Signal("y"), values) == Tolerance(0.01 * 40.0, 0.001)
    assert one_step(shares, Signal("y", type="float32"), values) == Tolerance(0.4, 0.001)
    assert one_step(shares, Signal("y", type="int16"), values) == shares
    assert one_step(shares, Signal("y"), values[:1]) == Tolerance(0.1, 0.001)


def test_of_several_rules_of_a_signal_the_last_one_is_its_share() -> None:
    recorder = MemoryRecorder()
    made = recorder.track("messages/c", (), Signals("y"))
    recorder.start({})
    for k in range(3):
        made.append(k, (), np.array([10.0 * k]))
    rules = {"*": Tolerance(3.0, 0.0), "messages/c.*": Tolerance(8.0, 0.0),
             "messages/c.y": Tolerance(2.0, 0.05)}  # fmt: skip
    assert list(_stated_shares(rules, recorder.recording())) == [2.0 / 20.0]
    rules["messages/*"] = Tolerance(0.0, 0.5)
    assert list(_stated_shares(rules, recorder.recording())) == [10.0 / 20.0]
