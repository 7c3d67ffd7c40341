"""A flight by a scripted stick, and what a viewer would be given of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rtsim.components.external_inputs import ExternalInput
from rtsim.core.signals import Vector
from rtsim.engine.executive import StatePublisher
from rtsim.pilot.interpolation import StatePair
from rtsim.pilot.loop import Cockpit
from rtsim.record.recorders import Recorder
from rtsim.runs.simulation import RunResult, simulate
from rtsim.scenario.loading import load_scenario
from rtsim.scenario.scenario import Scenario
from rtsim.scenario.standard_components import ExternalInputComponent
from rtsim.testing.clock import FakeClock

Script = Sequence[tuple[float, Sequence[float]]]
"""From when on (s), the first values of the stick, such as pitch, roll, yaw and throttle."""


class Scripted:
    """A stick that moves by itself, at the first tags at or after the times of its script."""

    def __init__(self, script: Script, step: float, first: Vector) -> None:
        self._script, self._step, self._first = list(script), step, first
        self._tag = 0

    def poll(self) -> Vector | None:
        now, self._tag = self._tag * self._step, self._tag + 1
        said = None
        while self._script and self._script[0][0] <= now + 1e-9:
            values = self._script.pop(0)[1]
            said = self._first.copy()
            said[: len(values)] = values
        return said


def flight(script: Script, step: float = 0.005, **arguments: Any) -> Scenario:
    """The F-16 by that stick; tags are those of the plant's own grid."""
    settings = {"step": step, **arguments}
    out = load_scenario("f16-by-hand", {name: str(value) for name, value in settings.items()})
    part = out.component("stick")
    assert isinstance(part, ExternalInputComponent)
    signals = part.external_input.signals
    part.external_input = ExternalInput("stick", signals, Scripted(script, step, signals.initial()))
    return out


class Watching:
    """Passes pairs on to a cockpit, and keeps what can then be read of them."""

    def __init__(self, cockpit: Cockpit, plant: str) -> None:
        self.pairs: list[StatePair] = []
        self._cockpit, self._reader = cockpit, cockpit.shared.reader(f"plant/{plant}")

    def publish(self, plant: str, ns: int, x: Vector, next_ns: int, next_x: Vector) -> None:
        self._cockpit.pictures.publish(plant, ns, x, next_ns, next_x)
        record = self._reader.read()
        assert record is not None
        self.pairs.append(StatePair.of(record))

    def withdraw(self, plant: str) -> None:
        self._cockpit.pictures.withdraw(plant)


def watched(
    scenario: Scenario,
    until: float,
    recorder: Recorder | None = None,
    clock: FakeClock | None = None,
    on: Callable[[Cockpit], None] | None = None,
    stick: str = "",
) -> tuple[RunResult, list[StatePair]]:
    """Fly it on a clock of its own; what was published of its only plant."""
    with Cockpit(scenario, stick) as cockpit:
        plant = cockpit.shared.schema.plants[0][0]
        watching = Watching(cockpit, plant)
        publisher: StatePublisher = watching
        if on is not None:
            on(cockpit)
        outcome = simulate(
            scenario,
            until=until,
            clock=clock or FakeClock(),
            publisher=publisher,
            inbox=cockpit.inbox,
            recorder=recorder,
        )
    return outcome, watching.pairs
