"""What a comparison put to the test: what moved, what took effect, what came between."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from back_to_back_parts import passing

from hitl.comparison.conditions import LoopRun, environment_failure_of
from hitl.comparison.exercise import Effects, Exercise, FlightCoverage
from hitl.comparison.flight import EnvironmentFailure
from rtsim.components.controller import PythonController
from rtsim.core.signals import Signal, Signals
from rtsim.core.tag import Tag
from rtsim.engine.trace import request_topic
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.verdict import SignalResult

MS = 1_000_000


def exercised(outputs: list[list[float]], inputs: list[list[float]] | None = None) -> Exercise:
    law = passing("a", "b")
    rows = [[0.0, 0.0]] * len(outputs) if inputs is None else inputs
    return Exercise.of(law, np.array(rows).reshape(-1, 2), np.array(outputs).reshape(-1, 2))


@pytest.mark.parametrize(
    ("outputs", "still", "some"),
    [
        ([[0, 0], [0, 1], [0, 0]], ("a",), True),
        ([[0, 0], [0, 0]], ("a", "b"), False),
        ([[0, 5], [0, 5]], ("a", "b"), True),  # it stands, away from what is never written
        ([[1, 1], [2, 2]], (), True),
        ([], ("a", "b"), False),
    ],
)
def test_what_moved(outputs: list[list[float]], still: tuple[str, ...], some: bool) -> None:
    found = exercised(outputs)
    assert (found.still_outputs, found.any) == (still, some)
    assert found.still_inputs == ("in_a", "in_b")


def test_a_constant_that_the_design_begins_with_is_no_answer() -> None:
    signals = Signals(Signal("a", initial=3.0))
    law = PythonController(passing("a").law, signals.prefixed("in_"), signals)
    for value, some in ((3.0, False), (0.0, False), (2.0, True)):
        assert Exercise.of(law, np.zeros((2, 1)), np.full((2, 1), value)).any is some, value


def test_what_was_not_exercised_in_words_and_as_data() -> None:
    assert Exercise().in_words == []
    assert Exercise().any
    both = exercised([[0, 0], [0, 1]], [[1, 0], [1, 1]])
    assert both.in_words == ["outputs that never moved: a", "inputs that never changed: in_a"]
    assert both.to_json() == {
        "outputs_that_never_moved": ["a"],
        "outputs_that_only_the_stimuli_moved": [],
        "outputs_that_were_never_finite": [],
        "inputs_that_never_changed": ["in_a"],
        "inputs_that_only_the_stimuli_changed": [],
    }
    assert exercised([[0, 0]]).nothing.startswith("the reference model never moves a, b in these")


def test_an_output_that_is_never_finite_shows_nothing() -> None:
    nan, inf = float("nan"), float("inf")
    found = exercised([[nan, 0], [inf, 0], [nan, 0]])
    assert (found.never_finite, found.still_outputs, found.any) == (("a",), ("b",), False)
    assert found.idle == ["b never moved", "a was never finite"]
    assert "b never moved and a was never finite, so there is no value" in found.nothing
    assert "outputs that were never finite: a" in found.in_words
    late = exercised([[nan, 0], [1, 0]])
    assert (late.never_finite, late.still_outputs, late.any) == ((), ("b",), True)


# -- what became of answers


def flight(
    *answers: tuple[int, float], end: int = 100, asked: int = 0, footer: Any = None
) -> Recording:
    """Answers of ``law`` by (arrival, value), and a plant up to ``end``."""
    recorder = MemoryRecorder()
    plant = recorder.track("plant", ("step",), Signals("x"))
    out = recorder.track("messages/law", ("arrival",), Signals("a")) if answers else None
    requests = (
        recorder.track(f"messages/{request_topic('law')}", (), Signals("u")) if asked else None
    )
    recorder.start({})
    for k in range(asked):
        assert requests is not None
        requests.append(k, (), np.array([1.0]))
    for arrival, value in answers:
        assert out is not None
        out.append(0, (arrival,), np.array([value]))
    for ns in (0, end):
        plant.append(ns, (0,), np.array([1.0]))
    recorder.finish({} if footer is None else footer)
    return recorder.recording()


def effects(*answers: tuple[int, float], design: tuple[tuple[int, float], ...] = ()) -> Effects:
    return Effects.of("law", passing("a"), flight(*design), flight(*answers, asked=3))


def test_answers_that_arrive_until_the_end_took_effect() -> None:
    found = effects((0, 1.0), (100, 1.0), (101, 1.0), (-1, 1.0), design=((100, 1.0),))
    assert (found.asked, found.answered, found.arrived, found.away) == (3, 4, 2, True)
    assert found.any
    assert found.nothing("law") == ""
    assert found.to_json() == {"requests": 3, "answers": 4, "took_effect": 2}


@pytest.mark.parametrize("design", [(), ((101, 1.0),), ((-1, 1.0),), ((50, 0.0),)])
def test_a_design_that_says_nothing_else_in_time_has_no_effect(design: Any) -> None:
    found = effects((0, 1.0), design=design)
    assert (found.arrived, found.away, found.any) == (1, False, False)
    assert "every answer of the reference model of law equals the" in found.nothing("law")


def test_without_answers_there_is_no_effect() -> None:
    found = Effects.of("law", passing("a"), flight((0, 1.0)), flight())
    assert (found.asked, found.answered, found.arrived, found.away) == (0, 0, 0, True)
    assert not found.any
    assert "no answer of law took effect before the end" in found.nothing("law")


def test_outputs_that_the_design_does_not_have_do_not_count() -> None:
    found = Effects.of("law", passing("b"), flight((0, 1.0)), flight((0, 1.0)))
    assert not found.away


def test_one_answer_is_an_effect() -> None:
    assert effects((0, 1.0), design=((50, 1.0),)).any


# -- what was covered


def test_rows_signals_and_ends_of_a_comparison() -> None:
    results = [SignalResult("plant.x", rows=2), SignalResult("plant.y"), SignalResult("a", rows=1)]
    paired = flight((0, 1.0), end=1500 * MS)
    cut = replace(paired, header={"until": 3000 * MS}, footer=None)
    died = flight(footer={"reason": "error", "error": "a text", "ended": 500 * MS})
    found = FlightCoverage.of(results, paired, {"design": cut, "C": died})
    assert (found.signals, found.rows, found.last_ns) == (2, 3, 1500 * MS)
    assert found.in_words == (
        "2 signals, 3 rows, 0 s to 1.5 s; the run with the reference model was cut off at "
        "1.5 s of 3 s; the run with the C ended in an error at 0.5 s"
    )
    assert found.to_json()["to_s"] == 1.5


def test_nothing_is_covered_from_the_start_on() -> None:
    found = FlightCoverage.of([], replace(flight(), tracks={}), {})
    assert (found.signals, found.rows, found.last_ns) == (0, 0, -1)
    assert found.in_words.startswith("0 signals, 0 rows, 0 s to 0 s")
    assert found.to_json()["to_s"] == 0.0
    assert FlightCoverage().to_json() == {"signals": 0, "rows": 0, "to_s": 0.0, "ended": {}}


# -- what came between


def flown(*events: tuple[str, int, str, str], started: Any = None, **how: Any) -> LoopRun:
    """A flight with (kind, ns, source, text) as its events; answers were allowed 5 ns."""
    recorder = MemoryRecorder()
    recorder.track("plant", ("step",), Signals("x"))
    recorder.start({})
    for kind, ns, source, text in events:
        recorder.event(Tag(ns), kind, source, text, {"allowed": 5})
    recorder.finish({})
    return LoopRun(recorder.recording(), started or {}, **how)


KILLED = SimpleNamespace(environment=True)


def test_an_error_around_a_controller_spoils_all_of_a_flight() -> None:
    one = flown(environment=True, error="no memory")
    assert environment_failure_of(one) == EnvironmentFailure(one.recording.end_ns, "no memory")
    assert environment_failure_of(flown(error="it fell over")) is None


def test_a_host_that_held_up_a_flight_spoils_its_end_also_if_an_answer_was_late() -> None:
    one = flown(held_up=True, error="it woke late", paced=True)
    assert environment_failure_of(one) == EnvironmentFailure(
        one.recording.end_ns, "it woke late", slow=True
    )
    both = flown(("Late", 45, "law", "late"), held_up=True, error="it woke late", paced=True)
    found = environment_failure_of(both)
    assert found is not None
    assert (found.slow, found.ended) == (True, True)


def test_a_killed_process_spoils_a_flight_from_the_first_on() -> None:
    failed = ("Failed", 70, "law", "later"), ("Failed", 40, "law", "killed")
    assert environment_failure_of(flown(*failed, started={"law": KILLED})) == EnvironmentFailure(
        40, "killed"
    )
    itself = SimpleNamespace(environment=False)
    assert environment_failure_of(flown(*failed, started={"law": itself})) is None
    assert environment_failure_of(flown(*failed, started={"law": object()})) is None
    assert environment_failure_of(flown(*failed, started={"other": KILLED})) is None
    assert environment_failure_of(flown(("Other", 1, "law", ""), started={"law": KILLED})) is None


WELL = SimpleNamespace(environment=False)


def asked(answers: dict[str, tuple[int, int]], *events: Any, **how: Any) -> LoopRun:
    """A flight that ended at 100 ns: the last request and the last answer of each controller."""
    recorder = MemoryRecorder()
    tracks = [
        (recorder.track(f"messages/{topic}", (), Signals("x")), last)
        for name, both in answers.items()
        for topic, last in zip((request_topic(name), name), both, strict=True)
    ]
    tracks += [(recorder.track("plant", (), Signals("x")), 100)]
    recorder.start({})
    for track, last in tracks:
        for ns in range(0, last + 1, 10):
            track.append(ns, (), np.zeros(1))
    for kind, ns, source, text in events:
        recorder.event(Tag(ns), kind, source, text, {"allowed": 5})
    recorder.finish({})
    return LoopRun(recorder.recording(), how.pop("started", dict.fromkeys(answers, WELL)), **how)


def test_a_flight_is_spoiled_from_the_first_pending_request_on() -> None:
    ended = {"environment": True, "error": "killed"}
    assert environment_failure_of(asked({"law": (90, 80)}, **ended)) == EnvironmentFailure(
        90, "killed"
    )
    assert environment_failure_of(asked({"law": (90, 90)}, **ended)) == EnvironmentFailure(
        100, "killed"
    )
    two = {"law": (90, 90), "slow": (70, 60)}
    assert environment_failure_of(asked(two, **ended)) == EnvironmentFailure(70, "killed")
    late = ("Late", 75, "slow", "late")
    assert environment_failure_of(asked(two, late, **ended)) == EnvironmentFailure(100, "killed")


def test_c_that_failed_earlier_is_not_excused_by_a_process_killed_later() -> None:
    both = {"law": (30, 20), "other": (90, 80)}
    failed = ("Failed", 35, "law", "it crashed")
    found = environment_failure_of(asked(both, failed, environment=True, error="killed"))
    assert found == EnvironmentFailure(90, "killed")
    started = {"law": WELL, "other": KILLED}
    killed = failed, ("Failed", 95, "other", "killed")
    assert environment_failure_of(asked(both, *killed, started=started)) == EnvironmentFailure(
        90, "killed"
    )
    found = environment_failure_of(asked(both, killed[1], started=started, error="law crashed"))
    assert found is not None
    assert not found.ended


def test_late_answers_spoil_a_flight_by_the_wall_clock_and_no_other() -> None:
    late = ("Late", 40, "law", "late by 3"), ("Late", 90, "law", "late by 4")
    found = environment_failure_of(flown(*late, paced=True))
    assert found is not None
    assert found[:1] + found[2:] == (35, True, True)
    assert found.why.startswith("2 answers were late by the clock of this host")
    one = environment_failure_of(flown(late[0], paced=True))
    assert one is not None
    assert one.why.startswith("1 answer was late")
    assert environment_failure_of(flown(*late)) is None
    assert environment_failure_of(flown(paced=True)) is None
    assert environment_failure_of(flown(("Missed", 1, "law", ""), paced=True)) is None


def test_a_late_answer_excuses_the_error_that_it_was_and_no_other() -> None:
    late = ("Late", 40, "law", "late by 3")
    excused = environment_failure_of(flown(late, paced=True, error="law: late by 3"))
    assert excused is not None
    assert excused.ended
    other = environment_failure_of(flown(late, paced=True, error="it fell over"))
    assert other is not None
    assert not other.ended
