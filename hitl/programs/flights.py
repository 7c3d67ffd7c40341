"""A flight of Betaflight: the quadcopter above the runway, with the sticks of a radio."""

from __future__ import annotations

import numpy as np

import rtsim as rt
from hitl.programs.betaflight import Betaflight
from rtsim.models.body import body_states, drawn, initial_state
from rtsim.models.quadcopter import STANDS, Quadcopter
from rtsim.models.terrain import AIRFIELD
from rtsim.models.units import DEG

CENTRE, LOW, HIGH, ARMED = 1500, 1000, 2000, 1800
"""Channels of the radio, us: sticks in the middle, at their ends, and switches that are on."""
HOVER = 1545
"""Channel of the throttle at which the quadcopter climbs slowly, us."""
_ARM_S, _TAKE_OFF_S, _MOVES_S, _STEP_S, _BACK_S = 0.5, 1.0, 1.3, 4.0, 5.0
_RADIO_S = 0.02
"""Period of the radio, s."""
_LONGEST_S = 1.5
"""Longest time between two random movements of the sticks, s."""


def channels(
    roll: int = CENTRE, pitch: int = CENTRE, throttle: int = LOW, yaw: int = CENTRE,
    *, arm: int = ARMED, angle: int = ARMED,
) -> list[int]:  # fmt: skip
    """Return the 16 channels of the radio, us."""
    return [roll, pitch, throttle, yaw, arm, angle, *[LOW] * 10]


def _sticks(loop: rt.Scenario, flight: int, seconds: float, angle: int) -> None:
    """Move the sticks: take off, and then a step in roll, or random movements."""
    loop.at(_ARM_S, "radio.channels", channels(angle=angle))
    loop.at(_TAKE_OFF_S, "radio.channels", channels(throttle=HOVER + 55, angle=angle))
    if not flight:
        loop.at(_STEP_S - 1, "radio.channels", channels(throttle=HOVER))
        loop.at(_STEP_S, "radio.channels", channels(CENTRE + 200, throttle=HOVER))
        loop.at(_BACK_S, "radio.channels", channels(throttle=HOVER))
        return
    draw = np.random.default_rng(flight)
    time = _MOVES_S
    while time < seconds:
        roll, pitch, yaw = (int(v) for v in draw.integers(CENTRE - 150, CENTRE + 151, 3))
        throttle = int(draw.integers(HOVER - 40, HOVER + 81))
        loop.at(round(time, 3), "radio.channels", channels(roll, pitch, throttle, yaw, angle=angle))
        time += float(draw.uniform(0.2, _LONGEST_S))


def scenario(
    delay: float = 0.0,
    flight: int = 0,
    acro: bool = False,
    p_roll: int = 45,
    d_roll: int = 30,
    seconds: float = 20.0,
    period: float = 0.0025,
    program: str = "",
) -> rt.Scenario:
    """Return a flight of the Hummingbird with Betaflight.

    Args:
        delay: Time that a command needs to the motors, s.
        flight: Number of a flight with random sticks; 0 is a step in roll, at 4 s.
        acro: If True, the sticks of a random flight set rates instead of angles.
        p_roll: Gains of the roll rate, as Betaflight's command line names them.
        d_roll: As ``p_roll``.
        seconds: Length of the flight, s.
        period: Period of the packets of the vehicle, s.
        program: Path of Betaflight's SITL program, instead of the package ``betaflight``.
    """
    loop = rt.Scenario("betaflight", until=seconds)
    latitude, longitude, course = (value * DEG for value in AIRFIELD)
    state = initial_state(
        latitude=latitude, longitude=longitude, altitude=STANDS, euler=(0.0, 0.0, course)
    )
    loop.plant("quad", Quadcopter(**body_states(state)), step=period)
    loop.source("radio", rt.Signals(rt.Signal("channels", "us", shape=(16,))))
    loop.at(0, "radio.channels", channels(arm=LOW))
    settings = (f"set p_roll = {int(p_roll)}", f"set d_roll = {int(d_roll)}")
    loop.controller(
        "fc",
        Betaflight(
            program or None, settings=settings, radio_every=max(1, round(_RADIO_S / period))
        ),
        period=period,
        compute=rt.Fixed(0.0005),
        transport=rt.Fixed(delay),
        inputs={"channels": "radio.channels"},
    )
    loop.connect("quad", "fc")
    _sticks(loop, int(flight), seconds, LOW if acro and flight else ARMED)
    loop.show(drawn("quad", "quadcopter", 0.5))
    return loop
