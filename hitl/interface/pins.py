"""The key ``pin`` of a signal: Arduino code reads or drives the signal at this pin."""

from __future__ import annotations

import re

SERIAL = "serial"
_PIN = re.compile(r"(?P<bank>A|D|GP)?(?P<number>\d{1,2})\Z")


def read_pin(table: str, value: object) -> str:
    """Return the pin as C++ names it: ``A0``, ``9`` or ``serial``; raises ValueError for others."""
    if table == "parameters":
        raise ValueError("a parameter has no pin; remove the key, or move it to [inputs]")
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if text == SERIAL:
        return SERIAL
    found = _PIN.match(text) if isinstance(text, str) else None
    if found is None:
        raise ValueError(f"pin = {value!r} is no pin; write 'A0', 'D9' or 'serial'")
    return f"A{int(found['number'])}" if found["bank"] == "A" else str(int(found["number"]))


def type_of_pin(table: str, pin: str) -> str:
    """Return the type of a signal at ``pin`` whose row gives none."""
    if pin == SERIAL or table == "outputs":
        return "uint8"
    return "uint16" if pin.startswith("A") else "bool"


def check_type(table: str, pin: str, type: str, shape: tuple[int, ...]) -> None:
    """Check that a signal at ``pin`` may have this type and shape; raises ValueError if not."""
    if pin == SERIAL:
        if type != "uint8" or len(shape) != 1:
            raise ValueError('the signal of the serial line needs type = "uint8" and a shape = [N]')
        return
    if shape:
        raise ValueError(f"a pin has one value, but shape = {list(shape)}; remove the shape")
    if type.startswith("float"):
        what = 'uint16" for analogRead()' if table == "inputs" else 'uint8" for analogWrite()'
        raise ValueError(
            f'a pin has no {type}; write type = "bool", or type = "{what}, and a scale for its unit'
        )
