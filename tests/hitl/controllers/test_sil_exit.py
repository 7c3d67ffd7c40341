"""C that calls exit(): a named error with its status, wherever it runs and whatever was due.

Messages between the runtime and a worker: round trips, and bytes that are none.
"""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import fake_worker
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hitl.building.build import Build, build
from hitl.controllers.in_process import InProcess
from hitl.controllers.sil import SilController
from hitl.worker.messages import (
    HEADER_BYTES,
    MAGIC,
    MalformedMessage,
    MessageWriter,
    WorkerMessage,
    WorkerMessageKind,
    parse,
    text_message,
)
from hitl.worker.process import Worker
from hitl.worker.remote import Server
from rtsim.core.errors import ControllerError
from rtsim.core.tag import Tag

SOURCE = """\
#include <stdlib.h>
#include <unistd.h>
#include "c.h"
int from, how;
static int steps;
static void end(void)
{
    if (how == 1) exit(0);
    if (how == 2) exit(7);
    if (how == 3) _exit(0);
}
void c_initialize(void) { if (from == 1) end(); }
double c_step(double x) { if (++steps == 3 && from == 2) end(); return x; }
void c_terminate(void) { if (from == 3) end(); }
"""
HEADER = """\
extern int from, how;
void c_initialize(void);
double c_step(double x);
void c_terminate(void);
"""
INTERFACE = """\
name = "c"
period = "1/100"
sources = ["c.c"]
headers = ["c.h"]
[code]
initialize = "c_initialize()"
step = "y = c_step(x)"
terminate = "c_terminate()"
parameters = "before initialize"
[inputs]
x = {}
[outputs]
y = {}
[parameters]
from = { c = "from", type = "int32" }
how = { c = "how", type = "int32" }
"""
WHERE = {"initialize": 1, "step": 2, "terminate": 3}
HOW = {"exit(0)": 1, "exit(7)": 2, "_exit(0)": 3}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Build:
    folder = tmp_path_factory.mktemp("exit")
    for name, text in (("c.c", SOURCE), ("c.h", HEADER), ("c.toml", INTERFACE)):
        (folder / name).write_text(text)
    return build(folder / "c.toml")


