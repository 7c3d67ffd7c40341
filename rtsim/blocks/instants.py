"""Check that events occur at the instants at which blocks need them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rtsim.blocks.layout import PlacedBlock
from rtsim.blocks.places import Place
from rtsim.core.errors import ScenarioError
from rtsim.core.tag import NS_PER_S
from rtsim.equations.model import Timer

Makers = Callable[[Place], list[tuple[PlacedBlock, tuple[str, ...]]]]
"""Maps an event to the clauses that produce it; each clause has its block and its triggers."""


def check_meetings(placed: PlacedBlock, makers: Makers) -> None:
    """Raise :class:`ScenarioError` if an event input does not occur at a tick that requires it."""
    for port, name in placed.equations.meets.items():
        place, own = placed.flat.sources[port], placed.equations.timers[name]
        if not _meets(place, own, makers):
            occurs = " and ".join(dict.fromkeys(_causes(place, makers))) or "never"
            raise ScenarioError(
                f"{placed.flat.path} ticks {_in_words(own)}, but the event at its input {port} "
                f"occurs {occurs}, so some ticks have no event; give both blocks the same period "
                f"and offset, or put a ZeroOrderHold before {placed.flat.path}"
            )


def _meets(place: Place, own: Timer, makers: Makers) -> bool:
    """Return whether the event occurs at all ticks of ``own`` from its first occurrence on."""
    return any(
        all(_at_ticks(placed, cause, own, makers) for cause in on) for placed, on in makers(place)
    )


def _at_ticks(placed: PlacedBlock, cause: str, own: Timer, makers: Makers) -> bool:
    timer = placed.equations.timers.get(cause)
    if timer is not None:
        return _covers(timer, own)
    return cause in placed.flat.sources and _meets(placed.flat.sources[cause], own, makers)


def _covers(timer: Timer, own: Timer) -> bool:
    """Return whether ``timer`` ticks at all ticks of ``own``.

    Ticks are compared after rounding to whole ns.
    """
    if timer.period is None or own.period is None:
        return timer == own
    every = timer.period.ns
    return own.period.ns % every == 0 and (own.offset_ns - timer.offset_ns) % every == 0


def _causes(place: Place, makers: Makers) -> Iterator[str]:
    for placed, on in makers(place):
        for cause in on:
            if cause in placed.equations.timers:
                yield _in_words(placed.equations.timers[cause])
            elif cause in placed.flat.sources:
                yield from _causes(placed.flat.sources[cause], makers)
            else:
                yield f"at crossings of {placed.flat.path}"


def _in_words(timer: Timer) -> str:
    offset = f"{timer.offset_ns / NS_PER_S:g} s"
    if timer.period is None:
        return f"once, at {offset}"
    return f"every {timer.period} from {offset} on"
