"""Limits of chains as requirements of a run: verdicts, commands, replay, studies and the report."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from chain_parts import Body, Drive
from command_line import data, rtsim

import rtsim as rt
from rtsim.components.latency import Fixed, LatencyModel, Loss
from rtsim.core.errors import RecordingError, ScenarioError
from rtsim.core.outcome import Outcome
from rtsim.record.reading import Recording
from rtsim.requirements import check
from rtsim.requirements.chain_section import chain_section
from rtsim.requirements.chains import ChainLimit, chains_of
from rtsim.requirements.requirement import Requirement, required_by
from rtsim.runs import prepare
from rtsim.scenario.scenario import Scenario
from rtsim.studies import Grid, Study, start, summarise

PROGRAM = """
import rtsim as rt


class Body(rt.Plant):
    x = rt.state("m")
    u = rt.input("m/s")

    def derivative(self, d):
        d.x = self.u


class Drive(rt.Controller):
    y = rt.input("m")
    u = rt.output("m/s")

    def step(self):
        self.u = -self.y


def scenario(period=0.02, limit=0.05, chains=True):
    loop = rt.Scenario("loop", until=1)
    body = loop.plant("body", Body(), step=0.1)
    sensor = loop.sensor("sensor", {"y": body.x}, period=0.01, transport=0.002)
    pilot = loop.controller("pilot", Drive(), period=period)
    loop.connect(sensor.y, pilot.y)
    loop.connect(pilot.u, body.u)
    if chains:
        loop.chain("drive", [sensor.y, pilot.u, body.u], max_age=limit, max_reaction=0.04)
    return loop
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("chains")
    (out / "loop.py").write_text(PROGRAM)
    for name, settings in (("meets", []), ("fails", ["limit=0.029"]), ("none", ["chains=False"])):
        given = [word for one in settings for word in ("--set", one)]
        rtsim("run", out / "loop.py", *given, "-o", out / f"{name}.mcap")
    return out


def loop_with(
    transport: LatencyModel | float = 0.002, *, until: float = 1, **limits: float
) -> Scenario:
    """Return a loop with an age of 8 to 28 ms, and a reaction time of 28 ms or less."""
    loop = Scenario("loop", until=until)
    loop.plant("body", Body(), step=0.1, inputs={"u": "pilot.u"})
    loop.sensor("sensor", {"y": "body.x"}, period=0.01, transport=transport)
    loop.controller("pilot", Drive(), period=0.02, inputs={"y": "sensor.y"})
    loop.chain("drive", ["sensor.y", "pilot.u", "body.u"], **limits)
    return loop


def outcomes(loop: Scenario) -> dict[str, Outcome]:
    run = rt.simulate(loop, compile=False)
    return {one.name: one.result for one in run.requirements}


def test_a_limit_holds_up_to_the_worst_age_and_no_further() -> None:
    """Samples at 10, 30, ... ms are used from 20, 40, ... ms on, for 20 ms."""
    assert outcomes(loop_with(max_age=0.03, max_reaction=0.03)) == {
        "drive age": Outcome.PASSED, "drive reaction": Outcome.PASSED,
    }  # fmt: skip
    assert outcomes(loop_with(max_age="0.029999999", max_reaction=0.03)) == {  # type: ignore[arg-type]
        "drive age": Outcome.FAILED, "drive reaction": Outcome.PASSED,
    }  # fmt: skip
    assert outcomes(loop_with(max_reaction="0.029999999")) == {  # type: ignore[arg-type]
        "drive reaction": Outcome.FAILED
    }


def test_a_violated_limit_names_the_messages_and_the_margin() -> None:
    run = rt.simulate(loop_with(max_age=0.029), compile=False)
    (found,) = run.requirements
    assert not run.ok
    assert found.robustness == pytest.approx(-0.001)
    assert found.worst_ns == 40_000_000
    assert re.fullmatch(r"sensor 1 \(0.01 to 0.012 s\) -> pilot 1 \(0.02 to 0.02 s\)", found.worst)


