"""The series that a reduction reads: declared initial values, arrivals, both ends of a window."""

from __future__ import annotations

import math
from collections.abc import Generator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtsim import PythonController
from rtsim.components.latency import Fixed
from rtsim.core.errors import ScenarioError
from rtsim.core.estimates import time_average
from rtsim.core.signals import Signals
from rtsim.discrete import Agenda, Processes
from rtsim.models.queues import scenario as queue
from rtsim.models.unstable import scenario as unstable
from rtsim.record.measured import outputs
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.schema import TrackSpec
from rtsim.runs.simulation import simulate
from rtsim.scenario.scenario import Scenario
from rtsim.studies import Mean, Replications, Study, start, summarise
from rtsim.studies.measures import Measures, Series
from rtsim.studies.reductions import (
    FirstCrossing,
    IntegralSquaredError,
    Last,
    Max,
    MaxAbs,
    MeanOfRows,
    Min,
    Overshoot,
    Reduction,
    SettlingTime,
)
from rtsim.testing.determinism import held_average

S = 10**9
STAMPS = (
    "sequence", "initiated", "initiated_step", "completed", "completed_step", "arrival",
    "arrival_step", "status",
)  # fmt: skip
MESSAGES = TrackSpec("messages/m", STAMPS, Signals("x = 2"))
ROWS = TrackSpec("m", ("step", "side"), Signals("x"))


def sent(messages: list[tuple[float, float, float]]) -> Any:
    """Rows (n, width) of messages: initiated (s), arrival (s; negative: lost), value."""
    words = np.zeros((len(messages), MESSAGES.width), np.int64)
    for row, (initiated, arrival, value) in zip(words, messages, strict=True):
        row[0] = row[2] = row[4] = round(initiated * S)
        row[6] = round(arrival * S) if arrival >= 0 else -1
        row[8] = 0 if arrival >= 0 else 1
        row[9] = np.float64(value).view(np.int64)
    return words


def reduced(reduction: Reduction, spec: TrackSpec, words: Any, end: float, piece: int = 1) -> float:
    measures = Measures({"r": reduction}, ())
    for k in range(0, max(1, len(words)), piece):
        measures.take(spec, words[k : k + piece])
    return measures.values(round(end * S), pytest.fail)["r"]


WITHIN = {"after": 2.0, "before": 6.0}


@pytest.mark.parametrize(
    ("reduction", "wanted"),
    [
        (Mean("m.x"), (2.0 * 3 + 5.0 * 5 + -1.0 * 2) / 10),
        (Mean("m.x", **WITHIN), (2.0 * 1 + 5.0 * 3) / 4),
        (Mean("m.x", after=4.0, before=5.0), 5.0),
        (Mean("m.x", after=9.0), -1.0),
        (Mean("m.x", before=1.0), 2.0),
        (Min("m.x"), -1.0),
        (Min("m.x", **WITHIN), 2.0),
        (Min("m.x", after=3.0, before=7.0), 5.0),
        (Max("m.x", before=2.5), 2.0),
        (Max("m.x", after=8.5), -1.0),
        (MaxAbs("m.x", target=5.0, before=7.0), 3.0),
        (Last("m.x", **WITHIN), 5.0),
        (Last("m.x"), -1.0),
        (Last("m.x", before=0.5), 2.0),
        (IntegralSquaredError("m.x", target=5.0), 9.0 * 3 + 36.0 * 2),
        (FirstCrossing("m.x", level=3.0), 3.0),
        (FirstCrossing("m.x", level=3.0, after=4.0), 8.0),
        (FirstCrossing("m.x", level=3.0, after=3.0, direction=1), math.inf),
        (SettlingTime("m.x", target=2.0, band=0.5), math.inf),
        (SettlingTime("m.x", target=2.0, band=0.5, before=2.5), 0.0),
        (SettlingTime("m.x", target=5.0, band=0.5, before=7.0), 3.0),
        (SettlingTime("m.x", target=-1.0, band=0.5, after=1.0), 7.0),
        (Overshoot("m.x", target=4.0, before=7.0), 0.5),
        (MeanOfRows("m.x"), (5.0 - 1.0) / 2),
    ],
    ids=repr,
)
@pytest.mark.parametrize("piece", [1, 2])
def test_a_held_signal_counts_from_0_to_the_end_of_the_run(
    reduction: Reduction, wanted: float, piece: int
) -> None:
    words = sent([(3.0, 3.0, 5.0), (8.0, 8.0, -1.0)])
    assert reduced(reduction, MESSAGES, words, 10.0, piece) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize(
    ("reduction", "wanted"),
    [
        (Mean("m.x"), 2.0), (Min("m.x"), 2.0), (Last("m.x", **WITHIN), 2.0),
        (FirstCrossing("m.x", level=3.0), math.inf), (IntegralSquaredError("m.x"), 40.0),
        (MeanOfRows("m.x"), math.nan),
    ],
    ids=repr,
)  # fmt: skip
def test_a_held_signal_without_a_message_keeps_its_declared_value(
    reduction: Reduction, wanted: float
) -> None:
    assert reduced(reduction, MESSAGES, sent([]), 10.0) == pytest.approx(wanted, nan_ok=True)


