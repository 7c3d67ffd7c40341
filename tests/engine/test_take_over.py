"""A recorded flight from any of its moments on: flown again, or taken over and flown live."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from checkpoint_parts import law_in_c
from command_line import data, rtsim
from test_semantics_outside import RUNS, Kept, scenario_of

from rtsim.core.errors import RtsimError
from rtsim.engine.checkpoint.file import Checkpoint, Ring
from rtsim.engine.checkpoint.schedule import CheckpointSchedule
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.replay_comparison import compare_exact
from rtsim.record.verdict import what_both_have
from rtsim.runs.replay import rerun
from rtsim.runs.simulation import Pace, simulate
from rtsim.testing import FakeClock
from rtsim.timing.scheduling import SchedulingRequest

MS = 1_000_000
STICK = """
import numpy as np
from rtsim.equations.model import Model
from rtsim.scenario.scenario import Scenario
from rtsim.core.signals import Signals

GAIN = 1.0

class Stick:
    \"\"\"Nobody could compute it again.\"\"\"
    def __init__(self):
        self.drawn = np.random.default_rng()
    def poll(self):
        return self.drawn.normal(size=1) if self.drawn.random() < 0.3 else None

def fly(t, x, z, u, p, dx):
    dx[0] = GAIN * (u[0] - x[0]) + u[1]

def scenario():
    out = Scenario("stick", until=1)
    out.external_input("stick", Signals("u [1]"), Stick())
    out.noise("gust", Signals("u [1]"), deviation=0.1, period=0.03)
    plant = Model("plant", Signals("x [1]"), fly, inputs=Signals("u [1]", "g [1]"))
    out.plant("plant", plant, step=0.01, inputs={"u": "stick.u", "g": "gust.u"})
    return out
"""


@pytest.mark.rule("replay")
@pytest.mark.parametrize("name", RUNS)
def test_a_flight_with_late_and_dead_answers_is_flown_again_from_any_moment(name: str) -> None:
    """Answers under way, given up, discarded, dead or never sent, at each cut."""
    script, failure, late, allowed_ms, _ = RUNS[name]
    scenario = scenario_of(script, failure, late, allowed_ms)
    scenario.component("c").controller = Kept(script)  # type: ignore[attr-defined]
    recorder, ring = MemoryRecorder(), Ring(1)
    taking = CheckpointSchedule(ring, at=[f"{at}/1000" for at in range(2, 59, 5)])
    failed = False
    try:
        pace = Pace(scheduling=SchedulingRequest.nothing())
        simulate(scenario, clock=FakeClock(), pace=pace, recorder=recorder, checkpoints=taking)
    except RtsimError:
        failed = True
    recording = recorder.recording()
    found = {c.ns: c for at in range(60) if (c := ring.before(at * MS)) is not None}
    assert len(found) >= (1 if failed else 5)
    for start in found.values():
        again = rerun(recording, scenario, start=start)
        rest = recording.since(start.rows, start.events)
        assert compare_exact(rest, again) is None, start.tag
        assert [e for e in again.events if e.kind != "Error"] == [
            e for e in rest.events if e.kind != "Error"
        ], start.tag


@pytest.fixture
def stick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A flight with a stick, recorded, and a checkpoint each 0.25 s."""
    monkeypatch.chdir(tmp_path)
    Path("stick.py").write_text(STICK)
    result = rtsim("run", "stick.py", "-o", "a.mcap", "--checkpoint-every", "0.25", "--plain")
    assert result.exit_code == 0, result.output
    assert "checkpoints: 4, the last in a@1.000.checkpoint" in result.stdout
    return tmp_path


def inputs(path: str) -> dict[int, float]:
    rows = Recording.open(path).track("inputs/stick").rows
    return dict(zip(rows.ns.tolist(), rows.floats[:, 0].tolist(), strict=True))


def state(path: str, row: int) -> list[float]:
    found: list[float] = Recording.open(path).track("plant").rows.floats[row].tolist()
    return found


def test_a_flight_is_taken_over_and_flown_on_live(stick: Path) -> None:  # noqa: ARG001
    result = rtsim("replay", "a.mcap", "--from", "0.4", "--then", "run", "-o", "b.mcap", "--json")
    assert result.exit_code == 0, result.output
    told = data(result)
    assert (told["at_s"], told["continues"], told["recording"]) == (0.4, "a.mcap", "b.mcap")
    whole, taken = Recording.open("a.mcap"), Recording.open("b.mcap")
    assert taken.continues["ns"] == 400 * MS
    assert taken.continues["checkpoint"] == "b@0.400.checkpoint"
    assert min(inputs("b.mcap")) > 400 * MS
    later = {ns: v for ns, v in inputs("a.mcap").items() if ns > 400 * MS}
    assert inputs("b.mcap") != later  # the stick is live
    assert whole["plant.x"][-1] != taken["plant.x"][-1]
    kept = Checkpoint.open("b@0.400.checkpoint").state["plants"]["plant"]["values"]
    before = np.flatnonzero(whole.track("plant").ns <= 400 * MS)[-1]
    assert kept == whole.track("plant").rows.floats[before].tolist()
    assert rtsim("replay", "b.mcap").exit_code == 0  # and that flight replays too
    result = rtsim("replay", "b.mcap", "--from", "0.7", "--then", "run", "-o", "c.mcap")
    assert result.exit_code == 0, result.output
    assert "taken over at 0.700 s: b.mcap" in result.stdout
    assert rtsim("replay", "c.mcap").exit_code == 0


