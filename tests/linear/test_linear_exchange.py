"""Linear systems to and from python-control and scipy.signal, and as blocks.

``rtsim linearise``: tables, JSON, the page, and refusals.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import control
import numpy as np
import pytest
import scipy.signal
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from rtsim import Scenario, StateSpace
from rtsim.blocks import Constant, Diagram, TransferFunction
from rtsim.blocks import StateSpace as StateSpaceBlock
from rtsim.cli import main
from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Signal, Signals
from rtsim.core.tag import Period
from rtsim.linear import linearise, margins, open_loop
from rtsim.linear.pages import bode_data
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
    with pytest.raises(ScenarioError, match=r"type pip install 'rtsim\[control\]'"):
        StateSpace(-1, 1, 1).to_control()


def called(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["linearise", *map(str, arguments)])


def test_tables() -> None:
    result = called("unstable")
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0].startswith(
        "plant at 0 s: 2 states, 1 inputs, 2 outputs; derivatives by complex"
    )
    assert any(line.split() == ["-1.41421", "1.41421", "1"] for line in lines)
    (row,) = (line for line in lines if line.startswith("controller.force"))
    assert "0.435418 to 5.00833" in row
    assert "49.72 deg" in row
    assert "236.1627 ms" in row


def test_json() -> None:
    found = json.loads(called("unstable", "--json").stdout)
    assert found["outcome"] == "passed"
    assert found["a"] == [[0.0, 1.0], [2.0, 0.0]]
    assert found["states"][1] == {"name": "v", "unit": "m/s"}
    (loop,) = found["loops"]
    assert loop["delay_margin"] == pytest.approx(0.2361627, abs=1e-7)
    assert loop["stable"] is True
    opened = json.loads(called("unstable", "--from", "controller.force", "--to", "plant.x",
                               "--json").stdout)["open_loop"]  # fmt: skip
    assert opened["period"] == 0.1
    assert opened["outputs"] == [{"name": "plant_x", "unit": "m"}]


SLOW = """
from rtsim import Model, PythonController, Scenario, Signals


def decays(t, x, z, u, p, dx):
    dx[0] = -x[0] + u[0]


def law(t, u, s, p, y):
    y[0] = -p[0] * u[0]
    y[1] = -0.1 * p[0] * u[0]


def scenario(gain=2.0, both=False):
    out = Scenario("slow", until=1)
    model = Model("lag", Signals("x = 1"), decays, inputs=Signals("u"))
    out.plant("lag", model, step=0.02, inputs={"u": "law.y"})
    laws = PythonController(law, Signals("x"), Signals("y", "w"), parameters=Signals(f"k = {gain}"))
    out.controller("law", laws, period=0.02, inputs={"x": "lag.x"})
    if both:
        out.plant("other", model, step=0.02, inputs={"u": "law.w"})
    return out
"""


@pytest.mark.long
def test_a_delay_margin_that_is_not_found_says_how_far_the_search_went(tmp_path: Path) -> None:
    path = tmp_path / "slow.py"
    path.write_text(SLOW)

    def loops(*arguments: str) -> dict[str, dict[str, Any]]:
        found = json.loads(called(path, "--plant", "lag", "--json", *arguments).stdout)["loops"]
        return {loop["loop"]: loop for loop in found}

    long = loops()["law.y"]
    assert long["delay_margin"] == pytest.approx(1.1991, abs=1e-3)  # 60 periods
    assert long["delay_searched"] is None
    small = loops("--set", "gain=0.9")["law.y"]
    assert (small["delay_margin"], small["delay_problem"]) == (None, "none: gain < 1")
    above = loops("--set", "gain=0.9", "--slow", "0.1")["law.y"]
    assert above["delay_problem"] == "none: gain < 1 above 0.1 rad/s"
    several = called(path, "--plant", "lag", "--from", "law", "--set", "gain=1.05")
    assert "none found up to 1.1" in several.output
    several_json = loops("--from", "law", "--set", "gain=1.05")["law"]
    assert several_json["delay_searched"] == pytest.approx(1.15, abs=0.06)


@pytest.mark.long
def test_a_crossover_that_is_too_slow_for_the_search_is_not_called_none(tmp_path: Path) -> None:
    path = tmp_path / "drift.py"
    path.write_text(SLOW.replace("-x[0] + u[0]", "u[0]"))
    slow = called(path, "--plant", "lag", "--set", "gain=1e-5")
    assert "157079622" in slow.output  # ms: pi / 2 / gain, less half a period
    hidden = called(path, "--plant", "lag", "--set", "gain=1e-13")
    assert "none above 1.57e-11 rad/s" in hidden.output
    assert "none found up to 1.15368 s" in hidden.output
    assert "gain < 1" not in hidden.output
    found = json.loads(called(path, "--plant", "lag", "--set", "gain=1e-13", "--json").stdout)
    assert found["loops"][0]["crossings_searched_above"] == pytest.approx(1.57e-11, rel=1e-2)


@pytest.mark.long
def test_a_plant_whose_loops_have_no_linear_model_still_has_poles(tmp_path: Path) -> None:
    furnace = called("job-shop", "--plant", "furnace_1")
    assert furnace.exit_code == 0, furnace.output
    assert "note: no margins: no component of the scenario samples a signal" in furnace.output
    path = tmp_path / "tanks.py"
    path.write_text(TANKS)
    tanks = called(path)
    assert tanks.exit_code == 0, tanks.output
    assert any(line.split()[0] == "-0.292893" for line in tanks.output.splitlines() if line.split())
    assert "note: no margins: model tanks has algebraic variables" in tanks.output
    asked = called(path, "--from", "pump.flow")
    assert asked.exit_code == 2
    assert "which an open loop of a scenario cannot have" in asked.output


TANKS = """
from rtsim import Model, PythonController, Scenario, Signals


