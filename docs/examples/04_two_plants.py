"""An electric motor as two plants, each with a step of its own: the coil and the rotor.

The current in the coil changes within milliseconds, so the coil takes steps of 1 ms. The rotor is
slower and takes steps of 10 ms. Each plant samples the other at its own steps, and holds the sample
in between. In theory the motor settles at 60 rad/s and 6 A.

Try next: ``--set coil.voltage=24`` doubles both values. Change the step of the rotor to 0.1 s: the
samples are then too old, and the speed oscillates at the start.
"""

from rtsim import Model, Scenario, Signals


def electric(t, x, z, u, p, dx):
    """x: current; u: speed; p: voltage. 1 ohm, 5 mH, 0.1 V per rad/s."""
    dx[0] = (p[0] - 1.0 * x[0] - 0.1 * u[0]) / 0.005


def mechanic(t, x, z, u, p, dx):
    """x: speed; u: current. 0.1 N m per A, friction 0.01 N m s, inertia 0.002 kg m^2."""
    dx[0] = (0.1 * u[0] - 0.01 * x[0]) / 0.002


COIL = Model(
    name="coil",
    states=Signals("current [A]"),
    inputs=Signals("speed [rad/s]"),
    parameters=Signals("voltage [V] = 12"),
    derivative=electric,
)
ROTOR = Model("rotor", Signals("speed [rad/s]"), mechanic, inputs=Signals("current [A]"))


def scenario():
    out = Scenario("two-plants", until=1)
    out.plant("coil", COIL, step=0.001, inputs={"speed": "rotor.speed"})
    out.plant("rotor", ROTOR, step=0.01, inputs={"current": "coil.current"})
    return out
