"""Registers of the AVR processors that Arduino boards have: PWM of the timers, and USART0.

Source of registers and modes: data sheets of the ATmega328P (DS40002061B, tables 14-8, 15-5, 17-8)
and of the ATmega2560 (DS40002211A, tables 16-8, 17-2, 20-8).
"""

from __future__ import annotations

from collections.abc import Mapping

from hitl.boards.contract import Pwm
from hitl.boards.description import Uart, Window

CLOCK_HZ = 16_000_000
FIRST = 0x44
"""First address of the registers that :func:`pwm_of` reads."""
TIMER_0, TIMER_1, TIMER_2 = 0x44, 0x80, 0xB0
"""Address of TCCRnA, the first control register of a timer."""

Output = tuple[int, int, int]
"""A pin's timer: the address of TCCRnA, the shift of its bits COMnx, and the address of OCRnx."""

_ICR, _OCR_A = 0x06, 0x08  # of a timer with 16 bits, behind TCCRnA
_DIVIDERS = (0, 1, 8, 64, 256, 1024, 0, 0)
_DIVIDERS_2 = (0, 1, 8, 32, 64, 128, 256, 1024)
_FAST_8 = {3: 0xFF, 7: None}
_CENTRED_8 = {1: 0xFF, 5: None}
_FAST_16 = {5: 0xFF, 6: 0x1FF, 7: 0x3FF, 14: "icr", 15: "ocr"}
_CENTRED_16 = {1: 0xFF, 2: 0x1FF, 3: 0x3FF, 8: "icr", 9: "ocr", 10: "icr", 11: "ocr"}


def pwm_of(outputs: Mapping[str, Output], name: str, registers: bytes) -> Pwm | None:
    """Return the PWM signal that a timer makes at the pin ``name``, or ``None`` without PWM.

    ``outputs`` has the pins with a timer.  ``registers`` are the bytes from :data:`FIRST` on.
    """
    if name not in outputs:
        return None

    def at(address: int, size: int = 1) -> int:
        start = address - FIRST
        return int.from_bytes(registers[start : start + size], "little")

    control, shift, compare = outputs[name]
    connected = at(control) >> shift & 3
    wide = control not in (TIMER_0, TIMER_2)
    divider = (_DIVIDERS_2 if control == TIMER_2 else _DIVIDERS)[at(control + 1) & 7]
    mode = (at(control) & 3) | (at(control + 1) >> 3 & (3 if wide else 1)) << 2
    if connected < 2 or divider == 0:
        return None
    fast, centred = (_FAST_16, _CENTRED_16) if wide else (_FAST_8, _CENTRED_8)
    if mode not in fast and mode not in centred:
        return None
    top = (fast | centred)[mode]
    if top == "icr":
        top = at(control + _ICR, 2)
    elif not isinstance(top, int):
        top = at(control + _OCR_A, 2) if wide else at(control + 3)
    value = min(at(compare, 2 if wide else 1), top)
    period = top + 1 if mode in fast else 2 * top
    if period == 0:
        return None
    high = (value + 1) / period if mode in fast else 2 * value / period
    return Pwm(high if connected == 2 else 1.0 - high, CLOCK_HZ / divider / period)


def _uart_on(registers: bytes) -> bool:
    """Return True if the receiver or the transmitter is on (UCSR0B)."""
    return bool(registers[1] & 0x18)


def _rate(registers: bytes, clock_hz: int) -> float:
    """Return the rate that UBRR0 and U2X0 set, bit/s."""
    status, _, _, _, low, high = registers
    divisor = (high & 0x0F) << 8 | low
    return clock_hz / ((divisor + 1) * (8 if status & 2 else 16))


UART = Uart(registers=Window(0xC0, 6), on=_uart_on, rate=_rate)
"""USART0, which has the same registers in both processors."""
