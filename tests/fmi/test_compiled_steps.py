"""FMUs in this process on both engines: equal rows, errors and states, and no step taken twice."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from engine_parts import check_equal, ran
from fmu_parts import LINUX, tank
from lent_clock import LentClock

import rtsim as rt
from rtsim.core.errors import ScenarioError
from rtsim.fmi import Fmu
from rtsim.fmi.compiled_steps import CompiledSteps
from rtsim.fmi.exporting import export_c, export_fmu
from rtsim.fmi.object_code import this_system
from rtsim.fmi.plant import ForeignPlant
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs import prepare
from rtsim.runs.simulation import simulate
from rtsim.solve.base import GOOD
from rtsim.testing import trace_of

pytestmark = [
    pytest.mark.system("gcc"),
    pytest.mark.skipif(not LINUX, reason="the tests compile FMUs for Linux"),
]


class Filling(rt.Controller, compile=True):
    """Fills the tank until the level is 3 m, with a valve that it opens and closes."""

    period = 0.03
    open = rt.parameter("1", 1.0)
    y = rt.input("m")
    flow = rt.output("m/s", initial=2.0)
    valve = rt.output("1", initial=1.0)

    def step(self) -> None:
        self.flow = 2.0 * (3.0 - self.y)
        self.valve = self.open if self.y < 2.9 else 0.0


def counts(t, x, z, u, p, dx):  # type: ignore[no-untyped-def]  # noqa: ARG001
    dx[0] = 100.0


def over(t, x, z, u, p, g):  # type: ignore[no-untyped-def]  # noqa: ARG001
    g[0] = x[0] - 5.0 + 1e-11


def again(i, t, x, z, u, p):  # type: ignore[no-untyped-def]  # noqa: ARG001
    x[0] = 0.0
    z[0] += 1.0


WHEEL = rt.Model(
    "wheel", states=rt.Signals("x"), discrete=rt.Signals("fired"), derivative=counts,
    guards=(rt.Guard("over", direction=1),), guard=over, reset=again,
)  # fmt: skip
"""A plant whose guard fires every 0.05 s, at grid points of the tank, after the tank's step."""


def loop(
    fmu: Fmu,
    until: float = 1.0,
    wheel: bool = False,
    valve: float = 1.0,
    transport: float = 0.013,
) -> rt.Scenario:
    out = rt.Scenario("loop", until=until)
    wires = {"inflow": "filling.flow", "valve": "filling.valve"}
    out.plant("tank", fmu, step=0.01, inputs=wires)
    measured = {"y": "tank.out_y"}
    out.controller("filling", Filling(open=valve), inputs=measured, transport=transport)
    if wheel:
        out.plant("wheel", WHEEL, step=0.01)
    return out


@pytest.mark.parametrize("saves", [True, False])
@pytest.mark.parametrize("variable", [True, False])
@pytest.mark.parametrize("fmi", [2, 3])
def test_both_engines_and_a_process_of_its_own_give_equal_rows(
    fmi: int, variable: bool, saves: bool
) -> None:
    path = tank(fmi, saves=saves, variable=variable)
    tags = check_equal(lambda: loop(Fmu(path, in_process=True)))
    assert tags > 100
    inside, beside = (trace_of(loop(Fmu(path, in_process=w))) for w in (True, False))
    assert inside.digest() == beside.digest()


@pytest.mark.parametrize("variable", [True, False])
def test_a_tag_that_compiled_code_undoes_is_no_second_step_of_the_fmu(variable: bool) -> None:
    def made(wheel: bool = True) -> rt.Scenario:
        return loop(Fmu(tank(3, variable=variable), in_process=True), wheel=wheel)

    assert check_equal(made) > 100
    with_it, without = (simulate(made(wheel), engine="compiled") for wheel in (True, False))
    assert with_it["wheel.fired"][-1] == 20
    assert all(e.tag.ns % 10_000_000 == 0 for e in with_it.events), "at steps of the tank"
    assert with_it["tank.out_y"][-1] == without["tank.out_y"][-1]


