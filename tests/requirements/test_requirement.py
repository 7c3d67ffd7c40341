"""Requirements of a scenario: verdicts on a run, and what is refused before the run."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ramp_parts import Ramp, S, Slow, ramp

import rtsim as rt
from rtsim.core.errors import RecordingError, ScenarioError
from rtsim.core.outcome import Outcome
from rtsim.record.reading import Recording
from rtsim.requirements import Requirement, RequirementResult, check, read_requirements
from rtsim.requirements.requirement import required_by
from rtsim.runs import prepare
from rtsim.runs.replay import rerun

FILE = """
[[requirement]]
name = "A"
formula = "always ramp.x < 2 m"
text = "A sentence."

[[requirement]]
name = "B"
formula = "always ramp.x < 0.5 m"
"""


@pytest.fixture(scope="module")
def recording() -> Recording:
    return rt.simulate(ramp()).recording()


def verdict(recording: Recording, formula: str) -> RequirementResult:
    (found,) = check([Requirement("R", formula)], recording)
    return found


def test_a_value_before_a_reset_counts(recording: Recording) -> None:
    """The plant reaches 1 m at 2 s, where its reset sets ``x`` to 0 at once."""
    assert verdict(recording, "always ramp.x < 0.999 m").violated[0][0] == pytest.approx(
        2 * S, abs=1
    )
    found = verdict(recording, "always ramp.x < 0.5 m")
    assert found.outcome is Outcome.FAILED
    assert found.worst_ns == pytest.approx(2 * S, abs=1)
    assert found.robustness == pytest.approx(-0.5, abs=1e-9)
    assert [round(ns / S, 1) for span in found.violated for ns in span] == [1.1, 2.0, 3.1, 4.0]


def test_the_output_of_a_controller_changes_when_its_message_arrives(recording: Recording) -> None:
    """Samples every 0.5 s; each answer arrives 0.2 s later.  Before the first, it is 5 m."""
    assert verdict(recording, "always[0, 0.199999999] slow.half == 5 m").ok
    assert verdict(recording, "eventually[0.2, 0.2] slow.half == 0 m").ok
    assert verdict(recording, "eventually[0.2, 0.2] slow.half == 5 m").ok  # x- of this instant
    assert verdict(recording, "always[0.200000001, 0.6] slow.half == 0 m").ok


def test_changes_of_sources_and_parameters_are_seen(recording: Recording) -> None:
    assert verdict(recording, "always[0, 2.999999999] drive.slope == 0.5 m/s").ok
    assert verdict(recording, "always[3.000000001, 4] drive.slope == 0.25 m/s").ok


def test_elements_of_arrays_are_signals(recording: Recording) -> None:
    assert verdict(recording, "always ramp.pair[1] == 2 m").ok
    with pytest.raises(ScenarioError, match=r"ramp.pair is an array; give one .*ramp.pair\[0\]"):
        verdict(recording, "always ramp.pair < 1")


def test_what_the_run_leaves_open_is_undecided(recording: Recording) -> None:
    found = verdict(recording, "always[0, 5] ramp.x < 2 m")
    assert found.outcome is Outcome.UNDECIDED
    assert found.low == -math.inf
    assert found.high == pytest.approx(1.0)
    assert "the run ended at 4 s" in found.reason
    assert "the formula needs a run until 5 s" in found.reason
    endless = verdict(recording, "always eventually[0, 2.5] ramp.x < 0.2 m")
    assert endless.outcome is Outcome.UNDECIDED
    assert "limit the window of the outer operator, as in always[0, 10]" in endless.reason
    assert verdict(recording, "always[0, 5] ramp.x < 0.5 m").outcome is Outcome.FAILED
    assert verdict(recording, "eventually[0, 5] ramp.x > 0.5 m").ok
    assert verdict(recording, "always[9, end] ramp.x < 2 m").outcome is Outcome.UNDECIDED


def test_a_condition_that_was_never_true_is_not_a_pass(recording: Recording) -> None:
    found = verdict(recording, "always (ramp.x > 3 m implies ramp.x < 0 m)")
    assert found.outcome is Outcome.UNDECIDED
    assert (found.exercised, found.reason) == (
        0, "not exercised, because ramp.x > 3 m was never true"
    )  # fmt: skip
    assert verdict(recording, "always (ramp.x > 0.5 m implies ramp.x < 2 m)").exercised == 2
    once = verdict(recording, "ramp.x > 3 m implies ramp.x < 0 m")
    assert once.reason.startswith("not exercised, because ramp.x > 3 m was false at 0 s, the only")
    assert "write always (ramp.x > 3 m implies ...)" in once.reason
    outside = verdict(recording, "always[0, 0.5] (ramp.x > 0.5 m implies ramp.x < 2 m)")
    assert (outside.exercised, outside.outcome) == (0, Outcome.UNDECIDED)
    two = "always (ramp.x > 0.5 m implies ramp.x < 2 m) and always (ramp.x > 3 m implies true)"
    assert verdict(recording, two).exercised == 0
    short = verdict(recording, "always[0, 9] (ramp.x > 3 m implies ramp.x < 0 m)")
    assert short.reason.startswith(f"{found.reason}; the run ended at 4 s")
    assert not short.is_exercised
    later = verdict(recording, "always[0, 9] (eventually[0, 9] ramp.x > 3 m implies ramp.x < 0 m)")
    assert later.reason.startswith("the run ended at 4 s")  # the condition can still become true
    assert later.is_exercised
    broken = verdict(recording, "always (ramp.x > 0.5 m implies ramp.x < 0.6 m)")
    assert (broken.outcome, broken.exercised) == (Outcome.FAILED, 2)


def test_values_before_the_start_of_a_copy_are_unknown(recording: Recording) -> None:
    copy = recording.between(2.5, 4)
    assert verdict(copy, "historically ramp.x < 2 m").outcome is Outcome.UNDECIDED
    assert verdict(copy, "always[0, 1] once[0, 3] ramp.x > 9 m").outcome is Outcome.UNDECIDED
    assert verdict(copy, "always ramp.x < 2 m").ok
    assert verdict(recording, "always once[0, 3] ramp.x < 2 m").ok


def test_the_time_of_the_worst_moment_and_its_comparison(recording: Recording) -> None:
    found = verdict(recording, "always (ramp.x < 2 m and (slow.half < 3 m or ramp.x > 7 m))")
    assert (found.worst_ns, found.worst) == (0, "slow.half < 3 m")
    found = verdict(recording, "eventually[1, 2] not ramp.x < 0.9 m")
    assert found.worst_ns == pytest.approx(2 * S, abs=1)
    assert found.worst == "ramp.x < 0.9 m"


def test_a_value_before_the_condition_is_not_the_worst_moment() -> None:
    """At 1 s the command jumps, and the condition becomes true; before, the error was 0."""
    loop = rt.Scenario("jump", until=4)
    wanted = loop.source("command", rt.Signals(rt.Signal("wanted", "m")))
    plant = loop.plant(Ramp(slope=0.1), step=0.1)
    loop.at(1, wanted.wanted, 1.0)
    loop.require(
        "A",
        "always[0, 2] (command.wanted > 0.5 m implies "
        "eventually[0, 1.5] abs(command.wanted - ramp.x) < 0.9 m)",
    )
    (found,) = rt.simulate(loop).requirements
    assert plant is not None
    assert found.ok
    assert found.worst == "abs(command.wanted - ramp.x) < 0.9 m"
    assert found.worst_ns == pytest.approx(2.5 * S)


def test_a_formula_without_always_says_that_it_is_checked_once(recording: Recording) -> None:
    found = verdict(recording, "ramp.x < 0.5 m")
    assert found.ok
    assert found.note == "R is checked at 0 s only; write always for the whole run"
    assert verdict(recording, "always ramp.x < 9 m").note == ""


def test_sampled_inputs_of_a_controller_are_known_from_the_start(recording: Recording) -> None:
    assert verdict(recording, "always slow.x < 2 m").ok


# -- what is not the whole run


def test_a_copy_that_ends_before_the_run_leaves_its_end_open(recording: Recording) -> None:
    copy = recording.up_to(S)
    found = verdict(copy, "eventually ramp.x > 0.9 m")
    assert found.outcome is Outcome.UNDECIDED
    assert "the copy ends at 1 s, before the run" in found.reason
    assert verdict(copy, "always ramp.x < 2 m").outcome is Outcome.UNDECIDED
    assert verdict(copy, "always ramp.x < 0.3 m").outcome is Outcome.FAILED
    assert verdict(copy, "always[0, 0.5] ramp.x < 2 m").ok


def test_messages_of_a_copy_are_unknown(recording: Recording) -> None:
    """A message that was sent before the copy begins can arrive at any time."""
    found = verdict(recording.between(1, 4), "always[0, 1] slow.half < 9 m")
    assert found.outcome is Outcome.UNDECIDED
    later = verdict(recording.between(1, 4), "always[0.3, 1] slow.half < 9 m")
    assert later.outcome is Outcome.UNDECIDED  # although the copy has messages before 1.3 s
    assert later.reason.startswith("slow.half is unknown at ")


def test_rows_that_a_cut_recording_lost_are_unknown(recording: Recording) -> None:
    """The file ends with rows of the controller up to 4 s, but has the plant up to 1.5 s only."""
    plant = recording.up_to(3 * S // 2).tracks["ramp"]
    cut = replace(recording, tracks={**recording.tracks, "ramp": plant}, truncated="cut off")
    found = verdict(cut, "always[0, 3] ramp.x < 2 m")
    assert found.outcome is Outcome.UNDECIDED
    assert "the recording is incomplete (cut off)" in found.reason
    assert verdict(cut, "always[0, 1] ramp.x < 2 m").ok


class Breaks(Ramp):
    """A plant that fails at 0.5 m."""

    def derivative(self, d: Any) -> None:
        d.x = 1.0 if self.x < 0.5 else math.nan
        d.pair = 0.0, 0.0


def test_a_run_that_ended_in_an_error_leaves_its_end_open() -> None:
    loop = rt.Scenario("breaks", until=4)
    loop.plant("breaks", Breaks(slope=1.0), step=0.1)
    recorder = rt.MemoryRecorder()
    with pytest.raises(rt.ModelError):
        rt.simulate(loop, recorder=recorder)
    broken = recorder.recording()
    assert verdict(broken, "always breaks.x < 9 m").outcome is Outcome.UNDECIDED
    assert verdict(broken, "eventually breaks.x > 9 m").outcome is Outcome.UNDECIDED
    assert verdict(broken, "always breaks.x < 0.2 m").outcome is Outcome.FAILED


def test_a_continued_run_is_judged_from_the_start_of_the_whole_run() -> None:
    with rt.Simulation(ramp()) as run:
        run.advance(1.0)
        checkpoint = run.save().checkpoint
    continued = rt.simulate(ramp(), start=checkpoint).recording()
    later = verdict(continued, "always[1.2, 2.1] ramp.x < 0.95 m")
    assert later.outcome is Outcome.FAILED
    assert later.worst_ns == pytest.approx(2 * S, abs=1)
    assert verdict(continued, "always ramp.x < 2 m").outcome is Outcome.UNDECIDED
    known = verdict(continued, "always drive.slope < 1 m/s")  # at each time of this recording
    assert known.outcome is Outcome.UNDECIDED
    assert known.reason == "values before 0.9 s are unknown"
    assert verdict(continued, "eventually[1.9, 2.1] ramp.x > 0.95 m").ok


def test_prepared_runs_have_requirements() -> None:
    loop = rt.Scenario("ramp", until=4)
    loop.plant(Ramp(slope=0.5), step=0.1)
    loop.require("A", "always ramp.x < 0.5 m")
    prepared = prepare(loop)
    for _ in range(3):
        assert prepared.run().outcome is Outcome.FAILED
        assert prepared.run(record=False).outcome is Outcome.UNDECIDED


def test_nothing_compared_is_no_pass(recording: Recording) -> None:
    found = verdict(recording, "historically[5, 10] ramp.x < 2 m")
    assert found.outcome is Outcome.UNDECIDED
    assert found.reason == "not exercised, because no value was compared"
    with pytest.raises(ScenarioError, match="the formula has no signal"):
        verdict(recording, "always 1 < 2")


def test_noise_that_only_a_controller_samples_is_refused() -> None:
    loop = ramp()
    noise = loop.noise("hum", rt.Signals(rt.Signal("w", "m")), deviation=1.0, period=0.01)
    ear = loop.controller("ear", Slow(), period=0.5)
    loop.connect(noise.w, ear.x)
    loop.require("A", "always hum.w < 9 m")
    (found,) = rt.simulate(loop).requirements
    assert found.outcome is Outcome.UNDECIDED
    assert "is recorded only where a controller or a sensor samples it" in found.reason


def test_a_replay_keeps_requirements_that_no_longer_fit() -> None:
    recording = rt.simulate(ramp(4, "A: always ramp.x < 2 m")).recording()
    other = ramp()
    other.requirements, other.checks_requirements = (Requirement("A", "always ramp.z < 2"),), False
    assert rerun(recording, other).digest() == recording.digest()


@pytest.mark.parametrize("given", [3, "x", None, [3], [{"name": "A"}]])
def test_a_malformed_header_is_an_error_of_the_recording(given: Any) -> None:
    with pytest.raises(
        RecordingError, match="the requirements in the header of the recording are not valid"
    ):
        required_by({"requirements": given})


@pytest.mark.parametrize(
    "formula",
    [
        "always " + " + ".join(["ramp.x"] * 500) + " < 1",
        "always " + "abs(" * 600 + "ramp.x" + ")" * 600 + " < 1",
        " and ".join(["ramp.x < 1"] * 390),
        "not " * 900 + "ramp.x < 1",
        "always ramp.x < 1e999",
        "always ramp.x ** 1e400 < 1",
        "always[0, 1e5000000] ramp.x < 1",
        "always[0, " + "9" * 16_000 + "] ramp.x < 1",
    ],
)
def test_a_formula_of_any_size_has_an_answer(formula: str, recording: Recording) -> None:
    with suppress(ScenarioError):
        assert isinstance(verdict(recording, formula), RequirementResult)


def test_a_formula_that_is_too_deep_for_its_evaluation_is_refused(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deep(*_: object) -> None:
        raise RecursionError

    monkeypatch.setattr("rtsim.requirements.verdict.Evaluation.__call__", deep)
    with pytest.raises(ScenarioError, match="requirement R: the formula has too many"):
        verdict(recording, "always ramp.x < 2 m")


# -- in a scenario


def test_the_outcome_of_a_run_includes_its_requirements() -> None:
    holds = rt.simulate(ramp(4, "A: always ramp.x < 2 m"))
    assert holds.ok
    assert [one.in_words for one in holds.requirements] == ["A holds, robustness 1 at 2 s"]
    broken = rt.simulate(ramp(4, "A: always ramp.x < 2 m", "B: always ramp.x < 0.5 m"))
    assert broken.outcome is Outcome.FAILED
    assert "B is violated, robustness -0.5" in broken.in_words
    early = rt.simulate(ramp(1, "A: always[0, 2] ramp.x < 2 m"))
    assert early.outcome is Outcome.UNDECIDED
    assert "A is undecided: the run ended at 1 s" in early.in_words
    unrecorded = rt.simulate(ramp(4, "A: always ramp.x < 2 m"), record=False)
    assert unrecorded.outcome is Outcome.UNDECIDED
    assert "was not recorded" in unrecorded.requirements[0].reason
    assert rt.simulate(ramp()).requirements == []


def test_both_engines_give_the_same_verdicts() -> None:
    formula = "A: always (ramp.x > 0.3 m implies eventually[0, 1.5] slow.half > 0.2 m)"
    found = [
        rt.simulate(ramp(4, formula), engine=engine).requirements[0].to_json()
        for engine in ("compiled", "interpreted")
    ]
    assert found[0] == found[1]


def test_a_recording_contains_its_requirements_and_a_replay_keeps_them() -> None:
    scenario = ramp(4, "A: always ramp.x < 2 m")
    scenario.require("B", "always ramp.x < 0.5 m", "A sentence.")
    recording = rt.simulate(scenario).recording()
    assert recording.header["requirements"] == [
        {"name": "A", "formula": "always ramp.x < 2 m"},
        {"name": "B", "formula": "always ramp.x < 0.5 m", "text": "A sentence."},
    ]
    assert rt.simulate(ramp()).recording().digest() == recording.digest()
    again = rerun(recording, scenario)
    assert again.header["requirements"] == recording.header["requirements"]


@pytest.mark.parametrize(
    ("formula", "says"),
    [
        ("always ramp.y < 1", "requirement A: unknown signal 'y' in ramp; known: x"),
        ("always rmp.x < 1", "requirement A: unknown component 'rmp'.*did you mean ramp"),
        ("always x < 1", "x is not a signal of a component; write component.signal"),
        (
            "always ramp.pair < 1",
            r"ramp.pair is an array; give one of its elements: ramp.pair\[0\]",
        ),
        ("always ramp.x < 1 ft", "requirement A: cannot compare ramp.x in m and 1 ft in ft"),
    ],
)
def test_a_wrong_formula_is_refused_before_the_run(formula: str, says: str) -> None:
    scenario = ramp()
    scenario.require("A", formula)
    with pytest.raises(ScenarioError, match=says):
        scenario.build()


def test_names_of_requirements_are_unique() -> None:
    scenario = ramp(4, "A: always ramp.x < 2 m")
    with pytest.raises(ScenarioError, match="two requirements have the name A; rename one"):
        scenario.require("A", "always ramp.x < 3 m")
    scenario.require("A", "always  ramp.x < 2 m", "The same formula.")  # is one requirement
    assert scenario.requirements == (Requirement("A", "always ramp.x < 2 m", "The same formula."),)
    for wrong in ((3, "a.x < 1"), ("A", None), ("A", "a.x < 1", 3)):
        with pytest.raises(ScenarioError, match="is not a text; a requirement is NAME: FORMULA"):
            Requirement(*wrong)
    with pytest.raises(ScenarioError, match="has no name"):
        scenario.require(" ", "always ramp.x < 3 m")
    with pytest.raises(ScenarioError, match="requirement B has no formula; write NAME: FORMULA"):
        scenario.require_all("B:")
    with pytest.raises(ScenarioError, match=r"'req\.tml' is neither a requirement nor"):
        scenario.require_all("req.tml")
    scenario.require_all("MY REQ: always\n ramp.x < 3 m")
    assert str(scenario.requirements[-1]) == "MY REQ: always ramp.x < 3 m"
    assert [one.name for one in scenario.copy().requirements] == ["A", "MY REQ"]


def test_a_copy_of_a_scenario_has_its_own_requirements() -> None:
    scenario = ramp(4, "A: always ramp.x < 2 m")
    other = scenario.copy()
    other.require("B", "always ramp.x < 3 m")
    assert [one.name for one in scenario.requirements] == ["A"]


# -- in a file


def test_a_requirement_file(tmp_path: Path) -> None:
    path = tmp_path / "requirements.toml"
    path.write_text(FILE)
    a, b = read_requirements(path)
    assert a == Requirement("A", "always ramp.x < 2 m", "A sentence.")
    assert str(b) == "B: always ramp.x < 0.5 m"
    scenario = ramp()
    scenario.require_all(path, {"name": "C", "formula": "always ramp.x < 9 m"}, "always ramp.x < 8")
    assert [one.name for one in scenario.requirements] == ["A", "B", "C", "always ramp.x < 8"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[requirement]]\nname = 'A'", r":1: requirement 1: formula is missing; write a formula"),
        (
            "[[requirement]]\nname = 'A'\nformula = 3",
            r":3: requirement 1: formula = 3 is not valid",
        ),
        ("[[requirement]]\nnane = 'A'", r":2: .*unknown key 'nane'.*did you mean name"),
        ("[[requirements]]\nname = 'A'", r":1: unknown key 'requirements'.*requirement"),
        ("requirement = 3", r":1: requirement = 3 is not valid"),
        (FILE + FILE.replace("2 m", "3 m"), "two requirements have the name A"),
        ("", r"requirement is missing; write a list of tables \[\[requirement\]\]"),
        ("[[requirement", "not valid TOML"),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "requirements.toml"
    path.write_text(text)
    with pytest.raises(ScenarioError, match=says):
        read_requirements(path)


def test_an_unrecorded_signal_is_named(recording: Recording) -> None:
    with pytest.raises(ScenarioError, match=r"unknown signal 'ramp.z'"):
        verdict(recording, "always ramp.z < 1")
