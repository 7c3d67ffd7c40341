"""Blocks without memory, whose output is a function of the present inputs.

Inputs can be signals or events.  If an input is an event, the output is an event too: it occurs at
each instant at which all event inputs occur.  Signal inputs are read at this instant.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rtsim.blocks import block
from rtsim.blocks.block import (
    BEGIN,
    Block,
    Equations,
    Function,
    Kind,
    Port,
    When,
    Wire,
    Wires,
    each,
)
from rtsim.core.errors import ScenarioError, ShapeError
from rtsim.core.signals import Signal, Signals
from rtsim.equations.compiling import compiled
from rtsim.equations.model import Guard
from rtsim.equations.reading_functions import check_names, check_value

_OUT = (Port("y", None, None),)


class Memoryless(Block):
    """Base class of blocks with one output ``y``, of the same kind and size as the inputs."""

    outputs = _OUT

    def carries(self, wires: Wires) -> dict[str, Wire]:
        known = [wires[port.name] for port in self.inputs if port.name in wires]
        if len(known) < len(self.inputs):
            return {}
        kind: Kind = "event" if any(w.kind == "event" for w in known) else "signal"
        return {"y": Wire(kind, known[0].size if known else 1, self.unit_of(known))}

    def unit_of(self, wires: Sequence[Wire]) -> str:  # noqa: ARG002
        return block.ANY

    def check(self, name: str, wires: Wires) -> None:
        sizes = {port.name: wires[port.name].size for port in self.inputs}
        if len(set(sizes.values())) > 1:
            listed = ", ".join(f"{port} {size}" for port, size in sizes.items())
            raise ShapeError(
                f"inputs of {name} have different sizes ({listed}); make all sizes equal"
            )

    def made(self, wires: Wires, text: str, **rest: Any) -> Equations:
        """Return equations that assign the expression ``text`` to the output.

        In ``text``, ``{i}`` must follow each port name.
        """
        text = each(wires[self.inputs[0].name].size if self.inputs else 1, text)
        on = tuple(p.name for p in self.inputs if wires[p.name].kind == "event")
        return Equations(when=(When(on, text),), **rest) if on else Equations(output=text, **rest)


def _inputs(names: Sequence[str], size: int | None = None) -> tuple[Port, ...]:
    return tuple(Port(name, None, size) for name in names)


@dataclass(frozen=True)
class Gain(Memoryless):
    """Multiply the input by a constant: ``y = gain * u``.

    ``unit`` is the unit of ``gain``.  ``y`` has the unit of ``gain * u`` if both units are
    declared.
    """

    gain: float = 1.0
    unit: str = block.ANY
    inputs = _inputs(("u",))

    @property
    def label(self) -> str:
        return f"× {self.gain:g}"

    def unit_of(self, wires: Sequence[Wire]) -> str:
        return block.times(wires[0].unit, self.unit)

    def equations(self, wires: Wires) -> Equations:
        parameters = Signals(Signal("gain", self.unit, initial=self.gain))
        return self.made(wires, "y{i} = gain * u{i}", parameters=parameters)


class Sum(Memoryless):
    """A sum with one input per sign: ``Sum("+-")`` computes ``y = u1 - u2``."""

    def __init__(self, signs: str = "++") -> None:
        if not isinstance(signs, str) or not signs or set(signs) - set("+-"):
            raise ScenarioError(f"Sum({signs!r}); give one + or - for each input, as in Sum('+-')")
        self.signs = signs
        self.inputs = _inputs([f"u{i + 1}" for i in range(len(signs))])

    @property
    def label(self) -> str:
        return " ".join(self.signs)

    def unit_of(self, wires: Sequence[Wire]) -> str:
        return next((w.unit for w in wires if w.unit != block.ANY), block.ANY)

    def check(self, name: str, wires: Wires) -> None:
        super().check(name, wires)
        known = {p.name: wires[p.name].unit for p in self.inputs}
        wanted = self.unit_of([wires[p.name] for p in self.inputs])
        for port, unit in known.items():
            if not block.same(unit, wanted):
                raise ScenarioError(
                    f"{name} cannot add {wanted} and {unit} ({port}); wires do not convert units. "
                    "Put a Gain with the unit of the conversion before this input"
                )

    def equations(self, wires: Wires) -> Equations:
        terms = " ".join(f"{s} {p.name}{{i}}" for s, p in zip(self.signs, self.inputs, strict=True))
        return self.made(wires, f"y{{i}} = {terms.removeprefix('+ ')}")


class Product(Memoryless):
    """A product with one input per sign: ``Product("**/")`` computes ``y = u1 * u2 / u3``."""

    def __init__(self, signs: str = "**") -> None:
        if not isinstance(signs, str) or not signs or set(signs) - set("*/"):
            raise ScenarioError(f"Product({signs!r}); give one * or / for each input, as in '*/'")
        self.signs = signs
        self.inputs = _inputs([f"u{i + 1}" for i in range(len(signs))])

    @property
    def label(self) -> str:
        return " ".join(self.signs.replace("*", "×"))

    def unit_of(self, wires: Sequence[Wire]) -> str:
        out = wires[0].unit if self.signs[0] == "*" else block.ANY
        for sign, wire in zip(self.signs[1:], wires[1:], strict=True):
            out = block.times(out, wire.unit, 1 if sign == "*" else -1)
        return out

    def equations(self, wires: Wires) -> Equations:
        first, *rest = zip(self.signs, self.inputs, strict=True)
        text = f"{first[1].name}{{i}}" if first[0] == "*" else f"1.0 / {first[1].name}{{i}}"
        for sign, port in rest:
            text += f" {sign} {port.name}{{i}}"
        return self.made(wires, f"y{{i}} = {text}")


class Expression(Memoryless):
    """A pure function of scalar inputs, ``y = function(a, b, …)``, whose arguments name the inputs.

    An argument ``t`` is the simulated time (s); a function of ``t`` alone is a source. The solver
    does not locate a jump within the function, as in ``1 if a > 2 else 0``. Use a LevelCrossing or
    a Quantiser for jumps.
    """

    def __init__(self, function: Function, unit: str = block.ANY) -> None:
        plain = getattr(function, "py_func", function)
        if not inspect.isfunction(plain):
            raise ScenarioError(
                f"Expression({function!r}): give a Python function of scalars, "
                "such as Expression(lambda x: math.sin(x))"
            )
        code = plain.__code__
        self.arguments = code.co_varnames[: code.co_argcount]
        self.function, self.unit, self._name = function, unit, plain.__name__
        self.inputs = _inputs([a for a in self.arguments if a != "t"], 1)
        if not self.arguments:
            raise ScenarioError(
                f"the function {self._name} of an Expression has no argument; add one for each "
                "input, or t for the time in s, or use a Constant"
            )

    @property
    def label(self) -> str:
        return f"{'f' if self._name == '<lambda>' else self._name}({', '.join(self.arguments)})"

    def unit_of(self, wires: Sequence[Wire]) -> str:  # noqa: ARG002
        return self.unit

    def check(self, name: str, wires: Wires) -> None:
        super().check(name, wires)
        check_value(self.function, f"{self._name} of Expression {name}")
        check_names(self.function, f"{self._name} of Expression {name}")

    def equations(self, wires: Wires) -> Equations:
        function = self.function if hasattr(self.function, "py_func") else compiled(self.function)
        call = f"y = function({', '.join(self.arguments)})"
        return self.made(wires, call, functions={"function": function})


@dataclass(frozen=True)
class Saturation(Memoryless):
    """Limit ``u`` to the range from ``low`` to ``high``.  Reaching a limit creates no tag."""

    low: float = -1.0
    high: float = 1.0
    inputs = _inputs(("u",))

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.low < self.high:
            raise ScenarioError(f"Saturation({self.low}, {self.high}): give low < high")

    @property
    def label(self) -> str:
        return f"{self.low:g} … {self.high:g}"

    def unit_of(self, wires: Sequence[Wire]) -> str:
        return wires[0].unit

    def equations(self, wires: Wires) -> Equations:
        unit = wires["u"].unit
        parameters = Signals(
            Signal("low", unit, initial=self.low), Signal("high", unit, initial=self.high)
        )
        return self.made(wires, "y{i} = min(max(u{i}, low), high)", parameters=parameters)


@dataclass(frozen=True)
class Quantiser(Memoryless):
    """Round ``u`` to the nearest multiple of ``interval``; a value in the middle is rounded up.

    If ``u`` is a signal, ``y`` jumps whenever ``u`` crosses the middle between two multiples of
    ``interval``.
    """

    interval: float = 1.0
    inputs = _inputs(("u",), 1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.interval > 0:
            raise ScenarioError(f"Quantiser({self.interval}): give an interval > 0")

    @property
    def label(self) -> str:
        return f"quantiser {self.interval:g}"

    def unit_of(self, wires: Sequence[Wire]) -> str:
        return wires[0].unit

    def equations(self, wires: Wires) -> Equations:
        parameters = Signals(Signal("interval", wires["u"].unit, initial=self.interval, low=1e-300))
        nearest = "math.floor(u / interval + 0.5)"
        if wires["u"].kind == "event":
            return self.made(wires, f"y = interval * {nearest}", parameters=parameters)
        return Equations(
            memory=Signals("level"),
            parameters=parameters,
            output="y = interval * level",
            guards=(Guard("above", 1), Guard("below", -1)),
            guard="above = u - (level + 0.5) * interval\nbelow = u - (level - 0.5) * interval",
            when=(
                When(("above",), f"level = max(level + 1.0, {nearest})"),
                When(("below",), f"level = min(level - 1.0, {nearest})"),
                When(("begin",), f"level = {nearest}"),
            ),
            timers={"begin": BEGIN},
        )
