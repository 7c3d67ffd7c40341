"""Python client for a run in progress.

Connect with :func:`connect`. A request is a map ``{"v": 3, "id": n, "do": ..., ...}``. An answer of
the gateway has the ``id`` of the request and a flag ``ok``. If ``ok`` is False, the entry ``error``
contains the reason.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from threading import Event
from types import TracebackType
from typing import Any, Self

from rtsim.core.clock import stopwatch
from rtsim.core.errors import RtsimError
from rtsim.core.net.keys import CLIENT, Keys
from rtsim.core.net.messagepack import EncodingError, Limits, pack, unpack
from rtsim.core.net.sockets import Caller
from rtsim.core.tag import NS_PER_S
from rtsim.gateway.publishing import StateTable, ViewerCounts, table
from rtsim.gateway.registry import RegisteredRun, find, runs

# Requests, which the gateway checks.

VERSION = 3
DO = ("hello", "status", "get", "watch", "command")
MOST_NAMES = 1000
_REQUEST_LIMITS = Limits(depth=6, values=20_000, extensions=False)


class RequestError(RtsimError):
    """A request is malformed or was rejected; ``number`` is its id, or -1."""

    def __init__(self, text: str, number: int = -1) -> None:
        super().__init__(text)
        self.number = number


@dataclass(frozen=True)
class ClientRequest:
    number: int
    do: str
    names: tuple[str, ...] = ()
    rate_hz: float = 0.0
    command: Mapping[str, Any] = field(default_factory=dict)
    initiated_ns: int = 0
    jobs_after: int | None = None
    """Time, ns: the answer contains the later states of the tasks of processors. None for none."""


def read_request(data: bytes) -> ClientRequest:
    """Return the request in untrusted bytes; raise ``RequestError`` if malformed."""
    try:
        said = unpack(data, _REQUEST_LIMITS)
    except EncodingError as error:
        raise RequestError(str(error)) from None
    if not isinstance(said, dict):
        raise RequestError("a request must be a map")
    number = said.get("id", -1)
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 2**63:
        raise RequestError("a request must have an id, an integer >= 0")
    if type(said.get("v")) is not int or said["v"] != VERSION:
        raise RequestError(
            f"the request has protocol version {said.get('v')!r:.20}; this run needs version "
            f"{VERSION}",
            number,
        )
    do = said.get("do")
    if not isinstance(do, str) or do not in DO:
        raise RequestError(f"unknown request {do!r:.40}; known: {', '.join(DO)}", number)
    names = said.get("names", [])
    if not isinstance(names, list) or len(names) > MOST_NAMES:
        raise RequestError(f"names must be a list of at most {MOST_NAMES} names", number)
    if not all(isinstance(n, str) and len(n) <= 200 for n in names):
        raise RequestError("each name in 'names' must be a text of at most 200 characters", number)
    rate = said.get("rate", 0.0)
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate <= 1000:
        raise RequestError("rate must be a number from 0 to 1000, Hz", number)
    command = said.get("command", {})
    if not isinstance(command, dict):
        raise RequestError("command must be a map", number)
    initiated = said.get("initiated", 0)
    if isinstance(initiated, bool) or not isinstance(initiated, int) or abs(initiated) >= 2**63:
        raise RequestError("the time 'initiated' must be an integer, in ns", number)
    after = said.get("jobs_after")
    if after is not None and (type(after) is not int or abs(after) >= 2**63):
        raise RequestError("the time 'jobs_after' must be an integer, in ns", number)
    return ClientRequest(number, str(do), tuple(names), float(rate), command, initiated, after)


# Results of requests, which a notebook shows as tables.

NEXT_TAG = -1


class At(int):
    """The tag at which a command takes effect, ns; ``NEXT_TAG`` while the run is paused.

    ``wait_s`` is the wall-clock time (s) from the answer to the tag. ``wait_s`` is 0 in a run
    without real time, and if the tag has passed or is unknown.
    """

    wait_s: float

    def __new__(cls, ns: int, wait_ns: int = 0) -> At:
        self = super().__new__(cls, ns)
        self.wait_s = wait_ns / NS_PER_S
        return self

    @property
    def seconds(self) -> float:
        return self / NS_PER_S

    def __str__(self) -> str:
        if self == NEXT_TAG:
            return "at the next tag"
        soon = f", in {self.wait_s:.1f} s" if self.wait_s >= 0.1 else ""
        return f"at {self.seconds:.9f} s{soon}"

    def __repr__(self) -> str:
        return f"<{self}>"


@dataclass(frozen=True)
class Sample:
    """One sample of the watched signals. ``lost`` counts the samples lost so far."""

    state: StateTable
    values: Mapping[str, float]
    lost: int

    def _repr_html_(self) -> str:
        return f"{escape(str(self.state))}{_values(self.values)}"


@dataclass(frozen=True)
class Glance:
    """The state of the run, values of signals, and a latency histogram for each link.

    :mod:`rtsim.timing.frames` defines the classes of the histogram. ``stamps`` contains, for the
    latest message of each link, the times at which it was initiated, was completed and arrives, ns.
    Links without messages are left out.
    """

    state: StateTable
    values: Mapping[str, float]
    latency: Mapping[str, list[int]]
    stamps: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    watched: Sequence[Mapping[str, Any]] = ()
    """The bounds of requirements that are evaluated during the run, as plain data."""
    jobs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The states of the tasks of each processor, for ``RecentJobs.join``."""

    def _repr_html_(self) -> str:
        return f"{escape(str(self.state))}{_values(self.values)}"


