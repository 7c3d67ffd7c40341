"""At which instants an event happens, as far as the timers behind it say so."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rtsim.blocks.layout import PlacedBlock
from rtsim.blocks.places import Place
from rtsim.core.errors import ScenarioError
from rtsim.core.tag import NS_PER_S
from rtsim.equations.model import Timer

Makers = Callable[[Place], list[tuple[PlacedBlock, tuple[str, ...]]]]
"""The clauses that make an event happen: of which block, and on what."""


def check_meetings(placed: PlacedBlock, makers: Makers) -> None:
    """Raise :class:`ScenarioError` where an input does not happen at the ticks it must meet."""
    for port, name in placed.equations.meets.items():
        place, own = placed.flat.sources[port], placed.equations.timers[name]
        if not _meets(place, own, makers):
            heard = " and ".join(dict.fromkeys(_causes(place, makers))) or "never"
            raise ScenarioError(
                f"{placed.flat.path} works {_said(own)}, and what is wired to {port} happens "
                f"{heard}: not at each of its instants; give both the same period and offset, "
                f"or put a ZeroOrderHold before {placed.flat.path}, which is then read at its ticks"
            )


def _meets(place: Place, own: Timer, makers: Makers) -> bool:
    """Whether the event happens at all ticks of ``own``, once it happens at all."""
    return any(
        all(_at_ticks(placed, cause, own, makers) for cause in on) for placed, on in makers(place)
    )


def _at_ticks(placed: PlacedBlock, cause: str, own: Timer, makers: Makers) -> bool:
    timer = placed.equations.timers.get(cause)
    if timer is not None:
        return _covers(timer, own)
    return cause in placed.flat.sources and _meets(placed.flat.sources[cause], own, makers)


def _covers(timer: Timer, own: Timer) -> bool:
    """Of ticks that are rounded to whole ns: an offset of 1/3 s is no third of a second."""
    if timer.period is None or own.period is None:
        return timer == own
    every = timer.period.ns
    return own.period.ns % every == 0 and (own.offset_ns - timer.offset_ns) % every == 0


def _causes(place: Place, makers: Makers) -> Iterator[str]:
    for placed, on in makers(place):
        for cause in on:
            if cause in placed.equations.timers:
                yield _said(placed.equations.timers[cause])
            elif cause in placed.flat.sources:
                yield from _causes(placed.flat.sources[cause], makers)
            else:
                yield f"at crossings of {placed.flat.path}"


def _said(timer: Timer) -> str:
    offset = f"{timer.offset_ns / NS_PER_S:g} s"
    return f"once, at {offset}" if timer.period is None else f"each {timer.period} from {offset} on"
