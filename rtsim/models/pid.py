"""A PID controller with limits of the command and its rate, and with anti-windup.

The proportional term has a setpoint weight.  The derivative term uses only the measurement, through
a first-order filter; derivative and filter are backward differences.  First the command is limited,
then its rate.  Back-calculation with ``tracking_time`` (s) prevents integrator wind-up by these two
limits.
Source: K. J. Åström and R. M. Murray, Feedback Systems (Princeton, 2008), sections 10.4 and 10.5.
"""

from __future__ import annotations

from collections.abc import Mapping

from rtsim.components.controller import PythonController
from rtsim.core.signals import Signal, Signals, Vector

PID_INPUTS = Signals("setpoint", "measurement")
PID_OUTPUTS = Signals("command")
PID_PARAMETERS = Signals(
    Signal("proportional", initial=1.0),
    Signal("integral", "1/s", initial=1.0),
    Signal("derivative", "s", initial=0.1),
    Signal("setpoint_weight", initial=1.0, description="of the proportional part"),
    Signal("filter_time", "s", initial=0.02, low=0.0, description="of the derivative"),
    Signal("tracking_time", "s", initial=0.5, low=0.0, description="unwinds the integral"),
    Signal("lowest", initial=-1.0, description="command"),
    Signal("highest", initial=1.0, description="command"),
    Signal("rate_limit", "1/s", initial=5.0, low=0.0, description="of the command"),
    Signal("period", "s", initial=0.01, low=1e-9, description="in which the law is called"),
)
PID_MEMORY = Signals("integrated", "derived", "previous_measurement", "previous_command", "started")


def pid_step(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    """Compute the command; the step function of the controller.

    ``u`` (2,) is ``PID_INPUTS``, ``s`` (5,) is ``PID_MEMORY``, ``p`` (10,) is ``PID_PARAMETERS``
    and ``y`` (1,) is ``PID_OUTPUTS``.
    """
    setpoint, measurement = u[0], u[1]
    lowest, highest, period = p[6], p[7], p[9]
    if s[4] == 0.0:  # first step: start without a derivative kick, and within the limits
        s[2] = measurement
        s[3] = max(lowest, min(highest, 0.0))
        s[4] = 1.0

    filtering = p[4] + period
    proportional = p[0] * (p[3] * setpoint - measurement)
    s[1] = p[4] / filtering * s[1] - p[2] / filtering * (measurement - s[2])
    wanted = proportional + s[0] + s[1]

    change = p[8] * period
    command = max(lowest, min(highest, wanted))
    command = max(s[3] - change, min(s[3] + change, command))

    # A tracking time below one period would overshoot, so it is raised to one period.
    tracking = max(period, p[5])
    s[0] += p[1] * period * (setpoint - measurement) + period / tracking * (command - wanted)
    s[2] = measurement
    s[3] = command
    y[0] = command


def pid_controller(
    values: Mapping[str, object] | None = None, compile: bool = False
) -> PythonController:
    """Return the reference controller in Python; ``values`` are parameters by name."""
    return PythonController(
        pid_step,
        PID_INPUTS,
        PID_OUTPUTS,
        parameters=PID_PARAMETERS,
        memory=PID_MEMORY,
        values=values,
        compile=compile,
        name="pid",
    )
