"""A perturbation of any part at any tag is found at that tag and in that part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from semantics_parts import MS, U, X

from rtsim.components.controller import PythonController
from rtsim.components.latency import Fixed
from rtsim.core.signals import Signals
from rtsim.equations.model import Model
from rtsim.runs.diverging import diverge
from rtsim.scenario.scenario import Scenario
from rtsim.testing.determinism import trace_of

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
        times = PLAIN.time(part)
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
