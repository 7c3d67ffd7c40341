"""The compiled engine against the interpreter: every row of every run is equal, bit for bit.

C controllers in this process on both engines: equal rows, and no step of the C is run twice.

A fault planted in what compiled code is given is found, for each kind of part.

The fault is in the compiled engine's table, vectors or random numbers only; the interpreter runs
the same scenario without it.  A reset is always the interpreter's, so it has none of its own.

Blocks by name: every array is checked before compiled code trusts its address and length.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from called_parts import EXITS, NOT_FINITE, built, in_c
from engine_parts import GUARDED, PLANT, check_equal, ran
from engine_scenarios import GAIN, feedback, scenarios
from hypothesis import given, settings

from hitl.controllers import in_process
from hitl.controllers.in_process import InProcess
from rtsim import PythonController, Scenario, Signal, Signals
from rtsim.components.latency import Fixed, Gamma, LatencyModel, Loss, Uniform
from rtsim.components.request_log import steps_of
from rtsim.core.errors import ControllerError, ModelError
from rtsim.core.signals import Vector
from rtsim.core.tag import Tag
from rtsim.engine.compiled import eligibility
from rtsim.engine.compiled import engine as compiled_engine
from rtsim.engine.compiled.engine import CompiledEngine
from rtsim.engine.compiled.records import LOST
from rtsim.engine.compiled.table import Draws, Table
from rtsim.engine.compiled.transfer import copy_in
from rtsim.equations.addresses import MATRIX, NUMBER, VECTOR, Layout
from rtsim.equations.compiling import compile_function
from rtsim.equations.model import Guard, Model, bind
from rtsim.runs.simulation import simulate
from rtsim.scenario.loading import known_scenarios, load_scenario
from rtsim.solve import SOLVERS, Stepper, solver_named
from rtsim.solve.fixed_step import EXPLICIT_LAYOUT as LAYOUT
from rtsim.solve.fixed_step import RK4, explicit_arrays, explicit_step
from rtsim.solve.guard_table import GUARD_TABLE
from rtsim.solve.guarded import Guarded
from rtsim.solve.internal_steps import Method
from rtsim.solve.resident import stepper

RAN: list[int] = []


@given(scenarios())
@settings(max_examples=settings().max_examples // 4)
def test_random_scenarios_have_equal_rows(make: Callable[[], Scenario]) -> None:
    RAN.append(check_equal(make))


def test_most_of_them_ran_on_the_compiled_engine() -> None:
    if not RAN:  # this test was chosen alone
        test_random_scenarios_have_equal_rows()
    assert sum(tags > 20 for tags in RAN) > len(RAN) / 2


SHIPPED: dict[str, tuple[float, dict[str, str]]] = {
    "ball": (3, {}), "f16": (2, {}), "unstable": (3, {"latency": "0.02"}), "valves": (20, {}),
    "nesc": (2, {}), "orbit": (6, {}), "queue": (100, {}), "job-shop": (40000, {}),
    "fox-and-rabbit": (2, {}), "life": (2, {}), "machine-shop": (4000, {}),
    "f16-by-hand": (2, {}), "f16-gcas": (3, {}), "f16-processor": (0.5, {}), "tracking": (2, {}),
    "quadcopter": (1, {}), "aerosonde": (1, {}), "cars": (12, {"throttle": "1"}),
    "transmission": (4, {"throttle": "60"}),
}  # fmt: skip
ALL_IN_PYTHON = {
    "fox-and-rabbit", "queue", "machine-shop",  # no plant
    "f16-by-hand", "tracking", "aerosonde", "quadcopter",  # a pilot's inputs
    "f16-processor",  # a processor
    "02_sampled_controller", "03_latency",
    "08_queue", "09_sensor_fault", "10_controller_in_c", "11_can_bus",
}  # fmt: skip
"""No tag of these runs on the compiled engine, and both runs are the interpreter's."""
WITH_PROGRAM = {"betaflight", "betaflight-flight"}
"""These need Betaflight, which tests marked ``system`` have."""


