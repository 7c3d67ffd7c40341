"""A search in a folder: its rows, repeats, resumes, states of runs, and ``rtsim study search``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from falsified_parts import CART
from search_parts import BROKEN, FACTORS, study
from study_commands import parsed, rtsim

from rtsim.cli.main import main
from rtsim.core.errors import ScenarioError
from rtsim.studies.campaign import Batch, Campaign, InProcess, Outcome, Searching
from rtsim.studies.designs import Search, Space
from rtsim.studies.designs.search import MAXIMUM
from rtsim.studies.folder import ENDED, Folder, StudyError
from rtsim.studies.measures import Row
from rtsim.studies.one_run import Runner
from rtsim.studies.plan import Ordered, find_study
from rtsim.studies.progress import Tally, text_of
from rtsim.studies.running import begin, carry_out, repeat, resume, start
from rtsim.studies.study import Study
from rtsim.studies.summary import summarise
from rtsim.studies.workers import Where


def rows_of(folder: Folder) -> list[dict[str, Any]]:
    """The rows without what a wall clock measured."""
    return folder.table().drop(["wall_s"]).to_pylist()  # type: ignore[no-any-return]


class Scattered(InProcess):
    """Three workers at once, whose batches end in an order of their own."""

    capacity = 3

    def __init__(self, job_text: str) -> None:
        super().__init__(job_text)
        self.ran: list[int] = []

    def submit(self, batch: Batch) -> None:
        self.ran += [order.run for order in batch.orders]
        self._waiting.insert(len(self.ran) % (1 + len(self._waiting)), batch)

    def finished(self) -> list[Outcome]:
        self._waiting.reverse()
        return super().finished()


def carried_out(
    folder: Folder, shuffled: Callable[[Iterable[int]], Iterable[int]] = iter
) -> list[int]:
    """Carry a search out in a scattered order, and return the runs that were run."""
    pool = Scattered(folder.plan.job.to_text())
    campaign = Campaign(folder, pool, Tally.of(folder), shuffled=shuffled)
    Searching(campaign).run()
    return pool.ran


def backwards(runs: Iterable[int]) -> Iterable[int]:
    return iter(sorted(runs, reverse=True))


SEARCH = Search("peak", runs=90, population=15)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    return start("unstable", tmp_path_factory.mktemp("whole") / "s", study(SEARCH, seed=4))


def test_the_rows_do_not_depend_on_the_order_of_the_runs(whole: Folder, tmp_path: Path) -> None:
    other = begin("unstable", study(SEARCH, seed=4), tmp_path / "s")
    ran = carried_out(other, backwards)
    assert sorted(ran) == list(range(90))
    assert ran != sorted(ran)
    assert rows_of(other) == rows_of(whole)
    assert other.ended == whole.ended == (90, MAXIMUM)


@pytest.mark.long
@pytest.mark.live
def test_two_workers_give_the_rows_of_one_process(whole: Folder, tmp_path: Path) -> None:
    other = begin("unstable", study(SEARCH, seed=4), tmp_path / "s")
    carry_out(other, Where(2))
    assert rows_of(other) == rows_of(whole)


def test_all_runs_have_one_seed_and_rise_with_the_generations(whole: Folder) -> None:
    table = whole.table()
    assert table["run"].to_pylist() == list(range(90))
    assert len(set(table["seed"].to_pylist())) == 1
    assert table["generation"].to_pylist() == [k // 15 for k in range(90)]


def test_any_run_is_repeated(whole: Folder) -> None:
    folder = Folder.open(whole.path)
    for run in (0, 40, 89):
        found = repeat(folder, run)
        assert found.equal is True
        assert found.row.order.marks == {"generation": run // 15}
    with pytest.raises(ScenarioError, match="no run 90 so far; it has 90 runs"):
        repeat(folder, 90)


def test_the_runs_of_a_search_are_no_sample(whole: Folder) -> None:
    found = summarise(whole)
    assert "mean" not in found["results"]["peak"]
    assert "median" not in found["results"]["peak"]
    assert "share" not in found["requirements"]["peak"]
    one, table = found["search"], whole.table().to_pandas()
    worst = table.loc[table["peak.margin"].idxmin()]
    assert (one["worst_run"], one["worst_margin"]) == (worst["run"], worst["peak.margin"])
    assert one["factors"] == {name: worst[name] for name in FACTORS}
    misses = table[table["peak.margin"] < 0]
    assert one["misses"] == len(misses) > 0
    assert one["first_miss"] == misses["run"].min()
    assert one["without_margin"] == 0


def copy_of(folder: Folder, path: Path, keep: Callable[[int], bool]) -> Folder:
    """Return a copy of a folder with the rows that ``keep`` accepts, as after a kill."""
    out = Folder.new(path, folder.plan)
    for row in folder.table().to_pylist():
        if keep(row["run"]):
            factors = {name: row[name] for name in FACTORS}
            order = Ordered(row["run"], row["seed"], factors, {"generation": row["generation"]})
            values = {name: row[name] for name in ("peak", "peak.margin")}
            out.add(
                Row(order, row["state"], row["cause"], row["reason"], row["ended_s"], values,
                    row["digest"], sources=row["sources"], sources_sha256=row["sources_sha256"])
            )  # fmt: skip
    out.write()
    return out


@pytest.mark.parametrize(
    "keep",
    [
        pytest.param(lambda run: run < 40, id="ended in a generation"),
        pytest.param(lambda run: run % 7 != 3, id="a file of rows is gone"),
        pytest.param(lambda run: run < 60, id="ended between generations"),
        pytest.param(lambda run: run >= 0, id="only the end was not stored"),
    ],
)
def test_a_resume_runs_only_what_is_missing(
    whole: Folder, tmp_path: Path, keep: Callable[[int], bool]
) -> None:
    half = copy_of(whole, tmp_path / "s", keep)
    assert half.ended.why == ""
    assert sorted(carried_out(half, backwards)) == [k for k in range(90) if not keep(k)]
    assert rows_of(half) == rows_of(whole)
    assert half.ended == whole.ended
    assert carried_out(half) == []


def test_an_interrupted_search_is_continued(
    whole: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = begin("unstable", study(SEARCH, seed=4), tmp_path / "s")
    row, rows = Runner.row, count()

    def interrupted(self: Runner, *args: Any, **more: Any) -> Any:
        if next(rows) == 50:
            raise KeyboardInterrupt
        return row(self, *args, **more)

    monkeypatch.setattr(Runner, "row", interrupted)
    with pytest.raises(KeyboardInterrupt):
        carry_out(folder, Where(0))
    assert 0 < folder.table("run").num_rows < 51
    assert not (folder.path / ENDED).exists()
    assert summarise(folder)["ended"] == ""
    done = resume(folder.path)
    assert rows_of(done) == rows_of(whole)


def test_rows_of_other_candidates_are_not_taken(
    whole: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = copy_of(whole, tmp_path / "s", lambda run: run < 40)
    minimise = Search.minimise

    def changed(self: Search, space: Space, evaluate: Any) -> str:
        return minimise(self, Space(space.seed + 1, space.factors), evaluate)

    monkeypatch.setattr(Search, "minimise", changed)
    with pytest.raises(StudyError, match="the search cannot continue: run 0 has"):
        carried_out(folder)
    assert folder.table("run").num_rows == 40


def test_a_damaged_end_is_named(whole: Folder, tmp_path: Path) -> None:
    folder = copy_of(whole, tmp_path / "s", lambda _: True)
    (folder.path / ENDED).write_text("{")
    with pytest.raises(StudyError, match="delete this file"):
        _ = folder.ended


def test_runs_that_fail_are_counted_and_searched(
    empty_project: Path,
) -> None:
    (empty_project / "broken.py").write_text(BROKEN)
    folder = start("broken.py", "out")
    found = summarise(folder)
    table = folder.table().to_pandas()
    wrong = int((table["plant.x"] > 0.6).sum())
    assert found["states"]["error"] == (table["plant.x"] > 0.8).sum() > 0
    assert found["states"]["nan"] == wrong - found["states"]["error"] > 0
    assert found["search"]["without_margin"] == wrong > 20
    assert found["search"]["misses"] == 0
    assert 0.4 <= found["search"]["smallest_margin"] + 0.3 < 0.6
    first = table[table["plant.x"] > 0.6].iloc[0]
    one, required = found["search"], found["requirements"]["rest"]
    assert (one["worst_run"], one["worst_state"]) == (first["run"], first["state"])
    assert (one["worst_margin"], one["factors"]) == (None, {"plant.x": first["plant.x"]})
    assert required["not_a_number"] == found["states"]["nan"]
    assert required["without_result"] == found["states"]["error"]
    again = begin("broken.py", _study_of("broken.py"), Path("again"))
    carried_out(again, backwards)
    assert repr(rows_of(again)) == repr(rows_of(folder))  # NaN is not equal to itself


def _study_of(file: str) -> Study:
    found = find_study(file)
    assert found is not None
    return found


def search(*words: str) -> Result:
    return rtsim(
        "search", "unstable", "--workers", "0", "--until", "0.3", "-o", "out",
        "--factor", "plant.x=range:0.5,0.9", "--factor", "plant.v=norm:0,0.1",
        "--result", "peak=max_abs:plant.x", *words,
    )  # fmt: skip


@pytest.mark.usefixtures("empty_project")
def test_a_search_without_a_miss_is_never_passed() -> None:
    found = parsed(search("--require", "peak<5", "--runs", "40", "--json"))
    assert (found["outcome"], found["exit_status"]) == ("undecided", 0)
    assert (found["ended"], found["rows"], found["planned"]) == ("maximum", 40, 40)
    assert found["search"]["first_miss"] is None
    text = rtsim("show", "out").stdout
    assert "no miss found in 40 runs; this does not prove that none exists" in text
    assert "the largest number of runs is reached" in text
    strict = parsed(rtsim("show", "out", "--strict", "--json"))
    assert (strict["outcome"], strict["exit_status"]) == ("undecided", 2)
    assert strict["why"].startswith("the search found no miss, which does not prove that none")
    assert parsed(rtsim("report", "out", "--json"))["outcome"] == "undecided"
    Path("out", ENDED).unlink()  # as after an interruption between the last row and the end
    shown = parsed(rtsim("show", "out", "--json"))
    assert (shown["rows"], shown["exit_status"]) == (40, 2)
    assert shown["why"] == "the search has not ended; type rtsim study resume out"


@pytest.mark.usefixtures("empty_project")
def test_the_page_about_a_search_has_its_worst_runs_and_no_means_or_pass_rates() -> None:
    words = ("--require", "peak<0.89", "--runs", "40", "--factor", "latency=values:0,0.01")
    search(*words, "--history", "plant.x")
    found = parsed(rtsim("report", "out", "--json"))
    page = Path("out/report.html").read_text()
    assert (found["outcome"], found["ended"]) == ("failed", "maximum")
    assert "This study is a search for the smallest margin." in page
    assert f"rtsim study run out {found['search']['worst_run']} -o run-" in page
    assert "Clopper" not in page
    assert "mean of peak" not in page
    assert "share" not in found["requirements"]["peak"]
    assert "median" not in found["results"]["peak"]


@pytest.mark.usefixtures("empty_project")
def test_a_miss_is_reported_with_the_command_that_repeats_it() -> None:
    words = ("--require", "peak<0.89", "--seed", "3", "--stop-at-failure", "--keep", "extremes")
    done = search(*words)
    found = parsed(rtsim("show", "out", "--json"))
    assert (done.exit_code, found["outcome"], found["ended"]) == (0, "failed", "miss")
    one = found["search"]
    assert (one["misses"], one["first_miss"] + 1 < found["rows"]) == (1, True)
    assert f"  1 run misses it; {one['first_miss'] + 1} runs were needed" in done.stdout
    assert f"worst margin {one['worst_margin']:.4g} in run {one['worst_run']}:" in done.stdout
    assert f"    plant.x = {one['factors']['plant.x']:.6g}" in done.stdout
    (line,) = (line for line in done.stdout.splitlines() if "repeat it: " in line)
    again = CliRunner().invoke(main, line.partition("repeat it: rtsim ")[2].split())
    assert f"run {one['worst_run']}: the digest equals the stored one" in again.stdout
    assert Path("worst.mcap").exists()
    assert len(list(Path("out/recordings").iterdir())) == 2
    strict = rtsim("show", "out", "--strict", "--json")
    assert (strict.exit_code, parsed(strict)["outcome"]) == (1, "failed")


@pytest.mark.usefixtures("empty_project")
def test_a_search_that_has_not_ended_is_no_success() -> None:
    search("--require", "peak<5", "--runs", "40")
    Path("out", ENDED).unlink()
    for part in Path("out/results").iterdir():
        part.unlink()
    shown = rtsim("show", "out", "--json")
    assert (shown.exit_code, parsed(shown)["outcome"]) == (2, "undecided")
    assert parsed(shown)["why"] == "the search has not ended; type rtsim study resume out"
    assert "the search has not ended" in rtsim("show", "out").stdout
    assert parsed(rtsim("resume", "out", "--workers", "0", "--json"))["rows"] == 40


@pytest.mark.usefixtures("empty_project")
def test_runs_without_results_decide_the_status_of_a_search() -> None:
    Path("broken.py").write_text(BROKEN)
    done = rtsim("search", "broken.py", "--runs", "30", "--workers", "0", "-o", "out", "--json")
    assert (done.exit_code, parsed(done)["outcome"]) == (1, "failed")
    text = rtsim("show", "out").stdout
    assert f"{parsed(done)['search']['without_margin']} runs have no margin" in text
    assert "too far" in text
    begun = rtsim("start", "broken.py", "--workers", "0", "-o", "two", "--json")
    assert (parsed(begun)["design"], parsed(begun)["planned"]) == ("search", 60)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "the study has 0 requirements (none)"),
        (("--require", "peak<1", "--requirement", "top"), "unknown requirement 'top'"),
        (("--require", "peak<1", "--runs", "0"), "runs of the design search is 0"),
        (("--require", "peak<1", "--within", "2"), "within is 2.0"),
    ],
)
@pytest.mark.usefixtures("empty_project")
def test_a_wrong_option_is_explained(words: tuple[str, ...], says: str) -> None:
    done = search(*words)
    assert done.exit_code == 2
    assert says in done.stderr
    assert not Path("out").exists()


def test_a_search_of_an_unknown_requirement_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="'peek' in the search; did you mean peak"):
        begin("unstable", study(Search("peek")), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("empty_project")
def test_a_search_knows_the_requirements_of_the_scenario() -> None:
    Path("cart.py").write_text(CART)
    words = ["--factor", "cart.x=range:0,1", "--runs", "20", "--workers", "0", "--json"]
    words = ["search", "cart.py", *words]
    done = parsed(rtsim(*words, "--requirement", "NEAR", "-o", "near"))
    assert done["search"]["requirement"] == "NEAR"
    assert done["search"]["misses"] > 0
    text = rtsim(*words, "-o", "none").output
    assert "the study has 3 requirements (NEAR, FAR, LATER); name one by --requirement" in text
    text = rtsim(*words, "--requirement", "NER", "-o", "none").output
    assert "unknown requirement 'NER' in the search; did you mean NEAR" in text
    assert not Path("none").exists()
    only = CART.replace('    loop.require("FAR"', '    ("FAR"').replace(
        '    loop.require("LATER"', '    ("LATER"'
    )
    Path("only.py").write_text(only)
    assert (
        parsed(rtsim("search", "only.py", *words[2:], "-o", "only"))["search"]["requirement"]
        == "NEAR"
    )


@pytest.mark.usefixtures("empty_project")
def test_a_search_in_which_every_run_is_undecided_says_so() -> None:
    Path("cart.py").write_text(CART)
    words = ("search", "cart.py", "--factor", "cart.x=range:0,1", "--requirement", "FAR")
    done = rtsim(*words, "--runs", "20", "--workers", "0", "-o", "far")
    assert done.exit_code == 2
    assert "20 of 20 runs leave the requirement FAR undecided: not exercised" in done.output
    assert "no run decides the requirement, so the search says nothing about it" in done.stdout
    assert "20 runs leave it undecided" in done.stdout
    assert "smallest upper bound of a margin" in done.stdout
    assert "which is undecided" in done.stdout
    assert "no miss found" not in done.stdout
    assert "  worst margin" not in done.stdout
    found = parsed(rtsim("show", "far", "--json"))
    assert found["exit_status"] == 2
    search = found["search"]
    assert (search["undecided"], search["worst_decided"], search["misses"]) == (20, False, 0)


@pytest.mark.usefixtures("empty_project")
def test_a_search_counts_the_runs_that_decide_the_requirement() -> None:
    mixed = CART.replace("cart.x > 5 m implies", "cart.x > 3 m implies").replace("v < 0", "v < 9")
    Path("cart.py").write_text(mixed)
    words = ("search", "cart.py", "--factor", "cart.x=range:0,1", "--requirement", "FAR")
    done = rtsim(*words, "--runs", "20", "--workers", "0", "-o", "far")
    found = parsed(rtsim("show", "far", "--json"))["search"]
    assert 0 < found["undecided"] < 20
    assert done.exit_code == 0
    assert f"no miss found in {20 - found['undecided']} runs that decide it" in done.stdout
    assert f"{found['undecided']} runs leave it undecided" in done.stdout


def test_the_progress_line_has_the_smallest_margin(whole: Folder) -> None:
    tally = Tally.of(whole)
    worst = summarise(whole)["search"]["worst_margin"]
    assert tally.estimates() == []
    line = text_of(tally, 10.0)
    assert line == f"90 / 90 runs  10 runs/s  0 s left  0 failed  peak worst margin {worst:.4g}"
