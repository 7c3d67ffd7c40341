"""The F-16 for a pilot: NASA's aircraft with actuators, drag rise, landing gear and ground.

The aircraft extends :class:`rtsim.models.f16.plant.Aircraft` by five states and further loads:

- The control surfaces follow their commands with a lag of 1/20.2 s, and with limited rates and
  angles. Source: Nguyen and others, NASA TP-1538 (1979), "Simulator study of stall/post-stall
  characteristics of a fighter airplane with relaxed longitudinal static stability".
- The engine's lag is from Stevens, Lewis and Johnson, *Aircraft Control and Simulation*, section
  3.5.
- The drag rises with the Mach number as in the F-16 of JSBSim, ``aircraft/f16/f16.xml`` revision
  1.87, coefficient ``CDmach``.
- The landing gear rolls on the generated terrain (``rtsim.models.terrain``).

Each leg of the landing gear has a spring, a damper, a tyre and a brake. The legs have no mass, and
their forces are normal to the ground. Near the aircraft, the ground is a plane that touches the
terrain below the centre of mass. A tyre at rest acts as a stiff damper: with the brakes on, the
aircraft creeps by less than 0.02 m/s.

Sources of the landing gear's figures:

- Wheel positions, friction coefficients and gear drag are from JSBSim's ``aircraft/f16/f16.xml``,
  revision 1.87. JSBSim's model is based on public data. Positions are relative to the centre of
  mass of the aircraft.
- The constants of springs and dampers are chosen for rtsim. At rest, each leg is compressed by
  about 0.1 m. A landing at 10 ft/s, the limit of MIL-A-8862 for land-based aircraft, uses two
  thirds of the stroke (docs/decisions/157-ground-for-the-f16.md).
"""

from __future__ import annotations

import math
from typing import Self

import numpy as np

import rtsim as rt
from rtsim.equations.compiling import compiled
from rtsim.models.atmosphere import standard_atmosphere
from rtsim.models.body import STILL_AIR
from rtsim.models.f16.aerodynamics import AREA
from rtsim.models.f16.plant import AT_ONCE, STANDARD_GRAVITY, Aircraft
from rtsim.models.f16.stevens_lewis import power_rate
from rtsim.models.terrain import HIGHEST, RUNWAY_LENGTH, along_runway, cover, terrain
from rtsim.models.units import DEG
from rtsim.models.vehicle import AboveTerrain
from rtsim.models.wind import MOVING_AIR, MovingAir
from rtsim.scenario.body import ROAD, RUNWAY, WATER

_IN = 0.0254
_LEGS = np.array(
    [
        [106.6 * _IN, 0.0, 66.9 * _IN],
        [-34.4 * _IN, -48.0 * _IN, 66.5 * _IN],
        [-34.4 * _IN, 48.0 * _IN, 66.5 * _IN],
    ]
)
"""Lowest points of the unloaded wheels in body axes, m: nose, left and right main leg."""
_SPRING = np.array([220e3, 350e3, 350e3])
"""Stiffness of each leg, N/m."""
_DAMPER = np.array([20e3, 35e3, 35e3])
"""Damping of each leg, N s/m."""
STROKE = 0.25
"""Compression at which a main leg breaks, with its tyre, m."""
NOSE_STROKE = 0.36
"""Compression at which the nose leg breaks, with its tyre, m."""
_STRUCTURE = np.array(
    [
        [71.7 * -_IN, -189.0 * _IN, -5.1 * _IN],
        [71.7 * -_IN, 189.0 * _IN, -5.1 * _IN],
        [95.4 * -_IN, -24.8 * _IN, 46.9 * _IN],
        [95.4 * -_IN, 24.8 * _IN, 46.9 * _IN],
        [129.4 * _IN, 0.0, 31.5 * _IN],
        [293.6 * _IN, 0.0, 3.6 * _IN],
        [165.8 * -_IN, 0.0, -128.3 * _IN],
    ]
)
"""Outer points of the airframe, body axes, m: wing tips, ventral fins, intake, nose, top of fin."""
_SIDE, _BRAKED, _ROLLING, _SOFT = 0.8, 0.5, 0.02, 0.08
"""Friction coefficients: sideways, fully braked, rolling, and added off the runway and roads."""
_SLIP, _SIDE_REST, _REST = 0.1, 0.3, 0.1
"""Slip angle (rad) and speeds (m/s) sideways and ahead, at about 0.7 of the full friction."""
STEERING = 32.0
"""Angle of the nose wheel at full pedal and at rest, deg."""
_STEERS = 12.0
GEAR_DRAG = 0.027
"""Drag coefficient of the extended gear."""
GEAR_TIME = 5.0
"""Time to extend or retract the gear, s."""
DOWN = 0.98
"""Extension above which the legs are locked and carry a load."""
_IDLE, _STOPPED = 5.0, 1.0
STANDS = float(_LEGS[1, 2]) - 0.1
"""Approximate height of the centre of mass above the ground at rest, m."""

