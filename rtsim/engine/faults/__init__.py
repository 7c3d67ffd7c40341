"""Faults: what goes wrong on purpose at signals, messages and lines, described as data."""

from rtsim.engine.faults.description import Fault
from rtsim.engine.faults.kind import FaultError
from rtsim.engine.faults.reading import read_faults

__all__ = ["Fault", "FaultError", "read_faults"]
