"""The part of the pilot's window that runs in the simulation process.

:class:`Cockpit` creates the memory shared with the viewer, and the objects that a run needs to
publish states and to read the stick and orders.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from rtsim.components.external_inputs import ExternalInput
from rtsim.components.plant import RunningPlant
from rtsim.core.clock import Clock, stopwatch
from rtsim.core.errors import UnknownName
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import NS_PER_S
from rtsim.engine.commands.commands import Inbox, PendingCommand, read_command
from rtsim.engine.system import System
from rtsim.engine.trace import Trace
from rtsim.equations.calls import resident
from rtsim.pilot.cues import checked_signals
from rtsim.pilot.pacing import Durations
from rtsim.pilot.shared import (
    CHECKPOINT,
    MOST_ORDERS,
    QUIT,
    RETURN,
    RUN,
    VIEWER,
    Reader,
    Schema,
    Shared,
    Writer,
    order_to_command,
    reason_to_words,
)
from rtsim.pilot.views import with_views
from rtsim.scenario.component import readable
from rtsim.scenario.scenario import Scenario
from rtsim.scenario.standard_components import ExternalInputComponent, PlantComponent
from rtsim.timing.pacing import Pacer

SILENT_NS = NS_PER_S // 2
"""The stick's values count as held if the viewer writes no record for this time, ns."""
SAFE_NS = 2 * SILENT_NS
"""The stick moves to its fail-safe values if the viewer writes no record for this time, ns."""
FADE_NS = NS_PER_S
_SANE_NS = 10 * NS_PER_S


class SharedStick:
    """The viewer's stick as a :class:`rtsim.components.external_inputs.InputDevice`.

    If the viewer closes, hangs or is killed, the last values are held and then move to
    :attr:`safe`, as after unplugging a device.
    """

    def __init__(self, reader: Reader, signals: Signals) -> None:
        self.safe: Vector = signals.initial()
        """Fail-safe values (n,), within the bounds of the signals."""
        self.latency = Durations()
        """Time from the stamp ``initiated`` of each change to its latching, ns."""
        self.applied, self.initiated = 0, 0
        """Number of the latched record, and earliest possible time of its change, ns."""
        self.stamps = 0, 0, 0
        """Earliest possible time of the latched change, time of its decoding, time of latching, ns.
        """
        self.silences = 0
        self._reader = reader
        self._low = np.array([s.low for s in signals for _ in range(s.size)])
        self._high = np.array([s.high for s in signals for _ in range(s.size)])
        self._said: Vector = signals.initial()
        self._heard_ns = 0
        self._number = 0
        self._silent = self._again = False
        self._held: Vector = self._said

    def repeat(self) -> None:
        self._again = self._number > 0

    def poll(self) -> Vector | None:
        now = stopwatch()
        if self._again:
            self._again = False
            self.stamps = self.stamps[0], self.stamps[1], now
            return self._said
        if self._reader.number == self._number:
            return self._silence(now)
        record = self._reader.read()
        if record is None:
            return None
        self._number, self._heard_ns, self._silent = record.number, now, False
        values = np.clip(record.floats, self._low, self._high)
        if not np.isfinite(values).all() or values.tobytes() == self._said.tobytes():
            return None
        self.applied, self.initiated = record.number, int(record.integers[0])
        self.stamps = self.initiated, int(record.integers[1]), now
        if 0 <= now - self.initiated < _SANE_NS:
            self.latency.add(now - self.initiated)
        self._said = values
        return values

    def _silence(self, now: int) -> Vector | None:
        since = now - self._heard_ns - SAFE_NS
        if self._number == 0 or since < 0:
            return None
        if not self._silent:
            self._silent, self._held = True, self._said
            self.silences += 1
        share = since / FADE_NS
        way = self.safe - self._held
        values = self._held + share * way if share < 1.0 else self.safe.copy()
        if values.tobytes() == self._said.tobytes():
            return None
        self._said = values
        self.stamps = now, now, now
        return self._said


# The states at both ends of each step, written when the step begins.

_SHORTEST_NS = 500_000
"""Shortest wall-clock time between two published states of a paced run, ns.

A shorter interval would be useless: no screen shows more than 2000 pictures per second.
"""
_UNPACED_NS = 5_000_000


