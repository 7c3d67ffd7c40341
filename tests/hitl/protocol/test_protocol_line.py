"""The line: dividers against the datasheet's table, time on the wire, the budget in words.

The line to the cycle: dividers at their limits, the firmware's share, what a period leaves.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest
from emulated_board_parts import need
from firmware_parts import with_avr_gcc
from protocol_parts import f16

from hitl.boards import open_board
from hitl.boards.avr import CLOCK_HZ, UNO
from hitl.boards.pico import PICO
from hitl.firmware import firmware
from hitl.interface import load_interface
from hitl.protocol.framing import encode_message
from hitl.protocol.line import (
    BITS_PER_BYTE,
    MOST_BAUD,
    BaudRate,
    Budget,
    handling_ns,
    in_words,
    nominal,
    offered,
    wire_ns,
)
from hitl.protocol.messages import StepMessage, StepReply
from hitl.rigs.rig import INTERFACE
from rtsim.core.errors import ScenarioError
from rtsim.core.tag import NS_PER_S

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


def test_the_largest_and_the_least_rate_of_a_clock() -> None:
    assert BaudRate(2_000_000).steps == 1
    assert BaudRate(2_000_000).actual == 2_000_000
    told = "no divider makes 2000001 baud from a clock of 16000000 Hz; choose 9"
    with pytest.raises(ScenarioError, match=told):
        BaudRate(2_000_001)
    assert BaudRate(489).steps == 4090
    assert BaudRate(1, 8 * 4096).steps == 4096
    with pytest.raises(ScenarioError):
        BaudRate(1, 8 * 4097)
    with pytest.raises(ScenarioError):
        BaudRate(0, 8)
    assert BaudRate(1, 8).steps == 1


def test_the_nearest_of_two_dividers_is_taken() -> None:
    assert BaudRate(100, 8 * 250).steps == 3, "83 is nearer than 125"
    for baud in (9600, 14400, 31250, 57_601, 115_200, 230_400):
        rate = BaudRate(baud)
        gaps = [abs(CLOCK_HZ / 8 / (n + 1) - baud) for n in range(300)]
        assert rate.steps - 1 == gaps.index(min(gaps)), baud
        assert rate.actual == CLOCK_HZ / 8 / rate.steps


def test_a_rate_is_good_below_one_percent_on_either_side() -> None:
    assert BaudRate(100, 8 * 100).error_percent == 0.0
    assert not BaudRate(100, 8 * 101).good, "1 % is too much"
    assert BaudRate(1000, 8 * 1009).good
    assert BaudRate(1000, 16 * 991).good
    assert not BaudRate(1000, 16 * 990).good
    assert BaudRate(1000, 8 * 1009).error_percent == pytest.approx(0.9)


def test_arduinos_core_goes_at_normal_speed_at_one_rate_of_one_clock() -> None:
    assert BaudRate(57_600).actual == pytest.approx(16e6 / 16 / 17)
    assert BaudRate(57_600, 8_000_000).actual == pytest.approx(8e6 / 8 / 17)
    assert BaudRate(57_601).actual == pytest.approx(16e6 / 8 / 35)


def test_rates_that_are_offered_are_those_that_the_clock_reaches() -> None:
    assert offered(8 * 9600) == (9600,)
    assert offered(8 * 9600 - 8) == ()
    assert offered(8 * MOST_BAUD)[-1] == MOST_BAUD
    assert offered() == offered(16_000_000)
    exact = (9600, 19200, 38400, 57600, 76800, 115200, 230400)
    assert offered(14_745_600) == exact, "a crystal that was made for them"


@pytest.mark.parametrize(
    ("actual", "name"),
    [
        (117_647, 115_200), (9600, 9600), (111_800, 115_200), (111_744, 111_744),
        (118_600, 115_200), (118_656, 118_656), (31_250.4, 31_250), (1_029_000, 1_000_000),
        (1_030_001, 1_030_001),
    ],
)  # fmt: skip
def test_a_rate_is_called_by_the_common_name_within_three_percent(actual: float, name: int) -> None:
    assert nominal(actual) == name


def test_a_rate_in_words_with_or_without_a_divider() -> None:
    assert in_words(500_000, CLOCK_HZ, UNO.line) == "500000 baud (+0.0 %)"
    assert in_words(230_400, CLOCK_HZ, UNO.line).startswith(
        "230400 baud is -3.5 % off at the board; choose 9"
    )
    assert in_words(3_000_000, CLOCK_HZ, UNO.line) == "3000000 baud"
    assert in_words(2_000_000, PICO.clock_hz, PICO.line) == "2000000 baud (+0.0 %)"


def test_a_byte_is_ten_bits_and_a_part_of_a_ns_is_a_whole_one() -> None:
    assert BITS_PER_BYTE == 10
    assert wire_ns(1, 10) == NS_PER_S
    assert wire_ns(3, 30_000_000_001) == 1
    assert wire_ns(3, 29_999_999_999) == 2
    assert wire_ns(2, 9600) == 2_083_334


def test_the_firmware_takes_so_many_cycles_of_an_exchange() -> None:
    assert handling_ns(0, 0, 9600) == 1600 * NS_PER_S // CLOCK_HZ == 100_000
    assert handling_ns(10, 0, 9600) - handling_ns(0, 0, 9600) == 110 * NS_PER_S // CLOCK_HZ
    assert handling_ns(0, 10, 9600) - handling_ns(0, 0, 9600) == 380 * NS_PER_S // CLOCK_HZ
    assert handling_ns(0, 0, 9600, 1_600_000) == 1_000_000
    assert handling_ns(7, 3, 9600) == (1600 + 77 + 114) * NS_PER_S // CLOCK_HZ


def test_bytes_that_come_faster_than_they_are_taken_wait() -> None:
    """At a million baud one comes each 160 cycles and takes 257."""
    assert handling_ns(10, 0, 1_000_000) == (1600 + 110 + 97 * 10) * NS_PER_S // CLOCK_HZ
    just = 10 * CLOCK_HZ // 257
    assert handling_ns(10, 0, just) == (1600 + 110) * NS_PER_S // CLOCK_HZ
    assert handling_ns(10, 0, 625_000) == (1600 + 110 + 10) * NS_PER_S // CLOCK_HZ


def test_a_budget_is_of_wire_step_and_firmware() -> None:
    budget = Budget(96, 34, 1_000, 200, 30, 1_234, 4)
    assert (budget.exchange_ns, budget.answered_ns) == (1_230, 1_234)
    assert budget.holds
    assert not replace(budget, period_ns=1_233).holds
    assert budget.rate_hz == NS_PER_S / 1_234
    assert replace(budget, handling_ns=0).answered_ns == 1_230
    assert Budget(96, 34, 1_000, 200, 30, 1_234).handling_ns == 0


def test_a_budget_goes_by_the_clock_of_its_board() -> None:
    uno, slow = Budget.of(f16(), 38_400), Budget.of(f16(), 38_400, clock_hz=1_600_000)
    assert uno.handling_ns == handling_ns(96, 34, 38_400)
    assert slow.handling_ns == handling_ns(96, 34, 38_400, 1_600_000) > uno.handling_ns
    assert (uno.execution_ns, uno.period_ns) == (0, 20_000_000)


def test_a_budget_in_words_has_a_step_where_one_was_measured() -> None:
    without = Budget(1, 2, 1_500_000, 2_500_000, 0, 5_000_000, 1_000_000)
    assert str(without) == (
        "request 1 bytes 1.500 ms, firmware 1.000 ms, reply 2 bytes 2.500 ms: 5.000 ms fits the "
        "period of 5.000 ms; up to 200 Hz (a run measures the step's execution time)"
    )
    step = str(replace(without, execution_ns=1_000))
    assert ", step 0.001 ms, firmware" in step
    assert "5.001 ms does not fit the period of 5.000 ms; up to 200 Hz" in step
