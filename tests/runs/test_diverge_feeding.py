"""What fed the place where two runs part: state, inputs and parameters, by their names."""

from __future__ import annotations

from typing import Any

from diverge_parts import (
    named,
    parted,
)
from semantics_parts import MS

from rtsim.components.controller import PythonController
from rtsim.core.signals import Signal, Signals
from rtsim.core.tag import Tag
from rtsim.equations.model import Model
from rtsim.runs.diverging import Verdict
from rtsim.scenario.scenario import Scenario


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