Contact = tuple[float, float, float, float, float, float, float, float]
Plane = tuple[float, float, float, float]


@compiled
def _share(speed: float, slow: float) -> float:
    return speed / math.sqrt(speed * speed + slow * slow)


@compiled
def tyre(ahead: float, side: float, load: float, grip: float, brake: float) -> tuple[float, float]:
    """Return the friction forces (N) of a tyre, forward and to the right.

    ``ahead`` and ``side`` are speeds (m/s), ``load`` is the normal force (N), ``grip`` is the
    coefficient of rolling friction, and ``brake`` is from 0 to 1.
    """
    slow = math.sqrt(_SIDE_REST * _SIDE_REST + _SLIP * _SLIP * ahead * ahead)
    along = -(grip + brake * (_BRAKED - _ROLLING)) * _share(ahead, _REST)
    across = -_SIDE * _share(side, slow)
    whole = math.sqrt(along * along + across * across)
    scale = load if whole <= _SIDE else load * _SIDE / whole
    return scale * along, scale * across


@compiled
def clearance(x: float, y: float, z: float, plane: Plane) -> float:
    """Return the height (m) of a point in body axes above the ground.

    ``plane`` contains the upward normal of the ground in body axes, and the height (m) of the
    centre of mass.
    """
    return plane[3] + x * plane[0] + y * plane[1] + z * plane[2]


@compiled
def gear_loads(
    ub: float, vb: float, wb: float, pr: float, qr: float, rr: float,
    plane: Plane, hard: bool, brake: float, pedal: float, power: float,
) -> Contact:  # fmt: skip
    """Return forces (N), moments (N m) and two compressions (m) of the landing gear.

    The compressions are those of the nose leg and of the more compressed main leg. A compression is
    negative above the ground. Velocities (m/s) and rates (rad/s) are relative to the ground.
    ``hard`` is True on a runway or a road. ``brake`` is from 0 to 1. ``pedal`` is from -1 to 1;
    positive values turn the nose to the right. With the engine at idle, a parking brake holds the
    aircraft.
    """
    nx, ny, nz, _ = plane
    grip = _ROLLING if hard else _ROLLING + _SOFT
    if power < _IDLE:
        brake = max(brake, 1.0 - abs(ub) / _STOPPED)
    steered = pedal * STEERING * DEG / (1.0 + ub * ub / (_STEERS * _STEERS))
    fx, fy, fz, mx, my, mz = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    nose, main = -1e9, -1e9
    for k in range(3):
        lx, ly, lz = _LEGS[k, 0], _LEGS[k, 1], _LEGS[k, 2]
        pressed = -clearance(lx, ly, lz, plane)
        if k == 0:
            nose = pressed
        else:
            main = max(main, pressed)
        if pressed <= 0.0:
            continue
        vx = ub + qr * lz - rr * ly
        vy = vb + rr * lx - pr * lz
        vz = wb + pr * ly - qr * lx
        closing = -(vx * nx + vy * ny + vz * nz)
        load = max(0.0, _SPRING[k] * pressed + _DAMPER[k] * closing)
        turn = steered if k == 0 else 0.0
        ax, ay = math.cos(turn), math.sin(turn)
        up = ax * nx + ay * ny
        ax, ay, az = ax - up * nx, ay - up * ny, -up * nz
        scale = 1.0 / math.sqrt(ax * ax + ay * ay + az * az)
        ax, ay, az = scale * ax, scale * ay, scale * az
        sx, sy, sz = ay * nz - az * ny, az * nx - ax * nz, ax * ny - ay * nx
        along, across = tyre(
            vx * ax + vy * ay + vz * az,
            vx * sx + vy * sy + vz * sz,
            load, grip, 0.0 if k == 0 else brake,
        )  # fmt: skip
        gx = load * nx + along * ax + across * sx
        gy = load * ny + along * ay + across * sy
        gz = load * nz + along * az + across * sz
        fx, fy, fz = fx + gx, fy + gy, fz + gz
        mx += ly * gz - lz * gy
        my += lz * gx - lx * gz
        mz += lx * gy - ly * gx
    return fx, fy, fz, mx, my, mz, nose, main


