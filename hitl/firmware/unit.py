"""Generate a board's C unit: it copies packed bytes to the controller's variables, and back.

It defines the functions that ``firmware/src/rtsim/board.h`` declares for a controller.  Static
assertions check every type and size, as on the host.  Scaling is done on the host.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hitl.building.assertions import element_of, type_bytes
from hitl.building.pieces import at, ending, in_order, over, preamble
from hitl.building.pins import feed_pins, read_pins, start_pins
from hitl.interface import Field, Interface, StepEntry
from hitl.interface.language import is_sketch
from hitl.protocol.codec import Codec, name_hash, wire_schema

ARDUINO_HEADER, SKETCH_HEADER = "rtsim_arduino.h", "rtsim_sketch.h"
"""Headers of Arduino code and of a sketch on a board."""
SUPPORT = ("../rtsim/board.h", "../rtsim/rtsim_checks.h")


def support_of(interface: Interface) -> tuple[str, ...]:
    """Return the headers of rtsim that the unit of ``interface`` includes."""
    if not interface.language.cpp:
        return SUPPORT
    arduino: tuple[str, ...] = ()
    if interface.language.clock is not None:
        sketch = any(map(is_sketch, interface.sources))
        arduino = (SKETCH_HEADER if sketch else ARDUINO_HEADER,)
    return (SUPPORT[0], "../rtsim/rtsim_checks_cpp.h", *arduino)


def unit_text(interface: Interface, build: int) -> str:
    """Return the C unit of ``interface``; ``build`` is the build number in HELLO.

    The unit must be in a folder beside ``rtsim/``, because it includes headers from that folder.
    """
    file = interface.path.name
    parameters = Codec(interface.parameter_fields).bytes
    parts = [
        *preamble(interface, support_of(interface), file),
        f"const uint64_t rtsim_schema = 0x{wire_schema(interface):016x}ULL;",
        f"const uint32_t rtsim_name_hash = 0x{name_hash(interface.name):08x}UL;",
        f"const uint32_t rtsim_build = 0x{build:08x}UL;",
        f"const uint16_t rtsim_input_bytes = {Codec(interface.input_fields).bytes};",
        f"const uint16_t rtsim_output_bytes = {Codec(interface.output_fields).bytes};",
        f"const uint16_t rtsim_parameter_bytes = {parameters};",
        f"uint8_t rtsim_parameters[{max(1, parameters)}];",
        "__attribute__((weak)) void rtsim_idle(void)\n{\n}",
        *_start(interface, file),
        *_step(interface, file),
        "void rtsim_terminate(void)\n{",
        *ending(interface, file),
        "}",
    ]
    return "\n".join(parts) + "\n"


def _start(interface: Interface, file: str) -> Iterator[str]:
    slow = [(k, step) for k, step in enumerate(interface.steps) if not _always(step)]
    yield from (f"static uint32_t rtsim_due_{k};" for k, _ in slow)
    yield "int16_t rtsim_start(const uint8_t *rtsim_p)\n{\n  (void)rtsim_p;"
    yield from (f"  rtsim_due_{k} = {step.offset}UL;" for k, step in slow)
    yield from start_pins(interface)
    yield from in_order(interface, _sets(interface.parameter_fields, "rtsim_p"), file)
    yield "  return 0;\n}"


def _step(interface: Interface, file: str) -> Iterator[str]:
    """Yield the C code of a step; the measured time includes all entry points that are due."""
    yield (
        "int16_t rtsim_step(uint64_t rtsim_ns, const uint8_t *rtsim_u, uint8_t *rtsim_y,\n"
        "                   uint32_t *rtsim_took)\n{\n  (void)rtsim_ns, (void)rtsim_u;"
    )
    yield from _sets(interface.input_fields, "rtsim_u")
    yield from feed_pins(interface)
    yield "  const uint32_t rtsim_began = rtsim_cycles();"
    for k, step in enumerate(interface.steps):
        yield from _entry(k, step, file)
    yield "  *rtsim_took = rtsim_cycles() - rtsim_began;"
    yield from read_pins(interface)
    yield from _gets(interface.output_fields)
    yield "  return 0;\n}"


def _always(step: StepEntry) -> bool:
    return step.every == 1 and step.offset == 0


def _entry(k: int, step: StepEntry, file: str) -> Iterator[str]:
    """Yield the C code of an entry point.

    The ticks until the entry point is due are counted down, because a division takes longer on an
    AVR than the step of many controllers.
    """
    call = at(step.line, file, f"  {step.call};")
    if _always(step):
        yield call
    else:
        yield f"  if (rtsim_due_{k} == 0) {{\n    rtsim_due_{k} = {step.every}UL;\n{call}\n  }}"
        yield f"  rtsim_due_{k}--;"


def _sets(fields: Iterable[Field], packed: str) -> Iterator[str]:
    for place, byte, size in _placed(fields):
        type, element = place.signal.type, element_of(place, "rtsim_k")
        source = f"{packed} + {byte}u + rtsim_k * {size}u"
        if type == "bool":
            yield over(place.signal.size, f"{element} = *({source}) != 0;")
        else:
            body = f"rtsim_{type} rtsim_v; __builtin_memcpy(&rtsim_v, {source}, {size});"
            yield over(place.signal.size, f"{body} {element} = rtsim_v;")


def _gets(fields: Iterable[Field]) -> Iterator[str]:
    for place, byte, size in _placed(fields):
        type, element = place.signal.type, element_of(place, "rtsim_k")
        body = f"const rtsim_{type} rtsim_v = {element}{' != 0' if type == 'bool' else ''};"
        copied = f"__builtin_memcpy(rtsim_y + {byte}u + rtsim_k * {size}u, &rtsim_v, {size});"
        yield over(place.signal.size, f"{body} {copied}")


def _placed(fields: Iterable[Field]) -> Iterator[tuple[Field, int, int]]:
    """Yield each field with its first byte and the number of bytes of an element."""
    byte = 0
    for place in fields:
        size = type_bytes(place.signal.type)
        yield place, byte, size
        byte += size * place.signal.size
