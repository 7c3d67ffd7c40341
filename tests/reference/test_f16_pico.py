"""NASA's F-16 case 13.1 with the law in double on an emulated Pico, beside the C on this host.

The Pico's processor has no floating-point unit: the compiler's library adds and multiplies.  Its
results are rounded as IEEE 754 demands, and the law calls no other function.  So both builds give
the same bits, at 50 Hz and at 400 Hz.
"""

from __future__ import annotations

from functools import cache

import pytest
from test_f16_pitl import scenario

from hitl.controllers.board import BoardController
from hitl.controllers.sil import SilController
from rtsim.components.controller import ControllerProtocol
from rtsim.models.f16.published import compare_with_nasa
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.simulation import simulate
from rtsim.testing.determinism import trace_of

pytestmark = pytest.mark.usefixtures("pico")
LAW = "firmware/core/f16_control.toml"
SHORT, WHOLE = 1.0, 60.0
full = pytest.mark.full
flights = pytest.mark.parametrize(
    ("rate", "until"),
    [
        ("50", SHORT),
        ("400", SHORT / 4),
        *(pytest.param(r, WHOLE, marks=full) for r in ("50", "400")),
    ],
)


@cache
def on_host(rate: str, until: float) -> Recording:
    return trace_of(scenario(rate, 0.0, SilController(LAW)), until=until)


def fly(rate: str, until: float, controller: BoardController) -> tuple[Recording, BoardController]:
    recorder = MemoryRecorder()
    outcome = simulate(scenario(rate, 0.0, controller), until=until, recorder=recorder)
    (task,) = (t for t in outcome.system.controllers if t.name == "autopilot")
    flown: ControllerProtocol = task.controller
    assert isinstance(flown, BoardController)
    return recorder.recording(), flown


@cache
def on_board(rate: str, until: float) -> tuple[Recording, BoardController]:
    return fly(rate, until, BoardController(LAW, url="board:pico"))


@pytest.mark.sample(1)
@flights
def test_its_trajectory_is_that_of_the_hosts_build(rate: str, until: float) -> None:
    """Bit for bit: the commands, the trajectory, and all else that is recorded."""
    host, (board, controller) = on_host(rate, until), on_board(rate, until)
    assert compare_exact(host, board) is None
    assert board.track("messages/autopilot").rows.floats.shape == (round(until * int(rate)) + 1, 4)
    assert [check for check in compare_with_nasa(board) if not check.within] == []
    assert controller.board is not None
    assert controller.board.double_bytes == 8
    assert controller.counts.repeated == 0


@flights
def test_every_exchange_ends_within_its_period(rate: str, until: float) -> None:
    """A step takes 0.15 to 0.18 ms at 125 MHz, and an exchange of 230 bytes 1.4 ms."""
    _, controller = on_board(rate, until)
    assert 15_000 < min(controller.cycles) < max(controller.cycles) < 30_000
    assert 1_200_000 < max(controller.exchange_ns) < 1_500_000 < 1e9 / int(rate)
    assert abs(controller.budget.answered_ns / max(controller.exchange_ns) - 1.0) < 0.02


@pytest.mark.sample(1)
@flights
def test_two_flights_are_the_same_to_the_cycle(rate: str, until: float) -> None:
    (one, first), (two, second) = (
        on_board(rate, until),
        fly(rate, until, BoardController(LAW, url="board:pico")),
    )
    assert compare_exact(one, two) is None
    assert one.digest() == two.digest()
    assert first.cycles == second.cycles
    assert first.exchange_ns == second.exchange_ns
    assert first.stack == second.stack
    assert len(set(first.cycles)) > 20, "steps differ, each is the same"