def test_the_way_to_the_moment_may_be_shown(stick: Path) -> None:  # noqa: ARG001
    """From 0.3 s to 0.5 s at a rate, with the recorded stick; then live."""
    result = rtsim(
        "replay", "a.mcap", "--from", "0.3", "--to", "0.5", "--then", "run", "--pace", "100",
        "-o", "b.mcap",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert Recording.open("b.mcap").continues["ns"] == 500 * MS
    result = rtsim("replay", "b.mcap")
    assert result.exit_code == 0
    assert result.stdout.startswith("replayed 0.5 to 1 s: all ")
    result = rtsim("replay", "b.mcap", "--to", "0.4")
    assert result.exit_code == 2
    assert "b.mcap begins at 0.500 s; give a --to time after 0.500 s" in result.stderr


@pytest.mark.parametrize(
    ("times", "span"),
    [
        (("--from", "0.6"), (0.5, 1.0)),
        (("--from", "0.2"), (0.0, 1.0)),
        (("--to", "0.6"), (0.0, 0.6)),
        (("--from", "0.5", "--to", "0.777"), (0.5, 0.78)),
    ],
)
def test_a_part_of_a_flight_is_checked(
    stick: Path,  # noqa: ARG001
    times: tuple[str, ...],
    span: tuple[float, float],
) -> None:
    result = rtsim("replay", "a.mcap", *times, "--json")
    assert result.exit_code == 0, result.output
    told = data(result)
    assert (told["from_s"], told["until_s"], told["ok"]) == (*span, True)


def test_what_differs_from_the_checkpoint_on_is_found(stick: Path) -> None:
    """The check of a part can fail."""
    path = stick / "a@0.500.checkpoint"
    broken = Checkpoint.open(path)
    broken.state["streams"]["streams"].clear()
    broken.__dict__.pop("digest")
    broken.save(path)
    result = rtsim("replay", "a.mcap", "--from", "0.6")
    assert result.exit_code == 1, result.output
    assert "replay differs: plant" in result.stdout
    assert rtsim("replay", "a.mcap").exit_code == 0


def test_a_checkpoint_of_another_run_is_told_and_not_used(stick: Path) -> None:
    rtsim("run", "stick.py", "-o", "z.mcap", "--checkpoint-every", "0.25", "--plain")
    (stick / "z@0.500.checkpoint").replace(stick / "a@0.500.checkpoint")
    (stick / "a@0.750.checkpoint").write_bytes(b"\x89RTSIM\r\nrubbish")
    result = rtsim("replay", "a.mcap", "--from", "0.8")
    assert result.exit_code == 0, result.output
    assert "note: a@0.500.checkpoint is a checkpoint of another run than a.mcap" in result.stdout
    assert "note: a@0.750.checkpoint is cut off" in result.stdout
    assert "replayed 0.25 to 1 s" in result.stdout


def test_a_run_goes_on_from_its_file_and_says_so(stick: Path) -> None:  # noqa: ARG001
    result = rtsim("run", "--from", "a@0.500.checkpoint", "-o", "b.mcap", "--until", "0.8")
    assert result.exit_code == 0, result.output
    assert "stick.py: 0.3 s in" in result.stdout
    header = Recording.open("b.mcap").header
    assert header["continues"]["checkpoint"] == "a@0.500.checkpoint"
    assert header["until"] == 800 * MS
    assert header["compile"] is False
    assert rtsim("replay", "b.mcap").exit_code == 0
    Path("a@0.500.checkpoint").rename("elsewhere")
    result = rtsim("replay", "b.mcap")
    assert result.exit_code == 2
    assert "b.mcap continues from the checkpoint a@0.500.checkpoint, which" in result.stderr
    Path("a@0.250.checkpoint").rename("a@0.500.checkpoint")
    assert "continues from a checkpoint whose contents differ" in rtsim("replay", "b.mcap").stderr


def test_another_scenario_than_it_was_is_named_and_refused(stick: Path) -> None:
    source = stick / "stick.py"
    source.write_text(STICK.replace("GAIN = 1.0", "GAIN = 2.0"))
    again = ("run", "--from", "a@0.500.checkpoint", "-o", "b.mcap")
    result = rtsim(*again)
    assert result.exit_code == 2
    assert "has changed since then" in result.stderr
    result = rtsim(*again, "--scenario", "stick.py")
    assert result.exit_code == 2
    assert "the scenario has changed since a@0.500.checkpoint was written" in result.stderr
    assert "the sources of the scenario's functions have changed since" in result.stderr
    assert rtsim("replay", "a.mcap", "--from", "0.6", "--then", "run", "--trust").exit_code == 2
    assert rtsim(*again, "--trust", "--force").exit_code == 0
    source.write_text(STICK.replace("step=0.01", "step=0.02"))
    result = rtsim("run", "--from", "a@0.500.checkpoint", "--trust")
    assert "\nplant.step: 10000000 in the recording, 20000000 now" in result.stderr


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("run", "orbit", "--from", "a@0.500.checkpoint"),
            "SCENARIO cannot be changed",
        ),
        (("run", "--from", "a@0.500.checkpoint", "--set", "a.b=1"), "--set cannot be changed"),
        (("run", "--from", "a@0.500.checkpoint", "--seed", "3"), "--seed cannot be changed"),
        (
            ("run", "--from", "a@1.000.checkpoint"),
            "there is nothing left to run; give a later --until",
        ),
        (
            ("run", "--from", "a.mcap"),
            "a.mcap is a recording, not a checkpoint; type rtsim replay a",
        ),
        (("run", "orbit", "--no-record", "--checkpoint-at", "1"), "leave --no-record out"),
        (("run", "orbit", "--checkpoint-every", "-1"), "checkpoint interval -1 s must be > 0"),
        (("run",), "Missing argument 'SCENARIO'"),
        (
            ("replay", "a.mcap", "--then", "run"),
            "at which live inputs take over; give --from T or --to T",
        ),
        (("replay", "a.mcap", "--from", "0.7", "--to", "0.5"), "comes after --to 0.5"),
        (("replay", "a.mcap", "--from", "7", "--then", "run"), "before its end at 1.000000000 s"),
        (("replay", "a.mcap", "--from", "9"), "a.mcap ends at 1.000 s; give a --from time"),
        (("replay", "a.mcap", "--to", "0.5", "-o", "x.mcap"), "work only with --then run"),
    ],
)
def test_what_cannot_be_asked_for(stick: Path, arguments: tuple[str, ...], message: str) -> None:
    result = rtsim(*arguments)
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert not (stick / "x.mcap").exists()


