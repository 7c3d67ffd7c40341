"""Options of blocks, each where it alone makes the answer; and delays of events."""

from __future__ import annotations

import inspect
import math
import re
from pathlib import Path

import numpy as np
import pytest
from block_parts import crossed, flown

from rtsim import blocks
from rtsim.blocks import (
    PID,
    Block,
    Constant,
    Diagram,
    EventAt,
    EventClock,
    FirstOrderHold,
    Gain,
    Integrator,
    LevelCrossing,
    Noise,
    PeriodicSampler,
    Product,
    SampledPID,
    Sampler,
    Sine,
    StateSpace,
    Sum,
    UnitDelay,
    ZeroOrderHold,
)
from rtsim.core.errors import ScenarioError
from rtsim.record.reading import Recording

S = 1_000_000_000


def ramp() -> Diagram:
    """``ramp`` is t."""
    d = Diagram("d")
    d.add("one", Constant(1.0))
    d.add("ramp", Integrator(), "one")
    return d


def after(recording: Recording, t: str, name: str) -> float:
    return float(recording.at(t, "+")["d." + name])


# -- a unit delay and its events -------------------------------------------------------------------


def delayed(delay: Block, sampler: Block) -> Diagram:
    d = ramp()
    d.add("s", sampler, "ramp")
    d.add("late", delay, "s")
    d.add("held", ZeroOrderHold(), "late")
    return d


def test_a_unit_delay_is_a_period_behind_events_that_are_faster() -> None:
    recording = flown(delayed(UnitDelay(0.3), PeriodicSampler(0.1)), 1)
    for t, exact in (("0.3", 0.0), ("0.6", 0.3), ("0.8", 0.3), ("0.9", 0.6)):
        assert abs(after(recording, t, "held") - exact) < 1e-12


def test_a_unit_delay_waits_for_events_that_begin_later() -> None:
    d = delayed(UnitDelay(0.2, initial=7.0), PeriodicSampler(0.2, offset=0.4))
    recording = flown(d, 1)
    for t, exact in (("0.2", 7.0), ("0.4", 7.0), ("0.6", 0.4), ("0.8", 0.6)):
        assert abs(after(recording, t, "held") - exact) < 1e-12


@pytest.mark.parametrize(
    ("delay", "sampler", "heard"),
    [
        (UnitDelay(0.1), PeriodicSampler(0.3), r"occurs every 0\.3 s from 0 s on"),
        (UnitDelay(0.3), PeriodicSampler(0.2), r"occurs every 0\.2 s from 0 s on"),
        (UnitDelay(0.2, 0.1), PeriodicSampler(0.2), r"late ticks every 0\.2 s from 0\.1 s on"),
        (UnitDelay("1/3"), PeriodicSampler("1/3", "1/3"), r"from 0\.333333 s on"),
    ],
)
def test_a_unit_delay_refuses_events_at_other_instants(
    delay: Block, sampler: Block, heard: str
) -> None:
    with pytest.raises(ScenarioError, match=heard) as refused:
        delayed(delay, sampler).model()
    assert "no event; give both blocks the same period and offset" in str(refused.value)
    d = delayed(delay, sampler)
    d.add("first", ZeroOrderHold(), "s")
    del d.wires["late", "u"]
    d.wire("first", "late")
    d.model()  # as it says


def test_a_unit_delay_looks_through_what_is_between() -> None:
    d = ramp()
    d.add("fast", PeriodicSampler(0.1), "ramp")
    d.add("slow", PeriodicSampler(0.2), "ramp")
    d.add("sum", Sum(), "fast", "double")
    d.add("double", Gain(2.0), "slow")
    d.add("late", UnitDelay(0.4), "sum")
    d.add("held", ZeroOrderHold(), "late")
    assert abs(after(flown(d, 1), "0.8", "held") - 1.2) < 1e-12
    d.add("top", LevelCrossing(0.5), "ramp")
    d.add("seen", Sampler(), "ramp", "top")
    d.add("wrong", UnitDelay(0.4), "seen")
    with pytest.raises(ScenarioError, match=r"wrong ticks .* occurs at crossings of top, so some"):
        d.model()
    d.blocks["wrong"] = UnitDelay(0.1)
    d.wires["seen", "trigger"] = d.wires["late", "u"]  # both happen, and only one of them often
    with pytest.raises(
        ScenarioError, match=r"every 0\.1 s from 0 s on and every 0\.2 s from 0 s on"
    ):
        d.model()
    d.wires["seen", "trigger"] = d.wires["double", "u"]
    with pytest.raises(ScenarioError, match=r"wrong ticks every 0\.1 s .* occurs every 0\.2 s"):
        d.model()
    d.blocks["top"] = EventAt(1)
    del d.wires["top", "u"]
    d.wires["seen", "trigger"] = d.wires["wrong", "u"].of("top")
    with pytest.raises(ScenarioError, match="occurs once, at 1 s, so"):
        d.model()


