"""The loop's side: states go into shared memory, the stick and the person's orders come out of it.

Nothing here waits for the viewer, and nothing that it does or leaves undone changes a number that
is not an input: what the stick says is an outside input, latched and recorded like any other.
"""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

import numpy as np

from rtsim.clock import Clock, stopwatch
from rtsim.control.commands import CommandError, read_command
from rtsim.control.desk import Inbox
from rtsim.inlets import Inlet
from rtsim.parts import InletPart, PlantPart, readable
from rtsim.pilot.cues import checked
from rtsim.pilot.orders import order_to_command
from rtsim.pilot.pacing import Durations
from rtsim.pilot.sequence import Reader, Writer
from rtsim.pilot.shared import MOST_ORDERS, RUN, VIEWER, Schema, Shared
from rtsim.plant import Plant
from rtsim.scenario import Scenario
from rtsim.signals import Signals, Vector
from rtsim.system import System
from rtsim.tag import NS_PER_S
from rtsim.timing.pacing import Pacer
from rtsim.trace import Trace

SILENT_NS = NS_PER_S // 2
"""A viewer that has said nothing for so long does not fly any more: its stick is held."""
SAFE_NS = 2 * SILENT_NS
"""And after so long its values are the safe ones."""
_SHORTEST_NS = 500_000
"""Of the wall, between two states: no screen shows more than 2000 a second."""
_UNPACED_NS = 5_000_000
_RUN_NS = 5_000_000
_LATENCY_NS = NS_PER_S // 2
_STANDING_S = 0.01
_SANE_NS = 10 * NS_PER_S


class SharedStick:
    """What the person does, as a device of an inlet; see :class:`rtsim.inlets.Device`.

    A viewer that falls silent - closed, hung, killed - leaves the stick where it was, then at
    ``safe``.
    """

    def __init__(self, reader: Reader, signals: Signals, safe: Vector | None = None) -> None:
        self.latency = Durations()
        """From a device's reading to the tag, for each change of the stick [ns]."""
        self.applied, self.initiated = 0, 0
        """The number of the record last latched, and when its device was read."""
        self.stamps = 0, 0, 0
        """Of the value latched last: read from the device, decoded, latched [ns]."""
        self.silences = 0
        self._reader = reader
        self._safe = signals.initial() if safe is None else safe
        self._low = np.array([s.low for s in signals for _ in range(s.size)])
        self._high = np.array([s.high for s in signals for _ in range(s.size)])
        self._said: Vector = signals.initial()
        self._heard_ns = 0
        self._number = 0
        self._silent = False

    def poll(self) -> Vector | None:
        now = stopwatch()
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
        if self._number == 0 or self._silent or now - self._heard_ns < SAFE_NS:
            return None
        self._silent = True
        self.silences += 1
        if self._safe.tobytes() == self._said.tobytes():
            return None
        self._said = self._safe.copy()
        self.stamps = now, now, now
        return self._said


class Pictures:
    """Both ends of each step, for whoever draws: a publisher of :mod:`rtsim.executive`."""

    def __init__(self, writers: dict[str, Writer], stick: SharedStick | None) -> None:
        self._writers, self._stick = writers, stick
        self._plants: dict[str, Plant] = {}
        self._from_wall = dict.fromkeys(writers, 0)
        """A state that is due before is not shown."""
        self._next_y: dict[str, Vector] = {}
        self._clock: Clock | None = None
        self._offset = 0

    def attach(self, system: System, clock: Clock) -> None:
        """Before the run: whose states they are, and which clock says when they are due."""
        self._clock, self._offset = clock, getattr(clock, "offset_ns", 0)
        self._plants = {plant.name: plant for plant in system.plants}
        self._next_y = {plant.name: plant.y.copy() for plant in system.plants}

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
            floats[-shown.y.size :] = self._outputs(shown, next_ns, next_x)
        writer.publish()

    def withdraw(self, plant: str) -> None:
        writer = self._writers[plant]
        writer.integers[4] = 1
        writer.publish()
        self._from_wall[plant] = 0

    def _outputs(self, plant: Plant, ns: int, x: Vector) -> Vector:
        """At the end of the step, which is not committed: outputs are pure, so nothing changes."""
        y = self._next_y[plant.name]
        try:
            plant.bound.output.call(ns / NS_PER_S, x, plant.z, plant.u, plant.p, y)
        except Exception:  # the loop will say so itself where the step is committed
            return plant.y
        return y if math.isfinite(y.sum()) else plant.y


