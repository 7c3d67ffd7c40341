"""A recording round-trips every bit, in memory and on disk, and other readers agree.

The process that writes a recording: its checksums, and the wait for its end.

A recording opens after any accident to its file, or one clear error says why not.

What bits depend on, and what is said where it differs.
"""

from __future__ import annotations

import io
import json
import os
import random
import subprocess
import sys
import tracemalloc
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import mcap.writer
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcap.opcode import Opcode
from mcap.reader import make_reader
from mcap.records import Chunk
from mcap.stream_reader import StreamReader, breakup_chunk
from mcap.writer import CompressionType, Writer
from record_samples import MS, ODD, SIGNALLING_NAN, fly, ticking
from zlib_ng import zlib_ng

from rtsim.core.child_process import await_end
from rtsim.core.errors import RecordingError, ScenarioError, ShapeError
from rtsim.core.signals import Signal, Signals
from rtsim.core.tag import Tag
from rtsim.engine.trace import Trace
from rtsim.record.events import overrun_event
from rtsim.record.file import FileRecorder
from rtsim.record.fingerprint import differences, fingerprint
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder, NullRecorder
from rtsim.record.schema import TrackSpec, message_class
from rtsim.record.writer import BatchWriter, RecordingFile
from rtsim.record.writer_process import FrameKind, RecordFrame
from rtsim.timing.pacing import Ledger
from rtsim.timing.policy import UNKNOWN_NS, CatchUp, CaughtUp


@pytest.fixture(scope="module")
def flown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("flown") / "run.mcap"
    fly(FileRecorder(path, ticking()))
    return path


@pytest.fixture(scope="module")
def remembered() -> Recording:
    recorder = MemoryRecorder()
    fly(recorder)
    return recorder.recording()


def assert_same_bits(a: Recording, b: Recording) -> None:
    assert list(a.tracks) == list(b.tracks)
    for name, track in a.tracks.items():
        assert np.array_equal(track.words, b.tracks[name].words)
        assert track.spec == b.tracks[name].spec


def test_a_recording_in_a_file_equals_that_in_memory(flown: Path, remembered: Recording) -> None:
    read = Recording.open(flown)
    assert_same_bits(read, remembered)
    assert read.digest() == remembered.digest()
    assert read.truncated is None
    assert read.footer == {"certificate": {"overruns": 0}}
    assert read.header["seed"] == 7
    assert read.header["scenario"]["limits"] == ["none"]
    assert read.events == remembered.events
    assert read.events[0].values == {"allowed": 5, "x": 0.5}
    assert read.tracks["messages/command"].about == {"source": "law"}


def test_access_by_name(flown: Path) -> None:
    read = Recording.open(flown)
    assert read.track("f16").column("x3").shape == (300,)
    assert read.track("f16").column("q").shape == (300, 4)
    assert np.array_equal(read.track("f16").column("q")[:, 1], read.track("f16").column("q_1"))
    assert read.track("messages/command").ns[1] == 5 * MS
    assert read.tracks["messages/command"].integer("initiated")[0] == 2**63 - 1
    assert read.messages["command"]["status"][1] == 5.0  # the signal, not the stamp of that name
    assert read.track("f16").rows.integers.shape == (300, 2)
    assert read.tracks["f16"].tag(1) == Tag(MS, 1)
    assert read.tracks["f16"].signals["heading"].kind == "angle"
    assert len(read.track("inputs/stick").ns) == 0
    for name, hint in (("f16.altitud", "altitude"), ("g16.x", "f16"), ("x", "f16.x0")):
        with pytest.raises(ScenarioError, match=hint):
            read[name]


def test_every_bit_of_a_double_survives(tmp_path: Path) -> None:
    values = np.concatenate([ODD, SIGNALLING_NAN, -SIGNALLING_NAN])
    recorder = FileRecorder(tmp_path / "a.mcap", ticking())
    track = recorder.track("t", (), Signals("x"))
    recorder.start({})
    for i in range(len(values)):
        track.append(0, (), values[i : i + 1])
    recorder.finish({})
    read = Recording.open(tmp_path / "a.mcap").track("t").column("x")
    assert np.array_equal(read.view(np.int64), values.view(np.int64))


