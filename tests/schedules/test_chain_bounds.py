"""Bounds of data age and reaction time: no run exceeds them, and reasons where there are none."""

from __future__ import annotations

import random
from typing import Any

import pytest
from chain_parts import MS, Body, Drive, Pass, controller_of

import rtsim as rt
from rtsim.components import TimeDivision, WirelessChannel
from rtsim.components.can_bus import CanBus
from rtsim.components.latency import Duplicate, Fixed, Gamma, Loss, Reorder, Uniform
from rtsim.record.ages import ages
from rtsim.requirements.chains import Chain
from rtsim.scenario.scenario import Scenario
from rtsim.schedules.chains import ChainBound, ChainRow, chain_bound
from rtsim.schedules.table import schedule_table


def row(loop: Scenario, *, seed: int = 0, simulated: bool = True) -> ChainRow:
    (found,) = schedule_table(loop, seed=seed, simulated=simulated).chains
    return found


def bound(loop: Scenario) -> ChainBound:
    return row(loop, simulated=False).bound


def loop_of(sensor: dict[str, Any] | None = None, **options: Any) -> Scenario:
    """Return a sensor and a controller with the chain from one to the other."""
    loop = Scenario("simple", until=1)
    loop.plant("body", Body(), step=0.1, inputs={"u": "pilot.u"})
    loop.sensor("sensor", {"y": "body.x"}, **{"period": 0.01, "transport": 0.002, **(sensor or {})})
    loop.controller("pilot", Drive(), inputs={"y": "sensor.y"}, **{"period": 0.02, **options})
    loop.chain("drive", ["sensor.y", "pilot.u", "body.u"])
    return loop


def test_the_bound_is_the_sum_of_periods_responses_and_transports() -> None:
    found = bound(loop_of(compute=Uniform(0.001, 0.005), transport=0.003))
    assert [tuple(term) for term in found.terms] == [
        ("sensor", 10 * MS, 0, 2 * MS), ("pilot", 20 * MS, 5 * MS, 3 * MS),
    ]  # fmt: skip
    assert found.ns == 40 * MS


def test_a_run_reaches_the_bound_if_samples_and_messages_meet() -> None:
    """The sample at 20 ms arrives just after the tick at 20 ms, without any latency."""
    loop = loop_of({"period": 0.02, "transport": 0}, period=0.005, compute=0.001)
    found = row(loop)
    assert found.ages is not None
    assert found.ages.worst_age is not None
    assert found.ages.worst_reaction is not None
    assert found.bound.ns == found.ages.worst_age.ns == found.ages.worst_reaction.ns == 26 * MS


def test_a_triggered_stage_adds_no_period() -> None:
    loop = Scenario("triggered", until=1)
    loop.plant("body", Body(), step=0.1, inputs={"u": "pilot.u"})
    loop.sensor("sensor", {"y": "body.x"}, period=0.01, transport=Uniform(0, 0.003))
    loop.controller("filter", Pass(), on="sensor", inputs={"y": "sensor.y"}, compute=0.004)
    loop.controller("pilot", Drive(), on="filter", inputs={"y": "filter.z"}, compute=0.005)
    loop.chain("drive", ["sensor.y", "filter.z", "pilot.u", "body.u"])
    found = row(loop)
    assert found.bound.ns == (10 + 3 + 4 + 5) * MS
    assert found.ages is not None
    assert 20 * MS < found.ages.reaction_so_far <= 22 * MS


def test_worst_responses_of_a_processor_are_part_of_the_bound() -> None:
    loop = loop_of({"transport": 0}, processor="mcu", execution=0.004, priority=2)
    loop.processor("mcu")
    loop.task("radio", "mcu", period=0.01, execution=0.003, priority=1)
    found = row(loop)
    assert found.bound.terms[1] == ("pilot", 20 * MS, 7 * MS, 0)
    assert found.ages is not None
    assert found.ages.worst_age is not None
    assert found.ages.worst_age.ns <= (10 + 20 + 7) * MS


def test_the_worst_latency_of_a_can_frame_is_part_of_the_bound() -> None:
    bus = CanBus(500_000)
    loop = loop_of({"transport": bus.frame(0x100, length=8)})
    loop.sensor("other", {"y": "body.x"}, period=0.005, transport=bus.frame(0x50, length=8))
    found = row(loop)
    assert found.bound.terms[0] == ("sensor", 10 * MS, 0, 534_000)  # 135 + 132 bits
    assert found.ages is not None
    assert 0 < found.ages.reaction_so_far <= (found.bound.ns or 0)


def test_the_worst_latency_of_a_time_slot_is_part_of_the_bound() -> None:
    """A frame that just missed its slot waits for a cycle of 5 ms, and takes 1 us and 168 bits."""
    bus = TimeDivision.flexray(cycle=0.005, slot=50e-6, count=60)
    loop = loop_of({"period": "0.0097", "transport": bus.frame(slot=3, length=8)})
    found = row(loop)
    assert found.ages is not None
    assert found.bound.terms[0].transport == 5 * MS + 1_000 + 16_800
    assert 0 < found.ages.reaction_so_far <= (found.bound.ns or 0)


