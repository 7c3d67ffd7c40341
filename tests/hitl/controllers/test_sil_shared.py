"""The link to a worker over shared memory: who can open it, what overwrites it, what is left."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import mmap
import os
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from sil_parts import FAULTS, built, flown, loop, nothing_left

from hitl.building.build import Build
from hitl.controllers.sil import SilController
from hitl.worker.ending import Died
from hitl.worker.link import SHM, ZMQ, SharedLink, chosen_link
from hitl.worker.messages import WorkerMessageKind
from hitl.worker.process import Worker
from rtsim.cli import main
from rtsim.core.clock import stopwatch
from rtsim.core.errors import ControllerError, ScenarioError, UnknownName
from rtsim.core.tag import NS_PER_S, Tag
from rtsim.record.reading import Recording
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.request import Pace, RunRequest
from rtsim.runs.simulation import pacer_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="shared memory is Linux")
MOST = 1024
LOOK_NS = NS_PER_S // 2
"""Time between two looks of a worker after its parent (LOOK_AFTER_PARENT_MS of worker.c)."""
TO_WORKER, TO_RUNTIME = 64, 256
"""Where a queue begins: the count of written messages, and 64 bytes later that of read ones."""
SLOTS = {TO_WORKER: 448, TO_RUNTIME: 448 + 8 * (64 + MOST)}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Build:
    return built(tmp_path_factory)


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    """Neither a mapping nor a descriptor of a segment is left."""
    with nothing_left():
        yield
    assert "rtsim-link" not in Path("/proc/self/maps").read_text()
    assert not [d for d in descriptors(os.getpid()) if "rtsim-link" in d]


def descriptors(pid: int) -> list[str]:
    found = []
    for entry in os.scandir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(entry.path))
    return found


def overwrite(link: SharedLink, at: int, value: int) -> None:
    """Put ``value`` into the segment at ``at``, as a wild pointer of the C code could."""
    base = ctypes.c_void_p.from_address(link.end.value or 0).value or 0
    ctypes.c_uint32.from_address(base + at).value = value


def worker_of(plain: Build) -> Worker:
    return Worker(plain.interface, [plain.program], shared=plain.link)


def open_line(worker: Worker) -> SharedLink:
    assert isinstance(worker.link, SharedLink)
    return worker.link


@pytest.mark.sample(2)
@pytest.mark.parametrize("fault", FAULTS[:5])
def test_both_links_give_the_same_rows_and_errors(fault: str, plain: Build, tmp_path: Path) -> None:
    found = []
    for link in (SHM, ZMQ):
        path = tmp_path / f"{link}.mcap"
        controller = SilController(plain, cases=None, link=link)
        recording, error = flown(loop(controller, fault, failure="hold"), path)
        assert error is None
        assert recording.header["scenario"]["parts"]["c"]["link"] == link
        found.append(recording)
    assert compare_exact(*found) is None
    kinds = [[(e.tag, e.kind) for e in r.events] for r in found]
    assert kinds[0] == kinds[1]


def test_the_default_and_what_is_impossible(plain: Build, tmp_path: Path) -> None:
    assert SilController(plain).link == SHM
    assert SilController(plain, command=[plain.program]).link == ZMQ
    served = SilController(plain.interface, endpoint="tcp://127.0.0.1:9")
    assert served.link == ZMQ
    with pytest.raises(ScenarioError, match="cannot share memory with this process; use --link"):
        SilController(plain.interface, endpoint="tcp://127.0.0.1:9", link=SHM)
    with pytest.raises(ScenarioError, match="needs Linux, and a worker that was built"):
        chosen_link(SHM, tmp_path / "none.so", ours=True, served=False)
    assert chosen_link(None, tmp_path / "none.so", ours=True, served=False) == ZMQ
    with pytest.raises(UnknownName, match="pipe"):
        SilController(plain, link="pipe")


def test_only_the_worker_can_open_it(plain: Build) -> None:
    """The memory has no name, other children do not inherit it, and its size is sealed."""
    link = SharedLink(plain.link, MOST)
    listed = subprocess.run(["ls", "-l", "/proc/self/fd"], capture_output=True, text=True).stdout
    assert "rtsim-link" not in listed
    assert not [p for p in Path("/dev/shm").iterdir() if "rtsim-link" in p.name]
    with pytest.raises(PermissionError):
        os.ftruncate(link.descriptor, 0)
    with pytest.raises(PermissionError):
        fcntl.fcntl(link.descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
    link.close()
    link.close()


def test_nothing_is_left_of_a_worker_that_was_not_closed(plain: Build) -> None:
    worker = worker_of(plain)
    assert sum("rtsim-link" in d for d in descriptors(os.getpid())) == 0, "hidden after HELLO"
    assert sum("rtsim-link" in d for d in descriptors(worker.pid)) == 0
    del worker


def test_killed_while_it_waits_and_while_it_is_waited_for(plain: Build) -> None:
    worker = worker_of(plain)
    os.kill(worker.pid, signal.SIGKILL)
    with pytest.raises(Died, match="was ended by SIGKILL"):
        worker.receive(stopwatch() + 10 * NS_PER_S)
    worker.close()
    controller = SilController(plain, cases=None).fresh()
    controller.send(Tag(0), np.array([FAULTS.index("endless"), 0.0]))
    assert controller.receive(Tag(0), 0.05) is None
    os.kill(controller.pid, signal.SIGKILL)
    with pytest.raises(ControllerError, match="was ended by SIGKILL"):
        controller.receive(Tag(0), 10.0)
    controller.close()


@pytest.mark.parametrize("link", [SHM, ZMQ])
def test_times_and_wrong_sizes_of_a_step(link: str, plain: Build) -> None:
    controller = SilController(plain, cases=None, link=link).fresh()
    for k in range(1, 4):
        controller.send(Tag(k), np.zeros(2))
        assert controller.receive(Tag(k), 10.0) == [float(k)]
        stamps = controller.stamps()
        assert list(stamps) == sorted(stamps)
        assert controller.took_ns[k - 1] == stamps[2] - stamps[1]
        assert stopwatch() - NS_PER_S < stamps[0]
    assert len(controller.took_ns) == 3
    controller.send(Tag(4), np.zeros(1))
    with pytest.raises(ControllerError, match="was sent a wrong number of values"):
        controller.receive(Tag(4), 10.0)
    controller.close()


def test_a_warm_up_changes_neither_the_controller_nor_its_worker(plain: Build) -> None:
    """The C code answers the number of its steps, so a step too many would be seen."""
    found = []
    for warm_ups in (0, 3):
        controller = SilController(plain, cases=None).fresh()
        warm_up = controller.warm_up()
        assert warm_up is not None
        for k in range(1, 1100):  # more steps than one block of the log has
            for _ in range(warm_ups if k % 100 == 1 else 0):
                assert warm_up()
            controller.send(Tag(k), np.zeros(2))
            assert controller.receive(Tag(k), 10.0) == [float(k)]
        saved = controller.save()
        found.append((controller.stamps()[0] > 0, len(controller.took_ns), str(saved)))
        controller.close()
    assert found[0] == found[1]


def test_a_sleeping_worker_that_was_announced_a_message_spins_for_it(plain: Build) -> None:
    """An announcement is no message: without one the worker sleeps again, and still answers."""
    controller = SilController(plain, cases=None).fresh()
    warm_up = controller.warm_up()
    assert warm_up is not None
    controller.send(Tag(1), np.zeros(2))
    assert controller.receive(Tag(1), 10.0) == [1.0]
    began = stopwatch()
    for _ in range(20):
        _until_it_sleeps(controller.pid)
        before = _switches(controller.pid)
        warm_up()
        while _switches(controller.pid) == before:
            assert stopwatch() - began < 30 * NS_PER_S
    took_ns = stopwatch() - began
    assert took_ns < 10 * LOOK_NS, "it wakes up by itself only every LOOK_NS, 20 times in all"
    _until_it_sleeps(controller.pid)
    controller.send(Tag(2), np.zeros(2))
    assert controller.receive(Tag(2), 10.0) == [2.0]
    controller.close()


def _switches(pid: int) -> int:
    """How often the process has gone to sleep."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(x.split()[1]) for x in lines if x.startswith("voluntary_ctxt_switches"))


