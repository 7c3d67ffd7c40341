"""What is no verdict on the C: a host that is late, a process that somebody else has ended."""

from __future__ import annotations

import json
import os
import signal
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self
from xml.etree import ElementTree as ET

import pytest
from back_to_back_parts import Stand, built, dies_at, write_law
from junit_schema import valid

from hitl.building.build import Build
from hitl.comparison.back_to_back import back_to_back
from hitl.comparison.verdict import BackToBack
from hitl.controllers.sil import SilController
from hitl.results.junit import junit_xml
from hitl.results.page import render
from rtsim.core.errors import ControllerError, OverrunError, Undecided
from rtsim.core.outcome import Outcome
from rtsim.core.signals import Vector
from rtsim.core.tag import Tag
from rtsim.models.unstable import controller, scenario

UNDECIDED = "it could not be decided whether the C does what its reference model does"


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Build:
    return built(tmp_path_factory.mktemp("good"))


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def same(step: int, y: Vector) -> Vector:  # noqa: ARG001
    return y


class Fresh(Stand):
    """A stand-in; ``flying`` is what becomes of its answers in the loop, behind the open one."""

    def __init__(self, flying: Callable[[int, Vector], Vector | None] = same) -> None:
        super().__init__(controller(), same)
        self.flying = flying
        self.count = 0

    def fresh(self) -> Fresh:
        self.count += 1
        out = Fresh(self.flying)
        if self.count > 1:
            out.change = self.flying  # type: ignore[assignment]
        return out


def errors_alone(result: BackToBack) -> ET.Element:
    """JUnit with errors and no failure."""
    root = valid(ET.fromstring(junit_xml(result)))
    assert root.attrib["failures"] == "0", ET.tostring(root, "unicode")
    assert int(root.attrib["errors"]) > 0
    return root


# -- a host that was late


class Late(Fresh):
    """Answers one request of the flight too late."""

    def fresh(self) -> Late:
        self.count += 1
        out = Late(self.flying)
        out.count = self.count
        out.told = self.count < 2
        return out

    told = True

    def receive(self, tag: Tag, patience: float) -> Vector | None:
        if self.step == 3 and not self.told:
            self.told = True
            return None
        return super().receive(tag, patience)


@pytest.mark.parametrize("late", ["hold", "fail"])
def test_answers_that_were_late_by_this_hosts_clock_are_no_verdict(late: str) -> None:
    one = scenario(latency=0.03)
    one.component("controller").late = late  # type: ignore[attr-defined]
    result = back_to_back(one, {"controller": Late()}, until=1, pace=100)
    assert result.flight is not None
    assert result.flight.late == 1
    assert result.outcome is Outcome.UNDECIDED
    said = result.in_words.splitlines()
    assert said[0].endswith(
        "this host was too slow to say whether the C does what its reference model does"
    )
    assert (
        "1 answer was late by the clock of this host" in result.flight.undecided or late == "fail"
    )
    errors_alone(result)
    with pytest.raises(Undecided, match="too slow"):
        result.assert_ok()


def test_a_crash_in_real_time_is_the_cs_all_the_same() -> None:
    class Both(Late):
        def fresh(self) -> Both:
            self.count += 1
            out = Both(self.flying)
            out.told = self.count < 2
            if self.count > 1:
                out.change = dies_at(6)
            return out

    result = back_to_back(scenario(latency=0.03), {"controller": Both()}, until=1, pace=100)
    assert result.flight is not None
    assert result.flight.late == 1
    assert result.outcome is Outcome.FAILED


def ends_from_outside(at: int) -> Callable[[int, Vector], Vector]:
    def change(step: int, y: Vector) -> Vector:
        if step == at:
            error = ControllerError("its process was ended by SIGKILL")
            error.environment = True
            raise error
        return y

    return change


def overruns(step: int, y: Vector) -> Vector:
    """Be stopped, as by ctrl-Z, between a request and its answer."""
    if step == 6:
        raise OverrunError("the loop woke 5170 ms late")
    return y


class LateAndMore(Late):
    """Answers one request of the flight too late, and then does what ``flying`` says."""

    def fresh(self) -> LateAndMore:
        self.count += 1
        out = LateAndMore(self.flying)
        out.told = self.count < 2
        if self.count > 1:
            out.change = self.flying  # type: ignore[assignment]
        return out


