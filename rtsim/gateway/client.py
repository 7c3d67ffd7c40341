"""A run in progress, from Python: look at it, change it, hold it, end it."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
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
from rtsim.gateway.registry import find, runs
from rtsim.gateway.requests import VERSION
from rtsim.gateway.shown import NEXT_TAG, At, Glance, ParameterTable, Sample, StateTable, Units

PATIENCE_S = 5.0
_RENEW_NS = 2 * NS_PER_S
_LOOK_MS = 250
_LOOK_AGAIN_S = 0.05
_LIMITS = Limits(depth=8, values=200_000)


class ControlError(RtsimError):
    """A run that cannot be reached, or that refused."""


class Run:
    """A run in progress; made by :func:`connect`."""

    def __init__(self, endpoint: str, keys: Keys | None = None, patience: float = PATIENCE_S):
        self._caller = Caller(endpoint, keys)
        self._patience_ns = round(patience * NS_PER_S)
        self._number = 0
        self._samples: list[dict[str, Any]] = []
        try:
            self._run: dict[str, Any] = self._asked("hello")["run"]
        except BaseException:
            self._caller.close()
            raise

    # -- what there is

    @property
    def scenario(self) -> str:
        return str(self._run.get("scenario", ""))

    @property
    def pid(self) -> int:
        return int(self._run["pid"])

    @property
    def about(self) -> Mapping[str, Any]:
        """All that the run says of itself."""
        return self._run

    @property
    def signals(self) -> Units:
        """Unit by name."""
        return Units({row["name"]: row["unit"] for row in self._run["signals"]})

    @property
    def parameters(self) -> ParameterTable:
        """What can be set: name, unit, shape, low, high, and the value at the start."""
        return ParameterTable(self._run["parameters"])

    @property
    def left_out(self) -> dict[str, int]:
        """What a live run has too much of to be shown: names, and how many values each has."""
        return dict(self._run["left_out"])

    @property
    def status(self) -> StateTable:
        return self._state(self._asked("status"))

    @property
    def telemetry(self) -> dict[str, dict[str, int]]:
        """By plotting tool, messages ``sent`` and ``lost`` so far."""
        return dict(self._asked("status")["telemetry"])

    @property
    def unrecorded(self) -> str:
        """From when on the run is not recorded, and why; empty where it is as it was asked for."""
        return str(self._asked("status").get("unrecorded", ""))

    def get(self, *names: str) -> float | list[float]:
        """Present values; a list for several names."""
        values = [float(v) for v in self._asked("get", names=list(names))["values"]]
        return values[0] if len(names) == 1 else values

    def glance(self, *names: str) -> Glance:
        """One look at everything that a dashboard shows."""
        said = self._asked("get", names=list(names))
        values = dict(zip(names, map(float, said["values"]), strict=True))
        latency = dict(zip(self._run["links"], said["latency"], strict=True))
        return Glance(self._state(said), values, latency)

    def watch(self, *names: str, rate: float = 10.0) -> Iterator[Sample]:
        """Looks at ``names``, ``rate`` a second, until the run ends or the caller stops.

        :class:`ControlError` where no look comes for two periods and the usual patience.
        """
        if not 0 < rate < math.inf:
            raise ControlError(f"a watch at {rate!r} looks a second; give a rate > 0")
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
                elif self._gone:
                    return
                elif now - heard > patience_ns:
                    raise ControlError(
                        f"no look from {self._caller.endpoint} for {patience_ns / NS_PER_S:g} s; "
                        "has the run ended? type: rtsim ctl runs"
                    )
        finally:
            self._samples.clear()
            self._ask("watch", names=[], rate=0.0)

    # -- what it is told

    def set(self, target: str, value: float | Sequence[float], unit: str | None = None) -> At:
        """``part.name`` becomes ``value``, which has the declared unit.

        :class:`ControlError` where ``unit`` is given and is another one: nothing is converted.
        """
        given = {} if unit is None else {"unit": unit}
        return self.tell("set", target=target, value=_plain(value), **given)

    def inject(self, topic: str, value: float | Sequence[float]) -> At:
        """A message on ``topic``, as if its source had sent it."""
        return self.tell("inject", topic=topic, value=_plain(value))

    def pause(self) -> At:
        return self.tell("pause")

    def resume(self) -> At:
        return self.tell("resume")

    def step(
        self, tags: int | None = None, *, task: str | None = None, duration: float | None = None
    ) -> At:
        """Go on by ``tags``, to the next tick of ``task``, or for ``duration`` s; then pause."""
        given = {"tags": tags, "task": task, "duration": duration}
        return self.tell("step", **{k: v for k, v in given.items() if v is not None})

    def rate(self, rate: float | str) -> At:
        """Simulated seconds a second, or ``"max"``."""
        return self.tell("rate", rate=rate)

    def fault(self, name: str, do: str) -> At:
        """``start`` or ``clear`` a fault that the scenario declares."""
        return self.tell("fault", name=name, do=do)

    def checkpoint(self) -> At:
        """Keep the whole of the run, beside its recording: written at once while it stands or
        runs as fast as possible, otherwise when it stands or ends."""
        return self.tell("checkpoint")

    def mark(self, text: str) -> At:
        return self.tell("mark", text=text)

    def quit(self) -> At:
        return self.tell("quit")

    def tell(self, kind: str, **arguments: Any) -> At:
        """Any command; :class:`ControlError` says why it is refused."""
        command = {"kind": kind, **arguments}
        said = self._asked("command", command=command, initiated=stopwatch())
        return At(int(said["ns"]), int(said.get("wait_ns", 0)))

    def restore(self, *, at: float | None = None, back: float | None = None) -> At:
        """Go back to the checkpoint at or before ``at`` s, or ``back`` s ago, or the last one.

        What was flown stays in its recording; the run goes on from there in the next one.
        """
        given = {"at": at, "back": back}
        return self.tell("restore", **{k: v for k, v in given.items() if v is not None})

    # -- how

    def _state(self, said: Mapping[str, Any]) -> StateTable:
        """How it stands; where it was restored since, it is asked anew what it is."""
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
            raise ControlError(f"{self._caller.endpoint} takes nothing")
        return self._number

    def _asked(self, do: str, **what: Any) -> dict[str, Any]:
        number = self._ask(do, **what)
        until = stopwatch() + self._patience_ns
        while (rest := until - stopwatch()) > 0:
            said = self._hear(min(max(1, rest // 1_000_000), _LOOK_MS))
            if said is None and self._gone:
                raise ControlError("the run has ended")
            if said is not None and said.get("id") == number:
                if not said.get("ok"):
                    raise ControlError(str(said.get("error", "refused")))
                return said
        raise ControlError(
            f"no answer from {self._caller.endpoint} within {self._patience_ns / NS_PER_S:g} s; "
            "has the run ended? type: rtsim ctl runs"
        )

    @property
    def _gone(self) -> bool:
        """On this machine the gateway takes its socket away when the run ends."""
        scheme, _, path = self._caller.endpoint.partition("://")
        return scheme == "ipc" and not Path(path).exists()

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
        return said if isinstance(said, dict) else None

    def close(self) -> None:
        """Let go of it; the run goes on."""
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
    which: str | int = "", keys: str | os.PathLike[str] | None = None, *, wait: float = 0.0
) -> Run:
    """The run named by its process, scenario or ``tcp://`` address; the only one by default.

    ``wait``: one that is not there yet is waited for, s.
    """
    until = stopwatch() + round(wait * NS_PER_S)
    while True:
        try:
            return _connect(str(which), keys)
        except RtsimError:
            if stopwatch() >= until:
                raise
        Event().wait(_LOOK_AGAIN_S)


def _connect(text: str, keys: str | os.PathLike[str] | None) -> Run:
    held = None if keys is None else Keys.load(Path(keys))
    if text.startswith("tcp://"):
        if held is None:
            raise ControlError(
                f"{text} needs the keys that the run was given: --keys run.keys{CLIENT}, made with "
                "rtsim keys run.keys"
            )
        return Run(text, held)
    return Run(find(text).endpoint)


@contextmanager
def connected(which: str, keys: Path | None = None) -> Iterator[Run]:
    """As :func:`connect`, closed at the end of the block."""
    run = connect(which, keys)
    try:
        yield run
    finally:
        run.close()


__all__ = [
    "NEXT_TAG", "At", "ControlError", "Glance", "Run", "Sample", "StateTable", "connect",
    "connected", "runs",
]  # fmt: skip
