"""Injected faults of signals, messages, lines and the real-time loop, described as data."""

from rtsim.engine.faults.description import fault_of
from rtsim.engine.faults.kind import Fault, FaultError
from rtsim.engine.faults.reading import read_faults

__all__ = ["Fault", "FaultError", "fault_of", "read_faults"]
