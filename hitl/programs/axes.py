"""The directions of an autopilot's inputs and outputs, as data that a test can check.

Body axes are forward, right and down; those of the earth are north, east and down. A positive roll
moves the right side down, a positive pitch the nose up, and a positive yaw the nose to the right.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from rtsim.core.errors import ScenarioError, UnknownName

DIRECTIONS: dict[str, tuple[float, float, float]] = {
    "forward": (1, 0, 0), "right": (0, 1, 0), "down": (0, 0, 1),
    "back": (-1, 0, 0), "left": (0, -1, 0), "up": (0, 0, -1),
    "north": (1, 0, 0), "east": (0, 1, 0), "south": (-1, 0, 0), "west": (0, -1, 0),
}  # fmt: skip
"""Unit vector of each direction: in body axes, or in the axes of the earth."""
BODY = ("forward", "right", "down")
NED = ("north", "east", "down")
QUATERNION = ("scalar", "roll", "pitch", "yaw")
EULER = ("roll", "pitch", "yaw")
QUANTITIES = ("rate", "specific force", "velocity", "position", "quaternion", "euler")
"""Measured quantities. A specific force is the acceleration minus gravity."""
MOTIONS = {
    "roll": ("to the right", "to the left"),
    "pitch": ("nose up", "nose down"),
    "yaw": ("nose right", "nose left"),
    "climb": ("up", "down"),
    "surge": ("forward", "backward"),
}
"""Motions of a vehicle; the words for a positive and for a negative motion."""


def said(motion: str, sign: int) -> str:
    """Return a motion in words, such as ``roll to the left``."""
    positive, negative = MOTIONS[motion]
    return f"{motion} {positive if sign > 0 else negative}"


@dataclass(frozen=True)
class Sense:
    """A measured quantity at an input of an autopilot.

    Args:
        signal: Input of the autopilot.
        quantity: One of :data:`QUANTITIES`.
        directions: Direction of each element, such as ``("forward", "right", "down")``. A rate
            has the direction of its axis.
        unit: Unit of the input.
        scaled: False if the input is not equal to the quantity in SI units, but rises with it; the
            test then checks signs only.
    """

    signal: str
    quantity: str
    directions: tuple[str, ...]
    unit: str = "1"
    scaled: bool = True

    def __post_init__(self) -> None:
        if self.quantity not in QUANTITIES:
            raise UnknownName("quantity", self.quantity, QUANTITIES, self.signal)
        own = {"quaternion": QUATERNION, "euler": EULER}.get(self.quantity, tuple(DIRECTIONS))
        for name in self.directions:
            if name not in own:
                raise UnknownName("direction", name, own, f"{self.quantity} at {self.signal}")

    def words(self, k: int) -> str:
        """Return what element ``k`` is, in words."""
        about = " about the axis" if self.quantity == "rate" else ""
        return f"{self.quantity}{about} {self.directions[k]}"


SENSES = (
    Sense("rates", "rate", BODY, "rad/s"),
    Sense("specific_force", "specific force", BODY, "m/s2"),
    Sense("attitude_ned", "quaternion", QUATERNION),
    Sense("velocity_north", "velocity", ("north",), "m/s"),
    Sense("velocity_east", "velocity", ("east",), "m/s"),
    Sense("velocity_down", "velocity", ("down",), "m/s"),
    Sense("latitude", "position", ("north",), "rad", scaled=False),
    Sense("longitude", "position", ("east",), "rad", scaled=False),
    Sense("altitude", "position", ("up",), "m"),
    Sense("pressure", "position", ("down",), "Pa", scaled=False),
)
"""Inputs of rtsim's autopilots, which have the names of the outputs of rtsim's vehicles."""


@dataclass(frozen=True)
class Actuator:
    """One element of an output of an autopilot, and how the vehicle reacts to a larger value.

    Args:
        name: Name in words, such as ``front right``.
        signal: Output of the autopilot.
        element: Element of the output.
        low: Smallest value.
        high: Largest value.
        effects: Sign of each motion that a larger value causes: ``{"roll": -1, "pitch": 1}``.
        rest: Value for a flight without control: a climb for rotors, the middle for surfaces.
    """

    name: str
    signal: str = ""
    element: int = 0
    low: float = 0.0
    high: float = 1.0
    effects: dict[str, int] = field(default_factory=dict)
    rest: float = 0.7

    def __post_init__(self) -> None:
        for name, sign in self.effects.items():
            if name not in MOTIONS:
                raise UnknownName("motion", name, MOTIONS, f"actuator {self.name}")
            if sign not in (-1, 1):
                raise ScenarioError(
                    f"actuator {self.name}: the sign of {name} is {sign}; give 1 or -1"
                )

    @property
    def reactions(self) -> list[str]:
        """The declared effects in words."""
        return [said(motion, sign) for motion, sign in self.effects.items()]

    def at(self, signal: str, element: int, low: float = 0.0, high: float = 1.0) -> Actuator:
        """Return the actuator as an element of an output with values from ``low`` to ``high``."""
        scale = (high - low) / (self.high - self.low)
        rest = low + (self.rest - self.low) * scale
        return replace(self, signal=signal, element=element, low=low, high=high, rest=rest)


@dataclass(frozen=True)
class Axes:
    """All inputs of an autopilot whose directions are known, and all its actuators."""

    senses: tuple[Sense, ...] = ()
    actuators: tuple[Actuator, ...] = ()


def rotor(name: str, forward: float, right: float, turns: str, rest: float = 0.7) -> Actuator:
    """Return an actuator that is a rotor with its thrust upwards.

    Args:
        name: Name in words.
        forward: Position in front of the centre of mass, in any unit.
        right: Position to its right.
        turns: ``"cw"`` or ``"ccw"``, seen from above. The reaction turns the vehicle the other way.
        rest: Value for a flight without control, 0 to 1; with this value the vehicle must climb.
    """
    if turns not in ("cw", "ccw"):
        raise ScenarioError(f"rotor {name} turns {turns!r}; give 'cw' or 'ccw', seen from above")
    effects = {"climb": 1, "yaw": 1 if turns == "ccw" else -1}
    if abs(right) > 1e-9:
        effects["roll"] = -1 if right > 0 else 1
    if abs(forward) > 1e-9:
        effects["pitch"] = 1 if forward > 0 else -1
    return Actuator(name, effects=effects, rest=rest)


def rotors(*places: tuple[str, float, str]) -> tuple[Actuator, ...]:
    """Return rotors on a circle, from their names, bearings (deg, clockwise) and senses of turn."""
    return tuple(
        rotor(name, math.cos(math.radians(angle)), math.sin(math.radians(angle)), turns)
        for name, angle, turns in places
    )


QUAD_X = rotors(
    ("front right", 45, "ccw"), ("rear left", 225, "ccw"),
    ("front left", 315, "cw"), ("rear right", 135, "cw"),
)  # fmt: skip
QUAD_PLUS = rotors(
    ("right", 90, "ccw"), ("left", 270, "ccw"), ("front", 0, "cw"), ("rear", 180, "cw")
)
HEXA_X = rotors(
    ("right", 90, "cw"), ("left", 270, "ccw"), ("front left", 330, "cw"),
    ("rear right", 150, "ccw"), ("front right", 30, "ccw"), ("rear left", 210, "cw"),
)  # fmt: skip
"""Rotors of multicopters, in the order of ArduPilot and PX4."""
