"""Read a row of ``[to_pins]`` or ``[from_pins]``: a signal, its pin, and its scale."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from typing import Any

from hitl.boards.description import IoNode
from hitl.interface.fields import OVERFLOW, Field, number
from hitl.interface.lines import InterfaceError, Lines
from hitl.rigs.pins import (
    ADC_STEPS,
    CLOCK_HZ,
    DUTY_STEPS,
    FROM_PINS,
    MEASURES,
    SUPPLY_V,
    TO_PINS,
    unfit,
)
from hitl.rigs.rig import Channel
from rtsim.core.errors import RtsimError
from rtsim.core.signals import Signal

_COMMON = ("pin", "kind", "unit", "offset", "low", "high", "initial", "description")
TO_KEYS = (*_COMMON, "per_duty", "safe", "overflow")
FROM_KEYS = (*_COMMON, "per_volt", "measure", "pull_up")
_ONLY = {
    "per_duty": "pwm_out", "per_volt": "adc_in", "measure": "pulse_in", "pull_up": "digital_in",
}  # fmt: skip
_NEVER = -1.0
"""Initial value of the time of an edge, for use until the first edge, s."""


def read_channel(
    lines: Lines, table: str, name: str, row: object, keys: tuple[str, ...], node: IoNode
) -> Channel:
    """Read the signal ``name`` of ``[table]`` from ``row``, which may have the keys ``keys``.

    ``node`` says what the pins of the I/O node can do.
    Raises :class:`InterfaceError` with the signal's line for any error.
    """
    try:
        if not isinstance(row, dict):
            raise ValueError(
                f'the entry is not a table; write {name} = {{ pin = "D2", kind = "..." }}'
            )
        for key in row:
            _known("key", key, keys)
        kind = row.get("kind")
        _known("kind", kind, TO_PINS if table == "to_pins" else FROM_PINS)
        pin = row.get("pin")
        if why := unfit(str(pin), str(kind), node):
            raise ValueError(why)
        for key, of in _ONLY.items():
            if key in row and not (kind == of or (key == "pull_up" and kind == "pulse_in")):
                raise ValueError(f"{key} applies only to {of}, not to {kind}; remove it")
        return _channel(name, str(pin), str(kind), row, lines.of(table, name))
    except InterfaceError:
        raise
    except (TypeError, ValueError, ZeroDivisionError, OverflowError, RtsimError) as error:
        raise lines.error(table, name, f"{name}: {error}") from None


def _known(what: str, given: object, known: tuple[str, ...]) -> None:
    if given in known:
        return
    if given is None:
        raise ValueError(f"{what} is missing; choose {', '.join(known)}")
    near = difflib.get_close_matches(str(given), known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"choose {', '.join(known)}"
    raise ValueError(f"unknown {what} {given!r}; {hint}")


def _channel(name: str, pin: str, kind: str, row: Mapping[str, Any], line: int) -> Channel:
    measure = row.get("measure", "")
    if kind == "pulse_in":
        _known("measure", row.get("measure"), MEASURES)
    type, scale, unit, initial = _raw(kind, measure, row)
    low, high = number(row.get("low", -math.inf)), number(row.get("high", math.inf))
    if not low <= high:
        raise ValueError(f"low = {low:g} and high = {high:g} allow no value; give low <= high")
    signal = Signal(
        name, _text(row, "unit", unit), type=type, initial=number(row.get("initial", initial)),
        low=low, high=high, description=_text(row, "description", ""),
    )  # fmt: skip
    overflow = row.get("overflow", OVERFLOW[0])
    _known("overflow", overflow, OVERFLOW)
    bias = number(row.get("offset", 0.0))
    if bias and (type == "bool" or measure):
        raise ValueError("offset applies only to pwm_out and adc_in; remove it")
    if not math.isfinite(bias):
        raise ValueError(f"offset = {bias:g} is not finite; give a finite number")
    place = Field(signal, name, True, line, scale, bias, overflow)
    safe = _safe(place, row) if kind in TO_PINS else 0.0
    pull_up = row.get("pull_up", False)
    if not isinstance(pull_up, bool):
        raise ValueError(f"pull_up = {pull_up!r} is not valid; write true or false")
    return Channel(place, pin, kind, measure, safe, pull_up)


def _raw(kind: str, measure: str, row: Mapping[str, Any]) -> tuple[str, float, str, float]:
    """Return the raw type, the value of a raw step, the default unit and the initial value."""
    if kind in ("digital_out", "digital_in"):
        return "bool", 1.0, "1", 0.0
    if kind == "pwm_out":
        return "uint8", _per(row, "per_duty", "value at a duty of 1") / DUTY_STEPS, "1", 0.0
    if kind == "adc_in":
        return "uint16", _per(row, "per_volt", "value of 1 V") * SUPPLY_V / ADC_STEPS, "1", 0.0
    if measure == "count":
        return "uint16", 1.0, "1", 0.0
    return "uint32", 1.0 / CLOCK_HZ, "s", 0.0 if measure == "width" else _NEVER


def _per(row: Mapping[str, Any], key: str, what: str) -> float:
    if key not in row:
        raise ValueError(f"{key} is missing; give the {what}, such as {key} = 1000")
    value = number(row[key])
    if not math.isfinite(value) or value == 0.0:
        raise ValueError(f"{key} = {value:g} is not valid; give a finite number other than 0")
    return value


def _text(row: Mapping[str, Any], key: str, default: str) -> str:
    value = row.get(key, default)
    if not isinstance(value, str):
        raise ValueError(f"{key} = {value!r} is not a text; write {key} = '...'")
    return value


def _safe(place: Field, row: Mapping[str, Any]) -> float:
    """Return the fail-safe value as a raw value."""
    if "safe" not in row:
        raise ValueError(
            "safe is missing; give the value that the pin gets while the host is silent"
        )
    safe, signal = number(row["safe"]), place.signal
    if not signal.low <= safe <= signal.high:
        raise ValueError(
            f"safe = {safe:g} is outside the signal's range [{signal.low:g}, {signal.high:g}]"
        )
    if signal.type == "bool":
        return float(safe != 0.0)
    raw = round((safe - place.bias) / place.scale)
    if not 0 <= raw <= DUTY_STEPS:
        most = DUTY_STEPS * place.scale + place.bias
        raise ValueError(
            f"safe = {safe:g} is outside the pin's range: {place.bias:g} (duty cycle 0) to "
            f"{most:g} (duty cycle 1)"
        )
    return float(raw)
