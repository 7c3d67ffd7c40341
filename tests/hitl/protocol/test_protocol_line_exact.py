"""The line to the cycle: dividers at their limits, the firmware's share, what a period leaves."""

from __future__ import annotations

from dataclasses import replace

import pytest
from protocol_parts import f16

from hitl.boards.avr import CLOCK_HZ, UNO
from hitl.boards.pico import PICO
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
from rtsim.core.errors import ScenarioError
from rtsim.core.tag import NS_PER_S


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
