"""Optional protocols of a controller in C that a comparison uses.

They add to :mod:`rtsim.components.protocols`.  The functions below return a default for a
controller without the protocol.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from hitl.building.build import PLAIN, Build
from hitl.interface import Interface
from hitl.protocol.messages import HelloReply
from rtsim.core.signals import Vector


@runtime_checkable
class FromInterface(Protocol):
    """A controller that an interface file declares."""

    @property
    def interface(self) -> Interface: ...


@runtime_checkable
class Named(Protocol):
    """A controller that has the name of its interface file."""

    @property
    def name(self) -> str: ...


@runtime_checkable
class Compiled(Protocol):
    """A controller that keeps the warnings of its compiler."""

    @property
    def warnings(self) -> str: ...


@runtime_checkable
class FromBuild(Protocol):
    """A controller that was built on this machine, and reports the kind of its build."""

    @property
    def build(self) -> Build: ...


@runtime_checkable
class Timed(Protocol):
    """A controller that measures the execution time of each of its steps."""

    @property
    def took_ns(self) -> Sequence[int]:
        """Execution time of each step, ns."""
        ...


@runtime_checkable
class Restartable(Protocol):
    """A controller whose C code can be initialised a second time."""

    def restart(self) -> bool:
        """Initialise the C code again; return False if it has no entry point for that."""
        ...


@runtime_checkable
class OwnParameters(Protocol):
    """A controller that reports the parameter values written in its C code."""

    @property
    def own(self) -> Vector | None:
        """(k,): the parameter values in the C code; ``None`` if they are not known."""
        ...


@runtime_checkable
class OnBoard(Protocol):
    """A controller that may run on a board."""

    @property
    def board(self) -> HelloReply | None:
        """The board's answer to HELLO; ``None`` before it has answered."""
        ...


@runtime_checkable
class Surrounded(Protocol):
    """A controller that distinguishes failures of the environment from failures of its C code."""

    @property
    def environment(self) -> bool:
        """True if the environment of the controller failed, and not its C code."""
        ...


def interface_of(controller: object) -> Interface | None:
    return controller.interface if isinstance(controller, FromInterface) else None


def name_of(controller: object) -> str:
    return controller.name if isinstance(controller, Named) else "controller"


def warnings_of(controller: object) -> str:
    """Return the compiler warnings of a controller; empty if it is not compiled."""
    return controller.warnings if isinstance(controller, Compiled) else ""


def took_ns_of(controller: object) -> Sequence[int] | None:
    """Return the execution time of each step, ns; ``None`` if the controller measures none."""
    return controller.took_ns if isinstance(controller, Timed) else None


def kind_of_build(controller: object) -> str:
    """Return the kind of a controller's build; ``plain`` if it has no build."""
    return controller.build.kind if isinstance(controller, FromBuild) else PLAIN


def board_of(controller: object) -> HelloReply | None:
    return controller.board if isinstance(controller, OnBoard) else None


def failed_around(controller: object) -> bool:
    """Return whether the environment of the controller failed, and not its C code."""
    return isinstance(controller, Surrounded) and controller.environment
