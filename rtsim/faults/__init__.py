"""Faults: what goes wrong on purpose at signals, messages and lines, described as data."""

from rtsim.faults.description import Fault, FaultError
from rtsim.faults.reading import read_faults

__all__ = ["Fault", "FaultError", "read_faults"]
