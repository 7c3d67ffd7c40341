"""A position control loop, built from blocks instead of equations.

The setpoint steps from 0 to 1 at 1 s. The error is the setpoint minus the position. The error is
amplified and drives a motor, whose transfer function is 1 / (s^2 + s). The diagram becomes one
model, which runs like any other plant. In theory the damping ratio is 0.25, and the position
overshoots by 44 %.

Try next: ``--set loop.amplifier_gain=1`` gives a damping ratio of 0.5 and an overshoot of 16 %.
"""

import rtsim as rt
from rtsim.blocks import Diagram, Gain, Step, Sum, TransferFunction


def diagram():
    loop = Diagram("loop")
    loop.add("setpoint", Step(time=1))
    loop.add("error", Sum("+-"), "setpoint", "motor")
    loop.add("amplifier", Gain(4.0), "error")
    loop.add("motor", TransferFunction([1], [1, 1, 0]), "amplifier")
    loop.output("setpoint")
    loop.output("motor")
    return loop


def scenario():
    out = rt.Scenario("block-diagram", until=11)
    out.plant("loop", diagram().model(), step=0.01)
    return out
