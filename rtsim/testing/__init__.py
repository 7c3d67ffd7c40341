"""Conformance suites and test doubles for components of your own; none of it imports pytest."""

from rtsim.testing.clock import FakeClock, check_clock

__all__ = ["FakeClock", "check_clock"]