class Pictures:
    """Publish the states at both ends of each step for viewers."""

    def __init__(self, writers: dict[str, Writer], stick: SharedStick | None) -> None:
        self._writers, self._stick = writers, stick
        self._plants: dict[str, RunningPlant] = {}
        self._from_wall = dict.fromkeys(writers, 0)
        """For each plant, the earliest wall-clock time at which its next states are published, ns.
        """
        self._next_y: dict[str, Vector] = {}
        self._evaluate: dict[str, Callable[[float], int]] = {}
        """For each plant, computes the outputs at the end of a step into its vector in ``_next_y``.
        """
        self._clock: Clock | None = None
        self._offset = 0

    def attach(self, system: System, clock: Clock) -> None:
        """Set the plants and the clock before the run starts."""
        self._clock, self._offset = clock, getattr(clock, "offset_ns", 0)
        self._plants = {plant.name: plant for plant in system.plants}
        self._next_y = {plant.name: plant.y.copy() for plant in system.plants}
        for plant in (plant for plant in system.plants if plant.y.size):
            vectors = plant.next_x, plant.z, plant.u, plant.p, self._next_y[plant.name]
            self._evaluate[plant.name] = resident(plant.bound.output, *vectors)

    def publish(self, plant: str, ns: int, x: Vector, next_ns: int, next_x: Vector) -> None:
        clock = self._clock
        assert clock is not None
        if clock.paced:
            last_wall, next_wall = clock.wall(ns) - self._offset, clock.wall(next_ns) - self._offset
            if last_wall < self._from_wall[plant]:
                return
            self._from_wall[plant] = last_wall + _SHORTEST_NS
        else:
            last_wall = next_wall = stopwatch()
            if next_wall < self._from_wall[plant]:
                return
            self._from_wall[plant] = next_wall + _UNPACED_NS
        writer, shown, stick = self._writers[plant], self._plants[plant], self._stick
        applied, initiated = (0, 0) if stick is None else (stick.applied, stick.initiated)
        writer.integers[:] = (ns, next_ns, last_wall, next_wall, 0, applied, initiated)
        floats, n = writer.floats, shown.values.size
        floats[:n] = floats[n:] = shown.values
        floats[: x.size] = x
        floats[n : n + x.size] = next_x
        if shown.y.size:
            floats[-shown.y.size :] = self._outputs(shown, next_ns)
        writer.publish()

    def withdraw(self, plant: str) -> None:
        writer = self._writers[plant]
        writer.integers[4] = 1
        writer.publish()
        self._from_wall[plant] = 0

    def _outputs(self, plant: RunningPlant, ns: int) -> Vector:
        try:
            bad = self._evaluate[plant.name](ns / NS_PER_S)
        except Exception:  # the loop raises the same error if the step is committed
            return plant.y
        return plant.y if bad >= 0 else self._next_y[plant.name]


# The connection of a run to its windows.

_RUN_NS = 5_000_000
_LATENCY_NS = 500_000_000
_STANDING_S = 0.01
UNATTENDED_NS = 60 * NS_PER_S
"""Time after which a paused, unattended run ends, wall-clock ns.

A run is unattended if no viewer reports and no gateway client can resume the run. Viewers report
twice per second.
"""


class LoopFigures:
    """Latencies from a movement of an input device to its effect in the run and on the screen."""

    def __init__(self, stick: SharedStick | None, viewer: Reader) -> None:
        self.stick = stick
        self._viewer = viewer

    @property
    def reports(self) -> int:
        return self._viewer.number

    def viewer(self) -> dict[str, int]:
        """Return the statistics of the viewer's last report, or zeros."""
        record = self._viewer.read()
        if record is None:
            return dict.fromkeys(VIEWER, 0)
        return dict(zip(VIEWER, record.integers.tolist(), strict=True))

    def to_json(self) -> dict[str, Any]:
        step = Durations() if self.stick is None else self.stick.latency
        viewer = self.viewer()
        out: dict[str, Any] = {
            "input_to_step": {
                "count": step.count,
                "median_ns": step.quantile(0.5),
                "p95_ns": step.quantile(0.95),
                "max_ns": step.greatest,
            }
        }
        for name, key in (("input_to_picture", "picture"), ("interpolation", "interpolation")):
            out[name] = {
                "count": viewer["pictures"],
                **{f"{part}_ns": viewer[f"{key}_{part}"] for part in ("median", "p95", "max")},
            }
        return {
            **out,
            "frames": viewer["frames"],
            "frames_dropped": viewer["dropped"],
            "frame_interval_p99_ns": viewer["interval_p99"],
            "silences": 0 if self.stick is None else self.stick.silences,
        }


