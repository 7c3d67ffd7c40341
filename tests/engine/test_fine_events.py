"""Guards that chatter, and the state at the crossing itself: events finer than 1 ns.

Guards at one instant: writes that take a guard off zero, and contacts that pass on a blow.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import groupby, product
from typing import Any

import numpy as np
import pytest
from engine_parts import check_equal, ran
from scipy.linalg import expm

from rtsim.components.controller import PythonController
from rtsim.core.errors import ZenoError
from rtsim.core.signals import Signal, Signals, Vector
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


# -- writes ----------------------------------------------------------------------------------------


def stands(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = 0.0


def total(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:
    g[0] = x[0] + z[0] + u[0] + p[0]
    g[1] = t - 0.5


def writes(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
    if i == 1:
        x[0] += p[1]


def updates(t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
    if t == 0.5:
        z[0] = p[2]


def sends(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    y[0] = p[0]


def watched(direction: int) -> Model:
    return Model(
        "watched", Signals("x"), stands, discrete=Signals("z"),
        inputs=Signals(Signal("u", optional=True)),
        parameters=Signals("told", "by_reset", "by_update"), update=updates,
        guards=(Guard("level", direction), Guard("clock", +1)), guard=total, reset=writes,
    )  # fmt: skip


def written(model: Model, writer: str, before: int, after: int) -> Scenario:
    """The guard ``level`` is ``before``, and one ``writer`` makes it ``after`` at 1/2 s."""
    step = after - before
    out = Scenario("written", until=1)
    parameters = {f"by_{writer}": float(step)} if writer in ("reset", "update") else {}
    inputs = {"u": "sender.v"} if writer == "message" else {}
    out.plant(
        "w", model, step="1/8", update_period="1/4", states={"x": float(before)},
        parameters=parameters, inputs=inputs,
    )  # fmt: skip
    if writer == "change":
        out.at("1/2", "w.told", float(step))
    if writer == "message":
        size = Signals(Signal("size", initial=float(step)))
        sender = PythonController(sends, Signals("x"), Signals("v"), parameters=size)
        out.controller("sender", sender, period="1/2", offset="1/2", inputs={"x": "w.x"})
    return out


@pytest.mark.rule("guards-after-writes")
@pytest.mark.parametrize("writer", ["reset", "update", "change", "message"])
@pytest.mark.parametrize("direction", SIGNS)
def test_each_sign_before_a_write_and_after_it(direction: int, writer: str) -> None:
    model = watched(direction)
    for before, after in product(SIGNS, SIGNS):
        fires = before != after != 0 and direction in (0, after) and (before != 0 or direction != 0)
        for engine in ("interpreted", "compiled"):
            recording = ran(written(model, writer, before, after), engine).recording
            found = [ns for ns, _, name in crossed(recording) if name == "level"]
            assert found == [500_000_000] * fires, (before, after, engine)


@pytest.mark.rule("guards-after-writes")
def test_a_write_from_zero_has_equal_rows_on_both_engines() -> None:
    model = watched(-1)
    for before, after in product(SIGNS, SIGNS):
        assert check_equal(partial(written, model, "update", before, after)) > 0


def told(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
    g[0] = p[0]


@pytest.mark.rule("guards-after-writes")
@pytest.mark.parametrize("engine", ["interpreted", "compiled"])
@pytest.mark.parametrize("direction", SIGNS)
def test_a_guard_without_a_direction_remembers_the_side_it_came_from(
    direction: int, engine: str
) -> None:
    """A write puts it on zero, and a later one on one of the two sides."""
    model = Model("told", Signals("x"), stands, parameters=Signals("p"), guard=told,
                  guards=(Guard("g", direction),))  # fmt: skip
    for before, after in product((-1.0, 1.0), (-1.0, 1.0)):
        scenario = Scenario("told", until=1)
        scenario.plant("w", model, step="1/8", parameters={"p": before})
        scenario.at("1/3", "w.p", 0.0)
        scenario.at("2/3", "w.p", after)
        fires = direction == after or (direction == 0 and before != after)
        assert len(crossed(ran(scenario, engine).recording)) == fires, (before, after)


# -- contacts --------------------------------------------------------------------------------------

BALLS, APART = 5, 0.1


def swings(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    for i in range(5):
        dx[i] = x[5 + i]
        dx[5 + i] = -9.81 * math.sin(x[i] - p[i])


def gaps(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
    for i in range(4):
        g[i] = x[i + 1] - x[i] - 0.1


def swap(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
    x[5 + i], x[6 + i] = x[6 + i], x[5 + i]


def cradle(origin: float, raised: int = 1) -> Model:
    """Balls on strings of 1 m; the first of them are raised."""
    rest = [origin + APART * i for i in range(BALLS)]
    angles = tuple(at - (1.0 if i < raised else 0.0) for i, at in enumerate(rest))
    return Model(
        "cradle",
        Signals(Signal("q", shape=(BALLS,), initial=angles), Signal("v", shape=(BALLS,))),
        swings,
        parameters=Signals(Signal("rest", shape=(BALLS,), initial=tuple(rest))),
        guards=tuple(Guard(f"gap{i}", -1) for i in range(BALLS - 1)),
        guard=gaps, reset=swap,
    )  # fmt: skip


def hung(model: Model, solver: str | Solver, until: Duration = "2.8") -> Scenario:
    out = Scenario("cradle", until=until)
    out.plant("w", model, step="1/50", solver=solver)
    return out


@pytest.mark.rule("one-instant")
@pytest.mark.parametrize("origin", [0.0, 0.3, -0.2])
@pytest.mark.parametrize("solver", ["rk4", "dp54"])
def test_a_cradle_of_five_balls_passes_its_momentum_on_at_one_tag(
    solver: str, origin: float
) -> None:
    """Rounding leaves some of the gaps 3e-17 m wide, and closes others by as much."""
    recording, outcome = flown(hung(cradle(origin), solver))
    blows = [
        [(step, name) for _, step, name in blow]
        for _, blow in groupby(crossed(recording), key=lambda event: event[0])
    ]
    there = [(i, f"gap{i}") for i in range(4)]
    back = [(i, f"gap{3 - i}") for i in range(4)]
    assert [blow for blow in blows if len(blow) > 1] == [there, back, there]
    x = outcome.system.plants[0].x
    assert np.abs(x[5:9]).max() < 1e-5
    assert x[9] > 1.0


@pytest.mark.rule("one-instant")
@ON_AND_OFF
def test_two_balls_that_strike_send_two_away(compile: bool) -> None:
    """They fall apart by 1 mm, strike one after the other, and leave so."""
    model = cradle(0.0, raised=2)
    scenario = hung(model, "rk4", until="0.54")
    scenario.set("w.q", [-1.001, -0.9, 0.2, 0.3, 0.4])
    recording, outcome = flown(scenario, compile=compile)
    times = sorted({ns for ns, _, _ in crossed(recording)})
    assert len(crossed(recording)) == 6
    assert len(times) == 2
    v = outcome.system.plants[0].x[5:]
    assert np.abs(v[:3]).max() < 2e-3
    assert v[3:].min() > 1.0


def flies(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    n = x.size // 2
    for i in range(n):
        dx[i] = x[n + i]
        dx[n + i] = 0.0


def spaces(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
    for i in range(g.size):
        g[i] = x[i + 1] - x[i]


def strike(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
    n = x.size // 2
    x[n + i], x[n + i + 1] = x[n + i + 1], x[n + i]


@pytest.mark.rule("one-instant")
def test_many_blows_on_one_contact_at_one_instant_are_no_zeno() -> None:
    """Six balls that touch strike six that touch: the contact between them has six blows."""
    n = 12
    model = Model(
        "row",
        Signals(Signal("x", shape=(n,), initial=(-1.0,) * 6 + (0.0,) * 6),
                Signal("v", shape=(n,), initial=(1.0,) * 6 + (0.0,) * 6)),
        flies, guards=tuple(Guard(f"g{i}", -1) for i in range(n - 1)), guard=spaces, reset=strike,
    )  # fmt: skip
    scenario = Scenario("row", until=2)
    scenario.plant("w", model, step="1/8")
    recording, outcome = flown(scenario)
    assert len({ns for ns, _, _ in crossed(recording)}) == 1
    assert sum(name == "g5" for _, _, name in crossed(recording)) == 6
    assert outcome.system.plants[0].x[n:].tolist() == [0.0] * 6 + [1.0] * 6


def counts(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
    n = x.size // 2
    x[n + i], x[n + i + 1] = x[n + i + 1], x[n + i]
    z[i] += 1.0


@pytest.mark.rule("one-instant")
@pytest.mark.parametrize("gap", [0.0, 1e-16, -1e-16, 3e-10])
def test_a_contact_that_is_nearly_closed_fires_once(gap: float) -> None:
    model = Model(
        "three",
        Signals(Signal("x", shape=(3,), initial=(-1.0, 0.0, 0.0)),
                Signal("v", shape=(3,), initial=(1.0, 0.0, 0.0))),
        flies, discrete=Signals("n0", "n1"), guards=(Guard("g0", -1), Guard("g1", -1)),
        guard=spaces, reset=counts,
    )  # fmt: skip
    scenario = Scenario("three", until=2)
    scenario.plant("w", model, step="1/8")
    scenario.set("w.x", [-1.0, 0.0, gap])
    recording, outcome = flown(scenario)
    (at, _, first), (then, _, second) = crossed(recording)
    assert (first, second, then) == ("g0", "g1", at)
    assert outcome.system.plants[0].x[3:].tolist() == [0.0, 0.0, 1.0]


@pytest.mark.rule("one-instant")
def test_a_contact_that_is_open_fires_when_it_closes() -> None:
    model = Model(
        "three", Signals(Signal("x", shape=(3,)), Signal("v", shape=(3,))), flies,
        guards=(Guard("g0", -1), Guard("g1", -1)), guard=spaces, reset=strike,
    )  # fmt: skip
    scenario = Scenario("three", until=2)
    scenario.plant("w", model, step="1/8")
    scenario.set("w.x", [-1.0, 0.0, 5e-9])
    scenario.set("w.v", [1.0, 0.0, 0.0])
    (_, _, first), (ns, _, second) = crossed(flown(scenario)[0])
    assert (first, second) == ("g0", "g1")
    assert 10**9 + 5 <= ns <= 10**9 + 6


SPEEDS = [
    (2.0, 1.0, 0.0), (3.0, 1.0, 0.0), (1.0, 0.0, -1.0), (3.0, 2.0, 1.0, 0.0),
    (4.0, 1.5, 0.5, -2.0), (1.0, 0.9, 0.8, 0.7, 0.6),
]  # fmt: skip


@pytest.mark.rule("one-instant")
@ON_AND_OFF
@pytest.mark.parametrize("meet", [1.0, 1 / 3, 0.7])
@pytest.mark.parametrize("speeds", SPEEDS)
def test_balls_that_meet_at_one_point_all_collide(
    speeds: tuple[float, ...], meet: float, compile: bool
) -> None:
    """Several contacts close within one ns, and a blow on one contact closes its neighbour again.

    Balls of equal mass leave in the order of their speeds, after one blow for each pair.
    """
    n = len(speeds)
    model = Model(
        "meeting", Signals(Signal("x", shape=(n,)), Signal("v", shape=(n,), initial=speeds)),
        flies, guards=tuple(Guard(f"g{i}", -1) for i in range(n - 1)), guard=spaces, reset=strike,
    )  # fmt: skip
    scenario = Scenario("meeting", until=2)
    scenario.plant("w", model, step="1/8", states={"x": tuple(-v * meet for v in speeds)})
    recording, outcome = flown(scenario, compile=compile)
    assert outcome.system.plants[0].x[n:].tolist() == sorted(speeds)
    assert len(crossed(recording)) == n * (n - 1) // 2


def slides_on(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = x[1]
    dx[1] = 0.0


def opens(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
    g[0] = x[0] + p[0]
    g[1] = -1.0


def hurries(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
    x[1] = 5.0


@pytest.mark.rule("one-instant")
@pytest.mark.parametrize("before", [-1.0, 0.0])
@pytest.mark.parametrize("after", [1e-12, 1e-9, 1e-6])
def test_a_guard_whose_own_reset_moves_it_on_fires_once(before: float, after: float) -> None:
    model = Model(
        "gate", Signals("x", "v"), slides_on, parameters=Signals("told"), guard=opens,
        guards=(Guard("opens", +1), Guard("never", +1)), reset=hurries,
    )  # fmt: skip
    scenario = Scenario("gate", until=1)
    scenario.plant("w", model, step="1/8", parameters={"told": before})
    scenario.at("1/4", "w.told", after)
    assert [name for _, _, name in crossed(flown(scenario)[0])] == ["opens"]
