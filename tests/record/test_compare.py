"""What passes a comparison, what fails it, and what it says."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Signal, Signals
from rtsim.core.tag import Tag
from rtsim.record.comparison import Comparison, SignalResult, compare, compare_exact
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder

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
