"""Signal temporal logic by its definition: random formulas, random signals, and a slow evaluator.

The evaluator visits each moment of a run: each ns, and each microstep with a change. It shares no
code with :mod:`rtsim.requirements.robustness`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence

import numpy as np

from rtsim.requirements.language import Node
from rtsim.requirements.robustness import Pieces

Rows = Sequence[tuple[int, int, float]]
"""Changes of a signal: time in ns, order at the instant, value."""
Truth = tuple[float, float, float, float]
INF = math.inf
UNKNOWN: Truth = (-INF, INF, -1.0, 1.0)
FUTURE = 25
"""Number of ns after the end that the windows of the random formulas can reach."""


def pieces(rows: Rows, end: int) -> Pieces:
    """The signal as the evaluator of rtsim takes it: unknown after the end."""
    ns, order, values = (np.array(list(one)) for one in zip(*rows, strict=True))
    return Pieces.of(
        np.append(ns, end + 1), np.append(order, 0), np.append(values.astype(float), math.nan)
    )


def random_rows(chance: random.Random, end: int) -> Rows:
    rows = [(0, 0, float(chance.randint(-2, 2)))]
    t = 0
    while True:
        value = float(chance.randint(-2, 2))
        if chance.random() < 0.3:
            rows.append((t, rows[-1][1] + chance.randint(1, 2), value))
        else:
            t += chance.randint(1, 3)
            if t > end:
                break
            rows.append((t, chance.choice([0, 0, 0, 1]), value))
    if chance.random() < 0.1:
        row = chance.randrange(len(rows))
        rows[row] = (*rows[row][:2], math.nan)
    return rows


UNARY = ("not", "always", "eventually", "once", "historically")
BINARY = ("and", "or", "implies", "until", "since")
EXCLUSIVE = ("iff", "xor")


def random_formula(
    chance: random.Random, depth: int, names: Sequence[str], unit: str = "ns",
    to_end: bool = True, binary: Sequence[str] = (*BINARY, *EXCLUSIVE),
) -> str:  # fmt: skip
    """A formula over ``names``; ``to_end`` allows windows that end with the run."""

    def inner() -> str:
        return random_formula(chance, depth - 1, names, unit, to_end, binary)

    def window() -> str:
        first = chance.randint(0, 3)
        if to_end and chance.random() < 0.35:
            return chance.choice(["", f"[{first}{unit},end]"])
        return f"[{first}{unit},{first + chance.randint(0, 4)}{unit}]"

    if depth == 0 or chance.random() < 0.15:
        one, other = chance.choice(names), chance.choice(names)
        side = chance.choice([one, f"abs({one})", f"{one} - {other}", f"{one} + {other}"])
        sign = chance.choice(["<", "<=", ">", ">=", "==", "!="])
        return f"({side} {sign} {chance.choice([-2, -1, 0, 1, 2])})"
    kind = chance.choice([*UNARY, *binary])
    timed = window() if kind not in ("not", "and", "or", "implies", *EXCLUSIVE) else ""
    if kind in UNARY:
        return f"({kind}{timed} {inner()})"
    return f"({inner()} {kind}{timed} {inner()})"


class ByDefinition:
    """Truth of a formula, by quantifying over all moments of a run that ends at ``end`` ns."""

    def __init__(self, signals: Mapping[str, Rows], end: int) -> None:
        self._signals, self._end = signals, end
        changes = {(t, order) for rows in signals.values() for t, order, _ in rows}
        changes |= {(t, 0) for t in range(end + FUTURE + 1)}
        self._moments = sorted(changes)
        self._known: dict[tuple[int, int], Truth] = {}

    def truth(self, node: Node, at: int = 0) -> Truth:
        key = id(node), at
        if key not in self._known:
            self._known[key] = self._truth(node, at)
        return self._known[key]

    def _number(self, node: Node, at: int) -> float:
        if node.kind == "number":
            return node.value
        if node.kind == "signal":
            moment = self._moments[at]
            if moment[0] > self._end:
                return math.nan
            return [v for t, order, v in self._signals[node.name] if (t, order) <= moment][-1]
        values = [self._number(child, at) for child in node.children]
        if node.kind in ("call", "negative"):
            return abs(values[0]) if node.kind == "call" else -values[0]
        return values[0] + values[1] if node.kind == "add" else values[0] - values[1]

    def _truth(self, node: Node, at: int) -> Truth:
        if node.window is not None:
            return self._temporal(node, at)
        if node.kind in ("<", "<=", ">", ">=", "==", "!="):
            return _compared(node.kind, *(self._number(child, at) for child in node.children))
        parts = [self.truth(child, at) for child in node.children]
        if node.kind == "not":
            return _not(parts[0])
        if node.kind == "and":
            return _all(parts)
        if node.kind == "or":
            return _any(parts)
        one, other = parts
        if node.kind == "implies":
            return _any([_not(one), other])
        same = _all([_any([_not(one), other]), _any([_not(other), one])])
        return same if node.kind == "iff" else _not(same)

    def _temporal(self, node: Node, at: int) -> Truth:
        assert node.window is not None
        now, (first, last) = self._moments[at][0], node.window
        if node.kind in ("always", "eventually", "until"):
            if last is None and now + first > self._end:
                return UNKNOWN
            latest = self._end if last is None else now + last
            inside = [
                k
                for k, (t, _) in enumerate(self._moments)
                if now + first <= t <= latest and k >= at
            ]
        else:
            earliest = -1 if last is None else now - last
            inside = [
                k
                for k, (t, _) in enumerate(self._moments)
                if earliest <= t <= now - first and k <= at
            ]
        if node.kind in ("always", "historically"):
            return _all([self.truth(node.children[0], k) for k in inside])
        if node.kind in ("eventually", "once"):
            return _any([self.truth(node.children[0], k) for k in inside])
        left, right = node.children
        if node.kind == "until":
            between = {k: range(at, k) for k in inside}
        else:
            between = {k: range(k + 1, at + 1) for k in inside}
        return _any(
            [
                _all([self.truth(right, k), *(self.truth(left, j) for j in between[k])])
                for k in inside
            ]
        )


def _compared(sign: str, a: float, b: float) -> Truth:
    if math.isnan(a) or math.isnan(b):
        return UNKNOWN
    holds = {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b, "==": a == b, "!=": a != b}[sign]
    margin = {"<": b - a, "<=": b - a, ">": a - b, ">=": a - b, "!=": abs(a - b)}.get(
        sign, -abs(a - b)
    )
    return margin, margin, *((1.0, 1.0) if holds else (-1.0, -1.0))


def _not(one: Truth) -> Truth:
    return -one[1], -one[0], -one[3], -one[2]


def _all(parts: Sequence[Truth]) -> Truth:
    low, high, sure, possible = zip((INF, INF, 1.0, 1.0), *parts, strict=True)
    return min(low), min(high), min(sure), min(possible)


def _any(parts: Sequence[Truth]) -> Truth:
    return _not(_all([_not(one) for one in parts]))
