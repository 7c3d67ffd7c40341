"""The F-16 on an emulated Uno whose line and power go wrong: what the policies declare happens.

A command that is late, or that nobody could ask for, is one that the aircraft never hears.  So
each flight is flown once more with the law's C on this host, and those answers dropped on the way:
with commands held at the same times the aircraft has to be at the same place, to the bit.  At
100 Hz with 5 ms, where the loop is stable and answers are due on the steps of the solver.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
from emulated_board_parts import need
from fault_parts import in_words, told
from protocol_parts import f16
from rig_parts import EXAMPLE, RIG

from hitl.boards.contract import BoardLink
from hitl.boards.faulty import FaultyLink, faulty
from hitl.controllers.board import BoardController
from hitl.controllers.sil import SilController
from hitl.rigs.controller import RigController
from hitl.rigs.file import load_rig
from hitl.rigs.rig import CLOCK_HZ, RigEnd
from rtsim.components.controller import ControllerProtocol
from rtsim.core.errors import ControllerError
from rtsim.core.tag import Period
from rtsim.engine.faults.line_kinds import LineFaults
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.replay import rerun
from rtsim.runs.simulation import simulate
from rtsim.scenario.loading import load_scenario
from rtsim.scenario.scenario import Scenario
from rtsim.testing.determinism import trace_of

NAME, RATE, ALLOWED = "autopilot", 100, 0.005
MS = 1_000_000
TICK_NS = 1_000_000_000 // RATE
REPLY = 34
"""Bytes with the delimiter; each is as long."""
ANY = -1
"""Some value of a byte that is not 0."""
SHORT, WHOLE = 2.0, 60.0
KINDS = ("corrupted", "lost", "silent", "reset", "all")
until = pytest.mark.parametrize("until", [SHORT, pytest.param(WHOLE, marks=pytest.mark.full)])


def faults(kind: str, until: float) -> list[dict[str, Any]]:
    """1 % of bytes, 5 % of replies, 200 ms of silence, a reset; terminating is left alone."""
    one_percent = {"probability": 0.01, "until": until}
    each = {
        "corrupted": [
            {"name": "out", "where": f"{NAME}.to_board", "kind": "bit_flip", **one_percent},
            {"name": "in", "where": f"{NAME}.from_board", "kind": "bit_flip", **one_percent},
        ],
        "lost": [
            {"name": "lost", "where": f"{NAME}.from_board", "kind": "truncation",
             "probability": 0.05, "until": until},
        ],
        "silent": [
            {"name": "silence", "where": f"{NAME}.from_board", "kind": "silence",
             "at": until / 2 + 0.001, "duration": 0.2},
        ],
        "reset": [
            {"name": "reset", "where": f"{NAME}.board", "kind": "board_reset",
             "at": 0.75 * until + 0.0012345},
        ],
    }  # fmt: skip
    return [f for name in each for f in each[name] if kind in (name, "all")]


def scenario(controller: ControllerProtocol, *spoiled: dict[str, Any], **policies: str) -> Scenario:
    out = load_scenario("f16", {"case": "13.1", "rate": str(RATE), "compute": str(ALLOWED)})
    out.replace_controller(NAME, controller, **({"late": "hold", "failure": "hold"} | policies))
    out.faults(*spoiled)
    return out


def on_board(kind: str, until: float, **policies: str) -> Scenario:
    need("avr8js")
    return scenario(BoardController(f16(), cases=None), *faults(kind, until), **policies)


@dataclass(frozen=True)
class Flight:
    recording: Recording
    task: Any
    sent: list[bytes]
    """Requests as they were before the line had them; the last one terminates."""

    @property
    def controller(self) -> BoardController:
        assert isinstance(self.task.controller, BoardController)
        return self.task.controller

    def at(self, *kinds: str) -> list[int]:
        """Ticks of the requests that these events tell of.

        A failure that is told at a tick is of a request that was late before.
        """
        events = [e for e in self.recording.events if e.kind in kinds and e.source == NAME]
        allowed = round(ALLOWED * 1e9)
        at = [e.tag.ns - (allowed if e.kind in ("Late", "Failed") else 0) for e in events]
        return [ns // TICK_NS for ns in at if ns % TICK_NS == 0]

    @property
    def unanswered(self) -> list[int]:
        """Ticks before the end whose command never came."""
        track = self.recording.track(f"messages/{NAME}")
        came = set((track.integer("initiated") // TICK_NS).tolist())
        return [k for k in range(self.recording.end_ns // TICK_NS) if k not in came]


def flown(scenario: Scenario, until: float) -> Flight:
    recorder, sent = MemoryRecorder(), list[bytes]()

    def tapped(link: BoardLink, line: LineFaults) -> FaultyLink:
        made = faulty(link, line)
        send = made.send

        def noted(data: bytes) -> None:
            sent.append(data)
            send(data)

        made.send = noted  # type: ignore[method-assign]
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hitl.controllers.board.faulty", tapped)
        outcome = simulate(scenario, until=until, recorder=recorder, seed=1)
    (task,) = (t for t in outcome.system.controllers if t.name == NAME)
    return Flight(recorder.recording(), task, sent)


@cache
def flight(kind: str, until: float) -> Flight:
    return flown(on_board(kind, until), until)


@cache
def with_drops(kind: str, until: float) -> Recording:
    """The host's float build, whose answers at the same ticks are dropped."""
    gone: list[list[int]] = []
    for k in flight(kind, until).unanswered:
        if gone and k == sum(gone[-1]):
            gone[-1][1] += 1
        else:
            gone.append([k, 1])
    drops = (
        {"name": f"gone_{k}", "where": NAME, "kind": "drop", "at": k / RATE, "count": n}
        for k, n in gone
    )
    controller = SilController(f"{f16().path}:single")
    return trace_of(scenario(controller, *drops), until=until, seed=1)


