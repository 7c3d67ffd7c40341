"""``rtsim check``, and requirements in the summary of ``rtsim run``."""

from __future__ import annotations

import csv
import dataclasses
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner
from junit_schema import valid

from rtsim import __version__
from rtsim.cli import replay
from rtsim.cli.main import main
from rtsim.core.outcome import Outcome
from rtsim.record.reading import Recording

CART = """
import rtsim as rt


class Cart(rt.Plant):
    x = rt.state("m", 1.0)
    v = rt.state("m/s")

    def derivative(self, d):
        d.x = self.v
        d.v = -self.x - 0.4 * self.v


def plain():
    loop = rt.Scenario("cart", until=10)
    loop.plant(Cart(), step=0.01)
    return loop


def cart():
    loop = plain()
    loop.require("NEAR", "always abs(cart.x) < 1.5 m", "The cart stays near.")
    loop.require("CALM", "always[5, 8] abs(cart.x) < 0.2 m")
    return loop
"""
HOLDS = "NEAR: always abs(cart.x) < 1.5 m"
BROKEN = "CALM: always[5, 8] abs(cart.x) < 0.2 m"
OPEN = "LONG: always[0, 20] abs(cart.x) < 1.5 m"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the scenario and a run of it."""
    folder = tmp_path_factory.mktemp("check")
    (folder / "cart.py").write_text(CART)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        typed("run", "cart.py:cart", "-o", "run.mcap", status=1)
        yield folder


def typed(*words: str, status: int = 0) -> str:
    result = CliRunner().invoke(main, list(words))
    assert result.exit_code == status, result.output
    return " ".join(result.output.split())


@pytest.mark.usefixtures("folder")
def test_a_run_prints_the_verdicts_and_ends_with_their_status() -> None:
    text = typed("run", "cart.py:cart", "-o", "one.mcap", status=1)
    assert "NEAR holds 0.5 0 abs(cart.x) < 1.5 m" in text
    assert "CALM violated -0.0773282 6.41 abs(cart.x) < 0.2 m" in text
    assert "Error: CALM is violated, robustness -0.0773282 at 6.41 s" in text
    assert "Requirements" not in typed("run", "cart.py:plain", "-o", "two.mcap")
    assert "NEAR holds" in typed("run", "cart.py:plain", "--require", HOLDS, "-o", "three.mcap")
    text = typed("run", "cart.py:plain", "--require", OPEN, "-o", "four.mcap", status=2)
    assert "LONG is undecided: the run ended at 10 s" in text
    text = typed("run", "cart.py:plain", "--require", HOLDS, "--no-record", status=2)
    assert "requirements are checked on the recording; leave out --no-record" in text
    text = typed("run", "cart.py:cart", "--no-record", status=2)
    assert "CALM is undecided: the run was not recorded" in text
    text = typed("run", "cart.py:plain", "--require", "cart.x < 2", "-o", "five.mcap")
    assert "note: cart.x < 2 is checked at 0 s only; write always for the whole run" in text


@pytest.mark.usefixtures("folder")
def test_a_run_in_json_has_the_verdicts() -> None:
    words = ["run", "cart.py:cart", "-o", "j.mcap", "--json"]
    told = json.loads(CliRunner().invoke(main, words).stdout)
    near, calm = told["requirements"]
    assert (told["outcome"], told["exit_status"]) == ("failed", 1)
    assert told["why"].startswith("CALM is violated, robustness -0.0773")
    assert near["robustness"] == [0.5, 0.5]
    assert (near["outcome"], near["text"]) == ("passed", "The cart stays near.")
    assert (calm["outcome"], calm["worst_s"]) == ("failed", 6.41)
    assert calm["violated_s"] == [[5.69, pytest.approx(7.23)]]


@pytest.mark.usefixtures("folder")
def test_recordings_are_checked_against_their_own_requirements() -> None:
    text = typed("check", "run.mcap", status=1)
    assert "run.mcap" in text
    assert "NEAR holds" in text
    assert "CALM violated" in text
    assert "CALM" not in typed("check", "run.mcap", "--require", HOLDS)
    text = typed("check", "run.mcap", "--require", OPEN, status=2)
    assert "LONG undecided -inf to 0.5 the run ended at 10 s" in text
    typed("check", "run.mcap", "--require", OPEN, "--require", BROKEN, status=1)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("formula", "outcome", "status", "why"),
    [
        (HOLDS, "passed", 0, None),
        (BROKEN, "failed", 1, "CALM is violated"),
        (OPEN, "undecided", 2, "LONG is undecided: the run ended at 10 s"),
    ],
)
def test_a_check_in_json_has_its_status(
    formula: str, outcome: str, status: int, why: str | None
) -> None:
    result = CliRunner().invoke(main, ["check", "run.mcap", "--require", formula, "--json"])
    told = json.loads(result.stdout)
    assert (told["outcome"], told["exit_status"], result.exit_code) == (outcome, status, status)
    assert why is None or told["why"].startswith(why)


def test_tables_for_other_programs(folder: Path) -> None:
    typed("run", "cart.py:plain", "--until", "6", "-o", "short.mcap")
    typed("check", "run.mcap", "short.mcap", "--require", HOLDS, "--require", BROKEN,
          "--csv", "out.csv", "--junit", "out.xml", status=1)  # fmt: skip
    rows = list(csv.DictReader((folder / "out.csv").read_text().splitlines()))
    assert [(r["recording"], r["requirement"], r["outcome"]) for r in rows] == [
        ("run.mcap", "NEAR", "passed"),
        ("run.mcap", "CALM", "failed"),
        ("short.mcap", "NEAR", "passed"),
        ("short.mcap", "CALM", "failed"),
    ]
    assert float(rows[1]["robustness_high"]) == pytest.approx(-0.0773282, abs=1e-7)
    root = ET.parse(folder / "out.xml").getroot()
    assert [root.get(key) for key in ("tests", "failures", "errors")] == ["4", "2", "0"]
    typed("check", "short.mcap", "--require", OPEN, "--junit", "out.xml", status=2)
    root = ET.parse(folder / "out.xml").getroot()
    assert [root.get(key) for key in ("tests", "failures", "errors")] == ["1", "0", "1"]


def test_a_matrix_of_several_runs(folder: Path) -> None:
    pytest.importorskip("uplot")
    typed("run", "cart.py:plain", "--until", "1", "-o", "first.mcap")
    far = "FAR: always (cart.x < -0.4 m implies cart.v < 9 m/s)"
    files = ["--matrix", "pages/matrix.html", "--matrix", "matrix.csv", "--junit", "m.xml"]
    (folder / "pages").mkdir()
    # without a matrix, each run must exercise the requirement
    typed("check", "first.mcap", "run.mcap", "--require", far, status=2)
    typed("check", "first.mcap", "run.mcap", "--require", far, *files)
    assert '<a href="../run.mcap">run.mcap</a>' in (folder / "pages" / "matrix.html").read_text()
    (row,) = csv.DictReader((folder / "matrix.csv").read_text().splitlines())
    assert row["first.mcap"] == "not exercised, 0 times"
    assert row["run.mcap"].startswith("holds, ")
    assert (row["verdict"], row["exercised_by"]) == ("holds", "1")
    root = ET.parse(folder / "m.xml").getroot()
    # JUnit follows the rule of the matrix: what another run exercises is no error
    assert [root.get(key) for key in ("tests", "failures", "errors")] == ["2", "0", "0"]
    assert [one.tag for one in root.iter() if one.tag in ("skipped", "error")] == ["skipped"]
    cases = root.iter("testcase")
    told = [{p.attrib["name"]: p.attrib["value"] for p in one.iter("property")} for one in cases]
    assert [one["exercised"] for one in told] == ["no", "yes"]
    assert told[0]["requirement"] == "FAR"
    assert told[0]["formula"] == far.removeprefix("FAR: ")
    assert (told[0]["verdict"], told[1]["verdict"]) == ("undecided", "holds")
    alone = ["--matrix", "m.csv", "--junit", "alone.xml"]
    text = typed("check", "first.mcap", "--require", far, *alone, status=2)
    assert ET.parse(folder / "alone.xml").getroot().get("errors") == "1"
    assert "FAR is undecided: no run exercises it, because cart.x < -0.4 m was never true" in text
    typed("check", "first.mcap", "run.mcap", "--matrix", "m.csv", status=1)  # CALM of the other
    typed("check", "run.mcap", "--matrix", "m.csv", status=1)
    words = ["check", "first.mcap", "run.mcap", "--require", far, "--matrix", "m.csv", "--json"]
    told_json = json.loads(CliRunner().invoke(main, words).stdout)
    assert (told_json["outcome"], told_json["exit_status"]) == ("passed", 0)


def test_a_matrix_asks_each_run_the_requirements_of_all_runs(folder: Path) -> None:
    os.utime(folder / "run.mcap", (1_000_000, 1_000_000))
    (folder / "other.py").write_text(
        CART.replace('"cart"', '"sled"')
        .replace("loop.plant(Cart(), step", "loop.plant('sled', Cart(), step")
        .replace("cart.x", "sled.x")
        .replace("d.x = self.v", "d.x = 1.0 * self.v")
    )
    typed("run", "cart.py:plain", "-o", "bare.mcap")  # declares no requirement
    typed("run", "other.py:cart", "-o", "sled.mcap", status=1)
    words = ["check", "run.mcap", "bare.mcap", "--matrix", "m.csv", "--matrix", "m.html"]
    typed(*words, status=1)
    near, calm = csv.DictReader((folder / "m.csv").read_text().splitlines())
    assert near["bare.mcap"] == "holds, 0.5 m"
    assert (calm["exercised_by"], calm["not_checked_in"]) == ("2", "0")
    text = typed(*words, "sled.mcap", status=1)
    says = "note: NEAR is not checked in sled.mcap: requirement NEAR: unknown signal 'cart.x'"
    assert says in text
    rows = [*csv.DictReader((folder / "m.csv").read_text().splitlines())]
    assert rows[0]["formula"] == "always abs(cart.x) < 1.5 m"
    assert (rows[0]["sled.mcap"], rows[0]["not_checked_in"]) == ("not checked", "1")
    assert (rows[2]["run.mcap"], rows[2]["not_checked_in"]) == ("not checked", "2")
    page = (folder / "m.html").read_text()
    assert "<span class=none>not checked in 1 run</span>" in page
    assert "<small>-0.07733 m at 6.41 s</small>" in page
    assert "The code of the scenario&#x27;s functions differs between the runs." in page
    assert page.count(f"<td class=v>{__version__}</td>") == 3
    assert re.search(r"<td>1970-01-1[23] \d\d:\d\d</td>", page)  # local time
    assert "<li id=reason-1>requirement NEAR: unknown signal" in page
    found = json.loads(CliRunner().invoke(main, [*words, "sled.mcap", "--json"]).stdout)
    assert [*found["not_checked"]["sled.mcap"]] == ["NEAR", "CALM"]
    typed("check", "bare.mcap", "--matrix", "m.csv", status=2)  # no run declares a requirement


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run.mcap", "--matrix", "m.xml"], "the matrix m.xml must be a file .html or .csv"),
        (["run.mcap", "--matrix", "nodir/m.html"], "there is no folder nodir for the matrix"),
        (
            ["run.mcap", "--require", HOLDS, "--csv", "nodir/m.csv"],
            "cannot use nodir: No such file",
        ),
        (["none.mcap"], "there is no file none.mcap"),
        (
            ["run.mcap", "--require", "A: always cart.y < 1"],
            "requirement A: unknown signal 'cart.y'",
        ),
        (["run.mcap", "--require", "none.toml"], "none.toml: No such file"),
        (
            ["run.mcap", "--require", HOLDS, "--require", f"{HOLDS}0"],
            "two requirements have the name NEAR",
        ),
    ],
)
def test_a_wrong_input_is_an_error(words: list[str], says: str) -> None:
    assert says in typed("check", *words, status=2)


def test_a_wrong_matrix_is_refused_before_other_files_are_written(folder: Path) -> None:
    typed("check", "run.mcap", "--csv", "early.csv", "--matrix", "m.xml", status=2)
    assert not (folder / "early.csv").exists()


@pytest.mark.usefixtures("folder")
def test_the_unit_of_the_robustness() -> None:
    formulas = {
        "A: always (cart.x < 0 m implies cart.v < 9 m/s)": "m/s",
        "B: always cart.x * cart.v < 9 m^2/s": "m^2/s",
        "C: overshoot(cart.x, 0 m) < 200 %": "%",
        "D: always cart.x / cart.x < 2": "",
    }
    for formula, unit in formulas.items():
        words = ["check", "run.mcap", "--require", formula, "--json"]
        found = json.loads(CliRunner().invoke(main, words).stdout)
        (one,) = found["runs"]["run.mcap"]
        assert (one["unit"], one["outcome"]) == (unit, "passed"), one


@pytest.mark.usefixtures("folder")
def test_a_run_without_requirements_is_no_pass() -> None:
    typed("run", "cart.py:plain", "-o", "none.mcap", "--force")
    text = typed("check", "none.mcap", status=2)
    assert "declares no requirement; give --require 'NAME: FORMULA'" in text
    Path("none.mcap").unlink()


@pytest.mark.usefixtures("folder")
def test_texts_in_brackets_are_shown_as_they_are() -> None:
    text = typed("check", "run.mcap", "--require", "always cart.x < 3 [m]")
    assert "cart.x < 3 [m]" in text


@pytest.mark.usefixtures("folder")
def test_a_recording_that_was_cut_off_is_no_pass() -> None:
    typed("run", "cart.py:plain", "--until", "900", "-o", "long.mcap")
    data = Path("long.mcap").read_bytes()
    Path("cut.mcap").write_bytes(data[: len(data) // 2])
    text = typed("check", "cut.mcap", "--require", HOLDS, status=2)
    assert "the recording is incomplete" in text
    typed("check", "cut.mcap", "--require", "always abs(cart.x) < 0.5 m", status=1)


@pytest.mark.usefixtures("folder")
def test_the_status_of_a_replay_is_that_of_the_comparison_and_the_requirements() -> None:
    text = typed("replay", "run.mcap", status=1)
    assert "equal bit for bit" in text
    assert "Requirements on the replayed run" in text
    assert "NEAR holds 0.5 0" in text
    why = "the replay equals the recording; CALM is violated, robustness -0.0773282 at 6.41 s"
    assert why in text
    told = json.loads(CliRunner().invoke(main, ["replay", "run.mcap", "--json"]).stdout)
    assert (told["outcome"], told["exit_status"], told["why"]) == ("failed", 1, why)
    assert (told["agrees"], told["ok"], told["difference"]) == (True, False, None)
    assert [one["outcome"] for one in told["requirements"]] == ["passed", "failed"]
    text = typed("replay", "run.mcap", "--abs", "1e-9", status=1)
    assert "the replay agrees within the tolerance with the recording; CALM is violated" in text
    typed("check", "run.mcap", status=1)


@pytest.mark.usefixtures("folder")
def test_a_replay_with_an_undecided_requirement_is_undecided() -> None:
    typed("run", "cart.py:plain", "--require", OPEN, "-o", "open.mcap", status=2)
    why = "the replay equals the recording; LONG is undecided: the run ended at 10 s"
    assert why in typed("replay", "open.mcap", status=2)
    told = json.loads(CliRunner().invoke(main, ["replay", "open.mcap", "--json"]).stdout)
    assert (told["outcome"], told["agrees"]) == ("undecided", True)
    assert told["why"].startswith(why)


def test_a_replay_that_differs_names_the_difference_and_the_requirement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("cart.py").write_text(CART)
    typed("run", "cart.py:cart", "-o", "run.mcap", status=1)
    Path("cart.py").write_text(CART.replace("0.4 * self.v", "0.3 * self.v"))
    text = typed("replay", "run.mcap", "--trust", status=1)
    assert "signals FAILED" in text
    told = json.loads(CliRunner().invoke(main, ["replay", "run.mcap", "--trust", "--json"]).stdout)
    assert (told["outcome"], told["agrees"]) == ("failed", False)
    assert "cart.v: fails at 0.01 s, 1000/1001; CALM is violated, robustness -" in told["why"]


@pytest.mark.usefixtures("folder")
def test_a_replay_of_a_part_decides_only_what_the_part_decides() -> None:
    text = typed("replay", "run.mcap", "--to", "7", "--abs", "1e-9", status=1)
    typed("run", "cart.py:plain", "--require", HOLDS, "-o", "near.mcap")
    typed("replay", "near.mcap")
    typed("replay", "near.mcap", "--to", "7", status=2)
    assert "NEAR undecided" in text
    assert "CALM violated" in text
    assert "NEAR is undecided: the run stopped at 7 s of 10 s" in text
    typed("run", "cart.py:plain", "-o", "replayed.mcap")
    assert "equirement" not in typed("replay", "replayed.mcap")
    told = CliRunner().invoke(main, ["replay", "replayed.mcap", "--json"]).stdout
    assert "requirements" not in json.loads(told)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("reason", "verdict"), [("quit", "holds"), ("interrupted", "undecided")])
def test_a_replay_takes_the_end_of_the_run_as_recorded(reason: str, verdict: str) -> None:
    whole = Recording.open("run.mcap")
    assert whole.footer is not None
    header = {**whole.header, "until": 20_000_000_000}
    stopped = dataclasses.replace(whole, header=header, footer={**whole.footer, "reason": reason})
    checked = replay.check(stopped, [None, None], 0.0, 0.0)
    assert [one.verdict for one in checked.requirements] == [verdict, "violated"]
    assert checked.comparison is Outcome.PASSED
    assert checked.outcome is Outcome.FAILED


@pytest.mark.usefixtures("folder")
def test_a_report_of_several_runs_has_a_column_for_each() -> None:
    pytest.importorskip("uplot")
    typed("run", "cart.py:cart", "--set", "cart.x=0.5", "-o", "half.mcap")
    typed("run", "cart.py:plain", "-o", "free.mcap")
    typed("report", "run.mcap", "half.mcap", "free.mcap", "-o", "all.html")
    page = Path("all.html").read_text()
    section = page[page.index('<section id="requirements">') :].partition("</section>")[0]
    plain = " ".join(re.sub(r"<[^>]+>", " ", section).split())
    assert "requirement formula run half free" in plain
    calm = "CALM always[5, 8] abs(cart.x) &lt; 0.2 m violated, robustness -0.0773282 at 6.41 s"
    assert f"{calm} holds, robustness 0.0613359 at 6.41 s not declared" in plain
    charts = [json.loads(one) for one in re.findall(r"json\">(.*?)</script>", section)]
    for chart in charts:
        assert [line["name"] for line in chart["lines"]] == ["run", "half", "limit"]
    assert charts[0]["shaded"] == []
    assert charts[1]["shaded"] == [[5.69, pytest.approx(7.23), 0]]
    typed("report", "free.mcap", "free.mcap", "-o", "none.html")
    assert 'id="requirements"' not in Path("none.html").read_text()


def test_a_run_writes_its_end_and_its_requirements_as_junit(folder: Path) -> None:
    typed("run", "cart.py:cart", "-o", "q.mcap", "--junit", "q.xml", "--strict", status=1)
    root = ET.parse(folder / "q.xml").getroot()
    valid(root)
    cases = {(c.get("classname"), c.get("name")): len(c) for c in root.iter("testcase")}
    assert list(cases) == [
        ("cart.py:cart.run", "(the run reaches its end)"),
        ("cart.py:cart.run", "(--strict)"),
        ("cart.py:cart.requirements", "NEAR"),
        ("cart.py:cart.requirements", "CALM"),
    ]
    assert [root.get(key) for key in ("tests", "failures", "errors")] == ["4", "1", "0"]
    failure = next(root.iter("failure")).get("message") or ""
    assert failure.startswith("CALM is violated, robustness -0.0773")
    text = typed("run", "cart.py:plain", "--junit", "no/q.xml", status=2)
    assert "there is no folder no for no/q.xml" in " ".join(text.split())
