"""Small examples of textbooks, each against the answer that is known.

Euler's method on a decay with too large a step; Nystrom's method for what it was made for; a
discrete clock that is held, and a discontinuous expression with and without an integrator behind
it (Ptolemaeus, System Design, Modeling, and Simulation using Ptolemy II, 2014, 9.3 and 9.4).
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from rtsim.blocks import Diagram, Integrator, PeriodicSampler, Waveform, ZeroOrderHold
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import Duration
from rtsim.equations.modal import Mode, Transition, modal
from rtsim.equations.model import Model
from rtsim.models import orbit
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.simulation import simulate
from rtsim.scenario.scenario import Scenario
from rtsim.solve import RK4, RKN4, Nystrom, NystromTableau


def flown(model: Model, until: Duration, step: Duration, solver: Any = "rk4") -> Recording:
    """As plant ``d``, with equations as they are written: they can count."""
    out, recorder = Scenario(model.name, until=until), MemoryRecorder()
    out.plant("d", model, step=step, solver=solver)
    simulate(out, recorder=recorder, compile=False)
    return recorder.recording()


# -- stability ------------------------------------------------------------------------------------


def decay(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = -x[0]


DECAY = Model("decay", Signals("x = 1"), decay)


def test_euler_with_three_times_the_time_constant_doubles_and_changes_its_sign() -> None:
    """x(18) is 1.5e-8; each step multiplies by 1 - 3."""
    assert flown(DECAY, 18, 3, "euler")["d.x"].tolist() == [1, -2, 4, -8, 16, -32, 64]
    assert math.exp(-18) == pytest.approx(0.000000015, abs=5e-10)


@pytest.mark.parametrize(
    ("solver", "order", "last_stable", "first_unstable"),
    [("euler", 1, "199/100", "201/100"), ("rk4", 4, "278/100", "279/100")],
)
def test_each_step_of_a_decay_multiplies_by_the_stability_function(
    solver: str, order: int, last_stable: Duration, first_unstable: Duration
) -> None:
    """The Taylor polynomial of exp(-h): within 1 up to h = 2 with Euler, to 2.785 with RK4."""

    def factor(step: Duration) -> float:
        h = float(Fraction(step))
        return sum((-h) ** k / math.factorial(k) for k in range(order + 1))

    for step in (last_stable, first_unstable):
        x = flown(DECAY, 10 * Fraction(step), step, solver)["d.x"]
        assert x == pytest.approx(factor(step) ** np.arange(11), rel=1e-9)
    assert abs(factor(last_stable)) < 1.0 < abs(factor(first_unstable))


# -- second-order systems --------------------------------------------------------------------------

HALF, SIXTH = Fraction(1, 2), Fraction(1, 6)
WITHOUT_RATES = Nystrom(
    NystromTableau(
        name="rkn4-q", order=4,
        abar=((), (Fraction(1, 8),), (Fraction(0), HALF)),
        a=((), (HALF,), (Fraction(0), Fraction(1))),
        bbar=(SIXTH, Fraction(1, 3), Fraction(0)),
        b=(SIXTH, Fraction(2, 3), SIXTH),
        c=(Fraction(0), HALF, Fraction(1)),
        source="RKN4 for q'' = f(t, q): its second and third stage are one",
    )
)  # fmt: skip


def around(solver: Any, step: Duration) -> tuple[float, int]:
    """How far from its start the moon is after one turn, and the evaluations of its pull."""
    count = -1  # the model is tried out once before the run
    derivative: Any = orbit.ORBIT.derivative

    def counted(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
        nonlocal count
        count += 1
        derivative(t, x, z, u, p, dx)

    rows = flown(replace(orbit.ORBIT, derivative=counted), 30, step, solver).track("d").rows.floats
    return math.dist(rows[0, :2], rows[-1, :2]), count


def test_nystroms_method_takes_three_evaluations_where_the_rate_is_not_asked_for() -> None:
    """The pull depends on the place alone, and stages two and three stand at the same place."""
    whole, evaluations = around(RKN4, "1/2")
    alike, fewer = around(WITHOUT_RATES, "1/2")
    assert whole == pytest.approx(3.55e-5, rel=0.01)
    assert alike == pytest.approx(whole, rel=1e-9)
    assert (evaluations, fewer) == (4 * 60, 3 * 60)


def test_for_as_many_evaluations_nystroms_method_is_nearer_than_runge_and_kuttas() -> None:
    """240 each: 80 steps of three, 60 of four."""
    nystrom, runge_kutta = around(WITHOUT_RATES, "3/8"), around(RK4, "1/2")
    assert nystrom[1] == runge_kutta[1] == 240
    assert nystrom[0] < runge_kutta[0] / 2


# -- discontinuous signals -------------------------------------------------------------------------


def test_a_discrete_clock_of_several_values_is_held() -> None:
    """Events of 1, -1 and 3 in turn, each s; held, they are piecewise continuous (9.4)."""
    values = [1.0, -1.0, 3.0]
    d = Diagram("clock")
    d.add("values", Waveform(values, step=1))
    d.add("clock", PeriodicSampler(1), "values")
    d.add("hold", ZeroOrderHold(), "clock")
    d.add("area", Integrator(), "hold")
    held = flown(d.model(), 9, "1/4")
    for k in range(1, 9):
        before, after = held.at(k, "-")["d.hold"], held.at(k, "+")["d.hold"]
        assert (before, after) == (values[(k - 1) % 3], values[k % 3])
        assert held.at(k + Fraction(1, 4), "-")["d.hold"] == after
    assert held["d.area"][-1] == pytest.approx(3 * sum(values), abs=1e-12)


def jumping(right: bool, integrated: bool) -> tuple[Model, list[int]]:
    """``first`` rises by 1/s; ``second`` is first + 1 where that is above 1, else 0 (9.3, 9.10).

    ``integrated``: a second integrator is behind it.  And a list that is as long as evaluations.
    """
    calls: list[int] = []

    def rate(second: float, dx: Vector) -> None:
        calls.append(1)
        dx[0] = 1.0
        if integrated:
            dx[1] = second

    def wrong(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
        rate(x[0] + 1.0 if x[0] > 1.0 else 0.0, dx)

    def zero(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
        rate(0.0, dx)

    def increment(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
        rate(x[0] + 1.0, dx)

    def nothing(t: float, x: Vector, z: Vector, u: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
        y[0] = 0.0

    def incremented(t: float, x: Vector, z: Vector, u: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
        y[0] = x[0] + 1.0

    def above(t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> float:  # noqa: ARG001
        return float(x[0] - 1.0)

    states = Signals(*("first", "third")[: 1 + integrated])
    if not right:
        return Model("wrong", states, wrong), calls
    modes = [
        Mode("zero", zero, (Transition("rises", above, to="increment", direction=1),), nothing),
        Mode("increment", increment, output=incremented),
    ]
    return modal("right", states, modes=modes, outputs=Signals("second")), calls


def test_an_integrator_more_makes_other_steps_and_no_other_jump() -> None:
    """Written as an expression, the integrator behind it is what makes the solver look closer."""
    taken = {}
    for integrated in (True, False):
        model, calls = jumping(right=False, integrated=integrated)
        flown(model, 2, 2, "dp54")
        taken[integrated] = len(calls)
    assert taken[True] > 3 * taken[False]
    for integrated in (True, False):
        model, calls = jumping(right=True, integrated=integrated)
        recording = flown(model, 2, 2, "dp54")
        (event,) = recording.events
        at = Fraction(event.tag.ns, 10**9)
        assert event.tag.ns in (10**9, 10**9 + 1), "with it and without it"
        assert recording.at(at, "-")["d.second"] == 0.0
        assert recording.at(at, "+")["d.second"] == pytest.approx(2.0, abs=2e-9)
        assert recording["d.first"][-1] == pytest.approx(2.0, abs=1e-12)
        if integrated:
            assert recording["d.third"][-1] == pytest.approx(2.5, abs=3e-9)
