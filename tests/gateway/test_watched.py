"""Requirements of a run in progress, as clients of its gateway see them."""

from __future__ import annotations

from pathlib import Path

import pytest
from gateway_parts import live

from rtsim.cli.running import WATCHING
from rtsim.core.clock import stopwatch
from rtsim.core.tag import NS_PER_S
from rtsim.models import unstable
from rtsim.record.file import FileRecorder


@pytest.mark.live
def test_clients_see_the_requirements_of_a_run_in_progress(tmp_path: Path) -> None:
    """The bounds come from the process that writes the recording."""
    flown = unstable.scenario(until=1000)
    flown.require("LOW", "always plant.x < -1e9 m")
    with (
        FileRecorder(tmp_path / "run.mcap", writer=WATCHING) as recorder,
        live(flown, recorder=recorder) as run,
    ):
        until = stopwatch() + 60 * NS_PER_S
        while not (found := run.glance().watched) and stopwatch() < until:
            pass
    (one,) = found
    assert (one["name"], one["outcome"], one["at_ns"]) == ("LOW", "failed", 0)
    assert one["robustness"][0] is None
    assert one["robustness"][1] < -1e8
