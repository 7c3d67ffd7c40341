"""The F-16 with its sensors, autopilot, guidance and telemetry on one processor.

The four tasks share a processor like that of an Arduino Uno (ATmega328P, 16 MHz). Their execution
times were measured in cycles on the emulated board; ``uno_cycles.json`` contains them.
``docs/f16-processor.md`` describes the scenario and its results.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

import rtsim as rt
from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Vector
from rtsim.core.tag import Duration
from rtsim.models.body import body_states, drawn
from rtsim.models.f16.controller import LAW_OUTPUTS, ControlLaw, Course
from rtsim.models.f16.plant import F16
from rtsim.models.f16.scenario import COURSE, SENSED, case

UNO_HZ = 16_000_000
"""Clock of the Arduino Uno."""
PERIODS: Mapping[str, float] = MappingProxyType(
    {"sensors": 0.005, "autopilot": 0.01, "guidance": 0.1, "telemetry": 0.5}
)
"""Period of each task, s, from the most to the least important task."""
MEASURED = (*SENSED, "latitude_deg", "longitude_deg")
"""Outputs of the aircraft that the sensor task reads."""
TRACK_COURSE = "course_command", "offset_command"
PULSE_S, PULSE_END_S, PULSE_DEG = 1.0, 1.2, 0.002
"""Start, end and size of a change of the commanded course, which excites the loop."""


@cache
def uno_cycles() -> Mapping[str, tuple[int, ...]]:
    """Return the measured execution times of each task on the emulated Uno, in cycles of 16 MHz."""
    text = Path(__file__).with_name("uno_cycles.json").read_text(encoding="utf-8")
    return {task: tuple(cycles) for task, cycles in json.loads(text).items()}


def execution(task: str, times: str = "measured") -> rt.Empirical | rt.Fixed:
    """Return the execution time of ``task`` on an Uno.

    With ``times="measured"``, each job takes one of the measured times. With ``"longest"``, each
    job takes the longest measured time.
    """
    ns = [round(cycles * 1_000_000_000 / UNO_HZ) for cycles in uno_cycles()[task]]
    if times == "measured":
        return rt.Empirical.of(ns, source=f"{task} on an emulated Arduino Uno")
    if times == "longest":
        return rt.Fixed(max(ns) / 1e9)
    raise ScenarioError(f"times is {times!r}; give 'measured' or 'longest'")


def convert(u: Vector, y: Vector) -> None:
    """Sense without errors: the raw readings are not rounded."""
    for i in range(y.size):
        y[i] = u[i]


def sensors() -> rt.PythonController:
    """Return the controller that samples the outputs :data:`MEASURED` of the aircraft."""
    names = rt.Signals(*(F16.outputs[name] for name in MEASURED))
    return rt.PythonController(convert, inputs=names, outputs=names, compile=True, name="sensors")


def scenario(
    speed: float = 1.0,
    policy: str = "fixed",
    times: str = "measured",
    processor: bool = True,
    telemetry: bool = True,
    until: Duration = 6,
    step: Duration = 0.005,
) -> rt.Scenario:
    """Fly the F-16 with sensors, autopilot, guidance and telemetry on one processor.

    The aircraft holds its course, which the pilot changes by 0.002 deg from 1 s to 1.2 s.

    Args:
        speed: speed of the processor; 1 is an Arduino Uno.
        policy: scheduling policy of the processor, such as fixed or cooperative.
        times: execution times: measured, or for each job the longest measured one.
        processor: False leaves the processor out; the tasks then take no time.
        telemetry: False leaves out the telemetry task.
        until: end of the run.
        step: step of the aircraft, s.
    """
    chosen = case("13.1")
    out = rt.Scenario("f16 on one processor", until=until)
    out.plant(
        "f16",
        F16,
        step=step,
        states=body_states(chosen.state),
        inputs=dict(chosen.inputs),
    )
    course = chosen.law_inputs["course_command"]
    guidance = Course(base_course=course, lateral_deviation=0.0, **chosen.guidance_parameters)
    laws = {
        "sensors": sensors(),
        "autopilot": ControlLaw(**chosen.law_parameters).controller("autopilot"),
        "guidance": guidance.controller("guidance"),
    }
    settings = [s for s in laws["autopilot"].inputs if s.name not in (*COURSE, *SENSED)]
    track = [laws["guidance"].inputs[name] for name in TRACK_COURSE]
    out.source("pilot", rt.Signals(*settings, *track), chosen.law_inputs)
    if processor:
        out.processor("uno", policy=policy, speed=speed)
    for priority, (task, period) in enumerate(PERIODS.items(), 1):
        if not processor:
            if task in laws:
                out.controller(task, laws[task], period=period, priority=priority)
        elif task in laws:
            out.controller(
                task, laws[task], period=period, priority=priority, processor="uno",
                execution=execution(task, times),
            )  # fmt: skip
        elif telemetry:
            out.task(
                task, "uno", period=period, priority=priority, execution=execution(task, times)
            )
    if not processor:
        out.order("sensors", "guidance", "autopilot")
    for source, target, names in (
        ("f16", "sensors", MEASURED),
        ("sensors", "autopilot", SENSED),
        ("sensors", "guidance", ("latitude_deg", "longitude_deg")),
        ("guidance", "autopilot", COURSE),
        ("pilot", "autopilot", [s.name for s in settings]),
        ("pilot", "guidance", TRACK_COURSE),
        ("autopilot", "f16", LAW_OUTPUTS.names),
    ):
        for name in names:
            out.connect(f"{source}.{name}", f"{target}.{name}")
    out.at(PULSE_S, "pilot.course_command", course + PULSE_DEG)
    out.at(PULSE_END_S, "pilot.course_command", course)
    out.show(drawn("f16", shape="aircraft", length=15.0), scene="f16", plant="f16")
    out.plot("roll [deg]", "f16.roll_deg")
    out.plot("roll rate [rad/s]", "f16.roll_rate")
    out.plot("aileron [deg]", "f16.aileron", "autopilot.aileron")
    out.plot("heading [deg]", "f16.yaw_deg", "guidance.base_course")
    if processor:
        out.plot("tasks of the processor", *(f"uno.{task}" for task in PERIODS if task in laws))
    return out
