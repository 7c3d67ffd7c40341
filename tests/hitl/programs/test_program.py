"""A whole program as a controller of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from program_runs import Compile, Make, events, loop_with

import rtsim as rt
from hitl.buses.traffic import MOST_REASONS
from hitl.programs import Program, ProgramPort
from hitl.programs.library import ProgramError
from hitl.programs.started import Datagram
from rtsim.core.errors import ControllerError, ScenarioError, UnknownName
from rtsim.core.outcome import Outcome
from rtsim.core.tag import Tag
from rtsim.record import compare
from rtsim.record.file import FileRecorder
from rtsim.record.reading import Recording
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.replay import rerun


def _ran(controller: Program, *args: Any, **options: Any) -> Recording:
    return rt.simulate(loop_with(controller, *args, **options)).recording()


def test_latest_answers(program: Make) -> None:
    messages = _ran(program("plain")).messages["node"]
    assert messages["twice"].tolist() == [0, 0, 6, 6, 6, 6]
    assert messages["count"].tolist() == [1, 2, 3, 4, 5, 6]
    assert messages["malformed"].tolist() == [0] * 6


def test_a_clock_field_holds_the_time_of_the_run(program: Make) -> None:
    messages = _ran(program("plain", boot=0.25)).messages["node"]
    assert messages["echo"].tolist() == [0, 0.01, 0.02, 0.03, 0.04, 0.05]
    np.testing.assert_allclose(messages["clock"] - messages["echo"], 0.25, atol=5e-6)


def test_frames_that_are_sent_at_each_second_tick(program: Make) -> None:
    assert _ran(program("plain")).messages["node"]["radio"].tolist() == [1, 1, 2, 2, 3, 3]


def test_two_programs_have_the_same_ports_in_one_run(program: Make) -> None:
    loop = loop_with(program("plain"))
    loop.controller(
        "other", program("plain"), period=0.01, compute=rt.Fixed(0.001),
        inputs={"value": "node.twice", "channel": 1.0},
    )  # fmt: skip
    messages = rt.simulate(loop).recording().messages
    assert messages["node"]["twice"].tolist() == [0, 0, 6, 6, 6, 6]
    assert messages["other"]["twice"].tolist() == [0, 0, 0, 12, 12, 12]


def test_two_runs_are_equal_and_the_replay_needs_no_program(
    program: Make, compiled_program: Compile, tmp_path: Path
) -> None:
    path = tmp_path / "copy"
    path.write_bytes(compiled_program("answers.c").read_bytes())
    path.chmod(0o755)
    controller = program("slow", "300")
    controller.command[0] = path
    first, second = _ran(controller), _ran(controller)
    assert first.digest() == second.digest()
    path.unlink()
    assert compare_exact(first, rerun(first, loop_with(controller))) is None


@pytest.mark.parametrize("compute", [0.001, 0.0])
def test_awaited_answers(program: Make, compute: float) -> None:
    controller = program("slow", "700", answer="awaited")
    messages = _ran(controller, compute).messages["node"]
    assert messages["twice"].tolist()[:6] == [0, 0, 6, 6, 6, 6]


def test_each_answer_that_is_older_than_its_request_is_counted(program: Make) -> None:
    messages = _ran(program("slow", "2000")).messages["node"]
    assert messages["count"].tolist() == [0, 1, 2, 3, 4, 5]
    assert messages["unanswered"].tolist() == [1, 2, 3, 4, 5, 6]


def test_a_frame_before_the_request_is_no_awaited_answer(program: Make) -> None:
    messages = _ran(program("again", "5000", answer="awaited")).messages["node"]
    assert messages["count"].tolist() == [1, 3, 5, 7, 9, 11]
    assert messages["unanswered"].tolist() == [0] * 6


def test_a_late_answer_is_held(program: Make) -> None:
    recording = _ran(program("slow-once", "5000", answer="awaited"), late="hold")
    (late,) = events(recording, "Late")
    assert late == "node: no answer after 1000000 ns, allowed 1000000 ns"
    assert events(recording, "Discarded") == ["the answer of 0.020000000 s was late"]
    assert recording.messages["node"]["count"].tolist() == [1, 2, 4, 5, 6]


def test_a_late_answer_ends_the_run(program: Make) -> None:
    with pytest.raises(ControllerError, match="no answer after 1000000 ns, allowed 1000000 ns"):
        _ran(program("slow-once", "5000", answer="awaited"), late="fail")


def test_a_late_answer_stops_the_clock_of_the_run(program: Make) -> None:
    recording = _ran(program("slow-once", "5000", answer="awaited"), late="stretch")
    assert len(events(recording, "Late")) == 1
    messages = recording.messages["node"]
    assert messages["count"].tolist() == [1, 2, 3, 4, 5, 6]
    ahead = (messages["clock"] - messages["echo"]).round(4)
    assert ahead.tolist() == [1, 1, 1, 1.004, 1.004, 1.004]  # the program's clock went on


@pytest.mark.parametrize("late", ["hold", "stretch"])
def test_a_program_that_stops_to_answer(program: Make, late: str) -> None:
    controller = program("silent", "2", answer="awaited", silence=0.1)
    if late == "stretch":
        with pytest.raises(ProgramError, match=r"answers sent no reply within 0.1 s of its time"):
            _ran(controller, late=late)
        return
    recording = _ran(controller, late=late)
    assert recording.messages["node"]["count"].tolist() == [1, 2]
    assert len(events(recording, "Missed")) == 4


def test_malformed_frames_are_counted(program: Make) -> None:
    controller = program("short").fresh()
    try:
        controller.send(Tag(0, 0), np.array([1.0, 1.0]))
        answer = controller.receive(Tag(0, 0), 0.001)
        assert answer is not None
        assert answer[-2] == 1
        ((reason, times),) = controller.malformed.items()
        assert "3" in reason
        assert times == 1
    finally:
        controller.close()


def test_reasons_of_malformed_frames_are_limited_and_each_frame_is_counted(program: Make) -> None:
    controller = program("plain")
    controller._begin()
    for size in range(1000, 1200):
        controller._take(Datagram(0, 5000, bytes(size)))
    assert len(controller.malformed) == MOST_REASONS + 1
    assert sum(controller.malformed.values()) == 200


def test_a_program_that_dies(program: Make) -> None:
    with pytest.raises(
        ControllerError,
        match=r"answers has ended with exit status 3, after 1\.02\d* s of its time \(0\.02",
    ):
        _ran(program("dies", "2"))
    recording = _ran(program("dies", "2"), failure="hold")
    (failed,) = events(recording, "Failed")
    assert "answers has ended with exit status 3" in failed
    assert "its last output:\nmode dies" in failed
    assert recording.messages["node"]["count"].tolist() == [1, 2]
    assert len(events(recording, "Missed")) == 4


def test_a_program_that_dies_fails_a_comparison(program: Make) -> None:
    recorder = rt.MemoryRecorder()
    with pytest.raises(ProgramError, match="its last output:\nmode dies"):
        rt.simulate(loop_with(program("dies", "2")), recorder=recorder)
    result = compare(_ran(program("plain")), recorder.recording())
    assert result.outcome is Outcome.FAILED
    (overlap,) = (one for one in result.results if one.name == "overlap")
    assert "exit status 3, after 1.02" in overlap.reason
    assert "its last output" not in overlap.reason


def test_files_output_and_environment(program: Make, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "parameters").write_text("x")
    options: dict[str, Any] = {"folder": folder, "environment": {"GAIN": "2"}, "keep": ["par*"]}
    controller = program("plain", **options).fresh()
    assert controller.process is not None
    assert controller._work is not None
    work = controller._work
    assert b"GAIN=2" in Path(f"/proc/{controller.process._running.pid}/environ").read_bytes()
    controller.close()
    assert not work.exists()
    with FileRecorder(tmp_path / "run.mcap") as recorder:
        rt.simulate(loop_with(program("plain", **options)), recorder=recorder)
    kept = tmp_path / "run.mcap.files" / "node"
    assert {path.name: path.read_text() for path in kept.iterdir()} == {
        "output.txt": "mode plain\n",
        "parameters": "x",
    }


@pytest.mark.parametrize(
    ("options", "kind", "said"),
    [
        ({"answer": "never"}, ScenarioError, "answer is 'never'; choose 'latest' or 'awaited'"),
        ({"receive": {}, "answer": "awaited"}, ScenarioError, "waits for frames; give receive="),
        ({"send": {"none": 4000}}, UnknownName, "none"),
        ({"clock_fields": ["speed"]}, UnknownName, "speed"),
        ({"clock": "wall"}, ScenarioError, "clock is 'wall'; choose 'virtual' or 'real'"),
        ({"look": 0.0}, ScenarioError, "look is 0.0 s; give a time above 0"),
        ({"send": {"sample": 70000}}, ScenarioError, "port 70000 is not between 1 and 65535"),
        ({"send": {"sample": ProgramPort(1, 0)}}, ScenarioError, "every=0 of sample; give 1"),
        ({"keep": ["../*"]}, ScenarioError, r"keep='../\*' is not a pattern of files in the work"),
        ({"keep": [""]}, ScenarioError, "keep='' is not a pattern"),
        ({"boot": -1.0}, ScenarioError, "boot"),
        ({"patience": 0.0}, ScenarioError, "patience is 0.0 s; give a time above 0"),
        ({"silence": float("nan")}, ScenarioError, "silence is nan s; give a time above 0"),
    ],
)
def test_refused_arguments(
    program: Make, options: dict[str, Any], kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind, match=said):
        program(**options)


def test_an_empty_command() -> None:
    with pytest.raises(ScenarioError, match="the command of a program is empty; give the path"):
        Program([], frames={}, send={}, receive={})


@pytest.mark.parametrize("argument", ["folder", "log"])
def test_a_folder_that_does_not_exist(program: Make, tmp_path: Path, argument: str) -> None:
    path = tmp_path / "none" / "file"
    with pytest.raises(ProgramError, match=f"{argument}=.*No such file or directory"):
        rt.simulate(loop_with(program("plain", **{argument: path})))


def test_a_port_that_the_program_never_opens(program: Make) -> None:
    late = {"sample": 4000, "radio": ProgramPort(4009, 2, opens_late=True)}
    result = rt.simulate(loop_with(program("plain", send=late, opens=[4001])))
    assert result.warnings == [
        "node: the program never opened port 4009, so that it received no frame radio"
    ]
    late["radio"] = ProgramPort(4001, 2, opens_late=True)
    assert rt.simulate(loop_with(program("plain", send=late))).warnings == []


def test_a_run_needs_a_started_program(program: Make) -> None:
    controller = program("plain")
    with pytest.raises(ControllerError, match="answers is not started"):
        controller.receive(Tag(0, 0), 0.001)


def test_the_description_names_the_program(program: Make, compiled_program: Compile) -> None:
    described = program("plain").describe()
    assert described["command"] == [str(compiled_program("answers.c")), "plain"]
    assert len(str(described["sha256"])) == 64
    assert described["sends"] == {"sample": [4000, 1], "radio": [4001, 2]}
    assert described["receives"] == {"reply": [5000, 1]}


def test_a_frame_for_a_port_that_the_program_does_not_open(program: Make) -> None:
    controller = program("plain", send={"sample": 4000, "radio": 4009}, opens=[4001])
    with pytest.raises(ControllerError, match="port 4009, which the program has not opened; corr"):
        _ran(controller)


def test_a_port_of_the_program_that_the_scenario_does_not_declare(program: Make) -> None:
    with pytest.raises(ProgramError, match="uses data for port 5000, which is not declared"):
        _ran(program("plain", receive={"reply": 5001}))


def test_latest_answers_need_a_compute_latency(program: Make) -> None:
    with pytest.raises(ControllerError, match=r"due at its request.*give the controller a compute"):
        _ran(program("plain"), 0.0)


def test_notes_of_a_program_are_warnings_of_the_run(program: Make) -> None:
    result = rt.simulate(loop_with(program("asks")))
    assert result.warnings == ["node: getpid(): the number of the process differs between two runs"]


def test_malformed_and_missing_frames_are_warnings_of_the_run(program: Make) -> None:
    short = rt.simulate(loop_with(program("short"))).warnings
    assert len(short) == 1
    assert short[0].startswith("node: malformed frames: 6, frame reply has 3 bytes")
    silent = rt.simulate(loop_with(program("silent", "0")))
    assert silent.warnings == ["node: the program sent no frame reply"]
    assert rt.simulate(loop_with(program("plain"))).warnings == []
