"""Check that a scenario is deterministic; users call this check on their own components."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rtsim.core.errors import ScenarioError
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.simulation import simulate
from rtsim.scenario.scenario import Scenario


def trace_of(scenario: Scenario, **options: Any) -> Recording:
    """Run ``scenario`` once and return the recording, which is kept in memory.

    ``options`` are those of :func:`rtsim.runs.simulation.simulate`.
    """
    return simulate(scenario, recorder=MemoryRecorder(), **options).recording()


def check_determinism(make: Callable[[], Scenario], runs: int = 2, **options: Any) -> str:
    """Assert that all runs have the same trace bit for bit; return the trace's digest.

    The check fails, for example, if ``derivative`` draws random numbers or reads a clock.  Raises
    :class:`ScenarioError` if there is nothing to compare: fewer than two runs, or runs without
    rows.
    """
    if runs < 2:
        raise ScenarioError(f"runs = {runs} is too few for a comparison; give 2 or more")
    first = trace_of(make(), **options)
    if not first.trace_rows:
        name = first.header["scenario"]["name"]
        raise ScenarioError(
            f"a run of {name} has no rows to compare; give the scenario a plant, a controller or "
            "an input"
        )
    for _ in range(runs - 1):
        again = trace_of(make(), **options)
        difference = compare_exact(first, again)
        if difference is not None:
            raise AssertionError(
                f"two runs of {first.header['scenario']['name']} differ, first in "
                f"{difference}; check that derivative, output and the controllers draw no "
                "random numbers, read no clock and keep no state"
            )
    return first.digest()
