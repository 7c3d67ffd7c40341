"""The check cases as users fly them: executive, bus, recording, then NASA's figures.

NASA's static check shots for the F-16's aerodynamics and propulsion, to NASA's tolerances.

Source: the ``checkData`` of ``F16_aero.dml`` and ``F16_prop.dml``, NASA/TM-2015-218675.

The F-16 against ``sim_05`` of NASA/TM-2015-218675: cases 11, 13.1 and 15.

The law is sampled and held at 50 Hz without latency, RK4 at 5 ms.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Self

import numpy as np
import pytest
from click.testing import CliRunner
from f16_flight import fly_case
from flight import worst, worst_angle
from published import FIGURES, Columns, records, trajectory

from rtsim.cli import main as rtsim_command
from rtsim.core.errors import RecordingError, UnknownName
from rtsim.models.f16.aerodynamics import (
    DEGREES_PER_RADIAN,
    NASA_SIDESLIP,
    NASA_SURFACES,
    coefficients,
    thrust_lbf,
)
from rtsim.models.f16.plant import Aircraft, loads
from rtsim.models.f16.published import Comparison, compare_with_nasa, published_rows
from rtsim.models.f16.scenario import NAMES, SUBSONIC, case, trimmed
from rtsim.models.units import FT, KT
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
    for number in ("11", "15"):
        recording = flown(number, *PLANTED[error].items())
        out += [h for h in compare_with_nasa(recording) if not h.within]
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


SPAN_FT, CHORD_FT = 30.0, 11.32
AERODYNAMIC = records("f16_aero_shots")
PROPULSIVE = records("f16_prop_shots")


@pytest.mark.parametrize("shot", AERODYNAMIC, ids=lambda shot: shot["name"])
def test_aerodynamic_check_shot(shot: dict[str, str]) -> None:
    _, *values = shot.values()
    *numbers, tolerance = map(float, values)
    airspeed, alpha, beta, p, q, r, elevator, aileron, rudder, *expected = numbers
    half = 0.5 / airspeed
    found = coefficients(
        alpha,
        beta,
        p * SPAN_FT * half,
        q * CHORD_FT * half,
        r * SPAN_FT * half,
        elevator,
        aileron,
        rudder,
        NASA_SIDESLIP,
        NASA_SURFACES,
        DEGREES_PER_RADIAN,
        False,
    )
    assert found == pytest.approx(expected, abs=tolerance)
    assert tolerance == 1e-6


@pytest.mark.parametrize("shot", PROPULSIVE, ids=lambda shot: shot["name"])
def test_propulsion_check_shot(shot: dict[str, str]) -> None:
    _, *values = shot.values()
    power, altitude, mach, expected, tolerance = map(float, values)
    assert thrust_lbf(power, altitude, mach) == pytest.approx(expected, abs=tolerance)
    assert tolerance <= 1e-3


def test_every_check_shot_of_nasa_is_here() -> None:
    assert (len(AERODYNAMIC), len(PROPULSIVE)) == (16, 9)


def test_tables_clamp_where_nasa_clamps() -> None:
    """The elevator's tables end at 24 deg; its term in CZ does not."""

    def at(alpha: float, elevator: float) -> tuple[float, ...]:
        return coefficients(
            alpha, 0.0, 0.0, 0.0, 0.0, elevator, 0.0, 0.0,
            NASA_SIDESLIP, NASA_SURFACES, DEGREES_PER_RADIAN, False,
        )  # fmt: skip

    inside, outside = at(5.0, -24.0), at(5.0, -25.0)
    assert outside[0] == inside[0]
    assert outside[4] == inside[4]
    assert outside[2] - inside[2] == pytest.approx(0.19 / 25.0)
    assert at(45.0, 0.0) == at(60.0, 0.0)
    assert at(-10.0, 0.0) == at(-20.0, 0.0)


# altitude ft, yaw, pitch, roll deg, airspeed ft/s
TOLERANCES = {
    "11": (0.01, 1e-4, 1e-4, 1e-4, 0.01),
    "13.1": (0.5, 0.3, 0.3, 0.3, 0.45),
    "15": (0.01, 0.02, 0.005, 0.03, 0.01),
}


@cache
def correct(name: str) -> Columns:
    return fly_case(case(name))


def errors(flight: Columns, name: str) -> tuple[float, ...]:
    """Largest differences at all published times, in the order and units of ``TOLERANCES``."""
    theirs = trajectory(FILES[name])
    return (
        worst(flight["altitude_ft"], theirs["altitudeMsl_ft"]),
        worst_angle(flight["yaw_deg"], theirs["eulerAngle_deg_Yaw"]),
        worst_angle(flight["pitch_deg"], theirs["eulerAngle_deg_Pitch"]),
        worst_angle(flight["roll_deg"], theirs["eulerAngle_deg_Roll"]),
        worst(flight["airspeed"] / FT, theirs["trueAirspeed_nmi_h"] * KT / FT),
    )


