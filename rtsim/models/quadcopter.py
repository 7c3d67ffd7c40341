"""Model of the quadcopter AscTec Hummingbird, with motors, propellers, battery and ground contact.

The rotors have the order of Betaflight's simulator, PX4 and ArduPilot: front right, rear left,
front left, rear right. Seen from above, the first two rotors turn counter-clockwise.

Sources of the figures:

- Mass, inertia, arm, rotors and motors: the Hummingbird of RotorS, Furrer, Burri, Achtelik and
  Siegwart, "RotorS, a modular Gazebo MAV simulator framework" (2016); file
  ``rotors_description/urdf/hummingbird.xacro``. The thrust of a rotor is proportional to the square
  of its speed. The reaction torque of a rotor is proportional to its thrust.
- Drag of the frame, and the loss of thrust in a climb: the Hummingbird of RotorPy, Folk, Paulos and
  Kumar, "RotorPy: a Python-based multirotor simulator with aerodynamics" (2023); file
  ``rotorpy/vehicles/hummingbird_params.py`` (``c_Dx``, ``c_Dy``, ``c_Dz``, ``k_z``).
- The battery is the lithium-polymer battery of Gazebo's linear battery plug-in,
  ``linear_battery_demo.sdf``.
- rtsim's own choices: ``efficiency``, the height of the centre of mass above the feet, and the
  stiffness and damping of the contact. At rest, the feet of the vehicle are pressed 2 mm into the
  ground.
"""

from __future__ import annotations

import math
from typing import Self

import numpy as np

import rtsim as rt
from rtsim.equations.compiling import compiled
from rtsim.models.body import BODY_ASSUMPTIONS, BODY_LIMITS, STILL_AIR
from rtsim.models.vehicle import Loads, Vehicle
from rtsim.models.wind import MOVING_AIR

_AHEAD = np.array([1.0, -1.0, 1.0, -1.0]) * math.sqrt(0.5)
_RIGHT = np.array([1.0, -1.0, -1.0, 1.0]) * math.sqrt(0.5)
_TURN = np.array([1.0, 1.0, -1.0, -1.0])
"""Positions of the rotors in units of the arm, and signs of their reaction torques about z."""
_FOOT, _ROTOR = 0.06, -0.01
"""Positions along z of the feet (half the height of the body in RotorS) and of the rotors, m."""
_SPRING, _DAMPER, _ENGAGED = 900.0, 18.0, 1e-3
"""Stiffness (N/m) and damping (N s/m) of each contact point; depth (m) of the full damping."""
_FRICTION, _SLOW = 0.6, 0.05
"""Coefficient of friction, and sliding speed (m/s) at 0.7 of the full friction."""
_NEAR = 1.0
STANDS = 0.058
"""Height of the centre of mass above the ground at rest, m."""


@compiled
def contact_loads(
    ub: float, vb: float, wb: float, pr: float, qr: float, rr: float,
    nx: float, ny: float, nz: float, distance: float, arm: float,
) -> tuple[float, float, float, float, float, float, float]:  # fmt: skip
    """Return forces (N), moments (N m) and the normal force (N) of the ground on feet and rotors.

    Velocity (m/s) and rates (rad/s) are relative to the ground, in body axes. ``nx``, ``ny`` and
    ``nz`` are the upward normal of the ground, and ``distance`` (m) is the height of the centre of
    mass. The friction model lets a vehicle on a slope creep slowly.
    """
    fx, fy, fz, mx, my, mz, carried = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for k in range(8):
        lx, ly = arm * _AHEAD[k % 4], arm * _RIGHT[k % 4]
        lz = _FOOT if k < 4 else _ROTOR
        depth = -(distance + lx * nx + ly * ny + lz * nz)
        if depth <= 0.0:
            continue
        vx = ub + qr * lz - rr * ly
        vy = vb + rr * lx - pr * lz
        vz = wb + pr * ly - qr * lx
        rise = vx * nx + vy * ny + vz * nz
        load = max(0.0, _SPRING * depth - _DAMPER * min(1.0, depth / _ENGAGED) * rise)
        vx, vy, vz = vx - rise * nx, vy - rise * ny, vz - rise * nz
        rub = _FRICTION * load / math.sqrt(vx * vx + vy * vy + vz * vz + _SLOW * _SLOW)
        gx, gy, gz = load * nx - rub * vx, load * ny - rub * vy, load * nz - rub * vz
        fx, fy, fz, carried = fx + gx, fy + gy, fz + gz, carried + load
        mx += ly * gz - lz * gy
        my += lz * gx - lx * gz
        mz += lx * gy - ly * gx
    return fx, fy, fz, mx, my, mz, carried