# -- the policy acts, and the aircraft is where it says


@pytest.mark.sample(2)
@until
@pytest.mark.parametrize("kind", KINDS)
def test_the_aircraft_is_where_held_commands_take_it(kind: str, until: float) -> None:
    board, host = flight(kind, until).recording, with_drops(kind, until)
    ours, theirs = board.track("f16").rows, host.track("f16").rows
    assert ours.ns.tobytes() == theirs.ns.tobytes()
    assert ours.floats.tobytes() == theirs.floats.tobytes()
    heard = np.isin(host.track(f"messages/{NAME}").rows.ns, board.track(f"messages/{NAME}").rows.ns)
    commands = host.track(f"messages/{NAME}").rows.floats[heard]
    assert commands.tobytes() == board.track(f"messages/{NAME}").rows.floats.tobytes()


@pytest.mark.sample(2)
@until
@pytest.mark.parametrize("kind", KINDS)
def test_each_tick_without_a_command_is_told_once(kind: str, until: float) -> None:
    flight_ = flight(kind, until)
    told = flight_.at("Late", "Missed", "Failed")
    assert sorted(t for t in told if t < until * RATE) == flight_.unanswered
    assert len(flight_.at("Late")) == flight_.task.lates
    assert len(flight_.at("Missed")) == flight_.task.missed
    assert flight_.unanswered, "the fault did something"


@until
@pytest.mark.parametrize("kind", KINDS)
def test_it_replays_bit_for_bit(kind: str, until: float) -> None:
    recording = flight(kind, until).recording
    replayed = rerun(recording, on_board(kind, until))
    assert compare_exact(recording, replayed) is None
    assert in_words(recording) == in_words(replayed)


# -- all is counted


def heard(sent: Sequence[int], flips: list[tuple[int, int]]) -> tuple[int, int]:
    """Frames that are whole where they arrive, and pieces between delimiters that are none.

    ``flips`` are (byte, its value now).
    """
    arriving = list(sent)
    for byte, now in flips:
        arriving[byte] = now
    whole, there = pieces(sent), pieces(arriving)
    return len(there & whole), len(there - whole)


