"""Fox and rabbit, Game of Life, furnaces: against what is known of them."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.signals import Signal, Signals
from rtsim.discrete import population
from rtsim.models.chase import GAP
from rtsim.models.chase import scenario as chase
from rtsim.models.job_shop import heating
from rtsim.models.job_shop import scenario as job_shop
from rtsim.models.life import life, placed
from rtsim.models.life import scenario as life_scenario
from rtsim.scenario.scenario import Scenario
from rtsim.testing.determinism import trace_of

Cells = NDArray[np.float64]


# -- fox and rabbit ----------------------------------------------------------------------------


def test_a_fox_that_sees_the_rabbit_as_it_was_bites_when_it_has_to() -> None:
    recording = trace_of(chase())
    gap, bitten = recording["messages/judge.gap"], recording["messages/judge.bitten"]
    closing = (6.0 - 5.0) * 0.1
    caught = math.ceil((GAP - 0.3) / closing)
    assert gap[:caught] == pytest.approx(GAP - closing * np.arange(1, caught + 1))
    assert int(np.argmax(bitten)) == caught - 1, "the first tick, at 0 s, is the first move"
    assert bitten[-1] == 1.0


@pytest.mark.parametrize("fox", [6.0, 9.0, 14.0])
def test_a_rabbit_that_sees_the_fox_of_the_same_tick_is_never_bitten(fox: float) -> None:
    recording = trace_of(chase(acausal=True, fox=fox, until=60))
    assert recording["messages/judge.gap"].min() >= 5.0 * 0.1 - 1e-9
    assert recording["messages/judge.bitten"].max() == 0.0
    assert "acausal" in recording.header["scenario"]["limits"][0]


# -- life --------------------------------------------------------------------------------------


def generations(
    pattern: str, side: int, count: int, in_turn: bool = False, at: int = 1
) -> list[Cells]:
    """(side, side) each: the start, and after each of ``count`` updates."""
    out = Scenario("life", until=count)
    start = placed(pattern, side, at, at).ravel()
    out.plant(
        "life", life(side, in_turn), step=1, update_period=1, update_offset=1,
        discrete={"alive": start},
    )  # fmt: skip
    rows = trace_of(out).track("life")
    last = {int(ns): k for k, ns in enumerate(rows.rows.ns)}  # x+ where there is one
    assert list(last) == [k * 10**9 for k in range(count + 1)]
    return [rows.column("alive")[k].reshape(side, side) for k in last.values()]


def test_a_blinker_has_period_two() -> None:
    states = generations("blinker", 6, 4)
    upright = np.zeros((6, 6))
    upright[0:3, 2] = 1.0
    assert np.array_equal(states[1], upright)
    assert all(np.array_equal(a, b) for a, b in zip(states, states[2:], strict=False))
    assert not np.array_equal(states[0], states[1])


def test_a_block_stays_and_a_toad_has_period_two() -> None:
    assert all(np.array_equal(s, placed("block", 6)) for s in generations("block", 6, 3))
    toad = generations("toad", 6, 2)
    assert np.array_equal(toad[0], toad[2])
    assert not np.array_equal(toad[0], toad[1])


def test_a_glider_goes_one_cell_down_and_right_in_four_generations() -> None:
    states = generations("glider", 9, 36)
    for k in range(33):
        assert np.array_equal(np.roll(states[k], (1, 1), (0, 1)), states[k + 4])
    assert np.array_equal(states[0], states[36]), "once around the torus"
    assert all(state.sum() == 5 for state in states)


def test_the_r_pentomino_is_that_of_a_whole_array_at_once() -> None:
    """The same rule on shifted arrays, which cannot see a cell of the next generation."""
    states = generations("r-pentomino", 16, 60, at=6)
    for before, after in pairwise(states):
        shifts = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)]
        near = sum(np.roll(before, shift, (0, 1)) for shift in shifts)
        assert np.array_equal(after, (near == 3) | ((before == 1) & (near == 2)))
    assert states[-1].sum() > 5


def test_cells_that_are_updated_in_turn_are_another_game() -> None:
    assert not np.array_equal(
        generations("blinker", 6, 2, in_turn=True)[2], generations("blinker", 6, 2)[2]
    )


def test_patterns_and_populations_that_are_none_are_refused() -> None:
    with pytest.raises(UnknownName, match="did you mean glider"):
        life_scenario("gliders")
    with pytest.raises(ScenarioError, match="at least 1"):
        population("none", 0, Signals("x"), life_rule)
    with pytest.raises(ScenarioError, match="one or more scalar signals"):
        population("none", 3, Signals(Signal("x", shape=(2,))), life_rule)


def life_rule(i: int, t: float, before: object, u: object, p: object, after: object) -> None:
    pass


# -- job shop ----------------------------------------------------------------------------------


def test_each_piece_takes_what_the_equation_says() -> None:
    """Tags are whole ns: loading and leaving are each within 1 ns of the exact instant."""
    recording = trace_of(job_shop(hours=24), seed=1)
    mass, heated = (recording[f"messages/finished.{k}"] for k in ("mass", "heating"))
    assert len(mass) > 50
    exact = np.array([heating(m) for m in mass])
    assert np.abs(heated - exact).max() < 50e-9
    assert {e.kind for e in recording.events} == {"Crossed"}
    done = [e for e in recording.events if e.source.endswith(".done")]
    assert len(done) == len(mass)


def test_furnaces_hold_one_piece_each_and_none_is_idle_while_one_waits() -> None:
    recording = trace_of(job_shop(furnaces=2, hours=24), seed=1)
    present, waiting = (recording[f"messages/shop.{k}"] for k in ("present", "waiting"))
    settled = waiting[present >= 0]
    assert settled.max() > 0, "there was a line"
    assert np.all((present - waiting <= 2) & (present - waiting >= 0))
