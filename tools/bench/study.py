"""(p) Studies: two workers against one, a study against a loop of one's own, and flat memory.

The loop runs the same prepared scenario with the same seeds and values, and keeps the same results,
with the digest of all rows.  A second loop keeps no digest, and records one track only.  Workers
and folders of a study are started before its time begins.  Two loops at once show how much faster
this machine is with two processes.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from rtsim.core.clock import stopwatch
from rtsim.core.tag import NS_PER_S
from rtsim.runs.prepared import Recorded, prepare
from rtsim.scenario.loading import load_scenario
from rtsim.studies import MaxAbs, Mean, MonteCarlo, Study
from rtsim.studies.campaign import Campaign, Pool
from rtsim.studies.folder import Folder
from rtsim.studies.plan import Orders, Plan
from rtsim.studies.progress import Tally
from rtsim.studies.running import pool_of
from rtsim.studies.workers import Where
from tools.bench.results import Result, Row
from tools.bench.turns import in_turns

SCALING, SHARE, OVERHEAD_MS, GROWTH = 1.9, 0.95, 2.0, 1.1
"""Two workers against one; a study against a loop; what it adds to a run; peaks of memory."""
SIZES = (10_000, 100_000)
"""Runs of the two studies whose peaks are compared."""
ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Case:
    """A study of ``scenario``; ``signal`` is reduced to its largest distance and its mean."""

    scenario: str
    factor: str
    around: float
    signal: str
    until: float
    runs: int

    @property
    def plan(self) -> Plan:
        low, high = 0.99 * self.around, 1.01 * self.around
        study = Study(
            factors={self.factor: (low, high)}, design=MonteCarlo(self.runs), until=self.until,
            results={"peak": MaxAbs(self.signal), "mean": Mean(self.signal)},
            requirements=["peak < 1e9"],
        )  # fmt: skip
        return Plan.of(study, self.scenario)

    def looped(self, digest: bool) -> Callable[[], float]:
        """Returns the time of a run [ns] in a loop that keeps the results."""
        plan, prepared = self.plan, prepare(load_scenario(self.scenario))
        track, _, column = self.signal.partition(".")
        record: Recorded = True if digest else (track,)

        def once() -> float:
            orders, kept = Orders(plan), []
            began = stopwatch()
            for k in range(self.runs):
                order = orders[k]
                values: Any = order.factors
                result = prepared.run(seed=order.seed, set=values, until=self.until, record=record)
                recording = result.recording()
                rows = recording.track(track)
                v, t = rows.column(column), rows.ns / NS_PER_S
                mean = 0.5 * np.dot(v[1:] + v[:-1], np.diff(t)) / (t[-1] - t[0])
                hashed = recording.digest() if digest else ""
                kept.append((np.abs(v).max(), mean, hashed))
            return (stopwatch() - began) / self.runs

        return once

    def studied(self, pool: Pool, into: Path) -> Callable[[], float]:
        """Returns the time of a run [ns] in a study on the workers of ``pool``."""
        plan, numbers = self.plan, count()

        def once() -> float:
            folder = Folder.new(into / f"{id(pool)}-{next(numbers)}", plan)
            campaign = Campaign(folder, pool, Tally.of(folder))
            began = stopwatch()
            campaign.run()
            return (stopwatch() - began) / self.runs

        return once


LONG = Case("f16", "f16.cg", 0.3, "f16.altitude", 20.0, 800)
SHORT = Case("unstable", "plant.stiffness", 2.0, "plant.x", 1.0, 4000)


def _two_loops(case: Case, stack: ExitStack) -> Callable[[], float]:
    """Returns the time of a run [ns] if two processes run a loop of half of the runs each."""
    half = replace(case, runs=case.runs // 2)
    command = [sys.executable, "-m", "tools.bench.study", "loop", json.dumps(asdict(half))]
    both = [stack.enter_context(_piped(command)) for _ in range(2)]

    def once() -> float:
        began = stopwatch()
        for one in both:
            print(file=one.stdin, flush=True)
        for one in both:
            assert one.stdout is not None
            one.stdout.readline()
        return (stopwatch() - began) / (2 * half.runs)

    return once


def _piped(command: list[str]) -> subprocess.Popen[str]:
    """Start a process that :func:`_loop` runs in; it ends when its input is closed."""
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT)


def _loop(case: Case) -> None:
    """Run the loop of ``case`` once for each line of the input."""
    once = case.looped(digest=True)
    for _ in sys.stdin:
        print(once(), flush=True)


def run(quick: bool = False, runs: int = 0, sizes: tuple[int, int] | None = None) -> Result:
    """Measure in turns, and then the memory in processes of its own."""
    rounds = 2 if quick else 5
    rows: list[Row] = []
    for case in (LONG, SHORT):
        some = runs or (case.runs // 4 if quick else case.runs)
        rows += _compared(replace(case, runs=some), rounds, bounds=case is LONG)
    rows += _peaks(sizes or ((2_000, 10_000) if quick else SIZES))
    return Result("study", "studies: runs in workers, against a loop in one process", tuple(rows))


def _compared(case: Case, rounds: int, bounds: bool) -> list[Row]:
    """Measure one case; a short run has no bound for its share of a loop."""
    text = case.plan.job.to_text()
    folder = Path(tempfile.mkdtemp(prefix="rtsim-bench-"))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        contenders = {"loop": case.looped(digest=True), "bare": case.looped(digest=False)}
        for name, workers in (("here", 0), ("one", 1), ("two", 2)):
            pool = stack.enter_context(pool_of(text, Where(workers)))
            contenders[name] = case.studied(pool, folder)
        contenders["both"] = _two_loops(case, stack)
        seen = {name: np.array(found) for name, found in in_turns(contenders, rounds).items()}
    what = f"{case.scenario}, {case.until:g} s"
    share = [float(np.median(seen["loop"] / seen[name])) for name in ("one", "here")]
    scaling = float(np.median(seen["one"] / seen["two"]))
    limit = float(np.median(seen["loop"] / seen["both"]))
    over_ms = float(np.median(seen["one"] - seen["loop"])) * 1e-6

    def time(name: str) -> dict[str, float | None]:
        return {"a run [ns]": float(np.median(seen[name]))}

    kept = {"bound": f">= {SHARE:g} times", "ok": share[0] >= SHARE} if bounds else {}
    more = {"bound": f">= {SCALING:g} times", "ok": scaling >= SCALING} if bounds else {}
    return [
        Row(f"{what}: a loop that keeps results and digests", time("loop")),
        Row(f"{what}: a loop that keeps results only", time("bare")),
        Row(f"{what}: two such loops at once", {**time("both"), "one / it [x]": limit}),
        Row(f"{what}: a study in this process", {**time("here"), "loop / it [x]": share[1]}),
        Row(f"{what}: a study with one worker", {**time("one"), "loop / it [x]": share[0]},
            **kept),  # type: ignore[arg-type]
        Row(f"{what}: two workers against one", {**time("two"), "one / it [x]": scaling},
            **more),  # type: ignore[arg-type]
        Row(f"{what}: what a study adds to a run of the loop", {"a run [ns]": over_ms * 1e6},
            f"<= {OVERHEAD_MS:g} ms", over_ms <= OVERHEAD_MS),
    ]  # fmt: skip


def _peaks(sizes: tuple[int, int]) -> list[Row]:
    """Compare the peaks of two studies of short runs, each in a process of its own."""
    if not Path("/proc/self/status").exists():
        return [Row("memory: this system has no /proc to read it from", {})]
    few, many = (peaks(size) for size in sizes)
    rows = []
    for what in few:
        ratio = many[what] / few[what]
        figures = {"few [MB]": few[what], "many [MB]": many[what], "many / few [x]": ratio}
        rows.append(
            Row(f"peak memory of {what}: {sizes[0]:,} and {sizes[1]:,} runs", figures,
                f"<= {GROWTH:g} times", ratio <= GROWTH)
        )  # fmt: skip
    return rows


def peaks(runs: int, workers: int = 2) -> dict[str, float]:
    """Return the peaks [MB] of the processes of a study with ``runs`` short runs."""
    command = [sys.executable, "-m", "tools.bench.study", str(runs), str(workers)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=ROOT)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _observed(runs: int, workers: int) -> dict[str, float]:
    """Run a study on a scheduler and workers with processes of their own."""
    plan = replace(SHORT, runs=runs, until=0.1).plan
    with tempfile.TemporaryDirectory(prefix="rtsim-bench-") as name, ExitStack() as stack:
        folder = Folder.new(Path(name, "study"), plan)
        file = Path(name, "scheduler.json")
        ends = ("--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", str(file))
        scheduler = _process(stack, "scheduler", "--port", "0", *ends)
        while not file.exists():
            assert scheduler.poll() is None
        own = ("--nthreads", "1", "--no-dashboard", "--no-nanny", "--local-directory", name)
        of = [
            _process(stack, "worker", "--scheduler-file", str(file), *own) for _ in range(workers)
        ]
        pool = stack.enter_context(pool_of(plan.job.to_text(), _when(workers, file)))
        Campaign(folder, pool, Tally.of(folder)).run()
        return {
            "the client": _peak_mb("self"),
            "the scheduler": _peak_mb(scheduler.pid),
            "a worker": max(_peak_mb(one.pid) for one in of),
        }


def _when(workers: int, file: Path) -> Where:
    """Wait until all workers have joined the scheduler."""
    from distributed import Client

    with Client(scheduler_file=str(file)) as client:
        client.wait_for_workers(workers)
    return Where(scheduler_file=str(file))


def _process(stack: ExitStack, what: str, *options: str) -> subprocess.Popen[bytes]:
    """Start ``dask scheduler`` or ``dask worker``, and end it with ``stack``."""
    command = [sys.executable, "-m", "dask", what, *options]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    stack.callback(process.wait)
    stack.callback(process.kill)
    return process


def _peak_mb(pid: int | str) -> float:
    """The largest resident set of a process so far, MB (2**20)."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


if __name__ == "__main__":
    if sys.argv[1] == "loop":
        _loop(Case(**json.loads(sys.argv[2])))
        sys.exit()
    print(json.dumps(_observed(int(sys.argv[1]), int(sys.argv[2]))))
