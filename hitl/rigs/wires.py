"""``[[wires]]`` of a rig file: which pin drives which, and through what."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from hitl.boards import uno
from hitl.interface.fields import number
from hitl.interface.lines import InterfaceError, Lines
from hitl.rigs.pins import FROM_PINS, TO_PINS
from hitl.rigs.rig import NODE, LowPass, Rig, RigEnd, RigWire
from rtsim.core.errors import RtsimError, UnknownName

_KEYS = ("from", "to", "resistance", "capacitance")


def read_wires(lines: Lines, rows: object, rig: Rig) -> Rig:
    """``rig`` with its wires; :class:`InterfaceError` names the line of the ``[[wires]]``."""
    if not isinstance(rows, list):
        raise lines.error("", "wires", "write each wire under a line [[wires]]")
    wires: list[RigWire] = []
    for element, row in enumerate(rows):
        try:
            wire = _wire(row, rig)
            if any(w.target == wire.target for w in wires):
                raise ValueError(f"{wire.target} is driven by another wire already")
            if any(w.source == wire.target for w in wires):
                raise ValueError(f"{wire.target} drives another wire")
        except InterfaceError:
            raise
        except (TypeError, ValueError, ZeroDivisionError, OverflowError, RtsimError) as error:
            raise lines.error("", "wires", f"wire {element + 1}: {error}", element) from None
        wires.append(wire)
    return replace(rig, wires=tuple(wires))


def _wire(row: Any, rig: Rig) -> RigWire:
    if not isinstance(row, dict):
        raise ValueError('write from = "node.D3" and to = "sensor.A0"')
    for key in row:
        if key not in _KEYS:
            raise UnknownName("key", key, _KEYS)
    source, target = _end(row, "from", rig), _end(row, "to", rig)
    wire = RigWire(source, target, _low_pass(row))
    if source.board == target.board:
        raise ValueError(f"{source} to {target}: a wire joins two boards")
    _fits(wire, rig)
    return wire


def _end(row: dict[str, Any], key: str, rig: Rig) -> RigEnd:
    text = row.get(key)
    if not isinstance(text, str) or text.count(".") != 1:
        raise ValueError(f'{key} = {text!r}; write {key} = "{NODE}.D3"')
    board, pin = text.split(".")
    known = (NODE, *(d.name for d in rig.devices))
    if board not in known:
        raise UnknownName("board", board, known)
    if pin not in uno.NUMBERS:
        raise UnknownName("pin", pin, uno.NUMBERS, board)
    return RigEnd(board, pin)


def _low_pass(row: dict[str, Any]) -> LowPass | None:
    given = [key for key in ("resistance", "capacitance") if key in row]
    if not given:
        return None
    if len(given) == 1:
        raise ValueError(f"{given[0]} alone makes no low pass; give resistance and capacitance")
    part = LowPass(number(row["resistance"]), number(row["capacitance"]))
    if not all(0.0 < v < math.inf for v in (part.resistance, part.capacitance)):
        raise ValueError(f"{part.resistance:g} ohm, {part.capacitance:g} F: both greater than 0")
    return part


def _fits(wire: RigWire, rig: Rig) -> None:
    """Directions and kinds at both ends."""
    if wire.low_pass is not None and wire.target.pin not in uno.CHANNELS:
        raise ValueError(f"{wire.target} has no ADC; a low pass ends at A0 to A5")
    for end, kinds, does in ((wire.source, TO_PINS, "drives"), (wire.target, FROM_PINS, "reads")):
        if end.board != NODE:
            continue
        channels = list(rig.at(end.pin))
        if not any(c.kind in kinds for c in channels):
            if not channels:
                raise ValueError(_no_row(end.pin, rig, does == "drives"))
            named = ", ".join(f"{c.kind} of {c.name}" for c in channels)
            raise ValueError(f"the I/O node {does} nothing at {end.pin}; it is {named}")
        if does == "drives" and wire.low_pass is None and channels[0].kind == "pwm_out":
            raise ValueError(f"PWM at {end} needs a low pass: give resistance and capacitance")


def _no_row(pin: str, rig: Rig, driven: bool) -> str:
    """A pin of the node at which there is no signal, and those at which there is one."""
    table, rows = ("to_pins", rig.to_pins) if driven else ("from_pins", rig.from_pins)
    pins = list(dict.fromkeys(c.pin for c in rows))
    there = f"; {', '.join(pins)} {'has' if len(pins) == 1 else 'have'}" if pins else ""
    return f"{pin} has no row in [{table}]{there}"
