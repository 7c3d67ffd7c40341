"""Prepared runs: every one equals ``simulate`` of the scenario with the same values and seed."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtsim import Guard, Model, PythonController, Scenario, Signal, Signals, simulate
from rtsim.components.latency import ZERO, Duplicate, Fixed, Gamma, LatencyModel, Loss, Uniform
from rtsim.core.errors import (
    ModelError,
    RecordingError,
    RtsimError,
    ScenarioError,
    ShapeError,
    UnknownName,
)
from rtsim.engine.compiled import engine
from rtsim.engine.executive import Executive
from rtsim.equations.compiling import Compilation
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.prepared import prepare
from rtsim.scenario.loading import known_scenarios, load_scenario

SHIPPED = sorted(set(known_scenarios()) - {"betaflight", "betaflight-flight"})


def outcome_of(run: Callable[[], Any]) -> str:
    """The digest of the recording, or the kind of the error."""
    try:
        return str(run().recording().digest())
    except RtsimError as error:
        return type(error).__name__


def simulated(
    scenario: Scenario,
    seed: int,
    until: float,
    values: Mapping[str, Any],
    compile: Compilation = True,
) -> str:
    copy = scenario.copy()
    for target, value in values.items():
        copy.set(target, value)
    run = partial(simulate, copy, seed=seed, until=until, compile=compile)
    return outcome_of(lambda: run(recorder=MemoryRecorder()))


def some_values(scenario: Scenario, chance: random.Random) -> dict[str, Any]:
    """A few values near those of the scenario."""
    known = [
        (f"{name}.{signal.name}", settable, signal)
        for name, component in scenario.components.items()
        for settable in component.settable()
        for signal in settable.signals
        if not isinstance(settable.values.get(signal.name), str)
    ]
    found = {}
    for target, settable, signal in chance.sample(known, min(3, len(known))):
        now = np.ravel(settable.values.get(signal.name, signal.initial)) * np.ones(signal.size)
        near = np.clip(now * chance.uniform(0.99, 1.01), signal.low, signal.high)
        found[target] = near.tolist() if signal.shape else float(near[0])
    return found


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", SHIPPED)
def test_each_shipped_scenario(name: str) -> None:
    scenario, chance = load_scenario(name), random.Random(name)
    until = min(scenario.until_ns / 1e9, 0.6)
    prepared = prepare(scenario)
    for seed in (0, 7, 0, 7, 3):
        values = some_values(scenario, chance) if seed else {}
        run = partial(prepared.run, seed=seed, set=values, until=until)
        assert outcome_of(run) == simulated(scenario, seed, until, values), values


# -- a scenario with everything that a whole run in compiled code can have


def derivative(t, x, z, u, p, dx):  # type: ignore[no-untyped-def]
    dx[0] = -p[0] * x[0] + u[0] + z[0] + u[1]
    dx[1] = x[0] - 0.3 * x[1] + 0.01 * t


def output(t, x, z, u, p, y):  # type: ignore[no-untyped-def]  # noqa: ARG001
    y[0] = x[0] + 0.5 * x[1] + u[0]


def update(t, x, z, u, p):  # type: ignore[no-untyped-def]  # noqa: ARG001
    z[0] = 0.9 * z[0] - 0.1 * x[0]


def level(t, x, z, u, p, g):  # type: ignore[no-untyped-def]  # noqa: ARG001
    g[0] = x[0] - p[1]


def turned(i, t, x, z, u, p):  # type: ignore[no-untyped-def]  # noqa: ARG001
    x[0] = -0.5 * x[0]
    if p[2] > 0.0:
        x[0] = math.nan


def feedback(t, u, s, p, y):  # type: ignore[no-untyped-def]  # noqa: ARG001
    s[0] += 0.01 * u[0]
    y[0] = -p[0] * u[0] - s[0]


TANK = Model(
    "tank", states=Signals(Signal("a", initial=0.4, low=-9, high=9), "b"),
    inputs=Signals("first", "second"), outputs=Signals("y"),
    parameters=Signals("rate = 0.7", "threshold = 5", "wrong"),
    discrete=Signals("held = 0.1"), derivative=derivative, output=output, update=update,
    guards=(Guard("level"),), guard=level, reset=turned,
)  # fmt: skip


def rich(transport: LatencyModel = ZERO, seen: LatencyModel = ZERO) -> Scenario:
    """Guards, updates, noise, a sensor, coupled plants and a declared order."""
    out = Scenario("rich", until="0.777")
    out.plant(
        "tank", TANK, step="1/100", inputs={"first": "inner.v", "second": "gust.w"},
        update_period="1/30",
    )  # fmt: skip
    out.plant(
        "basin", TANK, step="0.013", solver="dp54", inputs={"first": "tank.y", "second": 0.1},
        update_period="1/50",
    )  # fmt: skip
    for name, source in (("outer", "set.point"), ("inner", "outer.v")):
        law = PythonController(
            feedback, Signals("m", "n"), Signals("v"), memory=Signals("sum"),
            parameters=Signals("gain = 0.2"), compile=True,
        )  # fmt: skip
        out.controller(
            name, law, period="1/50", transport=transport, inputs={"m": source, "n": "eye.seen"}
        )
    out.order("outer", "inner")
    out.sensor("eye", {"seen": "tank.y"}, period="1/50", offset="0.003", transport=seen)
    out.noise("gust", Signals("w"), deviation=0.01, period="1/25")
    out.source("set", Signals("point = 0.1"))
    return out


LATENCIES = (
    Fixed(0), Fixed("0.013"), Gamma(2.0, 0.004), Loss(Uniform(0.0, 0.03), 0.3),
    Duplicate(Fixed("0.002"), 0.1, "0.004"),
)  # fmt: skip
VALUES: tuple[dict[str, Any], ...] = (
    {}, {"tank.rate": 0.3}, {"basin.second": 0.2, "tank.a": -0.2}, {"inner.gain": 0.5},
    {"set.point": -0.3, "tank.held": 0.0}, {"tank.threshold": 0.3}, {"tank.first": 0.5},
    {"tank.threshold": 0.3, "tank.wrong": 1.0}, {"basin.threshold": 0.05, "tank.b": 1.0},
)  # fmt: skip


@settings(max_examples=15, deadline=None)
@given(
    transport=st.sampled_from(LATENCIES),
    seen=st.sampled_from(LATENCIES),
    runs=st.lists(
        st.tuples(st.sampled_from(VALUES), st.integers(0, 3), st.sampled_from((0.5, 0.777, 0.031))),
        min_size=2, max_size=6,
    ),
)  # fmt: skip
def test_any_order_of_runs(
    transport: LatencyModel, seen: LatencyModel, runs: list[tuple[dict[str, Any], int, float]]
) -> None:
    scenario = rich(transport, seen)
    prepared = prepare(scenario)
    assert prepared.rebuilt == ()
    for values, seed, until in runs:
        run = partial(prepared.run, seed=seed, set=values, until=until)
        assert outcome_of(run) == simulated(scenario, seed, until, values), values


@pytest.mark.sample(5)
@pytest.mark.parametrize("compile", [True, False, "checked"])
@pytest.mark.parametrize("engine", ["auto", "compiled", "interpreted"])
def test_each_way_to_run(compile: Compilation, engine: str) -> None:
    scenario = rich()
    prepared = prepare(scenario, compile=compile, engine=engine)
    for seed in (1, 2, 1):
        run = partial(prepared.run, seed=seed)
        assert outcome_of(run) == simulated(scenario, seed, 0.777, {}, compile)


def test_after_the_first_run_the_interpreter_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = rich()
    prepared = prepare(scenario)
    prepared.run(seed=1)
    monkeypatch.setattr(Executive, "run", lambda *_: pytest.fail("the interpreter ran"))
    again = prepared.run(seed=2, until=5)
    monkeypatch.undo()
    assert again.recording().digest() == simulated(scenario, 2, 5, {})
    assert again.certificate.engine.startswith("compiled: ")


def test_many_blocks_of_rows() -> None:
    """A run that fills the blocks of its tracks several times keeps all rows."""
    scenario = load_scenario("unstable", {"step": "0.0005"})
    prepared = prepare(scenario)
    for values in ({}, {"plant.x": 0.5}, {"plant.x": 0.25}):
        run = partial(prepared.run, set=values, until=9)
        assert outcome_of(run) == simulated(scenario, 0, 9, values)


def test_runs_that_leave_compiled_code_halfway(monkeypatch: pytest.MonkeyPatch) -> None:
    """With blocks of a few rows, some rows were taken before a guard needs the interpreter."""
    monkeypatch.setattr(engine, "_MOST_BYTES", 1)
    scenario = rich()
    prepared = prepare(scenario)
    fires = {"tank.threshold": 0.3}
    for values in ({}, {}, fires, {}, fires, {"tank.a": 0.1}, fires):
        run = partial(prepared.run, seed=3, set=values)
        assert outcome_of(run) == simulated(scenario, 3, 0.777, values), values


def test_an_error_does_not_touch_the_next_run() -> None:
    scenario = rich()
    prepared = prepare(scenario)
    good = simulated(scenario, 4, 0.777, {})
    for _ in range(2):
        with pytest.raises(ModelError, match="not finite"):
            prepared.run(seed=4, set={"tank.threshold": 0.3, "tank.wrong": 1.0})
        assert outcome_of(partial(prepared.run, seed=4)) == good
        assert outcome_of(partial(prepared.run, seed=4)) == good


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ({"tank.rat": 1.0}, UnknownName),
        ({"tanc.rate": 1.0}, UnknownName),
        ({"rate": 1.0}, ScenarioError),
        ({"tank.a": 10.0}, ScenarioError),
        ({"tank.a": [1.0, 2.0]}, ShapeError),
        ({"gust.w": 1.0}, UnknownName),
        ({"tank.a": math.nan}, ScenarioError),
    ],
)
def test_wrong_values_raise_what_set_raises(values: dict[str, Any], kind: type[Exception]) -> None:
    scenario = rich()
    prepared = prepare(scenario)
    ((target, value),) = values.items()
    with pytest.raises(kind) as expected:
        scenario.copy().set(target, value)
    for _ in range(3):
        with pytest.raises(kind) as found:
            prepared.run(set=values)
        assert str(found.value) == str(expected.value)
        prepared.run()


def test_wrong_ends_and_seeds() -> None:
    prepared = prepare(rich())
    for _ in range(2):
        with pytest.raises(ScenarioError, match="seed is -1"):
            prepared.run(seed=-1)
        with pytest.raises(ScenarioError, match="longer than 0 s"):
            prepared.run(until=0)
        prepared.run(until=0.1)
    with pytest.raises(ScenarioError, match="engine is 'fast'"):
        prepare(rich(), engine="fast")


def test_the_scenario_stays_as_it_was() -> None:
    scenario = rich()
    prepared = prepare(scenario)
    scenario.set("tank.rate", 0.1)
    assert outcome_of(prepared.run) == simulated(rich(), 0, 0.777, {})
    prepared.run(set={"tank.rate": 0.2})
    header = prepared.run(set={"tank.rate": 0.2}, seed=8).recording().header
    assert header["seed"] == 8
    assert header["scenario"]["parts"]["tank"]["parameters"]["rate"] == 0.2


def test_a_latency_is_set_by_name() -> None:
    prepared = prepare(load_scenario("unstable"))
    for latency in (0.02, 0.0, 0.0123456789012):
        run = partial(prepared.run, set={"controller.transport": latency}, until=2)
        expected = load_scenario("unstable", {"latency": repr(latency)})
        assert outcome_of(run) == simulated(expected, 0, 2, {})
    scenario = load_scenario("unstable")
    scenario.set("controller.compute", 0.03)
    assert scenario.describe()["parts"]["controller"]["compute"] == repr(Fixed(0.03))
    with pytest.raises(ScenarioError, match=r"compute = -1 s is outside its range"):
        scenario.set("controller.compute", -1)
    with pytest.raises(UnknownName, match="did you mean transport"):
        scenario.set("controller.transprt", 0.01)


@pytest.mark.parametrize("runs", [1, 3])
def test_what_is_kept(runs: int) -> None:
    prepared = prepare(rich())
    simulation = simulate(rich(), seed=5, recorder=MemoryRecorder())
    recording = simulation.recording()
    for _ in range(runs):
        some = prepared.run(seed=5, record=("tank",))
        none = prepared.run(seed=5, record=False)
    assert list(some.recording().tracks) == ["tank"]
    assert np.array_equal(some.recording().track("tank").words, recording.track("tank").words)
    with pytest.raises(RecordingError, match="not recorded"):
        none.recording()
    for result in (some, none):
        assert result.final("tank.a") == simulation.final("tank.a") == recording["tank.a"][-1]
        assert result.final("inner.v") == simulation.final("inner.v")
    with pytest.raises(UnknownName, match="tanc"):
        prepared.run(record=("tanc",))
    with pytest.raises(UnknownName, match="tanc"):
        none.final("tanc.a")


def test_results_outlive_the_next_run() -> None:
    prepared = prepare(rich())
    results = [prepared.run(seed=seed) for seed in (1, 2, 3, 4)]
    for seed, result in zip((1, 2, 3, 4), results, strict=True):
        assert result.recording().digest() == simulated(rich(), seed, 0.777, {})
        assert result.final("tank.a") == result.recording()["tank.a"][-1]


def test_what_cannot_be_put_back_is_named_and_built_anew() -> None:
    scenario = load_scenario("f16-by-hand")
    prepared = prepare(scenario)
    assert prepared.rebuilt == ("stick",)
    queue = load_scenario("queue")
    prepared = prepare(queue)
    assert prepared.rebuilt == ("customers", "queue")
    for seed in (1, 2, 1):
        assert outcome_of(partial(prepared.run, seed=seed, until=2)) == simulated(
            queue, seed, 2, {}
        )
    with pytest.raises(UnknownName, match="tanc"):
        prepared.run(until=1, record=("tanc",))


def test_ctrl_c_ends_the_loop_and_not_only_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = prepare(load_scenario("valves"))

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Executive, "run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            prepared.run()
    assert outcome_of(partial(prepared.run, until=0.5)) == simulated(
        load_scenario("valves"), 0, 0.5, {}
    )
