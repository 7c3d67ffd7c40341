"""Check the pace of a run against the rig: real hardware runs in real time and cannot wait."""

from __future__ import annotations

from hitl.boards import parse_url
from hitl.rigs.rig import Rig
from rtsim.core.errors import ScenarioError
from rtsim.core.tag import NS_PER_S, Period

MAX = "max"
REAL_TIME = "1"
_HOLD = "or set hold = true in the rig file if all devices at its pins can wait"


def free_running(rig: Rig) -> bool:
    """Return True for real hardware, which continues while the simulation is paused."""
    return not parse_url(rig.board).emulated


def pace_for(rig: Rig, asked: str | None) -> str:
    """Return the pace of the run: ``asked``, or the rig's default if ``asked`` is ``None``.

    Raises :class:`ScenarioError` with the reason for a pace that the rig cannot follow.
    """
    if not free_running(rig):
        if asked not in (None, MAX):
            raise ScenarioError(
                f"--pace {asked}: {rig.name} is emulated and runs in lockstep with the simulation; "
                "remove --pace"
            )
        return MAX
    if rig.hold:
        return REAL_TIME if asked is None else asked
    if asked is None:
        return REAL_TIME
    if asked == MAX:
        raise ScenarioError(
            f"--pace max: {rig.name} at {rig.board} runs by its own clock and can neither run "
            f"faster nor wait; use --pace 1, {_HOLD}"
        )
    if _rate(asked) != 1.0:
        raise ScenarioError(
            f"--pace {asked}: {rig.name} at {rig.board} runs by its own clock, at rate 1; use "
            f"--pace 1, {_HOLD}"
        )
    return asked


def _rate(asked: str) -> float:
    try:
        return float(asked)
    except ValueError:
        raise ScenarioError(
            f"--pace {asked!r} is not a pace; give 'max' or a rate such as 1"
        ) from None


def check_watchdog(rig: Rig, period: Period) -> None:
    """Raise :class:`InterfaceError` if the rig's watchdog is not longer than ``period``.

    A shorter watchdog would set the fail-safe values within each period.
    """
    if rig.watchdog_ms * NS_PER_S // 1000 <= period.ns:
        raise rig.lines.error(
            "",
            "watchdog",
            f"watchdog = {rig.watchdog_ms / 1000:g} s is not longer than the controller's "
            f"period of {float(period.ns) / NS_PER_S:g} s; give, for example, twice the period",
        )
