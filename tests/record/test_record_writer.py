"""The process that writes: what it survives, and what the loop feels of it.

Rows that the writing process has not read yet.

The process that writes the recording has no threads beside its own.

kill -9 at any moment: the file opens, and at most 0.5 s is missing.
"""

from __future__ import annotations

import ast
import contextlib
import errno
import io
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mcap.records import Chunk
from mcap.stream_reader import StreamReader
from record_samples import MS, fly, ticking

from rtsim.core.clock import stopwatch
from rtsim.core.errors import RecordingError
from rtsim.core.signals import Signals
from rtsim.core.tag import NS_PER_S
from rtsim.record.file import FileRecorder
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.schema import TrackSpec
from rtsim.record.writer import Inlet, RecordingFile, serve
from rtsim.record.writer_process import HEAD, LONGEST, FrameBuffer, FrameKind, RecordFrame, pack
from rtsim.timing.background import OffTheLoop, allow_all, keep_off

resource = pytest.importorskip("resource", reason="these tests stop and limit processes")


def test_frames_come_through_byte_by_byte() -> None:
    frames = [
        RecordFrame(FrameKind.ROWS, 3, b"abc"),
        RecordFrame(FrameKind.FLUSH, 0, b""),
        RecordFrame(FrameKind.FINISH, 0, b"x"),
    ]
    stream = b"".join(pack(f.kind, f.track, f.data) for f in frames)
    for cut in (1, 2, 5, len(stream)):
        buffer = FrameBuffer()
        out = [f for i in range(0, len(stream), cut) for f in buffer.feed(stream[i : i + cut])]
        assert out == frames
        assert buffer.left == 0


FRAME = st.builds(
    lambda kind, track, length, data: HEAD.pack(kind, track, length) + data,
    st.sampled_from([0, *FrameKind, 9, 255]),
    st.integers(0, 2**16 - 1),
    st.sampled_from([0, 1, 5, LONGEST, LONGEST + 1, 2**32 - 1]),
    st.binary(max_size=8),
)


@given(st.one_of(st.binary(max_size=60), st.lists(FRAME, max_size=4).map(b"".join)))
@example(HEAD.pack(0, 0, 0))
@example(HEAD.pack(9, 0, 0))
@example(HEAD.pack(5, 0, LONGEST))
@example(HEAD.pack(5, 0, LONGEST + 1))
def test_bad_frames_are_refused_in_words(data: bytes) -> None:
    """Frames up to the first that is none, and then what it is; a frame that is cut is none yet."""
    expected, at, wrong = [], 0, ""
    while len(data) - at >= HEAD.size and not wrong:
        kind, track, length = HEAD.unpack_from(data, at)
        end = at + HEAD.size + length
        if not 1 <= kind <= 8 or length > LONGEST:
            wrong = f"malformed frame: kind {kind}, length {length}"
        elif end > len(data):
            break
        else:
            expected.append(RecordFrame(FrameKind(kind), track, data[end - length : end]))
            at = end
    buffer = FrameBuffer()
    found: list[RecordFrame] = []
    with pytest.raises(RecordingError, match=f"^{wrong}$") if wrong else contextlib.nullcontext():
        found += buffer.feed(data)  # what came before the bad one counts
    if not wrong:
        assert found == expected
        assert buffer.left == len(data) - at


def test_frames_before_a_bad_one_are_handed_out() -> None:
    good = RecordFrame(FrameKind.ROWS, 3, b"abc")
    frames = FrameBuffer().feed(pack(good.kind, good.track, good.data) + HEAD.pack(9, 0, 0))
    assert next(frames) == good
    with pytest.raises(RecordingError, match="malformed frame: kind 9, length 0"):
        next(frames)


def test_the_writer_ends_the_file_when_its_input_ends(tmp_path: Path) -> None:
    """Half a frame at the end is what a killed simulation leaves."""
    spec = TrackSpec("p", (), Signals("x"))
    start = pack(
        FrameKind.START, 0, b'{"header": {}, "tracks": [%s]}' % json.dumps(spec.to_json()).encode()
    )
    rows = pack(FrameKind.ROWS, 0, np.arange(20).tobytes())
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(start + rows + rows[:30])
        ours.shutdown(socket.SHUT_WR)
        assert serve(tmp_path / "a.mcap", theirs, os.getppid()) == 0
    read = Recording.open(tmp_path / "a.mcap")
    assert len(read.tracks["p"]) == 10
    assert read.truncated == "the run was cut off before its end; all rows could be read"
    assert read.footer is None


