"""Back to back: the C against its design, on equal inputs and with the plant in the loop."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from back_to_back_parts import (
    CRASH,
    CRASH_AT_END,
    FAULT_STEP,
    SIGN,
    Stand,
    built,
    from_step,
    write_law,
)
from sil_parts import children, nothing_left

from hitl.building.build import Build, build
from hitl.comparison.back_to_back import back_to_back
from hitl.comparison.conditions import ProgressWatch, inputs_of
from hitl.comparison.verdict import BackToBack
from hitl.controllers.sil import SilController
from rtsim.components.controller import PythonController
from rtsim.core.clock import stopwatch
from rtsim.core.errors import RecordingError, ScenarioError, UnknownName
from rtsim.core.outcome import Outcome
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import Tag
from rtsim.models.unstable import controller, scenario
from rtsim.record.file import FileRecorder
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.replay import rerun
from rtsim.runs.simulation import simulate
from rtsim.scenario.scenario import Scenario

UNTIL = 3
STEPS = 31


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Build:
    return built(tmp_path_factory.mktemp("good"))


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cases of steps that went wrong are saved below the current folder."""
    monkeypatch.chdir(tmp_path)


def held(build: Build, **how: object) -> BackToBack:
    options: dict[str, object] = {"until": UNTIL, **how}
    return back_to_back(scenario(), {"controller": SilController(build)}, **options)


class Fresh(Stand):
    """A stand-in that a scenario can start."""

    def fresh(self) -> Fresh:
        return Fresh(self.law, self.change, self.outputs)


def flown(path: Path | None = None, **settings: object) -> Recording:
    recorder = MemoryRecorder() if path is None else FileRecorder(path, stopwatch)
    simulate(scenario(**settings), until=UNTIL, recorder=recorder)  # type: ignore[arg-type]
    return recorder.recording() if isinstance(recorder, MemoryRecorder) else Recording.open(path)  # type: ignore[arg-type]


def test_a_copy_of_a_scenario_is_changed_by_itself() -> None:
    one = scenario()
    other = one.copy()
    other.set("plant.x", 2.0)
    other.set("controller.proportional", 9.0)
    other.at(1, "plant.stiffness", 3.0)
    other.origin["reference"] = "other"
    assert one.describe() == scenario().describe()
    described = other.describe()["parts"]
    assert described["plant"]["states"]["x"] == 2.0
    assert described["controller"]["parameters"]["proportional"] == 9.0


@pytest.mark.parametrize("latency", [None, 0.05])
def test_a_faithful_translation_agrees_bit_for_bit(good: Build, latency: float | None) -> None:
    one, law = scenario(), {"controller": SilController(good)}
    exact = {"*": (0.0, 0.0)}
    out = back_to_back(one, law, until=UNTIL, latency=latency, tolerances=exact)
    assert out.ok, out.in_words
    assert one.describe() == scenario().describe(), "the caller's own stays as it was"
    assert out.explanation == ""
    loop = out.open["controller"]
    assert (loop.steps, loop.answered) == (STEPS, STEPS)
    assert loop.input_names == ("x", "v")
    assert loop.execution is not None
    assert loop.execution.steps == STEPS
    assert out.flight is not None
    # What is due after the end is not asked for.
    assert out.flight.execution["controller"].steps == STEPS - (latency is not None)
    assert {"plant.x", "messages/controller.force"} <= {
        r.name for r in out.flight.comparison.results
    }
    arrival = out.flight.candidate.track("messages/controller").integer("arrival")
    assert arrival[1] == 100_000_000 + round(1e9 * (latency or 0.0))
    out.assert_ok()


def test_a_sign_is_found_in_both_and_the_open_loop_is_blamed(tmp_path: Path) -> None:
    out = held(built(tmp_path, SIGN))
    assert not out.ok
    loop = out.open["controller"]
    assert loop.first == ("force", FAULT_STEP)
    assert [s.step for s in loop.failures] == [FAULT_STEP]
    assert loop.signals[0].reason.endswith("1/31")
    closed = out.closed
    assert closed is not None
    assert not closed.ok
    assert out.flight is not None
    first = out.flight.first
    assert first is not None
    assert first.first_failed == Tag(1_200_000_000)
    assert "open loop already fails: controller.force at step 12 (1.2 s)" in out.explanation
    with pytest.raises(AssertionError, match=r"force at step 12 \(1\.2 s\): reference model"):
        out.assert_ok()


