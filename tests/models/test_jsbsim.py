"""Aircraft of JSBSim: trim, flight under an autopilot of rtsim, and wrong arguments."""

from __future__ import annotations

from typing import Any

import jsbsim
import numpy as np
import pytest

import rtsim as rt
from rtsim.core.errors import CheckpointError, ModelError, ScenarioError, UnknownName
from rtsim.models.jsbsim import JsbSim
from rtsim.runs import prepare

INPUTS = {"elevator": "fcs/elevator-cmd-norm", "aileron": "fcs/aileron-cmd-norm"}
OUTPUTS = {
    "altitude": "position/h-sl-ft", "climb": "velocities/h-dot-fps", "pitch": "attitude/theta-rad",
    "q": "velocities/q-rad_sec", "roll": "attitude/phi-rad", "p": "velocities/p-rad_sec",
    "throttle": "fcs/throttle-cmd-norm[0]", "alpha": "aero/alpha-rad",
}  # fmt: skip
CESSNA = ("c172p", {"ic/h-sl-ft": 5000.0, "ic/vc-kts": 100.0}, 1.0)
FALCON = ("f16", {"ic/h-sl-ft": 15000.0, "ic/vc-kts": 350.0}, 0.5)
Aircraft = tuple[str, dict[str, float], float]


class Hold(rt.Controller):
    """Holds an altitude by the elevator, and the wings level by the ailerons."""

    period = 0.02
    altitude = rt.input("ft")
    climb = rt.input("ft/s")
    pitch = rt.input("rad")
    q = rt.input("rad/s")
    roll = rt.input("rad")
    p = rt.input("rad/s")
    elevator = rt.output()
    aileron = rt.output()
    wanted = rt.parameter("ft")
    level = rt.parameter("rad")
    gain = rt.parameter("1", 1)
    sum = rt.memory("rad")

    def step(self) -> None:
        error = min(max(0.2 * (self.wanted - self.altitude), -10.0), 10.0) - self.climb
        self.sum = min(max(self.sum + 0.001 * self.period * error, -0.1), 0.1)
        pitch = self.level + min(max(0.008 * error + self.sum, -0.15), 0.15)
        self.elevator = -self.gain * (1.5 * (pitch - self.pitch) - 0.5 * self.q)
        self.aileron = -self.gain * (0.5 * self.roll + 0.1 * self.p)


def plane(aircraft: Aircraft, **options: Any) -> JsbSim:
    name, initial, _ = aircraft
    given: dict[str, Any] = {"inputs": INPUTS, "outputs": OUTPUTS, "initial": initial, **options}
    return JsbSim(name, **given)


def flight(aircraft: Aircraft, climb: float, until: float, **options: Any) -> rt.Scenario:
    """Return a flight that climbs by ``climb`` ft, in a closed loop."""
    model = plane(aircraft, **options)
    out = rt.Scenario(aircraft[0], until=until)
    sources: dict[str, Any] = {"elevator": "hold.elevator", "aileron": "hold.aileron"}
    out.plant("plane", model, step=0.01, inputs=sources)
    hold = Hold(
        wanted=model.trimmed["altitude"] + climb, level=model.trimmed["pitch"], gain=aircraft[2],
        elevator=model.trimmed["elevator"], aileron=model.trimmed["aileron"],
    )  # fmt: skip
    names = ("altitude", "climb", "pitch", "q", "roll", "p")
    out.controller("hold", hold, inputs={n: f"plane.{n}" for n in names}, transport=0.005)
    return out


def theirs(aircraft: Aircraft) -> Any:
    """Return JSBSim itself, trimmed at the same conditions."""
    name, initial, _ = aircraft
    fdm = jsbsim.FGFDMExec(jsbsim.get_default_root_dir())
    fdm.set_debug_level(0)
    fdm.load_model(name)
    for key, value in initial.items():
        fdm[key] = value
    fdm.run_ic()
    fdm.get_propulsion().init_running(-1)
    fdm.do_trim(1)
    return fdm


@pytest.mark.parametrize("aircraft", [CESSNA, FALCON], ids=["c172p", "f16"])
def test_the_trim_and_the_free_flight_are_those_of_jsbsim(aircraft: Aircraft) -> None:
    fdm, model = theirs(aircraft), plane(aircraft, in_process=True)
    assert model.trimmed == {n: fdm[p] for n, p in {**INPUTS, **OUTPUTS}.items()}
    free = rt.Scenario("free", until=0.5)
    free.plant("plane", model, step=0.1)
    run = rt.simulate(free)
    fdm.set_dt(0.1 / 12)
    for k in range(1, 6):
        for _ in range(12):
            fdm.run()
        assert run["plane.altitude"][k] == fdm["position/h-sl-ft"]
        assert run["plane.alpha"][k] == fdm["aero/alpha-rad"]