def test_an_input_before_the_first_step_acts_on_the_initialisation() -> None:
    path = tank(2, "FROM_INPUT", variable=False)
    check_equal(lambda: loop(Fmu(path, in_process=True), transport=0.004))
    inside, beside = (
        trace_of(loop(Fmu(path, in_process=w), transport=0.004), engine="compiled")
        for w in (True, False)
    )
    assert inside.digest() == beside.digest()
    assert inside["tank.out_y"][:3].tolist() == [0.0, 6.0, 0.0]
    assert 0 < inside["tank.out_y"][3] < 0.1, "the message acts on the next step"


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("fmi", [2, 3])
def test_an_input_that_is_no_whole_number_is_rounded(fmi: int, whole: bool) -> None:
    path = tank(fmi, whole=whole)
    for valve, opens in ((0.4, False), (1.6, True)):
        run = trace_of(loop(Fmu(path, in_process=True), valve=valve), engine="compiled")
        assert (run["tank.out_y"][-1] > 1.0) == opens
        beside = trace_of(loop(Fmu(path), valve=valve))
        assert run.digest() == beside.digest()


@pytest.mark.parametrize(
    ("fmi", "flag", "said"),
    [
        (2, "DISCARD", r"fmi2DoStep returned Discard.* up to 0\.4\d* s; try a shorter step="),
        (3, "DISCARD", r"fmi3DoStep returned Discard; try a shorter step="),
        (3, "EARLY", r"fmi3DoStep returned early, at 0\.4\d* s instead of 0\.4\d* s"),
    ],
)
def test_both_engines_report_a_refused_step_alike(fmi: int, flag: str, said: str) -> None:
    outcomes = [
        ran(loop(Fmu(tank(fmi, flag), in_process=True)), engine)
        for engine in ("compiled", "interpreted")
    ]
    assert outcomes[0].error == outcomes[1].error
    with pytest.raises(rt.core.errors.ModelError, match=said):
        simulate(loop(Fmu(tank(fmi, flag), in_process=True)), engine="compiled")
    assert outcomes[0].tags > 60


class Root(rt.Plant):
    """Cannot go on beyond x = 0.5."""

    x = rt.state("1", 0.0)
    y = rt.output("1")

    def derivative(self, d: Any) -> None:
        d.x = math.sqrt(0.5 - self.x) + 1.0

    def outputs(self) -> None:
        self.y = self.x


@pytest.mark.long
def test_an_error_contains_what_the_fmu_said_to_its_logger(tmp_path: Any) -> None:
    pytest.importorskip("ziglang")
    scenario, path = rt.Scenario("root", until=2.0), tmp_path / "root.fmu"
    scenario.plant("root", Root(), step=0.01)
    export_fmu(scenario, path, plant="root", systems=[this_system()])

    def made() -> rt.Scenario:
        out = rt.Scenario("root", until=2.0)
        out.plant("root", Fmu(path, in_process=True), step=0.01)
        return out

    assert check_equal(made) > 30
    assert "it said: the model cannot go on" in ran(made(), "compiled").error


@pytest.mark.parametrize("engine", ["compiled", "interpreted"])
def test_a_run_returns_to_an_earlier_state(engine: str) -> None:
    def made() -> rt.Scenario:
        return loop(Fmu(tank(3), in_process=True), wheel=True)

    whole = trace_of(made(), engine=engine)
    with rt.Simulation(made(), engine=engine) as stepped:
        stepped.advance(0.301)
        kept = stepped.save()
        stepped.advance(0.4)
        stepped.restore(kept)
        stepped.advance(until=1.0)
        assert stepped.result().recording().digest() == whole.digest()


@pytest.mark.parametrize("saves", [True, False])
def test_a_paced_run_has_the_rows_of_a_run_without_a_pace(saves: bool) -> None:
    fmu = Fmu(tank(2, saves=saves), in_process=True)
    recorder = MemoryRecorder()
    result = simulate(
        loop(fmu, 0.5, wheel=True), clock=LentClock(), engine="compiled", recorder=recorder
    )
    assert result.certificate is not None
    assert result.certificate.engine.startswith("compiled")
    other = simulate(loop(fmu, 0.5, wheel=True), engine="interpreted")
    for name in ("tank.out_y", "tank.count", "wheel.fired"):
        assert (recorder.recording()[name] == other[name]).all()


