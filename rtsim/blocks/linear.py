"""Linear blocks with continuous states: state space, transfer function."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rtsim.blocks import units
from rtsim.blocks.block import (
    Block,
    Equations,
    Numbers,
    Port,
    When,
    Wires,
    elements,
    numbers,
    shape,
    start,
)
from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Signal, Signals


class StateSpace(Block):
    """A linear system ``x' = A x + B u``, ``y = C x + D u``.

    The matrices are A (n, n), B (n, m), C (r, n) and D (r, m).

    An event at ``impulse`` (m,) is a Dirac impulse at ``u``: it adds ``B`` times its value to
    ``x``.  It is allowed only if ``D`` is 0; otherwise the output would contain an impulse.
    """

    def __init__(
        self,
        a: object,
        b: object,
        c: object,
        d: object = 0.0,
        *,
        initial: Sequence[float] | float = 0.0,
        input_unit: str = units.ANY,
        unit: str = units.ANY,
    ) -> None:
        self.a = np.atleast_2d(_array("A", a))
        n = len(self.a)
        if self.a.shape != (n, n):
            raise ScenarioError(f"A has shape {self.a.shape}; it must be square")
        self.b = _shaped("B", _array("B", b), (n, -1), "a row for each state")
        self.c = _shaped("C", _array("C", c), (-1, n), "a column for each state")
        rows, columns = len(self.c), self.b.shape[1]
        given = _array("D", d)
        what = f"{rows} x {columns}, outputs by inputs, or one number"
        self.d = (
            np.full((rows, columns), given)
            if given.ndim == 0
            else _shaped("D", given, (rows, columns), what)
        )
        begin = _array("initial", initial)
        if begin.ndim:
            begin = _shaped("initial", begin, (n,), "a number for each state, or one for all")
        self.initial = np.broadcast_to(begin, (n,)).copy()
        self.inputs = (
            Port("u", "signal", columns, input_unit),
            Port("impulse", "event", columns, optional=True),
        )
        self.outputs = (Port("y", "signal", rows, unit),)

    def check(self, name: str, wires: Wires) -> None:
        if "impulse" in wires and self.d.any():
            raise ScenarioError(
                f"{name} has D != 0, so an impulse at its input makes its output infinite; "
                f"replace {name} by Integrators, and wire the impulse to one of them"
            )

    def equations(self, wires: Wires) -> Equations:
        n, (rows, columns) = len(self.a), self.d.shape
        x, u, y = (elements(name, size) for name, size in (("x", n), ("u", columns), ("y", rows)))
        impulse = elements("impulse", columns)
        rate = [f"d_{x[i]} = {_linear((self.a[i], x), (self.b[i], u))}" for i in range(n)]
        output = [f"{y[i]} = {_linear((self.c[i], x), (self.d[i], u))}" for i in range(rows)]
        jump = [f"{x[i]} = {x[i]} + {_linear((self.b[i], impulse))}" for i in range(n)]
        return Equations(
            states=Signals(
                Signal("x", shape=shape(n), initial=start(tuple(self.initial.tolist())))
            ),
            output="\n".join(output),
            rate="\n".join(rate),
            when=(When(("impulse",), "\n".join(jump)),) if "impulse" in wires else (),
        )


def _array(name: str, given: object) -> np.ndarray:
    try:
        made = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ScenarioError(f"StateSpace: {name} is not a matrix of numbers ({error})") from error
    if not np.isfinite(made).all():
        raise ScenarioError(f"StateSpace: {name} has an element that is not finite")
    return made


def _shaped(name: str, given: np.ndarray, wanted: tuple[int, ...], what: str) -> np.ndarray:
    n = max(wanted) if -1 in wanted else 0
    if given.size == 0 or (given.size % n if n else given.size != np.prod(wanted)):
        raise ScenarioError(f"StateSpace: {name} has shape {given.shape}; expected {what}")
    return given.reshape(wanted)


class TransferFunction(StateSpace):
    """A transfer function ``numerator(s) / denominator(s)``.

    The coefficients begin with the highest power of s.

    The states are those of the controllable canonical form: the derivative of each state is the
    next state, except for the last state.  All states are 0 at the start.
    """

    def __init__(
        self,
        numerator: Numbers,
        denominator: Numbers,
        *,
        input_unit: str = units.ANY,
        unit: str = units.ANY,
    ) -> None:
        numerator = numbers(numerator, "TransferFunction(numerator=")
        denominator = numbers(denominator, "TransferFunction(denominator=")
        below, above = np.trim_zeros(np.array(denominator), "f"), np.array(numerator)
        n = len(below) - 1
        if n < 1 or len(np.trim_zeros(above, "f")) > n + 1:
            raise ScenarioError(
                f"TransferFunction({list(numerator)}, {list(denominator)}): the degree of the "
                "denominator must be at least 1, and at least that of the numerator"
            )
        above = np.concatenate((np.zeros(max(0, n + 1 - len(above))), above))[-(n + 1) :] / below[0]
        below = below / below[0]
        a = np.eye(n, k=1)
        a[-1] = -below[:0:-1]
        b = np.zeros(n)
        b[-1] = 1.0
        c = (above[1:] - above[0] * below[1:])[::-1]
        self.text = f"{_polynomial(numerator)} / {_polynomial(denominator)}"
        super().__init__(a, b, c, above[0], input_unit=input_unit, unit=unit)

    @property
    def label(self) -> str:
        return self.text


def _linear(*terms: tuple[np.ndarray, list[str]]) -> str:
    """Return a sum of products as text; factors of 0 and 1 are not written."""
    out = ""
    for factors, names in terms:
        for factor, name in zip(factors.tolist(), names, strict=True):
            if factor == 0.0:
                continue
            size = name if abs(factor) == 1.0 else f"{abs(factor)!r} * {name}"
            sign = "-" if factor < 0 else "+"
            out += f" {sign} {size}" if out else f"-{size}" if factor < 0 else size
    return out or "0.0"


def _polynomial(coefficients: Sequence[float]) -> str:
    n = len(coefficients) - 1
    terms = []
    for i, c in enumerate(coefficients):
        power = ("s" if n - i == 1 else f"s^{n - i}") if n > i else ""
        if c:
            terms.append(power if c == 1 and power else f"{c:g} {power}".strip())
    return terms[0] if len(terms) == 1 else f"({' + '.join(terms)})".replace("+ -", "- ")
