"""A board in real time: paced in the flight, in lockstep step by step; each by its own clock."""

from __future__ import annotations

from pathlib import Path

import pytest

from hitl import pitl
from hitl.boards import BoardError, node

LAW = {"controller": "firmware/core/unstable_control.toml:single"}
LATENCY, UNTIL, STEPS = 0.05, 1, 11
pytestmark = pytest.mark.realtime


def test_a_paced_board_is_measured_by_the_wall_and_steps_by_its_cycles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        node.command()
    except BoardError as error:
        pytest.skip(str(error))
    monkeypatch.chdir(tmp_path)
    result = pitl("unstable", LAW, pace=1.0, latency=LATENCY, until=UNTIL)
    board = result.pairs[-1]
    loop = board.open["controller"]
    assert loop.target is not None
    assert loop.target.exchange is not None
    assert (loop.target.exchange.clock, loop.target.exchange.steps) == ("target clock", STEPS)
    assert board.flight is not None
    target = board.flight.targets["controller"]
    assert target.exchange is not None
    assert target.execution is not None
    assert (target.exchange.clock, target.execution.clock) == ("host time", "target clock")
    assert target.exchange.min > target.wire_ns + target.execution.min, "no faster than the wire"
    assert target.execution.min == loop.target.execution.min  # type: ignore[union-attr]
    if not board.flight.late:
        result.assert_ok()
        assert target.wire_ns + target.execution.max < LATENCY * 1e9
