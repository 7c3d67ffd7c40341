"""Each latency model by itself: what it draws, at its limits too, and what it refuses.

Latency models with state: each link of each run has a copy, and checkpoints contain it.
"""

from __future__ import annotations

import math
import threading
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest

from rtsim import Model, PythonController, Scenario, Signals, simulate
from rtsim.components.allowed_latency import (
    allowing,
    from_plain,
    latency_in_words,
    latency_of,
    to_plain,
)
from rtsim.components.latency import (
    ZERO,
    Duplicate,
    Empirical,
    Fixed,
    Gamma,
    InTurn,
    LatencyModel,
    Loss,
    Reorder,
    SerialLine,
    TruncatedNormal,
    Uniform,
    draw,
    remembers_nothing,
)
from rtsim.core.errors import CheckpointError, LatencyError, ScenarioError
from rtsim.core.random_streams import RandomStreams
from rtsim.core.tag import LONGEST_NS
from rtsim.engine.checkpoint.file import Ring
from rtsim.engine.checkpoint.schedule import CheckpointSchedule
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.prepared import prepare
from rtsim.runs.replay import rerun
from rtsim.testing.controllers import check_controller
from rtsim.testing.latency import check_latency

MS = 1_000_000


class Scripted:
    """Stands for a stream: answers what it is told to, and keeps what it was asked for."""

    def __init__(self, *answers: float) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[object, ...]] = []

    def __getattr__(self, name: str) -> Any:
        def answer(*arguments: object) -> float:
            self.asked.append((name, *arguments))
            return self.answers.pop(0)

        return answer


def drawn(model: LatencyModel, *answers: float, size: int = 8) -> tuple[int, ...]:
    stream = Scripted(*answers)
    delays = model.delays(stream, size)  # type: ignore[arg-type]
    assert not stream.answers, "it draws as often as it says"
    return delays


class Given:
    ordered = True

    def __init__(self, delays: object) -> None:
        self.said = delays

    def delays(self, stream: np.random.Generator, size_bytes: int) -> Any:  # noqa: ARG002
        return self.said


# -- what is drawn, and by whom


def test_delays_drawn_by_a_model_are_checked() -> None:
    def of(delays: object) -> tuple[int, ...]:
        return draw(Given(delays), RandomStreams(1), "s", 8, "topic t")

    assert of(()) == ()
    assert of((0, LONGEST_NS - 1)) == (0, LONGEST_NS - 1)
    no_tuple: tuple[object, ...] = ([1], 1, None)
    for wrong in no_tuple:
        with pytest.raises(LatencyError, match=r"Given on topic t returned .*; expected a tuple"):
            of(wrong)
    no_delay: tuple[object, ...] = (-1, LONGEST_NS, 1.0, True, np.int64(1))
    for wrong in no_delay:
        with pytest.raises(LatencyError, match=r"Given on topic t returned a delay of .* ns; a d"):
            of((0, wrong))


def test_a_fixed_latency_makes_no_stream_and_any_other_draws_from_its_own() -> None:
    streams = RandomStreams(1)
    assert draw(Fixed(0.5), streams, "s", 8, "l") == (500 * MS,)
    assert draw(ZERO, streams, "s", 8, "l") == (0,)
    assert streams.save()["streams"] == {}
    found = draw(Uniform(0.0, 1.0), streams, "s", 8, "l")
    assert found == Uniform(0.0, 1.0).delays(RandomStreams(1).stream("s"), 8)
    assert list(streams.save()["streams"]) == ["s"]


@pytest.mark.parametrize(
    ("model", "answers", "delays"),
    [
        (Fixed("1/3"), (), (333_333_333,)),
        (Uniform(0.0, 0.02), (0.0123456789,), (12_345_679,)),
        (Uniform(0.5, 0.5), (0.5,), (500 * MS,)),
        (Gamma(2.0, 0.003, minimum=0.001), (0.0042,), (5_200_000,)),
        (Empirical((7, 5, 3)), (1,), (5,)),
        (TruncatedNormal(0.01, 0.005), (0.5,), (10 * MS,)),
        (TruncatedNormal(0.0, 1.0, low=0.0, high=0.25), (1.0 - 1e-16,), (250 * MS,)),
        (TruncatedNormal(1.0, 0.1, low=0.9), (0.0,), (900 * MS,)),
        (TruncatedNormal(0.01, 0.005), (0.0,), (0,)),
    ],
)
def test_a_draw_becomes_the_nearest_nanosecond(
    model: LatencyModel, answers: tuple[float, ...], delays: tuple[int, ...]
) -> None:
    assert drawn(model, *answers) == delays
    assert model.ordered is True


