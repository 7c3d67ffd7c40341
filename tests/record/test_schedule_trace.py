"""Traces for Perfetto: tasks as rows, messages as arrows, by the schema of the package perfetto.

Perfetto's own trace processor is a program that its package downloads.  These tests do not run it:
they check the rules of its input (slices of a row are nested, and arrows go forward in time).
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

import rtsim as rt
from rtsim.cli import main
from rtsim.core.errors import RecordingError, ScenarioError
from rtsim.models.ball import scenario as ball
from rtsim.record.file import FileRecorder
from rtsim.record.reading import Recording
from rtsim.record.schedule_trace import TraceCounts, write_trace
from rtsim.runs.simulation import simulate
from rtsim.scenario.scenario import Scenario
from rtsim.schedules import Segment
from rtsim.testing.determinism import trace_of

MS = 1_000_000


class Cart(rt.Plant):
    x = rt.state("m", 1)
    v = rt.state("m/s")
    force = rt.input("N/kg")

    def derivative(self, d: Cart) -> None:
        d.x = self.v
        d.v = self.force


class Brake(rt.Controller):
    x = rt.input("m")
    force = rt.output("N/kg")

    def step(self) -> None:
        self.force = -self.x


def scenario(gps: float = 0.01) -> Scenario:
    """The interrupt handler preempts the controller, whose messages go from 4 ms on to the cart.

    The sensor sends each ``gps`` s, and its messages arrive 1 ms later.
    """
    loop = Scenario("line", until=0.0195)
    loop.processor("mcu")
    cart = loop.plant(Cart(), step=0.01)
    loop.sensor("gps", {"x": "cart.x"}, period=gps, transport=0.001)
    law = loop.controller(
        "law", Brake().controller("law"), period=0.01, processor="mcu", execution=0.003,
        inputs={"x": "gps.x"}, offset=0.002, transport=0.001, priority=1, deadline=0.0035,
    )  # fmt: skip
    loop.connect(law.force, cart.force)
    loop.task("isr", "mcu", period=0.01, offset=0.003, execution=0.001, interrupt=True)
    return loop


class Slice(NamedTuple):
    row: str
    name: str
    begin: float
    end: float
    values: dict[str, float]


class Read:
    """What a viewer reads from a trace: slices, instants and arrows, with times in ms."""

    def __init__(self, path: Path) -> None:
        trace = Trace.FromString(path.read_bytes())
        self.processes: dict[int, str] = {}
        self.rows: dict[int, str] = {}
        self.parents: dict[str, str] = {}
        self.slices: list[Slice] = []
        self.instants: list[tuple[str, str, float]] = []
        self.flows: dict[int, list[tuple[str, float]]] = defaultdict(list)
        open_: dict[int, Any] = {}
        last = 0
        for packet in trace.packet:
            assert packet.ByteSize()
            if packet.HasField("track_descriptor"):
                self._declare(packet.track_descriptor)
                continue
            event, ns = packet.track_event, packet.timestamp
            assert ns >= last
            assert packet.trusted_packet_sequence_id
            last, row = ns, self.rows[event.track_uuid]
            for flow in event.flow_ids:
                self.flows[flow].append((row, ns / MS))
            if event.type == TrackEvent.TYPE_SLICE_BEGIN:
                assert event.track_uuid not in open_, "slices of one row overlap"
                open_[event.track_uuid] = event, ns
            elif event.type == TrackEvent.TYPE_SLICE_END:
                began, at = open_.pop(event.track_uuid)
                notes = {n.name: n.int_value or n.double_value for n in began.debug_annotations}
                self.slices.append(Slice(row, began.name, at / MS, ns / MS, notes))
            else:
                assert event.type == TrackEvent.TYPE_INSTANT
                self.instants.append((row, event.name, ns / MS))
        assert not open_, "a slice has no end"

    def _declare(self, about: Any) -> None:
        if about.HasField("process"):
            self.processes[about.uuid] = about.process.process_name
        else:
            self.rows[about.uuid] = about.name
            self.parents[about.name] = self.processes[about.parent_uuid]

    def of(self, row: str) -> list[tuple[str, float, float]]:
        return [(s.name, s.begin, s.end) for s in self.slices if s.row == row]


def written(
    recording: Recording, path: Path, span: tuple[float, float] = (0, 1000)
) -> tuple[Read, TraceCounts]:
    counts = write_trace(recording, path, (round(span[0] * MS), round(span[1] * MS)))
    return Read(path), counts


@pytest.fixture(scope="module")
def recording() -> Recording:
    return trace_of(scenario())


def test_each_task_is_a_row_of_its_processor_with_its_states(
    recording: Recording, tmp_path: Path
) -> None:
    found, counts = written(recording, tmp_path / "run.pftrace")
    assert found.parents == {
        "law": "mcu", "isr": "mcu", "gps": "components", "cart": "components",
    }  # fmt: skip
    assert found.of("isr") == [("running", 3, 4), ("running", 13, 14)]
    assert found.of("law") == [
        ("running", 2, 3), ("waiting", 3, 4), ("running", 4, 6),
        ("running", 12, 13), ("waiting", 13, 14), ("running", 14, 16),
    ]  # fmt: skip
    assert counts == (2, 8, 4, 2)
    last = next(s for s in found.slices if s.row == "law" and s.begin == 14)
    assert last.values == {"core": 1, "job": 1, "arrival [s]": 0.012, "deadline [s]": 0.0155}


def test_a_missed_deadline_is_an_instant_of_its_task(recording: Recording, tmp_path: Path) -> None:
    found, _ = written(recording, tmp_path / "run.pftrace")
    missed = [one for one in found.instants if one[1] == "deadline missed"]
    assert missed == [("law", "deadline missed", 5.5), ("law", "deadline missed", 15.5)]


def test_messages_are_arrows_from_the_job_that_sends_to_the_job_that_samples(
    recording: Recording, tmp_path: Path
) -> None:
    found, _ = written(recording, tmp_path / "run.pftrace")
    arrows = sorted(found.flows.values(), key=lambda arrow: arrow[0][1])
    assert arrows == [
        [("gps", 0), ("law", 1), ("law", 2)],  # sent, arrives, and is sampled by the job
        [("law", 4), ("cart", 7)],  # the job that ends at 6 ms sends
        [("gps", 10), ("law", 11), ("law", 12)],
        [("law", 14), ("cart", 17)],
    ]


def test_a_message_that_a_newer_one_replaces_has_no_arrow_to_a_job(tmp_path: Path) -> None:
    found, _ = written(trace_of(scenario(gps=0.005)), tmp_path / "run.pftrace")
    read = [arrow for arrow in found.flows.values() if arrow[0][0] == "gps"]
    assert [arrow[0][1] for arrow in read if len(arrow) == 3] == [0, 10]
    assert [arrow[0][1] for arrow in read if len(arrow) == 2] == [5, 15]


def test_a_span_cuts_the_slices_and_leaves_out_messages(
    recording: Recording, tmp_path: Path
) -> None:
    found, counts = written(recording, tmp_path / "run.pftrace", (2.5, 8))
    assert found.of("law") == [("running", 2.5, 3), ("waiting", 3, 4), ("running", 4, 6)]
    assert [arrow[-1] for arrow in found.flows.values()] == [("cart", 7)]
    assert counts.missed == 1


def test_the_time_that_a_task_runs_is_that_of_its_jobs(tmp_path: Path) -> None:
    loop = Scenario("locks", until=0.4)
    loop.processor("mcu", cores=2, migration=True)
    for k, period in enumerate((0.007, 0.011, 0.013)):
        parts = [Segment(rt.Uniform(1e-4, 4e-3)), Segment(rt.Uniform(1e-4, 2e-3), lock="bus")]
        loop.task(f"t{k}", "mcu", period=period, priority=k, segments=parts, missed="abort")
    recording = trace_of(loop)
    found, _ = written(recording, tmp_path / "run.pftrace")
    assert {"running", "waiting", "blocked"} == {one.name for one in found.slices}
    assert {one.values["core"] for one in found.slices if "core" in one.values} == {1, 2}
    for k in range(3):
        jobs = recording.track(f"jobs/t{k}")
        for number, executed in zip(
            jobs.integer("number").tolist(), jobs.integer("executed").tolist(), strict=True
        ):
            ran = [
                s.end - s.begin for s in found.slices
                if s.row == f"t{k}" and s.name == "running" and s.values.get("job") == number
            ]  # fmt: skip
            assert sum(ran) == pytest.approx(executed / MS, abs=1e-9)


def test_the_command_writes_a_trace(tmp_path: Path) -> None:
    run, out = tmp_path / "run.mcap", tmp_path / "run.pftrace"
    simulate(scenario(), recorder=FileRecorder(run))
    said = CliRunner().invoke(main, ["export", str(run), "-o", str(out), "--to", "0.01"])
    assert said.exit_code == 0, said.output
    assert "2 tasks, 4 slices, 2 arrows, 1 missed deadlines" in said.output
    assert Read(out).of("isr") == [("running", 3, 4)]
    again = CliRunner().invoke(main, ["export", str(run), "-o", str(out), "--force", "--rate", "9"])
    assert again.exit_code
    assert "--rate" in again.output


def test_a_recording_without_a_processor_has_no_schedule(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="has no processor"):
        written(trace_of(ball(), until=0.1), tmp_path / "run.pftrace")


def test_a_missing_package_is_an_error_with_its_extra(
    recording: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "perfetto.protos.perfetto.trace.perfetto_trace_pb2"
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ScenarioError, match=r"pip install 'rtsim\[data\]'"):
        written(recording, tmp_path / "run.pftrace")
