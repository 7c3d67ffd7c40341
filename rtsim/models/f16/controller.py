"""NASA's controller and lateral guidance of the F-16, both without memory.

Source: ``F16_control.dml`` revision F (NASA/TM-2015-218675). Two linear-quadratic regulators hold
airspeed, pitch, roll and sideslip. The autopilot converts altitude and course errors to commands
for pitch and roll. The units are those of the source: deg, ft, kt, rad/s and fractions of travel.

The controller corrects deviations from a trim. Parameters with names that end in ``_trim`` define
the trim. Each of NASA's simulations has its own trim values (``rtsim.models.f16.scenario``). The
defaults are from the source file.

The guidance computes the course of a track, and the aircraft's deviation from the track. ``Circle``
is NASA's (``F16_gnc.dml``, NASA/TM-2015-218675): a circle of 3 nautical miles about the north pole,
or about the intersection of the equator and the date line. The class ``Course``, which guides along
a straight line, is not from NASA.
"""

from __future__ import annotations

import math

import rtsim as rt
from rtsim.equations.compiling import compiled
from rtsim.equations.earth import EQUATORIAL_RADIUS, FLATTENING
from rtsim.models.units import DEG, FT

_PITCH_AUTHORITY, _COURSE_AUTHORITY, _ROLL_AUTHORITY = 5.0, 30.0, 30.0
_ELEVATOR_PER_STICK, _AILERON_PER_STICK, _RUDDER_PER_PEDAL = -25.0, -21.5, -30.0
_RUDDER_PER_AILERON = 0.008
_ON = 0.5


@compiled
def limited(value: float, low: float, high: float) -> float:
    return max(low, min(high, value))


class ControlLaw(rt.Controller, compile=True):
    """Controller that computes surface angles and power from stick, commands and sensors."""

    throttle = rt.input(low=0.0, high=1.0)
    long_stick = rt.input(low=-1.0, high=1.0, description="aft is positive")
    lat_stick = rt.input(low=-1.0, high=1.0, description="right is positive")
    pedal = rt.input(low=-1.0, high=1.0, description="nose right is positive")
    sas_on = rt.input(low=0.0, high=1.0, description="stability augmentation")
    autopilot_on = rt.input(low=0.0, high=1.0, description="brings the augmentation with it")
    airspeed_command = rt.input("kt", description="equivalent airspeed")
    altitude_command = rt.input("ft")
    lateral_deviation = rt.input("ft", description="to the right of the desired track")
    base_course = rt.input("deg", kind="angle", description="of the desired track, from north")
    altitude_ft = rt.input("ft")
    equivalent_airspeed_kt = rt.input("kt")
    alpha_deg = rt.input("deg", kind="angle")
    beta_deg = rt.input("deg", kind="angle")
    roll_deg = rt.input("deg", kind="angle")
    pitch_deg = rt.input("deg", kind="angle")
    yaw_deg = rt.input("deg", kind="angle")
    roll_rate = rt.input("rad/s")
    pitch_rate = rt.input("rad/s")
    yaw_rate = rt.input("rad/s")
    elevator = rt.output("deg")
    aileron = rt.output("deg")
    rudder = rt.output("deg")
    power = rt.output("%", low=0.0, high=100.0)
    theta_trim = rt.parameter("deg", 2.653813535191715)
    alpha_trim = rt.parameter("deg", 2.653813535191715)
    airspeed_trim = rt.parameter("kt", 287.8088596053291)
    long_stick_trim = rt.parameter("1", 0.1296382327486013)
    throttle_trim = rt.parameter("1", 0.1390191130965607)
    altitude_gain = rt.parameter("deg/ft", -0.05)
    deviation_gain = rt.parameter("deg/ft", -0.01)
    course_gain = rt.parameter("deg/deg", -10.0)
    stick_airspeed = rt.parameter("1/kt", -0.063009074230494)
    stick_alpha = rt.parameter("1/deg", 0.113230403179271)
    stick_pitch_rate = rt.parameter("s/rad", 10.113432224566077)
    stick_pitch = rt.parameter("1/deg", 3.154983341632913)
    throttle_airspeed = rt.parameter("1/kt", 0.997260602961658)
    throttle_alpha = rt.parameter("1/deg", -0.025467711176391)
    throttle_pitch_rate = rt.parameter("s/rad", 1.213308488207827)
    throttle_pitch = rt.parameter("1/deg", 0.208744369535208)
    lateral_roll = rt.parameter("1/deg", 3.078043941515770)
    lateral_beta = rt.parameter("1/deg", 0.032365863044163)
    lateral_roll_rate = rt.parameter("s/rad", 4.557858908828332)
    lateral_yaw_rate = rt.parameter("s/rad", 0.589443156647647)
    pedal_roll = rt.parameter("1/deg", -0.705817452754520)
    pedal_beta = rt.parameter("1/deg", -0.256362860634868)
    pedal_roll_rate = rt.parameter("s/rad", -1.073666149713151)
    pedal_yaw_rate = rt.parameter("s/rad", 0.822114635953878)

    def step(self) -> None:
        throttle, long_stick = self.throttle, self.long_stick
        lat_stick, pedal = self.lat_stick, self.pedal
        augmented = self.sas_on + self.autopilot_on > _ON
        airspeed_command, pitch_command, roll_command = self.airspeed_trim, self.theta_trim, 0.0
        if self.autopilot_on > _ON:
            throttle, long_stick, lat_stick, pedal = 0.0, 0.0, 0.0, 0.0
            airspeed_command = self.airspeed_command
            climb = self.altitude_gain * (self.altitude_ft - self.altitude_command)
            pitch_command += limited(climb, -_PITCH_AUTHORITY, _PITCH_AUTHORITY)
            intercept = limited(
                self.deviation_gain * self.lateral_deviation, -_COURSE_AUTHORITY, _COURSE_AUTHORITY
            )
            error = self.beta_deg + self.yaw_deg - (intercept + self.base_course)
            if error > 180.0:
                error -= 360.0
            elif error < -180.0:
                error += 360.0
            roll_command = limited(self.course_gain * error, -_ROLL_AUTHORITY, _ROLL_AUTHORITY)

        if augmented:
            speed_error = self.equivalent_airspeed_kt - airspeed_command
            alpha_error = self.alpha_deg - self.alpha_trim
            roll_error, pitch_error = self.roll_deg - roll_command, self.pitch_deg - pitch_command
            long_stick -= (
                self.stick_airspeed * speed_error
                + self.stick_alpha * alpha_error
                + self.stick_pitch_rate * self.pitch_rate
                + self.stick_pitch * pitch_error
            )
            throttle -= (
                self.throttle_airspeed * speed_error
                + self.throttle_alpha * alpha_error
                + self.throttle_pitch_rate * self.pitch_rate
                + self.throttle_pitch * pitch_error
            )
            lat_stick -= (
                self.lateral_roll * roll_error
                + self.lateral_beta * self.beta_deg
                + self.lateral_roll_rate * self.roll_rate
                + self.lateral_yaw_rate * self.yaw_rate
            )
            pedal -= (
                self.pedal_roll * roll_error
                + self.pedal_beta * self.beta_deg
                + self.pedal_roll_rate * self.roll_rate
                + self.pedal_yaw_rate * self.yaw_rate
            )

        aileron = _AILERON_PER_STICK * limited(lat_stick, -1.0, 1.0)
        rudder = _RUDDER_PER_PEDAL * limited(pedal, -1.0, 1.0)
        self.elevator = _ELEVATOR_PER_STICK * limited(self.long_stick_trim + long_stick, -1.0, 1.0)
        self.aileron = aileron
        self.rudder = rudder + _RUDDER_PER_AILERON * aileron
        self.power = 100.0 * limited(self.throttle_trim + throttle, 0.0, 1.0)


