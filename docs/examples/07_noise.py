"""Gusts of wind turn a boat, and the water damps its rate of turn.

The component ``wind`` draws a new random value every 0.1 s and holds it. The gusts come from a
random stream that is named after the component ``wind``. The same seed gives the same gusts, also
after you add other components. In theory the standard deviation of the rate is 0.2 / sqrt(2) = 0.14
rad/s in a long run.

Try next: ``--seed 2`` gives other gusts. ``--set boat.damping=4`` halves the standard deviation.
"""

import rtsim as rt


class Boat(rt.Plant):
    rate = rt.state("rad/s", description="rate of turn")
    gust = rt.input("rad/s^2")
    damping = rt.parameter("1/s", 1)

    def derivative(self, d):
        d.rate = self.gust - self.damping * self.rate


def scenario():
    out = rt.Scenario("noise", until=60)
    boat = out.plant(Boat(), step=0.1)
    wind = out.noise("wind", rt.Signals("gust [rad/s^2]"), deviation=0.2, period=0.1)
    out.connect(wind, boat)
    return out
