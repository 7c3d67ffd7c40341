"""The file of a checkpoint: what goes in comes out, and what is none says so in one sentence."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtsim.core.errors import CheckpointError, RtsimError, ScenarioError
from rtsim.core.net.messagepack import pack
from rtsim.engine.checkpoint.file import MAGIC, VERSION, Checkpoint, Ring
from rtsim.engine.checkpoint.schedule import CheckpointSchedule
from rtsim.runs.simulation import simulate
from rtsim.scenario.loading import load_scenario

HEAD = 50


def taken(name: str = "unstable", at: str = "0.3") -> Checkpoint:
    ring = Ring(10)
    simulate(
        load_scenario(name), until=1, compile=False, checkpoints=CheckpointSchedule(ring, at=[at])
    )
    found = ring.before(10**9)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound file; its bytes are changed in copies alone."""
    return taken().save(tmp_path_factory.mktemp("checkpoint") / "run@0.300.checkpoint")


def complaint(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    with pytest.raises(CheckpointError) as told:
        Checkpoint.open(path)
    text = str(told.value)
    assert str(path) in text
    assert "\n" not in text
    return text.replace(str(path), "X")


def sealed(body: bytes, version: int = VERSION) -> bytes:
    """A file around ``body`` whose checksum fits."""
    digest = hashlib.sha256(body).digest()
    return struct.pack("<8sHQ32s", MAGIC, version, len(body), digest) + body


def test_what_was_taken_is_read(whole: Path) -> None:
    first, read = taken(), Checkpoint.open(whole)
    assert (read.ns, read.rows, read.events) == (300_000_000, first.rows, first.events)
    assert read.state == first.state
    assert read.digest == first.digest
    assert read.header == first.header
    assert read.header["scenario"]["name"] == "unstable"
    assert pack(read.state) == pack(first.state)


def test_the_layout_is_the_documented_one(whole: Path) -> None:
    data = whole.read_bytes()
    magic, version, size, digest = struct.unpack("<8sHQ32s", data[:HEAD])
    assert (magic, version, size) == (b"\x89RTSIM\r\n", 1, len(data) - HEAD)
    assert digest == hashlib.sha256(data[HEAD:]).digest()


def test_every_cut_is_told(whole: Path, tmp_path: Path) -> None:
    data, path = whole.read_bytes(), tmp_path / "x"
    for size in (*range(HEAD + 2), len(data) // 2, len(data) - 1):
        text = complaint(path, data[:size])
        assert "cut off" in text or (size < len(MAGIC) and "is not a checkpoint" in text), size
    assert complaint(path, data + b"\0").startswith(
        "X is damaged, or is not a checkpoint: its first 50 bytes are not those"
    )


@given(st.data())
def test_every_flipped_bit_is_told(
    whole: Path, tmp_path_factory: pytest.TempPathFactory, draw: st.DataObject
) -> None:
    data = bytearray(whole.read_bytes())
    place = draw.draw(st.integers(0, HEAD - 1) | st.integers(HEAD, len(data) - 1))
    data[place] ^= 1 << draw.draw(st.integers(0, 7))
    complaint(tmp_path_factory.mktemp("flipped") / "x", bytes(data))


@given(st.binary(max_size=300))
def test_bytes_with_a_good_checksum_are_not_believed_either(
    tmp_path_factory: pytest.TempPathFactory, body: bytes
) -> None:
    complaint(tmp_path_factory.mktemp("foreign") / "x", sealed(body))


@given(st.data())
def test_a_damaged_body_is_refused_or_read(
    whole: Path, tmp_path_factory: pytest.TempPathFactory, draw: st.DataObject
) -> None:
    """Somebody made the checksum fit: what comes of it is a run or one sentence, nothing else."""
    body = bytearray(whole.read_bytes()[HEAD:])
    for _ in range(draw.draw(st.integers(1, 4))):
        body[draw.draw(st.integers(0, len(body) - 1))] = draw.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("damaged") / "x"
    path.write_bytes(sealed(bytes(body)))
    system = load_scenario("unstable").build(compile=False)
    try:
        Checkpoint.open(path).restore(system)
    except RtsimError as error:
        told = str(error)
        if "\n" in told:
            pytest.fail(told)


def test_what_is_something_else_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x"
    assert complaint(path, b"") == (
        "X is not a checkpoint; rtsim run --checkpoint-every writes checkpoints"
    )
    assert complaint(path, b"\x89MCAP0\r\n" + bytes(90)) == (
        "X is a recording, not a checkpoint; type rtsim replay X"
    )
    assert complaint(path, sealed(b"\x80", version=2)) == (
        "X has format 2, but this rtsim reads formats up to 1; use the newer rtsim that wrote "
        "the file"
    )
    assert complaint(path, sealed(b"\x80", version=0)).startswith("X is damaged")
    assert complaint(path, sealed(b"\x80")).startswith("X has unexpected contents (KeyError")
    huge = struct.pack("<8sHQ32s", MAGIC, VERSION, 2**63, bytes(32))
    assert complaint(path, huge).startswith(
        "X is damaged, or is not a checkpoint: its first 50 bytes"
    )
    with pytest.raises(CheckpointError, match=r"cannot read .*: Is a directory"):
        Checkpoint.open(tmp_path)
    with pytest.raises(CheckpointError, match=r"cannot read .*none: No such file"):
        Checkpoint.open(tmp_path / "none")
    for name in ("a@10.000", "a@2.505", "b@1.000"):
        (tmp_path / f"{name}.checkpoint").touch()
    there = r"checkpoints of this run: a@2\.505\.checkpoint, a@10\.000\.checkpoint$"
    with pytest.raises(CheckpointError, match=there):
        Checkpoint.open(tmp_path / "a@2.5.checkpoint")


def test_nothing_but_a_checkpoint_is_written_over(whole: Path, tmp_path: Path) -> None:
    read, mine = Checkpoint.open(whole), tmp_path / "mine"
    mine.write_text("thesis")
    with pytest.raises(CheckpointError, match="mine is not a checkpoint, so it is not overwritten"):
        read.save(mine)
    assert mine.read_text() == "thesis"
    read.save(read.save(tmp_path / "again"))
    with pytest.raises(CheckpointError, match=r"cannot write .*: No such file"):
        read.save(tmp_path / "no folder" / "x")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["again", "mine"]


def test_one_of_another_scenario_is_refused(whole: Path) -> None:
    read = Checkpoint.open(whole)
    with pytest.raises(ScenarioError, match="the checkpoint and this scenario have different"):
        simulate(load_scenario("valves"), start=read)
    with pytest.raises(CheckpointError, match=r"is at 0\.300000000 s, but the run ends at 0\.2"):
        simulate(load_scenario("unstable"), start=read, until=0.2)
    with pytest.raises(
        CheckpointError, match=r"names the tag 0.400.* but it contains the state at 0.300"
    ):
        replace(read, ns=400_000_000).restore(load_scenario("unstable").build(compile=False))
