"""Interface files, which describe a controller in C before it is built."""

from hitl.interface.fields import Field
from hitl.interface.file import Interface, StepEntry, load_interface
from hitl.interface.lines import InterfaceError

__all__ = ["Field", "Interface", "InterfaceError", "StepEntry", "load_interface"]
