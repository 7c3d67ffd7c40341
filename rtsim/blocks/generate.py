"""Generate a Model from a diagram: the statements for each function, in evaluation order."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from rtsim.blocks.events import Events, Node
from rtsim.blocks.flat import Flat, algebraic_loop, evaluation_order, find_loop, flatten, reachable
from rtsim.blocks.layout import Layout, PlacedBlock
from rtsim.blocks.source import (
    FunctionBody,
    function,
    functions,
    module,
    needed_for,
    plain_values,
    renamed,
    statements,
)
from rtsim.blocks.wiring import WiredBlocks
from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Signal, Signals
from rtsim.equations.delays import Delayed
from rtsim.equations.model import Guard, Model

ARGUMENTS = "t, x, z, u, p"
UNKNOWNS = "unknowns"
"""The vector of the outputs through which algebraic loops are solved, in generated functions."""


def generate(diagram: WiredBlocks) -> Model:
    """Return the model of ``diagram``; raises :class:`ScenarioError` if the diagram is invalid."""
    return Generator(flatten(diagram)).model()


@dataclass(frozen=True)
class _Shown:
    """An output of the model, and its source."""

    signal: Signal
    place: Node


class Generator:
    """Generates the functions of one model."""

    def __init__(self, flat: Flat) -> None:
        self.flat = flat
        self.layout = Layout.of(flat)
        self.placed = self.layout.placed
        self.needs: dict[Node, set[Node]] = {}
        self.values: dict[Node, list[str]] = {}
        self.lines: dict[Node, list[str]] = {}
        """The lines that compute each signal; there are none for a signal that is a state or an
        input.
        """
        for signal in flat.inputs:
            first = flat.inputs.slice(signal.name).start
            self.values["", signal.name] = [f"u[{first + i}]" for i in range(signal.size)]
        self.arguments = f"t, x, {UNKNOWNS}, z, u, p" if flat.solved else ARGUMENTS
        self.unknowns: list[Signal] = []
        """The algebraic variables: one for each solved output."""
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
        """The signals that are computed by lines, in their order."""

    def _open(self, place: Node, values: tuple[float, ...]) -> None:
        """Make the output at ``place`` unknown: its readers need no other signal for it."""
        first, size = Signals(*self.unknowns).size, len(values)
        shape = () if size == 1 else (size,)
        unit = self.flat.carried[place].unit or "1"
        initial = values[0] if size == 1 else values
        self.unknowns.append(Signal("_".join(place), unit, shape=shape, initial=initial))
        self.needs[place] = set()
        self.values[place] = [f"{UNKNOWNS}[{first + i}]" for i in range(size)]
        self.lines[place] = []

    def _closed(self, of_solved: dict[Node, set[Node]]) -> FunctionBody:
        """Return the residuals: each solved output, computed from the signals that it needs."""
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
        """Return the signals that are the sources of the names in ``reads``."""
        out = set()
        for name in reads:
            place = placed.flat.sources.get(name)
            if place is not None and place[0] and self.flat.carried[place].kind == "signal":
                out.add(place)
        return out

    def _evaluate(self, block: str, port: str) -> None:
        """Set the expressions of a signal, and the lines that compute it."""
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
        """Return the names of ``size`` elements, or only ``name`` if there is one element."""
        return [name] if size == 1 else [pattern.format(name, i) for i in range(size)]

    # -- the functions ---------------------------------------------------------------------------

    def items(self, needed: Iterable[Node]) -> list[list[str]]:
        """Return the lines that compute ``needed`` and all signals that it needs, in order."""
        return [self.lines[self.computed[i]] for i in self._behind(needed)]

    def _behind(self, needed: Iterable[Node]) -> list[int]:
        wanted = reachable(needed, self.needs)
        return [i for i, node in enumerate(self.computed) if node in wanted]

    def _of_blocks(self, name: str, out: str, which: str, doc: str) -> FunctionBody:
        """Return the text of the function that computes the rates or the guards."""
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
                continue  # the signal is the state, or the memory, which is a signal of the plant
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
        _ = states + discrete + flat.inputs + outputs  # raises if two signals have the same name
        say = f"of diagram {diagram.name}".replace('"', "'").replace("\\", "/")
        texts = [f'"""Functions {say}, put together from its blocks."""\n']
        bodies = []
        if states.size:
            bodies.append(self._of_blocks("derivative", "dx", "rate", f"Rates {say}."))
        if shown:
            y = [[f"y[{i}] = {v}"] for i, v in enumerate(self._values_of(shown))]
            needed = self._behind(s.place for s in shown if s.place[0])
            bodies.append(FunctionBody("output", "y", f"Outputs {say}.", needed, y))
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
        """Return the signals that are delayed, and how."""
        signals, delays = [], []
        for placed, delay in self.layout.delays:
            name, unit = f"{placed.name}_undelayed", placed.flat.wires[delay.port].unit
            lag, before = (f"{placed.name}_{n}" for n in (delay.lag, delay.before))
            signals.append(Signal(name, unit))
            delays.append(Delayed(name, lag, before=before, name=f"{placed.name}_delayed"))
        return Signals(*signals), tuple(delays)

    def _line(self, doc: str) -> FunctionBody:
        """Return the text of the function that computes the signals that are delayed."""
        places = [placed.flat.sources[delay.port] for placed, delay in self.layout.delays]
        v = [[f"v[{i}] = {self.values[place][0]}"] for i, place in enumerate(places)]
        return FunctionBody("line", "v", doc, self._behind(p for p in places if p[0]), v)

    def _values_of(self, shown: Sequence[_Shown]) -> list[str]:
        return [value for s in shown for value in self.values[s.place]]

    def _guards(self) -> tuple[Guard, ...]:
        """Return the guards, each marked if a clause that it triggers has ``rest``."""
        return tuple(
            replace(guard, stops=self.events.resting(i))
            for i, guard in enumerate(self.layout.guards)
        )

    def _states(self) -> Signals:
        """Return the states; a state that equals the rate of another gets ``derivative_of``."""
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
    """Return the expression of the first element of signal ``name``; ``None`` if there is none."""
    if all(signal.name != name for signal in signals):
        return None
    return f"{vector}[{Signals(*signals).slice(name).start}]"
