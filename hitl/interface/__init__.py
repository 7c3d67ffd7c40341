"""Interface files, which describe a controller in C before it is built."""

from hitl.interface.fields import Field, InterfaceError
from hitl.interface.file import Interface, StepEntry, load_interface

__all__ = ["Field", "Interface", "InterfaceError", "StepEntry", "load_interface"]
