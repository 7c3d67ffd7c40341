"""``rtsim study`` on the command line: options, texts, JSON and exit statuses.

The options that compose a study: requirements that add to a file's or replace one of them.
"""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from study_commands import parsed, rtsim

from rtsim.cli.main import main
from rtsim.runs.progress import TerminalLine
from rtsim.studies.campaign import InProcess
from rtsim.studies.folder import Folder
from rtsim.studies.measures import Row
from rtsim.studies.plan import Ordered
from rtsim.studies.progress import StudyProgress, Tally, text_of
from rtsim.studies.running import resume
from rtsim.testing.commands import check_command

FACTOR = ("--factor", "plant.x=range:0.5,0.9")
PEAK = ("--result", "peak=max_abs:plant.x")


pytestmark = pytest.mark.usefixtures("empty_project")


def start(*words: str) -> Result:
    return rtsim("start", "unstable", "--workers", "0", "--until", "0.2", "-o", "out", *words)


def emptied() -> Folder:
    """Return the study without its rows, which a slow machine stores in several files."""
    folder = Folder.open(Path("out"))
    for part in Path("out/results").iterdir():
        part.unlink()
    return folder


def test_a_study_is_composed_on_the_command_line() -> None:
    done = start(*FACTOR, *PEAK, "--runs", "12", "--seed", "3", "--require", "peak<0.8", "--json")
    found = parsed(done)
    assert (found["outcome"], found["exit_status"]) == ("failed", 0)
    assert (found["runs"], found["seed"]) == (12, 3)
    assert found["states"] == {"ok": 12, "nan": 0, "failed": 0, "error": 0, "timeout": 0, "lost": 0}
    passed = found["requirements"]["peak"]["passed"]
    assert 0 < passed < 12
    shown = rtsim("show", "out")
    assert shown.exit_code == 0
    assert "12 of 12 runs (monte_carlo): 12 ok" in shown.stdout
    assert f"peak <= 0.8: {passed} of 12 runs pass" in shown.stdout
    strict = rtsim("show", "out", "--strict", "--json")
    assert parsed(strict)["outcome"] == "failed"
    assert parsed(strict)["why"] == f"{12 - passed} of 12 runs miss the requirement peak"


def test_a_run_is_repeated_and_compared() -> None:
    start(*FACTOR, *PEAK, "--runs", "3")
    done = rtsim("run", "out", "2", "-o", "two.mcap", "--json")
    found = parsed(done)
    assert (found["equal"], found["outcome"], found["recording"]) == (True, "passed", "two.mcap")
    assert CliRunner().invoke(main, ["replay", "two.mcap"]).exit_code == 0
    text = rtsim("run", "out", "1").stdout
    assert "run 1: the digest equals the stored one" in text
    folder = emptied()
    order = Ordered(2, 1, {"plant.x": 0.5}, {})
    folder.add(Row(order, "ok", values={"peak": 1.0}, digest="0" * 64))
    folder.write()
    other = rtsim("run", "out", "2", "--json")
    assert (parsed(other)["equal"], parsed(other)["outcome"]) == (False, "failed")
    assert "run 2 differs: digest" in rtsim("run", "out", "2").stdout
    nothing = rtsim("run", "out", "1", "--json")
    assert parsed(nothing)["outcome"] == "undecided"
    assert rtsim("run", "out", "3").exit_code == 2


def test_missing_runs_are_never_a_success() -> None:
    start(*FACTOR, *PEAK, "--runs", "3")
    emptied()
    found = parsed(rtsim("show", "out", "--json"))
    assert (found["outcome"], found["rows"]) == ("undecided", 0)
    assert found["why"] == "3 of 3 runs are missing: 0 to 2; type rtsim study resume out"
    again = parsed(rtsim("resume", "out", "--workers", "0", "--json"))
    assert (again["outcome"], again["rows"], again["exit_status"]) == ("undecided", 3, 0)


@pytest.mark.parametrize(
    ("required", "outcome"),
    [((), "undecided"), (("peak<2",), "passed"), (("peak<0",), "failed")],
    ids=["none", "met", "missed"],
)
def test_the_outcome_is_what_the_requirements_say(required: tuple[str, ...], outcome: str) -> None:
    words = [word for one in required for word in ("--require", one)]
    found = [parsed(start(*FACTOR, *PEAK, "--runs", "3", *words, "--json"))]
    found += [
        parsed(rtsim("show", "out", "--json")),
        parsed(rtsim("resume", "out", "--workers", "0", "--json")),
        parsed(rtsim("report", "out", "--json")),
    ]
    assert [(one["outcome"], one["exit_status"]) for one in found] == [(outcome, 0)] * 4


