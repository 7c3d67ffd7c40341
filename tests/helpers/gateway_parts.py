"""A run in real time in a thread of the test's process, with a gateway of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

from rtsim.gateway.client import Run, connect
from rtsim.gateway.loop import Gateway
from rtsim.runs.simulation import Pace, RunResult, simulate
from rtsim.scenario.scenario import Scenario
from rtsim.timing.policy import Slip


@contextmanager
def live(flown: Scenario, **how: Any) -> Iterator[Run]:
    """As fast as the wall, uncompiled; it quits with the block, and nothing went wrong."""
    done: list[RunResult] = []
    with Gateway({"scenario": flown.name}) as inbox:

        def fly() -> None:
            pace = Pace(1.0, Slip(10**6))
            done.append(simulate(flown, pace=pace, inbox=inbox, compile=False, **how))

        thread = Thread(target=fly)
        thread.start()
        try:
            with connect(os.getpid(), wait=60) as run:
                yield run
                run.quit()
        finally:
            thread.join(60)
    assert [outcome.reason for outcome in done] == ["quit"]
    assert inbox.trouble == ""
