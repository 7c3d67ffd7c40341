"""NASA's controller for the F-16 and its lateral guidance, without memory.

Source: ``F16_control.dml`` revision F (NASA/TM-2015-218675).  Two linear-quadratic regulators hold
airspeed, pitch, roll and sideslip.  The autopilot converts altitude and course errors to commands
for pitch and roll.  Units are those of the source: deg, ft, kt, rad/s and fractions of travel.

The controller corrects deviations from a trim, which ``theta_trim`` … ``throttle_trim`` declare.
Each simulation of NASA uses trim values of its own (:mod:`rtsim.models.f16.scenario`); the defaults
are those of the source file.

Lateral guidance: compute the deviation from a track, and the course of the track.

``circle`` is NASA's (``F16_gnc.dml``, NASA/TM-2015-218675): a circle of 3 nautical miles about the
north pole, or about the intersection of the equator and the date line.  ``course`` holds a course
or a straight track; NASA does not define this computation.  Both functions have no memory and write
``COURSE``, which the controller reads.
"""

from __future__ import annotations

import math

from rtsim.core.signals import Signal, Signals, Vector
from rtsim.equations.compiling import compiled
from rtsim.equations.earth import EQUATORIAL_RADIUS, FLATTENING
from rtsim.models.f16.plant import CONTROLS, SENSORS
from rtsim.models.units import DEG, FT

PILOT = Signals(
    Signal("throttle", low=0.0, high=1.0),
    Signal("long_stick", low=-1.0, high=1.0, description="aft is positive"),
    Signal("lat_stick", low=-1.0, high=1.0, description="right is positive"),
    Signal("pedal", low=-1.0, high=1.0, description="nose right is positive"),
)
MODES = Signals(
    Signal("sas_on", low=0.0, high=1.0, description="stability augmentation"),
    Signal("autopilot_on", low=0.0, high=1.0, description="brings the augmentation with it"),
)
COMMANDS = Signals(
    Signal("airspeed_command", "kt", description="equivalent airspeed"),
    Signal("altitude_command", "ft"),
)
COURSE = Signals(
    Signal("lateral_deviation", "ft", description="to the right of the desired track"),
    Signal("base_course", "deg", kind="angle", description="of the desired track, from north"),
)
FEEDBACK = Signals(
    *(SENSORS[name] for name in SENSORS.names if name not in ("latitude_deg", "longitude_deg")),
    Signal("roll_rate", "rad/s"),
    Signal("pitch_rate", "rad/s"),
    Signal("yaw_rate", "rad/s"),
)

LAW_INPUTS = PILOT + MODES + COMMANDS + COURSE + FEEDBACK
LAW_OUTPUTS = Signals(*(Signal(s.name, s.unit, low=s.low, high=s.high) for s in CONTROLS))
LAW_PARAMETERS = Signals(
    Signal("theta_trim", "deg", initial=2.653813535191715),
    Signal("alpha_trim", "deg", initial=2.653813535191715),
    Signal("airspeed_trim", "kt", initial=287.8088596053291),
    Signal("long_stick_trim", initial=0.1296382327486013),
    Signal("throttle_trim", initial=0.1390191130965607),
    Signal("altitude_gain", "deg/ft", initial=-0.05),
    Signal("deviation_gain", "deg/ft", initial=-0.01),
    Signal("course_gain", "deg/deg", initial=-10.0),
    Signal("stick_airspeed", "1/kt", initial=-0.063009074230494),
    Signal("stick_alpha", "1/deg", initial=0.113230403179271),
    Signal("stick_pitch_rate", "s/rad", initial=10.113432224566077),
    Signal("stick_pitch", "1/deg", initial=3.154983341632913),
    Signal("throttle_airspeed", "1/kt", initial=0.997260602961658),
    Signal("throttle_alpha", "1/deg", initial=-0.025467711176391),
    Signal("throttle_pitch_rate", "s/rad", initial=1.213308488207827),
    Signal("throttle_pitch", "1/deg", initial=0.208744369535208),
    Signal("lateral_roll", "1/deg", initial=3.078043941515770),
    Signal("lateral_beta", "1/deg", initial=0.032365863044163),
    Signal("lateral_roll_rate", "s/rad", initial=4.557858908828332),
    Signal("lateral_yaw_rate", "s/rad", initial=0.589443156647647),
    Signal("pedal_roll", "1/deg", initial=-0.705817452754520),
    Signal("pedal_beta", "1/deg", initial=-0.256362860634868),
    Signal("pedal_roll_rate", "s/rad", initial=-1.073666149713151),
    Signal("pedal_yaw_rate", "s/rad", initial=0.822114635953878),
)

