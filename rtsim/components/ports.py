"""Ports and wirings, which connect components.

A port is a named vector that other components read, such as the values of a plant or the latest
message of a controller. A ``Wiring`` copies values from ports to the inputs of a component.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import ScenarioError, ShapeError, UnknownName
from rtsim.core.signals import Signal, Signals, Vector, same_unit

Source = str | float
"""Source of an input: ``"component.signal"`` or a constant."""


@dataclass(eq=False)
class SignalPort:
    """A named vector that other components read; ``value`` changes in place."""

    name: str
    signals: Signals
    value: Vector
    early: Vector = field(init=False)
    """Values for later controllers of a declared order.

    After an answer, they are newer than ``value`` until the end of the microstep.
    """
    awaited: bool = False
    """True if the values come from messages or a device, so that the first can be delayed."""
    held: list[Vector] = field(default_factory=list)
    """Copies of ``value`` for readers with other values before the first :meth:`put`."""
    held_early: list[Vector] = field(default_factory=list)
    """Copies of ``early`` for readers with other values before the first :meth:`put`."""

    def __post_init__(self) -> None:
        self.early = self.value.copy()

    def put(self, payload: Vector) -> None:
        """Write the values of a message or a source for all readers."""
        self.value[:] = payload
        for held in self.held:
            held[:] = payload
        self.put_early(payload)

    def put_early(self, payload: Vector) -> None:
        """Write an answer that only later controllers in a declared order can read."""
        self.early[:] = payload
        for held in self.held_early:
            held[:] = payload

    def hold(self, where: slice, values: Vector, early: bool) -> Vector:
        """Return a copy of ``value`` (n,) for one reader, which each ``put`` updates."""
        held = self.value.copy()
        held[where] = values
        (self.held_early if early else self.held).append(held)
        return held


class Wiring:
    """Copy elements of ports to the inputs of a component.

    ``sources`` maps inputs to signals or numbers. Before its first message, an input has its value
    in ``initial``. Without such a value, an input has its declared initial value. Without a
    declared initial value, an input has the initial value of its source.
    """

    def __init__(
        self,
        into: Vector,
        signals: Signals,
        sources: Mapping[str, Source],
        owner: str,
        initial: Mapping[str, object] | None = None,
    ) -> None:
        self.into = into
        self.sources = dict(sources)
        self._signals = signals
        self._initial = signals.initial(initial)
        self._given = {*(initial or ()), *(s.name for s in signals if s.declares_initial)}
        self._owner = owner
        self._links: list[tuple[Any, Vector, Any]] = []
        for name, source in self.sources.items():
            if name not in signals:
                raise UnknownName("input", name, signals.names, owner)
            if not isinstance(source, str):
                into[:] = np.where(_mask(signals, name), signals.initial({name: source}), into)

    def connect(self, ports: Mapping[str, SignalPort], early: Collection[str] = ()) -> set[str]:
        """Connect sources to the inputs; return the names of their ports.

        ``early`` contains the controllers that react before the component.
        """
        runs: dict[tuple[str, str], tuple[list[int], list[int], Vector]] = {}
        for name, source in sorted(self.sources.items()):
            if not isinstance(source, str):
                continue
            port, where = resolve(source, ports, f"input {name} of {self._owner}")
            here = self._signals.slice(name)
            if where.stop - where.start != here.stop - here.start:
                raise ShapeError(
                    f"input {name} of {self._owner} has {here.stop - here.start} elements, "
                    f"but {source} has {where.stop - where.start}"
                )
            check_units(
                source, port.signals[source.partition(".")[2]], self._signals[name], self._owner
            )
            own = self._initial[here]
            differs = own.tobytes() != port.value[where].tobytes()
            apart = port.awaited and name in self._given and differs
            value = port.early if port.name in early else port.value
            if apart:
                value = port.hold(where, own, early=port.name in early)
            # Inputs from one port are copied together, except those with their own initial value.
            into, out, _ = runs.setdefault((port.name, name if apart else ""), ([], [], value))
            into.extend(range(here.start, here.stop))
            out.extend(range(where.start, where.stop))
        for into, out, value in runs.values():
            self._links.append((_slice_or_array(into), value, _slice_or_array(out)))
        return {port for port, _ in runs}

    def copies(self) -> list[tuple[Vector, Vector]]:
        """Return pairs (target, source) of vectors, which ``gather`` copies."""
        found = []
        for here, value, there in self._links:
            if isinstance(here, slice) and isinstance(there, slice):
                found.append((self.into[here], value[there]))
                continue
            into = range(self.into.size)[here] if isinstance(here, slice) else here.tolist()
            source = range(value.size)[there] if isinstance(there, slice) else there.tolist()
            found += [
                (self.into[i : i + 1], value[j : j + 1]) for i, j in zip(into, source, strict=True)
            ]
        return found

    def gather(self) -> None:
        """Copy the present values of the sources to ``into``."""
        for here, value, there in self._links:
            self.into[here] = value[there]


def check_wired(signals: Signals, sources: Mapping[str, Source], owner: str) -> None:
    """Raise ``ScenarioError`` if a required input has no source."""
    missing = [s.name for s in signals if s.name not in sources and not s.optional]
    if missing:
        raise ScenarioError(
            f"no source is connected to {', '.join(missing)} of {owner}; type "
            f"scenario.connect(source, '{owner}.{missing[0]}'), where source is a signal or a "
            "number, or declare the input with optional=True"
        )


def _mask(signals: Signals, name: str) -> NDArray[np.bool_]:
    mask = np.zeros(signals.size, dtype=bool)
    mask[signals.slice(name)] = True
    return mask


def _slice_or_array(indices: Iterable[int]) -> Any:
    listed = list(indices)
    if listed == list(range(listed[0], listed[0] + len(listed))):
        return slice(listed[0], listed[0] + len(listed))
    return np.array(listed)


def check_units(source: str, given: Signal, wanted: Signal, owner: str) -> None:
    """Raise ``ScenarioError`` for different units; the unit ``1`` is compatible with any unit."""
    if not same_unit(given.unit, wanted.unit):
        raise ScenarioError(
            f"{source} is in {given.unit}, but {owner}.{wanted.name} is in {wanted.unit}; declare "
            "the same unit for both, or convert the value in the model"
        )


def resolve(
    source: str, ports: Mapping[str, SignalPort], wanted_by: str
) -> tuple[SignalPort, slice]:
    component, dot, signal = source.partition(".")
    if not dot:
        raise ScenarioError(f"{wanted_by}: {source!r} names no signal; write 'component.signal'")
    if component not in ports:
        raise UnknownName("component", component, sorted(ports), wanted_by)
    if signal not in ports[component].signals:
        raise UnknownName(
            "signal", signal, ports[component].signals.names, f"{component} ({wanted_by})"
        )
    return ports[component], ports[component].signals.slice(signal)
