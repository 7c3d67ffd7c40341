"""Build firmware for boards, or find an image that ships with rtsim."""

from hitl.firmware.firmware import CORE_SOURCES, Firmware, firmware

__all__ = ["CORE_SOURCES", "Firmware", "firmware"]
