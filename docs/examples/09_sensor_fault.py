"""A controller keeps an oven at 200 degrees, until a fault makes its sensor read 20 K too much.

The scenario itself contains no fault. The option ``--faults`` injects the fault that
``09_sensor_fault.toml`` describes: from 100 s to 200 s the sensor adds 20 K. The controller has an
integral, so in theory the true temperature falls to 180 degrees, and returns after the fault.

Try next: in the fault file, change the kind to "drift" and ``amount = 20.0`` to ``rate = 0.2``.
"""

from rtsim import Model, PythonController, Scenario, Signals


def warming(t, x, z, u, p, dx):
    """x: temperature; u: rate at which the power warms the oven. The room has 20 degrees."""
    dx[0] = u[0] - (x[0] - 20.0) / 50.0


def control(t, u, s, p, y):
    """u: measured temperature; s: integral, at 10 Hz; y: power."""
    error = 200.0 - u[0]
    s[0] += 0.1 * 0.02 * error
    y[0] = 0.4 * error + s[0]


POWER = Signals("power [K/s]")
OVEN = Model("oven", Signals("temperature [degC] = 200"), warming, inputs=POWER)


def scenario():
    out = Scenario("sensor-fault", until=300)
    out.plant("oven", OVEN, step=0.1, inputs={"power": "controller.power"})
    out.sensor("sensor", {"temperature": "oven.temperature"}, period=0.1)
    controller = PythonController(
        control,
        inputs=Signals("temperature [degC]"),
        outputs=POWER,
        memory=Signals("integral [K/s] = 3.6"),
    )
    wires = {"temperature": "sensor.temperature"}
    out.controller("controller", controller, period=0.1, inputs=wires)
    return out
