"""Timers of a model: instants of its own, and draws that do not depend on anything else."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from engine_parts import check_equal
from semantics_parts import MS

from rtsim.core.errors import ModelError
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.core.tag import Period
from rtsim.engine.checkpoint.file import Ring
from rtsim.engine.checkpoint.schedule import CheckpointSchedule
from rtsim.equations.model import Model, Timer
from rtsim.record.comparison import compare
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.replay import rerun
from rtsim.runs.simulation import simulate
from rtsim.scenario.scenario import Scenario


def falls(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = 1.0 + z[2]


def note(due: Vector, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
    """z: binary of the timers that ticked together, calls so far, a draw."""
    z[0] = due[0] + 2.0 * due[1] + 4.0 * due[2]
    z[1] += 1.0
    if due[2] != 0.0:
        x[0] = 0.0


TIMERS = (
    Timer(Period.of("1/100"), 0, ("drawn",)),
    Timer(Period.of("3/200"), 5 * MS),
    Timer(None, 20 * MS),
)
MODEL = Model(
    "timed", Signals("x"), falls, discrete=Signals("who", "calls", "drawn"),
    timers=TIMERS, tick=note,
)  # fmt: skip


def flown(until: float = 0.06, seed: int = 0, step: str = "1/300", **how: object) -> Recording:
    scenario = Scenario("timed", until=until)
    scenario.plant("plant", MODEL, step=step)
    recorder = MemoryRecorder()
    simulate(scenario, seed=seed, recorder=recorder, compile=False, **how)  # type: ignore[arg-type]
    return recorder.recording()


def after(recording: Recording, ms: int) -> dict[str, float]:
    return recording.at(Fraction(ms, 1000), "+")


@pytest.mark.rule("timers")
def test_timers_tick_exactly_and_together_in_one_call() -> None:
    recording = flown()
    ticks = {0: 1, 5: 2, 10: 1, 20: 1 + 2 + 4, 30: 1, 35: 2, 40: 1, 50: 1 + 2, 60: 1}
    for calls, (ms, who) in enumerate(ticks.items(), 1):
        found = after(recording, ms)
        assert (found["plant.who"], found["plant.calls"]) == (who, calls), ms


def test_a_tick_sees_x_minus_and_makes_x_plus() -> None:
    recording = flown()
    before, behind = recording.at("1/50", "-"), recording.at("1/50", "+")
    assert before["plant.x"] != 0.0
    assert behind["plant.x"] == 0.0
    assert before["plant.calls"] + 1 == behind["plant.calls"]


def test_draws_are_those_of_a_stream_of_their_own() -> None:
    def draws(recording: Recording) -> list[float]:
        return [after(recording, ms)["plant.drawn"] for ms in (0, 10, 20, 30, 40, 50)]

    first = draws(flown())
    assert len(set(first)) == 6
    assert draws(flown(step="1/77")) == first, "steps are cut otherwise"
    assert draws(flown(seed=1)) != first


def test_draws_are_standard_normal() -> None:
    scenario = Scenario("many", until=200)
    scenario.plant("plant", MODEL, step=1)
    recorder = MemoryRecorder()
    simulate(scenario, recorder=recorder, compile=False, until=20)
    drawn = np.unique(recorder.recording()["plant.drawn"])
    assert abs(drawn.mean()) < 4 / len(drawn) ** 0.5
    assert abs(drawn.var() - 1.0) < 4 * (2 / len(drawn)) ** 0.5


def test_compiled_is_the_same_as_plain() -> None:
    scenario = Scenario("timed", until=0.06)
    scenario.plant("plant", MODEL, step="1/300")
    recorder = MemoryRecorder()
    simulate(scenario, recorder=recorder)
    assert compare(recorder.recording(), flown()).ok


def test_a_run_goes_on_from_a_checkpoint_as_if_nothing_was() -> None:
    ring = Ring(3)
    whole = flown(checkpoints=CheckpointSchedule(ring, every="1/70"))
    assert len(ring) > 2
    for ms in (20, 35, 50):
        kept = ring.before(ms * MS)
        assert kept is not None
        rest = flown(start=kept).track("plant").rows
        assert np.array_equal(rest.floats, whole.track("plant").rows.floats[-len(rest.floats) :])


def test_a_replay_draws_the_same() -> None:
    scenario = Scenario("timed", until=0.06)
    scenario.plant("plant", MODEL, step="1/300")
    recorder = MemoryRecorder()
    simulate(scenario, seed=3, recorder=recorder)
    original = recorder.recording()
    assert compare(original, rerun(original, scenario)).ok


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ({"timers": TIMERS}, "has timers= but no tick=; give both, or neither"),
        ({"tick": note}, "has tick= but no timers=; give both, or neither"),
        (
            {"timers": (Timer(None, 0, ("y",)),), "tick": note},
            "draws random values of y, which is not a discrete signal",
        ),
    ],
)
def test_what_does_not_fit_is_refused(what: dict[str, object], words: str) -> None:
    with pytest.raises(ModelError, match=words):
        Model("timed", Signals("x"), falls, **what)  # type: ignore[arg-type]


def test_a_tick_that_breaks_a_value_is_named() -> None:
    def breaks(due: Vector, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
        z[1] = np.nan

    model = Model(
        "timed", Signals("x"), falls, discrete=Signals("who", "calls", "drawn"),
        timers=(Timer(None, 20 * MS),), tick=breaks,
    )  # fmt: skip
    scenario = Scenario("timed", until=1)
    scenario.plant("plant", model, step=1)
    with pytest.raises(ModelError, match=r"tick of plant .* made calls not finite at 0.02"):
        simulate(scenario, compile=False)


def rolls(due: Vector, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
    z[0] += z[1] - 0.5 * z[2]


def dice(*timers: Timer) -> Scenario:
    model = Model(
        name="dice",
        states=Signals("x"),
        derivative=falls,
        discrete=Signals("sum", Signal("drawn", shape=(2,)), "other"),
        timers=timers,
        tick=rolls,
    )
    out = Scenario("dice", until=3)
    out.plant("plant", model, step="1/70")
    out.noise("gust", Signals("w"), deviation=1.0, period="1/30")
    return out


EVERY = Period.of("1/50")


def test_the_compiled_engine_draws_for_one_timer() -> None:
    one = Timer(EVERY, 1000, draws=("drawn",))
    assert check_equal(lambda: dice(one)) > 300
    assert simulate(dice(one), engine="compiled").certificate.engine.startswith("compiled")


@pytest.mark.parametrize(
    "timers",
    [
        (Timer(EVERY, draws=("drawn", "other")),),
        (Timer(EVERY, draws=("drawn",)), Timer(Period.of("1/20"))),
    ],
)
def test_several_timers_or_drawn_signals_stay_with_the_interpreter(
    timers: tuple[Timer, ...],
) -> None:
    check_equal(lambda: dice(*timers))
    engine = simulate(dice(*timers)).certificate.engine
    assert "plant.timers draws random numbers for several timers or signals" in engine


def test_compiled_draws_go_on_from_a_checkpoint() -> None:
    scenario, ring = dice(Timer(EVERY, draws=("drawn",))), Ring(5)

    def run(**options: Any) -> Recording:
        recorder = MemoryRecorder()
        simulate(scenario, seed=2, recorder=recorder, **options)
        return recorder.recording()

    whole = run(checkpoints=CheckpointSchedule(ring, every="1/7"))
    for ms in (2500, 2900):
        kept = ring.before(ms * MS)
        assert kept is not None
        rest = run(start=kept).track("plant").rows
        assert np.array_equal(rest.floats, whole.track("plant").rows.floats[-len(rest.floats) :])
