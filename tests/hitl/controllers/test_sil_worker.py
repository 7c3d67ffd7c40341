"""Workers that break the protocol (fake ones), and ones that are sent what is none (real)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from fake_worker import GARBAGE
from sil_parts import (
    FAULT_MS,
    MS,
    alive,
    built,
    fake,
    faulty_interface,
    flown,
    kinds,
    loop,
    nothing_left,
)  # fmt: skip

from hitl.building.build import LINK, Build
from hitl.controllers.sil import SilController
from hitl.interface import Interface
from hitl.worker import process as worker_module
from hitl.worker.link import SHM, ZMQ
from hitl.worker.messages import HEADER_BYTES, OF_ANOTHER_SIZE, WorkerMessage, WorkerMessageKind
from hitl.worker.process import NOWHEN, Worker
from rtsim.core.clock import stopwatch
from rtsim.core.errors import ControllerError
from rtsim.core.tag import NS_PER_S, Tag

AT = FAULT_MS * MS


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Build:
    return built(tmp_path_factory)


pytestmark = pytest.mark.usefixtures("each_link")


@pytest.fixture(autouse=True)
def library(plain: Build, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The library of the link over shared memory, also for the worker that is a Python program."""
    monkeypatch.setenv("FAKE_WORKER_LINK", str(plain.link))
    monkeypatch.setattr(Build, "link", property(lambda _: plain.folder / LINK))
    return plain.folder / LINK


@pytest.fixture(scope="module")
def interface(tmp_path_factory: pytest.TempPathFactory) -> Interface:
    return faulty_interface(tmp_path_factory.mktemp("fake"))


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    with nothing_left():
        yield


def pretender(
    behaviour: str, interface: Interface, cases: Path, silence: float = 10.0
) -> SilController:
    """A controller whose worker is the Python program."""
    build = Build(interface, "plain", cases, "")
    command = fake(behaviour, interface)
    return SilController(build, cases=cases, silence=silence, command=command)


def test_the_fake_one_keeps_the_protocol(interface: Interface, tmp_path: Path) -> None:
    recording, error = flown(loop(pretender("none", interface, tmp_path)))
    assert error is None
    assert recording.messages["c"]["y"].tolist() == list(range(1, 12))


LIES = {
    "another step": "faulty answered step 6 (0.040000000 s); expected step 5 (0.040000000 s)",
    "an old step": "faulty answered step 4 (0.030000000 s) again; expected step 5 (0.040000000 s)",
    "another tag": "faulty answered step 5 (0.040000001 s); expected step 5 (0.040000000 s)",
    "no values": "faulty answered 0 values; expected 1",
    "nan": "c answered nan for y",
    "inf": "c answered -inf for y",
    "ready": "faulty sent the message READY; expected an answer",
    "ready with values": "faulty sent the message READY; expected an answer",
    "killed": "was ended by SIGKILL",
    "unplugged": "has closed its link, but its process still runs",
}


@pytest.mark.sample(8)
@pytest.mark.parametrize("behaviour", LIES)
def test_a_lie_is_told(behaviour: str, interface: Interface, tmp_path: Path) -> None:
    _, error = flown(loop(pretender(behaviour, interface, tmp_path)))
    first, inputs, again = str(error).splitlines()
    assert first.startswith("faulty failed at 0.040000000 s: ")
    assert LIES[behaviour] in first
    assert inputs == "inputs: fault=0, x=0.25"
    assert again == f"again: rtsim sil case {tmp_path}/faulty-{AT}-plain.npz"
    recording, error = flown(loop(pretender(behaviour, interface, tmp_path), failure="hold"))
    assert error is None
    assert kinds(recording) == ["Change", "Failed", *["Missed"] * 6]


@pytest.mark.parametrize("behaviour", ["twice", "unplugged after its answer"])
def test_what_shows_at_the_next_step(behaviour: str, interface: Interface, tmp_path: Path) -> None:
    recording, error = flown(loop(pretender(behaviour, interface, tmp_path)))
    wanted = {
        "twice": "faulty answered step 5 (0.040000000 s) again; expected step 6 (0.050000000 s)",
        "unplugged after its answer": "has closed its link, but its process still runs",
    }
    assert str(error).startswith("faulty failed at 0.050000000 s: ")
    assert wanted[behaviour] in str(error)
    assert len(recording.track("messages/c").rows.ns) == 5


@pytest.mark.parametrize("what", GARBAGE)
def test_garbage_before_the_answer_is_counted(
    what: str, interface: Interface, tmp_path: Path
) -> None:
    controller = pretender(f"{what}, then right", interface, tmp_path).fresh()
    for step in range(1, 8):
        controller.send(Tag(step), np.zeros(2))
        answer = controller.receive(Tag(step), 10.0)
        while answer is None:
            answer = controller.receive(Tag(step), 10.0)
        assert answer.tolist() == [step]
    assert controller.garbage == 1
    controller.close()


@pytest.mark.parametrize(
    "what",
    ["random bytes", "too many values", "cut short", "with more behind", "silent", "floods"],
)
def test_silence_is_told(what: str, interface: Interface, tmp_path: Path) -> None:
    controller = pretender(what, interface, tmp_path, silence=0.05)
    _, error = flown(loop(controller))
    first = str(error).splitlines()[0]
    assert "faulty did not answer within 0.05 s" in first
    assert ("malformed messages" in first) == (what != "silent")


