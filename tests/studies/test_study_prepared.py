"""A study prepares its runs; the rows equal those of plain runs, bit for bit."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from distributed.protocol.pickle import dumps, loads
from hypothesis import given, settings
from hypothesis import strategies as st

from rtsim.runs.prepared import Prepared
from rtsim.studies import one_run
from rtsim.studies.campaign import Batch
from rtsim.studies.designs import Replications, Table
from rtsim.studies.measures import Row
from rtsim.studies.one_run import Runner
from rtsim.studies.plan import Orders, Plan
from rtsim.studies.study import Study
from rtsim.studies.texts import Value


@pytest.fixture(autouse=True)
def engine_in_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are prepared from the first one on."""
    monkeypatch.setattr(one_run, "engine_kept", lambda: True)


SCENARIO = """
import math
from rtsim import Guard, Model, PythonController, Scenario, Signals
from rtsim.components.latency import Uniform


def derivative(t, x, z, u, p, dx):
    dx[0] = -p[0] * x[0] + u[0] + u[1]
    if p[1] > 0.0 and t > 0.2:
        dx[0] = math.nan


def level(t, x, z, u, p, g):
    g[0] = x[0] - 1.2


def law(t, u, s, p, y):
    s[0] += 0.01 * u[0]
    y[0] = -p[0] * u[0] - s[0]


def interpreted(t, u, s, p, y):
    if p[0] > 0.9 and t > 0.15:
        raise ValueError("gain")
    y[0] = -p[0] * u[0]


def scenario(compiled=True, step=0.01, latency=0.0):
    tank = Model(
        "tank", states=Signals("a = 0.4"), inputs=Signals("first", "second"),
        parameters=Signals("rate = 0.7", "wrong"), derivative=derivative,
        guards=(Guard("level", terminal=True),), guard=level,
    )
    out = Scenario("rich", until=0.3)
    out.plant("tank", tank, step=step, inputs={"first": "law.v", "second": "gust.w"})
    control = PythonController(
        law if compiled else interpreted, Signals("m"), Signals("v"),
        memory=Signals("sum") if compiled else Signals(), parameters=Signals("gain = 0.2"),
        compile=compiled,
    )
    out.controller("law", control, period=0.02, inputs={"m": "tank.a"},
                   transport=Uniform(0.0, latency + 1e-9))
    out.noise("gust", Signals("w"), deviation=0.01, period=0.04)
    return out


def energy(recording):
    assert recording.header["scenario"]["origin"]["settings"]
    return float((recording["tank.a"] ** 2).sum())


def study():
    from rtsim.studies import Study
    return Study(results={"energy": energy})
"""

CHOICES: Mapping[str, list[Value]] = {
    "tank.rate": [0.7, 0.3, -9.0, 1, True],
    "tank.a": [0.4, 0.5, 2.0, -0.1, math.nan, math.inf],
    "tank.wrong": [0.0, 0.0, 0.0, 1.0],
    "tank.first": [0.1],
    "law.gain": [0.2, 0.4, 1.0, "much", 2**62],
    "compiled": [True, False],
    "step": [0.01, 0.02, 0.03],
    "latency": [0.0, 0.015, -1.0],
}
RESULTS: Mapping[str, Any] = {
    "last": "last:tank.a",
    "peak": "max_abs:tank.a,target=0.3",
    "late": "mean:law.v,after=0.1",
    "cross": "first_crossing:tank.a,level=0.41",
    "odd": "last:tank.b",
    "gone": "max:tanc.a",
}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("prepared") / "rich.py"
    path.write_text(SCENARIO)
    return str(path)


def both(study: Study, reference: str) -> list[tuple[Row, Row]]:
    """The rows of a study with prepared runs, and with plain runs."""
    plan = Plan.of(study, reference)
    orders, out = Orders(plan), []
    prepared, plain = Runner(plan.job), Runner(plan.job, prepared=False)
    for k in range(plan.runs):
        found = [runner.row(orders[k]) for runner in (prepared, plain)]
        first, second = (row._replace(wall_s=0.0) for row in found)
        out.append((first, second))
    return out


def same(first: Row, second: Row) -> bool:
    """Compare all fields; NaN equals NaN."""
    return repr(first) == repr(second)


@pytest.mark.long
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_random_studies(file: str, seed: int) -> None:
    chance = random.Random(seed)
    names = chance.sample(sorted(CHOICES), chance.randint(1, 4))
    columns = {name: chance.choices(CHOICES[name], k=6) for name in names}
    good = list(RESULTS)[: chance.choice([4, 4, 4, 6])]
    results = {name: RESULTS[name] for name in chance.sample(good, chance.randint(1, 3))}
    until = chance.choice([None, 0.1, 0.3])
    study = Study(design=Table(columns), results=results, seed=seed, until=until)
    for first, second in both(study, file):
        assert same(first, second), (first, second)


