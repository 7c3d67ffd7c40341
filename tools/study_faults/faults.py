"""Point 5: runs that go wrong, workers that are killed again and again, and a full disk."""

from __future__ import annotations

import csv
import os
import random
import shlex
import time
from dataclasses import dataclass, replace
from pathlib import Path

from tools.study_faults.clusters import cluster
from tools.study_faults.processes import kill, wait_for
from tools.study_faults.rows import Rows, count_of, equal_rows, once_each, rows_of, states_of
from tools.study_faults.studies import BAD, RTSIM, Work

_NONE = (0.0, 0.0)


@dataclass(frozen=True)
class Fault:
    """A kind of run that goes wrong, and what the study must say of it."""

    name: str
    what: tuple[float, float]
    """The factors ``fault`` (1: crash, 2: never answers) and ``watch.mode`` (1: raises, 2: NaN)."""
    state: str
    status: int
    words: tuple[str, ...] = ()
    """More words of the command."""


SIL = ("--set", "sil=true")
KINDS = (
    Fault("crash", (1.0, 0.0), "lost", 2),
    Fault("crash apart", (1.0, 0.0), "error", 1, SIL),
    Fault("hang", (2.0, 0.0), "timeout", 2, ("--limit", "3")),
    Fault("hang apart", (2.0, 0.0), "error", 1, SIL),
    Fault("raise", (0.0, 1.0), "error", 1),
    Fault("nan", (0.0, 2.0), "nan", 1),
)


def table(path: Path, runs: int, bad: dict[int, tuple[float, float]], delay: float = 0.0) -> None:
    """Write a design of ``runs`` runs, of which ``bad`` go wrong; runs take ``delay`` s longer."""
    draw = random.Random(3)
    with path.open("w", newline="", encoding="utf-8") as file:
        write = csv.writer(file).writerow
        write(["plant.x", "fault", "watch.mode", "watch.delay"])
        for run in range(runs):
            fault, mode = bad.get(run, _NONE)
            write([repr(draw.uniform(0.5, 0.9)), fault, mode, delay])


def crash_on_a_cluster(work: Work, runs: int) -> None:
    """Let one run crash on the workers of a cluster that was started by hand."""
    work.shown.point = "5"
    table(work.folder / "calm.csv", runs, {})
    good = work.study(work.group(), "calm", BAD, "--design", "table:calm.csv", "--workers", "0")
    with cluster(work.folder / "crashing", 2) as there:
        kind = replace(KINDS[0], name="crash there", words=("--cluster", there.address))
        wrong_run(work, kind, runs, runs, good)
        back = wait_for(lambda: len(there.group.workers()) == 2, 60.0)
        work.shown.check("crash there: the cluster has both workers again", back, True)


def wrong_runs(work: Work, runs: int, every: int = 100) -> None:
    """Let one run of ``every`` go wrong, in each way, and compare with a study of good runs."""
    work.shown.point = "5"
    table(work.folder / "good.csv", runs, {})
    good = work.study(work.group(), "good", BAD, "--design", "table:good.csv")
    work.whole("good", good, runs)
    for kind in KINDS:
        wrong_run(work, kind, runs, every, good)


