"""Faults of signals, messages, lines and the real-time loop."""

from rtsim.engine.faults.description import fault_of, read_faults
from rtsim.engine.faults.kind import Fault, FaultError

__all__ = ["Fault", "FaultError", "fault_of", "read_faults"]
