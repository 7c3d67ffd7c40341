"""The landing gear of the F-16: legs with spring and damper, tyres, brakes and nose-wheel steering.

Sources of the figures:

- Places of the wheels and of the parts of the airframe, the coefficients of friction and the drag
  of the gear: the F-16 of JSBSim, ``aircraft/f16/f16.xml`` revision 1.87, which is made of public
  data.  Places are relative to its centre of mass.
- Springs, dampers and stroke are rtsim's own.  They are chosen so that the static compression of
  each leg is about 0.1 m, and that a landing at 10 ft/s, the limit of MIL-A-8862 for land-based
  aircraft, uses two thirds of the stroke (docs/decisions/157-ground-for-the-f16.md).

A leg has no mass.  Its force acts along the normal of the ground at the wheel, which is that of the
plane through the ground below the centre of mass.  A tyre at rest holds like a stiff damper: with
the brakes on, the aircraft creeps by less than 0.02 m/s.
"""

from __future__ import annotations

import math

import numpy as np

from rtsim.equations.compiling import compiled
from rtsim.models.units import DEG
from rtsim.scenario.ground import ROAD, RUNWAY

_IN = 0.0254
_LEGS = np.array(
    [
        [106.6 * _IN, 0.0, 66.9 * _IN],
        [-34.4 * _IN, -48.0 * _IN, 66.5 * _IN],
        [-34.4 * _IN, 48.0 * _IN, 66.5 * _IN],
    ]
)
"""Lowest points of the wheels without load, body axes, m: nose, left and right main leg."""
_SPRING = np.array([220e3, 350e3, 350e3])
"""N/m."""
_DAMPER = np.array([20e3, 35e3, 35e3])
"""N s/m."""
STROKE = 0.25
"""Compression of a main leg, with its tyre, at which it breaks, m."""
NOSE_STROKE = 0.36
"""The same for the nose leg."""
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
"""Coefficients of friction: sideways, fully braked, rolling; added off the runway and roads."""
_SLIP, _SIDE_REST, _REST = 0.1, 0.3, 0.1
"""Slip angle (rad), and speeds (m/s) sideways and ahead, of about 0.7 of the full friction."""
STEERING = 32.0
"""Angle of the nose wheel at full pedal and at rest, deg."""
_STEERS = 12.0
GEAR_DRAG = 0.027
"""Drag coefficient of the extended gear."""
GEAR_TIME = 5.0
"""Time in which the gear is extended or retracted, s."""
DOWN = 0.98
"""Extension from which on the legs are locked and carry a load."""
_IDLE, _STOPPED = 5.0, 1.0
STANDS = float(_LEGS[1, 2]) - 0.1
"""Height of the centre of mass above the ground at rest, about, m."""

Contact = tuple[float, float, float, float, float, float, float, float]
Plane = tuple[float, float, float, float]


@compiled
def _share(speed: float, slow: float) -> float:
    """Return a smooth sign of ``speed`` (m/s): -1 to 1, and 0.7 at ``slow``."""
    return speed / math.sqrt(speed * speed + slow * slow)


@compiled
def tyre(ahead: float, side: float, load: float, grip: float, brake: float) -> tuple[float, float]:
    """Return the friction (N) against the motion of a tyre, ahead and to the right.

    ``ahead`` and ``side`` are the speeds of its contact (m/s), ``load`` its normal force (N),
    ``grip`` the coefficient of rolling friction, and ``brake`` is 0 to 1.
    """
    slow = math.sqrt(_SIDE_REST * _SIDE_REST + _SLIP * _SLIP * ahead * ahead)
    along = -(grip + brake * (_BRAKED - _ROLLING)) * _share(ahead, _REST)
    across = -_SIDE * _share(side, slow)
    whole = math.sqrt(along * along + across * across)
    scale = load if whole <= _SIDE else load * _SIDE / whole
    return scale * along, scale * across


@compiled
def clearance(x: float, y: float, z: float, plane: Plane) -> float:
    """Return the distance (m) above the ground of a place in body axes.

    ``plane`` has the normal of the ground in body axes, upwards, and the distance of the centre of
    mass above the ground along it, m.
    """
    return plane[3] + x * plane[0] + y * plane[1] + z * plane[2]


@compiled
def gear_loads(
    ub: float, vb: float, wb: float, pr: float, qr: float, rr: float,
    plane: Plane, hard: bool, brake: float, pedal: float, power: float,
) -> Contact:  # fmt: skip
    """Return forces (N) and moments (N m) of the gear in body axes, and two compressions (m).

    The compressions are those of the nose leg and of the main leg that is compressed more; they are
    negative above the ground.  Velocities (m/s) and rates (rad/s) are relative to the ground.
    ``hard``: runway or road; ``brake`` is 0 to 1, ``pedal`` -1 to 1 with the nose to the right
    positive.  With the throttle at idle (``power``, the command in %) a parking brake holds the
    aircraft once it stands.
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
    """Return the height (m) above the ground of the lower main wheel without load."""
    left = clearance(_LEGS[1, 0], _LEGS[1, 1], _LEGS[1, 2], plane)
    return min(left, clearance(_LEGS[2, 0], _LEGS[2, 1], _LEGS[2, 2], plane))


@compiled
def nose_wheel(plane: Plane) -> float:
    """Return the height (m) above the ground of the nose wheel without load."""
    return clearance(_LEGS[0, 0], _LEGS[0, 1], _LEGS[0, 2], plane)


@compiled
def lowest_structure(plane: Plane) -> float:
    """Return the height (m) above the ground of the lowest point of the airframe."""
    found = 1e9
    for k in range(_STRUCTURE.shape[0]):
        found = min(found, clearance(_STRUCTURE[k, 0], _STRUCTURE[k, 1], _STRUCTURE[k, 2], plane))
    return found


@compiled
def is_hard(kind: int) -> bool:
    """Return whether the ground of this cover carries wheels without sinking in."""
    return kind in (RUNWAY, ROAD)


def resting(weight: float) -> tuple[float, float]:
    """Return pitch (rad) and height of the centre of mass (m) at rest for a ``weight`` in N."""
    ahead, behind = _LEGS[0, 0], -_LEGS[1, 0]
    nose = _LEGS[0, 2] - weight * behind / (ahead + behind) / _SPRING[0]
    main = _LEGS[1, 2] - weight * ahead / (ahead + behind) / (2.0 * _SPRING[1])
    pitch = math.atan2(nose - main, ahead + behind)
    return pitch, main * math.cos(pitch) + behind * math.sin(pitch)
