"""A recording round-trips every bit, in memory and on disk, and other readers agree."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcap.reader import make_reader
from mcap.writer import CompressionType, Writer
from record_samples import MS, ODD, SIGNALLING_NAN, fly, ticking

from rtsim.core.errors import ScenarioError, ShapeError
from rtsim.core.signals import Signal, Signals
from rtsim.core.tag import Tag
from rtsim.engine.trace import Trace
from rtsim.record.events import overrun_event
from rtsim.record.file import FileRecorder
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder, NullRecorder
from rtsim.record.schema import message_class
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


def test_a_file_holds_what_memory_holds(flown: Path, remembered: Recording) -> None:
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
    assert read["f16.x3"].shape == (300,)
    assert read["f16.q"].shape == (300, 4)
    assert np.array_equal(read["f16.q"][:, 1], read["f16.q_1"])
    assert read.time("messages/command")[1] == 5 * MS
    assert read.tracks["messages/command"].integer("initiated")[0] == 2**63 - 1
    assert read["messages/command.status"][1] == 5.0  # the signal, not the stamp of that name
    assert read.rows("f16").integers.shape == (300, 2)
    assert read.tracks["f16"].tag(1) == Tag(MS, 1)
    assert read.tracks["f16"].signals["heading"].kind == "angle"
    assert len(read.time("inputs/stick")) == 0
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
    read = Recording.open(tmp_path / "a.mcap")["t.x"]
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
    assert recorder.recording().rows("p").floats.tolist() == [[1.0, 1.0]]


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
        plants=(), controllers=(), external_inputs=(), bus=SimpleNamespace(topics={})
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
