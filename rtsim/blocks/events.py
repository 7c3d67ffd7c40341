"""The clauses of a diagram, which run at instants: guards, timers or other events trigger them.

Clauses read signals as x-.  Events propagate from block to block within an instant, along the
wires.  The values that clauses set are written after all clauses have run.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from typing import Protocol

from rtsim.blocks.block import When
from rtsim.blocks.flat import Flat
from rtsim.blocks.layout import Layout, PlacedBlock
from rtsim.blocks.source import indented, renamed, statements
from rtsim.blocks.wiring import Place
from rtsim.core.errors import ScenarioError
from rtsim.core.tag import NS_PER_S
from rtsim.equations.model import Timer

# Check that events occur at the instants at which blocks need them.

Makers = Callable[[Place], list[tuple[PlacedBlock, tuple[str, ...]]]]
"""Maps an event to the clauses that produce it; each clause has its block and its triggers."""


def check_meetings(placed: PlacedBlock, makers: Makers) -> None:
    """Raise :class:`ScenarioError` if an event input does not occur at a tick that requires it."""
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
    """Return whether the event occurs at all ticks of ``own`` from its first occurrence on."""
    return any(
        all(_at_ticks(placed, cause, own, makers) for cause in on) for placed, on in makers(place)
    )


def _at_ticks(placed: PlacedBlock, cause: str, own: Timer, makers: Makers) -> bool:
    timer = placed.equations.timers.get(cause)
    if timer is not None:
        return _covers(timer, own)
    return cause in placed.flat.sources and _meets(placed.flat.sources[cause], own, makers)


def _covers(timer: Timer, own: Timer) -> bool:
    """Return whether ``timer`` ticks at all ticks of ``own``.

    Ticks are compared after rounding to whole ns.
    """
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
"""A node of the evaluation order: a signal (block, output port), or a clause ``("@block", "number
of the clause")``.
"""


def event_node(block: str, clause: int) -> Node:
    return f"@{block}", str(clause)


class SignalNodes(Protocol):
    """The signals of a model that is being built, and their order; event clauses read them."""

    flat: Flat
    layout: Layout
    placed: dict[str, PlacedBlock]
    needs: dict[Node, set[Node]]
    """Maps each node to the nodes that are computed before it."""
    values: dict[Node, list[str]]
    """Maps each node to the expressions of its elements."""
    order: list[Node]

    def elements(self, name: str, size: int, pattern: str = ...) -> list[str]:
        """Return the names of ``size`` elements."""
        ...

    def signals_read(self, placed: PlacedBlock, reads: Iterable[str]) -> set[Node]:
        """Return the signals that are the sources of the names in ``reads``."""
        ...

    def items(self, needed: Iterable[Node]) -> list[list[str]]:
        """Return the lines that compute ``needed`` and all nodes that it needs, in their order."""
        ...


class Events:
    """The clauses of all blocks."""

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
        """Return a name for a clause in messages: the path of its first event output."""
        placed, when = self._clause(node)
        outputs = sorted(_sets(when.do) & {port.name for port in placed.flat.block.outputs})
        return ".".join((placed.flat.path, *outputs[:1]))

    def _clause(self, node: Node) -> tuple[PlacedBlock, When]:
        placed = self._of.placed[node[0][1:]]
        return placed, placed.equations.when[int(node[1])]

    def add_nodes(self) -> None:
        """Add each clause and the nodes that it needs."""
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
        """Check that events occur at the instants that their blocks require."""

        def makers(place: Node) -> list[tuple[PlacedBlock, tuple[str, ...]]]:
            clauses = map(self._clause, self._setters.get(place, ()))
            return [(placed, when.on) for placed, when in clauses]

        for placed in self._of.placed.values():
            check_meetings(placed, makers)

    # -- generated lines -------------------------------------------------------------------------

    def resting(self, guard: int) -> bool:
        """Return whether this guard triggers a clause with stop-mode statements (``rest``)."""
        return any(self._clause(node)[1].rest for node in self._possible("guards", (guard,)))

    def _possible(self, source: str, guards: Container[int]) -> list[Node]:
        """Return, in order, the clauses that timers or any of ``guards`` can trigger."""
        out: list[Node] = []
        for node in self._of.order:
            if node[0].startswith("@") and self._may_happen(node, source, set(out), guards):
                out.append(node)
        return out

    def items(self, source: str, *, stop: bool = False) -> list[list[str]]:
        """Return lines of ``tick`` if ``source`` is ``"timers"``, else of ``reset`` or ``stop``."""
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
        """Return local variables for states and memory that a clause sets, by name."""
        eq = placed.equations
        changed = set().union(*(_sets(w.do) | _sets(w.rest) for w in eq.when))
        return {
            s.name: self._of.elements(f"{placed.name}_{s.name}_new", s.size, "{0}_{1}")
            for s in (*eq.states, *eq.memory)
            if s.name in changed
        }

    def _around(self, placed: PlacedBlock, clauses: list[Node]) -> tuple[list[str], list[str]]:
        """Return two lists of lines: before the clauses of a block, and after all clauses."""
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