def test_each_shipped_scenario_is_compared() -> None:
    assert set(SHIPPED) == set(known_scenarios()) - WITH_PROGRAM


@pytest.mark.sample(8)
@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_scenarios_have_equal_rows(name: str) -> None:
    until, settings_ = SHIPPED[name]

    def make() -> Scenario:
        found = load_scenario(name, settings_)
        found.until_ns = round(until * 1e9)
        return found

    assert (check_equal(make) == 0) == (name in ALL_IN_PYTHON)


EXAMPLES = sorted((Path(__file__).parents[2] / "docs" / "examples").glob("*.py"))


@pytest.mark.sample(5)
@pytest.mark.parametrize("path", EXAMPLES, ids=[p.stem for p in EXAMPLES])
def test_examples_have_equal_rows(path: Path) -> None:
    tags = check_equal(lambda: load_scenario(str(path)))
    assert (tags == 0) == (path.stem in ALL_IN_PYTHON)


def broken() -> NoReturn:
    raise ModelError("the compiled engine does not compile:\nsome reason")


def test_an_engine_that_does_not_compile_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_engine, "_kernel", cache(broken))
    monkeypatch.setattr(eligibility, "kept", lambda *_: True)
    orbit = load_scenario("orbit")
    with pytest.raises(ModelError, match="does not compile"):
        simulate(orbit, engine="compiled")
    result = simulate(orbit)
    assert result.certificate.engine == "interpreted: the compiled engine does not compile"


INPUTS = {"m": "tank.a", "n": "tank.y", "small": "set.small"}


def failing(t, u, s, p, y):  # type: ignore[no-untyped-def]  # noqa: ARG001
    y[0] = u[0] / (0.5 - t if t < 0.5 else 0.0)


def scenario(
    fault: int = 0, compute: LatencyModel | None = None, small: float = 1.0, **more: Any
) -> Scenario:
    """A plant and the C; ``small`` is an input of 8 bits from 0.3 s on."""
    out = Scenario("called", until=1)
    out.plant(
        "tank", PLANT, step="1/100", update_period="1/50", inputs={"first": 0.0, "second": 0.0}
    )
    out.source("set", Signals(Signal("small", initial=1.0)))
    out.at(0.3, "set.small", small)
    out.controller(
        "c", in_c(fault), period="1/50", inputs=INPUTS, compute=compute or Fixed(0), **more
    )
    return out


def with_a_failure() -> Scenario:
    """Another controller fails in the same tag, after the C has run its step."""
    out = scenario(priority=0)
    law = PythonController(failing, Signals("a"), Signals("z"), compile=True)
    out.controller("d", law, period="1/50", inputs={"a": "tank.a"}, failure="hold", priority=5)
    return out


@pytest.mark.parametrize("compute", [Fixed(0), Fixed("0.005"), Fixed("0.03"), Uniform(0.0, 0.03)])
def test_it_runs_on_the_compiled_engine(compute: LatencyModel) -> None:
    assert check_equal(lambda: scenario(compute=compute)) > 40


def test_a_step_that_is_undone_is_not_run_again() -> None:
    outcome = ran(with_a_failure(), "compiled")
    assert outcome.tags > 20
    counts = outcome.recording.messages["c"]["count"]
    assert counts.tolist() == list(range(1, len(counts) + 1)), "one step for each request"
    check_equal(with_a_failure)


def test_a_second_run_of_the_step_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def again(self: InProcess, kept: in_process.KeptStep, tag: Any) -> int:  # noqa: ARG001
        self._log.repeated()
        return int(self._step(self._step_u, self._step_y))

    monkeypatch.setattr(InProcess, "_repeated", again)
    with pytest.raises(AssertionError):
        check_equal(with_a_failure)