class PilotInbox(Inbox):
    """Receive commands from the window, and publish the state of the run for viewers.

    ``gateway`` is the source of commands from a gateway, or ``None``. Commands from this inbox are
    executed too.
    """

    def __init__(
        self, shared: Shared, pictures: Pictures, figures: LoopFigures, gateway: Inbox | None = None
    ) -> None:
        super().__init__()
        self.refused = 0
        """Number of orders that were unknown or refused."""
        self.quit = False
        self.unattended = False
        """True if the run was ended because it was paused and nobody could resume it."""
        self._reports, self._attended_ns = 0, 0
        self._orders, self._run = shared.reader("orders"), shared.writer("run")
        self._answers = shared.writer("answer")
        self._pictures, self._figures, self._gateway = pictures, figures, gateway
        self._stick = figures.stick
        self._heard = self._number = 0
        self._next_ns = self._latency_ns = 0
        self._began_ns: int | None = None
        self._kept_ns: int | None = None
        """Simulated time of the last checkpoint that the window ordered, ns."""

    def attach(self, system: System, pacer: Pacer, trace: Trace) -> None:
        super().attach(system, pacer, trace)
        if self._began_ns is None:
            self._began_ns = system.ns
        elif self._stick is not None:
            self._stick.repeat()
        self._pictures.attach(system, pacer.clock)
        if self._gateway is not None:
            self._gateway.attach(system, pacer, trace)

    def figures(self) -> dict[str, Any]:
        return {"pilot": self._figures.to_json()}

    def poll(self) -> None:
        if self._gateway is not None:
            self._gateway.poll()
            self.waiting.extend(self._gateway.waiting)
            self._gateway.waiting.clear()
        if self._orders.number == self._number:
            return
        record = self._orders.read()
        if record is None:
            return
        self._number, count = record.number, int(record.integers[0])
        for k in range(max(self._heard, count - MOST_ORDERS), count):
            at = k % MOST_ORDERS
            kind, initiated = (int(record.integers[1 + at + n]) for n in (0, MOST_ORDERS))
            self._follow(kind, float(record.floats[at]), initiated)
        self._heard = count

    def _follow(self, kind: int, value: float, initiated: int) -> None:
        command = order_to_command(kind, value, self._began_ns or 0, self._kept_ns or 0)
        if command is None:
            self._answer(kind, f"the window sent an unknown command: {kind}", -1)
        elif kind == RETURN and self._kept_ns is None:
            wrong = "no checkpoint has been saved from the window; press C to save a checkpoint"
            self._answer(kind, wrong, -1)
        else:
            self.take(command, initiated, partial(self._answer, kind))

    def _answer(self, kind: int, wrong: str, ns: int) -> None:
        if not wrong:
            self._kept_ns = ns if kind == CHECKPOINT else self._kept_ns
            self.quit = self.quit or kind == QUIT
            return
        self.refused += 1
        length, words = reason_to_words(wrong)
        self._answers.integers[:] = (self.refused, kind, length, *words)
        self._answers.publish()

    def goes_on(self, **about: object) -> None:
        if self._gateway is not None:
            self._gateway.goes_on(**about)

    def watched(self, found: Sequence[Mapping[str, Any]]) -> None:
        if self._gateway is not None:
            self._gateway.watched(found)

    def lose_recording(self, since: str) -> None:
        super().lose_recording(since)
        if self._gateway is not None:
            self._gateway.lose_recording(since)

    def after(self, ns: int, standing: bool) -> None:
        if self._gateway is not None:
            self._gateway.after(ns, standing)
        now = stopwatch()
        if not standing or self._figures.reports != self._reports or not self._attended_ns:
            self._reports, self._attended_ns = self._figures.reports, now if standing else 0
        if now >= self._next_ns or standing:
            self._next_ns = now + _RUN_NS
            self._publish_state(ns, now, standing)

    def _publish_state(self, ns: int, now: int, standing: bool, ended: bool = False) -> None:
        state = dict(zip(RUN, self._run.integers.tolist(), strict=True))
        state |= {
            **self.state(ns, now, standing),
            "paced": self._pacer.clock.paced, "orders": self._heard, "ended": ended,
            "unrecorded": bool(self.unrecorded),
        }  # fmt: skip
        if self._stick is not None and now >= self._latency_ns:
            self._latency_ns = now + _LATENCY_NS
            latency = self._stick.latency
            state |= {
                "latency_median": latency.quantile(0.5), "latency_p95": latency.quantile(0.95),
                "latency_max": latency.greatest,
            }  # fmt: skip
        self._run.integers[:] = [state[name] for name in RUN]
        self._run.floats[0] = state["rate"]
        self._run.publish()

    def wait(self, seconds: float) -> None:
        if self._gateway is not None and not self._gateway.trouble:
            self._gateway.wait(min(seconds, _STANDING_S))
        elif stopwatch() - self._attended_ns > UNATTENDED_NS:
            self.unattended = True
            self.waiting.append(PendingCommand(read_command({"kind": "quit"})))
        else:
            super().wait(min(seconds, _STANDING_S))

    def close(self, why: str) -> None:
        super().close(why)
        if self._gateway is not None:
            self._gateway.close(why)
        self._publish_state(self._system.ns, stopwatch(), standing=False, ended=True)


