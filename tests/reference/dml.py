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
    "abs": np.abs,
    "lt": np.less,
    "gt": np.greater,
}


class Definition:
    """One file: constants by ``varID``, and the calculations in the order of the file."""

    def __init__(self, root: ET.Element) -> None:
        self.constants: dict[str, float] = {}
        self.calculations: dict[str, ET.Element] = {}
        self.limits: dict[str, tuple[float, float]] = {}
        for variable in (e for e in root if _kind(e) == "variableDef"):
            name, get = variable.attrib["varID"], variable.attrib.get
            formula = next((e[0][0] for e in variable if _kind(e) == "calculation"), None)
            if formula is not None:
                self.calculations[name] = formula
            elif "initialValue" in variable.attrib:
                self.constants[name] = float(variable.attrib["initialValue"])
            self.limits[name] = float(get("minValue", "-inf")), float(get("maxValue", "inf"))

    def evaluate(self, given: Mapping[str, Any]) -> dict[str, NDArray[np.float64]]:
        """Every variable of the file, from inputs (n,) by ``varID``; limits are kept."""
        values: dict[str, Any] = {}
        for name, value in {**self.constants, **given}.items():
            values[name] = np.clip(value, *self.limits[name])
        for name, formula in self.calculations.items():
            values[name] = np.clip(_expression(formula, values), *self.limits[name])
        return values


def _expression(node: ET.Element, values: Mapping[str, Any]) -> Any:
    kind, text = _kind(node), (node.text or "").strip()
    if kind == "ci":
        return values[text]
    if kind == "cn":
        return float(text)
    if kind == "piecewise":
        *pieces, otherwise = node
        out = _expression(otherwise[0], values)
        for value, condition in reversed(pieces):
            out = np.where(_expression(condition, values), _expression(value, values), out)
        return out
    first, *arguments = node  # <apply>: an operator, or a piecewise on its own
    if _kind(first) == "piecewise":
        return _expression(first, values)
    return FUNCTIONS[_kind(first)](*(_expression(a, values) for a in arguments))


def _kind(node: ET.Element) -> str:
    return node.tag.rpartition("}")[2]


@cache
def definition(name: str) -> Definition:
    """The F-16's file of that ``name``; skips the test where the data is absent."""
    path = DATA / "nesc" / "F16" / name
    if not path.exists():
        pytest.skip(f"NASA's definition is not at {path}")
    return Definition(ET.parse(path).getroot())