# -- options ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("direction", "at"), [(1, [0.25, 1.25]), (-1, [0.75, 1.75])])
def test_a_crossing_has_a_direction(direction: int, at: list[float]) -> None:
    d = ramp()
    d.add("wave", Sine(phase=-math.pi / 2))
    d.add("zero", LevelCrossing(direction=direction), "wave")
    assert np.allclose(np.array(crossed(flown(d, 2))) / S, at, atol=1e-8)


def test_the_mean_of_noise() -> None:
    d = Diagram("d")
    d.add("noise", Noise(0.0, 0.1, mean=2.5))
    d.add("x", Integrator(), "noise")
    assert abs(flown(d, 2)["d.x"][-1] - 5.0) < 1e-12


def test_a_first_order_hold_before_and_behind_its_first_event() -> None:
    d = ramp()
    d.add("line", FirstOrderHold(3.0, period="1/4", offset="1/4"), "ramp")
    d.output("line")
    recording = flown(d, 1, step="1/100")
    for t, exact in (("0.24", 3.0), ("0.25", 0.25), ("0.4", 0.25), ("0.5", 0.5), ("0.7", 0.7)):
        assert abs(after(recording, t, "line") - exact) < 1e-9


def test_the_offset_of_a_unit_delay() -> None:
    d = ramp()
    d.add("late", UnitDelay(0.2, 0.1, initial=-1.0), "ramp")
    d.add("held", ZeroOrderHold(), "late")
    recording = flown(d, 1)
    for t, exact in (("0", 0.0), ("0.1", -1.0), ("0.2", -1.0), ("0.3", 0.1), ("0.5", 0.3)):
        assert abs(after(recording, t, "held") - exact) < 1e-12


def test_the_offset_of_a_sampled_pid() -> None:
    d = ramp()
    d.add("pid", SampledPID(2.0, period=0.2, offset=0.1), "ramp")
    d.add("x", Integrator(), "pid")
    recording = flown(d, 1)
    for t, exact in (("0", 0.0), ("0.1", 0.2), ("0.2", 0.2), ("0.3", 0.6)):
        assert abs(after(recording, t, "pid") - exact) < 1e-12


@pytest.mark.parametrize("initial", [2.0, (2.0, 2.0)])
def test_a_state_space_starts_where_it_is_told(initial: float | tuple[float, ...]) -> None:
    d = Diagram("d")
    d.add("zero", Constant())
    d.add("x", StateSpace([[-1, 0], [0, -2]], [1, 1], [1, 1], initial=initial), "zero")
    d.output("x")
    assert abs(flown(d, 1)["d.x"][-1] - 2 * math.exp(-1) - 2 * math.exp(-2)) < 1e-7


@pytest.mark.parametrize(
    ("signs", "unit", "right"), [("*/", "m", True), ("*/", "m s^2", False), ("**", "m s^2", True)]
)
def test_the_unit_of_a_product(signs: str, unit: str, right: bool) -> None:
    d = Diagram("d")
    d.add("way", Constant(1.0, unit="m"))
    d.add("time", Constant(1.0, unit="s"))
    d.add("product", Product(signs), "way", "time")
    d.add("x", Integrator(unit=unit), "product")
    if right:
        d.model()
    else:
        with pytest.raises(ScenarioError, match=r"product\.y is in m/s"):
            d.model()


def test_the_value_of_an_event_clock() -> None:
    d = ramp()
    d.add("clock", EventClock(0.5, value=3.0))
    d.add("held", ZeroOrderHold(), "clock")
    assert after(flown(d, 1), "0.2", "held") == 3.0


# -- the tables ------------------------------------------------------------------------------------


def rows() -> dict[str, str]:
    page = (Path(__file__).resolve().parents[2] / "docs/blocks.md").read_text(encoding="utf-8")
    found = re.findall(r"^\| `(\w+)` \| (.*?) \|", page, re.M)
    assert len(found) == len(dict(found))
    return dict(found)


@pytest.mark.parametrize(
    "block",
    [b for b in vars(blocks).values() if inspect.isclass(b) and Block in b.__mro__[1:]],
    ids=lambda block: block.__name__,
)
def test_the_page_has_every_argument_and_its_default(block: type[Block]) -> None:
    row = rows()[block.__name__]
    parameters = dict(inspect.signature(block).parameters)
    if block is SampledPID:
        assert row.startswith("as `PID`")
        for name in inspect.signature(PID).parameters:
            del parameters[name]
    for name, parameter in parameters.items():
        default = str(parameter.default).strip("'")
        if parameter.default is inspect.Parameter.empty or name.endswith("unit"):
            assert f"`{name}`" in row
        else:
            shown = re.search(rf"`{name}=([^`]*)`", row)
            assert shown is not None, name
            assert shown[1].strip('"') == default
