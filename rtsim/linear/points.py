"""Operating points: the values of a model, or of a whole scenario at a time of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rtsim.core.errors import ModelError, ScenarioError, UnknownName
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import Duration, to_ns
from rtsim.engine.system import System
from rtsim.equations.compiling import Compilation
from rtsim.equations.model import Model
from rtsim.scenario.scenario import Scenario
from rtsim.scenario.standard_components import PlantComponent


@dataclass(frozen=True)
class Point:
    """The time t (s), and the vectors x (n,), z (d,), u (m,) and p (k,) of a model."""

    t: float
    x: Vector
    z: Vector
    u: Vector
    p: Vector

    @classmethod
    def of(cls, model: Model, values: Mapping[str, object] | None = None, t: float = 0.0) -> Point:
        """Return the declared values of ``model``; ``values`` replace some of them by name."""
        layouts = layouts_of(model)
        by_layout: dict[str, dict[str, object]] = {letter: {} for letter in layouts}
        for name, value in (values or {}).items():
            owners = [letter for letter, signals in layouts.items() if name in signals]
            if not owners:
                known = [n for signals in layouts.values() for n in signals.names]
                raise UnknownName("value", name, known, f"model {model.name}")
            for letter in owners:
                by_layout[letter][name] = value
        x, z, u, p = (signals.initial(by_layout[letter]) for letter, signals in layouts.items())
        return cls(t, x, z, u, p)


def layouts_of(model: Model) -> dict[str, Signals]:
    """Return the layouts of x, z, u and p."""
    return {"x": model.states, "z": model.discrete, "u": model.inputs, "p": model.parameters}


def model_of(what: object) -> Model:
    """Return ``what`` as a model: a :class:`Model`, or a diagram with a method ``model()``.

    Raises :class:`ScenarioError` for anything else.
    """
    if isinstance(what, Model):
        return what
    made = getattr(what, "model", None)
    if callable(made) and not isinstance(what, type):
        found = made()
        if isinstance(found, Model):
            return found
    raise ScenarioError(
        f"{type(what).__name__} is not a model; give a Model, a Diagram or a Scenario"
    )


def plant_of(scenario: Scenario, name: str) -> tuple[str, PlantComponent]:
    """Return name and declaration of the plant ``name``; without a name, of the only plant."""
    plants = scenario.of(PlantComponent)
    if not name:
        if len(plants) != 1:
            raise ScenarioError(
                f"scenario {scenario.name} has {len(plants)} plants "
                f"({', '.join(plants) or 'none'}); give the name of one of them: plant=NAME"
            )
        name = next(iter(plants))
    if name not in plants:
        raise UnknownName("plant", name, plants, f"scenario {scenario.name}")
    return name, plants[name]


def system_at(
    scenario: Scenario, time: Duration = 0, *, seed: int = 0, compile: Compilation = True
) -> System:
    """Return the system after the instant at ``time`` s of a run, as fast as possible.

    Declared faults are left out.  Raises :class:`ScenarioError` for a negative time, and the errors
    of the run.
    """
    from rtsim.runs.simulation import simulate  # takes longer to import than the rest

    ns = to_ns(time, "time of the operating point")
    if ns < 0:
        raise ScenarioError(f"the operating point at {time!r} s is before the start of the run")
    copied = scenario.copy()
    copied.only_faults()
    copied.until_ns = max(ns + 1, copied.until_ns)
    return simulate(copied, seed=seed, compile=compile, stop_ns=ns).system


def point_in(system: System, name: str) -> Point:
    """Return the point of plant ``name``; raises :class:`UnknownName` for an unknown plant."""
    found = {plant.name: plant for plant in system.plants}
    if name not in found:
        raise UnknownName("plant", name, found)
    plant = found[name]
    vectors = (np.array(v) for v in (plant.x, plant.z, plant.u, plant.p))
    return Point(system.ns / 1e9, *vectors)


def check_undelayed(model: Model) -> None:
    """Raise :class:`ModelError` for a model with delays, which have infinitely many states."""
    if model.delays:
        raise ModelError(
            f"model {model.name} has delayed signals, which have no linear model with a finite "
            "number of states; replace Delayed, and each TransportDelay, by a Padé approximation, "
            "or let a sensor or a controller delay the signal"
        )


def check_ordinary(model: Model) -> None:
    """Raise :class:`ModelError` for a model with delays or with algebraic variables.

    In a loop the algebraic variables would count as discrete signals, which are held.
    """
    check_undelayed(model)
    if model.origin is not None and model.origin.algebraic.size:
        raise ModelError(
            f"model {model.name} has algebraic variables, which an open loop of a scenario cannot "
            "have; linearise the plant alone (plant=), or solve its equations for them"
        )
