"""Rows that the writing process has not read yet."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest
from record_samples import MS, ticking

from rtsim.core.clock import stopwatch
from rtsim.core.errors import RecordingError
from rtsim.core.signals import Signals
from rtsim.core.tag import NS_PER_S
from rtsim.record.file import FileRecorder
from rtsim.record.reading import Recording
from rtsim.record.writer_process import FrameKind

pytest.importorskip("resource", reason="these tests stop processes")


def test_much_data_is_sent_without_further_calls(tmp_path: Path) -> None:
    with FileRecorder(tmp_path / "run.mcap", ticking()) as recorder:
        track = recorder.track("p", (), Signals(*(f"x{i}" for i in range(10))))
        recorder.start({})
        for i in range(4):
            track.append_many(np.arange(20_000) + 20_000 * i, (), np.full((20_000, 10), i + 0.5))
        (writer,) = recorder.beside
        os.kill(writer, signal.SIGSTOP)  # so that the socket takes little
        recorder.pump(wait=False)
        assert recorder.handed.most_aside_bytes > 4_000_000
        os.kill(writer, signal.SIGCONT)
        until = stopwatch() + 20 * NS_PER_S
        while recorder._outbox.waiting and stopwatch() < until:
            os.sched_yield()
        assert not recorder._outbox.waiting
        track.append(80_000, (), np.full(10, 4.5))
        recorder.pump(wait=False)
        recorder.finish({})
    read = Recording.open(tmp_path / "run.mcap")
    assert np.array_equal(read.tracks["p"].ns, np.arange(80_001))
    assert np.array_equal(read["p.x9"], np.repeat(np.arange(5) + 0.5, 20_000)[:80_001])


def test_rows_that_wait_are_not_overwritten_by_later_rows(tmp_path: Path) -> None:
    with FileRecorder(tmp_path / "run.mcap", ticking()) as recorder:
        track = recorder.track("p", (), Signals(*(f"x{i}" for i in range(10))))
        recorder.start({})
        (writer,) = recorder.beside
        os.kill(writer, signal.SIGSTOP)
        for i in range(80):  # a block has 2978 rows
            track.append_many(np.arange(1000) + 1000 * i, (), np.full((1000, 10), i + 0.5))
            recorder.pump(wait=False)
        assert recorder._outbox.waiting > 4_000_000
        os.kill(writer, signal.SIGCONT)
        recorder.finish({})
    read = Recording.open(tmp_path / "run.mcap")
    assert np.array_equal(read.tracks["p"].ns, np.arange(80_000))
    assert np.array_equal(read["p.x9"], np.repeat(np.arange(80) + 0.5, 1000))


def test_a_writer_that_dies_while_a_thread_sends_is_noticed(tmp_path: Path) -> None:
    causes: list[str] = []
    recorder = FileRecorder(tmp_path / "run.mcap", ticking())
    track = recorder.track("p", (), Signals(*(f"x{i}" for i in range(10))))
    recorder.start({})
    recorder.on_failure = causes.append
    (writer,) = recorder.beside
    os.kill(writer, signal.SIGSTOP)
    track.append_many(np.arange(50_000), (), np.ones((50_000, 10)))
    recorder.pump(wait=False)
    assert recorder._outbox.waiting > 3_000_000
    os.kill(writer, signal.SIGKILL)
    os.waitid(os.P_PID, writer, os.WEXITED | os.WNOWAIT)
    until = stopwatch() + 20 * NS_PER_S
    while not causes and stopwatch() < until:
        recorder.pump(wait=False)
    (cause,) = causes  # a broken pipe, or a connection reset by peer
    assert cause.startswith("the writing process ended during the run (")
    assert cause.endswith("(killed by signal 9)")
    assert not recorder._outbox.waiting
    with pytest.raises(RecordingError, match="the writing process ended during the run"):
        recorder.finish({})


def flushes(path: Path, wall_ms: int, simulated_s: float) -> int:
    """Flush requests of 100 hand-overs, with these times between two of them."""
    with FileRecorder(path, ticking(wall_ms * MS)) as recorder:
        track = recorder.track("p", (), Signals("x"))
        recorder.start({})
        sent: list[FrameKind] = []
        put = recorder._put

        def noted(kind: FrameKind, number: int, data: bytes | memoryview) -> None:
            sent.append(kind)
            put(kind, number, data)

        recorder._put = noted  # type: ignore[method-assign,assignment]
        for i in range(1, 101):
            track.append(int(i * simulated_s * NS_PER_S), (), np.ones(1))
            recorder.pump(wait=True)
        return sent.count(FrameKind.FLUSH)


@pytest.mark.parametrize(
    ("wall_ms", "simulated_s", "expected"),
    [(20, 0.02, 10), (20, 1.0, 10), (20, 2.0, 20), (20, 10.0, 100), (20, 3600.0, 100),
     (200, 0.2, 100), (5, 0.1, 2), (5, 1000.0, 25)],
)  # fmt: skip
def test_rows_are_written_after_some_wall_clock_or_simulated_time(
    wall_ms: int, simulated_s: float, expected: int, tmp_path: Path
) -> None:
    """After 0.2 s or 10 simulated s, and at most each 20 ms."""
    assert flushes(tmp_path / "a.mcap", wall_ms, simulated_s) == expected
