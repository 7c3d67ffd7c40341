"""NASA's F-16 check cases as scenarios: aircraft, controller, and the bus between them."""

from __future__ import annotations

from rtsim.components.controller import PythonController
from rtsim.components.latency import Fixed
from rtsim.components.ports import Source
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import Duration, Period, exact_seconds
from rtsim.equations.compiling import compiled
from rtsim.models.body import drawn
from rtsim.models.dryden import DRYDEN_INPUTS, DRYDEN_OUTPUTS, dryden
from rtsim.models.f16.cases import F16Case
from rtsim.models.f16.cases import case as check_case
from rtsim.models.f16.controller import (
    COURSE,
    FEEDBACK,
    LAW_INPUTS,
    LAW_OUTPUTS,
    LAW_PARAMETERS,
    control_law,
)
from rtsim.models.f16.guidance import (
    CIRCLE_PARAMETERS,
    COURSE_INPUTS,
    COURSE_PARAMETERS,
    GUIDANCE_INPUTS,
    GUIDANCE_OUTPUTS,
    circle,
    course,
)
from rtsim.models.f16.plant import F16
from rtsim.models.f16.trajectories import SOURCE, published
from rtsim.models.wind import in_moving_air
from rtsim.record.views import Published
from rtsim.scenario.scenario import Scenario

_control_law = compiled(control_law)
_course = compiled(course)
_circle = compiled(circle)

GUSTS_S = 0.01
"""The period of the turbulence, s."""
_FEEDBACK = (*FEEDBACK.names, *GUIDANCE_INPUTS.names)


