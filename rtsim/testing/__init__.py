"""Suites and stand-ins for users' own parts; none of it imports pytest."""

from rtsim.testing.clock import FakeClock, check_clock

__all__ = ["FakeClock", "check_clock"]
