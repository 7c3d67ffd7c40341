"""The loop's side of a viewer: what is published, what is heard, and that neither changes a run.

Frames by absolute deadlines, on a clock that the test moves.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pilot_parts import flight, watched

from rtsim.core.clock import stopwatch
from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Signal, Signals
from rtsim.core.tag import NS_PER_S
from rtsim.engine.commands.commands import Inbox, read_command
from rtsim.equations.addresses import EQUATION
from rtsim.equations.compiling import Native
from rtsim.models.f16.aircraft import PILOTED_F16
from rtsim.models.orbit import scenario as orbit
from rtsim.pilot import shared
from rtsim.pilot.loop import FADE_NS, SAFE_NS, Cockpit, SharedStick
from rtsim.pilot.pacing import POLL_NS, Durations, VideoFrames
from rtsim.pilot.shared import MOST_ORDERS, ORDERS, RUN, STICK, Reader, Shape, Writer
from rtsim.record.file import FileRecorder
from rtsim.record.reading import Recording
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.replay import rerun
from rtsim.runs.simulation import simulate
from rtsim.scenario.loading import load_scenario
from rtsim.testing.clock import FAKE_START, FakeClock

MS = 1_000_000
SIGNALS = Signals(
    Signal("pitch", low=-1.0, high=1.0), Signal("throttle", low=0.0, high=1.0, initial=0.3)
)


class Person:
    """Who moves a stick in shared memory, at a time that the test makes up."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        shape = Shape(len(STICK), SIGNALS.size)
        memory = memoryview(bytearray(shape.size))
        self.now = 5 * NS_PER_S
        monkeypatch.setattr("rtsim.pilot.loop.stopwatch", lambda: self.now)
        self._writer = Writer(memory, shape)
        self.stick = SharedStick(Reader(memory, shape), SIGNALS)

    def say(self, *values: float, ago: int = 2 * MS) -> None:
        self._writer.integers[:] = (self.now - ago, self.now, 0, 1)
        self._writer.floats[:] = values
        self._writer.publish()

    def polled(self) -> list[float] | None:
        values = self.stick.poll()
        return None if values is None else values.tolist()


@pytest.fixture
def person(monkeypatch: pytest.MonkeyPatch) -> Person:
    return Person(monkeypatch)


def test_a_stick_says_what_changed_and_how_long_that_took(person: Person) -> None:
    assert person.polled() is None
    person.say(0.0, 0.3)
    assert person.polled() is None  # as it was declared
    person.say(0.5, 0.3, ago=3 * MS)
    assert person.polled() == [0.5, 0.3]
    assert person.polled() is None
    person.say(0.5, 0.3)
    assert person.polled() is None  # said again, not moved
    assert person.stick.applied == 2
    assert person.stick.latency.count == 1
    assert person.stick.latency.greatest == 3 * MS


def test_what_a_broken_viewer_says_is_bounded(person: Person) -> None:
    person.say(7.0, -3.0)
    assert person.polled() == [1.0, 0.0]
    person.say(float("nan"), 0.5)
    assert person.polled() is None


def test_a_viewer_that_falls_silent_leaves_the_stick_held_then_safe(person: Person) -> None:
    person.now += 10 * SAFE_NS
    assert person.polled() is None  # there never was one
    person.say(0.5, 0.9)
    assert person.polled() == [0.5, 0.9]
    person.now += SAFE_NS - 1
    assert person.polled() is None
    person.now += 1
    assert person.polled() is None  # held, from now on on its way
    person.now += FADE_NS // 2
    assert person.polled() == pytest.approx([0.25, 0.6])
    person.now += FADE_NS // 2
    assert person.polled() == [0.0, 0.3]
    assert person.polled() is None
    assert person.stick.silences == 1
    person.say(0.5, 0.9)
    assert person.polled() == [0.5, 0.9]


def test_a_silent_viewers_stick_goes_where_the_mapping_says(person: Person) -> None:
    person.stick.safe = np.array([-0.25, 0.75])
    person.say(0.5, 0.9)
    person.polled()
    person.now += SAFE_NS + 2 * FADE_NS
    assert person.polled() == [-0.25, 0.75]
    person.now += FADE_NS
    assert person.polled() is None
    person.say(0.5, 0.9)  # it says again where it was
    assert person.polled() == [0.5, 0.9]
    person.now += SAFE_NS + FADE_NS
    assert person.polled() == [-0.25, 0.75]
    assert person.stick.silences == 2


