"""A plant and controllers for chains of messages, and an evaluator that is a loop over events."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import rtsim as rt
from rtsim.components.latency import Duplicate, Fixed, LatencyModel, Loss, Reorder, Uniform
from rtsim.record.reading import Recording
from rtsim.scenario.scenario import Scenario

MS = 1_000_000


class Body(rt.Plant):
    x = rt.state("m")
    u = rt.input("m/s")

    def derivative(self, d: Any) -> None:
        d.x = self.u


class Pass(rt.Controller):
    """Sends its input on."""

    y = rt.input("m")
    z = rt.output("m")

    def step(self) -> None:
        self.z = self.y


class Drive(rt.Controller):
    y = rt.input("m")
    u = rt.output("m/s")

    def step(self) -> None:
        self.u = -self.y


def controller_of(name: str) -> Any:
    """Return the last controller of a chain for the name ``last``, and otherwise another one."""
    return Drive() if name == "last" else Pass()


def run(loop: Scenario, seed: int = 0) -> Recording:
    return rt.simulate(loop, seed=seed, compile=False).recording()


def random_latency(rng: random.Random) -> LatencyModel:
    plain: list[LatencyModel] = [
        Fixed(0), Fixed(f"0.00{rng.randint(1, 9)}"), Uniform(0, rng.uniform(0.001, 0.02)),
    ]  # fmt: skip
    inner = rng.choice(plain)
    decorated: list[LatencyModel] = [
        inner, inner, Loss(inner, 0.3), Reorder(inner, 0.3, "0.015"),
        Duplicate(inner, 0.3, "0.007"),
    ]  # fmt: skip
    return rng.choice(decorated)


def random_loop(seed: int) -> tuple[Scenario, list[str]]:
    """Return a chain of one to three controllers with random periods and latencies."""
    rng = random.Random(seed)
    loop = Scenario("random", until="0.3")
    loop.plant("body", Body(), step=0.05, inputs={"u": "last.u"})
    signal, elements = "body.x", ["body.x"]
    if rng.random() < 0.7:
        loop.sensor(
            "sensor", {"y": "body.x"}, period=f"0.0{rng.randint(10, 40)}",
            offset=f"0.00{rng.randint(0, 9)}", transport=random_latency(rng),
        )  # fmt: skip
        signal = "sensor.y"
        elements.append(signal)
    names = [*"ab"[: rng.randint(0, 2)], "last"]
    for k, name in enumerate(names):
        last = name == "last"
        triggered = rng.random() < 0.3 and signal != "body.x"
        when: dict[str, Any] = {"on": signal.partition(".")[0]}
        if not triggered:
            when = {"period": f"0.0{rng.randint(10, 40)}", "offset": f"0.00{rng.randint(0, 9)}"}
        loop.controller(
            name, controller_of(name), inputs={"y": signal}, **when,
            compute=rng.choice([Uniform(0, 0), Uniform(0, rng.uniform(0.001, 0.03))]),
            transport=random_latency(rng), priority=k,
        )  # fmt: skip
        signal = f"{name}.{'u' if last else 'z'}"
        elements.append(signal)
    if rng.random() < 0.5 and len(names) > 1:
        loop.order(*names)
    return loop, [*elements, "body.u"]


Tag = tuple[int, int]
Value = tuple[int, int, int]
"""Sample, start and end of a value at the end of a chain, ns."""


def by_hand(
    recording: Recording, stages: Sequence[str], order: bool
) -> tuple[list[Value], list[int]]:
    """Return the values at the end of the chain, and all reaction times, from a loop over events.

    ``order`` is True if the controllers have a declared order.
    """
    events: list[tuple[Tag, int, int, int, int, int]] = []
    rows: list[list[dict[str, int]]] = []
    for k, stage in enumerate(stages):
        track = recording.track(f"messages/{stage}")
        columns = {name: track.integer(name).tolist() for name in track.integers}
        rows.append(
            [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        )
        for i, row in enumerate(rows[-1]):
            sample = row["initiated"], row["initiated_step"]
            events.append((sample, 1, k, 0, 0, i))
            if row["status"] != 1:
                arrival = row["arrival"], row["arrival_step"]
                if arrival == sample and not order:
                    arrival = arrival[0], arrival[1] + 1
                copy = int(row["status"] == 2)
                events.append((arrival, 0 if arrival != sample else 2, k, row["sequence"], copy, i))
    port: list[Tag | None] = [None] * len(stages)
    origin: dict[tuple[int, int], Tag | None] = {}
    end = recording.span_ns[1]
    values: list[tuple[Tag | None, int]] = []
    samples = sorted({(r["initiated"], r["initiated_step"]) for r in rows[0]})
    # At one tag, the order of a declared order is that of the stages: sample, answer, sample.
    for tag, what, k, _, _, i in sorted(events, key=lambda e: (e[0], e[1] > 0, e[2], e[1], *e[3:])):
        if what == 1:
            origin[k, i] = tag if k == 0 else port[k - 1]
        else:
            port[k] = origin[k, i]
            if k == len(stages) - 1 and tag[0] <= end:
                values.append((port[k], tag[0]))
    closed = [*values[1:], (None, end)]
    found = [
        (of[0], begin, until)
        for (of, begin), (_, until) in zip(values, closed, strict=True)
        if of is not None
    ]
    reactions = []
    for sample in samples:
        later = [begin for of, begin in values if of is not None and of > sample]
        if later:
            reactions.append(min(later) - sample[0])
    return found, reactions
