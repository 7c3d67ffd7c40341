"""Generate the source text of a model from a block diagram."""

from __future__ import annotations

import ast
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from rtsim.blocks.block import When
from rtsim.blocks.flat import (
    Flat,
    Place,
    WiredBlocks,
    algebraic_loop,
    evaluation_order,
    find_loop,
    flatten,
    reachable,
)
from rtsim.blocks.layout import Layout, PlacedBlock
from rtsim.blocks.source import (
    FunctionBody,
    function,
    functions,
    indented,
    module,
    needed_for,
    plain_values,
    renamed,
    statements,
)
from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Signal, Signals
from rtsim.core.tag import NS_PER_S
from rtsim.equations.delays import Delayed
from rtsim.equations.model import Guard, Model, Timer
from rtsim.equations.named_arguments import OUT

ARGUMENTS = "t, x, z, u, p"
UNKNOWNS = "y"
"""In generated functions, the vector of the outputs through which algebraic loops are solved."""


def generate(diagram: WiredBlocks) -> Model:
    """Return the model of ``diagram``; raise :class:`ScenarioError` if the diagram is invalid."""
    return Generator(flatten(diagram)).model()


@dataclass(frozen=True)
class _Shown:
    signal: Signal
    place: Node


class Generator:
    def __init__(self, flat: Flat) -> None:
        self.flat = flat
        self.layout = Layout.of(flat)
        self.placed = self.layout.placed
        self.needs: dict[Node, set[Node]] = {}
        self.values: dict[Node, list[str]] = {}
        self.lines: dict[Node, list[str]] = {}
        """The lines that compute each signal.  A signal that is a state or an input has no
        lines.
        """
        for signal in flat.inputs:
            first = flat.inputs.slice(signal.name).start
            self.values["", signal.name] = [f"u[{first + i}]" for i in range(signal.size)]
        self.arguments = f"t, x, {UNKNOWNS}, z, u, p" if flat.solved else ARGUMENTS
        self.unknowns: list[Signal] = []
        """The algebraic variables, one for each solved output."""
        self.events = Events(self)
        for placed in self.placed.values():
            for port in placed.flat.block.outputs:
                if self._carries(placed, port.name) == "signal":
                    _, reads = needed_for([port.name], placed.output)
                    self.needs[placed.name, port.name] = self.signals_read(placed, reads)
        of_solved = {place: self.needs[place] for place in flat.solved}
        for place, values in flat.solved.items():
            self._open(place, values)
        self.events.add_nodes()
        nodes = sorted(self.needs)
        self.order = evaluation_order(nodes, self.needs)
        if len(self.order) < len(nodes):
            loop = find_loop(nodes, self.order, self.needs)
            raise algebraic_loop([self._named(node) for node in loop])
        self.events.check()
        for node in self.order:
            if not node[0].startswith("@") and node not in flat.solved:
                self._evaluate(*node)
        self._residual = self._closed(of_solved)
        self.computed = [node for node in self.order if self.lines.get(node)]
        """The signals that lines compute, in evaluation order."""

    def _open(self, place: Node, values: tuple[float, ...]) -> None:
        first, size = Signals(*self.unknowns).size, len(values)
        shape = () if size == 1 else (size,)
        unit = self.flat.carried[place].unit or "1"
        initial = values[0] if size == 1 else values
        self.unknowns.append(Signal("_".join(place), unit, shape=shape, initial=initial))
        self.needs[place] = set()
        self.values[place] = [f"{UNKNOWNS}[{first + i}]" for i in range(size)]
        self.lines[place] = []

    def _closed(self, of_solved: dict[Node, set[Node]]) -> FunctionBody:
        items: list[list[str]] = []
        for place in self.flat.solved:
            unknown = self.values[place]
            self._evaluate(*place)
            computed, lines = self.values[place], self.lines[place]
            self.values[place], self.lines[place] = unknown, []
            closing = [
                f"r[{u.partition('[')[2]} = {made} - {u}"
                for made, u in zip(computed, unknown, strict=True)
            ]
            items.append([*lines, *closing])
        self.computed = [node for node in self.order if self.lines.get(node)]
        needed = self._behind(set[Node]().union(*of_solved.values()))
        doc = f"Residuals of the loops of diagram {self.flat.diagram.name}."
        return FunctionBody("residual", "r", doc.replace('"', "'"), needed, items)

    def _carries(self, placed: PlacedBlock, port: str) -> str:
        return self.flat.carried[placed.name, port].kind

    def _named(self, node: Node) -> str:
        if node[0].startswith("@"):
            return self.events.named(node)
        return f"{self.placed[node[0]].flat.path}.{node[1]}"

    def signals_read(self, placed: PlacedBlock, reads: Iterable[str]) -> set[Node]:
        out = set()
        for name in reads:
            place = placed.flat.sources.get(name)
            if place is not None and place[0] and self.flat.carried[place].kind == "signal":
                out.add(place)
        return out

    def _evaluate(self, block: str, port: str) -> None:
        placed = self.placed[block]
        of, _ = needed_for([port], placed.output)
        if not of:
            raise placed.unknown(port)
        size = self.flat.carried[block, port].size
        alike = plain_values(of)
        if alike is not None:
            element = placed.element(self.values)
            texts = [alike.get(n) for n in self.elements(port, size)]
            if all(t is not None for t in texts):
                self.values[block, port] = [
                    renamed(statements(ast.unparse(t))[0], element) for t in texts if t is not None
                ]
                self.lines[block, port] = []
                return
        names = self.elements(f"{block}_{port}", size, "{0}_{1}")
        own = {port: names}
        self.lines[block, port] = [renamed(s, placed.element(self.values, "", own)) for s in of]
        self.values[block, port] = names

    @staticmethod
    def elements(name: str, size: int, pattern: str = "{0}[{1}]") -> list[str]:
        return [name] if size == 1 else [pattern.format(name, i) for i in range(size)]

    def items(self, needed: Iterable[Node]) -> list[list[str]]:
        """Return the lines of code that compute the signals ``needed``, in evaluation order."""
        return [self.lines[self.computed[i]] for i in self._behind(needed)]

    def _behind(self, needed: Iterable[Node]) -> list[int]:
        wanted = reachable(needed, self.needs)
        return [i for i, node in enumerate(self.computed) if node in wanted]

    def _of_blocks(self, name: str, out: str, which: str, doc: str) -> FunctionBody:
        needed: set[Node] = set()
        items = []
        for placed in self.placed.values():
            of = statements(getattr(placed.equations, which))
            if not of:
                continue
            reads = set().union(*(s.reads for s in of))
            needed |= self.signals_read(placed, reads)
            needed |= {(placed.name, n) for n in reads if (placed.name, n) in self.lines}
            element = placed.element(self.values, f"_{which}")
            items.append([renamed(s, element) for s in of])
        return FunctionBody(name, out, doc, self._behind(needed), items)

    def _shown(self) -> list[_Shown]:
        out, states = [], self.layout.states
        for name, place in self.flat.outputs.items():
            wire = self.flat.carried[place]
            if wire.kind == "event":
                raise ScenarioError(
                    f"output {name} of diagram {self.flat.diagram.name} is an event, but an output "
                    "must be a signal; wire the event to a ZeroOrderHold and use its output"
                )
            first = self.values[place][0]
            if first in (_first_of("x", states, name), _first_of("z", self.layout.memory, name)):
                continue  # the signal is a state or memory, which the plant shows anyway
            if place in self.flat.solved and name == "_".join(place):
                continue  # the signal is the algebraic variable
            shape = () if wire.size == 1 else (wire.size,)
            out.append(_Shown(Signal(name, wire.unit, shape=shape), place))
        return out

    def model(self) -> Model:
        layout, flat = self.layout, self.flat
        diagram = flat.diagram
        shown = self._shown()
        outputs = Signals(*(s.signal for s in shown))
        states, discrete = self._states(), Signals(*layout.memory)
        if not (states.size or discrete.size or outputs.size or self.unknowns):
            raise ScenarioError(
                f"diagram {diagram.name} has no continuous state, no memory and no output, so "
                "there is nothing to simulate; add a block with a state, or an output"
            )
        # Raises an error if two signals have the same name.
        _ = states + discrete + flat.inputs + outputs
        say = f"of diagram {diagram.name}".replace('"', "'").replace("\\", "/")
        texts = [f'"""Functions {say}, put together from its blocks."""\n']
        bodies = []
        if states.size:
            bodies.append(self._of_blocks("derivative", "dx", "rate", f"Rates {say}."))
        if shown:
            filled = OUT if self.unknowns else "y"
            y = [[f"{filled}[{i}] = {v}"] for i, v in enumerate(self._values_of(shown))]
            needed = self._behind(s.place for s in shown if s.place[0])
            bodies.append(FunctionBody("output", filled, f"Outputs {say}.", needed, y))
        lines, delays = self._delays()
        if delays:
            bodies.append(self._line(f"Signals {say} that are delayed."))
        guards = self._guards()
        if guards:
            bodies.append(self._of_blocks("guard", "g", "guard", f"Guards {say}."))
        if self.unknowns:
            bodies.append(self._residual)
        computed = [self.lines[node] for node in self.computed]
        texts += functions(self.arguments, f"Signals {say}.", computed, bodies)
        if guards:
            items = self.events.items("guards")
            texts.append(function("reset", f"i, {self.arguments}", f"Guard i {say} fires.", items))
        if any(guard.stops for guard in guards):
            items = self.events.items("guards", stop=True)
            texts.append(
                function("stop", f"i, {self.arguments}", f"Guard i {say} accumulates.", items)
            )
        if layout.timers:
            items = self.events.items("timers")
            texts.append(function("tick", f"due, {self.arguments}", f"Timers {say} tick.", items))
        made = module("\n\n".join(texts), layout.functions)
        return Model(
            name=diagram.name,
            states=states,
            derivative=getattr(made, "derivative", None),
            discrete=discrete,
            inputs=flat.inputs,
            outputs=outputs,
            parameters=Signals(*layout.parameters),
            output=getattr(made, "output", None),
            guards=guards,
            guard=getattr(made, "guard", None),
            reset=getattr(made, "reset", None),
            stop=getattr(made, "stop", None),
            timers=tuple(layout.timers),
            tick=getattr(made, "tick", None),
            assumptions=diagram.assumptions,
            limits=diagram.limits,
            delays=delays,
            lines=lines,
            line=getattr(made, "line", None),
            algebraic=Signals(*self.unknowns),
            residual=getattr(made, "residual", None),
        )

    def _delays(self) -> tuple[Signals, tuple[Delayed, ...]]:
        signals, delays = [], []
        for placed, delay in self.layout.delays:
            name, unit = f"{placed.name}_undelayed", placed.flat.wires[delay.port].unit
            lag, before = (f"{placed.name}_{n}" for n in (delay.lag, delay.before))
            signals.append(Signal(name, unit))
            delays.append(Delayed(name, lag, before=before, name=f"{placed.name}_delayed"))
        return Signals(*signals), tuple(delays)

    def _line(self, doc: str) -> FunctionBody:
        places = [placed.flat.sources[delay.port] for placed, delay in self.layout.delays]
        v = [[f"v[{i}] = {self.values[place][0]}"] for i, place in enumerate(places)]
        return FunctionBody("line", "v", doc, self._behind(p for p in places if p[0]), v)

    def _values_of(self, shown: Sequence[_Shown]) -> list[str]:
        return [value for s in shown for value in self.values[s.place]]

    def _guards(self) -> tuple[Guard, ...]:
        return tuple(
            replace(guard, stops=self.events.resting(i))
            for i, guard in enumerate(self.layout.guards)
        )

    def _states(self) -> Signals:
        named = {
            f"x[{p.x + p.equations.states.slice(s.name).start}]": i
            for i, (p, s) in enumerate(
                (p, s) for p in self.placed.values() for s in p.equations.states
            )
        }
        states = list(self.layout.states)
        taken: set[int] = set()
        i = 0
        for placed in self.placed.values():
            of = plain_values(statements(placed.equations.rate)) or {}
            for signal in placed.equations.states:
                value = of.get(f"d_{signal.name}")
                if value is not None and not signal.shape:
                    tree = statements(ast.unparse(value))[0]
                    rate = named.get(renamed(tree, placed.element(self.values)))
                    if rate is not None and rate != i and not {rate, i} & taken:
                        states[rate] = replace(states[rate], derivative_of=states[i].name)
                        taken |= {rate, i}
                i += 1
        return Signals(*states)