@pytest.mark.parametrize(
    ("required", "status", "why"),
    [
        (
            (), 2,
            "no run was compared with a requirement; give one by --require TEXT or by "
            "requirements= in study(), and start a new study",
        ),
        (("peak<2",), 0, None),
        (("peak<0",), 1, "2 of 2 runs miss the requirement peak"),
    ],
    ids=["none", "met", "missed"],
)  # fmt: skip
def test_strict_makes_the_outcome_the_exit_status(
    required: tuple[str, ...], status: int, why: str | None
) -> None:
    words = [word for one in required for word in ("--require", one)]
    found = [parsed(start(*FACTOR, *PEAK, "--runs", "2", *words, "--strict", "--json"))]
    found += [
        parsed(rtsim("show", "out", "--strict", "--json")),
        parsed(rtsim("resume", "out", "--workers", "0", "--strict", "--json")),
        parsed(rtsim("report", "out", "--strict", "--json")),
    ]
    assert [(one["exit_status"], one["why"]) for one in found] == [(status, why)] * 4
    assert (why or "") in rtsim("show", "out", "--strict").stdout


def test_a_miss_outranks_missing_runs_with_strict_only() -> None:
    start(*FACTOR, *PEAK, "--runs", "2", "--require", "peak<0")
    folder = emptied()
    values = {"peak": 1.0, "peak.margin": -1.0}
    folder.add(Row(Ordered(0, 0, {"plant.x": 0.5}, {}), "ok", values=values))
    folder.write()
    assert parsed(rtsim("show", "out", "--json"))["why"].startswith("1 of 2 runs are missing: 1;")
    strict = parsed(rtsim("show", "out", "--strict", "--json"))
    assert (strict["exit_status"], strict["why"]) == (1, "1 of 1 runs miss the requirement peak")


@pytest.mark.parametrize(
    ("state", "status", "outcome"),
    [
        ("error", 1, "failed"),
        ("nan", 1, "failed"),
        ("lost", 2, "undecided"),
        ("timeout", 2, "undecided"),
    ],
)
def test_runs_without_results_decide_the_status(state: str, status: int, outcome: str) -> None:
    start(*FACTOR, *PEAK, "--runs", "3")
    folder = emptied()
    for k in range(3):
        order = Ordered(k, k, {"plant.x": 0.5}, {})
        folder.add(Row(order, "ok" if k else state, "because" if not k else "", values={"peak": 1}))
    folder.write()
    found = rtsim("show", "out", "--json")
    assert (found.exit_code, parsed(found)["outcome"]) == (status, outcome)
    assert f"{state}: run 0: because" in rtsim("show", "out").stdout


def test_runs_without_a_result_are_counted_beside_those_that_pass() -> None:
    start(*FACTOR, *PEAK, "--runs", "5", "--require", "peak<0.8")
    folder = emptied()
    for k, state in enumerate(("ok", "nan", "error", "lost", "nan")):
        value = math.nan if state == "nan" else 0.5
        values = {"peak": value, "peak.margin": 0.8 - value} if state in ("ok", "nan") else {}
        folder.add(Row(Ordered(k, k, {"plant.x": 0.5}, {}), state, "because", values=values))
    folder.write()
    line = (
        r"  peak <= 0\.8: 1 of 3 runs pass, .*, 2 not a number, 2 runs without a result; "
        r"worst margin none \(not a number\) in run 1\n"
    )
    assert re.search(line, rtsim("show", "out").stdout)
    one = parsed(rtsim("show", "out", "--json"))["requirements"]["peak"]
    assert (one["not_a_number"], one["without_result"]) == (2, 2)
    assert (one["worst_margin"], one["worst_run"]) == ("nan", 1)
    rtsim("report", "out")
    assert "<td>NaN</td><td>1</td>" in Path("out/report.html").read_text().replace(" class=n", "")


@pytest.mark.parametrize("design", ["grid:levels=4", "monte_carlo:runs=4"])
def test_intervals_of_runs_that_are_chosen_together_have_a_warning(design: str) -> None:
    text = start(*FACTOR, *PEAK, "--design", design).stdout
    note = "chooses its runs together; intervals hold only for independent runs"
    assert (note in text) == design.startswith("grid")


def test_a_table_with_a_text_names_its_row() -> None:
    Path("t.csv").write_text("plant.x\n0.1\n0.2\nabc\n0.3\n")
    done = start(*PEAK, "--design", "table:t.csv")
    assert done.exit_code == 2
    assert "t.csv has plant.x = 'abc' in row 3, which is not a number" in done.stderr
    assert not Path("out").exists()