@pytest.mark.parametrize("kind", [Fresh, LateAndMore])
@pytest.mark.parametrize("wrong", [False, True])
def test_an_overrun_between_a_request_and_its_answer_is_no_verdict(
    kind: type[Fresh], wrong: bool
) -> None:
    """Also after an answer that was late; a difference before both is a failure."""

    def change(step: int, y: Vector) -> Vector:
        return overruns(step, y + 1.0 if wrong and step == 1 else y)

    one = scenario()
    one.component("controller").late = "hold"  # type: ignore[attr-defined]
    result = back_to_back(one, {"controller": kind(change)}, until=1, pace=100, latency=0.09)
    assert result.flight is not None
    assert result.flight.candidate.end_ns > 600_000_000, "the plant goes on until the answer is due"
    assert (result.flight.held_up, result.flight.late) == (True, int(kind is not Fresh))
    assert "the loop woke 5170 ms late; end other programs" in result.flight.error
    assert result.outcome is (Outcome.FAILED if wrong else Outcome.UNDECIDED)
    if not wrong:
        assert "this host was too slow to say whether the C does" in result.in_words
        errors_alone(result)


@pytest.mark.parametrize("pace", ["max", 100])
@pytest.mark.parametrize("latency", [0.0, 0.03])
def test_a_process_killed_between_a_request_and_its_answer_is_no_verdict(
    pace: str | float, latency: float
) -> None:
    """The answer that is missing is older than the end of the run."""
    result = back_to_back(
        scenario(latency=latency), {"controller": Fresh(ends_from_outside(6))}, until=1, pace=pace
    )
    assert result.flight is not None
    assert result.flight.comparison.failures
    assert result.outcome is Outcome.UNDECIDED
    died = Fresh(dies_at(6))
    result = back_to_back(scenario(latency=latency), {"controller": died}, until=1, pace=pace)
    assert result.outcome is Outcome.FAILED


def differs_then_ends(step: int, y: Vector) -> Vector:
    return ends_from_outside(6)(step, y * 2 if step > 3 else y)


def test_a_difference_before_the_process_was_killed_is_a_failure() -> None:
    stand = Fresh(differs_then_ends)
    result = back_to_back(scenario(latency=0.03), {"controller": stand}, until=1)
    assert result.outcome is Outcome.FAILED


class Signalled(SilController):
    """C code whose process gets a signal at step 6 of each run but the first, the open loop."""

    number = signal.SIGKILL
    count = 0

    def fresh(self) -> Self:
        Signalled.count += 1
        return super().fresh()

    def send(self, tag: Tag, inputs: Vector) -> None:
        if self._sequence == 6 and Signalled.count > 1:
            os.kill(self.pid, self.number)
        super().send(tag, inputs)


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="signals are of POSIX")
@pytest.mark.parametrize("link", ["shm", "zmq"])
@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("SIGKILL", Outcome.UNDECIDED),
        ("SIGQUIT", Outcome.UNDECIDED),
        ("SIGSTOP", Outcome.UNDECIDED),
        ("SIGSEGV", Outcome.FAILED),
        ("SIGFPE", Outcome.FAILED),
        ("SIGABRT", Outcome.FAILED),
    ],
)
def test_who_ended_a_worker(name: str, outcome: Outcome, link: str, good: Build) -> None:
    Signalled.count = 0
    controller = Signalled(good, silence=0.2, link=link)
    controller.number = signal.Signals[name]
    # a program in the background of a shell ignores SIGQUIT, and so would the worker
    ignored = signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    try:
        result = back_to_back(scenario(latency=0.03), {"controller": controller}, until=1)
    finally:
        signal.signal(signal.SIGQUIT, ignored)
    assert result.open["controller"].ok
    assert result.outcome is outcome
    assert result.flight is not None
    said = "was stopped from outside" if name == "SIGSTOP" else f"was ended by {name}"
    assert said in result.flight.error


def test_a_loop_that_fell_behind_the_clock_is_no_verdict() -> None:
    def behind(step: int, y: Vector) -> Vector:
        if step == 7:
            raise OverrunError("0.7 s began 30 ms late; leave more")
        return y

    result = back_to_back(scenario(), {"controller": Fresh(behind)}, until=2)
    assert result.outcome is Outcome.UNDECIDED
    errors_alone(result)
    told = json.loads(json.dumps(result.to_json()))
    assert (told["ok"], told["outcome"]) == (False, "undecided")
    assert told["closed"]["outcome"] == "undecided"
    assert "class=undecided" in render(result)


# -- a process that somebody else has ended


def killed(build: Build, at: int, loop: str, **how: Any) -> BackToBack:
    """SIGKILL from outside at a step of the open or of the closed loop."""

    class Victim(SilController):
        count, mine = 0, False

        def fresh(self) -> Self:
            Victim.count += 1
            out = super().fresh()
            out.mine = Victim.count == (1 if loop == "open" else 2)
            return out

        def send(self, tag: Tag, inputs: Vector) -> None:
            if self.mine and self._sequence == at:
                os.kill(self.pid, signal.SIGKILL)
                self.mine = False
            super().send(tag, inputs)

    return back_to_back(scenario(**how), {"controller": Victim(build, cases=None)}, until=2)