@compiled
def lowest_wheel(plane: Plane) -> float:
    """Return the height (m) of the lower main wheel above the ground, without load."""
    left = clearance(_LEGS[1, 0], _LEGS[1, 1], _LEGS[1, 2], plane)
    return min(left, clearance(_LEGS[2, 0], _LEGS[2, 1], _LEGS[2, 2], plane))


@compiled
def nose_wheel(plane: Plane) -> float:
    """Return the height (m) of the nose wheel above the ground, without load."""
    return clearance(_LEGS[0, 0], _LEGS[0, 1], _LEGS[0, 2], plane)


@compiled
def lowest_structure(plane: Plane) -> float:
    """Return the height (m) of the lowest point of the airframe above the ground."""
    found = 1e9
    for k in range(_STRUCTURE.shape[0]):
        found = min(found, clearance(_STRUCTURE[k, 0], _STRUCTURE[k, 1], _STRUCTURE[k, 2], plane))
    return found


@compiled
def is_hard(kind: int) -> bool:
    """Return whether wheels roll on this ``kind`` of ground without sinking in."""
    return kind in (RUNWAY, ROAD)


def resting(weight: float) -> tuple[float, float]:
    """Return pitch (rad) and height (m) of an aircraft at rest; ``weight`` is in N."""
    ahead, behind = _LEGS[0, 0], -_LEGS[1, 0]
    nose = _LEGS[0, 2] - weight * behind / (ahead + behind) / _SPRING[0]
    main = _LEGS[1, 2] - weight * ahead / (ahead + behind) / (2.0 * _SPRING[1])
    pitch = math.atan2(nose - main, ahead + behind)
    return pitch, main * math.cos(pitch) + behind * math.sin(pitch)


ELEVATOR_MOST, AILERON_MOST, RUDDER_MOST = 25.0, 21.5, 30.0
"""Limits of the surface angles, deg."""
ELEVATOR_RATE, AILERON_RATE, RUDDER_RATE = 60.0, 80.0, 120.0
"""Limits of the surface rates, deg/s."""
_LAG = 20.2
_RISE_BEGINS, _RISE_ENDS, _FALLS_TO = 0.81, 1.1, 1.8
_RISEN, _FALLEN = 0.023, 0.015

_NEAR = HIGHEST + 100.0
_NO_DANGER, _REACTION, _MOST_PULL, _LEAST_PULL, _LIFT_MOST = 1000.0, 1.5, 3.0, 0.3, 1.0
_SINKS = 6.0

Added = tuple[float, float, float, float, float, float, float, float]