def test_sensitivity_is_shown() -> None:
    factors = (*FACTOR, "--factor", "plant.v=range:0,1")
    start(*factors, *PEAK, "--design", "saltelli:base=16")
    found = parsed(rtsim("show", "out", "--sensitivity", "peak", "--json"))
    assert set(found["sensitivity"]) == {"plant.x", "plant.v"}
    assert "first order" in rtsim("show", "out", "--sensitivity", "peak").stdout
    other = rtsim(
        "start", "unstable", "--workers", "0", "--until", "0.2", "-o", "m", *factors, *PEAK,
        "--design", "morris:trajectories=3",
    )  # fmt: skip
    assert other.exit_code == 0
    assert "mu*" in rtsim("show", "m", "--sensitivity", "peak").stdout


def test_options_change_the_study_of_a_file() -> None:
    Path("own.py").write_text(
        "from rtsim.models.unstable import scenario\n"
        "from rtsim.studies import Study\n\n\n"
        "def study():\n"
        "    return Study({'plant.x': (0.5, 0.9)}, results={'x': 'last:plant.x'}, until=0.2)\n"
    )
    done = rtsim(
        "start", "own.py", "--workers", "0", "--runs", "4", *PEAK, "--set", "plant.v=0.1",
        "--factor", "plant.x=values:0.5", "--json",
    )  # fmt: skip
    found = parsed(done)
    assert found["folder"] == str(Path("studies/own-001"))
    assert (found["runs"], set(found["results"])) == (4, {"x", "peak"})
    assert Folder.open(Path("studies/own-001")).plan.factors == {"plant.x": {"values": [0.5]}}
    again = rtsim("start", "own.py", "--workers", "0", "--runs", "1")
    assert "folder: " + str(Path("studies/own-002")) in again.stdout


def test_a_study_that_no_function_returns_is_not_ignored() -> None:
    Path("held.py").write_text(
        "from rtsim.models.unstable import scenario\n"
        "from rtsim.studies import Study\n\n"
        "study = Study({'plant.x': (0.5, 0.9)}, results={'x': 'last:plant.x'}, until=0.2)\n"
    )
    done = rtsim("start", "held.py", "--workers", "0", "--runs", "1", *PEAK, *FACTOR)
    assert done.exit_code == 2, done.output
    assert "held.py has a Study in the variable study" in done.output
    assert "def study(): return Study(...)" in done.output


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((*FACTOR,), "has no results"),
        ((*PEAK, "--factor", "plant.x"), "write --factor NAME=TEXT"),
        ((*PEAK, *FACTOR, "--design", "grid", "--runs", "5"), "does not fit the design grid"),
        ((*PEAK, "--factor", "plant.y=range:0,1"), "unknown value 'y'"),
        ((*PEAK, "--require", "top<1"), "unknown result 'top'"),
        ((*PEAK, "--limit", "-1"), "limit is -1.0 s"),
    ],
)
def test_a_mistake_is_explained(words: tuple[str, ...], says: str) -> None:
    done = start(*words)
    assert done.exit_code == 2
    assert says in done.stderr
    assert not Path("out").exists()


def test_only_one_place_for_the_runs() -> None:
    done = start(*FACTOR, *PEAK, "--cluster", "tcp://127.0.0.1:1")
    assert done.exit_code == 2
    assert "exclude each other" in done.stderr


def test_the_progress_line() -> None:
    start(*FACTOR, *PEAK, "--runs", "8", "--require", "peak<0.8")
    tally = Tally.of(Folder.open(Path("out")))
    tally.runs = 20
    found = parsed(rtsim("show", "out", "--json"))
    peak, met = found["results"]["peak"], found["requirements"]["peak"]
    wanted = (
        "8 / 20 runs  2 runs/s  6 s left  0 failed  "
        f"peak {peak['mean']:.4g} ({peak['low']:.4g} to {peak['high']:.4g})  "
        f"peak met in {met['share']:.4g} ({met['low']:.4g} to {met['high']:.4g})"
    )
    assert text_of(tally, 2.0) == wanted


