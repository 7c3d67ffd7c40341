"""Conformance checks and test doubles for your own components; no module imports pytest."""

from rtsim.testing.clock import FakeClock, check_clock

__all__ = ["FakeClock", "check_clock"]