@pytest.mark.parametrize("failure", ["end", "hold"])
@pytest.mark.parametrize("compute", [Fixed(0), Fixed("0.005")])
@pytest.mark.parametrize(
    ("fault", "small", "wanted"),
    [(EXITS, 1.0, "called exit(3)"), (NOT_FINITE, 1.0, "answered nan for u"),
     (0, 200.0, "small = 200.0 of feedback does not fit its type int8")],
)  # fmt: skip
def test_failures_are_the_same(
    fault: int, small: float, wanted: str, compute: LatencyModel, failure: str
) -> None:
    make: Callable[[], Scenario] = lambda: scenario(fault, compute, small, failure=failure)  # noqa: E731
    outcome = ran(make(), "compiled")
    said = outcome.error or next(e.text for e in outcome.recording.events if e.kind == "Failed")
    assert wanted in said
    assert (outcome.error == "") == (failure == "hold")
    assert outcome.tags > 8
    check_equal(make)


def test_a_step_that_is_repeated_with_other_inputs_is_an_error() -> None:
    kept = in_process.KeptStep(Tag(5), np.array([1.0, -0.0]), np.zeros(1), 0, 0)
    assert kept.repeats(Tag(5), np.array([1.0, -0.0]))
    assert not kept.repeats(Tag(5), np.array([1.0, 0.0]))
    assert not kept.repeats(Tag(6), np.array([1.0, -0.0]))
    controller = in_c().fresh()
    controller._log.kept = kept
    with pytest.raises(ControllerError, match="report it, and use --engine interpreted"):
        controller.send(Tag(5), np.zeros(3))
    controller.close()


def test_a_full_log_ends_the_stretch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_process, "_ROWS", 3)
    assert check_equal(scenario) > 20


def test_draws_that_run_out_undo_a_step_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiled engine goes on after each step that it has left to the interpreter."""
    monkeypatch.setattr(compiled_engine, "_MOST_DRAWS", 4)
    assert check_equal(lambda: scenario(compute=Uniform(0.0, 0.003))) > 100


def test_a_late_time_is_the_interpreters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_process, "_LATEST_S", 0.5)
    assert 20 < check_equal(scenario) < 95


@pytest.mark.parametrize("compute", [Fixed(0), Fixed("0.03"), Fixed("0.015")])
def test_what_a_checkpoint_saves_is_the_same(
    compute: LatencyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step with its inputs, the sum over the answers, and the request that is under way."""
    saved: list[dict[str, Any]] = []
    close = InProcess.close

    def noted(self: InProcess) -> None:
        if self._library is not None:
            saved.append(self.save() | {"took": len(self.took_ns)})
        close(self)

    monkeypatch.setattr(InProcess, "close", noted)
    for engine in ("compiled", "interpreted"):
        ran(scenario(compute=compute), engine)
    assert saved[0]["steps"] > 20
    assert saved[0]["took"] == saved[0]["steps"]
    for key in ("steps", "open", "asked", "checksum", "took"):
        assert saved[0][key] == saved[1][key], key
    first, second = (steps_of(s, 3, "c") for s in saved)
    assert [tag for tag, _ in first] == [tag for tag, _ in second]
    assert all(a.tobytes() == b.tobytes() for (_, a), (_, b) in zip(first, second, strict=True))


def test_one_without_outputs_or_not_loaded_has_no_address() -> None:
    controller = in_c()
    assert controller.by_address() is None
    loaded = controller.fresh()
    found = loaded.by_address()
    assert found is not None
    assert found[0] > 0
    loaded.close()
    assert loaded.by_address() is None
    assert built().kind == "plain"


Fault = Callable[[Table], None]