def test_the_speed_is_that_of_the_last_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    start(*FACTOR, *PEAK, "--runs", "2")
    folder = Folder.open(Path("out"))
    now = "rtsim.runs.progress.stopwatch"
    monkeypatch.setattr(now, lambda: 0)
    line, tally = StudyProgress(TerminalLine(), first_ns=0), Tally(folder.plan)
    tally.runs = 100
    shown: list[str] = []
    monkeypatch.setattr(sys.stderr, "write", shown.append)
    pool = InProcess("")
    pool.about = "http://127.0.0.1:8787/status"
    for seconds, tally.new in ((60, 1), (60.2, 1), (65, 11), (70, 21), (80, 51), (90, 91)):
        monkeypatch.setattr(now, lambda s=seconds: int(s * 1e9))
        line.show(tally, pool)
    assert shown[:2] == ["\r\x1b[K", "dashboard: http://127.0.0.1:8787/status\n"]
    speeds = [re.findall(r"(\S+) runs/s", text) for text in shown[2:]]
    assert speeds == [[], ["2"], ["2"], ["3"], ["4"]]
    monkeypatch.setattr("rtsim.runs.progress._columns", lambda: 20)
    line.show(tally, pool)
    monkeypatch.setattr(now, lambda: int(91e9))
    line.show(tally, pool)
    assert shown[7:] == ["\r0 / 100 runs  3.64 \x1b[K"]


@pytest.mark.parametrize(
    "design",
    [
        "strata:plant.x,at=0.5 0.9,runs=5 4 3",
        "antithetic:runs=10",
        "morris:trajectories=3",
    ],
)
def test_the_progress_line_weights_the_runs_as_the_summary_does(design: str) -> None:
    factors = (*FACTOR, "--factor", "plant.v=values:0,0.4")
    found = parsed(start(*factors, *PEAK, "--design", design, "--json"))["results"]["peak"]
    ((name, mean),) = Tally.of(Folder.open(Path("out"))).estimates()
    assert (name, mean.mean, mean.low) == ("peak", found["mean"], found["low"])


def test_alternatives_together_have_no_estimate() -> None:
    factors = (*FACTOR, "--factor", "plant.v=values:0,0.4", "--require", "peak<0.8")
    design = "common_random_numbers:plant.v,runs=4"
    found = parsed(start(*factors, *PEAK, "--design", design, "--json"))
    assert found["results"]["peak"]["count"] == 8
    assert "mean" not in found["results"]["peak"]
    assert "share" not in found["requirements"]["peak"]
    assert [len(row) > 1 for row in found["alternatives"]["peak"]] == [True, True]
    tally = Tally.of(Folder.open(Path("out")))
    assert not tally.estimates()
    assert tally.rate("peak") is None


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal of Unix")
@pytest.mark.long
def test_a_terminal_shows_the_progress() -> None:
    words = ["start", "unstable", *FACTOR, *PEAK, "--runs", "30", "--require", "peak<0.8"]
    code, shown = in_a_terminal(["study", *words, "--until", "3", "--workers", "0"], columns=200)
    assert code == 0, shown
    lines = [part.split("\x1b[K")[0] for part in shown.split("\r") if " / 30 runs" in part]
    assert lines, shown
    number = r"[-+.\de]+"
    wanted = (
        rf"\d+ / 30 runs(  {number} runs/s  \d+ s left)?  0 failed"  # no speed in the first line
        rf"(  peak {number} \({number} to {number}\))?"  # after two runs
        rf"  peak met in {number} \({number} to {number}\)"
    )
    assert re.fullmatch(wanted, lines[-1]), lines


def in_a_terminal(words: list[str], columns: int) -> tuple[int, str]:
    """Run ``rtsim`` with its output on a pseudo-terminal; return the status and the output."""
    import pty
    import termios

    leader, follower = pty.openpty()
    termios.tcsetwinsize(follower, (24, columns))
    program = [sys.executable, "-m", "rtsim", *words]
    with subprocess.Popen(program, stdout=follower, stderr=follower, stdin=follower) as process:
        os.close(follower)
        shown = b""
        with suppress(OSError):  # Linux reports the end of the other side as an error
            while piece := os.read(leader, 65536):
                shown += piece
        os.close(leader)
    return process.returncode, shown.decode()


