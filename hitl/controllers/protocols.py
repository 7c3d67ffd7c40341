"""What a comparison asks of a controller in C, beside :mod:`rtsim.components.protocols`.

Each protocol is optional; the functions below say what holds for a controller without it.
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
    """One that an interface file declares."""

    @property
    def interface(self) -> Interface: ...


@runtime_checkable
class Named(Protocol):
    """One with a name of its own, that of its interface file."""

    @property
    def name(self) -> str: ...


@runtime_checkable
class Compiled(Protocol):
    """One whose compiler may have said something."""

    @property
    def warnings(self) -> str: ...


@runtime_checkable
class FromBuild(Protocol):
    """One that was built here, in one of several kinds."""

    @property
    def build(self) -> Build: ...


@runtime_checkable
class Timed(Protocol):
    """One that measures each of its steps."""

    @property
    def took_ns(self) -> Sequence[int]:
        """Execution time of each step."""
        ...


@runtime_checkable
class Restartable(Protocol):
    """One whose C can be initialised a second time."""

    def restart(self) -> bool:
        """False where its C has no initialisation."""
        ...


@runtime_checkable
class OwnParameters(Protocol):
    """One that says the parameters that its C has by itself."""

    @property
    def own(self) -> Vector | None:
        """(k,); ``None`` where they are not known."""
        ...


@runtime_checkable
class OnBoard(Protocol):
    """One that may run on a board."""

    @property
    def board(self) -> HelloReply | None:
        """What the board said of itself; ``None`` before it was met."""
        ...


@runtime_checkable
class Surrounded(Protocol):
    """One that tells a failure of its C from one around it."""

    @property
    def environment(self) -> bool:
        """What failed was around the C."""
        ...


def interface_of(controller: object) -> Interface | None:
    return controller.interface if isinstance(controller, FromInterface) else None


def name_of(controller: object) -> str:
    return controller.name if isinstance(controller, Named) else "controller"


def warnings_of(controller: object) -> str:
    """What its compiler said; nothing of one without a compiler."""
    return controller.warnings if isinstance(controller, Compiled) else ""


def took_ns_of(controller: object) -> Sequence[int] | None:
    """Execution time of each step, ns; ``None`` where it measures none."""
    return controller.took_ns if isinstance(controller, Timed) else None


def kind_of_build(controller: object) -> str:
    """An uninstrumented one where nothing else is said."""
    return controller.build.kind if isinstance(controller, FromBuild) else PLAIN


def board_of(controller: object) -> HelloReply | None:
    return controller.board if isinstance(controller, OnBoard) else None


def failed_around(controller: object) -> bool:
    """What failed was around its C, and not the C."""
    return isinstance(controller, Surrounded) and controller.environment