class PilotInbox(Inbox):
    """What the person orders, beside what another inbox brings; and how the run stands, for them.

    ``beside`` is a gateway's, or none.
    """

    def __init__(
        self,
        orders: Reader,
        run: Writer,
        pictures: Pictures,
        stick: SharedStick | None,
        beside: Inbox | None = None,
    ) -> None:
        super().__init__()
        self.refused = 0
        self._orders, self._run, self._pictures = orders, run, pictures
        self._stick, self._beside = stick, beside
        self._heard = self._number = 0
        self._next_ns = self._latency_ns = 0

    def attach(self, system: System, pacer: Pacer, trace: Trace) -> None:
        self._system, self._pacer = system, pacer
        self._pictures.attach(system, pacer.clock)
        if self._beside is not None:
            self._beside.attach(system, pacer, trace)

    def poll(self) -> None:
        if self._beside is not None:
            self._beside.poll()
            self.waiting.extend(self._beside.waiting)
            self._beside.waiting.clear()
        if self._orders.number == self._number:
            return
        record = self._orders.read()
        if record is None:
            return
        self._number, count = record.number, int(record.integers[0])
        for k in range(max(self._heard, count - MOST_ORDERS), count):
            at = k % MOST_ORDERS
            self._follow(int(record.integers[1 + at]), float(record.floats[at]))
        self._heard = count

    def _follow(self, kind: int, value: float) -> None:
        command = order_to_command(kind, value)
        try:
            if command is None:
                raise CommandError(f"no order {kind}")
            self.give(read_command(command))
        except CommandError:
            self.refused += 1

    def goes_on(self, **about: object) -> None:
        if self._beside is not None:
            self._beside.goes_on(**about)

    def after(self, ns: int, standing: bool) -> None:
        if self._beside is not None:
            self._beside.after(ns, standing)
        now = stopwatch()
        if now >= self._next_ns or standing:
            self._next_ns = now + _RUN_NS
            self._tell(ns, now, standing)

    def _tell(self, ns: int, now: int, standing: bool, ended: bool = False) -> None:
        pacer, told = self._pacer, dict(zip(RUN, self._run.integers.tolist(), strict=True))
        rate = getattr(pacer.clock, "rate", 0.0) if pacer.clock.paced else 0.0
        told |= {
            "ns": ns, "wall": now, "standing": int(standing), "paced": int(pacer.clock.paced),
            "frames": pacer.log.frames, "margin": pacer.margin_ns,
            "overruns_compute": pacer.overruns["compute"],
            "overruns_wake": pacer.overruns["wake"],
            "late": sum(c.lates for c in self._system.controllers),
            "missed": sum(c.missed for c in self._system.controllers),
            "orders": self._heard, "ended": int(ended),
        }  # fmt: skip
        if self._stick is not None and now >= self._latency_ns:
            self._latency_ns = now + _LATENCY_NS
            latency = self._stick.latency
            told |= {
                "latency_median": latency.quantile(0.5), "latency_p95": latency.quantile(0.95),
                "latency_max": latency.greatest,
            }  # fmt: skip
        self._run.integers[:] = tuple(told.values())
        self._run.floats[0] = float(rate)
        self._run.publish()

    def wait(self, seconds: float) -> None:
        if self._beside is not None:
            self._beside.wait(min(seconds, _STANDING_S))
        else:
            super().wait(min(seconds, _STANDING_S))

    def close(self, why: str) -> None:
        super().close(why)
        if self._beside is not None:
            self._beside.close(why)
        self._tell(self._system.ns, stopwatch(), standing=False, ended=True)


class Cockpit:
    """All that a run shares with its viewer; a context that removes it at the end.

    ``stick`` is the inlet that the person moves, or none.  Give :attr:`pictures` and :attr:`inbox`
    to :func:`rtsim.simulation.simulate`, and :attr:`shared`'s path to the viewer.
    """

    def __init__(
        self,
        scenario: Scenario,
        stick: str = "",
        about: dict[str, Any] | None = None,
        beside: Inbox | None = None,
    ) -> None:
        part = scenario.part(stick) if stick else None
        signals = part.inlet.signals if isinstance(part, InletPart) else Signals()
        plants = tuple(
            (name, readable(part, scenario.parts))
            for name, part in sorted(scenario.parts.items())
            if isinstance(part, PlantPart)
        )
        cues = [cue.to_plain() for cue in checked(scenario.cues, dict(plants))]
        self.shared = Shared.create(Schema(plants, signals, {**(about or {}), "cues": cues}))
        self.stick: SharedStick | None = None
        if isinstance(part, InletPart):
            self.stick = SharedStick(self.shared.reader("stick"), signals)
            part.inlet = Inlet(stick, signals, self.stick, part.inlet.wake)
        writers = {name: self.shared.writer(f"plant/{name}") for name, _ in plants}
        self.pictures = Pictures(writers, self.stick)
        self._viewer = self.shared.reader("viewer")
        orders, run = self.shared.reader("orders"), self.shared.writer("run")
        self.inbox = PilotInbox(orders, run, self.pictures, self.stick, beside)

    def latencies(self) -> dict[str, Any]:
        """From a device's reading to the tag, and to the picture; what the viewer said last."""
        step = Durations() if self.stick is None else self.stick.latency
        record = self._viewer.read()
        viewer = dict.fromkeys(VIEWER, 0)
        if record is not None:
            viewer = dict(zip(VIEWER, record.integers.tolist(), strict=True))
        return {
            "input_to_step": {
                "count": step.count,
                "median_ns": step.quantile(0.5),
                "p95_ns": step.quantile(0.95),
                "max_ns": step.greatest,
            },
            "input_to_picture": {
                "count": viewer["pictures"],
                "median_ns": viewer["picture_median"],
                "p95_ns": viewer["picture_p95"],
                "max_ns": viewer["picture_max"],
            },
            "frames": viewer["frames"],
            "frames_dropped": viewer["dropped"],
            "frame_interval_p99_ns": viewer["interval_p99"],
            "silences": 0 if self.stick is None else self.stick.silences,
        }

    def __enter__(self) -> Cockpit:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self.shared.close()
