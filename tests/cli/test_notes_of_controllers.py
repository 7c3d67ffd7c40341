"""The summary of a run names controllers that failed during the run."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from rtsim.cli.main import main

LOOP = """
import rtsim as rt

class Cart(rt.Plant):
    x = rt.state("m", 1)
    v = rt.input("m/s")

    def derivative(self, d):
        d.x = self.v

class Brake(rt.Controller):
    x = rt.input("m")
    v = rt.output("m/s")

    def step(self):
        if self.t > 0.25:
            raise ValueError("no more speed")
        self.v = -self.x

def scenario():
    loop = rt.Scenario("cart", until=0.5)
    cart = loop.plant(Cart(), step=0.01)
    loop.connect(cart, loop.controller(Brake(), period=0.1, failure="hold"))
    return loop
"""


def test_the_summary_names_a_controller_that_failed_and_holds_its_outputs(tmp_path: Path) -> None:
    (tmp_path / "cart.py").write_text(LOOP)
    ran = CliRunner().invoke(main, ["run", str(tmp_path / "cart.py"), "--no-record"])
    assert ran.exit_code == 0, ran.output
    (note,) = [line for line in ran.output.splitlines() if line.startswith("note: brake failed: ")]
    assert "no more speed" in note
