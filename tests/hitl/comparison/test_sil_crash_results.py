"""Results of a C that crashes: told once, and in every file that was asked for."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from back_to_back_parts import Change, Stand, from_step
from c_parts import with_gcc
from click.testing import CliRunner, Result
from junit_schema import valid
from rich.console import Console

from hitl.comparison.back_to_back import back_to_back
from hitl.comparison.verdict import BackToBack
from hitl.results.table import Tables
from rtsim.cli import main
from rtsim.components.controller import PythonController
from rtsim.core.errors import ControllerError
from rtsim.core.outcome import Outcome
from rtsim.core.signals import Vector
from rtsim.models.unstable import controller, scenario
from rtsim.scenario.scenario import Scenario

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")
STACK = "#0 0x55dc24a16b96 in the_function"
VOID = {"meta", "br", "hr", "img", "input", "link"}
"""Elements of HTML that have no end."""


# -- told once


class Fresh(Stand):
    """A stand-in whose open loop answers ``change``, and whose flight ``flying``."""

    def __init__(self, law: PythonController, change: Change, flying: Change) -> None:
        super().__init__(law, change)
        self.flying = flying
        self.fresh_ones = 0

    def fresh(self) -> Fresh:
        self.fresh_ones += 1
        change = self.flying if self.fresh_ones > 1 else self.change
        return Fresh(self.law, change, self.flying)


def crashes(process: int, name: str = "law", at: int = 7) -> Change:
    def change(step: int, y: Vector) -> Vector:
        if step == at:
            raise ControllerError(
                f"{name} failed at {0.1 * step:.9f} s: the worker of {name} (process {process}) "
                f"ended with exit status 1; it said:\n{STACK}\ninputs: x=1\nagain: rtsim sil case c"
            )
        return y

    return change


def fine(step: int, y: Vector) -> Vector:  # noqa: ARG001
    return y


def shown(result: BackToBack) -> str:
    out = io.StringIO()
    Console(file=out, width=200).print(Tables(result), crop=False)
    return out.getvalue()


def held(change: Change, flying: Change) -> BackToBack:
    return back_to_back(scenario(), {"controller": Fresh(controller(), change, flying)}, until=3)


@pytest.mark.parametrize("at", [7, 9])
def test_what_a_process_said_is_told_once(at: int) -> None:
    result = held(crashes(11), crashes(22, at=at))
    for text in (shown(result), result.in_words):
        assert text.count(STACK) == 1
        assert "(process 22) ended with exit status 1\n" in text, "that of the loop in one line"
        assert "The open loop already fails: controller: step 7" in text
        assert "other tags" not in text
    assert json.loads(json.dumps(result.to_json()))["closed"]["error"].count(STACK) == 1


def test_a_crash_in_the_loop_alone_is_told_there() -> None:
    for change in (fine, from_step(3, lambda y: -y)):
        result = held(change, crashes(22))
        for text in (shown(result), result.in_words):
            assert text.count(STACK) == 1
            assert "again: rtsim sil case c" in text


def killed(process: int) -> Change:
    def change(step: int, y: Vector) -> Vector:
        if step == 7:
            error = ControllerError(f"law (process {process}) was ended by SIGKILL")
            error.environment = True
            raise error
        return y

    return change


def test_an_open_loop_that_was_not_decided_does_not_agree() -> None:
    result = held(killed(11), killed(22))
    assert result.outcome is Outcome.UNDECIDED
    for text in (shown(result), result.in_words):
        assert "The open loop agrees" not in text
        assert "The open loop could not be decided" in text


def test_a_crash_fails_although_every_value_agrees() -> None:
    """Of C that dies when it is ended, or after its last answer: there is no row that could say so.

    An error is enough, whatever was compared.
    """
    good = held(fine, fine)
    assert good.ok
    assert good.flight is not None
    flight = replace(good.flight, error="controller (process 22) ended with exit status 1")
    crashed = replace(good, flight=flight)
    assert flight.comparison.ok
    assert not flight.ok
    assert not crashed.ok
    assert "does not do what its reference model does" in crashed.statement
    assert "exit status 1" in crashed.in_words
    assert flight.to_json()["ok"] is False
    assert crashed.to_json()["ok"] is False
    with pytest.raises(AssertionError, match="exit status 1"):
        crashed.assert_ok()


def test_a_loop_that_fails_alone_and_one_that_was_not_flown() -> None:
    good = held(fine, fine)
    assert good.flight is not None
    bad = held(from_step(3, lambda y: -y), fine)
    assert not bad.ok
    assert bad.flight is not None
    assert bad.flight.ok, "what flies is fine"
    assert replace(good, flight=None).ok
    assert not replace(bad, flight=None).ok
    assert not replace(good, flight=held(fine, from_step(3, lambda y: -y)).flight).ok


def test_each_controller_has_one_line_and_each_crash_its_own_text() -> None:
    one = Scenario("two", until=1)
    for name in ("law1", "law2"):
        one.controller(name, controller(), period=0.1, inputs={"x": 1.0, "v": 0.0})
    laws = {
        "law1": Fresh(controller(), crashes(11, "law1"), fine),
        "law2": Fresh(controller(), fine, crashes(22, "law2", at=5)),
    }
    result = back_to_back(one, laws)
    text = shown(result)
    assert text.count(STACK) == 2, "these are two crashes"
    lines = [line for line in text.splitlines() if "(rows)" in line]
    # law1 has answered at 0.5 s before law2 crashed there.
    assert [line.split()[:1] + line.split("0, 0")[1].split()[:4] for line in lines] == [
        ["messages/law1", "6", "of", "11", "rows;"], ["messages/law2", "5", "of", "11", "rows;"],
    ]  # fmt: skip


# -- in every file


@pytest.fixture
def motor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The example with a C that writes behind its array at step 4; we are in its folder."""
    folder = tmp_path / "motor"
    assert CliRunner().invoke(main, ["sil", "init", str(folder)]).exit_code == 0
    monkeypatch.chdir(folder)
    broken(
        "real error = setpoint",
        "static real past[4]; static int at; past[at++] = speed;\n    real error = setpoint",
    )
    return folder


