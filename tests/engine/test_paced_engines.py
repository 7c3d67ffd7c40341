"""A paced run on the compiled engine: on a scripted clock its timing equals the interpreter's.

A step that takes long pauses, and no bit changes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from engine_parts import PLANT
from engine_scenarios import GAIN, feedback, scenarios
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from lent_clock import Late, LentClock

from rtsim import PythonController, Scenario, Signals
from rtsim.core.errors import RtsimError
from rtsim.core.signals import Vector
from rtsim.engine.commands.commands import Command, Inbox, PendingCommand
from rtsim.engine.compiled.pace import unpaceable
from rtsim.engine.executive import Executive
from rtsim.equations.model import BoundModel, Guard, Model, bind
from rtsim.record import track as tracks
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.prepared import prepare
from rtsim.runs.request import Pace
from rtsim.runs.simulation import simulate
from rtsim.solve import GOOD, Adaptive, SciPy, internal_steps
from rtsim.solve.guarded import Guarded
from rtsim.timing.certificate import certify
from rtsim.timing.pacing import Pacer
from rtsim.timing.policy import CatchUp, Policy, Slip


class Outcome:
    """What a run on a :class:`LentClock` left."""

    def __init__(
        self, scenario: Scenario, engine: str, policy: Policy, late: Late, rate: float
    ) -> None:
        self.recorder, self.error = MemoryRecorder(), ""
        self.clock = LentClock(rate, late)
        kept, run = [], Executive.run

        def noted(executive: Executive, before_ns: int) -> None:
            kept.append(executive)
            run(executive, before_ns)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Executive, "run", noted)
            try:
                simulate(
                    scenario, recorder=self.recorder, engine=engine, clock=self.clock,
                    pace=Pace(rate, policy), **self.connections(),
                )  # fmt: skip
            except RtsimError as raised:
                self.error = f"{type(raised).__name__}: {raised}"
        self.pacer: Pacer = kept[0]._pacer
        self.certificate = certify(self.pacer)
        found = kept[0].compiled_engine
        self.tags = 0 if found is None else found.tags
        self.recording: Recording = self.recorder.recording()

    def connections(self) -> dict[str, Any]:
        return {}

    @property
    def timing(self) -> tuple[object, ...]:
        """Every figure of the frames; jobs of no length are left out."""
        c = self.certificate
        worst = [(f.tag_ns, f.late_ns, f.compute_ns) for f in c.worst]
        return c.frames, c.lateness, c.compute, c.margin, c.overruns, c.slipped_ns, worst


def check_equal(
    make: Callable[[], Scenario],
    policy: Policy,
    late: Late = (),
    rate: float = 1.0,
    kind: type[Outcome] = Outcome,
) -> Outcome:
    """Both engines give the same rows, events, timing and error; returns the compiled run."""
    compiled, interpreted = (
        kind(make(), engine, policy, late, rate) for engine in ("compiled", "interpreted")
    )
    assert compiled.error == interpreted.error
    assert compare_exact(interpreted.recording, compiled.recording) is None
    assert compiled.recording.events == interpreted.recording.events
    rows = [o.recorder.recording().track("timing") for o in (compiled, interpreted)]
    assert rows[0].ns.tolist() == rows[1].ns.tolist()
    for column in ("wake_lateness", "compute", "margin"):
        assert rows[0].integer(column).tolist() == rows[1].integer(column).tolist(), column
    assert compiled.timing == interpreted.timing
    assert interpreted.clock.sleeps == interpreted.tags == 0
    return compiled


QUICK = (Phase.explicit, Phase.reuse, Phase.generate)
"""Each case runs four seconds of simulated time; making a failing one smaller takes minutes."""
SLEEPS: list[int] = []
LATE = st.lists(
    st.sampled_from((0, 10, 999, 1000, 5_000, 300_000, 1_200_000, 9_000_000, 80_000_000)),
    max_size=400,
)
POLICIES = (CatchUp(), CatchUp(3), CatchUp(10_000), Slip())


@given(scenarios(), st.sampled_from(POLICIES), LATE, st.sampled_from((1.0, 0.7, 3.0)))
@settings(max_examples=settings().max_examples // 5, phases=QUICK)
def test_random_scenarios_have_equal_rows_and_timing(
    make: Callable[[], Scenario], policy: Policy, late: list[int], rate: float
) -> None:
    SLEEPS.append(check_equal(make, policy, tuple(late), rate).clock.sleeps)


def test_many_of_them_waited_in_compiled_code() -> None:
    if not SLEEPS:
        pytest.skip("needs the test before it")
    assert sum(s > 0 for s in SLEEPS) > len(SLEEPS) / 3


def loop(until: float = 2.0) -> Scenario:
    """A plant and its controller, both compiled: 200 steps and 100 ticks a second."""
    out = Scenario("loop", until=until)
    out.plant(
        "tank", PLANT, inputs={"first": "law.u", "second": 0.0}, step="1/200", update_period="1/100"
    )
    law = PythonController(
        feedback, Signals("m", "n"), Signals("u", "v"), parameters=GAIN, memory=Signals("sum"),
        compile=True,
    )  # fmt: skip
    out.controller("law", law, inputs={"m": "tank.a", "n": "tank.y"}, period="1/100")
    return out


def test_an_overrun_that_is_caught_up_does_not_leave_compiled_code() -> None:
    late = (0, 0, 21_000_000, 0, 600_000, 0, 0, 80_000_000)
    found = check_equal(loop, CatchUp(), late)
    kinds = [e.values["cause"] for e in found.recording.events if e.kind == "Overrun"]
    assert len(kinds) > 15
    assert set(kinds) == {"wake"}
    assert found.tags >= 398  # all but the first tick, which the interpreter checks, and the last


@pytest.mark.parametrize("rows", [16, 30, 64, 100])
def test_tracks_whose_buffers_fill_up_lose_no_row(
    rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python takes full buffers every 0.2 s: 40 rows or more of each track."""
    monkeypatch.setattr(tracks, "BLOCK_BYTES", rows * 8 * 8)  # 8 words: a plant's row
    check_equal(loop, CatchUp())


