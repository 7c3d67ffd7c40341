"""Errors that rtsim raises.

Errors that rtsim raises; each message states the problem and what to type.

::

    RtsimError
    ├── ScenarioError        the scenario, or a component of it, is invalid
    │   ├── UnknownName      a signal, component or parameter does not exist, or is not recorded
    │   └── ShapeError       a vector and its Signals have different lengths
    ├── ModelError           a model broke its contract (NaN, wrong shape, exception)
    │   └── Ended            the program of a plant, such as an FMU, ended its simulation
    ├── ControllerError      a controller stopped, did not answer or answered wrongly
    ├── LatencyError         a latency model returned an impossible delay
    ├── ZenoError            events repeat at one instant without end
    ├── OverrunError         the loop fell behind further than its policy allows
    ├── RecordingError       a recording cannot be written or read
    ├── TrustError           a file names code that the user has not trusted
    ├── Undecided            an outcome is neither passed nor failed
    └── CheckpointError      a checkpoint cannot be taken, written, read or resumed
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Sequence


class RtsimError(Exception):
    """Base class of all errors that rtsim raises on purpose."""

    placed: bool = False
    """True if the message begins with the path and line of a TOML file."""


class ScenarioError(RtsimError):
    """The scenario, or a component of it, is invalid."""


class UnknownName(ScenarioError):
    """A name does not exist.  The message suggests similar names."""

    MOST_LISTED = 40
    """Limit of the number of names in the message."""

    def __init__(self, what: str, name: str, known: Iterable[str], where: str = "") -> None:
        choices = list(known)
        near = difflib.get_close_matches(name, choices, n=3, cutoff=0.5)
        folded = name.casefold()
        near = near or [one for one in choices if one.casefold() == folded][:3]
        listed = ", ".join(choices[: self.MOST_LISTED]) or "none"
        left = len(choices) - self.MOST_LISTED
        more = f", and {left} more" if left > 0 else ""
        hint = f"did you mean {', '.join(near)}?" if near else f"known: {listed}{more}"
        place = f" in {where}" if where else ""
        super().__init__(f"unknown {what} {name!r}{place}; {hint}")


class NotRecorded(UnknownName):
    """A signal exists, but its values were not recorded.  ``why`` completes the message."""

    def __init__(self, name: str, why: str) -> None:
        ScenarioError.__init__(self, f"{name} {why}")


def memory_is_hidden(name: str, unit: str) -> NotRecorded:
    """Return the error for a result that would need the hidden memory of a controller.

    ``name`` has the form ``component.memory``. The suggested fix contains ``unit``.
    """
    own = name.partition(".")[2]
    return NotRecorded(
        name,
        "is memory of a controller, which results do not have; declare an output, such as "
        f"shown = rtsim.output({unit!r}), and assign it in step: self.shown = self.{own}",
    )


class ShapeError(ScenarioError):
    """A vector and its Signals have different lengths."""


class ModelError(RtsimError):
    """A model broke its contract while running."""


class Ended(ModelError):
    """A program ended the simulation of its plant at ``time`` (s).

    ``answer`` is the answer of the operation that ended the simulation, if the operation has one.
    ``who`` names the program in the message.
    """

    def __init__(self, who: str, time: float, answer: Sequence[float] = ()) -> None:
        super().__init__(f"{who} ended its simulation at {time:g} s")
        self.who, self.time, self.answer = who, time, answer

    def at(self, time: float) -> Ended:
        """Return the error, with ``time`` (s) if the program did not say its time."""
        return self if math.isfinite(self.time) else Ended(self.who, time, self.answer)


class ControllerError(RtsimError):
    """A controller stopped, did not answer or answered wrongly."""

    environment: bool = False
    """True if the host caused the failure, for example by running out of memory."""


class LatencyError(RtsimError):
    """A latency model returned an impossible delay."""


class ZenoError(RtsimError):
    """Events repeat infinitely often in a finite time."""


class OverrunError(RtsimError):
    """The loop missed more deadlines than its overrun policy allows."""


class DeadlineError(RtsimError):
    """A task of a simulated processor missed a deadline, or cannot catch up any more."""


class RecordingError(RtsimError):
    """A recording cannot be written or read."""


class CheckpointError(RtsimError):
    """Raised if a checkpoint cannot be taken, written, read or resumed."""


class Undecided(RtsimError):
    """A caller needs a decision, but the outcome is neither passed nor failed."""


class TrustError(RtsimError):
    """A file refers to code that the user has not trusted."""
