"""Count the memory allocations of compiled steps, which must be 0 for real time."""

from __future__ import annotations

from rtsim.components.plant import Plant
from rtsim.core.tag import Period
from rtsim.equations.model import Model, bind
from rtsim.equations.numba_private import counting_allocations
from rtsim.solve import Solver

STEP = Period.of("1/100")
FEW, MANY = 11, 51


def allocations(solver: Solver, model: Model) -> float | None:
    """Return the number of memory allocations in a compiled step of 10 ms.

    ``solver`` advances ``model``.  A call from Python also allocates memory, once for each array
    argument.  The function therefore compares a call of few steps with a call of many steps.
    Returns ``None`` if the solver cannot take several steps at once. numpy's allocations outside
    compiled code are not counted.
    """
    signals = (model.states, model.discrete, model.inputs, model.parameters)
    x, z, u, p = (s.initial() for s in signals)
    plant = Plant("plant", bind(model), solver, STEP, (x, z, u, p))
    if plant.watch is not None:
        plant.watch.begin()
    with counting_allocations() as count:
        found = []
        for steps in (FEW, FEW, MANY):  # only the first run allocates memory for its setup
            before = count()
            taken = plant.run_on(plant.ns + steps * STEP.tick(1))
            if taken is None or len(taken[1]) < steps - 1:
                return None
            found.append(count() - before)
    return float((found[2] - found[1]) / (MANY - FEW))
