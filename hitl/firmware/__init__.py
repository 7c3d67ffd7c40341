"""Build firmware for boards, or find an image that ships with rtsim."""

from hitl.firmware.firmware import Firmware, firmware

__all__ = ["Firmware", "firmware"]
