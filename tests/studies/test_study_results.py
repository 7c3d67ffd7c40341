"""Results of a run: reductions, functions of a recording, requirements, digests, intervals.

The memory of a study does not grow with the number of its runs.
"""

from __future__ import annotations

import math
import sys
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.signals import Signals
from rtsim.models.unstable import scenario as unstable
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.schema import TrackSpec
from rtsim.runs.simulation import simulate
from rtsim.studies.designs.base import rate
from rtsim.studies.measures import Limit, Measures
from rtsim.studies.reductions import (
    FirstCrossing,
    IntegralSquaredError,
    Last,
    Max,
    MaxAbs,
    Mean,
    MeanOfRows,
    Min,
    Overshoot,
    Reduction,
    SettlingTime,
    reduction_of,
    reduction_of_text,
)
from tools.bench.study import GROWTH, peaks

T = np.array([0.0, 1.0, 2.0, 2.0, 3.0, 4.0])
V = np.array([0.0, 2.0, -1.0, 3.0, 1.2, 1.0])
"""A signal that jumps at 2 s."""


def reduced(reduction: Reduction, t: Any = T, v: Any = V, track: str = "plant") -> float:
    """The result of a reduction that takes the rows from a track in pieces of two rows."""
    spec = TrackSpec(track, ("step",), Signals("x"))
    words = np.zeros((len(t), 3), np.int64)
    words[:, 0] = np.round(np.asarray(t) * 1e9)
    words[:, 2] = np.asarray(v, np.float64).view(np.int64)
    measures = Measures({"r": reduction}, ())
    for k in range(0, len(t), 2):
        measures.take(spec, words[k : k + 2])
    return measures.values(int(words[-1, 0]), pytest.fail)["r"]


@pytest.mark.parametrize(
    ("reduction", "wanted"),
    [
        (Last("plant.x"), 1.0),
        (Max("plant.x"), 3.0),
        (Min("plant.x"), -1.0),
        (MaxAbs("plant.x"), 3.0),
        (MaxAbs("plant.x", target=2.5), 3.5),
        (Max("plant.x", after=2.5), 2.1),
        (Max("plant.x", before=1.5), 2.0),
        (Mean("plant.x"), (1.0 + 0.5 + 2.1 + 1.1) / 4.0),
        (MeanOfRows("plant.x"), 6.2 / 6.0),
        (MeanOfRows("plant.x", after=2.5), 1.1),
        (IntegralSquaredError("plant.x", target=1.0), (1.0 + 3.0 + 4.44 + 0.04) / 3.0),
        (FirstCrossing("plant.x", level=1.0), 0.5),
        (FirstCrossing("plant.x", level=1.0, direction=-1), 1.0 + 1.0 / 3.0),
        (FirstCrossing("plant.x", level=9.0), math.inf),
        (SettlingTime("plant.x", target=1.0, band=0.25), 2.0 + 1.75 / 1.8),
        (SettlingTime("plant.x", target=1.0, band=0.25, after=1.0), 1.0 + 1.75 / 1.8),
        (SettlingTime("plant.x", target=0.0, band=0.25), math.inf),
        (SettlingTime("plant.x", target=0.0, band=9.0), 0.0),
        (Overshoot("plant.x", target=1.0), 2.0),
        (Overshoot("plant.x", target=-2.0), 0.0),
        (Overshoot("plant.x", target=5.0), 0.0),
    ],
    ids=repr,
)
def test_each_reduction_of_a_known_signal(reduction: Reduction, wanted: float) -> None:
    assert reduced(reduction) == pytest.approx(wanted, rel=1e-12)
    assert reduction_of(reduction.to_plain()) == reduction


@pytest.mark.parametrize(
    ("reduction", "wanted"),
    [
        (Mean("plant.x"), (0.0 + 2.0 + 3.0 + 1.2) / 4.0),
        (IntegralSquaredError("plant.x", target=1.0), 1.0 + 1.0 + 4.0 + 0.04),
        (FirstCrossing("plant.x", level=1.0), 1.0),
        (FirstCrossing("plant.x", level=1.0, direction=-1), 2.0),
        (SettlingTime("plant.x", target=1.0, band=0.25), 3.0),
        (MeanOfRows("plant.x"), 6.2 / 6.0),
    ],
    ids=repr,
)
def test_a_message_holds_its_value_until_the_next(reduction: Reduction, wanted: float) -> None:
    assert reduced(reduction, track="messages/plant") == pytest.approx(wanted, rel=1e-12)
    v = V.copy()
    v[-1] = math.nan
    if not isinstance(reduction, FirstCrossing):
        assert math.isnan(reduced(reduction, v=v, track="messages/plant"))


