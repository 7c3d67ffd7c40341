"""Linear blocks: state space and transfer function, continuous or sampled."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rtsim.blocks import block
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
from rtsim.core.tag import Period
from rtsim.equations.model import Timer
from rtsim.linear.state_space import StateSpace as LinearSystem
from rtsim.linear.state_space import is_foreign, is_fraction, matrix_of, period_of, polynomials


class StateSpace(Block):
    """A linear system ``x' = A x + B u``, ``y = C x + D u``.

    The matrices are A (n, n), B (n, m), C (r, n) and D (r, m).  In place of the matrices, ``a`` can
    be a system: an :class:`rtsim.StateSpace`, or a state space or transfer function of
    python-control or ``scipy.signal``.  A sampled system reads ``u`` as x- at each multiple of its
    period, and holds ``y`` in between.

    An event at ``impulse`` (m,) is a Dirac impulse at ``u``: it adds ``B`` times its value to
    ``x``.  It is allowed only if ``D`` is 0; otherwise the output would contain an impulse.
    """

    def __init__(
        self,
        a: object,
        b: object = None,
        c: object = None,
        d: object = 0.0,
        *,
        initial: Sequence[float] | float = 0.0,
        input_unit: str = block.ANY,
        unit: str = block.ANY,
    ) -> None:
        self.system = _system(a, b, c, d)
        n, (rows, columns) = len(self.system.a), self.system.d.shape
        if not n:
            raise ScenarioError("StateSpace: the system has no states; use a Gain")
        begin = matrix_of("initial", initial)
        if begin.ndim and begin.shape != (n,):
            raise ScenarioError(
                f"StateSpace: initial has shape {begin.shape}; expected a number for each state, "
                "or one for all"
            )
        self.initial = np.broadcast_to(begin, (n,)).copy()
        ports: tuple[Port, ...] = (
            Port("u", "signal", columns, _unit(self.system.inputs, input_unit)),
        )
        if self.system.period is None:
            ports += (Port("impulse", "event", columns, optional=True),)
        self.inputs = ports
        self.outputs = (Port("y", "signal", rows, _unit(self.system.outputs, unit)),)

    @property
    def label(self) -> str:
        period = self.system.period
        return type(self).__name__ if period is None else f"{type(self).__name__} {period}"

    def check(self, name: str, wires: Wires) -> None:
        if "impulse" in wires and self.system.d.any():
            raise ScenarioError(
                f"{name} has D != 0, so an impulse at its input makes its output infinite; "
                f"replace {name} by Integrators, and wire the impulse to one of them"
            )

    def equations(self, wires: Wires) -> Equations:
        system = self.system
        n, (rows, columns) = len(system.a), system.d.shape
        x, u, y = (elements(name, size) for name, size in (("x", n), ("u", columns), ("y", rows)))
        output = [_linear((system.c[i], x), (system.d[i], u)) for i in range(rows)]
        states = Signals(Signal("x", shape=shape(n), initial=start(tuple(self.initial.tolist()))))
        if system.period is not None:
            return self._sampled(system.period, states, output)
        impulse = elements("impulse", columns)
        rate = [f"d_{x[i]} = {_linear((system.a[i], x), (system.b[i], u))}" for i in range(n)]
        jump = [f"{x[i]} = {x[i]} + {_linear((system.b[i], impulse))}" for i in range(n)]
        return Equations(
            states=states,
            output="\n".join(f"{y[i]} = {text}" for i, text in enumerate(output)),
            rate="\n".join(rate),
            when=(When(("impulse",), "\n".join(jump)),) if "impulse" in wires else (),
        )

    def _sampled(self, period: Period, states: Signals, output: list[str]) -> Equations:
        """Return the equations of a sampled system, whose outputs are held."""
        system = self.system
        n, (rows, columns) = len(system.a), system.d.shape
        x, u = elements("x", n), elements("u", columns)
        y, held = elements("y", rows), elements("held", rows)
        text = [f"{held[i]} = {text}" for i, text in enumerate(output)]
        text += [f"_x{i} = {_linear((system.a[i], x), (system.b[i], u))}" for i in range(n)]
        text += [f"{x[i]} = _x{i}" for i in range(n)]
        return Equations(
            memory=states + Signals(Signal("held", shape=shape(rows))),
            output="\n".join(f"{y[i]} = {held[i]}" for i in range(rows)),
            timers={"tick": Timer(period)},
            when=(When(("tick",), "\n".join(text)),),
        )


def _system(a: object, b: object, c: object, d: object) -> LinearSystem:
    if b is None and c is None and (isinstance(a, LinearSystem) or is_foreign(a)):
        return LinearSystem.of(a)
    if b is None or c is None:
        raise ScenarioError(
            "StateSpace: give the matrices a, b and c, or a linear system of rtsim, python-control "
            "or scipy.signal"
        )
    return LinearSystem(a, b, c, d)  # type: ignore[arg-type]


def _unit(signals: Signals, given: str) -> str:
    """Return ``given``, or the unit that all ``signals`` have."""
    found = {s.unit for s in signals}
    return found.pop() if given == block.ANY and len(found) == 1 else given


class TransferFunction(StateSpace):
    """A transfer function ``numerator(s) / denominator(s)``.

    The coefficients begin with the highest power of s.  In place of the numerator, a transfer
    function of python-control or ``scipy.signal`` can be given, continuous or sampled.

    The states are those of the controllable canonical form: the derivative of each state is the
    next state, except for the last state.  All states are 0 at the start.
    """

    def __init__(
        self,
        numerator: Numbers | object,
        denominator: Numbers | None = None,
        *,
        input_unit: str = block.ANY,
        unit: str = block.ANY,
    ) -> None:
        period = None
        if denominator is None:
            if not is_fraction(numerator):
                raise ScenarioError(
                    "TransferFunction: give numerator and denominator, or a transfer function of "
                    "python-control or scipy.signal"
                )
            period = period_of(numerator)
            numerator, denominator = polynomials(numerator)
        above = numbers(numerator, "TransferFunction(numerator=")  # type: ignore[arg-type]
        below = numbers(denominator, "TransferFunction(denominator=")
        try:
            system = LinearSystem.of_polynomials(above, below, period)
        except ScenarioError as error:
            raise ScenarioError(
                f"TransferFunction({list(above)}, {list(below)}): {error}"
            ) from None
        power = "s" if period is None else "z"
        self.text = f"{_polynomial(above, power)} / {_polynomial(below, power)}"
        super().__init__(system, input_unit=input_unit, unit=unit)

    @property
    def label(self) -> str:
        return self.text


def block_of(system: object) -> StateSpace | None:
    """Return the block of a linear system of rtsim or of another package; else ``None``."""
    if is_fraction(system):
        return TransferFunction(system)
    if isinstance(system, LinearSystem) or is_foreign(system):
        return StateSpace(system)
    return None


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


def _polynomial(coefficients: Sequence[float], s: str) -> str:
    n = len(coefficients) - 1
    terms = []
    for i, c in enumerate(coefficients):
        power = (s if n - i == 1 else f"{s}^{n - i}") if n > i else ""
        if c:
            terms.append(power if c == 1 and power else f"{c:g} {power}".strip())
    return terms[0] if len(terms) == 1 else f"({' + '.join(terms)})".replace("+ -", "- ")
