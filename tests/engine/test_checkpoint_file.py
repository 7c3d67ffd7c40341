"""The file of a checkpoint: what goes in comes out, and what is none says so in one sentence.

Who keeps checkpoints, which one is found again, and what is asked for by time.

A run that is cut in two is the whole run, bit for bit, whatever it is and wherever it is cut.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from checkpoint_parts import (
    OWN,
    SOLVED,
    cut,
    gone_on,
    gone_on_elsewhere,
    rest,
    scenario,
    split_tags,
)
from hypothesis import given
from hypothesis import strategies as st

from rtsim.core.errors import CheckpointError, ControllerError, RtsimError, ScenarioError
from rtsim.core.net.messagepack import pack
from rtsim.core.tag import NEVER
from rtsim.engine.checkpoint.file import (
    MAGIC,
    MOST_FILES,
    SUFFIX,
    VERSION,
    Checkpoint,
    CheckpointHistory,
    Files,
    Ring,
    _whole,
    beside,
    path_beside,
)
from rtsim.engine.checkpoint.schedule import CheckpointSchedule
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.simulation import simulate
from rtsim.scenario.loading import BUILT_IN, load_scenario

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


def test_a_checkpoint_is_read_as_it_was_written(whole: Path) -> None:
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


def test_every_cut_of_a_file_is_detected(whole: Path, tmp_path: Path) -> None:
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


def test_a_file_that_is_no_checkpoint_is_named(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("value", [-1, 1.5, True, "1", None, 2**62, 10**40])
def test_a_count_is_a_whole_number_of_a_possible_size(value: object) -> None:
    assert _whole(1, 1) == 1
    with pytest.raises(ValueError, match="expected a whole number"):
        _whole(value)
    with pytest.raises(ValueError, match="expected a whole number, got 0"):
        _whole(0, 1)


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


def test_a_checkpoint_of_another_scenario_is_refused(whole: Path) -> None:
    read = Checkpoint.open(whole)
    with pytest.raises(ScenarioError, match="the checkpoint and this scenario have different"):
        simulate(load_scenario("valves"), start=read)
    with pytest.raises(CheckpointError, match=r"is at 0\.300000000 s, but the run ends at 0\.2"):
        simulate(load_scenario("unstable"), start=read, until=0.2)
    with pytest.raises(
        CheckpointError, match=r"names the tag 0.400.* but it contains the state at 0.300"
    ):
        replace(read, ns=400_000_000).restore(load_scenario("unstable").build(compile=False))


MS = 1_000_000


def at(ms: int, seed: int = 0) -> Checkpoint:
    return Checkpoint(ms * MS, {"seed": seed}, {})


class Run:
    """Stands between two tags; saving takes no time, and there is no clock to wait for."""

    left: int | None = None

    def save(self) -> dict[str, Any]:
        return {}

    def position(self) -> tuple[dict[str, int], int]:
        return {"p": 3}, 2

    def in_hand(self) -> int | None:
        return self.left


def begun(taking: CheckpointSchedule, ns: int = 0, until_ns: int = 10**12) -> CheckpointSchedule:
    taking.begin(Run(), {"seed": 1}, ns, until_ns, lambda: 0)
    return taking


# -- a ring


def kept(ring: Ring) -> list[int]:
    return [c.ns // MS for c in ring._kept]


@pytest.mark.parametrize(
    ("back_to", "left"), [(35, [10, 20, 30]), (30, [10, 20, 30]), (29, [10, 20]), (0, [])]
)
def test_checkpoints_ahead_are_forgotten(back_to: int, left: list[int]) -> None:
    ring = Ring(1)
    for ms in (10, 20, 30, 40):
        ring.keep(at(ms))
    ring.forget_after(back_to * MS)
    assert kept(ring) == left
    assert len(ring) == len(left)


def test_one_that_is_kept_at_the_same_time_takes_the_place_of_the_other() -> None:
    ring = Ring(1)
    for ms, seed in ((10, 0), (20, 0), (20, 1)):
        ring.keep(at(ms, seed))
    assert kept(ring) == [10, 20]
    assert ring.before(20 * MS) == at(20, 1)
    assert ring.before(19 * MS + 999_999) == at(10)
    assert ring.before(10 * MS - 1) is None


@pytest.mark.parametrize(("newest", "left"), [(29, [10, 20, 29]), (30, [20, 30]), (31, [20, 31])])
def test_the_oldest_goes_when_the_next_one_is_old_enough(newest: int, left: list[int]) -> None:
    ring = Ring("0.010")
    for ms in (10, 20, newest):
        ring.keep(at(ms))
    assert kept(ring) == left


# -- files


def test_the_latest_of_those_that_wait_and_those_on_the_disk(tmp_path: Path) -> None:
    files = Files(tmp_path / "run.mcap")
    for ms in (10, 20):
        files.keep(at(ms))
    files.finish()
    for ms in (20, 30, 40):
        files.keep(at(ms, seed=5))

    def found(after: int, ms: int) -> tuple[int, int] | None:
        one = files.between(after * MS, ms * MS)
        return None if one is None else (one.ns // MS, one.header["seed"])

    assert [found(-1, ms) for ms in (9, 10, 19, 20, 29, 30, 99)] == [
        None, (10, 0), (10, 0), (20, 5), (20, 5), (30, 5), (40, 5),
    ]  # fmt: skip
    assert [found(after, 19) for after in (9, 10, 11)] == [(10, 0), None, None]
    assert [found(after, 35) for after in (29, 30)] == [(30, 5), None]
    files.finish()
    assert found(-1, 99) == (40, 5)
    files.forget_after(30 * MS)
    assert found(-1, 99) == (30, 5)
    assert len(files.paths) == 5, "their files stay"
    assert len(beside(tmp_path / "run.mcap")) == 4


@pytest.mark.parametrize(
    ("ns", "name"),
    [
        (0, "run@0.000"), (1, "run@0.000000001"), (12_340_000_000, "run@12.340"),
        (1_000_000_010, "run@1.00000001"), (120_000_000_000, "run@120.000"),
    ],
)  # fmt: skip
def test_a_file_is_named_by_its_time(ns: int, name: str) -> None:
    assert path_beside(Path("run.mcap"), ns).name == f"{name}.checkpoint"


# -- taking


def test_the_earliest_time_that_makes_sense_is_a_nanosecond() -> None:
    assert begun(CheckpointSchedule(Ring(1), at=["1e-9"])).next_ns == 1
    assert begun(CheckpointSchedule(Ring(1), every="1e-9")).next_ns == 1
    for how in ({"at": ["0"]}, {"at": [1, -1]}, {"every": "-1e-9"}):
        with pytest.raises(ScenarioError, match="must be > 0"):
            CheckpointSchedule(Ring(1), **how)


def test_without_a_keeper_there_is_none_to_ask_and_none_to_finish() -> None:
    taking = begun(CheckpointSchedule(None))
    assert (taking.wanted, taking.next_ns, taking.taken, taking.postponed) == (
        False,
        NEVER.ns,
        0,
        0,
    )
    taking.finish()
    taking.write()
    taking.observe(5)
    with pytest.raises(CheckpointError, match="next to a recording, and this run writes no"):
        taking.ask(5)
    assert CheckpointSchedule(Ring(1), at=[1]).wanted
    assert CheckpointSchedule(Ring(1), every=1).wanted
    assert CheckpointSchedule(None, past=CheckpointHistory(1)).wanted
    assert not CheckpointSchedule(None, past=CheckpointHistory(1, if_savable=True)).wanted
    assert not CheckpointSchedule(None, past=CheckpointHistory()).wanted


def test_what_is_taken_has_the_runs_header_and_how_far_its_recording_was() -> None:
    ring = Ring(1)
    taking = begun(CheckpointSchedule(ring, at=["0.005"]))
    taking.observe(5 * MS - 1)
    assert (len(ring), taking.taken) == (0, 0)
    taking.observe(5 * MS)
    (one,) = ring._kept
    assert (one.ns, one.header, one.rows, one.events) == (5 * MS, {"seed": 1}, {"p": 3}, 2)
    assert (taking.taken, taking.next_ns) == (1, NEVER.ns)


def test_a_checkpoint_is_taken_on_request() -> None:
    ring = Ring(1)
    taking = begun(CheckpointSchedule(ring, every=1))
    taking.ask(7 * MS)
    assert taking.next_ns == 7 * MS
    taking.observe(7 * MS)
    assert (kept(ring), taking.next_ns) == ([7], 1000 * MS)


def test_no_more_than_a_run_may_write() -> None:
    class Few(Ring):
        most = 2  # type: ignore[assignment]

    taking = begun(CheckpointSchedule(Few(1), every=1), until_ns=2 * 10**9 + 999_999_999)
    with pytest.raises(
        ScenarioError, match="1 s would make more than 2 checkpoints; give a longer"
    ):
        begun(CheckpointSchedule(Few(1), every=1), until_ns=3 * 10**9)
    begun(CheckpointSchedule(Few(1), every=1), ns=10**9, until_ns=3 * 10**9)
    for ns in (1, 2):
        taking.ask(ns)
        taking.observe(ns)
    with pytest.raises(CheckpointError, match="this run has already written 2 checkpoints"):
        taking.ask(3)
    assert (Files.most, MOST_FILES) == (100_000, 100_000)


def test_a_time_up_to_the_end_can_be_asked_for() -> None:
    begun(CheckpointSchedule(Ring(1), at=["1"]), until_ns=10**9)
    with pytest.raises(ScenarioError, match=r"checkpoint time 1 s is after the end of"):
        begun(CheckpointSchedule(Ring(1), at=["1"]), until_ns=10**9 - 1)


def test_times_before_a_run_that_goes_on_are_over() -> None:
    taking = begun(CheckpointSchedule(Ring(1), at=["0.001", "0.002", "0.003"]), ns=2 * MS)
    assert taking.next_ns == 3 * MS


@pytest.mark.parametrize(("left", "postponed"), [(19, 1), (20, 0), (21, 0)])
def test_a_regular_one_waits_where_there_is_less_than_twice_its_cost(
    left: int, postponed: int
) -> None:
    ring, run, ticks = Ring(1), Run(), itertools.count(0, 10)
    taking = CheckpointSchedule(ring, every="0.001")
    taking.begin(run, {}, 0, 10**12, lambda: next(ticks))
    run.left = 10**9
    taking.observe(MS)
    run.left = left
    taking.observe(2 * MS)
    assert taking.postponed == postponed
    assert kept(ring) == ([1] if postponed else [1, 2])


def test_a_file_is_written_at_once_only_where_nobody_waits_for_a_clock(tmp_path: Path) -> None:
    files, run = Files(tmp_path / "run.mcap"), Run()
    taking = CheckpointSchedule(files, at=["0.001", "0.002"])
    taking.begin(run, {}, 0, 10**12, lambda: 0)
    run.left = 10**9
    taking.observe(MS)
    assert files.paths == []
    run.left = None
    taking.observe(2 * MS)
    assert len(files.paths) == 2


# -- the past


def test_the_past_is_what_is_latest_of_all_that_was_kept(tmp_path: Path) -> None:
    past = CheckpointHistory(1, start=at(5))
    files = Files(tmp_path / "run.mcap")
    past.add(files)
    assert past.before(4 * MS) is None
    assert past.before(5 * MS) == at(5)
    past.keep(at(10))
    files.keep(at(12))
    assert [one and one.ns // MS for one in map(past.before, (9 * MS, 11 * MS, 99 * MS))] == [
        5, 10, 12,
    ]  # fmt: skip
    past.keep(at(20))
    assert past.before(99 * MS) == at(20)
    past.begin(10 * MS)
    assert past.before(99 * MS) == at(12), "what waits to be written is kept still"


@pytest.mark.parametrize(("seconds", "every_ms"), [(1, 100), (10, 100), (10.1, 101), (100, 1000)])
def test_a_ring_takes_a_hundred_and_none_closer_than_a_tenth_of_a_second(
    seconds: float, every_ms: int
) -> None:
    assert CheckpointHistory(seconds).every_ns == every_ms * MS
    assert CheckpointHistory().every_ns is None
    for wrong in (0, -1):
        with pytest.raises(ScenarioError, match=f"rewind span {wrong} s must be > 0"):
            CheckpointHistory(wrong)


def test_the_beginning_is_kept_where_it_is_asked_for() -> None:
    past = CheckpointHistory(first=True)
    lacking = [past.lacks_first]
    for ms in (3, 9):
        past.keep(at(ms))
        lacking.append(past.lacks_first)
    assert lacking == [True, False, False]
    assert past.before(99 * MS) == at(3)
    assert not CheckpointHistory(first=True, start=at(1)).lacks_first
    assert not CheckpointHistory().lacks_first
    ring = begun(CheckpointSchedule(None, past=CheckpointHistory(1, first=True)), ns=7)
    assert ring.next_ns == 7
    assert begun(CheckpointSchedule(None, past=CheckpointHistory(1)), ns=7).next_ns == 100 * MS


NAMES = sorted([*BUILT_IN, *OWN])
FEW = [name for name in NAMES if name not in SOLVED] + ["ball-abm4", "ball-lsoda", "orbit-dp54"]
"""A solver of each kind: the others are flown in full."""


def split(names: list[str], folder: Path, count: int) -> None:
    """Restored in a new process, each of them; what came before and after is the whole."""
    expected = {}
    for name in names:
        (folder / name).mkdir()
        whole = cut(name, split_tags(name, folder / name, count), folder / name)
        paths = sorted((folder / name).glob(f"*{SUFFIX}"))
        assert len(paths) > count // 4  # two times may have the same next tag
        expected[name] = {path.name: rest(whole, path) for path in paths}
        assert len(set(expected[name].values())) == len(paths)
    assert gone_on_elsewhere(folder, names) == expected


@pytest.mark.long
@pytest.mark.rule("saved-as-a-whole")
def test_a_run_that_was_cut_is_the_whole_run(tmp_path: Path) -> None:
    split(FEW, tmp_path, 2)


@pytest.mark.full
@pytest.mark.parametrize("name", NAMES)
def test_wherever_it_is_cut(name: str, tmp_path: Path) -> None:
    split([name], tmp_path, 200)


def test_what_is_cut_has_messages_requests_and_noise_under_way(tmp_path: Path) -> None:
    """The scenario of this file is what it is said to be."""
    cut("noisy", split_tags("noisy", tmp_path, 40), tmp_path)
    states = [Checkpoint.open(path).state for path in tmp_path.glob(f"*{SUFFIX}")]
    assert any(len(state["bus"]["flight"]) > 2 for state in states)
    assert any(state["tasks"]["c"]["request"] for state in states)
    assert any(state["tasks"]["c"]["counts"][1] for state in states)
    assert any(plant["ns"] < state["ns"] for state in states for plant in state["plants"].values())
    assert {"noise/gust", "transport/s", "compute/c"} <= set(states[0]["streams"]["streams"])


def test_counts_continue_from_the_checkpoint(tmp_path: Path) -> None:
    """Of a run that was cut, the footer says what the footer of the whole one says."""
    whole = cut("noisy", split_tags("noisy", tmp_path, 6), tmp_path)
    assert whole.footer is not None
    at_cut = set()
    for path in tmp_path.glob(f"*{SUFFIX}"):
        recorder = MemoryRecorder()
        start = Checkpoint.open(path)
        simulate(scenario("noisy", tmp_path), seed=99, recorder=recorder, start=start)
        footer = recorder.recording().footer
        assert footer is not None
        for what in ("late", "missed", "ended", "reason", "error"):
            assert footer[what] == whole.footer[what], what
        at_cut.add(start.state["tasks"]["c"]["counts"][1])
    assert max(at_cut) > 0
    assert whole.footer["missed"] > max(at_cut), "some are missed before the cut, some behind it"


def test_each_count_of_a_controller_is_restored_as_itself() -> None:
    tasks = [simulate(load_scenario("unstable"), until=1).system.controllers[0] for _ in range(2)]
    tasks[0].lates, tasks[0].missed = 3, 5
    tasks[1].restore(json.loads(json.dumps(tasks[0].save())))
    assert (tasks[1].lates, tasks[1].missed) == (3, 5)
    assert tasks[1].save() == tasks[0].save()


def _less(saved: Any, *path: str) -> None:
    """Leave out what stands there: nothing, or noughts where something has to stand."""
    for key in path[:-1]:
        saved = saved[key]
    was = saved[path[-1]]
    saved[path[-1]] = dict.fromkeys(was, 0) if path[-1] == "sequence" else type(was)()


BROKEN = {
    "streams": ("streams", "streams"),
    "messages": ("bus", "flight"),
    "sequence": ("bus", "sequence"),
    "memory": ("tasks", "c", "controller"),
    "changes": ("next_change",),
    "values": ("ports", "gust"),
    "plant": ("plants", "fast", "values"),
}
MISFITS = ("memory", "values", "plant")
"""Without these a system is refused; without the others it would run, otherwise."""


@pytest.mark.sample(3)
@pytest.mark.parametrize("part", BROKEN)
def test_a_part_left_out_of_a_checkpoint_changes_the_run(part: str, tmp_path: Path) -> None:
    """The check above can fail: once for each part of what is saved."""
    whole = cut("noisy", split_tags("noisy", tmp_path, 4), tmp_path)
    expected = {path.name: rest(whole, path) for path in sorted(tmp_path.glob(f"*{SUFFIX}"))}
    for path in tmp_path.glob(f"*{SUFFIX}"):
        broken = Checkpoint.open(path)
        _less(broken.state, *BROKEN[part])
        broken.__dict__.pop("digest")
        broken.save(path)
    if part in MISFITS:
        with pytest.raises(RtsimError, match="does not fit this scenario"):
            gone_on(tmp_path, "noisy")
    else:
        assert gone_on(tmp_path, "noisy") != expected


def test_c_that_was_built_otherwise_is_not_gone_on_with(tmp_path: Path) -> None:
    cut("worker", ["1.5"], tmp_path)
    source = tmp_path / "law.c"
    source.write_text(source.read_text().replace("0.5 * x", "0.5000001 * x"))
    with pytest.raises(ControllerError, match="law cannot be restored: its 16 steps were repeated"):
        gone_on(tmp_path, "worker")
