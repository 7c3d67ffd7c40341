"""The loop's side: states go into shared memory, the stick and the person's orders come out of it.

Nothing here waits for the viewer, and nothing that it does or leaves undone changes a number that
is not an input: what the stick says is an outside input, latched and recorded like any other.
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import partial
from typing import Any

from rtsim.components.external_inputs import ExternalInput
from rtsim.core.clock import stopwatch
from rtsim.core.errors import UnknownName
from rtsim.core.signals import Signals
from rtsim.engine.commands.commands import Command, CommandError, read_command
from rtsim.engine.commands.inbox import Inbox
from rtsim.engine.system import System
from rtsim.engine.trace import Trace
from rtsim.pilot.cues import checked
from rtsim.pilot.orders import CHECKPOINT, QUIT, RETURN, order_to_command, reason_to_words
from rtsim.pilot.pacing import Durations
from rtsim.pilot.pictures import Pictures
from rtsim.pilot.sequence import Reader
from rtsim.pilot.shared import MOST_ORDERS, RUN, VIEWER, Schema, Shared
from rtsim.pilot.stick import SharedStick
from rtsim.scenario.component import readable
from rtsim.scenario.scenario import Scenario
from rtsim.scenario.standard_components import ExternalInputComponent, PlantComponent
from rtsim.timing.pacing import Pacer

_RUN_NS = 5_000_000
_LATENCY_NS = 500_000_000
_STANDING_S = 0.01


class LoopFigures:
    """How quick stick and picture were: from a device's reading to the tag, and to the picture."""

    def __init__(self, stick: SharedStick | None, viewer: Reader) -> None:
        self.stick = stick
        self._viewer = viewer

    def viewer(self) -> dict[str, int]:
        """What the viewer said last."""
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
    """What the person orders, beside what another inbox brings; and how the run stands, for them.

    ``beside`` is a gateway's, or none.
    """

    def __init__(
        self, shared: Shared, pictures: Pictures, figures: LoopFigures, beside: Inbox | None = None
    ) -> None:
        super().__init__()
        self.refused = 0
        """Orders that were none, or that the run could not follow."""
        self.quit = False
        """The run was ended from the window."""
        self._orders, self._run = shared.reader("orders"), shared.writer("run")
        self._answers = shared.writer("answer")
        self._pictures, self._figures, self._beside = pictures, figures, beside
        self._stick = figures.stick
        self._heard = self._number = 0
        self._next_ns = self._latency_ns = 0
        self._began_ns: int | None = None
        self._kept_ns: int | None = None
        """When the window's last checkpoint was kept."""

    def attach(self, system: System, pacer: Pacer, trace: Trace) -> None:
        self._system, self._pacer = system, pacer
        if self._began_ns is None:
            self._began_ns = system.ns
        elif self._stick is not None:
            self._stick.again()
        self._pictures.attach(system, pacer.clock)
        if self._beside is not None:
            self._beside.attach(system, pacer, trace)

    def figures(self) -> dict[str, Any]:
        return {"pilot": self._figures.to_json()}

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
            kind, initiated = (int(record.integers[1 + at + n]) for n in (0, MOST_ORDERS))
            self._follow(kind, float(record.floats[at]), initiated)
        self._heard = count

    def _follow(self, kind: int, value: float, initiated: int) -> None:
        told = order_to_command(kind, value, self._began_ns or 0, self._kept_ns or 0)
        try:
            if told is None:
                raise CommandError(f"no order {kind}")
            if kind == RETURN and self._kept_ns is None:
                raise CommandError("no checkpoint was kept from the window; C keeps one")
            command = read_command(told)
            stamps = {"initiated_ns": initiated, "completed_ns": stopwatch()}
            answer = partial(self._answer, kind)
            self.give(Command(command.kind, command.arguments, **stamps), answer)
        except CommandError as error:
            self._answer(kind, str(error), -1)

    def _answer(self, kind: int, wrong: str, ns: int) -> None:
        """What became of an order; a refusal is told at the window."""
        if not wrong:
            self._kept_ns = ns if kind == CHECKPOINT else self._kept_ns
            self.quit = self.quit or kind == QUIT
            return
        self.refused += 1
        length, words = reason_to_words(wrong)
        self._answers.integers[:] = (self.refused, kind, length, *words)
        self._answers.publish()

    def goes_on(self, **about: object) -> None:
        if self._beside is not None:
            self._beside.goes_on(**about)

    def lose_recording(self, since: str) -> None:
        super().lose_recording(since)
        if self._beside is not None:
            self._beside.lose_recording(since)

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
            "orders": self._heard, "ended": int(ended), "unrecorded": int(bool(self.unrecorded)),
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


def window_of(scenario: Scenario) -> dict[str, Any]:
    """What a window is told of the scene; :class:`UnknownName` for a plant that is none."""
    shown = scenario.presentation.window()
    plants = list(scenario.of(PlantComponent))
    if "plant" in shown and shown["plant"] not in plants:
        raise UnknownName("plant", str(shown["plant"]), sorted(plants), f"scene {shown['scene']}")
    return shown


class Cockpit:
    """All that a run shares with its viewers; a context that removes it at the end.

    ``stick`` is the external input that the person moves, or none.  Give :attr:`pictures` and
    :attr:`inbox` to :func:`rtsim.runs.simulation.simulate`, and the path of :attr:`shared` to the
    viewer.
    """

    def __init__(
        self,
        scenario: Scenario,
        stick: str = "",
        about: dict[str, Any] | None = None,
        beside: Inbox | None = None,
    ) -> None:
        part = scenario.of(ExternalInputComponent).get(stick)
        signals = Signals() if part is None else part.external_input.signals
        plants = tuple(
            (name, readable(plant, scenario.components))
            for name, plant in sorted(scenario.of(PlantComponent).items())
        )
        cues = [cue.to_plain() for cue in checked(scenario.cues, dict(plants))]
        about = {"pid": os.getpid(), **window_of(scenario), **(about or {}), "cues": cues}
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
        self.inbox = PilotInbox(self.shared, self.pictures, self.figures, beside)

    def latencies(self) -> dict[str, Any]:
        """From a device's reading to the tag, and to the picture; what the viewer said last."""
        return self.figures.to_json()

    def __enter__(self) -> Cockpit:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self.shared.close()
