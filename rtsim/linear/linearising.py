"""linearise: the linear model of a plant, a diagram, or an open loop of a scenario."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rtsim.core.errors import ScenarioError
from rtsim.core.tag import Duration
from rtsim.equations.compiling import Compilation
from rtsim.equations.constraints import explicit
from rtsim.equations.model import BoundModel, bind
from rtsim.linear.plants import DISCRETE_HELD, plant_slopes
from rtsim.linear.points import Point, model_of, plant_of, point_in, system_at
from rtsim.linear.state_space import StateSpace
from rtsim.linear.trimming import Trim
from rtsim.scenario.scenario import Scenario


def linearise(
    what: Any,
    *,
    at: Mapping[str, object] | Trim | None = None,
    plant: str = "",
    start: str = "",
    end: str = "",
    time: Duration = 0,
    compile: Compilation = True,
) -> StateSpace:
    """Return a linear model about an operating point.

    - A :class:`Model` or a ``Diagram``: ``dx/dt = A x + B u``, ``y = C x + D u`` for deviations
      from the point ``at``: a :class:`Trim`, or values by name (states, inputs, discrete signals
      and parameters).  Other values are as declared.  The outputs are those of the model; a model
      without outputs has its states as outputs.
    - A :class:`Scenario` and ``plant``: the same for a plant, at ``time`` s of a run.
    - A :class:`Scenario` and ``start``, ``"component.signal"``: the open loop from ``start`` to
      ``end`` (default: ``start``) as a sampled system; see :func:`rtsim.linear.open_loop`.

    Derivatives are found by complex step where the functions allow it, else by central differences;
    ``errors`` of the result are estimates of their errors.  Raises :class:`ScenarioError` for wrong
    names, and :class:`ModelError` if a derivative is not finite.

    Example:
        linearise(heater, at={"temperature": 300.0})
    """
    if not isinstance(what, Scenario):
        for name, given in (("plant", plant), ("start", start), ("end", end), ("time", time)):
            if given:
                raise ScenarioError(f"{name}= is for a Scenario; leave it out for a model")
        model = explicit(model_of(what))
        values = at.values if isinstance(at, Trim) else at
        point = Point.of(model, values)
        bound = bind(model, compile=compile, x=point.x, p=point.p, u=point.u, z=point.z)
        return linear_plant(bound, point)
    if at is not None:
        raise ScenarioError(
            "at= is for a model; in a scenario, set values with Scenario.set, and choose the "
            "operating point with time="
        )
    if start:
        if plant:
            raise ScenarioError(f"give plant={plant!r} or start={start!r}, not both")
        from rtsim.linear.loops import open_loop

        return open_loop(what, start, end, time=time, compile=compile).system
    if end:
        raise ScenarioError(f"end={end!r} needs start=, the signal at which the open loop begins")
    name, _ = plant_of(what, plant)
    system = system_at(what, time, compile=compile)
    found = next(p for p in system.plants if p.name == name)
    return linear_plant(found.bound, point_in(system, name))


def linear_plant(bound: BoundModel, at: Point) -> StateSpace:
    """Return the linear model of a plant at a point; discrete values are held."""
    model = bound.model
    n, d, r = at.x.size, at.z.size, model.outputs.size
    slopes = plant_slopes(bound, at)
    kept = [*range(n), *range(n + d, n + d + at.u.size)]
    output, errors = slopes.output[:, kept], slopes.errors[:, kept]
    outputs = model.outputs
    if not r:
        outputs = model.states
        output = np.eye(n, n + at.u.size)
        errors = np.vstack((errors, np.zeros_like(output)))
    changes = bool(model.timers) or model.update is not None
    notes = (DISCRETE_HELD,) if changes else ()
    guarded = ("guards and resets are left out",) if model.guards else ()
    exact = len(slopes.exact.intersection(kept))
    return StateSpace(
        slopes.rate[:, :n], slopes.rate[:, n + d :], output[:, :n], output[:, n:],
        model.states, model.inputs, outputs,
        name=model.name,
        method=method_of(exact, len(kept)),
        errors=errors,
        notes=(*notes, *guarded, *slopes.notes),
    )  # fmt: skip


def method_of(exact: int, variables: int) -> str:
    """Return how the derivatives by ``variables`` were found, ``exact`` of them by complex step."""
    if exact == variables:
        return "complex step"
    if not exact:
        return "central differences"
    return f"complex step for {exact} of {variables} variables, central differences for the others"
