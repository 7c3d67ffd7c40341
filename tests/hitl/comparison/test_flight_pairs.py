"""Two flights held against each other, on recordings made by hand: rows, ends, late answers.

The verdict on a flight with the translation in the loop: whose the fault is, and in words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import FrozenInstanceError, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hitl.boards.paced import Timing
from hitl.comparison.conditions import _delayed
from hitl.comparison.execution import HOST, MODELLED, TARGET
from hitl.comparison.exercise import Effects
from hitl.comparison.flight import (
    OVERLAP,
    EnvironmentFailure,
    LoopComparison,
    _tag,
    allowance,
    compare_flights,
    first_late,
    time_needed,
)
from rtsim.core.outcome import Outcome
from rtsim.core.signals import Signals
from rtsim.core.tag import Tag
from rtsim.record.comparison import Comparison
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.verdict import SignalResult, Tolerance

Rows = Sequence[tuple[int, ...]]
"""ns, integers, value."""
WALL = {"deterministic": "no"}
INTEGERS: Mapping[str, tuple[str, ...]] = {
    "bare": (),
    "plant": ("step", "side"),
    "messages/law": ("initiated_step", "step"),
}


def run(
    events: Sequence[tuple[str, int, str, int]] = (), wall: Sequence[str] = (), **tracks: Rows
) -> Recording:
    """``events`` are (kind, ns, source, ns allowed); ``m_law`` is messages/law."""
    recorder = MemoryRecorder()
    for key, rows in tracks.items():
        name = key.replace("m_", "messages/").replace("law_inputs", "law.inputs")
        integers = INTEGERS.get(name, ("step",))
        track = recorder.track(name, integers, Signals("x"), WALL if key in wall else None)
        for ns, *rest, value in rows:
            given = tuple(rest) + (0,) * (len(integers) - len(rest))
            track.append(ns, given, np.array([float(value)]))
    recorder.start({})
    for kind, ns, source, allowed in events:
        recorder.event(Tag(ns), kind, source, "", {"allowed": allowed})
    recorder.finish({})
    return recorder.recording()


def held(a: Recording, b: Recording, controllers: Sequence[str] = ("law",)) -> Comparison:
    return compare_flights(a, b, {"*": Tolerance(0.0)}, controllers).comparison


def failed(a: Recording, b: Recording, **how: Sequence[str]) -> Mapping[str, str]:
    return {r.name: r.reason for r in held(a, b, **how).failures}


PLANT: Rows = [(0, 1), (10, 2), (20, 3)]


def test_the_same_rows_agree_and_another_value_does_not() -> None:
    assert held(run(plant=PLANT), run(plant=PLANT)).ok
    assert failed(run(plant=PLANT), run(plant=[*PLANT[:2], (20, 4)])) == {
        "plant.x": "fails at 0.00000002 s, 1/3"
    }


def test_a_flight_is_short_by_its_last_time_of_any_track() -> None:
    ours = run(plant=PLANT, other=[(30, 1)])
    assert held(ours, ours).ok
    short = run(plant=PLANT, other=[(29, 1)])
    assert failed(ours, short)[OVERLAP] == (
        "the run with the C ends at 0.000000029 s of 0.00000003 s"
    )
    assert OVERLAP not in failed(short, ours)
    wall = run(wall=["timing"], plant=PLANT, timing=[(99, 1)])
    assert held(wall, run(plant=PLANT)).ok, "the wall's do not count"
    assert failed(run(plant=PLANT), run(plant=[]))[OVERLAP] == (
        "the run with the C has no rows; expected rows up to 0.00000002 s"
    )


def test_rows_behind_the_end_of_the_designs_flight_do_not_count() -> None:
    longer = [*PLANT, (21, 9)]
    assert held(run(plant=PLANT), run(plant=longer)).ok
    later = run(plant=PLANT, a=[(21, 1)])
    assert held(later, run(plant=longer, a=[(21, 1)])).ok, "of a plant's more rows none fails"


def test_rows_that_are_more_fail_where_there_are_no_sides() -> None:
    ours, theirs = run(a=[(0, 1), (10, 1)]), run(a=[(0, 1), (5, 1), (7, 1), (10, 1)])
    assert failed(ours, theirs) == {
        "a (rows)": "2 rows more than with the reference model, from 0.000000005 s on"
    }
    (missing,) = held(theirs, ours).failures
    assert missing.reason == "2 of 4 rows; the first missing row is at 0.000000005 s"
    assert missing.first_failed == Tag(5)


def test_a_row_belongs_to_that_of_its_microstep_and_its_side() -> None:
    ours = run(plant=[(0, 0, 0, 1), (0, 1, 1, 2), (10, 0, 0, 3)])
    turned = run(plant=[(0, 0, 0, 1), (0, 2, 1, 9), (10, 0, 0, 3)])
    assert held(ours, turned).ok, "an x+ of another microstep is not compared"
    assert "plant.x" in failed(ours, run(plant=[(0, 0, 0, 1), (0, 1, 1, 9), (10, 0, 0, 3)]))
    lost = run(plant=[(0, 1, 0, 1), (0, 1, 1, 2), (10, 0, 0, 3)])
    assert failed(ours, lost) == {"plant (rows)": "1 of 2 rows; the first missing row is at 0 s"}


def test_messages_belong_together_by_the_tag_of_their_request() -> None:
    """The microstep in which they arrived is another matter."""
    ours = run(m_law=[(0, 1, 5, 1), (0, 2, 6, 2)])
    assert held(ours, run(m_law=[(0, 1, 5, 1), (0, 2, 6, 2)])).ok
    assert failed(ours, run(m_law=[(0, 1, 5, 1), (0, 3, 6, 2)])) == {
        "messages/law (rows)": "1 of 2 rows; the first missing row is at 0 s +2"
    }


def test_of_equal_tags_the_first_belongs_to_the_first() -> None:
    ours = run(a=[(0, 1), (0, 2), (0, 3), (5, 4), (5, 5)])
    assert held(ours, ours).ok
    assert failed(ours, run(a=[(0, 1), (0, 3), (0, 2), (5, 4), (5, 5)])) == {
        "a.x": "fails at 0 s, 2/5"
    }
    assert failed(ours, run(a=[(0, 1), (0, 2), (5, 4), (5, 5)])) == {
        "a (rows)": "4 of 5 rows; the first missing row is at 0 s"
    }


def test_rows_in_another_order_are_compared_by_their_tags() -> None:
    ours = run(a=[(0, 1), (10, 2), (5, 3), (20, 4)])
    assert held(ours, run(a=[(5, 3), (20, 4), (0, 1), (10, 2)])).ok


def test_tracks_that_were_empty_are_no_rows_and_those_of_the_wall_are_left_out() -> None:
    ours = run(wall=["timing"], plant=PLANT, timing=[(5, 1)], silent=[])
    found = held(ours, replace(ours, tracks={"plant": ours.tracks["plant"]}))
    assert found.ok
    assert [r.name for r in found.results if r.rows] == ["plant.x"]


def test_what_a_controller_was_asked_is_told_once_with_what_it_answered() -> None:
    ours = run(plant=PLANT, m_law=[(0, 1), (10, 1)], m_law_inputs=[(0, 1), (10, 1)])
    neither = run(plant=PLANT, m_law=[(0, 1)], m_law_inputs=[(0, 1)])
    assert list(failed(ours, neither)) == ["messages/law (rows)"]
    asked = run(plant=PLANT, m_law=[(0, 1), (10, 1)], m_law_inputs=[(0, 1)])
    assert list(failed(ours, asked)) == ["messages/law.inputs (rows)"]


def test_of_a_flight_that_ends_early_only_its_controllers_are_told() -> None:
    ours = run(plant=PLANT, m_law=[(0, 1), (10, 1)], m_other=[(0, 1), (10, 1)])
    short = run(plant=PLANT[:1], m_law=[(0, 1)], m_other=[(0, 1)])
    assert list(failed(ours, short)) == [OVERLAP, "messages/law (rows)"]
    both = failed(ours, short, controllers=["law", "other"])
    assert list(both) == [OVERLAP, "messages/law (rows)", "messages/other (rows)"]


def test_a_track_of_which_no_row_was_compared_is_told_by_its_rows_alone() -> None:
    found = held(run(plant=PLANT, a=[(0, 1)]), run(plant=PLANT, a=[]))
    assert [r.name for r in found.results] == ["a (rows)", "plant.x"]


def test_rows_without_microsteps_belong_together_by_their_time() -> None:
    ours = run(bare=[(0, 1), (10, 2)])
    assert held(ours, ours).ok
    assert list(failed(ours, run(bare=[(0, 1), (10, 3)]))) == ["bare.x"]
    assert list(failed(ours, run(bare=[(10, 2)]))) == ["bare (rows)"]


def test_what_was_found_is_not_changed_any_more() -> None:
    found = compare_flights(run(plant=PLANT), run(plant=PLANT), {}, ())
    with pytest.raises(FrozenInstanceError):
        found.comparison = Comparison([])  # type: ignore[misc]


# -- answers that were late


def test_the_first_late_answer_is_that_of_the_earliest_request() -> None:
    late = ("Late", 30, "law", 5), ("Late", 20, "law", 8), ("Missed", 9, "law", 1)
    assert first_late(run(late)) == 12
    assert first_late(run(late[:1])) == 25
    assert first_late(run(late[2:])) is None
    answered = run(late[:1], m_law=[(25, 1)])
    assert first_late(answered) is None, "it was waited for"
    assert first_late(run(late[:1], m_law=[(24, 1)])) == 25
    assert first_late(run(late[:1], m_other=[(25, 1)])) == 25


@pytest.mark.parametrize(("count", "told"), [(1, "1 answer was Late"), (2, "2 answers were Late")])
def test_rows_before_the_request_that_was_late_are_compared(count: int, told: str) -> None:
    late = [("Late", 15 + k, "law", 5) for k in range(count)]
    ours = run(plant=PLANT)
    found = failed(ours, run(late, plant=[(0, 1), (10, 9), (20, 9)]))
    text = "; compared up to the request of the first late answer, at 0.00000001 s of 0.00000002 s"
    assert found == {OVERLAP: told + text}
    before = failed(ours, run(late, plant=[(0, 9), (10, 9), (20, 9)]))
    assert list(before) == [OVERLAP, "plant.x"]


MS = 1_000_000
FINE = SignalResult("p.x", rows=5)
WRONG = SignalResult("p.x", rows=5, first_failed=Tag(50), reason="beyond")
SHORT = SignalResult(OVERLAP, reason="it ends")


def recorded(*rows: tuple[int, int, float], steps: bool = True) -> Recording:
    """Rows of (ns, microstep, x)."""
    recorder = MemoryRecorder()
    track = recorder.track("p", ("step",) if steps else (), Signals("x", "y"))
    recorder.start({})
    for ns, step, value in rows:
        track.append(ns, (step,) if steps else (), np.array([value, 0.0]))
    return recorder.recording()


def flight(*results: SignalResult, end: int = 100, **how: Any) -> LoopComparison:
    run = recorded((0, 0, 1.0), (end, 0, 2.0))
    return LoopComparison(Comparison(list(results)), run, run, (run, run), **how)


def target(
    pacing: Timing | None = None, exchange: Any = None, url: str = "serial:///dev/ttyACM0"
) -> Any:
    return SimpleNamespace(pacing=pacing, exchange=exchange, url=url)


SLIPPED = Timing(slips=2, slipped_ns=3 * MS)
DID, DID_NOT = Effects(3, 3, 3, True), Effects(3, 3, 0, True)


def test_a_flight_that_agrees_passes_and_one_that_differs_fails() -> None:
    assert flight(FINE).outcome is Outcome.PASSED
    assert flight(FINE).ok
    assert flight(FINE, WRONG).outcome is Outcome.FAILED
    assert not flight(FINE, WRONG).ok
    assert flight(FINE, error="it died").outcome is Outcome.FAILED
    assert flight(FINE).undecided == flight(WRONG).undecided == ""


def test_without_rows_or_effects_nothing_is_decided() -> None:
    assert flight().outcome is Outcome.UNDECIDED
    assert flight().undecided == "there were no rows to compare"
    assert flight(SignalResult("p.x")).outcome is Outcome.UNDECIDED
    none = flight(FINE, effects={"law": DID_NOT})
    assert none.outcome is Outcome.UNDECIDED
    assert none.undecided.startswith("no answer of law took effect")
    assert flight(FINE, effects={"law": DID_NOT, "other": DID}).outcome is Outcome.PASSED
    two = flight(FINE, effects={"law": DID_NOT, "other": DID_NOT})
    assert two.undecided.count("took effect") == 2
    assert "; no answer of other" in two.undecided


@pytest.mark.parametrize(("since", "excused"), [(0, True), (50, True), (51, False), (100, False)])
def test_what_differs_after_a_flight_was_spoiled_is_nobodys_fault(
    since: int, excused: bool
) -> None:
    found = flight(FINE, WRONG, environment=EnvironmentFailure(since, "the host was late"))
    assert found.excuses(WRONG) is excused
    assert found.outcome is (Outcome.UNDECIDED if excused else Outcome.FAILED)
    assert found.undecided == ("the host was late" if excused else "")
    assert not found.excuses(FINE)


def test_where_the_host_held_a_flight_up_its_end_and_what_is_missing_are_excused() -> None:
    held = flight(FINE, SHORT, held_up=True, error="fell behind")
    assert held.outcome is Outcome.UNDECIDED
    assert held.undecided == "fell behind"
    assert held.too_slow
    assert flight(FINE, SHORT).outcome is Outcome.FAILED
    missing = SignalResult("p.z", reason="missing")
    assert flight(FINE, missing, held_up=True).outcome is Outcome.FAILED, "at no time"
    assert flight(WRONG, held_up=True).outcome is Outcome.FAILED, "it differs before the end"
    assert flight(WRONG, held_up=True, end=50).outcome is Outcome.UNDECIDED
    assert flight(WRONG, end=50).outcome is Outcome.FAILED


def test_an_error_of_the_translations_own_is_not_excused_by_what_came_between() -> None:
    own = EnvironmentFailure(0, "late", slow=True, ended=False)
    assert flight(FINE, error="it died", environment=own).outcome is Outcome.FAILED
    assert flight(FINE, environment=own).outcome is Outcome.PASSED
    other = EnvironmentFailure(0, "late", slow=True)
    found = flight(FINE, error="it died", environment=other)
    assert (found.outcome, found.undecided) == (Outcome.UNDECIDED, "it died")


def test_a_flight_is_too_slow_where_this_host_was() -> None:
    assert not flight(FINE).too_slow
    assert not flight(FINE, environment=EnvironmentFailure(0, "killed")).too_slow
    assert flight(FINE, environment=EnvironmentFailure(0, "late", slow=True)).too_slow
    slow = flight(FINE, SHORT, targets={"law": target(SLIPPED)})
    assert (slow.slipped, slow.too_slow, slow.outcome) == (3 * MS, True, Outcome.UNDECIDED)
    assert "which lost 3 ms against the clock" in slow.undecided
    more = flight(FINE, targets={"a": target(SLIPPED), "b": target(SLIPPED), "c": target()})
    assert more.slipped == 6 * MS
    assert flight(FINE, targets={"a": target(Timing(slipped_ns=5))}).slipped == 0
    least = flight(FINE, SHORT, targets={"law": target(Timing(slips=1, slipped_ns=1))})
    assert (least.slipped, least.outcome) == (1, Outcome.UNDECIDED)
    assert not flight(FINE, targets={"a": target(Timing())}).too_slow


@pytest.mark.parametrize(
    ("longest_ns", "timing", "host"),
    [
        (2 * MS, Timing(late_ns=14 * MS), True),
        (2 * MS, Timing(behind_ns=14 * MS), True),
        (2 * MS, Timing(late_ns=13 * MS, behind_ns=13 * MS), False),
        (16 * MS, Timing(late_ns=90 * MS), False),
        (2 * MS, None, False),
        (None, Timing(late_ns=90 * MS), False),
    ],
)
def test_a_late_answer_of_an_emulated_board_is_the_hosts_if_the_board_had_time_by_its_cycles(
    longest_ns: int | None, timing: Timing | None, host: bool
) -> None:
    exchange = None if longest_ns is None else SimpleNamespace(max=longest_ns)
    assert _delayed(target(timing, exchange), 15 * MS) is host
    assert not _delayed(None, 15 * MS)
    assert not _delayed(target(), 15 * MS)
    assert _delayed(target(url="board:uno"), 15 * MS), "the emulator hung or was ended"


def test_a_slip_is_told_also_where_answers_were_late() -> None:
    late = EnvironmentFailure(0, "late", slow=True)
    found = flight(FINE, SHORT, targets={"law": target(SLIPPED)}, environment=late)
    assert found.outcome is Outcome.UNDECIDED
    assert "which lost 3 ms against the clock" in found.undecided


def test_late_answers_are_told_with_the_longest_exchange_there_was() -> None:
    def needed(*exchanges: tuple[int, str]) -> str:
        made = [SimpleNamespace(max=ns, clock=clock) for ns, clock in exchanges]
        return time_needed(flight(targets={str(k): target(None, e) for k, e in enumerate(made)}))

    assert time_needed(flight()) == "allow more time (--latency), or run with --pace max"
    assert time_needed(flight(targets={"a": target()})).startswith("allow more time")
    assert needed((2 * MS, HOST), (4 * MS, TARGET)) == (
        "the longest exchange observed took 4 ms: allow more time, such as --latency 0.0042"
    )
    assert needed((1, HOST)).endswith("--latency 0.0001")
    assert needed((2_000_000 * 100 // 105, HOST)).endswith("--latency 0.002")
    assert needed((2_000_001, HOST)).endswith("--latency 0.0022")
    assert needed((2 * MS, HOST), (1 * MS, MODELLED)) == (
        "execution, firmware and wire alone take up to 2 ms: allow more time (--latency), or run "
        "with --pace max"
    )


def test_the_values_of_a_failure_are_those_of_its_tag() -> None:
    ours = recorded((50, 0, 1.0), (50, 1, 2.0), (60, 0, 3.0))
    theirs = recorded((40, 0, 9.0), (50, 0, 1.0), (50, 1, 2.5), (60, 0, 8.0))
    found = LoopComparison(Comparison([]), ours, theirs, (ours, theirs))
    at = SignalResult("p.x", first_failed=Tag(50, 1), reason="beyond", tolerance=Tolerance(0.1, 0))
    assert found.values(at) == ("2.0", "2.5")
    told = found.failure(at)
    assert told == "p.x: beyond; with the reference model 2.0, with the C 2.5, allowed 0.1"
    same = SignalResult("p.x", first_failed=Tag(50, 0), reason="beyond")
    assert found.values(same) is None
    assert found.failure(same) == "p.x: beyond"
    assert found.values(SignalResult("p.x", reason="beyond")) is None
    assert found.values(SignalResult("p.none", first_failed=Tag(50), reason="x")) is None
    assert found.values(SignalResult("q.x", first_failed=Tag(50), reason="x")) is None


def test_rows_without_microsteps_are_found_by_their_time() -> None:
    ours, theirs = (recorded((50, 0, 1.0), (60, 0, x), steps=False) for x in (3.0, 4.0))
    found = LoopComparison(Comparison([]), ours, theirs, (ours, theirs))
    at = SignalResult("p.x", first_failed=Tag(60, 7), reason="beyond")
    assert found.values(at) == ("3.0", "4.0")


def test_the_first_failure_is_that_of_the_earliest_microstep() -> None:
    results = [
        SignalResult(name, first_failed=tag, reason="x")
        for name, tag in (("a", Tag(9)), ("b", Tag(3, 2)), ("c", Tag(3, 1)))
    ]
    assert flight(*results).first is results[2]
    assert flight(FINE).first is None


@pytest.mark.parametrize(
    ("tolerance", "unit", "told"),
    [
        ((0.0, 0.0), "m", "no difference"),
        ((0.5, 0.0), "m", "0.5 m"),
        ((0.5, 0.0), "1", "0.5"),
        ((0.0, 0.25), "", "max(0, 0.25 of the reference's value)"),
        ((0.5, 0.25), "m", "max(0.5 m, 0.25 of the reference's value)"),
    ],
)
def test_what_was_allowed_in_words(tolerance: tuple[float, float], unit: str, told: str) -> None:
    assert allowance(SignalResult("a", unit, Tolerance(*tolerance))) == told


def test_a_flight_as_data() -> None:
    found = flight(FINE, late=2, missed=3, error="", effects={"law": DID}).to_json()
    assert (found["ok"], found["outcome"], found["undecided"]) == (True, "passed", "")
    assert (found["late"], found["missed"], found["error"]) == (2, 3, "")
    assert found["effects"] == {"law": {"requests": 3, "answers": 3, "took_effect": 3}}
    plain = flight().to_json()
    assert (plain["late"], plain["missed"], plain["outcome"]) == (0, 0, "undecided")
    assert plain["covered"]["rows"] == 0


def test_a_signal_that_one_recording_lacks_has_no_values() -> None:
    run, none = recorded((50, 0, 1.0)), MemoryRecorder()
    none.start({})
    at = SignalResult("p.x", first_failed=Tag(50), reason="x")
    for pair in ((run, none.recording()), (none.recording(), run)):
        assert LoopComparison(Comparison([]), run, run, pair).values(at) is None


def test_a_row_of_a_track_without_microsteps_belongs_to_the_first_one() -> None:
    bare = run(bare=[(5, 1), (9, 2)]).track("bare")
    assert _tag(bare, np.array([1])) == Tag(9, 0)
