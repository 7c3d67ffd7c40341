"""A motor held at a speed: the plant, and the reference controller."""

from rtsim import Model, PythonController, Scenario, Signal, Signals
from rtsim.core.signals import Vector

PERIOD = 0.01  # s
LIMIT = 12.0  # V


def derivative(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
    """The speed follows the voltage with a time constant."""
    dx[0] = (p[0] * u[0] - x[0]) / p[1]


MOTOR = Model(
    name="motor",
    states=Signals("speed [rad/s]"),
    inputs=Signals("voltage [V]"),
    parameters=Signals(
        Signal("speed_per_volt", "rad/s/V", initial=20.0),
        Signal("time_constant", "s", initial=0.1, low=0.001),
    ),
    derivative=derivative,
    assumptions=("no friction, no inductance",),
)


def law(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:
    """PI controller; it does not integrate while its command is at the limit."""
    error = u[0] - u[1]
    wanted = p[0] * error + s[0]
    if wanted > LIMIT:
        y[0] = LIMIT
    elif wanted < -LIMIT:
        y[0] = -LIMIT
    else:
        s[0] += p[1] * PERIOD * error
        y[0] = wanted


def scenario(setpoint: float = 100.0, until: float = 3.0) -> Scenario:
    """Step to ``setpoint`` (rad/s) at 0.1 s, and to half of it in reverse at 1.5 s."""
    out = Scenario("motor", until=until)
    out.plant("motor", MOTOR, step=0.002, inputs={"voltage": "controller.voltage"})
    out.source("wanted", Signals("speed [rad/s]"))
    out.at(0.1, "wanted.speed", setpoint)
    out.at(1.5, "wanted.speed", -0.5 * setpoint)
    design = PythonController(
        law,
        inputs=Signals("setpoint [rad/s]", "speed [rad/s]"),
        outputs=Signals("voltage [V]"),
        memory=Signals("integral [V]"),
        parameters=Signals(
            Signal("gain", "V s/rad", initial=0.2),
            Signal("integral_gain", "V/rad", initial=1.0),
        ),
    )
    out.controller(
        "controller",
        design,
        period=PERIOD,
        inputs={"setpoint": "wanted.speed", "speed": "motor.speed"},
    )
    out.plot("speed [rad/s]", "motor.speed", "wanted.speed")
    out.plot("voltage [V]", "motor.voltage", "controller.voltage")
    return out
