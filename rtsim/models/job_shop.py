"""A job shop with discrete events, whose furnaces have differential equations.

Pieces of different mass arrive at random and wait for a free furnace. In a furnace, the temperature
T of a piece follows c m dT/dt = h (T_furnace - T). When the temperature of a piece reaches the
target, the next piece enters the furnace. The exact heating time is c m / h ln((T_furnace -
T_cold)/(T_furnace - T_target)).
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from math import log
from typing import Any, Self

import simpy

import rtsim as rt
from rtsim.core.signals import Signal, Signals
from rtsim.core.tag import Duration
from rtsim.discrete import Agenda, Processes
from rtsim.record.views import MOST_SIGNALS
from rtsim.solve import Adaptive


class Furnace(rt.Plant):
    """A furnace that holds one piece at a time."""

    temperature = rt.state("degC", 20.0)
    taken_in = rt.memory()
    holds = rt.memory()
    pieces = rt.input()
    mass = rt.input("kg", 1.0, low=1e-3)
    furnace = rt.parameter("degC", 900.0)
    cold = rt.parameter("degC", 20.0)
    target = rt.parameter("degC", 850.0)
    per_kg = rt.parameter("s/kg", 60.0, low=1e-3, description="time constant: c/h")
    assumptions = ("a piece has one temperature", "the furnace stays as hot as it is")

    def derivative(self, d: Self) -> None:
        d.temperature = self.holds * (self.furnace - self.temperature) / (self.per_kg * self.mass)

    @rt.rising
    def loaded(self) -> float:
        """Fire when a new piece has arrived."""
        return self.pieces - self.taken_in - 0.5

    @loaded.reset
    def put_in(self) -> None:
        self.temperature = self.cold
        self.taken_in = self.pieces
        self.holds = 1.0

    @rt.rising
    def done(self) -> float:
        """Fire when the piece has reached its target temperature."""
        return self.temperature - self.target

    @done.reset
    def take_out(self) -> None:
        self.temperature = self.cold
        self.holds = 0.0


def heating(mass: float, furnace: float = 900, cold: float = 20, target: float = 850) -> float:
    """Return the exact heating time (s) of a piece of ``mass`` kg; temperatures in degC."""
    return 60.0 * mass * log((furnace - cold) / (furnace - target))


def setup(agenda: Agenda, furnaces: int) -> None:
    free = simpy.Store(agenda, capacity=furnaces)
    free.items.extend(range(1, furnaces + 1))
    came, masses = agenda.random("arrivals"), agenda.random("masses")
    taken_in = [0] * (furnaces + 1)
    pieces = 0

    def piece(mass: float) -> Generator[Any, Any, None]:
        nonlocal pieces
        came_at = agenda.now
        pieces += 1
        turn = free.get()
        agenda.write(waiting=len(free.get_queue), present=pieces)
        k = yield turn
        begun = agenda.now
        taken_in[k] += 1
        agenda.write(**{f"pieces_{k}": taken_in[k], f"mass_{k}": mass})
        agenda.write(waiting=len(free.get_queue))
        yield agenda.crossing(f"furnace_{k}.done")
        pieces -= 1
        yield free.put(k)
        agenda.write(waiting=len(free.get_queue), present=pieces)
        agenda.send("finished", mass=mass, wait=begun - came_at, heating=agenda.now - begun)

    def coming() -> Generator[Any, Any, None]:
        while True:
            yield agenda.timeout(came.exponential(agenda.read("between")))
            low, high = agenda.read("lightest"), agenda.read("heaviest")
            agenda.process(piece(float(masses.uniform(low, high))))

    agenda.process(coming())


FINISHED = Signals("mass [kg]", "wait [s]", "heating [s]")
PARAMETERS = Signals(
    Signal("between", "s", initial=1200.0, low=1e-3, description="mean time between pieces"),
    Signal("lightest", "kg", initial=5.0, low=1e-3),
    Signal("heaviest", "kg", initial=15.0, low=1e-3),
)


def shop(furnaces: int) -> Processes:
    each = range(1, furnaces + 1)
    loads = [s for k in each for s in (f"pieces_{k}", Signal(f"mass_{k}", "kg", initial=1.0))]
    return Processes(
        partial(setup, furnaces=furnaces),
        outputs=Signals("waiting", "present", *loads),
        parameters=PARAMETERS,
        messages={"finished": FINISHED},
        assumptions=("pieces come at random, one at a time",),
    )


def scenario(furnaces: int = 2, hours: float = 24.0, step: Duration = 60) -> rt.Scenario:
    """A job shop: pieces arrive at random and wait for a free furnace."""
    out = rt.Scenario("job-shop", until=hours * 3600.0)
    solver = Adaptive(rtol=1e-11, atol=1e-11)
    names = [f"furnace_{k}" for k in range(1, furnaces + 1)]
    heated = [out.plant(name, Furnace(), step=step, solver=solver) for name in names]
    loads = out.processes("shop", shop(furnaces), on=[f"{name}.done" for name in names])
    for k, furnace in enumerate(heated, start=1):
        out.connect(f"{loads}.pieces_{k}", furnace.pieces)
        out.connect(f"{loads}.mass_{k}", furnace.mass)
    out.plot("pieces waiting and present", "shop.waiting", "shop.present")
    temperatures = [furnace.temperature for furnace in heated]
    out.plot("temperature of the furnaces [degC]", *temperatures[:MOST_SIGNALS])
    out.plot("wait and heating of each piece [s]", "finished.wait", "finished.heating")
    return out