def test_each_model_asks_its_stream_for_what_it_says() -> None:
    for model, asked in (
        (Uniform(0.25, 0.5), ("uniform", 0.25, 0.5)),
        (Gamma(2.0, 0.003), ("gamma", 2.0, 0.003)),
        (Empirical((1, 2, 3)), ("integers", 3)),
    ):
        stream = Scripted(0)
        model.delays(stream, 8)  # type: ignore[arg-type]
        assert stream.asked == [asked]


def test_a_truncated_normal_draws_between_the_shares_of_its_ends() -> None:
    """Five deviations are next to all; what is cut away is never drawn."""
    stream = Scripted(0.5, 0.5)
    TruncatedNormal(1.0, 0.1, low=0.9, high=1.2).delays(stream, 8)  # type: ignore[arg-type]
    TruncatedNormal(1.0, 0.1, low=0.9).delays(stream, 8)  # type: ignore[arg-type]
    (_, low, high), (_, same, all_above) = stream.asked
    assert (low, high) == (pytest.approx(0.158655, rel=1e-5), pytest.approx(0.97725, rel=1e-5))
    assert (same, all_above) == (low, 1.0)
    (furthest,) = drawn(TruncatedNormal(1.0, 0.1), 1.0)
    assert furthest == pytest.approx(1.8e9, rel=0.03)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_draw_that_is_no_number_is_refused(bad: float) -> None:
    with pytest.raises(LatencyError, match=f"drew a delay of {bad} s; a delay must be finite"):
        drawn(Gamma(1.0, 1.0), bad)


@pytest.mark.parametrize(
    ("model", "given"),
    [
        (Fixed, (0,)), (Uniform, (0.0, 1.0)), (TruncatedNormal, (1.0, 0.1, 0.0, 2.0)),
        (Gamma, (1.0, 1.0, 0.0)), (SerialLine, (9600, 10, 0)), (Empirical, ((1,), "")),
        (Reorder, (ZERO, 0.5, 1)),
    ],
)  # fmt: skip
def test_a_model_stays_what_it_was_made(model: Any, given: tuple[object, ...]) -> None:
    """A scenario is described by its models: who changed one would fly another scenario."""
    made = model(*given)
    assert made == model(*given)
    with pytest.raises(TypeError):
        model(*given, False)  # what it promises of the order is not for sale
    with pytest.raises(AttributeError):
        made.ordered = False


def test_what_spoils_a_message_stays_what_it_was_made() -> None:
    for made in (Loss(ZERO, 0.5), Duplicate(ZERO, 0.5)):
        with pytest.raises(AttributeError):
            made.probability = 0.9  # type: ignore[misc]


# -- what spoils a message


@pytest.mark.parametrize(("inner", "ordered"), [(Fixed(0.5), True), (Reorder(ZERO, 0.5, 1), False)])
def test_losing_and_doubling_keep_the_order_of_the_link(inner: LatencyModel, ordered: bool) -> None:
    assert Loss(inner, 0.5).ordered is ordered
    assert Duplicate(inner, 0.5).ordered is ordered
    assert Reorder(inner, 0.5, 1).ordered is False


def test_below_its_probability_a_message_is_spoiled() -> None:
    inner = Fixed(0.5)
    for chance, spoiled in ((0.0, True), (0.29, True), (0.3, False), (0.9, False)):
        assert drawn(Loss(inner, 0.3), chance) == (() if spoiled else (500 * MS,))
        doubled = drawn(Duplicate(inner, 0.3, gap=0.25), chance)
        assert doubled == ((500 * MS, 750 * MS) if spoiled else (500 * MS,))
        held = drawn(Reorder(inner, 0.3, extra=0.25), chance)
        assert held == ((750 * MS,) if spoiled else (500 * MS,))
    assert drawn(Loss(inner, 0.0), 0.0) == (500 * MS,), "0 is never"
    assert drawn(Loss(inner, 1.0), 1.0 - 2**-53) == (), "and 1 is always"
    assert drawn(Duplicate(inner, 1.0), 0.5) == (500 * MS, 500 * MS), "at once, without a gap"


