"""Overrun policies, which determine what happens when the loop falls behind.

Each policy has a finite limit.

======================  ==============================================================
``catch_up(max_frames)``  runs the late frames back to back, without waiting, until the loop is
                        on time again; simulated time stays tied to wall-clock time
``slip(max_frames)``      treats the late tag as due now and continues from there: the run ends
                        later on the wall clock by the lost time, which is never made up
``freeze(patience_s)``    pauses the run before the late tag until it is resumed; if nobody
                        resumes it within the timeout, the run ends
``abort``               ends the run at the first overrun
======================  ==============================================================

``max_frames`` counts *consecutive* late frames. The count of late frames starts again when a frame
is finished in time. A late wake-up also causes an overrun, although the loop has not fallen behind.

To add a policy, derive a class from ``Policy``. Register the class through the entry point
``rtsim.overrun_policies``, or with ``add_policy`` (docs/extending.md). :data:`OWN_POLICIES`
contains rtsim's own policies.
"""

from __future__ import annotations

import inspect
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal, Self, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import ScenarioError
from rtsim.core.extension_point import ExtensionPoint

# An overrun: a tag that began too late, with its cause and the action of the policy.

Cause = Literal["compute", "wake"]
"""``compute`` if the work before the tag took too long, ``wake`` if the loop woke up late."""
Action = Literal["catch_up", "slip", "freeze", "abort"]
ACTIONS: tuple[Action, ...] = get_args(Action)


@dataclass(frozen=True)
class Overrun:
    """A tag that began too late."""

    tag_ns: int
    cause: Cause
    amount_ns: int
    """Lateness of the tag, wall-clock ns."""
    job: str
    """Longest job in the longest frame since the loop was last on time.

    Empty if the cause is not ``compute``.
    """
    action: Action
    """Action of the policy, or ``abort`` if the limit of the policy was exceeded."""
    consecutive: int
    allowed: int
    stood_ns: int | None = None
    """Time for which the loop waited for a CPU, in the wait that ended late, ns.

    ``None`` if the system does not report this time, or if the cause is ``compute``.
    """

    def __str__(self) -> str:
        late = f"{self.amount_ns / 1e6:.3f} ms"
        if self.cause == "wake":
            why = f"the loop woke {late} late"
            if self.stood_ns is not None:
                # the loop can begin to wait for a CPU before the tag is due
                stood = min(self.stood_ns, self.amount_ns)
                why += f", of which it waited {stood / 1e6:.3f} ms for a CPU in use by others"
        else:
            where = f", most of it in {self.job}" if self.job else ""
            why = f"computing took {late} too long{where}"
        return (
            f"overrun at {self.tag_ns / 1e9:.9f} s: {why}; "
            f"consecutive late frames: {self.consecutive}, allowed: {self.allowed}"
        )


UNKNOWN_NS = -1
"""Value in a row of :class:`CaughtUp` if the system does not report the time waiting for a CPU."""


@dataclass(frozen=True)
class CaughtUp:
    """Consecutive overruns, after which the loop caught up.

    The loop stores each overrun as a row of numbers, in 0.3 us. An :class:`Overrun` object and its
    text would take 10 us and cause further overruns at 10 kHz. The process that writes the
    recording therefore converts the rows to :class:`Overrun` objects.
    """

    rows: NDArray[np.int64]
    """Array (n, 6) with one row per overrun.

    The columns are: tag, ns; lateness, ns; 1 if the loop woke late; index of the job in ``jobs``;
    time waiting for a CPU, ns, or :data:`UNKNOWN_NS`; number of consecutive late frames.
    """
    jobs: tuple[str, ...]
    allowed: int

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Overrun]:
        for ns, late, by_wake, job, stood, consecutive in self.rows.tolist():
            yield Overrun(
                tag_ns=ns, cause="wake" if by_wake else "compute", amount_ns=late,
                job=self.jobs[job], action="catch_up", consecutive=consecutive,
                allowed=self.allowed, stood_ns=None if stood == UNKNOWN_NS else stood,
            )  # fmt: skip

    def pack(self) -> bytes:
        """Return the overruns as bytes, for another process."""
        return _head(self.allowed, self.jobs) + self.rows.tobytes()

    @classmethod
    def unpack(cls, data: bytes) -> Self:
        """Return the overruns that :meth:`pack` encoded."""
        head, _, rows = data.partition(b"\n")
        allowed, *jobs = json.loads(head)
        return cls(np.frombuffer(rows, np.int64).reshape(-1, 6), tuple(jobs), allowed)


