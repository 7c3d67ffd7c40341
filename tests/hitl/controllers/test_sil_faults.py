"""C that does wrong, in a process of its own: one clear error, or the declared policy."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from c_parts import with_gcc
from sil_parts import FAULT_MS, MS, alive, built, flown, kinds, loop, nothing_left

from hitl.building.build import SANITIZE, Build
from hitl.controllers.failure_log import Case
from hitl.controllers.sil import SilController
from hitl.worker import process as worker_module
from hitl.worker.ending import Died
from rtsim.core.errors import ControllerError
from rtsim.core.signals import Vector
from rtsim.core.tag import Tag
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.replay import rerun
from rtsim.runs.simulation import simulate

pytestmark = pytest.mark.usefixtures("each_link")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Build:
    return built(tmp_path_factory)


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory: pytest.TempPathFactory) -> Build:
    return built(tmp_path_factory, SANITIZE)


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    with nothing_left():
        yield


CRASHES = {
    "null": "was ended by SIGSEGV (an access outside of its memory",
    "divide": "was ended by SIGFPE (an integer division by zero",
    "abort": "was ended by SIGABRT (a call of abort(), or a failed assertion)",
    "deep": "was ended by SIGSEGV (an access outside of its memory, or a stack overflow)",
    "exit": "ended with exit status 0: the C called exit(0) in its step, which must return",
    "nan": "c answered nan for y",
    "inf": "c answered inf for y",
    "chatter and abort": "was ended by SIGABRT",
}


@pytest.mark.parametrize("latency", [0.0, 0.004, 0.02])
@pytest.mark.parametrize("fault", ["null", "exit", "nan"])
def test_when_an_error_is_told(fault: str, latency: float, plain: Build, tmp_path: Path) -> None:
    """When the answer is due, whatever it computes in; requests up to there are recorded."""
    scenario = loop(SilController(plain, cases=tmp_path), fault, latency)
    recording, error = flown(scenario)
    assert f"faulty failed at 0.0{FAULT_MS}000000 s: " in str(error)
    asked = recording.track("messages/c.inputs").ns.tolist()
    assert asked == [ms * MS for ms in range(0, FAULT_MS + 1, 20 if latency > 0.01 else 10)]


@pytest.mark.sample(6)
@pytest.mark.parametrize("fault", CRASHES)
def test_a_fault_ends_the_run(fault: str, plain: Build, tmp_path: Path) -> None:
    recording, error = flown(
        loop(SilController(plain, cases=tmp_path / "cases"), fault), tmp_path / "run.mcap"
    )
    lines = str(error).splitlines()
    assert lines[0].startswith(f"faulty failed at 0.0{FAULT_MS}000000 s: ")
    assert CRASHES[fault] in lines[0]
    number = {"null": 1, "divide": 2, "abort": 3, "deep": 4, "exit": 5, "nan": 11, "inf": 12}
    assert f"inputs: fault={number.get(fault, 14)}, x=0.25" in lines
    case = Case.load(tmp_path / "cases" / f"faulty-{FAULT_MS * MS}-plain.npz")
    assert lines[-1] == f"again: rtsim sil case {tmp_path}/cases/faulty-{FAULT_MS * MS}-plain.npz"
    assert (len(case.tags), case.tag, case.last["x"]) == (5, Tag(FAULT_MS * MS), 0.25)
    assert kinds(recording)[-1] == "Error"
    assert str(error) == recording.events[-1].text
    assert recording.track("messages/c").ns.tolist() == [k * 10 * MS for k in range(4)]
    assert recording.track("messages/c.inputs").ns.tolist() == [k * 10 * MS for k in range(5)]


@pytest.mark.sample(16)
@pytest.mark.parametrize("latency", [0.0, 0.004, 0.02])
@pytest.mark.parametrize("fault", CRASHES)
def test_a_fault_under_hold(fault: str, latency: float, plain: Build, tmp_path: Path) -> None:
    scenario = loop(SilController(plain, cases=tmp_path), fault, latency, failure="hold")
    recording, error = flown(scenario)
    assert error is None
    failed = [e for e in recording.events if e.kind == "Failed"]
    assert len(failed) == 1
    assert CRASHES[fault] in failed[0].text
    assert failed[0].tag.ns == FAULT_MS * MS + round(latency * 1e9)
    missed = [e.tag for e in recording.events if e.kind == "Missed"]
    after = [tag.ns // MS for tag in missed if tag >= failed[0].tag]
    first = FAULT_MS + (20 if latency == 0.02 else 10)
    assert after == list(range(first, 101, 10)), "each tick that finds it dead is Missed"
    assert set(kinds(recording)) == ({"Change", "Failed", "Missed"})
    again = rerun(recording, scenario)
    assert [(e.tag, e.kind, e.text) for e in again.events] == [
        (e.tag, e.kind, e.text) for e in recording.events
    ]


REPORTS = {
    "heap": "heap-buffer-overflow",
    "stack": "stack-buffer-overflow|out of bounds",
    "global": "global-buffer-overflow|out of bounds",
    "overflow": "signed integer overflow: 2147483647 . 1 cannot be represented",
    "divide": "division by zero",
    "null": "null pointer|SEGV",
}


@with_gcc
@pytest.mark.parametrize("fault", REPORTS)
def test_a_sanitizers_report_is_in_the_error(fault: str, sanitized: Build, tmp_path: Path) -> None:
    scenario = loop(SilController(sanitized, cases=tmp_path), fault)
    _, error = flown(scenario)
    text = str(error)
    assert re.search(REPORTS[fault], text), text
    assert "faulty.c:" in text, "the line"
    assert "Shadow bytes" not in text
    assert f"again: rtsim sil case {tmp_path}/faulty-{FAULT_MS * MS}-sanitize.npz" in text


def test_an_endless_loop_in_lockstep(plain: Build, tmp_path: Path) -> None:
    controller = SilController(plain, cases=tmp_path, silence=0.05)
    _, error = flown(loop(controller, "endless"))
    assert "faulty did not answer within 0.05 s; look for an endless loop" in str(error)
    recording, error = flown(loop(controller, "endless", failure="hold"))
    assert error is None
    assert kinds(recording) == ["Change", "Failed", *["Missed"] * 6]


@pytest.mark.live
@pytest.mark.parametrize(("late", "failure"), [("hold", "end"), ("fail", "end"), ("fail", "hold")])
def test_an_endless_loop_in_real_time(
    late: str, failure: str, plain: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Late at once, and what is declared follows; it is ended with the run at the latest."""
    monkeypatch.setattr(worker_module, "END_S", 0.05)
    scenario = loop(SilController(plain, cases=tmp_path), "endless", 0.005, late=late)
    scenario.component("c").failure = failure  # type: ignore[attr-defined]
    recording, error = flown(scenario, pace="1.0")
    found = [kind for kind in kinds(recording) if kind != "Overrun"]  # the machine's own
    assert "Late" in found
    assert (error is None) == (failure == "hold")
    if late == "hold":
        assert found[-1] == "Missed"
        assert "did not end on request and was killed" in str(error)
    elif failure == "hold":
        assert found[-2:] == ["Missed", "Missed"]
        assert "Failed" in found
    else:
        assert found[-1] == "Error"
        assert "no answer after" in str(error)


