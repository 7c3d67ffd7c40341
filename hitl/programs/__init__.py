"""Whole programs in the loop: autopilots and controllers with a ``main()`` of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rtsim.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from hitl.programs.ardupilot import AIRFRAMES, Airframe, ArduPilot
    from hitl.programs.autopilots import AUTOPILOTS
    from hitl.programs.axes import Actuator, Axes, Sense, rotor, rotors
    from hitl.programs.betaflight import Betaflight
    from hitl.programs.library import ProgramError
    from hitl.programs.mavlink import MavlinkHil, Px4
    from hitl.programs.process import VirtualProcess
    from hitl.programs.program import Program, ProgramPort
    from hitl.programs.started import Datagram
    from hitl.programs.wiring import check_wiring

__all__ = [
    "AIRFRAMES",
    "AUTOPILOTS",
    "Actuator",
    "Airframe",
    "ArduPilot",
    "Axes",
    "Betaflight",
    "Datagram",
    "MavlinkHil",
    "Program",
    "ProgramError",
    "ProgramPort",
    "Px4",
    "Sense",
    "VirtualProcess",
    "check_wiring",
    "rotor",
    "rotors",
]

__getattr__, __dir__ = lazy_exports(__name__)
