"""Step measures: closed forms of a second-order system, python-control, and each undecided case."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import rtsim as rt
from rtsim.core.errors import ScenarioError
from rtsim.core.outcome import Outcome
from rtsim.record.reading import Recording
from rtsim.requirements import Requirement, RequirementResult, check
from rtsim.requirements.formula import checked
from rtsim.requirements.language import Node
from rtsim.requirements.measures import Measured, Signals, measured
from rtsim.requirements.robustness import Evaluation, Pieces
from rtsim.studies import Overshoot, SettlingTime

S = 1_000_000_000
OMEGA = 2.0
STEP = "second.x, command.wanted"


class Second(rt.Plant):
    """A second-order system with the step response of textbooks."""

    x = rt.state("m")
    v = rt.state("m/s")
    wanted = rt.input("m")
    damping = rt.parameter("1", 0.4)

    def derivative(self, d: Any) -> None:
        d.x = self.v
        d.v = OMEGA * OMEGA * (self.wanted - self.x) - 2.0 * self.damping * OMEGA * self.v


def second(damping: float, *steps: tuple[float, float], until: float = 12.0) -> rt.Scenario:
    loop = rt.Scenario("second", until=until)
    plant = loop.plant(Second(damping=damping), step=0.01)
    command = loop.source("command", rt.Signals(rt.Signal("wanted", "m")))
    loop.connect(command.wanted, plant.wanted)
    for at, value in steps:
        loop.at(at, command.wanted, value)
    return loop


@pytest.fixture(scope="module")
def recording() -> Recording:
    return rt.simulate(second(0.4, (1.0, 2.0))).recording()


def verdict(recording: Recording, formula: str) -> RequirementResult:
    (found,) = check([Requirement("R", formula)], recording)
    return found


def value(recording: Recording, call: str, unit: str = "s") -> float:
    return -verdict(recording, f"{call} < 0 {unit}").robustness


# -- published results


@pytest.mark.parametrize("damping", [0.3, 0.7])
def test_measures_equal_the_closed_forms_of_a_second_order_system(damping: float) -> None:
    """y = 1 - exp(-zeta w t) sin(wd t + arccos(zeta)) / sqrt(1 - zeta^2), as in textbooks."""
    recording = rt.simulate(second(damping, (1.0, 2.0))).recording()
    root = math.sqrt(1.0 - damping**2)
    t = np.linspace(0.0, 11.0, 1_100_001)
    y = 1.0 - np.exp(-damping * OMEGA * t) / root * np.sin(OMEGA * root * t + math.acos(damping))
    rise = t[np.argmax(y >= 0.9)] - t[np.argmax(y >= 0.1)]
    settled = t[np.flatnonzero(np.abs(y - 1.0) > 0.02)[-1]]
    overshoot = 100.0 * math.exp(-math.pi * damping / root)
    assert value(recording, f"rise_time({STEP})") == pytest.approx(rise, abs=1e-4)
    assert value(recording, f"settling_time({STEP}, 2 %)") == pytest.approx(settled, abs=3e-4)
    assert value(recording, f"settling_time({STEP}, 0.04 m)") == pytest.approx(settled, abs=3e-4)
    peak = verdict(recording, f"overshoot({STEP}) < 1 %")
    assert peak.robustness == pytest.approx(1.0 - overshoot, abs=2e-3)
    assert peak.worst_ns == pytest.approx(S + S * math.pi / (OMEGA * root), abs=0.01 * S)
    error = 2.0 - 2.0 * y
    rms = math.sqrt(np.trapezoid(error**2, t) / 11.0)
    assert value(recording, f"rms_error({STEP}, after=1)", "m") == pytest.approx(rms, abs=5e-5)
    late = np.abs(error[t >= 9.0]).max()
    found = value(recording, f"steady_state_error({STEP}, 2 s)", "m")
    assert found == pytest.approx(late, abs=1e-6)
    assert value(recording, f"max_error({STEP})", "m") == 2.0


def test_measures_equal_those_of_python_control(recording: Recording) -> None:
    control = pytest.importorskip("control")
    t = np.linspace(0.0, 11.0, 110_001)
    plant = control.tf([OMEGA**2], [1.0, 2.0 * 0.4 * OMEGA, OMEGA**2])
    info = control.step_info(plant, T=t, SettlingTimeThreshold=0.05)
    assert value(recording, f"rise_time({STEP})") == pytest.approx(info["RiseTime"], abs=3e-4)
    settled = value(recording, f"settling_time({STEP}, 5 %)")
    assert settled == pytest.approx(info["SettlingTime"], abs=3e-4)
    assert value(recording, f"overshoot({STEP})", "%") == pytest.approx(info["Overshoot"], abs=2e-3)


def test_studies_use_the_same_definition(recording: Recording) -> None:
    track = recording.tracks["second"]
    after = track.ns >= S
    t, v = track.ns[after] / S, track.column("x")[after]
    settling = SettlingTime("second.x", target=2.0, band=0.1, after=1.0).begin()
    overshoot = Overshoot("second.x", target=2.0, after=1.0).begin()
    settling.take(t, v)
    overshoot.take(t, v)
    found = value(recording, f"settling_time({STEP}, 0.1 m)")
    assert found == pytest.approx(settling.value(), rel=1e-12)
    found = value(recording, "overshoot(second.x, 2 m, after=1 s)", "%")
    assert found == pytest.approx(100.0 * overshoot.value(), rel=1e-12)


def test_the_report_of_a_measure(recording: Recording) -> None:
    formula = f"settling_time({STEP}, 5 %) < 4 s"
    found = verdict(recording, formula)
    assert (found.outcome, found.exercised, found.note) == (Outcome.PASSED, 1, "")
    assert found.robustness == pytest.approx(0.1956, abs=1e-3)
    assert found.worst_ns == pytest.approx(5 * S - found.robustness * S, abs=2)
    assert found.worst == formula
    both = verdict(recording, f"{formula} and 30 % > overshoot({STEP})")
    assert both.robustness == pytest.approx(0.1956, abs=1e-3)
    assert verdict(recording, f"not {formula}").outcome is Outcome.FAILED


def test_a_copy_of_a_part_leaves_the_end_open(recording: Recording) -> None:
    copy = recording.up_to(6 * S)
    late = verdict(copy, f"settling_time({STEP}, 5 %) < 4.5 s")
    assert late.outcome is Outcome.UNDECIDED
    assert late.high == pytest.approx(0.6956, abs=1e-3)
    assert "the copy ends at 6 s, before the run" in late.reason
    assert verdict(copy, f"settling_time({STEP}, 5 %) < 3 s").outcome is Outcome.FAILED
    assert verdict(copy, f"overshoot({STEP}) < 30 %").outcome is Outcome.UNDECIDED
    assert verdict(copy, f"overshoot({STEP}) < 20 %").outcome is Outcome.FAILED
    assert verdict(copy, f"rise_time({STEP}) < 1 s").ok
    assert verdict(copy, f"max_error({STEP}) < 3 m").outcome is Outcome.UNDECIDED
    assert verdict(copy, f"max_error({STEP}) < 1 m").outcome is Outcome.FAILED
    for call in (f"rms_error({STEP})", f"steady_state_error({STEP}, 1 s)"):
        assert verdict(copy, f"{call} < 9 m").outcome is Outcome.UNDECIDED
    assert verdict(copy, f"rms_error({STEP}, before=5 s) < 9 m").ok


def test_a_step_after_the_end_of_a_copy_could_exercise_the_requirement(
    recording: Recording,
) -> None:
    early = verdict(recording.up_to(S // 2), f"settling_time({STEP}, 5 %) < 3 s")
    assert (early.outcome, early.is_exercised) == (Outcome.UNDECIDED, True)
    assert early.reason == "the copy ends at 0.5 s, before the run, so the formula is not decided"


def test_a_copy_without_the_beginning_has_no_step(recording: Recording) -> None:
    copy = recording.between(2, 12)
    found = verdict(copy, f"settling_time({STEP}, 5 %) < 4 s")
    assert (found.outcome, found.is_exercised) == (Outcome.UNDECIDED, False)


def test_a_continued_run_does_not_know_the_steps_before_it() -> None:
    with rt.Simulation(second(0.4, (1.0, 2.0), (8.0, 0.0))) as run:
        run.advance(7.0)
        checkpoint = run.save().checkpoint
    loop = second(0.4, (1.0, 2.0), (8.0, 0.0))
    continued = rt.simulate(loop, start=checkpoint).recording()
    assert verdict(continued, f"settling_time({STEP}, 5 %) < 4 s").outcome is Outcome.UNDECIDED
    assert verdict(continued, f"settling_time({STEP}, 5 %) < 1 s").outcome is Outcome.FAILED


# -- signals with few values

Points = Sequence[tuple[float, float]]


def measure(
    formula: str, x: Points, wanted: Points, end: float = 10.0, linear: bool = False,
    complete: bool = True, orders: Sequence[int] = (),
) -> Measured:  # fmt: skip
    """Return the truth of a comparison for signals with the given times (s) and values."""

    def pieces(points: Points, order: Sequence[int] = ()) -> Pieces:
        ns = [round(t * S) for t, _ in points]
        values = [v for _, v in points]
        after = list(order) or [0] * len(points)
        return Pieces.of(
            np.array([*ns, round(end * S) + 1], np.int64), np.array([*after, 0], np.int64),
            np.array([*values, math.nan]),
        )  # fmt: skip

    changed = [int(t > 0.0) for t, _ in wanted]  # as a source changes: after the plant's row
    signals = {"a.x": pieces(x, orders), "b.w": pieces(wanted, changed)}

    def values(node: Node) -> Pieces:
        return evaluation(node)[node]

    evaluation = Evaluation(lambda one: signals[one.name], 0, round(end * S))
    node = checked(formula, {"a.x": "m", "b.w": "m"}.__getitem__)
    run = Signals(values, lambda _: linear, 0, round(end * S), complete)
    return measured(node, lambda one: formula[one.at : one.end].strip(), run)


W = ((0.0, 0.0), (1.0, 1.0))
RAMP = ((0.0, 0.0), (1.0, 0.0), (3.0, 1.0), (10.0, 1.0))


def bounds(call: str, x: Points, wanted: Points = W, **how: Any) -> tuple[float, float]:
    """Return the lower and the upper bound of a measure."""
    unit = "%" if "overshoot" in call else ""
    low, high, *_ = measure(f"{call} > 0 {unit}", x, wanted, **how).truth
    return float(low), float(high)


def test_a_signal_of_a_plant_is_linear_and_any_other_is_held() -> None:
    assert bounds("rise_time(a.x, b.w)", RAMP, linear=True) == pytest.approx((1.6, 1.6))
    assert bounds("rise_time(a.x, b.w)", RAMP) == (0.0, 0.0)
    assert bounds("settling_time(a.x, b.w, 0.25)", RAMP, linear=True) == (1.5, 1.5)
    assert bounds("settling_time(a.x, b.w, 0.25)", RAMP) == (2.0, 2.0)
    assert bounds("rms_error(a.x, b.w)", RAMP, linear=True) == pytest.approx((15**-0.5,) * 2)
    assert bounds("rms_error(a.x, b.w)", RAMP) == pytest.approx((0.2**0.5,) * 2)
    error = "steady_state_error(a.x, b.w, 8 s)"
    assert bounds(error, RAMP, linear=True) == (0.5, 0.5)
    assert bounds(error, RAMP) == (1.0, 1.0)


def test_all_values_at_one_instant_count() -> None:
    spike = ((0.0, 0.0), (2.0, 1.0), (3.0, 1.5), (3.0, 1.0))
    assert bounds("overshoot(a.x, b.w)", spike, orders=[0, 0, 1, 3]) == (50.0, 50.0)
    assert bounds("settling_time(a.x, b.w, 10 %)", spike, orders=[0, 0, 1, 3]) == (2.0, 2.0)


def test_the_worst_of_several_steps_counts() -> None:
    x = ((0.0, 0.0), (2.0, 1.0), (5.0, -0.2), (8.0, 0.0))
    found = measure("overshoot(a.x, b.w) < 30 %", x, (*W, (4.0, 0.0)))
    assert (len(found.rows), found.truth.tolist()) == (2, [10.0, 10.0, 1.0, 1.0])
    assert found.worst(0) == 5 * S
    found = measure("settling_time(a.x, b.w, 0.1) < 3.5", x, (*W, (4.0, 0.0)))
    assert found.truth[0] == -0.5  # the first step is not decided and does not count
    assert len(found.rows) == 1


@pytest.mark.parametrize(
    ("formula", "wanted", "says"),
    [
        ("overshoot(a.x, b.w) < 9 %", ((0.0, 1.0),), "b.w has no step"),
        ("settling_time(a.x, b.w, 5 %) < 3 s", ((0.0, 0.0), *((t / 4, t) for t in range(1, 40))),
         ""),
        ("settling_time(a.x, b.w, 5 %) < 3 s", (*W, (2.0, 2.0), (4.0, 1.0)), ""),
        ("rise_time(a.x, b.w) < 3 s", ((0.0, 0.0), (0.5, 2.0), (5.0, 1.0)),
         "a.x was at the new value of b.w at each step"),
        ("rms_error(a.x, b.w, after=11) < 3", W,
         "the run ended before the first time of rms_error(a.x, b.w, after=11)"),
    ],
)  # fmt: skip
def test_what_is_not_exercised(formula: str, wanted: Points, says: str) -> None:
    x = ((0.0, 0.0), (3.0, 1.0))
    found = measure(formula, x, wanted)
    if says:
        assert found.none == says
    assert found.truth[2:].tolist() == [-1.0, 1.0]


@pytest.mark.parametrize(
    "call", ["overshoot(a.x, b.w{})", "rise_time(a.x, b.w{})", "settling_time(a.x, b.w, 5 %{})"]
)
def test_a_small_step_does_not_count(call: str) -> None:
    """The response to the step of 1 mm at 4 s is 10 mm beyond it; the step at 1 s has 1 m."""
    x = ((0.0, 0.0), (1.0, 0.0), (2.0, 1.0), (4.5, 1.01))
    wanted = (*W, (4.0, 1.001))
    limit = "< 9 %" if "overshoot" in call else "< 3 s"
    assert len(measure(f"{call.format('')} {limit}", x, wanted).rows) == 2
    found = measure(f"{call.format(', min_step=0.1 m')} {limit}", x, wanted)
    assert len(found.rows) == 1
    assert found.truth[2:].tolist() == [1.0, 1.0]
    none = measure(f"{call.format(', min_step=2 m')} {limit}", x, wanted)
    assert none.none == "each step from a.x to b.w is below 2 m"
    assert none.truth[2:].tolist() == [-1.0, 1.0]


def test_a_step_that_another_one_follows_too_early_does_not_count() -> None:
    steps = ((0.0, 0.0), (1.0, 1.0), (2.0, 2.0), (10.0, 1.0))
    found = measure("settling_time(a.x, b.w, 5 %) < 9 s", ((0.0, 0.0), (3.0, 1.0)), steps, 10.0)
    assert found.truth[2:].tolist() == [-1.0, 1.0]
    early = measure("rise_time(a.x, b.w) < 9 s", ((0.0, 0.0),), (*W, (2.0, 0.0)))
    assert early.none == "a.x was at the new value of b.w at each step"
    assert early.truth[2:].tolist() == [-1.0, 1.0]
    slow = ((0.0, 0.0), (1.2, 0.5))
    early = measure("rise_time(a.x, b.w) < 9 s", slow, (*W, (2.0, 0.5)))
    assert early.none == "a.x was at the new value of b.w at each step"
    early = measure("rise_time(a.x, b.w, before=2 s) < 9 s", slow, (*W, (1.5, 3.0)))
    assert early.undecided.startswith("the run ended 0.5 s after the step at 1.5 s, before")


@pytest.mark.parametrize(
    ("formula", "x", "truth"),
    [
        ("rise_time(a.x, b.w) < 8 s", ((0.0, 0.0), (2.0, 0.5)), (-math.inf, 0.0)),
        ("rise_time(a.x, b.w) < 7 s", ((0.0, 0.0), (2.0, 0.5)), (-math.inf, -1.0)),
        ("rise_time(a.x, b.w) < 7 s", ((0.0, 0.0),), (-math.inf, 7.0)),
        ("settling_time(a.x, b.w, 5 %) < 9.5 s", ((0.0, 0.0), (2.0, 1.0)), (-math.inf, 8.5)),
        ("settling_time(a.x, b.w, 5 %) < 9 s", ((0.0, 0.0), (2.0, 1.0)), (8.0, 8.0)),
        ("settling_time(a.x, b.w, 5 %) < 5 s", ((0.0, 0.0), (2.0, 2.0)), (-math.inf, -4.0)),
        ("settling_time(a.x, b.w, 5 %) > 5 s", ((0.0, 0.0), (2.0, 2.0)), (4.0, math.inf)),
        ("overshoot(a.x, b.w) < 9 %", ((0.0, 0.0), (2.0, 0.5)), (-math.inf, 9.0)),
        ("overshoot(a.x, b.w) < 9 %", ((0.0, 0.0), (2.0, 0.9)), (9.0, 9.0)),
        ("steady_state_error(a.x, b.w, 10 s) < 9", ((0.0, 0.0),), (-math.inf, 9.0)),
        ("max_error(a.x, b.w, before=11) < 9", ((0.0, 0.0),), (-math.inf, 8.0)),
        ("max_error(a.x, b.w) < 9", ((0.0, 0.0), (2.0, math.nan)), (-math.inf, math.inf)),
        ("overshoot(a.x, b.w) < 9 %", ((0.0, 0.0), (2.0, math.nan)), (-math.inf, math.inf)),
        ("overshoot(a.x, b.w) < (0 / 0) * 1 %", ((0.0, 0.0), (2.0, 1.0)), (-math.inf, math.inf)),
    ],
)  # fmt: skip
def test_what_the_run_leaves_open_is_an_interval(
    formula: str, x: Points, truth: tuple[float, float]
) -> None:
    found = measure(formula, x, W)
    assert found.truth[:2] == pytest.approx(truth)
    assert bool(found.undecided) == (found.truth[2] < found.truth[3])


def test_a_measure_of_the_whole_run_names_the_end_of_the_run() -> None:
    formula = "max_error(a.x, b.w, before=11) < 9"
    found = measure(formula, ((0.0, 0.0),), W)
    assert found.undecided == f"the run ended at 10 s, before {formula} was decided"
    found = measure("rise_time(a.x, b.w) < 20 s", ((0.0, 0.0),), W)
    assert found.undecided.startswith("the run ended 9 s after the step at 1 s, before rise_time(")


def test_the_verdict_has_the_reason_of_the_measure(recording: Recording) -> None:
    late = verdict(recording, f"settling_time({STEP}, 5 %, after=5) < 3 s")
    assert late.reason == "not exercised, because command.wanted has no step"
    longer = verdict(recording, f"max_error({STEP}, before=20 s) < 9 m")
    assert longer.reason.startswith("the run ended at 12 s, before max_error(")


def test_a_signal_that_was_cut_off_is_measured_up_to_its_last_value() -> None:
    """The response takes 1 s at least, whatever the missing part contains."""
    x = ((0.0, 0.0), (2.0, 1.0), (6.0, math.nan))
    found = measure("settling_time(a.x, b.w, 0.25) < 0.5 s", x, W, complete=False)
    assert found.truth.tolist() == [-math.inf, -0.5, -1.0, -1.0]
    found = measure("settling_time(a.x, b.w, 0.25) < 3 s", x, W, complete=False)
    assert found.truth[2:].tolist() == [-1.0, 1.0]
    whole = measure("settling_time(a.x, b.w, 0.25) < 0.5 s", x, W)
    assert whole.truth[2:].tolist() == [-1.0, 1.0]


def test_an_unknown_reference_hides_no_step() -> None:
    wanted = ((0.0, 0.0), (1.0, 1.0), (4.0, math.nan), (5.0, 3.0))
    found = measure("rise_time(a.x, b.w) < 9 s", ((0.0, 0.0), (2.0, 1.0)), wanted)
    assert found.truth[2:].tolist() == [-1.0, 1.0]
    assert found.undecided == "a.x or b.w is unknown in the run"


def test_an_unknown_response_counts_even_if_another_step_follows() -> None:
    x = ((0.0, 0.0), (1.5, math.nan), (2.0, 1.0), (5.0, 0.0))
    found = measure("rise_time(a.x, b.w) < 9 s", x, (*W, (4.0, 0.0)))
    assert found.truth[2:].tolist() == [-1.0, 1.0]


@pytest.mark.parametrize(("sign", "truth"), [("<", -1), ("<=", 1), (">", -1), (">=", 1)])
def test_a_measure_at_its_limit(sign: str, truth: float) -> None:
    x = ((0.0, 0.0), (2.0, 1.0))
    found = measure(f"settling_time(a.x, b.w, 5 %) {sign} 1 s", x, W)
    assert found.truth.tolist() == [0.0, 0.0, truth, truth]
    turned = sign.translate(str.maketrans("<>", "><"))
    found = measure(f"1 s {turned} settling_time(a.x, b.w, 5 %)", x, W)
    assert found.truth.tolist() == [0.0, 0.0, truth, truth]


# -- refusals


@pytest.mark.parametrize(
    ("formula", "says"),
    [
        ("settling_time(a.x, b.w) < 3 s", "settling_time takes 3 values: signal, reference, band"),
        ("settling_time(a.x, b.w, 3 ft) < 3 s", "3 ft must be in % of the step or in m"),
        ("settling_time(a.x, b.w, a.x) < 3 s", "a.x is not a number"),
        ("steady_state_error(a.x, b.w, 3 m) < 3 m", "3 m must be in s"),
        ("steady_state_error(a.x, b.w, 3 s) < 3 ft", "3 ft must be in m, as steady_state_error is"),
        ("rise_time(a.x, 3 ft) < 3 s", "cannot compare a.x in m and 3 ft in ft"),
        ("rise_time(a.x, b.w) < 3 m", "3 m must be in s, as rise_time is"),
        ("rise_time(3 m, b.w) < 3 s", "3 m has no signal"),
        ("rise_time(a.x, b.w) < a.x", "compare rise_time with a number"),
        ("rise_time(a.x, b.w) == 3 s", "compare rise_time with <, <=, > or >="),
        ("rise_time(a.x, b.w, from=3) < 3 s", "unknown argument from; known: after, before,"),
        ("rise_time(a.x, b.w, min_step=3 ft) < 3 s", "3 ft must be in m"),
        ("overshoot(a.x, b.w, min_step=b.w) < 3 %", "b.w is not a number"),
        ("settling_time(a.x, b.w, 1 m, min_step=1 m) < 3 s", "min_step is for rise_time, oversh"),
        ("max_error(a.x, b.w, min_step=1 m) < 3 m", "min_step is for rise_time, overshoot and"),
        ("rise_time(a.x, b.w, after=2, after=3) < 3 s", "after is given twice"),
        ("rise_time(a.x, b.w, after=1e300) < 3 s", "1e300 is not below 146 years"),
        (
            "rise_time(a.x, b.w, before=2, after=3 s) < 3 s",
            "before= is earlier than the time after=",
        ),
        ("overshoot(a.x, b.w) < 0.2", "the limit of overshoot is in percent; write % after"),
        ("2 * overshoot(a.x, b.w) < 9 %", "overshoot is a step measure; compare it with a number"),
        ("always overshoot(a.x, b.w) < 9 %", "is about the whole run; write it outside of always"),
        ("rise_time(a.x, b.w)", "is a number, but a condition is needed"),
        ("rising(a.x, b.w) < 3", "unknown function rising; known: abs.* overshoot, rise_time"),
    ],
)
def test_a_wrong_measure_is_refused(formula: str, says: str) -> None:
    with pytest.raises(ScenarioError, match=says):
        checked(formula, {"a.x": "m", "b.w": "m"}.__getitem__)
