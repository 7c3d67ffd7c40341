"""Guards that chatter, and the state at the crossing itself: events finer than 1 ns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from engine_parts import check_equal
from scipy.linalg import expm

from rtsim.core.errors import ZenoError
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import Duration
from rtsim.engine.checkpoint.file import Ring
from rtsim.engine.checkpoint.schedule import CheckpointSchedule
from rtsim.equations.model import Guard, Model
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.simulation import RunResult, simulate
from rtsim.scenario.scenario import Scenario
from rtsim.solve import Adaptive, Solver

SIGNS = (-1, 0, 1)
ON_AND_OFF = pytest.mark.parametrize("compile", [True, False], ids=["compiled", "plain"])


def flown(scenario: Scenario, **how: Any) -> tuple[Recording, RunResult]:
    recorder = MemoryRecorder()
    outcome = simulate(scenario, recorder=recorder, **how)
    return recorder.recording(), outcome


def crossed(recording: Recording) -> list[tuple[int, int, str]]:
    events = [e for e in recording.events if e.kind == "Crossed"]
    return [(e.tag.ns, e.tag.step, e.source.partition(".")[2]) for e in events]


# -- chatter ---------------------------------------------------------------------------------------


def runs(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = 1.0 if z[2] == 0.0 else 0.0


def ahead(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
    g[0] = x[0] - z[0]


def further(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
    z[0] += p[0] if z[1] % 2.0 == 0.0 else p[1]
    z[1] += 1.0


def rests(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
    z[2] = 1.0


def chattering(
    one: float, other: float, stops: bool = False, until: Duration = "1/1000"
) -> Scenario:
    """A guard that fires at intervals of ``one`` and ``other`` s in turn."""
    model = Model(
        "relay", Signals("x"), runs, discrete=Signals("next = 1e-5", "n", "rests"),
        parameters=Signals("one", "other"), guards=(Guard("g", +1),), guard=ahead, reset=further,
        stop=rests if stops else None,
    )  # fmt: skip
    scenario = Scenario("relay", until=until)
    scenario.plant("w", model, step="1/1000", parameters={"one": one, "other": other})
    return scenario


@pytest.mark.rule("zeno")
@ON_AND_OFF
@pytest.mark.parametrize(("one", "other"), [(1e-9, 3e-9), (90e-9, 2e-9)])
def test_steady_chatter_is_zeno(one: float, other: float, compile: bool) -> None:
    with pytest.raises(ZenoError, match=r"guard g of w .*chatters.* 100 intervals .*hysteresis"):
        flown(chattering(one, other), compile=compile)


@pytest.mark.rule("zeno")
def test_chatter_takes_the_model_to_its_stop_mode() -> None:
    recording, outcome = flown(chattering(1e-9, 3e-9, stops=True))
    assert [e.kind for e in recording.events] == ["Crossed"] * 100 + ["Stopped"]
    assert outcome.system.plants[0].z[2] == 1.0


@pytest.mark.rule("zeno")
def test_chatter_after_a_checkpoint_is_the_same_chatter() -> None:
    ring = Ring(1)
    with pytest.raises(ZenoError) as whole:
        flown(chattering(1e-9, 3e-9), checkpoints=CheckpointSchedule(ring, at=["0.000010080"]))
    kept = ring.before(10_150)
    assert kept is not None
    assert kept.ns > 10_050
    with pytest.raises(ZenoError) as rest:
        flown(chattering(1e-9, 3e-9), start=kept)
    assert str(rest.value) == str(whole.value)


@pytest.mark.rule("zeno")
def test_intervals_above_100_ns_between_bursts_are_no_chatter() -> None:
    recording, _ = flown(chattering(101e-9, 3e-9, until="1/20000"))
    assert len(crossed(recording)) > 700


@pytest.mark.rule("zeno")
def test_guards_that_fire_in_turn_at_one_instant_are_named() -> None:
    """Each of 20 guards sets off the next one, and the last one the first."""

    def levels(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
        for i in range(g.size):
            g[i] = (1.0 if z[0] == i else -1.0) if x[0] > 0.5 else -1.0

    def next_one(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
        z[0] = (z[0] + 1.0) % 20.0

    def grows(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
        dx[0] = 1.0

    model = Model("ring", Signals("x"), grows, discrete=Signals("n"), guard=levels,
                  guards=tuple(Guard(f"g{i}", +1) for i in range(20)), reset=next_one)  # fmt: skip
    scenario = Scenario("ring", until=1)
    scenario.plant("w", model, step="1/8")
    with pytest.raises(ZenoError, match=r"more than 1000 microsteps .*: w\.g\d+ "):
        flown(scenario)


# -- the state at the crossing itself --------------------------------------------------------------

VOLTS, HENRYS, FARADS, OHMS = 24.0, 1e-3, 1e-4, 10.0


def converts(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = (24.0 * z[0] - x[1]) / 1e-3
    dx[1] = (x[0] - x[1] / 10.0) / 1e-4
    dx[2] = 1.0


def ramp(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
    g[0] = x[2] - p[0] / 3.0
    g[1] = x[2] - p[0]


def switches(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
    z[0] = float(i)
    if i == 1:
        x[2] -= p[0]


BUCK = Model(
    "buck", Signals("i [A]", "v [V]", "ramp [s]"), converts, discrete=Signals("on = 1"),
    parameters=Signals("period [s]"), guards=(Guard("off", +1), Guard("on", +1)), guard=ramp,
    reset=switches,
)  # fmt: skip


def converted(period: float, end: float) -> Vector:
    """Current and voltage of the buck converter at ``end`` s, by matrix exponentials."""
    on = np.array(
        [[0, -1 / HENRYS, VOLTS / HENRYS], [1 / FARADS, -1 / (OHMS * FARADS), 0], [0, 0, 0]]
    )
    off, whole = on.copy(), round(end / period)
    off[0, 2] = 0.0
    cycle = expm(off * period * 2 / 3) @ expm(on * period / 3)
    return (np.linalg.matrix_power(cycle, whole) @ [0.0, 0.0, 1.0])[:2]


def buck(kilohertz: int, solver: str | Solver) -> Scenario:
    out = Scenario("buck", until="0.01")
    parameters = {"period": 1e-3 / kilohertz}
    out.plant("w", BUCK, step="1/1000", solver=solver, parameters=parameters)
    return out


@pytest.mark.rule("guards")
@pytest.mark.parametrize(
    ("kilohertz", "compile"), [(10, True), (10, False), (30, True), (100, True)]
)
def test_the_error_of_a_buck_converter_does_not_grow_with_its_frequency(
    kilohertz: int, compile: bool
) -> None:
    """A third of its period is no whole number of ns; rounded up, it is off by 8e-4 V."""
    solver = Adaptive(rtol=1e-11, atol=1e-13)
    _, outcome = flown(buck(kilohertz, solver), compile=compile)
    exact = converted(1e-3 / kilohertz, 0.01)
    assert np.abs(outcome.system.plants[0].x[:2] - exact).max() < 2e-9


def test_a_buck_converter_has_equal_rows_on_both_engines() -> None:
    assert check_equal(lambda: buck(30, "rk4")) > 0


def test_a_run_goes_on_from_an_event_between_two_ns_bit_for_bit() -> None:
    scenario, ring = buck(30, "dp54"), Ring(100)
    whole, _ = flown(scenario, checkpoints=CheckpointSchedule(ring, every="1/9000"))
    words, late = whole.tracks["w"].words, []
    for ns in range(1_300_000, 9_000_000, 1_200_000):
        kept = ring.before(ns)
        assert kept is not None
        rest, _ = flown(scenario, start=kept)
        after = rest.tracks["w"].words
        assert words[len(words) - len(after) :].tobytes() == after.tobytes()
        late.append(kept.state["plants"]["w"]["guards"]["late"])
    assert any(late)