def broken(before: str, after: str) -> None:
    source = Path("motor.c")
    text = source.read_text()
    assert before in text
    source.write_text(text.replace(before, after))


def sil_test(*arguments: object) -> Result:
    words = ["sil", "test", "scenario.py", "-c", "motor.toml", *map(str, arguments)]
    return CliRunner().invoke(main, words)


class Elements(HTMLParser):
    """Opened and closed in order; :class:`AssertionError` where they are not."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@with_gcc
def test_a_sanitizers_report_is_in_every_result(motor: Path) -> None:
    result = sil_test("--build", "sanitize", "--junit", "r.xml", "--html", "r.html", "--json")
    assert result.exit_code == 1, result.output
    told = json.loads(result.stdout)
    assert told["ok"] is False
    assert told["files"] == ["r.xml", "r.html"]
    assert told["open"]["controller"]["answered"] == 4
    report = "runtime error: index 4 out of bounds"
    assert report in told["open"]["controller"]["error"]
    assert report in told["closed"]["error"]
    failed = [s["signal"] for s in told["closed"]["signals"] if s["reason"]]
    assert failed == ["overlap", "messages/controller (rows)"]
    root = valid(ET.fromstring(Path("r.xml").read_text()))
    assert root.attrib["errors"] == "2"
    errors = [e.text or "" for e in root.iter("error")]
    assert all(report in text and "motor.c:13" in text for text in errors)
    assert sum(report in (f.text or "") for f in root.iter("failure")) == 0
    page = Elements()
    page.feed(Path("r.html").read_text())
    page.close()
    assert page.open == []
    text = "".join(page.text)
    for part in (report, "no answer from step 4 on (0.04 s)", "4 of 301 rows", "setpoint=0"):
        assert part in text, part
    assert Path("cases/motor-40000000-sanitize.npz").exists()
    assert motor == Path.cwd()


# -- without coverage


@with_gcc
def test_where_every_process_crashes_the_result_is_told_before_coverage(motor: Path) -> None:
    broken("past[at++] = speed;", "if (at++ == 4) __builtin_trap(); past[0] = speed;")
    result = sil_test("--build", "coverage")
    assert result.exit_code == 1, result.output
    before, _, after = result.output.partition("no coverage: ")
    assert "no answer from step 4 on" in before
    assert "no process of motor ran to its end" in after
    assert "motor: the C does not do what its reference model does" in after
    told = sil_test("--build", "coverage", "--json")
    assert told.exit_code == 1
    data = json.loads(told.stdout)
    assert data["ok"] is False
    assert data["coverage"] is None
    assert "no process of motor ran" in data["no_coverage"]
    assert motor == Path.cwd()