@compiled
def surface_rate(angle: float, command: float, most: float, rate: float) -> float:
    """Return the rate (deg/s) of a control surface, limited to ``rate``."""
    wanted = max(-most, min(most, command))
    return max(-rate, min(rate, _LAG * (wanted - angle)))


@compiled
def drag_rise(mach: float) -> float:
    """Return the increase of the drag coefficient above its low-speed value."""
    if mach <= _RISE_BEGINS:
        return 0.0
    if mach <= _RISE_ENDS:
        return _RISEN * (mach - _RISE_BEGINS) / (_RISE_ENDS - _RISE_BEGINS)
    part = min(1.0, (mach - _RISE_ENDS) / (_FALLS_TO - _RISE_ENDS))
    return _RISEN + part * (_FALLEN - _RISEN)


@compiled
def pull_up_height(
    north: float, east: float, altitude: float, vn: float, ve: float, down: float, falls: float,
    pull: float,
) -> float:  # fmt: skip
    """Return the lowest height (m) above the ground during a pull-up.

    Positions are in m, velocities in m/s. Before the pull-up, the aircraft accelerates downward by
    ``falls`` (m/s2). During the pull-up, the aircraft accelerates upward by ``pull`` (m/s2).
    """
    found = 1e9
    lowest = _REACTION + max(0.0, down + falls * _REACTION) / pull
    for k in range(8):
        after = lowest * 0.25 * (k + 1) if k < 4 else lowest + (k - 3)
        first, pulled = min(after, _REACTION), max(0.0, after - _REACTION)
        at = altitude - (down + 0.5 * falls * first) * first
        at -= (down + falls * _REACTION - 0.5 * pull * pulled) * pulled
        below, _, _ = terrain(north + vn * after, east + ve * after)
        found = min(found, at - below)
    return found


