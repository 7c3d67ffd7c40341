"""How often compiled steps ask for memory: in real time, never."""

from __future__ import annotations

from rtsim.components.plant import Plant
from rtsim.core.tag import Period
from rtsim.equations.model import Model, bind
from rtsim.equations.numba_private import counting_allocations
from rtsim.solve import Solver

STEP = Period.of("1/100")
FEW, MANY = 11, 51


def allocations(solver: Solver, model: Model) -> float | None:
    """Allocations a step of 10 ms, of ``solver`` and what ``model`` computes, compiled.

    Runs of a few and of many steps are compared: what a call from Python asks for, once for each
    array that it hands over, is in both.
    ``None`` where the solver takes no several steps at once (numpy's own allocations, outside of
    compiled code, are not seen).
    """
    signals = (model.states, model.discrete, model.inputs, model.parameters)
    x, z, u, p = (s.initial() for s in signals)
    plant = Plant("plant", bind(model), solver, STEP, (x, z, u, p))
    if plant.watch is not None:
        plant.watch.begin()
    with counting_allocations() as count:
        found = []
        for steps in (FEW, FEW, MANY):  # the first time more is set up
            before = count()
            taken = plant.run_on(plant.ns + steps * STEP.tick(1))
            if taken is None or len(taken[1]) < steps - 1:
                return None
            found.append(count() - before)
    return float((found[2] - found[1]) / (MANY - FEW))