@pytest.mark.parametrize(
    ("aircraft", "until"),
    [
        pytest.param(CESSNA, 40.0, marks=pytest.mark.long, id="c172p"),
        pytest.param(FALCON, 40.0, marks=pytest.mark.long, id="f16"),
        pytest.param(FALCON, 3.0, id="f16-short"),
    ],
)
def test_an_autopilot_of_rtsim_flies_the_aircraft(aircraft: Aircraft, until: float) -> None:
    climb = 100.0
    run = rt.simulate(flight(aircraft, climb, until))
    gained = run["plane.altitude"] - run["plane.altitude"][0]
    assert abs(run["plane.roll"]).max() < 0.15
    if until > 30:
        assert gained[-1] == pytest.approx(climb, abs=6)
        assert gained.max() < climb + 10
    else:
        assert 3 < gained[-1] < 60


def test_runs_are_repeatable_and_initial_conditions_vary_in_prepared_runs() -> None:
    scenario = rt.Scenario("free", until=0.3)
    scenario.plant("plane", plane(FALCON, in_process=True), step=0.02)
    prepared = prepare(scenario)
    assert prepared.rebuilt == ()
    first = prepared.run().recording().digest()
    slower = prepared.run(set={"plane.ic_vc_kts": 300.0})
    alone = plane((FALCON[0], {**FALCON[1], "ic/vc-kts": 300.0}, 0.5), in_process=True)
    assert slower["plane.alpha"][0] == alone.trimmed["alpha"]
    assert prepared.run().recording().digest() == first


def test_a_constant_input_moves_its_control() -> None:
    def pitch(**inputs: float) -> float:
        model = plane(FALCON, in_process=True)
        given = {name: model.trimmed[name] + more for name, more in inputs.items()}
        out = rt.Scenario("free", until=0.5)
        out.plant("plane", model, step=0.02, inputs=given)
        return float(rt.simulate(out)["plane.pitch"][-1])

    assert pitch(elevator=0.0) == pitch()
    assert pitch(elevator=-0.2) > pitch() + 0.01


def test_a_flight_has_no_checkpoints_and_says_so() -> None:
    model = plane(FALCON, in_process=True)
    assert "no checkpoints" in model.interface.limits[0]
    scenario = rt.Scenario("free", until=1)
    scenario.plant("plane", model, step=0.02)
    with rt.Simulation(scenario) as simulation:
        simulation.advance(0.1)
        with pytest.raises(CheckpointError, match="plant plane: f16 cannot save its state"):
            simulation.save()


def test_wrong_arguments_are_errors_with_near_names() -> None:
    with pytest.raises(UnknownName, match=r"c172q.*c172"):
        JsbSim("c172q")
    with pytest.raises(UnknownName, match=r"elevator-cmd-nrom.*fcs/elevator-cmd-norm"):
        JsbSim("f16", inputs=["fcs/elevator-cmd-nrom"], in_process=True)
    with pytest.raises(ModelError, match=r"f16: .*elevator-cmd-nrom.*fcs/elevator-cmd-norm"):
        JsbSim("f16", inputs=["fcs/elevator-cmd-nrom"])
    with pytest.raises(ModelError, match=r"cannot trim c172p at ic/h-sl-ft = 80000"):
        JsbSim("c172p", initial={"ic/h-sl-ft": 80000.0, "ic/vc-kts": 100.0})
    for wrong in (float("nan"), "fast"):
        with pytest.raises(ScenarioError, match="of ic/vc-kts is not a finite number"):
            JsbSim("f16", initial={"ic/vc-kts": wrong})  # type: ignore[dict-item]
    with pytest.raises(UnknownName, match="unknown trim 'best'"):
        JsbSim("f16", trim="best")
    with pytest.raises(ScenarioError, match="alpha is both an input and an output"):
        JsbSim(
            "f16", inputs={"alpha": "fcs/elevator-cmd-norm"}, outputs={"alpha": "aero/alpha-rad"}
        )


def test_units_follow_from_the_names_of_properties() -> None:
    outputs = plane(FALCON, in_process=True).interface.outputs
    units = {name: outputs[name].unit for name in ("altitude", "climb", "pitch", "q", "throttle")}
    assert units == {
        "altitude": "ft",
        "climb": "ft/s",
        "pitch": "rad",
        "q": "rad/s",
        "throttle": "1",
    }
    assert np.isfinite(outputs.initial()).all()