class Units(dict[str, str]):
    """The units of signals, by name."""

    def _repr_html_(self) -> str:
        return table(("signal", "unit"), self.items())


class ParameterTable(list[dict[str, Any]]):
    """A table of the parameters that a client can set."""

    def _repr_html_(self) -> str:
        head = ("parameter", "initial value", "unit", "range", "")
        return table(head, ([p["name"], *_described(p)] for p in self))


def _described(row: Mapping[str, Any]) -> list[str]:
    low, high = row["low"], row["high"]
    limits = f"[{'-inf' if low is None else low}, {'inf' if high is None else high}]"
    value = ", ".join(f"{v:g}" for v in row["value"])
    return [value, row["unit"], limits, row["description"]]


def _values(values: Mapping[str, float]) -> str:
    return table(("", ""), ((name, f"{value:g}") for name, value in values.items()))


PATIENCE_S = 5.0
_RENEW_NS = 2 * NS_PER_S
_LOOK_MS = 250
_LOOK_AGAIN_S = 0.05
_LIMITS = Limits(depth=8, values=200_000)


class ControlError(RtsimError):
    """The client cannot reach the run, or the run rejected a request."""


class Run:
    """A run in progress; created by :func:`connect`."""

    def __init__(
        self, endpoint: str, keys: Keys | None = None, patience: float = PATIENCE_S,
        entry: RegisteredRun | None = None,
    ) -> None:  # fmt: skip
        """Connect to the address ``endpoint``."""
        self._entry = entry
        self._caller = Caller(endpoint, keys)
        self._patience_ns = round(patience * NS_PER_S)
        self._number = 0
        self._samples: list[dict[str, Any]] = []
        self._over = ""
        try:
            self._run: dict[str, Any] = self._asked("hello")["run"]
        except BaseException:
            self._caller.close()
            raise

    # -- description

    @property
    def scenario(self) -> str:
        return str(self._run.get("scenario", ""))

    @property
    def pid(self) -> int:
        return int(self._run["pid"])

    @property
    def is_local(self) -> bool:
        return self._caller.endpoint.startswith("ipc://")

    @property
    def about(self) -> Mapping[str, Any]:
        """Description of the run: process, scenario, signals, parameters and so on."""
        return self._run

    @property
    def signals(self) -> Units:
        return Units({row["name"]: row["unit"] for row in self._run["signals"]})

    @property
    def parameters(self) -> ParameterTable:
        """Parameters that a client can set, with unit, shape, limits and initial value."""
        return ParameterTable(self._run["parameters"])

    @property
    def left_out(self) -> dict[str, int]:
        """Number of values that did not fit into the catalogue, by entry."""
        return dict(self._run["left_out"])

    @property
    def status(self) -> StateTable:
        return self._state(self._asked("status"))

    @property
    def telemetry(self) -> dict[str, ViewerCounts]:
        """The numbers of messages that were ``sent`` and ``lost``, for each plotting tool.

        The entry ``failure`` says why a tool no longer receives messages.
        """
        return dict(self._asked("status")["telemetry"])

    @property
    def unrecorded(self) -> str:
        """Time and reason of a failed recording; empty otherwise."""
        return str(self._asked("status").get("unrecorded", ""))

    @property
    def gone(self) -> bool:
        scheme, _, path = self._caller.endpoint.partition("://")
        return bool(self._over) or (scheme == "ipc" and not Path(path).exists())

    def get(self, *names: str) -> float | list[float]:
        """Return the present value of a signal, or a list of values for several names."""
        values = [float(v) for v in self._asked("get", names=list(names))["values"]]
        return values[0] if len(names) == 1 else values

    def glance(self, *names: str, jobs_after: int | None = None) -> Glance:
        """Return the state of the run, values of signals, and latencies by link.

        With the time ``jobs_after``, ns, the result also contains the later states of the tasks of
        processors.
        """
        wanted = {} if jobs_after is None else {"jobs_after": jobs_after}
        said = self._asked("get", names=list(names), **wanted)
        values = dict(zip(names, map(float, said["values"]), strict=True))
        links = self._run["links"]
        latency = dict(zip(links, said["latency"], strict=True))
        rows = zip(links, map(tuple, said["stamps"]), strict=True)
        stamps = {link: row for link, row in rows if row[0] >= 0}
        watched, jobs = said.get("watched", ()), said.get("jobs", {})
        return Glance(self._state(said), values, latency, stamps, watched, jobs)

    def watch(self, *names: str, rate: float = 10.0) -> Iterator[Sample]:
        """Yield samples of ``names``, ``rate`` per second, until the run ends.

        Raises ``ControlError`` if samples stop arriving.
        """
        if not 0 < rate < math.inf:
            raise ControlError(
                f"watch: rate {rate!r} is not allowed; give a finite number of samples per "
                "second > 0"
            )
        patience_ns = self._patience_ns + round(2 * NS_PER_S / rate)
        self._asked("watch", names=list(names), rate=rate)
        renewed = heard = stopwatch()
        try:
            while True:
                now = stopwatch()
                if now - renewed > _RENEW_NS:
                    renewed = now
                    self._ask("watch", names=list(names), rate=rate)
                if not self._samples:
                    self._hear(100)
                if self._samples:
                    heard = now
                    row = self._samples.pop(0)
                    pairs = zip(names, row["values"], strict=True)
                    values = {n: float(v) for n, v in pairs}
                    yield Sample(self._state(row), values, int(row["lost"]))
                elif self.gone:
                    return
                elif now - heard > patience_ns:
                    raise self._silent("sample", patience_ns)
        finally:
            self._samples.clear()
            self._ask("watch", names=[], rate=0.0)

    # -- commands

    def set(self, target: str, value: float | Sequence[float], unit: str | None = None) -> At:
        """Set the parameter ``target`` (``COMPONENT.NAME``) to ``value``, in its declared unit.

        Values are not converted. If ``unit`` is given and differs from the declared unit,
        :class:`ControlError` is raised.
        """
        given = {} if unit is None else {"unit": unit}
        return self.tell("set", target=target, value=_plain(value), **given)

    def inject(self, topic: str, value: float | Sequence[float]) -> At:
        """Send a message on ``topic`` in place of the sender of the topic."""
        return self.tell("inject", topic=topic, value=_plain(value))

    def pause(self) -> At:
        return self.tell("pause")

    def resume(self) -> At:
        return self.tell("resume")

    def step(
        self, tags: int | None = None, *, task: str | None = None, duration: float | None = None
    ) -> At:
        """Advance a paused run by a time (s), a number of tags, or to the next tick of a task."""
        given = {"tags": tags, "task": task, "duration": duration}
        return self.tell("step", **{k: v for k, v in given.items() if v is not None})

    def rate(self, rate: float | str) -> At:
        """Set the simulated seconds per wall-clock second, or ``"max"``."""
        return self.tell("rate", rate=rate)

    def fault(self, name: str, do: str) -> At:
        """Start or clear a declared fault; ``do`` is ``"start"`` or ``"clear"``."""
        return self.tell("fault", name=name, do=do)

    def checkpoint(self) -> At:
        """Save the complete state of the run in a checkpoint file beside the recording.

        A run that is paused or not in real time writes the file at once. A run in real time writes
        the file at its next pause or at its end.
        """
        return self.tell("checkpoint")

    def mark(self, text: str) -> At:
        return self.tell("mark", text=text)

    def quit(self) -> At:
        return self.tell("quit")

    def tell(self, kind: str, **arguments: Any) -> At:
        """Send a command; raise ``ControlError`` if the run rejects it."""
        command = {"kind": kind, **arguments}
        said = self._asked("command", command=command, initiated=stopwatch())
        return At(int(said["ns"]), int(said.get("wait_ns", 0)))

    def restore(self, *, at: float | None = None, back: float | None = None) -> At:
        """Go back to the last checkpoint, or to an earlier one.

        With ``at``, the run goes back to the last checkpoint at or before this simulated time (s).
        With ``back``, the run goes back by at least ``back`` s. The recording is kept, and the run
        continues in a new recording.
        """
        given = {"at": at, "back": back}
        return self.tell("restore", **{k: v for k, v in given.items() if v is not None})

    # -- requests and answers

    def _state(self, said: Mapping[str, Any]) -> StateTable:
        state = StateTable(**said["state"])
        if state.leg != self._run["leg"]:
            self._run = self._asked("hello")["run"]
        return state

    def _ask(self, do: str, **what: Any) -> int:
        self._number += 1
        try:
            data = pack({"v": VERSION, "id": self._number, "do": do, **what})
        except EncodingError as error:
            raise ControlError(str(error)) from None
        if not self._caller.send(data):
            self._hear(0)
            if self._over:
                raise ControlError(self._over)
            raise ControlError(
                f"{self._caller.endpoint} accepts no requests now; try again, or type 'rtsim "
                "ctl runs', which shows whether the run has ended"
            )
        return self._number

    def _asked(self, do: str, **what: Any) -> dict[str, Any]:
        number = self._ask(do, **what)
        until = stopwatch() + self._patience_ns
        while (rest := until - stopwatch()) > 0:
            said = self._hear(min(max(1, rest // 1_000_000), _LOOK_MS))
            if self._over or (said is None and self.gone):
                raise ControlError(self._over or "the run has ended")
            if said is not None and said.get("id") == number:
                if not said.get("ok"):
                    raise ControlError(str(said.get("error", "refused")))
                return said
        raise self._silent("answer", self._patience_ns)

    def _silent(self, what: str, waited_ns: int) -> ControlError:
        stopped = "" if self._entry is None else self._entry.stopped
        return ControlError(
            f"the client received no {what} from {self._caller.endpoint} within "
            f"{waited_ns / NS_PER_S:g} s; "
            + (stopped or "rtsim ctl runs shows whether the run has ended")
        )

    def _hear(self, milliseconds: int) -> dict[str, Any] | None:
        data = self._caller.receive(milliseconds)
        if data is None:
            return None
        try:
            said = unpack(data, _LIMITS)
        except EncodingError:
            return None
        if isinstance(said, dict) and "sample" in said:
            self._samples.append(said["sample"])
            return None
        if not isinstance(said, dict):
            return None
        if said.get("over"):
            self._over = str(said.get("error"))
        return said

    def close(self) -> None:
        self._caller.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<run of {self.scenario}, process {self.pid}>"

    def _repr_html_(self) -> str:
        try:
            found = str(self.status)
        except ControlError as error:
            found = str(error)
        return (
            f"<b>{escape(self.scenario)}</b>, process {self.pid}: {escape(found)}"
            f"{self.parameters._repr_html_()}"
        )


def _plain(value: float | Sequence[float]) -> float | list[float]:
    if isinstance(value, Sequence) or hasattr(value, "tolist"):
        listed = value.tolist() if hasattr(value, "tolist") else list(value)
        return listed if isinstance(listed, list) else float(listed)
    return value


def connect(
    which: str | int = "",
    keys: str | os.PathLike[str] | None = None,
    *,
    wait: float = 0.0,
    patience: float = PATIENCE_S,
) -> Run:
    """Connect to a run by its process id, scenario or ``tcp://`` address.

    By default, connect to the only run. For a ``tcp://`` address, ``keys`` is the file of the
    client's keys. ``wait`` is the longest time (s) to wait for a run that has not started yet.
    ``patience`` is the longest time (s) to wait for an answer. Raises :class:`RtsimError` if no run
    is found.

    Example:
        run = connect("f16", wait=5.0)
        run.set("f16.mass", 9000.0, "kg")
    """
    until = stopwatch() + round(wait * NS_PER_S)
    while True:
        try:
            return _connect(str(which), keys, patience)
        except RtsimError:
            if stopwatch() >= until:
                raise
        Event().wait(_LOOK_AGAIN_S)


def _connect(text: str, keys: str | os.PathLike[str] | None, patience: float) -> Run:
    held = None if keys is None else Keys.load(Path(keys))
    if text.startswith("tcp://"):
        if held is None:
            raise ControlError(
                f"{text} needs the client keys of the run; give --keys run.keys{CLIENT} (rtsim "
                "keys run.keys writes this file)"
            )
        return Run(text, held, patience)
    entry = find(text)
    return Run(entry.endpoint, None, patience, entry)


@contextmanager
def connected(which: str, keys: Path | None = None) -> Iterator[Run]:
    """Context manager that connects to a run and closes the connection at its end."""
    run = connect(which, keys)
    try:
        yield run
    finally:
        run.close()


__all__ = [
    "NEXT_TAG", "At", "ControlError", "Glance", "Run", "Sample", "StateTable", "connect",
    "connected", "runs",
]  # fmt: skip