@pytest.mark.parametrize(
    ("behaviour", "wanted"),
    [
        ("never says HELLO", r"did not send HELLO within 0\.3 s"),
        ("garbage first", r"did not send HELLO first \(it has 12 bytes, a header has 64\)"),
        ("READY first", r"did not send HELLO first \(READY\)"),
        ("wrong schema", r"was built from another interface \(schema .*; build the worker again"),
    ],
)
def test_a_bad_start(behaviour: str, wanted: str, interface: Interface, tmp_path: Path) -> None:
    patience = 0.3 if behaviour == "never says HELLO" else 20.0
    build = Build(interface, "plain", tmp_path, "")
    command = fake(behaviour, interface)
    controller = SilController(build, command=command, patience=patience)
    with pytest.raises(ControllerError, match=wanted):
        controller.fresh()


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        ("/no/such/worker", "cannot start the worker /no/such/worker: No such file or directory"),
        ("/bin/false", "the worker of faulty .* ended with exit status 1"),
    ],
)
def test_no_worker(command: str, wanted: str, interface: Interface, tmp_path: Path) -> None:
    controller = SilController(Build(interface, "plain", tmp_path, ""), command=[command])
    with pytest.raises(ControllerError, match=wanted):
        controller.fresh()


def test_no_room_for_a_socket(
    interface: Interface, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("long" * 30)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    made = Build(interface, "plain", tmp_path, "")
    controller = SilController(made, command=["/bin/true"], link=ZMQ)
    with pytest.raises(ControllerError, match="set TMPDIR to another folder with a short path"):
        controller.fresh()
    assert not list(long.iterdir())


def test_one_that_ignores_stop(
    interface: Interface, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "END_S", 0.05)
    controller = pretender("ignores STOP", interface, tmp_path).fresh()
    pid = controller.pid
    with pytest.raises(ControllerError, match="did not end on request and was killed"):
        controller.close()
    assert not alive(pid)


# -- a real worker that is sent what is no message ------------------------------------------------


def asked(worker: Worker, sequence: int, values: int = 2) -> WorkerMessage:
    """The worker's answer to a step."""
    worker.send(WorkerMessageKind.STEP, sequence, Tag(sequence), np.zeros(values))
    heard = worker.receive(stopwatch() + 10 * NS_PER_S)
    assert isinstance(heard, WorkerMessage)
    return heard


def started(plain: Build, link: str) -> Worker:
    worker = Worker(plain.interface, [plain.program], shared=plain.link if link == SHM else None)
    worker.send(WorkerMessageKind.STEP, 1, Tag(1), np.zeros(2))  # not initialised: nobody answers
    worker.send(WorkerMessageKind.START, 0, NOWHEN, np.zeros(2))
    heard = worker.receive(stopwatch() + 10 * NS_PER_S)
    assert isinstance(heard, WorkerMessage)
    assert heard.kind is WorkerMessageKind.READY
    return worker


def test_a_worker_survives_garbage(plain: Build, each_link: str) -> None:
    worker = started(plain, each_link)
    for data in GARBAGE.values():
        worker.link.send(data)
    assert asked(worker, 1).values.tolist() == [1.0]
    assert worker.stop().code == 0
    worker.close()


def test_a_worker_survives_random_bytes(plain: Build, each_link: str) -> None:
    """Whole messages of noise, and right ones with a byte changed; statuses may come back."""
    dice = np.random.default_rng(7)
    worker = started(plain, each_link)
    for _ in range(2000):
        data = bytearray(worker._speaker.message(WorkerMessageKind.STEP, 3, Tag(3), np.zeros(2)))
        if dice.integers(0, 2):
            data = bytearray(dice.bytes(int(dice.integers(0, 300))))
        else:
            at = int(dice.choice([0, 3, 4, 8, 12, 13, 15, 16, 30, 50]))  # not the kind, nor values
            data[at] ^= int(dice.integers(1, 256))
        while not worker.link.send(bytes(data)):
            worker.receive(stopwatch() + NS_PER_S)
        worker.receive(0)
    heard: object = None
    while not worker.send(WorkerMessageKind.STEP, 9999, Tag(9999), np.zeros(2)):
        worker.receive(stopwatch() + NS_PER_S)  # the queue is full: a slow worker still reads noise
    while not (isinstance(heard, WorkerMessage) and heard.sequence == 9999):
        heard = worker.receive(stopwatch() + 10 * NS_PER_S)
        assert heard is not None
    assert heard.status == 0
    assert worker.stop().code == 0
    worker.close()


@pytest.mark.parametrize("at", [0, 4], ids=["magic", "version"])
def test_a_step_in_another_protocol_is_none(at: int, plain: Build, each_link: str) -> None:
    worker = started(plain, each_link)
    data = bytearray(worker._speaker.message(WorkerMessageKind.STEP, 1, Tag(1), np.zeros(2)))
    data[at] += 1
    worker.link.send(bytes(data))
    assert asked(worker, 2).values.tolist() == [1.0], "the first step"
    assert worker.stop().code == 0
    worker.close()


@pytest.mark.parametrize("count", [0, 1])
def test_values_of_another_number_are_refused(count: int, plain: Build, each_link: str) -> None:
    worker = started(plain, each_link)
    assert asked(worker, 1, count).status == OF_ANOTHER_SIZE
    assert asked(worker, 2).values.tolist() == [1.0], "that was no step"
    assert worker.stop().code == 0
    worker.close()


def test_a_message_that_is_far_too_long_ends_the_worker_cleanly(plain: Build) -> None:
    worker = started(plain, ZMQ)
    worker.link.send(bytes((1 << 20) + HEADER_BYTES))
    with pytest.raises(ControllerError, match=r"closed its link|ended"):
        worker.receive(stopwatch() + 10 * NS_PER_S)
    worker.close()
