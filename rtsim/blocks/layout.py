"""The positions of each block's states, memory, parameters, guards and timers in the model."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rtsim.blocks.block import Equations, InputDelay
from rtsim.blocks.flat import Flat, FlatBlock
from rtsim.blocks.text import Element, Statement, expression, plain_values, statements
from rtsim.core.errors import ModelError
from rtsim.core.signals import Signal
from rtsim.equations.model import Guard, Timer

Values = Mapping[tuple[str, str], list[str]]
"""Maps the block and port of an output to the expressions of its elements."""


@dataclass
class PlacedBlock:
    """A block and its positions in the vectors of the model."""

    flat: FlatBlock
    equations: Equations
    x: int
    z: int
    p: int
    guards: dict[str, int] = field(default_factory=dict)
    timers: dict[str, int] = field(default_factory=dict)
    places: dict[str, tuple[str, int, int]] = field(default_factory=dict)
    """Maps the name of a state, rate, memory or parameter to its vector, first element and size."""

    def __post_init__(self) -> None:
        eq = self.equations
        for letter, first, signals in (
            ("p", self.p, eq.parameters),
            ("z", self.z, eq.memory),
            ("x", self.x, eq.states),
        ):
            for signal in signals:
                at = first + signals.slice(signal.name).start
                self.places[signal.name] = letter, at, signal.size
                if letter == "x":
                    self.places[f"d_{signal.name}"] = "dx", at, signal.size
        for letter, name, first, signals in (
            ("p", "parameters", self.p, eq.parameters),
            ("x", "states", self.x, eq.states),
            ("dx", "rates", self.x, eq.states),
        ):
            self.places[name] = letter, first, signals.size

    @property
    def name(self) -> str:
        return self.flat.name

    @property
    def output(self) -> tuple[Statement, ...]:
        return statements(self.equations.output)

    def unknown(self, name: str) -> ModelError:
        return ModelError(
            f"block {self.flat.path} ({self.flat.block.label}): no statement of its equations sets "
            f"its output {name}; set it in output="
        )

    def element(
        self, values: Values, suffix: str = "", own: Mapping[str, list[str]] | None = None
    ) -> Element:
        """Return a function that replaces the names in the block's equations.

        ``own`` maps names to local variables.  ``suffix`` is added to the names of temporaries.
        """
        flat, places, functions = self.flat, self.places, self.equations.functions
        local = own or {}

        def find(name: str, index: ast.expr | None) -> ast.expr | None:
            if name in local:
                return _one_of(local[name], index)
            if (flat.name, name) in values:
                return _one_of(values[flat.name, name], index)
            if name in flat.sources:
                return _one_of(values[flat.sources[name]], index)
            if name in functions:
                called = expression(f"{flat.name}_{name.lstrip('_')}_f")
                return called if index is None else ast.Subscript(called, index, ast.Load())
            if name in places:
                return _in_vector(*places[name], index)
            if name in self.guards:
                return expression(f"g[{self.guards[name]}]")
            if name.startswith("_"):
                local_name = expression(f"{flat.name}{name}{suffix}")
                return local_name if index is None else ast.Subscript(local_name, index, ast.Load())
            return None

        return find


def _one_of(texts: list[str], index: ast.expr | None) -> ast.expr:
    if index is None:
        return expression(texts[0])
    assert isinstance(index, ast.Constant)
    assert isinstance(index.value, int)
    return expression(texts[index.value])


def _in_vector(letter: str, first: int, size: int, index: ast.expr | None) -> ast.expr:
    if index is None:
        return expression(f"{letter}[{first}]")
    if isinstance(index, ast.Slice):
        return expression(f"{letter}[{first}:{first + size}]")
    if isinstance(index, ast.Constant):
        assert isinstance(index.value, int)
        return expression(f"{letter}[{first + index.value}]")
    computed = ast.BinOp(ast.Constant(first), ast.Add(), index)
    return ast.Subscript(ast.Name(letter, ast.Load()), computed, ast.Load())


@dataclass
class Layout:
    """The vectors of the whole model, and the position of each block in them."""

    placed: dict[str, PlacedBlock] = field(default_factory=dict)
    states: list[Signal] = field(default_factory=list)
    memory: list[Signal] = field(default_factory=list)
    parameters: list[Signal] = field(default_factory=list)
    guards: list[Guard] = field(default_factory=list)
    timers: list[Timer] = field(default_factory=list)
    functions: dict[str, Any] = field(default_factory=dict)
    delays: list[tuple[PlacedBlock, InputDelay]] = field(default_factory=list)
    """Each delayed input and its block; the delayed values follow the inputs of the model in u."""

    @classmethod
    def of(cls, flat: Flat) -> Layout:
        out = cls()
        x = z = p = 0
        known: dict[tuple[object, int], int] = {}
        for name, block in flat.blocks.items():
            eq = block.block.equations(block.wires)
            placed = PlacedBlock(block, eq, x, z, p)
            out.placed[name] = placed
            x, z, p = x + eq.states.size, z + eq.memory.size, p + eq.parameters.size
            names = dict(_names(name, eq))
            out.states += [replace(s, name=names[s.name]) for s in eq.states]
            out.memory += [replace(s, name=names[s.name]) for s in eq.memory]
            out.parameters += [replace(s, name=f"{name}_{s.name}") for s in eq.parameters]
            for guard in eq.guards:
                placed.guards[guard.name] = len(out.guards)
                called = name if len(eq.guards) == 1 else f"{name}_{guard.name}"
                out.guards.append(replace(guard, name=called))
            for timer_name, timer in eq.timers.items():
                draws = tuple(names[d] for d in timer.draws)
                placed.timers[timer_name] = out._timer(known, timer, draws)
            for late, delay in eq.delays.items():
                placed.places[late] = "u", flat.inputs.size + len(out.delays), 1
                out.delays.append((placed, delay))
            for function, what in eq.functions.items():
                out.functions[f"{name}_{function.lstrip('_')}_f"] = what
        return out

    def _timer(
        self, known: dict[tuple[object, int], int], timer: Timer, draws: tuple[str, ...]
    ) -> int:
        """Return the number of a timer; timers with equal ticks are merged."""
        key = timer.period, timer.offset_ns
        if key not in known:
            known[key] = len(self.timers)
            self.timers.append(replace(timer, draws=()))
        i = known[key]
        self.timers[i] = replace(self.timers[i], draws=self.timers[i].draws + draws)
        return i


def _names(block: str, eq: Equations) -> Iterator[tuple[str, str]]:
    """Yield the name of each state and memory signal in the model.

    A signal that is the block's output has the name of the block.
    """
    shown = plain_values(statements(eq.output)) or {}
    for signal in (*eq.states, *eq.memory):
        same = [
            ast.unparse(shown.get(f"y{i}", ast.Constant(None))) == f"{signal.name}{i}"
            for i in ([f"[{k}]" for k in range(signal.size)] if signal.shape else [""])
        ]
        yield signal.name, block if all(same) else f"{block}_{signal.name}"
