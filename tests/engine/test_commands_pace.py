"""Pauses and rates: wall time against simulated time is right to the ns, nothing is an overrun.

Faults started and cleared by command, and checkpoints that a command asks for.
"""

from __future__ import annotations

import itertools
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from command_parts import Flown, Told
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from rtsim.core.tag import NS_PER_S
from rtsim.engine.checkpoint.file import Checkpoint, Files, Ring
from rtsim.engine.checkpoint.schedule import CheckpointSchedule
from rtsim.engine.commands.commands import NEXT_TAG
from rtsim.models import unstable
from rtsim.record.comparison import compare
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.replay import rerun
from rtsim.runs.simulation import Progress, simulate
from rtsim.scenario.scenario import Scenario
from rtsim.testing.clock import FAKE_START
from rtsim.timing.policy import CatchUp, Policy, Slip

MS = 1_000_000
COMPUTING_NS = 300_000
"""Of each frame: less than one at the fastest rate."""


def scenario(until: float) -> Scenario:
    """Steps of 10 ms, a controller of 100 ms whose commands are 30 ms under way."""
    return unstable.scenario(latency=0.03, until=until)


class Busy(Flown):
    """Its frames take time."""

    def _tell(self, progress: Progress) -> None:
        self.clock.spend(COMPUTING_NS)
        super()._tell(progress)


def rate(value: float | str) -> Told:
    return {"kind": "rate", "rate": value}


def passed_ns(flown: Flown) -> int:
    """Wall time from the start to the last tag."""
    first = flown.clock.waits[0]
    return flown.clock.waits[-1].ended - (first.due - first.ns)


def check_frames(flown: Flown) -> None:
    """None early, none late, none an overrun; own time never goes back."""
    waits = flown.clock.waits
    assert all(wait.ended == wait.due for wait in waits)
    assert all(a.ended <= b.asked for a, b in itertools.pairwise(waits))
    assert flown.certificate.overruns == {"compute": 0, "wake": 0}
    assert flown.certificate.slipped_ns == 0


@pytest.mark.rule("standing-is-no-lateness")
def test_a_pause_of_ten_seconds_slow_motion_and_ten_times_as_fast() -> None:
    at: dict[int, list[Told]] = {
        1000 * MS: [rate(0.1)], 2000 * MS: [{"kind": "pause"}], 3000 * MS: [rate(10)],
        13_000 * MS: [rate(1)],
    }  # fmt: skip
    flown = Busy(scenario(15), at, lasts_ns=10 * NS_PER_S)
    slow, pause, _, fast, back = (ns for ns, _ in flown.events)
    assert [kind for _, kind in flown.events] == ["rate", "pause", "resume", "rate", "rate"]
    held = flown.certificate.held_ns
    assert held == 10 * NS_PER_S
    expected = slow + 10 * (pause - slow) + held + 10 * (fast - pause)
    expected += (back - fast) // 10 + 15 * NS_PER_S - back
    assert passed_ns(flown) == expected
    check_frames(flown)
    assert compare(flown.recording, Flown(scenario(15), {}).recording).ok


RATES = st.sampled_from([0.1, 0.25, 0.3, 1.0, 1.7, 3, 10.0])
BUSY = st.lists(st.sampled_from([0, 200_000, 900_000, 3 * MS, 12_345_678]), min_size=1, max_size=7)
"""ns of computing, frame by frame and over again; of a frame of 10 ms."""
MANY = 10**6


class Laden(Flown):
    """Its frames take what ``busy`` says, over again, and it is woken as late as ``woken`` says."""

    def __init__(self, *given: Any, busy: list[int], woken: list[int], **how: Any) -> None:
        self._busy, self._woken, self._tags = busy, woken, 0
        super().__init__(*given, **how)

    def _tell(self, progress: Progress) -> None:
        self.clock.spend(self._busy[self._tags % len(self._busy)])
        self.clock.wake_late(self._woken[self._tags % len(self._woken)])
        self._tags += 1
        super()._tell(progress)


def planned(flown: Flown, until_ns: int) -> Fraction:
    """Wall ns from the start to ``until_ns``, from what was recorded: rates, pauses, slips."""
    wall, now, ns = Fraction(0), Fraction(1), 0
    for tag, told in flown.recording_of("rate"):
        wall += (tag - ns) / now
        now, ns = Fraction(repr(float(str(told["rate"])))), tag
    certificate = flown.recording.footer["certificate"]  # type: ignore[index]
    held = int(certificate["held_ns"]) + int(certificate["slipped_ns"])
    return wall + (until_ns - ns) / now + held


