"""The private names of SimPy that rtsim uses: to continue a process, and to process an event.

No other module uses private names of SimPy.  pyproject.toml bounds SimPy's version, and
``tests/unit/test_private_names.py`` says what to do if a new SimPy lacks the name.
"""

from __future__ import annotations

from heapq import heappop
from typing import Any

import simpy
from simpy.events import Event, EventPriority

from rtsim.core.errors import ScenarioError

_resume = simpy.Process._resume


def process_events(queue: list[tuple[int, EventPriority, int, Event]], ns: int, most: int) -> int:
    """Process the events of ``queue`` up to ``ns`` in SimPy's order; return their number.

    Raises the exception of an event that failed.  Stops after more than ``most`` events.
    """
    events = 0
    while queue and queue[0][0] <= ns:
        event = heappop(queue)[3]
        callbacks, event.callbacks = event.callbacks, None  # type: ignore[assignment]
        for callback in callbacks:
            callback(event)
        if not event._ok and not event.defused:
            failure: Any = event.value
            raise failure
        events += 1
        if events > most:
            break
    return events


class WatchedProcess(simpy.Process):
    """A process that must wait for events of its own environment.

    Raises :class:`ScenarioError` if the process waits for an event of another environment, which
    would never occur.  SimPy has no public hook between two events of a process.
    """

    def _resume(self, event: Event) -> None:
        _resume(self, event)
        awaited: Event | None = self._target
        if awaited is not None and awaited.env is not self.env:
            raise ScenarioError(
                f"process {self.name} waits for {awaited} of another simpy.Environment, which does "
                "not run; create resources and timeouts on the agenda that the set-up receives"
            )