def test_the_chance_is_drawn_before_the_delay_whatever_comes_of_it() -> None:
    for model in (Loss, Duplicate):
        for chance in (0.0, 0.9):
            stream = Scripted(chance, 0.25)
            model(Uniform(0.0, 1.0), 0.5).delays(stream, 8)  # type: ignore[arg-type]
            assert [name for name, *_ in stream.asked] == ["random", "uniform"]


def test_the_wire_time_of_an_inner_line_is_that_of_the_payload() -> None:
    for model in (Loss(SerialLine(10), 0.0), Duplicate(SerialLine(10), 0.0)):
        assert drawn(model, 0.5, size=3) == (3_000 * MS,)
    assert drawn(Reorder(SerialLine(10), 0.0, 1), 0.5, size=3) == (3_000 * MS,)


# -- what was measured


def test_measured_delays_are_drawn_alike() -> None:
    stream = RandomStreams(1).stream("x")
    model = Empirical.of([3.0, 5, np.int64(9)], "by hand")  # type: ignore[list-item]
    assert model.samples == (3, 5, 9)
    assert all(type(s) is int for s in model.samples)
    count = Counter(model.delays(stream, 8)[0] for _ in range(3000))
    assert sorted(count) == [3, 5, 9]
    assert min(count.values()) > 900


@pytest.mark.parametrize(
    ("share", "sample"),
    [(0.0, 1), (0.01, 1), (0.25, 1), (0.26, 2), (0.5, 2), (0.75, 3), (0.76, 9), (1.0, 9)],
)
def test_a_quantile_is_the_smallest_that_enough_do_not_exceed(share: float, sample: int) -> None:
    assert Empirical((9, 1, 3, 2)).quantile(share) == sample


def test_a_tenth_of_ten_is_one_sample_whatever_a_float_makes_of_it() -> None:
    ten = Empirical(tuple(range(10)))
    assert [ten.quantile(k / 10) for k in range(1, 11)] == list(range(10))
    assert Empirical(tuple(range(100))).quantile(0.07) == 6, "0.07 * 100 is more than 7"


def test_the_repr_of_measured_delays_is_short() -> None:
    a, b = Empirical((5, 3), "run.mcap"), Empirical((3, 5), "run.mcap")
    assert repr(a).startswith("Empirical(2 samples, 3 to 5 ns, sha256 ")
    assert repr(a).endswith(", run.mcap)")
    assert repr(a) != repr(b)
    assert repr(Empirical((5, 3))).endswith(f"{repr(a)[39:55]})")
    assert len(repr(Empirical((5, 3)))) == len("Empirical(2 samples, 3 to 5 ns, sha256 )") + 16