def _until_it_sleeps(pid: int) -> None:
    until = stopwatch() + 10 * NS_PER_S
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "S":
        assert stopwatch() < until


def test_a_paced_run_warms_up_its_worker_over_shared_memory_only(plain: Build) -> None:
    scenario = loop(SilController(plain, cases=None), "none")
    for link, paced, wanted in ((SHM, True, 1), (ZMQ, True, 0), (SHM, False, 0)):
        scenario.replace_controller("c", SilController(plain, cases=None, link=link), latency=1e-3)
        system = scenario.build(0)
        pace = Pace(1.0) if paced else Pace()
        pacer = pacer_of(RunRequest(scenario, 0, pace, 1.0), system)
        assert len(pacer.warm_ups) == wanted
        system.close()


def test_a_warm_up_after_the_controller_was_closed_does_nothing(plain: Build) -> None:
    """A run whose policy for failures is "hold" goes on with a closed controller."""
    controller = SilController(plain, cases=None).fresh()
    worker = controller._worker
    assert worker is not None
    link, warm_up = worker.link, controller.warm_up()
    assert warm_up is not None
    assert warm_up()
    controller.close()
    assert not warm_up()
    assert isinstance(link, SharedLink)
    link.announce()
    assert link.lost()
    assert not link.send(b"late")
    assert link.receive(stopwatch() + NS_PER_S) is None