def run(controller: SilController | InProcess) -> None:
    """Five steps, from its start to its end."""
    running = controller.fresh()
    try:
        for k in range(5):
            running.send(Tag(k * 10_000_000), np.zeros(1))
            assert running.receive(Tag(k * 10_000_000), 10.0) is not None
    finally:
        running.close()


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("how", HOW)
def test_a_worker_that_exits_is_a_named_error(
    where: str, how: str, made: Build, tmp_path: Path
) -> None:
    values = {"from": WHERE[where], "how": HOW[how]}
    with pytest.raises(ControllerError) as raised:
        run(SilController(made, values, cases=tmp_path))
    said = str(raised.value)
    assert f"ended with exit status {7 if '7' in how else 0}" in said
    assert "the worker of c (process" in said
    if how == "_exit(0)":
        assert "before it had finished: check whether the C calls _exit()" in said
    else:
        assert f"the C called {how} in its {where}, which must return" in said
    begins = {
        "initialize": "c failed in its initialize: ",
        "step": "c failed at 0.020000000 s: ",
        "terminate": "at the end of the run, ",
    }
    assert said.startswith(begins[where])


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("where", "how"),
    [
        ("initialize", "exit(0)"),
        ("step", "exit(7)"),
        ("step", "_exit(0)"),
        ("terminate", "exit(0)"),
    ],
)
def test_in_this_process_it_ends_the_controller_alone(where: str, how: str, made: Build) -> None:
    """In a process of its own here: where it is not caught, the test would end with status 0."""
    code = (
        "import sys; sys.path[:0] = sys.argv[1].split(';')\n"
        "from test_sil_exit import InProcess, Path, run\n"
        "from rtsim.core.errors import ControllerError\n"
        "try:\n"
        "    run(InProcess(sys.argv[2], {'from': int(sys.argv[3]), 'how': int(sys.argv[4])}))\n"
        "except ControllerError as error:\n"
        "    print(error)\n"
        "print('alive')\n"
    )
    numbers = [str(WHERE[where]), str(HOW[how])]
    folders = f"{Path(__file__).parent};{Path(fake_worker.__file__).parent}"
    done = subprocess.run(
        [sys.executable, "-c", code, folders, made.interface.path, *numbers],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    begins = {"initialize": "", "step": "c failed at 0.020000000 s: "}.get(
        where, "c failed when it was terminated: "
    )
    status = 7 if "7" in how else 0
    wanted = f"{begins}c called exit({status}), but it must return\nalive\n"
    assert (done.stdout, done.returncode) == (wanted, 0), done.stderr


def test_each_of_two_in_one_process_leaves_by_itself(made: Build) -> None:
    leaving = InProcess(made, {"from": 2, "how": 1}).fresh()
    staying = InProcess(made).fresh()
    for k in range(2):
        for one in (leaving, staying):
            one.send(Tag(k), np.ones(1))
            one.receive(Tag(k), 0.0)
    with pytest.raises(ControllerError, match=r"c called exit\(0\)"):
        leaving.send(Tag(2), np.ones(1))
    staying.send(Tag(2), np.ones(1))
    assert staying.receive(Tag(2), 0.0) == [1.0]
    for one in (leaving, staying):
        one.close()


def test_a_worker_that_ends_as_it_should_is_heard_to(made: Build) -> None:
    worker = Worker(made.interface, [made.program])
    ending = worker.stop()
    worker.close()
    assert ending.ok
    run(SilController(made))
    run(InProcess(made))


def test_who_is_served_is_told(made: Build) -> None:
    """Over TCP: the server hears that its worker ended without a word."""
    from threading import Thread

    server = Server(made, "tcp://127.0.0.1:47871")
    thread = Thread(target=server.serve, args=(1,))
    thread.start()
    values = {"from": 3, "how": 1}
    with pytest.raises(ControllerError, match=r"the C called exit\(0\) in its terminate"):
        run(SilController(made.interface, values, endpoint="tcp://127.0.0.1:47871"))
    thread.join(20)
    server.close()


MOST = 16
SCHEMA = 0xFEDC_BA98_7654_3210
int64 = st.integers(-(2**63), 2**63 - 1)
uint64 = st.integers(0, 2**64 - 1)
said_by_runtime = st.sampled_from(
    [
        WorkerMessageKind.HELLO,
        WorkerMessageKind.START,
        WorkerMessageKind.STEP,
        WorkerMessageKind.STOP,
    ]
)


@given(said_by_runtime, uint64, int64, int64, st.lists(st.floats(width=64), max_size=MOST))
def test_round_trip(
    kind: WorkerMessageKind, sequence: int, ns: int, step: int, values: list[float]
) -> None:
    data = bytes(
        MessageWriter(MOST, SCHEMA).message(kind, sequence, Tag(ns, step), np.array(values))
    )
    heard = parse(data, MOST)
    assert isinstance(heard, WorkerMessage)
    assert (heard.kind, heard.sequence, heard.tag) == (kind, sequence, Tag(ns, step))
    assert (heard.schema, heard.status) == (SCHEMA, 0)
    assert heard.values.tobytes() == np.array(values, "<f8").tobytes(), "NaN payloads too"


@given(st.binary(max_size=300))
def test_noise_is_garbage(data: bytes) -> None:
    assert isinstance(parse(data, MOST), MalformedMessage) or data[:4] == MAGIC


@given(st.data(), st.integers(0, HEADER_BYTES - 1), st.integers(1, 255))
def test_a_changed_header_never_raises(data: st.DataObject, at: int, change: int) -> None:
    values = np.array(data.draw(st.lists(st.floats(), max_size=MOST)))
    good = bytearray(
        MessageWriter(MOST, SCHEMA).message(WorkerMessageKind.STEP, 1, Tag(2, 3), values)
    )
    good[at] ^= change
    heard = parse(bytes(good), MOST)
    if at < 5 or 12 <= at < 16:  # magic, version, count
        assert isinstance(heard, MalformedMessage)
    if isinstance(heard, WorkerMessage):
        assert len(heard.values) == len(values)


@given(st.integers(0, MOST), st.integers(0, HEADER_BYTES + 8 * MOST + 8))
def test_a_cut_message_is_garbage(count: int, length: int) -> None:
    good = bytes(
        MessageWriter(MOST, 0).message(WorkerMessageKind.STEP, 1, Tag(0), np.zeros(count))
    ) + bytes(8)
    whole = len(good) - 8
    heard = parse(good[:length], MOST)
    assert isinstance(heard, WorkerMessage) == (min(length, len(good)) == whole)


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("random bytes", "it begins with b'\\x07\\x08\\t\\n'"),
        ("nothing", "it has 0 bytes, a header has 64"),
        ("half a header", "it has 26 bytes, a header has 64"),
        ("huge count", "it announces 4294967295 values, at most 16 are expected"),
        ("wrong version", "it has version 9 of the protocol, expected 1"),
        ("unknown kind", "its kind 77 is not known"),
        ("too short", "0 bytes follow its header, expected 8"),
    ],
)
def test_why_it_is_garbage(what: str, why: str) -> None:
    assert parse(fake_worker.GARBAGE[what], MOST) == MalformedMessage(why)


def test_layout() -> None:
    """Little-endian, 64 bytes, packed here by hand: what hitl/building/c/worker.c sends."""
    data = fake_worker.packed(fake_worker.ANSWER, SCHEMA, (7, 20_000_000, 1), [0.5, -1.0])
    heard = parse(data, 2)
    assert isinstance(heard, WorkerMessage)
    assert (heard.kind, heard.sequence, heard.tag) == (
        WorkerMessageKind.ANSWER,
        7,
        Tag(20_000_000, 1),
    )
    assert heard.values.tolist() == [0.5, -1.0]
    assert data[:8] == b"RTSM\x01\x05\x00\x00"
    assert struct.unpack_from("<I", data, 12) == (2,)
    assert len(data) == HEADER_BYTES + 16


@pytest.mark.parametrize("text", ["", "x", "a text of some length", "ünicode " * 9, "z" * 20_000])
def test_words(text: str) -> None:
    heard = parse(text_message(WorkerMessageKind.FAULT, 1, text), 0)
    assert isinstance(heard, WorkerMessage)
    assert heard.text == text.encode()[:16384].decode()
    assert isinstance(
        parse(text_message(WorkerMessageKind.FAULT, 1, text)[:-1], 0), MalformedMessage
    )


def test_the_buffer_is_used_again() -> None:
    speaker = MessageWriter(3, 0)
    first = bytes(speaker.message(WorkerMessageKind.STEP, 1, Tag(1), np.array([1.0, 2.0, 3.0])))
    speaker.message(WorkerMessageKind.STEP, 2, Tag(2), np.array([4.0]))
    again = bytes(speaker.message(WorkerMessageKind.STEP, 1, Tag(1), np.array([1.0, 2.0, 3.0])))
    assert first == again
