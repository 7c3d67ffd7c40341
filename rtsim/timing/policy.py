"""What to do when the loop falls behind: four named policies, each with a finite limit.

======================  ==============================================================
``catch_up(max_frames)``  run the late frames back to back, without waiting, until the loop is
                        on time again; simulated and wall time stay tied
``slip(max_frames)``      take the late tag as due now and go on from there: the lost time is never
                        made up, the run ends that much later on the wall
``freeze(patience_s)``    simulated time stops before the late tag, as if somebody had pressed
                        pause, until it is resumed; nobody does within the patience: the run ends
``abort``               the first overrun ends the run
======================  ==============================================================

``max_frames`` counts *consecutive* late frames.  A frame that the loop was ready for in time starts
the count again, even if it is then woken late: that is an overrun, but not falling behind.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from rtsim.core.errors import ScenarioError

Cause = Literal["compute", "wake"]
Action = Literal["catch_up", "slip", "freeze", "abort"]

_MOST_FRAMES = 10**9


def _check_frames(name: str, frames: int) -> None:
    if not 0 <= frames <= _MOST_FRAMES:
        raise ScenarioError(
            f"{name} of {frames} frames; expected 0 to {_MOST_FRAMES}, such as {name}:100"
        )


@dataclass(frozen=True)
class CatchUp:
    """Run late frames back to back; at most ``max_frames`` in a row, else the run ends.

    The default outlasts a stall of half a second at 200 Hz, which a desktop sees now and then,
    and ends a lasting overload within seconds.
    """

    max_frames: int = 100
    name: ClassVar[Action] = "catch_up"

    def __post_init__(self) -> None:
        _check_frames(self.name, self.max_frames)

    @property
    def allowed(self) -> int:
        return self.max_frames

    def __str__(self) -> str:
        return f"{self.name}:{self.max_frames}"


@dataclass(frozen=True)
class Slip:
    """Re-anchor at each late frame and go on; at most ``max_frames`` in a row, else the run ends.

    A loop that slips 1000 times in a row is not in real time at all: a lower rate says so honestly.
    """

    max_frames: int = 1000
    name: ClassVar[Action] = "slip"

    def __post_init__(self) -> None:
        _check_frames(self.name, self.max_frames)

    @property
    def allowed(self) -> int:
        return self.max_frames

    def __str__(self) -> str:
        return f"{self.name}:{self.max_frames}"


@dataclass(frozen=True)
class Freeze:
    """Stop simulated time before the late tag until it is resumed, at most ``patience_s`` [s]."""

    patience_s: float = 30.0
    name: ClassVar[Action] = "freeze"
    allowed: ClassVar[int] = 0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.patience_s) and 0 < self.patience_s <= 1e9):
            raise ScenarioError(
                f"freeze with a patience of {self.patience_s} s; expected a finite number "
                "of seconds > 0, such as freeze:30"
            )

    @property
    def patience_ns(self) -> int:
        return round(self.patience_s * 1e9)

    def __str__(self) -> str:
        return f"{self.name}:{self.patience_s:g}"


@dataclass(frozen=True)
class Abort:
    """The first overrun ends the run."""

    name: ClassVar[Action] = "abort"
    allowed: ClassVar[int] = 0

    def __str__(self) -> str:
        return self.name


Policy: TypeAlias = CatchUp | Slip | Freeze | Abort


def parse_policy(text: str | Policy) -> Policy:
    """From text: ``catch_up``, ``catch_up:5``, ``slip:1000``, ``freeze:30`` (seconds), ``abort``.

    Raises :class:`ScenarioError` for anything else.
    """
    if not isinstance(text, str):
        return text
    name, _, limit = text.strip().partition(":")
    try:
        if name == "catch_up":
            return CatchUp(int(limit)) if limit else CatchUp()
        if name == "slip":
            return Slip(int(limit)) if limit else Slip()
        if name == "freeze":
            return Freeze(float(limit)) if limit else Freeze()
        if name == "abort" and not limit:
            return Abort()
    except ValueError:
        pass
    raise ScenarioError(
        f"cannot read overrun policy {text!r}; "
        "type catch_up:100, slip:1000 (frames in a row), freeze:30 (seconds) or abort"
    )


def advice(policy: Policy, consecutive: int) -> str:
    """What to type after this policy ended a run."""
    more = 2 * max(consecutive, policy.allowed, 1)
    options = {
        "catch_up": f"--overrun catch_up:{more} allows more, --overrun slip falls behind instead",
        "slip": f"--overrun slip:{more} allows more",
        "freeze": "--overrun freeze:300 waits longer, --overrun slip goes on by itself",
        "abort": "--overrun catch_up or --overrun slip goes on",
    }
    return (
        f"type `rtsim doctor` to see what this machine holds; {options[policy.name]}, "
        "--pace 0.5 gives each frame twice the time"
    )


@dataclass(frozen=True)
class Overrun:
    """One tag that began too late: recorded as an event at that tag."""

    tag_ns: int
    cause: Cause
    """``compute``: the work before it took too long; ``wake``: the machine woke the loop late."""
    amount_ns: int
    """Own ns between when it was due and when the loop was there."""
    job: str
    """What took most of the longest frame since the loop was last on time; empty when it was not
    computing."""
    action: Action
    """What was done about it; ``abort`` also where another policy's limit was exceeded."""
    consecutive: int
    allowed: int
    stood_ns: int | None = None
    """For how long the loop stood in line behind other threads, in the wait that ended late;
    None: the system does not say, or it was by computing."""

    def __str__(self) -> str:
        late = f"{self.amount_ns / 1e6:.3f} ms"
        if self.cause == "wake":
            why = f"the wake came {late} late"
            if self.stood_ns is not None:
                stood = min(self.stood_ns, self.amount_ns)  # it may have begun before it was due
                why += f", {stood / 1e6:.3f} ms of it in line behind other programs"
        else:
            where = f", most of it in {self.job}" if self.job else ""
            why = f"computing took {late} too long{where}"
        return (
            f"overrun at {self.tag_ns / 1e9:.9f} s: {why}; "
            f"consecutive {self.consecutive} / allowed {self.allowed}"
        )