def _first_of(vector: str, signals: Sequence[Signal], name: str) -> str | None:
    if all(signal.name != name for signal in signals):
        return None
    return f"{vector}[{Signals(*signals).slice(name).start}]"


# Events: changes of states and memory at the instants of guards, timers and events.

Makers = Callable[[Place], list[tuple[PlacedBlock, tuple[str, ...]]]]
"""Maps an event to the clauses that produce it, each with its block and its triggers."""


def check_meetings(placed: PlacedBlock, makers: Makers) -> None:
    """Raise ``ScenarioError`` if a block needs an event at a tick without event."""
    for port, name in placed.equations.meets.items():
        place, own = placed.flat.sources[port], placed.equations.timers[name]
        if not _meets(place, own, makers):
            occurs = " and ".join(dict.fromkeys(_causes(place, makers))) or "never"
            raise ScenarioError(
                f"{placed.flat.path} ticks {_in_words(own)}, but the event at its input {port} "
                f"occurs {occurs}, so some ticks have no event; give both blocks the same period "
                f"and offset, or put a ZeroOrderHold before {placed.flat.path}"
            )


def _meets(place: Place, own: Timer, makers: Makers) -> bool:
    return any(
        all(_at_ticks(placed, cause, own, makers) for cause in on) for placed, on in makers(place)
    )


