"""What the processors that a controller is built for can hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hitl.interface import Interface, InterfaceError
from rtsim.core.errors import UnknownName


@dataclass(frozen=True)
class Target:
    """A processor as its C compiler sees it; ``lacks`` says why a type cannot be had."""

    name: str
    lacks: Mapping[str, str] = field(default_factory=dict)


TARGETS = {
    t.name: t
    for t in (
        Target("host"),
        Target(
            "avr",
            {"float64": "its double has 4 bytes; use float32, or a variant with real = 'float32'"},
        ),
    )
}


def check_target(interface: Interface, name: str) -> Target:
    """Raises :class:`InterfaceError` with the line of the first signal it cannot hold."""
    if name not in TARGETS:
        raise UnknownName("target", name, sorted(TARGETS), f"building {interface.name}")
    target = TARGETS[name]
    for place in interface.fields:
        reason = target.lacks.get(place.signal.type)
        if reason:
            raise InterfaceError(
                f"{interface.path}:{place.line}: {place.signal.name} is {place.signal.type}, "
                f"which {name} does not have: {reason}"
            )
    return target
