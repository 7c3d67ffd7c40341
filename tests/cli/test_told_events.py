"""What a guard tells with its event, and the exit status of a run that a failing guard ended."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rtsim.cli.main import main

LANDER = """
from rtsim import Guard, Model, Scenario, Signals

def fall(t, x, z, u, p, dx):
    dx[0], dx[1] = x[1], -10.0

def heights(t, x, z, u, p, g):
    g[0], g[1] = x[0], x[0] + 2.0

def note(i, t, x, z, u, p):
    if i == 0:
        z[0], z[1] = -x[1], z[1] + 1.0

MODEL = Model(
    "lander", states=Signals("height [m] = 5.0", "rise [m/s]"),
    discrete=Signals("sink_rate [m/s]", "contacts"), derivative=fall, guard=heights, reset=note,
    guards=(Guard("contact", -1, report=("sink_rate",)),
            Guard("crash", -1, terminal=True, failure=FAILURE)),
)

def scenario(until: float = 3.0):
    out = Scenario("lander", until=until)
    out.plant("lander", MODEL, step=0.1)
    return out
"""


def run(failure: str, *words: str) -> Result:
    Path("lander.py").write_text(LANDER.replace("FAILURE", repr(failure)))
    return CliRunner().invoke(main, ["run", "lander.py", *words])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_summary_prints_values_of_guards_and_a_failure_has_status_1() -> None:
    found = run("the legs broke", "-o", "lander.mcap")
    assert found.exit_code == 1
    assert "lander.contact at 1.000 s: sink_rate 10 m/s\n" in found.stdout
    assert "ended by a terminal guard at 1.18322 s: lander.crash: the legs broke" in found.stdout
    again = CliRunner().invoke(main, ["replay", "lander.mcap"])
    assert again.exit_code == 0


def test_json_has_values_of_guards_and_the_reason_of_status_1() -> None:
    found = json.loads(run("the legs broke", "--no-record", "--json").stdout)
    assert (found["outcome"], found["exit_status"], found["reason"]) == ("failed", 1, "terminal")
    assert found["why"].endswith("lander.crash: the legs broke")
    (told,) = found["reported"]
    assert told["guard"] == "lander.contact"
    assert told["values"] == {"sink_rate": pytest.approx(10.0)}


def test_a_terminal_guard_without_a_failure_is_a_regular_end() -> None:
    found = run("", "--no-record")
    assert found.exit_code == 0
    assert "terminal guard" not in found.stdout


def test_a_run_that_ends_before_has_nothing_to_tell() -> None:
    found = json.loads(run("the legs broke", "--no-record", "--json", "--until", "0.5").stdout)
    assert (found["outcome"], found["exit_status"]) == ("passed", 0)
    assert "reported" not in found