def wrong_run(work: Work, kind: Fault, runs: int, every: int, good: Rows) -> None:
    """Let one run of ``every`` go wrong, and compare the other runs with those of ``good``."""
    shown, name = work.shown, kind.name
    folder = name.replace(" ", "-")
    bad = dict.fromkeys(range(every // 2, runs, every), kind.what)
    table(work.folder / f"{folder}.csv", runs, bad)
    words = (BAD, "--design", f"table:{folder}.csv", *kind.words)
    rows = work.study(work.group(), folder, *words, status=kind.status)
    shown.check(f"{name}: rows", once_each(rows, runs), f"{runs} runs once")
    wanted = dict(sorted({"ok": runs - len(bad), kind.state: len(bad)}.items()))
    shown.check(f"{name}: states", states_of(rows), wanted)
    found = [row["run"] for row in rows if row["state"] == kind.state]
    shown.check(f"{name}: they are the runs of the table", found == sorted(bad), True)
    ok = runs - len(bad)
    equal = equal_rows(rows, good, but=("fault", "watch.mode"))
    shown.check(f"{name}: the other runs", equal, f"{ok} of {ok} equal")


def killed_again_and_again(work: Work, seconds: float, every: float, sil: bool = False) -> None:
    """Kill a worker every ``every`` s while a study runs that takes ``seconds`` or more."""
    shown, name = work.shown, "kills-apart" if sil else "kills"
    shown.point = "5"
    delay = 0.05
    runs = max(20, int(2 * seconds / delay))  # two workers need at least ``seconds``
    table(work.folder / f"{name}.csv", runs, {}, delay)
    group = work.group()
    words = (BAD, "--design", f"table:{name}.csv", "--workers", "2", *(SIL if sil else ()))
    process = group.begin(RTSIM, "study", "start", *words, "-o", name)
    began, kills, draw = time.monotonic(), 0, random.Random(4)
    work.reaches(name, process, 1)
    while process.poll() is None:
        if workers := group.workers():
            kills += kill(draw.choice(workers))
        until = time.monotonic() + every
        while process.poll() is None and time.monotonic() < until:
            time.sleep(0.1)
    took = time.monotonic() - began
    rows = work.finish(group, name, process)
    least = max(1, int(0.8 * seconds / every))
    shown.check(f"{name}: at least {least} kills ({kills} in {took:.0f} s)", kills >= least, True)
    table(work.folder / f"{name}-calm.csv", runs, {})
    calm = work.study(work.group(), f"{name}-calm", BAD, "--design", f"table:{name}-calm.csv")
    left = [row for row in rows if row["state"] != "ok"]
    print(f"   {len(left)} runs without results; most attempts {max(r['attempts'] for r in rows)}")
    shown.check(f"{name}: rows", once_each(rows, runs), f"{runs} runs once")
    shown.check(f"{name}: states", states_of(rows), {"ok": runs})
    equal = equal_rows(rows, calm, but=("watch.delay",))
    shown.check(f"{name}: runs", equal, f"{runs} of {runs} equal")


_ON_A_SMALL_DISK = """
set -u
mkdir -p disk
mount -t tmpfs -o size={small} none disk || exit 70
{rtsim} study start {study} -o disk/full > full.txt 2>&1
echo $? > full.status
find disk -name '*.tmp' > full.left
mount -o remount,size=1g disk || exit 70
cp -r disk/full full-before
{rtsim} study resume disk/full > resumed.txt 2>&1
echo $? > resumed.status
cp -r disk/full full
umount disk
"""


def full_disk(work: Work, study: list[str], runs: int, small: str = "96k") -> None:
    """Run a study on a file system of ``small`` bytes, make it larger, and resume."""
    shown, folder, group = work.shown, work.folder, work.group()
    shown.point = "5"
    words = shlex.join([*study, "--workers", "2"])
    script = _ON_A_SMALL_DISK.format(small=small, rtsim=shlex.quote(str(RTSIM)), study=words)
    user = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    status, text = group.run("unshare", *user, "--mount", "sh", "-c", script)
    if not shown.check("full disk: a small file system was made (unshare, mount)", status, 0):
        print(text)
        return

    def read(name: str) -> str:
        return (folder / name).read_text(encoding="utf-8").strip()

    shown.check("full disk: exit status", read("full.status"), 2)
    said = read("full.txt")
    what = "No space left on device" in said and "make room, then type rtsim study resume" in said
    if not shown.check("full disk: the cause and what to type are said", what, True):
        print(said)
    shown.check("full disk: parts of files left", read("full.left") or "none", "none")
    print(f"   {count_of(folder / 'full-before')} of {runs} runs had rows when the disk was full")
    shown.check("full disk: exit status of the resume", read("resumed.status"), 0)
    shown.check("full disk: processes left", group.left(), "none")
    calm = work.study(work.group(), "roomy", *study)
    work.whole("full disk", rows_of(folder / "full"), runs, calm)
