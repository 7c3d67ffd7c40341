"""Firmware of boards: the sketch of a controller, its image, and the images that ship."""

from hitl.firmware.firmware import Firmware, firmware

__all__ = ["Firmware", "firmware"]
