"""A controller in C runs beside its reference in Python, and rtsim compares the two.

The function ``control`` is the reference: it controls the speed of a motor with a limited voltage.
``10_controller_in_c.c`` is the same controller in C, and ``10_controller_in_c.toml`` says how to
call it. ``rtsim run`` runs the reference. ``rtsim sil test`` compares the C with the reference,
first step by step and then in closed loop.

Try next: remove the lower limit in the C file, and compare again. rtsim names the first step at
which the C differs from the reference.
"""

from rtsim import Model, PythonController, Scenario, Signals


def motion(t, x, z, u, p, dx):
    """x: speed; u: voltage. 20 rad/s per V, time constant 0.1 s."""
    dx[0] = (20.0 * u[0] - x[0]) / 0.1


def control(t, u, s, p, y):
    """u: setpoint and speed; s: integral, at 100 Hz; p: gains; y: voltage, at most 12 V."""
    error = u[0] - u[1]
    s[0] += 0.01 * p[1] * error
    y[0] = max(-12.0, min(12.0, p[0] * error + s[0]))


MOTOR = Model("motor", Signals("speed [rad/s]"), motion, inputs=Signals("voltage [V]"))


def scenario():
    out = Scenario("controller-in-c", until=2)
    out.plant("motor", MOTOR, step=0.002, inputs={"voltage": "controller.voltage"})
    out.source("wanted", Signals("speed [rad/s]"), {"speed": 100.0})
    out.at(1, "wanted.speed", -100.0)
    controller = PythonController(
        control,
        inputs=Signals("setpoint [rad/s]", "speed [rad/s]"),
        outputs=Signals("voltage [V]"),
        memory=Signals("integral [V]"),
        parameters=Signals("gain [V s/rad] = 0.1", "integral_gain [V/rad] = 1"),
    )
    wires = {"setpoint": "wanted.speed", "speed": "motor.speed"}
    out.controller("controller", controller, period=0.01, inputs=wires)
    return out
