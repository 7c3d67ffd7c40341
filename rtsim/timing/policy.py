"""Overrun policies: what happens when the loop falls behind.  Each has a finite limit.

======================  ==============================================================
``catch_up(max_frames)``  runs the late frames back to back, without waiting, until the loop is
                        on time again; simulated and wall time stay tied
``slip(max_frames)``      treats the late tag as due now and continues from there: the lost time is
                        never made up, and the run ends that much later on the wall clock
``freeze(patience_s)``    pauses the run before the late tag until it is resumed; if nobody
                        resumes it within the timeout, the run ends
``abort``               ends the run at the first overrun
======================  ==============================================================

``max_frames`` counts *consecutive* late frames.  If the loop is ready for a frame in time, the
count starts again, even if the wait for this frame then ends late: that is an overrun, but the loop
has not fallen behind.
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
            f"{name}:{frames} is not a valid limit; expected 0 to {_MOST_FRAMES} frames, "
            f"such as {name}:100"
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

    A loop that slips 1000 times in a row does not run in real time; give it a lower rate instead.
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
                f"freeze:{self.patience_s} is not a valid timeout; expected more than 0 s and "
                "at most 1e9 s, such as freeze:30"
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
    """What to type after this policy ended a run with ``consecutive`` late frames."""
    more = 2 * max(consecutive, policy.allowed, 1)
    options = {
        "catch_up": f"--overrun catch_up:{more} allows more late frames, --overrun slip lets "
        "simulated time fall behind",
        "slip": f"--overrun slip:{more} allows more late frames",
        "freeze": "--overrun freeze:300 waits longer, --overrun slip continues without a command",
        "abort": "--overrun catch_up or --overrun slip continues after an overrun",
    }
    return (
        f"type `rtsim doctor` to see which rates this machine holds; {options[policy.name]}, "
        "--pace 0.5 gives each frame twice the time"
    )


@dataclass(frozen=True)
class Overrun:
    """A tag that began too late; it is recorded as an event at that tag."""

    tag_ns: int
    cause: Cause
    """``compute`` if the work before it took too long, ``wake`` if the loop woke up late."""
    amount_ns: int
    """How late the tag began [own ns]."""
    job: str
    """The job that took most of the longest frame since the loop was last on time; empty if
    computing was not the cause."""
    action: Action
    """What the policy did; ``abort`` also if the limit of another policy was exceeded."""
    consecutive: int
    allowed: int
    stood_ns: int | None = None
    """How long the loop waited for a CPU that other threads used, in the wait that ended late;
    None if the system does not report it, or if the cause was computing."""

    def __str__(self) -> str:
        late = f"{self.amount_ns / 1e6:.3f} ms"
        if self.cause == "wake":
            why = f"the loop woke {late} late"
            if self.stood_ns is not None:
                stood = min(self.stood_ns, self.amount_ns)  # it may have begun before it was due
                why += f", of which it waited {stood / 1e6:.3f} ms for a CPU in use by others"
        else:
            where = f", most of it in {self.job}" if self.job else ""
            why = f"computing took {late} too long{where}"
        return (
            f"overrun at {self.tag_ns / 1e9:.9f} s: {why}; "
            f"consecutive late frames: {self.consecutive}, allowed: {self.allowed}"
        )
