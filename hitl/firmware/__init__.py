"""Build firmware for boards, or find an image that rtsim contains."""

from hitl.firmware.firmware import CORE_SOURCES, Firmware, firmware

__all__ = ["CORE_SOURCES", "Firmware", "firmware"]
