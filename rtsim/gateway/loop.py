"""Exchange commands and samples with the gateway at each tag, without waiting."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rtsim.core.clock import civil, stopwatch
from rtsim.core.errors import ScenarioError
from rtsim.core.net.keys import CLIENT
from rtsim.core.net.sockets import check_served
from rtsim.core.tag import NS_PER_S
from rtsim.engine.commands.commands import Inbox, PendingCommand, read_command
from rtsim.engine.system import System
from rtsim.engine.trace import Trace
from rtsim.gateway.addresses import check_free
from rtsim.gateway.pipe import Pipe, PipedProcess, PipeError
from rtsim.gateway.publishing import (
    Sampler,
    ViewerCounts,
    catalogue,
    check_rates,
    without_signals,
)
from rtsim.gateway.shapes import placed_bodies
from rtsim.record.recent_jobs import RecentJobs
from rtsim.scenario.body import Body
from rtsim.timing.frames import Tally
from rtsim.timing.pacing import Pacer

_NOT_READY = (
    "the gateway process, through which clients reach the run, ended before it was ready; its own "
    "message is above, or it was killed"
)
MOST_RATE_HZ = 200.0
MOST_AT_ONCE = 16_384
"""After this number of bytes, the loop reads no further commands until the next tag."""
_END_S = 5.0


class PipedInbox(Inbox):
    """Receive commands from the gateway, and send the state of the run to the gateway."""

    def __init__(self, pipe: Pipe, about: dict[str, Any]) -> None:
        super().__init__()
        self.lost = 0
        """Number of samples dropped because the pipe was full."""
        self.telemetry: dict[str, ViewerCounts] = {}
        """Counts of messages by plotting tool, available after the run."""
        self.page: dict[str, Any] = {}
        """Figures of the page in the browser, available after the run; empty without a page."""
        self._pipe, self._about, self._leg = pipe, about, 0
        self.period_ns = self._next_ns = 0

    def attach(self, system: System, pacer: Pacer, trace: Trace) -> None:
        super().attach(system, pacer, trace)
        trace.tally = Tally(trace.links())
        trace.recent = {p.name: RecentJobs([t.name for t in p.tasks]) for p in system.processors}
        self._recent, self._sent_ns = trace.recent, -1
        self._leg += 1
        self._look = Sampler(system, trace.tally)
        more = {
            "links": trace.tally.links, "leg": self._leg, "thread": threading.get_native_id(),
        }  # fmt: skip
        run = {**self._about, **catalogue(system), **more}
        placed_bodies([Body.from_plain(body) for body in run.get("scene", ())], run["signals"])
        check_rates(run.get("telemetry", {}), run["signals"])
        if not self._pipe.fits({"run": run}):
            run = without_signals(run)
        if not self._pipe.send({"run": run}) and not self._pipe.gone:
            self.trouble = "the description of the run is too large for the pipe to its gateway"

    def _wait_ns(self, ns: int) -> int:
        if ns < 0 or not self._pacer.clock.paced:
            return 0
        return max(0, self._pacer.clock.wall(ns) - self._pacer.clock.now())

    def goes_on(self, **about: object) -> None:
        self._about = {**self._about, **about}

    def lose_recording(self, since: str) -> None:
        super().lose_recording(since)
        self._pipe.send({"unrecorded": since})

    def watched(self, found: Sequence[Mapping[str, Any]]) -> None:
        self._pipe.send({"watched": list(found)})

    def fileno(self) -> int:
        return -1 if self._pipe.gone else self._pipe.fileno()

    def poll(self) -> None:
        pipe = self._pipe
        if pipe.gone:
            self.trouble = self.trouble or "the gateway process has ended"
            return
        try:
            for message in pipe.receive(MOST_AT_ONCE):
                self._handle_message(message)
        except PipeError as error:
            self.trouble = str(error)
            pipe.gone = True

    def _handle_message(self, message: Any) -> None:
        if not isinstance(message, dict):
            raise PipeError("a message from the gateway is not a map")
        if "looks" in message:
            rate = min(float(message["looks"]), MOST_RATE_HZ)
            self.period_ns = round(NS_PER_S / rate) if rate > 0 else 0
            self._next_ns = 0
        if "command" in message:
            self._command(message)
        if "published" in message:
            self.telemetry = message["published"]

    def _command(self, message: dict[str, Any]) -> None:
        number = message.get("id")

        def answer(wrong: str, ns: int) -> None:
            said = {"answer": number, "wrong": wrong, "ns": ns, "wait_ns": self._wait_ns(ns)}
            self._pipe.send(said)

        self.take(message["command"], int(message.get("initiated", 0)), answer)

    def after(self, ns: int, standing: bool) -> None:
        if self.period_ns and not self._pipe.gone:
            now = stopwatch()
            if now >= self._next_ns or standing:
                self._next_ns = now + self.period_ns
                self._send_sample(ns, now, standing)

    def _send_sample(self, ns: int, now: int, standing: bool) -> None:
        if self._pipe.busy:
            self._pipe.flush()
            if self._pipe.busy:
                self.lost += 1
                return
        self._send_jobs()
        state = self.state(ns, now, standing)
        state["leg"] = self._leg
        self.lost += not self._pipe.send({"look": self._look.take(state)})

    def _send_jobs(self) -> None:
        new = {name: recent.after(self._sent_ns) for name, recent in self._recent.items()}
        until = max((recent.until_ns for recent in self._recent.values()), default=-1)
        if until > self._sent_ns and self._pipe.send({"jobs": new}):
            self._sent_ns = until

    def wait(self, seconds: float) -> None:
        if self._pipe.gone:  # no client can resume the run any more
            self.waiting.append(PendingCommand(read_command({"kind": "resume"})))
        else:
            self._pipe.wait(min(seconds, self.period_ns / NS_PER_S or seconds))

    def close(self, why: str) -> None:
        super().close(why)
        self._pipe.send({"ended": why})

    def settle(self, seconds: float) -> None:
        """Wait at most ``seconds`` for the gateway's final counts of messages."""
        until = stopwatch() + round(seconds * NS_PER_S)
        while not (self.telemetry or self._pipe.gone) and stopwatch() < until:
            self._pipe.wait(0.1)
            self.poll()