def passes(flight: Columns, name: str) -> bool:
    pairs = zip(errors(flight, name), TOLERANCES[name], strict=True)
    return all(error < tolerance for error, tolerance in pairs)


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", FILES)
def test_flight_at_every_published_time(name: str) -> None:
    times = trajectory(FILES[name])["time"]
    assert times.tolist() == [i / 10 for i in range(round(case(name).duration * 10) + 1)]
    assert correct(name)["altitude_ft"].size == times.size
    found = errors(correct(name), name)
    assert all(np.array(found) < TOLERANCES[name]), found


def test_components_of_the_velocity_in_13_1() -> None:
    """North and east within 0.45 ft/s; the climb itself within 0.5, at 0.4 s into the pull-up."""
    theirs = trajectory("13p1")
    flight = correct("13.1")
    for ours, axis, tolerance in (("north", "X", 0.45), ("east", "Y", 0.45), ("down", "Z", 0.5)):
        error = worst(flight[f"velocity_{ours}"] / FT, theirs[f"feVelocity_ft_s_{axis}"])
        assert error < tolerance, ours


@pytest.mark.long
def test_every_case_flies() -> None:
    """The published end conditions of the commands: airspeed, course and offset are reached."""
    assert set(NAMES) == {"11", "12", "13.1", "13.2", "13.3", "13.4", "15", "16"}
    slower = fly_case(case("13.2"))
    asked = case("13.2").law_inputs["airspeed_command"] - 5.0
    assert slower["equivalent_airspeed_kt"][-1] == pytest.approx(asked, abs=0.3)
    turned = fly_case(case("13.3"))
    track = np.degrees(np.arctan2(turned["velocity_east"][-1], turned["velocity_north"][-1]))
    assert track == pytest.approx(60.0, abs=0.2)
    around = fly_case(case("16"))
    assert np.ptp(around["altitude_ft"]) < 20.0


@pytest.mark.long
def test_case_13_4_ends_2000_ft_to_the_right() -> None:
    flight = fly_case(case("13.4"))
    step = 0.1
    track = np.arctan2(flight["velocity_east"], flight["velocity_north"]) - np.radians(45.0)
    ground = np.hypot(flight["velocity_east"], flight["velocity_north"])
    aside = np.sum(ground * np.sin(track)) * step / FT
    assert aside == pytest.approx(2000.0, abs=30.0)


def test_case_12_stays_in_trim() -> None:
    """Supersonic, unaugmented; NASA's simulations trim it at -0.7416 deg."""
    supersonic = case("12")
    assert supersonic.trim.theta_deg == pytest.approx(-0.7416, abs=1e-4)
    flight = fly_case(supersonic, duration=5.0)
    assert np.ptp(flight["altitude_ft"]) < 0.1


# ---------------------------------------------------------------- planted errors


class InertialRates(Aircraft, name="f16"):
    """The F-16 with one error: the aerodynamics see the inertial rates."""

    def derivative(self, d: Self) -> None:
        c11, c12, c13, c21, c22, c23, c31, c32, c33, ub, vb, wb, _, _, _, height = self.air_flow()
        fx, fy, fz, mx, my, mz = loads(
            ub, vb, wb, self.rates[0], self.rates[1], self.rates[2], height,
            self.elevator, self.aileron, self.rudder, self.power, self.cg,
        )  # fmt: skip
        self.accelerate(
            d, c11, c12, c13, c21, c22, c23, c31, c32, c33, fx, fy, fz, mx, my, mz
        )  # fmt: skip


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "planted",
    [{"cg": 0.30}, {"ixz": -982.0 * 1.3558179483314004}, {"earth_rate": 0.0}, {"j2": 0.0}],
    ids=str,
)
def test_wrong_aircraft_or_earth_is_caught(planted: Mapping[str, float]) -> None:
    """Case 11, trimmed with the error as its author would have done, leaves the tolerances."""
    start = trimmed(SUBSONIC, planted)
    wrong = replace(
        case("11"), state=start.state, inputs=start.inputs, parameters=dict(planted), trim=start
    )
    assert passes(correct("11"), "11")
    assert not passes(fly_case(wrong), "11")


@pytest.mark.long
def test_inertial_rates_in_the_aerodynamics_are_caught() -> None:
    found = errors(fly_case(case("11"), model=InertialRates.model()), "11")
    assert found[1] > 0.1


@pytest.mark.long
def test_law_of_the_wrong_trim_is_caught() -> None:
    """The pitch reference of NASA's file instead of the trim's own shows in the altitude."""
    own = errors(correct("13.1"), "13.1")
    theta = fly_case(case("13.1"), law_parameters={"theta_trim": 2.653813535191715})
    assert errors(theta, "13.1")[0] > own[0] + 0.05


@pytest.mark.long
def test_slow_law_is_caught() -> None:
    """At 10 Hz the loop is unusable."""
    assert not passes(fly_case(case("13.1"), frame=0.1), "13.1")