def pieces(data: Sequence[int]) -> set[tuple[int, tuple[int, ...]]]:
    """Where each begins, and what it is."""
    out, start = set(), 0
    for end in (k for k, value in enumerate(data) if value == 0):
        out.add((start, tuple(data[start:end])))
        start = end + 1
    return {piece for piece in out if piece[1]}


def flips(recording: Recording, name: str) -> list[tuple[int, int]]:
    found = [e.values for e in told(recording, "Fault") if e.source == name]
    return [(int(v["byte"]), int(v["now"])) for v in found]


@until
def test_corrupted_bytes_are_counted(until: float) -> None:
    """The board answers the requests that came whole; what came back whole or not is counted."""
    one = flight("corrupted", until)
    counts = one.controller.counts
    out, back = flips(one.recording, "out"), flips(one.recording, "in")
    requests = b"".join(one.sent[:-1])
    answered, _ = heard(requests, out)
    replies = [*[ANY] * (REPLY - 1), 0] * answered
    whole, bad = heard(replies, back)
    assert (counts.frames, sum(counts.garbage.values())) == (whole + 1, bad)
    for found, size in ((out, len(requests)), (back, len(replies))):
        assert abs(len(found) - 0.01 * size) < 4 * (0.01 * size) ** 0.5


@until
def test_lost_replies_are_counted(until: float) -> None:
    """Each is asked for again, once."""
    one = flight("lost", until)
    lost = Counter(e.source for e in told(one.recording, "Fault"))["lost"]
    assert one.controller.counts.repeated == lost
    answers = len(one.sent) - 1
    assert abs(lost - 0.05 * answers) < 4 * (0.05 * answers) ** 0.5
    assert lost >= one.task.lates > 0


@until
def test_silence_is_one_late_answer_and_ticks_that_are_missed(until: float) -> None:
    one = flight("silent", until)
    began, ended = told(one.recording)
    assert (began.kind, ended.kind) == ("Fault", "FaultEnded")
    assert began.tag.ns >= round((until / 2 + 0.001) * 1e9)
    assert ended.tag.ns == round((until / 2 + 0.201) * 1e9)
    first = round(until / 2 * RATE)
    assert one.at("Late") == [first]
    assert one.at("Missed") == list(range(first + 1, first + 1 + one.task.missed))
    assert 19 <= one.task.missed <= 22
    assert one.controller.counts.garbage == dict.fromkeys(one.controller.counts.garbage, 0)


@until
@pytest.mark.parametrize("kind", ["reset", "all"])
def test_a_reset_is_one_failure_and_the_last_command_holds(kind: str, until: float) -> None:
    one = flight(kind, until)
    (reset,) = (e for e in told(one.recording, "Fault") if e.source == "reset")
    assert reset.tag.ns == round((0.75 * until + 0.0012345) * 1e9)
    (failed,) = (e for e in one.recording.events if e.kind == "Failed")
    assert reset.tag.ns < failed.tag.ns <= reset.tag.ns + 300_000_000
    assert "reset" in failed.text
    last = one.recording.track(f"messages/{NAME}").rows.floats[-1]
    track = one.recording.track("f16").rows
    for column, name in enumerate(("elevator", "aileron", "rudder", "power")):
        held = one.recording.track("f16").column(name)[track.ns > failed.tag.ns]
        assert set(held.tolist()) == {float(last[column])}


@until
def test_all_together_are_all_there(until: float) -> None:
    counts = Counter(e.source for e in told(flight("all", until).recording, "Fault"))
    assert set(counts) == {"out", "in", "lost", "silence", "reset"}
    assert (counts["silence"], counts["reset"]) == (1, 1)


COST = {
    "lost": (5647, 323, 30),
    "silent": (5979, 1, 20),
    "reset": (4500, 0, 1500),
    "corrupted": (315, 824, 4862),
}
"""Of docs/pitl.md: commands that came in 60 s, late, missed."""


@pytest.mark.full
@pytest.mark.parametrize("kind", COST)
def test_what_a_bad_line_costs(kind: str) -> None:
    one = flight(kind, WHOLE)
    came = len(one.recording.track(f"messages/{NAME}"))
    assert (came, one.task.lates, one.task.missed) == COST[kind]
    end = one.recording["f16.altitude_ft"][-1]
    assert (abs(end - 10_113) < 1) == (kind != "corrupted")
    assert (end < 1100) == (kind == "corrupted")


