"""The systems that the tests of the FMI export compare with runs of rtsim."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import rtsim as rt
from rtsim import Mode, Signals, Transition, modal
from rtsim.blocks import PID, Diagram, SampledPID, Step, Sum, TransferFunction
from rtsim.models.ball import scenario as ball
from rtsim.models.f16.scenario import scenario as f16

ONE_STEP = 0.01


class Room(rt.Plant):
    """A thermostat with two levels."""

    temperature = rt.state("degC", 18)
    heater = rt.mode("off", "on")
    power = rt.parameter("K/s", 1.0, description="of the heater")
    outside = rt.input("K/s", -0.5)
    warmth = rt.output("degC")

    def derivative(self, d: Self) -> None:
        d.temperature = self.outside + (1.5 * self.power if self.heater == "on" else 0.0)

    def outputs(self) -> None:
        self.warmth = self.temperature + 0.5 * self.outside

    @rt.falling(at_start=True)
    def cold(self) -> float:
        return self.temperature - 19.0

    @cold.reset
    def switch_on(self) -> None:
        self.heater = "on"

    @rt.rising(at_start=True)
    def warm(self) -> float:
        return self.temperature - 21.0

    @warm.reset
    def switch_off(self) -> None:
        self.heater = "off"


class Lorenz(rt.Plant):
    x = rt.state("1", 1)
    y = rt.state("1", 1)
    z = rt.state("1", 1)

    def derivative(self, d: Self) -> None:
        d.x = 10.0 * (self.y - self.x)
        d.y = self.x * (28.0 - self.z) - self.y
        d.z = self.x * self.y - 8.0 / 3.0 * self.z


class Cradle(rt.Plant):
    """Newton's cradle: a reset makes another guard fire in the next microstep."""

    angle = rt.state("rad", (-1, 0, 0))
    speed = rt.state("rad/s", shape=(3,))

    def derivative(self, d: Self) -> None:
        for i in range(3):
            d.angle[i] = self.speed[i]
            d.speed[i] = -9.81 * self.angle[i]

    @rt.falling
    def left(self) -> float:
        return self.angle[1] - self.angle[0]  # type: ignore[no-any-return]

    @left.reset
    def blow_left(self) -> None:
        self.speed = (self.speed[1], self.speed[0], self.speed[2])

    @rt.falling
    def right(self) -> float:
        return self.angle[2] - self.angle[1]  # type: ignore[no-any-return]

    @right.reset
    def blow_right(self) -> None:
        self.speed = (self.speed[0], self.speed[2], self.speed[1])


class Lander(rt.Plant):
    """A body whose run ends when it reaches the ground."""

    height = rt.state("m", 10.0)

    def derivative(self, d: Self) -> None:
        d.height = -3.0

    @rt.falling(terminal=True)
    def ground(self) -> float:
        return self.height

    @ground.reset
    def land(self) -> None:
        self.height = 0.0


class Crasher(rt.Plant):
    """A body whose run ends when it reaches the ground; the guard has no reset."""

    height = rt.state("m", 10.0)

    def derivative(self, d: Self) -> None:
        d.height = -3.0

    @rt.falling(terminal=True)
    def ground(self) -> float:
        return self.height


class Watched(rt.Plant):
    """An oscillator whose guard has no reset."""

    place = rt.state("m", 1.0)
    speed = rt.state("m/s")

    def derivative(self, d: Self) -> None:
        d.place = self.speed
        d.speed = -4.0 * self.place

    @rt.rising
    def upward(self) -> float:
        return self.place


class Rubber(rt.Plant):
    """A ball whose reset leaves the height where it is, slightly under the floor."""

    height = rt.state("m", 1.0)
    speed = rt.state("m/s", derivative_of="height")
    lies = rt.memory()

    def derivative(self, d: Self) -> None:
        d.height = self.speed
        d.speed = -9.81 if self.lies == 0.0 else 0.0

    @rt.falling
    def floor(self) -> float:
        return self.height

    @floor.reset
    def bounce(self) -> None:
        self.speed = -0.7 * self.speed

    @floor.stop
    def lie(self) -> None:
        self.speed = 0.0
        self.lies = 1.0