def test_a_result_that_reads_the_recording(file: str) -> None:
    from rtsim.studies.plan import find_study

    found = find_study(file)
    assert found is not None
    values = {"tank.a": [0.4, 0.5, 0.6, 0.7], "tank.wrong": [0.0, 0.0, 0.0, 1.0]}
    for first, second in both(replace(found, design=Table(values)), file):
        assert same(first, second)
        assert first.state == ("error" if first.order.factors["tank.wrong"] else "ok"), first


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["unstable", "valves", "queue", "f16-by-hand"])
def test_shipped_scenarios(name: str) -> None:
    signal = {"queue": "queue.waiting", "f16-by-hand": "f16.altitude"}.get(name)
    if signal is None:
        from rtsim.scenario.loading import load_scenario

        scenario = load_scenario(name)
        plant = next(n for n, one in scenario.components.items() if one.kind == "plant")
        states: Any = scenario.components[plant]
        signal = f"{plant}.{states.model.states.columns[0]}"
    study = Study(design=Replications(4), results={"last": f"last:{signal}"}, until=0.5)
    for first, second in both(study, name):
        assert same(first, second), (first, second)


def test_which_runs_are_prepared(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prepared at once if the scenario is the same in all runs, else when it comes again."""
    seen: list[int] = []
    run_into = Prepared.run_into

    def noted(self: Prepared, *given: Any, **named: Any) -> Any:
        seen.append(1)
        return run_into(self, *given, **named)

    monkeypatch.setattr(Prepared, "run_into", noted)

    def prepared(**columns: list[Value]) -> int:
        seen.clear()
        named = {name.replace("_", "."): column for name, column in columns.items()}
        both(Study(design=Table(named), results={"last": "last:tank.a"}), file)
        return len(seen)

    assert prepared(tank_a=[0.1, 0.2, 0.3]) == 3
    assert prepared(step=[0.01, 0.02, 0.01, 0.02, 0.02]) == 3
    assert prepared(latency=[0.001 * k for k in range(20)]) == 0


def test_without_the_engine_runs_are_prepared_when_they_have_taken_as_long_as_its_compilation(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(one_run, "engine_kept", lambda: False)
    seen: list[int] = []
    run_into = Prepared.run_into

    def noted(self: Prepared, *given: Any, **named: Any) -> Any:
        seen.append(1)
        return run_into(self, *given, **named)

    monkeypatch.setattr(Prepared, "run_into", noted)
    study = Study(design=Table({"tank.a": [0.1] * 4}), results={"last": "last:tank.a"})
    plan = Plan.of(study, file)
    orders, runner = Orders(plan), Runner(plan.job)
    rows = [runner.row(orders[0]), runner.row(orders[1])]
    assert not seen
    assert runner._spent_ns > 0
    runner._spent_ns = one_run._ENGINE_NS
    rows += [runner.row(orders[2]), runner.row(orders[3])]
    assert len(seen) == 2
    plain = Runner(plan.job, prepared=False)
    assert [row.digest for row in rows] == [plain.row(orders[k]).digest for k in range(4)]


def test_runs_share_nothing_but_the_code(file: str) -> None:
    """Any order of the runs gives the same rows."""
    study = Study(
        design=Table({"tank.a": [0.1, 0.2, 0.3, 0.4], "compiled": [True, False, True, False]}),
        results={"last": "last:tank.a"},
    )
    plan = Plan.of(study, file)
    orders, runner = Orders(plan), Runner(plan.job)
    forward = [runner.row(orders[k]).digest for k in range(4)]
    backward = [runner.row(orders[k]).digest for k in reversed(range(4))]
    assert forward == backward[::-1]
    assert len(set(forward)) == 4


def test_orders_and_rows_are_the_same_behind_the_wire(file: str) -> None:
    columns: dict[str, list[Value]] = {
        "tank.a": [0.1, math.inf, -0.0, 5e-324],
        "compiled": [True, False, True, True],
        "law.gain": [1, 2**53, -1, 0],
        "unknown.\u00e9": ["a", "", "\u00e9", '"'],
    }
    plan = Plan.of(Study(design=Table(columns), results={"last": "last:tank.a"}), file)
    orders = [Orders(plan)[k] for k in range(4)]
    batch = Batch(orders)
    assert repr(loads(dumps(batch))) == repr(batch)
    rows = [Row(orders[0], "ok", values={"last": 0.1}, digest="d", wall_s=1.0)]
    rows.append(Row(orders[1], "error", "because", attempts=2))
    assert loads(dumps(rows)) == rows


def test_digests_are_those_of_folders_written_before() -> None:
    plan = Plan.of(
        Study(design=Replications(1), results={"x": "last:plant.x"}, until=1), "unstable"
    )
    assert Runner(plan.job).row(Orders(plan)[0]).digest.startswith("0a38a124e8819943")