# -- the other policies


def ended(scenario: Scenario, until: float) -> tuple[Recording, str]:
    """A flight that its policy ends, and how."""
    recorder = MemoryRecorder()
    with pytest.raises(ControllerError) as error:
        simulate(scenario, until=until, recorder=recorder, seed=1)
    return recorder.recording(), str(error.value)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("kind", "policy", "why"),
    [
        ("silent", {"late": "fail"}, r"no answer after 5000000 ns, allowed 5000000 ns"),
        ("reset", {"failure": "end"}, "the board has reset after step"),
    ],
)
def test_a_policy_that_ends_the_flight_does_so_at_once(
    kind: str, policy: dict[str, str], why: str
) -> None:
    """Up to there it is the flight that goes on with what it had."""
    cut, said = ended(on_board(kind, SHORT, **({"failure": "end"} | policy)), SHORT)
    assert why in said
    one = flight(kind, SHORT)
    end = min(e.tag.ns for e in one.recording.events if e.kind in ("Late", "Failed"))
    assert cut.end_ns <= end < cut.end_ns + TICK_NS
    ours, theirs = cut.track("f16").rows, one.recording.track("f16").rows
    before = len(ours.ns)
    assert ours.floats.tobytes() == theirs.floats[:before].tobytes()
    assert not [e for e in cut.events if e.kind == "Missed"]


@pytest.mark.long
def test_stretched_time_is_as_if_nothing_had_happened() -> None:
    """Each late answer is waited for: the line is bad, and the flight is that of a good one."""
    stretched = flown(on_board("lost", SHORT, late="stretch"), SHORT)
    assert stretched.task.lates > 0
    assert stretched.task.missed == 0
    good = flight("nothing", SHORT).recording
    assert compare_exact(good, stretched.recording) is None


def test_a_rig_whose_line_is_silent_has_safe_values_at_its_pins() -> None:
    """200 ms of silence, of which the watchdog waits for 100: then all light, as the rig says."""
    need("avr8js")
    volts: list[tuple[float, float]] = []

    def probe(cycle: int, end: RigEnd, value: float) -> None:
        if str(end) == "switch.A0":
            volts.append((cycle / CLOCK_HZ, value))

    def silenced() -> Scenario:
        out = load_scenario(str(EXAMPLE / "illumination.py"))
        out.replace_controller("switch", RigController(load_rig(RIG), Period.of(0.02), probe=probe))
        out.faults({"name": "silence", "where": "switch.to_board", "kind": "silence", "at": 0.301,
                    "duration": 0.2})  # fmt: skip
        return out

    recorder = MemoryRecorder()
    outcome = simulate(silenced(), until=0.62, recorder=recorder)
    (task,) = (t for t in outcome.system.controllers if t.name == "switch")
    assert isinstance(task.controller, RigController)
    assert task.controller.silences == 1
    start = next(at for at, v in reversed(volts[: len(volts) // 3]) if v > 4.9)

    def sensed(t: float) -> float:
        return [v for at, v in volts if at - start <= t][-1]

    recording = recorder.recording()
    asked = recording.track("messages/switch.inputs").rows
    light = dict(zip((asked.ns // MS).tolist(), asked.floats[:, 0].tolist(), strict=True))
    held = 0.005 * light[300]  # V of the last request that came
    assert sensed(0.398) == pytest.approx(held, abs=0.02)
    left = next(at - start for at, v in volts if at - start > 0.31 and v > held + 0.1)
    assert 0.400 < left < 0.404
    assert sensed(0.47) == pytest.approx(5.0, abs=0.02)
    assert sensed(0.619) == pytest.approx(0.005 * light[600], abs=0.25), "driven again"
    assert [e.tag.ns for e in recording.events if e.kind == "Late"] == [330_000_000]
    assert compare_exact(recording, rerun(recording, silenced())) is None
