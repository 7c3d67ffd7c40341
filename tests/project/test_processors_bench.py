"""The bench of processors measures all variants, and judges only the tasks without controllers."""

from __future__ import annotations

import pytest

from rtsim.testing.determinism import trace_of
from tools.bench import processors


def test_the_ten_tasks_of_the_bench_have_1000_jobs_per_second() -> None:
    scenario = processors.scenario()
    scenario.until_ns = 100_000_000
    run = trace_of(scenario)
    jobs = sum(len(run.track(f"jobs/task{k}")) for k in range(10))
    assert jobs == pytest.approx(100, abs=10)
    assert sum(1 / period for period in processors.PERIODS) == pytest.approx(1000)


def test_the_bench_of_processors_measures_each_variant_and_two_ratios() -> None:
    result = processors.run(quick=True, seconds=0.1)
    assert [row.what for row in result.rows[:4]] == list(processors.KINDS)
    assert len(result.rows) == 6
    assert all(row.measured for row in result.rows)
    assert [row.what for row in result.rows if row.ok is not None] == [processors.TASKS]
