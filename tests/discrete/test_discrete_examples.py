"""Fox and rabbit, Game of Life, furnaces: against what is known of them.

Processes cannot be saved: they are run again, and come to what they were.
"""

from __future__ import annotations

import math
import random
from collections.abc import Generator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from semantics_parts import INTEGRATOR, law_of

from rtsim.core.errors import CheckpointError, ScenarioError, UnknownName
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.core.tag import Tag
from rtsim.discrete import Agenda, Processes, population
from rtsim.discrete.task import Stimuli
from rtsim.engine.checkpoint.file import Checkpoint, Files, Ring
from rtsim.engine.checkpoint.schedule import CheckpointSchedule
from rtsim.models.ball import BALL
from rtsim.models.chase import GAP
from rtsim.models.chase import scenario as chase
from rtsim.models.job_shop import heating
from rtsim.models.job_shop import scenario as job_shop
from rtsim.models.life import life, placed
from rtsim.models.life import scenario as life_scenario
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.simulation import simulate
from rtsim.scenario.scenario import Scenario
from rtsim.testing.determinism import trace_of

Cells = NDArray[np.float64]


# -- fox and rabbit ----------------------------------------------------------------------------


def test_a_fox_that_sees_the_rabbit_as_it_was_bites_when_it_has_to() -> None:
    recording = trace_of(chase())
    gap, bitten = recording.messages["judge"]["gap"], recording.messages["judge"]["bitten"]
    closing = (6.0 - 5.0) * 0.1
    caught = math.ceil((GAP - 0.3) / closing)
    assert gap[:caught] == pytest.approx(GAP - closing * np.arange(1, caught + 1))
    assert int(np.argmax(bitten)) == caught - 1, "the first tick, at 0 s, is the first move"
    assert bitten[-1] == 1.0


@pytest.mark.parametrize("fox", [6.0, 9.0, 14.0])
def test_a_rabbit_that_sees_the_fox_of_the_same_tick_is_never_bitten(fox: float) -> None:
    recording = trace_of(chase(acausal=True, fox=fox, until=60))
    assert recording.messages["judge"]["gap"].min() >= 5.0 * 0.1 - 1e-9
    assert recording.messages["judge"]["bitten"].max() == 0.0
    assert "acausal" in recording.header["scenario"]["limits"][0]


# -- life --------------------------------------------------------------------------------------


def generations(
    pattern: str, side: int, count: int, in_turn: bool = False, at: int = 1
) -> list[Cells]:
    """(side, side) each: the start, and after each of ``count`` updates."""
    out = Scenario("life", until=count)
    start = placed(pattern, side, at, at).ravel()
    out.plant(
        "life", life(side, in_turn), step=1, update_period=1, update_offset=1,
        discrete={"alive": start},
    )  # fmt: skip
    rows = trace_of(out).track("life")
    last = {int(ns): k for k, ns in enumerate(rows.rows.ns)}  # x+ where there is one
    assert list(last) == [k * 10**9 for k in range(count + 1)]
    return [rows.column("alive")[k].reshape(side, side) for k in last.values()]


def test_a_blinker_has_period_two() -> None:
    states = generations("blinker", 6, 4)
    upright = np.zeros((6, 6))
    upright[0:3, 2] = 1.0
    assert np.array_equal(states[1], upright)
    assert all(np.array_equal(a, b) for a, b in zip(states, states[2:], strict=False))
    assert not np.array_equal(states[0], states[1])


def test_a_block_stays_and_a_toad_has_period_two() -> None:
    assert all(np.array_equal(s, placed("block", 6)) for s in generations("block", 6, 3))
    toad = generations("toad", 6, 2)
    assert np.array_equal(toad[0], toad[2])
    assert not np.array_equal(toad[0], toad[1])


def test_a_glider_goes_one_cell_down_and_right_in_four_generations() -> None:
    states = generations("glider", 9, 36)
    for k in range(33):
        assert np.array_equal(np.roll(states[k], (1, 1), (0, 1)), states[k + 4])
    assert np.array_equal(states[0], states[36]), "once around the torus"
    assert all(state.sum() == 5 for state in states)


