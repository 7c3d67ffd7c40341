"""Input signals: control points, samples, rates and times, and runs that they drive."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from falsified_parts import CART

import rtsim as rt
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.record.recorders import PooledRecorder
from rtsim.runs.prepared import prepare
from rtsim.runs.simulation import simulate
from rtsim.scenario.loading import load_scenario
from rtsim.scenario.scenario import Scenario
from rtsim.studies.input_signals import InputSignal, input_signals, whole_name

S = 1_000_000_000


def points(*values: float, target: str = "push.force") -> dict[str, Any]:
    return {f"{target}[{k}]": value for k, value in enumerate(values)}


def changes(text: str, *values: float, **more: float) -> list[tuple[int, float]]:
    given = {**points(*values), **{f"push.force.{k}": v for k, v in more.items()}}
    return InputSignal.of_text("push.force", text).changes(given, 9 * S)


def test_pieces_are_equally_long_and_equal_neighbours_are_one() -> None:
    assert changes("pieces:3,-1,1", 0.5, -0.5, 1.0) == [(0, 0.5), (3 * S, -0.5), (6 * S, 1.0)]
    assert changes("pieces:3,-1,1", 0.5, 0.5, 1.0) == [(0, 0.5), (6 * S, 1.0)]


def test_a_line_has_samples_at_its_period_and_reaches_its_last_point_at_the_end() -> None:
    found = changes("linear:2,0,9,period=1", 0.0, 9.0)
    assert found == [(k * S, float(k)) for k in range(9)]
    assert len(changes("linear:3,0,9", 0.0, 9.0, 0.0)) == 32


def test_a_spline_meets_its_points_and_stays_between_them() -> None:
    found = dict(changes("spline:4,0,1,period=0.5", 0.0, 1.0, 1.0, 0.0))
    assert found[3 * S] == 1.0
    assert min(found.values()) >= 0.0
    assert max(found.values()) <= 1.0
    assert found[S] != pytest.approx(1 / 3, abs=0.01)  # a straight line


def test_a_rate_limits_each_change() -> None:
    found = changes("pieces:3,-9,9,rate=1", 0.0, 9.0, -9.0)
    assert found == [(0, 0.0), (3 * S, 3.0), (6 * S, 0.0)]


def test_times_are_given_or_free() -> None:
    assert changes("pieces:2,0,1,times=0 2.5", 0.0, 1.0) == [(0, 0.0), (2_500_000_000, 1.0)]
    signal = InputSignal.of_text("push.force", "pieces:3,0,1,times=free")
    assert list(signal.factors)[3:] == ["push.force.time[1]", "push.force.time[2]"]
    values = {**points(0.1, 0.2, 0.3), "push.force.time[1]": 2 / 3, "push.force.time[2]": 1 / 3}
    assert signal.changes(values, 9 * S) == [(0, 0.1), (3 * S, 0.2), (6 * S, 0.3)]
    values["push.force.time[1]"] = 1 / 3  # two points at one time: the later one counts
    assert signal.changes(values, 9 * S) == [(0, 0.1), (3 * S, 0.3)]


@pytest.mark.parametrize("more", ["", ",rate=2", ",times=free", ",times=0 1 2"])
def test_a_signal_is_json(more: str) -> None:
    signal = InputSignal.of_text("push.force", f"pieces:3,-1,1{more}")
    assert InputSignal.of(json.loads(json.dumps(signal.to_plain()))) == signal


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("steps:3,0,1", "unknown kind of input signal 'steps' in input push.force; known: pieces"),
        ("pieces:0,0,1", "0 points are too few; give 1 or more"),
        ("linear:1,0,1", "1 point is too few; give 2 or more"),
        ("pieces:2.5,0,1", "points is 2.5; give a whole number"),
        ("pieces:2,1,1", "input push.force: the range from 1 to 1 is empty"),
        ("pieces:2,0,1,rate=0", "rate is 0; give a number > 0"),
        ("linear:2,0,1,period=-1", "period is -1; give a number > 0"),
        ("pieces:2,0,1,times=some", "times is 'some'; give times in s or 'free'"),
        ("pieces:2,0,1,times=5", "times is 5; give times in s or 'free'"),
        ("pieces:2,0,1,times=0 b", "times is (0, 'b'); give times in s or 'free'"),
        ("pieces:2,0,1,rate=fast", "rate is 'fast'; give a number > 0"),
        ("pieces:2,0,1,times=1 2", "give 2 times, of which the first is 0"),
        ("pieces:3,0,1,times=0 2 2", "not in ascending order"),
        ("pieces:2,0", "missing a required argument: 'high'"),
    ],
)
def test_a_wrong_signal_is_refused(text: str, says: str) -> None:
    with pytest.raises(ScenarioError) as error:
        InputSignal.of_text("push.force", text)
    assert says in str(error.value)


def test_one_time_is_singular() -> None:
    with pytest.raises(ScenarioError, match="give 1 time, of which the first is 0"):
        InputSignal("push.force", "pieces", 1, 0.0, 1.0, times=(1.0,))


def test_a_run_has_a_limited_number_of_samples() -> None:
    with pytest.raises(ScenarioError, match="more than 100000 samples; give a longer period"):
        changes("linear:2,0,1,period=1e-6", 0.0, 1.0)


def test_a_search_has_a_limited_number_of_points() -> None:
    with pytest.raises(ScenarioError, match="1001 points are too many; give at most 1000"):
        input_signals({"push.force": "pieces:1001,0,1"})


def test_two_signals_do_not_drive_one_target() -> None:
    one = InputSignal("push.force", "pieces", 2, 0.0, 1.0)
    with pytest.raises(ScenarioError, match=r"two input signals drive push\.force"):
        input_signals([one, one])


@pytest.fixture
def cart(tmp_path: Path) -> Scenario:
    (tmp_path / "cart.py").write_text(CART)
    return load_scenario(str(tmp_path / "cart.py"))


def test_driven_values_replace_the_declared_changes(cart: Scenario) -> None:
    cart.drive("push.force", [(0, 2.0), (S // 2, -1.0)])
    run = simulate(cart)
    assert run["push.force"].tolist()[0] == 2.0
    # 2 m/s^2 for 0.5 s, then -1 m/s^2 for 1.5 s
    assert run["cart.v"][-1] == pytest.approx(2 * 0.5 - 1.5)


def test_prepared_runs_with_changes_equal_simulated_runs(cart: Scenario) -> None:
    prepared = prepare(cart)
    for given in ([(0, 1.0), (S // 3, -2.0)], None, [(0, 3.0)], [(S, 1.0)], None):
        other = cart.copy()
        if given is not None:
            other.drive("push.force", given)
        found = prepared.run_into(
            lambda pool: PooledRecorder(pool, None),
            changes={} if given is None else {"push.force": given},
        )
        tracks, wanted = found.recorder.recording(), simulate(other)._read  # type: ignore[attr-defined]
        assert tracks.header == wanted.header
        assert list(tracks.tracks) == list(wanted.tracks)
        for name, track in wanted.tracks.items():
            assert np.array_equal(tracks.tracks[name].words, track.words)


def test_wrong_changes_are_refused(cart: Scenario) -> None:
    for target in ("cart.x", "cart.force"):
        with pytest.raises(ScenarioError, match="not a number that can change during a run"):
            cart.drive(target, [])
    with pytest.raises(UnknownName, match="unknown value 'z' in push"):
        cart.drive("push.z", [])
    with pytest.raises(ScenarioError, match="not in ascending order"):
        cart.drive("push.force", [(S, 1.0), (S, 2.0)])


class Stick:
    def poll(self) -> None:
        return None


def test_an_external_input_becomes_a_source(cart: Scenario) -> None:
    cart.external_input("stick", rt.Signals(rt.Signal("x", "")), Stick())
    cart.drive("stick.x", [(S, 0.5)])
    assert simulate(cart)["stick.x"][-1] == 0.5


def test_a_component_with_one_signal_needs_no_second_name(cart: Scenario) -> None:
    cart.external_input("stick", rt.Signals("roll", "pitch"), Stick())
    assert whole_name(cart, "push") == "push.force"
    assert whole_name(cart, "cart") == "cart.mass"
    with pytest.raises(ScenarioError, match=r"stick has 2 signals .*\(roll, pitch\)"):
        whole_name(cart, "stick")
