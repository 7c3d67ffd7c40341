"""NASA's F-16 check cases as scenarios: the aircraft, its control law, and the bus between them."""

from __future__ import annotations

from rtsim.components.controller import PythonController
from rtsim.components.latency import Fixed
from rtsim.components.ports import Source
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import Duration, Period, exact_seconds
from rtsim.equations.compiling import compiled
from rtsim.models.body import drawn
from rtsim.models.f16.cases import F16Case
from rtsim.models.f16.cases import case as check_case
from rtsim.models.f16.guidance import (
    CIRCLE_PARAMETERS,
    COURSE_INPUTS,
    COURSE_PARAMETERS,
    GUIDANCE_INPUTS,
    GUIDANCE_OUTPUTS,
    circle,
    course,
)
from rtsim.models.f16.law import (
    COURSE,
    FEEDBACK,
    LAW_INPUTS,
    LAW_OUTPUTS,
    LAW_PARAMETERS,
    control_law,
)
from rtsim.models.f16.plant import F16
from rtsim.scenario.scenario import Scenario

_control_law = compiled(control_law)
_course = compiled(course)
_circle = compiled(circle)


_FEEDBACK = (*FEEDBACK.names, *GUIDANCE_INPUTS.names)


def fly_law(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    """The control law as a controller runs it."""
    _control_law(u, p, y)


def fly_course(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    """Guidance along a line, as a controller runs it."""
    _course(u, p, y)


def fly_circle(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    """Guidance around a point, as a controller runs it."""
    _circle(u, p, y)


def autopilot(flown: F16Case) -> PythonController:
    """The design that a translation is held against, with the references of the case."""
    return PythonController(
        fly_law,
        LAW_INPUTS,
        LAW_OUTPUTS,
        parameters=LAW_PARAMETERS,
        values=flown.law_parameters,
        compile=True,
        name="autopilot",
    )


def scenario(
    case: str = "13.1",
    until: Duration = 0,
    step: Duration = 0.005,
    rate: float = 50.0,
    compute: float = 0.0,
    latency: float = 0.0,
    autopilot_on: bool = True,
) -> Scenario:
    """Case 11, 12, 13.1 to 13.4, 15 or 16; the law at ``rate`` Hz, its answers on the bus.

    ``compute`` and ``latency`` (s) delay its commands; ``autopilot_on=False`` leaves stability
    augmentation alone.  ``until`` 0 is the case's own duration.
    """
    flown = check_case(case)
    out = Scenario(
        f"f16 case {case}",
        until=until or flown.duration,
        assumptions=("commands of the law are held between its ticks",),
    )
    augmented = flown.guidance != "none"
    controls = LAW_OUTPUTS.names
    inputs: dict[str, Source] = (
        {name: f"autopilot.{name}" for name in controls} if augmented else dict(flown.inputs)
    )
    states = {s.name: flown.state[F16.states.slice(s.name)] for s in F16.states}
    out.plant(
        "f16", F16, step=step, states=states, inputs=inputs, parameters=dict(flown.parameters)
    )
    out.show(drawn("f16", shape="aircraft", length=15.0), scene="f16", plant="f16")
    if augmented:
        period = Period(1_000_000_000 / exact_seconds(rate, "rate"))
        _add_guidance(out, flown, period, autopilot_on)
        out.controller(
            "autopilot",
            autopilot(flown),
            period=period,
            inputs=_wires(LAW_INPUTS),
            compute=Fixed(compute),
            transport=Fixed(latency),
        )
        out.order("guidance", "autopilot")
    return out


def _add_guidance(out: Scenario, flown: F16Case, period: Period, autopilot_on: bool) -> None:
    """The pilot's settings and commands, and the guidance that turns them into a course."""
    along_line = flown.guidance == "course"
    inputs = COURSE_INPUTS if along_line else GUIDANCE_INPUTS
    settings = Signals(
        *(s for s in (*LAW_INPUTS, *inputs) if s.name not in _FEEDBACK and s.name not in COURSE)
    )
    values = {**flown.law_inputs, "autopilot_on": float(autopilot_on)}
    out.source("pilot", settings, values)
    guidance = PythonController(
        fly_course if along_line else fly_circle,
        inputs,
        GUIDANCE_OUTPUTS,
        parameters=COURSE_PARAMETERS if along_line else CIRCLE_PARAMETERS,
        values=flown.guidance_parameters,
        compile=True,
        name="guidance",
    )
    out.controller("guidance", guidance, period=period, inputs=_wires(inputs))
    for time, name, value in flown.commands:
        out.at(time, f"pilot.{name}", value)


def _wires(wanted: Signals) -> dict[str, Source]:
    """Each input from the aircraft, else from guidance, else from the pilot."""

    def part(name: str) -> str:
        if name in _FEEDBACK:
            return "f16"
        return "guidance" if name in COURSE else "pilot"

    return {name: f"{part(name)}.{name}" for name in wanted.names}
