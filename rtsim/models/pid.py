"""A PID controller with limits of the command and its rate, and with anti-windup.

The proportional term has a setpoint weight. The derivative term acts on the filtered measurement,
not on the error. Derivative and filter are backward differences. The limit of the command is
applied before the limit of its rate. Back-calculation with ``tracking_time`` (s) prevents
integrator wind-up at the limits.

Source: K. J. Åström and R. M. Murray, Feedback Systems (Princeton, 2008), sections 10.4 and 10.5.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import rtsim as rt


class Pid(rt.Controller):
    """PID controller with a limited command."""

    setpoint = rt.input()
    measurement = rt.input()
    command = rt.output()
    proportional = rt.parameter("1", 1.0)
    integral = rt.parameter("1/s", 1.0)
    derivative = rt.parameter("s", 0.1)
    setpoint_weight = rt.parameter("1", 1.0, description="of the proportional part")
    filter_time = rt.parameter("s", 0.02, low=0.0, description="of the derivative")
    tracking_time = rt.parameter("s", 0.5, low=0.0, description="unwinds the integral")
    lowest = rt.parameter("1", -1.0, description="command")
    highest = rt.parameter("1", 1.0, description="command")
    rate_limit = rt.parameter("1/s", 5.0, low=0.0, description="of the command")
    period = rt.parameter("s", 0.01, low=1e-9, description="in which the law is called")
    integrated = rt.memory()
    derived = rt.memory()
    previous_measurement = rt.memory()
    previous_command = rt.memory()
    started = rt.memory()

    def step(self) -> None:
        if self.started == 0.0:  # start without a derivative kick, and within the limits
            self.previous_measurement = self.measurement
            self.previous_command = self.within_limits(0.0)
            self.started = 1.0

        filtering = self.filter_time + self.period
        proportional = self.proportional * (self.setpoint_weight * self.setpoint - self.measurement)
        change = self.measurement - self.previous_measurement
        decay = self.filter_time / filtering
        self.derived = decay * self.derived - self.derivative / filtering * change
        wanted = proportional + self.integrated + self.derived

        most = self.rate_limit * self.period
        before = self.previous_command
        command = max(before - most, min(before + most, self.within_limits(wanted)))

        # A tracking time below one period would overshoot, so it is raised to one period.
        tracking = max(self.period, self.tracking_time)
        error = self.setpoint - self.measurement
        excess = command - wanted
        self.integrated += self.integral * self.period * error + self.period / tracking * excess
        self.previous_measurement = self.measurement
        self.previous_command = command
        self.command = command

    def within_limits(self, command: float) -> float:
        return max(self.lowest, min(self.highest, command))


class CompiledPid(Pid, compile=True):
    """The same controller, compiled to machine code."""


def pid_controller(
    values: Mapping[str, Any] | None = None, compile: bool = False
) -> rt.PythonController:
    """Return the controller in Python, as a reference for C code.

    ``values`` are parameters by name.
    """
    pid = CompiledPid if compile else Pid
    return pid(**dict(values or {})).controller("pid")
