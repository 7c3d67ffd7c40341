"""Tracking task with a simple plant, K/s or K/s^2, for a person or a scripted pilot.

McRuer's experiments used these plants: D. T. McRuer and E. S. Krendel, AGARDograph 188 (1974).
"""

from __future__ import annotations

from typing import Self

import rtsim as rt
from rtsim.core.errors import UnknownName
from rtsim.core.tag import Duration
from rtsim.models.piloting.pilot_model import PilotModel
from rtsim.models.piloting.task import Flying, add_flying, task_named

STICK = rt.Signals(rt.Signal("pitch", low=-1.0, high=1.0, description="aft is positive: nose up"))
PLANTS = ("K/s", "K/s^2")
PERIOD_S = 0.01


class Integrator(rt.Plant):
    """Plant whose rate is proportional to the stick."""

    pitch = rt.state("rad")
    stick = rt.input()
    gain = rt.parameter("rad/s")

    def derivative(self, d: Self) -> None:
        d.pitch = self.gain * self.stick


class DoubleIntegrator(rt.Plant):
    """Plant whose acceleration is proportional to the stick."""

    pitch = rt.state("rad")
    pitch_rate = rt.state("rad/s")
    stick = rt.input()
    gain = rt.parameter("rad/s^2")

    def derivative(self, d: Self) -> None:
        d.pitch = self.pitch_rate
        d.pitch_rate = self.gain * self.stick


def plant(kind: str, gain: float) -> rt.Plant:
    """Return a plant of ``kind`` ``K/s`` or ``K/s^2`` with K = ``gain``."""
    if kind not in PLANTS:
        raise UnknownName("plant", kind, PLANTS, "scenario tracking")
    return Integrator(gain=gain) if kind == "K/s" else DoubleIntegrator(gain=gain)


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
) -> rt.Scenario:
    """Track a sum of sines with the plant K/s or K/s^2.

    ``plant_gain`` is K in rad/s (or rad/s^2) for full stick. ``by`` is ``person`` or ``script``.

    The arguments from ``gain`` to ``damping`` are parameters of the scripted pilot
    (``rtsim.models.piloting.PilotModel``). ``remnant`` is the density of the pilot's noise,
    rad/sqrt(Hz). ``realisation`` selects the phases of the target; 0 means the phases of the task.
    With ``until=0``, the run ends at the end of the task.
    """
    chosen = task_named(task, realisation)
    out = rt.Scenario("tracking", until=until if until else chosen.duration)
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