def test_another_reader_reads_the_same_numbers(flown: Path) -> None:
    """As Foxglove does: the library's reader, and classes made from the embedded schema alone."""
    ours = Recording.open(flown)
    seen = dict.fromkeys(ours.tracks, 0)
    with open(flown, "rb") as file:
        reader = make_reader(file, validate_crcs=True)
        summary = reader.get_summary()
        for schema, channel, message in reader.iter_messages():
            assert schema is not None
            assert (schema.encoding, channel.message_encoding) == ("protobuf", "protobuf")
            if channel.topic == "events":
                continue
            row = message_class(schema.data, schema.name).FromString(message.data)
            track = ours.tracks[channel.topic]
            n = seen[channel.topic]
            assert message.log_time == track.rows.ns[n]
            fields = row.DESCRIPTOR.fields
            assert [f.name for f in fields] == list(track.spec.fields)
            values = [getattr(row, f.name) for f in fields]
            k = len(track.integers)
            assert values[:k] == track.rows.integers[n].tolist()
            assert np.array(values[k:]).tobytes() == track.rows.floats[n].tobytes()
            seen[channel.topic] = n + 1
    assert seen == {name: len(track) for name, track in ours.tracks.items()}
    assert summary is not None
    units = {c.topic: c.metadata["units"] for c in summary.channels.values() if c.topic != "events"}
    assert '"altitude": "ft"' in units["f16"]
    names = [s.name for s in summary.schemas.values()]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("compression", list(CompressionType))
def test_a_file_that_another_tool_wrote_anew_opens(
    flown: Path, tmp_path: Path, compression: CompressionType
) -> None:
    with open(flown, "rb") as old, open(tmp_path / "new.mcap", "wb") as new:
        reader = make_reader(old)
        writer = Writer(new, compression=compression, chunk_size=5000)
        writer.start()
        for metadata in reader.iter_metadata():
            writer.add_metadata(metadata.name, metadata.metadata)
        channels: dict[str, int] = {}
        for schema, channel, message in reader.iter_messages(log_time_order=True):
            assert schema is not None
            if channel.topic not in channels:
                known = writer.register_schema(schema.name, schema.encoding, schema.data)
                channels[channel.topic] = writer.register_channel(channel.topic, "protobuf", known)
            number = channels[channel.topic]
            writer.add_message(number, message.log_time, message.data, message.publish_time)
        writer.finish()  # type: ignore[no-untyped-call]
    assert Recording.open(tmp_path / "new.mcap").truncated is None
    assert Recording.open(tmp_path / "new.mcap").digest() == Recording.open(flown).digest()


def test_the_digest_leaves_out_wall_clock_figures() -> None:
    def digest(margin: int, x: float) -> str:
        recorder = MemoryRecorder()
        recorder.track("timing", ("m",), Signals(), {"deterministic": "no"}).append(0, (margin,))
        recorder.track("p", ("step",), Signals("x")).append(0, (0,), np.array([x]))
        return recorder.recording().digest()

    assert digest(1, 0.0) == digest(2, 0.0)
    assert digest(1, 0.0) != digest(1, -0.0)


def test_bad_rows_are_refused_and_leave_no_trace() -> None:
    recorder = MemoryRecorder()
    track = recorder.track("p", ("step",), Signals("x", "y"))
    recorder.start({})
    for parts in (
        (np.zeros(1),),
        (np.zeros(2), np.zeros(1)),
        (np.zeros(2, np.float32),),
        (np.zeros(2, np.int64),),
        (np.zeros((1, 2)),),
    ):
        with pytest.raises(ShapeError, match="track p: a row has 1 integers"):
            track.append(0, (1,), *parts)
    with pytest.raises(ShapeError, match="track p"):
        track.append(0, (1, 2), np.zeros(2))
    track.append(5, (1,), np.ones(1), np.ones(1))
    assert recorder.recording().track("p").rows.floats.tolist() == [[1.0, 1.0]]


def test_tracks_are_declared_once_and_before_the_start() -> None:
    recorder = MemoryRecorder()
    recorder.track("p", (), Signals("x"))
    with pytest.raises(ScenarioError, match="declared twice"):
        recorder.track("p", (), Signals("x"))
    with pytest.raises(ScenarioError, match="'events' cannot be the name"):
        recorder.track("events", (), Signals("x"))
    with pytest.raises(ScenarioError, match="two columns with the name q_0"):
        recorder.track("q", (), Signals(Signal("q", shape=(4,)), "q_0"))
    recorder.start({})
    with pytest.raises(ScenarioError, match="after the start"):
        recorder.track("r", (), Signals("x"))


