"""The benches of loops in real time: verdicts on given figures, and short loops that are run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hitl.building.toolchain import BuildError
from rtsim.timing.frames import NO_SAMPLE
from tools.bench import frame, loop, rate, rows, wake

FAST = loop.Measured(np.zeros(2000, np.int64), 22, 10_000, 700.0, 50_000.0, "compiled", 99, 0)


def test_a_tag_that_did_not_wait_is_as_late_as_the_margin_before_it_says() -> None:
    track = np.array([[0, 5, 0, 70], [1, 8, 0, -900], [2, NO_SAMPLE, 0, 60], [3, 9, 0, 50]])
    assert loop.lateness(track, 100).tolist() == [8, 1000, 9]


def test_overruns_at_a_high_rate_are_held_against_the_c_loop() -> None:
    late = np.zeros(2000, np.int64)
    late[:10], late[10:20] = 10_001, 10_000
    for found, kept in (
        (FAST, [None, True, True, True]),
        (replace(FAST, overruns=23), [None, False, True, True]),
        (replace(FAST, computed_p99_9=50_001.0), [None, True, False, True]),
        (replace(FAST, dropped_rows=1), [None, True, True, False]),
        (replace(FAST, computed_p99_9=None), [None, True, None, True]),
    ):
        assert [row.ok for row in rate.rows([found], [late], 100_000)] == kept
    assert rate.rows([FAST], [late], 100_000)[0].figures["overruns"] == 10.0


def test_the_engine_is_held_against_the_c_loop_by_its_tail() -> None:
    c = {"p50": 10.0, "p99": 50_000.0, "p99.9": 90_000.0}
    kept = {"p50": 2010.0, "p99": 75_000.0, "p99.9": 135_000.0}
    for engine, ok in ((55_000.0, True), (55_001.0, False)):
        verdicts = wake._criteria(c, kept, {**kept, "p99": engine})
        assert [v["ok"] for v in verdicts] == [True, True, True, ok]
    quiet = wake._criteria({**c, "p99": 100.0}, kept, {**kept, "p99": 3100.0})
    assert quiet[-1]["ok"]
    assert not wake._criteria({**c, "p99": 100.0}, kept, {**kept, "p99": 3101.0})[-1]["ok"]


def test_a_recorded_loop_is_held_against_the_loop_alone() -> None:
    alone: dict[str, Any] = {"median": 10.0, "p99": 1000.0}
    recorded = {
        **alone, "p99": 4000.0, "rows": 9, "dropped": 0, "aside": 0,
        "memory": [[100.0, 50.0]] * 5 + [[104.0, 54.0]],
    }  # fmt: skip
    for changed, kept in (
        ({}, [None, True, True, True, True]),
        ({"p99": 4001.0}, [None, False, True, True, True]),
        ({"dropped": 1}, [None, True, False, True, True]),
        ({"memory": [[100.0, 50.0]] * 5 + [[104.1, 54.0]]}, [None, True, True, False, True]),
        ({"memory": [[100.0, 50.0]] * 5 + [[104.0, 54.1]]}, [None, True, True, True, False]),
    ):
        assert [r.ok for r in rows.rows(alone, recorded | changed, alone)] == kept


def test_a_wide_plant_has_rows_of_as_many_columns_as_stated() -> None:
    built = rows.scenario(2).build(0, compile=False)
    assert [plant.values.size for plant in built.plants] == [rows.COLUMNS] * 2
    built.close()


@pytest.mark.parametrize("name", ["rate", "wake"])
def test_without_a_compiler_a_loop_is_skipped(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    from tools.bench.__main__ import BENCHES

    def missing() -> None:
        raise BuildError("no compiler")

    monkeypatch.setattr(wake, "find_toolchain", missing)
    monkeypatch.setattr("rtsim.core.clock.WallClock.calibrate", lambda *_: 25_000)
    assert BENCHES[name](True).skipped == "no compiler"


@pytest.mark.full
@pytest.mark.realtime
def test_short_loops_are_run_and_measured() -> None:
    found = loop.fly(loop.Asked(1000, 0.5, 25_000))
    assert found.engine.startswith("compiled")
    assert found.late.size >= 498
    assert found.rows > 5 * 500
    certificate = frame.compile_paced(1000, 0.3)
    assert certificate.engine.startswith("compiled")
    assert (frame.compute([certificate])["median [ns]"] or 0.0) > 0.0
    recorded = rows.fly(0.5, True, "")
    assert recorded["dropped"] == 0
    assert recorded["rows"] >= rows.PLANTS * 501


def test_a_recording_that_does_not_fit_the_disk_is_not_begun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not Path("/proc/self/statm").exists():
        pytest.skip("no /proc here to read memory from")
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=60 * 10**9))
    found = rows.run()
    assert "needs 64 GB" in found.skipped
    assert not found.rows
