"""What people are told of faults: by the command line, the report, and errors that they cause."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from fault_parts import copy_input, flown, ramp
from semantics_parts import U

from rtsim.cli import main
from rtsim.components.controller import PythonController
from rtsim.core.errors import ControllerError
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import Tag
from rtsim.record.events import Span, rows, spans
from rtsim.record.reports.run_page import render
from rtsim.testing.determinism import trace_of

FAULTS = """
[[fault]]
name = "stuck"
where = "unstable.y"
kind = "stuck"
at = 0.5
duration = 0.1

[[fault]]
name = "lost"
where = "controller"
kind = "drop"
at = 0.2
count = 1

[[fault]]
name = "bytes"
where = "controller.to_board"
kind = "silence"
"""


def run(folder: Path, *options: str, text: str = FAULTS) -> Result:
    (folder / "faults.toml").write_text(text, encoding="utf-8")
    scenario = folder / "scenario.py"
    scenario.write_text(_SCENARIO, encoding="utf-8")
    line = ["run", str(scenario), "--faults", str(folder / "faults.toml"), *options]
    return CliRunner().invoke(main, line)


_SCENARIO = """
from rtsim import Model, PythonController, Scenario, Signals

def fall(t, x, z, u, p, dx):
    dx[0] = u[0] - x[0]

def law(t, u, s, p, y):
    y[0] = 1.0 - u[0]

def scenario():
    out = Scenario("held", until=1)
    out.plant("unstable", Model("lag", Signals("y"), fall, inputs=Signals("u")), step=0.01,
              inputs={"u": "controller.y"})
    out.controller("controller", PythonController(law, Signals("e"), Signals("y")), period=0.1,
                   inputs={"e": "unstable.y"})
    return out
"""


def test_run_counts_what_a_fault_did_and_says_what_it_cannot_do(tmp_path: Path) -> None:
    done = run(tmp_path, "-o", str(tmp_path / "a.mcap"), "--plain")
    assert done.exit_code == 0, done.output
    table = [line.split() for line in done.output.splitlines()]
    assert ["bytes", "silence", "controller.to_board", "0"] in table
    assert ["lost", "drop", "controller", "1"] in table
    assert ["stuck", "stuck", "unstable.y", "1"] in table
    assert "note: these faults have no effect here: bytes (controller has no line" in done.output
    replayed = CliRunner().invoke(main, ["replay", "--trust", str(tmp_path / "a.mcap")])
    assert replayed.exit_code == 0, replayed.output
    assert "equal bit for bit" in replayed.output


def test_strict_is_a_no_where_a_fault_can_do_nothing_or_never_did(tmp_path: Path) -> None:
    assert run(tmp_path, "--no-record", "--plain", "--strict").exit_code == 1
    fitting = FAULTS.partition('[[fault]]\nname = "bytes"')[0]
    assert run(tmp_path, "--no-record", "--plain", "--strict", text=fitting).exit_code == 0
    never = fitting.replace("at = 0.2", "at = 2.0")
    done = run(tmp_path, "--no-record", "--plain", "--strict", text=never)
    assert done.exit_code == 1
    assert "note: these faults never acted in this run: lost" in done.output


def test_run_as_json(tmp_path: Path) -> None:
    done = run(tmp_path, "--no-record", "--plain", "--json")
    told = json.loads(done.output)["faults"]
    assert {n: f["activations"] for n, f in told.items()} == {"bytes": 0, "lost": 1, "stuck": 1}
    assert "no line" in told["bytes"]["idle"]
    assert told["lost"]["idle"] is None


def test_a_bad_file_is_one_line(tmp_path: Path) -> None:
    done = run(tmp_path, "--no-record", text=FAULTS.replace("drop", "dorp"))
    assert done.exit_code == 2
    assert "faults.toml:12: unknown kind 'dorp'; did you mean drop" in done.output
    done = run(tmp_path, "--no-record", text=FAULTS.replace("unstable.y", "unstabel.y"))
    assert done.exit_code == 2
    assert (
        "faults.toml:4: fault stuck: unknown component 'unstabel'; did you mean unstable?"
        in done.output
    )


AT = {"at": 0.3, "duration": 0.2}

# -- the report ------------------------------------------------------------------------------------


def test_the_report_has_each_activation_and_a_count() -> None:
    recording = flown(
        ramp(),
        {"name": "hum", "where": "ramp.x", "kind": "offset", "amount": 1} | AT,
        {"name": "lost", "where": "controller", "kind": "drop", "every": 0.25, "count": 1},
        {"name": "bold", "where": "controller", "kind": "drop"},
    )
    described = recording.header["scenario"]["faults"]
    found = spans(recording.events, described, recording.end_ns)
    assert [(s.fault, s.began, s.ended) for s in found] == [
        ("bold", 0.0, 1.0), ("hum", 0.3, 0.5), ("lost", 0.3, 0.3), ("lost", 0.5, 0.5),
        ("lost", 0.8, 0.8), ("lost", 1.0, 1.0),
    ]  # fmt: skip
    assert [r[:1] + r[4:] for r in rows(recording.events, described)] == [
        ("bold", 1, "0", "0"), ("hum", 1, "0.3", "0.3"), ("lost", 4, "0.3", "1"),
    ]  # fmt: skip
    page = render(recording)
    assert '<section id="faults">' in page
    for name in ("bold", "hum", "lost"):
        assert f"fault {name}" in page
    assert "Orange bands are faults" in page


def test_the_report_of_a_run_without_faults_has_none() -> None:
    page = render(trace_of(ramp()))
    assert '<section id="faults">' not in page
    assert "Orange marks" not in page


def test_spans_of_what_a_recording_does_not_describe() -> None:
    """A header without faults, or one that is damaged, breaks nothing."""
    from rtsim.record.events import Event

    events = [Event(Tag(10**9), "Fault", "x"), Event(Tag(2 * 10**9), "FaultEnded", "y")]
    assert spans(events, [], 3 * 10**9) == [Span("x", 1.0, 1.0, "")]
    assert rows(events, [{}]) == [("", "", "", "", 0, "", "")]


# -- NaN at the input of a controller --------------------------------------------------------------

NAN = {"name": "f", "where": "controller.u", "kind": "nan", "at": 0.5, "count": 1}


def test_a_law_that_passes_nan_on_ends_the_run_with_its_inputs() -> None:
    scenario = ramp(law=copy_input)
    scenario.faults(NAN)
    with pytest.raises(ControllerError, match=r"controller answered nan for y at 0.5.*u=nan"):
        trace_of(scenario)


def test_with_failure_hold_the_last_answer_holds() -> None:
    scenario = ramp(law=copy_input)
    design = PythonController(copy_input, U, Signals("y [1]"), memory=Signals("s [1]"))
    scenario.replace_controller("controller", design, failure="hold")
    recording = flown(scenario, NAN)
    kinds = [(e.kind, e.tag.ns // 10**8) for e in recording.events]
    assert kinds == [("Fault", 5), ("Failed", 5), *(("Missed", k) for k in range(6, 11))]
    assert recording["driven.u"][-1] == pytest.approx(0.4)


def test_a_law_that_guards_itself_goes_on() -> None:
    def guarded(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
        if u[0] == u[0]:
            s[0] = u[0]
        y[0] = s[0]

    recording = flown(ramp(law=guarded), NAN)
    assert [e.kind for e in recording.events] == ["Fault"]
    assert recording.messages["controller"]["y"][5] == pytest.approx(0.4)
    assert recording.messages["controller"]["y"][6] == pytest.approx(0.6)
