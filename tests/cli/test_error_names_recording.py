"""An error that ends a recorded run names the recording."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

import rtsim as rt
from rtsim.cli.main import main

BREAKING = """
import rtsim as rt


class Cart(rt.Plant):
    x = rt.state("m", 1)

    def derivative(self, d):
        d.x = -self.x


class Breaking(rt.Controller):
    x = rt.input("m")
    out = rt.output("m")
    count = rt.memory("1", 0)

    def step(self):
        self.count = self.count + 1
        self.out = 1.0 / (5.0 - self.count)


def scenario():
    loop = rt.Scenario("breaking", until=1)
    cart = loop.plant(Cart(), step=0.01)
    loop.connect(cart, loop.controller(Breaking(), period=0.1))
    return loop
"""


@pytest.mark.parametrize("recorded", [True, False])
def test_the_error_of_a_recorded_run_names_the_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recorded: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("breaking.py").write_text(BREAKING)
    record = ["-o", "kept.mcap"] if recorded else ["--no-record"]
    done = CliRunner().invoke(main, ["run", "breaking.py", "--plain", *record])
    assert done.exit_code == 2
    assert "breaking answered inf" in done.stderr
    assert ("recording up to the error: kept.mcap" in done.stderr) is recorded
    if recorded:
        assert rt.Recording.open("kept.mcap").track("cart").ns[-1] >= 300_000_000
