"""Control law and guidance against NASA's own definition, as it answers over random inputs.

Source: ``F16_control.dml`` and ``F16_gnc.dml``, NASA/TM-2015-218675.  They carry no check shots;
tools/figures.py evaluates them as they are written, and figures/ has what they say.

Every cell of the F-16's tables against the published ones, through the functions that fly.

The check shots touch a few cells; here each function is asked at each breakpoint of each table, so
that no cell, no breakpoint and no order of the axes can be another one.

Trim of the F-16 at case 11, and the linear model there.

Source: NASA/TM-2015-218675, case 11; the trim was recomputed independently to six digits
(elevator -3.232758 deg, power 13.873818 %, 287.9815 KEAS, theta as in ``sim_05`` 2.638926).

The book's F-16: table 3.5-2, level trims and the linear models of section 3.7.

Source: Stevens, Lewis and Johnson, *Aircraft Control and Simulation*, tables 3.5-2, 3.6-2, 3.6-3.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from f16_laws import circle, control_law, course
from published import Table, groups, records, tables

from rtsim.core.errors import ModelError
from rtsim.core.signals import Vector
from rtsim.equations.model import bind
from rtsim.linear import linearise
from rtsim.linear import trim as trimmed_model
from rtsim.models.f16 import stevens_lewis
from rtsim.models.f16.aerodynamics import (
    _DATA,
    BOOK_SIDESLIP,
    BOOK_SURFACES,
    DEGREES_PER_RADIAN,
    NASA_SIDESLIP,
    NASA_SURFACES,
    coefficients,
    thrust_lbf,
)
from rtsim.models.f16.controller import LAW_INPUTS, LAW_OUTPUTS, LAW_PARAMETERS, Circle
from rtsim.models.f16.piloted_scenario import scenario as by_hand
from rtsim.models.f16.plant import F16
from rtsim.models.f16.scenario import CONDITIONS, SUBSONIC, FlightCondition, case, trimmed
from rtsim.models.f16.stevens_lewis import (
    STEVENS_LEWIS,
    bound_stevens_lewis,
    level_trim,
    power_rate,
    throttle_gearing,
)
from rtsim.models.f16.trim import Trim, bound_f16, trim
from rtsim.models.units import FT


def surfaces(inputs: Vector, **parameters: float) -> Vector:
    outputs = np.zeros(LAW_OUTPUTS.size)
    control_law(inputs, LAW_PARAMETERS.initial(parameters), outputs)
    return outputs


def test_law_is_nasas_definition() -> None:
    rows, expected = groups("f16_law", LAW_INPUTS.size, LAW_OUTPUTS.size)
    assert len(rows) == 2500
    found = [surfaces(row) for row in rows]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-11)


def test_law_with_other_gains_and_trims_is_nasas_definition() -> None:
    sizes = LAW_PARAMETERS.size, LAW_INPUTS.size, LAW_OUTPUTS.size
    parameters, rows, expected = groups("f16_law_gains", *sizes)
    assert len(rows) == 300
    found = np.zeros_like(expected)
    for given, row, outputs in zip(parameters, rows, found, strict=True):
        control_law(row, given, outputs)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize("pole", [0.0, 1.0])
def test_guidance_is_nasas_definition(pole: float) -> None:
    every, expected = groups("f16_guidance", 3, 2)
    here = every[:, 2] == pole
    assert here.sum() == 200
    found = np.zeros((200, 2))
    for place, outputs in zip(every[here, :2], found, strict=True):
        circle(place, np.array([pole]), outputs)
    np.testing.assert_allclose(found, expected[here], rtol=1e-12, atol=1e-9)


def test_gains_and_trims_are_nasas_digit_for_digit() -> None:
    """In the order in which NASA's names head the figures with other gains."""
    nasa = {row["name"]: float(row["value"]) for row in records("f16_gains")}
    names = list(records("f16_law_gains")[0])[: LAW_PARAMETERS.size]
    assert [nasa[name] for name in names] == LAW_PARAMETERS.initial().tolist()
    assert len(nasa) == LAW_PARAMETERS.size == 24


