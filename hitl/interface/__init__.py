"""What is known of a controller before it is built: its interface file."""

from hitl.interface.fields import Field
from hitl.interface.file import Interface, Step, load_interface
from hitl.interface.lines import InterfaceError

__all__ = ["Field", "Interface", "InterfaceError", "Step", "load_interface"]
