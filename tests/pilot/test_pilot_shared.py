"""The file between simulation and viewer: its layout, and whatever else is not one."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import pytest

if sys.platform != "win32":
    import resource

from rtsim.core.signals import Signal, Signals
from rtsim.pilot.shared import MOST_BYTES, PAIR, Schema, Shared, SharedError

MOON = Signals("x [m] = 1", Signal("q", shape=(4,), kind="quaternion", initial=(1, 0, 0, 0)))
SCHEMA = Schema((("moon", MOON),), Signals("pitch", "roll"), {"scene": "orbit"})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    shared = Shared.create(SCHEMA, tmp_path)
    return shared.path


def test_both_ends_see_the_same(tmp_path: Path) -> None:
    shared = Shared.create(SCHEMA, tmp_path)
    other = Shared.open(shared.path)
    assert other.schema == SCHEMA
    assert other.schema.plants[0][1]["q"].kind == "quaternion"
    writer = shared.writer("plant/moon")
    writer.integers[:] = range(len(PAIR))
    writer.floats[:] = range(10)
    writer.publish()
    record = other.reader("plant/moon").read()
    assert record is not None
    assert record.integers.tolist() == list(range(len(PAIR)))
    assert record.floats.tolist() == list(range(10))
    stick = other.writer("stick")
    stick.floats[:] = 0.5, -0.5
    stick.publish()
    back = shared.reader("stick").read()
    assert back is not None
    assert back.floats.tolist() == [0.5, -0.5]


def test_a_writer_goes_on_where_the_one_before_it_ended(tmp_path: Path) -> None:
    """A viewer that is opened again: its stick is newer than all that came before."""
    shared = Shared.create(SCHEMA, tmp_path)
    shared.writer("stick").publish()
    again = Shared.open(shared.path).writer("stick")
    assert again.publish() == 2


def test_records_lie_on_lines_of_their_own_and_fill_the_file(path: Path) -> None:
    places, size = SCHEMA.places()
    assert size == path.stat().st_size
    assert list(places) == ["run", "stick", "viewer", "orders", "answer", "plant/moon"]
    ends = 0
    for at, shape in places.values():
        assert at % 64 == 0
        assert at >= ends
        ends = at + shape.size


@pytest.mark.skipif(sys.platform == "win32", reason="no such bits; mapped files cannot go there")
def test_only_this_user_may_read_it_and_its_owner_removes_it(tmp_path: Path) -> None:
    shared = Shared.create(SCHEMA, tmp_path)
    assert shared.path.stat().st_mode & 0o077 == 0
    Shared.open(shared.path).close()
    assert shared.path.exists()
    shared.close()
    shared.close()
    assert not shared.path.exists()


@pytest.mark.parametrize(
    ("at", "bytes_", "told"),
    [
        (0, b"notours!", "not a file that a run of rtsim shares"),
        (8, struct.pack("<I", 99), "has version 99; this viewer reads version 3"),
        (12, struct.pack("<I", 2**31), "declares a schema of 2147483648 bytes"),
        (16, struct.pack("<Q", 2**40), "is not valid: it declares a schema"),
        (24, b"\0" * 32, "another release"),
        (60, b"\xff", "cannot be read|utf-8"),
    ],
)
def test_what_is_no_such_file_is_told(path: Path, at: int, bytes_: bytes, told: str) -> None:
    data = bytearray(path.read_bytes())
    data[at : at + len(bytes_)] = bytes_
    path.write_bytes(data)
    with pytest.raises(SharedError, match=told):
        Shared.open(path)


@pytest.mark.parametrize("kept", [0, 20, 100, -1])
def test_a_file_cut_short_is_told(path: Path, kept: int) -> None:
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(SharedError):
        Shared.open(path)


def test_a_run_that_is_over_and_one_too_large(tmp_path: Path) -> None:
    with pytest.raises(SharedError, match="perhaps the run has ended"):
        Shared.open(tmp_path / "gone")
    huge = Schema((("p", Signals(Signal("x", shape=(MOST_BYTES,)))),))
    with pytest.raises(SharedError, match="the limit is"):
        Shared.create(huge, tmp_path)
    assert list(tmp_path.iterdir()) == []


WIDE = Schema((("wide", Signals(Signal("x", shape=(20_000,)))),))


@pytest.mark.skipif(sys.platform != "linux", reason="what a file takes is told in other ways")
def test_every_byte_of_it_is_there(tmp_path: Path) -> None:
    """Memory that is full kills whoever touches a hole."""
    about = Shared.create(WIDE, tmp_path).path.stat()
    assert about.st_size == WIDE.places()[1]
    assert about.st_blocks * 512 >= about.st_size


@pytest.mark.skipif(sys.platform == "win32", reason="no such limit")
def test_where_there_is_no_room_it_says_so_and_leaves_nothing(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(SharedError, match=r"cannot create a file of .* bytes in .*: File too"):
            Shared.create(WIDE, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="what is mapped cannot be removed there")
def test_files_that_killed_runs_left_are_removed_by_the_next_one(tmp_path: Path) -> None:
    going_on = Shared.create(SCHEMA, tmp_path)
    whole = going_on.path.read_bytes()
    left, begun, other, link = (tmp_path / f"rtsim-pilot-{k}" for k in range(4))
    left.write_bytes(whole)
    begun.write_bytes(bytes(len(whole)))
    other.write_bytes(b"somebody's own")
    target = tmp_path / "target"
    target.write_bytes(whole)
    link.symlink_to(target)
    created = Shared.create(SCHEMA, tmp_path)
    kept = {going_on.path, begun, other, link, target, created.path}
    assert set(tmp_path.iterdir()) == kept
    assert Shared.open(going_on.path).schema == SCHEMA


@pytest.mark.parametrize(
    "signals",
    [
        '{"name": "x", "shape": [1.5]}',
        '{"name": "x", "shape": [1e999]}',
        '{"name": "x", "shape": 3}',
        "5",
    ],
)
def test_a_schema_that_is_none_is_told(signals: str) -> None:
    text = f'{{"plants": [{{"name": "p", "signals": [{signals}]}}], "stick": [], "about": {{}}}}'
    with pytest.raises(SharedError, match="the schema of the run cannot be read"):
        Schema.from_json(text)