def test_both_ends_of_a_step_and_when_they_are_due() -> None:
    _, pairs = watched(orbit(step=0.1), 1.0)
    assert [(p.last_ns, p.next_ns) for p in pairs] == [
        (100 * MS * k, 100 * MS * (k + 1)) for k in range(10)
    ]
    assert [p.last_wall - FAKE_START for p in pairs] == [100 * MS * k for k in range(10)]
    for before, after in itertools.pairwise(pairs):
        assert before.next.tobytes() == after.last.tobytes()
        assert before.next_wall == after.last_wall


def test_outputs_at_the_end_of_a_step_are_there_before_it_happens() -> None:
    """Inputs are held over a step, so that what is published is what is then computed."""
    _, pairs = watched(flight([(0.05, (0.3, 0.2, 0.0, 0.4))]), 0.3)
    first = PILOTED_F16.states.size + PILOTED_F16.discrete.size
    names = first + PILOTED_F16.inputs.size
    same = [
        before.next[names:].tobytes() == after.last[names:].tobytes()
        for before, after in itertools.pairwise(pairs)
        if (before.next[first:names] == after.last[first:names]).all()  # no surface has moved
    ]
    assert len(same) > 20
    assert all(same)


def test_at_twice_the_rate_steps_are_due_in_half_the_time() -> None:
    _, pairs = watched(orbit(step=0.1), 0.5, clock=FakeClock(2.0))
    assert [p.next_wall - p.last_wall for p in pairs] == [50 * MS] * 5