def compressions(path: Path) -> list[str]:
    """The compression of each chunk."""
    with path.open("rb") as stream:
        records = StreamReader(stream, emit_chunks=True).records
        return [record.compression for record in records if isinstance(record, Chunk)]


def test_full_chunks_are_not_compressed_while_more_rows_wait(tmp_path: Path) -> None:
    spec = TrackSpec("p", (), Signals("x"))
    text = json.dumps({"header": {}, "tracks": [spec.to_json()]}).encode()
    words = np.stack([np.arange(30_000), np.ones(30_000).view(np.int64)], axis=1)
    file = RecordingFile(tmp_path / "a.mcap")
    file.take(RecordFrame(FrameKind.START, 0, text))
    for i, (behind, waits) in enumerate(((0, 0), (1, 0), (0, 1), (1, 1), (0, 0))):
        words[:, 0] = np.arange(30_000) + 30_000 * i
        file.take(RecordFrame(FrameKind.HURRY, waits, b""))
        file.take(RecordFrame(FrameKind.ROWS, 0, words.tobytes()), bool(behind))
    file.close()
    assert compressions(tmp_path / "a.mcap") == ["lz4", "", "", "", "lz4"]
    read = Recording.open(tmp_path / "a.mcap").tracks["p"]
    assert np.array_equal(read.ns, np.arange(150_000))


@pytest.mark.parametrize("wait", [True, False])
def test_only_a_run_that_waits_for_the_writer_is_not_compressed(tmp_path: Path, wait: bool) -> None:
    with FileRecorder(tmp_path / "run.mcap", ticking()) as recorder:
        track = recorder.track("p", (), Signals("x"))
        recorder.start({})
        for i in range(3):
            track.append_many(np.arange(30_000) + 30_000 * i, (), np.ones((30_000, 1)))
            recorder.pump(wait=wait)
        recorder.finish({})
    assert compressions(tmp_path / "run.mcap")[0] == ("" if wait else "lz4")


def test_the_writer_is_behind_after_a_chunk_without_a_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours, theirs = socket.socketpair()
    source = Inlet(theirs, os.getppid())
    piece = pack(FrameKind.FLUSH, 0, b"x" * 99_993)
    with ours, theirs:
        at_once = iter([True] * 16 + [False] + [True] * 7)
        monkeypatch.setattr(source, "readable", lambda patience: patience > 0 or next(at_once))
        received = source.received()
        seen = []
        for _ in range(24):
            ours.sendall(piece)
            frames = next(received)
            assert frames is not None
            assert [len(frame.data) for frame in frames] == [99_993]
            seen.append(source.behind)
    assert seen == [False] * 10 + [True] * 6 + [False] * 8


def test_a_process_leaves_the_cpu_of_a_loop_that_never_sleeps() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        everywhere = os.sched_getaffinity(process.pid)
        mine = os.sched_getaffinity(0)
        here = min(mine)
        os.sched_setaffinity(0, {here})
        try:
            keep_off(process.pid)
        finally:
            os.sched_setaffinity(0, mine)
        others = set(range(os.cpu_count() or 1)) - {here}
        assert os.sched_getaffinity(process.pid) == (others or everywhere)
        allow_all(process.pid)
        assert os.sched_getaffinity(process.pid) == everywhere
    finally:
        process.communicate(b"\n")
    keep_off(process.pid)  # it has ended: nothing happens


_FOLLOWS = """
import os, sys, threading
from rtsim.timing.background import OffTheLoop, step_back
step_back(0)
threading.Thread(target=threading.Event().wait, daemon=True).start()
off = OffTheLoop(int(sys.argv[1]))
off.follow(int(sys.argv[2]))
off.look()
print([sorted(os.sched_getaffinity(int(t))) for t in os.listdir("/proc/self/task")])
"""


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="this needs two CPUs")
def test_all_threads_of_a_process_leave_the_cpu_of_another_one() -> None:
    def found(here: int) -> None:
        """The loop is a thread that is not the main one."""
        os.sched_setaffinity(0, {here})
        words = [sys.executable, "-c", _FOLLOWS, str(os.getpid()), str(threading.get_native_id())]
        printed.append(subprocess.run(words, capture_output=True, check=True, text=True).stdout)

    for here in sorted(os.sched_getaffinity(0))[:2]:
        printed: list[str] = []
        thread = threading.Thread(target=found, args=(here,))
        thread.start()
        thread.join()
        others = sorted(set(range(os.cpu_count() or 1)) - {here})
        assert ast.literal_eval(printed[0]) == [others, others]
    OffTheLoop(2**30).look()  # there is no such process: nothing happens


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[FileRecorder]:
    with FileRecorder(tmp_path / "run.mcap", ticking()) as recorder:
        yield recorder


