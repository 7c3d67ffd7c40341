"""A recording may be larger than memory, and a small one that would fill memory is refused."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard
from click.testing import CliRunner
from mcap.data_stream import RecordBuilder
from mcap.records import Channel, Chunk, Header, Metadata
from mcap.writer import MCAP0_MAGIC
from numpy.typing import NDArray
from record_samples import fly, ticking

from rtsim.cli.main import main
from rtsim.cli.recordings import FoundMessages
from rtsim.core.errors import RecordingError
from rtsim.core.signals import Signals
from rtsim.record import chunks, reading, replay_comparison
from rtsim.record.chunks import HEAD, MessageBlock, StoredWords, runs
from rtsim.record.comparison import compare
from rtsim.record.file import FileRecorder
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.replay_comparison import compare_exact
from rtsim.record.schema import HEADER, sealed
from rtsim.record.verdict import EXACT, ComparedSignal, Tolerance


@pytest.fixture(scope="module")
def flown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("flown") / "run.mcap"
    fly(FileRecorder(path, ticking(3_000_000)))
    return path


@pytest.fixture
def large(flown: Path, monkeypatch: pytest.MonkeyPatch) -> Recording:
    """Read as what is larger than memory is."""
    treat_as_large(monkeypatch)
    return Recording.open(flown)


def treat_as_large(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (chunks, reading):
        monkeypatch.setattr(module, "SMALL", 1 << 10)
    monkeypatch.setattr(chunks, "MOST_CACHED", 1 << 10)
    monkeypatch.setattr(chunks, "DENSEST", 1 << 20)
    monkeypatch.setattr(chunks, "TOGETHER", 3 * 8 * 300)
    monkeypatch.setattr(chunks, "PIECE", 1 << 12)


@pytest.fixture
def small() -> Recording:
    recorder = MemoryRecorder()
    fly(recorder)
    return recorder.recording()


def test_rows_in_a_file_read_as_rows_in_memory(large: Recording, small: Recording) -> None:
    assert large.large
    for name, track in small.tracks.items():
        there = large.tracks[name]
        assert isinstance(there.words, StoredWords)
        assert np.array_equal(np.asarray(there.words), track.words), name
        assert there.words.shape == np.asarray(track.words).shape
        assert np.array_equal(there.ns, track.ns)
        for column in (*track.signals.names, *track.signals.columns):
            theirs, ours = there.column(column), track.column(column)
            assert np.array_equal(theirs.view(np.int64), ours.view(np.int64)), column
        for column in track.integers:
            assert np.array_equal(there.integer(column), track.integer(column))
        for row in range(0, len(track), 7):
            assert there.tag(row) == track.tag(row)
            assert there.values(row).tobytes() == track.values(row).tobytes()
        assert sum(len(piece.ns) for piece in there.pieces()) == len(track)
    assert large.digest() == small.digest()
    assert large.end_ns == small.end_ns


@pytest.mark.parametrize(
    "cut",
    [
        lambda r: r.since({"f16": 17, "timing": 3}),
        lambda r: r.up_to(123_456_789),
        lambda r: r.between("0.05", "0.1"),
        lambda r: r.between(2, 3),
        lambda r: r.since({"f16": 500}),
    ],
)
def test_what_is_cut_out_is_the_same(
    large: Recording, small: Recording, cut: Callable[[Recording], Recording]
) -> None:
    ours, theirs = cut(small), cut(large)
    assert ours.digest() == theirs.digest()
    assert ours.events == theirs.events
    assert compare_exact(ours, theirs) is None


def test_a_range_of_time_holds_what_lies_within(small: Recording) -> None:
    some = small.between("0.05", "0.1")
    assert some.track("f16").ns.tolist() == [1_000_000 * k for k in range(50, 101)]
    assert [e.tag.ns for e in some.events] == [50_000_000]


def test_two_large_runs_compare_as_small_ones(
    large: Recording, small: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rtsim.record.verdict.TOGETHER", 13)
    assert compare(large, small).ok
    words = np.asarray(small.tracks["f16"].words).copy()
    words[211, 9] ^= 1 << 40
    spoilt = replace(
        small, tracks={**small.tracks, "f16": replace(small.tracks["f16"], words=words)}
    )
    in_pieces = compare(large, spoilt)
    monkeypatch.setattr("rtsim.record.verdict.TOGETHER", 1 << 20)
    assert in_pieces == compare(small, spoilt)
    assert [r.first.ns for r in in_pieces.failures if r.first] == [211_000_000]
    found = compare_exact(large, spoilt)
    assert found is not None
    assert found == compare_exact(small, spoilt)


@pytest.mark.parametrize("kind", ["scalar", "angle"])
@pytest.mark.parametrize("tolerance", [EXACT, Tolerance(0.1, 0.0), Tolerance(0.0, 1e-3)])
def test_pieces_of_a_signal_come_to_the_verdict_of_all(
    small: Recording, monkeypatch: pytest.MonkeyPatch, kind: Any, tolerance: Tolerance
) -> None:
    random = np.random.default_rng(4)
    odd = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e308, -1e308])
    track = small.tracks["f16"]
    signal = replace(track.signals["altitude"], kind=kind, unit="deg")
    pair = ComparedSignal(track, np.arange(300), "f16.altitude", signal, tolerance)
    for _ in range(60):
        a = random.normal(size=(300, 1))
        b = a + random.normal(scale=1e-2, size=(300, 1)) * (random.random((300, 1)) < 0.05)
        for values in (a, b):
            where = random.random((300, 1)) < 0.01
            values[where] = random.choice(odd, size=int(where.sum()))
        found = []
        for together in (7, 1 << 20):
            monkeypatch.setattr("rtsim.record.verdict.TOGETHER", together)
            found.append(pair.judge(a, b))
        assert found[0] == found[1]


def test_messages_are_told_in_order_whatever_fits_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Answers that overtake each other stand in the order of their end."""
    path = tmp_path / "a.mcap"
    words = ["run", "valves", "--until", "3", "-o", str(path)]
    assert CliRunner().invoke(main, words).exit_code == 0
    expected = [
        json.dumps(list(FoundMessages.of(Recording.open(path), "*", True, changes).rows()))
        for changes in (False, True)
    ]
    printed = CliRunner().invoke(main, ["messages", str(path), "--inputs"]).stdout
    treat_as_large(monkeypatch)
    monkeypatch.setattr("rtsim.cli.recordings._PIECE", 1 << 9)
    monkeypatch.setattr("rtsim.cli.terminal._PAGE", 5)
    for changes, before in zip((False, True), expected, strict=True):
        rows = list(FoundMessages.of(Recording.open(path), "*", True, changes).rows())
        assert json.dumps(rows) == before
        stamps = [(r["initiated"], r["initiated_step"]) for r in rows]
        assert stamps == sorted(stamps)
    done = CliRunner().invoke(main, ["messages", str(path), "--inputs"])
    assert done.stdout.split() == printed.split()
    as_json = CliRunner().invoke(main, ["messages", str(path), "--inputs", "--json"])
    assert len(json.loads(as_json.stdout)["messages"]) == len(json.loads(expected[0]))


