"""Counterexample files: what they contain, who runs them, and what is refused."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from falsified_parts import CART

from rtsim.cli.main import main
from rtsim.core.errors import RecordingError, ScenarioError
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.requirements.requirement import Requirement
from rtsim.requirements.verdict import check
from rtsim.runs.replay import scenario_of
from rtsim.runs.simulation import simulate
from rtsim.studies.counterexample import Counterexample, Runs, Waveform
from rtsim.studies.factors import Range
from rtsim.studies.input_signals import InputSignal
from rtsim.studies.shrinking import shrunk

SCENARIO = """\
import rtsim as rt


class Follower(rt.Plant):
    x = rt.state("m")
    wanted = rt.input("m")
    rate = rt.parameter("1/s", 2.0)

    def derivative(self, d):
        d.x = self.rate * (self.wanted - self.x)


def scenario(until: float = 5.0, start: float = 0.0):
    loop = rt.Scenario("follower", until=until)
    plant = loop.plant(Follower(x=start), step=0.01)
    command = loop.source("command", rt.Signals("wanted [m]"))
    loop.connect(command.wanted, plant.wanted)
    loop.at(1, command.wanted, 0.5)
    loop.require("LONG", "always[0, 60] follower.x < 9 m")
    return loop
"""
FAST = Requirement("TOO FAST", "always[0, 2] follower.x < 0.9 m", "The follower is slow.")
SIGNAL = InputSignal("command.wanted", "pieces", 3, -1.0, 1.0)


@pytest.fixture
def reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "follow.py").write_text(SCENARIO)
    monkeypatch.chdir(tmp_path)
    return "follow.py"


def example(reference: str) -> Counterexample:
    factors = {f"command.wanted[{k}]": v for k, v in enumerate([0.0, 1.0, -1.0])}
    factors |= {"follower.rate": 4.0, "start": 0.25}
    return Counterexample.of_factors(
        reference, FAST, 3_000_000_000, factors, (SIGNAL,), settings={"until": 4.0}, seed=7
    )


def test_the_factors_of_a_run_become_values_and_points(reference: str) -> None:
    one = example(reference)
    (wave,) = one.inputs
    assert wave.points == ((0, 0.0), (1_000_000_000, 1.0), (2_000_000_000, -1.0))
    assert one.values == {"until": 4.0, "follower.rate": 4.0, "start": 0.25}
    made = one.make()
    assert (made.until_ns, made.requirements) == (one.until_ns, (FAST,))


def test_the_verdict_is_that_of_the_run_and_of_a_prepared_run(reference: str) -> None:
    one = example(reference)
    found = one.check()
    assert found.verdict == "violated"
    assert found.robustness == pytest.approx(0.9 - (1.0 - np.exp(-4.0)), abs=0.02)
    runs = Runs()
    assert [runs.check(one).to_json() for _ in range(2)] == [found.to_json()] * 2
    slow = replace(one, values={"follower.rate": 2.0})
    assert runs.check(slow).to_json() == slow.check().to_json()
    assert runs.violates(one)
    assert runs.violates(one, found.robustness)
    assert not runs.violates(one, found.robustness - 1e-9)
    assert not runs.violates(slow)
    undecided = replace(one, until_ns=1_500_000_000, values={})
    assert undecided.check().verdict == "undecided"
    assert not runs.violates(undecided)
    assert not runs.violates(replace(one, values={"follower.rate": np.nan}))  # the run ends there


def test_without_an_input_the_scenario_determines_it(reference: str) -> None:
    runs = Runs()
    one = replace(example(reference), requirement=Requirement("R", "always[0, 3] follower.x < 2"))
    driven = runs.check(one)
    free = runs.check(replace(one, inputs=()))
    assert free.to_json() == replace(one, inputs=()).check().to_json() != driven.to_json()


@pytest.mark.parametrize("kind", ["linear", "spline"])
def test_an_interpolated_input_keeps_its_samples_when_it_is_saved(
    reference: str, kind: str, tmp_path: Path
) -> None:
    signal = replace(SIGNAL, kind=kind, points=4, rate=0.75)
    factors = {f"command.wanted[{k}]": v for k, v in enumerate([0.0, 0.5, -0.25, 1.0])}
    one = Counterexample.of_factors(reference, FAST, 3_000_000_000, factors, (signal,))
    before = signal.changes(factors, one.until_ns)
    assert one.inputs[0].changes(one.until_ns) == before
    one.save(tmp_path / "one.toml")
    again = Counterexample.open(tmp_path / "one.toml").inputs[0]
    assert again == one.inputs[0]
    assert again.changes(one.until_ns) == before


def test_a_saved_file_is_read_back_from_any_folder(
    reference: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = example(reference)
    (tmp_path / "cases").mkdir()
    path = tmp_path / "cases" / "fast.counterexample.toml"
    one.save(path)
    assert 'scenario = "../follow.py"' in path.read_text()
    monkeypatch.chdir("/")
    again = Counterexample.open(path)
    assert Path(again.scenario).resolve() == tmp_path / "follow.py"
    assert replace(again, scenario=one.scenario) == one
    assert again.check().verdict == "violated"


def test_a_scenario_with_a_name_keeps_its_name(tmp_path: Path) -> None:
    one = Counterexample("ball", Requirement("LOW", "always ball.height < 0.5 m"), 10**9)
    one.save(tmp_path / "low.toml")
    assert Counterexample.open(tmp_path / "low.toml") == one


def test_the_test_has_three_lines(reference: str, tmp_path: Path) -> None:
    one, path = example(reference), tmp_path / "fast.counterexample.toml"
    one.save(path)
    one.save_test(tmp_path / "test_fast.py", path)
    assert (tmp_path / "test_fast.py").read_text().splitlines() == [
        "# A run that violates a requirement. TOO FAST: The follower is slow.",
        "def test_too_fast(counterexample):",
        '    counterexample("fast.counterexample.toml").assert_ok()',
    ]


def test_only_counterexamples_are_overwritten(reference: str, tmp_path: Path) -> None:
    one, path = example(reference), tmp_path / "mine.toml"
    one.save(path)
    one.save(path)
    path.write_text("mine = 1\n")
    with pytest.raises(ScenarioError, match="exists and contains no counterexample"):
        one.save(path)
    with pytest.raises(ScenarioError, match="exists and contains no counterexample"):
        one.save_test(path, path)
    assert path.read_text() == "mine = 1\n"
    with pytest.raises(ScenarioError, match="cannot write"):
        one.save(tmp_path / "none" / "one.toml")
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(ScenarioError, match=r"cannot read .*folder\.toml"):
        one.save(tmp_path / "folder.toml")


TWICE = """[[input]]
target = "command.wanted"
low = 0
high = 1
points = [[0, 1]]

