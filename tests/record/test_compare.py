"""What passes a comparison, what fails it, and what it says.

Whatever the runs: the same passes, one planted difference is found where it was planted.

The page and the JUnit file of a comparison.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from numpy.typing import NDArray

from rtsim import Model, PythonController, Scenario, Signal, Signals, simulate
from rtsim.cli.main import main
from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Vector
from rtsim.core.tag import Tag
from rtsim.record.comparison import Comparison, SignalResult, compare, compare_exact
from rtsim.record.file import FileRecorder
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.reports.comparison_pages import MOST_PLOTS, comparison_page
from rtsim.record.reports.junit import comparison_junit
from rtsim.record.reports.view_charts import Values, _difference

STATE = Signals(
    Signal("h", "m"),
    Signal("psi", "deg", kind="angle"),
    Signal("phi", "rad", kind="angle"),
    Signal("q", shape=(4,), kind="quaternion"),
)
MS = 1_000_000


def run(
    rows: list[list[float]],
    step_ns: int = MS,
    signals: Signals = STATE,
    stamps: list[int] | None = None,
    margins: tuple[int, ...] = (1, 2),
) -> Recording:
    """Rows of h, psi, phi and q; q is (1, 0, 0, 0) where it is left out."""
    recorder = MemoryRecorder()
    plant = recorder.track("p", ("step", "side"), signals)
    message = recorder.track("messages/m", ("sequence", "arrival"), Signals("u"))
    timing = recorder.track("timing", ("margin",), Signals(), {"deterministic": "no"})
    recorder.start({})
    for i, row in enumerate(rows):
        full = row + [1.0, 0.0, 0.0, 0.0][len(row) - 3 :] if signals is STATE else row
        plant.append(i * step_ns, (i % 2, i % 2), np.array(full))
    for i, stamp in enumerate(stamps or []):
        message.append(i * step_ns, (i, stamp), np.zeros(1))
    for margin in margins:
        timing.append(0, (margin,))
    return recorder.recording()


def signal(comparison: Comparison, name: str) -> SignalResult:
    return next(r for r in comparison.results if r.name == name)


FLAT = [[0.0, 0.0, 0.0]] * 5


def with_h(*values: float) -> list[list[float]]:
    return [[v, 0.0, 0.0] for v in values]


def test_the_same_run_passes_and_wall_clock_figures_do_not_count() -> None:
    result = compare(run(FLAT, stamps=[3, 4]), run(FLAT, stamps=[3, 4], margins=(9,)))
    assert result.ok
    assert [r.name for r in result.results] == [
        *("messages/m.u", "messages/m.sequence", "messages/m.arrival"),
        *("p.h", "p.psi", "p.phi", "p.q"),
    ]


def test_figures_of_a_difference() -> None:
    result = compare(run(with_h(1, 2, 4, 8)), run(with_h(1, 2.5, 4, 9)))
    h = signal(result, "p.h")
    assert (h.max_abs, h.max_rel, h.rows) == (1.0, 0.25, 4)
    assert (h.first, h.worst, h.first_failed) == (Tag(MS, 1), Tag(3 * MS, 1), Tag(MS, 1))
    assert not result.ok
    assert "fails at 0.001 s +1, 2/4" in h.reason
    assert [r.name for r in result.failures] == ["p.h"]


@pytest.mark.parametrize(
    ("absolute", "relative", "passes"),
    [(1.0, 0, True), (0.99, 0, False), (0, 0.25, True), (0, 0.2, False), (0.5, 0.125, True)],
)
def test_the_larger_tolerance_counts(absolute: float, relative: float, passes: bool) -> None:
    a, b = run(with_h(1, 2, 4, 8)), run(with_h(1, 2.5, 4, 9))
    assert compare(a, b, {"p.h": (absolute, relative)}).ok is passes


def test_the_last_matching_pattern_counts() -> None:
    a, b = run(with_h(1, 2)), run(with_h(1, 3))
    assert compare(a, b, {"p.h": (0, 0), "p.*": (1, 0)}).ok
    assert not compare(a, b, {"p.*": (1, 0), "p.h": (0, 0)}).ok
    with pytest.raises(ScenarioError, match=r"no signal matches 'p\.g'"):
        compare(a, b, {"p.g": (1, 0)})
    for bad in ((-1.0, 0.0), (math.nan, 0.0)):
        with pytest.raises(ScenarioError, match="tolerance"):
            compare(a, b, {"p.h": bad})


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_equals_only_itself(odd: float) -> None:
    loose = {"p.h": (1e300, 1e300)}
    a = run(with_h(0, odd))
    assert compare(a, run(with_h(0, odd))).ok
    for other in (0.0, 1e308, math.nan, math.inf, -math.inf):
        if not (other == odd or (math.isnan(other) and math.isnan(odd))):
            for pair in ((a, run(with_h(0, other))), (run(with_h(0, other)), a)):
                result = compare(*pair, loose)
                assert not result.ok
                assert signal(result, "p.h").first == Tag(MS, 1)


def test_a_nan_is_named() -> None:
    a, b = run(with_h(0, math.nan)), run(with_h(0, 1))
    assert "NaN in the baseline only at" in signal(compare(a, b), "p.h").reason
    assert "NaN in the candidate only at" in signal(compare(b, a), "p.h").reason


def test_zero_tolerance_means_the_same_bits() -> None:
    a, b = run(with_h(0.0)), run(with_h(-0.0))
    assert "equal values with different bits" in signal(compare(a, b), "p.h").reason
    assert compare(a, b, {"p.h": (1e-300, 0)}).ok


def test_angles_differ_the_short_way() -> None:
    a = run([[0.0, 179.5, math.pi - 0.25]])
    b = run([[0.0, -179.5, -math.pi + 0.25]])
    result = compare(a, b)
    assert signal(result, "p.psi").max_abs == pytest.approx(1.0, abs=1e-12)
    assert signal(result, "p.phi").max_abs == pytest.approx(0.5, abs=1e-12)
    assert compare(run([[0.0, 540.0, 0.0]]), run([[0.0, -180.0, 0.0]])).ok


def test_quaternions_differ_up_to_sign() -> None:
    q = [0.5, -0.5, 0.1, 0.7]
    a = run([[0.0, 0.0, 0.0, *q]])
    assert compare(a, run([[0.0, 0.0, 0.0, *(-v for v in q)]])).ok
    moved = signal(compare(a, run([[0.0, 0.0, 0.0, -0.5, 0.5, -0.1, -0.9]])), "p.q")
    assert moved.max_abs == pytest.approx(0.2)
    assert moved.column == "q_3"


def test_missing_signals_and_tracks_fail_and_extra_ones_do_not() -> None:
    small, large = Signals("a"), Signals("a", "b")
    one, two = run([[1.0]], signals=small), run([[1.0, 2.0]], signals=large)
    assert compare(one, two).ok
    assert compare(one, two).extra == ["p.b"]
    assert signal(compare(two, one), "p.b").reason == "the candidate has no such signal"
    recorder = MemoryRecorder()
    recorder.track("p", ("step", "side"), small).append(0, (0, 0), np.ones(1))
    assert "has no such track" in signal(compare(one, recorder.recording()), "messages/m.u").reason
    assert not compare(MemoryRecorder().recording(), one).ok, "nothing compared is no success"


def test_another_meaning_fails() -> None:
    metres, feet = run([[1.0]], signals=Signals("a [m]")), run([[1.0]], signals=Signals("a [ft]"))
    assert signal(compare(metres, feet), "p.a").reason == (
        "its unit is m in the baseline, ft in the candidate"
    )


def test_a_short_overlap_fails_and_a_longer_candidate_does_not() -> None:
    short, long = run(with_h(1, 2)), run(with_h(1, 2, 3))
    assert compare(short, long).ok
    assert signal(compare(long, short), "overlap").reason == (
        "the candidate ends at 0.001000000 s, but it must reach 0.002000000 s"
    )
    assert not compare(long, short, tags="common").ok


def test_other_tags_fail_unless_common_ones_are_asked_for() -> None:
    fine, coarse = run(with_h(0, 1, 2, 3, 4)), run(with_h(0, 2, 4), step_ns=2 * MS)
    reason = signal(compare(fine, coarse), "p.h").reason
    assert reason == (
        "other tags: row 1 is 0.001000000 s +1 (x+) in the baseline, "
        "0.002000000 s +1 (x+) in the candidate"
    )
    common = compare(fine, coarse, tags="common")
    assert common.ok
    assert signal(common, "p.h").rows == 3
    shifted = run(with_h(0, 2, 4, 6), step_ns=3 * MS)
    assert "times in common" in signal(compare(fine, shifted, tags="common"), "p.h").reason


def test_a_message_too_many_fails() -> None:
    a, b = run(FLAT, stamps=[1]), run(FLAT, stamps=[1, 2])
    assert "row 1 is missing in the baseline" in signal(compare(a, b), "messages/m.u").reason


def test_stamps_are_compared_exactly() -> None:
    a, b = run(FLAT, stamps=[2**62 + 1, 0]), run(FLAT, stamps=[2**62, 0])
    result = signal(compare(a, b), "messages/m.arrival")
    assert (result.ok, result.max_abs) == (False, 1.0)
    assert (result.first, result.first_failed, result.rows) == (Tag(0), Tag(0), 2)
    extremes = run(FLAT, stamps=[2**63 - 1]), run(FLAT, stamps=[-(2**63)])
    assert signal(compare(*extremes), "messages/m.arrival").max_abs == 2.0**64
    same = signal(compare(a, run(FLAT, stamps=[2**62 + 1, 0])), "messages/m.arrival")
    assert (same.ok, same.max_abs, same.first) == (True, 0.0, None)


def test_a_tolerance_for_all_signals_excuses_no_stamp() -> None:
    """``"*"`` is every signal; a message that arrives at another time is another message."""
    a, b = run(FLAT, stamps=[3, 4]), run(FLAT, stamps=[3, 5])
    everything = {"*": (10.0, 0.0)}
    result = compare(a, b, everything)
    assert not result.ok
    assert [r.name for r in result.failures] == ["messages/m.arrival"]
    assert signal(result, "messages/m.arrival").tolerance == (0.0, 0.0)
    assert signal(result, "p.h").tolerance == (10.0, 0.0)
    assert not compare(a, b, {"messages/m.arrival": (0.0, 0.0), **everything}).ok
    for meant in ("messages/m.arrival", "messages/*", "*.arrival"):
        assert compare(a, b, {meant: (1.0, 0.0)}).ok
        assert compare(a, b, {meant: (1.0, 0.0), **everything}).ok
        assert not compare(a, b, {meant: (0.5, 0.0)}).ok


def test_machines_and_tables_can_read_it() -> None:
    result = compare(run(with_h(0, math.nan)), run(with_h(0, 1)))
    data = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert data["ok"] is False
    h = next(s for s in data["signals"] if s["signal"] == "p.h")
    assert (h["max_abs"], h["first_difference"]) == (None, [MS, 1])
    assert all(len(r.cells()) == 7 for r in result.worst_first())


def test_exact_comparison_names_the_first_tag_track_and_column() -> None:
    a = run(with_h(0, 1, 2), stamps=[5, 6, 7])
    assert compare_exact(a, run(with_h(0, 1, 2), stamps=[5, 6, 7], margins=(8,))) is None
    b = run(with_h(0, 1, 2.5), stamps=[5, 9, 7])
    found = compare_exact(a, b)
    assert found is not None
    assert (found.tag.ns, found.track, found.column) == (MS, "messages/m", "arrival")
    found = compare_exact(a, run([[0, 0, 0], [1, 0, -0.0], [2, 1, 0]], stamps=[5, 6, 7]))
    assert str(found) == "p.phi at 0.001000000 s +1: 0.0 in the baseline, -0.0 in the candidate"


def test_exact_comparison_of_runs_of_other_length_or_layout() -> None:
    short, long = run(with_h(0, 1)), run(with_h(0, 1, 2))
    for pair in ((short, long), (long, short)):
        found = compare_exact(*pair)
        assert found is not None
        assert found.tag == Tag(2 * MS, 0)
    assert compare_exact(short, long, prefix=True) is None
    assert compare_exact(long, short, prefix=True) is not None
    other = compare_exact(short, run([[0.0], [1.0]], signals=Signals("a")))
    assert other is not None
    assert "psi" in str(other)
    assert compare_exact(short, MemoryRecorder().recording()) is not None


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


def made(rows: Rows, step_ns: int = 1000) -> Recording:
    recorder = MemoryRecorder()
    track = recorder.track("p", ("step",), LAYOUT)
    recorder.start({})
    for i, row in enumerate(rows):
        track.append(i * step_ns, (i % 3,), row)
    return recorder.recording()


@given(rows_of(ANY))
def test_the_same_run_passes_at_zero_tolerance(rows: Rows) -> None:
    assert compare(made(rows), made(rows.copy())).ok
    assert compare_exact(made(rows), made(rows.copy())) is None
    assert made(rows).digest() == made(rows.copy()).digest()


@given(rows_of(ANY), st.data())
def test_a_planted_difference_is_found(rows: Rows, data: st.DataObject) -> None:
    row = data.draw(st.integers(0, len(rows) - 1))
    column = data.draw(st.integers(0, 8))
    planted = rows.copy()
    planted[row, column] = data.draw(ANY)
    before, after = rows[row, column : column + 1], planted[row, column : column + 1]
    assume(before.tobytes() != after.tobytes())
    exact = compare_exact(made(rows), made(planted))
    assert exact is not None
    assert exact.tag == made(rows).tracks["p"].tag(row)
    assert exact.column == LAYOUT.columns[column]
    assert made(rows).digest() != made(planted).digest()
    result = compare(made(rows), made(planted))
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
    there, back = (
        compare(made(rows), made(other)),
        compare(made(other), made(rows)),
    )
    for a, b in zip(there.results, back.results, strict=True):
        assert (a.name, a.max_abs, a.first, a.ok) == (b.name, b.max_abs, b.first, b.ok)
    absolute = {"p.*": (data.draw(st.floats(0, 1e300)), 0.0)}
    assert (
        compare(made(rows), made(other), absolute).ok
        == compare(made(other), made(rows), absolute).ok
    )


@given(rows_of(FINITE), st.data())
def test_its_own_figures_are_the_tolerance_that_passes(rows: Rows, data: st.DataObject) -> None:
    other = rows + data.draw(npst.arrays(np.float64, rows.shape, elements=st.floats(-5, 5)))
    result = compare(made(rows), made(other))
    widest = {r.name: (max(r.max_abs, 1e-300), 0.0) for r in result.results}
    assert compare(made(rows), made(other), widest).ok
    for r in result.results:
        if r.max_abs > 1e-9:
            tight = widest | {r.name: (r.max_abs * 0.999, 0.0)}
            assert [f.name for f in compare(made(rows), made(other), tight).failures] == [r.name]


@given(st.floats(-720, 720), st.floats(-180, 180), st.integers(-3, 3))
def test_angles_wrap(angle: float, apart: float, turns: int) -> None:
    row = np.zeros((1, 9))
    row[0, 1] = angle
    moved = row.copy()
    moved[0, 1] = angle + apart + 360.0 * turns
    result = next(r for r in compare(made(row), made(moved)).results if r.name == "p.angle")
    assert abs(result.max_abs - abs(apart)) < 1e-9


@given(rows_of(FINITE), st.lists(st.booleans(), min_size=12, max_size=12))
def test_the_sign_of_a_quaternion_does_not_count(rows: Rows, flips: list[bool]) -> None:
    turned = rows.copy()
    for i, flip in enumerate(flips[: len(rows)]):
        if flip:
            turned[i, 5:9] *= -1
    assert compare(made(rows), made(turned)).ok


@given(rows_of(FINITE), st.integers(1, 4))
def test_common_times_of_a_coarser_run_pass(rows: Rows, every: int) -> None:
    assume((len(rows) - 1) % every == 0)
    coarse = rows[::every]
    result = compare(made(rows), made(coarse, 1000 * every), tags="common")
    assert result.ok == (len(coarse) >= 2 or len(rows) == 1)


def turn(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[:] = p[0]


def law(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    y[0] = u[0]


def scenario(rate: float, many: int = 3) -> Scenario:
    out = Scenario("<turning>", until=1)
    states = Signals(*(Signal(f"x{i}", "m") for i in range(many)), Signal("a", "deg", kind="angle"))
    model = Model("cart", states, turn, parameters=Signals(Signal("rate", initial=rate)))
    out.plant("cart", model, step=0.1)
    law_ = PythonController(law, Signals("x [m]"), Signals("y [m]"))
    out.controller("echo", law_, period=0.5, inputs={"x": "cart.x0"})
    return out


def recorded(path: Path, rate: float, many: int = 3, until: float = 1) -> Path:
    simulate(scenario(rate, many), until=until, recorder=FileRecorder(path))
    return path


def killed() -> Recording:
    """Return what a run leaves that is killed after 0.5 s."""
    half = simulate(scenario(1.0), stop_ns=500_000_000).recording()
    return replace(half, footer=None, truncated="the run was cut off")


@pytest.fixture
def both(tmp_path: Path) -> tuple[Recording, Recording]:
    a, b = recorded(tmp_path / "a.mcap", 1.0), recorded(tmp_path / "b.mcap", 1.5)
    return Recording.open(a), Recording.open(b)


def cases(text: str) -> dict[tuple[str, str], list[str]]:
    """Return what each test case says: the names of its elements."""
    root = ET.fromstring(text.partition("\n")[2])
    return {
        (case.get("classname", ""), case.get("name", "")): [part.tag for part in case]
        for case in root.iter("testcase")
    }


def test_junit_has_a_case_for_each_signal_and_one_for_the_stamps_of_a_track(
    both: tuple[Recording, Recording],
) -> None:
    found = cases(comparison_junit(compare(*both), "a and b"))
    assert found == {
        ("compare.cart", "x0"): ["failure"], ("compare.cart", "x1"): ["failure"],
        ("compare.cart", "x2"): ["failure"], ("compare.cart", "a"): ["failure"],
        ("compare.messages/echo", "y"): ["failure"],
        ("compare.messages/echo.inputs", "x"): ["failure"],
        ("compare.messages/echo", "(times and stamps)"): [],
        ("compare.messages/echo.inputs", "(times and stamps)"): [],
        ("compare", "(the outcome is decided)"): [],
    }  # fmt: skip
    same = cases(comparison_junit(compare(both[0], both[0]), "a and a"))
    assert same.keys() == found.keys()
    assert not any(same.values())


def test_junit_of_an_undecided_comparison_is_an_error(tmp_path: Path) -> None:
    whole = Recording.open(recorded(tmp_path / "a.mcap", 1.0))
    cut = killed()
    result = compare(cut, whole)
    assert result.why
    found = cases(comparison_junit(result, "x"))
    assert found["compare", "(the outcome is decided)"] == ["error"]
    assert [what for what in found.values() if what] == [["error"]]


def test_a_difference_of_stamps_fails_their_case(tmp_path: Path) -> None:
    a = recorded(tmp_path / "a.mcap", 1.0)
    later = scenario(1.0)
    later.replace_controller("echo", PythonController(law, Signals("x [m]"), Signals("y [m]")),
                             latency="0.01")  # fmt: skip
    b = simulate(later).recording()
    found = cases(comparison_junit(compare(Recording.open(a), b), "x"))
    assert found["compare.messages/echo", "(times and stamps)"] == ["failure"]


def test_the_page_leads_with_the_verdict(both: tuple[Recording, Recording]) -> None:
    said: list[str] = []
    text = comparison_page(compare(*both), *both, said.append)
    head, _, rest = text.partition("</header>")
    assert "The recordings differ" in head
    assert "6 of " in head
    assert said[-1] == "plot 6 of 6"
    assert rest.count("<figure class=chart>") == 2 * 6, "values and differences"
    assert "src=" not in rest.replace("Plotly", ""), "the page needs no network"
    same = comparison_page(compare(both[0], both[0]), both[0], both[0])
    assert "The recordings agree" in same
    assert "differ from" not in same


def test_the_page_of_an_undecided_comparison_does_not_say_that_they_agree(
    both: tuple[Recording, Recording],
) -> None:
    cut = killed()
    text = comparison_page(compare(cut, both[0]), cut, both[0])
    assert "The comparison is undecided" in text
    assert "The recordings agree" not in text


def test_many_signals_are_not_all_drawn(tmp_path: Path) -> None:
    a = Recording.open(recorded(tmp_path / "a.mcap", 1.0, many=30))
    b = Recording.open(recorded(tmp_path / "b.mcap", 2.0, many=30))
    text = comparison_page(compare(a, b), a, b)
    assert text.count("<figure class=chart>") == 2 * MOST_PLOTS
    assert f"The other {33 - MOST_PLOTS} signals" in text


def test_angles_differ_by_the_shorter_way() -> None:
    ns = np.array([1, 2, 5])
    first = Values("a", ns, np.array([179.0, -170.0, 0.0]))
    other = Values("b", np.array([1, 2, 4]), np.array([-179.0, 170.0, 0.0]))
    at, gap = _difference(first, other, Signal("a", "deg", kind="angle"))
    assert at.tolist() == [1e-9, 2e-9]
    assert gap.tolist() == [2.0, -20.0]
    assert _difference(first, other, Signal("a", "deg"))[1].tolist() == [-358.0, 340.0]


def test_the_command_writes_both_files_and_keeps_its_exit_status(tmp_path: Path) -> None:
    a, b = recorded(tmp_path / "a.mcap", 1.0), recorded(tmp_path / "b.mcap", 1.5)
    page, xml = tmp_path / "x.html", tmp_path / "x.xml"
    options = ["--html", str(page), "--junit", str(xml)]
    done = CliRunner().invoke(main, ["compare", str(a), str(b), *options])
    assert done.exit_code == 1, done.output
    assert "The recordings differ" in page.read_text()
    assert "failure" in xml.read_text()
    done = CliRunner().invoke(main, ["compare", str(a), str(a), *options])
    assert done.exit_code == 0, done.output
    assert "The recordings agree" in page.read_text()


@pytest.mark.parametrize("option", ["--html", "--junit"])
def test_a_file_that_cannot_be_written_is_named(option: str, tmp_path: Path) -> None:
    a = recorded(tmp_path / "a.mcap", 1.0)
    wrong = str(tmp_path / "missing" / "x")
    done = CliRunner().invoke(main, ["compare", str(a), str(a), option, wrong])
    assert done.exit_code == 2
    assert option in done.output
    kept = tmp_path / "notes.txt"
    kept.write_text("mine")
    if option == "--html":
        done = CliRunner().invoke(main, ["compare", str(a), str(a), option, str(kept)])
        assert done.exit_code == 2
        assert kept.read_text() == "mine"
