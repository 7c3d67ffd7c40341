"""Models with algebraic constraints and mass matrices: rows, engines, checkpoints, errors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoint_parts import rest
from constraint_parts import TANK, last, pipe, scenario_of
from engine_parts import check_equal

from rtsim import Guard, Model, Scenario, Signals, simulate
from rtsim.core.errors import ModelError
from rtsim.engine.checkpoint.file import SUFFIX, Checkpoint, Files
from rtsim.engine.checkpoint.schedule import CheckpointSchedule
from rtsim.equations.constraints import explicit
from rtsim.equations.model import bind
from rtsim.record.comparison import compare
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.prepared import prepare
from rtsim.runs.replay import rerun
from rtsim.solve import RK4
from rtsim.testing.solvers import allocations
from tools.bench.constraint_problems import PENDULUM

NONE = np.zeros(0)


def tank(solver: str = "rk4") -> Scenario:
    return scenario_of(TANK, "0.05", solver, 6, update_period=0.5, inputs={"head": 0.1})


@pytest.mark.rule("algebraic-values")
@pytest.mark.parametrize("compile", [True, False], ids=["compiled", "plain"])
def test_derivative_output_guard_reset_and_update_see_solved_values(compile: bool) -> None:
    recorder = MemoryRecorder()
    simulate(tank(), recorder=recorder, compile=compile)
    recording = recorder.recording()
    track = recording.tracks["plant"]
    names = [s.name for s in track.signals]
    assert names == ["level", "pumped", "last", "flow", "head", "shown"]
    rows = {name: track.column(name) for name in names}
    left = rows["flow"] + rows["flow"] ** 3 - rows["level"] - rows["head"]
    assert np.abs(left).max() < 1e-9  # each row is consistent, also after resets and updates
    assert np.abs(rows["shown"] - 2.0 * rows["flow"]).max() < 1e-9
    fired = recording.events
    assert len(fired) >= 2
    assert {e.source for e in fired} == {"plant.slow"}
    assert rows["last"][-1] == pytest.approx(0.5, abs=1e-8)
    assert compare(recording, rerun(recording, tank())).ok or not compile


@pytest.mark.parametrize("solver", ["rk4", "dp54"])
def test_both_engines_give_equal_rows(solver: str) -> None:
    check_equal(lambda: tank(solver))


@pytest.mark.sample(2)
@pytest.mark.parametrize("solver", ["rk4", "dp54", "radau", "ida"])
def test_a_run_that_goes_on_from_a_checkpoint_is_equal_bit_for_bit(
    solver: str, tmp_path: Path
) -> None:
    """Cut in the middle of steps, between events and at them."""
    whole, taking = (
        MemoryRecorder(),
        CheckpointSchedule(Files(tmp_path / "run.mcap"), at=(0.77, 2.5, 4.001)),
    )
    simulate(tank(solver), recorder=whole, checkpoints=taking)
    cuts = sorted(tmp_path.glob(f"*{SUFFIX}"))
    assert len(cuts) == 3
    for path in cuts:
        recorder = MemoryRecorder()
        simulate(tank(solver), recorder=recorder, start=Checkpoint.open(path))
        assert recorder.recording().digest() == rest(whole.recording(), path)


def test_a_prepared_run_equals_a_run_that_is_built_anew() -> None:
    """The search begins at the declared values in each run, not at those of the run before it."""
    prepared = prepare(tank())
    for bend in (1.0, 3.0, 1.0):
        values = {"plant.bend": bend}
        scenario = tank()
        scenario.set("plant.bend", bend)
        recorder = MemoryRecorder()
        simulate(scenario, recorder=recorder, seed=1)
        found = prepared.run(seed=1, set=values).recording()
        assert found.digest() == recorder.recording().digest()


def test_the_start_values_of_algebraic_variables_choose_the_branch() -> None:
    def stays(t: float, x: Any, y: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
        dx[0] = 0.0 * y[0]

    def square(t: float, x: Any, y: Any, z: Any, u: Any, p: Any, r: Any) -> None:  # noqa: ARG001
        r[0] = y[0] ** 2 - x[0]

    model = Model("roots", Signals("x = 4"), stays, algebraic=Signals("y = 1"), residual=square)
    for first, wanted in ((1.0, 2.0), (-0.3, -2.0)):
        scenario = scenario_of(model, "1", "rk4", 1, algebraic={"y": first})
        plant = simulate(scenario, recorder=MemoryRecorder(), compile=False).system.plants[0]
        assert plant.z.tolist() == pytest.approx([wanted], abs=1e-9)


@pytest.mark.rule("algebraic-values")
def test_a_reset_that_writes_an_algebraic_value_chooses_another_branch() -> None:
    def falls(t: float, x: Any, y: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
        dx[0] = -1.0

    def square(t: float, x: Any, y: Any, z: Any, u: Any, p: Any, r: Any) -> None:  # noqa: ARG001
        r[0] = y[0] ** 2 - x[0]

    def below(t: float, x: Any, y: Any, z: Any, u: Any, p: Any, g: Any) -> None:  # noqa: ARG001
        g[0] = y[0] - 1.5

    def other(i: int, t: float, x: Any, y: Any, z: Any, u: Any, p: Any) -> None:  # noqa: ARG001
        y[0] = -1.0

    model = Model(
        "roots", Signals("x = 4"), falls, algebraic=Signals("y = 1"), residual=square,
        guards=(Guard("low", -1),), guard=below, reset=other,
    )  # fmt: skip
    found = last(model, "0.1", "rk4", 3, compile=False)
    assert found == pytest.approx([1.0, -1.0], abs=1e-8)


def test_a_projection_keeps_the_length_of_the_pendulum() -> None:
    def rigid(x: Any) -> None:
        far = np.hypot(x[0], x[1])
        x[0] /= far
        x[1] /= far
        along = x[0] * x[2] + x[1] * x[3]
        x[2] -= along * x[0]
        x[3] -= along * x[1]

    found = last(replace(PENDULUM, project=rigid), "0.02", "rk4", 5, compile=False)
    assert np.hypot(found[0], found[1]) == pytest.approx(1.0, abs=1e-14)
    wanted = found[2] ** 2 + found[3] ** 2 - 9.81 * found[1]
    assert found[4] == pytest.approx(wanted, rel=1e-9)


# -- errors


def rates(t: float, x: Any, y: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
    dx[0] = 1.0 + 0.0 * y[0]


def refused(residual: Any, *algebraic: str, step: str = "0.1", **model: Any) -> str:
    made = Model(
        "m", Signals("x"), rates, algebraic=Signals(*algebraic), residual=residual, **model
    )
    with pytest.raises(ModelError) as caught:
        last(made, step, "rk4", 3, compile=False)
    return str(caught.value)


def test_declarations_that_do_not_fit_together() -> None:
    with pytest.raises(ModelError, match="both algebraic variables and the function residual"):
        Model("m", Signals("x"), rates, algebraic=Signals("y"))
    with pytest.raises(ModelError, match=r"m is not a possible argument.* \(t, x, y, z, u, p, r\)"):
        Model("m", Signals("x"), rates, algebraic=Signals("y"), residual=weights)
    with pytest.raises(ModelError, match=r"output of model m .* but out is missing"):
        Model(
            "m",
            Signals("x"),
            rates,
            algebraic=Signals("y"),
            residual=pipe,
            outputs=Signals("o"),
            output=shown,
        )
    with pytest.raises(ModelError, match=r"residual of model m is 3; give a function of \(t, x, y"):
        Model("m", Signals("x"), rates, algebraic=Signals("y"), residual=3)  # type: ignore[arg-type]


def test_a_residual_that_is_not_finite_at_the_start_is_named() -> None:
    def residual(t: float, x: Any, y: Any, z: Any, u: Any, p: Any, r: Any) -> None:  # noqa: ARG001
        r[0] = y[0] - 1.0
        r[1] = np.nan if y[1] < 1.0 else y[1] - 3.0

    said = refused(residual, "a", "b")
    assert "residual of model m returns nan for b at the initial values" in said


def test_an_equation_without_a_solution_is_named() -> None:
    def residual(t: float, x: Any, y: Any, z: Any, u: Any, p: Any, r: Any) -> None:  # noqa: ARG001
        r[0] = y[0] - 3.0
        r[1] = y[1] ** 2 + 1.0

    said = refused(residual, "a", "b = 2")
    assert "have no solution at the initial values: residual[1] stays at 1" in said


def test_too_few_equations_for_an_unknown_are_named_by_structure() -> None:
    def residual(t: float, x: Any, y: Any, z: Any, u: Any, p: Any, r: Any) -> None:  # noqa: ARG001
        r[0] = y[0] - x[0]
        r[1] = y[0] ** 2 + 2.0 * y[0] - x[0]
        r[2] = y[1] + y[2]

    said = refused(residual, "a = 1", "b", "c")
    assert "residual[0] and residual[1] depend on a only" in said
    assert "structural rank 2 of 3" in said


def test_equations_that_depend_on_each_other_are_named() -> None:
    def residual(t: float, x: Any, y: Any, z: Any, u: Any, p: Any, r: Any) -> None:  # noqa: ARG001
        r[0] = y[0] + y[1] - x[0] - 1.0
        r[1] = 2.0 * y[0] + 2.0 * y[1] - 5.0
        r[2] = y[2] - 1.0

    said = refused(residual, "a", "b", "c")
    assert "residual[0] and residual[1] depend linearly on each other" in said
    assert "a and b are not determined" in said


@pytest.mark.parametrize("solver", ["rk4", "dp54"])
def test_a_solution_that_ends_during_the_run_is_named(solver: str) -> None:
    def residual(t: float, x: Any, y: Any, z: Any, u: Any, p: Any, r: Any) -> None:  # noqa: ARG001
        r[0] = y[0] ** 2 + x[0] - 1.0

    model = Model("m", Signals("x"), rates, algebraic=Signals("y = 1"), residual=residual)
    for compile in (True, False) if solver == "rk4" else (False,):
        with pytest.raises(ModelError) as caught:
            last(model, "0.3", solver, 3, compile=compile)
        said = str(caught.value)
        assert "the equations of plant (model m) have no solution" in said
        assert "residual[0] stays at" in said


def fold(t: float, x: Any, y: Any, z: Any, u: Any, p: Any, r: Any) -> None:  # noqa: ARG001
    r[0] = y[0] ** 2 + x[0]
    r[1] = y[1] - y[0]


@pytest.mark.sample(3)
@pytest.mark.parametrize("solver", ["rk4", "dp54", "bs32", "rodas5p", "radau", "ida"])
def test_the_end_of_a_solution_is_told_with_its_time_and_a_remedy_that_can_help(
    solver: str,
) -> None:
    model = Model("m", Signals("x = -1.005"), rates, algebraic=Signals("a = 1", "b"), residual=fold)
    with pytest.raises(ModelError) as caught:
        last(model, "0.01", solver, 3, compile=False)
    said = str(caught.value)
    assert "at 1.005 s Newton's method found no solution from a =" in said
    assert "where residual[0] no longer depends on the unknowns" in said
    assert "terminal guard" in said
    assert "initial values" not in said


def kepler(t: float, x: Any, y: Any, z: Any, u: Any, p: Any, r: Any) -> None:  # noqa: ARG001
    r[0] = y[0] - 0.3 * np.sin(y[0]) - t


@pytest.mark.sample(4)
@pytest.mark.parametrize("solver", ["rk4", "dp54", "rodas5p", "radau", "ida"])
@pytest.mark.parametrize("states", [(), ("x = 2",)], ids=["stateless", "still"])
def test_a_model_of_constraints_alone_needs_no_derivative(
    solver: str, states: tuple[str, ...]
) -> None:
    model = Model("kepler", Signals(*states), algebraic=Signals("anomaly"), residual=kepler)
    for compile in (True, False):
        found = last(model, "0.1", solver, 2, compile=compile)
        assert list(found[:-1]) == [2.0] * len(states)
        assert found[-1] - 0.3 * np.sin(found[-1]) == pytest.approx(2.0, abs=1e-10)


# -- mass matrices


def pull(t: float, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
    dx[0] = 2.0 * x[1]
    dx[1] = -x[0] + x[1]


def weights(t: float, x: Any, z: Any, u: Any, p: Any, m: Any) -> None:  # noqa: ARG001
    m[0, 0], m[0, 1] = 2.0 + x[0] ** 2, 0.5
    m[1, 0], m[1, 1] = 0.0, 4.0


def shown(t: float, x: Any, z: Any, u: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    y[0] = x[0]


def weighed(t: float, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
    dx[1] = (-x[0] + x[1]) / 4.0
    dx[0] = (2.0 * x[1] - 0.5 * dx[1]) / (2.0 + x[0] ** 2)


@pytest.mark.parametrize("compile", [True, False], ids=["compiled", "plain"])
def test_a_mass_matrix_divides_the_derivative(compile: bool) -> None:
    states = Signals("a = 1", "b = 0.5")
    wanted = last(Model("w", states, weighed), "0.01", "rk4", 1, compile=False)
    varying = Model("v", states, pull, mass=weights)
    assert last(varying, "0.01", "rk4", 1, compile=compile) == pytest.approx(wanted, rel=1e-13)
    constant = Model("c", states, pull, mass=((2.0, 1.0), (1.0, 3.0)))
    direct = bind(constant, compile=compile)
    out = np.zeros(2)
    direct.derivative.call(0.0, np.array([1.0, 0.5]), NONE, NONE, NONE, out)
    assert out.tolist() == pytest.approx(np.linalg.solve([[2, 1], [1, 3]], [1.0, -0.5]).tolist())


def test_a_mass_matrix_and_constraints_together() -> None:
    def rate(t: float, x: Any, y: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
        dx[0] = -y[0]

    def heavy(t: float, x: Any, y: Any, z: Any, u: Any, p: Any, m: Any) -> None:  # noqa: ARG001
        m[0, 0] = 2.0 + 0.0 * y[0]

    model = Model(
        "m", Signals("x = 2"), rate, inputs=Signals("u"), parameters=Signals("p = 1"),
        algebraic=Signals("y = 1"), residual=pipe,
    )  # fmt: skip
    given = {"inputs": {"u": 0.0}}
    alone = last(model, "0.01", "rk4", 1, given, compile=False)
    for mass in (heavy, ((2.0,),)):
        half = last(replace(model, mass=mass), "0.02", "rk4", 2, given, compile=False)
        assert half == pytest.approx(alone, rel=1e-12)


def test_a_singular_mass_matrix_names_rows_and_states() -> None:
    states = Signals("a = 1", "b = 0.5")
    with pytest.raises(ModelError, match=r"row 1 depends on no unknown.*nothing determines b.*alg"):
        Model("m", states, pull, mass=((1.0, 0.0), (0.0, 0.0)))
    with pytest.raises(ModelError, match=r"row 0 and row 1 depend linearly on each other"):
        Model("m", states, pull, mass=((1.0, 2.0), (2.0, 4.0)))
    with pytest.raises(ModelError, match="2 x 2 finite numbers"):
        Model("m", states, pull, mass=((1.0, 2.0),))

    def vanishes(t: float, x: Any, z: Any, u: Any, p: Any, m: Any) -> None:  # noqa: ARG001
        m[0, 0], m[0, 1], m[1, 0], m[1, 1] = 1.0, 0.0, 0.0, 0.4 - t

    with pytest.raises(
        ModelError, match=r"the equations of plant .*mass matrix is singular: row 1 .*determines b"
    ):
        last(Model("m", states, pull, mass=vanishes), "0.1", "rk4", 1, compile=False)


def test_compiled_steps_with_constraints_allocate_no_memory() -> None:
    assert allocations(RK4, explicit(PENDULUM)) == 0.0


def test_an_explicit_model_keeps_its_origin() -> None:
    made = explicit(PENDULUM)
    assert made.origin is PENDULUM
    assert explicit(made) is made
    assert made.discrete.names == ("tension",)
    assert made.algebraic.size == 0
