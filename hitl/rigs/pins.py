"""The pins of the I/O node, numbered as in ``firmware/io_node/io_node.h``, and their abilities."""

from __future__ import annotations

import difflib
from enum import IntEnum

from hitl.boards.known import DEFAULT_BOARD
from hitl.interface.shipped import FIRMWARE

PINS = (*(f"D{n}" for n in range(2, 14)), *(f"A{n}" for n in range(6)))
"""Usable pins by their printed names; D0 and D1 are the serial line."""
NUMBER = {name: number for number, name in enumerate(PINS)}
PWM_PINS = ("D3", "D11")
ADC_PINS = PINS[12:]
MOST_PULSES = 4
"""Most pins whose edges get time stamps."""
NO_PIN = 255
CLOCK_HZ = DEFAULT_BOARD.clock_hz
SUPPLY_V = DEFAULT_BOARD.require_pins().volts
ADC_STEPS = 1024
DUTY_STEPS = 255
INTERFACE = FIRMWARE / "io_node" / "io_node.toml"


class NodeKind(IntEnum):
    """Kinds of pin, with the numbers of the firmware."""

    UNUSED, DIGITAL_OUT, PWM_OUT, DIGITAL_IN, PULLED_UP, ADC_IN = range(6)


TO_PINS = ("digital_out", "pwm_out")
FROM_PINS = ("digital_in", "adc_in", "pulse_in")
MEASURES = ("rise", "fall", "width", "count")

_UNFIT = {
    "D0": "D0 and D1 are the serial line to the host",
    "D1": "D0 and D1 are the serial line to the host",
}
_NO_PWM = {
    **dict.fromkeys(("D5", "D6"), "its Timer 0 is the board's clock micros()"),
    **dict.fromkeys(("D9", "D10"), "its Timer 1 times edges and counts cycles"),
}


def unfit(pin: str, kind: str) -> str:
    """Return why ``pin`` cannot have ``kind`` and which pins can; "" if ``pin`` can."""
    if pin not in NUMBER:
        if pin in _UNFIT:
            return f"{_UNFIT[pin]}; choose D2 to D13 or A0 to A5"
        near = difflib.get_close_matches(str(pin).upper(), PINS, n=1)
        hint = f"did you mean {near[0]}?" if near else "choose D2 to D13 or A0 to A5"
        return f"the I/O node has no pin {pin!r}; {hint}"
    if kind == "pwm_out" and pin not in PWM_PINS:
        why = f": {_NO_PWM[pin]}" if pin in _NO_PWM else ""
        return f"{pin} cannot make PWM{why}; choose {' or '.join(PWM_PINS)}"
    if kind == "adc_in" and pin not in ADC_PINS:
        return f"{pin} has no ADC channel; choose A0 to A5"
    return ""
