"""Ports and wires: who reads whose values.

A port is a named vector that others read: a plant's values, what a controller's messages brought,
a source's settings.  A wiring fills one consumer's inputs from the ports it names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import ScenarioError, ShapeError, UnknownName
from rtsim.core.signals import Signal, Signals, Vector

Source = str | float
"""Where an input comes from: ``"part.signal"``, or a constant."""


@dataclass(eq=False)
class SignalPort:
    """A named vector; ``value`` is overwritten in place, never replaced."""

    name: str
    signals: Signals
    value: Vector
    early: Vector = field(init=False)
    """What declared successors read: ahead of ``value`` from an answer to the microstep's end."""

    def __post_init__(self) -> None:
        self.early = self.value.copy()

    def put(self, payload: Vector) -> None:
        """A message arrived, or a source was set: everybody reads it."""
        self.value[:] = payload
        self.early[:] = payload


class Wiring:
    """Fills ``into`` from ports, element by element, as declared by name."""

    def __init__(
        self, into: Vector, signals: Signals, sources: Mapping[str, Source], owner: str
    ) -> None:
        self.into = into
        self.sources = dict(sources)
        self._signals = signals
        self._owner = owner
        self._links: list[tuple[Any, Vector, Any]] = []
        for name, source in self.sources.items():
            if name not in signals:
                raise UnknownName("input", name, signals.names, owner)
            if not isinstance(source, str):
                into[:] = np.where(_mask(signals, name), signals.initial({name: source}), into)

    def connect(self, ports: Mapping[str, SignalPort], early: Collection[str] = ()) -> set[str]:
        """Resolve names once all ports exist; returns the names of the ports that are read.

        ``early`` names the ports of those that a declared order puts before the owner.
        """
        runs: dict[str, tuple[list[int], list[int]]] = {}
        for name, source in sorted(self.sources.items()):
            if not isinstance(source, str):
                continue
            port, where = resolve(source, ports, f"input {name} of {self._owner}")
            here = self._signals.slice(name)
            if where.stop - where.start != here.stop - here.start:
                raise ShapeError(
                    f"input {name} of {self._owner} has {here.stop - here.start} elements, "
                    f"{source} has {where.stop - where.start}"
                )
            check_units(
                source, port.signals[source.partition(".")[2]], self._signals[name], self._owner
            )
            into, out = runs.setdefault(port.name, ([], []))
            into.extend(range(here.start, here.stop))
            out.extend(range(where.start, where.stop))
        for name, (into, out) in runs.items():
            port = ports[name]
            value = port.early if name in early else port.value
            self._links.append((_compact(into), value, _compact(out)))
        return set(runs)

    def copies(self) -> list[tuple[Vector, Vector]]:
        """Views (into, from) of equal lengths, which :meth:`gather` copies one after another."""
        found = []
        for here, value, there in self._links:
            if isinstance(here, slice) and isinstance(there, slice):
                found.append((self.into[here], value[there]))
                continue
            into = range(self.into.size)[here] if isinstance(here, slice) else here.tolist()
            source = range(value.size)[there] if isinstance(there, slice) else there.tolist()
            found += [
                (self.into[i : i + 1], value[j : j + 1])
                for i, j in zip(into, source, strict=True)
            ]
        return found

    def gather(self) -> None:
        """Copy the current values of the sources."""
        for here, value, there in self._links:
            self.into[here] = value[there]


def check_wired(signals: Signals, sources: Mapping[str, Source], owner: str) -> None:
    """Raise :class:`ScenarioError` for an input that nothing is wired to, unless it is optional."""
    missing = [s.name for s in signals if s.name not in sources and not s.optional]
    if missing:
        given = ", ".join(f"{name!r}: 'part.signal'" for name in missing)
        raise ScenarioError(
            f"nothing is wired to {', '.join(missing)} of {owner}; give inputs={{{given}}}, with a "
            "number in the place of 'part.signal' for what stays the same, or declare that it may "
            f"be left out: Signal({missing[0]!r}, optional=True)"
        )


def _mask(signals: Signals, name: str) -> NDArray[np.bool_]:
    mask = np.zeros(signals.size, dtype=bool)
    mask[signals.slice(name)] = True
    return mask


def _compact(indices: Iterable[int]) -> Any:
    """A slice where the indices are consecutive (much faster to copy), else an index array."""
    listed = list(indices)
    if listed == list(range(listed[0], listed[0] + len(listed))):
        return slice(listed[0], listed[0] + len(listed))
    return np.array(listed)


def check_units(source: str, given: Signal, wanted: Signal, owner: str) -> None:
    """Units on both ends of a wire must be the same; ``1`` (none declared) goes with any."""
    units = [s.unit.replace(" ", "") for s in (given, wanted)]
    if units[0] != units[1] and "1" not in units:
        raise ScenarioError(
            f"{source} is in {given.unit}, {owner}.{wanted.name} is in {wanted.unit}: nothing "
            "converts on the way; declare the same unit on both ends, or convert in the model"
        )


def resolve(
    source: str, ports: Mapping[str, SignalPort], wanted_by: str
) -> tuple[SignalPort, slice]:
    """The port and the place in it that ``"part.signal"`` names."""
    part, dot, signal = source.partition(".")
    if not dot:
        raise ScenarioError(f"{wanted_by}: {source!r} names no signal; write 'part.signal'")
    if part not in ports:
        raise UnknownName("part", part, sorted(ports), wanted_by)
    if signal not in ports[part].signals:
        raise UnknownName("signal", signal, ports[part].signals.names, f"{part} ({wanted_by})")
    return ports[part], ports[part].signals.slice(signal)
