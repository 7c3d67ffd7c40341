"""The data of a page about a run in progress: a client of the run's gateway."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rtsim.core.clock import stopwatch
from rtsim.core.tag import NS_PER_S
from rtsim.gateway.client import ControlError, Run
from rtsim.gateway.web.source import About, History, Look, PageState, Past
from rtsim.timing.background import OffTheLoop

PATIENCE_S = 1.0
"""How long a page waits for an answer, s."""
_SILENT_NS = 600 * NS_PER_S
"""A run on another machine that gives no answer for so long is considered to have ended."""


class LiveRun:
    """A run in progress, through the Python client of its gateway.

    There is one request at a time, and the gateway answers with the latest sample.  Nothing queues
    up if this process is slow.
    """

    def __init__(self, run: Run, off: OffTheLoop | None = None) -> None:
        self._run = run
        self._leg = int(run.about["leg"])
        self._history = History((), 1.0)
        self._silent_ns = 0
        """When the first of the unanswered requests was sent; 0 if the last one was answered."""
        self._wanted: tuple[tuple[str, ...], float] = ((), 1.0)
        self.about = _about(run)
        self._off = off

    def look(self, names: Sequence[str]) -> Look | None:
        if self._off is not None:
            self._off.look()
        try:
            glance = self._run.glance(*names)
        except ControlError:
            self._silent_ns = self._silent_ns or stopwatch()
            if self._run.gone or stopwatch() - self._silent_ns > _SILENT_NS:
                raise
            return None  # the run compiles, or a step of it takes long
        self._silent_ns = 0
        state = glance.state
        if state.leg != self._leg:
            self._leg, self.about = state.leg, _about(self._run)
        self._history.add(state.ns, glance.values)
        shown = PageState(
            state.ns, state.rate, state.standing, state.late, state.missed, state.overruns,
            state.overruns_compute, state.margin_ns if state.rate else None,
            state.lateness_ns if state.lateness_ns >= 0 else None, state.frames, state.leg,
        )  # fmt: skip
        return Look(shown, glance.values, glance.stamps)

    def past(self, names: Sequence[str], span_s: float) -> Past:
        if self._wanted != (tuple(names), span_s):
            self._wanted = tuple(names), span_s
            self._history = self._history.moved_to(*self._wanted)
        return self._history.past(span_s)

    def tell(self, kind: str, **arguments: Any) -> str:
        return str(self._run.tell(kind, **arguments))

    def close(self) -> None:
        self._run.close()


def _about(run: Run) -> About:
    about = run.about
    return About(
        title=f"{run.scenario} ({run.pid})",
        signals={row["name"]: row["unit"] for row in about["signals"]},
        kinds={row["name"]: row["kind"] for row in about["signals"]},
        parameters=about["parameters"],
        topics=about["topics"],
        faults=about["faults"],
        views=about.get("views", ()),
        bodies=about.get("scene", ()),
        shown=about.get("shown", {}),
        left_out=about["left_out"],
    )
