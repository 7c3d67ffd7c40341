"""Check a formula against the signals and units of a run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction

from rtsim.core.errors import ScenarioError
from rtsim.core.signals import unit_factors
from rtsim.core.tag import NS_PER_S
from rtsim.requirements.language import ARITHMETIC, COMPARISONS, FormulaError, Node, parse
from rtsim.requirements.measures import MEASURES, MIN_STEP, is_relative, measure_in
from rtsim.requirements.robustness import FUNCTIONS

UnitOf = Callable[[str], str]
"""Function that returns the unit of a signal, or raises :class:`UnknownName`."""
Factors = Mapping[str, Fraction] | None
"""Exponents of the symbols of a unit. None fits every unit."""


def checked(text: str, unit_of: UnitOf) -> Node:
    """Return the tree of the formula ``text``.

    Raises ``FormulaError`` for an unknown signal, two different units, or a number in place of a
    condition.
    """
    try:
        node = parse(text)
        if not any(one.kind == "signal" for one in node.walk()):
            raise FormulaError(text, 0, "the formula has no signal")
        _Check(text, unit_of).condition(node)
    except RecursionError:
        raise ScenarioError(TOO_DEEP) from None
    return node


TOO_DEEP = "the formula has too many parts within each other; write several requirements"


def margin_unit(nodes: Iterable[Node], unit_of: UnitOf) -> str:
    """Return the common unit of the margins of comparisons.

    The result is empty if units are missing or different.
    """
    check = _Check("", unit_of)
    units = {_with_slash(check.margin(one) or {}) for one in nodes if one.kind in COMPARISONS}
    return units.pop() if len(units) == 1 else ""


def _with_slash(unit: Mapping[str, Fraction]) -> str:
    above = _written({symbol: n for symbol, n in unit.items() if n > 0}) if unit else ""
    below = (f"/{_written({symbol: -n})}" for symbol, n in unit.items() if n < 0)
    return "".join((above.replace("no unit", "1").replace(" ", "*"), *below))


class _Check:
    def __init__(self, text: str, unit_of: UnitOf) -> None:
        self._text, self._unit_of = text, unit_of

    def _wrong(self, node: Node, problem: str) -> FormulaError:
        return FormulaError(self._text, node.at, problem)

    def condition(self, node: Node) -> None:
        kind = node.kind
        if (measure := measure_in(node)) is not None:
            self._measured(node, measure)
        elif kind in COMPARISONS:
            self._same(node, "compare")
        elif kind in ARITHMETIC or kind in ("number", "signal", "call"):
            given = self._text[node.at : node.end].strip()
            problem = f"{given} is a number, but a condition is needed; compare it, as in"
            raise self._wrong(node, f"{problem} {given} < 1")
        else:
            for child in node.children:
                if node.window is not None:
                    self._without_measure(child, node.kind)
                self.condition(child)

    def margin(self, node: Node) -> Factors:
        measure = measure_in(node)
        if measure is None:
            return self._same(node, "compare")
        own = MEASURES[measure.name].unit
        sides = Node("", measure.children[:2], measure.at, measure.end)
        return {own: Fraction(1)} if own else self._same(sides, "compare")

    def number(self, node: Node) -> Factors:
        kind = node.kind
        if kind == "number":
            return self._factors(node, node.name)
        if kind == "signal":
            return self._factors(node, self._unit(node))
        if kind in ("add", "subtract"):
            return self._same(node, kind)
        if kind == "call":
            return self._called(node)
        if kind not in ARITHMETIC:
            given = self._text[node.at : node.end].strip()
            raise self._wrong(node, f"{given} is a condition, but a number is needed")
        if kind == "power":
            return self._power(node)
        units = [self.number(child) for child in node.children]
        if kind == "negative":
            return units[0]
        return _product(units[0], units[1], 1 if kind == "multiply" else -1)

    def _power(self, node: Node) -> Factors:
        base, exponent = node.children
        unit, by = self.number(base), _constant(exponent)
        if not unit:
            return unit
        if by is None:
            raise self._wrong(
                exponent, "the exponent of a quantity with a unit must be a number, such as 2"
            )
        return _scaled(unit, Fraction(by))

    def _called(self, node: Node) -> Factors:
        if node.name in MEASURES:
            example = f"{self._text_of(node)} {MEASURES[node.name].example}"
            raise self._wrong(
                node, f"{node.name} is a step measure; compare it with a number, as in {example}"
            )
        if node.name not in FUNCTIONS:
            known = ", ".join(sorted([*FUNCTIONS, *MEASURES]))
            raise self._wrong(node, f"unknown function {node.name}; known: {known}")
        _, count, rule = FUNCTIONS[node.name]
        if len(node.children) != count or node.keywords:
            values = "1 value" if count == 1 else f"{count} values"
            raise self._wrong(node, f"{node.name} takes {values}")
        if count > 1:
            unit = self._same(node, node.name)
            return _RADIAN if rule == "angle" else unit
        unit = self.number(node.children[0])
        if rule == "same":
            return unit
        if rule == "root":
            return _scaled(unit, Fraction(1, 2))
        wanted: tuple[Factors, ...] = ({}, _RADIAN) if rule == "of angle" else ({},)
        if unit is not None and unit not in wanted:
            needed = "rad" if rule == "of angle" else "a number without a unit"
            raise self._wrong(node, f"{node.name} needs {needed}, not {_written(unit)}")
        return {}

    def _text_of(self, node: Node) -> str:
        return self._text[node.at : node.end].strip()

    def _without_measure(self, node: Node, kind: str) -> None:
        for one in node.walk():
            if measure_in(one) is not None:
                raise self._wrong(
                    one,
                    f"{self._text_of(one)} is about the whole run; write it outside of {kind}",
                )

    def _measured(self, node: Node, call: Node) -> None:
        measure = MEASURES[call.name]
        limit = node.children[1 if node.children[0] is call else 0]
        if node.kind in ("==", "!="):
            raise self._wrong(node, f"compare {call.name} with <, <=, > or >=")
        if any(one.kind in ("signal", "call") for one in limit.walk()):
            raise self._wrong(limit, f"compare {call.name} with a number")
        names = ["signal", "reference", *([_THIRD[measure.third]] if measure.third else [])]
        if len(call.children) != len(names):
            raise self._wrong(call, f"{call.name} takes {len(names)} values: {', '.join(names)}")
        signal, reference, *third = call.children
        if not any(one.kind == "signal" for one in signal.walk()):
            raise self._wrong(signal, f"{self._text_of(signal)} has no signal")
        unit = self._same(Node("", (signal, reference), call.at, call.end), "compare")
        for one in third:
            self._argument(one, measure.third, unit)
        window: dict[str, float] = {}
        for key, value in call.keywords:
            if key not in ("after", "before", MIN_STEP):
                known = f"after, before, {MIN_STEP}"
                raise self._wrong(value, f"unknown argument {key}; known: {known}")
            if key in window:
                raise self._wrong(value, f"{key} is given twice")
            self._argument(value, "height" if key == MIN_STEP else "time", unit)
            window[key] = value.value
            if key == MIN_STEP:
                if not is_relative(call):
                    raise self._wrong(
                        value,
                        f"{MIN_STEP} is for rise_time, overshoot and settling_time with a band in "
                        "%, which refer to the height of the step",
                    )
            elif value.value * NS_PER_S >= 2**62:
                raise self._wrong(value, f"{self._text_of(value)} is not below 146 years")
        if window.get("before", math.inf) < window.get("after", 0.0):
            raise self._wrong(
                call, "the time before= is earlier than the time after=; exchange both times"
            )
        self._limit(limit, call.name, {measure.unit: Fraction(1)} if measure.unit else unit)

    def _argument(self, node: Node, kind: str, unit: Factors) -> None:
        if node.kind != "number":
            raise self._wrong(node, f"{self._text_of(node)} is not a number")
        given = self._factors(node, node.name)
        allowed = {"time": [_SECONDS], "height": [unit]}.get(kind, [_PERCENT, unit])
        if given is not None and None not in allowed and given not in allowed:
            own = _written(unit or {})
            wanted = {"time": "s", "height": own}.get(kind, f"% of the step or in {own}")
            raise self._wrong(node, f"{self._text_of(node)} must be in {wanted}")

    def _limit(self, node: Node, name: str, unit: Factors) -> None:
        given = self.number(node)
        if unit == _PERCENT and given != unit:
            raise self._wrong(node, f"the limit of {name} is in percent; write % after the number")
        if None not in (given, unit) and given != unit:
            raise self._wrong(
                node, f"{self._text_of(node)} must be in {_written(unit or {})}, as {name} is"
            )

    def _same(self, node: Node, kind: str) -> Factors:
        units = [self.number(child) for child in node.children]
        left, right = units
        if left is not None and right is not None and left != right:
            one, other = (self._text[c.at : c.end].strip() for c in node.children)
            raise self._wrong(
                node,
                f"cannot {kind} {one} in {_written(left)} and {other} in {_written(right)}; use "
                "the same unit for both",
            )
        return right if left is None else left

    def _unit(self, node: Node) -> str:
        try:
            return self._unit_of(node.name)
        except ScenarioError as error:
            raise self._wrong(node, str(error)) from None

    def _factors(self, node: Node, unit: str) -> Factors:
        if unit in ("", "1"):
            return None
        try:
            return unit_factors(unit)
        except ScenarioError as error:
            raise self._wrong(node, str(error)) from None


_RADIAN: Factors = {"rad": Fraction(1)}
_SECONDS: Factors = {"s": Fraction(1)}
_PERCENT: Factors = {"%": Fraction(1)}
_THIRD = {
    "band": "band such as 5 % or a number in the unit of the signal", "time": "time such as 2 s"
}  # fmt: skip
"""What the third argument of a measure is."""


def _constant(node: Node) -> float | None:
    if node.kind == "number":
        return node.value if node.name == "1" else None
    if node.kind == "negative":
        value = _constant(node.children[0])
        return None if value is None else -value
    return None


def _scaled(unit: Factors, by: Fraction) -> Factors:
    return None if unit is None else {symbol: n * by for symbol, n in unit.items() if n * by}


def _product(left: Factors, right: Factors, sign: int) -> Factors:
    if left is None and right is None:
        return None
    found = dict(left or {})
    for symbol, n in (right or {}).items():
        found[symbol] = found.get(symbol, Fraction()) + sign * n
    return {symbol: n for symbol, n in found.items() if n}


def _written(unit: Mapping[str, Fraction]) -> str:
    parts = [symbol if n == 1 else f"{symbol}^{n}" for symbol, n in unit.items()]
    return " ".join(parts) or "no unit"