# -- what is refused


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Fixed(-1e-9), r"Fixed latency = -1e-09 s is negative; give a time >= 0"),
        (lambda: Fixed("x"), "Fixed latency 'x' is not a number of seconds"),
        (lambda: Uniform(0.2, 0.1), r"Uniform\(0.2, 0.1\): give 0 <= low <= high, in s"),
        (lambda: Uniform(-1e-9, 0.1), "give 0 <= low <= high"),
        (lambda: Uniform(0.0, math.inf), "give 0 <= low <= high"),
        (lambda: Uniform(math.nan, 1.0), "give 0 <= low <= high"),
        (lambda: TruncatedNormal(0.1, 0.0), "give deviation > 0 and 0 <= low < high"),
        (lambda: TruncatedNormal(0.1, 1.0, -1e-9), "give deviation > 0 and 0 <= low < high"),
        (lambda: TruncatedNormal(0.1, 1.0, 0.5, 0.5), "give deviation > 0 and 0 <= low < high"),
        (lambda: TruncatedNormal(0.1, 1e-3, 5.0, 6.0), r"\[5.0, 6.0\] s has almost no probability"),
        (lambda: TruncatedNormal(-1.0, 0.1), "has almost no probability with mean"),
        (lambda: Gamma(0.0, 1.0), r"Gamma\(0.0, 1.0, 0.0\): give shape > 0, scale > 0 and minimum"),
        (lambda: Gamma(1.0, 0.0), "give shape > 0, scale > 0"),
        (lambda: Gamma(1.0, 1.0, -1e-9), "minimum >= 0, in s"),
        (
            lambda: SerialLine(0),
            r"SerialLine\(baud=0, bits_per_byte=10, overhead=0\): give baud > 0",
        ),
        (lambda: SerialLine(-1), "give baud > 0"),
        (lambda: SerialLine(1, bits_per_byte=0), "bits_per_byte > 0"),
        (lambda: SerialLine(1, overhead=-1), "overhead >= 0"),
        (lambda: Empirical(()), "has no samples"),
        (lambda: Empirical((5, -1)), "has a sample of -1 ns; samples must be >= 0"),
        (
            lambda: Empirical((5, LONGEST_NS)),
            f"has a sample of {LONGEST_NS} ns, which is longer than the longest possible run",
        ),
        (lambda: Loss(ZERO, 1.0000001), "Loss probability = 1.0000001 is not a probability"),
        (lambda: Loss(ZERO, -1e-9), "Loss probability = -1e-09 is not a probability"),
        (
            lambda: Loss(ZERO, math.nan),
            "Loss probability = nan is not a probability; give a number",
        ),
        (lambda: Duplicate(ZERO, 2), "Duplicate probability = 2"),
        (lambda: Duplicate(ZERO, 0.5, -1), "Duplicate gap = -1 s is negative"),
        (lambda: Reorder(ZERO, 2, 0), "Reorder probability = 2"),
        (lambda: Reorder(ZERO, 0.5, -1), "Reorder extra = -1 s is negative"),
    ],
)
def test_impossible_parameters_are_refused(make: Any, said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        make()


def test_the_least_of_what_a_link_can_do_is_taken() -> None:
    assert Empirical((0, LONGEST_NS - 1)).samples == (0, LONGEST_NS - 1)
    Gamma(1e-9, 1e-9, 0.0)
    TruncatedNormal(0.0, 1e-9)
    SerialLine(1, bits_per_byte=1, overhead=0)
    Uniform(0.0, 0.0)
    Reorder(ZERO, 1.0, 0)


# -- what is given from outside


def test_what_is_allowed_is_a_model() -> None:
    measured = Empirical((1, 2))
    assert allowing(measured) is measured
    assert allowing("1/2") == Fixed("1/2")
    assert latency_of("a", {"a": 0.5}) == 0.5
    assert latency_of("b", {"a": 0.5}) is None
    assert latency_of("b", 0.25) == 0.25
    assert latency_of("b", None) is None


def test_in_words() -> None:
    assert latency_in_words(0) == "0 s"
    assert latency_in_words(Empirical((1,))) == "measured: by hand"
    assert latency_in_words({"a": 0.5, "b": 0.5}) == "0.5 s"
    assert latency_in_words({"a": 0.5, "b": 1}) == "a: 0.5 s, b: 1 s"


def test_a_header_tells_all_that_a_replay_needs() -> None:
    measured = Empirical((1, 2), "run.mcap")
    assert to_plain(measured) == {"source": "run.mcap", "samples": [1, 2]}
    assert from_plain(to_plain(measured)) == measured
    assert from_plain({"samples": [3]}) == Empirical((3,))
    assert from_plain(to_plain(0.5)) == "0.5"
    for wrong in (None, 3, {}, {"samples": 3}, {"samples": [1, 2.0]}, {"samples": [True]}):
        with pytest.raises(LatencyError, match="neither a text nor a list of samples in ns"):
            from_plain(wrong)


def _delayed(compute: Any) -> Scenario:
    out = Scenario("delayed", until=1)
    controller = PythonController(
        lambda *arguments: arguments[-1].fill(1.0), inputs=Signals(), outputs=Signals("y")
    )
    out.controller("slow", controller, period=0.5, compute=compute)
    return out


@pytest.mark.parametrize("seconds", [0.25, "0.25", Fraction(1, 4)])
def test_a_latency_in_seconds_is_a_fixed_latency(seconds: object) -> None:
    messages = simulate(_delayed(seconds)).messages["slow"]
    assert (messages["arrival"] - messages["initiated"]).tolist() == [250_000_000] * 2


@pytest.mark.parametrize("wrong", [None, True, Fixed, object()])
def test_a_wrong_latency_is_named_when_it_is_declared(wrong: object) -> None:
    with pytest.raises(ScenarioError, match=r"compute of slow is .*give a number of seconds"):
        _delayed(wrong)


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
    lambda: InTurn((1_000_000, 3_000_000, 2_000_000)),
]
SAVED = [make for make in MODELS if make is not Window]


@pytest.mark.rule("latency-state")
@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("engine", ["interpreted", "auto"])
def test_repeated_runs_of_a_scenario_are_equal(
    make: Callable[[], LatencyModel], engine: str
) -> None:
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
