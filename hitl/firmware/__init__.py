"""Firmware of boards: a controller's sketch, its image, and images that ship."""

from hitl.firmware.firmware import Firmware, firmware

__all__ = ["Firmware", "firmware"]
