"""Pins of the emulated Uno: levels, edges, ADC, PWM."""

from __future__ import annotations

import itertools

import pytest
from emulated_board_parts import on_each, running

from hitl.boards import Pwm, avr

MS = 16_000


def registers(**values: int) -> bytes:
    """The timers' registers, by name, all others 0."""
    places = {
        "TCCR0A": 0x44, "TCCR0B": 0x45, "OCR0A": 0x47, "OCR0B": 0x48, "TCCR1A": 0x80,
        "TCCR1B": 0x81, "ICR1L": 0x86, "ICR1H": 0x87, "OCR1AL": 0x88, "OCR1AH": 0x89,
        "OCR1BL": 0x8A, "TCCR2A": 0xB0, "TCCR2B": 0xB1, "OCR2A": 0xB3, "OCR2B": 0xB4,
    }  # fmt: skip
    start, length = avr.UNO_REGISTERS
    data = bytearray(length)
    for name, value in values.items():
        data[places[name] - start] = value
    return bytes(data)


@pytest.mark.parametrize(
    ("pin", "values", "expected"),
    [  # analogWrite(pin, 128) of the Arduino core, and modes of the data sheet's tables
        ("D6", {"TCCR0A": 0x83, "TCCR0B": 3, "OCR0A": 128}, Pwm(129 / 256, 16e6 / 64 / 256)),
        ("D9", {"TCCR1A": 0x81, "TCCR1B": 3, "OCR1AL": 128}, Pwm(256 / 510, 16e6 / 64 / 510)),
        ("D3", {"TCCR2A": 0x21, "TCCR2B": 4, "OCR2B": 128}, Pwm(256 / 510, 16e6 / 64 / 510)),
        ("D9", {"TCCR1A": 0x82, "TCCR1B": 0x1A, "ICR1L": 0x3F, "ICR1H": 0x9C, "OCR1AH": 7,
                "OCR1AL": 0xCF}, Pwm(2000 / 40_000, 50.0)),
        ("D5", {"TCCR0A": 0x23, "TCCR0B": 0x09, "OCR0A": 99, "OCR0B": 24}, Pwm(0.25, 160e3)),
        ("D6", {"TCCR0A": 0xC3, "TCCR0B": 1, "OCR0A": 63}, Pwm(0.75, 62_500.0)),
        ("D6", {"TCCR0A": 0x83, "TCCR0B": 0, "OCR0A": 63}, None),
        ("D6", {"TCCR0A": 0x03, "TCCR0B": 1, "OCR0A": 63}, None),
        ("D6", {"TCCR0A": 0x82, "TCCR0B": 1, "OCR0A": 63}, None),
        ("D2", {}, None),
    ],
)  # fmt: skip
def test_pwm_is_what_the_timer_makes(
    pin: str, values: dict[str, int], expected: Pwm | None
) -> None:
    found = avr.uno_pwm(pin, registers(**values))
    if expected is None or found is None:
        assert found == expected
    else:
        assert found.duty == pytest.approx(expected.duty)
        assert found.frequency == pytest.approx(expected.frequency)


@on_each
def test_the_board_drives_and_reads_its_pins(backend: str) -> None:
    with running("pins", backend) as board:
        assert board.pins.read("D13") is False
        board.pins.write("D2", True)
        board.advance(MS)
        assert board.pins.read("D13") is True
        board.reset()
        assert board.pins.read("D13") is False
        board.advance(MS)
        assert board.pins.read("D13") is True, "what drives a pin from outside stays"
        edges = board.pins.edges()
        assert {edge.pin for edge in edges} == {"D12", "D13"}, "timers' edges are not among them"
        toggles = [edge for edge in edges if edge.pin == "D12"][2:14]
        gaps = [b.cycle - a.cycle for a, b in itertools.pairwise(toggles)]
        assert sum(gaps) == pytest.approx(11_000, abs=40), "a poll finds it some cycles later"


@on_each
def test_pwm_and_adc_of_a_running_program(backend: str) -> None:
    with running("pins", backend) as board:
        assert board.pins.pwm("D6") == Pwm(0.25, 16e6 / 64 / 256)
        assert board.pins.pwm("D3") == Pwm(0.2, 16e6 / 64 / 510)
        assert board.pins.pwm("D9") is None
        for volts, value in ((0.0, 0), (1.234, 252), (2.5, 512), (4.999, 1023), (5.0, 1023)):
            board.pins.set_volts("A3", volts)
            board.send(b"\x03")
            board.advance(MS)
            assert int.from_bytes(board.receive(), "little") == value
