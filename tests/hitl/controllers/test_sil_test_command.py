"""``rtsim sil test``: what it writes and prints, and its exit status."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from back_to_back_parts import CRASH, FAULT_STEP, NONE, SIGN, write_law
from click.testing import CliRunner, Result
from junit_schema import valid

from rtsim.cli import main
from rtsim.record.reading import Recording

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture
def law(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Return what writes the C."""
    monkeypatch.chdir(tmp_path)
    return lambda fault=NONE, type="float64": write_law(tmp_path / "law", fault, type)


def sil_test(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["sil", "test", "unstable", *map(str, arguments)])


def test_the_command_passes_and_writes_what_is_asked(law: Callable[..., Path]) -> None:
    path = law()
    result = sil_test(
        "-c", path, "--until", 3, "--latency", 0.02, "--abs", 0, "--junit", "r.xml",
        "--html", "r.html", "-o", "r.mcap",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "the C does what its reference model does, in open and in closed loop" in result.output
    valid(ET.fromstring(Path("r.xml").read_text()))
    assert Path("r.html").read_text().startswith("<!DOCTYPE html>")
    recorded = Recording.open("r.mcap")
    assert recorded.end_ns == 3_000_000_000
    assert recorded.track("messages/controller").integer("arrival")[0] == 20_000_000
    for name in ("r.xml", "r.html", "r.mcap"):
        assert f"written: {name}" in result.output
    again = sil_test("-c", path, "--until", 1, "--junit", "r.xml", "--html", "r.html")
    assert again.exit_code == 0, again.output


def test_the_command_says_no_with_status_1(law: Callable[..., Path]) -> None:
    result = sil_test("-c", f"controller={law(SIGN)}", "--until", 3, "--json")
    assert result.exit_code == 1, result.output
    told = json.loads(result.stdout)
    assert told["open"]["controller"]["first"] == {"signal": "force", "step": FAULT_STEP}
    assert told["closed"]["ok"] is False
    wide = ("--tolerance", "force=1e9", "--tol", "plant.*=1e9", "--tol", "messages/*=1e9")
    result = sil_test("-c", law(SIGN), "--until", 3, *wide)
    assert result.exit_code == 0, result.output


@pytest.mark.long
def test_tolerances_of_all_signals_take_the_place_of_the_defaults(law: Callable[..., Path]) -> None:
    path = law(NONE, "float32")
    for arguments, status in (((), 0), (("--abs", 0), 1), (("--rel", 1e-3, "--abs", 1e-3), 0)):
        result = sil_test("-c", path, "--until", 2, *arguments)
        assert result.exit_code == status, result.output


def test_a_crash_is_no_traceback(law: Callable[..., Path]) -> None:
    result = sil_test("-c", law(CRASH), "--until", 3)
    assert result.exit_code == 1
    assert "SIGABRT" in result.output
    assert "rtsim sil case" in result.output
    assert "Traceback" not in result.output
    result = sil_test("-c", law(CRASH), "--until", 1, "--open-only")
    assert result.exit_code == 0, result.output
    assert "Closed loop" not in result.output


@pytest.mark.long
def test_a_recording_and_settings_reach_the_command(law: Callable[..., Path]) -> None:
    path = law()
    flight = ("--set", "plant.x=2", "--until", 2)
    assert sil_test("-c", path, *flight, "-o", "a.mcap").exit_code == 0
    assert Recording.open("a.mcap")["plant.x"][0] == 2.0
    told = json.loads(
        sil_test("-c", path, *flight, "--recording", "a.mcap", "--open-only", "--json").stdout
    )
    assert told["settings"]["inputs"] == "a.mcap"
    assert told["closed"] is None
    assert told["open"]["controller"]["steps"] == 21


def test_mistakes_have_status_2_before_anything_flies(law: Callable[..., Path]) -> None:
    path = law()
    Path("notes.html").write_text("<html>mine</html>")
    for arguments, text in (
        ((), "no interface file is given"),
        (("-c", path, "--html", "notes.html"), "not overwritten"),
        (("-c", path, "--junit", "no/r.xml"), "the folder no for"),
        (("-c", path, "--open-only", "-o", "a.mcap"), "--open-only"),
        (("-c", path, "--tolerance", "force"), "--tol"),
        (("-c", path, "--tolerance", "froce=1"), "no signal matches 'froce'"),
        (("-c", path, "--seed", -1), "--seed"),
        (("-c", path, "--pace", 1), "--latency 0.005"),
        (("-c", f"pilot={path}"), "pilot"),
    ):
        result = sil_test(*arguments, "--until", 1)
        assert result.exit_code == 2, (arguments, result.output)
        assert text in result.output, (arguments, result.output)
    assert Path("notes.html").read_text() == "<html>mine</html>"


def test_a_build_that_fails_has_status_2(law: Callable[..., Path]) -> None:
    path = law()
    path.with_name("law.c").write_text("nonsense", encoding="utf-8")
    result = sil_test("-c", path)
    assert result.exit_code == 2
    assert "law.c:1" in result.output


NEAR = "NEAR: always abs(plant.x) < 1.5 m"
LOW = "LOW: always plant.x < 0.5 m"


@pytest.mark.long
def test_requirements_of_the_runs_decide_with_the_comparison(law: Callable[..., Path]) -> None:
    path = law()
    result = sil_test("-c", path, "--until", 2, "--require", NEAR)
    assert result.exit_code == 0, result.output
    assert "in open and in closed loop, and all requirements hold" in result.output
    words = ("-c", path, "--until", 2, "--require", NEAR, "--require", LOW)
    result = sil_test(*words, "--junit", "r.xml", "--html", "r.html", "--json")
    assert result.exit_code == 1, result.output
    told = json.loads(result.stdout)
    head = told["why"].splitlines()[0]
    assert head == (
        "unstable: the C does what its reference model does, in open and in closed loop; the run "
        "with the reference model already violates LOW; the run with the C violates LOW"
    )
    verdicts = {run: [one["outcome"] for one in each] for run, each in told["requirements"].items()}
    assert verdicts == {"design": ["passed", "failed"], "C": ["passed", "failed"]}
    root = ET.fromstring(Path("r.xml").read_text())
    valid(root)
    assert root.get("failures") == "2"
    assert "<h2>Requirements</h2>" in Path("r.html").read_text()
    result = sil_test("-c", path, "--until", 2, "--require", "LONG: always[0, 9] plant.x < 2 m")
    assert result.exit_code == 2, result.output
    assert "the run with the C does not decide LONG" in result.output


@pytest.mark.long
def test_a_requirement_that_only_the_c_violates_fails(law: Callable[..., Path]) -> None:
    wide = ("--tol", "*=1e9", "--until", 3)
    path = law(SIGN)
    assert sil_test("-c", path, *wide).exit_code == 0
    result = sil_test("-c", path, *wide, "--require", "CALM: always[1.2, 3] abs(plant.v) < 0.7 m/s")
    assert result.exit_code == 1, result.output
    last = result.output.splitlines()[-1]
    assert last.endswith("in open and in closed loop; the run with the C violates CALM")


def test_wrong_requirements_have_status_2(law: Callable[..., Path]) -> None:
    path = law()
    for arguments, text in (
        (("--require", "BAD: always plant.y < 1"), "requirement BAD: unknown signal 'y' in plant"),
        (
            ("--require", NEAR, "--require", f"{NEAR} and true"),
            "two requirements have the name NEAR",
        ),
        (("--require", NEAR, "--open-only"), "leave out --require or --open-only"),
        (("--counterexample", "a.toml", "--open-only"), "out --counterexample or --open-only"),
    ):
        result = sil_test("-c", path, *arguments, "--until", 1)
        assert result.exit_code == 2, (arguments, result.output)
        assert text in result.output, (arguments, result.output)