def test_a_message_counts_from_its_arrival_and_a_lost_or_travelling_one_does_not() -> None:
    words = sent([(1.0, 4.0, 8.0), (2.0, -1.0, 99.0), (3.0, 3.5, 6.0), (9.0, 11.0, 77.0)])
    for piece in (1, 2, 4):
        assert reduced(Mean("m.x"), MESSAGES, words, 10.0, piece) == pytest.approx(
            (2.0 * 3.5 + 6.0 * 0.5 + 8.0 * 6.0) / 10
        )
        assert reduced(Max("m.x"), MESSAGES, words, 10.0, piece) == 8.0
        assert reduced(FirstCrossing("m.x", level=7.0), MESSAGES, words, 10.0, piece) == 4.0
        assert reduced(MeanOfRows("m.x"), MESSAGES, words, 10.0, piece) == pytest.approx(47.5)


@given(
    messages=st.lists(
        st.tuples(st.integers(0, 20), st.integers(-1, 8), st.floats(-9, 9)), max_size=12
    ),
    window=st.tuples(st.integers(0, 19), st.integers(1, 20)),
    piece=st.integers(1, 12),
)
def test_averages_and_extremes_equal_those_of_the_whole_series(
    messages: list[tuple[int, int, float]], window: tuple[int, int], piece: int
) -> None:
    """The window ends at least 1 s after it begins, and the run at 20 s."""
    begin, end = window[0], min(20, window[0] + window[1])
    ordered = sorted(messages, key=lambda one: one[0])
    words = sent([(t, t + d if d >= 0 else -1, v) for t, d, v in ordered])
    arrived = sorted(((t + d, k) for k, (t, d, _) in enumerate(ordered) if d >= 0 and t + d <= 20))
    ns = np.array([t * S for t, _ in arrived], np.int64)
    values = np.array([ordered[k][2] for _, k in arrived])
    at_begin = np.concatenate(([2.0], values[ns <= begin * S]))[-1]
    held = np.concatenate(([at_begin], values[(ns > begin * S) & (ns <= end * S)]))
    kinds: list[tuple[type[Reduction], float]] = [
        (Mean, time_average(ns, values, begin * S, end * S, 2.0)),
        (Min, held.min()), (Max, held.max()), (Last, held[-1]),
    ]  # fmt: skip
    for kind, wanted in kinds:
        made = kind("m.x", after=begin, before=end)
        assert reduced(made, MESSAGES, words, 20, piece) == pytest.approx(wanted, abs=1e-9), kind


def rows(times: list[float], values: list[float]) -> Any:
    words = np.zeros((len(times), ROWS.width), np.int64)
    words[:, 0] = [round(t * S) for t in times]
    words[:, 3] = np.array(values, np.float64).view(np.int64)
    return words


@pytest.mark.parametrize(
    ("reduction", "wanted"),
    [
        (Mean("m.x", after=1.0, before=3.0), 2.0),
        (Mean("m.x", after=5.0, before=7.0), 8.0),
        (Last("m.x", before=3.0), 3.0),
        (Min("m.x", after=3.0), 3.0),
        (Max("m.x", before=1.0), 1.0),
        (FirstCrossing("m.x", level=2.0, after=1.0), 2.0),
        (FirstCrossing("m.x", level=2.0, after=3.0), math.inf),
        (IntegralSquaredError("m.x", after=1.0, before=1.0), 0.0),
        (SettlingTime("m.x", target=10.0, band=4.0, after=3.0), 1.0),
    ],
    ids=repr,
)
@pytest.mark.parametrize("piece", [1, 2, 5])
def test_a_window_between_the_rows_of_a_plant_is_cut_exactly(
    reduction: Reduction, wanted: float, piece: int
) -> None:
    words = rows([0.0, 4.0, 4.0, 8.0], [0.0, 4.0, 8.0, 8.0])  # a jump at 4 s
    assert reduced(reduction, ROWS, words, 8.0, piece) == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("window", "says"),
    [((11.0, math.inf), "begins at 11 s"), ((0.0, 12.0), "ends at 12 s"), ((0.0, 10.0), "")],
)
@pytest.mark.parametrize("spec", [MESSAGES, ROWS], ids=["held", "plant"])
def test_a_run_that_ends_before_its_window_has_no_value(
    spec: TrackSpec, window: tuple[float, float], says: str
) -> None:
    words = sent([(3.0, 3.0, 5.0)]) if spec is MESSAGES else rows([0.0, 10.0], [1.0, 2.0])
    measures = Measures({"r": Last("m.x", after=window[0], before=window[1])}, ())
    measures.take(spec, words)
    value = measures.values(10 * S, pytest.fail)["r"]
    assert math.isnan(value) == bool(says)
    assert says in "".join(measures.uncovered(10 * S))


