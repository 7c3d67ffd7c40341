"""The linear components of a scenario, and how they are wired: the parts of a sampled loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from rtsim.components.latency import Fixed, LatencyModel
from rtsim.components.medium import shared
from rtsim.components.ports import SignalPort, Wiring, resolve
from rtsim.core.errors import ModelError
from rtsim.core.signals import Signals
from rtsim.core.tag import Period
from rtsim.engine.system import System
from rtsim.linear.plants import PlantSlopes
from rtsim.linear.state_space import Matrix

Rows = list[int]


@dataclass(frozen=True)
class Link:
    """Rows ``into`` of a component's inputs that read rows ``out`` of the port ``port``."""

    port: str
    into: Rows
    out: Rows
    signals: tuple[str, ...]
    """The signal of the port to which each row belongs."""
    early: bool = False
    """True if the reader comes after the sender in a declared order."""


@dataclass(frozen=True)
class LinearPlant:
    """A plant: slopes by (x, z, u), wires, and the period of its steps."""

    name: str
    sizes: tuple[int, int, int, int]
    """The numbers of states, discrete values, inputs and outputs."""
    slopes: PlantSlopes
    links: tuple[Link, ...]
    step: Period
    signals: Signals
    coupled: bool = False
    """True if the plant reads a plant, or is read by one: its own steps then matter."""


@dataclass(frozen=True)
class LinearTask:
    """A task: ``matrix`` computes its results from its inputs (docs of the subclasses)."""

    name: str
    period: Period | None
    offset_ns: int


@dataclass(frozen=True)
class Sender(LinearTask):
    """A controller or a sensor: (s', y) = matrix (s, u), and y is sent as a message.

    A sensor has no memory s, and its matrix is the unit matrix.
    """

    matrix: Matrix
    memory: Signals
    outputs: Signals
    links: tuple[Link, ...]
    compute_ns: int
    transport_ns: int
    successors: frozenset[str] = frozenset()
    triggers: frozenset[str] = frozenset()
    """The tasks that a message of this sender triggers."""


@dataclass(frozen=True)
class Changer(LinearTask):
    """An update or a timer of a plant: (x', z') = matrix (x, z, u)."""

    plant: str
    matrix: Matrix


@dataclass(frozen=True)
class Network:
    """All linear components; tasks in reaction order."""

    plants: tuple[LinearPlant, ...]
    tasks: tuple[LinearTask, ...]
    ports: dict[str, Signals]
    notes: tuple[str, ...] = ()
    times: tuple[Period, ...] = field(default=())
    """All periods of the scenario."""


def links_of(
    wiring: Wiring | None, ports: dict[str, SignalPort], layout: Signals, owner: str,
    early: Sequence[str] = (),
) -> tuple[Link, ...]:  # fmt: skip
    """Return the links of a component's inputs, one for each port that it reads."""
    found: dict[str, tuple[Rows, Rows, list[str]]] = {}
    for name, source in sorted((wiring.sources if wiring is not None else {}).items()):
        if not isinstance(source, str):
            continue
        port, where = resolve(source, ports, f"input {name} of {owner}")
        here = layout.slice(name)
        into, out, signals = found.setdefault(port.name, ([], [], []))
        into.extend(range(here.start, here.stop))
        out.extend(range(where.start, where.stop))
        signals.extend([source.partition(".")[2]] * (where.stop - where.start))
    return tuple(
        Link(port, into, out, tuple(signals), port in early)
        for port, (into, out, signals) in found.items()
    )


def constant_delay(model: LatencyModel, size_bytes: int, link: str) -> int:
    """Return the delay of a latency model in ns.

    Raises :class:`ModelError` if it is random, or depends on other messages.
    """
    if isinstance(model, Fixed):
        return model.constant[0]
    if shared(model) is not None:
        raise ModelError(
            f"the latency of {link} depends on the other messages of its medium ({model!r}); a "
            "linear model needs a constant one: declare Fixed(S) for this analysis, for example "
            "with the worst latency that rtsim bus load prints"
        )
    drawn = {
        model.delays(np.random.default_rng(seed), size_bytes) for seed in range(8) for _ in range(4)
    }
    if len(drawn) == 1 and len(only := next(iter(drawn))) == 1:
        return int(only[0])
    raise ModelError(
        f"the latency of {link} is random ({model!r}); a linear model needs a constant one: "
        "declare Fixed(S) for this analysis"
    )


def common_period(periods: Sequence[Period]) -> Period:
    """Return the shortest common multiple of the periods."""
    from math import gcd, lcm

    fractions = [p.ns for p in periods]
    numerator = lcm(*(f.numerator for f in fractions))
    denominator = gcd(*(f.denominator for f in fractions))
    return Period(Fraction(numerator, denominator))


def port_signals(system: System) -> dict[str, Signals]:
    """Return the signals of each port."""
    return {name: port.signals for name, port in system.ports.items()}