@lru_cache(maxsize=16)
def _head(allowed: int, jobs: tuple[str, ...]) -> bytes:
    return json.dumps([allowed, *jobs]).encode() + b"\n"


_MOST_FRAMES = 10**9


@dataclass(frozen=True)
class LateTag:
    """A tag that begins too late, and for which a policy chooses an action."""

    tag_ns: int
    """Simulated time of the tag, ns."""
    late_ns: int
    """Time from the due time of the tag to its start, wall-clock ns."""
    cause: Cause
    consecutive: int
    """Number of consecutive late frames, including this frame."""
    total: int
    """Number of overruns of the run so far, including this overrun."""


class Policy(ABC):
    """Abstract base class of overrun policies.

    A subclass is an immutable dataclass. Several runs may use one object at the same time. A policy
    must therefore store nothing about a run: its answer depends only on the :class:`LateTag`.
    """

    name: ClassVar[str]
    """Name that a user types before the colon: ``--overrun NAME[:ARGUMENT]``."""
    usage: ClassVar[str]
    """Example for error messages, such as ``slip:1000 (frames in a row)``."""

    @classmethod
    def parse(cls, argument: str) -> Self:
        """Return a policy for ``argument``, the text after the colon.

        Raises :class:`ValueError` if the text is malformed.
        """
        if argument:
            raise ValueError(argument)
        return cls()

    @property
    def allowed(self) -> int:
        """Limit of consecutive late frames, for messages."""
        return 0

    @property
    def patience_ns(self) -> int:
        """Longest duration of a freeze before the run ends, wall-clock ns."""
        return 0

    @property
    def catches_up(self) -> int:
        """Number of consecutive late frames for which the policy certainly chooses to catch up.

        Compiled code handles these frames without asking the policy.
        """
        return 0

    @abstractmethod
    def answer(self, late: LateTag) -> Action:
        """Return what the loop must do at a late tag."""

    @abstractmethod
    def remedy(self, consecutive: int) -> str:
        """Return advice to the user after the policy has ended a run."""

    def __str__(self) -> str:
        """Return a text from which ``parse_policy`` makes this policy."""
        return self.name


class _FramesInARow(Policy):
    name: ClassVar[Action]
    max_frames: int

    def __post_init__(self) -> None:
        if not 0 <= self.max_frames <= _MOST_FRAMES:
            raise ScenarioError(
                f"{self.name}:{self.max_frames} is not a valid limit; expected 0 to "
                f"{_MOST_FRAMES} frames, such as {self.name}:100"
            )

    @property
    def allowed(self) -> int:
        return self.max_frames

    def answer(self, late: LateTag) -> Action:
        return "abort" if late.consecutive > self.max_frames else self.name

    def __str__(self) -> str:
        return f"{self.name}:{self.max_frames}"

    def _more(self, consecutive: int) -> str:
        more = 2 * max(consecutive, self.allowed, 1)
        return f"--overrun {self.name}:{more} allows more late frames"


@dataclass(frozen=True)
class CatchUp(_FramesInARow):
    """Execute late frames without waiting; end the run after more than ``max_frames`` in a row.

    The default tolerates a stall of half a second at 200 Hz, as occurs on a desktop computer. A
    lasting overload ends the run within seconds.
    """

    max_frames: int = 100
    name: ClassVar[Action] = "catch_up"
    usage: ClassVar[str] = "catch_up:100"

    @classmethod
    def parse(cls, argument: str) -> Self:
        return cls(int(argument)) if argument else cls()

    @property
    def catches_up(self) -> int:
        return self.max_frames if type(self).answer is CatchUp.answer else 0

    def remedy(self, consecutive: int) -> str:
        return f"{self._more(consecutive)}, --overrun slip lets simulated time fall behind"


