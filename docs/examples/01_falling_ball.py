"""A ball falls from a height of 100 m, without air.

This is the smallest scenario: one plant, described by a class. The plant has two states, the
height and the speed. Its method ``derivative`` assigns the derivative of each state.

In theory the ball is at 100 m - g t^2 / 2, which is 21.52 m after 4 s.

Try next: ``--set ball.gravity=1.62`` drops the ball on the Moon. ``--until 6`` runs longer. The
plant has no ground, so the ball falls on below 0 m; example 05 adds a ground.
"""

import rtsim as rt


class Ball(rt.Plant):
    height = rt.state("m", 100)
    speed = rt.state("m/s")
    gravity = rt.parameter("m/s^2", 9.81)

    def derivative(self, d):
        d.height = self.speed
        d.speed = -self.gravity


def scenario():
    out = rt.Scenario("falling-ball", until=4)
    out.plant(Ball(), step=0.01)
    return out
