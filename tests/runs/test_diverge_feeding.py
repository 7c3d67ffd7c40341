"""What fed the place where two runs part: state, inputs and parameters, by their names.

A perturbation of any part at any tag is found at that tag and in that part.

Two values side by side, and two states: every bit counts, and is shown.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from diverge_parts import (
    named,
    parted,
)
from hypothesis import example, given, settings
from hypothesis import strategies as st
from semantics_parts import MS, U, X

from rtsim.components.controller import PythonController
from rtsim.components.latency import Fixed
from rtsim.core.random_streams import RandomStreams
from rtsim.core.signals import Signal, Signals
from rtsim.core.tag import Tag
from rtsim.equations.model import Model
from rtsim.runs.diverging import Verdict, diverge
from rtsim.runs.diverging.first import Value, ValuePair, drawn, first_apart, in_full, parting, same
from rtsim.scenario.scenario import Scenario
from rtsim.testing.determinism import trace_of


def turning(state: float, shown: float, gain: float = 1.0) -> Scenario:
    """Vectors everywhere; a state, or an output alone, goes astray behind 0.042 s."""

    def fly(t: float, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
        dx[0], dx[1] = p[0] * u[1], p[1] * u[0] + (state if t > 0.042 else 0.0)

    def show(t: float, x: Any, z: Any, u: Any, p: Any, y: Any) -> None:  # noqa: ARG001
        y[0] = x[0] + x[1] + (shown if t > 0.042 else 0.0)

    def steer(t: float, u: Any, s: Any, p: Any, y: Any) -> None:  # noqa: ARG001
        y[0], y[1] = -u[0], p[0] * u[1]

    pair = Signal("w", shape=(2,))
    model = Model(
        "turning", Signals(Signal("q", shape=(2,), initial=(1.0, 0.5))), fly, inputs=Signals(pair),
        outputs=Signals("sum [1]"), output=show, parameters=Signals(Signal("k", shape=(2,))),
    )  # fmt: skip
    law = PythonController(
        steer, Signals(pair), Signals(pair), parameters=Signals("gain [1]"), values={"gain": gain}
    )
    out = Scenario("turning", until="0.1")
    out.plant("p", model, step=0.01, inputs={"w": "c.w"}, parameters={"k": (0.5, 0.25)})
    out.controller("c", law, period=0.02, inputs={"w": "p.q"})
    return out


def fed_by(verdict: Verdict) -> dict[str, tuple[Any, Any, str]]:
    assert verdict.fed is not None
    return {pair.name: (pair.a, pair.b, pair.source) for pair in verdict.fed.inputs}


def test_a_step_was_fed_by_state_inputs_and_parameters() -> None:
    verdict = parted(turning(0.0, 0.0), turning(1e-9, 0.0))
    assert named(verdict) == (Tag(50 * MS), "plant", "p", "x-")
    assert [pair.name for pair in verdict.place.pairs] == ["q_1", "sum"]
    fed = fed_by(verdict)
    assert list(fed) == ["p.q_0", "p.q_1", "p.w_0", "p.w_1", "p.sum", "p.k_0", "p.k_1"]
    assert fed["p.w_1"][2] == "c.w"
    assert fed["p.k_1"] == (0.25, 0.25, "parameter")
    assert verdict.fed.at.ns == 40 * MS
    assert verdict.fed.equal


def test_an_output_was_fed_by_the_state_of_its_own_tag() -> None:
    verdict = parted(turning(0.0, 0.0), turning(0.0, 1e-9))
    assert named(verdict) == (Tag(50 * MS), "plant", "p", "x-")
    assert [pair.name for pair in verdict.place.pairs] == ["sum"]
    assert verdict.fed.how == "the outputs of p, computed from its state at 0.050000000 s"
    assert list(fed_by(verdict)) == ["p.q_0", "p.q_1", "p.w_0", "p.w_1", "p.k_0", "p.k_1"]


def test_what_a_parameter_did_is_seen_in_what_fed_it() -> None:
    verdict = parted(turning(0.0, 0.0), turning(0.0, 0.0, gain=1.5))
    assert named(verdict) == (Tag(0), "message", "c", "content")
    assert fed_by(verdict) == {
        "c.w_0": (1.0, 1.0, "p.q"),
        "c.w_1": (0.5, 0.5, "p.q"),
        "c.gain": (1.0, 1.5, "parameter"),
    }
    assert not verdict.fed.equal


STEP, TICK, SAMPLE, UPDATE = 4, 10, 6, 14
"""ms: of the plants, the controller, the sensor, and the plant's discrete part."""
USED = 90
"""ms: behind it the memory that nobody sees is used."""
UNTIL = 120


