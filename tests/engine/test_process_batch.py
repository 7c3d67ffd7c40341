"""Reactions of processes run at once: every row, event, error and checkpoint stays the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from discrete_parts import Steps, one
from hypothesis import given, settings
from running_parts import Member, plans, scenario_of
from semantics_parts import add_one, law_of

from rtsim import Scenario
from rtsim.components.bus import Bus
from rtsim.components.latency import Fixed
from rtsim.components.ports import SignalPort
from rtsim.core.errors import RtsimError
from rtsim.core.signals import Signals
from rtsim.core.tag import NEVER
from rtsim.discrete import Agenda
from rtsim.discrete.task import ProcessesTask
from rtsim.engine.checkpoint.file import Checkpoint, Ring
from rtsim.engine.checkpoint.schedule import CheckpointSchedule
from rtsim.engine.executive import Executive
from rtsim.engine.process_batch import ProcessBatch
from rtsim.engine.trace import Trace
from rtsim.models.queues import scenario as queue
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder, NullRecorder
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.simulation import simulate

LOOP: list[Executive] = []
"""The main loop of the latest run."""


class Outcome(NamedTuple):
    recording: Recording
    said: str
    """The reason for the end, or the error with its notes."""
    states: list[dict[str, Any]]
    """The state at each checkpoint, and at the end."""
    positions: list[Any]
    at_once: int
    """Number of calls that ran reactions at once."""


def ran(scenario: Scenario, at_once: bool, plan: dict[str, Any] | None = None) -> Outcome:
    """Run ``scenario``; without ``at_once`` each reaction runs as an instant of its own."""
    recorder, ring, calls = MemoryRecorder(), Ring(1000), [0]
    run, run_at_once = Executive.run, ProcessBatch.advance
    plan = plan or {}

    def noted(self: Executive, before_ns: int) -> None:
        LOOP[:] = [self]
        run(self, before_ns)

    def counted(self: ProcessBatch, *args: Any) -> bool:
        found = run_at_once(self, *args)
        calls[0] += found
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Executive, "run", noted)
        patch.setattr(ProcessBatch, "advance", counted if at_once else lambda *_: False)
        checkpoints = CheckpointSchedule(ring, at=sorted(plan.get("checkpoints", [])))
        try:
            said = simulate(
                scenario, recorder=recorder, checkpoints=checkpoints, stop_ns=plan.get("stop")
            ).ending.reason
        except RtsimError as raised:
            notes = getattr(raised, "__notes__", ())
            said = f"{type(raised).__name__}: {raised} {notes} at {LOOP[0].system.ns}"
    saved = checkpoints_of(ring)
    states = [dict(c.state) for c in saved]
    if "Error" not in said:
        states.append(LOOP[0].save())
    positions = [*((c.ns, c.rows, c.events) for c in saved), LOOP[0].position()]
    return Outcome(recorder.recording(), said, states, positions, calls[0])


def checkpoints_of(ring: Ring) -> list[Checkpoint]:
    """Return the checkpoints in ``ring``, the latest first."""
    found = []
    while (latest := ring.before(NEVER.ns)) is not None:
        found.append(latest)
        ring.forget_after(latest.ns - 1)
    return found


def check_equal(make: Callable[[], Scenario], plan: dict[str, Any] | None = None) -> Outcome:
    """Check that both paths give the same outcome; return the one of reactions run at once."""
    single, found = ran(make(), False, plan), ran(make(), True, plan)
    assert single.said == found.said
    assert compare_exact(single.recording, found.recording) is None
    assert single.recording.digest() == found.recording.digest()
    assert single.recording.events == found.recording.events
    assert single.positions == found.positions
    assert repr_of(single.states) == repr_of(found.states)
    assert single.at_once == 0
    return found


def repr_of(value: Any) -> Any:
    """Return ``value`` with arrays as bytes, so that it can be compared bit for bit."""
    if isinstance(value, dict):
        return {k: repr_of(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [repr_of(v) for v in value]
    return value.tobytes() if isinstance(value, np.ndarray) else repr(value)


RAN: list[int] = []


@settings(deadline=None)
@given(plans())
def test_random_processes_are_equal_bit_for_bit(plan: dict[str, Any]) -> None:
    RAN.append(check_equal(lambda: scenario_of(plan), plan).at_once)


def test_many_of_the_random_scenarios_ran_reactions_at_once() -> None:
    if not RAN:
        pytest.skip("the random scenarios did not run here")
    assert sum(n > 0 for n in RAN) > len(RAN) / 5


def test_the_queue_runs_at_once_and_is_equal() -> None:
    found = check_equal(lambda: queue(until=2000), {"checkpoints": [500, 1234.5]})
    assert 0 < found.at_once < 20, "some calls for thousands of reactions"
    assert len(found.recording.messages["customers"]["wait"]) > 1000


def test_a_run_from_a_checkpoint_is_equal() -> None:
    ring, whole = Ring(1000), MemoryRecorder()
    simulate(
        queue(until=600), seed=4, recorder=whole, checkpoints=CheckpointSchedule(ring, at=[200])
    )
    (checkpoint,) = checkpoints_of(ring)
    rest = whole.recording().since(checkpoint.rows, checkpoint.events)
    for at_once in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            if not at_once:
                patch.setattr(ProcessBatch, "advance", lambda *_: False)
            recorder = MemoryRecorder()
            simulate(queue(until=600), recorder=recorder, start=checkpoint)
        assert recorder.recording().digest() == rest.digest()


def body_that(act: Callable[[Agenda], object]) -> Callable[[Agenda], Steps]:
    """Return a process that writes and sends each 10 ms, and calls ``act`` at 0.5 s."""

    def body(agenda: Agenda) -> Steps:
        for k in range(100):
            yield agenda.timeout(0.01)
            agenda.write(y=k)
            agenda.send("m", a=k)
            agenda.record("Noted", value=k)
            if k == 49:
                act(agenda)

    return body


def raising(error: BaseException) -> Callable[[Agenda], object]:
    def act(agenda: Agenda) -> object:  # noqa: ARG001
        raise error

    return act


def endless(agenda: Agenda) -> object:
    def turning() -> Steps:
        while True:
            yield agenda.timeout(0)

    return agenda.process(turning())


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (raising(ValueError("planned")), "a process of p raised at 0.500000000 s: ValueError"),
        (raising(KeyboardInterrupt()), "a process of p raised at 0.500000000 s: KeyboardInterr"),
        (raising(SystemExit(3)), "a component cannot end the program"),
        (lambda a: a.send("none"), "UnknownName: unknown topic 'none'"),
        (lambda a: a.write(y=float("inf")), "was set to inf at 0.500000000 s; give a finite value"),
        (lambda a: a.change("none.y", 1.0), "UnknownName: unknown value 'none.y'"),
        (endless, "more than 200 events of p at 0.500000000 s"),
        (lambda _: LOOP[0].interrupt(), "interrupted"),
    ],
)
def test_the_end_in_a_process_is_equal(
    act: Callable[[Agenda], object], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rtsim.discrete.agenda.MOST_EVENTS", 200)
    found = check_equal(lambda: one(body_that(act), messages={"m": Signals("a")}))
    assert said in found.said
    assert found.at_once > 0
    track = found.recording.messages["m"]["a"]
    assert list(track) == list(range(50 if said == "interrupted" or "none.y" in said else 49))


def test_the_recorder_and_the_observer_are_served_between_the_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rtsim.engine.process_batch.MOST_REACTIONS", 10)
    seen: list[int] = []
    scenario = one(body_that(lambda _: None), messages={"m": Signals("a")})
    simulate(scenario, recorder=NullRecorder(), observe=lambda progress: seen.append(progress.ns))
    assert seen == [100_000_000 * k for k in range(1, 10)] + [990_000_000, 1_000_000_000]


def wired() -> Scenario:
    """A controller that reads the outputs of processes, which run at once between its ticks."""
    member = Member([(0.01, ["add", "send"])], "", False, Fixed(0), 9.0)
    return scenario_of(
        {"members": [member], "law": 0.3, "plant": False, "changes": [], "checkpoints": []}
    )


PLANTED: dict[str, tuple[type, str]] = {
    "the port keeps its value": (SignalPort, "put"),
    "the bus does not count": (Bus, "adopt_position"),
    "the rows are missing": (Trace, "messages_at_once"),
    "the checksum is not updated": (ProcessesTask, "_add_to_checksum"),
}


@pytest.mark.parametrize("what", PLANTED)
def test_a_planted_difference_is_found(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_equal(wired)
    owner, name = PLANTED[what]
    right, run = getattr(owner, name), ProcessBatch.advance
    within = [False]

    def marked(self: ProcessBatch, *args: Any) -> bool:
        within[0] = True
        try:
            return run(self, *args)
        finally:
            within[0] = False

    def planted(*args: Any) -> Any:
        return None if within[0] else right(*args)

    monkeypatch.setattr(ProcessBatch, "advance", marked)
    monkeypatch.setattr(owner, name, planted)
    with pytest.raises(AssertionError):
        check_equal(wired)


def test_a_controller_that_a_message_triggers_is_run_at_each_message() -> None:
    def make() -> Scenario:
        out = one(body_that(lambda _: None), messages={"m": Signals("a")})
        out.controller("law", law_of(add_one), on=("p",), inputs={"u": "p.y"})
        return out

    found = check_equal(make)
    assert list(found.recording.messages["law"]["y"]) == [k + 1.0 for k in range(1, 100)]


def test_a_signal_that_is_not_sent_has_its_initial_value_again() -> None:
    def body(agenda: Agenda) -> Steps:
        for k in range(4):
            yield agenda.timeout(0.1)
            agenda.send("m", **({"a": k, "b": k} if k % 2 else {"b": k}))

    found = check_equal(lambda: one(body, messages={"m": Signals("a = 4", "b")}))
    assert list(found.recording.messages["m"]["a"]) == [4.0, 1.0, 4.0, 3.0]
    assert list(found.recording.messages["m"]["b"]) == [0.0, 1.0, 2.0, 3.0]
