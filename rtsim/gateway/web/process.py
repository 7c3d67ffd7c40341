"""Serve a web page in a process that :class:`rtsim.gateway.pipe.WebPage` starts.

The first message to this process is an ``Order``, which describes the page. The order contains the
token of the page, because other users can read command lines. A message ``{"over": TEXT}`` contains
the reason why the run ended. The last message of the process is ``{"ended": TEXT, ...}``.
"""

from __future__ import annotations

import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Event, Thread
from typing import Any

from rtsim.core.clock import stopwatch
from rtsim.core.errors import RtsimError
from rtsim.core.tag import NS_PER_S
from rtsim.gateway.client import ControlError, Run, connect
from rtsim.gateway.pipe import Pipe
from rtsim.gateway.web.guard import Guard, guarded_server
from rtsim.gateway.web.page import Page
from rtsim.gateway.web.source import About, History, Look, Past, RecordedRun, Source
from rtsim.record.jobs import ProcessorHistory, recent_history
from rtsim.record.reading import Recording
from rtsim.record.recent_jobs import RecentJobs
from rtsim.timing.background import OffTheLoop, step_back

# The source for a run in progress: a client of its gateway.

PATIENCE_S = 1.0
_SILENT_NS = 600 * NS_PER_S
"""A run on another machine counts as ended if it gives no answer for this time, ns."""


class LiveRun:
    """A run in progress, read through the Python client of its gateway.

    Only one request is pending at a time, and the gateway answers with the latest sample. Requests
    therefore do not accumulate if the page is slow.
    """

    def __init__(self, run: Run, off: OffTheLoop | None = None) -> None:
        self._run = run
        self._leg = int(run.about["leg"])
        self._history = History((), 1.0)
        self._silent_ns = 0
        """Time of the first unanswered request; 0 if the last request was answered."""
        self._wanted: tuple[tuple[str, ...], float] = ((), 1.0)
        self.about = _about(run)
        self._jobs = _recent(self.about)
        self._off = off

    def look(self, names: Sequence[str]) -> Look | None:
        if self._off is not None:
            self._off.look()
        try:
            after = min((jobs.until_ns for jobs in self._jobs.values()), default=None)
            glance = self._run.glance(*names, jobs_after=after)
        except ControlError:
            self._silent_ns = self._silent_ns or stopwatch()
            if self._run.gone or stopwatch() - self._silent_ns > _SILENT_NS:
                raise
            return None  # the run compiles, or one of its steps takes long
        self._silent_ns = 0
        state = glance.state
        if state.leg != self._leg:
            self._leg, self.about = state.leg, _about(self._run)
            self._jobs = _recent(self.about)
        else:
            for name, jobs in self._jobs.items():
                if name in glance.jobs:
                    jobs.join(glance.jobs[name])
        self._history.add(state.ns, glance.values)
        return Look(state, glance.values, glance.stamps, glance.watched)

    def past(self, names: Sequence[str], span_s: float) -> Past:
        if self._wanted != (tuple(names), span_s):
            self._wanted = tuple(names), span_s
            self._history = self._history.moved_to(*self._wanted)
        return self._history.past(span_s)

    def schedules(self) -> Sequence[ProcessorHistory]:
        return [
            recent_history(one["name"], one["policy"], one["cores"], self._jobs[one["name"]])
            for one in self.about.processors
        ]

    def tell(self, kind: str, **arguments: Any) -> str:
        return str(self._run.tell(kind, **arguments))

    def close(self) -> None:
        self._run.close()


def _recent(about: About) -> dict[str, RecentJobs]:
    return {one["name"]: RecentJobs(one["tasks"]) for one in about.processors}


def _about(run: Run) -> About:
    about = run.about
    return About(
        title=f"{run.scenario} ({run.pid})",
        signals={row["name"]: row["unit"] for row in about["signals"]},
        kinds={row["name"]: row["kind"] for row in about["signals"]},
        parameters=about["parameters"],
        topics=about["topics"],
        faults=about["faults"],
        views=about.get("views", ()),
        bodies=about.get("scene", ()),
        shown=about.get("shown", {}),
        left_out=about["left_out"],
        requirements=about.get("requirements", ()),
        processors=about.get("processors", ()),
    )


_AGAIN_S = 0.1
_CHUNK = 1 << 12
_KILLED = "the process of the run ended without giving a reason; it may have been killed"
_LAST_S = 0.4


def _source(order: Mapping[str, Any], ended: Event) -> Source | None:
    if order["recording"]:
        return RecordedRun(Recording.open(Path(order["recording"])))
    until = stopwatch() + round(order["wait_s"] * NS_PER_S)
    while not ended.is_set():
        try:
            run = connect(order["run"], order["keys"] or None, patience=PATIENCE_S)
            off = OffTheLoop(run.pid)
            off.follow(int(run.about.get("thread", run.pid)))
            return LiveRun(run, off if run.is_local else None)
        except RtsimError:
            if stopwatch() >= until:
                raise
        ended.wait(_AGAIN_S)
    return None


def _received(pipe: Pipe) -> dict[str, Any]:
    found: list[dict[str, Any]] = []
    while not (found or pipe.gone):
        pipe.wait(1.0)
        found = pipe.receive()
    return found[0] if found else {}


class _Process:
    def __init__(self, listener: socket.socket, pipe: Pipe, order: Mapping[str, Any]) -> None:
        self._pipe, self._order, self._ended = pipe, order, Event()
        self._guard = Guard(str(order["token"]))
        self._browsers = 0
        self._over = ""
        self._server = guarded_server(listener, self._guard, "rtsim")
        self._server.on_client_connect(self._count)
        Thread(target=self._listen, daemon=True).start()

    def _count(self, _: object) -> None:
        self._browsers += 1

    def _listen(self) -> None:
        self._over = str(_received(self._pipe).get("over", ""))
        self._ended.set()

    def tell(self, **what: Any) -> None:
        self._pipe.send(what)

    def serve(self) -> None:
        late = bool(self._order["wait_s"])
        if late:  # the run waits for this line
            self.tell(ready=True)
        source = _source(self._order, self._ended)
        why = ""
        if source is not None:
            page = Page(self._server, source, bool(self._order["control"]), self._guard)
            if not late:
                self.tell(ready=True)
            try:
                why = page.serve(self._ended) or self._over
                page.end(why or (_KILLED if late else "the page was closed"))
                Event().wait(_LAST_S)
            except ControlError as error:
                why = str(error)
            finally:
                source.close()
        self.tell(ended=why, browsers=self._browsers, refused=self._guard.refused)
        self._server.stop()


def _carried(work: Callable[[], None], tell: Callable[..., None]) -> int:
    try:
        work()
    except RtsimError as error:
        tell(failed=str(error))
        return 2
    return 0


def main(arguments: list[str]) -> int:
    """Serve the web page that the first message describes."""
    pipe, listener = (socket.socket(fileno=int(one)) for one in arguments)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the other end of the pipe ends this process
    step_back()
    order = _received(messages := Pipe(pipe))
    if not order:
        return 0
    process = _Process(listener, messages, order)
    return _carried(process.serve, process.tell)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