# Figures computed from the definition; inputs in the order of LAW_INPUTS.
TRIMMED = (
    0, 0, 0, 0, 1, 1, 287.8088596053291, 10013, 0, 45, 10013, 287.8088596053291,
    2.653813535191715, 0, 0, 2.653813535191715, 45, 0, 0, 0,
)  # fmt: skip


def test_in_trim_the_law_holds_the_trim() -> None:
    expected = (-25 * 0.1296382327486013, 0.0, 0.0, 13.90191130965607)
    assert surfaces(np.array(TRIMMED, dtype=float)) == pytest.approx(expected, abs=1e-12)


def test_autopilot_brings_the_augmentation_with_it() -> None:
    row = np.array(TRIMMED, dtype=float)
    row[17] = 0.01
    both, autopilot_only = surfaces(row), row.copy()
    autopilot_only[4] = 0.0
    np.testing.assert_array_equal(surfaces(autopilot_only), both)
    neither = row.copy()
    neither[4:6] = 0.0
    assert surfaces(neither)[1] == 0.0
    assert both[1] == pytest.approx(21.5 * 4.557858908828332 * 0.01)


def test_stops() -> None:
    row = np.array(TRIMMED, dtype=float)
    row[4:6], row[0:4] = 0.0, (1.0, 1.0, -1.0, 1.0)
    assert surfaces(row) == pytest.approx((-25.0, 21.5, -30.0 + 0.008 * 21.5, 100.0))


@pytest.mark.parametrize(
    ("command", "yaw", "error"),
    [(179.9, -179.9, 0.2), (-179.9, 179.9, -0.2), (90.0, -95.0, 175.0), (-90.0, 95.0, -175.0)],
)
def test_course_error_takes_the_short_way(command: float, yaw: float, error: float) -> None:
    row = np.array(TRIMMED, dtype=float)
    row[9], row[16] = command, yaw
    short = row.copy()
    short[9], short[16] = 0.0, error
    assert surfaces(row)[1] == pytest.approx(surfaces(short)[1])


def test_track_along_a_parallel_and_a_meridian() -> None:
    """One minute of latitude at 36 N is 6068.2 ft (WGS-84); offsets to the right are positive."""
    outputs, here = np.zeros(2), np.array([36.0, -75.0, 1.0])
    course(np.array([36.0 + 1 / 120, -75.0, 270.0, 0.0]), here, outputs)
    assert outputs == pytest.approx((3034.1 / 1.0, 270.0), abs=2.0)
    course(np.array([36.0 + 1 / 120, -75.0, 90.0, 500.0]), here, outputs)
    assert outputs == pytest.approx((-3034.1 - 500.0, 90.0), abs=2.0)
    course(np.array([37.0, -75.0, 0.0, 0.0]), here, outputs)
    assert outputs[0] == pytest.approx(0.0, abs=1e-6)


def test_course_only_feeds_no_deviation_back() -> None:
    outputs = np.ones(2)
    course(np.array([36.5, -75.0, 90.0, 500.0]), np.array([36.0, -75.0, 0.0]), outputs)
    assert tuple(outputs) == (0.0, 90.0)


def test_signals_fit_together() -> None:
    assert LAW_INPUTS.size == 20
    assert LAW_PARAMETERS.size == 24
    assert Circle.signals("parameter").names == ("circle_pole",)


AERO, PROP, BOOK = (tables(f"f16_{name}_tables") for name in ("aero", "prop", "book"))
NASA, PRINTED = (NASA_SIDESLIP, NASA_SURFACES), (BOOK_SIDESLIP, BOOK_SURFACES)
CX, CY, CZ, CL, CM, CN = range(6)