@pytest.mark.parametrize(("rate", "overran"), [(0.5, 0), (1.0, 0), (2.0, 1), (100.0, 1)])
def test_the_tolerance_of_a_rate_is_that_of_the_interpreter(rate: float, overran: int) -> None:
    """Frames of 5 ms of simulated time; one wake is late by 0.4 ms, which later frames inherit."""
    found = check_equal(loop, CatchUp(), (0, 0, 400_000), rate)
    assert found.certificate.tolerance_ns == round(500_000 / rate)
    assert (sum(found.certificate.overruns.values()) > 0) == bool(overran)
    assert found.clock.sleeps > 0


@pytest.mark.parametrize("rate", [3600.0, 0.333333, 1.23456789, 97.31, 1 / 3, 12345.678901234])
def test_compiled_code_waits_at_every_rate(rate: float) -> None:
    found = check_equal(loop, CatchUp(10**6), (0, 0, 400_000), rate)
    assert found.clock.sleeps > 0
    assert found.tags >= 398


def test_a_rate_with_too_many_digits_says_so() -> None:
    pacer = Pacer(LentClock(1.2345678901234567e-06))
    assert unpaceable(pacer, 1).endswith("of more than 18 digits; give a rate with fewer digits")


def test_after_a_change_of_rate_compiled_code_uses_the_new_tolerance() -> None:
    command: Given = (200, ("rate", {"rate": 20.0}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Commanded, "given", (command,))
        found = check_equal(loop, CatchUp(10_000), (*[100_000] * 60, *[0] * 999), 1.0, Commanded)
    assert found.certificate.tolerance_ns == 25_000
    assert found.certificate.overruns["wake"] > 0, "0.1 ms is within the tolerance at rate 1 only"
    assert found.tags > 300


def test_the_limit_of_the_policy_ends_the_run_at_the_same_tag() -> None:
    assert (
        "consecutive late frames: 4, allowed: 3"
        in check_equal(loop, CatchUp(3), (0, 50_000_000)).error
    )


def test_another_policy_is_asked_at_each_late_tag() -> None:
    found = check_equal(loop, Slip(), (0, 21_000_000, 0, 7_000_000))
    assert [e.values["action"] for e in found.recording.events if e.kind == "Overrun"] == [
        "slip", "slip",
    ]  # fmt: skip


Given = tuple[int, tuple[str, dict[str, Any]]]
"""When a command is given, in units of 0.5 ms of own time, its kind and its arguments."""
COMMANDS = st.lists(
    st.tuples(
        st.integers(0, 2_200),
        st.sampled_from(
            (
                ("set", {"target": "set.point", "value": 0.7}),
                ("set", {"target": "plant0.rate", "value": 0.9}),
                ("mark", {"text": "here"}),
                ("rate", {"rate": 2.0}),
                ("rate", {"rate": 0.123}),
                ("step", {"tags": 2.0}),
                ("pause", {}),
                ("resume", {}),
                ("quit", {}),
            )
        ),
    ),
    max_size=5,
)


class Commanded(Outcome):
    """A run that gets commands at own times; one that pauses is resumed."""

    given: tuple[Given, ...] = ()

    def connections(self) -> dict[str, Any]:
        self.inbox = Resuming()
        start = self.clock.now()
        for tenths, (kind, arguments) in self.given:
            command = Command(kind, arguments)
            give = functools.partial(self.inbox.give, command)
            self.clock.call_at(start + tenths * 500_000, give)
        return {"inbox": self.inbox}


class Resuming(Inbox):
    """Resumes each pause at once."""

    def wait(self, seconds: float) -> None:  # noqa: ARG002
        self.waiting.append(PendingCommand(Command("resume", {})))


@given(scenarios(), COMMANDS, LATE)
@settings(max_examples=settings().max_examples // 6, phases=QUICK)
def test_commands_act_at_the_same_tags(
    make: Callable[[], Scenario],
    given: list[Given],
    late: list[int],
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Commanded, "given", tuple(given))
        found = check_equal(make, CatchUp(10_000), tuple(late), 1.0, Commanded)
    COMMANDED.append(found.clock.sleeps)


COMMANDED: list[int] = []


def test_many_commanded_runs_waited_in_compiled_code() -> None:
    if not COMMANDED:
        pytest.skip("needs the test before it")
    assert sum(s > 0 for s in COMMANDED) > len(COMMANDED) / 3


NONE = np.zeros(0)
TIGHT = Adaptive(rtol=1e-9)


def _swings(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = x[1]
    dx[1] = -1e6 * x[0]


def _falls(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
    g[0] = t - 0.77


def _turned(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
    x[1] = -x[1]


SWINGING = Model("swinging", Signals("x = 1", "v"), _swings)
GUARDED = Model(
    "guarded", SWINGING.states, _swings, guards=(Guard("late"),), guard=_falls, reset=_turned
)


class _GivenUpError(Exception):
    pass


def _advance(bound: BoundModel, guarded: bool, interrupt_check: Any, x: Vector) -> list[float]:
    """The state after 0.1 s, some 5,000 evaluations later."""
    stepper: Any = TIGHT.stepper(bound)
    stepper.interrupt_check = interrupt_check
    out = np.zeros(2)
    if guarded:
        way = Guarded(bound, stepper, (x, NONE, NONE, NONE), out)
        way.here[0] = -1.0
        assert way.advance(0, 10**8) == GOOD
    else:
        assert stepper.advance(0, 10**8, x, NONE, NONE, NONE, out) == GOOD
    return [*out.tolist(), *stepper._after.tolist()]


@pytest.mark.parametrize("guarded", [False, True], ids=["bare", "guarded"])
def test_a_pause_changes_no_bit(guarded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is a constant of the compiled code; plain Python has the same source."""
    bound, found = bind(GUARDED, compile=False), []
    for most in (math.inf, 2000, 6):
        monkeypatch.setattr(internal_steps, "MOST_SPENT", most)
        pauses: list[int] = []
        end = _advance(bound, guarded, partial(pauses.append, 1), np.array([1.0, 0.0]))
        found.append((end, len(pauses)))
    assert found[0][0] == found[1][0] == found[2][0]
    assert found[0][1] == 0
    assert found[1][1] >= 2
    assert found[2][1] > 300


@pytest.mark.parametrize("guarded", [False, True], ids=["bare", "guarded"])
@pytest.mark.parametrize("compile", [True, False], ids=["compiled", "plain"])
def test_an_advance_that_was_given_up_leaves_no_trace(guarded: bool, compile: bool) -> None:
    bound = bind(GUARDED, compile=compile)
    stepper: Any = TIGHT.stepper(bound)
    x, out = np.array([1.0, 0.0]), np.zeros(2)
    way = Guarded(bound, stepper, (x, NONE, NONE, NONE), out) if guarded else None

    def refuses() -> None:
        raise _GivenUpError

    def advance() -> int:
        if way is None:
            return int(stepper.advance(0, 10**8, x, NONE, NONE, NONE, out))
        way.here[0] = -1.0
        return way.advance(0, 10**8)

    stepper.interrupt_check = refuses
    with pytest.raises(_GivenUpError):
        advance()
    stepper.interrupt_check = lambda: None
    x[:] = (0.25, 3.0)
    assert advance() == GOOD
    expected = _advance(bound, guarded, lambda: None, x.copy())
    assert [*out.tolist(), *stepper._after.tolist()] == expected


def _scenario(model: Model, solver: Any = TIGHT, step: str = "0.1") -> Scenario:
    scenario = Scenario("long steps", until=2)
    scenario.plant("p", model, step=step, solver=solver)
    return scenario


@pytest.mark.parametrize("model", [SWINGING, GUARDED], ids=lambda m: m.name)
def test_both_engines_pause_and_agree(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    from rtsim.engine.executive import Executive

    pauses = []
    monkeypatch.setattr(Executive, "interrupt_check", lambda _: pauses.append(1))
    found = []
    for engine in ("compiled", "interpreted"):
        pauses.clear()
        recorder = MemoryRecorder()
        simulate(_scenario(model), recorder=recorder, engine=engine)
        recording = recorder.recording()
        found.append(
            (recording.track("p").column("x").tolist(), recording.track("p").column("v").tolist())
        )
        assert len(pauses) >= 20, engine
    assert found[0] == found[1]
    prepared = prepare(_scenario(model), engine="compiled")
    for _ in range(3):
        result = prepared.run(record=False)
        assert result.final("p.x") == found[0][0][-1]


def test_scipys_solvers_call_between_their_steps() -> None:
    bound = bind(SWINGING)
    for method in ("DOP853", "LSODA"):
        calls: list[int] = []
        stepper: Any = SciPy(method=method).stepper(bound)
        stepper.interrupt_check = lambda calls=calls: calls.append(1)
        x = np.array([1.0, 0.0])
        assert stepper.advance(0, 10**8, x, NONE, NONE, NONE, np.zeros(2)) == GOOD
        assert len(calls) > 20
