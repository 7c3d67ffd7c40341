"""The check cases as users fly them: executive, bus, recording, then NASA's figures."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from published import FIGURES

from rtsim.cli import main as rtsim_command
from rtsim.core.errors import RecordingError, UnknownName
from rtsim.models.f16.published import Comparison, compare_with_nasa, published_rows
from rtsim.record.reading import Recording
from rtsim.scenario.loading import load_scenario
from rtsim.testing.determinism import trace_of
from tools.nasa import main as nasa_command
from tools.nasa import read_csv

FILES = {"11": "11", "13.1": "13p1", "15": "15"}
PLANTED = {
    "centre of gravity at 30 %": {"f16.cg": "0.30"},
    "Ixz of the other sign": {"f16.ixz": "-1331.4"},
    "no Earth rotation": {"f16.earth_rate": "0"},
    "no J2": {"f16.j2": "0"},
}


@cache
def flown(case: str, *settings: tuple[str, str]) -> Recording:
    return trace_of(load_scenario("f16", {"case": case, **dict(settings)}))


@pytest.mark.parametrize("case", FILES)
def test_within_tolerance_of_the_published_figures(case: str) -> None:
    held = compare_with_nasa(flown(case))
    assert [h for h in held if not h.ok] == []
    assert held[0].times == len(published_rows(case))


@pytest.mark.parametrize("case", FILES)
def test_within_tolerance_at_every_published_time(case: str) -> None:
    rows = read_csv(FIGURES / f"nesc_{FILES[case]}_sim_05.csv")
    held = compare_with_nasa(flown(case), rows)
    assert [h for h in held if not h.ok] == []
    assert held[0].times == len(rows) == round(10 * rows[-1, 0]) + 1


@pytest.mark.parametrize("case", FILES)
def test_the_figures_that_ship_are_of_the_published_ones(case: str) -> None:
    rows = read_csv(FIGURES / f"nesc_{FILES[case]}_sim_05.csv")
    ours = published_rows(case)
    at = np.round(10 * ours[:, 0]).astype(int)
    np.testing.assert_allclose(ours, rows[at], rtol=0, atol=5.1e-7)


@pytest.mark.parametrize("error", PLANTED)
def test_a_planted_error_is_caught(error: str) -> None:
    """Each is out of tolerance in the unaugmented or the circling case."""
    out: list[Comparison] = []
    for case in ("11", "15"):
        recording = flown(case, *PLANTED[error].items())
        out += [h for h in compare_with_nasa(recording) if not h.ok]
    assert out, f"{error} goes unnoticed"


@pytest.mark.parametrize(
    ("case", "signal", "expected"),
    [
        ("13.2", "equivalent_airspeed_kt", -5.0),
        ("13.3", "yaw_deg", 15.0),
        ("13.4", "yaw_deg", 0.0),
        ("13.1", "altitude_ft", 100.0),
    ],
)
def test_each_manoeuvre_goes_where_it_is_told(case: str, signal: str, expected: float) -> None:
    values = flown(case)[f"f16.{signal}"]
    assert values[-1] - values[0] == pytest.approx(expected, abs=0.5)


@pytest.mark.parametrize("case", ["12", "16"])
def test_other_cases_fly_level(case: str) -> None:
    altitude = flown(case)["f16.altitude_ft"]
    assert abs(altitude - altitude[0]).max() < 30.0


def test_the_comparison_as_a_command(tmp_path: Path) -> None:
    """What `make run` prints: a table, and exit 1 where a quantity is out of tolerance."""
    run = CliRunner().invoke
    for settings, status, verdict in (((), 0, "ok"), (("--set", "f16.cg=0.3"), 1, "OUT")):
        path = tmp_path / f"{status}.mcap"
        flown = run(rtsim_command, ["run", "f16", "--until", "10", "-o", str(path), *settings])
        assert flown.exit_code == 0, flown.output
        told = run(nasa_command, [str(path)])
        assert (told.exit_code, verdict in told.stdout) == (status, True), told.output
        assert "F-16 case 13.1 against NASA's sim_05" in told.stdout
        assert run(nasa_command, [str(path), "--json"]).exit_code == status


def test_the_start_alone_is_no_comparison(tmp_path: Path) -> None:
    """One published time, which is that of the trim; the span is told, and the run's end."""
    run = CliRunner().invoke
    for until, status in (("0.5", 2), ("9", 2), ("10", 0)):
        path = tmp_path / f"{until}.mcap"
        flown = run(rtsim_command, ["run", "f16", "--until", until, "-o", str(path)])
        assert flown.exit_code == 0, flown.output
        told = run(nasa_command, [str(path)])
        assert told.exit_code == status, told.output
        assert " of 60 s" in told.stdout
        assert ("could not be decided" in told.stdout) == (status == 2)
        assert f"reached its end at {until} s" in told.stdout
        data = json.loads(run(nasa_command, [str(path), "--json"]).stdout)
        assert data["ok"] == (status == 0)
        assert data["quantities"][0]["of_s"] == 60.0


def test_the_arguments_are_checked() -> None:
    with pytest.raises(UnknownName, match="did you mean"):
        load_scenario("f16", {"case": "13.11"})
    with pytest.raises(RecordingError, match="not of an F-16 check case"):
        compare_with_nasa(trace_of(load_scenario("orbit")))
    odd = trace_of(load_scenario("f16", {"case": "11", "step": "0.03", "until": "20"}))
    with pytest.raises(RecordingError, match="step that divides"):
        compare_with_nasa(odd)
