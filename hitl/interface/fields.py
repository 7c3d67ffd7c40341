"""Read and check the signals of an interface file."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, get_args

import numpy as np

from rtsim.core import toml
from rtsim.core.errors import ScenarioError
from rtsim.core.signals import UNDECLARED, Kind, Signal
from rtsim.core.toml import NEEDED, Entries, Key, ListKey, choice, flag, shown, text


class InterfaceError(ScenarioError):
    """An interface file contains an error; the message begins with ``file:line:``."""


# The key ``pin`` assigns a signal to a pin that Arduino code reads or drives.

SERIAL = "serial"
_PIN = re.compile(r"(?P<bank>A|D|GP)?(?P<number>\d{1,2})\Z")


def read_pin(table: str, value: object) -> str:
    """Return the pin in C++ notation: ``A0``, ``9`` or ``serial``.

    Raises ValueError for a value that is no pin, and for a parameter.
    """
    if table == "parameters":
        raise ValueError(
            "a parameter cannot have a pin; remove the key pin, or move the parameter to [inputs]"
        )
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if text == SERIAL:
        return SERIAL
    found = _PIN.match(text) if isinstance(text, str) else None
    if found is None:
        raise ValueError(f"pin = {value!r} is no pin; write 'A0', 'D9' or 'serial'")
    return f"A{int(found['number'])}" if found["bank"] == "A" else str(int(found["number"]))


def type_of_pin(table: str, pin: str) -> str:
    if pin == SERIAL or table == "outputs":
        return "uint8"
    return "uint16" if pin.startswith("A") else "bool"


def check_type(table: str, pin: str, type: str, shape: tuple[int, ...]) -> None:
    """Raise ValueError if a signal at a pin cannot have this type or shape."""
    if pin == SERIAL:
        if type != "uint8" or len(shape) != 1:
            raise ValueError('the signal of the serial line needs type = "uint8" and a shape = [N]')
        return
    if shape:
        raise ValueError(f"a pin has one value, but shape = {list(shape)}; remove the shape")
    if type.startswith("float"):
        what = '"uint16" (analogRead)' if table == "inputs" else '"uint8" (analogWrite)'
        raise ValueError(
            f'the value of a pin cannot have the type {type}; write type = "bool", or write type = '
            f"{what} and a scale for the unit"
        )


# Check the text of the C code in an interface file before a compiler reads it.

_LITERAL = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'')
_PAIRS = {")": "(", "]": "[", "}": "{"}
KEYWORDS = frozenset((
    "NULL", "_Alignas", "_Alignof", "_Atomic", "_Bool", "_Complex", "_Generic", "_Imaginary",
    "_Noreturn", "_Static_assert", "_Thread_local", "asm", "auto", "bool", "break", "case",
    "char", "const", "continue", "default", "do", "double", "else", "enum", "extern", "false",
    "float", "for", "goto", "if", "inline", "int", "long", "register", "restrict", "return",
    "short", "signed", "sizeof", "static", "struct", "switch", "true", "typedef", "typeof",
    "union", "unsigned", "void", "volatile", "while",
))  # fmt: skip


def fault_of_name(name: str) -> str:
    """Return why ``name`` cannot be the name of a variable in C, or ""."""
    if name in KEYWORDS:
        return f"{name} is a keyword of C"
    if name.lower().startswith("rtsim_"):
        return f"{name}: names that begin with rtsim_ are reserved for the generated C"
    return ""


def fault_of_lvalue(text: str) -> str:
    """Return why a text is no lvalue in C, or ""."""
    if ";" in _LITERAL.sub('""', text):
        return "it contains a ';', which ends a statement"
    if "\n" in text:
        return "it has more than one line"
    return _fault(text)


def fault_of_statement(text: str) -> str:
    """Return why ``text`` is no statement in C, or ""."""
    if re.search(r"\breturn\b", _LITERAL.sub('""', text)):
        return "'return' would leave the generated function before it has read the outputs"
    return _fault(text)


def _fault(text: str) -> str:
    bare = _LITERAL.sub('""', text)
    if re.search(r"//|/\*|\*/", bare):
        return "it contains a comment of C; write a comment of TOML instead, after #"
    if "#" in bare:
        return "it contains a '#'; move the directive to a header"
    opened: list[str] = []
    for letter in bare:
        if letter in "([{":
            opened.append(letter)
        elif letter in _PAIRS and (not opened or opened.pop() != _PAIRS[letter]):
            return f"{letter!r} closes no bracket"
    return f"{opened[-1]!r} is never closed" if opened else ""


OVERFLOW = ("error", "saturate")
_FRACTION = re.compile(r"[+-]?\d{1,40}(\.\d{1,40})?([eE][+-]?\d{1,3})?(/\d{1,40})?\Z")
_POWER = re.compile(r"(?P<base>\d{1,9})\*\*(?P<exponent>[+-]?\d{1,4})\Z")


@dataclass(frozen=True)
class Field:
    """A signal and its variable in C. The value of the signal is ``raw * scale + bias``."""

    signal: Signal
    lvalue: str
    """C expression of the variable."""
    declared: bool
    """True if the generated C code declares the variable."""
    line: int
    scale: float = 1.0
    bias: float = 0.0
    overflow: str = "error"
    given: bool = True
    """True if the file gives an initial value.  A parameter without one keeps its value in C."""
    set_by_caller: bool = False
    """True for a parameter that the caller must set, since the C code gives it no useful value."""
    specials: tuple[float, ...] = ()
    """Infinities and NaN that the file allows for an input, as by ``high = inf`` or ``nan =
    true``."""
    pin: str = ""
    """Pin of Arduino code that carries the signal, in C++ notation; "" without a pin."""

    @property
    def scaled(self) -> bool:
        return self.scale != 1.0 or self.bias != 0.0

    def holds(self, value: float) -> bool:
        """Return True if the C type can represent ``value``.

        The generated C code contains the same check.
        """
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
    bits = int(type.lstrip("uint"))
    return (0, 2**bits - 1) if type[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def value(default: Any = NEEDED) -> Key:
    """Declare a key whose value is a number, an infinity or NaN."""
    return Key("a number, such as 0.5, '1/256' or '2**-8'", default, exact_number)


def finite(default: Any = NEEDED, wanted: str = "a finite number, such as 0.5 or '1/256'") -> Key:
    def convert(given: object) -> float:
        found = exact_number(given)
        if not math.isfinite(found):
            raise ValueError
        return found

    return Key(wanted, default, convert)


def _scale(given: object) -> float:
    found = exact_number(given)
    if not math.isfinite(found) or found == 0.0:
        raise ValueError
    return found


def exact_number(given: object) -> float:
    """Convert a number, or a text such as ``"1/256"`` or ``"2**-8"``, to float64.

    Raises TypeError for another type. Raises ValueError for an invalid text, and for an integer
    that float64 cannot represent.
    """
    if isinstance(given, str):
        return float(exact(given))
    if isinstance(given, bool):
        return float(given)
    if not isinstance(given, (int, float)):
        raise TypeError
    if isinstance(given, int) and abs(given) > 2**53 and int(float(given)) != given:
        raise ValueError("it cannot be represented exactly as float64")
    return float(given)


def exact(text: str) -> Fraction:
    """Return the exact value of a number in a text; raise ValueError if invalid."""
    bare = text.replace(" ", "")
    if power := _POWER.match(bare):
        return Fraction(power["base"]) ** int(power["exponent"])
    if _FRACTION.match(bare):
        return Fraction(bare)
    raise ValueError("the text is not a number")


FIELD = {
    "c": text(None, 'a C lvalue, such as c = "rtU.alpha"'),
    "type": text(None, empty=True),
    "shape": ListKey(
        "a list of whole numbers >= 1, such as [3] or [2, 3]", (),
        of=toml.whole(1, 2**31 - 1), single=True,
    ),
    "unit": text("1", empty=True),
    "scale": Key("a finite number other than 0, such as 0.5 or '1/256'", 1.0, _scale),
    "bias": finite(0.0),
    "overflow": choice(OVERFLOW, OVERFLOW[0], "overflow"),
    "initial": Key(default=0.0),
    "low": value(-math.inf),
    "high": value(math.inf),
    "kind": choice(get_args(Kind), "scalar", "kind"),
    "description": text("", empty=True),
    "set_by_caller": flag(),
    "nan": flag(),
    "pin": Key(default=None),
}  # fmt: skip


def read_field(table: str, name: str, row: Entries, real: str) -> Field:
    """Return the signal ``name`` of ``[table]``; ``real`` is the default type.

    Raises ValueError, TypeError or RtsimError. The caller adds file and line to error messages.
    """
    given = row.given
    pin = read_pin(table, given["pin"]) if "pin" in given else ""
    signal = _signal(name, row, type_of_pin(table, pin) if pin else real)
    if pin:
        check_type(table, pin, signal.type, signal.shape)
        if "c" in given:
            raise ValueError("a signal has either a pin or a C lvalue; remove the key pin or c")
    if not signal.low <= signal.high:
        raise ValueError(
            f"low = {signal.low:g} and high = {signal.high:g} allow no value; give low <= high"
        )
    integral = "int" in signal.type
    scale, bias, overflow = row["scale"], row["bias"], row["overflow"]
    if ("scale" in given or "bias" in given) and not integral:
        raise ValueError(
            f"scale and bias apply only to integers, not to {signal.type}; remove them"
        )
    if "overflow" in given and (table == "outputs" or not integral):
        what = "an output" if table == "outputs" else f"a {signal.type}"
        raise ValueError(
            f"'overflow' applies only to integer inputs and parameters, not to {what}; remove it"
        )
    lvalue = row["c"] or name
    if "c" not in given and (fault := fault_of_name(name)):
        raise ValueError(f'{fault}; choose another signal name, or give the C lvalue as c = "..."')
    if fault := fault_of_lvalue(lvalue):
        raise ValueError(f"c = {lvalue!r}: {fault}; write one object, such as c = 'rtU.alpha'")
    if "set_by_caller" in given and table != "parameters":
        raise ValueError("set_by_caller applies only to parameters; remove it")
    place = Field(
        signal, lvalue, "c" not in given, row.place.line(), scale, bias, overflow,
        "initial" in given, row["set_by_caller"], _specials(table, row, signal), pin,
    )  # fmt: skip
    if place.given or table == "parameters":
        _check_initial(place)
    return place


def _specials(table: str, row: Entries, signal: Signal) -> tuple[float, ...]:
    floating = table == "inputs" and signal.type.startswith("float")
    if "nan" in row.given and not floating:
        raise ValueError(
            f"'nan' applies only to inputs of a floating-point type, not to {table} of type "
            f"{signal.type}; remove it"
        )
    ends = [end for key, end in (("low", signal.low), ("high", signal.high)) if key in row.given]
    infinite = [end for end in ends if floating and math.isinf(end)]
    return (*infinite, *([math.nan] if row["nan"] else []))


def _signal(name: str, row: Entries, real: str) -> Signal:
    shape, initial = row["shape"], row["initial"]
    try:
        listed = isinstance(initial, list)
        start = _values(initial, shape) if listed else exact_number(initial)
        if "initial" not in row.given:
            start = UNDECLARED
    except (TypeError, ValueError, ArithmeticError) as error:
        why = f" ({error})" if str(error) else ""
        text = f"initial = {shown(initial)} is not valid{why}; write a number, or a list of them"
        raise row.error("initial", text) from None
    return Signal(
        name,
        row["unit"],
        type=real if row["type"] is None else row["type"],
        shape=shape,
        kind=row["kind"],
        initial=start,
        low=row["low"],
        high=row["high"],
        description=row["description"],
    )


def _check_initial(place: Field) -> None:
    signal = place.signal
    hint = "" if place.given else "; give initial = ..."
    for value in np.ravel(signal.initial).tolist():
        if not place.holds(value):
            raise ValueError(f"initial = {value!r} does not fit {_described(place)}{hint}")
        if not signal.low <= value <= signal.high:
            inside = f"[{signal.low:g}, {signal.high:g}]"
            raise ValueError(f"initial = {value!r} is outside the signal's range {inside}{hint}")


def _described(place: Field) -> str:
    scaled = f" with scale {place.scale:g} and bias {place.bias:g}" if place.scaled else ""
    return f"{place.signal.type}{scaled}"


def _values(given: list[object], shape: Sequence[int]) -> tuple[float, ...]:
    if not any(isinstance(v, list) for v in given):
        return tuple(map(exact_number, given))
    rows = [_values(v, shape[1:]) if isinstance(v, list) else () for v in given]
    size = math.prod(shape[1:])
    if len(shape) < 2 or len(given) != shape[0] or any(len(row) != size for row in rows):
        raise ValueError(
            f"the lists in initial are not nested as in shape = {list(shape)}; nest them in the "
            "same way, or give all numbers in one list"
        )
    return tuple(x for row in rows for x in row)
