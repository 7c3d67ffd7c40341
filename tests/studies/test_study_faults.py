"""What studies survive, in small; ``python -m tools.study_faults`` does the same in large."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

import rtsim.studies.workers as workers_module
from rtsim.cli.main import main
from rtsim.core.errors import ScenarioError
from rtsim.studies.workers import ClusterLost, DaskPool, LocalWorkers, Where
from tools.study_faults.__main__ import main as tool
from tools.study_faults.faults import SIL, Fault, full_disk, table, wrong_run
from tools.study_faults.flights import elsewhere, flights
from tools.study_faults.rows import Rows, equal_rows, once_each, states_of
from tools.study_faults.shown import Shown
from tools.study_faults.studies import BAD, Work

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Work]:
    made = Work.of(tmp_path / "work", Shown())
    yield made
    made.end()


def slow(work: Work, runs: int, delay: float) -> list[str]:
    """The words of a study whose runs take ``delay`` s of wall-clock time each."""
    table(work.folder / "slow.csv", runs, {}, delay)
    return [BAD, "--design", "table:slow.csv"]


def failed(shown: Shown) -> list[str]:
    return [f"{one.what}: {one.found}, not {one.wanted}" for one in shown.checks if not one.ok]


def test_rows_that_are_missing_doubled_or_different_are_told() -> None:
    rows: Rows = [{"run": k, "state": "ok", "x": 0.5 * k, "wall_s": k} for k in range(4)]
    assert once_each(rows, 4) == "4 runs once"
    assert once_each(rows[1:], 4) == "missing [0], doubled [], unknown []"
    assert once_each([*rows, rows[2]], 4) == "missing [], doubled [2], unknown []"
    assert once_each(rows, 3) == "missing [], doubled [], unknown [3]"
    again = [{**row, "wall_s": 9.0} for row in rows]
    assert equal_rows(again, rows) == "4 of 4 equal"
    again[3]["x"] = 1.5000000000000002
    again[0]["x"] = -0.0
    assert equal_rows(again, rows) == "2 of 4 equal"
    assert equal_rows(again, rows[:2], but=("x",)) == "2 of 4 equal"
    assert states_of([*rows, {"state": "lost"}]) == {"lost": 1, "ok": 4}


def test_a_check_that_fails_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    shown = Shown(point="5")
    assert shown.check("rows", "3 runs once", "3 runs once")
    assert not shown.check("processes left", "12: rtsim", "none")
    shown.print()
    said = capsys.readouterr().out
    assert "FAILED: expected none" in said
    assert "2 checks, 1 failed" in said
    assert CliRunner().invoke(tool, ["--points", "9"]).exit_code == 1  # nothing was shown


@linux
@pytest.mark.live
@pytest.mark.full
def test_rows_are_equal_after_kills_of_worker_client_and_scheduler(work: Work) -> None:
    flights(work, slow(work, 240, 0.05), 240, 5)
    assert failed(work.shown) == []
    assert len(work.shown.checks) == 33


@linux
@pytest.mark.live
@pytest.mark.full
def test_a_cluster_with_tls_gives_the_same_rows(work: Work) -> None:
    elsewhere(work, slow(work, 80, 0.05), 80, None)
    assert failed(work.shown) == []


@linux
@pytest.mark.live
@pytest.mark.full
@pytest.mark.parametrize(
    "kind",
    [
        Fault("crash", (1.0, 0.0), "lost", 2, ("--workers", "2")),
        Fault("crash-apart", (1.0, 0.0), "error", 1, ("--workers", "2", *SIL)),
    ],
    ids=lambda kind: kind.name,
)
def test_runs_that_go_wrong_are_counted_and_the_others_are_equal(work: Work, kind: Fault) -> None:
    table(work.folder / "good.csv", 20, {})
    words = (BAD, "--design", "table:good.csv", "--workers", "0")
    good = work.study(work.group(), "good", *words)
    wrong_run(work, kind, 20, 20, good)
    assert failed(work.shown) == []


@linux
@pytest.mark.live
@pytest.mark.full
def test_a_study_continues_after_a_full_disk(work: Work) -> None:
    user = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    mount = ["unshare", *user, "--mount", "mount", "-t", "tmpfs", "none", str(work.folder)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this user cannot make a file system of its own")
    full_disk(work, slow(work, 160, 0.05), 160, small="32k")
    assert failed(work.shown) == []


def test_a_cluster_without_certificates_is_refused_with_what_to_set() -> None:
    with pytest.raises(ScenarioError, match=r"needs certificates; set DASK_\w+__TLS__CA_FILE"):
        DaskPool("", Where(address="tls://127.0.0.1:1"))
    dask = pytest.importorskip("dask")
    names = ("ca-file", "client.cert", "client.key")
    with (
        dask.config.set({f"distributed.comm.tls.{name}": "/nowhere/ca.pem" for name in names}),
        pytest.raises(ScenarioError, match="cannot use the certificates of its configuration"),
    ):
        DaskPool("", Where(address="tls://127.0.0.1:1"))


def test_a_cluster_that_stays_without_workers_ends_the_study(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0]
    workers: dict[str, Any] = {"tcp://a": {}}
    monkeypatch.setattr(workers_module, "stopwatch", lambda: now[0])
    pool: Any = DaskPool.__new__(DaskPool)
    pool._client = SimpleNamespace(
        status="running", scheduler_info=lambda n_workers: {"workers": dict(workers)}  # noqa: ARG005
    )  # fmt: skip
    pool._present = 0
    now[0] = 100_000_000_000
    pool._check_present()
    workers.clear()
    now[0] += 59_000_000_000
    pool._check_present()
    now[0] += 2_000_000_000
    with pytest.raises(ClusterLost, match="no worker for 60 s; start workers with a nanny"):
        pool._check_present()
    pool._client.status = "closed"
    with pytest.raises(ClusterLost, match="the connection to Dask's scheduler is lost"):
        pool._check_present()


class Nanny:
    def __init__(self, alive: bool) -> None:
        self.alive, self.closed = alive, False

    def is_alive(self) -> bool:
        return self.alive

    async def close(self) -> None:
        self.closed = True
        raise OSError("it has no process")


def test_a_local_worker_without_a_process_for_some_seconds_is_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0]
    scaled: list[int] = []
    monkeypatch.setattr(workers_module, "stopwatch", lambda: now[0])
    good, dead = Nanny(True), Nanny(False)
    cluster = SimpleNamespace(
        workers={0: good, 1: dead}, scale=scaled.append,
        loop=SimpleNamespace(add_callback=lambda call, *words: asyncio.run(call(*words))),
    )  # fmt: skip
    workers = LocalWorkers(cluster, 2)

    def look(seconds: int) -> dict[int, Nanny]:
        now[0] += seconds * 1_000_000_000
        workers.replace_lost()
        return dict(cluster.workers)

    assert look(1) == {0: good, 1: dead}
    assert look(5) == {0: good, 1: dead}  # it may be about to start
    dead.alive = True
    assert look(1) == {0: good, 1: dead}
    dead.alive = False
    assert look(1) == {0: good, 1: dead}  # it was at work in between
    assert look(5) == {0: good, 1: dead}
    assert scaled == []
    assert look(1) == {0: good}
    assert (scaled, dead.closed, good.closed) == ([2], True, False)
    look(6)
    assert scaled == [2, 2]  # Dask had none for it yet
    cluster.workers[2] = Nanny(True)
    look(6)
    assert scaled == [2, 2]


def test_a_named_file_of_another_project_needs_no_trust_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "pyproject.toml").touch()
    file = tmp_path / "there" / "loop.py"
    file.write_text("from rtsim.models.unstable import scenario as scenario\n")
    monkeypatch.chdir(tmp_path / "here")
    words = ["--until", "0.1", "--runs", "3", "--workers", "0", "-o", "out", "--result"]
    done = CliRunner().invoke(main, ["study", "start", str(file), *words, "x=last:plant.x"])
    assert done.exit_code == 0, done.output
    (next(Path("out/results").iterdir())).unlink()
    refused = CliRunner().invoke(main, ["study", "resume", "out", "--workers", "0"])
    assert refused.exit_code == 2
    assert "--trust" in refused.output