@dataclass(frozen=True)
class Slip(_FramesInARow):
    """Treats each late frame as due now. More than ``max_frames`` late frames in a row end the run.

    Run it at a lower rate instead.
    """

    max_frames: int = 1000
    name: ClassVar[Action] = "slip"
    usage: ClassVar[str] = "slip:1000 (frames in a row)"

    @classmethod
    def parse(cls, argument: str) -> Self:
        return cls(int(argument)) if argument else cls()

    def remedy(self, consecutive: int) -> str:
        return self._more(consecutive)


@dataclass(frozen=True)
class Freeze(Policy):
    """Pause the run before a late tag, for at most ``patience_s`` s."""

    patience_s: float = 30.0
    name: ClassVar[Action] = "freeze"
    usage: ClassVar[str] = "freeze:30 (seconds)"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.patience_s) and 0 < self.patience_s <= 1e9):
            raise ScenarioError(
                f"freeze:{self.patience_s} is not a valid timeout; expected more than 0 s and "
                "at most 1e9 s, such as freeze:30"
            )

    @classmethod
    def parse(cls, argument: str) -> Self:
        return cls(float(argument)) if argument else cls()

    @property
    def patience_ns(self) -> int:
        return round(self.patience_s * 1e9)

    def answer(self, late: LateTag) -> Action:  # noqa: ARG002
        return self.name

    def remedy(self, consecutive: int) -> str:  # noqa: ARG002
        return "--overrun freeze:300 waits longer, --overrun slip continues without a command"

    def __str__(self) -> str:
        return f"{self.name}:{self.patience_s:g}"


@dataclass(frozen=True)
class Abort(Policy):
    """Ends the run at the first overrun."""

    name: ClassVar[Action] = "abort"
    usage: ClassVar[str] = "abort"

    def answer(self, late: LateTag) -> Action:  # noqa: ARG002
        return self.name

    def remedy(self, consecutive: int) -> str:  # noqa: ARG002
        return "--overrun catch_up or --overrun slip continues after an overrun"


P = TypeVar("P", bound=Policy)


def _checked(name: str, made: object) -> type[Policy]:
    if not (isinstance(made, type) and issubclass(made, Policy)):
        raise ScenarioError(
            f"overrun policy {name!r} is {made!r}; expected a subclass of "
            "rtsim.timing.policy.Policy"
        )
    if inspect.isabstract(made):
        missing = ", ".join(sorted(made.__abstractmethods__))
        raise ScenarioError(
            f"overrun policy {name!r} has no method {missing}; write it in {made.__name__}"
        )
    if getattr(made, "name", None) != name or not getattr(made, "usage", ""):
        raise ScenarioError(
            f"overrun policy {name!r}: {made.__name__} needs the attributes name = {name!r} "
            f"and usage, such as usage = '{name}:10 (frames)'"
        )
    return made


OWN_POLICIES: dict[str, type[Policy]] = {p.name: p for p in (CatchUp, Slip, Freeze, Abort)}
POLICIES: ExtensionPoint[type[Policy]] = ExtensionPoint(
    "rtsim.overrun_policies",
    "overrun policy",
    OWN_POLICIES,
    _checked,
)
"""The class of each available policy, by name."""


def add_policy(policy: type[P]) -> type[P]:
    """Register a policy class for this process. This function is also a class decorator."""
    POLICIES.add(policy.name, policy)
    return policy


def parse_policy(text: str | Policy) -> Policy:
    """Return the policy for a text such as ``catch_up``, ``slip:1000`` or ``freeze:30`` (s).

    Raises :class:`ScenarioError` if the text is malformed.
    """
    if not isinstance(text, str):
        return text
    name, _, argument = text.strip().partition(":")
    if name in POLICIES:
        try:
            return POLICIES[name].parse(argument)
        except ValueError:
            pass
    raise ScenarioError(f"cannot read overrun policy {text!r}; type {_usages()}")


def _usages() -> str:
    examples = []
    for name in POLICIES:
        try:
            examples.append(POLICIES[name].usage)
        except ScenarioError:
            examples.append(name)
    return f"{', '.join(examples[:-1])} or {examples[-1]}"


def advice(policy: Policy, consecutive: int) -> str:
    """Return advice to the user after an overrun policy has ended a run."""
    return (
        f"type `rtsim doctor` to see which rates this machine holds; {policy.remedy(consecutive)}, "
        "--pace 0.5 gives each frame twice the time"
    )
