"""Scenarios of one process, for the tests of discrete events."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from rtsim.core.signals import Signals
from rtsim.discrete import Agenda, Processes
from rtsim.scenario.scenario import Scenario

Steps = Generator[Any, Any, None]
Y, K = Signals("y [1]"), Signals("k [1]")


def one(body: Callable[[Agenda], Steps], until: float = 1.0, **declared: Any) -> Scenario:
    """A scenario of one process; ``declared``: of the processes, and of the scenario's part."""
    part = {k: declared.pop(k) for k in ("on", "priority", "transport") if k in declared}
    wires = declared.pop("wires", None)

    def setup(agenda: Agenda) -> None:
        agenda.process(body(agenda))

    out = Scenario("one", until=until)
    out.processes("p", Processes(setup, **{"outputs": Y, **declared}), inputs=wires, **part)
    return out
