"""A run that is advanced in steps has the trace of one run with the same values at these times."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rtsim as rt
from rtsim.components.external_inputs import FedInput
from rtsim.components.latency import Uniform
from rtsim.core.errors import (
    CheckpointError,
    ModelError,
    RecordingError,
    ScenarioError,
    ShapeError,
    UnknownName,
)
from rtsim.core.signals import Vector
from rtsim.core.tag import NS_PER_S
from rtsim.discrete import Agenda, Processes
from rtsim.record.comparison import compare_exact
from rtsim.record.file import FileRecorder
from rtsim.runs.replay import rerun
from rtsim.runs.request import FedInputs
from rtsim.runs.simulation import simulate
from rtsim.runs.stepping import Simulation
from rtsim.solve import SOLVERS

UNTIL = 2
ENGINES = ("interpreted", "compiled")


class Cart(rt.Plant):
    """A cart on a round track of 0.5 m."""

    x = rt.state("m", 0.2)
    speed = rt.state("m/s", derivative_of="x")
    force = rt.input("N")
    power = rt.output("W")
    lag = rt.output("s")
    mass = rt.parameter("kg", 1.0, low=0.1)
    drag = rt.parameter("N.s/m", 0.2)

    def derivative(self, d: Self) -> None:
        d.x = self.speed
        d.speed = (self.force - self.drag * self.speed) / self.mass

    def outputs(self) -> None:
        self.power = self.force * self.speed
        self.lag = self.mass / self.drag

    @rt.rising
    def lap(self) -> float:
        return self.x - 0.5

    @lap.reset
    def begin(self) -> None:
        self.x = 0.0


class Follower(rt.Plant):
    """A lag that reads the cart."""

    y = rt.state("m")
    target = rt.input("m")
    rate = rt.parameter("1/s", 3.0, low=0.0, high=100.0)

    def derivative(self, d: Self) -> None:
        d.y = self.rate * (self.target - self.y)


class Cruise(rt.Controller, compile=True):
    speed = rt.input("m/s")
    wanted = rt.input("m/s")
    force = rt.output("N")
    gain = rt.parameter("N.s/m", 4.0)
    sum = rt.memory("m")

    def step(self) -> None:
        self.sum += 0.02 * (self.wanted - self.speed)
        self.force = self.gain * (self.wanted - self.speed) + self.sum


def loop(solver: str = "rk4") -> rt.Scenario:
    made = rt.Scenario("carts", until=UNTIL)
    wanted = made.source("wanted", rt.Signals("speed [m/s] = 0.5"))
    cart = made.plant(Cart(), step=0.01, solver=solver)
    follower = made.plant(Follower(), step=0.017, solver="dp54")
    cruise = made.controller(Cruise(), period=0.02, transport=Uniform(0.001, 0.009))
    made.noise("gust", rt.Signals("force [N]"), deviation=0.1, period=0.05)
    made.connect(cart.speed, cruise.speed)
    made.connect(wanted.speed, cruise.wanted)
    made.connect(cruise.force, cart.force)
    made.connect(cart.x, follower.target)
    return made


NAMES = ("wanted.speed", "cart.mass", "cart.drag", "follower.rate", "cruise.gain")
times = st.integers(0, UNTIL * 1000 - 1) | st.integers(0, UNTIL * 100 - 1).map(lambda n: 10 * n)
"""Times in ms, many of them at a step of the cart or a tick of the controller."""
inputs = st.dictionaries(st.tuples(times, st.sampled_from(NAMES)), st.floats(0.25, 4.0), max_size=5)
Inputs = Mapping[tuple[int, str], float]


def in_one_run(
    given_at: Inputs, made: Callable[[], rt.Scenario] = loop, **how: Any
) -> rt.Recording:
    """The recording of one run with the values ``given_at``, by time (ms) and name."""
    scenario = made()
    for (ms, name), value in given_at.items():
        scenario.at(f"{ms}/1000", name, value)
    return simulate(scenario, seed=3, **how).recording()


def assign(s: Simulation, given_at: Inputs, ms: int) -> None:
    for (at, name), value in given_at.items():
        if at == ms:
            s[name] = value


def stops(given_at: Inputs, cuts: list[int]) -> list[int]:
    return sorted({*cuts, *(ms for ms, _ in given_at)})


@pytest.mark.sample(1)
@pytest.mark.rule("stepped")
@pytest.mark.parametrize("engine", ENGINES)
@given(given_at=inputs, cuts=st.lists(times, max_size=6), look=st.booleans())
@settings(max_examples=25)
def test_steps_have_the_trace_of_one_run(
    engine: str, given_at: Inputs, cuts: list[int], look: bool
) -> None:
    with Simulation(loop(), seed=3, engine=engine) as s:
        for ms in stops(given_at, cuts):
            s.advance(until=f"{ms}/1000")
            if look:
                assert np.isfinite([s["cart.x"], s["cart.power"], s["follower.y"]]).all()
            assign(s, given_at, ms)
        s.advance(UNTIL)
    assert s.result().recording().digest() == in_one_run(given_at, engine=engine).digest()
    assert s.result().certificate.engine.startswith(engine)


@pytest.mark.parametrize("engine", ENGINES)
@given(data=st.data())
@settings(max_examples=20)
def test_a_run_with_checkpoints_has_the_trace_of_what_remains(
    engine: str, data: st.DataObject
) -> None:
    """Save and restore in any order, more than once, before and after assignments."""
    saved: list[tuple[Any, dict[tuple[int, str], float]]] = []
    so_far: dict[tuple[int, str], float] = {}
    s = Simulation(loop(), seed=3, engine=engine)
    for _ in range(data.draw(st.integers(1, 8))):
        what = data.draw(st.sampled_from(("advance", "assign", "save", "restore")))
        ms = s.time_ns // 10**6
        if what == "advance" and not s.ended:
            s.advance(until=f"{min(UNTIL * 1000 - 1, ms + data.draw(st.integers(0, 500)))}/1000")
        elif what == "assign" and not s.ended:
            name, value = data.draw(st.sampled_from(NAMES)), data.draw(st.floats(0.25, 4.0))
            s[name] = so_far[ms, name] = value
        elif what == "save" and not s.ended:
            saved.append((s.save(), dict(so_far)))
        elif what == "restore" and saved:
            checkpoint, so_far = data.draw(st.sampled_from(saved))
            so_far = dict(so_far)
            s.restore(checkpoint)
    s.advance(UNTIL)
    whole = in_one_run(so_far, engine=engine)
    assert s.result().recording().digest() == whole.digest()
    assert compare_exact(s.result().recording(), rerun(s.result().recording(), loop())) is None


@pytest.mark.parametrize("ms", [0, 500, 505])
def test_the_order_of_assignments_at_one_time_changes_nothing(ms: int) -> None:
    """Each has a row of its own, and the outputs depend on both."""
    values = {"cart.mass": 2.0, "cart.drag": 0.5}
    digests = set()
    for names in (list(values), list(reversed(values))):
        with Simulation(loop(), seed=3, until=1) as s:
            s.advance(until=f"{ms}/1000")
            for name in names:
                s[name] = 9.0
                s[name] = values[name]
        digests.add(s.result().recording().digest())
    given_at = {(ms, name): value for name, value in values.items()}
    if ms:
        assert digests == {in_one_run(given_at, until=f"{ms}/1000").digest()}
    assert len(digests) == 1


def test_a_checkpoint_is_restored_in_another_simulation() -> None:
    s = Simulation(loop(), seed=3)
    s.advance(0.5)
    s["wanted.speed"] = 2
    saved = s.save()
    ends = []
    for mass in (0.5, 2.0, 0.5):
        other = Simulation(loop(), seed=3)
        other.restore(saved)
        assert other.time == 0.5
        assert other["wanted.speed"] == 2
        other.advance(0.25)
        other["cart.mass"] = mass
        other.advance(UNTIL)
        ends.append(other.result().recording().digest())
    expected = {(500, "wanted.speed"): 2.0, (750, "cart.mass"): 0.5}
    assert ends[0] == ends[2] == in_one_run(expected).digest() != ends[1]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_replay_repeats_a_stepped_run(engine: str, tmp_path: Path) -> None:
    """In memory, and from a file, which a restore cannot change."""
    path = tmp_path / "run.mcap"
    for recorder in (None, FileRecorder(path)):
        with Simulation(loop(), seed=3, engine=engine, recorder=recorder) as s:
            for k in range(7):
                s["wanted.speed"] = 0.1 * k
                s["cart.mass"] = 1 + 0.1 * k
                s.advance("0.1234")
        recording = s.result().recording()
        assert compare_exact(recording, rerun(recording, loop())) is None
        assert recording.end_ns == round(7 * 0.1234 * NS_PER_S)
    with Simulation(loop(), recorder=FileRecorder(tmp_path / "other.mcap")) as s:
        saved = s.save()
        with pytest.raises(CheckpointError, match="leave out recorder="):
            s.restore(saved)


def test_the_result_is_that_of_a_run_that_ends_there() -> None:
    for ms in (130, 137, UNTIL * 1000):
        with Simulation(loop(), seed=3) as s:
            s.advance(until=f"{ms}/1000")
        result = s.result()
        assert result.ended.ns == ms * 10**6
        assert result.reason == "end"
        assert bool(result)
        whole = simulate(loop(), seed=3, until=f"{ms}/1000")
        assert result.recording().digest() == whole.recording().digest()
        assert s.ended
        assert s["cart.x"] == result.final("cart.x") == whole.final("cart.x")


@pytest.mark.sample(6)
@pytest.mark.parametrize("solver", sorted(SOLVERS))
def test_values_are_those_of_the_moment_and_reading_changes_nothing(solver: str) -> None:
    whole = simulate(loop(solver), seed=3)
    before = whole.table("cart", side="minus")
    with Simulation(loop(solver), seed=3) as s:
        assert s["cart.x"] == 0.2
        assert s["cart.mass"] == 1
        for ms in (10, 73, 200, 1500):
            s.advance(until=f"{ms}/1000")
            x, again = s["cart.x"], s["cart.x"]
            assert x == again
            row = np.searchsorted(before.ns, ms * 10**6)
            if before.ns[row] == ms * 10**6:
                assert x == before["cart.x"][row]
                assert s["cart.power"] == before["cart.power"][row]
            else:
                near = before["cart.x"][row - 1 : row + 1]
                assert near.min() <= x <= near.max()
        s.advance(UNTIL)
    assert s.result().recording().digest() == whole.recording().digest()


class Echo(rt.Plant):
    """A delayed feedback."""

    y = rt.state("1", 1.0)
    past = rt.delayed("y", 0.15)
    seen = rt.output("1")
    gain = rt.parameter("1/s", 2.0)

    def derivative(self, d: Self) -> None:
        d.y = -self.gain * self.past

    def outputs(self) -> None:
        self.seen = self.past


def echo() -> rt.Scenario:
    made = rt.Scenario("echo", until=1)
    made.plant(Echo(), step=0.02)
    return made


def test_a_model_with_delays_is_read_saved_and_restored() -> None:
    given_at = {(110, "echo.gain"): 3.0, (505, "echo.gain"): 1.0}
    with Simulation(echo(), seed=3) as s:
        for ms in (55, 110, 333, 505, 700):
            s.advance(until=f"{ms}/1000")
            assert np.isfinite([s["echo.y"], s["echo.seen"]]).all()
            assign(s, given_at, ms)
            if ms == 505:
                saved = s.save()
        s.restore(saved)
        s.advance(1)
    assert s.result().recording().digest() == in_one_run(given_at, echo).digest()


class Silent:
    def poll(self) -> Vector:
        raise AssertionError("the device of an external input is not asked")


def flown(device: Any) -> rt.Scenario:
    made = rt.Scenario("flown", until=1)
    stick = made.external_input("stick", rt.Signals("pull [N]", "push [N]"), device)
    cart = made.plant(Cart(), step=0.01)
    made.connect(stick.push, cart.force)
    return made


def test_an_external_input_has_the_assigned_values() -> None:
    with Simulation(flown(Silent()), seed=3) as s:
        s.advance(0.105)
        s["stick.push"] = 0.3
        s["stick.pull"] = 0.1
        assert (s["stick.push"], s["stick.pull"]) == (0.3, 0.1)
        saved = s.save()
        s.advance(0.2)
        s["stick.push"] = 0.5
        s.restore(saved)
        s.advance(0.3)
        s["stick.push"] = -0.3
        s.advance(1)
    recording = s.result().recording()
    rows = {105 * 10**6: np.array([0.1, 0.3]), 405 * 10**6: np.array([0.1, -0.3])}
    fed = FedInput("stick", rt.Signals("pull [N]", "push [N]"), rows)
    whole = simulate(
        flown(Silent()), seed=3, fed=FedInputs({"stick": fed}, inserted=sorted(rows))
    ).recording()
    assert recording.digest() == whole.digest()
    assert compare_exact(recording, rerun(recording, flown(Silent()))) is None


def shop() -> rt.Scenario:
    def setup(agenda: Agenda) -> None:
        def work() -> Generator[Any, Any, None]:
            parts = 0
            while True:
                yield agenda.timeout(agenda.random("work").exponential(agenda.read("mean")))
                parts += 1
                agenda.write(parts=parts)

        agenda.process(work())

    made = rt.Scenario("shop", until=60)
    parts = Processes(setup, outputs=rt.Signals("parts"), parameters=rt.Signals("mean [s] = 2"))
    made.processes("machine", parts)
    return made


def test_processes_are_stepped_and_restored() -> None:
    given_at = {(10_500, "machine.mean"): 0.5}
    with Simulation(shop(), seed=3) as s:
        s.advance(10.5)
        early = s["machine.parts"]
        s["machine.mean"] = 0.5
        saved = s.save()
        s.advance(20)
        assert s["machine.parts"] > early
        s.restore(saved)
        assert s["machine.parts"] == early
        while s.advance(7):
            pass
    assert s.result().recording().digest() == in_one_run(given_at, shop).digest()


class Wheel(rt.Plant):
    """A wheel whose speed is limited by a terminal guard."""

    speed = rt.state("rad/s", (1.0, 2.0))
    torque = rt.input("N.m")
    inertia = rt.parameter("kg.m2", (1.0, 1.0), low=0.5, high=5.0)

    def derivative(self, d: Self) -> None:
        d.speed = self.torque / self.inertia

    @rt.rising(terminal=True)
    def limit(self) -> float:
        return float(self.speed[0]) - 1.5


def wheels() -> rt.Scenario:
    made = rt.Scenario("wheels", until=1)
    wheel = made.plant(Wheel(), step=0.01)
    drive = made.source("drive", rt.Signals("torque [N.m]"))
    made.connect(drive.torque, wheel.torque)
    return made


def test_a_terminal_guard_ends_the_run() -> None:
    with Simulation(wheels()) as s:
        assert s.advance(0.1)
        s["drive.torque"] = 1.0
        assert not s.advance(0.8)
        assert s.ended
        assert s.ended_by == "wheel.limit"
        assert 0.59 < s.time < 0.61
        assert s["wheel.speed"][0] == pytest.approx(1.5)
    assert s.result().reason == "terminal"


def test_arrays_are_read_and_assigned() -> None:
    with Simulation(wheels()) as s:
        assert s["wheel.inertia"].tolist() == [1, 1]
        assert s["wheel.speed"].tolist() == [1, 2]
        s["drive.torque"], s["wheel.inertia"] = 0.5, [1, 2]
        s.advance(0.5)
        assert s["wheel.speed"] == pytest.approx([1.25, 2.125])
        s["wheel.speed"][0] = 9  # a copy
        assert s["wheel.speed"] == pytest.approx([1.25, 2.125])


def test_handles_are_names() -> None:
    made = rt.Scenario("one", until=1)
    cart = made.plant(Cart(), step=0.01)
    push = made.source("push", rt.Signals("force [N]"))
    made.connect(push.force, cart.force)
    with rt.Simulation(made) as s:
        s[push.force] = 2
        s.advance(0.1)
        assert s[cart.x] == s["cart.x"] > 0.2
        assert s[cart.mass] == 1
        assert s.signal(cart.x).unit == "m"
    assert repr(s) == "<Simulation of one ended at 0.1 s of 1 s>"


ERRORS: dict[str, tuple[Callable[[Simulation], object], type[Exception], str]] = {
    "unknown component": (lambda s: s["carts.x"], UnknownName, "did you mean cart"),
    "unknown signal": (lambda s: s["cart.sped"], UnknownName, "did you mean speed"),
    "a component": (lambda s: s["cart"], ScenarioError, "give one of its signals: cart."),
    "assigned unknown": (
        lambda s: s.__setitem__("wanted.sped", 1), UnknownName, "did you mean speed",
    ),
    "state": (
        lambda s: s.__setitem__("cart.x", 1), ScenarioError,
        r"cart.x is computed .* source .*wanted.speed.*scenario.set\('cart.x'",
    ),
    "output": (lambda s: s.__setitem__("cart.power", 1), ScenarioError, "computed by the run"),
    "wired input": (
        lambda s: s.__setitem__("cart.force", 1), ScenarioError, "connected to cruise.force",
    ),
    "nan": (lambda s: s.__setitem__("cart.mass", float("nan")), ScenarioError, "not finite"),
    "inf": (lambda s: s.__setitem__("wanted.speed", 1e999), ScenarioError, "not finite"),
    "range": (lambda s: s.__setitem__("cart.mass", 0), ScenarioError, r"cart.mass.*\[0.1, inf\]"),
    "text": (lambda s: s.__setitem__("cart.mass", "heavy"), ScenarioError, "not a number"),
    "size": (lambda s: s.__setitem__("cart.mass", [1, 2]), ShapeError, "cart.mass.*1 elements"),
    "negative": (lambda s: s.advance(-0.1), ScenarioError, "negative.*restore"),
    "past": (lambda s: s.advance(until=0.4), ScenarioError, "at 0.5 s already"),
    "beyond": (lambda s: s.advance(until=3), ScenarioError, r"ends at 2 s.*until=3"),
    "both": (lambda s: s.advance(1, until=3), ScenarioError, "a duration or a time"),
    "neither": (lambda s: s.advance(), ScenarioError, "a duration or a time"),
    "no time": (lambda s: s.advance("soon"), ScenarioError, "not a number of seconds"),
    "not finite": (lambda s: s.advance(float("nan")), ScenarioError, "not a number of seconds"),
    "nothing to show": (lambda s: s.show(), ScenarioError, "names of signals"),
    "unknown to show": (lambda s: s.show("cart.sped"), UnknownName, "did you mean speed"),
}  # fmt: skip


@pytest.mark.parametrize("case", ERRORS)
def test_a_mistake_is_an_error_and_changes_nothing(case: str) -> None:
    act, kind, words = ERRORS[case]
    with Simulation(loop(), seed=3) as s:
        s.advance(0.5)
        with pytest.raises(kind, match=words):
            act(s)
        s.advance(UNTIL)
    assert s.result().recording().digest() == in_one_run({}).digest()


def test_a_constant_input_is_assigned_through_a_source() -> None:
    made = rt.Scenario("alone", until=1)
    made.plant("cart", Cart(force=1), step=0.01)
    with Simulation(made) as s, pytest.raises(ScenarioError, match="connect it to a source"):
        s["cart.force"] = 2


def test_after_the_end_nothing_can_be_done_but_read() -> None:
    s = Simulation(loop())
    s.advance(UNTIL)
    for act in (lambda: s.advance(1), lambda: s.__setitem__("cart.mass", 1), s.save):
        with pytest.raises(ScenarioError, match="the run has ended at 2 s"):
            act()
    s.result()
    assert s["cart.x"] == s.result()["cart.x"][-1]


def test_a_checkpoint_of_another_run_is_refused() -> None:
    saved = Simulation(loop(), seed=4).save()
    s = Simulation(loop(), seed=3)
    with pytest.raises(CheckpointError, match="seed differs"):
        s.restore(saved)
    with pytest.raises(CheckpointError, match="recorded no rows"):
        s.restore(Simulation(loop(), seed=3, record=False).save())
    saved = s.save()
    s.result()
    with pytest.raises(ScenarioError, match="closed"):
        s.restore(saved)


def test_a_run_without_a_recording_can_go_back() -> None:
    with Simulation(loop(), seed=3, record=False) as s:
        s.advance(0.5)
        x, saved = s["cart.x"], s.save()
        s.advance(0.5)
        assert s["cart.x"] != x
        s.restore(saved)
        assert s["cart.x"] == x
    with pytest.raises(RecordingError, match="record=False"):
        s.result().recording()


class Breaks(rt.Plant):
    x = rt.state("m", 1)
    rate = rt.parameter("1/s", -1.0)

    def derivative(self, d: Self) -> None:
        d.x = self.rate * self.x * self.x


def test_an_error_of_a_component_ends_the_run() -> None:
    made = rt.Scenario("breaks", until=10)
    made.plant(Breaks(), step=0.01)
    s = Simulation(made)
    s.advance(0.1)
    s["breaks.rate"] = 1e6
    with pytest.raises(ModelError, match="breaks"):
        s.advance(5)
    assert s.ended
    result = s.result()
    assert result.reason == "error"
    assert isinstance(result.error, ModelError)
    assert result.recording().end_ns >= NS_PER_S // 10


def test_an_error_in_the_block_closes_the_run(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    s = Simulation(loop(), recorder=FileRecorder(path))

    def block() -> None:
        with s:
            s.advance(0.5)
            raise KeyError("x")

    with pytest.raises(KeyError):
        block()
    assert s.result().reason == "interrupted"
    assert rt.Recording.open(path).end_ns <= NS_PER_S // 2


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent with os.kill")
def test_ctrl_c_ends_the_run_after_a_complete_tag() -> None:
    def law(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
        y[0] = t
        if 0.25 < t < 0.35:
            os.kill(os.getpid(), signal.SIGINT)

    made = loop()
    key = rt.PythonController(law, rt.Signals("x [m]"), rt.Signals("y"))
    made.controller("key", key, period=0.1, inputs={"x": "cart.x"})
    s = Simulation(made)
    with pytest.raises(KeyboardInterrupt):
        s.advance(1)
    assert s.ended
    assert s.time == 0.3
    assert s.result().reason == "interrupted"


class Shown:
    """What a notebook shows."""

    def __init__(self) -> None:
        self.pages: list[str] = []

    def __call__(self, markup: Any, display_id: bool) -> Shown:
        assert display_id
        self.update(markup)
        return self

    def update(self, markup: Any) -> None:
        self.pages.append(markup._repr_html_())


def test_a_notebook_shows_values_while_the_run_advances(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = Shown()
    monkeypatch.setattr("rtsim.runs.live.notebook_display", lambda: shown)
    with Simulation(wheels()) as s:
        s["drive.torque"] = 0.25
        s.show("wheel.speed", "drive.torque")
        while s.advance(0.1):
            pass
    assert len(shown.pages) >= 2
    last = shown.pages[-1]
    assert "wheel.speed_0" in last
    assert "1.25 rad/s" in last
    assert "0.25 N.m" in last
    assert last.count("<polyline") == 3
    assert ">1 s<" in last
    monkeypatch.setattr("rtsim.runs.live.notebook_display", lambda: None)
    with Simulation(wheels()) as s:
        s.show("wheel.speed")
        s.advance(0.5)
    assert "0.5 s  wheel.speed_0 = 1 rad/s  wheel.speed_1 = 2 rad/s" in capsys.readouterr().err
