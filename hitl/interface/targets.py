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


_SINGLE = "its double has 4 bytes; use float32, or a variant with real = 'float32'"


def processor(name: str, double_bytes: int = 8) -> Target:
    """Return the target of a processor whose ``double`` has ``double_bytes`` bytes."""
    return Target(name, {"float64": _SINGLE} if double_bytes == 4 else {})


TARGETS = {t.name: t for t in (Target("host"), processor("avr", double_bytes=4))}


def check_target(interface: Interface, name: str | Target) -> Target:
    """Check that a target (or the target called ``name``) has the types of all signals; return it.

    Raises :class:`InterfaceError` with the line of the first signal whose type the target lacks,
    and :class:`UnknownName` for an unknown target.
    """
    if isinstance(name, str) and name not in TARGETS:
        raise UnknownName("target", name, sorted(TARGETS), f"the build of {interface.name}")
    target = TARGETS[name] if isinstance(name, str) else name
    for place in interface.fields:
        reason = target.lacks.get(place.signal.type)
        if reason:
            raise InterfaceError(
                f"{interface.path}:{place.line}: {place.signal.name} is {place.signal.type}, "
                f"which {target.name} does not have: {reason}"
            )
    return target
