"""A PID controller as it is built: limits of the command and its rate, and what follows from them.

The proportional part weighs the setpoint, the derivative is of the measurement alone, through a
first-order filter (both by backward differences).  The command is limited, then its rate; what both
took away unwinds the integral within ``tracking_time`` (back-calculation).
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


def pid_law(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    """Vectors as declared above: u (2,), s (5,), p (10,), y (1,)."""
    setpoint, measurement = u[0], u[1]
    lowest, highest, period = p[6], p[7], p[9]
    if s[4] == 0.0:  # at rest: neither a kick of the derivative nor a command out of limits
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

    # A tracking time below one period would overshoot: it means one period.
    tracking = max(period, p[5])
    s[0] += p[1] * period * (setpoint - measurement) + period / tracking * (command - wanted)
    s[2] = measurement
    s[3] = command
    y[0] = command


def pid_controller(
    values: Mapping[str, object] | None = None, compile: bool = False
) -> PythonController:
    """The design; ``values`` are parameters by name."""
    return PythonController(
        pid_law,
        PID_INPUTS,
        PID_OUTPUTS,
        parameters=PID_PARAMETERS,
        memory=PID_MEMORY,
        values=values,
        compile=compile,
        name="pid",
    )