def asked(
    alpha: float,
    beta: float = 0.0,
    elevator: float = 0.0,
    rates: tuple[float, float, float] = (0.0, 0.0, 0.0),
    aileron: float = 0.0,
    rudder: float = 0.0,
    laterals: tuple[np.ndarray, np.ndarray] = NASA,
) -> np.ndarray:
    found = coefficients(
        alpha, beta, *rates, elevator, aileron, rudder, *laterals, DEGREES_PER_RADIAN, False
    )
    return np.array(found)


def alone(which: int, **one: float | tuple[float, float, float]) -> Callable[[float, float], float]:
    """What a rate or a surface adds to a coefficient at (alpha, beta)."""

    def added(alpha: float, beta: float = 0.0) -> float:
        with_it, without = asked(alpha, beta, **one), asked(alpha, beta)  # type: ignore[arg-type]
        return float((with_it - without)[which])

    return added


P, Q, R = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
OVER_ALPHA: dict[str, Callable[..., float]] = {
    "CZ0_table": lambda alpha: float(asked(alpha)[CZ]),
    "CXq_table": alone(CX, rates=Q),
    "CYr_table": alone(CY, rates=R),
    "CYp_table": alone(CY, rates=P),
    "CZq_table": alone(CZ, rates=Q),
    "Clr_table": alone(CL, rates=R),
    "Clp_table": alone(CL, rates=P),
    "Cmq_table": alone(CM, rates=Q),
    "Cnr_table": alone(CN, rates=R),
    "Cnp_table": alone(CN, rates=P),
}
OVER_TWO: dict[str, Callable[..., float]] = {
    "CX_table": lambda elevator, alpha: float(asked(alpha, elevator=elevator)[CX]),
    "Cm0_table": lambda elevator, alpha: float(asked(alpha, elevator=elevator)[CM]),
    "Cl0_table": lambda beta, alpha: float(asked(alpha, beta)[CL]),
    "Cn0_table": lambda beta, alpha: float(asked(alpha, beta)[CN]),
    "dlda_table": lambda beta, alpha: alone(CL, aileron=20.0)(alpha, beta),
    "dldr_table": lambda beta, alpha: alone(CL, rudder=30.0)(alpha, beta),
    "dnda_table": lambda beta, alpha: alone(CN, aileron=20.0)(alpha, beta),
    "dndr_table": lambda beta, alpha: alone(CN, rudder=30.0)(alpha, beta),
}
POWER = {"T_IDLE table": 0.0, "T_MIL table": 50.0, "T_MAX table": 100.0}


def answered(table: Table, ask: Callable[..., float]) -> np.ndarray:
    """What is answered at each breakpoint, in the table's shape."""
    return np.array([ask(*at) for at in product(*table.over)]).reshape(table.values.shape)


def differing(table: Table, ask: Callable[..., float]) -> list[tuple[object, ...]]:
    """(breakpoints, published, answered) of the cells that are not what was published."""
    found = answered(table, ask)
    close = np.isclose(found, table.values, rtol=1e-12, atol=1e-12)
    return [
        (*(over[k] for over, k in zip(table.over, at, strict=True)), table.values[at], found[at])
        for at in map(tuple, np.argwhere(~close).tolist())
    ]


@pytest.mark.parametrize("name", [*OVER_ALPHA, *OVER_TWO])
def test_every_cell_of_the_aerodynamics_is_as_published(name: str) -> None:
    ask = OVER_ALPHA.get(name) or OVER_TWO[name]
    assert differing(AERO[name], ask) == []


@pytest.mark.parametrize("name", POWER)
def test_every_cell_of_the_engine_is_as_published(name: str) -> None:
    assert (
        differing(PROP[name], lambda mach, altitude: thrust_lbf(POWER[name], altitude, mach)) == []
    )


