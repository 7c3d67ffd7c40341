"""The pins of the I/O node, numbered as in ``firmware/io_node/io_node.h``, and their abilities."""

from __future__ import annotations

import difflib
from enum import IntEnum

from hitl.boards.description import IoNode, ranges
from hitl.boards.known import DEFAULT_BOARD

PINS = (*(f"D{n}" for n in range(2, 14)), *(f"A{n}" for n in range(6)))
"""Usable pins by their printed names; D0 and D1 are the serial line."""
NUMBER = {name: number for number, name in enumerate(PINS)}
ADC_PINS = PINS[12:]
MOST_PULSES = 4
"""Most pins whose edges get time stamps."""
NO_PIN = 255
CLOCK_HZ = DEFAULT_BOARD.clock_hz
SUPPLY_V = DEFAULT_BOARD.require_pins().volts
ADC_STEPS = 1024
DUTY_STEPS = 255
assert DEFAULT_BOARD.io_node is not None
INTERFACE = DEFAULT_BOARD.io_node.interface
"""Interface file of the I/O node's firmware on the default board; its signals are those of all."""


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


def unfit(pin: str, kind: str, node: IoNode) -> str:
    """Return why ``pin`` of ``node`` cannot have ``kind`` and which pins can; "" if it can."""
    if pin not in NUMBER:
        if pin in _UNFIT:
            return f"{_UNFIT[pin]}; choose D2 to D13 or A0 to A5"
        near = difflib.get_close_matches(str(pin).upper(), PINS, n=1)
        hint = f"did you mean {near[0]}?" if near else "choose D2 to D13 or A0 to A5"
        return f"the I/O node has no pin {pin!r}; {hint}"
    if kind == "pwm_out" and pin not in node.pwm:
        why = f": {node.no_pwm[pin]}" if pin in node.no_pwm else ""
        return f"{pin} cannot make PWM{why}; choose {' or '.join(node.pwm)}"
    if kind == "pulse_in" and pin not in node.stamped:
        return f"{pin} gets no time stamps on this board; choose {ranges(node.stamped)}"
    if kind == "adc_in" and pin not in ADC_PINS:
        return f"{pin} has no ADC channel; choose A0 to A5"
    return ""
