"""The wait of the compiled engine, tag by tag beside the pacer, on a scripted clock."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from lent_clock import LentClock

from rtsim.core.errors import OverrunError
from rtsim.engine.compiled.pace import AGAIN, HAND_OVER, PacedFrames, divided, lap, ready, wait
from rtsim.engine.compiled.records import FIRST_TASK_JOB, HEADER, place_of
from rtsim.equations.addresses import INTEGER, WORDS, record_at
from rtsim.equations.compiling import compile_function
from rtsim.models.unstable import scenario as unstable
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.simulation import simulate
from rtsim.timing.certificate import certify
from rtsim.timing.frames import FRAME_COLUMNS, RECORDING
from rtsim.timing.pacing import Pacer
from rtsim.timing.policy import CatchUp, Overrun, Policy, Slip

PERIOD = 1_000_000
TASKS = ["first", "second"]
Frame = tuple[int, int, int, int]
"""ns: lateness of the wake before the frame; compute times of the step and of both tasks."""


def waits(w: Any, ns: int) -> int:
    return int(wait(record_at(w[0], HEADER), ns))


def laps(w: Any, job: int) -> None:
    lap(record_at(w[0], HEADER), job)


def is_ready(w: Any) -> None:
    ready(record_at(w[0], HEADER))


def parts(ns: int, denominator: int, numerator: int) -> int:
    return int(divided(ns, denominator, numerator))


_digits = st.integers(1, 62).flatmap(lambda bits: st.integers(1, 2**bits - 1))


@given(st.integers(-(2**62), 2**62), _digits, _digits)
def test_due_times_are_exact_at_every_rate(ns: int, denominator: int, numerator: int) -> None:
    """Most products exceed 64 bits."""
    exact = ns * denominator // numerator
    assume(abs(exact) < 2**63)
    assert parts(ns, denominator, numerator) == exact


class Interpreted:
    """Frames of a pacer, as the executive runs them."""

    def __init__(self, policy: Policy, frames: list[Frame]) -> None:
        self.clock = LentClock(late=tuple(f[0] for f in frames))
        self.pacer = Pacer(self.clock, policy, frame_ns=PERIOD)
        self.overruns: list[Overrun] = []
        self.rows: list[tuple[int, ...]] = []
        self.error = ""
        self.pacer.start(0)
        self.pacer.ready(0)
        try:
            for k, frame in enumerate(frames, 1):
                self.run(k * PERIOD, *frame[1:])
        except OverrunError as error:
            self.error = str(error)
        self.end()

    def end(self) -> None:
        self.pacer.stop()

    def run(self, ns: int, step: int, first: int, second: int) -> None:
        self.clock.advance(step)
        self.begin(ns)
        for name, spent in zip(TASKS, (first, second), strict=True):
            self.clock.advance(spent)
            self.pacer.lap(name)
        self.rows.append(self.pacer.log.last)
        self.pacer.lap(RECORDING)
        self.pacer.ready(ns)

    def begin(self, ns: int) -> None:
        try:
            assert self.pacer.wait(ns)
        finally:
            if self.pacer.overrun is not None:
                self.overruns.append(self.pacer.overrun)

    def seen(self) -> tuple[object, ...]:
        c, ledger = certify(self.pacer), self.pacer.ledger
        worst = [(f.tag_ns, f.late_ns, f.compute_ns, sorted(f.shares)) for f in c.worst]
        return (
            c.frames, c.lateness, c.compute, c.margin, c.overruns, c.blamed, c.slipped_ns, worst,
            self.overruns, self.rows, self.error, ledger.in_a_row, self.pacer.margin_ns,
        )  # fmt: skip


class Compiled(Interpreted):
    """The same frames in compiled code; the pacer takes over where compiled code asks for it."""

    def __init__(self, policy: Policy, frames: list[Frame], often: bool = False) -> None:
        self.often = often
        """True: Python takes frames before each fourth frame."""
        self.header = np.zeros(1, HEADER)
        w = np.array([self.header.ctypes.data])
        self.frames: PacedFrames | None = None
        self.wait = compile_function(waits, (WORDS, INTEGER), "a wait").on(w, concurrent=True)
        self.lap = compile_function(laps, (WORDS, INTEGER), "a lap").on(w, concurrent=True)
        self.ready = compile_function(is_ready, (WORDS,), "an end").on(w, concurrent=True)
        self.handed_over = 0
        super().__init__(policy, frames)

    def run(self, ns: int, step: int, first: int, second: int) -> None:
        if self.frames is None:
            trace: Any = SimpleNamespace(caught_up=self.overruns.extend)
            self.frames = PacedFrames(self.pacer, trace, TASKS)
            self.header[0]["pace"] = place_of(self.frames.record)
            self.frames.copy_in()
        self.clock.advance(step)
        if self.often and len(self.rows) % 4 == 3:
            self.frames.take()
            self.frames.again(self.pacer.read())
        answer = self.wait(ns)
        if answer == AGAIN:
            self.frames.take()
            self.frames.again(self.pacer.read())
            answer = self.wait(ns)
        if answer == HAND_OVER:
            self.handed_over += 1
            self.frames.copy_out(undone=False)
            self.begin(ns)
            self.frames.copy_in()
        for job, spent in enumerate((first, second), FIRST_TASK_JOB):
            self.clock.advance(spent)
            self.lap(job)
        self.rows.append(tuple(self.frames.row.tolist()))
        self.ready()

    def end(self) -> None:
        assert self.frames is not None
        if not self.error:
            self.frames.copy_out(undone=False)
        super().end()


NS = st.sampled_from((0, 1, 30_000, 99_999, 100_000, 100_001, 400_000, 1_000_000, 2_500_000))
FRAMES = st.lists(st.tuples(NS, NS, NS, NS), min_size=1, max_size=60)
LIGHT = st.lists(st.tuples(NS, *3 * [st.sampled_from((0, 7, 200_000, 300_000))]), max_size=90)
POLICIES = (CatchUp(), CatchUp(2), CatchUp(10_000), Slip())


@given(st.sampled_from(POLICIES), FRAMES | LIGHT.filter(bool), st.booleans())
@settings(max_examples=300)
def test_every_frame_is_timed_and_judged_as_by_the_pacer(
    policy: Policy, frames: list[Frame], often: bool
) -> None:
    compiled = Compiled(policy, frames, often)
    assert compiled.seen() == Interpreted(policy, frames).seen()


def test_lateness_is_caught_up_without_python_and_blamed_on_the_longest_job() -> None:
    frames = [(0, 10, 20, 30), (0, 10, 1_900_000, 30), (0, 10, 20, 30), (500_000, 1, 2, 3)]
    found = Compiled(CatchUp(), frames + 5 * [(0, 1, 2, 3)])
    assert not found.handed_over
    assert [(o.cause, o.job) for o in found.overruns] == [("compute", "first"), ("wake", "")]


def test_another_policy_is_asked() -> None:
    assert Compiled(Slip(), [(0, 10, 1_900_000, 30), (0, 10, 20, 30)]).handed_over == 1


def test_late_frames_that_are_not_in_a_row_stay_in_compiled_code() -> None:
    found = Compiled(CatchUp(2), 6 * [(500_000, 1, 2, 3), (0, 1, 2, 3)])
    assert len(found.overruns) == 6
    assert not found.handed_over


@pytest.mark.parametrize(
    ("attribute", "engine"),
    [
        ("began_late", "compiled: 19 tags"),
        ("lap_at", "interpreted: compiled code does not measure these columns of timing: more"),
    ],
)
def test_a_declared_column_of_timing_is_recorded_by_both_engines(
    attribute: str, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As docs/extending.md describes; the interpreter paces a run where compiled code cannot."""
    monkeypatch.setitem(FRAME_COLUMNS, "more", attribute)
    recorder = MemoryRecorder()
    result = simulate(unstable(until=0.2), clock=LentClock(), engine="compiled", recorder=recorder)
    assert result.certificate.engine.startswith(engine)
    track = recorder.recording().track("timing")
    assert [c for c in track.integers if c != "ns"][-4:] == list(FRAME_COLUMNS)
    assert len(track.integer("more")) == len(track.integer("compute")) > 15
    frames = [(0, 10, 1_900_000, 30), (0, 10, 20, 30), (500_000, 1, 2, 3), (0, 1, 2, 3)]
    if attribute == "began_late":
        assert Compiled(CatchUp(), frames).rows == Interpreted(CatchUp(), frames).rows
        assert {row[3] for row in Interpreted(CatchUp(), frames).rows} > {0}