def test_steps_too_short_to_be_seen_are_left_out() -> None:
    _, pairs = watched(orbit(step=0.0001), 0.01)
    firsts = sorted({p.last_wall - FAKE_START for p in pairs})
    assert firsts == [k * MS // 2 for k in range(20)]


def digest(path: Path, watch: bool) -> str:
    script = [(0.5, (0.4, 0.3, 0.1, 0.8)), (1.2, (0.0, -0.5, 0.0, 0.2))]
    recorder = FileRecorder(path, stopwatch)
    scenario = flight(script)
    if watch:
        watched(scenario, 2.0, recorder)
    else:
        simulate(scenario, until=2.0, clock=FakeClock(), recorder=recorder)
    return Recording.open(path).digest()


def test_watching_changes_no_number(tmp_path: Path) -> None:
    assert digest(tmp_path / "a.mcap", True) == digest(tmp_path / "b.mcap", False)


def told(cockpit: Cockpit, *kinds: tuple[int, float]) -> None:
    """Orders, as a viewer leaves them."""
    writer = cockpit.shared.writer("orders")
    for count, (kind, value) in enumerate(kinds):
        writer.integers[0] = count + 1
        writer.integers[1 + count % MOST_ORDERS] = kind
        writer.floats[count % MOST_ORDERS] = value
    writer.publish()


def test_orders_are_followed_at_a_tag() -> None:
    outcome, _ = watched(orbit(), 30, on=lambda cockpit: told(cockpit, (shared.QUIT, 0.0)))
    assert outcome.reason == "quit"
    assert outcome.ended.ns == 0
    clock = FakeClock()
    outcome, _ = watched(orbit(), 1, clock=clock, on=lambda c: told(c, (shared.RATE, 4.0)))
    assert clock.rate == 4
    assert outcome.reason == "end"


@pytest.mark.parametrize(("kind", "value"), [(0, 0.0), (99, 0.0), (shared.RATE, -1.0)])
def test_orders_that_are_none_are_refused(kind: int, value: float) -> None:
    cockpits: list[Cockpit] = []

    def on(cockpit: Cockpit) -> None:
        cockpits.append(cockpit)
        told(cockpit, (kind, value))

    outcome, _ = watched(orbit(), 1, on=on)
    assert outcome.reason == "end"
    assert cockpits[0].inbox.refused == 1


def test_more_orders_than_are_kept_lose_the_oldest() -> None:
    assert len(ORDERS) == 2 * MOST_ORDERS + 1
    kinds = [(shared.RATE, float(k + 1)) for k in range(MOST_ORDERS + 3)]
    with Cockpit(orbit()) as cockpit:
        told(cockpit, *kinds)
        cockpit.inbox.poll()
        cockpit.inbox.poll()
        rates = [waiting.command.arguments["rate"] for waiting in cockpit.inbox.waiting]
    assert rates == [float(k + 1) for k in range(3, MOST_ORDERS + 3)]


@pytest.mark.parametrize("wrong", [lambda *a: a[-1].fill(np.nan), lambda *a: 1 / 0])  # noqa: ARG005
def test_outputs_of_a_provisional_step_are_the_present_ones_if_they_fail(
    wrong: Callable[..., None],
) -> None:
    """The step may lie where an output is NaN, or raises: the loop says so if it is committed."""
    plant = orbit().build(0, compile=False).plants[0]
    with Cockpit(orbit()) as cockpit:
        shown = SimpleNamespace(
            name="moon", y=np.array([5.0]), next_x=plant.next_x, z=plant.z, u=plant.u, p=plant.p,
            values=plant.values, bound=SimpleNamespace(output=Native.plain(wrong, EQUATION)),
        )  # fmt: skip
        pictures = cockpit.pictures
        pictures.attach(SimpleNamespace(plants=[shown]), FakeClock())  # type: ignore[arg-type]
        assert pictures._outputs(shown, 0).tolist() == [5.0]  # type: ignore[arg-type]


class Unattended:
    """A flight that is paused from its window, on a clock of its own: 1 s passes at each look."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, reports: int, gateway: Inbox | None = None
    ) -> None:
        """The viewer reports ``reports`` times, and is then gone."""
        self.now = 5 * NS_PER_S
        monkeypatch.setattr("rtsim.pilot.loop.stopwatch", self._look)
        with Cockpit(orbit(), gateway=gateway) as cockpit:
            self.inbox, self._reports = cockpit.inbox, reports
            self._viewer = cockpit.shared.writer("viewer")
            told(cockpit, (shared.PAUSE, 1.0))
            self.outcome = simulate(
                orbit(), until=1.0, pace=1.0, clock=FakeClock(), inbox=cockpit.inbox
            )
        self.waited_s = (self.now - 5 * NS_PER_S) / NS_PER_S

    def _look(self) -> int:
        self.now += NS_PER_S
        assert self.now < 1000 * NS_PER_S, "the paused run did not end"
        if self._reports > 0:
            self._reports -= 1
            self._viewer.publish()
        return self.now


@pytest.mark.parametrize("reports", [0, 100])
def test_a_paused_flight_ends_a_minute_after_its_display_died(
    reports: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    flown = Unattended(monkeypatch, reports)
    assert (flown.outcome.reason, flown.inbox.unattended) == ("quit", True)
    assert 60 + reports <= flown.waited_s < 90 + reports


class Remote(Inbox):
    """A gateway with a client that resumes the run after ten looks, or one that has ended."""

    looks = 0

    def wait(self, seconds: float) -> None:  # noqa: ARG002
        self.looks += 1
        if self.looks == 200:
            self.give(read_command({"kind": "resume"}))


def test_a_paused_flight_without_a_display_waits_for_the_client_of_a_gateway(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flown = Unattended(monkeypatch, 0, Remote())
    assert (flown.outcome.reason, flown.inbox.unattended) == ("end", False)
    gone = Remote()
    gone.trouble = "the gateway process has ended"
    flown = Unattended(monkeypatch, 0, gone)
    assert (flown.outcome.reason, flown.inbox.unattended, gone.looks) == ("quit", True, 0)


def test_how_the_run_stands_is_told_to_its_end() -> None:
    seen: dict[str, Any] = {}

    def on(cockpit: Cockpit) -> None:
        seen["reader"] = cockpit.shared.reader("run")

    watched(orbit(), 1.0, on=on)
    record = seen["reader"].read()
    assert record is not None
    run = dict(zip(RUN, record.integers.tolist(), strict=True))
    assert (run["ns"], run["ended"], run["paced"]) == (NS_PER_S, 1, 1)
    assert np.isfinite(record.floats).all()


@pytest.mark.skipif(sys.platform == "win32", reason="a mapped file cannot go there")
def test_the_file_is_gone_when_the_run_is() -> None:
    with Cockpit(orbit()) as cockpit:
        path = cockpit.shared.path
        assert path.exists()
    assert not path.exists()


def test_each_input_has_its_three_stamps_in_the_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read from the device, decoded, latched at a tag: in this order, beside its value."""
    wall = iter(range(10**9, 10**12, MS))
    monkeypatch.setattr("rtsim.pilot.loop.stopwatch", lambda: next(wall))
    path = tmp_path / "run.mcap"

    def on(cockpit: Cockpit) -> None:
        writer = cockpit.shared.writer("stick")
        writer.integers[:] = (10**9 - 5000, 10**9 - 2000, 0, 1)
        writer.floats[:4] = (0.25, 0.0, 0.0, 0.5)
        writer.publish()

    scenario = load_scenario("f16-by-hand", {})
    watched(scenario, 0.2, FileRecorder(path, stopwatch), on=on, stick="stick")
    rec = Recording.open(path)
    assert rec.track("inputs/stick").column("pitch").tolist() == [0.25]
    _, integers, _ = rec.track("stamps/stick").rows
    assert len(integers) == 1
    step, initiated, completed, latched = integers[0].tolist()
    assert (step, initiated, completed) == (0, 10**9 - 5000, 10**9 - 2000)
    assert latched >= 10**9
    assert compare_exact(rec, rerun(rec)) is None


def test_deadlines_do_not_drift() -> None:
    """At 60 Hz the millionth frame is due when it should be, and none hands its lateness on."""
    clock = FakeClock(late=[300_000] * 50)
    frames = VideoFrames(60, clock)
    due = []
    for _ in range(121):
        due.append(frames.wait(lambda: None) - FAKE_START)
        clock.advance(7 * MS)  # drawing
    assert due == [round(n * 1e9 / 60) for n in range(121)]
    assert frames.dropped == 0
    assert frames.period.tick(60_000_000) == 10**15


def test_devices_are_read_each_millisecond_and_last_of_all() -> None:
    clock = FakeClock()
    frames = VideoFrames(100, clock)
    polls: list[int] = []

    def poll() -> None:
        polls.append(clock.now() - FAKE_START)

    for _ in range(3):
        frames.wait(poll)
        clock.advance(3 * MS)
    between = [at for at in polls if 10 * MS < at <= 20 * MS]
    gaps = [b - a for a, b in itertools.pairwise(between)]
    assert between[0] == 13 * MS
    assert between[-1] == 20 * MS
    assert max(gaps) <= POLL_NS


def test_a_frame_that_was_missed_is_dropped_and_the_grid_stays() -> None:
    clock = FakeClock()
    frames = VideoFrames(50, clock)
    begun = []
    for work in (5, 55, 5, 25, 5, 5):
        frames.wait(lambda: None)
        begun.append((clock.now() - FAKE_START) // MS)
        clock.advance(work * MS)
    assert begun == [0, 20, 75, 80, 105, 120]
    assert frames.dropped == 1  # the one of 40; that of 60 began at 75
    assert frames.intervals.count == 5
    assert frames.intervals.greatest == 55 * MS


@pytest.mark.parametrize("rate", [0.0, -60.0, 1e9])
def test_no_such_rate(rate: float) -> None:
    with pytest.raises(ScenarioError, match="give 1 to 1000"):
        VideoFrames(rate, FakeClock())


def test_durations_of_any_number() -> None:
    durations = Durations()
    assert (durations.quantile(0.5), durations.greatest, durations.count) == (0, 0, 0)
    for k in range(1, 1001):
        durations.add(k * MS)
    assert durations.count == 1000
    assert durations.quantile(0.5) == pytest.approx(500 * MS, rel=0.02)
    assert durations.quantile(0.95) == pytest.approx(950 * MS, rel=0.02)
    assert durations.greatest == 1000 * MS
