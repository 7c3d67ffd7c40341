"""The views of a run whose scenario declares none, derived from its wires.

The order is: what controllers read and send, outputs of plants, values of other components, states.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from rtsim.record.views import View, Viewable, Viewed, with_unit

_COMMAND = re.compile(
    r"(?P<stem>.*?)_?(command|commanded|cmd|setpoint|set_point|reference|target|demand|wanted)\Z"
)
"""Matches the name of an input that is a command; ``stem`` is the name of the quantity."""
_NO_MEASUREMENT = ("controller", "source")
"""Kinds of components whose signals follow after the signals that controllers measure."""


class _Wire(NamedTuple):
    """An input of a component and the signal that it reads."""

    reader: str
    input: str
    source: str


def views_of(run: Viewable) -> tuple[View, ...]:
    """Return the declared views of a scenario or a recording, else the default views.

    Raises :class:`ScenarioError` if a recording contains an invalid view.
    """
    data = run.viewed()
    return tuple(data.declared) or default_views(data)


def default_views(data: Viewed) -> tuple[View, ...]:
    """Return views of all signals, most useful ones first.

    The order is: the inputs and outputs of controllers, outputs of plants, values of other
    components, states.  A command stands beside its response.  An array is one view.
    """
    return tuple(_Defaults(data).views())


class _Defaults:
    """Derives the default views from wires and descriptions."""

    def __init__(self, data: Viewed) -> None:
        self._data = data
        self._signals = {
            f"{owner}.{one.name}": one for owner, some in data.signals.items() for one in some
        }
        self._kinds = {name: str(part.get("kind", "")) for name, part in data.parts.items()}
        self._wires = [
            _Wire(name, wanted, source)
            for name, part in data.parts.items()
            for wanted, source in _mapping(part.get("inputs")).items()
            if isinstance(source, str) and source in self._signals
        ]
        self._shown: set[str] = set()

    def views(self) -> Iterator[View]:
        states = self._states()
        orders = (
            self._of_controllers(),
            self._sent_by_controllers(),
            self._rest(self._of_kind("plant", but=states)),
            self._rest(n for n in self._signals if n not in states),
            self._rest(states),
        )
        yield from chain.from_iterable(orders)

    def _of_controllers(self) -> Iterator[View]:
        """Give what each controller reads: commands beside their responses, then measurements."""
        for controller in self._named("controller"):
            wires = [w for w in self._wires if w.reader == controller]
            for command, response in self._pairs(wires):
                yield from self._view(response, command)
            for wire in wires:
                if self._kinds.get(wire.source.partition(".")[0]) not in _NO_MEASUREMENT:
                    yield from self._view(wire.source)

    def _pairs(self, wires: Sequence[_Wire]) -> Iterator[tuple[str, str]]:
        """Give commands with the responses of the same quantity, by name and unit."""
        commands = [w for w in wires if _COMMAND.match(w.input)]
        others = [w for w in wires if w not in commands]
        for command in commands:
            match = _COMMAND.match(command.input)
            stem = match["stem"] if match else ""
            found = [
                w for w in others
                if self._unit(w.source) == self._unit(command.source)
                and stem in w.input
            ]  # fmt: skip
            if found and (stem or len(found) == 1):
                yield command.source, found[0].source

    def _sent_by_controllers(self) -> Iterator[View]:
        """Give the outputs of controllers, each as the command of the input that it drives."""
        for controller in self._named("controller"):
            for name in self._of(controller):
                driven = [
                    f"{w.reader}.{w.input}"
                    for w in self._wires
                    if w.source == name and self._kinds.get(w.reader) == "plant"
                ]
                yield from self._view(*[n for n in driven if n in self._signals][:1], name)

    def _rest(self, names: Iterable[str]) -> Iterator[View]:
        wired = {f"{w.reader}.{w.input}" for w in self._wires if w.source in self._shown}
        for name in names:
            if name not in wired:  # an input has the values of its source
                yield from self._view(name)

    def _view(self, *names: str) -> Iterator[View]:
        new = [n for n in names if n not in self._shown]
        if new and names[0] in new:
            self._shown.update(names)
            yield View(with_unit(names[0], self._unit(names[0])), names)

    def _states(self) -> list[str]:
        return [
            f"{owner}.{name}"
            for owner, part in self._data.parts.items()
            for key in ("states", "discrete")
            for name in _mapping(part.get(key))
            if f"{owner}.{name}" in self._signals
        ]

    def _named(self, kind: str) -> list[str]:
        return [name for name, known in self._kinds.items() if known == kind]

    def _of_kind(self, kind: str, but: Iterable[str]) -> list[str]:
        left_out = set(but)
        return [n for owner in self._named(kind) for n in self._of(owner) if n not in left_out]

    def _of(self, owner: str) -> list[str]:
        return [f"{owner}.{one.name}" for one in self._data.signals.get(owner, ())]

    def _unit(self, name: str) -> str:
        return self._signals[name].unit


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