class Sampled(rt.Plant):
    """A filter whose timers sample the state every 20 ms, and move the state once at 0.5 s."""

    x = rt.state("m", 1.0)
    held = rt.memory("m")

    def derivative(self, d: Self) -> None:
        d.x = -2.0 * self.x + self.held

    @rt.every(0.02)
    def sample(self) -> None:
        self.held = 0.5 * self.x

    @rt.every(0.5)
    def kick(self) -> None:
        self.x = self.x + 0.25


def pid() -> rt.Model:
    """Return a position loop with a continuous PID block."""
    loop = Diagram("loop")
    loop.add("setpoint", Step(time=1))
    loop.add("error", Sum("+-"), "setpoint", "motor")
    loop.add("pid", PID(4.0, 0.5, 0.3), "error")
    loop.add("motor", TransferFunction([1], [1, 1, 0]), "pid")
    loop.output("setpoint")
    loop.output("motor")
    return loop.model()


def sampled_pid() -> rt.Model:
    """Return a position loop with a PID block that samples at 50 Hz."""
    loop = Diagram("loop")
    loop.add("setpoint", Step(time=1))
    loop.add("error", Sum("+-"), "setpoint", "motor")
    loop.add("pid", SampledPID(4.0, 0.5, 0.3, period=0.02), "error")
    loop.add("motor", TransferFunction([1], [1, 1, 0]), "pid")
    loop.output("motor")
    return loop.model()


def fill(dx: Any) -> None:
    dx.level = 1.0


def drain(dx: Any, x: Any) -> None:
    dx.level = -2.0 * x.level


def rest(dx: Any) -> None:
    dx.level = 0.25


def full(x: Any) -> float:
    return x.level - 2.0  # type: ignore[no-any-return]


def empty(x: Any) -> float:
    return x.level - 0.5  # type: ignore[no-any-return]


def rested(x: Any) -> float:
    return x.level - 0.75  # type: ignore[no-any-return]


TANK = modal(
    "tank",
    Signals("level [m] = 0.1"),
    modes=[
        Mode("fills", fill, (Transition("full", full, "drains", +1),)),
        Mode("drains", drain, (Transition("empty", empty, "rests", -1),)),
        Mode("rests", rest, (Transition("rested", rested, "fills", +1),)),
    ],
)
"""A tank with three modes."""


def alone(model: Any, until: float, step: float = ONE_STEP, solver: str = "rk4") -> rt.Scenario:
    """Return a scenario with ``model`` as its only plant, which is called ``plant``."""
    out = rt.Scenario("alone", until=until)
    plant = out.plant("plant", model, step=step, solver=solver)
    if isinstance(model, Room):
        out.connect(-0.5, plant.outside)
    return out


PLANTS: dict[str, tuple[Callable[[], rt.Scenario], str]] = {
    "ball": (lambda: ball(until=3), "ball"),
    "thermostat": (lambda: alone(Room(), 20, 0.05), "plant"),
    "lorenz": (lambda: alone(Lorenz(), 10), "plant"),
    "adaptive": (lambda: alone(Lorenz(), 5, solver="dp54"), "plant"),
    "cradle": (lambda: alone(Cradle(), 3), "plant"),
    "rubber": (lambda: alone(Rubber(), 3), "plant"),
    "watched": (lambda: alone(Watched(), 4), "plant"),
    "timers": (lambda: alone(Sampled(), 2), "plant"),
    "pid": (lambda: alone(pid(), 5), "plant"),
    "sampled_pid": (lambda: alone(sampled_pid(), 5), "plant"),
    "modes": (lambda: alone(TANK, 12), "plant"),
    "f16_plant": (lambda: f16("11", until=5), "f16"),
}
"""Scenarios and the plants that the tests export from them."""


class Switch(rt.Controller, compile=True):
    """A two-point controller, sampled."""

    measured = rt.input("degC")
    outside = rt.output("K/s")

    def step(self) -> None:
        self.outside = -0.5 if self.measured > 20.0 else -0.25


def switched() -> rt.Scenario:
    """Return a room whose heater is a guard, and a compiled controller with a latency."""
    out = rt.Scenario("switched", until=20)
    room = out.plant("room", Room(), step=0.05)
    switch = out.controller("switch", Switch(), period=0.3, transport=rt.Fixed(0.02))
    out.connect(room.warmth, switch.measured)
    out.connect(switch.outside, room.outside)
    return out


LOOPS: dict[str, Callable[[], rt.Scenario]] = {
    "f16_loop": lambda: f16(until=8),
    "ball_loop": lambda: ball(until=3),
    "switched": switched,
}
