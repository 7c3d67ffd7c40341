"""The check of signs between a vehicle and an autopilot, with each sign reversed once."""

from __future__ import annotations

import json
from copy import copy
from dataclasses import replace
from typing import Any

import pytest
from click.testing import CliRunner, Result

import rtsim as rt
from hitl.cli.wiring import wiring
from hitl.programs.ardupilot import ArduPilot
from hitl.programs.autopilots import AUTOPILOTS
from hitl.programs.axes import QUAD_X, Actuator, Axes, Sense, rotor
from hitl.programs.betaflight import Betaflight
from hitl.programs.mavlink import MavlinkHil
from hitl.programs.wiring import OK, OPEN, WRONG, Movement, Movements, Wiring, check_wiring
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.models.aerosonde import Aerosonde, SteadyFlight
from rtsim.models.body import body_states, drawn, initial_state
from rtsim.models.quadcopter import STANDS, Quadcopter

CHANNELS = {"channels": [1500.0] * 16}


def quad(controller: Any, wires: dict[str, str] | None = None) -> rt.Scenario:
    """A quadcopter on the ground, heading north-east, with an autopilot."""
    loop = rt.Scenario("quad", until=10)
    state = initial_state(latitude=0.6286, longitude=-1.3207, altitude=STANDS, euler=(0, 0, 0.7))
    loop.plant("quad", Quadcopter(**body_states(state)), step=0.0025)
    given: dict[str, Any] = dict(CHANNELS) if "channels" in controller.inputs else {}
    if wires is not None:
        names = [name for name in controller.inputs.names if name not in given]
        given |= {name: f"quad.{wires.get(name, name)}" for name in names if name[-4:] != "time"}
    loop.controller("fc", controller, period=0.0025, compute=rt.Fixed(0.0005), inputs=given)
    if wires is None:
        loop.connect("quad", "fc")
    else:
        loop.connect("fc.throttle", "quad.throttle")
    loop.show(drawn("quad", "quadcopter", 0.5))
    return loop


@pytest.fixture(scope="module")
def right() -> Movements:
    """The movements of a quadcopter that is wired correctly."""
    return Movements(quad(Betaflight("/bin/true")))


def _wrong(found: Wiring) -> list[str]:
    assert not found.of(OPEN)
    return [f"{one.subject}: {one.found}" for one in found.of(WRONG)]


def test_betaflight_is_wired_correctly(right: Movements) -> None:
    found = right.findings()
    assert found.ok
    assert len(found.findings) == 32
    assert {one.verdict for one in found.findings} == {OK}


SIGNALS = [
    *(f"rates[{k}]" for k in range(3)), *(f"specific_force[{k}]" for k in range(3)),
    *(f"attitude_ned[{k}]" for k in range(1, 4)), "velocity_north", "velocity_east",
    "velocity_down", "latitude", "longitude", "altitude", "pressure",
]  # fmt: skip


class _Reversed:
    """A run whose input has one element with the opposite sign, or with a factor."""

    def __init__(self, run: Movement, signal: str, element: int, factor: float = -1.0) -> None:
        self._run, self._signal, self._element, self._factor = run, signal, element, factor

    def input(self, sense: Sense) -> Any:
        values = self._run.input(sense).copy()
        if sense.signal == self._signal:
            values[self._element] *= self._factor
        return values

    def __getattr__(self, name: str) -> Any:
        return getattr(self._run, name)


def _with(right: Movements, signal: str, element: int, factor: float = -1.0) -> Wiring:
    out = copy(right)
    out.still = _Reversed(right.still, signal, element, factor)  # type: ignore[assignment]
    out.moved = [_Reversed(one, signal, element, factor) for one in right.moved]  # type: ignore[misc]
    return out.findings()


@pytest.mark.parametrize("place", SIGNALS)
def test_each_reversed_input_is_named(right: Movements, place: str) -> None:
    signal, _, element = place.removesuffix("]").partition("[")
    assert _wrong(_with(right, signal, int(element or 0))) == [f"fc.{place}: the opposite sign"]


@pytest.mark.parametrize("actuator", range(4))
@pytest.mark.parametrize("motion", ["roll", "pitch", "yaw", "climb"])
def test_each_reversed_reaction_of_a_motor_is_named(
    right: Movements, actuator: int, motion: str
) -> None:
    changed = copy(right)
    actuators = list(right.axes.actuators)
    one = actuators[actuator]
    actuators[actuator] = replace(one, effects={**one.effects, motion: -one.effects[motion]})
    changed.axes = replace(right.axes, actuators=tuple(actuators))
    (said,) = _wrong(changed.findings())
    assert said.startswith(f"{one.name} (fc.throttle[{actuator}]): {motion} ")