@settings(max_examples=settings().max_examples // 16, deadline=None, phases=[Phase.generate])
@given(
    changes=st.dictionaries(st.integers(1, 98), RATES, max_size=12),
    pauses=st.sets(st.integers(1, 98), max_size=4),
    standing=st.lists(RATES, max_size=4),
    busy=BUSY, woken=st.lists(st.sampled_from([0, 70_000, 4 * MS]), min_size=1, max_size=5),
    policy=st.sampled_from([CatchUp(MANY), Slip(MANY)]),
)  # fmt: skip
def test_any_rates_and_pauses_add_up(
    changes: dict[int, float], pauses: set[int], standing: list[float],
    busy: list[int], woken: list[int], policy: Policy,
) -> None:  # fmt: skip
    """To the ns, however late the tag was at which one acts, and also where it acts in a pause."""
    at: dict[int, list[Told]] = {}
    for step, value in changes.items():
        at.setdefault(step * 10 * MS, []).append(rate(value))
    for step in pauses:
        at.setdefault(step * 10 * MS, []).append({"kind": "pause"})
    told = [rate(value) for value in standing]
    flown = Laden(
        scenario(1), at, told, lasts_ns=3 * NS_PER_S, policy=policy, busy=busy, woken=woken
    )
    certificate = flown.certificate
    due = flown.clock.wall(NS_PER_S) - FAKE_START
    assert 0 <= due - planned(flown, NS_PER_S) <= 1 + len(flown.events), "each rounds up"
    assert certificate.held_ns >= 3 * NS_PER_S * certificate.holds
    assert bool(certificate.holds) == bool(pauses)
    waits = flown.clock.waits
    assert all(wait.ended >= wait.due for wait in waits), "none is early"
    assert all(a.ended <= b.asked for a, b in itertools.pairwise(waits))


def test_a_run_that_waited_until_it_was_told_max_has_a_certificate_to_show() -> None:
    flown = Flown(scenario(1), {500 * MS: [rate("max")]})
    assert (flown.certificate.rate, flown.certificate.paced) == ("max", True)
    assert flown.certificate.lateness.count == 51


def test_what_is_more_than_a_frame_late_has_slipped_when_the_rate_changes() -> None:
    """25 ms late, told 10 times as fast: 1 ms of it is handed on, so that nothing sprints."""
    flown = Laden(
        scenario(1), {500 * MS: [rate(10)]}, policy=CatchUp(MANY),
        busy=[0] * 49 + [35 * MS] + [0] * 60, woken=[0],
    )  # fmt: skip
    assert flown.events == [(510 * MS, "rate")]
    assert flown.certificate.slipped_ns == 24 * MS
    assert [e.tag.ns // MS for e in flown.recording.events if e.kind == "Overrun"] == [510]
    assert flown.clock.now() - FAKE_START == 510 * MS + 49 * MS + 24 * MS


def test_a_rate_told_in_a_pause_takes_nothing_from_the_frame_before() -> None:
    """3 ms of computing at rate 10 are 30 ms of simulated time, and at rate 0.1 would be 300 ms."""
    at: dict[int, list[Told]] = {200 * MS: [rate(10)], 500 * MS: [{"kind": "pause"}]}
    flown = Laden(scenario(1), at, [rate(0.1)], lasts_ns=MS, busy=[900_000], woken=[0])
    assert flown.certificate.overruns == {"compute": 0, "wake": 0}
    assert flown.certificate.slipped_ns == 0
    due = {wait.ns // MS: wait.due for wait in flown.clock.waits}
    assert due[520] - due[510] == 2 * MS + 100 * MS


NEVER_BY_ITSELF = 1000
KINDS: list[dict[str, Any]] = [
    {"where": "controller.x", "kind": "offset", "amount": 0.1},
    {"where": "controller", "kind": "drop"},
    {"where": "plant.force", "kind": "noise", "deviation": 0.3},
    {"where": "plant.force", "kind": "scale", "factor": 0.5, "duration": 0.25},
    {"where": "plant.force", "kind": "stuck", "when": "plant.x > 1000"},
    {"where": "controller.x", "kind": "noise", "deviation": 0.01, "count": 2},
]


def faulty_loop(*faults: dict[str, Any]) -> Scenario:
    """A controller of 100 ms whose commands are 30 ms under way; steps of 10 ms for 2 s."""
    out = unstable.scenario(latency=0.03, until=2)
    out.faults(*faults)
    return out


def same(a: Recording, b: Recording) -> bool:
    return compare(a, b).ok


def told(do: str, name: str = "f") -> Told:
    return {"kind": "fault", "name": name, "do": do}


def marks(recording: Recording) -> list[tuple[str, int]]:
    return [(e.kind, e.tag.ns // MS) for e in recording.events if e.kind.startswith("Fault")]


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: f"{k['kind']}-{k['where']}")
def test_a_fault_acts_from_start_to_clear_and_again_in_the_replay(kind: dict[str, Any]) -> None:
    fault = {"name": "f", "at": NEVER_BY_ITSELF, **kind}
    plain = Flown(faulty_loop(fault), {})
    assert marks(plain.recording) == []
    flown = Flown(faulty_loop(fault), {495 * MS: [told("start")], 1205 * MS: [told("clear")]})
    assert [wrong for _, wrong, _ in flown.answers] == ["", ""]
    found = marks(flown.recording)
    assert [what for what, _ in found] == ["Fault", "FaultEnded"]
    assert 500 <= found[0][1] <= 600
    lasts = found[1][1] - found[0][1]
    if "duration" in kind:
        assert lasts == 250
    elif "count" not in kind:
        assert 1205 <= found[1][1] <= 1350, "it is over at the next item after it was cleared"
    assert not same(plain.recording, flown.recording)
    assert same(rerun(flown.recording, faulty_loop(fault)), flown.recording)


def test_a_fault_that_was_cleared_stays_so_until_it_is_started() -> None:
    fault = {"name": "f", "where": "controller", "kind": "drop", "every": 0.3, "count": 1}
    by_itself = marks(Flown(faulty_loop(fault), {}).recording)
    assert [at for _, at in by_itself] == [300, 600, 900, 1200, 1500, 1800]
    flown = Flown(faulty_loop(fault), {450 * MS: [told("clear")], 1350 * MS: [told("start")]})
    assert [at for _, at in marks(flown.recording)] == [300, 1400, 1500, 1800]


def test_start_and_clear_in_one_instant_come_to_nothing() -> None:
    fault = {"name": "f", "at": NEVER_BY_ITSELF, "where": "plant.force", "kind": "nan"}
    flown = Flown(faulty_loop(fault), {500 * MS: [told("start"), told("clear")]})
    assert flown.error is None
    assert marks(flown.recording) == []


def test_faults_that_cannot_be_started_are_refused() -> None:
    fault = {"name": "f", "where": "controller", "kind": "drop", "at": 1}
    idle = {"name": "line", "where": "controller.to_board", "kind": "bit_flip", "at": 1}
    flown = Flown(faulty_loop(fault, idle), {200 * MS: [told("start", "g"), told("start", "line")]})
    assert "unknown fault 'g'" in flown.answers[0][1]
    assert "no line here" in flown.answers[1][1]
    without = Flown(faulty_loop(), {200 * MS: [told("start")]})
    assert "--faults FILE" in without.answers[0][1]
    standing = Flown(faulty_loop(fault), {200 * MS: [{"kind": "pause"}]}, [told("clear", "g")])
    assert ("unknown fault", NEXT_TAG) in [(w[:13], ns) for _, w, ns in standing.answers]


def test_a_run_goes_on_from_a_checkpoint_with_faults_that_commands_began() -> None:
    faults = [{"name": f"f{k}", "at": NEVER_BY_ITSELF, **kind} for k, kind in enumerate(KINDS)]
    ring = Ring(10)
    orders = [told("start", f["name"]) for f in faults]
    flown = Flown(
        faulty_loop(*faults), {495 * MS: orders, 905 * MS: [told("clear", "f0")]},
        checkpoints=CheckpointSchedule(ring, every=0.13),
    )  # fmt: skip
    assert len(ring) > 10
    for start in ring._kept:
        again = rerun(flown.recording, faulty_loop(*faults), start=start)
        assert marks(again) == [m for m in marks(flown.recording) if m[1] * MS > start.ns]
        for name, rows in start.rows.items():
            whole, rest = (
                flown.recording.track(name).rows.floats[rows:],
                again.track(name).rows.floats,
            )
            assert rest.shape == whole.shape
            assert rest.tobytes() == whole.tobytes()


def test_a_command_keeps_a_checkpoint_of_its_tag_and_changes_nothing(tmp_path: Path) -> None:
    files = Files(tmp_path / "run.mcap")
    flown = Flown(
        faulty_loop(), {300 * MS: [{"kind": "checkpoint"}, {"kind": "checkpoint"}]},
        checkpoints=CheckpointSchedule(files),
    )  # fmt: skip
    ((_, wrong, ns), _) = flown.answers
    assert wrong == ""
    (path,) = files.paths
    assert Checkpoint.open(path).ns == ns
    assert same(flown.recording, Flown(faulty_loop(), {}).recording)
    recorder = MemoryRecorder()
    outcome = simulate(faulty_loop(), start=Checkpoint.open(path), recorder=recorder)
    assert outcome.began.ns == ns
    last = flown.recording.track("plant").rows.floats[-1].tobytes()
    assert recorder.recording().track("plant").rows.floats[-1].tobytes() == last


def test_while_time_stands_a_checkpoint_is_written_at_once(tmp_path: Path) -> None:
    files = Files(tmp_path / "run.mcap")
    seen: list[int] = []

    class Watched(CheckpointSchedule):
        def write(self) -> None:
            super().write()
            seen.append(len(files.paths))

    flown = Flown(
        faulty_loop(), {300 * MS: [{"kind": "pause"}]}, [{"kind": "checkpoint"}],
        checkpoints=Watched(files),
    )  # fmt: skip
    assert seen == [1]
    paused = next(ns for ns, kind in flown.events if kind == "pause")
    assert Checkpoint.open(files.paths[0]).ns == paused


def test_a_run_without_a_recording_keeps_none() -> None:
    flown = Flown(faulty_loop(), {300 * MS: [{"kind": "checkpoint"}]})
    ((_, wrong, _),) = flown.answers
    assert "stored next to a recording, and this run writes no recording" in wrong