def steps_of(fmu: Fmu) -> tuple[Any, ForeignPlant, CompiledSteps]:
    scenario = rt.Scenario("steps", until=1)
    scenario.plant("tank", fmu, step=0.01, inputs={"inflow": 2.0})
    system = scenario.build()
    (plant,) = system.plants
    assert isinstance(plant, ForeignPlant)
    assert plant.evaluations.compiled is not None
    return system, plant, plant.evaluations.compiled


@pytest.mark.parametrize(
    ("fmi", "most", "said"),
    [
        (2, 2.0**31 - 1, "a variable of type Integer cannot have the value 2.14748e+09"),
        (3, 2.0**63 - 1024, "a variable of type Int64 cannot have the value 9.22337e+18"),
    ],
)
def test_a_value_that_does_not_fit_is_the_same_error_everywhere(
    fmi: int, most: float, said: str
) -> None:
    path, beyond = tank(fmi, whole=True), 2.0**31 if fmi == 2 else 2.0**63
    assert check_equal(lambda: loop(Fmu(path, in_process=True), valve=most)) > 100
    made = [loop(Fmu(path, in_process=w), 0.3, valve=beyond) for w in (True, True, False)]
    engines = ("compiled", "interpreted", "interpreted")
    errors = [ran(one, engine).error for one, engine in zip(made, engines, strict=True)]
    assert errors[0] == errors[1]
    assert all(error.endswith(said) for error in errors)


def test_after_compiled_code_an_fmu_is_where_its_plant_is() -> None:
    system, plant, steps = steps_of(Fmu(tank(2), in_process=True))
    plant.begin_run(lambda: None, paced=True)
    assert steps.step(0, 10_000_000) == GOOD
    assert steps.at_ns == 10_000_000
    plant.adopt_compiled_state(0, 1)
    assert steps.at_ns == 0
    plant.propagate(10**12)
    plant.commit()
    assert plant.y[0] == pytest.approx(1.0 + 0.01 * 1.5, rel=1e-4)
    system.close()


def test_steps_pause_so_that_python_can_handle_signals() -> None:
    system, plant, steps = steps_of(Fmu(tank(2), in_process=True))
    checks: list[int] = []
    plant.begin_run(lambda: checks.append(plant.ns))
    steps._f["clock"] = 0  # a system without a clock for compiled code
    for _ in range(64):
        plant.propagate(10**12)
        plant.commit()
    assert len(checks) == 4
    assert plant.ns == 640_000_000
    plant.begin_run(lambda: checks.append(plant.ns), paced=True)
    for _ in range(64):
        plant.propagate(10**12)
        plant.commit()
    assert len(checks) == 4, "a paced run returns to Python by itself"
    system.close()


def test_plain_runs_and_short_runs_without_machine_code_call_the_fmu_from_python(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def plain(compile: Any) -> ForeignPlant:
        system = loop(Fmu(tank(2), in_process=True)).build(compile=compile)
        plant = system.plants[0]
        assert isinstance(plant, ForeignPlant)
        system.close()
        return plant

    assert plain(False).native_step() is None
    monkeypatch.setattr("rtsim.fmi.plant.compiled_before", lambda: False)
    assert plain("later").native_step() is None
    assert plain(True).native_step() is not None


def test_the_plant_of_an_fmu_is_not_exported_again(tmp_path: Any) -> None:
    pytest.importorskip("ziglang")
    for inside in (True, False):
        with pytest.raises(ScenarioError) as raised:
            export_c(loop(Fmu(tank(2), in_process=inside)), tmp_path, plant="tank")
        assert str(raised.value).count("another program computes tank") == 1
        assert "give that program itself to the other tool" in str(raised.value)


def test_prepared_runs_reset_the_fmu(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise AssertionError("one call of compiled code cannot reset an FMU")

    monkeypatch.setattr("rtsim.runs.prepared.WholeRun", refused)
    make: Callable[[], rt.Scenario] = lambda: loop(Fmu(tank(3), in_process=True))  # noqa: E731
    prepared = prepare(make())
    whole = trace_of(make())
    for _ in range(2):
        assert prepared.run().recording().digest() == whole.digest()
