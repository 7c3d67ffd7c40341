"""Read the ``[[wires]]`` of a rig file: the pins that they connect, and their low passes."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from hitl.boards import parse_url
from hitl.boards.description import BoardPins, ranges
from hitl.interface.fields import number
from hitl.interface.lines import InterfaceError, Lines
from hitl.rigs.pins import FROM_PINS, TO_PINS
from hitl.rigs.rig import NODE, LowPass, Rig, RigEnd, RigWire
from rtsim.core.errors import RtsimError, UnknownName

_KEYS = ("from", "to", "resistance", "capacitance")


def read_wires(lines: Lines, rows: object, rig: Rig) -> Rig:
    """Return ``rig`` with the wires that ``rows`` describe.

    Raises :class:`InterfaceError` with the line of the wrong ``[[wires]]``.
    """
    if not isinstance(rows, list):
        text = "wires is not a list of tables; write each wire under a line [[wires]]"
        raise lines.error("", "wires", text)
    wires: list[RigWire] = []
    for element, row in enumerate(rows):
        try:
            wire = _wire(row, rig)
            if any(w.target == wire.target for w in wires):
                raise ValueError(
                    f"another wire already drives the pin {wire.target}; connect this wire to "
                    "another pin"
                )
            if any(w.source == wire.target for w in wires):
                raise ValueError(
                    f"the pin {wire.target} already drives another wire, so no wire can drive "
                    "this pin; use another pin"
                )
        except InterfaceError:
            raise
        except (TypeError, ValueError, ZeroDivisionError, OverflowError, RtsimError) as error:
            raise lines.error("", "wires", f"wire {element + 1}: {error}", element) from None
        wires.append(wire)
    return replace(rig, wires=tuple(wires))


def _wire(row: Any, rig: Rig) -> RigWire:
    if not isinstance(row, dict):
        raise ValueError('the wire is not a table; write from = "node.D3" and to = "sensor.A0"')
    for key in row:
        if key not in _KEYS:
            raise UnknownName("key", key, _KEYS)
    source, target = _end(row, "from", rig), _end(row, "to", rig)
    wire = RigWire(source, target, _low_pass(row))
    if source.board == target.board:
        raise ValueError(
            f"the wire from {source} to {target} connects two pins of one board; a wire must "
            "connect two boards"
        )
    _fits(wire, rig)
    return wire


def _end(row: dict[str, Any], key: str, rig: Rig) -> RigEnd:
    text = row.get(key)
    if not isinstance(text, str) or text.count(".") != 1:
        raise ValueError(f'{key} = {text!r} is not a pin of a board; write {key} = "{NODE}.D3"')
    board, pin = text.split(".")
    known = (NODE, *(d.name for d in rig.devices))
    if board not in known:
        raise UnknownName("board", board, known)
    numbers = _pins(board, rig).numbers
    if pin not in numbers:
        raise UnknownName("pin", pin, numbers, board)
    return RigEnd(board, pin)


def _pins(board: str, rig: Rig) -> BoardPins:
    """Return the pins of the board that wires call ``board``."""
    urls = {NODE: rig.board, **{d.name: d.board for d in rig.devices}}
    return parse_url(urls[board]).description.require_pins()


def _low_pass(row: dict[str, Any]) -> LowPass | None:
    given = [key for key in ("resistance", "capacitance") if key in row]
    if not given:
        return None
    if len(given) == 1:
        raise ValueError(
            f"only {given[0]} is given; a low pass needs both resistance and capacitance"
        )
    part = LowPass(number(row["resistance"]), number(row["capacitance"]))
    if not all(0.0 < v < math.inf for v in (part.resistance, part.capacitance)):
        raise ValueError(
            f"resistance = {part.resistance:g} ohm and capacitance = {part.capacitance:g} F "
            "are not valid; both must be finite and > 0"
        )
    return part


def _fits(wire: RigWire, rig: Rig) -> None:
    """Check that the pins at both ends fit the wire's direction and kind."""
    channels_there = _pins(wire.target.board, rig).channels
    if wire.low_pass is not None and wire.target.pin not in channels_there:
        raise ValueError(
            f"{wire.target} has no ADC channel; a low pass must end at {ranges(channels_there)}"
        )
    high, most = (_pins(end.board, rig).volts for end in (wire.source, wire.target))
    if high > most:
        raise ValueError(
            f"{wire.source} drives {high:g} V, but {wire.target} takes at most {most:g} V; a wire "
            "must not exceed the supply voltage of the board at its end"
        )
    for end, kinds, does in ((wire.source, TO_PINS, "drives"), (wire.target, FROM_PINS, "reads")):
        if end.board != NODE:
            continue
        channels = list(rig.at(end.pin))
        if not any(c.kind in kinds for c in channels):
            if not channels:
                raise ValueError(_no_row(end.pin, rig, does == "drives"))
            named = ", ".join(f"{c.kind} of {c.name}" for c in channels)
            raise ValueError(
                f"{end} is {named}, but this wire must connect to a pin that the I/O node "
                f"{does}; use another pin"
            )
        if does == "drives" and wire.low_pass is None and channels[0].kind == "pwm_out":
            raise ValueError(f"the PWM at {end} needs a low pass; give resistance and capacitance")


def _no_row(pin: str, rig: Rig, driven: bool) -> str:
    """Return the error for a pin of the node without a signal, with the pins that have a signal."""
    table, rows = ("to_pins", rig.to_pins) if driven else ("from_pins", rig.from_pins)
    pins = list(dict.fromkeys(c.pin for c in rows))
    there = f"; {', '.join(pins)} {'has' if len(pins) == 1 else 'have'} a signal" if pins else ""
    return f"{pin} has no signal in [{table}]{there}"