@pytest.mark.parametrize("written", [9, 2**31, 2**32 - 9])
def test_an_impossible_count_is_reported(written: int, plain: Build) -> None:
    worker = worker_of(plain)
    overwrite(open_line(worker), TO_RUNTIME, 1 + written if written == 9 else written)
    with pytest.raises(ControllerError, match="was overwritten: a counter or a length in it"):
        worker.receive(stopwatch() + NS_PER_S)
    overwrite(open_line(worker), TO_WORKER + 64, written)
    with pytest.raises(ControllerError, match="was overwritten"):
        worker.send(WorkerMessageKind.START, 0, Tag(0), np.zeros(2))
    worker.close()


@pytest.mark.parametrize("size", [MOST + 1, 2**31, 2**32 - 1])
def test_an_impossible_length_is_reported(size: int, plain: Build) -> None:
    worker = worker_of(plain)
    overwrite(open_line(worker), SLOTS[TO_RUNTIME] + 64 + MOST, size)  # HELLO is in the slot before
    overwrite(open_line(worker), TO_RUNTIME, 2)
    with pytest.raises(ControllerError, match="was overwritten"):
        worker.receive(stopwatch() + NS_PER_S)
    worker.close()


def test_a_worker_says_that_its_link_was_overwritten(plain: Build) -> None:
    worker = worker_of(plain)
    overwrite(open_line(worker), SLOTS[TO_WORKER], MOST + 1)
    overwrite(open_line(worker), TO_WORKER, 1)  # nobody wakes it: it looks twice a second
    with pytest.raises(
        Died, match=r"exit status 1.*\n.*memory of the link was overwritten"
    ) as died:
        worker.receive(stopwatch() + 10 * NS_PER_S)
    assert died.value.ending.code == 1
    worker.close()


def test_a_message_that_is_too_long_is_not_sent(plain: Build) -> None:
    link = SharedLink(plain.link, MOST)
    assert link.send(bytes(MOST))
    with pytest.raises(ControllerError, match="a message has 1025 bytes, and the link takes 1024"):
        link.send(bytes(MOST + 1))
    assert [link.send(b"x") for _ in range(8)] == [True] * 7 + [False], "eight messages in transit"
    link.close()


@pytest.mark.parametrize("at", [0, 4, 8, 12], ids=["magic", "version", "slots", "size"])
def test_a_worker_refuses_another_segment(at: int, plain: Build) -> None:
    link = SharedLink(plain.link, MOST)
    with mmap.mmap(link.descriptor, 0) as memory:
        (value,) = struct.unpack_from("<I", memory, at)
        struct.pack_into("<I", memory, at, value + 1)
    done = subprocess.run(
        [plain.program, link.endpoint, ""], pass_fds=[link.descriptor], capture_output=True,
        text=True, env={**os.environ, "RTSIM_PARENT": str(os.getpid())},
    )  # fmt: skip
    assert done.returncode == 1
    assert "is not a segment of this version" in done.stderr
    link.close()


def test_the_command_line_chooses_it(tmp_path: Path) -> None:
    folder = tmp_path / "motor"
    assert CliRunner().invoke(main, ["sil", "init", str(folder)]).exit_code == 0
    scenario, path = str(folder / "scenario.py"), tmp_path / "run.mcap"
    more = ["-c", str(folder / "motor.toml"), "--until", "0.1"]
    for link in (SHM, ZMQ):
        given = [*more, "--link", link, "-o", str(path), "--force", "--json"]
        done = CliRunner().invoke(main, ["sil", "run", scenario, *given])
        assert done.exit_code == 0, done.output
        assert json.loads(done.output)["controllers"]["controller"]["steps"] == 11
        parts = Recording.open(path).header["scenario"]["parts"]
        assert parts["controller"]["link"] == link


def test_a_system_without_shared_memory_is_named(
    plain: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(name: str, flags: int) -> int:
        raise OSError(1, "Operation not permitted", name, flags)

    monkeypatch.setattr(os, "memfd_create", refused)
    with pytest.raises(ControllerError, match="Operation not permitted; use --link zmq"):
        SilController(plain, cases=None).fresh()
