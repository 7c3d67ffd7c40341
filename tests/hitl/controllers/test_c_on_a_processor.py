"""C code on a simulated processor: the schedule and the messages of its reference model."""

from __future__ import annotations

from pathlib import Path

import pytest

import rtsim as rt
from hitl.controllers.board import BoardController
from hitl.controllers.in_process import InProcess
from hitl.controllers.sil import SilController
from rtsim.core.errors import ScenarioError
from rtsim.record.file import FileRecorder
from rtsim.record.reading import Recording
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.replay import rerun
from rtsim.runs.simulation import simulate
from rtsim.scenario.scenario import Scenario
from rtsim.testing.determinism import trace_of

INTERFACE = """
name = "law"
period = 0.02
sources = ["law.c"]
headers = ["law.h"]
[code]
step = "force = law(x, v)"
[inputs]
x = { unit = "m" }
v = { unit = "m/s" }
[outputs]
force = { unit = "N/kg" }
"""
SOURCE = """
double law(double x, double v)
{
    static double steps;
    steps += 1.0;
    return -4.0 * x - 2.0 * v + 0.125 * steps;
}
"""


class Cart(rt.Plant):
    x = rt.state("m", 1)
    v = rt.state("m/s")
    force = rt.input("N/kg")

    def derivative(self, d: Cart) -> None:
        d.x = self.v
        d.v = self.force


class Law(rt.Controller):
    x = rt.input("m")
    v = rt.input("m/s")
    force = rt.output("N/kg")
    steps = rt.memory()

    def step(self) -> None:
        self.steps = self.steps + 1.0
        self.force = -4.0 * self.x - 2.0 * self.v + 0.125 * self.steps


@pytest.fixture(scope="module")
def interface(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("law")
    (folder / "law.c").write_text(SOURCE)
    (folder / "law.h").write_text("double law(double x, double v);")
    (folder / "law.toml").write_text(INTERFACE)
    return folder / "law.toml"


def scenario(policy: str, missed: str, replaced: object = None) -> Scenario:
    """The logger preempts the controller, and sometimes lets it miss its deadline."""
    loop = Scenario("law", until=1.0)
    loop.processor("mcu", policy=policy, context_switch=1e-5)
    cart = loop.plant(Cart(), step=0.01)
    law = loop.controller(
        Law(), period=0.02, processor="mcu", execution=rt.Uniform(0.001, 0.008), priority=2,
        deadline=0.012, missed=missed,
    )  # fmt: skip
    loop.connect(cart, law)
    loop.task("logger", "mcu", period=0.007, execution=0.003, priority=1)
    if replaced is not None:
        loop.replace_controller("law", replaced)  # type: ignore[arg-type]
    return loop


@pytest.mark.parametrize(
    ("policy", "missed"),
    [("fixed", "abort"), ("fixed", "skip"), ("edf", "finish"), ("let", "finish")],
)
def test_c_in_its_own_process_has_the_schedule_and_the_messages_of_its_model(
    policy: str, missed: str, interface: Path
) -> None:
    model = trace_of(scenario(policy, missed))
    in_c = trace_of(scenario(policy, missed, SilController(interface, cases=None)))
    same = [name for name in model.tracks if name in in_c.tracks]
    assert {"values/mcu", "jobs/law", "messages/law", "messages/law.inputs", "cart"} <= set(same)
    for name in same:
        assert model.track(name).words.tolist() == in_c.track(name).words.tolist(), name
    assert [(e.tag, e.kind) for e in model.events] == [(e.tag, e.kind) for e in in_c.events]
    assert model.track("jobs/law").integer("aborted").any() == (missed == "abort")
    assert ("DeadlineMissed" in {e.kind for e in model.events}) == (policy != "edf")


def test_the_recording_of_c_on_a_processor_replays(interface: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    loop = scenario("fixed", "abort", SilController(interface, cases=None))
    simulate(loop, recorder=FileRecorder(path))
    recording = Recording.open(path)
    assert compare_exact(recording, rerun(recording, loop)) is None


def test_c_in_this_process_has_the_same_schedule(interface: Path) -> None:
    model = trace_of(scenario("fixed", "abort"))
    in_c = trace_of(scenario("fixed", "abort", InProcess(interface)))
    for name in ("values/mcu", "jobs/law", "messages/law"):
        assert model.track(name).words.tolist() == in_c.track(name).words.tolist(), name


def test_a_board_on_a_simulated_processor_is_an_error_before_the_board_starts(
    interface: Path,
) -> None:
    loop = scenario("fixed", "finish", BoardController(interface, url="board:uno"))
    with pytest.raises(ScenarioError, match="law is a BoardController, which has a processor of"):
        loop.build(0)
