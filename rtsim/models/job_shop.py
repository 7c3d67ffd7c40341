"""A job shop: discrete events, and furnaces that are described by differential equations.

Pieces of different mass arrive at random and wait for a free furnace.  The temperature T of a piece
in a furnace follows c m dT/dt = h (T_furnace - T), starting cold.  When T exceeds the target, a
guard of the plant fires, the piece leaves, and the next piece enters.  The exact heating time is
c m / h ln((T_furnace - T_cold)/(T_furnace - T_target)).
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from math import log
from typing import Any

import simpy

from rtsim.core.signals import Signal, Signals, Vector
from rtsim.core.tag import Duration
from rtsim.discrete import Agenda, Processes
from rtsim.equations.model import Guard, Model
from rtsim.record.views import MOST_SIGNALS
from rtsim.scenario.scenario import Scenario
from rtsim.solve import Adaptive

PIECES, MASS = 0, 1
TAKEN_IN, HOLDS = 0, 1
FURNACE_T, COLD, TARGET, PER_KG = 0, 1, 2, 3
LOADED, DONE = 0, 1


def derivative(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    """Compute the rate at which the piece heats; it is 0 in an empty furnace."""
    dx[0] = z[HOLDS] * (p[FURNACE_T] - x[0]) / (p[PER_KG] * u[MASS])


def guard(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
    """Compute the guards: a new piece has arrived; the piece has reached the target temperature."""
    g[LOADED] = u[PIECES] - z[TAKEN_IN] - 0.5
    g[DONE] = x[0] - p[TARGET]


def reset(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
    """Put a cold piece into the furnace, or take the hot piece out of it."""
    x[0] = p[COLD]
    if i == LOADED:
        z[TAKEN_IN] = u[PIECES]
        z[HOLDS] = 1.0
    else:
        z[HOLDS] = 0.0


FURNACE = Model(
    name="furnace",
    states=Signals("temperature [degC] = 20"),
    derivative=derivative,
    discrete=Signals("taken_in", "holds"),
    inputs=Signals("pieces", Signal("mass", "kg", initial=1.0, low=1e-3)),
    parameters=Signals(
        "furnace [degC] = 900", "cold [degC] = 20", "target [degC] = 850",
        Signal("per_kg", "s/kg", initial=60.0, low=1e-3, description="time constant: c/h"),
    ),
    guards=(Guard("loaded", 1), Guard("done", 1)),
    guard=guard,
    reset=reset,
    assumptions=("a piece has one temperature", "the furnace stays as hot as it is"),
)  # fmt: skip


def heating(mass: float, furnace: float = 900, cold: float = 20, target: float = 850) -> float:
    """Return the exact heating time, s, of a piece of ``mass`` kg; temperatures in degC."""
    return 60.0 * mass * log((furnace - cold) / (furnace - target))


def setup(agenda: Agenda, furnaces: int) -> None:
    """Start the processes: pieces arrive, wait for a furnace, and leave when they are hot."""
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
    """Return the discrete-event processes of a shop with ``furnaces`` furnaces."""
    each = range(1, furnaces + 1)
    loads = [s for k in each for s in (f"pieces_{k}", Signal(f"mass_{k}", "kg", initial=1.0))]
    return Processes(
        partial(setup, furnaces=furnaces),
        outputs=Signals("waiting", "present", *loads),
        parameters=PARAMETERS,
        messages={"finished": FINISHED},
        assumptions=("pieces come at random, one at a time",),
    )


def scenario(furnaces: int = 2, hours: float = 24.0, step: Duration = 60) -> Scenario:
    """A job shop: pieces arrive at random and wait for one of ``furnaces`` furnaces."""
    out = Scenario("job-shop", until=hours * 3600.0)
    on = []
    for k in range(1, furnaces + 1):
        name = f"furnace_{k}"
        inputs = {"pieces": f"shop.pieces_{k}", "mass": f"shop.mass_{k}"}
        out.plant(name, FURNACE, step=step, solver=Adaptive(rtol=1e-11, atol=1e-11), inputs=inputs)
        on.append(f"{name}.done")
    out.processes("shop", shop(furnaces), on=on)
    out.plot("pieces waiting and present", "shop.waiting", "shop.present")
    furnace = [f"furnace_{k}.temperature" for k in range(1, furnaces + 1)]
    out.plot("temperature of the furnaces [degC]", *furnace[:MOST_SIGNALS])
    out.plot("wait and heating of each piece [s]", "finished.wait", "finished.heating")
    return out