def test_a_loop_that_fails_alone_is_told_so(good: Build) -> None:
    def delayed(step: int, y: Vector) -> Vector:
        return y * 1.01 if step > 5 else y

    stand = Fresh(controller(), delayed)
    generous = {"force": (1e3, 0.0), "plant.x": (1e-6, 0.0)}
    out = back_to_back(scenario(), {"controller": stand}, until=UNTIL, tolerances=generous)
    assert out.open["controller"].ok
    assert not out.ok
    assert out.flight is not None
    assert out.flight.ok is False
    assert out.explanation.startswith("The open loop agrees (controller: all 31 steps agree")
    assert "what the loop" not in out.explanation
    assert "smaller tolerance" in out.explanation
    assert "closed loop: plant.force: fails at 0.6 s" in out.in_words
    del good


def test_a_crash_is_a_result_with_its_text(tmp_path: Path) -> None:
    out = held(built(tmp_path, CRASH))
    assert not out.ok
    loop = out.open["controller"]
    assert loop.answered == FAULT_STEP
    assert loop.first == ("force", FAULT_STEP)
    assert loop.error.startswith("step 12 (1.2 s): ")
    assert "SIGABRT" in loop.error
    assert out.flight is not None
    assert "SIGABRT" in out.flight.error
    assert out.flight.candidate.end_ns == 1_200_000_000
    assert "overlap" in {r.name for r in out.flight.comparison.failures}
    assert "SIGABRT" in out.explanation


def test_one_that_does_not_end_well_fails(tmp_path: Path) -> None:
    out = held(built(tmp_path, CRASH_AT_END), closed=False)
    loop = out.open["controller"]
    assert all(s.ok for s in loop.signals)
    assert "SIGABRT" in loop.error
    assert not out.ok


def test_one_that_cannot_start_fails_every_step(good: Build) -> None:
    broken = SilController(good, command=["/bin/false"])
    out = back_to_back(scenario(), {"controller": broken}, until=UNTIL)
    loop = out.open["controller"]
    assert loop.answered == 0
    assert loop.first == ("force", 0)
    assert "exit status 1" in loop.error
    assert not out.ok
    assert out.flight is not None
    assert "exit status 1" in out.flight.error


