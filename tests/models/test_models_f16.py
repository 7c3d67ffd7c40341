"""The F-16's data file, its tables' lookup, and the plant's declared shape."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtsim.core.errors import ModelError, UnknownName
from rtsim.models.f16 import aerodynamics
from rtsim.models.f16.aerodynamics import (
    DEGREES_PER_RADIAN,
    NASA_SIDESLIP,
    NASA_SURFACES,
    coefficients,
    segment,
    thrust_lbf,
)
from rtsim.models.f16.controller import FEEDBACK, LAW_OUTPUTS
from rtsim.models.f16.plant import F16, PARAMETERS
from rtsim.models.f16.scenario import NAMES, case

COMPILES = settings(deadline=None)  # the first call of a helper compiles it


def clean(
    alpha: float, beta: float, elevator: float, aileron: float = 0.0, rudder: float = 0.0
) -> tuple[float, ...]:
    return coefficients(
        alpha, beta, 0.0, 0.0, 0.0, elevator, aileron, rudder,
        NASA_SIDESLIP, NASA_SURFACES, DEGREES_PER_RADIAN, False,
    )  # fmt: skip


def test_source_is_named() -> None:
    assert "NASA/TM-2015-218675" in aerodynamics.SOURCE
    assert any(aerodynamics.SOURCE in text for text in F16.assumptions)


def test_table_over_other_axes_is_refused() -> None:
    with pytest.raises(ModelError, match="table cx has shape"):
        aerodynamics.table("aerodynamics", "cx", "alpha_deg", "elevator_deg")


def test_uneven_breakpoints_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(aerodynamics._DATA["breakpoints"], "mach", [0.0, 0.2, 0.5])
    with pytest.raises(ModelError, match="not evenly spaced"):
        aerodynamics.grid("mach")


@pytest.mark.parametrize(
    ("value", "extrapolate", "expected"),
    [
        (-11.0, False, (0, 0.0)),
        (-11.0, True, (0, -0.2)),
        (-10.0, False, (0, 0.0)),
        (2.5, False, (2, 0.5)),
        (45.0, False, (10, 1.0)),
        (50.0, False, (10, 1.0)),
        (50.0, True, (10, 2.0)),
    ],
)
def test_segments(value: float, extrapolate: bool, expected: tuple[int, float]) -> None:
    assert segment(value, -10.0, 0.2, 10, extrapolate) == pytest.approx(expected)


@COMPILES
@given(st.floats(-10, 45), st.floats(-30, 30), st.floats(-24, 24), st.floats(-20, 20))
def test_the_aircraft_is_symmetric(
    alpha: float, beta: float, elevator: float, surface: float
) -> None:
    """Mirrored sideslip mirrors what the symmetric tables give: CX, CZ and Cm stay."""
    right, left = clean(alpha, beta, elevator), clean(alpha, -beta, elevator)
    assert left[0:5:2] == pytest.approx(right[0:5:2], abs=1e-12)
    assert left[1] == pytest.approx(-right[1], abs=1e-12)
    assert left[3] == pytest.approx(-right[3], abs=1e-12)
    assert left[5] == pytest.approx(-right[5], abs=1e-12)
    one, none = clean(alpha, beta, elevator, surface), clean(alpha, beta, elevator)
    two = clean(alpha, beta, elevator, 2 * surface)
    assert np.subtract(two, none) == pytest.approx(2 * np.subtract(one, none), abs=1e-12)


@COMPILES
@given(st.floats(-20, 60), st.floats(-40, 40), st.floats(-30, 30))
def test_coefficients_are_continuous(alpha: float, beta: float, elevator: float) -> None:
    here, near = clean(alpha, beta, elevator), clean(alpha + 1e-7, beta + 1e-7, elevator + 1e-7)
    assert near == pytest.approx(here, abs=1e-6)


@COMPILES
@given(st.floats(0, 100), st.floats(-1e3, 3e4), st.floats(0, 2))
def test_thrust_grows_with_power(power: float, altitude: float, mach: float) -> None:
    """Up to 30,000 ft: near 50,000 ft the published idle thrust exceeds the military one."""
    more = min(power + 1.0, 100.0)
    assert thrust_lbf(more, altitude, mach) >= thrust_lbf(power, altitude, mach) - 1e-9


def test_what_the_law_reads_the_plant_gives() -> None:
    assert set(FEEDBACK.names) <= set(F16.outputs.names)
    for signal in FEEDBACK:
        assert F16.outputs[signal.name].unit == signal.unit
    assert LAW_OUTPUTS.names == F16.inputs.names


def test_figures_in_si() -> None:
    values = dict(zip(PARAMETERS.names, PARAMETERS.initial(), strict=True))
    assert values["mass"] == pytest.approx(9298.6, abs=0.1)
    assert values["ixz"] == pytest.approx(1331.4, abs=0.1)
    assert values["cg"] == 0.25


def test_unknown_case() -> None:
    with pytest.raises(UnknownName, match=r"did you mean 13\.4"):
        case("13")
    assert case(NAMES[0]).state.shape == (13,)