def test_what_it_prints_ends_nothing(plain: Build, tmp_path: Path) -> None:
    controller = SilController(plain, cases=tmp_path)
    recording, error = flown(loop(controller, "chatter"))
    assert error is None
    assert len(recording.track("messages/c").rows.ns) == 11


class Killed(SilController):
    """One whose process is killed at a step, before or after the request is sent."""

    at, late, number = 0, False, signal.SIGKILL

    def send(self, tag: Tag, inputs: Vector) -> None:
        kill = self.at == self._sequence
        if kill and not self.late:
            os.kill(self.pid, self.number)
        super().send(tag, inputs)
        if kill and self.late:
            os.kill(self.pid, self.number)


@pytest.mark.sample(2)
@pytest.mark.parametrize("failure", ["end", "hold"])
def test_killed_at_a_random_step(failure: str, plain: Build, tmp_path: Path) -> None:
    """Fifty times each; a kill that comes after the answer shows at the next step."""
    dice = np.random.default_rng(50)
    for _ in range(50):
        controller = Killed(plain, cases=tmp_path)
        controller.at, controller.late = int(dice.integers(0, 10)), bool(dice.integers(0, 2))
        scenario = loop(controller, latency=float(dice.choice([0.0, 0.004])), failure=failure)
        recorder = MemoryRecorder()
        error = None
        try:
            simulate(scenario, recorder=recorder)
        except ControllerError as problem:
            error = problem
        recording = recorder.recording()
        assert compare_exact(recording, rerun(recording, scenario)) is None
        text = next(e.text for e in recording.events if e.kind in ("Error", "Failed"))
        assert (
            "was ended by SIGKILL (it was killed from outside, or the memory was exhausted)" in text
        )
        answered = len(recording.track("messages/c").rows.ns)
        assert answered in (controller.at, controller.at + controller.late)
        if failure == "end":
            assert str(error) == text
        else:
            assert error is None
            assert set(kinds(recording)) - {"Change"} <= {"Failed", "Missed"}