def test_the_r_pentomino_is_that_of_a_whole_array_at_once() -> None:
    """The same rule on shifted arrays, which cannot see a cell of the next generation."""
    states = generations("r-pentomino", 16, 60, at=6)
    for before, after in pairwise(states):
        shifts = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)]
        near = sum(np.roll(before, shift, (0, 1)) for shift in shifts)
        assert np.array_equal(after, (near == 3) | ((before == 1) & (near == 2)))
    assert states[-1].sum() > 5


def test_cells_that_are_updated_in_turn_are_another_game() -> None:
    assert not np.array_equal(
        generations("blinker", 6, 2, in_turn=True)[2], generations("blinker", 6, 2)[2]
    )


def test_patterns_and_populations_that_are_none_are_refused() -> None:
    with pytest.raises(UnknownName, match="did you mean glider"):
        life_scenario("gliders")
    with pytest.raises(ScenarioError, match="at least 1"):
        population("none", 0, Signals("x"), life_rule)
    with pytest.raises(ScenarioError, match="one or more scalar signals"):
        population("none", 3, Signals(Signal("x", shape=(2,))), life_rule)


def life_rule(i: int, t: float, before: object, u: object, p: object, after: object) -> None:
    pass


# -- job shop ----------------------------------------------------------------------------------


def test_each_piece_takes_what_the_equation_says() -> None:
    """Tags are whole ns: loading and leaving are each within 1 ns of the exact instant."""
    recording = trace_of(job_shop(hours=24), seed=1)
    mass, heated = (recording.messages["finished"][k] for k in ("mass", "heating"))
    assert len(mass) > 50
    exact = np.array([heating(m) for m in mass])
    assert np.abs(heated - exact).max() < 50e-9
    assert {e.kind for e in recording.events} == {"Crossed"}
    done = [e for e in recording.events if e.source.endswith(".done")]
    assert len(done) == len(mass)


def test_furnaces_hold_one_piece_each_and_none_is_idle_while_one_waits() -> None:
    recording = trace_of(job_shop(furnaces=2, hours=24), seed=1)
    present, waiting = (recording.messages["shop"][k] for k in ("present", "waiting"))
    settled = waiting[present >= 0]
    assert settled.max() > 0, "there was a line"
    assert np.all((present - waiting <= 2) & (present - waiting >= 0))


Steps = Generator[Any, Any, None]
AT = ["0.31", "0.5", "0.777", "1.4"]


