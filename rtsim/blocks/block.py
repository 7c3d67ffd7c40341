"""Base class of blocks: ports, wires, units and equations.

A block gives its equations as Python statements that use the names of its ports, states, memory and
parameters, and ``t`` (s). A diagram replaces the names, and combines the statements of all blocks
into functions. The functions run compiled or as plain Python. The author of a block need not
declare which output depends on which input, because rtsim finds the dependences in the statements.

rtsim reports an error if the units at the two ends of a wire differ. ``"kg m^2/s"`` is ``{kg: 1, m:
2, s: -1}``. Derived SI units are converted to base units, so that ``N`` equals ``kg m/s^2``;
``rad`` counts as dimensionless. All other symbols are kept. No value is converted. A port with the
unit ``"1"`` can be connected to a port with any unit.
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

ANY = "1"
DERIVED = {
    "rad": "1", "Hz": "1/s", "N": "kg m/s^2", "Pa": "kg/m/s^2", "J": "kg m^2/s^2",
    "W": "kg m^2/s^3", "C": "A s", "V": "kg m^2/s^3/A", "Ohm": "kg m^2/s^3/A^2",
    "F": "A^2 s^4/kg/m^2", "H": "kg m^2/s^2/A^2", "Wb": "kg m^2/s^2/A", "T": "kg/s^2/A",
}  # fmt: skip


@lru_cache(maxsize=4096)
def exponents(unit: str) -> tuple[tuple[str, Fraction], ...]:
    """Return the unit as sorted pairs (symbol, exponent); empty for ``"1"``.

    Raises :class:`ScenarioError` if ``unit`` is not a valid unit.
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
    """Return whether the units ``a`` and ``b`` agree, so that a wire may connect them."""
    return ANY in (a, b) or exponents(a) == exponents(b)


def times(a: str, b: str, power: int = 1) -> str:
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
"""A signal has a value at all times; an event has a value only at the instants at which it
occurs.
"""


@dataclass(frozen=True)
class Wire:
    """The kind, number of elements and unit of a wire."""

    kind: Kind = "signal"
    size: int = 1
    unit: str = ANY


@dataclass(frozen=True)
class Port:
    """An input or output of a block; ``None`` allows every ``kind`` or ``size``."""

    name: str
    kind: Kind | None = "signal"
    size: int | None = 1
    unit: str = ANY
    optional: bool = False
    """True if the input may stay unconnected."""
    remedy: str = ""
    """Advice in the error message for a wire of the wrong kind."""


@dataclass(frozen=True)
class When:
    """Statements of a block that run when all events in ``on`` occur at the same instant.

    - ``on`` contains names of event inputs, guards or timers.
    - The statements in ``do`` set event outputs, states and memory. The statements in ``do`` read
      the values of signals before the instant (x-), and set the values after the instant (x+).
    - The statements in ``then`` run after all other statements of the same instant. A statement in
      ``then`` may only write one element of a memory array. A statement in ``then`` may only assign
      a value that the statements in ``do`` have computed.
    - ``rest``: stop-mode statements. If the guards in ``on`` fire infinitely often in a finite time
      (Zeno), rtsim executes the statements in ``rest`` instead of those in ``do``.
    """

    on: tuple[str, ...]
    do: str
    then: str = ""
    rest: str = ""


@dataclass(frozen=True)
class InputDelay:
    """The value of a scalar input at an earlier time (docs/delays.md).

    ``port`` is the input. The parameter named by ``lag`` is the delay (s), and the parameter named
    by ``before`` is the value of the input before the start of the run.
    """

    port: str
    lag: str
    before: str


@dataclass(frozen=True)
class Equations:
    """The equations of a block.

    - ``output`` sets the signal outputs.
    - The assignment to ``d_NAME`` in ``rate`` sets the time derivative of the state NAME.
    - ``guard`` sets each of ``guards``.
    - ``functions`` contains the functions and constant arrays that the equations use.

    Elements of an array are ``name[0]``, ``name[1]``, … The vectors ``states[:]``, ``rates[:]`` and
    ``parameters[:]`` contain all states, rates and parameters of the block.  Names of temporary
    variables begin with ``_``.
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
    """The delayed inputs, by the names that the equations use for the past values."""
    meets: Mapping[str, str] = field(default_factory=dict)
    """Maps an event input to a timer; the event must occur at each tick of this timer."""


Wires = Mapping[str, Wire]
"""The wires at the inputs of a block, by port, without open inputs."""


class Block:
    """Base class of all blocks.

    ``inputs`` and ``outputs`` are fixed. The size of an output can depend on the connected wires; a
    sum, for example, has the size of its inputs.
    """

    inputs: tuple[Port, ...] = ()
    outputs: tuple[Port, ...] = ()

    @property
    def label(self) -> str:
        """The text that a drawing shows inside the block."""
        return type(self).__name__

    def carries(self, wires: Wires) -> dict[str, Wire]:  # noqa: ARG002
        """Return the kind, size and unit of each output, for the input wires ``wires``."""
        return {
            port.name: Wire(port.kind, port.size, port.unit)
            for port in self.outputs
            if port.kind is not None and port.size is not None
        }

    def equations(self, wires: Wires) -> Equations:
        """Return the equations of the block for the wires at its input ports, ``wires``."""
        raise NotImplementedError

    def __post_init__(self) -> None:
        for declared in fields(self):  # type: ignore[arg-type]
            value, what = getattr(self, declared.name), f"{type(self).__name__}({declared.name}="
            if declared.type == "float" or (declared.type == "float | None" and value is not None):
                number(value, what)
            elif declared.type == "Numbers":
                object.__setattr__(self, declared.name, start(numbers(value, what)))
            elif declared.type == "Duration | Period":
                Period.of(value)

    def check(self, name: str, wires: Wires) -> None:
        """Raise :class:`ScenarioError` if the block cannot work with the connected wires."""


def each(size: int, text: str) -> str:
    """Return ``text`` once per element, with ``{i}`` replaced by ``[0]``, ``[1]`` and so on."""
    if size == 1:
        return text.replace("{i}", "")
    return "\n".join(text.replace("{i}", f"[{k}]") for k in range(size))


def elements(name: str, size: int) -> list[str]:
    return [name] if size == 1 else [f"{name}[{i}]" for i in range(size)]


def shape(size: int) -> tuple[int, ...]:
    return () if size == 1 else (size,)


Numbers = float | Sequence[float] | np.ndarray
"""One number, or several as a sequence or a one-dimensional array."""


def number(value: object, what: str) -> float:
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if not isinstance(value, Real) or math.isnan(value):
        raise ScenarioError(f"{what}{' '.join(repr(value).split())[:60]}): give one number")
    return float(value)


def numbers(value: Numbers, what: str = "(") -> tuple[float, ...]:
    """Return one or several numbers as a tuple. The text ``what`` begins an error message."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if not isinstance(value, (tuple, list)):
        return (number(value, what),)
    if not value:
        raise ScenarioError(f"{what}{value!r}): give at least one number")
    return tuple(number(v, f"{what}… ") for v in value)


def start(values: tuple[float, ...]) -> float | tuple[float, ...]:
    """Return ``values`` in the form of a signal's initial value: a float or a tuple."""
    return values[0] if len(values) == 1 else values


Function = Callable[..., Any]

BEGIN = Timer(None, 0)
"""A timer that ticks once, at the start of the run."""
