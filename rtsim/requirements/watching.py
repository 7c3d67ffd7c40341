"""Process that writes a recording and evaluates its requirements during the run.

``python -m rtsim.requirements.watching PATH SOCKET PARENT`` starts this process. A second thread
evaluates the received rows. The run waits for neither thread. The process tells the loop the bounds
of the robustness so far, as a line of JSON: ``{"watched": [{"name": ..., "robustness": [low, high],
"outcome": ..., "at_ns": ...}]}``. The output ``{"unwatched": {NAME: REASON}}`` lists the
requirements that are not evaluated.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.core.clock import stopwatch
from rtsim.core.errors import RtsimError
from rtsim.core.outcome import Outcome
from rtsim.core.tag import NS_PER_S, Tag
from rtsim.record.events import CHANGE, Event
from rtsim.record.schema import TrackSpec
from rtsim.record.writer import Say, end_process, main
from rtsim.record.writer_process import FrameKind, RecordFrame
from rtsim.requirements.monitor import Bounds, Monitor
from rtsim.requirements.requirement import required_by

EVERY_NS = 100_000_000
"""Least time between two evaluations, on the wall clock."""
TELL_NS = 500_000_000
"""Least time between two reports of bounds that changed. A verdict is reported at once."""
_REST = 3
"""After an evaluation, the thread waits for this multiple of the time that it took."""


@dataclass
class _Batch:
    ns: int
    rows: list[tuple[str, NDArray[np.int64]]] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)


def _lower_priority() -> None:
    if sys.platform.startswith("linux"):
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)


class Watcher:
    """Evaluate requirements in a thread, from the rows that the process receives.

    ``say`` sends a report to the loop. ``now`` returns the wall-clock time [ns].
    """

    def __init__(self, say: Say, now: Callable[[], int] = stopwatch) -> None:
        self._say, self._now = say, now
        self._monitor: Monitor | None = None
        self._specs: list[TrackSpec] = []
        self._queue: SimpleQueue[_Batch | None] = SimpleQueue()
        self._batch = _Batch(0)
        self._told: dict[str, Bounds] = {}
        self._unwatched: dict[str, str] = {}
        self._required: list[str] = []
        self._tell_ns = 0
        self._thread = threading.Thread(target=self._serve, name="rtsim monitor", daemon=True)

    def __call__(self, frame: RecordFrame) -> None:
        """Take a frame. The evaluation takes place in the thread."""
        if frame.kind == FrameKind.START:
            self._begin(json.loads(bytes(frame.data)))
        elif self._monitor is None:
            return
        elif frame.kind == FrameKind.ROWS:
            self._take_rows(self._monitor, frame)
        elif frame.kind == FrameKind.EVENT:
            ns, step, kind, source, text, values = json.loads(bytes(frame.data))
            if kind == CHANGE:
                self._batch.events.append(Event(Tag(ns, step), kind, source, text, values))
        elif frame.kind == FrameKind.MARK:
            self._queue.put(self._batch)
            self._batch = _Batch(self._batch.ns)
        elif frame.kind == FrameKind.FINISH:
            self._queue.put(None)

    def join(self) -> None:
        """Wait until the thread has evaluated all rows of the run."""
        self._thread.join()

    def _begin(self, start: dict[str, Any]) -> None:
        self._specs = [TrackSpec.from_json(data) for data in start["tracks"]]
        try:
            self._required = [one.name for one in required_by(start["header"])]
            self._monitor = Monitor(start["header"], self._specs)
        except RtsimError as error:
            self._fail(error)
            return
        self._tell_unwatched(self._monitor.unwatched)
        self._thread.start()

    def _take_rows(self, monitor: Monitor, frame: RecordFrame) -> None:
        spec = self._specs[frame.track]
        words = np.frombuffer(frame.data, np.int64).reshape(-1, spec.width)
        if len(words):
            self._batch.ns = max(self._batch.ns, int(words[-1, 0]))
            if spec.name in monitor.tracks:
                self._batch.rows.append((spec.name, words.copy()))

    def _serve(self) -> None:
        _lower_priority()
        try:
            self._watch()
        except Exception as error:  # the recording and the check after the run need no monitor
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        why = str(error) if isinstance(error, RtsimError) else f"{type(error).__name__}: {error}"
        self._tell_unwatched(dict.fromkeys(self._required or [""], why))

    def _tell_unwatched(self, found: Mapping[str, str]) -> None:
        new = {name: why for name, why in found.items() if name not in self._unwatched}
        if new:
            self._unwatched |= new
            self._say(unwatched=new)

    def _watch(self) -> None:
        monitor, due, ns = self._monitor, self._now(), -1
        assert monitor is not None
        over = False
        while not over:
            patience = None if ns < 0 else max(0.0, (due - self._now()) / NS_PER_S)
            try:
                batch = self._queue.get(timeout=patience)
            except Empty:
                pass
            else:
                over = batch is None
                if batch is not None:
                    for name, words in batch.rows:
                        monitor.track(name, words)
                    for event in batch.events:
                        monitor.event(event)
                    ns = batch.ns
            begun = self._now()
            if ns >= 0 and (over or begun >= due):
                self._tell(monitor.look(ns))
                self._tell_unwatched(monitor.unwatched)
                ended, ns = self._now(), -1
                due = ended + max(EVERY_NS, _REST * (ended - begun))

    def _tell(self, found: list[Bounds]) -> None:
        changed = [one for one in found if self._told.get(one.name) != one]
        decided = [one for one in changed if one.outcome is not Outcome.UNDECIDED]
        told = (self._told.get(one.name) for one in decided)
        news = any(
            old is None or old.outcome is not one.outcome
            for old, one in zip(told, decided, strict=True)
        )
        if changed and (news or self._now() >= self._tell_ns):
            self._tell_ns = self._now() + TELL_NS
            self._told |= {one.name: one for one in changed}
            self._say(watched=[one.to_plain() for one in changed])


if __name__ == "__main__":
    end_process(main(sys.argv[1:], Watcher))