def window_of(scenario: Scenario) -> dict[str, Any]:
    """Return the description of the window as plain data.

    Raises ``UnknownName`` if the scene shows an unknown plant.
    """
    shown = scenario.presentation.window()
    plants = list(scenario.of(PlantComponent))
    if "plant" in shown and shown["plant"] not in plants:
        raise UnknownName("plant", str(shown["plant"]), sorted(plants), f"scene {shown['scene']}")
    return with_views(shown, [view.to_dict() for view in scenario.presentation.views])


class Cockpit:
    """The memory that a run shares with its viewers.

    At its end, the context manager removes the memory.

    ``stick`` is the name of the external input that the pilot moves, or empty. Pass
    :attr:`pictures` and :attr:`inbox` to :func:`rtsim.runs.simulation.simulate`, and the path of
    :attr:`shared` to the viewer.
    """

    def __init__(
        self,
        scenario: Scenario,
        stick: str = "",
        about: dict[str, Any] | None = None,
        gateway: Inbox | None = None,
    ) -> None:
        part = scenario.of(ExternalInputComponent).get(stick)
        signals = Signals() if part is None else part.external_input.signals
        plants = tuple(
            (name, readable(plant, scenario.components))
            for name, plant in sorted(scenario.of(PlantComponent).items())
        )
        scenario.check_presentation()
        presented, known = scenario.presentation, dict(plants)
        warn = {
            "cues": [c.to_plain() for c in checked_signals(presented.cues, known)],
            "sounds": [s.to_plain() for s in checked_signals(presented.sounds, known)],
        }
        about = {"pid": os.getpid(), **window_of(scenario), **(about or {}), **warn}
        self.shared = Shared.create(Schema(plants, signals, about))
        self.stick: SharedStick | None = None
        if part is not None:
            self.stick = SharedStick(self.shared.reader("stick"), signals)
            part.external_input = ExternalInput(
                stick, signals, self.stick, part.external_input.wake
            )
        writers = {name: self.shared.writer(f"plant/{name}") for name, _ in plants}
        self.pictures = Pictures(writers, self.stick)
        self.figures = LoopFigures(self.stick, self.shared.reader("viewer"))
        self.inbox = PilotInbox(self.shared, self.pictures, self.figures, gateway)

    def latencies(self) -> dict[str, Any]:
        """Return the latencies from an input device to the run and to the screen."""
        return self.figures.to_json()

    def __enter__(self) -> Cockpit:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self.shared.close()