@pytest.mark.parametrize("loop", ["open", "closed"])
def test_a_worker_that_was_killed_from_outside_is_no_verdict(good: Build, loop: str) -> None:
    result = killed(good, 5, loop)
    assert result.outcome is Outcome.UNDECIDED, result.in_words
    assert result.in_words.splitlines()[0].endswith(UNDECIDED)
    assert "SIGKILL" in result.in_words
    root = errors_alone(result)
    assert any("SIGKILL" in (e.text or "") for e in root.iter("error"))


def test_a_flight_that_goes_on_without_a_killed_worker_is_no_verdict(good: Build) -> None:
    one = scenario()
    one.component("controller").failure = "hold"  # type: ignore[attr-defined]
    one.require("NEAR", "always abs(plant.x) < 1.1 m")

    class Victim(SilController):
        def send(self, tag: Tag, inputs: Vector) -> None:
            if tag.ns == 500_000_000:
                os.kill(self.pid, signal.SIGKILL)
            super().send(tag, inputs)

    result = back_to_back(one, {"controller": Victim(good, cases=None)}, until=2)
    assert result.outcome is Outcome.UNDECIDED, result.in_words
    errors_alone(result)
    assert result.flight is not None
    assert result.flight.candidate["plant.x"].min() < -1.1, "the held force drives it away"
    assert [one.result for one in result.required.runs["C"]] == [Outcome.UNDECIDED]


def test_a_difference_before_it_was_killed_fails(tmp_path: Path) -> None:
    from back_to_back_parts import SIGN

    assert killed(built(tmp_path, SIGN), 15, "open").outcome is Outcome.FAILED
    assert killed(built(tmp_path, SIGN), 15, "closed").outcome is Outcome.FAILED


# -- an environment in which the C never came to run


def program(path: Path, text: str) -> list[str | Path]:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return [path]


@pytest.mark.parametrize(
    "text",
    [
        "echo 'worker: no zmq_ctx_new in libzmq.so.1' >&2; exit 1",
        "echo 'error while loading shared libraries: libpid.so: cannot open' >&2; exit 127",
        "kill -KILL $$",
    ],
)
def test_a_library_that_does_not_load_is_no_verdict(good: Build, tmp_path: Path, text: str) -> None:
    broken = SilController(good, command=program(tmp_path / "worker", text), cases=None)
    result = back_to_back(scenario(), {"controller": broken}, until=1)
    assert result.outcome is Outcome.UNDECIDED, result.in_words
    assert result.open["controller"].answered == 0
    errors_alone(result)


def test_an_old_libzmq_is_no_verdict(
    good: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real worker, given a file that is no library."""
    from hitl.worker import process

    none = tmp_path / "libzmq.so.1"
    none.write_text("no library")
    monkeypatch.setattr(process, "libzmq", lambda: none)
    result = back_to_back(
        scenario(), {"controller": SilController(good, cases=None, link="zmq")}, until=1
    )
    assert result.outcome is Outcome.UNDECIDED
    assert "libzmq.so.1" in result.in_words


def test_an_initialize_that_aborts_is_the_cs(tmp_path: Path) -> None:
    path = write_law(tmp_path)
    source = tmp_path / "law.c"
    source.write_text(source.read_text().replace("c->sum = 0.0;", "abort();"))
    law = SilController(path, cases=None)
    result = back_to_back(scenario(), {"controller": law}, until=1)
    assert result.outcome is Outcome.FAILED
    assert "failed in its initialize" in result.in_words


def test_errors_of_a_controller_are_its_own_but_where_they_are_marked() -> None:
    error = ControllerError("x")
    assert not error.environment
    error.environment = True
    assert not ControllerError("y").environment


# -- a board


def test_a_board_whose_cable_is_pulled_is_no_verdict_and_one_that_is_silent_is() -> None:
    from hitl.boards.contract import BoardError, BoardGone
    from hitl.controllers.retrying_session import as_failure

    assert as_failure(BoardGone("it was unplugged"), "law: ").environment
    assert str(as_failure(BoardGone("it was unplugged"), "law: ")) == "law: it was unplugged"
    assert not as_failure(BoardError("it says: an unknown instruction")).environment

    def unplugged(step: int, y: Vector) -> Vector:
        if step == 7:
            raise as_failure(BoardGone("it was unplugged"))
        return y

    assert back_to_back(scenario(), {"controller": Fresh(unplugged)}).outcome is Outcome.UNDECIDED
