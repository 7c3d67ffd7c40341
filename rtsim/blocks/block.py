"""A block: its ports, and its equations as small statements that a diagram puts together.

The equations are Python statements over the names of ports, states, memory, parameters and ``t``
(s).  They are the only source: the diagram renames them into one function, which runs compiled or
plain.  Which output depends directly on which input is read off them, and not declared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from numbers import Real
from typing import Any, Literal

import numpy as np

from rtsim.blocks.units import ANY
from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Signals
from rtsim.core.tag import Period
from rtsim.equations.model import Guard, Timer

Kind = Literal["signal", "event"]
"""A signal has a value at all times; an event happens at instants, and has one there."""


@dataclass(frozen=True)
class Wire:
    """What a wire carries: ``size`` numbers, in ``unit``."""

    kind: Kind = "signal"
    size: int = 1
    unit: str = ANY


@dataclass(frozen=True)
class Port:
    """Where wires end.  ``kind`` or ``size`` ``None``: any."""

    name: str
    kind: Kind | None = "signal"
    size: int | None = 1
    unit: str = ANY
    optional: bool = False
    """It need not be wired."""
    remedy: str = ""
    """What to do where a wire of the other kind comes."""


@dataclass(frozen=True)
class When:
    """What happens at an instant at which all of ``on`` happen: event inputs, guards or timers.

    ``do`` may set event outputs, states and memory.  It reads signals as x-, and what it sets
    becomes x+.  ``then`` runs behind everything else of the instant: it may only fill elements of
    memory at computed indices, from names that ``do`` set.  ``rest`` stands in for ``do`` where the
    crossings that set it off accumulate (Zeno).
    """

    on: tuple[str, ...]
    do: str
    then: str = ""
    rest: str = ""


@dataclass(frozen=True)
class Equations:
    """What a block computes.

    ``output`` sets signal outputs, ``rate`` sets ``d_NAME`` for each state, ``guard`` sets each of
    ``guards``.  An array port or state is ``name[0]``, ``name[1]``, …; ``states[:]``, ``rates[:]``
    and ``parameters[:]`` are all of the block's as vectors.  Names of temporaries begin with ``_``.
    ``functions`` are what the text calls, and constant arrays.
    """

    states: Signals = Signals()
    memory: Signals = Signals()
    parameters: Signals = Signals()
    output: str = ""
    rate: str = ""
    guards: tuple[Guard, ...] = ()
    guard: str = ""
    timers: Mapping[str, Timer] = field(default_factory=dict)
    when: tuple[When, ...] = ()
    functions: Mapping[str, Any] = field(default_factory=dict)
    meets: Mapping[str, str] = field(default_factory=dict)
    """By event input: the timer at each of whose ticks it must happen."""


Wires = Mapping[str, Wire]
"""By port; a port that is not wired is not in it."""


class Block:
    """Base of all blocks; a user's own are made alike.

    ``inputs`` and ``outputs`` are known before anything is wired; what depends on the wires (the
    size of a sum) is asked of :meth:`carries` and :meth:`equations` when they are.
    """

    inputs: tuple[Port, ...] = ()
    outputs: tuple[Port, ...] = ()

    @property
    def label(self) -> str:
        """What it is, for a drawing."""
        return type(self).__name__

    def carries(self, wires: Wires) -> dict[str, Wire]:  # noqa: ARG002
        """What its outputs carry, as far as that is known from what its inputs do."""
        return {
            port.name: Wire(port.kind, port.size, port.unit)
            for port in self.outputs
            if port.kind is not None and port.size is not None
        }

    def equations(self, wires: Wires) -> Equations:
        """Once all of its wires are known."""
        raise NotImplementedError

    def __post_init__(self) -> None:
        """Of blocks that are data classes: what is declared as a number or a period is one."""
        for declared in fields(self):  # type: ignore[arg-type]
            value, what = getattr(self, declared.name), f"{type(self).__name__}({declared.name}="
            if declared.type == "float" or (declared.type == "float | None" and value is not None):
                number(value, what)
            elif declared.type == "Numbers":
                object.__setattr__(self, declared.name, start(numbers(value, what)))
            elif declared.type == "Duration | Period":
                Period.of(value)

    def check(self, name: str, wires: Wires) -> None:
        """Raise :class:`ScenarioError` where it cannot work with what is wired to it."""


def each(size: int, text: str) -> str:
    """``text`` for each element: ``{i}`` becomes nothing for a scalar, else ``[0]``, ``[1]``, …"""
    if size == 1:
        return text.replace("{i}", "")
    return "\n".join(text.replace("{i}", f"[{k}]") for k in range(size))


def elements(name: str, size: int) -> list[str]:
    """The names of its elements: itself for a scalar, else ``name[0]``, ``name[1]``, …"""
    return [name] if size == 1 else [f"{name}[{i}]" for i in range(size)]


def shape(size: int) -> tuple[int, ...]:
    """Of a signal with ``size`` elements."""
    return () if size == 1 else (size,)


Numbers = float | Sequence[float] | np.ndarray
"""One, or several as a sequence or an array of one dimension."""


def number(value: object, what: str) -> float:
    """``value``; ``what`` ends where it stands, as in ``Gain(gain=``."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if not isinstance(value, Real) or math.isnan(value):
        raise ScenarioError(f"{what}{' '.join(repr(value).split())[:60]}): give one number")
    return float(value)


def numbers(value: Numbers, what: str = "(") -> tuple[float, ...]:
    """One or several."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if not isinstance(value, (tuple, list)):
        return (number(value, what),)
    if not value:
        raise ScenarioError(f"{what}{value!r}): give at least one number")
    return tuple(number(v, f"{what}… ") for v in value)


def start(values: tuple[float, ...]) -> float | tuple[float, ...]:
    """As a signal's ``initial``."""
    return values[0] if len(values) == 1 else values


Function = Callable[..., Any]

BEGIN = Timer(None, 0)
"""Once, at the start."""
