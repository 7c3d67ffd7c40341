"""Positions of the blocks' variables in the vectors of the model."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rtsim.blocks.block import Equations, InputDelay
from rtsim.blocks.flat import Flat, FlatBlock
from rtsim.blocks.source import (
    Element,
    Statement,
    check_form,
    expression,
    plain_values,
    statements,
)
from rtsim.core.errors import ModelError, UnknownName
from rtsim.core.signals import Signal
from rtsim.equations.model import Guard, Timer

Values = Mapping[tuple[str, str], list[str]]
"""Maps the block and port of an output to the expressions of its elements."""


_PYTHON: Collection[str] = {"math", "np", *dir(builtins)}
"""The names that equations can use without a declaration."""
_NOTES = {
    "target": ", where the name of a temporary begins with _",
    "name": ", where helpers are given as functions={...}",
}


@dataclass
class PlacedBlock:
    flat: FlatBlock
    equations: Equations
    x: int
    z: int
    p: int
    guards: dict[str, int] = field(default_factory=dict)
    timers: dict[str, int] = field(default_factory=dict)
    places: dict[str, tuple[str, int, int]] = field(default_factory=dict)
    """Maps the name of a state, rate, memory or parameter to its vector, first index and size."""

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

    def check_names(self, kinds: Mapping[str, str]) -> None:
        """Check that the equations use only declared names.

        ``kinds`` maps each output to ``"signal"`` or ``"event"``.

        Raises :class:`UnknownName` for an undeclared name. Raises :class:`ModelError` for a
        statement that equations cannot contain. A declared name that begins with ``_`` also raises
        :class:`ModelError`, because such names are temporary variables.
        """
        eq, ports = self.equations, {port.name for port in self.flat.block.inputs}
        signals = {name for name, kind in kinds.items() if kind == "signal"}
        events = kinds.keys() - signals
        states, memory = ({s.name for s in names} for names in (eq.states, eq.memory))
        known = {"t", *self.flat.sources, *self.places, *eq.delays, *eq.functions, *signals}
        guards = {guard.name for guard in eq.guards}
        for name in sorted({*kinds, *self.flat.sources, *self.places, *eq.delays, *guards}):
            if name.startswith("_"):
                raise ModelError(
                    f"block {self.flat.path} ({self.flat.block.label}) declares {name!r}, but "
                    "names that begin with _ are reserved for temporary variables of the "
                    f"equations; declare {name.lstrip('_')!r}"
                )
        self._check_text("output", eq.output, signals, known - self._rates())
        self._check_text("rate", eq.rate, self._rates(), known)
        self._check_text("guard", eq.guard, guards, known | guards)
        changed, seen = states | memory | events, (known - self._rates()) | events
        inputs = ports & self.flat.sources.keys()
        parameters = {signal.name for signal in eq.parameters}
        for name, timer in eq.timers.items():
            self._check_given("memory", timer.draws, memory, f"draws of timer {name}")
        self._check_given("event input", eq.meets, inputs, "meets")
        self._check_given("timer", eq.meets.values(), eq.timers.keys(), "meets")
        for name, delay in eq.delays.items():
            self._check_given("input", (delay.port,), inputs, f"delay {name}")
            self._check_given("parameter", (delay.lag, delay.before), parameters, f"delay {name}")
        for when in eq.when:
            triggers = inputs | guards | eq.timers.keys()
            self._check_given("trigger", when.on, triggers, f"When({when.on!r})")
            for text in ("do", "rest"):
                self._check_text(f"When({when.on!r}).{text}", getattr(when, text), changed, seen)
            temporaries = {n for s in statements(when.do) for n in s.targets if n[0] == "_"}
            self._check_text(f"When({when.on!r}).then", when.then, memory, seen | temporaries)

    def _rates(self) -> set[str]:
        return {"rates", *(f"d_{signal.name}" for signal in self.equations.states)}

    def _check_given(
        self, what: str, names: Iterable[str], known: Collection[str], where: str
    ) -> None:
        for name in names:
            if name not in known:
                raise self._unknown_name(what, name, known, where)

    def _check_text(self, where: str, text: str, targets: set[str], known: set[str]) -> None:
        own: set[str] = set()
        try:
            for statement in statements(text):
                check_form(statement, branches=where.startswith("When("))
        except ModelError as error:
            block = f"block {self.flat.path} ({self.flat.block.label})"
            raise ModelError(f"{where} of {block}: {error}") from error
        for statement in statements(text):
            for name in sorted(statement.targets):
                if name not in targets and not name.startswith("_"):
                    raise self._unknown_name("target", name, targets, where)
            own |= {name for name in statement.sets if name.startswith("_")}
        for statement in statements(text):
            for name in sorted(statement.reads - statement.targets - own - targets):
                if name not in known and name not in _PYTHON:
                    raise self._unknown_name("name", name, known, where)

    def _unknown_name(self, what: str, name: str, known: Iterable[str], where: str) -> UnknownName:
        block = f"block {self.flat.path} ({self.flat.block.label})"
        note = _NOTES.get(what, "")
        return UnknownName(what, name, sorted(known), f"{where} of {block}{note}")

    def element(
        self, values: Values, suffix: str = "", own: Mapping[str, list[str]] | None = None
    ) -> Element:
        """Return a function that replaces variable names by elements of vectors.

        ``own`` maps names to local variables.  ``suffix`` is appended to the names of temporaries.
        """
        flat, places, functions = self.flat, self.places, self.equations.functions
        local = own or {}

        def find(name: str, index: ast.expr | None) -> ast.expr | None:
            if name in local:
                return self._one_of(name, local[name], index)
            if (flat.name, name) in values:
                return self._one_of(name, values[flat.name, name], index)
            if name in flat.sources:
                return self._one_of(name, values[flat.sources[name]], index)
            if name in functions:
                called = expression(f"{flat.name}_{name.lstrip('_')}_f")
                return called if index is None else ast.Subscript(called, index, ast.Load())
            if name in places:
                return self._in_vector(name, *places[name], index)
            if name in self.guards:
                return expression(f"g[{self.guards[name]}]")
            if name.startswith("_"):
                local_name = expression(f"{flat.name}{name}{suffix}")
                return local_name if index is None else ast.Subscript(local_name, index, ast.Load())
            return None

        return find

    def _position(self, name: str, index: ast.expr | None, size: int) -> int | None:
        try:
            element = 0 if index is None else ast.literal_eval(index)
        except ValueError:
            return None
        if (index is None and size != 1) or element not in range(size):
            text = name if index is None else f"{name}[{ast.unparse(index)}]"
            raise ModelError(
                f"block {self.flat.path} ({self.flat.block.label}): its equations use {text}, but "
                f"{name} has {size} elements; write an index from 0 to {size - 1}, as in {name}[0]"
            )
        return int(element)

    def _one_of(self, name: str, texts: list[str], index: ast.expr | None) -> ast.expr:
        at = self._position(name, index, len(texts))
        if at is None:
            raise ModelError(
                f"block {self.flat.path} ({self.flat.block.label}): its equations use {name} with "
                "a computed index; write a number as the index. Only states, parameters and "
                "memory can have a computed index, and memory only in a When that does not set it"
            )
        return expression(texts[at])

    def _in_vector(
        self, name: str, letter: str, first: int, size: int, index: ast.expr | None
    ) -> ast.expr:
        if isinstance(index, ast.Slice):
            if ast.unparse(index) != ":":
                raise ModelError(
                    f"block {self.flat.path} ({self.flat.block.label}): its equations use "
                    f"{name}[{ast.unparse(index)}]; write {name}[:] for all elements, or single "
                    f"elements such as {name}[0]"
                )
            return expression(f"{letter}[{first}:{first + size}]")
        at = self._position(name, index, size)
        if at is not None:
            return expression(f"{letter}[{first + at}]")
        assert index is not None
        computed = ast.BinOp(ast.Constant(first), ast.Add(), index)
        return ast.Subscript(ast.Name(letter, ast.Load()), computed, ast.Load())


@dataclass
class Layout:
    """The vectors of the whole model, with the place of each block's variables."""

    placed: dict[str, PlacedBlock] = field(default_factory=dict)
    states: list[Signal] = field(default_factory=list)
    memory: list[Signal] = field(default_factory=list)
    parameters: list[Signal] = field(default_factory=list)
    guards: list[Guard] = field(default_factory=list)
    timers: list[Timer] = field(default_factory=list)
    functions: dict[str, Any] = field(default_factory=dict)
    delays: list[tuple[PlacedBlock, InputDelay]] = field(default_factory=list)
    """Each delayed input and its block.  In u, the delayed values follow the inputs of the
    model.
    """

    @classmethod
    def of(cls, flat: Flat) -> Layout:
        out = cls()
        x = z = p = 0
        known: dict[tuple[object, int], int] = {}
        for name, block in flat.blocks.items():
            eq = block.block.equations(block.wires)
            placed = PlacedBlock(block, eq, x, z, p)
            out.placed[name] = placed
            outputs = [port.name for port in block.block.outputs]
            placed.check_names({n: flat.carried[name, n].kind for n in outputs})
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
        key = timer.period, timer.offset_ns
        if key not in known:
            known[key] = len(self.timers)
            self.timers.append(replace(timer, draws=()))
        i = known[key]
        self.timers[i] = replace(self.timers[i], draws=self.timers[i].draws + draws)
        return i


def _names(block: str, eq: Equations) -> Iterator[tuple[str, str]]:
    shown = plain_values(statements(eq.output)) or {}
    for signal in (*eq.states, *eq.memory):
        same = [
            ast.unparse(shown.get(f"y{i}", ast.Constant(None))) == f"{signal.name}{i}"
            for i in ([f"[{k}]" for k in range(signal.size)] if signal.shape else [""])
        ]
        yield signal.name, block if all(same) else f"{block}_{signal.name}"