def test_permuted_motors_are_named(right: Movements) -> None:
    changed = copy(right)
    changed.moved = [right.moved[k] for k in (1, 0, 2, 3)]
    said = _wrong(changed.findings())
    assert "front right (fc.throttle[0]): roll to the right; reacts as rear left" in said
    assert "rear left (fc.throttle[1]): pitch nose up; reacts as front right" in said
    assert all("front left" not in one.partition(":")[0] for one in said)


def test_units_and_exchanged_axes_are_named(right: Movements) -> None:
    (said,) = _wrong(_with(right, "rates", 1, 57.3))
    assert said == "fc.rates[1]: the input is 57.3 times the quantity: check its unit"
    (said,) = _wrong(_with(right, "rates", 2, 0.0))
    assert said == "fc.rates[2]: the input does not change"
    exchanged = copy(right)
    senses = Sense("rates", "rate", ("right", "back", "down"), "rad/s"), *right.axes.senses[1:]
    exchanged.axes = replace(right.axes, senses=senses)
    assert _wrong(exchanged.findings()) == [
        "fc.rates[0]: the input follows the axis forward",
        "fc.rates[1]: the input follows the axis right",
    ]  # fmt: skip


def test_wires_of_a_scenario_that_are_exchanged() -> None:
    wires = {"velocity_north": "velocity_east", "velocity_east": "velocity_north"}
    found = check_wiring(quad(ArduPilot("/bin/true"), wires))
    assert found.in_words.startswith("2 wrong: ")
    assert "fc.velocity_north: expected velocity north, found: the input" in found.in_words
    assert "fc.velocity_east: expected velocity east, found: the input" in found.in_words
    assert _wrong(found) == [
        "fc.velocity_north: the input follows the axis east",
        "fc.velocity_east: the input follows the axis north",
    ]  # fmt: skip


@pytest.mark.parametrize("controller", [ArduPilot("/bin/true"), "mavlink"])
def test_other_autopilots_are_wired_correctly(controller: Any) -> None:
    if controller == "mavlink":
        pytest.importorskip("pymavlink", reason="needs rtsim[mavlink]")
        controller = MavlinkHil("mavlink://udp/127.0.0.1:9")
    found = check_wiring(quad(controller))
    assert found.ok
    places = {one.subject.partition("[")[0] for one in found.findings}
    assert places >= {"fc.rates", "fc.specific_force", "fc.latitude", "fc.altitude"}


def test_a_vehicle_that_does_not_move_is_not_decided() -> None:
    resting = Betaflight("/bin/true")
    resting.axes = replace(
        Betaflight.axes,
        actuators=tuple(replace(one, rest=0.1) for one in Betaflight.axes.actuators),
    )
    found = check_wiring(quad(resting))
    assert not found.ok
    assert found.of(OPEN)
    assert any("velocity_north" in one.subject for one in found.of(OPEN))


def test_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(scenario: rt.Scenario, *options: str) -> Result:
        monkeypatch.setattr("rtsim.scenario.loading.load_scenario", lambda *_: scenario)
        return CliRunner().invoke(wiring, ["quad.py", *options])

    found = run(quad(Betaflight("/bin/true")))
    assert (found.exit_code, "all 32 signs are right" in found.output) == (0, True)
    assert "not checked, because no direction is declared: fc.channels" in found.output
    wires = {"velocity_north": "velocity_east", "velocity_east": "velocity_north"}
    found = run(quad(Betaflight("/bin/true"), wires), "--json")
    assert found.exit_code == 1
    said = json.loads(found.output)
    assert said["why"].startswith("2 wrong: fc.velocity_north: expected velocity north, found")
    assert {one["verdict"] for one in said["findings"]} == {OK, WRONG}
    assert said["unchecked"] == ["fc.channels"]


def test_the_axes_of_an_autopilot_in_the_command() -> None:
    found = CliRunner().invoke(wiring, ["--axes", "betaflight"])
    assert found.exit_code == 0
    assert "rates[0]" in found.output
    assert "rad/s" in found.output
    assert "front right: climb up, yaw nose right, roll to the left, pitch nose up" in found.output
    found = CliRunner().invoke(wiring, ["--axes", "betafligt"])
    assert found.exit_code == 2
    assert "unknown autopilot 'betafligt'; did you mean betaflight" in found.output


