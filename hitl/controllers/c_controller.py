"""Base class and parameters of controllers in C."""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np

from hitl.building.build import PLAIN
from hitl.interface import Interface
from hitl.protocol.messages import HelloReply
from rtsim.components.request_log import RequestLog, feed
from rtsim.core.errors import ControllerError
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import Tag

KEEP = np.array([0x7FF8727473696D21], np.uint64).view(np.float64)[0]
"""Value of RTSIM_KEEP (rtsim_unit.h): the parameter keeps the value from the C code."""


class GivenParameters:
    """The parameter vector of one run.

    A parameter without a given value keeps its value in the C code.
    """

    def __init__(self, interface: Interface, values: Mapping[str, object]) -> None:
        self.values = interface.parameters.initial(values)
        """The values in use, shape (k,). :meth:`learn` adds the values from the C code."""
        self.own: Vector | None = None
        """The initial values in the C code, shape (k,); ``None`` until they are known."""
        self.unnamed = unnamed(interface, values)
        self._names = interface.parameters.columns
        whole = [("int" in s.type, s.size) for s in interface.parameters]
        self._whole = np.array([is_int for is_int, n in whole for _ in range(n)], np.bool_)
        self._left = np.zeros(len(self.values), np.bool_)
        for name in self.unnamed:
            self._left[interface.parameters.slice(name)] = True

    @property
    def sent(self) -> Vector:
        """Parameters (k,) for the generated code; ``KEEP`` stands for a missing value."""
        out = self.values.copy()
        out[self._left] = KEEP
        return out

    def learn(self, own: Vector) -> None:
        """Store the parameter values ``own`` (k,) that the C code has reported.

        Raises ``ControllerError`` if float64 cannot represent a value.
        """
        if self.own is None and len(own) == len(self.values):
            for at in np.flatnonzero(np.isnan(own) & self._left & self._whole):
                raise ControllerError(
                    f"the C code gives {self._names[at]} an integer above 2^53 that no float64 "
                    "represents; give the parameter an initial value, or leave it out"
                )
            self.own = np.array(own, np.float64)
            self.values[self._left] = self.own[self._left]


def unnamed(interface: Interface, values: Mapping[str, object]) -> list[str]:
    """Return the parameters without a given value."""
    fields = interface.parameter_fields
    return [f.signal.name for f in fields if not f.given and f.signal.name not in values]


class CController(ABC):
    """A controller in C.

    To restore a controller, all its steps are repeated, because the memory of C code is unknown.
    Attributes that ``_prepare`` sets belong to one run.
    """

    outside: bool

    def __init__(self, interface: Interface, values: Mapping[str, object] | None) -> None:
        self.interface = interface
        self.inputs: Signals = interface.inputs
        self.outputs: Signals = interface.outputs
        self.parameters: Signals = interface.parameters
        self.values: dict[str, object] = dict(values or {})
        self.name = interface.name

    def _prepare(self) -> None:
        self.took_ns = array("q")
        """Execution time of each step, ns."""
        self._measured = [self.took_ns]
        """Measurements of each step. A restored controller has none."""

    def _copy(self) -> Self:
        out = object.__new__(type(self))
        for name, value in vars(self).items():  # copy() would double the time of each access
            setattr(out, name, value)
        out.values = dict(self.values)
        out._prepare()
        return out

    @abstractmethod
    def _requests(self) -> RequestLog:
        """Return all steps since the start."""

    @abstractmethod
    def send(self, tag: Tag, inputs: Vector) -> None: ...

    @abstractmethod
    def receive(self, tag: Tag, patience: float) -> Vector | None: ...

    @abstractmethod
    def _again(self, tag: Tag) -> Vector:
        """Return the answer to a repeated step."""

    def save(self) -> dict[str, Any]:
        return self._requests().save()

    def restore(self, saved: dict[str, Any]) -> None:
        feed(saved, self._requests(), self.name, self.send, self._again)
        for measured in self._measured:
            del measured[:]


# -- queries about any controller, with a default if the controller lacks the attribute


@runtime_checkable
class Restartable(Protocol):
    """A controller that can be initialised a second time."""

    def restart(self) -> bool:
        """Initialise the C code again; return False if this is impossible."""
        ...


def interface_of(controller: object) -> Interface | None:
    return getattr(controller, "interface", None)


def name_of(controller: object) -> str:
    return getattr(controller, "name", "controller")


def warnings_of(controller: object) -> str:
    return getattr(controller, "warnings", "")


def took_ns_of(controller: object) -> Sequence[int] | None:
    """Return the execution time of each step (ns), or ``None``."""
    return getattr(controller, "took_ns", None)


def own_parameters_of(controller: object) -> Vector | None:
    """Return the parameter values (k,) of the C code, or ``None``."""
    return getattr(controller, "own", None)


def kind_of_build(controller: object) -> str:
    """Return the kind of a controller's build, such as ``plain``."""
    return getattr(getattr(controller, "build", None), "kind", PLAIN)


def board_of(controller: object) -> HelloReply | None:
    return getattr(controller, "board", None)


def failed_around(controller: object) -> bool:
    """Return True if the environment caused the failure of a controller."""
    return getattr(controller, "environment", False)
