"""A pilot that sees the states of the F-16 and moves its stick: an approach, and a take-off."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from rtsim.components.external_inputs import ExternalInput
from rtsim.core.signals import Vector
from rtsim.equations.model import BoundModel, bind
from rtsim.models.f16.aircraft import PILOTED_F16
from rtsim.models.f16.by_wire import STICK
from rtsim.models.terrain import AIRFIELD, RUNWAY_LENGTH, along_runway, local
from rtsim.models.units import DEG, KT
from rtsim.record.recorders import Recorder
from rtsim.runs.result import RunResult
from rtsim.runs.simulation import simulate
from rtsim.scenario.loading import load_scenario
from rtsim.scenario.scenario import Scenario
from rtsim.scenario.standard_components import ExternalInputComponent

_G = 9.80665


@cache
def bound() -> BoundModel:
    return bind(PILOTED_F16)


class Pilot:
    """An input device that also gets the published states; a subclass flies by :meth:`move`."""

    def __init__(self, first: Vector) -> None:
        self.stick = dict(zip(STICK.names, map(float, first), strict=True))
        self.seen: dict[str, float] = {}
        self._y, self._u = PILOTED_F16.outputs.initial(), PILOTED_F16.inputs.initial()
        self._p, self._z = PILOTED_F16.parameters.initial(), PILOTED_F16.discrete.initial()
        self._said = b""

    def publish(self, plant: str, ns: int, x: Vector, next_ns: int, next_x: Vector) -> None:  # noqa: ARG002
        if plant != "f16":
            return
        bound().output.call(ns / 1e9, x, self._z, self._u, self._p, self._y)
        self.seen = dict(zip(PILOTED_F16.outputs.names, map(float, self._y), strict=True))
        north, east = local(self.seen["latitude"], self.seen["longitude"])
        self.along, self.across = along_runway(north, east)
        self.time = ns / 1e9

    def withdraw(self, plant: str) -> None: ...

    def poll(self) -> Vector | None:
        if not self.seen:
            return None
        self.move()
        values = np.array([self.stick[name] for name in STICK.names])
        bounds = zip(values, STICK, strict=True)
        values = np.array([max(s.low, min(s.high, value)) for value, s in bounds])
        if values.tobytes() == self._said:
            return None
        self._said = values.tobytes()
        return values

    def move(self) -> None:
        """Move the stick by what was seen."""

    def sinks_at(self, wanted: float) -> None:
        """Move the pitch stick towards a vertical speed (m/s, downwards)."""
        load = (self.seen["velocity_down"] - wanted) / (1.2 * _G)
        self.stick["pitch"] = max(-0.12, min(0.12, load / (6.0 if load > 0.0 else 2.5)))

    def keeps_the_centre_line(self) -> None:
        """Move the roll stick towards the extended centre line of the runway."""
        course = self.seen["yaw"] - AIRFIELD[2] * DEG
        drift = self.seen["airspeed"] * math.sin(course)
        bank = max(-0.3, min(0.3, -(0.02 * self.across + 0.12 * drift) / 1.5))
        self.stick["roll"] = max(-0.3, min(0.3, 0.5 * (bank - self.seen["roll"])))

    def steers(self) -> None:
        """Move the pedals towards the centre line."""
        course = self.seen["yaw"] - AIRFIELD[2] * DEG
        self.stick["yaw"] = max(-0.5, min(0.5, -(0.01 * self.across + 2.0 * course)))


class Lands(Pilot):
    """Flies down the glide path, flares, touches down, and brakes to a stop."""

    def __init__(self, first: Vector, aim: float = 300.0) -> None:
        super().__init__(first)
        self.aim = aim - 0.5 * RUNWAY_LENGTH
        self.down = False

    def move(self) -> None:
        seen, stick = self.seen, self.stick
        self.down = self.down or seen["wheel_load"] > 0.05
        if self.down:
            stick.update(pitch=0.0, roll=0.0, throttle=0.0, ap_speed=0.0)
            stick["brake"] = 1.0 if seen["pitch"] < 1.0 * DEG else 0.0
            self.steers()
            return
        self.keeps_the_centre_line()
        height, path = seen["height"], (self.aim - self.along) * math.tan(3.0 * DEG)
        if height < 12.0:
            stick.update(ap_speed=0.0, throttle=0.0)
            self.sinks_at(0.6 + 0.25 * height)
            return
        stick["ap_speed"] = 1.0
        sink = seen["airspeed"] * math.sin(3.0 * DEG) + 0.25 * (height - path)
        self.sinks_at(max(0.0, min(10.0, sink)))


class TakesOff(Pilot):
    """Full power, raises the nose at ``rotates`` kt, climbs, and retracts the gear."""

    def __init__(self, first: Vector, rotates: float = 125.0) -> None:
        super().__init__(first)
        self.rotates = rotates

    def move(self) -> None:
        seen, stick = self.seen, self.stick
        stick["throttle"] = 1.0
        if seen["wheel_load"] > 0.0:
            self.steers()
            stick["pitch"] = 1.0 if seen["airspeed"] > self.rotates * KT else 0.0
            return
        stick["yaw"] = 0.0
        if seen["height"] > 15.0:
            stick["gear"] = 0.0
        self.sinks_at(-15.0 if seen["height"] > 3.0 else -4.0)


def piloted(
    pilot: type[Pilot], recorder: Recorder | None, until: float, **settings: object
) -> tuple[RunResult, Pilot]:
    """Fly the scenario by ``pilot``; return the result and the pilot."""
    out: Scenario = load_scenario("f16-by-hand", {k: str(v) for k, v in settings.items()})
    part = out.component("stick")
    assert isinstance(part, ExternalInputComponent)
    signals = part.external_input.signals
    flies = pilot(signals.initial())
    part.external_input = ExternalInput("stick", signals, flies)
    found = simulate(out, until=until, recorder=recorder, publisher=flies)
    return found, flies
