"""A compensatory tracking task with a simple plant: K/s or K/s^2, and a scripted pilot.

McRuer's experiments used these plants: D. T. McRuer and E. S. Krendel, AGARDograph 188 (1974).
"""

from __future__ import annotations

from rtsim.core.errors import UnknownName
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.core.tag import Duration
from rtsim.equations.model import Model
from rtsim.models.piloting.pilot_model import PilotModel
from rtsim.models.piloting.task import Flying, add_flying, task_named
from rtsim.scenario.scenario import Scenario

STICK = Signals(Signal("pitch", low=-1.0, high=1.0, description="aft is positive: nose up"))
PLANTS = ("K/s", "K/s^2")
PERIOD_S = 0.01


def rate(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    """Fill ``dx`` (1,): the stick sets the rate."""
    dx[0] = p[0] * u[0]


def acceleration(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    """Fill ``dx`` (2,): the stick sets the acceleration."""
    dx[0] = x[1]
    dx[1] = p[0] * u[0]


def plant(kind: str, gain: float) -> Model:
    """Return the plant ``kind``, ``K/s`` or ``K/s^2``, with K = ``gain``."""
    if kind not in PLANTS:
        raise UnknownName("plant", kind, PLANTS, "scenario tracking")
    second = kind == "K/s^2"
    return Model(
        "double_integrator" if second else "integrator",
        states=Signals("pitch [rad]", *(["pitch_rate [rad/s]"] if second else [])),
        inputs=Signals("stick"),
        parameters=Signals(Signal("gain", "rad/s^2" if second else "rad/s", initial=gain)),
        derivative=acceleration if second else rate,
    )


def scenario(
    plant_kind: str = "K/s",
    plant_gain: float = 0.5,
    task: str = "pitch-tracking",
    latency: float = 0.0,
    by: str = "person",
    gain: float = 6.0,
    lead: float = 0.0,
    lag: float = 0.0,
    delay: float = 0.15,
    neuromuscular: float = 15.0,
    damping: float = 0.7,
    remnant: float = 0.0,
    realisation: int = 0,
    until: Duration = 0,
) -> Scenario:
    """Track a sum of sines with the plant K/s or K/s^2; a person flies, or a scripted pilot.

    ``plant_gain`` is K in rad/s (or rad/s^2) for full stick.  ``by`` is ``person`` or ``script``.
    The arguments from ``gain`` to ``damping`` are those of the scripted pilot
    (:class:`rtsim.models.piloting.PilotModel`); ``remnant`` is the density of the noise that is
    added to the error, rad/sqrt(Hz).  ``realisation`` selects the phases of the target; 0 leaves
    those of the task.  ``until`` 0 is the end of the task.
    """
    chosen = task_named(task, realisation)
    out = Scenario("tracking", until=until if until else chosen.duration)
    out.plant("vehicle", plant(plant_kind, plant_gain), step=0.01, inputs={"stick": "link.pitch"})
    out.show(scene=chosen.scene or "strips", **chosen.shown())
    model = PilotModel(gain, lead, lag, delay, neuromuscular, damping)
    add_flying(
        out,
        Flying(STICK, PERIOD_S, latency, by, {"pitch": model}, remnant),
        chosen,
        {"pitch": "vehicle.pitch"},
    )
    return out