def test_an_abandoned_run_leaves_its_rows(recorder: FileRecorder) -> None:
    track = recorder.track("p", (), Signals("x"))
    recorder.start({})
    track.append(0, (), np.ones(1))
    recorder.close()
    read = Recording.open(recorder.path)
    assert read.track("p").column("x").tolist() == [1.0]
    assert read.truncated is not None


def test_the_writer_imports_nothing_heavy() -> None:
    program = (
        "import sys, rtsim.record.writer;"
        "print([m for m in ('numba', 'rich', 'plotly', 'scipy') if m in sys.modules])"
    )
    out = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).resolve().parents[2],
    )
    assert out.stdout.strip() == "[]"


def test_a_path_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="create the folder"):
        FileRecorder(tmp_path / "none" / "a.mcap", ticking())
    with pytest.raises(RecordingError, match=r"cannot record to .*; give a file name.*run\.mcap"):
        FileRecorder(tmp_path, ticking())


def test_only_plain_data_is_taken(recorder: FileRecorder) -> None:
    with pytest.raises(RecordingError, match="not plain JSON"):
        recorder.start({"x": object()})


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
@pytest.mark.parametrize("wait", [False, True])
def test_a_killed_writer_ends_the_recording_and_not_the_run(
    recorder: FileRecorder, wait: bool
) -> None:
    track = recorder.track("p", (), Signals(*(f"x{i}" for i in range(50))))
    recorder.start({})
    row = np.ones(50)
    for i in range(20_000):
        track.append(i, (), row)
        recorder.pump(wait)
        if i == 10_000:
            until = stopwatch() + 20 * NS_PER_S  # on a busy machine the writer lags far behind
            while recorder.path.stat().st_size < 10_000:
                assert stopwatch() < until, "the writer writes nothing"
                recorder.pump(wait)
            recorder._process.kill()
            recorder._process.wait()
    assert recorder.failed is not None
    with pytest.raises(RecordingError, match=r"run\.mcap.*killed by signal 9"):
        recorder.finish({})
    read = Recording.open(recorder.path)
    assert 0 < len(read.tracks["p"]) <= 10_001
    assert read.truncated is not None


