"""A block: its ports, its units, and its equations as statements that a diagram combines.

The equations are Python statements with the names of ports, states, memory, parameters and ``t``
(s).  The diagram renames them and combines them into one function, which runs compiled or in plain
Python.  rtsim reads from the statements which output depends directly on which input; blocks do not
declare this.

Units as exponents of symbols, to check that the two ends of a wire agree.

``"kg m^2/s"`` is ``{kg: 1, m: 2, s: -1}``.  Derived SI units are replaced by their base units, and
``rad`` is dropped.  All other symbols are kept, and no value is converted.  ``"1"`` means that no
unit was declared; it matches any unit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from functools import lru_cache
from numbers import Real
from typing import Any, Literal

import numpy as np

from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Signals, unit_factors
from rtsim.core.tag import Period
from rtsim.equations.model import Guard, Timer

# Units as exponents of symbols, to check that the two ends of a wire agree.

ANY = "1"
DERIVED = {
    "rad": "1", "Hz": "1/s", "N": "kg m/s^2", "Pa": "kg/m/s^2", "J": "kg m^2/s^2",
    "W": "kg m^2/s^3", "C": "A s", "V": "kg m^2/s^3/A", "Ohm": "kg m^2/s^3/A^2",
    "F": "A^2 s^4/kg/m^2", "H": "kg m^2/s^2/A^2", "Wb": "kg m^2/s^2/A", "T": "kg/s^2/A",
}  # fmt: skip


@lru_cache(maxsize=4096)
def exponents(unit: str) -> tuple[tuple[str, Fraction], ...]:
    """Return (symbol, exponent) pairs, sorted; empty for ``"1"``.

    Raises :class:`ScenarioError` if ``unit`` is not a unit.
    """
    found: dict[str, Fraction] = {}
    for symbol, power in unit_factors(unit).items():
        for one, n in _made_of(symbol):
            found[one] = found.get(one, Fraction()) + power * n
    return tuple(sorted((s, n) for s, n in found.items() if n))


def _made_of(symbol: str) -> tuple[tuple[str, Fraction], ...]:
    if symbol in DERIVED:
        return exponents(DERIVED[symbol])
    return ((symbol, Fraction(1)),)


def same(a: str, b: str) -> bool:
    """Return whether a wire may connect units ``a`` and ``b``."""
    return ANY in (a, b) or exponents(a) == exponents(b)


def times(a: str, b: str, power: int = 1) -> str:
    """Return the unit of ``a * b^power``; ``"1"`` (undeclared) if ``a`` or ``b`` is undeclared."""
    if ANY in (a, b):
        return ANY
    found = dict(exponents(a))
    for symbol, n in exponents(b):
        found[symbol] = found.get(symbol, Fraction()) + power * n
    return _text({s: n for s, n in found.items() if n})


def _text(found: dict[str, Fraction]) -> str:
    def factors(sign: int) -> list[str]:
        return [
            symbol if abs(n) == 1 else f"{symbol}^{float(abs(n)):g}"
            for symbol, n in sorted(found.items())
            if n * sign > 0
        ]

    above, below = factors(1), factors(-1)
    return "/".join((" ".join(above) or ANY, *below))


Kind = Literal["signal", "event"]
"""A signal has a value at all times; an event has a value only at the instants of the event."""


@dataclass(frozen=True)
class Wire:
    """The kind of a wire, the number of its elements, and their unit."""

    kind: Kind = "signal"
    size: int = 1
    unit: str = ANY


@dataclass(frozen=True)
class Port:
    """An input or output of a block.  ``None`` as ``kind`` or ``size`` allows any kind or size."""

    name: str
    kind: Kind | None = "signal"
    size: int | None = 1
    unit: str = ANY
    optional: bool = False
    """Whether the input may stay unconnected."""
    remedy: str = ""
    """Advice that the error message for a wire of the wrong kind gives."""


@dataclass(frozen=True)
class When:
    """Statements that run at an instant at which all events in ``on`` occur.

    ``on`` names event inputs, guards or timers.  ``do`` may set event outputs, states and memory.
    It reads signals as x-; the values that it sets become x+. ``then`` runs after all other
    statements of the instant.  ``then`` may only set elements of memory at computed indices, to
    values of names that ``do`` set.  ``rest`` replaces ``do`` if the crossings in ``on`` accumulate
    (Zeno).
    """

    on: tuple[str, ...]
    do: str
    then: str = ""
    rest: str = ""


@dataclass(frozen=True)
class InputDelay:
    """A scalar signal input of a block as it was some time ago (docs/delays.md).

    ``port`` is the input.  ``lag`` and ``before`` name parameters of the block: the lag (s), and
    the value of the input before the run.
    """

    port: str
    lag: str
    before: str


@dataclass(frozen=True)
class Equations:
    """The equations of a block.

    ``output`` sets the signal outputs, ``rate`` sets ``d_NAME`` for each state NAME, and ``guard``
    sets each of ``guards``.  The elements of an array are ``name[0]``, ``name[1]``, …;
    ``states[:]``, ``rates[:]`` and ``parameters[:]`` are all states, rates and parameters of the
    block as vectors.  Names of temporaries begin with ``_``.  ``functions`` are the functions and
    constant arrays that the text uses.
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
    delays: Mapping[str, InputDelay] = field(default_factory=dict)
    """Delayed signal inputs by the name with which the equations read their past values."""
    meets: Mapping[str, str] = field(default_factory=dict)
    """Maps an event input to a timer; the event must occur at each tick of the timer."""


