"""Measure when Arduino code on an emulated board is initialised, and when its first step begins.

Both times are those of ``micros()``, since the reset.  SIL needs them, because ``millis()`` has
steps of about 1 ms: whether a controller finds that a period of whole milliseconds has passed
depends on where in such a step its first tick falls.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

from hitl.boards.known import DEFAULT_URL
from hitl.boards.urls import parse_url
from hitl.controllers.board import BoardController
from hitl.interface import Field, Interface, InterfaceError, StepEntry
from hitl.interface.file import AVR, EXACT, ArduinoClock
from hitl.protocol.codec import Codec
from rtsim.core.errors import ControllerError
from rtsim.core.signals import Signal
from rtsim.core.tag import Tag

_BYTES = 4  # of a reading
_PATIENCE_S = 10.0


def measured_clock(interface: Interface, url: str = DEFAULT_URL) -> ArduinoClock:
    """Return the clock of ``interface`` on the emulated board at ``url``.

    The firmware is built twice, with other outputs of the same number of bytes, so that all
    messages have the same times.  They carry a reading of ``micros()``, byte by byte: in one build
    that before the initialisation, in the other that before the first step.  The reading itself
    moves the times by some µs.

    Raises :class:`InterfaceError` for code that is not Arduino code, and :class:`ControllerError`
    for a board that is not emulated or does not answer.
    """
    if interface.language.clock is None:
        raise InterfaceError(
            f"{interface.place('', 'language')}: {interface.name} is not Arduino code, so it reads "
            "no clock; write arduino = true"
        )
    at = parse_url(url)
    if not at.emulated:
        raise ControllerError(
            f"the times at {url} change from run to run; give an emulated board, such as "
            f"{DEFAULT_URL}"
        )
    setup, first = (_reading(_with_clock(interface, first), url) for first in (False, True))
    return ArduinoClock(AVR if at.description.processor == AVR else EXACT, setup, first)


def _reading(interface: Interface, url: str) -> int:
    """Run the firmware of :func:`_with_clock` and return the time that it has read, µs."""
    controller = BoardController(interface, url=url, cases=None).fresh()
    said = bytearray()
    with closing(controller):
        while len(said) < _BYTES:
            tag = Tag(interface.period.tick(len(said) // controller.outputs.size))
            controller.send(tag, controller.inputs.initial())
            answer = controller.receive(tag, _PATIENCE_S)
            if answer is None:
                raise ControllerError(f"{interface.name} on {url} did not answer at {tag}")
            said += bytes(map(int, answer))
    return int.from_bytes(said[:_BYTES], "little")


def _with_clock(interface: Interface, first_step: bool) -> Interface:
    """Return ``interface`` with the bytes of a reading of the clock in place of its outputs."""
    count = Codec(interface.output_fields).bytes
    names = [f"rtsim_byte_{k}" for k in range(count)]
    readings = [Field(Signal(name, type="uint8"), name, declared=True, line=0) for name in names]
    kept = [_declaration(field) for field in interface.output_fields if field.declared]
    time, read = "uint32_t rtsim_time", "rtsim_time = micros()"
    byte = f"reinterpret_cast<unsigned char *>(&rtsim_time)[(rtsim_at + {{}}) % {_BYTES}]"
    said = [f"{name} = {byte.format(k)}" for k, name in enumerate(names)]
    begin = f"static {time}; if (rtsim_at == 0) {read}" if first_step else ""
    return replace(
        interface,
        objects=(*kept, *interface.objects, *([] if first_step else [time])),
        initialize=interface.initialize if first_step else (read, *interface.initialize),
        steps=(
            *map(StepEntry, ("static unsigned char rtsim_at", begin)),
            *interface.steps,
            *map(StepEntry, [*said, f"rtsim_at += {count}"]),
        ),
        output_fields=tuple(readings),
    )  # fmt: skip


def _declaration(field: Field) -> str:
    """Return the declaration of an output's variable, which the controller's code still sets."""
    dimensions = "".join(f"[{n}]" for n in field.signal.shape)
    return f"rtsim_{field.signal.type} {field.signal.name}{dimensions}"