@pytest.mark.parametrize("kind", ["aborts", "hangs"])
def test_initialize(kind: str, plain: Build, tmp_path: Path) -> None:
    values = {"start": 1 if kind == "aborts" else 2}
    patience = 20.0 if kind == "aborts" else 0.1
    controller = SilController(plain, values, patience=patience, cases=tmp_path)
    wanted = {
        "aborts": r"faulty failed in its initialize: the worker .* was ended by SIGABRT",
        "hangs": r"faulty did not initialise within 0\.1 s; look for an endless loop",
    }
    with pytest.raises(ControllerError, match=wanted[kind]):
        controller.fresh()


@pytest.mark.parametrize("kind", ["aborts", "hangs"])
def test_terminate(
    kind: str, plain: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "END_S", 0.1 if kind == "hangs" else 20.0)
    controller = SilController(plain, {"end": 1 if kind == "aborts" else 2}, cases=tmp_path)
    recording, error = flown(loop(controller))
    assert isinstance(error, Died)
    wanted = {"aborts": "was ended by SIGABRT", "hangs": "did not end on request"}
    assert str(error).startswith("at the end of the run, the worker of faulty (process ")
    assert wanted[kind] in str(error)
    assert len(recording.track("messages/c").rows.ns) == 11, "the run itself is whole"


def test_dead_before_it_is_stopped(plain: Build) -> None:
    controller = SilController(plain).fresh()
    os.kill(controller.pid, signal.SIGKILL)
    os.waitid(os.P_PID, controller.pid, os.WEXITED | os.WNOWAIT)
    with pytest.raises(Died, match="was ended by SIGKILL"):
        controller.close()
    controller.close()


def test_let_go_without_closing(plain: Build) -> None:
    controller = SilController(plain).fresh()
    pid = controller.pid
    assert alive(pid)
    del controller
    assert not alive(pid)


def test_no_static_survives(plain: Build) -> None:
    for _ in range(2):
        controller = SilController(plain).fresh()
        controller.send(Tag(0), np.array([0.0, 0.0]))
        answer = controller.receive(Tag(0), 10.0)
        assert answer is not None
        assert answer.tolist() == [1.0]
        controller.close()


_PARENT = """
import sys, tempfile
from pathlib import Path
import numpy as np
from hitl.building.build import Build
from hitl.controllers.sil import SilController
from hitl.interface import load_interface
from rtsim.core.tag import Tag
tempfile.tempdir = sys.argv[3]
build = Build(load_interface(sys.argv[1]), "plain", Path(sys.argv[2]), "")
controller = SilController(build).fresh()
controller.send(Tag(0), np.array([float(sys.argv[4]), 0.0]))
controller.receive(Tag(0), 0.2)  # None where the step never ends: then it is under way
print(controller.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="pidfd is Linux")
@pytest.mark.parametrize("fault", [0, 6], ids=["waiting", "in an endless loop"])
def test_a_killed_parent_leaves_nothing(fault: int, plain: Build) -> None:
    command = [
        sys.executable, "-c", _PARENT, str(plain.interface.path), str(plain.folder),
        tempfile.gettempdir(), str(fault),
    ]  # fmt: skip
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        watch = os.pidfd_open(pid)
        parent.kill()
        parent.wait()
        ended, _, _ = select.select([watch], [], [], 10.0)
        os.close(watch)
    assert ended, "the worker outlives its parent"


class Interrupted(SilController):
    """The user types Ctrl-C twice while a step that never ends is waited for."""

    def send(self, tag: Tag, inputs: Vector) -> None:
        super().send(tag, inputs)
        if inputs[0]:
            signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)


class Typed:
    """Ctrl-C at the first two alarms."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, *_: object) -> None:
        self.times += 1
        if self.times == 2:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.raise_signal(signal.SIGINT)


def test_ctrl_c_during_a_step(
    plain: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "END_S", 0.1)
    before = signal.signal(signal.SIGALRM, Typed())
    recorder = MemoryRecorder()
    try:
        with pytest.raises(Died, match="did not end on request and was killed"):
            simulate(
                loop(Interrupted(plain, cases=tmp_path, silence=60.0), "endless"),
                recorder=recorder,
            )
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    recording = recorder.recording()
    assert recording.footer is not None
    assert recording.footer["reason"] == "interrupted"
    assert recording.track("messages/c").ns.tolist() == [k * 10 * MS for k in range(4)]
