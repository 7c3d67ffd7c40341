"""What is known of a controller before it is built: its interface file."""

from hitl.interface.fields import Field
from hitl.interface.file import Interface, StepEntry, load_interface
from hitl.interface.lines import InterfaceError

__all__ = ["Field", "Interface", "InterfaceError", "StepEntry", "load_interface"]
