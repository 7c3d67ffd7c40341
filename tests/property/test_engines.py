"""The compiled engine against the interpreter: every row of every run is equal, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtsim import Guard, Model, PythonController, Scenario, Signal, Signals
from rtsim.components.latency import (
    Duplicate,
    Fixed,
    Gamma,
    LatencyModel,
    Loss,
    Reorder,
    SerialLine,
    Uniform,
)
from rtsim.core.errors import ModelError, RtsimError
from rtsim.engine.compiled import stretch
from rtsim.engine.executive import Executive
from rtsim.record.exact import compare_exact
from rtsim.record.memory_recorder import MemoryRecorder
from rtsim.record.reading import Recording
from rtsim.runs.simulation import simulate
from rtsim.scenario.loading import load_scenario


def derivative(t, x, z, u, p, dx):  # type: ignore[no-untyped-def]
    dx[0] = -p[0] * x[0] + u[0] + z[0]
    dx[1] = x[0] - 0.3 * x[1] + u[1] * t


def output(t, x, z, u, p, y):  # type: ignore[no-untyped-def]  # noqa: ARG001
    y[0] = x[0] + 0.5 * x[1] + u[1]


def update(t, x, z, u, p):  # type: ignore[no-untyped-def]  # noqa: ARG001
    if x[0] > 0.2:
        z[0] = 0.9 * z[0] - 0.1 * x[0] + 0.05 * u[0]


def level(t, x, z, u, p, g):  # type: ignore[no-untyped-def]  # noqa: ARG001
    g[0] = x[0] - 0.1 * z[0]
    g[1] = x[1] - 0.05


def turned(i, t, x, z, u, p):  # type: ignore[no-untyped-def]  # noqa: ARG001
    z[0] = -z[0]
    if i == 1:
        x[1] = -0.2 * x[1] - 0.3


def feedback(t, u, s, p, y):  # type: ignore[no-untyped-def]
    s[0] += 0.01 * u[0]
    y[0] = -p[0] * u[0] - s[0] + 0.01 * t
    y[1] = u[1]


STATES = Signals(Signal("a", initial=0.4), Signal("b", initial=-0.1))
INPUTS, OUTPUTS = Signals("first", "second"), Signals("y")
PARAMETERS, DISCRETE = Signals(Signal("rate", initial=0.7)), Signals(Signal("held", initial=0.1))
PLANT = Model(
    "tank", states=STATES, inputs=INPUTS, outputs=OUTPUTS, parameters=PARAMETERS,
    derivative=derivative, output=output,
    discrete=DISCRETE, update=update,
)  # fmt: skip

GUARDED = Model(
    "vessel", states=STATES, inputs=INPUTS, outputs=OUTPUTS, parameters=PARAMETERS,
    derivative=derivative, output=output, discrete=DISCRETE, update=update,
    guards=(Guard("level"), Guard("upper", direction=1)), guard=level, reset=turned,
)  # fmt: skip

GAIN = Signals(Signal("gain", initial=0.2))
STEPS = ("1/100", "1/60", "0.013", "0.004")
PERIODS = ("1/100", "1/50", "0.013", "0.03", "1/60")
OFFSETS = (0, "0.001", "0.0077")
LATENCIES: tuple[LatencyModel, ...] = (
    Fixed(0), Fixed("0.003"), Fixed("0.05"), Uniform(0.0, 0.02), Gamma(2.0, 0.004),
    Loss(Gamma(2.0, 0.004), 0.2), Reorder(Uniform(0.001, 0.01), 0.3, "0.02"), SerialLine(115200),
    Duplicate(Fixed("0.002"), 0.1, "0.004"), Loss(Fixed(0), 0.3),
)  # fmt: skip


@st.composite
def scenarios(draw: Callable[..., Any]) -> Callable[[], Scenario]:
    """Plants, controllers, sensors and noise at random rates, wired at random."""
    plants = [f"plant{i}" for i in range(draw(st.integers(1, 3)))]
    controllers = [f"law{i}" for i in range(draw(st.integers(0, 3)))]
    sensors = [f"sensor{i}" for i in range(draw(st.integers(0, 2)))]
    noisy, ordered = draw(st.booleans()), draw(st.booleans())
    sources = [
        *(f"{p}.{s}" for p in plants for s in ("a", "b", "y")),
        *(f"{c}.{s}" for c in controllers for s in ("u", "v")),
        *(f"{s}.seen" for s in sensors), *(["gust.w"] if noisy else []), "set.point",
    ]  # fmt: skip
    wire, number = st.sampled_from(sources), st.sampled_from((0.0, 0.25))
    period, offset = st.sampled_from(PERIODS), st.sampled_from(OFFSETS)
    latency = st.sampled_from(LATENCIES)
    plant = st.fixed_dictionaries(
        {"step": st.sampled_from(STEPS), "update_period": period, "update_offset": offset,
         "model": st.sampled_from((PLANT, GUARDED)),
         "solver": st.sampled_from(("rk4", "euler", "dp54", "abm4")),
         "inputs": st.fixed_dictionaries({"first": wire | number, "second": wire | number})}
    )  # fmt: skip
    controller = st.fixed_dictionaries(
        {"period": period, "offset": offset, "transport": latency,
         "compute": st.sampled_from([m for m in LATENCIES if type(m) not in (Loss, Duplicate)]),
         "priority": st.integers(0, 2),
         "inputs": st.fixed_dictionaries({"m": wire, "n": wire | number})}
    )  # fmt: skip
    sensor = st.fixed_dictionaries({"period": period, "offset": offset, "transport": latency})
    told = [draw(plant) for _ in plants], [draw(controller) for _ in controllers]
    seen = [(draw(st.sampled_from(sources[: 3 * len(plants)])), draw(sensor)) for _ in sensors]
    changes = draw(st.lists(st.integers(1, 900), max_size=2, unique=True))

    def make() -> Scenario:
        out = Scenario("random", until=1)
        for name, options in zip(plants, told[0], strict=True):
            out.plant(name, **options)
        for name, options in zip(controllers, told[1], strict=True):
            law = PythonController(
                feedback, Signals("m", "n"), Signals("u", "v"),
                parameters=GAIN, memory=Signals("sum"), compile=True,
            )  # fmt: skip
            out.controller(name, law, **options)
        for name, (source, options) in zip(sensors, seen, strict=True):
            out.sensor(name, {"seen": source}, **options)
        if noisy:
            out.noise("gust", Signals("w"), deviation=0.01, period="1/50")
        out.source("set", Signals(Signal("point", initial=0.1)))
        if ordered and len(controllers) > 1:
            out.order(*controllers[:2])
        for i, ms in enumerate(changes):
            out.at(ms / 1000, "set.point", 0.2 * i)
        return out

    return make


class Outcome(NamedTuple):
    recording: Recording
    error: str
    """What the run ended with; empty for one that came to its end."""
    tags: int
    """So many ran on the compiled engine."""


def ran(scenario: Scenario, engine: str) -> Outcome:
    recorder, kept, run = MemoryRecorder(), [], Executive.run

    def noted(self: Executive) -> None:
        kept.append(self)
        run(self)

    error = ""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Executive, "run", noted)
        try:
            simulate(scenario, recorder=recorder, engine=engine)
        except RtsimError as raised:
            error = f"{type(raised).__name__}: {raised}"
    found = kept[0].stretches
    return Outcome(recorder.recording(), error, 0 if found is None else found.tags)


def check_equal(make: Callable[[], Scenario]) -> int:
    """Both engines give the same rows, events and error; returns the compiled engine's tags."""
    compiled, interpreted = ran(make(), "compiled"), ran(make(), "interpreted")
    assert compiled.error == interpreted.error
    assert compare_exact(interpreted.recording, compiled.recording) is None
    assert compiled.recording.events == interpreted.recording.events
    assert interpreted.tags == 0
    return compiled.tags