def test_the_books_rolling_moments_are_as_printed() -> None:
    """The rudder's is NASA's but for one cell, which table 3.5-2 of the book needs."""

    def sideslip(beta: float, alpha: float) -> float:
        return float(asked(alpha, beta, laterals=PRINTED)[CL])

    def rudder(beta: float, alpha: float) -> float:
        moved = asked(alpha, beta, rudder=30.0, laterals=PRINTED)
        return float((moved - asked(alpha, beta, laterals=PRINTED))[CL])

    assert differing(BOOK["Cl0_printed"], sideslip) == []
    ((beta, alpha, nasa, book),) = differing(AERO["dldr_table"], rudder)
    assert (beta, alpha, nasa) == (-10.0, 30.0, 0.0)
    assert book == pytest.approx(-0.002, abs=1e-12)


def test_no_table_is_left_out() -> None:
    assert sorted([*OVER_ALPHA, *OVER_TWO]) == sorted(AERO)
    assert sorted(POWER) == sorted(PROP)
    of_the_book = {"cl_stevens_lewis", "cl_rudder_stevens_lewis"}
    assert len(_DATA["aerodynamics"].keys() - of_the_book) == len(AERO) == 18
    assert len(_DATA["propulsion"]) == len(PROP) == 3
    cells = sum(table.values.size for table in (*AERO.values(), *PROP.values()))
    assert cells == 10 * 12 + 2 * 5 * 12 + 6 * 7 * 12 + 3 * 6 * 6


@pytest.mark.parametrize("cell", range(0, 84, 7))
def test_a_cell_that_is_off_by_a_thousandth_is_seen(cell: int) -> None:
    """The checks above can fail: a changed table is told with its cell, and no other one is."""
    changed = NASA_SIDESLIP.copy()
    row, column = divmod(cell, 12)
    changed[row, column, 0] += 0.001

    def ask(beta: float, alpha: float) -> float:
        return float(asked(alpha, beta, laterals=(changed, NASA_SURFACES))[CL])

    table = AERO["Cl0_table"]
    ((beta, alpha, published, found),) = differing(table, ask)
    assert (beta, alpha) == (table.over[0][row], table.over[1][column])
    assert found == pytest.approx(float(str(published)) + 0.001)


THETA, ELEVATOR, POWER_TRIM, AIRSPEED = 2.638939, -3.232758, 13.873818, 287.9815


def misses(found: Trim) -> float:
    """Largest departure in deg from the published pitch and elevator."""
    return max(abs(found.theta_deg - THETA), abs(found.inputs["elevator"] - ELEVATOR))


def test_case_11() -> None:
    found = case("11").trim
    assert misses(found) < 1e-5
    assert found.inputs["power"] == pytest.approx(POWER_TRIM, abs=1e-5)
    assert found.outputs["equivalent_airspeed_kt"] == pytest.approx(AIRSPEED, abs=1e-4)
    assert found.inputs["aileron"] == found.inputs["rudder"] == 0.0


def test_euler_angles_rest_in_the_turning_local_frame() -> None:
    """Central difference of the outputs over a short flight along the derivative."""
    found = case("11").trim
    p, z = F16.parameters.initial(), np.zeros(0)
    dx, ahead, behind = np.zeros(13), F16.outputs.initial(), F16.outputs.initial()
    bound = bound_f16()
    bound.derivative.call(0.0, found.state, z, found.controls, p, dx)
    h = 1e-3
    bound.output.call(h, found.state + h * dx, z, found.controls, p, ahead)
    bound.output.call(-h, found.state - h * dx, z, found.controls, p, behind)
    rates = dict(zip(F16.outputs.names, (ahead - behind) / (2 * h), strict=True))
    for name in ("roll", "pitch", "yaw"):
        assert abs(rates[name]) < 1e-9, name
    for name in ("velocity_down", "airspeed"):
        assert abs(rates[name]) < 1e-6, name


@pytest.mark.parametrize(
    "planted", [{"cg": 0.30}, {"earth_rate": 0.0}, {"j2": 0.0}, {"mass": 9290.0}], ids=str
)
def test_wrong_aircraft_or_earth_is_caught(planted: dict[str, float]) -> None:
    assert misses(trimmed(SUBSONIC, planted)) > 1e-4