def test_the_null_recorder_takes_everything(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """All that others take, for as long as it lasts, and it keeps and writes nothing."""
    monkeypatch.chdir(tmp_path)
    recorder = NullRecorder()
    track = recorder.track("p", ("step",), Signals("x", "y"), {"source": "law"})
    assert (track.name, track.integers, track.signals.columns) == ("p", ("step",), ("x", "y"))
    held = len(track._full), len(track._spare), track._row
    for i in range(10_000):  # far more than a block holds
        track.append(i, (i,), np.zeros(2))
    track.append_many(np.arange(7), (0,), np.zeros((7, 2)))
    assert track.rows == 10_007, "it counts what it does not keep"
    assert (len(track._full), len(track._spare), track._row) == held
    assert not any(len(batch) for batch in track.take())
    fly(recorder)
    fly(recorder)  # a track of a name that it has had: it does not even keep the names
    assert not hasattr(recorder, "recording")
    assert list(tmp_path.iterdir()) == []


def test_many_columns_and_none(tmp_path: Path) -> None:
    wide = Signals(*(f"x{i}" for i in range(3000)))
    recorder = FileRecorder(tmp_path / "wide.mcap", ticking())
    track, bare = recorder.track("wide", (), wide), recorder.track("bare", (), Signals())
    recorder.start({})
    for i in range(40):
        track.append(i, (), np.arange(3000.0) + i)
        bare.append(i, ())
    recorder.finish({})
    read = Recording.open(tmp_path / "wide.mcap")
    assert np.array_equal(read["wide.x2999"], 2999.0 + np.arange(40))
    assert len(read.tracks["bare"]) == 40


ROWS = st.tuples(
    st.integers(0, 2**62), st.integers(0, 10**9), st.integers(0, 1), st.integers(-2, 2),
    st.just(UNKNOWN_NS) | st.integers(0, 10**9), st.integers(1, 9),
)  # fmt: skip
CAUGHT_UP = st.lists(ROWS).map(
    lambda rows: CaughtUp(
        np.array(rows, np.int64).reshape(-1, 6), ("next", "law\nof 1", "plant", "", "rest"), 7
    )
)


@given(CAUGHT_UP)
def test_overruns_of_compiled_code_are_those_of_the_pacer(overruns: CaughtUp) -> None:
    ledger, other = Ledger(CatchUp(7), 1), Ledger(CatchUp(7), 1)
    for overrun in overruns:
        other.judge(overrun.tag_ns, overrun.amount_ns, overrun.cause, overrun.job, overrun.stood_ns)
    ledger.caught_up(overruns, 3, 17)
    assert (ledger.overruns, ledger.blamed) == (other.overruns, other.blamed)
    assert (ledger.in_line, ledger.in_a_row) == (other.in_line, (3, 17, 1))
    assert list(CaughtUp.unpack(overruns.pack())) == list(overruns)


class Seeing(FileRecorder):
    """A recorder of a user, from before recorders took many overruns at once."""

    seen = 0

    def event(self, *about: Any, **more: Any) -> None:
        super().event(*about, **more)
        self.seen += 1


def test_a_recorder_with_events_of_its_own_sees_each_overrun(tmp_path: Path) -> None:
    overruns = CaughtUp(np.array([[5 * MS, 300, 0, -1, UNKNOWN_NS, 1]]), ("", "rest"), 100)
    system: Any = SimpleNamespace(
        plants=(),
        controllers=(),
        external_inputs=(),
        bus=SimpleNamespace(topics={}),
        faults=None,
        processors=(),
    )
    for kind, seen in ((FileRecorder, 0), (Seeing, 1)):
        with kind(tmp_path / f"{seen}.mcap") as recorder:
            trace = Trace(system, recorder, paced=True)
            recorder.start({})
            trace.caught_up(overruns)
            recorder.finish({})
        assert (recorder.handed.events, trace.events) == (1, 1)
        assert getattr(recorder, "seen", 0) == seen


def test_the_writing_process_makes_the_events_of_overruns(tmp_path: Path) -> None:
    rows = np.array([[5 * MS, 300, 0, 1, UNKNOWN_NS, 1], [6 * MS, 700, 1, -2, 40, 2]])
    overruns = CaughtUp(rows, ("next", "law", "", "rest"), 100)
    recorder = FileRecorder(tmp_path / "run.mcap", ticking())
    recorder.start({})
    recorder.event(Tag(1), "Change", "before")
    recorder.caught_up(overruns)
    recorder.event(Tag(7 * MS), "Change", "after")
    recorder.finish({})
    assert recorder.handed.events == 4
    before, *found, after = Recording.open(tmp_path / "run.mcap").events
    assert (before.source, after.source) == ("before", "after")
    assert found == [overrun_event(overrun) for overrun in overruns]
    assert [(e.tag, e.kind, e.source) for e in found] == [
        (Tag(5 * MS), "Overrun", "law"), (Tag(6 * MS), "Overrun", "wake"),
    ]  # fmt: skip
    assert found[1].text.startswith("overrun at 0.006000000 s: the loop woke 0.001 ms late, of ")


def written(path: Path) -> list[Chunk]:
    """Write a recording of several chunks; return the chunks, whose checksums mcap has checked."""
    spec = TrackSpec("p", (), Signals("x"))
    text = json.dumps({"header": {}, "tracks": [spec.to_json()]}).encode()
    words = np.stack([np.arange(30_000), np.ones(30_000).view(np.int64)], axis=1)
    file = RecordingFile(path)
    file.take(RecordFrame(FrameKind.START, 0, text))
    for behind in (True, False):
        file.take(RecordFrame(FrameKind.ROWS, 0, words.tobytes()), behind)
    file.close()
    with path.open("rb") as stream:
        records = list(StreamReader(stream, emit_chunks=True, validate_crcs=True).records)
    return [record for record in records if isinstance(record, Chunk)]


def test_zlib_ng_computes_all_checksums_of_much_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An mcap that calls another function would compute them four times as slowly."""
    summed = [0]

    def counted(data: bytes, start: int = 0) -> int:
        summed[0] += len(data)
        return zlib.crc32(data, start)

    monkeypatch.setattr("zlib_ng.zlib_ng.crc32", counted)
    chunks = written(tmp_path / "a.mcap")
    assert summed[0] >= sum(chunk.uncompressed_size + len(chunk.data) for chunk in chunks)


def test_checksums_are_those_of_mcap(tmp_path: Path) -> None:
    chunks = written(tmp_path / "a.mcap")
    assert all(chunk.uncompressed_crc for chunk in chunks)
    assert all(breakup_chunk(chunk, validate_crc=True) for chunk in chunks)
    assert zlib.crc32(b"recording") == zlib_ng.crc32(b"recording")


def test_the_module_of_mcap_keeps_its_own_checksums() -> None:
    """A program that writes MCAP files beside rtsim uses mcap as it was installed."""
    assert mcap.writer.zlib is zlib  # type: ignore[attr-defined]
    assert mcap.writer.Writer.finish is not BatchWriter.finish


@pytest.mark.parametrize("in_memory", [1 << 20, 100])
def test_mcap_reads_the_index_of_the_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_memory: int
) -> None:
    monkeypatch.setattr("rtsim.record.writer._IN_MEMORY", in_memory)
    path = tmp_path / "a.mcap"
    chunks = written(path)
    assert len(chunks) > 1
    assert list(tmp_path.iterdir()) == [path], "the temporary file is gone"
    data = path.read_bytes()
    with path.open("rb") as stream:
        summary = make_reader(stream).get_summary()
    assert summary is not None
    found = [
        (i.message_start_time, i.message_end_time, i.compression, i.uncompressed_size)
        for i in summary.chunk_indexes
    ]
    assert found == [
        (c.message_start_time, c.message_end_time, c.compression, c.uncompressed_size)
        for c in chunks
    ]
    for index in summary.chunk_indexes:
        assert data[index.chunk_start_offset] == Opcode.CHUNK
        assert {data[at] for at in index.message_index_offsets.values()} == {Opcode.MESSAGE_INDEX}


def test_an_index_that_finds_no_folder_stays_in_memory(tmp_path: Path) -> None:
    spec = TrackSpec("p", (), Signals("x"))
    words = np.zeros((1, 2), np.int64)
    summaries = []
    for folder in (tmp_path, tmp_path / "gone"):
        data = io.BytesIO()
        with patch("rtsim.record.writer._IN_MEMORY", 200):
            writer = BatchWriter(data, 1 << 20, folder)
            writer.start()
            channel = writer.register_channel("p", "", writer.register_schema("p", "", b""))
            for i in range(9):
                writer.add_rows(channel, words, spec, i)
                writer.flush()  # type: ignore[no-untyped-call]
            writer.finish()  # type: ignore[no-untyped-call]
        data.seek(0)
        summaries.append(make_reader(data).get_summary())
    assert summaries[0] is not None
    assert len(summaries[0].chunk_indexes) == 9
    assert vars(summaries[0]) == vars(summaries[1])


def test_the_end_of_a_process_is_waited_for_in_one_call() -> None:
    """``Popen.wait`` with a limit would look at it after sleeps that double."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    with pytest.MonkeyPatch.context() as patch:
        if hasattr(os, "pidfd_open"):
            patch.setattr("time.sleep", lambda _: pytest.fail("the wait sleeps"))
        await_end(ended, 60.0)
    assert ended.returncode == 0
    await_end(ended, 60.0)


def test_a_process_that_does_not_end_is_waited_for_no_longer_than_asked() -> None:
    command = [sys.executable, "-c", "input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as stays:
        with pytest.raises(subprocess.TimeoutExpired):
            await_end(stays, 0.01)
        stays.kill()


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("flown") / "run.mcap"
    fly(FileRecorder(path, ticking(3 * MS)))  # some five chunks
    return path


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As many chunks and records with fewer rows: it opens in a quarter of the time."""
    path = tmp_path_factory.mktemp("short") / "run.mcap"
    fly(FileRecorder(path, ticking(15 * MS)), rows=60)
    return path


def assert_prefix(read: Recording, whole: Recording) -> None:
    for name, track in read.tracks.items():
        assert np.array_equal(track.words, whole.tracks[name].words[: len(track)])
    assert read.events == whole.events[: len(read.events)]
    assert read.footer in (None, whole.footer)


def open_damaged(data: bytes, path: Path, whole: Recording) -> Recording | None:
    """A prefix of the whole, or one clear error (None); whatever else happens fails the test."""
    path.write_bytes(data)
    try:
        read = Recording.open(path)
    except RecordingError:
        return None
    assert_prefix(read, whole)
    return read


@pytest.mark.long
def test_truncated_at_every_byte_of_its_last_kilobyte(short: Path, tmp_path: Path) -> None:
    data, whole = short.read_bytes(), Recording.open(short)
    for size in range(len(data) - 1024, len(data)):
        read = open_damaged(data[:size], tmp_path / "cut.mcap", whole)
        assert read is not None
        assert read.truncated is not None
        assert len(read.tracks["f16"]) == 60


def test_truncated_anywhere(sound: Path, tmp_path: Path) -> None:
    data, whole = sound.read_bytes(), Recording.open(sound)
    cuts = random.Random(3).sample(range(len(data)), 300)
    most = 0
    for size in sorted([*range(40), *cuts]):
        read = open_damaged(data[:size], tmp_path / "cut.mcap", whole)
        rows = 0 if read is None else len(read.tracks["f16"])
        assert rows >= most, "a longer file holds no less"
        most = rows
    assert most == 300


@pytest.mark.long
@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_flipped_bits_are_noticed(short: Path, tmp_path: Path, data: st.DataObject) -> None:
    raw = bytearray(short.read_bytes())
    whole = Recording.open(short)
    for bit in data.draw(st.lists(st.integers(0, 8 * len(raw) - 1), min_size=1, max_size=3)):
        raw[bit // 8] ^= 1 << bit % 8
    open_damaged(bytes(raw), tmp_path / "flipped.mcap", whole)


@pytest.mark.long
def test_every_flipped_bit_that_steers_the_reader_is_noticed(short: Path, tmp_path: Path) -> None:
    """All bits of each record's type and length, and one of each third byte after."""
    raw, whole = short.read_bytes(), Recording.open(short)
    steering, following, at, data_end = list(range(8)), list[int](), 8, 0
    while at < len(raw) - 8:
        steering += range(at, at + 9)
        following += range(at + 9, min(at + 50, len(raw)), 3)
        data_end = at if raw[at] == Opcode.DATA_END else data_end
        at += 9 + int.from_bytes(raw[at + 1 : at + 9], "little")
    bits = [8 * byte + bit for byte in steering for bit in range(8)]
    for bit in bits + [8 * byte + byte % 8 for byte in following]:
        damaged = bytearray(raw)
        damaged[bit // 8] ^= 1 << bit % 8
        read = open_damaged(bytes(damaged), tmp_path / "flipped.mcap", whole)
        if bit < 8 * data_end:
            assert read is None or read.truncated is not None


def test_a_length_is_not_believed(sound: Path, tmp_path: Path) -> None:
    """Neither of a record nor of what a chunk unpacks to."""
    raw = sound.read_bytes()
    at = 8
    while raw[at] != Opcode.CHUNK:
        at += 9 + int.from_bytes(raw[at + 1 : at + 9], "little")
    for where, size in (
        (at + 1, 1 << 28),
        (at + 1, 1 << 62),
        (at + 25, 1 << 27),
        (at + 25, 1 << 62),
    ):
        damaged = bytearray(raw)
        damaged[where : where + 8] = size.to_bytes(8, "little")
        (tmp_path / "long.mcap").write_bytes(damaged)
        tracemalloc.start()
        read = Recording.open(tmp_path / "long.mcap")
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert most < 1 << 24
        assert read.truncated is not None


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary(max_size=400), st.booleans())
def test_any_bytes_are_refused_in_words(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, magic: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "bytes.mcap"
    path.write_bytes((b"\x89MCAP0\r\n" if magic else b"") + data)
    with pytest.raises(RecordingError):
        Recording.open(path)


def test_a_file_that_is_no_recording_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="there is no file"):
        Recording.open(tmp_path / "missing.mcap")
    with pytest.raises(RecordingError, match="is a folder"):
        Recording.open(tmp_path)
    (tmp_path / "empty.mcap").touch()
    with pytest.raises(RecordingError, match="it is empty"):
        Recording.open(tmp_path / "empty.mcap")
    (tmp_path / "text.mcap").write_text("time,altitude\n")
    with pytest.raises(RecordingError, match="not an MCAP recording"):
        Recording.open(tmp_path / "text.mcap")
    RecordingFile(tmp_path / "other.mcap").close()
    with pytest.raises(RecordingError, match="the run ended before its start was recorded"):
        Recording.open(tmp_path / "other.mcap")


ROOT = Path(__file__).resolve().parents[2]


def test_the_fingerprint_is_complete_and_repeatable() -> None:
    one = fingerprint()
    assert one == fingerprint()
    assert all(one[key] for key in one if key != "settings")
    assert differences(one, fingerprint()) == []


def test_the_fingerprint_does_not_import_numba() -> None:
    program = (
        "import sys; from rtsim.record.fingerprint import fingerprint; fingerprint();"
        "print('numba' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


def test_processor_features_are_those_of_arithmetic(tmp_path: Path) -> None:
    info = tmp_path / "cpuinfo"
    info.write_text("processor : 0\nflags : fpu vme sse2 avx2 fma hypervisor\n\nprocessor : 1\n")
    assert fingerprint(info)["processor features"] == "avx2 fma fpu sse2"
    info.write_text("Features : fp asimd evtstrm\n")
    assert fingerprint(info)["processor features"] == "asimd fp"


def test_settings_count(monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint()
    monkeypatch.setenv("NUMBA_OPT", "0")
    assert differences(before, fingerprint()) == [
        "settings: none in the recording, NUMBA_OPT=0 here"
    ]


def test_differences_are_said_in_words() -> None:
    then = {"numpy": "1.26.0", "processor features": "avx2 fma sse2", "libc": "glibc 2.36"}
    now = {"numpy": "2.0.0", "processor features": "avx512f sse2", "libc": "glibc 2.36"}
    assert differences(then, now) == [
        "numpy: 1.26.0 in the recording, 2.0.0 here",
        "processor features: here without avx2 fma and with avx512f",
    ]
