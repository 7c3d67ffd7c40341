"""The tracking task measures what McRuer's model predicts, and finds the pilot's parameters.

The predictions come from the analytic open loop: the pilot of McRuer and Jex (1967), the latency,
half a period of the sampled stick, and the plant K/s or K/s^2 of McRuer and Krendel (1974).
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq

from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Vector
from rtsim.equations.compiling import plainly
from rtsim.linear import margins
from rtsim.linear import open_loop as open_loop_of
from rtsim.linear.crossings import return_ratio
from rtsim.models.f16.piloted_scenario import SCRIPTED
from rtsim.models.piloting import PilotModel, Tracking, measure, task_named
from rtsim.models.piloting.findings import Findings
from rtsim.models.piloting.task import task_section
from rtsim.models.piloting.tracking import target
from rtsim.models.piloting.tracking_measures import (
    Spectrum,
    TrackedAxis,
    _remarks,
    closed_loop_error,
    oscillations,
)
from rtsim.models.tracking import PERIOD_S
from rtsim.record.reading import Recording
from rtsim.runs.simulation import simulate
from rtsim.scenario.loading import load_scenario

LATENCIES = (0.0, 0.05, 0.1, 0.2)
GAIN = {"K/s": 0.5, "K/s^2": 1.0}
PILOTS = {
    "K/s": PilotModel(6.0, delay=0.15),
    "K/s^2": PilotModel(0.8, lead=2.5, delay=0.1),
}


@cache
def flown(plant: str, pilot: PilotModel, latency: float, remnant: float = 0.0) -> Recording:
    """Return the recording of a scripted pilot who flies the task with a simple plant."""
    values: dict[str, Any] = vars(pilot) | {
        "plant_kind": plant, "plant_gain": GAIN[plant], "latency": latency, "by": "script",
        "remnant": remnant,
    }  # fmt: skip
    return simulate(load_scenario("tracking", values), seed=3).recording()


def found(plant: str, pilot: PilotModel, latency: float, remnant: float = 0.0) -> Findings:
    return measure(flown(plant, pilot, latency, remnant))


def open_loop(plant: str, pilot: PilotModel, latency: float, w: Vector) -> Spectrum:
    """Return the analytic open loop (k,) at ``w`` (k,), rad/s."""
    s = 1j * np.asarray(w, float)
    vehicle = GAIN[plant] / (s if plant == "K/s" else s * s)
    out: Spectrum = pilot.response(w) * np.exp(-(latency + 0.5 * PERIOD_S) * s) * vehicle
    return out


def predicted(plant: str, pilot: PilotModel, latency: float) -> tuple[float, float, float]:
    """Return RMS error (rad), crossover frequency (rad/s) and phase margin (deg)."""

    def over(w: float) -> float:
        return float(np.log(abs(open_loop(plant, pilot, latency, np.array([w]))[0])))

    crossover = brentq(over, 0.3, 12.0)
    w = np.geomspace(0.1, crossover, 400)
    phase = np.unwrap(np.angle(open_loop(plant, pilot, latency, w)))[-1]
    task = task_named("pitch-tracking")
    assert isinstance(task, Tracking)
    sines = open_loop(plant, pilot, latency, task.frequencies()[0])
    return (
        closed_loop_error(sines, task.amplitudes()[0]),
        crossover,
        180.0 + math.degrees(phase - (math.tau if phase > 0 else 0.0)),
    )


def test_the_target_fades_in_and_has_the_declared_rms() -> None:
    task = Tracking(axes=("pitch", "roll"), rms=(0.02, 0.1), fade=4.0)
    p = task.model().parameters.initial()
    steady = replace(task, fade=0.0).model().parameters.initial()
    time = np.arange(task.begin, task.begin + task.measured, 0.05)
    with plainly():
        assert target(0.0, 0, 2, p) == 0.0
        assert target(1.0, 1, 2, p) == pytest.approx(0.25 * target(1.0, 1, 2, steady))
        values = [[target(t, axis, 2, p) for t in time.tolist()] for axis in (0, 1)]
    assert np.std(values, axis=1) == pytest.approx(task.rms, rel=1e-9)
    assert not set(task.frequencies()[0]) & set(task.frequencies()[1])


@pytest.mark.parametrize("latency", LATENCIES)
def test_error_crossover_and_phase_margin_are_those_of_the_analytic_loop(latency: float) -> None:
    measured = found("K/s", PILOTS["K/s"], latency)
    error, crossover, margin = predicted("K/s", PILOTS["K/s"], latency)
    assert measured.complete
    assert measured["pitch_rms_error"] == pytest.approx(error, rel=0.1)
    assert measured["pitch_crossover"] == pytest.approx(crossover, rel=0.1)
    assert measured["pitch_phase_margin"] == pytest.approx(margin, rel=0.1)
    assert not measured.marks


def test_the_report_has_the_measures_and_marks_the_oscillation() -> None:
    calm = task_section(flown("K/s", PILOTS["K/s"], 0.2))
    assert calm is not None
    assert "phase margin" in calm[2]
    assert "crossover model" in calm[2]
    assert "pilot-induced oscillation from" not in calm[2]
    gain, _ = limit_gain(0.2)
    wild = task_section(flown("K/s", replace(PILOTS["K/s"], gain=1.07 * gain), 0.2))
    assert wild is not None
    assert "pilot-induced oscillation from" in wild[2]
    early = load_scenario("tracking", {"by": "script", "until": 2})
    none = task_section(simulate(early).recording())
    assert none is not None
    assert "The task was not measured" in none[2]
    chase = simulate(load_scenario("fox-and-rabbit"), until=0.1).recording()
    assert task_section(chase) is None
    with pytest.raises(ScenarioError, match="has no task; give a recording"):
        measure(chase)


LONG = pytest.mark.long


@pytest.mark.parametrize(
    "latency", [0.0, pytest.param(0.05, marks=LONG), pytest.param(0.1, marks=LONG)]
)
def test_a_lead_pilot_of_a_double_integrator_is_measured_too(latency: float) -> None:
    measured = found("K/s^2", PILOTS["K/s^2"], latency)
    error, crossover, margin = predicted("K/s^2", PILOTS["K/s^2"], latency)
    assert measured["pitch_rms_error"] == pytest.approx(error, rel=0.1)
    assert measured["pitch_crossover"] == pytest.approx(crossover, rel=0.1)
    assert measured["pitch_phase_margin"] == pytest.approx(margin, rel=0.1, abs=1.0)


@pytest.mark.parametrize("plant", sorted(PILOTS))
@pytest.mark.parametrize("remnant", [0.0, 1e-3])
def test_the_parameters_of_the_pilot_come_back(plant: str, remnant: float) -> None:
    pilot = PILOTS[plant]
    measured = found(plant, pilot, 0.0, remnant)
    assert measured["pitch_pilot_gain"] == pytest.approx(pilot.gain, rel=0.1)
    assert measured["pitch_pilot_lead"] == pytest.approx(pilot.lead, rel=0.1)
    assert measured["pitch_pilot_lag"] == 0.0
    if not remnant:
        assert measured["pitch_pilot_delay"] == pytest.approx(pilot.delay, rel=0.1)
        assert measured["pitch_pilot_neuromuscular"] == pytest.approx(15.0, rel=0.1)
        return
    delay, muscles = measured["pitch_pilot_delay"], measured["pitch_pilot_neuromuscular"]
    assert delay is not None
    assert muscles is not None
    axis = measured.details[0]
    assert axis.fit.model.effective_delay == pytest.approx(pilot.effective_delay, rel=0.1)
    remnant_share = measured["pitch_remnant"]
    assert remnant_share is not None
    assert 0.01 < remnant_share < 0.9


def test_a_crossing_beside_a_frequency_that_was_left_out_is_uncertain() -> None:
    axis = measure(flown("K/s", PILOTS["K/s"], 0.0)).details[0]
    whole = axis.found.crossing()
    assert whole is not None
    assert whole.sure
    assert whole.between[0] < whole.frequency < whole.between[1]
    trusted = axis.found.frequencies != whole.between[1]
    part = replace(axis.found, trusted=trusted)
    found = part.crossing()
    assert found is not None
    assert not found.sure
    notes = _remarks(replace(axis, found=part), complete=True)
    assert any("are uncertain" in note for note in notes)
    assert not any("are uncertain" in note for note in _remarks(axis, complete=True))


def limit_gain(latency: float) -> tuple[float, float]:
    """Return the pilot's gain at which the phase margin is 0, and the frequency there."""

    def margin(w: float) -> float:
        loop = open_loop("K/s", PILOTS["K/s"], latency, np.geomspace(0.1, w, 400))
        return float(np.unwrap(np.angle(loop))[-1]) + math.pi

    w = brentq(margin, 1.0, 12.0)
    return 6.0 / abs(open_loop("K/s", PILOTS["K/s"], latency, np.array([w]))[0]), w


