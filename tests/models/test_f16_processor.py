"""The F-16 on one processor: the slowest stable speed, replay, and the tasks in C."""

from __future__ import annotations

import binascii
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from c_parts import with_gcc
from firmware_parts import with_avr_gcc

from hitl.controllers.sil import SilController
from rtsim.core.errors import ModelError, ScenarioError
from rtsim.core.signals import Vector
from rtsim.core.tag import Tag
from rtsim.linear import open_loop
from rtsim.models.f16.controller import Course
from rtsim.models.f16.one_processor import PERIODS, execution, scenario, uno_cycles
from rtsim.models.f16.processor_study import growth, slowest_speed
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.replay import rerun
from rtsim.schedules import schedule_table
from rtsim.studies import start
from rtsim.testing.determinism import trace_of
from tools.uno_cycles import INTERFACES, cycles_of, inputs_of

STUDY = """from rtsim.models.f16 import processor_study


def study():
    return processor_study.study({})
"""
SLOWEST = {"longest": (0.155, 0.175), "measured": (0.148, 0.156)}
"""Range of the speeds of the study."""


@cache
def margin() -> float:
    found = open_loop(scenario(processor=False), "autopilot").delay_margin(slow=0.05)
    assert found is not None
    return found.seconds


@cache
def predicted(times: str) -> float:
    """The speed at which two jobs of the sensors and one of the autopilot take the delay margin."""
    seconds = {
        task: float(max(cycles) if times == "longest" else np.mean(cycles)) / 16e6
        for task, cycles in uno_cycles().items()
    }
    return (2 * seconds["sensors"] + seconds["autopilot"]) / margin()


# -- the slowest speed


@pytest.mark.long
@pytest.mark.parametrize("times", SLOWEST)
def test_the_loop_is_stable_just_above_the_predicted_speed_and_unstable_below(times: str) -> None:
    slow, fast = (
        growth(trace_of(scenario(speed=share * predicted(times), times=times)))
        for share in (0.99, 1.01)
    )
    assert fast < -0.1
    assert slow > 0.1


@pytest.mark.long
@pytest.mark.parametrize("times", SLOWEST)
def test_the_study_finds_the_speed_that_the_delay_margin_predicts(
    times: str, tmp_path: Path
) -> None:
    file = tmp_path / "slowest.py"
    low, high = SLOWEST[times]
    file.write_text(STUDY.format(f"{times!r}, {low}, {high}"))
    table = start(str(file), tmp_path / "speeds").table().to_pandas()
    found = slowest_speed(table["speed"].to_numpy(), table["growth"].to_numpy())
    assert found == pytest.approx(predicted(times), rel=0.05)
    assert found == pytest.approx(predicted(times), rel=0.01)


def test_the_analysed_response_at_the_predicted_speed_is_the_delay_margin() -> None:
    speed = predicted("longest")
    table = schedule_table(scenario(speed=speed, times="longest", until=1))
    (row,) = (r for r in table.processors[0].rows if r.analysis.name == "autopilot")
    assert row.analysis.response == pytest.approx(1e9 * margin(), rel=1e-5)
    assert row.longest == row.analysis.response
    assert table.misses == []


def test_the_age_of_the_values_is_the_response_of_the_autopilot() -> None:
    run = trace_of(scenario(speed=0.2, until=1))
    commands, values = run.track("messages/autopilot"), run.track("messages/sensors")
    began, arrived = commands.integer("initiated"), values.integer("arrival")
    newest = np.searchsorted(arrived, began, side="right") - 1
    jobs = run.track("jobs/autopilot")
    age = commands.integer("arrival") - values.integer("initiated")[newest]
    assert len(age) > 90
    assert age.tolist() == (jobs.ns - jobs.integer("arrival")).tolist()


def test_telemetry_does_not_change_the_commands_under_fixed_priorities() -> None:
    with_it, without = (
        trace_of(scenario(speed=0.2, until=1.5, times="longest", telemetry=on))
        for on in (True, False)
    )
    commands = [run.track("messages/autopilot") for run in (with_it, without)]
    assert commands[0].rows.floats.tobytes() == commands[1].rows.floats.tobytes()
    assert commands[0].ns.tolist() == commands[1].ns.tolist()


