"""A study that stops early: looks that are declared, a corrected level, the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.estimates import interval
from rtsim.studies.designs import Antithetic, LatinHypercube, MonteCarlo, Replications
from rtsim.studies.folder import Folder
from rtsim.studies.interim_analysis import Stop, needed
from rtsim.studies.running import resume, start
from rtsim.studies.study import Study
from rtsim.studies.summary import summarise


def study(stop: Stop | str | None, **more: Any) -> Study:
    given: dict[str, Any] = {
        "factors": {"plant.x": (0.5, 0.9)},
        "design": MonteCarlo(80),
        "results": {"last": "last:plant.x"},
        "requirements": ["last<2"],
        "until": 0.05,
        **more,
    }
    return Study(stop=stop, **given)


def values(folder: Folder) -> list[float]:
    return folder.table("run", "last")["last"].to_pylist()  # type: ignore[no-any-return]


def test_a_study_stops_at_the_first_look_with_a_narrow_interval(tmp_path: Path) -> None:
    whole = start("unstable", tmp_path / "whole", study(None))
    level = 1.0 - 0.05 / 3
    ten, forty = (interval(values(whole)[:n], level).half_width for n in (10, 40))
    assert forty < ten
    stop = Stop("last", half_width=0.5 * (ten + forty), looks=(10, 40))
    folder = start("unstable", tmp_path / "stopped", study(stop))
    assert values(folder) == values(whole)[:40]
    found = summarise(folder)
    assert (found["runs"], found["planned"], found["rows"]) == (40, 80, 40)
    assert found["results"]["last"]["level"] == pytest.approx(level)
    assert values(resume(tmp_path / "stopped")) == values(whole)[:40]
    narrow = start("unstable", tmp_path / "all", study(Stop("last", 1e-9, (10, 40))))
    assert values(narrow) == values(whole)
    wide = start("unstable", tmp_path / "first", study("last:9,looks=10 40"))
    assert len(values(wide)) == 10


def test_equal_values_do_not_stop_a_study(tmp_path: Path) -> None:
    same = Study(
        design=Replications(24),
        results={"last": "last:plant.x"},
        until=0.2,
        stop=Stop("last", 9.0, (10,)),
    )
    assert len(set(values(start("unstable", tmp_path / "same", same)))) == 1
    assert len(values(Folder.open(tmp_path / "same"))) == 24


def test_a_look_takes_the_runs_before_it_and_no_others(tmp_path: Path) -> None:
    folder = start("unstable", tmp_path / "s", study(None))
    stop = Stop("last", 9.0, (10, 40))
    assert needed(folder) == 80
    stopped = Folder.new(tmp_path / "t", folder.plan)
    assert needed(stopped) == 80
    object.__setattr__(stopped.plan, "stop", stop.to_plain())
    vars(stopped.plan).pop("stopping", None)
    assert needed(stopped) == 10
    exact = interval(values(folder)[:10], stop.corrected).half_width
    for half_width, wanted in ((exact * (1 + 1e-9), 10), (exact * (1 - 1e-9), 40)):
        rule = Stop("last", half_width, (10, 40))
        object.__setattr__(stopped.plan, "stop", rule.to_plain())
        vars(stopped.plan).pop("stopping", None)
        assert needed(Folder(folder.path, stopped.plan)) == wanted


def test_the_pass_rate_of_a_requirement_can_stop_a_study(tmp_path: Path) -> None:
    from rtsim.studies.measures import Requirement

    rule = [Requirement("last", below=2.0, name="near")]
    folder = start("unstable", tmp_path / "s", study("near:0.08,looks=20 50", requirements=rule))
    # All pass: Clopper-Pearson's upper half-width 0.5 * (1 - 0.00833^(1/n)) is 0.107 and 0.046.
    assert len(values(folder)) == 50


def test_the_level_is_corrected_for_the_number_of_looks() -> None:
    assert Stop("x", 1.0, (10,)).corrected == pytest.approx(0.975)
    assert Stop("x", 1.0, (10, 20, 30, 40), level=0.9).corrected == pytest.approx(0.98)
    assert Stop.of(Stop("x", 1.0, (10, 20)).to_plain()) == Stop("x", 1.0, (10, 20))


@pytest.mark.parametrize(
    ("stop", "more", "problem"),
    [
        ("last:0,looks=10 20", {}, "half_width is 0"),
        ("last:1,looks=20 10", {}, "rising order"),
        ("last:1", {}, "missing a required argument: 'looks'"),
        ("last:1,looks=10", {"design": LatinHypercube(50)}, "cannot stop early"),
        ("last:1,looks=11", {"design": Antithetic(50)}, "divides a pair"),
    ],
)
def test_a_rule_that_does_not_fit_is_refused(stop: str, more: dict[str, Any], problem: str) -> None:
    with pytest.raises(ScenarioError, match=problem):
        study(stop, **more)
    with pytest.raises(UnknownName, match="unknown result 'peak'"):
        study("peak:1,looks=10")
