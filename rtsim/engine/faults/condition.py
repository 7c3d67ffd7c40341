"""A condition on signals, such as ``f16.altitude_msl > 3000``; the text is parsed, not run as code.

::

    condition  = comparison { "and" comparison }
    comparison = operand ( "<" | "<=" | ">" | ">=" | "==" | "!=" ) operand
    operand    = number | component.signal
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rtsim.components.ports import SignalPort, resolve
from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Vector

_COMPARISON = re.compile(r"\s*(\S+?)\s*(<=|>=|==|!=|<|>)\s*(\S+?)\s*\Z")
_SIGNAL = re.compile(r"[A-Za-z_]\w*\.[A-Za-z_]\w*\Z")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?\Z")
_TESTS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
_EXAMPLE = "write, for example, 'f16.altitude_msl > 3000'; join several with 'and'"
_LONGEST = 500

Operand = float | str
"""An operand of a comparison: a number, or ``component.signal``."""


@dataclass(frozen=True)
class Condition:
    """A condition: comparisons (left, operator, right) that must all be true."""

    text: str
    comparisons: tuple[tuple[Operand, str, Operand], ...]

    def bind(self, ports: Mapping[str, SignalPort]) -> Callable[[], bool]:
        """Return a function that tests the present values of ``ports``; NaN compares as false."""
        asked = tuple(
            (_bound(left, ports, self.text), _TESTS[test], _bound(right, ports, self.text))
            for left, test, right in self.comparisons
        )

        def holds() -> bool:
            return all(test(a[i], b[j]) for (a, i), test, (b, j) in asked)

        return holds


def parse_condition(text: str) -> Condition:
    """Return the condition in ``text``; raises :class:`ScenarioError`."""
    if len(text) > _LONGEST:
        raise ScenarioError(
            f"the condition has {len(text)} characters; at most {_LONGEST} are allowed"
        )
    comparisons = []
    for comparison in re.split(r"\s+and\s+", text.strip()):
        found = _COMPARISON.match(comparison)
        if not found:
            raise ScenarioError(f"{comparison!r} is not a comparison; {_EXAMPLE}")
        left, right = _operand(found[1]), _operand(found[3])
        if isinstance(left, float) and isinstance(right, float):
            raise ScenarioError(
                f"{comparison!r} compares two numbers, but a comparison needs a signal; {_EXAMPLE}"
            )
        comparisons.append((left, found[2], right))
    return Condition(text.strip(), tuple(comparisons))


def _operand(text: str) -> Operand:
    if _NUMBER.match(text) and math.isfinite(float(text)):
        return float(text)
    if _SIGNAL.match(text):
        return text
    raise ScenarioError(
        f"{text!r} is neither a number nor a name of the form component.signal; {_EXAMPLE}"
    )


def _bound(
    operand: Operand, ports: Mapping[str, SignalPort], text: str
) -> tuple[Vector | list[float], int]:
    if isinstance(operand, float):
        return [operand], 0
    port, where = resolve(operand, ports, f"condition {text!r}")
    if where.stop - where.start != 1:
        raise ScenarioError(
            f"{operand} has {where.stop - where.start} elements, but a comparison needs one "
            "number; name one element"
        )
    return port.value, where.start