def fills(t, x, y, z, u, p, dx):
    dx[0] = u[0] - y[0]
    dx[1] = y[0] - x[1]


def pipe(t, x, y, z, u, p, r):
    r[0] = y[0] * abs(y[0]) + y[0] - (x[0] - x[1])


def law(t, u, s, p, y):
    y[0] = 0.5 - 0.1 * (u[0] - 1.25)


def scenario():
    out = Scenario("tanks", until=3)
    states, flow = Signals("h1 = 1.25", "h2 = 0.5"), Signals("flow")
    model = Model(
        "tanks", states, fills, inputs=Signals("inflow"), algebraic=flow, residual=pipe
    )
    out.plant("tanks", model, step=0.1, inputs={"inflow": "pump.flow"})
    pump = PythonController(law, Signals("level"), Signals("flow"))
    out.controller("pump", pump, period=0.1, inputs={"level": "tanks.h1"})
    return out
"""


def test_the_f16() -> None:
    result = called("f16", "--set", "autopilot_on=false", "--slow", "0.05", "--from",
                    "autopilot.elevator")  # fmt: skip
    assert "15.8239 ms" in result.output
    assert "-1.13124 ± 2.23332i" in result.output


def test_an_unstable_loop_is_called_unstable() -> None:
    (row,) = (
        line
        for line in called("unstable", "--set", "latency=0.3").output.splitlines()
        if line.startswith("controller.force")
    )
    assert row.split()[1:] == ["unstable", "unstable", "unstable", "-"]


def test_the_page(tmp_path: Path) -> None:
    page = tmp_path / "loops.html"
    result = called("unstable", "-o", page)
    assert result.exit_code == 0, result.output
    assert f"page: {page}" in result.output
    text = page.read_text(encoding="utf-8")
    names = ("Margins", "Bode: controller.force", "Nichols: controller.force", "Poles of the plant")
    places = [text.index(f"<h2>{name}</h2>") for name in names]
    assert places == sorted(places)  # the result comes first
    for shown in ("236.1627 ms", "49.72 deg", "0.435418 to 5.00833", "-1.41421"):
        assert shown in text
    assert "complex step" in text


def test_the_plots_begin_at_the_frequency_below_which_margins_see_nothing() -> None:
    loop = open_loop(unstable(), "controller.force").system
    omega, gain, phase = bode_data(loop, slow=0.5)
    assert 0.5 <= omega[0] < 0.52
    assert len(omega) == len(gain) == len(phase) > 100
    assert len(bode_data(loop, slow=1e9)[0]) > 10  # some of the plot remains


def test_the_drawn_loop_crosses_where_the_margins_are() -> None:
    loop = open_loop(unstable(), "controller.force").system
    found = margins(loop, feedback=1.0)
    omega, gain, phase = bode_data(loop)
    assert np.interp(found.crossover, omega, gain) == pytest.approx(0.0, abs=0.05)
    assert np.interp(found.crossover, omega, phase) == pytest.approx(
        -180.0 + found.phase_deg, abs=0.1
    )


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            ("unstable", "--plant", "plan"),
            "unknown plant 'plan' in scenario unstable; did you",
        ),
        (("unstable", "--to", "plant.x"), "--to needs --from"),
        (("unstable", "--from", "controler"), "unknown component 'controler' in the loop; did you"),
        (("unstable", "--at", "-1"), "is before the start of the run"),
        (("ball", "-o", "x.html"), "there is no open loop with one signal to draw; give --from"),
    ],
)
def test_refusals(arguments: tuple[str, ...], problem: str) -> None:
    result = called(*arguments)
    assert result.exit_code == 2
    assert problem in result.output