[[input]]"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("format = 1", "format = 2", r"one.toml:2: format = 2 is of another version"),
        ("format = 1", "format = true", r"one.toml:2: format = True is not valid.*whole number"),
        ("format = 1", "format = 1.0", r"one.toml:2: format = 1.0 is not valid.*whole number"),
        ("[1.0, 1.0]", "[1.0, 1.5]", r"one.toml:.*point \[1, 1.5\] of .* from -1 to 1"),
        ("[1.0, 1.0]", "[1.0, -1.5]", r"point \[1, -1.5\] of command.wanted is outside its range"),
        ("until = 3.0", "until = 0", "until = 0 is not valid.*write seconds > 0"),
        ("seed = 7", "seed = -1", "seed = -1 is not valid"),
        ('name = "TOO FAST"', "", "name is missing"),
        ('kind = "pieces"', 'kind = "steps"', "unknown kind of input signal 'steps'"),
        ("[1.0, 1.0]", "[1.0]", "write a time in s and a value"),
        ("[1.0, 1.0]", "[2.0, 1.0]", "are not in ascending order"),
        ("[0.0, 0.0]", "[0.5, 0.0]", "of which the first is 0"),
        ("[1.0, 1.0]", "[1e300, 1.0]", "one.toml:.*: time of a .* exceeds the largest time"),
        ("[[input]]", TWICE, r"one.toml:.*: two input signals drive command\.wanted"),
        ('"start" = 0.25', '"command.wanted" = 1', r"command\.wanted has an input in the .* value"),
        ("low = -1.0", "low = 2.0", "range from 2.0 to 1.0 is empty"),
        ('"start" = 0.25', '"start" = [1]', "write a number or a text"),
        ('"start" = 0.25', "start = 0.25\nmore = 1", "unknown argument 'more'"),
        ('"command.wanted"', '"follower.x"', "follower.x is not a number that can change"),
    ],
)
def test_what_is_refused(reference: str, tmp_path: Path, old: str, new: str, said: str) -> None:
    path = tmp_path / "one.toml"
    example(reference).save(path)
    assert path.read_text().count(old) == 1
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(ScenarioError, match=said):
        Counterexample.open(path).make()


def run_in(*arguments: str) -> tuple[int, str]:
    found = CliRunner().invoke(main, list(arguments))
    return found.exit_code, found.output


