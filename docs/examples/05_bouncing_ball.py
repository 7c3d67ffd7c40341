"""A ball bounces: a guard finds each impact, and a reset changes the speed.

The value of the guard is the height of the ball. When the height falls through 0, the method
``bounce`` reverses the speed and reduces it by 30 %. The bounces follow each other ever faster.
When the bounces accumulate, the method ``lie`` puts the ball to rest. In theory the first impact is
at 0.4515 s, and the ball comes to rest at 2.5586 s.

Try next: ``--set ball.restitution=0.9 --until 10``. The recording lists each impact as an event.
"""

import rtsim as rt


class Ball(rt.Plant):
    height = rt.state("m", 1)
    speed = rt.state("m/s")
    motion = rt.mode("bouncing", "at rest")
    restitution = rt.parameter("1", 0.7)

    def derivative(self, d):
        d.height = self.speed
        d.speed = -9.81 if self.motion == "bouncing" else 0.0

    @rt.falling
    def floor(self):
        return self.height

    @floor.reset
    def bounce(self):
        self.height, self.speed = 0.0, -self.restitution * self.speed

    @floor.stop
    def lie(self):
        self.height, self.speed, self.motion = 0.0, 0.0, "at rest"


def scenario():
    out = rt.Scenario("bouncing-ball", until=3)
    out.plant(Ball(), step=0.01)
    return out
