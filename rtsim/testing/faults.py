"""Conformance checks for kinds of faults."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rtsim.components.can_bus import CanBus
from rtsim.core.random_streams import RandomStreams
from rtsim.engine.checkpoint.file import Ring
from rtsim.engine.checkpoint.schedule import CheckpointSchedule
from rtsim.engine.faults.activity import Activity
from rtsim.engine.faults.at_loop import LoopFault
from rtsim.engine.faults.at_messages import MessageFault
from rtsim.engine.faults.description import KINDS, fault_of
from rtsim.engine.faults.kind import FaultError, FaultKind, Present
from rtsim.engine.faults.line_kinds import BoardFault, LineFault, LineFaults, Timed, faults_at
from rtsim.models.unstable import scenario as unstable
from rtsim.record.events import FAULT
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.replay import rerun
from rtsim.runs.request import Pace
from rtsim.runs.simulation import simulate
from rtsim.scenario.scenario import Scenario
from rtsim.testing.clock import FakeClock
from rtsim.timing.policy import Slip

NAME = "checked"
UNTIL_S, BEGINS_S, CUT_S = 2, 0.5, 1.2
_PLACES = {
    "signal": "controller.x",
    "message": "controller",
    "frame": "loop",
    "wake": "loop",
    "job": "loop.controller",
    "tick": "loop.controller",
}


def check_fault_kind(name: str, **parameters: float) -> None:
    """Check that a kind of fault obeys the rules of ``rtsim.engine.faults.kind.FaultKind``.

    ``name`` is the registered name. ``parameters`` contains the entries for a fault of this kind in
    a fault file. The checks are:

    - The description of a fault must survive writing and reading.
    - A missing or unknown entry must raise an error.
    - The recording of a run with the fault must contain an event for the fault.
    - A second run, a replay, and a run from a checkpoint must equal the first run.

    For a fault of a line, the check covers the changed bytes instead of a run. For a fault of a
    board, the check covers the calls of the link instead of a run.
    """
    assert name in KINDS, f"fault kind {name!r} is not registered; see docs/extending.md"
    kind = KINDS[name]
    if issubclass(kind, LineFault):
        _check_description(kind, "controller.to_board", parameters)
        _check_bytes(kind, parameters)
    elif issubclass(kind, BoardFault):
        _check_description(kind, kind.example, parameters)
        _check_board(kind)
    else:
        place = _PLACES[kind.moment if issubclass(kind, LoopFault) else kind.level]
        _check_description(kind, place, parameters)
        _check_runs(kind, _given(kind, place, parameters))


def _given(kind: type[FaultKind], where: str, parameters: Mapping[str, float]) -> dict[str, Any]:
    return {"name": NAME, "where": where, "kind": kind.name, "at": BEGINS_S, **parameters}


def _check_description(kind: type[FaultKind], where: str, parameters: Mapping[str, float]) -> None:
    given = _given(kind, where, parameters)
    fault = fault_of(given)
    assert fault_of(fault.describe()) == fault, (
        f"{kind.name}: describe() returns another fault than the one that was read"
    )
    for parameter in kind.parameters:
        without = {key: value for key, value in given.items() if key != parameter.name}
        if parameter.needed and parameter.name in given:
            assert _refused(without), (
                f"{kind.name} is accepted without {parameter.name}; expected a FaultError"
            )
    assert _refused({**given, "no_such_entry": 1}), (
        f"{kind.name} is accepted with an unknown entry; expected a FaultError"
    )
    assert _refused({**given, "where": "a b"}), (
        f"{kind.name} is accepted with where = 'a b'; expected a FaultError"
    )


def _refused(given: Mapping[str, Any]) -> bool:
    try:
        fault_of(given)
    except FaultError:
        return True
    return False


def _check_runs(kind: type[FaultKind], given: Mapping[str, Any]) -> None:
    first, state, ring = _run(given, checkpoints=True)
    acted = [e for e in first.events if e.kind == FAULT and e.source == NAME]
    assert acted, f"{kind.name}: the recording has no fault event from {BEGINS_S} s on"
    again, _, _ = _run(given)
    assert compare_exact(first, again) is None, f"{kind.name}: two runs differ"
    assert _listed(first) == _listed(again), f"{kind.name}: two runs have different events"
    replayed = rerun(first, _scenario(given))
    assert compare_exact(first, replayed) is None, f"{kind.name}: a replay differs"
    assert ring is not None
    cut = ring.before(round(CUT_S * 1e9))
    assert cut is not None
    outcome = simulate(
        _scenario(given), until=UNTIL_S, start=cut, seed=1, compile=False, **_pacing(kind)
    )
    assert _plain(outcome.system.save()) == state, (
        f"{kind.name}: a run from a checkpoint ends in another state than the whole run; correct "
        "save() and restore()"
    )
    if issubclass(kind, LoopFault) and kind.takes_time():
        plain, _, _ = _run(None)
        assert compare_exact(plain, first) is None, (
            f"{kind.name} takes computing time only, but it changes the trace"
        )


def _run(
    given: Mapping[str, Any] | None, checkpoints: bool = False
) -> tuple[Recording, Any, Ring | None]:
    recorder, ring = MemoryRecorder(), Ring(UNTIL_S) if checkpoints else None
    kind = None if given is None else KINDS[given["kind"]]
    outcome = simulate(
        _scenario(given),
        seed=1,
        compile=False,
        recorder=recorder,
        checkpoints=None if ring is None else CheckpointSchedule(ring, every="0.1"),
        **_pacing(kind),
    )
    return recorder.recording(), _plain(outcome.system.save()), ring


def _pacing(kind: type[FaultKind] | None) -> dict[str, Any]:
    if kind is not None and issubclass(kind, LoopFault) and kind.takes_time():
        return {"pace": Pace(1.0, Slip()), "clock": FakeClock()}
    return {}


def _scenario(given: Mapping[str, Any] | None) -> Scenario:
    out = unstable(until=UNTIL_S)
    if given is not None:
        kind = KINDS[given["kind"]]
        if issubclass(kind, MessageFault) and kind.needs_medium:
            controller = out.controller_component("controller", "the scenario has no controller")
            controller.transport = CanBus(500_000).frame(1)
        out.faults(given)
    return out


def _listed(recording: Recording) -> list[str]:
    return [repr(event) for event in recording.events]


def _plain(saved: object) -> object:
    return json.loads(json.dumps(saved, default=lambda array: array.tolist()))


def _check_bytes(kind: type[LineFault], parameters: Mapping[str, float]) -> None:
    data: list[Timed] = [(k * 1_000_000, (k % 6 + 1) % 6) for k in range(18)]
    given = {**_given(kind, "controller.to_board", parameters), "at": 0}
    whole, events = _carried(given, [data])
    assert events, f"{kind.name} reported no event for 18 bytes"
    assert _carried(given, [data]) == (whole, events), f"{kind.name}: two runs differ"
    pieces = [data[:4], [], data[4:5], data[5:]]
    assert _carried(given, pieces)[0] == whole, (
        f"{kind.name}: the result depends on how the bytes are split into pieces"
    )
    assert all(0 <= value < 256 for _, value in whole), (
        f"{kind.name} returns a value that is not a byte (0 to 255)"
    )
    times = [ticks for ticks, _ in whole]
    assert times == sorted(times), f"{kind.name}: the times of the bytes are not in order"


def _carried(given: Mapping[str, Any], pieces: list[list[Timed]]) -> tuple[list[Timed], list[str]]:
    fault, present, events = fault_of(given), Present(), []
    present.event = lambda *event: events.append(repr(event))
    present.ns = 0
    activity = Activity(fault, RandomStreams(1).stream(f"fault/{NAME}"))
    (at_work,) = faults_at("to_board", LineFaults([activity], present), lambda ns: ns, 10**9)
    return [byte for piece in pieces for byte in at_work.take(piece)], events


class _Link:
    def __init__(self) -> None:
        self.called: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return lambda: self.called.append(name)


def _check_board(kind: type[BoardFault]) -> None:
    link = _Link()
    kind.strike(link)
    assert link.called == [kind.needs], (
        f"{kind.name} declares needs = {kind.needs!r}, but it calls {link.called} of the link"
    )