@pytest.mark.skipif(sys.platform == "win32", reason="needs RLIMIT_FSIZE")
@pytest.mark.parametrize(("limit", "rows"), [(100, None), (20_000, 0), (300_000, 1)])
def test_a_full_disk_is_a_single_clear_error(
    tmp_path: Path, limit: int, rows: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``rows``: whether some of them fit; with ``None`` not even the file's head does."""
    # The limit is the writer's alone: set in its process before it runs anything.
    popen = subprocess.Popen

    def limited(*arguments: object, **options: object) -> object:
        options["preexec_fn"] = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        return popen(*arguments, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess, "Popen", limited)
    recorder = FileRecorder(tmp_path / "full.mcap", ticking())
    with pytest.raises(RecordingError, match=r"full\.mcap: File too large") as told:
        fly(recorder, rows=20_000)
    assert "\n" not in str(told.value)
    assert not getattr(told.value, "__notes__", [])
    if rows is None:  # there may be no file at all
        with pytest.raises(RecordingError, match=r"full\.mcap"):
            Recording.open(tmp_path / "full.mcap")
        return
    assert (tmp_path / "full.mcap").stat().st_size <= limit
    read = Recording.open(tmp_path / "full.mcap")
    assert read.truncated is not None
    assert read.footer is None
    kept = len(read.tracks["f16"])
    assert min(kept, 1) == rows
    whole = MemoryRecorder()
    fly(whole, rows=20_000)
    assert np.array_equal(read.tracks["f16"].words, whole.recording().tracks["f16"].words[:kept])


class Disk(io.FileIO):
    """A file on a disk that takes ``room`` bytes."""

    room = 1 << 60

    def write(self, data: object) -> int:
        view = memoryview(data)  # type: ignore[arg-type]
        if self.tell() >= self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(view[: self.room - self.tell()]) or 0


def portions() -> list[RecordFrame]:
    """Two tracks and events in six portions, with one flush; the last mark is at 59 ns."""
    specs = [TrackSpec("a", (), Signals("x")), TrackSpec("b", ("step",), Signals("y", "z"))]
    text = json.dumps({"header": {"until": 60}, "tracks": [s.to_json() for s in specs]}).encode()
    out = [RecordFrame(FrameKind.START, 0, text)]
    for first in range(0, 60, 10):
        ns = np.arange(first, first + 10)
        for track, width in enumerate((2, 4)):
            words = np.stack([ns] * width, axis=1)
            out += [
                RecordFrame(FrameKind.ROWS, track, half.tobytes())
                for half in (words[:4], words[4:])
            ]
        event = json.dumps([first + 9, 0, "Told", "test", "", {}]).encode()
        out += [RecordFrame(FrameKind.EVENT, 0, event), RecordFrame(FrameKind.MARK, 0, b"")]
        out += [RecordFrame(FrameKind.FLUSH, 0, b"")] if first == 20 else []
    return [*out, RecordFrame(FrameKind.FINISH, 0, b"{}")]


def fill(path: Path, room: int) -> int:
    """Write the portions to a disk with ``room`` bytes; return the time that is said to be kept."""
    Disk.room = room
    try:
        file = RecordingFile(path)
    except OSError:
        return -1
    try:
        for frame in portions():
            file.take(frame)
        file.close()
    except OSError:
        file.give_up()
    return file.kept_ns


EACH_BYTE = pytest.param(1, marks=pytest.mark.full)


@pytest.mark.sample(1)
@pytest.mark.parametrize("stride", [17, EACH_BYTE])
def test_rows_up_to_the_reported_time_can_be_read_after_a_full_disk(
    stride: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever the disk is full: all rows up to the time, and no chunk that fits is lost."""
    monkeypatch.setattr(
        "rtsim.record.writer.open", lambda path, *_, **__: Disk(path, "wb"), raising=False
    )
    monkeypatch.setattr("rtsim.record.writer.CHUNK_BYTES", 400)
    path = tmp_path / "a.mcap"
    assert fill(path, 1 << 60) == 59
    data, told, rows = path.read_bytes(), list[int](), list[int]()
    for room in range(0, len(data), stride):
        told.append(fill(path, room))
        kept = path.read_bytes()
        assert data.startswith(kept)
        if told[-1] < 0 and len(kept) < 4000:
            with contextlib.suppress(RecordingError):
                Recording.open(path)
            continue
        read = Recording.open(path)
        path.write_bytes(data[:room])  # what a reader finds if the file is not cut
        assert read.digest() == Recording.open(path).digest()
        for track in read.tracks.values():
            assert np.array_equal(track.ns, np.arange(len(track)))
            assert len(track) > told[-1]
        assert sum(e.tag.ns <= told[-1] for e in read.events) == (told[-1] + 1) // 10
        rows.append(read.trace_rows)
    assert told == sorted(told)
    assert set(told) > {-1, 29, 59}  # a flush keeps what was marked before it
    assert rows[-1] == 120
    assert len(set(rows)) > 5


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_disk_that_is_full_from_the_start() -> None:
    recorder = FileRecorder("/dev/full", ticking())
    with pytest.raises(RecordingError, match="No space left on device"):
        fly(recorder)


WIDE = Signals(*(f"x{i}" for i in range(50)))


@contextlib.contextmanager
def standing_still(path: Path, keep_aside: int) -> Iterator[FileRecorder]:
    """A recorder with a track ``p`` whose writer is stopped; ended even where the test fails."""
    with FileRecorder(path, ticking(), keep_aside=keep_aside) as recorder:
        recorder.track("p", (), WIDE)
        recorder.start({})  # on a busy machine a process takes seconds to start
        recorder._patience = 1.0
        recorder._process.send_signal(signal.SIGSTOP)
        try:
            yield recorder
        finally:
            if recorder._process.poll() is None:
                recorder._process.send_signal(signal.SIGCONT)


def append_rows(recorder: FileRecorder, rows: int) -> None:
    row = np.ones(WIDE.size)
    for i in range(rows):
        recorder._tracks.by_name["p"].append(i, (), row)
        recorder.pump()


def test_a_writer_that_stands_still_for_a_while_loses_nothing(tmp_path: Path) -> None:
    with standing_still(tmp_path / "slow.mcap", keep_aside=1 << 21) as recorder:
        append_rows(recorder, 4000)
        assert recorder.handed.most_aside_bytes > 0
        recorder._process.send_signal(signal.SIGCONT)
        recorder.finish({})
    assert len(Recording.open(tmp_path / "slow.mcap").tracks["p"]) == 4000


def test_a_writer_that_stands_still_for_good_does_not_stop_the_loop(tmp_path: Path) -> None:
    with standing_still(tmp_path / "stuck.mcap", keep_aside=1 << 20) as recorder:
        append_rows(recorder, 8000)
        assert recorder.handed.dropped_rows > 0
        with pytest.raises(RecordingError, match="too slow"):
            recorder.finish({})


def test_ctrl_c_does_not_reach_the_writer(recorder: FileRecorder) -> None:
    track = recorder.track("p", (), Signals("x"))
    recorder.start({})
    recorder._process.send_signal(signal.SIGINT)
    track.append(0, (), np.ones(1))
    recorder.finish({})
    assert len(Recording.open(recorder.path).tracks["p"]) == 1


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
    assert np.array_equal(
        read.track("p").column("x9"), np.repeat(np.arange(5) + 0.5, 20_000)[:80_001]
    )


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
    assert np.array_equal(read.track("p").column("x9"), np.repeat(np.arange(80) + 0.5, 1000))


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


@pytest.mark.sample(3)
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


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="no /proc")
def test_no_thread_of_a_library_takes_the_time_of_the_writer(tmp_path: Path) -> None:
    """Those of OpenBLAS busy-wait at first; numpy starts them if more than one CPU is usable."""
    with FileRecorder(tmp_path / "run.mcap", ticking()) as recorder:
        (process,) = recorder.beside
        recorder.start({})
        assert len(list(Path(f"/proc/{process}/task").iterdir())) == 1


ROOT = Path(__file__).resolve().parents[2]
AT_MOST_NS = 500_000_000  # the figure that is promised

# A block holds more than a second of these rows, so that only time makes them due.
# Appends a row each millisecond whose time is the time since the start, and tells each row's time.
PROGRAM = """
import os, sys, time
import numpy as np
from rtsim.record.file import FileRecorder
from rtsim.core.signals import Signals

recorder = FileRecorder(sys.argv[1], time.monotonic_ns)
track = recorder.track("p", ("step",), Signals(*(f"x{i}" for i in range(5))))
recorder.start({"seed": 1})
print(recorder._process.pid, flush=True)
start = time.monotonic_ns()
while True:
    ns = time.monotonic_ns() - start
    track.append(ns, (0,), np.full(5, float(ns)))
    os.write(1, ns.to_bytes(8, "little"))
    recorder.pump()
    time.sleep(0.001)
"""


def closed(path: Path) -> Recording:
    """The recording, once its orphaned writer has ended it."""
    for _ in range(200):
        read = Recording.open(path)
        if read.truncated is not None and "all rows could be read" in read.truncated:
            return read
        time.sleep(0.05)
    raise AssertionError("the writer did not close the file")


@pytest.mark.realtime
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
@pytest.mark.parametrize("both", [False, True], ids=["the run", "the run and the writer"])
@pytest.mark.parametrize("seed", range(4))
def test_kill_9_loses_at_most_half_a_second(tmp_path: Path, both: bool, seed: int) -> None:
    path = tmp_path / "killed.mcap"
    run = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(path)], stdout=subprocess.PIPE, cwd=ROOT
    )
    assert run.stdout is not None
    writer = int(run.stdout.readline())
    time.sleep(random.Random(seed).uniform(0.3, 1.5))
    run.kill()
    if both:
        os.kill(writer, signal.SIGKILL)
    told = np.frombuffer(run.stdout.read(), np.int64)
    run.stdout.close()
    run.wait()
    read = Recording.open(path) if both else closed(path)
    kept = read.track("p").ns
    assert told[-1] - kept[-1] <= AT_MOST_NS
    assert np.array_equal(kept, told[: len(kept)])
    assert np.array_equal(read.track("p").column("x4"), kept.astype(np.float64))
    assert read.footer is None
    assert read.truncated is not None
