"""The Arduino Uno R3: its pins by their printed names, and the PWM that its timers make.

Source of registers and modes: data sheet of the ATmega328P, DS40002061B, tables 14-8, 15-5, 17-8.
"""

from __future__ import annotations

from hitl.boards.contract import BoardError, Pwm

CLOCK_HZ = 16_000_000
FLASH = 32 * 1024
PORT_B, PORT_C, PORT_D = 0, 8, 16
NUMBERS = (
    {f"D{i}": PORT_D + i for i in range(8)}
    | {f"D{8 + i}": PORT_B + i for i in range(6)}
    | {f"A{i}": PORT_C + i for i in range(6)}
)
"""Number of a pin: 8 * port + bit."""
NAMES = {number: name for name, number in NUMBERS.items()}
CHANNELS = {f"A{i}": i for i in range(6)}
REGISTERS = (0x44, 0x79)
"""First address and count of the bytes that :func:`pwm` needs: Timer 0 to the end of Timer 2."""

_FIRST = 0x44
_TCCR0A, _TCCR1A, _TCCR2A = 0x44, 0x80, 0xB0
_ICR1 = 0x86
_OUTPUTS = {  # TCCRnA, shift of COMnx, OCRnx
    "D6": (_TCCR0A, 6, 0x47), "D5": (_TCCR0A, 4, 0x48),
    "D9": (_TCCR1A, 6, 0x88), "D10": (_TCCR1A, 4, 0x8A),
    "D11": (_TCCR2A, 6, 0xB3), "D3": (_TCCR2A, 4, 0xB4),
}  # fmt: skip
_DIVIDERS = (0, 1, 8, 64, 256, 1024, 0, 0)
_DIVIDERS_2 = (0, 1, 8, 32, 64, 128, 256, 1024)
_FAST_8 = {3: 0xFF, 7: None}
_CENTRED_8 = {1: 0xFF, 5: None}
_FAST_16 = {5: 0xFF, 6: 0x1FF, 7: 0x3FF, 14: "icr", 15: "ocr"}
_CENTRED_16 = {1: 0xFF, 2: 0x1FF, 3: 0x3FF, 8: "icr", 9: "ocr", 10: "icr", 11: "ocr"}


def pin(name: str) -> int:
    """Return the number of the pin ``name``.  Raises :class:`BoardError` for an unknown pin."""
    if name not in NUMBERS:
        raise BoardError(f"an Uno has no pin {name!r}; it has D0 to D13 and A0 to A5")
    return NUMBERS[name]


def channel(name: str) -> int:
    """Return the ADC channel of the pin ``name``.

    Raises :class:`BoardError` if the pin has no ADC channel.
    """
    if name not in CHANNELS:
        raise BoardError(f"pin {name!r} of an Uno has no ADC channel; A0 to A5 have one")
    return CHANNELS[name]


def pwm(name: str, registers: bytes) -> Pwm | None:
    """Return the PWM signal that a timer makes at the pin ``name``, or ``None`` without PWM.

    ``registers`` are the bytes of :data:`REGISTERS`.  Raises :class:`BoardError` for an unknown
    pin.
    """
    pin(name)
    if name not in _OUTPUTS:
        return None

    def at(address: int, size: int = 1) -> int:
        start = address - _FIRST
        return int.from_bytes(registers[start : start + size], "little")

    control, shift, compare = _OUTPUTS[name]
    connected = at(control) >> shift & 3
    wide = control == _TCCR1A
    divider = (_DIVIDERS_2 if control == _TCCR2A else _DIVIDERS)[at(control + 1) & 7]
    mode = (at(control) & 3) | (at(control + 1) >> 3 & (3 if wide else 1)) << 2
    if connected < 2 or divider == 0:
        return None
    fast, centred = (_FAST_16, _CENTRED_16) if wide else (_FAST_8, _CENTRED_8)
    if mode not in fast and mode not in centred:
        return None
    top = (fast | centred)[mode]
    if top == "icr":
        top = at(_ICR1, 2)
    elif not isinstance(top, int):
        top = at(0x88, 2) if wide else at(control + 3)
    value = min(at(compare, 2 if wide else 1), top)
    period = top + 1 if mode in fast else 2 * top
    if period == 0:
        return None
    high = (value + 1) / period if mode in fast else 2 * value / period
    return Pwm(high if connected == 2 else 1.0 - high, CLOCK_HZ / divider / period)
