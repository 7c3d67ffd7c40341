"""The guards of one plant without a run around them: what fires, in which order, how often."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from rtsim.components.plant import RunningPlant
from rtsim.core.errors import ModelError, ZenoError
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.equations.model import Guard, Model
from rtsim.runs.simulation import simulate
from rtsim.scenario.scenario import Scenario
from rtsim.solve.guard_table import LEFT_AT, SIDE_BEFORE, SIGN
from rtsim.solve.guard_watch import ZENO_IN_A_ROW, ZENO_NS, GuardWatch, Motion, moving

MS = 1_000_000


def clock(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = 1.0


def zero(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
    for i in range(g.size):
        g[i] = x[0]


def count(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
    z[i] += 1.0


def rest(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
    z[i] += 100.0


def guarded(
    *guards: Guard, reset: Any = count, stop: Any = None, guard: Any = zero, x: float = -0.025
) -> RunningPlant:
    """``x`` moves by 1 a second, in steps of 10 ms; each guard counts in ``z``."""
    model = Model(
        "watched", Signals("x"), clock, discrete=Signals(*(f"n{i}" for i in range(len(guards)))),
        guards=guards, guard=guard, reset=reset, stop=stop,
    )  # fmt: skip
    scenario = Scenario("s", until=1)
    scenario.plant("w", model, step="0.01", states={"x": x})
    (out,) = scenario.build(compile=False).plants
    assert out.watch is not None
    out.watch.begin()
    return out


def watch_of(plant: RunningPlant) -> GuardWatch:
    assert plant.watch is not None
    return plant.watch


def fire(plant: RunningPlant, *times: int, which: Sequence[int] = (0,)) -> list[str]:
    """What happened as these guards fired at these ns."""
    kinds = []
    for ns in times:
        watch_of(plant).fired = tuple(which)
        happened = watch_of(plant).fire(ns, plant.x, plant.z, plant.u, plant.p)
        kinds += [kind for kind, *_ in happened]
    return kinds


# -- crossings that accumulate


def test_five_crossings_less_than_100_ns_apart_and_ever_closer_accumulate() -> None:
    assert (ZENO_NS, ZENO_IN_A_ROW) == (100, 4)
    plant = guarded(Guard("g"), stop=rest)
    assert fire(plant, 0, 99, 198, 297, 396) == ["Crossed"] * 4 + ["Stopped"]
    assert plant.z[0] == 104.0
    assert watch_of(plant).save()["times"] == [[]], "it begins anew"
    assert watch_of(plant).save()["stopped"] == [396]


@pytest.mark.parametrize(
    "times",
    [
        (0, 100, 199, 298, 397),  # the first gap is too long
        (0, 50, 110, 120, 130),  # the gaps grow
        (0, 50, 90, 120, 151),
        (0, 10, 20, 30),
    ],
)
def test_others_do_not(times: tuple[int, ...]) -> None:
    plant = guarded(Guard("g"), stop=rest)
    assert set(fire(plant, *times)) == {"Crossed"}


def test_only_the_latest_crossings_count() -> None:
    plant = guarded(Guard("g"), stop=rest)
    found = fire(plant, 0, 1000, 1050, 1090, 1120, 1140)
    assert found == ["Crossed"] * 5 + ["Stopped"]


def test_each_guard_accumulates_by_itself() -> None:
    plant = guarded(Guard("a"), Guard("b"), stop=rest)
    for ns in (0, 10, 20, 30):
        fire(plant, ns, which=(0,))
        fire(plant, ns + 5, which=(1,))
    assert fire(plant, 40, which=(0,)) == ["Stopped"]
    assert fire(plant, 1045, which=(1,)) == ["Crossed"]
    assert plant.z.tolist() == [104.0, 5.0]


def test_without_a_stop_mode_it_is_an_error() -> None:
    with pytest.raises(ZenoError, match=r"guard g of w \(model watched\) crosses zero ever faster"):
        fire(guarded(Guard("g")), 0, 10, 20, 30, 40)


@pytest.mark.parametrize(("again", "error"), [(139, True), (140, False)])
def test_after_a_stop_it_may_not_accumulate_at_once(again: int, error: bool) -> None:
    plant = guarded(Guard("g"), stop=rest)
    assert fire(plant, 0, 10, 20, 30, 40)[-1] == "Stopped"
    times = [again + 10 * k for k in range(5)]
    if error:
        with pytest.raises(ZenoError, match="although its stop mode was applied"):
            fire(plant, *times)
    else:
        assert fire(plant, *times)[-1] == "Stopped"


# -- what fires


def test_guards_that_fire_at_once_do_so_in_their_order() -> None:
    plant = guarded(Guard("a"), Guard("b"), Guard("c", terminal=True))
    watch = watch_of(plant)
    watch.fired = (0, 2)
    assert watch.terminal is not None
    assert watch.terminal.name == "c"
    happened = watch.fire(5, plant.x, plant.z, plant.u, plant.p)
    assert happened == [("Crossed", "a", "", {}), ("Crossed", "c", "", {})]
    assert plant.z.tolist() == [1.0, 0.0, 1.0]
    assert not watch_of(plant).fired
    assert not watch_of(plant).terminal
    watch.fired = (0, 1)
    assert watch.terminal is None


@pytest.mark.parametrize(
    ("direction", "way", "fires"), [(0, 1, True), (1, 1, True), (-1, 1, False), (1, -1, False),
                                    (0, -1, True), (-1, -1, True)],
)  # fmt: skip
def test_writes_that_take_a_guard_across_zero_set_it_off(
    direction: int, way: int, fires: bool
) -> None:
    plant = guarded(Guard("a", direction=direction), x=-0.5 * way)
    plant.x[0] = 0.5 * way
    plant.changed()
    assert watch_of(plant).fired == ((0,) if fires else ())
    plant.changed()
    assert watch_of(plant).fired == ((0,) if fires else ()), "once"


def test_a_write_to_zero_or_on_the_same_side_crosses_nothing() -> None:
    plant = guarded(Guard("a"))
    for value in (-0.1, 0.0):
        plant.x[0] = value
        plant.changed()
        assert watch_of(plant).fired == ()


def test_a_write_sets_off_what_had_not_fired_beside_what_had() -> None:
    plant = guarded(Guard("a"), Guard("b"))
    watch_of(plant).fired = (1,)
    plant.x[0] = 0.5
    plant.changed()
    assert watch_of(plant).fired == (0, 1)


def test_a_step_ends_where_a_guard_has_crossed() -> None:
    plant = guarded(Guard("a"))
    ends = []
    while not plant.fires:
        plant.propagate(10**12)
        ends.append(plant.target_ns)
        plant.commit()
    assert ends[:2] == [10 * MS, 20 * MS]
    assert 25 * MS <= ends[2] <= 25 * MS + 1
    assert plant.ns == ends[2]
    fire(plant, plant.ns)
    plant.changed()
    assert watch_of(plant).fired == ()
    plant.propagate(10**12)
    assert plant.target_ns == 30 * MS


def test_a_step_that_is_discarded_sets_nothing_off() -> None:
    plant = guarded(Guard("a"), x=-0.005)
    plant.propagate(10**12)
    assert watch_of(plant).fired == (0,)
    plant.discard()
    assert watch_of(plant).fired == ()


def test_a_reset_that_is_no_number_is_told() -> None:
    def breaks(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
        z[1] = math.inf

    plant = guarded(Guard("a"), Guard("b"), reset=breaks)
    with pytest.raises(
        ModelError,
        match=r"reset of w \(model watched\) set n1 to a value that is not finite at 0\.0",
    ):
        fire(plant, 7)

    def states(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
        x[0] = math.nan

    with pytest.raises(
        ModelError, match=r"set x to a value that is not finite at 0\.000000007 s, when a crossed"
    ):
        fire(guarded(Guard("a"), reset=states), 7)


def test_what_is_saved_is_restored_with_its_times() -> None:
    plant, other = (guarded(Guard("a"), stop=rest) for _ in range(2))
    fire(plant, 0, 10, 20, 30)
    saved = watch_of(plant).save()
    assert saved["times"] == [[0, 10, 20, 30]]
    watch_of(other).fired = (0,)
    watch_of(other).restore(saved, 30)
    assert watch_of(other).fired == ()
    assert watch_of(other).save() == saved
    assert fire(other, 40) == ["Stopped"]
    older = {key: value for key, value in saved.items() if key in ("times", "came_to")}
    watch_of(other).restore(older, 30)
    assert watch_of(other).save()["stopped"] == [40], "an earlier checkpoint does not say"
    assert not np.any(watch_of(other).save()["left_at"])


def test_one_that_was_never_stopped_may_stop_from_the_start_on() -> None:
    plant = guarded(Guard("a"), stop=rest)
    assert watch_of(plant).save()["stopped"] == [-ZENO_NS]
    assert fire(plant, 0, 1, 2, 3, 4)[-1] == "Stopped"


# -- where a reset left it


def bent(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:
    g[0] = x[0] * z[0] + u[0]
    g[1] = p[0] * x[0] + t


def slope(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = 4.0 * p[0] + u[0]
    dx[1] = 1.0


@pytest.mark.parametrize("compile", [False, True])
def test_guards_and_how_far_they_move_in_a_microsecond(compile: bool) -> None:
    model = Model(
        "bent", Signals("x", "other"), slope, discrete=Signals("z"),
        inputs=Signals(Signal("u", optional=True)), parameters=Signals("p"),
        guards=(Guard("a"), Guard("b")), guard=bent, reset=count,
    )  # fmt: skip
    scenario = Scenario("s", until=1)
    scenario.plant("w", model, step="0.01", parameters={"p": 3.0})
    (plant,) = scenario.build(compile=compile).plants
    x, z, u, p = (np.array(v) for v in ([2.0, 0.0], [5.0], [7.0], [3.0]))
    into = np.zeros((2, 2))
    moving(plant.bound, (x, z, u, p), into)(11.0)
    assert into[0].tolist() == [17.0, 17.0]
    speed = 4.0 * 3.0 + 7.0
    assert into[1] == pytest.approx([1e-6 * speed * 5.0, 1e-6 * (3.0 * speed + 1.0)], rel=1e-6)
    assert (x[0], z[0], u[0], p[0]) == (2.0, 5.0, 7.0, 3.0), "they stay where they are"


def test_what_happened_names_the_modes_before_and_after() -> None:
    def switches(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
        z[2] += i

    model = Model(
        "moded", Signals("x"), clock, discrete=Signals("n0", "n1", "mode"),
        guards=(Guard("stays"), Guard("goes")), guard=zero, reset=switches, modes=("low", "high"),
    )  # fmt: skip
    scenario = Scenario("s", until=1)
    scenario.plant("w", model, step="0.01", states={"x": -0.5})
    (plant,) = scenario.build(compile=False).plants
    watch = watch_of(plant)
    plant.z[1] = 1.0
    told = []
    for ns in (1, 2):
        watch.fired = (0, 1)
        told += watch.fire(ns, plant.x, plant.z, plant.u, plant.p)
    assert told == [
        ("Crossed", "stays", "", {}), ("Crossed", "goes", "low -> high", {}),
        ("Crossed", "stays", "", {}), ("Crossed", "goes", "high -> ", {}),
    ]  # fmt: skip


def test_one_left_beyond_zero_is_forgotten_where_it_was_put_elsewhere() -> None:
    places = [0.5, 1.0, 1.5, -0.5, 0.0]
    watch = watch_of(guarded(*(Guard(f"g{i}") for i in range(len(places)))))
    for side in (1.0, -1.0):
        watch._here[LEFT_AT] = left = [side] * len(places)
        watch._g[:] = np.array(places) * side
        watch._forget(left)
        assert watch._here[LEFT_AT].tolist() == [side, side, 0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("came", "turned", "at", "left"),
    [
        (0.3, (1.0, -1.0), 0.2, 0.2),  # as near as it came: the ns alone took it there
        (0.3, (1.0, -1.0), 0.3, 0.3),
        (0.3, (1.0, 0.0), 0.2, 0.2),  # it stands
        (0.3, (1.0, -1.0), 0.4, 0.0),  # it was put beyond
        (0.3, (1.0, 1.0), 0.2, 0.0),  # it goes on
        (0.3, (0.0, -1.0), 0.2, 0.0),  # it did not move before
    ],
)
def test_where_a_reset_left_what_it_turned_back(
    came: float, turned: tuple[float, float], at: float, left: float
) -> None:
    watch = watch_of(guarded(Guard("a"), Guard("b")))
    watch._crossed = {1: 1.0}
    motions = [Motion(came, turned[0], at, turned[1])] * 2
    watch._turned_back(0, [1.0, 1.0], motions)
    assert watch._here[LEFT_AT].tolist() == [0.0, left]
    watch._here[LEFT_AT] = 0.0
    for sides in ([1.0, 0.0], [1.0, -1.0]):
        watch._turned_back(0, sides, motions)
        assert watch._here[LEFT_AT].tolist() == [0.0, 0.0], "it is not beyond zero"


def test_how_far_a_reset_left_it_is_measured_from_where_it_had_been_left() -> None:
    watch = watch_of(guarded(Guard("a")))
    watch._crossed, watch._levels = {0: 1.0}, [0.125]
    for at, left in ((0.375, 0.375), (0.376, 0.0), (-0.125, -0.125), (-0.126, 0.0)):
        watch._here[LEFT_AT] = 0.0
        watch._turned_back(0, [1.0], [Motion(0.375, 1.0, at, -1.0)])
        assert watch._here[LEFT_AT].tolist() == [left], at


def ramp(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
    g[0] = t


def test_a_guard_on_time_that_is_zero_at_the_start_has_no_sign_yet() -> None:
    watch = watch_of(guarded(Guard("a", direction=1), guard=ramp))
    assert watch._here[SIGN].tolist() == [0.0]
    assert watch._here[SIDE_BEFORE].tolist() == [0.0]


@pytest.mark.parametrize("came_to", [0.0, 1.0, -1.0])
def test_a_restored_guard_has_its_sign_unless_it_came_to_zero(came_to: float) -> None:
    plant, other = guarded(Guard("a")), guarded(Guard("a"))
    saved = {**watch_of(plant).save(), "came_to": [came_to]}
    watch_of(other).restore(saved, 0)
    assert watch_of(other)._here[SIGN].tolist() == [0.0 if came_to else -1.0]


@pytest.mark.parametrize(
    ("direction", "motion", "side_before", "left_at", "fires"),
    [
        (1, Motion(-1.0, -1.0, 0.0, 1.0), 0.0, 0.0, True),  # set in motion at zero
        (1, Motion(-1.0, 1.0, 0.0, 1.0), 0.0, 0.0, False),  # it moved so before
        (-1, Motion(-1.0, -1.0, 0.0, 1.0), 0.0, 0.0, False),  # the other direction
        (1, Motion(-1.0, -1.0, 0.5, 1.0), 0.0, 0.0, False),  # not at zero
        (1, Motion(-1.0, -1.0, 0.5, 1.0), 0.0, 0.5, True),  # where a reset left it
        (1, Motion(-1.0, -1.0, 0.0, 0.0), 0.0, 0.0, False),  # it stands
        (0, Motion(-1.0, -1.0, 0.0, 1.0), -1.0, 0.0, True),
        (0, Motion(-1.0, -1.0, 0.0, 1.0), 1.0, 0.0, False),
    ],
)
def test_a_guard_that_a_reset_sets_in_motion_at_zero_fires_once(
    direction: int, motion: Motion, side_before: float, left_at: float, fires: bool
) -> None:
    watch = watch_of(guarded(Guard("a", direction=direction)))
    watch._own.clear()
    watch._here[SIDE_BEFORE], watch._here[LEFT_AT] = side_before, left_at
    assert watch._arrives(0, [motion]) is fires


@pytest.mark.parametrize("what", ["reset", "stop"])
def test_a_bad_index_of_an_event_function_is_found_at_its_first_call(what: str) -> None:
    def rises(t: float, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
        dx[0] = 1.0

    def level(t: float, x: Any, z: Any, u: Any, p: Any, g: Any) -> None:  # noqa: ARG001
        g[0] = x[0] - 0.25

    def wrong(i: int, t: float, x: Any, z: Any, u: Any, p: Any) -> None:  # noqa: ARG001
        x[0 if i < 0 else 7] = 0.0

    def back(i: int, t: float, x: Any, z: Any, u: Any, p: Any) -> None:  # noqa: ARG001
        x[0] = 0.25 - 1e-9

    events = {"reset": wrong} if what == "reset" else {"reset": back, "stop": wrong}
    model = Model("m", Signals("x"), rises, guards=(Guard("up", 1),), guard=level, **events)  # type: ignore[arg-type]
    scenario = Scenario("s", until=1)
    scenario.plant("m", model, step=0.1)
    with pytest.raises(ModelError, match=rf"{what} of model m|index"):
        simulate(scenario)