@pytest.mark.parametrize("latency", [pytest.param(0.0, marks=LONG), 0.2])
def test_the_loop_departs_into_oscillation_where_the_phase_margin_is_0(latency: float) -> None:
    gain, frequency = limit_gain(latency)
    below = found("K/s", replace(PILOTS["K/s"], gain=0.93 * gain), latency)
    above = found("K/s", replace(PILOTS["K/s"], gain=1.07 * gain), latency)
    assert not below.marks
    assert len(above.marks) == 1
    assert above.marks[0]["frequency_rad_s"] == pytest.approx(frequency, rel=0.1)
    growing, dying = (_envelope(f.details[0]) for f in (above, below))
    assert growing > 2.0
    assert dying < 1.2
    assert any("pilot-induced oscillation" in note for note in above.notes)


def _envelope(axis: TrackedAxis) -> float:
    """Return the RMS error at the end of the run over that of the target."""
    late = axis.time > axis.time[-1] - 15.0
    return float(np.sqrt(np.mean(axis.error[late] ** 2))) / axis.rms_target


def test_a_short_run_is_incomplete_and_identifies_nothing() -> None:
    values: dict[str, Any] = {"by": "script", "until": 30}
    short = measure(simulate(load_scenario("tracking", values)).recording())
    assert not short.complete
    assert short["pitch_crossover"] is None
    assert "ends at 30 s" in short.notes[0]