RAN: list[int] = []


@given(scenarios())
@settings(max_examples=60)
def test_random_scenarios_have_equal_rows(make: Callable[[], Scenario]) -> None:
    RAN.append(check_equal(make))


def test_most_of_them_ran_on_the_compiled_engine() -> None:
    if not RAN:  # this test was chosen alone
        test_random_scenarios_have_equal_rows()
    assert sum(tags > 20 for tags in RAN) > len(RAN) / 2


SHIPPED: dict[str, tuple[float, dict[str, str]]] = {
    "ball": (3, {}), "f16": (2, {}), "unstable": (3, {"latency": "0.02"}), "valves": (20, {}),
    "nesc": (2, {}), "orbit": (6, {}), "queue": (100, {}), "job-shop": (40000, {}),
    "fox-and-rabbit": (2, {}), "life": (2, {}),
}  # fmt: skip


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_scenarios_have_equal_rows(name: str) -> None:
    until, settings_ = SHIPPED[name]

    def make() -> Scenario:
        found = load_scenario(name, settings_)
        found.until_ns = round(until * 1e9)
        return found

    check_equal(make)


EXAMPLES = sorted((Path(__file__).parents[2] / "docs" / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=[p.stem for p in EXAMPLES])
def test_examples_have_equal_rows(path: Path) -> None:
    check_equal(lambda: load_scenario(str(path)))


def broken() -> NoReturn:
    raise ModelError("the compiled engine does not compile:\nsome reason")


def test_an_engine_that_does_not_compile_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stretch, "_kernel", broken)
    monkeypatch.setattr(stretch, "kept", lambda *_: True)
    orbit = load_scenario("orbit")
    with pytest.raises(ModelError, match="does not compile"):
        simulate(orbit, engine="compiled")
    result = simulate(orbit)
    assert result.certificate.engine == "interpreted: the compiled engine does not compile"