def _at_ticks(placed: PlacedBlock, cause: str, own: Timer, makers: Makers) -> bool:
    timer = placed.equations.timers.get(cause)
    if timer is not None:
        return _covers(timer, own)
    return cause in placed.flat.sources and _meets(placed.flat.sources[cause], own, makers)


def _covers(timer: Timer, own: Timer) -> bool:
    if timer.period is None or own.period is None:
        return timer == own
    every = timer.period.ns
    return own.period.ns % every == 0 and (own.offset_ns - timer.offset_ns) % every == 0


def _causes(place: Place, makers: Makers) -> Iterator[str]:
    for placed, on in makers(place):
        for cause in on:
            if cause in placed.equations.timers:
                yield _in_words(placed.equations.timers[cause])
            elif cause in placed.flat.sources:
                yield from _causes(placed.flat.sources[cause], makers)
            else:
                yield f"at crossings of {placed.flat.path}"


def _in_words(timer: Timer) -> str:
    offset = f"{timer.offset_ns / NS_PER_S:g} s"
    if timer.period is None:
        return f"once, at {offset}"
    return f"every {timer.period} from {offset} on"


Node = tuple[str, str]
"""A node of the evaluation order: a signal (block, output port), or a clause (``"@block"``, number
of the clause as text).
"""