def rich(other: bool = False) -> Scenario:
    """Own events, drawn; messages at step 0 and later; crossings; inputs and a parameter change."""

    def setup(agenda: Agenda) -> None:
        total = [0.0]

        def own() -> Steps:
            while True:
                draw = random.random() if other else agenda.random("own").random()
                yield agenda.timeout(0.05 * draw)
                total[0] += agenda.read("u") * agenda.read("gain")
                agenda.write(y=total[0])

        def hearing() -> Steps:
            while True:
                got = yield agenda.inbox("law").get()
                total[0] += got["y"]
                yield agenda.timeout(0)
                agenda.send("totals", value=total[0])

        def bounced() -> Steps:
            while True:
                yield agenda.crossing("ball.floor")
                total[0] -= 1.0
                agenda.write(y=total[0])
                agenda.record("Heard", total=total[0])

        def regular() -> Steps:
            """At the tags at which the law's message comes, one microstep later."""
            while True:
                yield agenda.timeout(0.1)
                total[0] += 0.25
                agenda.write(y=total[0])

        for process in (own, hearing, bounced, regular):
            agenda.process(process())

    def law(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
        s[0] += u[0]
        y[0] = 0.001 * s[0]

    out = Scenario("rich", until=2)
    out.plant("x", INTEGRATOR, step=0.03, inputs={"u": "p.y"})
    out.plant("ball", BALL, step=0.1, states={"height": 0.05})
    out.controller("law", law_of(law), period=0.1, inputs={"u": "x.x"})
    processes = Processes(
        setup, inputs=Signals("u [1]"), outputs=Signals("y [1]"),
        parameters=Signals("gain = 1"), messages={"totals": Signals("value [1]")},
    )  # fmt: skip
    out.processes("p", processes, inputs={"u": "x.x"}, on=("law", "ball.floor"))
    out.at(0.6, "p.gain", -0.5)
    return out


def cut(folder: Path, other: bool = False) -> Recording:
    recorder = MemoryRecorder()
    taking = CheckpointSchedule(Files(folder / "run.mcap"), at=AT)
    simulate(rich(other), seed=5, recorder=recorder, checkpoints=taking)
    return recorder.recording()


def go_on(checkpoint: Checkpoint, other: bool = False) -> Recording:
    recorder = MemoryRecorder()
    simulate(rich(other), seed=77, recorder=recorder, start=checkpoint)
    return recorder.recording()


@pytest.mark.rule("processes-run-again")
def test_a_resumed_run_equals_the_whole_run_bit_for_bit(tmp_path: Path) -> None:
    whole = cut(tmp_path)
    checkpoints = [Checkpoint.open(path) for path in sorted(tmp_path.glob("*.checkpoint"))]
    assert len(checkpoints) == len(AT)
    assert {e.kind for e in whole.events} == {"Crossed", "Stopped", "Heard", "Change"}
    for checkpoint in checkpoints:
        rest = whole.since(checkpoint.rows, checkpoint.events)
        again = go_on(checkpoint)
        assert again.digest() == rest.digest()
        assert again.events == rest.events


def test_a_resumed_run_can_be_resumed_again(tmp_path: Path) -> None:
    whole = cut(tmp_path)
    first = Checkpoint.open(min(tmp_path.glob("*.checkpoint")))
    ring = Ring(100)
    simulate(rich(), seed=9, start=first, checkpoints=CheckpointSchedule(ring, at=["1.7"]))
    second = ring.before(2_000_000_000)
    assert second is not None
    assert go_on(second).digest() == whole.since(second.rows, second.events).digest()


@pytest.mark.rule("processes-run-again")
def test_a_process_with_random_numbers_of_its_own_cannot_be_resumed(tmp_path: Path) -> None:
    cut(tmp_path, other=True)
    checkpoint = Checkpoint.open(max(tmp_path.glob("*.checkpoint")))
    with pytest.raises(CheckpointError, match="their state differs from the saved state"):
        go_on(checkpoint, other=True)


@pytest.mark.parametrize("left_out", ["rows", "values"])
def test_a_state_that_is_not_whole_is_refused(left_out: str, tmp_path: Path) -> None:
    cut(tmp_path)
    checkpoint = Checkpoint.open(max(tmp_path.glob("*.checkpoint")))
    stimuli = checkpoint.state["tasks"]["p"]["stimuli"]
    stimuli[left_out] = stimuli[left_out][:-3]
    with pytest.raises(CheckpointError):
        go_on(checkpoint)


def test_more_than_there_is_room_for_is_not_gone_on_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rtsim.discrete.task.MOST_BYTES", 1000)
    cut(tmp_path)
    with pytest.raises(CheckpointError, match="cannot be restored: its inputs and messages before"):
        go_on(Checkpoint.open(max(tmp_path.glob("*.checkpoint"))))


def test_stimuli_come_back_in_their_order() -> None:
    stimuli = Stimuli(["a", "b.c"], {"a": 2}, 1)
    stimuli.sampled(Tag(3), np.array([7.0]))
    stimuli.heard(Tag(3, 1), "b.c", None)
    stimuli.heard(Tag(4), "a", np.array([1.0, 2.0]))
    back = Stimuli(["a", "b.c"], {"a": 2}, 1)
    back.restore(stimuli.save(), "p")
    assert [(tag, name, values.tolist()) for tag, name, values in back] == [
        (Tag(3), None, [7.0]), (Tag(3, 1), "b.c", []), (Tag(4), "a", [1.0, 2.0]),
    ]  # fmt: skip
