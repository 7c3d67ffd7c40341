"""Messages on media in the table of ``rtsim schedule``."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from click.testing import CliRunner

import rtsim as rt
from rtsim.cli import main
from rtsim.components.can_bus import CanBus
from rtsim.core.errors import ScenarioError
from rtsim.scenario.scenario import Scenario
from rtsim.schedules.messages import message_rows
from rtsim.schedules.table import schedule_table
from rtsim.testing.determinism import trace_of

EXAMPLE = Path(__file__).parents[2] / "docs/examples/11_can_bus.py"
BUS = CanBus(500_000, stuffing="worst")


def sensors(periods_ms: list[int], offsets_ms: list[float]) -> Scenario:
    loop = Scenario("bus", until=1)
    loop.source("car", rt.Signals("x [1]"))
    for k, (period, offset) in enumerate(zip(periods_ms, offsets_ms, strict=True)):
        loop.sensor(
            f"m{k}", {"x": "car.x"}, period=period / 1000, offset=offset / 1000,
            transport=BUS.frame(0x100 + k, length=8),
        )  # fmt: skip
    return loop


@pytest.mark.parametrize("seed", range(10))
def test_no_simulated_latency_exceeds_its_bound(seed: int) -> None:
    rng = random.Random(seed)
    periods = [rng.choice([2, 3, 5, 8]) for _ in range(5)]
    loop = sensors(periods, [round(rng.uniform(0, 2), 3) for _ in periods])
    rows = message_rows(loop, trace_of(loop))
    assert [row.sender for row in rows] == [f"m{k}" for k in range(5)]
    for row in rows:
        assert row.worst is not None
        assert row.longest is not None
        assert 0 < row.longest <= row.worst, row


def test_a_sender_whose_time_varies_leaves_the_medium_without_figures() -> None:
    class Echo(rt.Controller):
        x = rt.input("1")
        y = rt.output("1")

        def step(self) -> None:
            self.y = self.x

    loop = sensors([5], [0])
    loop.processor("mcu")
    loop.controller(
        "echo", Echo(), period=0.005, processor="mcu", execution=0.001, inputs={"x": "m0.x"},
        transport=BUS.frame(0x200, length=8),
    )  # fmt: skip
    rows = message_rows(loop, None)
    assert {row.sender: (row.worst, row.reason) for row in rows} == {
        "m0": (None, "the time at which echo sends varies"),
        "echo": (None, "the time at which echo sends varies"),
    }
    table = schedule_table(loop)
    assert [one.name for one in table.processors] == ["mcu"]
    assert [row.longest is None for row in table.messages] == [False, False]


def test_the_command_prints_the_messages_of_a_bus() -> None:
    found = CliRunner().invoke(main, ["schedule", str(EXAMPLE), "--json"])
    assert found.exit_code == 0, found.output
    rows = {row["sender"]: row for row in json.loads(found.stdout)["messages"]}
    assert rows["driver"]["medium"] == "can"
    assert rows["driver"]["simulated_s"] <= rows["driver"]["worst_latency_s"]
    text = CliRunner().invoke(main, ["schedule", str(EXAMPLE), "--no-run"]).stdout
    assert "driver" in text
    assert "simulated: no run" in text


def test_a_scenario_without_processors_and_buses_is_an_error() -> None:
    with pytest.raises(ScenarioError, match="has no processor and no bus"):
        schedule_table(Scenario("empty"))