_PITCH_AUTHORITY, _COURSE_AUTHORITY, _ROLL_AUTHORITY = 5.0, 30.0, 30.0
_ELEVATOR_PER_STICK, _AILERON_PER_STICK, _RUDDER_PER_PEDAL = -25.0, -21.5, -30.0
_RUDDER_PER_AILERON = 0.008
_ON = 0.5


@compiled
def limited(value: float, low: float, high: float) -> float:
    """Return ``value`` limited to ``low`` … ``high``."""
    return max(low, min(high, value))


def control_law(inputs: Vector, parameters: Vector, outputs: Vector) -> None:
    """Compute surface angles (deg) and power (%).

    ``inputs`` (20,) is ``LAW_INPUTS``, ``parameters`` (24,) is ``LAW_PARAMETERS``.  The function
    fills ``outputs`` (4,), which is ``LAW_OUTPUTS``: elevator, aileron, rudder, power.
    """
    k = parameters
    throttle, long_stick, lat_stick, pedal = inputs[0], inputs[1], inputs[2], inputs[3]
    autopilot = inputs[5] > _ON
    augmented = inputs[4] + inputs[5] > _ON
    altitude, airspeed, alpha, beta = inputs[10], inputs[11], inputs[12], inputs[13]
    roll, pitch, yaw = inputs[14], inputs[15], inputs[16]
    roll_rate, pitch_rate, yaw_rate = inputs[17], inputs[18], inputs[19]

    airspeed_command, pitch_command, roll_command = k[2], k[0], 0.0
    if autopilot:
        throttle, long_stick, lat_stick, pedal = 0.0, 0.0, 0.0, 0.0
        airspeed_command = inputs[6]
        climb = k[5] * (altitude - inputs[7])
        pitch_command += limited(climb, -_PITCH_AUTHORITY, _PITCH_AUTHORITY)
        intercept = limited(k[6] * inputs[8], -_COURSE_AUTHORITY, _COURSE_AUTHORITY)
        error = beta + yaw - (intercept + inputs[9])
        if error > 180.0:
            error -= 360.0
        elif error < -180.0:
            error += 360.0
        roll_command = limited(k[7] * error, -_ROLL_AUTHORITY, _ROLL_AUTHORITY)

    if augmented:
        speed_error, alpha_error = airspeed - airspeed_command, alpha - k[1]
        roll_error, pitch_error = roll - roll_command, pitch - pitch_command
        long_stick -= (
            k[8] * speed_error + k[9] * alpha_error + k[10] * pitch_rate + k[11] * pitch_error
        )
        throttle -= (
            k[12] * speed_error + k[13] * alpha_error + k[14] * pitch_rate + k[15] * pitch_error
        )
        lat_stick -= k[16] * roll_error + k[17] * beta + k[18] * roll_rate + k[19] * yaw_rate
        pedal -= k[20] * roll_error + k[21] * beta + k[22] * roll_rate + k[23] * yaw_rate

    aileron = _AILERON_PER_STICK * limited(lat_stick, -1.0, 1.0)
    outputs[0] = _ELEVATOR_PER_STICK * limited(k[3] + long_stick, -1.0, 1.0)
    outputs[1] = aileron
    outputs[2] = _RUDDER_PER_PEDAL * limited(pedal, -1.0, 1.0) + _RUDDER_PER_AILERON * aileron
    outputs[3] = 100.0 * limited(k[4] + throttle, 0.0, 1.0)


