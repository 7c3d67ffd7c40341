"""Whatever the runs: the same passes, one planted difference is found where it was planted."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from numpy.typing import NDArray

from rtsim.core.signals import Signal, Signals
from rtsim.record.comparison import compare, compare_exact
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder

LAYOUT = Signals(
    "a [m]",
    Signal("angle", "deg", kind="angle"),
    Signal("v", shape=(3,)),
    Signal("q", shape=(4,), kind="quaternion"),
)
ANY = st.floats(width=64)
FINITE = st.floats(-1e6, 1e6)
Rows = NDArray[np.float64]


def rows_of(elements: st.SearchStrategy[float]) -> st.SearchStrategy[Rows]:
    return npst.arrays(np.float64, st.tuples(st.integers(1, 12), st.just(9)), elements=elements)


def run(rows: Rows, step_ns: int = 1000) -> Recording:
    recorder = MemoryRecorder()
    track = recorder.track("p", ("step",), LAYOUT)
    recorder.start({})
    for i, row in enumerate(rows):
        track.append(i * step_ns, (i % 3,), row)
    return recorder.recording()


@given(rows_of(ANY))
def test_the_same_run_passes_at_zero_tolerance(rows: Rows) -> None:
    assert compare(run(rows), run(rows.copy())).ok
    assert compare_exact(run(rows), run(rows.copy())) is None
    assert run(rows).digest() == run(rows.copy()).digest()


@given(rows_of(ANY), st.data())
def test_a_planted_difference_is_found(rows: Rows, data: st.DataObject) -> None:
    row = data.draw(st.integers(0, len(rows) - 1))
    column = data.draw(st.integers(0, 8))
    planted = rows.copy()
    planted[row, column] = data.draw(ANY)
    before, after = rows[row, column : column + 1], planted[row, column : column + 1]
    assume(before.tobytes() != after.tobytes())
    exact = compare_exact(run(rows), run(planted))
    assert exact is not None
    assert exact.tag == run(rows).tracks["p"].tag(row)
    assert exact.column == LAYOUT.columns[column]
    assert run(rows).digest() != run(planted).digest()
    result = compare(run(rows), run(planted))
    name = next(s.name for s in LAYOUT if column < LAYOUT.slice(s.name).stop)
    scalar = LAYOUT[name].kind == "scalar"
    if math.isnan(before[0]) and math.isnan(after[0]):
        assert result.ok
    elif scalar or math.isfinite(before[0]) != math.isfinite(after[0]):
        assert [r.name for r in result.failures] == [f"p.{name}"]
        assert result.failures[0].first == exact.tag == result.failures[0].first_failed


@given(rows_of(ANY), st.data())
def test_distances_are_symmetric(rows: Rows, data: st.DataObject) -> None:
    other = data.draw(npst.arrays(np.float64, rows.shape, elements=ANY))
    there, back = compare(run(rows), run(other)), compare(run(other), run(rows))
    for a, b in zip(there.results, back.results, strict=True):
        assert (a.name, a.max_abs, a.first, a.ok) == (b.name, b.max_abs, b.first, b.ok)
    absolute = {"p.*": (data.draw(st.floats(0, 1e300)), 0.0)}
    assert (
        compare(run(rows), run(other), absolute).ok == compare(run(other), run(rows), absolute).ok
    )


@given(rows_of(FINITE), st.data())
def test_its_own_figures_are_the_tolerance_that_passes(rows: Rows, data: st.DataObject) -> None:
    other = rows + data.draw(npst.arrays(np.float64, rows.shape, elements=st.floats(-5, 5)))
    result = compare(run(rows), run(other))
    widest = {r.name: (max(r.max_abs, 1e-300), 0.0) for r in result.results}
    assert compare(run(rows), run(other), widest).ok
    for r in result.results:
        if r.max_abs > 1e-9:
            tight = widest | {r.name: (r.max_abs * 0.999, 0.0)}
            assert [f.name for f in compare(run(rows), run(other), tight).failures] == [r.name]


@given(st.floats(-720, 720), st.floats(-180, 180), st.integers(-3, 3))
def test_angles_wrap(angle: float, apart: float, turns: int) -> None:
    row = np.zeros((1, 9))
    row[0, 1] = angle
    moved = row.copy()
    moved[0, 1] = angle + apart + 360.0 * turns
    result = next(r for r in compare(run(row), run(moved)).results if r.name == "p.angle")
    assert abs(result.max_abs - abs(apart)) < 1e-9


@given(rows_of(FINITE), st.lists(st.booleans(), min_size=12, max_size=12))
def test_the_sign_of_a_quaternion_does_not_count(rows: Rows, flips: list[bool]) -> None:
    turned = rows.copy()
    for i, flip in enumerate(flips[: len(rows)]):
        if flip:
            turned[i, 5:9] *= -1
    assert compare(run(rows), run(turned)).ok


@given(rows_of(FINITE), st.integers(1, 4))
def test_common_times_of_a_coarser_run_pass(rows: Rows, every: int) -> None:
    assume((len(rows) - 1) % every == 0)
    coarse = rows[::every]
    result = compare(run(rows), run(coarse, 1000 * every), tags="common")
    assert result.ok == (len(coarse) >= 2 or len(rows) == 1)
