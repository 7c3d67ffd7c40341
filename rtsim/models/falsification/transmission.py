"""An automatic transmission: an engine, a torque converter, four gears and a car.

Inputs are the throttle, from 0 to 100 %, and the torque of the brakes, from 0 to 325 ft lbf. The
controller samples speed and throttle every 40 ms. The controller shifts after the speed was beyond
the limit of the gear in two samples.

Source: MathWorks, "Modeling an Automatic Transmission Controller", equations 1 to 5, with the
tables and constants of the model ``Autotrans_shift`` of Hoxha, Abbas and Fainekos (ARCH 2014).
Beyond their ends, tables extrapolate linearly, as in that model.
"""

from __future__ import annotations

from math import pi
from typing import Self

import numpy as np
from numpy.typing import NDArray

import rtsim as rt
from rtsim.core.tag import Duration
from rtsim.models.falsification.requirements import TRANSMISSION, end, required

Axis = NDArray[np.float64]

THROTTLE = np.array([0.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0])
ENGINE_RPM = np.arange(800.0, 5000.0, 400.0)
ENGINE_TORQUE = np.array(
    [
        [-40, -44, -49, -53, -57, -61, -65, -70, -74, -78, -82],
        [215, 117, 85, 66, 44, 29, 10, -2, -13, -22, -32],
        [245, 208, 178, 148, 122, 104, 85, 66, 48, 33, 18],
        [264, 260, 241, 219, 193, 167, 152, 133, 119, 96, 85],
        [264, 279, 282, 275, 260, 238, 223, 208, 189, 171, 152],
        [267, 290, 293, 297, 290, 275, 260, 256, 234, 212, 193],
        [267, 297, 305, 305, 305, 301, 293, 282, 267, 249, 226],
        [267, 301, 308, 312, 319, 323, 319, 316, 297, 279, 253],
        [267, 301, 312, 319, 327, 327, 327, 327, 312, 293, 267],
        [267, 301, 312, 319, 327, 334, 334, 334, 319, 305, 275],
    ],
    dtype=float,
)
"""Torque of the engine over throttle and speed, ft lbf."""
SPEED_RATIO = np.concatenate((np.arange(9) / 10.0, np.arange(81, 91) / 100.0, [0.92, 0.94]))
K_FACTOR = np.array(
    [
        137.4652089938063, 137.06501915685197, 135.86444964598905, 135.6643547275119,
        137.56525645304487, 140.3665853117251, 145.2689108144154, 152.87251771654735,
        162.97731109964374, 164.2779280697452, 166.17882979527823, 167.97968406157264,
        170.08068070558275, 172.78196210502438, 175.3831960452274, 179.58518933324765,
        183.58708770279083, 189.8900776348212, 197.69377945543027, 215.90241703685155,
        244.51599037908485,
    ]
)  # fmt: skip
"""Capacity of the torque converter over the speed ratio, rpm per root of ft lbf."""
TORQUE_RATIO = np.array(
    [
        2.232, 2.075, 1.975, 1.846, 1.72, 1.564, 1.409, 1.254, 1.096, 1.08, 1.061, 1.043, 1.028,
        1.012, 1.002, 1.002, 1.001, 0.998, 0.999, 1.001, 1.002,
    ]
)  # fmt: skip
GEAR_RATIO = np.array([2.393, 1.45, 1.0, 0.677])
UP_THROTTLE = np.array([0.0, 25.0, 35.0, 50.0, 90.0, 100.0])
UP_SPEED = np.array(
    [
        [10.0, 10.0, 15.0, 23.0, 40.0, 40.0],
        [30.0, 30.0, 30.0, 41.0, 70.0, 70.0],
        [50.0, 50.0, 50.0, 60.0, 100.0, 100.0],
        [1e6, 1e6, 1e6, 1e6, 1e6, 1e6],
    ]
)
"""Speed above which the controller shifts up, over gear and throttle, mph."""
DOWN_THROTTLE = np.array([0.0, 5.0, 40.0, 50.0, 90.0, 100.0])
DOWN_SPEED = np.array(
    [
        [0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        [5.0, 5.0, 5.0, 5.0, 30.0, 30.0],
        [20.0, 20.0, 25.0, 30.0, 50.0, 50.0],
        [35.0, 35.0, 40.0, 50.0, 80.0, 80.0],
    ]
)
"""Speed below which the controller shifts down, over gear and throttle, mph."""
IDLE, LIMIT = 600.0, 6000.0
"""Limits of the engine's speed, rpm."""
MPH = 2.0 * pi * 60.0 / 5280.0
"""Speed in mph of a wheel with a radius of 1 ft that turns once in a minute."""


@rt.compiled
def segment(x: float, axis: Axis) -> int:
    """Return the segment of ``axis`` that contains ``x``, or the nearest one."""
    i = 0
    while i < axis.size - 2 and x >= axis[i + 1]:
        i += 1
    return i


@rt.compiled
def linear(x: float, axis: Axis, values: Axis) -> float:
    i = segment(x, axis)
    f = (x - axis[i]) / (axis[i + 1] - axis[i])
    return values[i] + f * (values[i + 1] - values[i])  # type: ignore[no-any-return]


@rt.compiled
def engine_torque(throttle: float, rpm: float) -> float:
    """Return the torque of the engine, ft lbf."""
    i = segment(throttle, THROTTLE)
    f = (throttle - THROTTLE[i]) / (THROTTLE[i + 1] - THROTTLE[i])
    low = linear(rpm, ENGINE_RPM, ENGINE_TORQUE[i])
    high = linear(rpm, ENGINE_RPM, ENGINE_TORQUE[i + 1])
    return low + f * (high - low)  # type: ignore[no-any-return]


class Car(rt.Plant):
    """Engine, torque converter, gears and car."""

    rpm = rt.state("rpm", 1000.0, description="speed of the engine")
    wheel = rt.state("rpm", description="speed of the wheels")
    throttle = rt.input("%")
    brake = rt.input("ft lbf")
    gear = rt.input("1", 1.0)
    speed = rt.output("mph")
    engine_inertia = rt.parameter("ft lbf s/rpm", 0.0219914882835559)
    car_inertia = rt.parameter("ft lbf s/rpm", 12.09414785731247)
    final_drive = rt.parameter("1", 3.23)
    friction = rt.parameter("ft lbf", 40.0)
    drag = rt.parameter("ft lbf/mph^2", 0.02)
    assumptions = (
        "power flows from the engine to the wheels only",
        "a shift takes no time",
        "the engine turns with 600 to 6000 rpm",
    )

    def derivative(self, d: Self) -> None:
        ratio = GEAR_RATIO[int(self.gear) - 1]
        speed_ratio = self.wheel * self.final_drive * ratio / self.rpm
        impeller = (self.rpm / linear(speed_ratio, SPEED_RATIO, K_FACTOR)) ** 2
        turbine = impeller * linear(speed_ratio, SPEED_RATIO, TORQUE_RATIO)
        faster = (engine_torque(self.throttle, self.rpm) - impeller) / self.engine_inertia
        if self.rpm < IDLE:
            faster = max(faster, 100.0 * (IDLE - self.rpm))
        elif self.rpm > LIMIT:
            faster = min(faster, 100.0 * (LIMIT - self.rpm))
        d.rpm = faster
        speed = MPH * self.wheel
        load = self.friction + self.drag * speed**2 + self.brake
        if speed == 0.0:
            load = 0.0
        elif speed < 0.0:
            load = -load
        d.wheel = (self.final_drive * ratio * turbine - load) / self.car_inertia

    def outputs(self) -> None:
        self.speed = MPH * self.wheel


class Shifter(rt.Controller, compile=True):
    """Controller that selects the gear from the speed and the throttle."""

    period = 0.04
    speed = rt.input("mph")
    throttle = rt.input("%")
    gear = rt.output("1", initial=1.0)
    selected = rt.memory("1", 1.0)
    shift = rt.memory("1", description="1 to shift up, -1 to shift down, 0 to stay")
    waited = rt.memory("1", description="samples since the speed passed the limit")
    wait = rt.parameter("1", 2.0)

    def step(self) -> None:
        i = int(self.selected) - 1
        up = linear(self.throttle, UP_THROTTLE, UP_SPEED[i])
        down = linear(self.throttle, DOWN_THROTTLE, DOWN_SPEED[i])
        wanted = 1.0 if self.speed > up else -1.0 if self.speed < down else 0.0
        if self.shift == 0.0:
            self.shift, self.waited = wanted, 0.0
        else:
            self.waited += 1.0
            reached = self.speed >= up if self.shift > 0.0 else self.speed <= down
            if not reached:
                self.shift = 0.0
            elif self.waited >= self.wait:
                self.selected = min(4.0, max(1.0, self.selected + self.shift))
                self.shift = 0.0
        self.gear = self.selected


def scenario(
    throttle: float = 0.0,
    brake: float = 0.0,
    requirement: str = "",
    step: Duration = 0.01,
    until: Duration | None = None,
) -> rt.Scenario:
    """A car with an automatic transmission; throttle in %, brake torque in ft lbf.

    ``requirement`` is the name of a requirement in ``transmission.toml``. By default, a run with a
    requirement ends when the requirement is decided, and any other run at 30 s.
    """
    wanted = [required(TRANSMISSION, requirement)] if requirement else []
    if until is None:
        until = end(wanted[0]) if wanted else 30
    out = rt.Scenario("transmission", until=until)
    out.require_all(*wanted)
    pedals = out.source(
        "pedals",
        rt.Signals(
            rt.Signal("throttle", "%", initial=throttle, low=0.0, high=100.0),
            rt.Signal("brake", "ft lbf", initial=brake, low=0.0, high=325.0),
        ),
    )
    car = out.plant(Car(), step=step)
    shifter = out.controller(Shifter())
    out.connect(pedals.throttle, car.throttle)
    out.connect(pedals.brake, car.brake)
    out.connect(pedals.throttle, shifter.throttle)
    out.connect(car.speed, shifter.speed)
    out.connect(shifter.gear, car.gear)
    out.plot("speed [mph]", car.speed)
    out.plot("speed of the engine [rpm]", car.rpm)
    out.plot("gear", shifter.gear)
    out.plot("throttle [%], brake [ft lbf]", pedals.throttle, pedals.brake)
    return out
