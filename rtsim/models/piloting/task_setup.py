"""What a scenario adds for a pilot: the stick, the link behind it, and the task.

The stick is an external input, which a person moves, or a scripted pilot of the same name and
signals.  Only this component changes from one to the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import Period
from rtsim.models.piloting.pilot_model import PilotModel, link, pilot
from rtsim.models.piloting.task import NAME, Task, add_task
from rtsim.scenario.scenario import Scenario

PERSON, SCRIPT = "person", "script"
WHO = (PERSON, SCRIPT)


class Untouched:
    """A stick that does not move; the run uses it until a viewer connects a stick."""

    def poll(self) -> Vector | None:
        return None


@dataclass(frozen=True)
class Flying:
    """Who moves the signals ``stick``, and how late they arrive at the aircraft.

    ``period`` is the period of link and scripted pilot, s; ``latency`` that of the link, s.  ``by``
    is ``person`` or ``script``.  ``models`` are the scripted pilot's parameters by axis, and
    ``remnant`` is the density of the noise that is added to the error, in its unit per sqrt(Hz).
    """

    stick: Signals
    period: float
    latency: float = 0.0
    by: str = PERSON
    models: Mapping[str, PilotModel] = field(default_factory=dict)
    remnant: float = 0.0


def add_flying(
    scenario: Scenario,
    flying: Flying,
    task: Task | None,
    signals: Mapping[str, str],
    values: Mapping[str, object] | None = None,
) -> None:
    """Add ``stick``, ``link`` and, if there is one, ``task`` to ``scenario``.

    The aircraft of the scenario reads the stick from ``link``.  ``signals`` and ``values`` are
    those of :func:`rtsim.models.piloting.task.add_task`.  Raises :class:`ScenarioError`.
    """
    if flying.by not in WHO:
        raise UnknownName("pilot", flying.by, WHO, "the argument by")
    names = flying.stick.names
    period = Period.of(flying.period)
    scenario.controller(
        "link",
        link(flying.stick, flying.period, flying.latency),
        period=period,
        inputs={name: f"stick.{name}" for name in names},
    )
    if task is not None:
        add_task(scenario, task, signals, values=values)
    if flying.by == PERSON:
        scenario.external_input("stick", flying.stick, Untouched())
        return
    _add_script(scenario, flying, task, signals, period)


def _add_script(
    scenario: Scenario,
    flying: Flying,
    task: Task | None,
    signals: Mapping[str, str],
    period: Period,
) -> None:
    """Add a scripted pilot as the controller ``stick``, and its remnant."""
    axes = () if task is None else getattr(task, "axes", ())
    flown = {axis: flying.models[axis] for axis in axes if axis in flying.models}
    if task is None or not flown:
        raise ScenarioError(
            "the scripted pilot flies tracking tasks only, on the axes "
            f"{', '.join(flying.models) or 'none'}; give task=pitch-tracking, or by=person"
        )
    inputs = {}
    for name in flown:
        inputs[f"{name}_target"] = f"{NAME}.{name}_target"
        inputs[f"{name}_answer"] = signals[name]
        if flying.remnant > 0.0:
            inputs[f"{name}_remnant"] = f"remnant.{name}"
    if flying.remnant > 0.0:
        noise = Signals(*flown)
        scenario.noise("remnant", noise, deviation=flying.remnant, period=period)
    scenario.controller(
        "stick", pilot(flying.stick, flown, flying.period), period=period, inputs=inputs
    )
    scenario.order("stick", "link")