def test_a_long_flight_is_replayed_beside_itself(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "a.mcap"
    words = ["run", "orbit", "--until", "20", "-o", str(path)]
    assert CliRunner().invoke(main, words).exit_code == 0
    treat_as_large(monkeypatch)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    recorder = replay_comparison.recorder_for_repeat(Recording.open(path))
    assert isinstance(recorder, replay_comparison.TemporaryRecorder)
    recorder.close()
    del recorder
    done = CliRunner().invoke(main, ["replay", str(path)])
    assert done.exit_code == 0, done.output
    assert "equal bit for bit" in done.output
    assert list(tmp_path.glob("rtsim-*")) == [], "what was recorded beside it is gone"


def test_what_cannot_be_recorded_beside_it_is_no_difference(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    recorder = replay_comparison.TemporaryRecorder()
    recorder.failed = "No space left on device (errno 28)"
    with pytest.raises(RecordingError, match=r"No space left.*set TMPDIR"):
        recorder.recording()


MEASURED = """
import resource, sys
from pathlib import Path
import rtsim.record.chunks as chunks, rtsim.record.chunks as stored
from rtsim.record import reading
from rtsim.record.comparison import compare
from rtsim.record.replay_comparison import compare_exact
for module in (chunks, reading):
    module.SMALL = 1 << 22
stored.TOGETHER, stored.PIECE = 1 << 22, 1 << 20
open_ = reading.Recording.open
used = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
compare(open_(sys.argv[2]), open_(sys.argv[2]))  # what any reading loads
before = used()
a, b = open_(sys.argv[1]), open_(sys.argv[1])
assert a.truncated is None
assert compare(a, b).ok and compare_exact(a, b) is None and a.digest() == b.digest()
print(used() - before)
"""


@pytest.mark.long
def test_memory_does_not_grow_with_the_recording(tmp_path: Path) -> None:
    """Two of 60 MB are compared in less than one of them takes."""

    def recorded(name: str, rows: int) -> Path:
        recorder = FileRecorder(tmp_path / name, ticking())
        track = recorder.track("p", ("step",), Signals(*(f"x{k}" for k in range(73))))
        recorder.start({})
        random = np.random.default_rng(2)
        for first in range(0, rows, 5000):
            ns = np.arange(first, first + 5000, dtype=np.int64)
            track.append_many(ns, (0,), random.normal(size=(5000, 73)))
            recorder.pump(wait=True)
        recorder.finish({"reason": "end"})
        return tmp_path / name

    words = [recorded("large.mcap", 100_000), recorded("small.mcap", 5000)]
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(MEASURED), *map(str, words)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 100_000 * 75 * 8 / 2


def test_runs_of_messages_are_those_that_stand_there() -> None:
    random = np.random.default_rng(3)
    for _ in range(50):
        parts = [
            (int(random.integers(3)), int(random.integers(2)), int(random.integers(1, 200)))
            for _ in range(int(random.integers(1, 12)))
        ]
        data = b"".join(messages(*part) for part in parts)
        found = [r for r in runs(data) if isinstance(r, MessageBlock)]
        one_by_one = [(c, s) for c, s, many in parts for _ in range(many)]
        assert [(r.channel, r.size) for r in found for _ in range(r.many)] == one_by_one
        assert [r.at + r.many * (HEAD + r.size) for r in found] == [
            *(r.at for r in found[1:]), len(data),
        ]  # fmt: skip


# -- small files that were made to fill memory -----------------------------------------------------


def crafted(path: Path, contents: list[bytes], tracks: list[dict[str, Any]]) -> Path:
    """A file of chunks that hold ``contents``, packed as well as can be."""
    out = RecordBuilder()
    Header(profile="", library="").write(out)
    Metadata(name=HEADER, metadata=sealed({"tracks": tracks})).write(out)
    Channel(id=1, topic="p", message_encoding="", metadata={}, schema_id=0).write(out)
    Channel(id=2, topic="events", message_encoding="", metadata={}, schema_id=0).write(out)
    for content in contents:
        packed = zstandard.ZstdCompressor(level=3).compress(content)
        Chunk("zstd", packed, 0, 0, 0, len(content)).write(out)
    records: bytes = out.end()  # type: ignore[no-untyped-call]
    path.write_bytes(MCAP0_MAGIC + records)
    return path


def messages(channel: int, payload: int, many: int) -> bytes:
    body = channel.to_bytes(2, "little") + bytes(20 + payload)
    return (b"\x05" + len(body).to_bytes(8, "little") + body) * many


PLAIN: dict[str, Any] = {"name": "p", "integers": [], "signals": [], "about": {}}
WIDE: dict[str, Any] = {
    "name": "p", "integers": [], "about": {},
    "signals": json.loads(json.dumps(Signals("x").to_json())),
}  # fmt: skip


@pytest.mark.parametrize(
    ("contents", "shape", "why"),
    [
        ([messages(1, 0, 2_000_000)] * 5, [], "messages in"),
        ([messages(1, 1 << 20, 60)] * 40, [], r"would unpack to \d+ bytes, which is more than"),
        ([messages(2, 1 << 20, 8)], [], "its events have"),
        ([], [1 << 40], "declares 8796093022208 columns"),
        ([], [200_000], "declares 1600000 columns"),
    ],
    ids=["messages", "bytes", "events", "width", "columns"],
)
def test_what_would_fill_memory_is_refused_early(
    tmp_path: Path, contents: list[bytes], shape: list[int], why: str
) -> None:
    tracks = [PLAIN]
    if shape:
        wide = json.loads(json.dumps(WIDE))
        wide["signals"][0]["shape"] = shape
        tracks = [{**wide, "name": f"p{k}"} for k in range(8)]
    path = crafted(tmp_path / "bomb.mcap", contents, tracks)
    assert path.stat().st_size < 200_000
    tracemalloc.start()
    with pytest.raises(RecordingError, match=why):
        Recording.open(path)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 400 << 20


def test_rows_in_a_file_that_is_no_more_the_same(
    large: Recording, flown: Path, tmp_path: Path
) -> None:
    path = tmp_path / "copy.mcap"
    path.write_bytes(flown.read_bytes())
    read = Recording.open(path)
    assert np.array_equal(read.track("f16").ns, large.track("f16").ns)
    path.write_bytes(bytes(path.stat().st_size))
    with pytest.raises(RecordingError, match="was changed while it was read"):
        _ = read.track("f16").rows
    words: NDArray[np.int64] = np.asarray(large.tracks["f16"].words)
    assert len(words) == 300
