"""Differential evolution on margins: bounds, ends, and fewer runs than Monte Carlo."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from search_parts import FACTORS, study

from rtsim.core.errors import ScenarioError
from rtsim.studies.designs import MonteCarlo, Search, Space
from rtsim.studies.designs.search import CONVERGED, MAXIMUM, MISS, NO_MARGIN, Candidate
from rtsim.studies.factors import Bounds, Choice, Distributed, Range
from rtsim.studies.plan import Plan
from rtsim.studies.running import start
from rtsim.studies.summary import summarise

Margin = Callable[[Candidate], float]
CUBE = {name: Range(0.0, 1.0) for name in ("a", "b", "c")}
LIMIT = 1.045


def ball(x: Any) -> Any:
    """Negative in a ball of radius 0.05: a share of 4 pi 0.05^3 / 3 = 5.2e-4 of the cube."""
    squares = (x["a"] - 0.7) ** 2 + (x["b"] - 0.2) ** 2 + (x["c"] - 0.6) ** 2
    return np.sqrt(squares) - 0.05


def searched(design: Search, space: Space, margin: Margin) -> tuple[str, list[Candidate], Any]:
    """Return why the search ended, its candidates, and the margins."""
    seen: list[Candidate] = []
    margins: list[float] = []

    def evaluate(generation: int, candidates: list[Candidate]) -> list[float]:
        assert generation >= 0
        seen.extend(candidates)
        found = [float(margin(one)) for one in candidates]
        margins.extend(found)
        return found

    design.check(space)
    return design.minimise(space, evaluate), seen, np.array(margins)


def first_miss(margins: Any) -> int:
    """Return the number of runs up to the first miss, with it."""
    return int(np.flatnonzero(margins < 0.0)[0]) + 1


def test_a_small_failing_region_is_found_with_fewer_runs_than_by_monte_carlo() -> None:
    by_search, by_chance = [], []
    for seed in range(21):
        space = Space(seed, CUBE)
        _, _, margins = searched(Search("m", runs=3000), space, ball)
        by_search.append(first_miss(margins))
        values = MonteCarlo(40_000).points(space, 0, 40_000).values
        by_chance.append(first_miss(ball(values)))
    assert 700 < statistics.median(by_chance) < 3000  # ln 2 / 5.2e-4 = 1324
    assert statistics.median(by_search) < statistics.median(by_chance) / 5
    assert max(by_search) < 400


def peaks(x: Any) -> Any:
    """Return the results ``peak`` of runs of the scenario: exact steps of 0.01 s, held forces."""
    position, speed = np.array(x["plant.x"]), np.array(x["plant.v"])
    root, gain = np.sqrt(x["plant.stiffness"]), np.array(x["controller.proportional"])
    out = np.abs(position)
    force, total = np.zeros_like(position), np.zeros_like(position)
    for step in range(30):
        if step % 10 == 0:
            force = -(gain * position + 4.0 * speed) - total
            total = total + 0.5 * position
        rest = position + force / root**2
        rise, slope = np.cosh(0.01 * root), np.sinh(0.01 * root)
        position, speed = (
            rest * rise + speed * slope / root - force / root**2,
            rest * root * slope + speed * rise,
        )
        out = np.maximum(out, np.abs(position))
    return out


@pytest.mark.long
def test_a_search_of_a_scenario_needs_fewer_runs_than_monte_carlo(tmp_path: Path) -> None:
    """About 3 of 10,000 random runs miss the requirement.

    The runs of the searches show that the formula for the random runs is right.
    """
    by_search, by_chance = [], []
    for seed in range(5):
        search = study(Search("peak", stop_at_failure=True), seed, LIMIT)
        folder = start("unstable", tmp_path / str(seed), search)
        table = {name: np.array(folder.table(name)[name]) for name in (*FACTORS, "peak")}
        assert peaks(table) == pytest.approx(table["peak"], abs=1e-7)
        by_search.append(summarise(folder)["search"]["first_miss"] + 1)
        random = Plan.of(study(MonteCarlo(20_000), seed), "unstable")
        values = random.sampled.points(random.space, 0, random.runs).values
        by_chance.append(first_miss(LIMIT - peaks(values)))
    assert statistics.median(by_chance) > 1500
    assert statistics.median(by_search) < statistics.median(by_chance) / 5
    assert max(by_search) < 400


def test_the_worst_case_is_found_whatever_is_added_to_the_margin() -> None:
    """The population converges to the centre of the ball, also if all margins are large."""
    for shift in (0.0, 1000.0):
        why, seen, margins = searched(Search("m"), Space(3, CUBE), lambda x: ball(x) + shift)  # noqa: B023
        worst = seen[int(margins.argmin())]
        assert why == CONVERGED
        assert worst == pytest.approx({"a": 0.7, "b": 0.2, "c": 0.6}, abs=0.02)
        assert 200 < len(margins) < 1000


def test_a_search_ends_at_its_largest_number_of_runs() -> None:
    for runs in (7, 20, 33):
        why, seen, _ = searched(Search("m", runs=runs), Space(0, CUBE), ball)
        assert (why, len(seen)) == (MAXIMUM, runs)


def test_equal_margins_are_no_convergence() -> None:
    why, seen, _ = searched(Search("m", runs=200), Space(0, CUBE), lambda _: 1.0)
    assert (why, len(seen)) == (MAXIMUM, 200)


@pytest.mark.parametrize("bad", [-0.001, math.nan, -math.inf])
def test_a_search_can_stop_after_the_generation_with_a_failure(bad: float) -> None:
    design = Search("m", population=10, stop_at_failure=True)
    seen: list[Candidate] = []

    def margin(x: Candidate) -> float:
        seen.append(x)
        return bad if len(seen) == 13 else 1.0

    why, candidates, _ = searched(design, Space(0, CUBE), margin)
    assert why == (NO_MARGIN if math.isnan(bad) else MISS)
    assert len(candidates) in (19, 20)  # two candidates may be equal


def test_runs_without_a_margin_are_worse_than_each_run_with_one() -> None:
    """The search moves to the region where the model breaks, away from the smallest margin."""

    def margin(x: Candidate) -> float:
        return math.nan if float(x["a"]) > 0.9 else float(x["a"])

    why, _, margins = searched(Search("m", runs=400), Space(0, CUBE), margin)
    assert np.isnan(margins[:20]).mean() <= 0.1
    assert np.isnan(margins[-60:]).mean() > 0.35
    assert why == CONVERGED  # the whole population has no margin


def test_infinite_margins_are_ordered() -> None:
    def margin(x: Candidate) -> float:
        return math.inf if float(x["a"]) > 0.5 else float(x["a"]) if float(x["a"]) > 0.1 else -9.0

    why, _, margins = searched(Search("m"), Space(0, CUBE), margin)
    assert margins.min() == -9.0
    assert why == CONVERGED


def test_each_kind_of_factor_is_searched_between_its_bounds() -> None:
    space = Space(
        2,
        {
            "choice": Choice((3, 5, 8)),
            "label": Choice(("x", "y")),
            "normal": Distributed("norm", (2.0, 0.1)),
            "on": Choice((True, False)),
            "poisson": Distributed("poisson", (4.0,)),
            "range": Range(-1.0, 2.0),
        },
    )
    _, seen, _ = searched(Search("m", runs=600, within=0.9), space, lambda x: float(x["range"]))
    columns: dict[str, Any] = {name: [one[name] for one in seen] for name in space.names}
    assert {type(v) for v in columns["choice"]} == {int}
    assert set(columns["choice"]) == {3, 5, 8}
    assert set(columns["label"]) == {"x", "y"}
    assert set(columns["on"]) == {True, False}
    assert set(columns["poisson"]) == {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0}  # 5 % and 95 %
    low, high = 2.0 - 0.1 * 1.6448536, 2.0 + 0.1 * 1.6448536
    assert low - 1e-6 <= min(columns["normal"]) < low + 0.02
    assert high - 0.02 < max(columns["normal"]) <= high + 1e-6
    assert -1.0 <= min(columns["range"]) < -0.99


def test_equal_candidates_are_run_once() -> None:
    space = Space(0, {"a": Choice((1, 2, 3)), "b": Choice(("x", "y"))})
    why, seen, _ = searched(Search("m", runs=300), space, lambda x: float(x["a"]) % 2)
    assert sorted((one["a"], one["b"]) for one in seen) == [
        (a, b) for a in (1, 2, 3) for b in ("x", "y")
    ]
    assert why in (CONVERGED, MAXIMUM)


@pytest.mark.parametrize(
    ("design", "more", "says"),
    [
        (Search("peak"), {"correlation": {("plant.x", "plant.v"): 0.5}}, "cannot be correlated"),
        (Search("peak"), {"stop": "peak:0.1,looks=10"}, "cannot stop early"),
    ],
)
def test_a_mistake_is_explained(design: Search, more: dict[str, Any], says: str) -> None:
    with pytest.raises(ScenarioError, match=says):
        study(design, **more)


@pytest.mark.parametrize(
    "values",
    [
        {"population": 3},
        {"population": 4},
        {"within": 0.0},
        {"within": 1.0},
        {"runs": 0},
        {"tolerance": -1.0},
        {"tolerance": math.nan},
        {"seconds": 0.0},
    ],
)
def test_impossible_values_of_a_search_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ScenarioError, match=next(iter(values))):
        Search("m", **values)


def test_a_search_needs_factors_with_finite_bounds() -> None:
    with pytest.raises(ScenarioError, match="so a search has nothing to vary"):
        Search("m").check(Space(0, {}))
    endless = Space(0, {"a": Distributed("cauchy")})
    Search("m").check(endless)
    with pytest.raises(ScenarioError, match="the search range of factor a is"):
        Search("m", within=math.nextafter(1.0, 0.0)).check(endless)


@pytest.mark.parametrize(
    ("low", "high"), [(-math.inf, 1.0), (0.0, math.inf), (math.nan, 1.0), (1.0, 0.0)]
)
def test_a_search_range_without_two_finite_bounds_is_refused(
    low: float, high: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Range, "bounds", lambda *_: Bounds(low, high, False))
    with pytest.raises(ScenarioError, match="give the factor a range, or give within="):
        Search("m").check(Space(0, {"a": Range(0.0, 1.0)}))
