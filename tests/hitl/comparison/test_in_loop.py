"""Two flights held against each other: which rows are compared, and what fails for want of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from back_to_back_parts import Stand

from hitl.comparison.back_to_back import back_to_back
from hitl.comparison.flight import compare_flights
from hitl.comparison.verdict import BackToBack
from rtsim.components.controller import PythonController
from rtsim.components.latency import Fixed
from rtsim.core.errors import ControllerError
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import Tag
from rtsim.equations.model import Model
from rtsim.record.comparison import compare
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.verdict import SignalResult, Tolerance
from rtsim.runs.simulation import simulate
from rtsim.scenario.scenario import Scenario

MS = 1_000_000
STEPS = 11
"""Of a controller at 100 Hz in 0.1 s; the plant's grid is at 2 ms."""


def derivative(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = u[0] - x[0]


PLANT = Model(
    name="lag", states=Signals("x [m]"), inputs=Signals("force [N]"), derivative=derivative
)


def full(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    """Always the same: only the first answer changes the plant's input."""
    y[0] = 12.0


LAW = PythonController(full, Signals("x [m]"), Signals("force [N]"))


class Fresh(Stand):
    """A stand-in that is started anew: open loop first, then the flight."""

    late: tuple[int, ...] = ()
    """Requests of the flight whose answers are not there in time."""
    fresh_ones = 0

    def fresh(self) -> Fresh:
        self.fresh_ones += 1
        out = type(self)(self.law, self.change, self.outputs)
        out.late = self.late if self.fresh_ones > 1 else ()
        out.asked = 0
        return out

    asked = 0

    def receive(self, tag: Tag, patience: float) -> Vector | None:
        if self.asked in self.late and self.step == self.asked:
            self.late = tuple(k for k in self.late if k != self.asked)
            return None
        self.asked += 1
        return super().receive(tag, patience)


def scenario(failure: str = "end", latency: float = 0.0, late: str = "hold") -> Scenario:
    out = Scenario("lag", until=0.1)
    out.plant("plant", PLANT, step=0.002, inputs={"force": "law.force"})
    out.controller(
        "law", LAW, period=0.01, inputs={"x": "plant.x"}, failure=failure, late=late,
        compute=Fixed(latency),
    )  # fmt: skip
    return out


def held(change: Callable[[int, Vector], Vector], **policies: str) -> BackToBack:
    return back_to_back(scenario(**policies), {"law": Fresh(LAW, change)})  # type: ignore[arg-type]


def flown(until: float | None = None) -> Recording:
    recorder = MemoryRecorder()
    simulate(scenario(), until=until, recorder=recorder)
    return recorder.recording()


def failures(result: BackToBack) -> dict[str, SignalResult]:
    assert result.closed is not None
    return {r.name: r for r in result.closed.failures}


def without(recording: Recording, track: str, rows: list[int]) -> Recording:
    data = recording.tracks[track]
    words = np.delete(data.words, rows, axis=0)
    return replace(recording, tracks={**recording.tracks, track: replace(data, words=words)})


# -- x+


def bits(step: int, y: Vector) -> Vector:
    """Twelve, give or take some bits."""
    return y + (1e-14 if step % 2 else -1e-14)


def test_x_plus_that_only_one_flight_has_is_no_difference() -> None:
    out = held(bits)
    assert out.flight is not None
    ours, theirs = (
        r.track("plant").integer("side").sum() for r in (out.flight.baseline, out.flight.candidate)
    )
    assert (ours, theirs) == (1, STEPS), "the case is none without them"
    assert "other tags" in str(compare(out.flight.baseline, out.flight.candidate).failures)
    assert out.ok, out.in_words
    assert out.closed is not None
    (x,) = [r for r in out.closed.results if r.name == "plant.x"]
    assert 0 < x.max_abs < 1e-12
    assert x.rows == 52, "51 of x-, and the x+ of both"
    rules = {"*": Tolerance(1e-9)}
    swapped = compare_flights(out.flight.candidate, out.flight.baseline, rules, ["law"])
    assert swapped.comparison.ok, "it may be the design that has more of them"


def test_a_real_difference_is_told_with_its_first_tag_and_its_size() -> None:
    out = held(lambda step, y: bits(step, y) + (0.5 if step >= 4 else 0.0))
    failed = failures(out)
    assert failed["plant.x"].first_failed == Tag(42 * MS)
    assert failed["plant.x"].max_abs == pytest.approx(0.5 * (1 - np.exp(-0.06)), rel=1e-6)
    assert failed["plant.force"].first_failed == Tag(42 * MS), "its x+ at 40 ms is new"
    assert failed["messages/law.force"].first_failed == Tag(40 * MS)
    assert out.flight is not None
    assert out.flight.first is failed["messages/law.force"]
    assert "with the reference model 12.0, with the C 12.49999" in out.in_words


def test_x_plus_of_both_is_compared() -> None:
    failed = failures(held(lambda step, y: y + 0.5))  # noqa: ARG005
    assert failed["plant.force"].first_failed == Tag(0, 1)


# -- rows that are missing


def test_a_flight_that_ends_early_has_one_line_for_each_of_its_controllers() -> None:
    def dies(step: int, y: Vector) -> Vector:
        if step == 4:
            raise ControllerError("it fell over")
        return bits(step, y)

    out = held(dies)
    assert not out.ok
    failed = failures(out)
    assert {name: r.reason for name, r in failed.items()} == {
        "overlap": "the run with the C ends at 0.04 s of 0.1 s",
        "messages/law (rows)": "4 of 11 rows; the first missing row is at 0.04 s",
    }
    assert "other tags" not in out.in_words


def test_a_controller_that_dies_while_the_flight_goes_on_fails() -> None:
    def dies(step: int, y: Vector) -> Vector:
        if step == 4:
            raise ControllerError("it fell over")
        return y

    out = held(dies, failure="hold")
    assert out.flight is not None
    assert not out.flight.error
    failed = failures(out)
    assert set(failed) == {"messages/law (rows)"}, "the force that is held is the design's"
    assert out.in_words.count("4 of 11 rows") == 1


@pytest.mark.parametrize(
    ("track", "row", "text"),
    [
        ("messages/law", 3, "10 of 11 rows; the first missing row is at 0.03 s"),
        ("messages/law.inputs", 3, "10 of 11 rows; the first missing row is at 0.03 s"),
        ("plant", 5, "50 of 51 rows; the first missing row is at 0.008 s"),
    ],
)
def test_a_row_that_is_missing_fails(track: str, row: int, text: str) -> None:
    design = flown()
    found = compare_flights(design, without(design, track, [row]), {}, ["law"]).comparison
    assert [(r.name, r.reason) for r in found.failures] == [(f"{track} (rows)", text)]
    more = compare_flights(without(design, track, [row]), design, {}, ["law"]).comparison
    plus = [] if track == "plant" else [f"{track} (rows)"]
    assert [r.name for r in more.failures] == plus
    assert compare_flights(design, design, {}, ["law"]).comparison.ok


def test_what_was_not_compared_does_not_pass() -> None:
    design = flown()
    nothing = replace(design, tracks={})
    found = compare_flights(design, nothing, {"plant.x": Tolerance(1.0)}, ["law"]).comparison
    assert not found.ok
    assert {r.name for r in found.results} == {"overlap", "messages/law (rows)"}
    assert not compare_flights(design, flown(0.098), {}, ["law"]).comparison.ok


# -- answers that are Late


def test_one_with_late_answers_is_compared_up_to_the_first() -> None:
    stand = Fresh(LAW, lambda step, y: y)  # noqa: ARG005
    stand.late = (3, 5)
    out = back_to_back(scenario(), {"law": stand}, pace=100, latency=0.004)
    assert out.flight is not None
    assert out.flight.late == 2
    told = (
        "2 answers were Late; compared up to the request of the first late answer, "
        "at 0.03 s of 0.1 s"
    )
    assert {name: r.reason for name, r in failures(out).items()} == {"overlap": told}
    assert "2 answers were Late" in out.in_words
    assert "allow more time" in out.explanation


def test_a_difference_before_the_first_late_answer_is_told_first() -> None:
    stand = Fresh(LAW, lambda step, y: y + (1.0 if step >= 1 else 0.0))
    stand.late = (3,)
    out = back_to_back(scenario(), {"law": stand}, pace=100, latency=0.004)
    failed = failures(out)
    assert failed["messages/law.force"].first_failed == Tag(10 * MS)
    assert failed["overlap"].reason.startswith("1 answer was Late; compared")
    assert "closed loop: messages/law.force: fails at 0.01 s, 2/3" in out.in_words


def test_where_time_is_stretched_a_late_answer_changes_nothing() -> None:
    stand = Fresh(LAW, bits)
    stand.late = (3,)
    out = back_to_back(scenario(late="stretch"), {"law": stand}, pace=100, latency=0.004)
    assert out.flight is not None
    assert out.flight.late == 1
    assert out.ok, out.in_words
