"""The requirement files of the F-16: their names, the signals that they read, and their limits.

docs/f16-requirements.md checks them on flights; here are the edges that no flight of the page has.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from pilot_parts import flight

from rtsim.models.f16 import REQUIREMENTS
from rtsim.record.recorders import MemoryRecorder
from rtsim.requirements import RequirementResult, check, read_requirements
from rtsim.runs.simulation import simulate
from rtsim.scenario.loading import load_scenario

PAGE = Path(__file__).parents[2] / "docs" / "f16-requirements.md"
STICK = (0.0, 0.0, 0.0, 0.3)


@pytest.mark.parametrize("scenario", REQUIREMENTS)
def test_each_formula_fits_its_scenario_and_each_text_names_a_source(scenario: str) -> None:
    out = load_scenario(scenario)
    required = read_requirements(REQUIREMENTS[scenario])
    for one in required:
        out.require(one.name, one.formula, one.text)
        assert re.search(r"\(.*(docs|MIL|NASA|decision|tests|chosen)", one.text), one.name
    out.build()  # refuses a signal that it has not
    assert len(required) == len(out.requirements)


def test_the_page_lists_all_requirements_and_no_other() -> None:
    listed = re.findall(r"^\| ((?:F16|NASA)-[A-Z-]+) \|", PAGE.read_text(encoding="utf-8"), re.M)
    declared = [one.name for path in REQUIREMENTS.values() for one in read_requirements(path)]
    assert sorted(listed) == sorted(declared)


def checked(
    script: Sequence[tuple[float, Sequence[float]]], until: float
) -> Mapping[str, RequirementResult]:
    run = simulate(flight(script, step=0.01), until=until, recorder=MemoryRecorder())
    return {one.name: one for one in check([REQUIREMENTS["f16-by-hand"]], run)}


def test_a_stick_that_disengages_the_altitude_hold_exercises_the_requirement() -> None:
    script = [(0.5, (*STICK, 1.0)), (2.0, (0.3, 0.0, 0.0, 0.3, 1.0)), (2.5, (*STICK, 1.0))]
    assert checked(script, 6.0)["F16-AP-STICK"].verdict == "holds"


def test_a_run_that_ends_before_the_answer_to_the_stick_decides_nothing() -> None:
    found = checked([(0.5, (0.3, 0.0, 0.0, 0.3))], 0.55)
    assert found["F16-LOAD-RISE"].verdict == "undecided"
    assert "the run ended at 0.55 s" in found["F16-LOAD-RISE"].reason
    assert found["F16-ALPHA"].verdict == "holds"
