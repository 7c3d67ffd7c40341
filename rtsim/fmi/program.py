"""The operations of a plant that another program computes, and what the program declares.

Every operation takes and returns a vector of numbers and some bytes, so that the same operations
work in this process and over a socket.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from rtsim.core.errors import ModelError
from rtsim.core.signals import Signals, Vector

if TYPE_CHECKING:
    from rtsim.fmi.compiled_steps import FmuFunctions

START, STEP, OUTPUTS, DERIVATIVE, INDICATORS, EVENT, COMPLETED = (
    "start", "step", "outputs", "derivative", "indicators", "event", "completed",
)  # fmt: skip
KEEP, BACK, SAVE, RESTORE, TUNE = "keep", "back", "save", "restore", "tune"
OPERATIONS = (
    START, STEP, OUTPUTS, DERIVATIVE, INDICATORS, EVENT, COMPLETED, KEEP, BACK, SAVE, RESTORE, TUNE,
)  # fmt: skip
"""The operations, with the numbers that they take and return (times in s):

- ``start``: ``[t, *p, *x, *u]`` gives ``[next event, *x]``; a second start resets the program.
- ``step``: ``[t, h, *u]`` advances a program with its own solver by ``h`` and gives ``y``.
- ``outputs``, ``derivative``, ``indicators``: ``[t, *x, *u]`` gives ``y``, ``dx`` or ``g``.
- ``event``: ``[t, *x, *u]`` handles the events of this time and gives ``[next event, *x]``.
- ``completed``: ``[t, *x, *u]`` ends a solver step, and gives ``[1]`` if an event is due.
- ``keep`` stores the state in memory, and ``back`` returns to the stored state.
- ``save`` gives the state as bytes, and ``restore`` takes the bytes.  The data of ``save`` are
  ``b"kept"`` for the stored state or ``b"present"`` for the present one.
- ``tune``: ``p`` changes the tunable parameters.
"""
NOTHING = np.zeros(0)


class Program(Protocol):
    """A program that computes one plant, in this process or in another."""

    def functions(self) -> FmuFunctions | None:
        """Return C functions that compiled code can call, or ``None``."""
        ...

    def call(self, operation: str, numbers: Vector, data: bytes = b"") -> tuple[Vector, bytes]:
        """Perform an operation of :data:`OPERATIONS`; raise :class:`ModelError` if it fails."""
        ...

    def close(self) -> None:
        """Free the program; a second call has no effect."""
        ...


class LocalProgram:
    """Base class of a program that runs in the calling process.

    A derived class has a method for each operation that it supports, with the operation's name.
    The constructor takes the mapping ``spec`` of :class:`Interface`.  An operation that ends the
    simulation raises :class:`rtsim.core.errors.Ended`; then ``outputs`` gives the last outputs.
    """

    def call(self, operation: str, numbers: Vector, data: bytes = b"") -> tuple[Vector, bytes]:
        if operation not in OPERATIONS:
            raise ModelError(f"{operation!r} is not an operation of a plant")
        found: Vector | bytes | None = getattr(self, operation)(data or numbers)
        if isinstance(found, bytes):
            return NOTHING, found
        return (NOTHING if found is None else found), b""

    def functions(self) -> FmuFunctions | None:
        return None

    def close(self) -> None:
        """Free the program."""


@dataclass(frozen=True)
class Interface:
    """What a program declares about its plant."""

    name: str
    program: str
    """The key of the program's class in :data:`rtsim.fmi.process.PROGRAMS`."""
    spec: Mapping[str, Any]
    """The argument of the program's constructor, as plain data."""
    inputs: Signals = Signals()
    outputs: Signals = Signals()
    parameters: Signals = Signals()
    tunable: frozenset[str] = frozenset()
    """Parameters that can change during a run."""
    states: Signals = Signals()
    """Continuous states; empty if the program has its own solver."""
    indicators: tuple[str, ...] = ()
    """Names of the event indicators."""
    discrete_inputs: frozenset[str] = frozenset()
    """Inputs whose change is an event of a program with continuous states."""
    exchange: bool = False
    """True if rtsim's solver integrates the states."""
    completes: bool = False
    """True if the program must be informed of each solver step (``completed``)."""
    keeps: bool = False
    """True if the program supports ``keep`` and ``back``."""
    saves: bool = False
    """True if the program supports ``save`` and ``restore``."""
    fixed_step: bool = False
    """True if all steps must have the same length."""
    nominal: Mapping[str, float] = field(default_factory=dict)
    """Nominal values of states, which scale the absolute tolerance of a solver."""
    description: Mapping[str, Any] = field(default_factory=dict)
    """Plain data for the header of a recording."""
    limits: tuple[str, ...] = ()
    """Missing capabilities, as sentences for every recording."""


def identifier(name: str, taken: Mapping[str, object]) -> str:
    """Return ``name`` as an identifier that is not ``taken``: ``body.v[1]`` gives ``body_v_1``."""
    out = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_") or "v"
    out = f"v_{out}" if out[0].isdigit() else out
    found, k = out, 2
    while found in taken:
        found, k = f"{out}_{k}", k + 1
    return found