# Lateral guidance: compute the deviation from a track, and the course of the track.

_FT_PER_NM = 6076.12
_FT_PER_DEG = 60.0 * _FT_PER_NM
_RADIUS_FT = 3.0 * _FT_PER_NM
_PI = 3.14159265
_POLAR_COURSE = 90.0

GUIDANCE_INPUTS = Signals(
    Signal("latitude_deg", "deg", kind="angle"),
    Signal("longitude_deg", "deg", kind="angle"),
)
GUIDANCE_OUTPUTS = COURSE
CIRCLE_PARAMETERS = Signals(
    Signal("circle_pole", low=0.0, high=1.0, initial=1.0, description="0: equator and date line")
)


def circle(inputs: Vector, parameters: Vector, outputs: Vector) -> None:
    """Compute the deviation (ft) from a circle of 3 nmi and the course (deg) along it.

    The centre is to the left of the aircraft.  ``inputs`` (2,) is ``GUIDANCE_INPUTS``,
    ``parameters`` (1,) is ``CIRCLE_PARAMETERS``, ``outputs`` (2,) is ``COURSE``.  Around the pole
    the course is 90 deg (due east) everywhere.
    """
    latitude, longitude = inputs[0], inputs[1]
    if parameters[0] > 0.5:
        outputs[0] = _FT_PER_DEG * (90.0 - latitude) - _RADIUS_FT
        outputs[1] = _POLAR_COURSE
    else:
        from_line = longitude - 180.0 if longitude > 0.0 else longitude + 180.0
        north = latitude * _FT_PER_DEG
        east = from_line * _FT_PER_DEG * math.cos(latitude * (_PI / 180.0))
        outputs[0] = math.sqrt(east * east + north * north) - _RADIUS_FT
        outputs[1] = -180.0 / _PI * math.atan2(north, east)


COURSE_INPUTS = GUIDANCE_INPUTS + Signals(
    Signal("course_command", "deg", kind="angle"),
    Signal("offset_command", "ft", description="of the new track, right of the old one"),
)
COURSE_PARAMETERS = Signals(
    Signal("from_latitude", "deg", kind="angle", description="a point of the track"),
    Signal("from_longitude", "deg", kind="angle"),
    Signal("hold_track", low=0.0, high=1.0, description="0: hold the course only"),
)
_E2 = FLATTENING * (2.0 - FLATTENING)


def course(inputs: Vector, parameters: Vector, outputs: Vector) -> None:
    """Compute the deviation (ft) from a line of constant course, and the course (deg).

    The deviation is 0 if the guidance holds only the course.  ``inputs`` (4,) is ``COURSE_INPUTS``,
    ``parameters`` (3,) is ``COURSE_PARAMETERS``, ``outputs`` (2,) is ``COURSE``.  Distances use the
    WGS-84 ellipsoid at the middle latitude, which is accurate for tracks of tens of kilometres away
    from the poles.
    """
    outputs[0] = 0.0
    outputs[1] = inputs[2]
    if parameters[2] <= 0.5:
        return
    track = inputs[2]
    middle = 0.5 * (inputs[0] + parameters[0]) * DEG
    sine = math.sin(middle)
    root = math.sqrt(1.0 - _E2 * sine * sine)
    normal = EQUATORIAL_RADIUS / root
    meridian = normal * (1.0 - _E2) / (root * root)
    turn = inputs[1] - parameters[1]
    turn -= 360.0 * math.floor(turn / 360.0 + 0.5)
    north = (inputs[0] - parameters[0]) * DEG * meridian
    east = turn * DEG * normal * math.cos(middle)
    right = east * math.cos(track * DEG) - north * math.sin(track * DEG)
    outputs[0] = right / FT - inputs[3]