def test_scenarios_that_cannot_be_checked() -> None:
    loop = quad(Betaflight("/bin/true"))
    with pytest.raises(UnknownName, match="unknown autopilot 'radio'"):
        check_wiring(loop, "radio")
    with pytest.raises(UnknownName, match="unknown body 'kite'"):
        check_wiring(loop, body="kite")
    hidden = rt.Scenario("hidden", until=1)
    with pytest.raises(
        ScenarioError, match=r"no controller with declared axes; .* declare the attribute axes"
    ):
        check_wiring(hidden)
    unknown = Betaflight("/bin/true")
    unknown.axes = Axes(actuators=(QUAD_X[0].at("thrust", 0),))
    with pytest.raises(UnknownName, match="unknown output 'thrust'"):
        check_wiring(quad(unknown))
    unknown.axes = Axes(actuators=(QUAD_X[0].at("throttle", 4),))
    with pytest.raises(ScenarioError, match="is element 4 of throttle, which has 4"):
        check_wiring(quad(unknown))
    unknown.axes = replace(Betaflight.axes, senses=(Sense("rates", "rate", ("forward", "right")),))
    with pytest.raises(ScenarioError, match=r"rates has 3 elements, and 2 directions are declared"):
        check_wiring(quad(unknown))
    unknown.axes = Axes()
    with pytest.raises(ScenarioError, match="name no actuators"):
        check_wiring(quad(unknown))


def test_an_autopilot_of_another_package() -> None:
    class Paparazzi(Betaflight):
        axes = Axes(
            Betaflight.axes.senses, (Actuator("lift", "throttle", 0, effects={"climb": 1}),)
        )

    AUTOPILOTS.add("paparazzi", Paparazzi)
    assert AUTOPILOTS["paparazzi"].axes.actuators[0].reactions == ["climb up"]
    assert "paparazzi" in AUTOPILOTS
    found = CliRunner().invoke(wiring, ["--axes", "paparazzi"])
    assert "lift: climb up" in found.output
    with pytest.raises(ScenarioError, match="rtsim's own and cannot be replaced"):
        AUTOPILOTS.add("betaflight", Paparazzi)
    with pytest.raises(ScenarioError, match="expected a class of controllers"):
        AUTOPILOTS.add("none", 3)  # type: ignore[arg-type]
    with pytest.raises(ScenarioError, match="has no attribute axes of type Axes"):
        AUTOPILOTS.add("none", rt.PythonController)  # type: ignore[arg-type]


def test_directions_that_do_not_exist() -> None:
    with pytest.raises(UnknownName, match="forward"):
        Sense("rates", "rate", ("foward", "right", "down"))
    with pytest.raises(UnknownName, match="unknown quantity 'speed'"):
        Sense("rates", "speed", ("forward",))
    with pytest.raises(UnknownName, match="unknown motion 'rol'"):
        Actuator("one", effects={"rol": 1})
    with pytest.raises(ScenarioError, match="the sign of roll is 2"):
        Actuator("one", effects={"roll": 2})
    with pytest.raises(ScenarioError, match="seen from above"):
        rotor("one", 1, 1, "clockwise")


class Servos(Aerosonde):
    """The Aerosonde with servos from -1 to 1, in the directions of Beard and McLain."""

    elevator = rt.input("1")
    aileron = rt.input("1")
    rudder = rt.input("1")


def test_an_aeroplane_with_other_directions_than_ardupilot() -> None:
    """The book's elevator pitches the nose down, and its rudder yaws to the left."""
    loop = rt.Scenario("plane", until=10)
    loop.plant("plane", Servos(), step=0.005)
    controller = ArduPilot("/bin/true", frame="plane")
    given: dict[str, Any] = dict(CHANNELS)
    loop.controller("fc", controller, period=0.02, inputs=given)
    loop.connect("plane", "fc")
    level = SteadyFlight(latitude=0.6, longitude=0.0, altitude=200.0).trim()
    level.set_in(loop, "plane")
    loop.show(drawn("plane", "aircraft", 2.9))
    assert _wrong(check_wiring(loop)) == [
        "elevator (fc.elevator[0]): pitch nose down", "rudder (fc.rudder[0]): yaw nose left",
    ]  # fmt: skip
