"""Whole programs in the loop: autopilots and controllers with a ``main()`` of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rtsim.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from hitl.programs.betaflight import Betaflight
    from hitl.programs.library import ProgramError
    from hitl.programs.process import VirtualProcess
    from hitl.programs.program import Program, ProgramPort
    from hitl.programs.started import Datagram

__all__ = ["Betaflight", "Datagram", "Program", "ProgramError", "ProgramPort", "VirtualProcess"]

__getattr__, __dir__ = lazy_exports(__name__)
