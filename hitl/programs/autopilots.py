"""All known autopilots by name: those of rtsim, and those that other packages add."""

from __future__ import annotations

from typing import Protocol

from hitl.programs.axes import Axes
from rtsim.components.controller import ControllerProtocol
from rtsim.core.errors import ScenarioError
from rtsim.core.extension_point import ExtensionPoint


class Autopilot(ControllerProtocol, Protocol):
    """A controller that knows the directions of its inputs and outputs."""

    axes: Axes


def _checked(name: str, made: object) -> type[Autopilot]:
    if not isinstance(made, type):
        raise ScenarioError(f"autopilot {name!r} is {made!r}; expected a class of controllers")
    if not isinstance(getattr(made, "axes", None), Axes):
        raise ScenarioError(
            f"autopilot {name!r}: the class {made.__name__} has no attribute axes of type Axes; "
            "add axes = Axes(senses=..., actuators=...) of hitl.programs.axes"
        )
    return made


AUTOPILOTS: ExtensionPoint[type[Autopilot]] = ExtensionPoint(
    "rtsim.autopilots",
    "autopilot",
    {
        "betaflight": "hitl.programs.betaflight:Betaflight",
        "ardupilot": "hitl.programs.ardupilot:ArduPilot",
        "px4": "hitl.programs.mavlink:Px4",
        "mavlink": "hitl.programs.mavlink:MavlinkHil",
    },
    _checked,
)
"""All autopilots by name. A package adds a class by an entry point of the group
``rtsim.autopilots``; ``AUTOPILOTS.add(name, CLASS)`` adds a class for one process."""
