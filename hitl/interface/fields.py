"""One signal of an interface file: read from its row, checked, and where it lives in C."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, get_args

import numpy as np

from hitl.interface.c_text import fault_of_lvalue, fault_of_name
from rtsim.core.signals import Kind, Signal

KEYS = (
    "c", "type", "shape", "unit", "scale", "bias", "overflow", "initial", "low", "high",
    "kind", "description", "set_by_caller",
)  # fmt: skip
OVERFLOW = ("error", "saturate")
_FRACTION = re.compile(r"[+-]?\d{1,40}(\.\d{1,40})?([eE][+-]?\d{1,3})?(/\d{1,40})?\Z")
_POWER = re.compile(r"(?P<base>\d{1,9})\*\*(?P<exponent>[+-]?\d{1,4})\Z")


@dataclass(frozen=True)
class Field:
    """A signal and where it lives in C: ``real = raw * scale + bias``."""

    signal: Signal
    lvalue: str
    declared: bool
    """The worker declares a variable for it."""
    line: int
    scale: float = 1.0
    bias: float = 0.0
    overflow: str = "error"
    given: bool = True
    """The file says its initial value; a parameter without one keeps that of the C."""
    set_by_caller: bool = False
    """A parameter that the C leaves to its caller: its value there means nothing."""

    @property
    def scaled(self) -> bool:
        return self.scale != 1.0 or self.bias != 0.0

    def holds(self, value: float) -> bool:
        """Whether its C type takes ``value``: what the generated C says, before there is any C."""
        type = self.signal.type
        if type == "bool":
            return not math.isnan(value)
        if type == "float32":
            with np.errstate(over="ignore"):
                return math.isinf(value) or not math.isinf(np.float32(value))
        if type == "float64":
            return True
        raw = (value - self.bias) / self.scale
        if math.isnan(raw) or self.overflow == "saturate":
            return not math.isnan(raw)
        low, high = limits(type)
        return not math.isinf(raw) and low <= round(raw) <= high


def limits(type: str) -> tuple[int, int]:
    """Least and greatest value of an integer type."""
    bits = int(type.lstrip("uint"))
    return (0, 2**bits - 1) if type[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def read_field(table: str, name: str, row: Mapping[str, Any], line: int, real: str) -> Field:
    """The signal ``name`` of ``[table]``; ``real`` is the type of one that names none.

    Raises ValueError, TypeError or an error of the runtime; the caller knows file and line.
    """
    signal = _signal(name, row, real)
    if not signal.low <= signal.high:
        raise ValueError(f"no value lies between low = {signal.low:g} and high = {signal.high:g}")
    integral = "int" in signal.type
    scale, bias = number(row.get("scale", 1.0)), number(row.get("bias", 0.0))
    if ("scale" in row or "bias" in row) and not integral:
        raise ValueError(f"scale and bias are for integers, not {signal.type}")
    if not math.isfinite(scale) or scale == 0.0 or not math.isfinite(bias):
        raise ValueError(f"scale {scale}, bias {bias}; finite, and scale not 0")
    overflow = row.get("overflow", OVERFLOW[0])
    if overflow not in OVERFLOW:
        raise ValueError(f"overflow {overflow!r}; choose {' or '.join(OVERFLOW)}")
    if "overflow" in row and (table == "outputs" or not integral):
        what = "an output" if table == "outputs" else f"a {signal.type}"
        raise ValueError(f"overflow is for integers that are set, not for {what}; leave it out")
    lvalue = row.get("c", name)
    if not isinstance(lvalue, str) or not lvalue.strip():
        raise ValueError('c is a C lvalue, such as c = "rtU.alpha"')
    if "c" not in row and (fault := fault_of_name(name)):
        raise ValueError(f'{fault}; choose another name, or give c = "..."')
    if fault := fault_of_lvalue(lvalue):
        raise ValueError(f"c = {lvalue!r}: {fault}; write one object, such as c = 'rtU.alpha'")
    by_caller = row.get("set_by_caller", False)
    if not isinstance(by_caller, bool) or ("set_by_caller" in row and table != "parameters"):
        raise ValueError(f"set_by_caller = {by_caller!r}; write true or false, for a parameter")
    given = "initial" in row
    where = lvalue.strip(), "c" not in row, line
    place = Field(signal, *where, scale, bias, overflow, given, by_caller)
    if given or table == "parameters":
        _check_initial(place)
    return place


def _signal(name: str, row: Mapping[str, Any], real: str) -> Signal:
    for key, default in (("unit", ""), ("type", ""), ("kind", ""), ("description", "")):
        if not isinstance(row.get(key, default), str):
            raise ValueError(f"{key} = {row[key]!r} is no text; write {key} = '...'")
    kind = row.get("kind", "scalar")
    if kind not in get_args(Kind):
        raise ValueError(f"kind {kind!r}; choose {', '.join(get_args(Kind))}")
    shape = row.get("shape", [])
    listed = [shape] if isinstance(shape, int) else shape
    if not isinstance(listed, list) or not all(whole(n, 1) for n in listed):
        raise ValueError(f"shape {shape!r}; write shape = [3] or [2, 3]")
    initial = row.get("initial", 0.0)
    return Signal(
        name,
        row.get("unit", "1"),
        type=row.get("type", real),
        shape=tuple(listed),
        kind=kind,
        initial=_values(initial, listed) if isinstance(initial, list) else number(initial),
        low=number(row.get("low", -math.inf)),
        high=number(row.get("high", math.inf)),
        description=row.get("description", ""),
    )


def _check_initial(place: Field) -> None:
    """Of a parameter without one too: a board that is driven by hand is sent 0."""
    signal = place.signal
    hint = "" if place.given else "; give initial = ..."
    for value in np.ravel(signal.initial).tolist():
        if not place.holds(value):
            raise ValueError(f"initial {value!r} does not fit {_described(place)}{hint}")
        if not signal.low <= value <= signal.high:
            inside = f"[{signal.low:g}, {signal.high:g}]"
            raise ValueError(f"initial {value!r} is outside of its range {inside}{hint}")


def _described(place: Field) -> str:
    scaled = f" with scale {place.scale:g} and bias {place.bias:g}" if place.scaled else ""
    return f"{place.signal.type}{scaled}"


def _values(given: list[object], shape: list[int]) -> tuple[float, ...]:
    """Of an array: a flat list, or one nested as its shape is."""
    if not any(isinstance(v, list) for v in given):
        return tuple(map(number, given))
    if len(shape) < 2 or len(given) != shape[0]:
        raise ValueError(f"initial is nested otherwise than shape = {shape}")
    rows = [_values(v, shape[1:]) if isinstance(v, list) else () for v in given]
    if any(len(row) != math.prod(shape[1:]) for row in rows):
        raise ValueError(f"initial is nested otherwise than shape = {shape}")
    return tuple(x for row in rows for x in row)


def whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < 2**31


def number(value: object) -> float:
    """A number, or a text such as ``"1/256"`` or ``"2**-8"``; raises ValueError or TypeError."""
    if isinstance(value, str):
        return float(exact(value))
    if isinstance(value, bool):
        return float(value)
    if not isinstance(value, (int, float)):
        raise TypeError(f"{value!r} is not a number")
    if isinstance(value, int) and abs(value) > 2**53 and int(float(value)) != value:
        raise ValueError(f"{value} has no exact float64")
    return float(value)


def exact(text: str) -> Fraction:
    """The number that ``text`` writes, of bounded length; raises ValueError."""
    bare = text.replace(" ", "")
    if power := _POWER.match(bare):
        return Fraction(power["base"]) ** int(power["exponent"])
    if _FRACTION.match(bare):
        return Fraction(bare)
    raise ValueError(f"{text!r} is not a number; write 0.5, '1/256' or '2**-8'")
