"""The line: dividers against the datasheet's table, time on the wire, the budget in words."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest
from emulated_board_parts import need
from firmware_parts import with_avr_gcc
from protocol_parts import f16

from hitl.boards import open_board
from hitl.firmware import firmware
from hitl.interface import load_interface
from hitl.protocol.line import MOST_BAUD, BaudRate, Budget, nominal, offered, wire_ns
from hitl.protocol.messages import StepMessage, StepReply
from hitl.protocol.wire import encode_message
from hitl.rigs.rig import INTERFACE
from rtsim.core.errors import ScenarioError

DATASHEET = [  # ATmega328P, "Examples of Baud Rate Setting", 16 MHz, U2X = 1: UBRR, error in %
    (9600, 207, 0.2), (19200, 103, 0.2), (38400, 51, 0.2), (76800, 25, 0.2),
    (115200, 16, 2.1), (230400, 8, -3.5), (250000, 7, 0.0), (500000, 3, 0.0), (1000000, 1, 0.0),
]  # fmt: skip


@pytest.mark.parametrize(("baud", "ubrr", "error"), DATASHEET)
def test_dividers_are_the_datasheets(baud: int, ubrr: int, error: float) -> None:
    rate = BaudRate(baud)
    assert (rate.steps - 1, round(rate.error_percent, 1)) == (ubrr, error)


def test_a_rate_that_arduinos_core_makes_at_normal_speed() -> None:
    """Of 16 MHz only; by the core's ``HardwareSerial::begin``, and the datasheet's U2X = 0."""
    rate = BaudRate(57_600)
    assert (rate.steps - 1, round(rate.error_percent, 1), rate.good) == (16, 2.1, False)
    assert nominal(rate.actual) == 57_600
    assert BaudRate(57_600, 14_745_600).actual == 57_600


@with_avr_gcc
@pytest.mark.parametrize("baud", [57_600, 76_800, MOST_BAUD])
def test_a_rate_is_what_the_firmware_sets(baud: int) -> None:
    need("avr8js")
    image = firmware(load_interface(INTERFACE), baud=baud).path
    with closing(open_board("board:uno", image)) as board:
        board.advance(16_000_000 // 20)
        assert board.baud == pytest.approx(BaudRate(baud).actual)


def test_offered_rates() -> None:
    assert offered() == (9600, 19200, 38400, 76800, 250000, 500000, 1000000)
    assert max(offered()) == MOST_BAUD
    assert {57600, 115200} <= set(offered(14_745_600))
    assert str(BaudRate(500000)) == "500000 baud (+0.0 %)"
    assert str(BaudRate(115200)).startswith("115200 baud is +2.1 % off at the board; choose 9600,")


@pytest.mark.parametrize("baud", [0, -1, 3_000_000, 100])
def test_a_rate_that_no_divider_makes(baud: int) -> None:
    with pytest.raises(ScenarioError, match="no divider makes"):
        BaudRate(baud)


def test_time_on_the_wire() -> None:
    assert wire_ns(32, 500_000) == 640_000
    assert wire_ns(1, 115_200) == 86_806
    assert wire_ns(0, 9600) == 0


def test_the_budget_of_the_f16() -> None:
    """20 and 4 float32, 10 and 12 bytes before them, 4 of frame, stuffing and delimiter."""
    budget = Budget.of(f16(), 500_000, execution_ns=3_000_000)
    assert (budget.request_bytes, budget.reply_bytes) == (96, 34)
    assert (budget.request_ns, budget.reply_ns) == (1_920_000, 680_000)
    assert budget.exchange_ns == 5_600_000
    assert budget.holds
    assert budget.rate_hz == pytest.approx(171.04, abs=0.01)
    assert str(budget) == (
        "request 96 bytes 1.920 ms, step 3.000 ms, firmware 0.247 ms, reply 34 bytes 0.680 ms: "
        "5.847 ms fits the period of 20.000 ms; up to 171 Hz"
    )
    slow = Budget.of(f16(), 38_400)
    assert "step 0.000" not in str(slow)
    assert str(slow).endswith(" Hz (a run measures the step's execution time)")
    assert not slow.holds
    assert "does not fit" in str(slow)
    assert replace(slow, period_ns=slow.answered_ns).holds
    assert not replace(slow, period_ns=slow.exchange_ns).holds


def test_no_frame_is_longer_than_the_budget_says() -> None:
    interface = f16()
    budget = Budget.of(interface, 9600)
    for byte in (0, 1, 255):
        step = encode_message(StepMessage(byte, byte, bytes(80 * [byte])), byte)
        reply = encode_message(StepReply(byte, byte, byte, byte, bytes(16 * [byte])), byte)
        assert len(step) <= budget.request_bytes
        assert len(reply) <= budget.reply_bytes
