"""Who had the loop's processor while it stood in line: the kernel's own trace, where it is open.

A loop that came late says itself whether it stood in line (:mod:`rtsim.timing.pacing`), and not
behind whom.  The kernel does, to root: each switch of a processor from one thread to another, in an
instance of its own under ``/sys/kernel/tracing``, so that nobody else's trace is disturbed.
"""

from __future__ import annotations

import os
import re
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rtsim.core.tag import Tag
from rtsim.record.events import OVERRUN
from rtsim.record.file import FileRecorder
from rtsim.timing.policy import CaughtUp

_ROOT = Path("/sys/kernel/tracing/instances")
_EVENTS = ("sched_switch", "sched_waking", "sched_migrate_task")
_BUFFER_KB = 40_000
_LINE = re.compile(r"\s*.+-\d+\s+(?:\([^)]*\)\s+)?\[(\d+)\]\s+\S+\s+(\d+\.\d+): (\w+): (.*)")
_SWITCH = re.compile(
    r"prev_comm=.* prev_pid=(\d+) prev_prio=-?\d+ prev_state=(\S+) "
    r"==> next_comm=(.*) next_pid=(\d+) next_prio"
)
_MARK = "overrun"
IDLE = 0


class Traced:
    """What happened to the thread that opened it; :func:`traced` gives one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._loop = threading.get_native_id()
        self._marker = os.open(folder / "trace_marker", os.O_WRONLY)

    def mark(self, late_ns: int) -> None:
        """Here is an overrun."""
        os.write(self._marker, f"{_MARK} {late_ns}".encode())

    def close(self) -> None:
        os.close(self._marker)

    def behind(self, threads: Iterable[int], names: Iterable[str] = ()) -> int:
        """At how many overruns the loop stood behind these most of the time that it was late.

        ``threads`` by number, ``names`` as the kernel has them.
        """
        whose, called = set(threads), set(names)
        (self._folder / "tracing_on").write_text("0")
        found = 0
        with (self._folder / "trace").open(errors="replace") as lines:
            for late, stood in overruns(lines, self._loop):
                theirs = sum(
                    us for (tid, name), us in stood.items() if tid in whose or name in called
                )
                found += 2 * theirs > late
        return found


@contextmanager
def traced() -> Iterator[Traced | None]:
    """From here on; None where this is not for us to know."""
    folder = _ROOT / f"rtsim-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError:
        yield None
        return
    out = None
    try:
        (folder / "trace_clock").write_text("mono")
        (folder / "buffer_size_kb").write_text(str(_BUFFER_KB))
        for event in _EVENTS:
            (folder / "events" / "sched" / event / "enable").write_text("1")
        (folder / "tracing_on").write_text("1")
        out = Traced(folder)
        yield out
    finally:
        if out is not None:
            out.close()
        with suppress(OSError):
            folder.rmdir()


class MarkingRecorder(FileRecorder):
    """Marks its overruns in a trace, too."""

    marks: Traced | None = None

    def event(self, tag: Tag, kind: str, *rest: Any, **named: Any) -> None:
        super().event(tag, kind, *rest, **named)
        values = named.get("values") or (rest[2] if len(rest) > 2 else {})
        if kind == OVERRUN:
            self._mark(round(float(values["amount"])))

    def caught_up(self, overruns: CaughtUp) -> None:
        super().caught_up(overruns)
        for overrun in overruns:
            self._mark(overrun.amount_ns)

    def _mark(self, late_ns: int) -> None:
        if self.marks is not None:
            self.marks.mark(late_ns)


Stood = Mapping[tuple[int, str], float]
"""us behind each thread, by its number and name."""


def overruns(lines: Iterable[str], loop: int) -> Iterator[tuple[float, Stood]]:
    """Of each that is marked: us late, and whom ``loop`` stood behind since it last slept."""
    running: dict[int, tuple[int, str, float]] = {}  # by processor: who, and since when
    stood: dict[tuple[int, str], float] = defaultdict(float)
    where = -1
    since: float | None = None  # when it began to stand in line

    def count(cpu: int, at: float) -> None:
        if since is not None and cpu == where and cpu in running:
            tid, name, began = running[cpu]
            if tid not in (IDLE, loop):
                stood[tid, name] += at - max(since, began)

    for line in lines:
        match = _LINE.match(line)
        if match is None:
            continue
        cpu, at, event, rest = int(match[1]), float(match[2]) * 1e6, match[3], match[4]
        if event == "sched_switch" and (switch := _SWITCH.match(rest)):
            count(cpu, at)
            before, state, name, tid = int(switch[1]), switch[2], switch[3], int(switch[4])
            running[cpu] = tid, name, at
            if tid == loop:
                since = None
            elif before == loop:
                where, since = cpu, at if state.startswith("R") else None
                if since is None:
                    stood.clear()
        elif event == "sched_waking" and f" pid={loop} " in rest and since is None:
            where, since = int(rest.rpartition("=")[2]), at
        elif event == "sched_migrate_task" and f" pid={loop} " in rest:
            count(where, at)
            where, since = int(rest.rpartition("=")[2]), None if since is None else at
        elif event == "tracing_mark_write" and rest.startswith(f"{_MARK} "):
            yield int(rest.split()[1]) / 1e3, dict(stood)