class Quadcopter(Vehicle):
    """A quadcopter of 0.7 kg whose inputs are the throttles of its four motors.

    A throttle sets a motor's speed as a fraction of the largest speed at the present battery
    voltage. Without initial states, the vehicle is 3 km high and fast. At rest on the ground, it is
    ``Quadcopter(**body_states(initial_state(latitude=..., longitude=..., altitude=STANDS)))``,
    with the functions of :mod:`rtsim.models.body`.
    """

    mass = rt.parameter("kg", 0.68 + 4 * 0.009, low=1e-9)
    ixx = rt.parameter("kg m2", 0.007, low=1e-12)
    iyy = rt.parameter("kg m2", 0.007, low=1e-12)
    izz = rt.parameter("kg m2", 0.012, low=1e-12)
    arm = rt.parameter("m", 0.17, low=0.0)
    motor_constant = rt.parameter("N.s2", 8.54858e-6, low=0.0, description="thrust, per rad2")
    moment_constant = rt.parameter("m", 0.016, low=0.0, description="torque over thrust")
    inflow = rt.parameter("kg", 2.32e-4, description="loss of thrust, per rad, in a climb")
    rotor_drag = rt.parameter("kg", 8.06428e-5, description="in-plane drag, per rad")
    frame_drag = rt.parameter("kg/m", (0.005, 0.005, 0.01), description="along body x, y and z")
    spin_up = rt.parameter("s", 0.0125, low=1e-6, description="time constant of the motors")
    spin_down = rt.parameter("s", 0.025, low=1e-6)
    full_speed = rt.parameter("rad/s", 838.0, low=0.0, description="at the voltage full_voltage")
    full_voltage = rt.parameter("V", 12.694, low=1e-3, description="without load, full charge")
    voltage_drop = rt.parameter("V", 3.1424, low=0.0, description="from full to empty")
    resistance = rt.parameter("ohm", 0.061523, low=0.0)
    capacity = rt.parameter("A.h", 1.2009, low=1e-6)
    efficiency = rt.parameter("1", 0.75, low=1e-3, high=1.0, description="of motors and ESCs")
    speed = rt.state("rad/s", shape=(4,), low=0.0, description="of the rotors")
    charge = rt.state("1", 1.0, low=0.0, high=1.0, description="of the battery")
    throttle = rt.input(
        "1", shape=(4,), low=0.0, high=1.0,
        description="front right, rear left, front left, rear right",
    )  # fmt: skip
    voltage = rt.output("V")
    current = rt.output("A")
    thrust = rt.output("N")
    contact = rt.output("1", description="force of the ground over the weight")
    assumptions = (
        *(MOVING_AIR if a == STILL_AIR else a for a in BODY_ASSUMPTIONS),
        "rotors: thrust and torque with the square of the speed, drag and inflow linear in it",
        "the air at the rotors has the density of the measurements; the rotors have no inertia",
        "motors: first-order lag, with a longer time constant for falling speeds",
        "battery: open-circuit voltage linear in the charge, constant resistance",
        "feet and rotors touch a plane below the vehicle: springs, dampers, friction",
    )
    limits = (
        *BODY_LIMITS,
        "no ground effect, no vortex ring state, no interaction of the rotors",
        "rotors that strike the ground keep turning and do not break",
    )

    def rotor_loads(self) -> Loads:
        """Return forces (N) and moments (N m) of the rotors and of the frame's drag."""
        _, _, _, _, _, _, _, _, _, ub, vb, wb, pr, qr, rr, _ = self.air_flow()
        vx, vy, vz, wp, wq, wr = self.air_motion()
        ub, vb, wb, pr, qr, rr = ub - vx, vb - vy, wb - vz, pr - wp, qr - wq, rr - wr
        pressed = math.sqrt(ub * ub + vb * vb + wb * wb)
        fx = -self.frame_drag[0] * pressed * ub
        fy = -self.frame_drag[1] * pressed * vb
        fz = -self.frame_drag[2] * pressed * wb
        mx, my, mz = 0.0, 0.0, 0.0
        for k in range(4):
            lx, ly, lz = self.arm * _AHEAD[k], self.arm * _RIGHT[k], _ROTOR
            speed = max(0.0, self.speed[k])
            lifted = self.motor_constant * speed * speed
            gx = -self.rotor_drag * speed * (ub + qr * lz - rr * ly)
            gy = -self.rotor_drag * speed * (vb + rr * lx - pr * lz)
            gz = -lifted - self.inflow * speed * (wb + pr * ly - qr * lx)
            fx, fy, fz = fx + gx, fy + gy, fz + gz
            mx += ly * gz - lz * gy
            my += lz * gx - lx * gz
            mz += lx * gy - ly * gx + _TURN[k] * self.moment_constant * lifted
        return fx, fy, fz, mx, my, mz

    def ground_loads(self) -> tuple[float, float, float, float, float, float, float]:
        """Return forces (N), moments (N m) and the normal force (N) of the ground."""
        c11, c12, c13, c21, c22, c23, c31, c32, c33, ub, vb, wb, pr, qr, rr, _ = self.air_flow()
        nx, ny, nz, distance, _, _, _ = self.ground_below(
            c11, c12, c13, c21, c22, c23, c31, c32, c33
        )
        if distance > _NEAR:
            return 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        return contact_loads(ub, vb, wb, pr, qr, rr, nx, ny, nz, distance, self.arm)

    def loads(self) -> Loads:
        fx, fy, fz, mx, my, mz = self.rotor_loads()
        gx, gy, gz, lx, ly, lz, _ = self.ground_loads()
        return fx + gx, fy + gy, fz + gz, mx + lx, my + ly, mz + lz

    def supply(self) -> tuple[float, float]:
        """Return voltage (V) and current (A) of the battery."""
        power = 0.0
        for k in range(4):
            speed = max(0.0, self.speed[k])
            power += self.moment_constant * self.motor_constant * speed * speed * speed
        power /= self.efficiency
        idle = self.full_voltage - self.voltage_drop * (1.0 - self.charge)
        within = idle * idle - 4.0 * self.resistance * power
        voltage = 0.5 * (idle + math.sqrt(max(0.0, within)))
        return voltage, power / voltage

    def derivative(self, d: Self) -> None:
        super().derivative(d)
        voltage, current = self.supply()
        for k in range(4):
            wanted = max(0.0, min(1.0, self.throttle[k])) * self.full_speed
            change = wanted * voltage / self.full_voltage - self.speed[k]
            d.speed[k] = change / (self.spin_up if change > 0.0 else self.spin_down)
        d.charge = -current / (3600.0 * self.capacity) if self.charge > 0.0 else 0.0

    def outputs(self) -> None:
        super().outputs()
        self.voltage, self.current = self.supply()
        _, _, lifted, _, _, _ = self.rotor_loads()
        self.thrust = -lifted
        _, _, _, _, _, _, carried = self.ground_loads()
        self.contact = carried / (self.mass * 9.80665)