class FlownAircraft(AboveTerrain, MovingAir, Aircraft, name="f16_flown"):
    """The F-16 with actuators, engine lag, drag rise and landing gear, above terrain."""

    elevator_angle = rt.state("deg", low=-ELEVATOR_MOST, high=ELEVATOR_MOST)
    aileron_angle = rt.state("deg", low=-AILERON_MOST, high=AILERON_MOST)
    rudder_angle = rt.state("deg", low=-RUDDER_MOST, high=RUDDER_MOST)
    engine_power = rt.state("%", low=0.0, high=100.0)
    gear_extension = rt.state(low=0.0, high=1.0, description="0: retracted, 1: extended, locked")
    brake = rt.input(low=0.0, high=1.0, optional=True, description="of both main wheels")
    pedal = rt.input(low=-1.0, high=1.0, optional=True, description="steers the nose wheel")
    gear = rt.input(low=0.0, high=1.0, optional=True, description="lever: 1 extends the gear")
    autopilot = rt.input(
        low=0.0, high=7.0, optional=True,
        description="modes that hold: 1 altitude, 2 heading, 4 speed; only for displays",
    )  # fmt: skip
    height = rt.output("m", description="of the wheels above the ground, with the aircraft level")
    wheel_load = rt.output(description="force of the gear over the weight")
    side_load = rt.output(description="lateral force over the weight, in body axes, to the right")
    recovery_height = rt.output(
        "m",
        description="least height above the ground if a pull-up begins in 1.5 s; 1000: no danger",
    )
    sink_rate = rt.memory("m/s", description="speed towards the ground at the last touchdown")
    ground_speed = rt.memory("m/s", description="at the last touchdown")
    past_threshold = rt.memory("m", description="place of the last touchdown along the runway")
    touchdowns = rt.memory()
    assumptions = (
        *(MOVING_AIR if a == STILL_AIR else a for a in Aircraft.assumptions if a != AT_ONCE),
        "surfaces: first-order lag of 1/20.2 s with limits of rate and angle (NASA TP-1538)",
        "engine: power follows its command with the lag of Stevens and Lewis",
        "drag rise with Mach number, drag of the gear, friction of tyres: JSBSim's F-16",
        "the gear's legs have no mass; the ground at all wheels is the plane below the aircraft",
    )
    limits = (
        *Aircraft.limits,
        "the lift has no ground effect, and does not depend on the Mach number",
        "tyres have no spin-up: they roll at once",
    )

    def added_loads(
        self,
        c11: float, c12: float, c13: float,
        c21: float, c22: float, c23: float,
        c31: float, c32: float, c33: float,
    ) -> Added:  # fmt: skip
        """Return the loads of drag rise and landing gear, and whether a wheel touches the ground.

        The eight numbers are three forces (N), three moments (N m), the upward force of the gear
        (N), and 1 for a wheel on the ground.
        """
        _, _, _, _, _, _, _, _, _, ub, vb, wb, pr, qr, rr, altitude = self.air_flow()
        vx, vy, vz, _, _, _ = self.air_motion()
        ax, ay, az = ub - vx, vb - vy, wb - vz
        density, sound, _, _ = standard_atmosphere(altitude)
        airspeed = math.sqrt(ax * ax + ay * ay + az * az)
        drag = drag_rise(airspeed / sound) + GEAR_DRAG * self.gear_extension
        pressed = -0.5 * density * airspeed * AREA * drag
        fx, fy, fz = pressed * ax, pressed * ay, pressed * az
        if altitude > _NEAR or self.gear_extension < DOWN:
            return fx, fy, fz, 0.0, 0.0, 0.0, 0.0, 0.0
        nx, ny, nz, distance, _, north, east = self.ground_below(
            c11, c12, c13, c21, c22, c23, c31, c32, c33
        )
        plane = nx, ny, nz, distance
        kind = cover(north, east)
        if distance > 10.0 or kind == WATER:
            return fx, fy, fz, 0.0, 0.0, 0.0, 0.0, 0.0
        gx, gy, gz, mx, my, mz, nose, main = gear_loads(
            ub, vb, wb, pr, qr, rr, plane, is_hard(kind), max(0.0, min(1.0, self.brake)),
            max(-1.0, min(1.0, self.pedal)), self.power,
        )  # fmt: skip
        carried = gx * nx + gy * ny + gz * nz
        touches = 1.0 if max(nose, main) > 0.0 else 0.0
        return fx + gx, fy + gy, fz + gz, mx, my, mz, carried, touches

    def derivative(self, d: Self) -> None:
        elevator, aileron, rudder = self.elevator_angle, self.aileron_angle, self.rudder_angle
        power = max(0.0, min(100.0, self.engine_power))
        c11, c12, c13, c21, c22, c23, c31, c32, c33, fx, fy, fz, mx, my, mz = self.loads_in_air(
            elevator, aileron, rudder, power
        )
        ax, ay, az, bx, by, bz, _, touches = self.added_loads(
            c11, c12, c13, c21, c22, c23, c31, c32, c33
        )
        self.accelerate(
            d, c11, c12, c13, c21, c22, c23, c31, c32, c33,
            fx + ax, fy + ay, fz + az, mx + bx, my + by, mz + bz,
        )  # fmt: skip
        d.elevator_angle = surface_rate(elevator, self.elevator, ELEVATOR_MOST, ELEVATOR_RATE)
        d.aileron_angle = surface_rate(aileron, self.aileron, AILERON_MOST, AILERON_RATE)
        d.rudder_angle = surface_rate(rudder, self.rudder, RUDDER_MOST, RUDDER_RATE)
        d.engine_power = power_rate(power, max(0.0, min(100.0, self.power)))
        lever = 1.0 if self.gear > 0.5 or touches > 0.0 else 0.0
        moves = 20.0 * (lever - self.gear_extension)
        d.gear_extension = max(-1.0, min(1.0, moves)) / GEAR_TIME

    def outputs(self) -> None:
        elevator, aileron, rudder = self.elevator_angle, self.aileron_angle, self.rudder_angle
        power = max(0.0, min(100.0, self.engine_power))
        self.sense(elevator, aileron, rudder, power)
        c11, c12, c13, c21, c22, c23, c31, c32, c33, _, fy, _, _, _, _ = self.loads_in_air(
            elevator, aileron, rudder, power
        )
        _, ay, az, _, _, _, carried, touches = self.added_loads(
            c11, c12, c13, c21, c22, c23, c31, c32, c33
        )
        _, _, _, _, above, north, east = self.ground_below(
            c11, c12, c13, c21, c22, c23, c31, c32, c33
        )
        weight = self.mass * STANDARD_GRAVITY
        self.load_factor -= az / weight
        self.height = above - STANDS
        self.wheel_load = carried / weight
        self.side_load = (fy + ay) / weight
        lands = self.gear_extension > 0.5 and self.velocity_down < _SINKS
        most = min(_MOST_PULL, self.dynamic_pressure * AREA * _LIFT_MOST / weight - 1.0)
        pull = STANDARD_GRAVITY * max(_LEAST_PULL, most)
        lifts = self.load_factor * math.cos(self.pitch) * math.cos(self.roll)
        falls = STANDARD_GRAVITY * max(0.0, 1.0 - lifts)
        found = pull_up_height(
            north, east, self.altitude - STANDS,
            self.velocity_north, self.velocity_east, self.velocity_down, falls, pull,
        )  # fmt: skip
        safe = touches > 0.0 or lands
        self.recovery_height = _NO_DANGER if safe else min(_NO_DANGER, found)

    def clearances(self) -> tuple[float, float, float]:
        """Return the heights of wheels and airframe, and the remaining strokes of the legs (m)."""
        c11, c12, c13, c21, c22, c23, c31, c32, c33, _, _, _, _, _, _, altitude = self.air_flow()
        if altitude > _NEAR:
            return altitude, altitude, 1.0
        nx, ny, nz, distance, above, north, east = self.ground_below(
            c11, c12, c13, c21, c22, c23, c31, c32, c33
        )
        plane = nx, ny, nz, distance
        wheels, strokes = above + _NEAR, 1.0
        if self.gear_extension >= DOWN and nz < -0.5 and cover(north, east) != WATER:
            main, nose = lowest_wheel(plane), nose_wheel(plane)
            wheels = min(main, nose)
            strokes = min(STROKE + main, NOSE_STROKE + nose)
        return wheels, lowest_structure(plane), strokes

    @rt.falling(report=("sink_rate", "ground_speed", "past_threshold"))
    def touchdown(self) -> float:
        return self.clearances()[0]

    @touchdown.reset
    def keep_touchdown(self) -> None:
        """Store the vertical speed, the ground speed and the position of a touchdown."""
        c11, c12, c13, c21, c22, c23, c31, c32, c33, ub, vb, wb, _, _, _, _ = self.air_flow()
        nx, ny, nz, _, _, north, east = self.ground_below(
            c11, c12, c13, c21, c22, c23, c31, c32, c33
        )
        along, _ = along_runway(north, east)
        rise = ub * nx + vb * ny + wb * nz
        self.sink_rate = -rise
        self.ground_speed = math.sqrt(max(0.0, ub * ub + vb * vb + wb * wb - rise * rise))
        self.past_threshold = along + 0.5 * RUNWAY_LENGTH
        self.touchdowns += 1.0

    @rt.falling(terminal=True, failure="the airframe struck the ground")
    def crash(self) -> float:
        return self.clearances()[1]

    @rt.falling(terminal=True, failure="a leg of the landing gear broke")
    def gear_collapse(self) -> float:
        return self.clearances()[2]


PILOTED_F16 = FlownAircraft.model()
"""The aircraft of the scenario ``f16-by-hand``, as a :class:`rtsim.Model`."""
