"""The errors a user meets.  Each says what was found, what was expected, and what to type.

::

    RtsimError
    ├── ScenarioError        the scenario, or a part of it, is put together wrongly
    │   ├── UnknownName      a signal, part or parameter that does not exist
    │   └── ShapeError       a vector whose length is not its Signals' length
    ├── ModelError           a model broke its contract while running (NaN, wrong shape)
    ├── ControllerError      a controller died, went silent or lied
    ├── LatencyError         a latency model returned what no link can do
    ├── ZenoError            one instant would never end
    ├── OverrunError         the loop fell behind further than its policy allows
    ├── RecordingError       a recording cannot be written or read
    ├── TrustError           a file of somebody else would have code run
    └── CheckpointError      a checkpoint cannot be taken, written, read or gone on from
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class RtsimError(Exception):
    """Base of every error that rtsim raises on purpose."""


class ScenarioError(RtsimError):
    """The scenario, or a part of it, is put together wrongly."""


class UnknownName(ScenarioError):
    """A name that does not exist; carries the nearest ones that do."""

    def __init__(self, what: str, name: str, known: Iterable[str], where: str = "") -> None:
        choices = list(known)
        near = difflib.get_close_matches(name, choices, n=3, cutoff=0.5)
        hint = (
            f"did you mean {', '.join(near)}?" if near else f"known: {', '.join(choices) or 'none'}"
        )
        place = f" in {where}" if where else ""
        super().__init__(f"unknown {what} {name!r}{place}; {hint}")


class ShapeError(ScenarioError):
    """A vector whose length is not its Signals' length."""


class ModelError(RtsimError):
    """A model broke its contract while running."""


class ControllerError(RtsimError):
    """A controller died, went silent or answered wrongly."""

    environment: bool = False
    """What failed was around the controller, such as a host without memory: no verdict on it."""


class LatencyError(RtsimError):
    """A latency model returned what no link can do."""


class ZenoError(RtsimError):
    """One instant would never end."""


class OverrunError(RtsimError):
    """The loop fell behind further than its policy allows."""


class RecordingError(RtsimError):
    """A recording cannot be written or read."""


class CheckpointError(RtsimError):
    """A checkpoint cannot be taken, written, read or gone on from."""


class TrustError(RtsimError):
    """A file names code that the user did not name, and that is not known to be theirs."""
