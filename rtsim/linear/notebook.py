"""What a notebook shows of a linear system: its names, its poles, and small matrices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rtsim.record import notebook

if TYPE_CHECKING:
    from rtsim.linear.state_space import StateSpace

_MOST_COLUMNS = 12
"""Greatest number of states and inputs together whose matrices are shown."""


def shown_system(system: StateSpace) -> str:
    """Return a linear system as HTML."""
    named = {kind: getattr(system, kind).columns for kind in ("states", "inputs", "outputs")}
    facts: dict[str, object] = {
        f"{len(names)} {kind}": ", ".join(names) for kind, names in named.items()
    }
    if system.period is not None:
        facts["period [s]"] = system.period.seconds
    facts |= {"stable": "yes" if system.stable else "no", "notes": " ".join(system.notes)}
    poles = [[f"{p.value:.6g}", p.frequency, p.damping] for p in system.poles]
    head = ("pole", "frequency [rad/s]", "damping")
    out = notebook.shown(system.name or "StateSpace", facts, head, poles)
    if len(named["states"]) + len(named["inputs"]) > _MOST_COLUMNS:
        return out
    return out + notebook.shown("", {}, ["", *named["states"], *named["inputs"]], _rows(system))


def _rows(system: StateSpace) -> Iterator[list[object]]:
    """Yield the rows of [A B; C D] with their names."""
    after = "d {}/dt" if system.period is None else "next {}"
    for name, a, b in zip(system.states.columns, system.a, system.b, strict=True):
        yield [after.format(name), *map(float, a), *map(float, b)]
    for name, c, d in zip(system.outputs.columns, system.c, system.d, strict=True):
        yield [name, *map(float, c), *map(float, d)]
