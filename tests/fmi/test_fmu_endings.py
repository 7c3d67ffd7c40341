"""FMUs that end their own simulation: the run ends there, is named, and never exits with 0."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from fmu_parts import HERE2, LINUX, binary, description, packed, tank
from lent_clock import LentClock

import rtsim as rt
from rtsim.cli.fmu_files import check
from rtsim.cli.main import main
from rtsim.core.errors import ModelError
from rtsim.core.outcome import Outcome
from rtsim.fmi import Fmu
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.simulation import simulate

pytestmark = [
    pytest.mark.system("gcc"),
    pytest.mark.skipif(not LINUX, reason="the tests compile FMUs for Linux"),
]
CS, ME = "co-simulation", "model-exchange"
SAID = "the FMU ended its simulation at 0.47 s"


def plain(fmu: Fmu, until: float = 1.0, **options: Any) -> rt.Scenario:
    out = rt.Scenario("plain", until=until)
    out.plant("tank", fmu, step=0.01, inputs={"inflow": 2.0}, **options)
    return out


def steps(fmi: int, **options: Any) -> Fmu:
    return Fmu(tank(fmi, "ENDS"), kind=CS, **options)


@pytest.mark.parametrize("engine", ["compiled", "interpreted"])
@pytest.mark.parametrize("fmi", [2, 3])
def test_a_co_simulation_ends_the_run_after_its_last_step(fmi: int, engine: str) -> None:
    whole = simulate(plain(Fmu(tank(fmi), in_process=True)))
    for inside in (True, False) if engine == "interpreted" else (True,):
        run = simulate(plain(steps(fmi, in_process=inside)), engine=engine)
        assert (run.reason, run.ended.seconds) == ("plant ended", 0.47)
        assert run.outcome is Outcome.FAILED
        assert str(run.ending) == f"was ended by a plant at 0.47 s of 1 s: tank: {SAID}"
        (event,) = [e for e in run.recording().events if e.kind == "Ended"]
        assert (event.source, event.tag.ns, event.text) == ("tank", 470_000_000, SAID)
        assert run.time[-1] == 0.47
        assert (run["tank.out_y"] == whole["tank.out_y"][:48]).all()


@pytest.mark.parametrize("saves", [True, False])
@pytest.mark.parametrize("inside", [True, False])
def test_in_real_time_it_ends_at_the_same_tag(inside: bool, saves: bool) -> None:
    fmu = Fmu(tank(3, "ENDS", saves=saves), in_process=inside)
    recorder = MemoryRecorder()
    run = simulate(plain(fmu), clock=LentClock(), recorder=recorder)
    assert (run.reason, run.ended.seconds) == ("plant ended", 0.47)
    free = simulate(plain(fmu))["tank.out_y"]
    assert (recorder.recording()["tank.out_y"] == free).all()


@pytest.mark.parametrize("inside", [True, False])
def test_a_provisional_step_that_ends_the_simulation_is_undone(inside: bool) -> None:
    system = plain(steps(2, in_process=inside)).build()
    (plant,) = system.plants
    plant.begin_run(lambda: None, paced=True)
    for _ in range(46):
        plant.propagate(10**12)
        plant.commit()
    plant.propagate(10**12)
    before = plant.ended
    assert before == "", "the step is provisional"
    plant.discard()
    plant.propagate(465_000_000)
    plant.commit()
    assert plant.ended == "the FMU ended its simulation at 0.465 s"
    with pytest.raises(ModelError, match=r"ended its simulation at 0\.465 s; end the run"):
        plant.propagate(10**12)
    system.close()


@pytest.mark.parametrize("fmi", [2, 3])
def test_a_model_exchange_ends_the_run_at_its_event(fmi: int) -> None:
    run = simulate(plain(Fmu(tank(fmi, "ENDS"), kind=ME), solver="dp54"))
    assert (run.reason, run.ended.seconds) == ("plant ended", 0.5)
    assert run.ending.error == "tank: the FMU ended its simulation at 0.5 s"
    assert run["tank.timed"][-1] == 1, "the outputs are those after the event"
    assert run["tank.events"][-1] == 1


def test_a_model_exchange_ends_the_run_after_a_solver_step() -> None:
    text = description(2).replace(' completedIntegratorStepNotNeeded="true"', "")
    library, inner = binary(2, "ENDS_STEP").read_bytes(), f"binaries/{HERE2}/tank.so"
    files: dict[str, str | bytes] = {"modelDescription.xml": text, inner: library}
    run = simulate(plain(Fmu(packed("step.fmu", files), kind=ME), solver="dp54"))
    assert (run.reason, run.ended.seconds) == ("plant ended", 0.46)
    assert np.isfinite(run["tank.out_y"]).all()


def test_an_fmu_that_ends_with_the_run_has_reached_its_end() -> None:
    for until, kind in ((0.47, CS), (0.5, ME)):
        run = simulate(plain(Fmu(tank(3, "ENDS"), kind=kind), until=until))
        assert (run.reason, run.outcome) == ("end", Outcome.PASSED)
        assert [e.kind for e in run.recording().events][-1] == "Ended"


def test_a_run_that_returns_to_an_earlier_time_ends_again() -> None:
    with rt.Simulation(plain(steps(3, in_process=True))) as stepped:
        stepped.advance(0.3)
        kept = stepped.save()
        stepped.advance(until=1.0)
        assert (stepped.ended_by, stepped.time) == ("tank", 0.47)
        stepped.restore(kept)
        assert not stepped.ended_by
        stepped.advance(0.1)
        stepped.advance(until=1.0)
        assert (stepped.ended_by, stepped.time) == ("tank", 0.47)


def test_the_command_exits_with_1_and_its_recording_replays(tmp_path: Path) -> None:
    path, out = str(tank(3, "ENDS")), str(tmp_path / "run.mcap")
    said = CliRunner().invoke(main, ["run", path, "--until", "1", "-o", out, "--json"])
    found = json.loads(said.output)
    assert (said.exit_code, found["reason"], found["outcome"]) == (1, "plant ended", "failed")
    assert "tank: the FMU ended its simulation" in found["why"]
    ending = Recording.open(Path(out)).footer
    assert ending is not None
    assert ending["reason"] == "plant ended"
    again = CliRunner().invoke(main, ["replay", out, "--trust"])
    assert again.exit_code == 0, again.output
    checked = CliRunner().invoke(check, [path])
    assert "passed  co-simulation: runs" in checked.output