def test_speed_that_cannot_be_held_says_so() -> None:
    with pytest.raises(ModelError, match="no level trim found at 20"):
        trim(latitude=0.0, longitude=0.0, altitude=3000.0, speed=20.0, course=0.0)


def test_linear_model_predicts_the_plant() -> None:
    """A small step of elevator and state, by A and B and by the equations themselves."""
    found = case("11").trim
    p, z = F16.parameters.initial(), np.zeros(0)
    linear = linearise(F16, at=found.values)
    assert linear.a.shape == (13, 13)
    assert linear.b.shape == (13, 4)
    assert linear.c.shape == (F16.outputs.size, 13)
    assert linear.d.shape == (F16.outputs.size, 4)
    dx, moved = np.zeros(13), np.zeros(13)
    step_x = np.zeros(13)
    step_x[3:6] = 0.01, -0.02, 0.015
    step_x[10:13] = 1e-4, -2e-4, 1e-4
    step_u = np.array([0.01, 0.01, -0.01, 0.05])
    derivative = bound_f16().derivative.call
    derivative(0.0, found.state, z, found.controls, p, dx)
    derivative(0.0, found.state + step_x, z, found.controls + step_u, p, moved)
    predicted = linear.a @ step_x + linear.b @ step_u
    np.testing.assert_allclose(moved - dx, predicted, rtol=2e-3, atol=2e-7)


def test_output_of_the_linear_model_is_in_the_outputs_units() -> None:
    """Down by one metre along the radius is 1 m and 1 / 0.3048 ft of altitude."""
    found = case("11").trim
    linear = linearise(F16, at=found.values)
    sine, cosine = math.sin(found.outputs["latitude"]), math.cos(found.outputs["latitude"])
    longitude = found.outputs["longitude"]
    up = np.array([cosine * math.cos(longitude), cosine * math.sin(longitude), sine])
    by_position = linear.c[:, 0:3] @ up
    assert by_position[F16.outputs.slice("altitude")][0] == pytest.approx(1.0, abs=1e-6)
    assert by_position[F16.outputs.slice("altitude_ft")][0] == pytest.approx(1 / FT, abs=1e-6)


