"""An override of a private method of SimPy that continues a process.

No other module uses private names of SimPy.  pyproject.toml bounds SimPy's version, and
``tests/unit/test_private_names.py`` says what to do if a new SimPy lacks the name.
"""

from __future__ import annotations

import simpy
from simpy.events import Event

from rtsim.core.errors import ScenarioError


class WatchedProcess(simpy.Process):
    """A process that must wait for events of its own environment.

    Raises :class:`ScenarioError` if the process waits for an event of another environment, which
    would never occur.  SimPy has no public hook between two events of a process.
    """

    def _resume(self, event: Event) -> None:
        super()._resume(event)
        awaited: Event | None = self.target
        if awaited is not None and awaited.env is not self.env:
            raise ScenarioError(
                f"process {self.name} waits for {awaited} of another simpy.Environment, which does "
                "not run; create resources and timeouts on the agenda that the set-up receives"
            )
