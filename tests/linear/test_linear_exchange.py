"""Linear systems to and from python-control and scipy.signal, and as blocks."""

from __future__ import annotations

import math
import sys

import control
import numpy as np
import pytest
import scipy.signal
from hypothesis import given, settings
from hypothesis import strategies as st

from rtsim import Scenario, StateSpace
from rtsim.blocks import Constant, Diagram, TransferFunction
from rtsim.blocks import StateSpace as StateSpaceBlock
from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Signal, Signals
from rtsim.core.tag import Period
from rtsim.linear import linearise, margins, open_loop
from rtsim.models.f16.plant import F16
from rtsim.models.f16.scenario import case
from rtsim.models.unstable import scenario as unstable
from rtsim.testing.determinism import trace_of

UNITS = ("1", "m", "rad/s", "N/kg", "%")


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_a_round_trip_is_exact(data: st.DataObject) -> None:
    n, m, r = (data.draw(st.integers(0 if i == 0 else 1, 4)) for i in range(3))
    number = st.floats(-1e9, 1e9, allow_nan=False)

    def matrix(rows: int, columns: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        listed = data.draw(st.lists(number, min_size=rows * columns, max_size=rows * columns))
        return np.array(listed, float).reshape(rows, columns)

    def names(letter: str, size: int) -> Signals:
        unit = data.draw(st.sampled_from(UNITS))
        return Signals(*(Signal(f"{letter}{i}", unit) for i in range(size)))

    period = data.draw(st.sampled_from([None, Period.of("0.1"), Period.of("1/60")]))
    given_system = StateSpace(
        matrix(n, n), matrix(n, m), matrix(r, n), matrix(r, m),
        names("x", n), names("u", m), names("y", r), period,
    )  # fmt: skip
    assert StateSpace.of(given_system.to_control()) == given_system


def test_the_f16_and_a_loop_survive_the_round_trip() -> None:
    aircraft = linearise(F16, at=case("11").trim.values)
    theirs = aircraft.to_control()
    assert theirs.state_labels[3] == "velocity_0 [m/s]"
    assert StateSpace.of(theirs) == aircraft
    assert aircraft != StateSpace.of(2 * theirs)
    loop = open_loop(unstable(), "controller.force").system
    assert StateSpace.of(loop.to_control()) == loop


@pytest.mark.filterwarnings("ignore")  # of python-control's methods
def test_margins_are_those_of_python_control() -> None:
    for theirs in (
        control.tf([3], [1, 3, 3, 1]),
        control.tf([10, 5], [1, 2, 10, 0]),
        control.c2d(control.tf([3], [1, 3, 3, 1]), 0.05),
    ):
        gain, phase, _, crossing = control.margin(theirs)
        ours = margins(StateSpace.of(theirs))
        assert ours.gain_high == pytest.approx(gain, rel=1e-6)
        assert ours.phase_deg == pytest.approx(phase, rel=1e-6)
        assert ours.crossover == pytest.approx(crossing, rel=1e-6)
        assert ours.delay == pytest.approx(math.radians(phase) / crossing, rel=1e-6)


def test_the_delay_margin_of_a_resonance() -> None:
    """Source: |L| = 1 at (1 - w^2)^2 = (0.21^2 - 0.2^2) w^2, where the phase is acos(1 / 1.05)."""
    found = margins(StateSpace.of(control.tf([0.21, 0], [1, 0.2, 1])))
    half = math.sqrt(0.21**2 - 0.2**2) / 2
    crossover = half + math.sqrt(1 + half * half)
    assert found.crossover == pytest.approx(crossover, rel=1e-9)
    assert found.delay == pytest.approx((math.pi - math.acos(1 / 1.05)) / crossover, rel=1e-9)


def test_a_loop_whose_gain_stays_above_1_bears_no_delay() -> None:
    found = margins(StateSpace.of(control.tf([2, 0], [1, 1])))
    assert found.stable
    assert found.delay == 0.0


def test_responses_and_poles_are_those_of_python_control() -> None:
    system = linearise(F16, at=case("11").trim.values).part(outputs=["pitch_deg", "alpha_deg"])
    theirs = system.to_control()
    omega = np.array([0.3, 2.0, 30.0])
    ours = system.response(omega)
    for k, w in enumerate(omega):
        np.testing.assert_allclose(ours[k], theirs(1j * w), rtol=1e-9)
    assert system.sampled("0.02").a == pytest.approx(control.c2d(theirs, 0.02).A, rel=1e-9)
    (pole,) = StateSpace([[0.0, 1.0], [-4.0, -0.4]], [0.0, 1.0], [1.0, 0.0]).poles
    assert (pole.frequency, pole.damping) == pytest.approx((2.0, 0.1))


SYSTEMS = (
    control.tf([1], [1, 1]),
    control.ss([[-1.0]], [[1.0]], [[1.0]], 0),
    scipy.signal.TransferFunction([1], [1, 1]),
    scipy.signal.StateSpace(-1, 1, 1, 0),
    control.c2d(control.tf([1], [1, 1]), 0.1),
    StateSpace([[-1.0]], [[1.0]], [[1.0]]),
    StateSpace([[-1.0]], [[1.0]], [[1.0]]).sampled("0.1"),
)  # fmt: skip


def test_diagrams_take_linear_systems_as_blocks() -> None:
    d = Diagram("both")
    d.add("one", Constant(1.0))
    for i, system in enumerate(SYSTEMS):
        d.output(d.add(f"b{i}", system, "one"), f"y{i}")
    out = Scenario("blocks", until=1)
    out.plant("p", d.model(), step=0.01)
    recording = trace_of(out, compile=False)
    for i in range(len(SYSTEMS)):
        assert recording[f"p.y{i}"][-1] == pytest.approx(1 - math.exp(-1), rel=1e-9), i
    assert d.blocks["b0"].label == "1 / (s + 1)"  # type: ignore[union-attr]
    assert d.blocks["b6"].label == "StateSpace 0.1 s"  # type: ignore[union-attr]
    assert TransferFunction(SYSTEMS[4]).label == "0.0951626 / (z - 0.904837)"


def test_units_of_a_linear_model_are_those_of_the_block() -> None:
    block = StateSpaceBlock(linearise(unstable(), plant="plant", compile=False).part(outputs=["v"]))
    assert [p.unit for p in (block.inputs[0], block.outputs[0])] == ["N/kg", "m/s"]


@pytest.mark.parametrize(
    ("given_system", "problem"),
    [
        (control.tf([1], [1, 1], True), r"has no sample period \(dt=True\); give its dt in s"),
        (control.tf([2], [1]), "the degree of the denominator must be at least 1"),
        (control.ss([], [], [], [[2.0]]), "the system has no states; use a Gain"),
        (control.tf([[[1], [1]]], [[[1, 1], [1, 2]]]), "several inputs or outputs; convert it"),
    ],
)
def test_systems_that_cannot_be_blocks(given_system: object, problem: str) -> None:
    with pytest.raises(ScenarioError, match=problem):
        Diagram("d").add("b", given_system)


def test_something_else() -> None:
    with pytest.raises(ScenarioError, match="int is not a linear system; give a StateSpace, or"):
        StateSpace.of(3)
    with pytest.raises(ScenarioError, match="StateSpace: give the matrices a, b and c, or a lin"):
        StateSpaceBlock([[1.0]])
    with pytest.raises(ScenarioError, match="TransferFunction: give numerator and denominator, or"):
        TransferFunction([1.0])


def test_without_python_control(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "control", None)
    with pytest.raises(ScenarioError, match=r"type: pip install 'rtsim\[control\]'"):
        StateSpace(-1, 1, 1).to_control()