def test_a_flight_by_c_goes_on_with_the_c(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process is started again and fed what it was asked; from there it is live."""
    monkeypatch.chdir(tmp_path)
    law_in_c(tmp_path)
    flown = ("sil", "run", "unstable", "-c", "controller=law.toml", "--until", "3")
    late = ("--set", "latency=0.013", "--latency", "0.03", "--checkpoint-every", "1.01")
    result = rtsim(*flown, *late, "-o", "a.mcap")
    assert result.exit_code == 0, result.output
    result = rtsim("run", "--from", "a@1.010.checkpoint", "-o", "b.mcap")
    assert result.exit_code == 0, result.output
    result = rtsim("replay", "a.mcap", "--from", "2.117", "--then", "run", "-o", "c.mcap")
    assert result.exit_code == 0, result.output
    whole = Recording.open("a.mcap")
    for name in ("b.mcap", "c.mcap"):
        rest, on, since = what_both_have(whole, Recording.open(name))
        assert since is not None
        assert on.trace_rows > 100
        assert rest.digest() == on.digest(), name
        assert rtsim("compare", "a.mcap", name).exit_code == 0
        assert rtsim("replay", name).exit_code == 0
    source = tmp_path / "law.c"
    source.write_text(source.read_text().replace("0.5 * x", "0.6 * x"))
    result = rtsim("run", "--from", "a@1.010.checkpoint")
    assert result.exit_code == 2
    assert "which rtsim does not compile: the file, or a file that it reads, has" in result.stderr
    result = rtsim("run", "--from", "a@1.010.checkpoint", "--trust")
    assert result.exit_code == 2
    assert "add --force to continue if the C code gives the same answers" in result.stderr
    assert "now (its C code, its flags or its compiler have changed)" in result.stderr
    result = rtsim("run", "--from", "a@1.010.checkpoint", "--trust", "--force")
    assert "gave other answers" in result.stderr


def test_a_comparison_begins_where_the_later_one_goes_on(stick: Path) -> None:  # noqa: ARG001
    for at, name in (("0.500", "b"), ("0.750", "c")):
        result = rtsim("run", "--from", f"a@{at}.checkpoint", "-o", f"{name}.mcap")
        assert result.exit_code == 0, result.output
    assert data(rtsim("compare", "b.mcap", "c.mcap", "--json"))["since_s"] == 0.75
