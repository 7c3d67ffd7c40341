"""Points 2 and 4: the same rows with any workers, in any order, after kills, on another cluster."""

from __future__ import annotations

import random
from pathlib import Path

from rtsim.studies.campaign import Campaign
from rtsim.studies.folder import Folder
from rtsim.studies.one_run import Runner
from rtsim.studies.plan import Orders
from rtsim.studies.progress import Tally
from rtsim.studies.running import pool_of, run_into
from rtsim.studies.workers import Where
from tools.study_faults.clusters import certificates, client_environment, cluster
from tools.study_faults.processes import kill, wait_for
from tools.study_faults.rows import Rows, count_of, rows_of
from tools.study_faults.studies import RTSIM, Work

_WORKERS_S = 60.0


def flights(work: Work, study: list[str], runs: int, repeats: int) -> Rows:
    """Show point 2; return the rows with one worker.

    ``study``: the words after ``rtsim study start``, for a study of ``runs`` runs.
    """
    work.shown.point = "2"
    one = work.study(work.group(), "one", *study, "--workers", "1")
    work.whole("one", one, runs)
    two = work.study(work.group(), "two", *study, "--workers", "2")
    work.whole("two", two, runs, one)
    work.whole("shuffled", shuffled(work, "one", "shuffled"), runs, one)
    work.whole("killed", killed(work, study, runs), runs, one)
    repeated(work, "one", repeats)
    return one


def shuffled(work: Work, like: str, name: str) -> Rows:
    """Run the study of the folder ``like`` in another order with two workers."""
    plan = Folder.open(work.folder / like).plan
    folder = Folder.new(work.folder / name, plan)

    def mixed(runs: object) -> list[int]:
        out: list[int] = list(runs)  # type: ignore[call-overload]
        random.Random(1).shuffle(out)
        return out

    with folder.locked(), pool_of(plan.job.to_text(), Where(2)) as pool:
        Campaign(folder, pool, Tally.of(folder), shuffled=mixed).run()
    return rows_of(folder.path)


def killed(work: Work, study: list[str], runs: int) -> Rows:
    """Kill a worker and the client, resume on a cluster, kill its scheduler, and resume again."""
    name, shown = "killed", work.shown
    group = work.group()
    client = group.begin(RTSIM, "study", "start", *study, "--workers", "2", "-o", name)
    shown.check("killed: running at the kill of a worker", work.reaches(name, client, 1), True)
    shown.check("killed: a worker was killed", any(kill(pid) for pid in group.workers()[:1]), True)
    there = wait_for(lambda: len(group.workers()) == 2 or client.poll() is not None, _WORKERS_S)
    shown.check("killed: a new worker was started", there and client.poll() is None, True)
    rows = count_of(work.folder / name)
    going = work.reaches(name, client, rows + 1)
    shown.check("killed: running at the kill of the client", going, True)
    client.kill()
    client.communicate()
    shown.check("killed: processes left by the client", group.left(), "none")
    rows = count_of(work.folder / name)
    shown.check("killed: rows are missing after the client", rows < runs, True)

    with cluster(work.folder / "doomed", 2) as first:
        group = work.group()
        client = group.begin(RTSIM, "study", "resume", name, "--cluster", first.address)
        going = work.reaches(name, client, rows + 1)
        shown.check("killed: running at the kill of the scheduler", going, True)
        shown.check("killed: the scheduler was killed", first.kill_scheduler(), True)
        text, _ = client.communicate()
        shown.check("killed: exit status without a scheduler", client.returncode, 2)
        shown.check("killed: what to type is said", "rtsim study resume" in text, True)
        shown.check("killed: processes left", group.left(), "none")
    rows = count_of(work.folder / name)
    shown.check("killed: rows are missing after the scheduler", rows < runs, True)
    return work.resume(work.group(), name, "--workers", "2")


def repeated(work: Work, name: str, repeats: int) -> None:
    """Repeat runs that are drawn at random in this process, and three of them by the command."""
    folder = Folder.open(work.folder / name)
    stored = {row["run"]: row["digest"] for row in rows_of(folder.path)}
    drawn = random.Random(2).sample(sorted(stored), min(repeats, len(stored)))
    runner, orders = Runner(folder.plan.job), Orders(folder.plan)
    equal = sum(run_into(runner, orders, k, None).digest == stored[k] != "" for k in drawn)
    work.shown.check(
        "repeated: digests equal", f"{equal} of {len(drawn)}", f"{len(drawn)} of {len(drawn)}"
    )
    group = work.group()
    for k in drawn[:3]:
        status, text = group.run(RTSIM, "study", "run", name, str(k))
        said = status == 0 and f"run {k}: the digest equals the stored one" in text
        work.shown.check(f"repeated: rtsim study run {name} {k}", said, True)


def _left_alone(work: Work, words: tuple[str, ...], env: dict[str, str]) -> Rows:
    """Kill the client of a cluster that goes on, and resume with the same workers."""
    name, group = "left-alone", work.group(**env)
    client = group.begin(RTSIM, "study", "start", *words, "-o", name)
    going = work.reaches(name, client, 1)
    work.shown.check("left alone: running at the kill of the client", going, True)
    client.kill()
    client.communicate()
    return work.resume(group, name, *words[-2:])


def elsewhere(work: Work, study: list[str], runs: int, like: Rows | None) -> None:
    """Show point 4: a scheduler and two workers with TLS, in folders of their own."""
    work.shown.point = "4"
    if like is None:
        like = work.study(work.group(), "here", *study, "--workers", "0")
    files = certificates(work.folder / "certificates")
    with cluster(work.folder / "cluster", 2, files) as there:
        work.shown.check("cluster: protocol", there.address.partition(":")[0], "tls")
        words = (*study, "--cluster", there.address)
        bare = work.group()
        status, text = bare.run(RTSIM, "study", "start", *words, "-o", "bare")
        work.shown.check("cluster: exit status without certificates", status, 2)
        work.shown.check("cluster: what to set is said", "TLS__CA_FILE" in text, True)
        group = work.group(**client_environment(files))
        work.whole("cluster", work.study(group, "cluster-study", *words), runs, like)
        work.whole("left alone", _left_alone(work, words, client_environment(files)), runs, like)
        file = work.study(group, "file-study", *study, "--scheduler-file", Path(there.file))
        work.whole("scheduler file", file, runs, like)
        work.shown.check("cluster: workers still there", len(there.group.workers()), 2)