def run_control_law(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    """Call the control law; the step function of a controller."""
    _control_law(u, p, y)


def run_course(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    """Call the guidance along a line; the step function of a controller."""
    _course(u, p, y)


def run_circle(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    """Call the guidance around a point; the step function of a controller."""
    _circle(u, p, y)


def autopilot(chosen: F16Case) -> PythonController:
    """Return the reference controller for the C code, with the trim values of the case."""
    return PythonController(
        run_control_law,
        LAW_INPUTS,
        LAW_OUTPUTS,
        parameters=LAW_PARAMETERS,
        values=chosen.law_parameters,
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
    turbulence: float = 0.0,
) -> Scenario:
    """Run F-16 check case 11, 12, 13.1 to 13.4, 15 or 16 with the controller at ``rate`` Hz.

    ``compute`` and ``latency`` are the compute and transport latency of the controller, s.
    ``autopilot_on=False`` leaves only stability augmentation.  ``until`` 0 means the duration of
    the case.  Cases 11 and 12 have no controller.  ``turbulence`` is the probability of exceedance
    of the Dryden gusts of MIL-F-8785C: 1e-2 light, 1e-3 moderate, 1e-5 severe, 0 none.
    """
    chosen = check_case(case)
    out = Scenario(
        f"f16 case {case}",
        until=until or chosen.duration,
        assumptions=("commands of the law are held between its ticks",),
    )
    augmented = chosen.guidance != "none"
    controls = LAW_OUTPUTS.names
    inputs: dict[str, Source] = (
        {name: f"autopilot.{name}" for name in controls} if augmented else dict(chosen.inputs)
    )
    model = F16
    if turbulence != 0.0:
        model = in_moving_air(F16)
        inputs |= {name: f"air.{name}" for name in DRYDEN_OUTPUTS.names}
        wires = {name: f"f16.{name}" for name in DRYDEN_INPUTS.names}
        gusts = {"exceedance": turbulence}
        out.plant("air", dryden(GUSTS_S), step=GUSTS_S, inputs=wires, parameters=gusts)
    states = {s.name: chosen.state[F16.states.slice(s.name)] for s in F16.states}
    out.plant(
        "f16", model, step=step, states=states, inputs=inputs, parameters=dict(chosen.parameters)
    )
    out.show(drawn("f16", shape="aircraft", length=15.0), scene="f16", plant="f16")
    _plot(out, chosen.name if turbulence == 0.0 else "", augmented)
    if augmented:
        period = Period(1_000_000_000 / exact_seconds(rate, "rate"))
        _add_guidance(out, chosen, period, autopilot_on)
        out.controller(
            "autopilot",
            autopilot(chosen),
            period=period,
            inputs=_wires(LAW_INPUTS),
            compute=Fixed(compute),
            transport=Fixed(latency),
        )
        out.order("guidance", "autopilot")
    return out


def _plot(out: Scenario, case: str, augmented: bool) -> None:
    """Declare the views: flight path, attitude, loads, then surfaces with their commands.

    ``case``: the check case whose published trajectory is shown; empty for none.
    """

    def commands(*names: str) -> tuple[str, ...]:
        return names if augmented else ()

    def nasa(*columns: str) -> list[Published]:
        long = len(columns) > 1
        given = [(c, f"{SOURCE}, {c[:-4]}" if long else SOURCE) for c in columns if case]
        return [one for column, name in given for one in published(case, column, name)]

    out.plot(
        "altitude [ft]",
        "f16.altitude_ft",
        *commands("pilot.altitude_command"),
        published=nasa("altitude_ft"),
    )
    speed = commands("pilot.airspeed_command")
    out.plot("equivalent airspeed [kt]", "f16.equivalent_airspeed_kt", *speed)
    course = commands("guidance.base_course")
    out.plot("heading [deg]", "f16.yaw_deg", *course, published=nasa("yaw_deg"))
    out.plot(
        "roll and pitch [deg]",
        "f16.roll_deg",
        "f16.pitch_deg",
        published=nasa("roll_deg", "pitch_deg"),
    )
    out.plot("angles of attack and sideslip [deg]", "f16.alpha_deg", "f16.beta_deg")
    out.plot("load factor", "f16.load_factor")
    out.plot("elevator [deg]", "f16.elevator", *commands("autopilot.elevator"))
    out.plot("aileron and rudder [deg]", "f16.aileron", "f16.rudder")
    out.plot("engine power [%]", "f16.power", *commands("autopilot.power"))
    out.plot("body rates [rad/s]", "f16.roll_rate", "f16.pitch_rate", "f16.yaw_rate")
    if augmented:
        out.plot("distance from the course [ft]", "guidance.lateral_deviation")
    out.plot("ground track [deg]", "f16.latitude_deg", over="f16.longitude_deg")


def _add_guidance(out: Scenario, chosen: F16Case, period: Period, autopilot_on: bool) -> None:
    """Add the pilot's settings and commands, and the guidance, which computes a course."""
    along_line = chosen.guidance == "course"
    inputs = COURSE_INPUTS if along_line else GUIDANCE_INPUTS
    settings = Signals(
        *(s for s in (*LAW_INPUTS, *inputs) if s.name not in _FEEDBACK and s.name not in COURSE)
    )
    values = {**chosen.law_inputs, "autopilot_on": float(autopilot_on)}
    out.source("pilot", settings, values)
    guidance = PythonController(
        run_course if along_line else run_circle,
        inputs,
        GUIDANCE_OUTPUTS,
        parameters=COURSE_PARAMETERS if along_line else CIRCLE_PARAMETERS,
        values=chosen.guidance_parameters,
        compile=True,
        name="guidance",
    )
    out.controller("guidance", guidance, period=period, inputs=_wires(inputs))
    for time, name, value in chosen.commands:
        out.at(time, f"pilot.{name}", value)


def _wires(wanted: Signals) -> dict[str, Source]:
    """Return the source of each input: the aircraft, the guidance, or else the pilot."""

    def component(name: str) -> str:
        if name in _FEEDBACK:
            return "f16"
        return "guidance" if name in COURSE else "pilot"

    return {name: f"{component(name)}.{name}" for name in wanted.names}