_FT_PER_NM = 6076.12
_FT_PER_DEG = 60.0 * _FT_PER_NM
_RADIUS_FT = 3.0 * _FT_PER_NM
_PI = 3.14159265
_POLAR_COURSE = 90.0
_E2 = FLATTENING * (2.0 - FLATTENING)


class Guidance(rt.Controller, compile=True):
    """Base class of guidance, which computes the course of a track and the deviation from it."""

    latitude_deg = rt.input("deg", kind="angle")
    longitude_deg = rt.input("deg", kind="angle")
    lateral_deviation = rt.output("ft", description="to the right of the desired track")
    base_course = rt.output("deg", kind="angle", description="of the desired track, from north")


class Circle(Guidance):
    """A circular track with the radius 3 nmi, whose centre is to the left of the aircraft.

    Around the pole, the course is 90 deg (east) everywhere.
    """

    circle_pole = rt.parameter("1", 1.0, low=0.0, high=1.0, description="0: equator and date line")

    def step(self) -> None:
        latitude, longitude = self.latitude_deg, self.longitude_deg
        if self.circle_pole > 0.5:
            self.lateral_deviation = _FT_PER_DEG * (90.0 - latitude) - _RADIUS_FT
            self.base_course = _POLAR_COURSE
        else:
            from_line = longitude - 180.0 if longitude > 0.0 else longitude + 180.0
            north = latitude * _FT_PER_DEG
            east = from_line * _FT_PER_DEG * math.cos(latitude * (_PI / 180.0))
            self.lateral_deviation = math.sqrt(east * east + north * north) - _RADIUS_FT
            self.base_course = -180.0 / _PI * math.atan2(north, east)


class Course(Guidance):
    """A line of constant course. If only the course is held, the deviation is 0.

    Distances are computed on the WGS-84 ellipsoid at the middle latitude. Distances are accurate
    for tracks of tens of kilometres, except near the poles.
    """

    course_command = rt.input("deg", kind="angle")
    offset_command = rt.input("ft", description="of the new track, right of the old one")
    from_latitude = rt.parameter("deg", kind="angle", description="a point of the track")
    from_longitude = rt.parameter("deg", kind="angle")
    hold_track = rt.parameter(low=0.0, high=1.0, description="0: hold the course only")

    def step(self) -> None:
        self.lateral_deviation = 0.0
        self.base_course = self.course_command
        if self.hold_track <= 0.5:
            return
        track = self.course_command
        middle = 0.5 * (self.latitude_deg + self.from_latitude) * DEG
        sine = math.sin(middle)
        root = math.sqrt(1.0 - _E2 * sine * sine)
        normal = EQUATORIAL_RADIUS / root
        meridian = normal * (1.0 - _E2) / (root * root)
        turn = self.longitude_deg - self.from_longitude
        turn -= 360.0 * math.floor(turn / 360.0 + 0.5)
        north = (self.latitude_deg - self.from_latitude) * DEG * meridian
        east = turn * DEG * normal * math.cos(middle)
        right = east * math.cos(track * DEG) - north * math.sin(track * DEG)
        self.lateral_deviation = right / FT - self.offset_command


LAW_INPUTS = ControlLaw.signals("input")
LAW_OUTPUTS = ControlLaw.signals("output")
LAW_PARAMETERS = ControlLaw.signals("parameter")
COURSE_PARAMETERS = Course.signals("parameter")