def scenario_planted() -> Scenario:
    """One of each kind of part."""
    out = Scenario("planted", until=2)
    out.plant(
        "vessel", GUARDED, step="1/100", solver="rk4", update_period="1/50",
        inputs={"first": "law.u", "second": "gust.w"},
    )  # fmt: skip
    law = PythonController(
        feedback, Signals("m", "n"), Signals("u", "v"),
        parameters=GAIN, memory=Signals("sum"), compile=True,
    )  # fmt: skip
    out.controller(
        "law", law, period="1/50", inputs={"m": "eye.seen", "n": "set.point"},
        compute=Gamma(2.0, 0.001), transport=Loss(Gamma(2.0, 0.002), 0.3),
    )  # fmt: skip
    out.controller(
        "c", in_c(), period="1/50", inputs={"m": "vessel.a", "n": "vessel.y", "small": 1.0},
        compute=Fixed("0.003"),
    )  # fmt: skip
    out.sensor("eye", {"seen": "vessel.a"}, period="1/50", transport=Fixed("0.002"))
    out.noise("gust", Signals("w"), deviation=0.01, period="1/50")
    out.source("set", Signals(Signal("point", initial=0.1)))
    out.at(0.905, "set.point", 0.3)
    return out


def test_both_engines_agree_without_a_fault() -> None:
    assert check_equal(scenario_planted) > 100


def nudge(vector: Any) -> None:
    """Change the last bit of the first number."""
    vector[0] = np.nextafter(vector[0], np.inf)


def task(table: Table, name: str) -> Any:
    return table.tasks[table.task_numbers[name]]


def topic(table: Table, name: str) -> Any:
    return table.topics[table.topic_numbers[name]]


def longer(record: Callable[[Table, str], Any], name: str) -> Fault:
    """Return a fault that adds 1 ns to a constant latency."""

    def plant(table: Table) -> None:
        record(table, name)["delay"] += 1

    return plant


def vessel(table: Table, _: str) -> Any:
    return table.plants[0]


def without_wires(record: Callable[[Table, str], Any], name: str) -> Fault:
    def plant(table: Table) -> None:
        record(table, name)["copies"]["count"] = 0

    return plant


def without_guards(table: Table) -> None:
    vessel(table, "")["drive"] = 0


FALLING = np.full(8, -1.0)


def other_directions(table: Table) -> None:
    watch = table.system.plants[0].watch
    assert watch is not None
    guards = watch.native()
    assert guards is not None
    guards.table.words[GUARD_TABLE.at.directions] = FALLING.ctypes.data


def no_update(table: Table) -> None:
    names = [n for n, r in table.reactions.items() if r.kind == "update"]
    task(table, names[0])["offset"] += 10_000_000


IN_THE_TABLE: dict[str, Fault] = {
    "state of a plant": lambda table: nudge(table.system.plants[0].x),
    "wires of a plant": without_wires(vessel, ""),
    "update of a plant": no_update,
    "memory of a Python controller": lambda table: nudge(table.reactions["law"].vectors[1]),
    "wires of a Python controller": without_wires(task, "law"),
    "wires of a C controller": without_wires(task, "c"),
    "constant compute latency": longer(task, "c"),
    "constant transport latency": longer(topic, "eye"),
    "wires of a sensor": without_wires(task, "eye"),
    "held value": lambda table: nudge(table.system.ports["law"].value),
    "value of a source": lambda table: nudge(table.system.ports["set"].value),
    "guards": without_guards,
    "directions of guards": other_directions,
}


def check_found(monkeypatch: pytest.MonkeyPatch, times: list[int]) -> None:
    """The fault was planted, and it is the comparison that fails, not the engine."""
    with pytest.raises(AssertionError) as found:
        check_equal(scenario_planted)
    monkeypatch.undo()
    assert found.traceback[-1].name == "check_equal"
    assert times