def test_a_chain_without_values_is_undecided_until_its_limit_has_passed() -> None:
    """No message arrives: an age is never known, but the reaction takes longer than 0.1 s."""
    silent = Loss(Fixed(0), 1.0)
    assert outcomes(loop_with(silent, max_age=0.1, max_reaction=0.1)) == {
        "drive age": Outcome.UNDECIDED, "drive reaction": Outcome.FAILED,
    }  # fmt: skip
    run = rt.simulate(loop_with(silent, max_age=0.1, max_reaction=2), compile=False)
    assert [one.result for one in run.requirements] == [Outcome.UNDECIDED, Outcome.UNDECIDED]
    assert "no message of sensor arrived" in run.requirements[0].reason


def test_a_run_that_was_cut_short_can_violate_a_limit_but_not_meet_it() -> None:
    for limit, expected in ((0.05, Outcome.UNDECIDED), (0.02, Outcome.FAILED)):
        loop = loop_with(max_age=limit)
        recording = rt.simulate(loop, compile=False).recording().up_to(500_000_000)
        (found,) = check(loop.requirements, recording)
        assert found.result is expected


def test_a_run_from_a_checkpoint_does_not_know_the_earlier_ages() -> None:
    loop = loop_with(max_age=0.05)
    recording = rt.simulate(loop, compile=False).recording()
    rows = {name: len(track) // 2 for name, track in recording.tracks.items()}
    (found,) = check(loop.requirements, recording.since(rows))
    assert found.result is Outcome.UNDECIDED
    assert "earlier ages are not known" in found.reason


def test_a_run_without_a_recording_is_undecided() -> None:
    run = rt.simulate(loop_with(max_age=0.05), record=False, compile=False)
    assert [one.result for one in run.requirements] == [Outcome.UNDECIDED]


def test_prepared_runs_check_limits() -> None:
    prepared = prepare(loop_with(max_age=0.029))
    assert [one.result for one in prepared.run().requirements] == [Outcome.FAILED]


def test_the_header_keeps_chains_and_limits() -> None:
    header = rt.simulate(loop_with(max_age=0.05), compile=False).recording().header
    assert json.loads(json.dumps(header["chains"])) == [
        {"name": "drive", "elements": ["sensor.y", "pilot.u", "body.u"]}
    ]
    (limit,) = required_by(header)
    elements = chains_of(header)[0].elements
    assert limit.chain == ChainLimit(elements, "age", 50_000_000)
    assert Requirement.of_plain(limit.to_plain()) == limit
    for broken in ({"chains": [{"name": "a"}]}, {"chains": 3}):
        with pytest.raises(RecordingError, match="chains"):
            chains_of(broken)


@pytest.mark.parametrize(
    ("arguments", "options", "problem"),
    [
        (("a", "sensor.y"), {}, "list of signals"),
        (("drive", ["sensor.y", "pilot.u"]), {}, "two chains have the name drive"),
        (("a", ["sensor.y", "pilot.u"]), {"max_age": 0}, "max_age of chain a is 0 s"),
        (("a", ["sensor.y", "pilot.u"]), {"max_reaction": -1}, "max_reaction of chain a"),
    ],
)
def test_a_declaration_is_refused(
    arguments: tuple[object, ...], options: dict[str, float], problem: str
) -> None:
    with pytest.raises(ScenarioError, match=problem):
        loop_with().chain(*arguments, **options)  # type: ignore[arg-type]


def test_a_chain_that_does_not_fit_is_refused_before_the_run() -> None:
    loop = loop_with()
    loop.chain("wrong", ["sensor.y", "body.u"])
    with pytest.raises(ScenarioError, match=r"chain wrong: body.u reads pilot.u, not sensor.y"):
        rt.simulate(loop, compile=False)
    other = loop_with()
    other.chain("typo", ["senso.y", "pilot.u"])
    with pytest.raises(ScenarioError, match="did you mean sensor"):
        rt.simulate(other, compile=False)


def test_run_counts_limits_as_requirements(folder: Path) -> None:
    found = rtsim("run", folder / "loop.py", "--set", "limit=0.029", "-o", folder / "again.mcap")
    assert found.exit_code == 1
    assert re.search(r"drive age\s+violated\s+-0.001\s+0.04", found.stdout)
    assert re.search(r"drive reaction\s+holds\s+0.01", found.stdout)
    assert rtsim("run", folder / "loop.py", "-o", folder / "third.mcap").exit_code == 0


def test_check_and_replay_judge_limits(folder: Path) -> None:
    for name, status in (("meets", 0), ("fails", 1)):
        for command in ("check", "replay"):
            trusted = ["--trust"] if command == "replay" else []
            found = rtsim(command, folder / f"{name}.mcap", *trusted)
            assert found.exit_code == status, (name, command, found.output)


def test_age_prints_figures_messages_and_limits(folder: Path) -> None:
    found = rtsim("age", folder / "meets.mcap")
    assert found.exit_code == 0
    assert "chain drive: sensor.y -> pilot.u -> body.u" in found.stdout
    assert "50 values; data age: least 10 ms, median 20 ms, p99 29.8 ms" in found.stdout
    assert "worst age: 30 ms, from 0.01 s to 0.04 s" in found.stdout
    assert re.search(r"sensor 1\s+0.01\s+0.01\s+0.012", found.stdout)
    assert len(re.findall(r"#+", found.stdout)) == 10
    assert re.search(r"drive age\s+holds\s+0.02", found.stdout)
    failed = rtsim("age", folder / "fails.mcap", "--json")
    assert failed.exit_code == 1
    assert data(failed)["chains"][0]["worst_age"]["s"] == 0.03
    assert data(failed)["requirements"][0]["outcome"] == "failed"
    assert data(failed)["outcome"] == "failed"


def test_age_of_given_chains_ignores_the_declared_ones(folder: Path) -> None:
    given = ("--chain", "body.x,sensor.y,pilot.u", "--chain", "pilot.u, body.u")
    found = data(rtsim("age", folder / "fails.mcap", *given, "--json"))
    assert found["exit_status"] == 0
    assert [one["worst_age"]["s"] for one in found["chains"]] == [0.03, 0.02]
    assert "requirements" not in found


def test_age_without_a_figure_or_a_chain_has_status_2(folder: Path) -> None:
    found = rtsim("age", folder / "none.mcap")
    assert found.exit_code == 2
    assert "declares no chain; give --chain" in found.stderr
    wrong = rtsim("age", folder / "none.mcap", "--chain", "sensor.z,pilot.u")
    assert wrong.exit_code == 2
    assert "unknown signal 'z' in sensor" in wrong.stderr
    (folder / "short.py").write_text(PROGRAM.replace("until=1", "until=0.001"))
    rtsim("run", folder / "short.py", "-o", folder / "short.mcap")
    short = rtsim("age", folder / "short.mcap")
    assert short.exit_code == 2
    assert "no age: no message of pilot that took effect depends on a message of sensor" in (
        short.stdout
    )


def test_schedule_prints_the_bound_beside_the_run(folder: Path) -> None:
    found = rtsim("schedule", folder / "loop.py")
    assert found.exit_code == 0
    assert re.search(
        r"drive\s+32\s+30\s+30\s+sensor 10 \+ 0 \+ 2; pilot 20 \+ 0 \+ 0", found.stdout
    )
    assert (
        "a chain with scenario.chain"
        in rtsim("schedule", folder / "loop.py", "--set", "chains=False").stderr
    )


def test_the_report_has_a_section_about_chains(folder: Path) -> None:
    pytest.importorskip("uplot")
    section = chain_section(Recording.open(folder / "meets.mcap"))
    assert section is not None
    text = re.sub(r"<[^>]+>", " ", section[2])
    assert re.search(
        r"drive: sensor.y -&gt; pilot.u -&gt; body.u\s+50\s+10\s+20\s+29.8\s+30\s+30", text
    )
    assert section[2].count("<figure") == 2
    assert chain_section(Recording.open(folder / "none.mcap")) is None
    assert rtsim("report", folder / "meets.mcap").exit_code == 0
    assert "drive: data age [ms]" in (folder / "meets.html").read_text()


def test_a_study_judges_limits_and_a_search_refuses_them(folder: Path) -> None:
    """A period of 20 ms meets the limits, and a period of 45 ms violates both."""
    program = str(folder / "loop.py")
    study = Study(factors={"period": [0.02, 0.045]}, design=Grid())
    required = summarise(start(program, folder / "study", study))["requirements"]
    assert {name: (one["passed"], one["count"]) for name, one in required.items()} == {
        "drive age": (1, 2), "drive reaction": (1, 2),
    }  # fmt: skip
    search = rtsim(
        "falsify", program, "--factor", "period=range:0.01,0.05", "--requirement", "drive age"
    )
    assert search.exit_code == 2
    assert "limits a chain" in search.stderr