def test_the_latency_in_flight_is_reported() -> None:
    scenario = load_scenario("tracking", {"by": "script", "latency": 0.05})
    scenario.at(40, "link.latency", 0.15)
    changed = measure(simulate(scenario).recording())
    assert changed["latency"] == 0.05
    assert "changed to 0.15 s at 40" in " ".join(changed.notes)
    delayed = simulate(scenario).recording().table("link.pitch", "stick.pitch", rate=100)
    c, u = delayed["link.pitch"], delayed["stick.pitch"]
    at = slice(5000, 6000)
    assert np.array_equal(c[at], u[5000 - 15 : 6000 - 15])
    early = slice(3000, 3900)
    assert np.array_equal(c[early], u[3000 - 5 : 3900 - 5])


def test_both_engines_record_the_same_task() -> None:
    digests = {
        simulate(
            load_scenario("tracking", {"by": "script", "until": 12, "remnant": 1e-3}),
            engine=engine,
        )
        .recording()
        .digest()
        for engine in ("compiled", "interpreted")
    }
    assert len(digests) == 1


@pytest.mark.long
@pytest.mark.parametrize("axis", ["pitch", "roll"])
def test_the_scripted_pilot_of_the_f16_comes_back(axis: str) -> None:
    values = {"by": "script", "task": f"{axis}-tracking"}
    found = measure(simulate(load_scenario("f16-by-hand", values)).recording())
    pilot = SCRIPTED[axis]
    assert found.complete
    assert not found.marks
    for name in ("gain", "lead", "lag", "delay", "neuromuscular"):
        assert found[f"{axis}_pilot_{name}"] == pytest.approx(getattr(pilot, name), rel=0.1)


@cache
def linear_roll_loop() -> tuple[float, float, Spectrum]:
    """Return crossover (rad/s), phase margin (deg) and open loop (k,) without latency."""
    values = {"by": "script", "task": "roll-tracking"}
    system = open_loop_of(load_scenario("f16-by-hand", values), "stick.roll").system
    exact = margins(system, feedback=1.0, slow=0.2)
    return exact.crossover, exact.phase_deg, return_ratio(system, roll_task().frequencies()[0], 1.0)


def roll_task() -> Tracking:
    task = task_named("roll-tracking")
    assert isinstance(task, Tracking)
    return task


@pytest.mark.long
@pytest.mark.parametrize("latency", LATENCIES)
def test_the_linear_model_of_the_f16_predicts_its_roll_task(latency: float) -> None:
    """The linear model is that of the whole run; the latency turns its phase."""
    crossover, margin, loop = linear_roll_loop()
    late = np.exp(-1j * roll_task().frequencies()[0] * latency)
    values: dict[str, Any] = {"by": "script", "task": "roll-tracking", "latency": latency}
    found = measure(simulate(load_scenario("f16-by-hand", values)).recording())
    error = closed_loop_error(loop * late, roll_task().amplitudes()[0])
    assert found["roll_rms_error"] == pytest.approx(error, rel=0.1)
    assert found["roll_crossover"] == pytest.approx(crossover, rel=0.1)
    later = margin - math.degrees(crossover * latency)
    assert found["roll_phase_margin"] == pytest.approx(later, rel=0.1)
    assert not found.marks


@pytest.mark.parametrize(
    ("swing", "frequency", "stick", "periods", "marked"),
    [
        (1.25, 4.0, 0.5, 5.0, True),
        (0.8, 4.0, 0.5, 5.0, False),  # smaller than the limit
        (1.25, 4.0, 0.05, 5.0, False),  # a stick that hardly moves
        (1.25, 0.8, 0.5, 5.0, False),  # too slow
        (1.25, 20.0, 0.5, 9.0, False),  # too fast
        (1.25, 4.0, 0.5, 1.8, False),  # too short
    ],
)
def test_only_lasting_swings_of_error_and_stick_are_an_oscillation(
    swing: float, frequency: float, stick: float, periods: float, marked: bool
) -> None:
    t = np.arange(0.0, 30.0, 0.01)
    on = (t > 5.0) & (t < 5.0 + periods * math.tau / frequency)
    answer = np.where(on, 0.5 * swing * np.sin(frequency * (t - 5.0)), 0.0)
    moved = np.where(on, stick * np.sin(frequency * (t - 5.0) + math.pi / 3.0), 0.0)
    found = oscillations(t, -answer, moved, answer, swing=1.0, travel=2.0)
    assert bool(found) == marked
    if marked:
        assert found[0].frequency == pytest.approx(frequency, rel=0.02)
        assert found[0].swing == pytest.approx(swing, rel=0.01)
        assert found[0].lag == pytest.approx(60.0, abs=5.0)
        assert 5.0 <= found[0].first < found[0].last <= 5.0 + periods * math.tau / frequency