def test_parameters_of_the_scenario_reach_both() -> None:
    def law(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
        y[0] = -p[0] * u[0] - p[1] * u[1] - s[0]
        s[0] += p[2] * u[0]

    design = controller()
    same = PythonController(
        law, design.inputs, design.outputs, parameters=design.parameters, memory=design.memory
    )
    one = scenario()
    one.set("controller.proportional", 9.0)
    before = one.describe()
    out = back_to_back(one, {"controller": same}, until=UNTIL)
    assert out.ok, out.in_words
    assert out.open["controller"].design[0, 0] == -9.0
    assert one.describe() == before


def test_a_recording_gives_the_inputs(good: Build, tmp_path: Path) -> None:
    path = tmp_path / "other.mcap"
    recorded = flown(path, latency=0.03)
    wanted = recorded.track("messages/controller.inputs")
    for given in (path, recorded):
        out = held(good, recording=given, closed=False)
        assert out.ok
        assert out.closed is None
        loop = out.open["controller"]
        assert np.array_equal(loop.inputs[:, 0], wanted.column("x"))
        assert loop.tags[:, 0].tolist() == wanted.rows.ns.tolist()
        assert not np.array_equal(loop.inputs, held(good, closed=False).open["controller"].inputs)
    assert held(good, recording=path, closed=False, until=1).open["controller"].steps == 11
    assert held(good, recording=path).ok


def test_a_recording_that_lacks_the_inputs_is_refused(good: Build) -> None:
    recorded = flown()
    with pytest.raises(RecordingError, match=r"no inputs of a controller other.*: controller"):
        inputs_of(recorded, "other", Signals("x", "v"))
    with pytest.raises(
        RecordingError, match=r"the input w of controller controller, but only the inputs x, v"
    ):
        inputs_of(recorded, "controller", Signals("x", "w"))
    values, _ = inputs_of(recorded, "controller", Signals("v", "x"))
    assert np.array_equal(values[:, 1], recorded.messages["controller.inputs"]["x"])
    with pytest.raises(RecordingError, match=r"nowhere\.mcap"):
        held(good, recording="nowhere.mcap")


def test_outside_inputs_are_those_of_the_designs_flight() -> None:
    class Counter:
        polls = 0

        def poll(self) -> Vector:
            self.polls += 1
            return np.array([float(self.polls)])

    def law(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
        y[0] = u[0]

    one = Scenario("outside", until=1)
    counter = Counter()
    one.external_input("stick", Signals("position"), counter)
    signals = Signals("position"), Signals("command")
    one.controller(
        "law", PythonController(law, *signals), period=0.1, inputs={"position": "stick.position"}
    )
    out = back_to_back(one, {"law": PythonController(law, *signals)})
    assert counter.polls > 0
    assert out.ok, out.in_words
    assert out.flight is not None
    assert out.flight.candidate.track("inputs/stick").column("position")[-1] == counter.polls


def test_tolerances_mean_outputs_and_trajectories(good: Build) -> None:
    stand = Fresh(controller(), from_step(5, lambda y: y + 1e-4))
    out = back_to_back(scenario(), {"controller": stand}, until=UNTIL, tolerances={"*": (1e-3, 0)})
    assert out.ok, out.in_words
    for pattern in ("force", "controller.force", "messages/controller.force"):
        rules = {"*": (1e-3, 0.0), pattern: (1e-6, 0.0)}
        out = back_to_back(scenario(), {"controller": stand}, until=UNTIL, tolerances=rules)
        assert out.open["controller"].first == ("force", 5)
        assert out.closed is not None
        assert {r.name for r in out.closed.failures} == {"messages/controller.force"}
    rules = {"*": (1e-3, 0.0), "plant.*": (1e-9, 0.0)}
    out = back_to_back(scenario(), {"controller": stand}, until=UNTIL, tolerances=rules)
    assert out.open["controller"].ok
    assert out.closed is not None
    assert {r.name for r in out.closed.failures} >= {"plant.x", "plant.v"}
    with pytest.raises(ScenarioError, match="no signal matches 'plnt"):
        held(good, tolerances={"plnt.x": (1.0, 0.0)})


def test_a_float_passes_by_its_own_defaults(tmp_path: Path) -> None:
    out = held(built(tmp_path, type="float32"))
    assert out.ok, out.in_words
    (force,) = out.open["controller"].signals
    assert force.type == "float32"
    assert 0 < force.share < 1
    assert force.max_ulp == 0.0, "the nearest float to what the design says"
    assert not held(built(tmp_path, type="float32"), tolerances={"force": (0.0, 1e-12)}).ok


def test_units_that_an_interface_leaves_open_are_the_designs() -> None:
    stand = Fresh(controller(), lambda step, y: y, Signals("force"))  # noqa: ARG005
    out = back_to_back(scenario(), {"controller": stand}, until=UNTIL)
    assert out.ok, out.in_words


def test_builds_that_check_are_not_timed(good: Build) -> None:
    out = held(replace(good, kind="sanitize"))
    assert out.ok
    assert out.open["controller"].execution is None
    assert out.flight is not None
    assert out.flight.execution == {}


def test_a_period_that_differs_fails(tmp_path: Path) -> None:
    out = held(built(tmp_path, period="1/20"), closed=False)
    assert out.outcome is Outcome.FAILED
    assert [s.ok for s in out.open["controller"].signals] == [True], "by the period alone"
    said = "the interface file declares a period of 0.05 s, but the scenario samples the controller"
    assert f"controller: {said} every 0.1 s" in out.in_words
    assert "any_period = true in law.toml" in out.in_words


def test_a_latency_longer_than_the_period_is_told(good: Build) -> None:
    for latency, count in ((0.25, 1), (0.1, 0)):
        notes = held(good, latency=latency).notes
        said = f"controller: a latency of {latency:g} s is longer than its period of 0.1 s, so most"
        assert sum(note.startswith(said) for note in notes) == count


def test_a_parameter_that_only_one_of_them_has_is_told(tmp_path: Path) -> None:
    file = write_law(tmp_path)
    file.write_text(file.read_text() + '[parameters]\ngian = { c = "c.sum" }\n')
    out = back_to_back(
        scenario(), {"controller": SilController(file, cases=None)}, until=1, closed=False
    )
    names = ", ".join(controller().parameters.names)
    assert out.notes == (
        f"controller: only the reference model has the parameters {names}",
        "controller: only the interface file has the parameters gian",
    )


def test_what_cannot_be_compared_is_refused(good: Build) -> None:
    law = SilController(good)
    with pytest.raises(UnknownName, match="pilot"):
        back_to_back(scenario(), {"pilot": law})
    with pytest.raises(ScenarioError, match="plant is not a controller"):
        back_to_back(scenario(), {"plant": law})
    with pytest.raises(ScenarioError, match="no controller is given"):
        back_to_back(scenario(), {})
    with pytest.raises(ScenarioError, match=r"a compute latency > 0 s in real time; give"):
        back_to_back(scenario(), {"controller": law}, pace=1.0)
    with pytest.raises(ScenarioError, match="latency"):
        back_to_back(scenario(), {"controller": law}, latency=-1)


@pytest.mark.parametrize("closed", [True, False])
def test_a_parameter_that_changes_is_refused_before_anything_flies(
    good: Build, closed: bool
) -> None:
    stages: list[str] = []
    one = scenario()
    one.at(1, "plant.stiffness", 3.0)
    law = {"controller": SilController(good)}
    assert back_to_back(one, law, until=2, closed=closed).ok, "that of a plant may"
    one.at(1.5, "controller.proportional", 9.0)
    told = r"controller\.proportional changes at 1\.5 s.* wire it to a source"
    with pytest.raises(ScenarioError, match=told):
        back_to_back(one, law, until=2, closed=closed, watch=ProgressWatch(stages.append))
    assert stages == []


def test_ctrl_c_between_two_steps_leaves_no_process(good: Build) -> None:
    seen: list[int] = []

    def interrupt(step: int, steps: int) -> None:  # noqa: ARG001
        seen.append(len(children()))
        if step == 5:
            raise KeyboardInterrupt

    with nothing_left(), pytest.raises(KeyboardInterrupt):
        held(good, watch=ProgressWatch(steps=interrupt))
    assert len(seen) == 5
    assert min(seen) > 0, "the C ran in a process of its own"


def test_the_stages_are_told_and_the_flight_is_recorded(good: Build, tmp_path: Path) -> None:
    stages: list[str] = []
    path = tmp_path / "flight.mcap"
    with FileRecorder(path, stopwatch) as recorder:
        out = held(good, recorder=recorder, watch=ProgressWatch(stages.append))
    assert out.ok
    runs = ["run with the reference model", "run with the C"]
    assert stages == [runs[0], "controller: C step by step", runs[1]]
    recorded = Recording.open(path)
    assert recorded.truncated is None
    assert recorded.end_ns == UNTIL * 1_000_000_000
    assert rerun(recorded, scenario_in_c(good)).digest() == recorded.digest()


def scenario_in_c(build: Build) -> Scenario:
    out = scenario()
    out.replace_controller("controller", SilController(build))
    return out


def test_the_tolerance_of_the_interface_file_is_the_default(tmp_path: Path) -> None:
    """Enough for a float law; what the caller says comes after it."""
    path = write_law(tmp_path / "law", type="float32")
    strict = '[tolerance]\n"*force" = 1e-12\n'
    path.write_text(path.read_text() + strict, encoding="utf-8")
    law = build(path)
    result = held(law)
    assert {s.tolerance for s in result.open["controller"].signals} == {(1e-12, 0.0)}
    assert not result.open["controller"].ok
    assert held(law, tolerances={"force": (1e-3, 0.0)}).open["controller"].ok