@dataclass(frozen=True)
class Bump:
    """``part`` does something else from its ``k``-th tick on; a plant behind the middle of a step.

    Both count from 0.
    """

    part: str = ""
    k: int = -1

    def now(self, part: str, t: float, period: int) -> float:
        late = t > (self.k + 0.5) * period / 1000 if part in MOVING else t > self._tick(period)
        return 1e-9 if part == self.part and late else 0.0

    def _tick(self, period: int) -> float:
        return self.k * period / 1000 - 1e-6


MOVING = ("plant", "bystander")
PERIODS = {
    "plant": STEP, "bystander": STEP, "discrete": UPDATE, "controller": TICK, "memory": TICK,
    "link": SAMPLE,
}  # fmt: skip


class Link:
    """Loses one message."""

    ordered = True

    def __init__(self, bump: Bump) -> None:
        self._left = bump.k if bump.part == "link" else -1

    def delays(self, stream: Any, size_bytes: int) -> tuple[int, ...]:  # noqa: ARG002
        self._left -= 1
        return () if self._left == -1 else (MS,)


def bumped(bump: Bump) -> Scenario:
    """A loop with a plant that has a discrete part, a sensor, a controller; and a bystander."""

    def fly(t: float, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
        dx[0] = u[0] - x[0] + z[0] + bump.now("plant", t, STEP)

    def stay(t: float, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
        dx[0] = -x[0] + bump.now("bystander", t, STEP)

    def update(t: float, x: Any, z: Any, u: Any, p: Any) -> None:  # noqa: ARG001
        z[0] = 0.5 * x[0] + bump.now("discrete", t, UPDATE)

    def step(t: float, u: Any, s: Any, p: Any, y: Any) -> None:  # noqa: ARG001
        s[0] += bump.now("memory", t, TICK)
        y[0] = -u[0] + bump.now("controller", t, TICK)
        if t > USED / 1000 + 1e-6:
            y[0] += s[0]

    out = Scenario("bumped", until=f"{UNTIL}/1000")
    moving = Model("plant", X, fly, inputs=U, discrete=Signals("z [1]"), update=update)
    inputs = {"u": "controller.y"}
    out.plant(
        "plant", moving, step="0.004", update_period="0.014", inputs=inputs, states={"x": 1.0}
    )
    out.plant("bystander", Model("bystander", X, stay), step="0.004", states={"x": 1.0})
    out.sensor("sensor", {"x": "plant.x"}, period="0.006", transport=Link(bump))
    law = PythonController(step, U, Signals("y [1]"), memory=Signals("s [1]"))
    out.controller(
        "controller", law, period="0.01", inputs={"u": "sensor.x"}, transport=Fixed("0.003")
    )
    return out


PLAIN = trace_of(bumped(Bump()), compile=False)


def expected(bump: Bump) -> tuple[int, str, str, str]:
    """Tag (ns), what, name and moment: from the periods, and of a step from where it was cut."""
    part, at = bump.part, bump.k * PERIODS[bump.part] * MS
    if part in MOVING:
        times = PLAIN.track(part).ns
        return int(times[times > at + STEP * MS // 2][0]), "plant", part, "x-"
    if part == "memory" and at <= USED * MS:
        return at, "memory", "controller", "state"
    name = {"discrete": "plant", "memory": "controller", "link": "sensor"}.get(part, part)
    how = {"discrete": ("plant", "x+"), "link": ("message", "on its way")}
    what, moment = how.get(part, ("message", "content"))
    return at, what, name, moment


def bumps() -> st.SearchStrategy[Bump]:
    parts = st.sampled_from(sorted(PERIODS))
    return parts.flatmap(
        lambda part: st.builds(
            Bump, st.just(part), st.integers(0, UNTIL // PERIODS[part] - (part in MOVING))
        )
    )


@pytest.mark.long
@settings(max_examples=40)
@given(bump=bumps(), again=st.booleans())
@example(bump=Bump("memory", 0), again=False)
@example(bump=Bump("memory", 9), again=False)
@example(bump=Bump("memory", 10), again=False)
@example(bump=Bump("discrete", 0), again=True)
@example(bump=Bump("bystander", 29), again=True)
@example(bump=Bump("link", 20), again=False)
def test_a_perturbation_is_found_where_it_is(bump: Bump, again: bool) -> None:
    """``again``: as a recording and what its scenario does now, whose memory nobody saved."""
    plain, other = bumped(Bump()), bumped(bump)
    if again:
        verdict = diverge(PLAIN, scenarios=(other, None))
    else:
        verdict = diverge(PLAIN, trace_of(other, compile=False), scenarios=(plain, other))
    place = verdict.place
    if again and bump.part == "memory":
        seen = verdict.visible or place
        assert seen is not None
        assert (seen.tag.ns, seen.name) == (max(bump.k, 10) * TICK * MS, "controller")
        return
    assert place is not None
    assert (place.tag.ns, place.what, place.name, place.moment) == expected(bump)
    assert verdict.agreed is None or verdict.agreed < place.tag
    assert verdict.fed is not None
    assert verdict.fed.equal


OTHER_NAN: float = struct.unpack("<d", struct.pack("<Q", 0x7FF8000000000001))[0]


@pytest.mark.parametrize(
    ("a", "b", "equal", "apart"),
    [
        (1.0, 1.0, True, ""),
        (0.0, -0.0, False, "0.0 and -0.0"),
        (1.0, math.nextafter(1.0, 2), False, "1 ulp apart"),
        (-5e-324, 5e-324, False, "2 ulp apart"),
        (1.0, 1.5, False, "0.5 apart"),
        (math.nan, math.nan, True, ""),
        (math.nan, OTHER_NAN, False, ""),
        (math.inf, 1.0, False, ""),
        (1, 1.0, False, ""),
        ("a", "b", False, ""),
        (None, 1.0, False, ""),
    ],
)
def test_a_pair_is_equal_bit_for_bit(a: Value, b: Value, equal: bool, apart: str) -> None:
    pair = ValuePair("x", a, b)
    assert (same(a, b), pair.equal, pair.apart) == (equal, equal, apart)
    told = pair.to_json()
    assert told["equal"] == equal
    assert ("a_bits" in told) == isinstance(a, float)


def test_a_value_in_full_leaves_no_bit_open() -> None:
    assert in_full(0.1) == "0.1 (0x3fb999999999999a)"
    assert in_full(OTHER_NAN) == "nan (0x7ff8000000000001)"
    assert in_full(7) == "7"
    assert in_full(None) == "not known"


def state(**parts: Any) -> dict[str, Any]:
    return {"streams": {"seed": 0, "streams": {}}, "inserted": [1], **parts}


@pytest.mark.parametrize(
    ("a", "b", "names"),
    [
        ({"x": [1.0, 2.0]}, {"x": [1.0, 2.5]}, ["plants.x[1]"]),
        ({"x": [1.0]}, {"x": [1.0, 2.5]}, ["plants.x"]),
        ({"x": 1.0}, {"x": 1}, ["plants.x"]),
        ({"x": None}, {"x": {"y": 1}}, ["plants.x"]),
        ({"x": np.array([1.0, math.nan])}, {"x": [1.0, math.nan]}, []),
        ({"x": {"known": False}}, {"x": {"steps": 3}}, []),
        ({"x": True}, {"x": False}, ["plants.x"]),
        ({"x": b"1"}, {"x": b"2"}, ["plants.x"]),
    ],
)
def test_where_two_states_part(a: Any, b: Any, names: list[str]) -> None:
    found = parting(state(plants=a), {**state(plants=b), "inserted": []})
    assert [pair.name for pair in found] == names
    assert parting(state(plants=a), state(plants=b), ["plants.x"]) == []


def test_what_is_known_to_differ_is_left_out_and_nothing_beside_it() -> None:
    a, b = state(plants={"x": [1.0], "xy": 1.0}), state(plants={"x": [2.0], "xy": 2.0})
    assert [pair.name for pair in parting(a, b, ["plants.x"])] == ["plants.xy"]


def test_how_far_a_stream_was_drawn() -> None:
    streams = RandomStreams(3)
    streams.stream("noise/gust")
    streams.stream("transport/s")
    before = {"streams": streams.save()}
    streams.stream("noise/gust").random(6)
    after = {"streams": streams.save()}
    assert drawn(before, after) == ["noise/gust"]
    [pair] = parting(before, after)
    assert (pair.a, pair.b) == ("0 words drawn", "6 words drawn")
    other = {"streams": RandomStreams(4).save()}
    assert [(p.name, p.a, p.b) for p in parting(before, other)] == [("streams", "seed 3", "seed 4")]


@pytest.mark.parametrize("count", [0, 1, 2, 7, 64])
def test_the_first_that_does_not_agree_is_found_by_bisection(count: int) -> None:
    for first in range(count + 1):
        asked: list[int] = []

        def agree(ns: int, first: int = first, asked: list[int] = asked) -> bool:
            asked.append(ns)
            return ns < 10 * first

        assert first_apart([10 * i for i in range(count)], agree) == first
        assert len(asked) <= math.ceil(math.log2(count + 1))