Wires = Mapping[str, Wire]
"""The wires at the inputs of a block, by port; open inputs are missing."""


class Block:
    """Base class of all blocks, those of rtsim and those of users.

    ``inputs`` and ``outputs`` do not depend on the wires.  Properties that depend on the wires,
    such as the size of a sum, are returned by :meth:`carries` and :meth:`equations`.
    """

    inputs: tuple[Port, ...] = ()
    outputs: tuple[Port, ...] = ()

    @property
    def label(self) -> str:
        """The text that a drawing shows in the block."""
        return type(self).__name__

    def carries(self, wires: Wires) -> dict[str, Wire]:  # noqa: ARG002
        """Return the wires at the outputs; ``wires`` are those at the inputs, by port."""
        return {
            port.name: Wire(port.kind, port.size, port.unit)
            for port in self.outputs
            if port.kind is not None and port.size is not None
        }

    def equations(self, wires: Wires) -> Equations:
        """Return the block's equations; ``wires`` are all wires at its inputs, by port."""
        raise NotImplementedError

    def __post_init__(self) -> None:
        """Check numbers and periods of a block that is a dataclass."""
        for declared in fields(self):  # type: ignore[arg-type]
            value, what = getattr(self, declared.name), f"{type(self).__name__}({declared.name}="
            if declared.type == "float" or (declared.type == "float | None" and value is not None):
                number(value, what)
            elif declared.type == "Numbers":
                object.__setattr__(self, declared.name, start(numbers(value, what)))
            elif declared.type == "Duration | Period":
                Period.of(value)

    def check(self, name: str, wires: Wires) -> None:
        """Raise :class:`ScenarioError` if the block cannot work with ``wires``."""


def each(size: int, text: str) -> str:
    """Return ``text`` for each element, with ``{i}`` replaced by ``[0]``, ``[1]``, …"""
    if size == 1:
        return text.replace("{i}", "")
    return "\n".join(text.replace("{i}", f"[{k}]") for k in range(size))


def elements(name: str, size: int) -> list[str]:
    """Return the names of the elements: ``name`` for a scalar, else ``name[0]``, ``name[1]``, …"""
    return [name] if size == 1 else [f"{name}[{i}]" for i in range(size)]


def shape(size: int) -> tuple[int, ...]:
    """Return the shape of a signal with ``size`` elements."""
    return () if size == 1 else (size,)


Numbers = float | Sequence[float] | np.ndarray
"""One number, or several as a sequence or a one-dimensional array."""


def number(value: object, what: str) -> float:
    """Return ``value`` as a float; raises :class:`ScenarioError` if it is not a number.

    ``what`` is the text before the value in the message, as in ``Gain(gain=``.
    """
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if not isinstance(value, Real) or math.isnan(value):
        raise ScenarioError(f"{what}{' '.join(repr(value).split())[:60]}): give one number")
    return float(value)


def numbers(value: Numbers, what: str = "(") -> tuple[float, ...]:
    """Return one or several numbers as a tuple; see :func:`number` for ``what``."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if not isinstance(value, (tuple, list)):
        return (number(value, what),)
    if not value:
        raise ScenarioError(f"{what}{value!r}): give at least one number")
    return tuple(number(v, f"{what}… ") for v in value)


def start(values: tuple[float, ...]) -> float | tuple[float, ...]:
    """Return ``values`` in the form of a signal's ``initial``: a float or a tuple."""
    return values[0] if len(values) == 1 else values


Function = Callable[..., Any]

BEGIN = Timer(None, 0)
"""A timer that ticks once, at the start."""
