"""Generate the C++ that joins the pins of Arduino code to signals, on the host and on a board."""

from __future__ import annotations

from collections.abc import Iterator

from hitl.interface import Interface
from hitl.interface.fields import SERIAL
from hitl.interface.language import WRAP


def start_pins(interface: Interface) -> Iterator[str]:
    """Yield the lines before the initialisation: the clock begins, and inputs are declared."""
    clock = interface.language.clock
    if clock is None:
        return
    if clock.start_us:
        yield f"  rtsim_clock_begin({clock.start_us % WRAP}u, {clock.start_ms % WRAP}u);"
    serial = any(place.pin == SERIAL for place in interface.output_fields)
    yield f"  rtsim_arduino_start({str(serial).lower()});"
    for place in interface.input_fields:
        if place.pin and place.pin != SERIAL:
            yield f"  rtsim_pin_declare({place.pin});"


def feed_pins(interface: Interface) -> Iterator[str]:
    """Yield the lines that give the inputs of a step to their pins."""
    if interface.language.clock is None:
        return
    yield "  rtsim_arduino_step();"
    for place in interface.input_fields:
        name = place.lvalue
        if place.pin == SERIAL:
            yield f"  rtsim_serial_feed({name}, sizeof {name});"
        elif place.pin:
            yield f"  rtsim_pin_feed({place.pin}, {name});"


def read_pins(interface: Interface) -> Iterator[str]:
    """Yield the lines that take the outputs of a step from their pins."""
    for place in interface.output_fields:
        name = place.lvalue
        if place.pin == SERIAL:
            yield f"  rtsim_serial_drain({name}, sizeof {name});"
        elif place.pin:
            not_zero = " != 0" if place.signal.type == "bool" else ""
            yield f"  {name} = rtsim_pin_driven({place.pin}){not_zero};"


def clock_constants(interface: Interface) -> Iterator[str]:
    """Yield the lines that define the clock of Arduino code on the host."""
    clock = interface.language.clock
    if clock is None:
        return
    yield 'extern "C" {'
    yield "extern const long long rtsim_setup_us, rtsim_first_step_us;"
    yield "extern const bool rtsim_timer_is_avr;"
    yield f"const long long rtsim_setup_us = {clock.start_us + clock.setup_us};"
    yield f"const long long rtsim_first_step_us = {clock.start_us + clock.first_step_us};"
    yield f"const bool rtsim_timer_is_avr = {str(clock.timer == 'avr').lower()};"
    yield "}"
