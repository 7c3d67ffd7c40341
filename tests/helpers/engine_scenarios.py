"""Random scenarios for tests that compare the compiled engine with the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from called_parts import in_c
from engine_parts import GUARDED, PLANT
from hypothesis import strategies as st

from rtsim import PythonController, Scenario, Signal, Signals
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


def feedback(t, u, s, p, y):  # type: ignore[no-untyped-def]
    s[0] += 0.01 * u[0]
    y[0] = -p[0] * u[0] - s[0] + 0.01 * t
    y[1] = u[1]


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
    translated = [c for c in controllers if draw(st.booleans())]
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
            if name in translated:
                options = {**options, "inputs": {**options["inputs"], "small": 1.0}}
            out.controller(name, in_c() if name in translated else law, **options)
        for name, (source, options) in zip(sensors, seen, strict=True):
            out.sensor(name, {"seen": source}, **options)
        if noisy:
            out.noise("gust", Signals("w"), deviation=0.01, period="1/50")
        out.source("set", Signals(Signal("point", initial=0.1)))
        if ordered and len(controllers) > 1:
            out.order(*controllers[:2])
        for i, ms in enumerate(changes):
            out.at(ms / 1000, "set.point", 0.2 * i)
            out.at(ms / 1000 + 0.0003, "plant0.rate", 0.5 + 0.2 * i)  # beside the plant's grid
        return out

    return make