@pytest.mark.parametrize("window", [(-1.0, 2.0), (3.0, 2.0), (math.nan, 2.0), (math.inf, math.inf)])
def test_an_impossible_window_is_refused(window: tuple[float, float]) -> None:
    with pytest.raises(ScenarioError, match="the window of"):
        FirstCrossing("m.x", after=window[0], before=window[1])


def machine(agenda: Agenda) -> None:
    """A machine that is busy from 90 to 99 s."""

    def work() -> Generator[Any, Any, None]:
        yield agenda.timeout(90)
        agenda.write(busy=1.0)
        yield agenda.timeout(9)
        agenda.write(busy=0.0)

    agenda.process(work())


def busy_machine() -> Scenario:
    out = Scenario("machine", until=100)
    out.processes("machine", Processes(machine, outputs=Signals("busy", "never = 3")))
    return out


FILE = """
from test_study_series import busy_machine as scenario
"""


def test_a_study_of_a_machine_has_its_utilisation_in_every_table(tmp_path: Path) -> None:
    file = tmp_path / "machine.py"
    file.write_text(FILE)
    study = Study(
        design=Replications(2),
        results={"utilisation": Mean("machine.busy"), "never": Min("machine.never")},
        requirements=["utilisation < 0.1"],
        histories=["machine.busy"],
    )
    folder = start(str(file), tmp_path / "out", study)
    assert folder.table()["utilisation"].to_pylist() == pytest.approx([0.09, 0.09])
    assert folder.table()["never"].to_pylist() == [3.0, 3.0]
    found = summarise(folder)
    assert found["results"]["utilisation"]["mean"] == pytest.approx(0.09)
    assert found["requirements"]["utilisation"]["passed"] == 2
    ((_, history),) = folder.histories("machine.busy")
    grid = folder.plan.job.grid / S
    assert (history == ((grid >= 90) & (grid < 99))).all()


def test_the_report_of_a_run_has_the_same_average() -> None:
    recording = simulate(busy_machine(), recorder=MemoryRecorder()).recording()
    found = {one.name: one for one in outputs(recording)}
    assert found["machine.busy"].average == pytest.approx(0.09)
    assert (found["machine.busy"].least, found["machine.busy"].last) == (0.0, 0.0)
    assert (found["machine.never"].least, found["machine.never"].average) == (3.0, 3.0)


def test_the_utilisation_of_a_queue_is_that_of_its_recordings(tmp_path: Path) -> None:
    study = Study(
        design=Replications(40),
        results={"served": Mean("queue.served", after=50)},
        settings={"arrival": 0.5},
        seed=1,
        until=200,
    )
    folder = start("queue", tmp_path / "out", study)
    values = folder.table()["served"].to_pylist()
    for run in (0, 17):
        row = folder.row(run)
        assert row is not None
        made = queue(arrival=0.5, until=200)
        recording = simulate(made, seed=row["seed"], recorder=MemoryRecorder()).recording()
        wanted = held_average(recording, "messages/queue.served", after=50)
        assert values[run] == pytest.approx(wanted, rel=1e-12)
    found = summarise(folder)["results"]["served"]
    assert found["low"] < 0.5 < found["high"]  # the exact utilisation in the long run


def late(period: float) -> Scenario:
    """A controller that is sampled first at 0.3 s, and whose answers take 0.1 s."""

    def law(*arguments: Any) -> None:
        arguments[-1][0] = 1.0

    out = unstable(until=1)
    out.controller(
        "slow",
        PythonController(law, inputs=Signals("x"), outputs=Signals("y = 4"), compile=False),
        period=period, offset=0.3, inputs={"x": "plant.x"}, transport=Fixed(0.1),
    )  # fmt: skip
    return out


def test_a_controller_holds_its_declared_output_until_its_first_answer_arrives() -> None:
    recording = simulate(late(0.5), recorder=MemoryRecorder()).recording()
    results: dict[str, Any] = {"mean": Mean("slow.y"), "first": FirstCrossing("slow.y", level=2.0)}
    measures = Measures(results, ())
    measures.take_recording(recording)
    values = measures.values(S, pytest.fail)
    assert values["mean"] == pytest.approx(4.0 * 0.4 + 1.0 * 0.6)
    assert values["first"] == pytest.approx(0.4)


@given(cuts=st.lists(st.integers(1, 5), max_size=5), times=st.lists(st.integers(0, 9), min_size=2))
def test_points_do_not_depend_on_how_the_rows_are_divided(
    cuts: list[int], times: list[int]
) -> None:
    words = rows([float(t) for t in sorted(times)], [float(k) for k in range(len(times))])
    found = []
    for edges in ([0, len(words)], sorted({0, len(words), *(c for c in cuts if c < len(words))})):
        series = Series("m.x", 2.5, 6.5)
        parts = [series.take(ROWS, words[a:b]) for a, b in pairwise(edges)]
        parts.append(series.end(9 * S))
        found.append([np.concatenate(one) for one in zip(*parts, strict=True)])
    assert np.array_equal(found[0], found[1])
    assert (np.diff(found[0][0]) >= 0).all()
