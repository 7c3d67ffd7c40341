"""What a rig allows: a free-running one keeps to the wall clock, and is not made to wait."""

from __future__ import annotations

from hitl.boards import parse_url
from hitl.rigs.rig import Rig
from rtsim.core.errors import ScenarioError
from rtsim.core.tag import NS_PER_S, Period

MAX = "max"
REAL_TIME = "1"
_HOLD = "or say hold = true in the rig file where all that is at its pins can stand still"


def free_running(rig: Rig) -> bool:
    """It is hardware: nothing stands still when the simulation does."""
    return not parse_url(rig.board).emulated


def pace_for(rig: Rig, asked: str | None) -> str:
    """The pace to fly at; ``asked`` is ``None`` where nobody named one.

    Raises :class:`ScenarioError` for one that the rig cannot follow, with the reason.
    """
    if not free_running(rig):
        if asked not in (None, MAX):
            raise ScenarioError(
                f"--pace {asked}: {rig.name} is emulated, and runs in lockstep with the "
                "simulation, to the cycle; leave --pace out"
            )
        return MAX
    if rig.hold:
        return REAL_TIME if asked is None else asked
    if asked is None:
        return REAL_TIME
    if asked == MAX:
        raise ScenarioError(
            f"--pace max: {rig.name} at {rig.board} runs by its own clock, and cannot be asked to "
            f"run faster or to wait; fly with --pace 1, {_HOLD}"
        )
    if _rate(asked) != 1.0:
        raise ScenarioError(
            f"--pace {asked}: {rig.name} at {rig.board} runs by its own clock, at rate 1; fly with "
            f"--pace 1, {_HOLD}"
        )
    return asked


def _rate(asked: str) -> float:
    try:
        return float(asked)
    except ValueError:
        raise ScenarioError(f"--pace {asked!r}; give 'max' or a rate such as 1") from None


def check_watchdog(rig: Rig, period: Period) -> None:
    """A watchdog that ends within a period would drive the safe values in between."""
    if rig.watchdog_ms * NS_PER_S // 1000 <= period.ns:
        raise rig.lines.error(
            "",
            "watchdog",
            f"watchdog = {rig.watchdog_ms / 1000:g} s is not longer than the period of "
            f"{float(period.ns) / NS_PER_S:g} s in which the pins are driven; give twice that",
        )
