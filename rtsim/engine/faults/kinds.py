"""The kinds of faults that a fault file can name: kinds of rtsim and of other packages.

To add a kind, write a subclass of ``SignalFault``, ``MessageFault``, ``LineFault``, ``BoardFault``
or ``LoopFault`` and register it in :data:`KINDS`, by the entry point ``rtsim.faults`` or by
:func:`add_fault_kind` (docs/extending.md).
"""

from __future__ import annotations

import inspect
from typing import TypeVar

from rtsim.core.errors import ScenarioError
from rtsim.core.extension_point import ExtensionPoint
from rtsim.core.toml import number, seconds, text, whole
from rtsim.engine.faults.at_loop import LOOP_KINDS
from rtsim.engine.faults.at_messages import MESSAGE_KINDS
from rtsim.engine.faults.at_signals import SIGNAL_KINDS
from rtsim.engine.faults.kind import CHECKS, FaultKind
from rtsim.engine.faults.line_kinds import LINE_KINDS

COMMON = {
    "name": text(wanted="a unique name, such as name = 'alpha_stuck'"),
    "where": text(),
    "kind": text(),
    "at": seconds(zero=True),
    "every": seconds(),
    "probability": number(0.0, 1.0, None),
    "when": text(None, "a condition, such as when = 'f16.alpha > 0.3'"),
    "until": seconds(),
    "duration": seconds(),
    "count": whole(1, default=None),
    "seed": whole(default=None),
    "period": seconds(),
}
"""The entries of a fault; ``period`` is one of faults of signals only."""
K = TypeVar("K", bound=FaultKind)
_BASES = "SignalFault, MessageFault, LineFault, BoardFault or LoopFault"


def _checked(name: str, made: object) -> type[FaultKind]:
    """Return ``made`` if it is a complete kind of this name; raises :class:`ScenarioError`."""
    if not (isinstance(made, type) and issubclass(made, FaultKind)):
        raise ScenarioError(f"fault kind {name!r} is {made!r}; expected a subclass of {_BASES}")
    if inspect.isabstract(made):
        missing = ", ".join(sorted(made.__abstractmethods__))
        raise ScenarioError(
            f"fault kind {name!r} has no method {missing}; define it in {made.__name__}, a "
            f"subclass of {_BASES}"
        )
    for attribute in ("name", "does", "level", "example"):
        if not isinstance(getattr(made, attribute, None), str):
            raise ScenarioError(
                f"fault kind {name!r}: the class {made.__name__} needs a text as the attribute "
                f"{attribute} = '...'"
            )
    if made.name != name:
        raise ScenarioError(
            f"fault kind {name!r} has another name in {made.__name__}.name, {made.name!r}; "
            "make the names equal"
        )
    _check_parameters(made)
    made.check_kind()
    return made


def _check_parameters(kind: type[FaultKind]) -> None:
    taken = [*COMMON]
    for parameter in kind.parameters:
        if parameter.name in taken:
            raise ScenarioError(
                f"fault kind {kind.name!r}: {parameter.name} is already the name of another "
                "entry of a fault; give the parameter another name"
            )
        if parameter.check not in CHECKS:
            raise ScenarioError(
                f"fault kind {kind.name!r}: parameter {parameter.name} has the check "
                f"{parameter.check!r}; choose one of {', '.join(CHECKS)}"
            )
        taken.append(parameter.name)


OWN_KINDS: dict[str, type[FaultKind]] = {
    kind.name: kind for kind in (*SIGNAL_KINDS, *MESSAGE_KINDS, *LINE_KINDS, *LOOP_KINDS)
}
"""The kinds that come with rtsim."""
KINDS: ExtensionPoint[type[FaultKind]] = ExtensionPoint(
    "rtsim.faults", "fault kind", OWN_KINDS, _checked
)
"""The class of every kind, by the kind's name in a fault file."""


def add_fault_kind(kind: type[K]) -> type[K]:
    """Register a kind for this process; it can be used as a decorator of the class."""
    KINDS.add(kind.name, kind)
    return kind
