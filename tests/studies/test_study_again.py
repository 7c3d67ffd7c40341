"""``rtsim study run``: one run again, at any pace, with a window; its verdict is never false."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from rtsim.cli.main import main
from rtsim.core.errors import ScenarioError
from rtsim.engine.commands.commands import Command, Inbox, PendingCommand
from rtsim.record.reading import Recording
from rtsim.runs.request import Connections
from rtsim.scenario.scenario import Scenario
from rtsim.studies.designs import Replications
from rtsim.studies.folder import Folder
from rtsim.studies.running import recorded, start
from rtsim.studies.study import Study

HIDDEN = ("--view", "--headless", "--size", "160x120")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    monkeypatch.chdir(tmp_path)
    study = Study(design=Replications(2), results={"height": "last:ball.height"}, until=0.4)
    return start("ball", "study", study)


def again(*words: str) -> Result:
    return CliRunner().invoke(main, ["study", "run", "study", "1", *words])


def parsed(done: Result) -> dict[str, Any]:
    assert done.exit_code in (0, 1, 2, 130), done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.long
def test_a_run_is_repeated_in_a_window_and_stays_what_it_is() -> None:
    pytest.importorskip("pygame")
    seen = parsed(
        again(*HIDDEN, "--frames", "pictures", "--every", "0.01", "-o", "r.mcap", "--json")
    )
    assert (seen["equal"], seen["outcome"]) == (True, "passed")
    assert seen["view"]["frames"] > 0
    assert list(Path("pictures").iterdir())
    header = Recording.open("r.mcap").header
    assert header["pace"] == "1"
    text = again(*HIDDEN, "--pace", "max").stdout
    assert "run 1: the digest equals the stored one\nwindow: " in text
    assert "view" not in parsed(again("--json"))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--headless",), "work only with --view"),
        (("--quiet",), "--quiet works only with --view"),
        (("--view", "tcp://127.0.0.1:5998"), "needs keys"),
        (("--pace", "fast"), "give 'max' or a rate"),
    ],
)
def test_a_mistake_is_explained(words: tuple[str, ...], says: str) -> None:
    done = again(*words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert says in done.stderr


@contextmanager
def _ended(_: Scenario) -> Iterator[Connections]:
    yield Connections(inbox=Inbox([PendingCommand(Command("quit"))]))


def test_a_run_that_was_ended_in_its_window_is_not_compared(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = recorded(folder, 1, live=_ended)
    assert (found.row.state, found.row.reason, found.row.values) == ("error", "quit", {})
    assert found.equal is None
    monkeypatch.setattr("rtsim.cli.study._watched", lambda *_: _ended)
    done = again()
    assert done.exit_code == 130
    assert "run 1 did not reach its end, so nothing is compared" in done.stdout
    assert "equals" not in done.stdout
    assert parsed(again("--json"))["outcome"] != "passed"


def test_a_window_that_cannot_be_opened_is_an_error_and_no_result(folder: Folder) -> None:
    def broken(_: Scenario) -> AbstractContextManager[Connections]:
        raise ScenarioError("no display")

    with pytest.raises(ScenarioError, match="no display"):
        recorded(folder, 1, live=broken)
