"""Show what studies survive (Linux): killed processes, another cluster, runs that go wrong.

\b
    python -m tools.study_faults                                  # the full sizes
    python -m tools.study_faults --runs 300 --bad-runs 200 --seconds 20 --every 5

Exit status 1 if a check fails.  Points: 2 (the dispersed F-16 with any workers, order and kills), 4
(a cluster that is started by hand, with TLS), 5 (faults).
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import click

from rtsim.cli.common import reports_errors
from tools.study_faults.faults import (
    crash_on_a_cluster,
    full_disk,
    killed_again_and_again,
    wrong_runs,
)
from tools.study_faults.flights import elsewhere, flights
from tools.study_faults.rows import Rows
from tools.study_faults.shown import Shown
from tools.study_faults.studies import Work


@click.command(help=__doc__)
@click.option("--runs", default=10_000, show_default=True, help="Runs of the F-16.")
@click.option("--repeat", default=200, show_default=True, help="Runs that are repeated.")
@click.option("--bad-runs", default=1_000, show_default=True, help="Runs for each kind of fault.")
@click.option("--seconds", default=300.0, show_default=True, help="Time of kills of workers, s.")
@click.option("--every", default=20.0, show_default=True, help="Time between these kills, s.")
@click.option("--points", default="2,4,5", show_default=True, help="Points to show.")
@click.option("-o", "folder", type=click.Path(path_type=Path), help="Folder to keep the studies.")
@reports_errors
def main(
    runs: int,
    repeat: int,
    bad_runs: int,
    seconds: float,
    every: float,
    points: str,
    folder: Path | None,
) -> None:
    """Run the checks of the chosen points and print their table."""
    shown, wanted = Shown(), points.split(",")
    with ExitStack() as stack:
        if folder is None:
            name = stack.enter_context(tempfile.TemporaryDirectory(prefix="study-faults-"))
            folder = Path(name)
        work = Work.of(folder.resolve(), shown)
        stack.callback(work.end)
        study = ["dispersed.py", "--runs", str(runs)]
        like: Rows | None = None
        if "2" in wanted:
            like = flights(work, study, runs, repeat)
        if "4" in wanted:
            elsewhere(work, study, runs, like)
        if "5" in wanted:
            wrong_runs(work, bad_runs)
            crash_on_a_cluster(work, bad_runs // 10)
            killed_again_and_again(work, seconds, every)
            killed_again_and_again(work, seconds / 5, every / 2, sil=True)
            full_disk(work, study, runs)
    shown.print()
    sys.exit(1 if shown.failed or not shown.checks else 0)


if __name__ == "__main__":
    main()
