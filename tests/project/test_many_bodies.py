"""Many components of one model share its code, and the benches of bodies and prepared runs work."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from rtsim.equations import compiling, source_hash
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.simulation import simulate
from tools.bench import bodies, prepared
from tools.bench.results import Row


def _hashes(monkeypatch: pytest.MonkeyPatch, count: int) -> int:
    """How often the build of so many bodies hashes a function."""
    made: Counter[str] = Counter()

    def counted(*objects: object) -> str:
        made["hashes"] += 1
        return source_hash.source_hash(*objects)

    with monkeypatch.context() as patch:
        patch.setattr(compiling, "source_hash", counted)
        bodies.bodies(count).build()
    return made["hashes"]


def test_a_build_finds_the_code_of_each_function_once(monkeypatch: pytest.MonkeyPatch) -> None:
    _hashes(monkeypatch, 1)  # the code of solvers is found once in a process
    one = _hashes(monkeypatch, 1)
    assert 0 < one < 20
    assert _hashes(monkeypatch, 7) == one


def test_a_body_among_others_moves_as_it_does_alone() -> None:
    runs: list[Any] = [
        simulate(bodies.bodies(n, 0.5), recorder=MemoryRecorder(), engine=engine).recording()
        for n in (1, 3)
        for engine in ("compiled", "interpreted")
    ]
    names = ("f16_000", "messages/guidance_000", "messages/autopilot_000")
    for name in names:
        rows = [run.track(name).words.tobytes() for run in runs]
        assert rows == [rows[0]] * len(runs)
    assert runs[2].track("f16_002").words.tobytes() == runs[2].track("f16_000").words.tobytes()


def test_the_bench_of_bodies_has_a_row_for_each_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "_paced", lambda count, until: Row(f"{count} {until}", {}))
    result = bodies.run(quick=True, until=0.1, counts=(1, 2))
    assert [row.what.split()[0] for row in result.rows] == ["1", "2", "1", "2", "2"]
    assert all(row.measured for row in result.rows[:4])


def test_the_bench_of_prepared_runs_measures_overhead_and_tags() -> None:
    result = prepared.run(runs=20)
    assert len(result.rows) == 2 * len(prepared.KINDS) + 1
    assert all(row.measured for row in result.rows)
