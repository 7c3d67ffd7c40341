"""What a scenario declares of vehicles, and what of it is refused."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from vehicle_parts import about, moment, picture

from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Signals
from rtsim.equations.model import Model
from rtsim.pilot.playback import Playback
from rtsim.pilot.scenes.bodies import BodyScene
from rtsim.pilot.scenes.hud import declared
from rtsim.scenario.body import Body
from rtsim.scenario.scenario import Scenario
from rtsim.scenario.shown import Cue, Hud
from rtsim.testing.determinism import trace_of

# -- the declaration


def test_elements_are_signals_negatives_of_signals_and_numbers() -> None:
    body = Body("it", north_east_down=("a.n", 7.0, "-a.e"), euler=(0.0, 0.0, "a.yaw"), shape="car")
    assert body.signals == ("a.n", "a.e", "a.yaw")
    assert body.length == 4.5
    assert Body.from_plain(body.to_plain()) == body
    scene = BodyScene({"bodies": [body.to_plain()]})
    shown = moment(3.0, 5.0, math.nan, math.nan, math.nan, 0.0)
    assert len(np.unique(picture(scene, shown).reshape(-1, 3), axis=0)) > 30
    assert scene._drawn is not None
    values = shown.plants["a"].values
    seen = scene._drawn[0].seen(values, 0.0 * values, scene._world)  # type: ignore[arg-type]
    assert seen is not None
    assert seen.at.place.tolist() == [3.0, 7.0, -5.0]
    with pytest.raises(ScenarioError, match="nan gives no position or attitude; write"):
        Body("it", north_east_down=(math.nan, 0.0, 0.0), euler=(0.0, 0.0, 0.0))


def motion(t: float, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
    dx[0] = x[1]
    dx[1] = -9.81


FALLING = Model("fall", Signals("height [m] = 9", "speed [m/s]"), derivative=motion)


def falling(*items: Any) -> Scenario:
    out = Scenario("fall", until=0.02)
    out.plant("stone", FALLING, step=0.01)
    out.show(*items)
    return out


STONE = Body("stone", north_east_down=(0.0, 0.0, "-stone.height"), euler=(0.0, 0.0, 0.0))


@pytest.mark.parametrize(
    ("item", "told"),
    [
        (Body("it", north_east_down=("stone.hight", 0, 0), euler=(0, 0, 0)),
         "unknown signal 'stone.hight' in body it; did you mean stone.height"),
        (Body("it", north_east_down=("stone.speed", 0, 0), euler=(0, 0, 0)),
         r"body it: signal stone.speed has the unit \[m/s\]; expected one of m"),
        (Hud("stone.sped"), "unknown signal 'stone.sped' in hud; did you mean stone.speed"),
        (Cue("low", "stone.hight", horn=1.0), "unknown signal 'hight' in cue low, stone"),
    ],
)  # fmt: skip
def test_each_command_refuses_a_wrong_signal_because_build_does(item: Any, told: str) -> None:
    with pytest.raises(ScenarioError, match=told):
        falling(item).build()
    with pytest.raises(ScenarioError, match=told):
        trace_of(falling(item))


def test_a_number_of_the_display_says_what_is_wrong_with_it() -> None:
    assert Hud.from_plain(Hud("a.b", unit="km/h", factor=3.6).to_plain()).factor == 3.6
    for wrong, told in (
        ({"signal": "speed"}, "is not of the form"),
        ({"signal": "a.b", "factor": 2.0}, "factor 2 changes the unit; give unit="),
        ({"signal": "a.b", "factor": 0.0}, "must be a finite number other than 0"),
        ({"signal": "a.b", "digits": 9}, "digits 9 must be 0 to 6"),
        ({"signal": "a.b", "digits": "x"}, "is not a valid hud"),
        ({"signal": "a.b", "side": "top"}, "unknown side 'top'"),
    ):
        with pytest.raises(ScenarioError, match=told):
            Hud.from_plain(wrong)


def test_a_number_is_shown_in_its_own_unit() -> None:
    fast = declared(Hud("car.speed", unit="km/h", factor=3.6, digits=1), 10.0)
    assert (fast.text, fast.number, fast.unit) == ("speed", "36.0", "km/h")
    assert declared(Hud("car.speed", text="v"), -2.4).number == "-2"
    assert declared(Hud("car.speed"), math.nan).number == "---"


def test_the_declared_numbers_are_drawn_instead_of_speed_and_height() -> None:
    shown = moment(0, 0, -9, 0, 0, 0)
    plain = picture(BodyScene(about()), shown)
    numbers = picture(BodyScene(about(hud=[Hud("a.d", text="depth", digits=2).to_plain()])), shown)
    left, right = (slice(20, 160), slice(150, 180)), (slice(480, 620), slice(150, 180))
    assert (plain[left] != numbers[left]).any()
    green = (numbers[right] == (96, 255, 128)).all(axis=2)
    assert not green.any(), "nothing is declared for the right side"
    assert (plain[right] == (96, 255, 128)).all(axis=2).any()


def test_a_recording_is_shown_as_its_run_was_and_an_old_one_shows_its_bodies() -> None:
    recording = trace_of(falling(STONE, Hud("stone.speed")))
    shown = Playback(recording).about
    assert shown["scene"] == "bodies"
    assert shown["hud"][0]["signal"] == "stone.speed"
    picture(BodyScene(shown), Playback(recording).at(10_000_000, 0))
    header = {**recording.header, "bodies": [STONE.to_plain()]}
    header.pop("shown")
    assert Playback(replace(recording, header=header)).about["scene"] == "bodies"
    asked = falling(STONE)
    asked.show(scene="strips")
    assert Playback(trace_of(asked)).about["scene"] == "strips"