def test_rtsim_run_runs_it_and_replays_it(reference: str, tmp_path: Path) -> None:
    one, path = example(reference), tmp_path / "fast.toml"
    one.save(path)
    file = ["--counterexample", str(path)]
    status, said = run_in("run", "follow.py", *file, "-o", "a.mcap")
    assert status == 1
    assert re.search(r"TOO FAST is violated, robustness -0\.", said), said
    recording = Recording.open("a.mcap")
    assert (recording.header["seed"], recording.span_ns[1]) == (7, one.until_ns)
    assert check([FAST], recording)[0].robustness == one.check().robustness
    status, said = run_in("replay", "a.mcap")
    assert status == 1, said
    assert "rows equal bit for bit" in said
    # values that are typed come before those of the file
    typed = ["--set", "follower.rate=1.0", "--seed", "3", "--until", "2.5", "-o", "b.mcap"]
    status, said = run_in("run", "follow.py", *file, *typed)
    assert status == 0, said
    recording = Recording.open("b.mcap")
    assert (recording.header["seed"], recording.span_ns[1]) == (3, 2_500_000_000)
    # the requirement of the file is also in the user's requirement file
    same = ["--require", f"{FAST.name}: {FAST.formula}"]
    status, said = run_in("run", "follow.py", *file, *same, "-o", "d.mcap")
    assert status == 1, said
    assert Recording.open("d.mcap").header["requirements"] == [FAST.to_plain()]
    run_in("run", "follow.py", *file, "--seed", "0", "-o", "c.mcap")
    assert Recording.open("c.mcap").header["seed"] == 0


@pytest.mark.parametrize(
    "driven", [[], {"command.wanted": 1}, {"command.wanted": [[0]]}, {"command.wanted": [[0, "x"]]}]
)
def test_a_recording_with_malformed_inputs_is_an_error(reference: str, driven: object) -> None:
    recorder = MemoryRecorder()
    simulate(example(reference).make(), seed=7, recorder=recorder, progress=False)
    recording = recorder.recording()
    assert scenario_of(recording).origin["driven"]["command.wanted"]
    header = copy.deepcopy(dict(recording.header))
    header["scenario"]["origin"]["driven"] = driven
    with pytest.raises(RecordingError, match="malformed changes of input signals"):
        scenario_of(replace(recording, header=header))


def test_a_missing_file_is_refused_before_the_run(reference: str, tmp_path: Path) -> None:
    status, said = run_in("run", reference, "--counterexample", "none.toml", "-o", "a.mcap")
    assert status == 2
    assert "none.toml: No such file" in said
    assert not (tmp_path / "a.mcap").exists()
    example(reference).save(tmp_path / "fast.toml")
    status, said = run_in("run", reference, "--counterexample", "fast.toml", "--no-record")
    assert status == 2
    assert "leave out --no-record" in said


# -- rtsim falsify