def check_reach(bind: str, keys: Path | None) -> None:
    """Raise an error for a ``tcp://`` address without keys, even on this machine.

    Without keys, any program that reaches the address could control the run.
    """
    if bind:
        check_served(
            bind,
            keys,
            f"--control-at {bind} needs keys, because every program that reaches this address "
            "could command the run. Type rtsim keys run.keys, add --control-keys run.keys, and "
            f"copy run.keys{CLIENT} to the client",
        )


class Gateway:
    """Context manager that starts the gateway process and yields an inbox for commands.

    The ``with`` block begins when all services of the gateway run. Raises ``ScenarioError`` if a
    service cannot start.

    Args:
        about: Plain data for clients, such as scenario and recording.
        bind: Additional ``tcp://`` address to serve at; may be empty.
        keys: File of the keys for this address.
        plotjuggler: Address for PlotJuggler; may be empty.
        foxglove: Listening socket for Foxglove, which is closed in this process.
        listed: True if clients on this machine can find the run by its name.
    """

    def __init__(
        self, about: dict[str, Any], bind: str = "", keys: Path | None = None,
        plotjuggler: str = "", foxglove: socket.socket | None = None, listed: bool = True,
    ) -> None:  # fmt: skip
        check_reach(bind, keys)
        if plotjuggler:
            check_free(plotjuggler)
        self._process = PipedProcess(
            "rtsim.gateway.process", "--bind", bind, "--keys", str(keys or ""), "--plotjuggler",
            plotjuggler, *(["--foxglove"] if foxglove is not None else []),
            *(["--listed"] if listed else []), passed=[] if foxglove is None else [foxglove],
        )  # fmt: skip
        run = {"pid": os.getpid(), "started_ns": civil(), **about}
        self.inbox = PipedInbox(self._process.pipe, run)
        self._viewed = bool(plotjuggler) or foxglove is not None

    @property
    def pid(self) -> int:
        return self._process.pid

    def __enter__(self) -> PipedInbox:
        try:
            said = self._process.first_message()
            if "ready" not in said:
                raise ScenarioError(str(said.get("failed", _NOT_READY)))
        except BaseException:
            self._process.end()
            raise
        return self.inbox

    def __exit__(self, *_: object) -> None:
        if self._viewed and self.inbox.closed:
            self.inbox.settle(_END_S)
        self._process.end()
