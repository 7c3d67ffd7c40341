"""Is a scenario repeatable?  The check that a user runs on parts of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rtsim.record.reading import Recording
from rtsim.record.tape import MemoryRecorder
from rtsim.scenario import Scenario
from rtsim.simulation import simulate


def trace_of(scenario: Scenario, **options: Any) -> Recording:
    """Run once into memory; ``options`` are those of :func:`rtsim.simulation.simulate`."""
    recorder = MemoryRecorder()
    simulate(scenario, recorder=recorder, **options)
    return recorder.recording()


def check_determinism(make: Callable[[], Scenario], runs: int = 2, **options: Any) -> str:
    """Assert that fresh runs have the same trace bit for bit; returns its digest.

    A model that draws random numbers or reads a clock in ``derivative`` fails here.
    """
    first = trace_of(make(), **options)
    for _ in range(runs - 1):
        again = trace_of(make(), **options)
        if again.digest() != first.digest():
            raise AssertionError(
                f"two runs of {first.header['scenario']['name']} differ: "
                f"{first_difference(first, again)}; look for a random draw, a clock or kept state in derivative, output or a law"
            )
    return first.digest()


def first_difference(a: Recording, b: Recording) -> str:
    """In words: the first tag, track and column that differ."""
    found: list[tuple[int, str]] = []
    for name, track in a.tracks.items():
        other = b.tracks[name]
        rows = min(len(track), len(other))
        differ = (track.words[:rows] != other.words[:rows]).any(axis=1).nonzero()[0]
        if differ.size:
            row = int(differ[0])
            word = int((track.words[row] != other.words[row]).nonzero()[0][0])
            columns = ("ns", *track.integers, *track.signals.columns)
            found.append((int(track.words[row, 0]), f"{name}.{columns[word]}"))
        elif len(track) != len(other):
            found.append((a.end_ns, f"{name} has {len(track)} rows, then {len(other)}"))
    ns, what = min(found)
    return f"first at {ns / 1e9:.9f} s in {what}"