@pytest.mark.parametrize(
    ("times", "values", "reduction", "wanted"),
    [
        ([0, 1, 2], [-1, 0, 1], IntegralSquaredError("plant.x"), 2 / 3),
        ([0, 2], [-1, 1], IntegralSquaredError("plant.x"), 2 / 3),
        ([0, 3], [0, 3], IntegralSquaredError("plant.x", target=1), 3.0),
        ([0, 2], [-1, 1], IntegralSquaredError("plant.x", after=0.5, before=1.5), 1 / 12),
        ([0, 0, 2], [9, 2, 2], IntegralSquaredError("plant.x"), 8.0),
        ([0, 0.5, 1, 1.2], [1, 0.5, 0, -0.2], SettlingTime("plant.x", band=0.25), 0.75),
        ([0, 0.5, 1, 1.2], [-1, -0.5, 0, 0.2], SettlingTime("plant.x", band=0.25), 0.75),
        ([0, 1, 1, 2], [3, 3, 0, 0], SettlingTime("plant.x", band=0.25), 1.0),
        ([0, 1, 2], [2, -2, 0], SettlingTime("plant.x", band=0.5), 1.75),
        ([0, 1, 2], [2, 0, 0], SettlingTime("plant.x", band=0), 1.0),
        ([0, 1, 2], [math.inf, 0, 0], SettlingTime("plant.x", band=1), 1.0),
        ([0, 1, 2], [math.inf, 0, 0], FirstCrossing("plant.x", level=1), 1.0),
    ],
    ids=repr,
)
def test_a_signal_of_a_plant_is_linear_between_its_rows(
    times: list[float], values: list[float], reduction: Reduction, wanted: float
) -> None:
    assert reduced(reduction, times, values) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize(
    "make",
    [Last, Max, Min, MaxAbs, Mean, MeanOfRows, IntegralSquaredError, Overshoot, SettlingTime],
)
def test_a_nan_is_not_hidden(make: type[Reduction]) -> None:
    v = V.copy()
    v[-1] = math.nan
    assert math.isnan(reduced(make("plant.x"), v=v))
    if make is not Last:
        v[-1], v[2] = 1.0, math.nan
        assert math.isnan(reduced(make("plant.x"), v=v))


def test_a_nan_before_the_first_crossing_is_not_hidden_and_a_later_one_does_not_matter() -> None:
    for row, wanted in ((0, math.nan), (1, math.nan), (2, 0.5), (5, 0.5)):
        v = V.copy()
        v[row] = math.nan
        found = reduced(FirstCrossing("plant.x", level=1.0), v=v)
        assert found == pytest.approx(wanted, nan_ok=True)
        assert math.isnan(reduced(FirstCrossing("plant.x", level=9.0), v=v))


@given(
    values=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30),
    cuts=st.lists(st.integers(0, 30), max_size=5),
)
def test_a_result_does_not_depend_on_how_the_rows_are_divided(
    values: list[float], cuts: list[int]
) -> None:
    v = np.array(values, dtype=np.float64)
    t = np.arange(len(v), dtype=np.float64)
    for reduction in (
        Mean("p.x"),
        MeanOfRows("p.x"),
        IntegralSquaredError("p.x", target=0.3),
        Max("p.x"),
        MaxAbs("p.x", target=1.0),
        FirstCrossing("p.x", level=0.5),
        SettlingTime("p.x", band=1.0),
        Overshoot("p.x", target=2.0),
    ):
        whole, divided = reduction.begin(), reduction.begin()
        whole.take(t, v)
        edges = sorted({0, len(v), *(cut for cut in cuts if cut < len(v))})
        for a, b in pairwise(edges):
            divided.take(t[a:b], v[a:b])
        assert np.array_equal(whole.value(), divided.value(), equal_nan=True), reduction


def test_a_reduction_is_read_from_a_text() -> None:
    assert reduction_of_text("max_abs:plant.x,target=2,after=0.5") == MaxAbs(
        "plant.x", target=2, after=0.5
    )
    with pytest.raises(UnknownName, match="did you mean max"):
        reduction_of_text("maxx:plant.x")
    with pytest.raises(ScenarioError, match="takes \\(signal"):
        reduction_of_text("max:plant.x,level=1")
    with pytest.raises(ScenarioError, match="give 1, -1 or 0"):
        reduction_of_text("first_crossing:plant.x,direction=2")


