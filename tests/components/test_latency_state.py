"""Latency models with state: each link of each run has a copy, and checkpoints contain it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pytest

from rtsim import Model, PythonController, Scenario, Signals, simulate
from rtsim.components.latency import Duplicate, LatencyModel, Loss, remembers_nothing
from rtsim.core.errors import CheckpointError, ScenarioError
from rtsim.engine.checkpoint.file import Ring
from rtsim.engine.checkpoint.schedule import CheckpointSchedule
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.prepared import prepare
from rtsim.runs.replay import rerun
from rtsim.testing.controllers import check_controller
from rtsim.testing.latency import check_latency


@dataclass
class BurstLoss:
    """The channel of Gilbert and Elliott, which loses all messages while it is bad."""

    into_bad: float = 0.2
    into_good: float = 0.3
    ordered: bool = field(default=True, init=False)
    bad: bool = field(default=False, init=False, repr=False, compare=False)

    def delays(self, stream: np.random.Generator, size_bytes: int) -> tuple[int, ...]:  # noqa: ARG002
        self.bad = stream.random() < (1.0 - self.into_good if self.bad else self.into_bad)
        return () if self.bad else (2_000_000,)


@dataclass(frozen=True)
class Rising:
    """Each message takes 1 ms longer than the last one; the count is in a list."""

    sent: list[int] = field(default_factory=lambda: [0], repr=False)
    ordered: bool = field(default=True, init=False)

    def delays(self, stream: np.random.Generator, size_bytes: int) -> tuple[int, ...]:  # noqa: ARG002
        self.sent[0] += 1
        return (1_000_000 * self.sent[0],)


class Slotted:
    __slots__ = ("sent",)
    ordered = True

    def __init__(self) -> None:
        self.sent = 0

    def __repr__(self) -> str:
        return "Slotted()"

    def delays(self, stream: np.random.Generator, size_bytes: int) -> tuple[int, ...]:  # noqa: ARG002
        self.sent += 1
        return (1_000_000 * self.sent,)


@dataclass
class Window:
    """Loses a message if the last two were delivered; the state is no plain data."""

    ordered: bool = field(default=True, init=False)
    last: deque[int] = field(default_factory=lambda: deque([0, 0], maxlen=2), repr=False)

    def delays(self, stream: np.random.Generator, size_bytes: int) -> tuple[int, ...]:  # noqa: ARG002
        self.last.append(int(sum(self.last) < 2 and stream.random() < 0.9))
        return (1_000_000,) if self.last[-1] else ()


class SavedWindow(Window):
    def __repr__(self) -> str:
        return "SavedWindow()"

    def save(self) -> dict[str, Any]:
        return {"last": list(self.last)}

    def restore(self, saved: dict[str, Any]) -> None:
        self.last.clear()
        self.last.extend(saved["last"])


@dataclass
class Shared:
    """Counts in the class, so that all objects share the count."""

    ordered: bool = field(default=True, init=False)
    sent: ClassVar[int] = 0

    def delays(self, stream: np.random.Generator, size_bytes: int) -> tuple[int, ...]:  # noqa: ARG002
        Shared.sent += 1
        return (Shared.sent,)


def grows(t: float, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
    dx[0] = u[0] - x[0]


def law(t: float, u: Any, s: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    y[0] = 1.0 - u[0]


def loop(transport: LatencyModel, compute: LatencyModel | float = 0.0) -> Scenario:
    out = Scenario("loop", until=3)
    out.plant(
        "p", Model("m", Signals("x"), grows, inputs=Signals("u")), step=0.01, inputs={"u": "c.b"}
    )
    for name in ("c", "other"):
        out.controller(
            name,
            PythonController(law, inputs=Signals("a"), outputs=Signals("b")),
            period=0.1,
            inputs={"a": "p.x"},
            transport=transport,
            compute=compute,
        )  # fmt: skip
    return out


def recorded(scenario: Scenario, **how: Any) -> Recording:
    return simulate(scenario, recorder=MemoryRecorder(), **how).recording()


MODELS: list[Callable[[], LatencyModel]] = [
    BurstLoss,
    Rising,
    Slotted,
    Window,
    SavedWindow,
    lambda: Loss(BurstLoss(), 0.1),
    lambda: Duplicate(Rising(), 0.5),
]
SAVED = [make for make in MODELS if make is not Window]


@pytest.mark.rule("latency-state")
@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("engine", ["interpreted", "auto"])
def test_two_runs_of_one_scenario_are_equal(make: Callable[[], LatencyModel], engine: str) -> None:
    scenario = loop(make(), compute=Rising())
    first = recorded(scenario, seed=9, engine=engine)
    assert compare_exact(first, recorded(scenario, seed=9, engine=engine)) is None
    assert compare_exact(first, recorded(loop(make(), Rising()), seed=9)) is None
    assert compare_exact(first, rerun(first, scenario)) is None


@pytest.mark.rule("latency-state")
def test_each_link_has_a_state_of_its_own() -> None:
    recording = recorded(loop(Rising()))
    for name in ("c", "other"):
        track = recording.track(f"messages/{name}")
        taken = track.integer("arrival") - track.integer("completed")
        assert taken[:3].tolist() == [1_000_000, 2_000_000, 3_000_000]


@pytest.mark.parametrize("make", SAVED)
def test_a_run_from_a_checkpoint_continues_the_state(make: Callable[[], LatencyModel]) -> None:
    ring, scenario = Ring(9), loop(make(), compute=Rising())
    whole = simulate(scenario, seed=9, checkpoints=CheckpointSchedule(ring, every="1/2"))
    cut = ring.before(1_700_000_000)
    assert cut is not None
    rest = simulate(loop(make(), compute=Rising()), seed=9, start=cut)
    assert rest.system.save() == whole.system.save()


@pytest.mark.parametrize("make", MODELS)
def test_prepared_runs_begin_with_the_declared_state(make: Callable[[], LatencyModel]) -> None:
    scenario = loop(make(), compute=Rising())
    prepared = prepare(scenario)
    assert bool(prepared.rebuilt) == (make is Window)
    for seed in (9, 1, 9):
        expected = recorded(scenario, seed=seed).digest()
        assert prepared.run(seed=seed).recording().digest() == expected


def test_a_state_that_cannot_be_saved_refuses_checkpoints() -> None:
    with pytest.raises(CheckpointError, match=r"attribute Window\.last .*give .*save\(\) and rest"):
        simulate(loop(Loss(Window(), 0.1)), checkpoints=CheckpointSchedule(Ring(9), every=1))


def test_a_model_that_cannot_be_copied_is_refused() -> None:
    model = BurstLoss()
    model.lock = threading.Lock()  # type: ignore[attr-defined]
    with pytest.raises(ScenarioError, match="latency model BurstLoss on topic c cannot be copied"):
        simulate(loop(model))


def test_only_models_without_state_are_drawn_ahead() -> None:
    assert remembers_nothing(Loss(Duplicate(loop_delay(), 0.1), 0.1))
    assert not any(remembers_nothing(make()) for make in MODELS)


def loop_delay() -> LatencyModel:
    @dataclass(frozen=True)
    class Constant:
        ns: tuple[int, ...] = (1_000, 2_000)
        ordered: bool = True

        def delays(self, stream: np.random.Generator, size_bytes: int) -> tuple[int, ...]:  # noqa: ARG002
            return self.ns[:1]

    return Constant()


@pytest.mark.parametrize("make", MODELS)
def test_the_check_accepts_state_in_the_object(make: Callable[[], LatencyModel]) -> None:
    check_latency(make())


@dataclass
class Forgetful(BurstLoss):
    def save(self) -> dict[str, Any]:
        return {}

    def restore(self, saved: dict[str, Any]) -> None:
        pass


def test_the_check_finds_state_outside_the_object_and_state_that_is_not_saved() -> None:
    with pytest.raises(AssertionError, match="two runs with a copy of the model each drew"):
        check_latency(Shared())
    with pytest.raises(AssertionError, match=r"save\(\) must include all state"):
        check_latency(Forgetful())


@dataclass
class SharedCount:
    """Loses each message whose number in a list of the class is divisible by ``every``."""

    every: int
    of_size: int | None = None
    """The size whose messages are counted; ``None``: all."""
    ordered: bool = field(default=True, init=False)
    recent: ClassVar[list[int]] = []

    def delays(self, stream: np.random.Generator, size_bytes: int) -> tuple[int, ...]:  # noqa: ARG002
        if self.of_size in (None, size_bytes):
            self.recent.append(size_bytes)
            return () if len(self.recent) % self.every == 0 else (2_000_000,)
        return (2_000_000,)


@pytest.mark.parametrize("of_size", [None, 0, 8, 64])
@pytest.mark.parametrize(("draws", "every"), [
    (200, 2), (200, 3), (200, 4), (200, 7), (200, 100), (200, 200), (99, 9), (99, 33),
])  # fmt: skip
def test_the_check_finds_state_of_the_class_with_any_period(
    every: int, of_size: int | None, draws: int
) -> None:
    SharedCount.recent.clear()
    with pytest.raises(AssertionError, match="two runs with a copy of the model each drew"):
        check_latency(SharedCount(every, of_size), draws)


class NeverCounted:
    """Loses each message with a number divisible by ``every``; a checkpoint forgets the number."""

    ordered = True

    def __init__(self, every: int) -> None:
        self.every, self.sent = every, 0

    def __repr__(self) -> str:
        return f"NeverCounted({self.every})"

    def delays(self, stream: np.random.Generator, size_bytes: int) -> tuple[int, ...]:  # noqa: ARG002
        self.sent += 1
        return () if self.sent % self.every == 0 else (2_000_000,)

    def save(self) -> dict[str, Any]:
        return {}

    def restore(self, saved: dict[str, Any]) -> None:
        pass


@pytest.mark.parametrize("every", [2, 3, 4, 7, 50, 100])
def test_the_check_finds_periodic_state_that_a_checkpoint_forgets(every: int) -> None:
    with pytest.raises(AssertionError, match=r"save\(\) must include all state"):
        check_latency(NeverCounted(every))


class Summing:
    """A controller with memory and without ``fresh()``."""

    inputs, outputs, outside = Signals("a"), Signals("b"), False

    def __init__(self) -> None:
        self.total = 0.0

    def send(self, tag: Any, inputs: Any) -> None:  # noqa: ARG002
        self.total += float(inputs[0])

    def receive(self, tag: Any, patience: float) -> Any:  # noqa: ARG002
        return np.array([self.total])

    def close(self) -> None:
        pass


class Renewed(Summing):
    def fresh(self) -> Renewed:
        return Renewed()


def test_the_check_of_controllers_finds_memory_that_serves_two_runs() -> None:
    with pytest.raises(AssertionError, match=r"has no fresh\(\), so its one object serves every"):
        check_controller(Summing)
    check_controller(Renewed)
