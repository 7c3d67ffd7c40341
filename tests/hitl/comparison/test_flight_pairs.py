"""Two flights held against each other, on recordings made by hand: rows, ends, late answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest

from hitl.comparison.flight import OVERLAP, compare_flights, first_late
from rtsim.core.signals import Signals
from rtsim.core.tag import Tag
from rtsim.record.comparison import Comparison
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.verdict import Tolerance

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