def test_a_run_gives_the_same_results_in_rows_and_as_a_recording() -> None:
    recorder = MemoryRecorder()
    recording = simulate(unstable(until=2), recorder=recorder).recording()
    results: dict[str, Any] = {
        "peak": Max("plant.v", after=0.5),
        "mean": Mean("controller.force"),
        "rows": lambda recording: len(recording.track("plant").column("x")),
    }
    measures = Measures(results, [Limit("peak", below=2.0)])
    assert measures.needs_recording
    measures.take_recording(recording)
    values = measures.values(recording.end_ns, lambda: recording)
    after = recording.track("plant").ns >= 500_000_000
    assert values["peak"] == recording.track("plant").column("v")[after].max()
    assert values["rows"] == len(recording.track("plant").ns)
    assert values["peak.margin"] == 2.0 - values["peak"]
    other = Measures({}, ())
    other.take_recording(simulate(unstable(until=2), seed=1, recorder=MemoryRecorder()).recording())
    assert other.digest() == measures.digest()  # no random numbers
    third = Measures({}, ())
    changed = unstable(until=2)
    changed.set("plant.stiffness", 2.0000000001)
    third.take_recording(simulate(changed, recorder=MemoryRecorder()).recording())
    assert third.digest() != measures.digest()


@pytest.mark.parametrize(
    ("results", "problem"),
    [
        ({"a": Max("plant.y")}, "unknown signal 'y'"),
        ({"a": Max("plan.x")}, "unknown track 'plan'"),
        ({"a": Max("x")}, "write COMPONENT.SIGNAL"),
        ({"a": lambda _: "many"}, "result a returned 'many'"),
    ],
)
def test_what_a_run_does_not_have_is_named(results: dict[str, Any], problem: str) -> None:
    recording = simulate(unstable(until=0.1), recorder=MemoryRecorder()).recording()

    def measured() -> None:
        measures = Measures(results, ())
        measures.take_recording(recording)
        measures.values(recording.end_ns, lambda: recording)

    with pytest.raises(ScenarioError, match=problem):
        measured()


def test_a_controller_that_never_answered_keeps_its_declared_output() -> None:
    never = unstable(latency=5, until=0.05)
    recording = simulate(never, recorder=MemoryRecorder()).recording()
    measures = Measures({"a": Last("controller.force"), "b": Last("plant.x")}, ())
    measures.take_recording(recording)
    values = measures.values(recording.end_ns, lambda: recording)
    assert values["a"] == recording.track("messages/controller").signals.initial()[0]
    assert values["b"] == recording["plant.x"][-1]


@pytest.mark.parametrize(
    ("text", "value", "margin"),
    [
        ("peak < 0.5", 0.2, 0.3),
        ("peak<=0.5", 0.7, -0.2),
        ("peak >= 2", 2.0, 0.0),
        ("peak>1e3", math.inf, math.inf),
        ("peak < 1", math.inf, -math.inf),
        ("peak < 1", math.nan, math.nan),
    ],
)
def test_the_margin_of_a_requirement(text: str, value: float, margin: float) -> None:
    requirement = Limit.of_text(text)
    assert requirement.margin(value) == pytest.approx(margin, nan_ok=True)
    assert Limit.of(requirement.to_plain()) == requirement


def test_a_requirement_with_two_limits_has_the_margin_to_the_nearer_one() -> None:
    requirement = Limit("x", below=3.0, above=1.0, name="band")
    assert [requirement.margin(x) for x in (0.5, 1.0, 1.5, 2.75, 4.0)] == [-0.5, 0, 0.5, 0.25, -1]
    assert str(requirement) == "1 <= x <= 3"
    for text in ("peak", "peak < much", "< 3"):
        with pytest.raises(ScenarioError, match="requirement"):
            Limit.of_text(text)
    with pytest.raises(ScenarioError, match="has no limit"):
        Limit("x")
    for endless in (math.inf, -math.inf, math.nan):
        with pytest.raises(ScenarioError, match="give a finite number"):
            Limit("x", below=endless)


def test_clopper_pearson_intervals_of_published_tables() -> None:
    """Newcombe, Statistics in Medicine 17 (1998) 857, table I, method 5 (exact)."""
    for passed, count, low, high in (
        (81, 263, 0.2527, 0.3676), (15, 148, 0.0578, 0.1617), (0, 20, 0.0, 0.1684),
        (1, 29, 0.0009, 0.1776),
    ):  # fmt: skip
        found = rate(passed, count)
        assert (round(found.low, 4), round(found.high, 4)) == (low, high)
    assert rate(20, 20).low == pytest.approx(1 - 0.1684, abs=5e-5)
    assert rate(20, 20).high == 1.0
    with pytest.raises(ScenarioError):
        rate(3, 2)


@pytest.mark.live
@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_peaks_of_client_scheduler_and_worker_are_flat() -> None:
    few, many = peaks(10_000, workers=1), peaks(40_000, workers=1)
    for process, peak in many.items():
        assert peak <= GROWTH * few[process], process