def test_a_growth_without_one_change_of_sign_is_an_error() -> None:
    assert slowest_speed(np.array([0.2, 0.1]), np.array([-1.0, 1.0])) == pytest.approx(0.15)
    for rates in ([1.0, 1.0, 1.0], [-1.0, -1.0, -1.0], [-1.0, 1.0, -1.0]):
        with pytest.raises(ValueError, match="sign"):
            slowest_speed(np.array([0.1, 0.2, 0.3]), np.array(rates))


# -- the scenario


def test_two_runs_are_equal_and_a_replay_equals_the_recording() -> None:
    one, two = trace_of(scenario(speed=0.3, until=1)), trace_of(scenario(speed=0.3, until=1))
    assert one.digest() == two.digest()
    assert compare_exact(one, rerun(one, scenario(speed=0.3, until=1))) is None
    assert trace_of(scenario(speed=0.31, until=1)).digest() != one.digest()


def test_a_controller_on_a_processor_has_no_linear_model() -> None:
    with pytest.raises(ModelError, match=r"autopilot.*simulated processor.*processor='uno'"):
        open_loop(scenario(), "autopilot")


def test_unknown_execution_times_are_named() -> None:
    with pytest.raises(ScenarioError, match="'shortest'"):
        execution("autopilot", "shortest")


# -- the tasks in C


def steps_of(task: str, rows: Vector) -> Vector:
    """The outputs of the C code of ``task`` on this computer, one row for each row of inputs."""
    controller, out = SilController(INTERFACES[task]).fresh(), []
    try:
        for k, row in enumerate(rows):
            tag = Tag(round(k * PERIODS[task] * 1e9))
            controller.send(tag, np.array(row, float))
            out.append(controller.receive(tag, patience=1.0))
    finally:
        controller.close()
    return np.array(out)


@with_gcc
def test_sensors_convert_within_half_a_unit_of_the_raw_reading() -> None:
    rows = inputs_of(20)["sensors"]
    units = np.array([0.01, 0.02, *[0.0125] * 5, *[0.0002] * 3])
    assert (np.abs(steps_of("sensors", rows) - rows) <= 0.51 * units + 1e-6 * np.abs(rows)).all()


@with_gcc
def test_guidance_in_c_computes_the_deviation_of_the_reference() -> None:
    rows = inputs_of(20)["guidance"]
    found = steps_of("guidance", rows)
    for row, (deviation, course) in zip(rows, found, strict=True):
        reference = Course(hold_track=1.0, from_latitude=row[4], from_longitude=row[5])
        controller = reference.controller()
        controller.send(Tag(0), row[:4])
        wanted = controller.receive(Tag(0), patience=1.0)
        assert wanted is not None
        assert deviation == pytest.approx(wanted[0], abs=0.1)
        assert course == pytest.approx(wanted[1])
    assert np.abs(found[:, 0]).max() > 1000


@with_gcc
def test_telemetry_in_c_has_the_checksum_of_its_text() -> None:
    rows = inputs_of(5)["telemetry"]
    for row, (checksum,) in zip(rows, steps_of("telemetry", rows), strict=True):
        whole = np.trunc(np.float32(row) * np.float32(1000)).astype(int)
        text = "".join(f"{'-' if n < 0 else '+'}{abs(n):08d}," for n in whole)
        assert checksum == binascii.crc_hqx(text.encode(), 0xFFFF)


@pytest.mark.usefixtures("emulator")
def test_the_autopilot_takes_the_recorded_cycles_on_the_emulated_uno() -> None:
    rows = inputs_of()["autopilot"][:40]
    assert cycles_of("autopilot", rows) == list(uno_cycles()["autopilot"][:40])


@pytest.mark.long
@with_avr_gcc
@pytest.mark.usefixtures("emulator")
@pytest.mark.parametrize("task", [task for task in PERIODS if task != "autopilot"])
def test_each_task_takes_the_recorded_cycles_on_the_emulated_uno(task: str) -> None:
    rows = inputs_of()[task][:40]
    assert cycles_of(task, rows) == list(uno_cycles()[task][:40])