def event_node(block: str, clause: int) -> Node:
    return f"@{block}", str(clause)


class SignalNodes(Protocol):
    flat: Flat
    layout: Layout
    placed: dict[str, PlacedBlock]
    needs: dict[Node, set[Node]]
    """Maps each node to the nodes that must be computed before it."""
    values: dict[Node, list[str]]
    """Maps each node to the expressions of its elements."""
    order: list[Node]

    def elements(self, name: str, size: int, pattern: str = ...) -> list[str]: ...

    def signals_read(self, placed: PlacedBlock, reads: Iterable[str]) -> set[Node]: ...

    def items(self, needed: Iterable[Node]) -> list[list[str]]: ...


class Events:
    """The clauses (``When``) of all blocks."""

    def __init__(self, generator: SignalNodes) -> None:
        self._of = generator
        self._setters: dict[Node, list[Node]] = {}
        """Maps each event output to the clauses that set it."""
        for name, placed in generator.placed.items():
            outputs = {port.name for port in placed.flat.block.outputs}
            for i, when in enumerate(placed.equations.when):
                for port in sorted(_sets(when.do) & outputs):
                    self._setters.setdefault((name, port), []).append(event_node(name, i))
        for name, port in self._setters:
            size = generator.flat.carried[name, port].size
            generator.values[name, port] = generator.elements(f"{name}_{port}", size, "{0}_{1}")

    def named(self, node: Node) -> str:
        """Return the path of the block and its first event output, for messages."""
        placed, when = self._clause(node)
        outputs = sorted(_sets(when.do) & {port.name for port in placed.flat.block.outputs})
        return ".".join((placed.flat.path, *outputs[:1]))

    def _clause(self, node: Node) -> tuple[PlacedBlock, When]:
        placed = self._of.placed[node[0][1:]]
        return placed, placed.equations.when[int(node[1])]

    def add_nodes(self) -> None:
        for name, placed in self._of.placed.items():
            for i, when in enumerate(placed.equations.when):
                run = (*statements(when.do), *statements(when.rest))
                reads = set().union(*(s.reads for s in run), when.on)
                needed = self._of.signals_read(placed, reads)
                for port in reads:
                    place = placed.flat.sources.get(port)
                    needed |= set(self._setters.get(place, ())) if place is not None else set()
                needed |= {(name, n) for n in reads if (name, n) in self._of.needs}
                if i:
                    needed.add(event_node(name, i - 1))
                self._of.needs[event_node(name, i)] = needed

    def check(self) -> None:
        """Raise ``ScenarioError`` if a block lacks an event that it needs."""

        def makers(place: Node) -> list[tuple[PlacedBlock, tuple[str, ...]]]:
            clauses = map(self._clause, self._setters.get(place, ()))
            return [(placed, when.on) for placed, when in clauses]

        for placed in self._of.placed.values():
            check_meetings(placed, makers)

    def resting(self, guard: int) -> bool:
        """Return whether the block has a rule for Zeno behaviour of the guard."""
        return any(self._clause(node)[1].rest for node in self._possible("guards", (guard,)))

    def _possible(self, source: str, guards: Container[int]) -> list[Node]:
        out: list[Node] = []
        for node in self._of.order:
            if node[0].startswith("@") and self._may_happen(node, source, set(out), guards):
                out.append(node)
        return out

    def items(self, source: str, *, stop: bool = False) -> list[list[str]]:
        """Return the lines of ``tick`` (``source="timers"``), or of ``reset`` or ``stop``."""
        possible = self._possible(source, range(len(self._of.layout.guards)))
        first, clauses, commit, late = [], [], [], []
        signals: set[Node] = set()
        seen: set[str] = set()
        for node in possible:
            placed, when = self._clause(node)
            signals |= {n for n in self._of.needs[node] if not n[0].startswith("@")}
            if placed.name not in seen:
                seen.add(placed.name)
                begin, end = self._around(placed, [n for n in possible if n[0] == node[0]])
                first.append(begin)
                commit.append(end)
            condition = " and ".join(self._condition(placed, on, source) for on in when.on)
            do = when.rest if stop and when.rest else when.do
            clauses.append(self._lines(placed, when, do, condition))
            if when.then:
                element = placed.element(self._of.values, "_when", self._locals(placed))
                lines = indented([renamed(s, element) for s in statements(when.then)])
                late.append([f"if {condition}:", *lines])
        return [*self._of.items(signals), *first, *clauses, *commit, *late]

    def _may_happen(
        self, node: Node, source: str, possible: set[Node], guards: Container[int]
    ) -> bool:
        placed, when = self._clause(node)
        for on in when.on:
            if on in placed.guards:
                if source != "guards" or placed.guards[on] not in guards:
                    return False
            elif on in placed.timers:
                if source != "timers":
                    return False
            elif not possible & set(self._setters.get(placed.flat.sources[on], ())):
                return False
        return True

    def _condition(self, placed: PlacedBlock, on: str, source: str) -> str:
        if source == "guards" and on in placed.guards:
            return f"i == {placed.guards[on]}"
        if source == "timers" and on in placed.timers:
            return f"due[{placed.timers[on]}] != 0.0"
        block, port = placed.flat.sources[on]
        return f"{block}_{port}_on != 0.0"

    def _locals(self, placed: PlacedBlock) -> dict[str, list[str]]:
        eq = placed.equations
        changed = set().union(*(_sets(w.do) | _sets(w.rest) for w in eq.when))
        return {
            s.name: self._of.elements(f"{placed.name}_{s.name}_new", s.size, "{0}_{1}")
            for s in (*eq.states, *eq.memory)
            if s.name in changed
        }

    def _around(self, placed: PlacedBlock, clauses: list[Node]) -> tuple[list[str], list[str]]:
        begin, end = [], []
        whens = [self._clause(n)[1] for n in clauses]
        changed = set().union(*(_sets(w.do) | _sets(w.rest) for w in whens))
        for name, variables in self._locals(placed).items():
            letter, at, _ = placed.places[name]
            begin += [f"{v} = {letter}[{at + i}]" for i, v in enumerate(variables)]
            if name in changed:
                end += [f"{letter}[{at + i}] = {v}" for i, v in enumerate(variables)]
        for port in placed.flat.block.outputs:
            if port.name in changed:
                begin += [f"{v} = 0.0" for v in self._of.values[placed.name, port.name]]
                begin.append(f"{placed.name}_{port.name}_on = 0.0")
        return begin, end

    def _lines(self, placed: PlacedBlock, when: When, do: str, condition: str) -> list[str]:
        element = placed.element(self._of.values, "_when", self._locals(placed))
        temporaries = [
            f"{placed.name}{name}_when = 0.0" for name in sorted(_sets(do)) if name[0] == "_"
        ]
        lines = [renamed(s, element) for s in statements(do)]
        happened = [
            f"{placed.name}_{port.name}_on = 1.0"
            for port in placed.flat.block.outputs
            if port.name in _sets(when.do)
        ]
        return [*temporaries, f"if {condition}:", *indented([*lines, *happened])]


def _sets(text: str) -> set[str]:
    return set().union(*(s.sets for s in statements(text))) if text else set()