def test_what_only_studies_need_is_imported_when_it_is_needed() -> None:
    program = (
        "import sys, rtsim.studies.running, rtsim.studies.study, rtsim.cli.study\n"
        "print(sorted({'dask', 'distributed', 'pyarrow', 'pandas', 'SALib'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


@pytest.mark.long
@pytest.mark.live
def test_the_command_keeps_its_contract() -> None:
    check_command("study")


OWN = """
from rtsim.models.unstable import scenario
from rtsim.studies import Limit, Study


def study():
    return Study(
        {"plant.x": (0.5, 0.9)}, "monte_carlo:runs=4",
        {"peak": "max_abs:plant.x", "end": "last:plant.x"},
        ["peak < 2", Limit("end", below=2.0, name="calm")], until=0.1,
    )
"""


def required(*words: str) -> dict[str, str]:
    """The requirements of a study of the file with these options."""
    Path("own.py").write_text(OWN)
    found = parsed(rtsim("start", "own.py", "--workers", "0", "-o", "out", *words, "--json"))
    return {name: one["requirement"] for name, one in found["requirements"].items()}


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("peak<0.5",), {"peak": "peak <= 0.5", "calm": "end <= 2"}),
        (("peak>0.5",), {"peak": "0.5 <= peak", "calm": "end <= 2"}),
        (("0.1<peak<0.5",), {"peak": "0.1 <= peak <= 0.5", "calm": "end <= 2"}),
        (("calm=0.9>=end>0.1",), {"peak": "peak <= 2", "calm": "0.1 <= end <= 0.9"}),
        (("end<1",), {"peak": "peak <= 2", "calm": "end <= 2", "end": "end <= 1"}),
        (("low = peak > 0.1",), {"peak": "peak <= 2", "calm": "end <= 2", "low": "0.1 <= peak"}),
        (("peak<1", "peak<1"), {"peak": "peak <= 1", "calm": "end <= 2"}),
    ],
)
def test_a_requirement_replaces_that_of_its_name(
    words: tuple[str, ...], wanted: dict[str, str]
) -> None:
    assert required(*(word for one in words for word in ("--require", one))) == wanted


def test_a_requirement_with_two_limits_is_shown_and_decides() -> None:
    required("--require", "0.1<peak<0.5")
    text = rtsim("show", "out").stdout
    assert "  0.1 <= peak <= 0.5: 0 of 4 runs pass" in text
    assert "[peak]" not in text
    assert "end <= 2: 4 of 4 runs pass" in text
    assert "[calm]\n" in text


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("peak<0.5", "peak>0.1"), "several requirements have the name peak"),
        (("A: always x<1", "A: always x<2"), "two requirements have the name A"),
        (("0.5<peak<0.1",), "no result peak is at least 0.5 and at most 0.1"),
        (("0.1<peak>0.5",), "contains both < and >"),
        (("peak<nan",), "a limit of peak is nan"),
        (("peak=0.5",), "has no limit; write, for example, 'peak<0.2', '0.9<end<1.0'"),
        (("a<peak<0.5",), "'a' is not a number"),
        (("0.1<top<0.5",), "unknown result 'top'"),
    ],
)
def test_a_wrong_requirement_is_explained(words: tuple[str, ...], says: str) -> None:
    Path("own.py").write_text(OWN)
    given = [word for one in words for word in ("--require", one)]
    done = rtsim("start", "own.py", "--workers", "0", "-o", "out", *given)
    assert (done.exit_code, done.stdout) == (2, "")
    assert says in done.stderr
    assert not Path("out").exists()


def test_recordings_that_are_kept_have_a_progress_line(monkeypatch: pytest.MonkeyPatch) -> None:
    required("--keep", "1")
    for path in Path("out/recordings").iterdir():
        path.unlink()
    shown: list[str] = []
    seconds = iter(range(9))
    monkeypatch.setattr(TerminalLine, "write", lambda _, text, *__: shown.append(text))
    monkeypatch.setattr("rtsim.runs.progress.stopwatch", lambda: next(seconds) * 10**9)
    resume("out", workers=0, progress=True)
    assert shown == [f"{done} / 4 recordings written" for done in range(4)]


def test_the_progress_line_counts_runs_without_a_margin() -> None:
    words = ("--design", "common_random_numbers:plant.x,runs=3", "--factor", "plant.x=values:1,2")
    required(*words, "--require", "peak<2.5")
    tally = Tally.of(Folder.open(Path("out")))
    worst = tally.worst["peak"]
    assert text_of(tally, 0.0) == f"6 / 6 runs  0 failed  peak worst margin {worst:.4g}"
    order = Ordered(6, 1, {}, {"replication": 3})
    tally.add(Row(order, "nan", values={"peak": float("nan"), "peak.margin": float("nan")}))
    assert text_of(tally, 0.0).endswith(f"peak no margin in 1 run, worst margin {worst:.4g}")
    tally.add(Row(order, "error"))
    assert text_of(tally, 0.0).endswith(f"peak no margin in 2 runs, worst margin {worst:.4g}")
    none = Tally(Folder.open(Path("out")).plan)
    none.add(Row(order, "error"))
    assert text_of(none, 0.0).endswith("1 failed  peak no margin in 1 run")
