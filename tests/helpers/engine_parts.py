"""Scenarios for tests that compare the compiled engine with the interpreter."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

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
from rtsim.core.waiting_calls import Calls, Wait
from rtsim.testing import FakeClock


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


_TIMES = ctypes.POINTER(ctypes.c_int64)
_NS = 1_000_000_000
Late = tuple[int, ...]
"""Wake-up latencies, ns: one for each wait."""


class LentClock(FakeClock):
    """A clock of a test that compiled code can wait on: its C functions are this clock's."""

    def __init__(self, rate: float = 1.0, late: Late = ()) -> None:
        super().__init__(rate, late=late)
        self.sleeps = 0
        """Number of waits in compiled code."""
        telling = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, _TIMES)
        waiting = ctypes.CFUNCTYPE(
            ctypes.c_int, ctypes.c_int, ctypes.c_int, _TIMES, ctypes.c_void_p
        )
        self._functions = telling(self._tell), waiting(self._wait)

    def _tell(self, _clock: int, into: ctypes._Pointer[ctypes.c_int64]) -> int:
        into[0], into[1] = divmod(self.now(), _NS)
        return 0

    def _wait(
        self, _clock: int, flags: int, until: ctypes._Pointer[ctypes.c_int64], _rest: object
    ) -> int:
        assert flags == 1  # until a time, not for a time
        self.sleeps += 1
        self.advance(
            until[0] * _NS + until[1] + (self._late.popleft() if self._late else 0) - self.now()
        )
        return 0

    def lend(self) -> Wait:
        time, sleep = (ctypes.cast(f, ctypes.c_void_p).value or 0 for f in self._functions)
        return Wait(Calls(time, sleep, 0, 0), 0, *self._line.words, 0, 0, 0, 0)

    def returned(self, spin_ns: int, most_spin_ns: int) -> None:
        assert spin_ns == most_spin_ns == 0  # no sleep lengthens a window of 0