REASONS: list[tuple[Any, str]] = [
    (lambda: loop_of(compute=0.021), "pilot can miss ticks"),
    (lambda: loop_of(compute=Gamma(2, 0.001)), "compute latency of pilot has no limit"),
    (lambda: loop_of({"transport": Gamma(2, 0.001)}), "transport latency of sensor has no limit"),
    (lambda: loop_of({"transport": Loss(Fixed(0), 0.1)}), "messages of sensor can be lost"),
    (lambda: loop_of({"transport": Reorder(Fixed(0), 0.1, 1)}), "sensor can overtake"),
    (lambda: loop_of({"transport": Duplicate(Fixed(0), 0.1)}), "sensor can arrive twice"),
    (lambda: loop_of(period=None, on="sensor", compute=0.011), "pilot can miss a trigger"),
    (lambda: faulty(), "faults"),
    (lambda: on_a_full_processor("finish"), "response time of pilot is not known: the load"),
    (lambda: on_a_processor("skip"), "pilot can miss its deadline"),
    (lambda: on_a_can_bus(), "sensor on can is not known: the time at which pilot sends varies"),
    (lambda: loop_of({"transport": WirelessChannel(name="air").frame(length=8)}),
     "sensor on air is not known: rtsim has no analysis"),
]  # fmt: skip


def faulty() -> Scenario:
    loop = loop_of()
    loop.faults({"name": "drop", "kind": "drop", "where": "sensor", "at": 0.1})
    return loop


def on_a_processor(missed: str, execution: float = 0.004, radio: float = 0.003) -> Scenario:
    loop = loop_of(processor="mcu", execution=execution, deadline=0.005, missed=missed, priority=2)
    loop.processor("mcu")
    loop.task("radio", "mcu", period=0.01, execution=radio, priority=1)
    return loop


def on_a_full_processor(missed: str) -> Scenario:
    return on_a_processor(missed, 0.015, 0.006)


def on_a_can_bus() -> Scenario:
    bus = CanBus(500_000)
    return loop_of(
        {"transport": bus.frame(0x100)},
        compute=Uniform(0.001, 0.002), transport=bus.frame(0x101),
    )  # fmt: skip


@pytest.mark.parametrize(("make", "reason"), REASONS, ids=[reason for _, reason in REASONS])
def test_an_assumption_that_fails_gives_a_reason_instead_of_a_bound(make: Any, reason: str) -> None:
    found = bound(make())
    assert found.ns is None
    assert reason in found.reason


def test_a_stage_that_another_topic_triggers_has_no_bound() -> None:
    loop = loop_of(period=None, on="clock")
    loop.sensor("clock", {"y": "body.x"}, period=0.01)
    assert "pilot reads sensor, but is triggered by clock" in bound(loop).reason


def random_chain(seed: int) -> Scenario:
    """Return a chain of a sensor and one to three controllers, most of them on a processor."""
    rng = random.Random(seed)
    policy = rng.choice(["fixed", "rm", "edf", "cooperative", "let"])
    loop = Scenario("random", until=rng.choice([0.7, 1.1]))
    loop.processor("mcu", policy=policy)
    loop.plant("body", Body(), step=0.1, inputs={"u": "last.u"})
    jitter = Uniform(0, rng.uniform(0, 0.003)) if policy in ("fixed", "rm") else Fixed(0)
    loop.sensor(
        "sensor", {"y": "body.x"}, period=rng.choice([0.005, 0.01, 0.013]),
        offset=rng.uniform(0, 0.01), transport=Uniform(0, rng.uniform(0, 0.02)),
    )  # fmt: skip
    signal, elements = "sensor.y", ["sensor.y"]
    names = [*"ab"[: rng.randint(0, 2)], "last"]
    for k, name in enumerate(names):
        period = rng.choice([0.01, 0.015, 0.02, 0.04])
        options: dict[str, Any] = {"period": period, "offset": rng.uniform(0, 0.02)}
        if rng.random() < 0.7:
            longest = period * rng.uniform(0.05, 0.9 / len(names))
            options |= {
                "processor": "mcu", "execution": Uniform(longest / 2, longest), "jitter": jitter,
            }  # fmt: skip
        elif rng.random() < 0.4:
            options = {"on": signal.partition(".")[0], "compute": Uniform(0, 0.001)}
        else:
            options["compute"] = Uniform(0, period)
        loop.controller(
            name, controller_of(name), inputs={"y": signal}, priority=k, **options,
            transport=rng.choice([Uniform(0, 0), Uniform(0, 0.01)]),
        )  # fmt: skip
        signal = f"{name}.{'u' if name == 'last' else 'z'}"
        elements.append(signal)
    period = rng.choice([0.004, 0.03])
    loop.task("other", "mcu", period=period, execution=0.1 * period, priority=rng.randint(-1, 4))
    loop.chain("random", [*elements, "body.u"])
    return loop


@pytest.mark.sample(1)
@pytest.mark.parametrize("first", range(0, 100, 20))
def test_no_run_exceeds_its_bound(first: int) -> None:
    known = 0
    nearest = 0.0
    for seed in range(first, first + 20):
        loop = random_chain(seed)
        system = loop.build(compile=False)
        system.close()
        found = chain_bound(loop, loop.chains[0], system.processors)
        if found.ns is None:
            continue
        recording = rt.simulate(loop, seed=seed, compile=False).recording()
        one = ages(recording, loop.chains[0].elements)
        assert one.worst_age is not None
        assert one.worst_age.ns <= found.ns, (seed, found)
        assert one.reaction_so_far <= found.ns, (seed, found)
        nearest = max(nearest, one.reaction_so_far / found.ns)
        known += 1
    assert known >= 10
    assert nearest > 0.8


def test_a_chain_needs_no_processor_to_have_a_bound() -> None:
    table = schedule_table(loop_of(), simulated=False)
    assert table.processors == ()
    assert table.to_json()["chains"][0]["bound_s"] == 0.032
    assert table.chains[0].bound.chain == Chain("drive", ("sensor.y", "pilot.u", "body.u"))
