"""Target processors of a controller, and the types that their compilers lack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hitl.interface import Interface, InterfaceError
from rtsim.core.errors import UnknownName


@dataclass(frozen=True)
class Target:
    """A target processor; ``lacks`` gives the reason for each type that its compiler lacks."""

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
    """Check that the target ``name`` has the types of all signals, and return the target.

    Raises :class:`InterfaceError` with the line of the first signal whose type it lacks, and
    :class:`UnknownName` for an unknown target.
    """
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
