"""The options that compose a study: requirements that add to a file's or replace one of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from study_commands import parsed, rtsim

from rtsim.runs.progress import TerminalLine
from rtsim.studies.folder import Folder
from rtsim.studies.measures import Row
from rtsim.studies.plan import Ordered
from rtsim.studies.progress import Tally, text_of
from rtsim.studies.running import resume

pytestmark = pytest.mark.usefixtures("empty_project")

OWN = """
from rtsim.models.unstable import scenario
from rtsim.studies import Requirement, Study


def study():
    return Study(
        {"plant.x": (0.5, 0.9)}, "monte_carlo:runs=4",
        {"peak": "max_abs:plant.x", "end": "last:plant.x"},
        ["peak < 2", Requirement("end", below=2.0, name="calm")], until=0.1,
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
        (("0.5<peak<0.1",), "no result peak is at least 0.5 and at most 0.1"),
        (("0.1<peak>0.5",), "signs of two directions"),
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