@pytest.fixture
def cart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The command that finds a violation; its options can be added."""
    (tmp_path / "cart.py").write_text(CART.replace("    loop.at(1, push.force, 5.0)\n", ""))
    monkeypatch.chdir(tmp_path)
    words = "--input push=pieces:4,-1,1 --factor cart.mass=range:0.5,1.5 --method random"
    return ["falsify", "cart.py", "--workers", "0", "--requirement", "NEAR", *words.split()]


@pytest.mark.long
def test_falsify_makes_it_smaller_and_saves_it(cart: list[str]) -> None:
    status, said = run_in(*cart)
    assert status == 1, said
    assert re.search(r"made smaller in \d+ runs: 1 of 4 control points, robustness -", said)
    assert re.search(r"^  push.force: -?0?\.?\d at 0 s$", said, re.M), said  # one digit
    assert "written: near.counterexample.toml, test_near.py\n" in said
    assert said.endswith("next: rtsim run cart.py --counterexample near.counterexample.toml\n")
    one = Counterexample.open("near.counterexample.toml")
    assert (one.values, one.seed) == ({}, 0)  # the mass of the scenario does it too
    assert one.check().verdict == "violated"
    status, said = run_in("run", "cart.py", "--counterexample", "near.counterexample.toml")
    assert status == 1
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_near.py"]
    found = subprocess.run(command, capture_output=True, text=True)
    assert found.returncode == 1
    assert "NEAR is violated" in found.stdout


def test_falsify_without_shrinking_saves_the_run_that_it_found(cart: list[str]) -> None:
    status, said = run_in(*cart, "--no-shrink", "--save", "big.toml", "--json")
    assert status == 1
    found = json.loads(said)
    assert "shrunk" not in found
    assert found["files"] == ["big.toml", "test_big.py"]
    one = Counterexample.open("big.toml")
    assert one.to_json() == {k: v for k, v in found["counterexample"].items() if k != "run"}
    assert len(one.inputs[0].points) == 4
    assert one.values.keys() == {"cart.mass"}


def test_falsify_reports_the_smaller_run_and_a_file_that_is_not_written(
    cart: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise ScenarioError("cannot write: no space left on device")

    monkeypatch.setattr(Counterexample, "save", full)
    status, said = run_in(*cart, "--json")
    assert status == 1
    found = json.loads(said)
    assert found["files"] == []
    assert "no space left" in found["not_written"]
    assert found["shrunk"]["complete"] is True
    assert found["shrunk"]["robustness"] < 0
    assert len(found["shrunk"]["inputs"]["push.force"]) == 1
    status, said = run_in(*cart)
    assert status == 1
    assert "not written: cannot write: no space left" in said


def test_a_second_search_keeps_the_first_counterexample_and_its_test(cart: list[str]) -> None:
    files = [Path("near.counterexample.toml"), Path("test_near.py")]
    for one in files:
        one.write_text("kept")
    Path("test_near_2.py").write_text("kept")  # the user removed only the file beside it
    status, said = run_in(*cart, "--no-shrink")
    assert status == 1
    assert "written: near.3.counterexample.toml, test_near_3.py\n" in said
    assert [one.read_text() for one in files] == ["kept", "kept"]
    assert '"near.3.counterexample.toml"' in Path("test_near_3.py").read_text()


@pytest.mark.parametrize("name", ["after-X.counterexample.toml", "test_after_X.py"])
def test_save_does_not_overwrite_a_file_without_force(cart: list[str], name: str) -> None:
    cart += ["--no-shrink", "--save", "after-X.counterexample.toml"]
    Path(name).write_text("# A run that violates a requirement")
    status, said = run_in(*cart)
    assert status == 2
    assert f"{name} exists; give another --save FILE, or --force to overwrite" in said
    assert "is violated" not in said  # the search did not begin
    status, said = run_in(*cart, "--force")
    assert status == 1
    assert "written: after-X.counterexample.toml, test_after_X.py\n" in said
    assert Counterexample.open("after-X.counterexample.toml").requirement.name == "NEAR"


@pytest.mark.parametrize(
    ("path", "says"),
    [("none/x.toml", "there is no folder none"), ("", "--save"), (".", "is a directory")],
)
def test_a_file_that_cannot_be_written_is_refused_before_the_search(
    cart: list[str], path: str, says: str
) -> None:
    status, said = run_in(*cart, "--save", path)
    assert status == 2
    assert says in said
    assert "is violated" not in said


def test_an_interrupt_while_it_becomes_smaller_keeps_the_run_that_was_found(
    cart: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def shrunk(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rtsim.cli.falsify.shrunk", shrunk)
    status, said = run_in(*cart)
    assert status == 130
    assert "NEAR is violated in run " in said
    assert "the run that was found is in near.counterexample.toml" in said
    assert Counterexample.open("near.counterexample.toml").check().verdict == "violated"


def test_a_run_that_cannot_be_repeated_is_no_counterexample(reference: str) -> None:
    slow = replace(example(reference), values={})
    with pytest.raises(ScenarioError, match="does not violate TOO FAST when it is repeated"):
        shrunk(slow, {})


def test_half_of_the_violation_remains(reference: str) -> None:
    """At 1 s, the follower is at 1 - exp(-rate); the limit is 0.9."""
    quick = Requirement("QUICK", "always[0, 1] follower.x < 0.9 m")
    wave = Waveform("command.wanted", "pieces", -1.0, 1.0, ((0, 1.0),))
    one = Counterexample(reference, quick, 2_000_000_000, (wave,), {"follower.rate": 4.3217})
    rates = {"follower.rate": Range(1.0, 9.0)}
    kept = [shrunk(one, rates, share=share) for share in (0.0, 0.5, 1.0)]
    assert [k.counterexample.values for k in kept] == [
        {"follower.rate": v} for v in (4.0, 4.0, 4.322)
    ]
    found = one.check().robustness
    for share, small in zip((0.0, 0.5, 1.0), kept, strict=True):
        assert small.robustness == small.counterexample.check().robustness <= share * found
    small = shrunk(replace(one, values={"follower.rate": 2.4321}), rates)
    assert small.counterexample.values == {"follower.rate": 2.4}


def test_a_step_does_not_become_so_small_that_its_percentage_grows_without_limit(
    reference: str,
) -> None:
    """The follower ends 0.1 beyond each command: 27 % of the step from 1.0 to 1.37."""
    text = SCENARIO.replace("(self.wanted - self.x)", "(self.wanted + 0.1 - self.x)")
    Path(reference).write_text(text.replace("loop.at(1, command.wanted, 0.5)", "pass"))
    over = Requirement("OVER", "overshoot(follower.x, command.wanted) < 5 %")
    wave = Waveform("command.wanted", "pieces", 0.9, 2.0, ((0, 0.9), (2_000_000_000, 1.37)))
    one = Counterexample(reference, over, 6_000_000_000, (wave,), {"start": 0.999, "until": 6.0})
    assert one.check().robustness == pytest.approx(-22.0, abs=0.5)
    (kept,) = shrunk(one, {}).counterexample.inputs
    assert kept.points[-1][1] > 1.15  # not 1.0, which is a step of 1 mm
    assert shrunk(one, {}).robustness >= -49.1