@pytest.mark.parametrize("kind", IN_THE_TABLE)
def test_a_fault_in_the_table_is_found(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    times: list[int] = []

    def planted(table: Table, flight: Any) -> None:
        copy_in(table, flight)
        IN_THE_TABLE[kind](table)  # in each stretch: in the first one most values are still 0
        times.append(table.system.ns)

    monkeypatch.setattr("rtsim.engine.compiled.engine.copy_in", planted)
    check_found(monkeypatch, times)


def one_ns_more(values: Any) -> None:
    values[np.flatnonzero(values != LOST)[0]] += 1


def nothing_lost(values: Any) -> None:
    assert (values == LOST).any()
    values[values == LOST] = 1_000_000


DRAWN: dict[str, tuple[str, Callable[[Any], None]]] = {
    "noise": ("noise/gust", nudge),
    "compute latency": ("compute/law", one_ns_more),
    "transport latency": ("law", one_ns_more),
    "lost messages": ("law", nothing_lost),
}


@pytest.mark.parametrize("kind", DRAWN)
def test_a_fault_in_what_is_drawn_is_found(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fill = Draws.fill
    times: list[int] = []
    wanted, change = DRAWN[kind]

    def planted(self: Draws, count: int) -> None:
        fill(self, count)
        stream = self._stream
        transport = wanted == "law" and "law" in stream and not stream.startswith("compute/")
        if not times and (stream == wanted or transport) and self.values.size > 9:
            change(self.values)
            times.append(1)

    monkeypatch.setattr(Draws, "fill", planted)
    check_found(monkeypatch, times)


def test_a_scheduled_change_that_compiled_code_passes_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = CompiledEngine._first_interpreted
    times: list[int] = []

    def planted(self: CompiledEngine) -> int:
        system = self._system
        here, system.next_change = system.next_change, len(system.changes)
        times.append(1)
        try:
            return first(self)
        finally:
            system.next_change = here

    monkeypatch.setattr(CompiledEngine, "_first_interpreted", planted)
    check_found(monkeypatch, times)


NONE = np.zeros(0)
PAIR = Layout("a pair", ("f",), {"x": ("n",), "k": ("m", "n"), "past": ("1 + 2 * n",)})
AT = PAIR.at


def swing(t: Any, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
    dx[0] = x[1]
    dx[1] = -p[0] * x[0]


def level(t: Any, x: Any, z: Any, u: Any, p: Any, g: Any) -> None:  # noqa: ARG001
    g[0] = x[0]


SWING = Model(
    "swing",
    Signals(Signal("q"), Signal("v", derivative_of="q")),
    swing,
    parameters=Signals(Signal("stiffness", initial=1.0)),
)
WATCHED = Model(
    "watched", SWING.states, swing, parameters=SWING.parameters, guards=(Guard("low"),), guard=level
)


def laid_out() -> dict[str, Vector]:
    return {"x": np.arange(3.0), "k": np.arange(6.0).reshape(2, 3), "past": np.arange(7.0)}


def test_places_follow_from_the_names() -> None:
    assert (AT.f, AT.x, AT.k, AT.past) == (0, 1, 3, 6)
    longer = PAIR.extended("a longer pair", past=("n",), end=("n",))
    assert longer.at[:4] == AT
    assert longer.at.end == 8
    with pytest.raises(
        ValueError, match="a bent pair declares k with 1 axes, but a pair declares k with 2"
    ):
        PAIR.extended("a bent pair", k=("n",))
    assert PAIR.zeros("past", {"n": 3}).shape == (7,)


def by_name(words: Any, t: float, out: Any, found: Any) -> int:
    x, k = words.x, words.k
    for j in range(x.size):
        out[j] = t * x[j]
    for i in range(k.shape[0]):
        for j in range(k.shape[1]):
            found[i, j] = k[i, j]
    return int(words.f)


def test_a_kernel_reads_the_same_arrays_compiled_and_plain() -> None:
    native = compile_function(by_name, (PAIR.kind, NUMBER, VECTOR, MATRIX), "by name")
    answers = []
    for block, call in (
        (PAIR.block((5,), laid_out(), {}), native.call),
        (PAIR.plain((5,), laid_out(), {}), by_name),
    ):
        out, found = np.zeros(3), np.zeros((2, 3))
        words = block if isinstance(block, list) else block.words
        answers.append((call(words, 2.0, out, found), out.tolist(), found.tolist()))
    assert answers[0] == answers[1] == (5, [0.0, 2.0, 4.0], [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])


@pytest.mark.parametrize(
    ("name", "array", "said"),
    [
        ("k", np.zeros((2, 4)), r"k of a pair has shape (2, 4); expected (m, n) = (2, 3)"),
        ("k", np.zeros(6), r"k of a pair has shape (6,); expected (m, n) = (6, 3)"),
        ("past", np.zeros(6), r"past of a pair has shape (6,); expected (1 + 2 * n) = (7,)"),
        ("k", np.zeros((3, 2)).T, "k of a pair must be a contiguous float64 array"),
        ("x", np.zeros(3, np.float32), "x of a pair must be a contiguous float64 array; got float"),
        (
            "more",
            np.zeros(3),
            "the arrays of a pair differ from its layout; missing or extra: more",
        ),
    ],
)
def test_an_array_that_does_not_fit_is_refused(name: str, array: Vector, said: str) -> None:
    for make in (PAIR.block, PAIR.plain):
        with pytest.raises((TypeError, ValueError)) as raised:
            make((0,), {**laid_out(), name: array}, {})
        assert said in str(raised.value)


def test_a_size_that_is_not_known_and_a_function_that_is_missing() -> None:
    with pytest.raises(ValueError, match="past of a pair needs a value for the size n"):
        PAIR.zeros("past", {})
    with pytest.raises(ValueError, match="got 0 functions for a pair; expected f"):
        PAIR.plain((), laid_out(), {})


def refused(call: Callable[[], object], said: str) -> None:
    with pytest.raises(ValueError) as raised:
        call()
    assert said in str(raised.value)


@pytest.mark.sample(10)
@pytest.mark.parametrize("compile", [False, True])
@pytest.mark.parametrize("name", sorted(SOLVERS))
def test_a_stepper_refuses_a_vector_of_another_length(name: str, compile: bool) -> None:
    at_work: Stepper = solver_named(name).stepper(bind(SWING, compile=compile))
    x, p, out = np.array([1.0, 0.0]), np.ones(1), np.full(2, 7.0)
    for wrong, vectors in (
        ("x", (np.zeros(1), NONE, NONE, p, out)),
        ("z", (x, np.zeros(1), NONE, p, out)),
        ("u", (x, NONE, np.zeros(1), p, out)),
        ("p", (x, NONE, NONE, NONE, out)),
        ("out", (x, NONE, NONE, p, np.zeros(1))),
    ):
        refused(lambda v=vectors: at_work.advance(0, 1000, *v), f"{wrong} of ")  # type: ignore[misc]
    assert out.tolist() == [7.0, 7.0], "nothing has run"
    assert at_work.advance(0, 1000, x, NONE, NONE, p, out) == -1
    assert out[0] == pytest.approx(1.0)


@pytest.mark.parametrize("compile", [False, True])
def test_a_method_refuses_an_array_of_another_shape_before_anything_runs(compile: bool) -> None:
    bound = bind(SWING, compile=compile)
    for name, shape in (("k", (4, 3)), ("k", (3, 2)), ("a", (4, 3)), ("c", (3,)), ("y", (1,))):
        own = {**explicit_arrays(RK4.tableau), name: np.zeros(shape)}
        method = Method(explicit_step, LAYOUT, own)
        refused(lambda m=method: stepper(m, bound), f"{name} of an explicit Runge")  # type: ignore[misc]


@pytest.mark.parametrize("name", ["rk4", "dp54", "radau"])
def test_guards_refuse_a_vector_of_another_length(name: str) -> None:
    bound = bind(WATCHED)
    vectors = (np.zeros(2), NONE, NONE, np.ones(1))
    at_work = solver_named(name).stepper(bound)
    refused(lambda: Guarded(bound, at_work, vectors, np.zeros(3)), "out of ")
    refused(lambda: Guarded(bound, at_work, (*vectors[:3], NONE), np.zeros(2)), "p of ")