@pytest.mark.parametrize("start", CONDITIONS, ids=str)
def test_kept_trims_are_what_the_solver_finds(
    start: FlightCondition, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, solved = trimmed(start), trimmed(replace(start, trim=(0.0, 0.0, 0.0)))
    np.testing.assert_allclose(kept.state, solved.state, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(kept.controls, solved.controls, rtol=1e-9, atol=1e-9)
    monkeypatch.setattr("rtsim.models.f16.trim._solved", None)
    np.testing.assert_array_equal(trimmed(start).state, kept.state)


def test_the_piloted_flights_trim_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rtsim.models.f16.trim._solved", None)
    by_hand()
    with pytest.raises(TypeError):
        by_hand(speed_kt=310.0)


STATE = np.array([500.0, 0.5, -0.2, -1, 1, -1, 0.7, -0.8, 0.9, 1000, 900, 10000, 90])
INPUTS = np.array([0.9, 20.0, -15.0, -20.0])
DERIVATIVES = (
    -75.23724, -0.8813491, -0.475999, 2.505734, 0.325082, 2.145926, 12.62679, 0.9649671,
    0.5809759, 342.4439, -266.7707, 248.1241, -58.68999,
)  # fmt: skip
# airspeed ft/s, throttle, alpha deg, elevator deg: level at sea level, cg 0.35
TRIMS = (
    (130, 0.816, 45.6, 20.1),
    (140, 0.736, 40.3, -1.36),
    (150, 0.619, 34.6, 0.173),
    (170, 0.464, 27.2, 0.621),
    (200, 0.287, 19.7, 0.723),
    (260, 0.148, 11.6, -0.09),
    (300, 0.122, 8.49, -0.591),
    (350, 0.107, 5.87, -0.539),
    (400, 0.108, 4.16, -0.591),
    (440, 0.113, 3.19, -0.671),
    (500, 0.137, 2.14, -0.756),
    (540, 0.16, 1.63, -0.798),
    (600, 0.2, 1.04, -0.846),
    (640, 0.23, 0.742, -0.871),
    (700, 0.282, 0.382, -0.9),
    (800, 0.378, -0.045, -0.943),
)
# The same, computed afresh from the book's equations to four and more digits.
TRIMS_RECOMPUTED = (
    (130, 0.8158, 45.5945, 20.0929),
    (200, 0.2865, 19.6987, 0.7233),
    (300, 0.122, 8.4926, -0.591),
    (500, 0.1375, 2.1434, -0.7564),
    (640, 0.23, 0.7422, -0.8707),
    (800, 0.3779, -0.0446, -0.9426),
)
LONGITUDINAL = ("airspeed", "alpha", "pitch", "pitch_rate")
LATERAL = ("beta", "roll", "roll_rate", "yaw_rate")
A_LONGITUDINAL = (
    (-0.019311, 8.8157, -32.17, -0.57499),
    (-0.00025389, -1.0189, 0.0, 0.90506),
    (0.0, 0.0, 0.0, 1.0),
    (2.9465e-12, 0.82225, 0.0, -1.0774),
)
B_ELEVATOR = (0.1737, -0.0021499, 0.0, -0.17555)
A_LATERAL = (
    (-0.322, 0.064, 0.0364, -0.9917),
    (0.0, 0.0, 1.0, 0.0369),  # printed 0.0037: a misprint of tan(theta)
    (-30.6492, 0.0, -3.6784, 0.6646),
    (8.5396, 0.0, -0.0254, -0.4764),
)
B_LATERAL = ((0.0003, 0.0008), (0.0, 0.0), (-0.7333, 0.1315), (-0.0319, -0.062))
EIGENVALUES = (-1.91178, -0.1507 - 0.1153j, -0.1507 + 0.1153j, 0.09755)
TURN = np.array(
    [502, 0.2392628, 0.0005061803, 1.366289, 0.05000808, 0.2340769,
     -0.01499617, 0.2933811, 0.06084932, 0, 0, 0, 64.12363]
)  # fmt: skip
TURN_INPUTS = np.array([0.8349601, -1.481766, 0.09553108, -0.4118124])


def derivative(x: Vector, u: Vector, cg: float) -> Vector:
    dx = np.zeros(13)
    bound_stevens_lewis().derivative.call(0.0, x, np.zeros(0), u, np.array([cg]), dx)
    return dx


def test_table_3_5_2() -> None:
    assert derivative(STATE, INPUTS, 0.4) == pytest.approx(DERIVATIVES, rel=1e-6)


def test_table_3_5_2_needs_the_tables_as_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    """With NASA's rolling-moment tables, roll and yaw accelerations differ and nothing else."""
    monkeypatch.setattr(stevens_lewis, "BOOK_SIDESLIP", NASA_SIDESLIP)
    monkeypatch.setattr(stevens_lewis, "BOOK_SURFACES", NASA_SURFACES)
    model = stevens_lewis.StevensLewis.model()
    dx = np.zeros(13)
    bind(model, compile=False).derivative.call(0.0, STATE, np.zeros(0), INPUTS, np.array([0.4]), dx)
    differs = np.abs(dx / np.array(DERIVATIVES) - 1.0) > 1e-6
    assert set(np.flatnonzero(differs)) == {6, 8}


@pytest.mark.parametrize(("airspeed", "throttle", "alpha", "elevator"), TRIMS)
def test_level_trims_to_the_printed_digits(
    airspeed: float, throttle: float, alpha: float, elevator: float
) -> None:
    x, u = level_trim(airspeed)
    assert u[0] == pytest.approx(throttle, abs=6e-4)
    assert math.degrees(x[1]) == pytest.approx(alpha, abs=0.06)
    assert u[1] == pytest.approx(elevator, abs=8e-3)


@pytest.mark.parametrize(("airspeed", "throttle", "alpha", "elevator"), TRIMS_RECOMPUTED)
def test_level_trims_to_more_digits(
    airspeed: float, throttle: float, alpha: float, elevator: float
) -> None:
    x, u = level_trim(airspeed)
    assert (u[0], math.degrees(x[1]), u[1]) == pytest.approx((throttle, alpha, elevator), abs=5e-5)


@pytest.mark.parametrize(
    ("cg", "alpha", "throttle", "elevator"),
    [
        (0.35, 0.03691, 0.1385, -0.7588),
        (0.30, 0.03936, 0.1485, -1.931),
        (0.38, 0.03544, 0.1325, -0.0559),
    ],
)
def test_trims_over_the_centre_of_gravity(
    cg: float, alpha: float, throttle: float, elevator: float
) -> None:
    x, u = level_trim(502.0, cg=cg)
    assert x[1] == pytest.approx(alpha, abs=5.1e-6)
    assert u[0] == pytest.approx(throttle, abs=5.1e-5)
    assert u[1] == pytest.approx(elevator, abs=5.1e-4)


def test_trim_that_does_not_exist_says_so() -> None:
    with pytest.raises(ModelError, match="no level trim found at 40 ft/s"):
        level_trim(40.0)


def test_coordinated_turn_is_steady() -> None:
    dx = derivative(TURN, TURN_INPUTS, 0.35)[:9]
    dx[5] -= 0.3
    assert np.max(np.abs(dx)) < 6e-6


def test_linear_models_at_502_ft_per_s() -> None:
    """Section 3.7: trim and matrices by the public functions."""
    level = trimmed_model(
        STEVENS_LEWIS,
        free={"throttle": 0.2, "alpha": 0.1, "elevator": -1.0, "pitch": 0.1, "power": 10.0},
        fixed={"airspeed": 502.0, "altitude": 0.0, "cg": 0.35},
        steady=("airspeed", "alpha", "pitch_rate", "altitude", "power"),
    )
    assert level.unique
    assert level.residual < 1e-12
    assert level.condition < 100.0
    assert level.free["throttle"] == pytest.approx(0.1385, abs=5.1e-5)
    linear = linearise(STEVENS_LEWIS, at=level)
    along = linear.part(states=LONGITUDINAL, inputs=["elevator"])
    across = linear.part(states=LATERAL, inputs=["aileron", "rudder"])
    # Five printed digits, four decimals for the lateral half.
    np.testing.assert_allclose(along.a, A_LONGITUDINAL, rtol=5e-5, atol=1e-6)
    np.testing.assert_allclose(along.b[:, 0], B_ELEVATOR, rtol=5e-5, atol=1e-6)
    np.testing.assert_allclose(across.a, A_LATERAL, atol=1.3e-4)
    np.testing.assert_allclose(across.b, B_LATERAL, atol=5e-5)
    found = sorted(np.linalg.eigvals(along.a), key=lambda v: (v.real, v.imag))
    np.testing.assert_allclose(found, EIGENVALUES, atol=6e-5)
    assert along.errors is not None
    assert across.errors is not None
    assert max(along.errors.max(), across.errors.max()) < 1e-9


def test_engine_lag() -> None:
    """The corners of the book's power schedule."""
    assert throttle_gearing(0.77) == pytest.approx(50.0, abs=0.01)
    assert throttle_gearing(1.0) == pytest.approx(100.0)
    assert power_rate(10.0, 20.0) == pytest.approx(10.0)
    assert power_rate(0.0, 49.0) == pytest.approx((1.9 - 0.036 * 49.0) * 49.0)
    assert power_rate(0.0, 60.0) == pytest.approx(6.0)
    assert power_rate(60.0, 80.0) == pytest.approx(100.0)
    assert power_rate(60.0, 20.0) == pytest.approx(-100.0)
