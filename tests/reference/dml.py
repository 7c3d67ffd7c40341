"""NASA's DAVE-ML files without tables: their MathML, evaluated as it is written.

Nothing here knows the laws of rtsim.  Values are vectors, one element for each case, so that both
branches of a ``piecewise`` are evaluated and then chosen from.
"""

from __future__ import annotations

import operator
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping
from functools import cache, reduce
from typing import Any

import numpy as np
import pytest
from flight import DATA
from numpy.typing import NDArray

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "plus": lambda *a: reduce(operator.add, a),
    "minus": lambda *a: -a[0] if len(a) == 1 else a[0] - a[1],
    "times": lambda *a: reduce(operator.mul, a),
    "divide": np.divide,
    "power": np.power,
    "abs": np.abs,
    "cos": np.cos,
    "atan2": np.arctan2,
    "lt": np.less,
    "gt": np.greater,
    "or": np.logical_or,
}


class Definition:
    """The variables of one file by ``varID``."""

    def __init__(self, root: ET.Element) -> None:
        variables = [e for e in root if _kind(e) == "variableDef"]
        self.constants: dict[str, float] = {}
        self.formulas: dict[str, ET.Element] = {}
        self.limits: dict[str, tuple[float, float]] = {}
        for variable in variables:
            name, attributes = variable.attrib["varID"], variable.attrib
            if "initialValue" in attributes:
                self.constants[name] = float(attributes["initialValue"])
            for child in variable:
                if _kind(child) == "calculation":
                    self.formulas[name] = child[0][0]
            low, high = attributes.get("minValue", "-inf"), attributes.get("maxValue", "inf")
            self.limits[name] = float(low), float(high)

    def evaluate(self, given: Mapping[str, Any], *wanted: str) -> list[NDArray[np.float64]]:
        """Each of ``wanted`` (n,), from inputs (n,) or scalars; what is given is not computed."""
        known: dict[str, Any] = {}

        def value(name: str) -> Any:
            if name not in known:
                if name in given:
                    raw = given[name]
                elif name in self.formulas:
                    raw = expression(self.formulas[name])
                else:
                    raw = self.constants[name]
                known[name] = np.clip(raw, *self.limits[name])
            return known[name]

        def expression(node: ET.Element) -> Any:
            kind, text = _kind(node), (node.text or "").strip()
            if kind == "ci":
                return value(text)
            if kind == "cn":
                return float(text)
            if kind == "piecewise":
                *pieces, otherwise = node
                out = expression(otherwise[0])
                for chosen, condition in reversed(pieces):
                    out = np.where(expression(condition), expression(chosen), out)
                return out
            first, *arguments = node  # <apply>: an operator, or a piecewise on its own
            if _kind(first) == "piecewise":
                return expression(first)
            function = (first.text or "").strip() or _kind(first)  # <csymbol> says it as text
            return FUNCTIONS[function](*map(expression, arguments))

        return [value(name) for name in wanted]


def _kind(node: ET.Element) -> str:
    return node.tag.rpartition("}")[2]


@cache
def definition(name: str) -> Definition:
    """The F-16's file of that ``name``; skips the test where the data is absent."""
    path = DATA / "nesc" / "F16" / name
    if not path.exists():
        pytest.skip(f"NASA's definition is not at {path}")
    return Definition(ET.parse(path).getroot())
