"""Blocks with continuous states, linear systems, and transport delays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from rtsim.blocks import block
from rtsim.blocks.block import (
    Block,
    Equations,
    InputDelay,
    Numbers,
    Port,
    When,
    Wires,
    each,
    elements,
    number,
    numbers,
    shape,
    start,
)
from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Signal, Signals
from rtsim.core.tag import NS_PER_S, Duration, Period, exact_seconds
from rtsim.equations.addresses import scratch
from rtsim.equations.compiling import compiled
from rtsim.equations.constraints import constrained
from rtsim.equations.model import Guard, Model, Timer, standing
from rtsim.equations.reading_functions import Inputs, direct_inputs
from rtsim.linear.state_space import StateSpace as LinearSystem
from rtsim.linear.state_space import is_foreign, is_fraction, matrix_of, period_of, polynomials


@dataclass(frozen=True)
class Integrator(Block):
    """An integrator, ``y = initial + integral of u``, with as many elements as ``initial``.

    - An event at ``reset`` sets the state to the event's value, or to ``reset_to`` if given.
    - An event at ``impulse`` adds its value to the state, as a Dirac impulse of this weight at the
      input ``u`` does. If a reset and an impulse occur at one instant, the reset comes first.
    - ``low`` and ``high`` limit the state. A state at a limit stays there until the sign of ``u``
      moves it back into the allowed range.
    - With ``rest``, the state stays at the value ``rest`` after infinitely many resets in a finite
      time (Zeno behaviour, as of a bouncing ball). The next event at ``reset`` or ``impulse`` ends
      this rest.
    """

    initial: Numbers = 0.0
    unit: str = block.ANY
    reset_to: float | None = None
    low: float | None = None
    high: float | None = None
    rest: float | None = None

    @property
    def size(self) -> int:
        return len(numbers(self.initial))

    @property
    def inputs(self) -> tuple[Port, ...]:  # type: ignore[override]
        n = self.size
        rate = block.times(self.unit, "s", -1)
        value = Port("reset", "event", n, self.unit, optional=True)
        if self.reset_to is not None:
            value = Port("reset", "event", None, optional=True)
        return (Port("u", "signal", n, rate), value, Port("impulse", "event", n, optional=True))

    @property
    def outputs(self) -> tuple[Port, ...]:  # type: ignore[override]
        return (Port("y", "signal", self.size, self.unit),)

    @property
    def label(self) -> str:
        return "∫"

    def __post_init__(self) -> None:
        super().__post_init__()
        limited = self.low is not None or self.high is not None
        if limited and self.size > 1:
            raise ScenarioError(
                f"an Integrator with limits must have one element, got {self.size}; "
                "add one Integrator for each element"
            )
        low = -np.inf if self.low is None else self.low
        high = np.inf if self.high is None else self.high
        if limited and not (low < high and low <= numbers(self.initial)[0] <= high):
            raise ScenarioError(
                f"Integrator(initial={self.initial}, low={low:g}, high={high:g}): "
                "give low < high and an initial value within them"
            )
        if limited and self.rest is not None:
            raise ScenarioError(
                "an Integrator cannot have both limits and rest=; leave out low= and high=, "
                "or leave out rest="
            )

    def check(self, name: str, wires: Wires) -> None:
        if self.rest is not None and not {"reset", "impulse"} & set(wires):
            raise ScenarioError(
                f"{name} has rest=, but no event can set its state; wire its reset or its impulse"
            )

    def equations(self, wires: Wires) -> Equations:
        n = self.size
        value = "reset{i}" if self.reset_to is None else "reset_to"
        when, parameters = [], []
        if "reset" in wires:
            when.append(When(("reset",), each(n, f"x{{i}} = {value}")))
            if self.reset_to is not None:
                parameters.append(Signal("reset_to", self.unit, initial=self.reset_to))
        if "impulse" in wires:
            when.append(When(("impulse",), each(n, "x{i} = x{i} + impulse{i}")))
        states = Signals(
            Signal("x", self.unit, shape=shape(n), initial=start(numbers(self.initial)))
        )
        output = each(n, "y{i} = x{i}")
        if self.rest is not None:
            return self._resting(states, parameters, output, when)
        if self.low is None and self.high is None:
            return Equations(
                states=states,
                parameters=Signals(*parameters),
                output=output,
                rate=each(n, "d_x{i} = u{i}"),
                when=tuple(when),
            )
        return self._limited(states, parameters, output, when)

    def _resting(
        self, states: Signals, parameters: list[Signal], output: str, when: list[When]
    ) -> Equations:
        rest = each(self.size, "x{i} = rest") + "\nstands = 1.0"
        return Equations(
            states=states,
            memory=Signals("stands"),
            parameters=Signals(*parameters, Signal("rest", self.unit, initial=self.rest or 0.0)),
            output=output,
            rate=each(self.size, "d_x{i} = u{i} if stands == 0.0 else 0.0"),
            when=tuple(When(w.on, f"{w.do}\nstands = 0.0", rest=rest) for w in when),
        )

    def _limited(
        self, states: Signals, parameters: list[Signal], output: str, when: list[When]
    ) -> Equations:
        guards, text = [], ["leaves = at * u if at != 0.0 else 1.0"]
        if self.high is not None:
            parameters.append(Signal("high", self.unit, initial=self.high))
            guards.append(Guard("top", 1, at_start=True))
            text.append("top = x - high if at == 0.0 else -1.0")
            when.append(When(("top",), "x = high\nat = 1.0"))
        if self.low is not None:
            parameters.append(Signal("low", self.unit, initial=self.low))
            guards.append(Guard("bottom", -1, at_start=True))
            text.append("bottom = x - low if at == 0.0 else 1.0")
            when.append(When(("bottom",), "x = low\nat = -1.0"))
        guards.append(Guard("leaves", -1))
        when = [w if w.on[0] in ("top", "bottom") else _released(w) for w in when]
        when.append(When(("leaves",), "at = 0.0"))
        return Equations(
            states=states,
            memory=Signals("at"),
            parameters=Signals(*parameters),
            output=output,
            rate="d_x = u if at * u <= 0.0 else 0.0",
            guards=tuple(guards),
            guard="\n".join(text),
            when=tuple(when),
        )


def _released(when: When) -> When:
    return When(when.on, f"{when.do}\nat = 0.0")


class Differential(Block):
    """A ``Model`` of differential equations as a block, with one port for each signal.

    The outputs are the model's outputs or, if the model has none, its states. rtsim reads the
    source of the output function to find which inputs each output depends on. If rtsim cannot read
    the source, each output counts as dependent on all inputs.

    ``feedthrough`` can then declare the dependences: ``False`` for none, or the inputs of each
    output, as in ``{"force": ("speed",), "angle": ()}``. Raises ``ScenarioError`` if an output
    depends on an input that is declared as independent, or if a block cannot contain the model.
    """

    def __init__(
        self, model: Model, *, feedthrough: bool | Mapping[str, Sequence[str]] = True
    ) -> None:
        if not isinstance(model, Model):
            raise ScenarioError(
                f"Differential needs a Model, got a {type(model).__name__}; "
                "add a Diagram directly, without Differential"
            )
        extras = ("update", "project", "guard", "tick")
        bad = [name for name in extras if getattr(model, name) is not None]
        if constrained(model):
            bad.append("algebraic variables or a mass matrix")
        if bad or model.discrete.size:
            what = bad[0] if bad else "discrete signals"
            raise ScenarioError(
                f"model {model.name} has {what}, which a block cannot have; "
                "add the model to the scenario as a plant, and connect the diagram to it"
            )
        self.model = model
        self.inputs = tuple(Port(s.name, "signal", s.size, s.unit) for s in model.inputs)
        given = model.outputs if model.output is not None else model.states
        self.outputs = tuple(Port(s.name, "signal", s.size, s.unit) for s in given)
        self.direct = _direct(model, feedthrough)
        """For each element of the outputs, the elements of the inputs on which it depends
        directly.
        """

    @property
    def label(self) -> str:
        return self.model.name

    def equations(self, wires: Wires) -> Equations:  # noqa: ARG002
        model = self.model
        names = [n for port in self.inputs for n in elements(port.name, port.size or 1)]
        outputs = [n for port in self.outputs for n in elements(port.name, port.size or 1)]
        room = [f"_u = _scratch({len(names)})", "_z = _scratch(0)"]
        wired = [f"_u[{i}] = {name}" for i, name in enumerate(names)]
        functions: dict[str, object] = {
            "_f": _helper(model.derivative or standing),
            "_scratch": scratch,
        }
        if model.output is None:
            output = [f"{name} = states[{i}]" for i, name in enumerate(outputs)]
        else:
            functions["_g"] = _helper(model.output)
            output = self._outputs(names, outputs)
        return Equations(
            states=model.states,
            parameters=model.parameters,
            output="\n".join(output),
            rate="\n".join((*room, *wired, "_f(t, states[:], _z, _u, parameters[:], rates[:])")),
            functions=functions,
        )

    def _outputs(self, inputs: list[str], outputs: list[str]) -> list[str]:
        lines, initial = [], self.model.inputs.initial()
        for k, needed in enumerate(dict.fromkeys(self.direct)):
            given = enumerate(inputs)
            lines += [f"_u{k} = _scratch({len(inputs)})", f"_z{k} = _scratch(0)"]
            lines += [f"_u{k}[{i}] = {n if i in needed else initial[i]}" for i, n in given]
            lines += [f"_y{k} = _scratch({len(outputs)})"]
            lines += [f"_g(t, states[:], _z{k}, _u{k}, parameters[:], _y{k})"]
            own = (i for i, direct in enumerate(self.direct) if direct == needed)
            lines += [f"{outputs[i]} = _y{k}[{i}]" for i in own]
        return lines


_POINTS = 32
"""Number of random states and inputs at which a declared feedthrough is tested."""


def _direct(model: Model, declared: bool | Mapping[str, Sequence[str]]) -> tuple[Inputs, ...]:
    inputs, outputs = model.inputs, model.outputs
    if model.output is None:
        return (Inputs(),) * model.states.size
    every = Inputs(range(inputs.size))
    shown = direct_inputs(model.output, inputs.size, outputs.size) or [every] * outputs.size
    if declared is True:
        return tuple(shown)
    named = dict.fromkeys(outputs.names, ()) if declared is False else declared
    claimed = [every] * outputs.size
    for name, of in named.items():
        at = [i for one in of for i in range(inputs.size)[inputs.slice(one)]]
        claimed[outputs.slice(name)] = [Inputs(at)] * len(claimed[outputs.slice(name)])
    _try_out(model, claimed)
    return tuple(a & b for a, b in zip(shown, claimed, strict=True))


def _try_out(model: Model, claimed: Sequence[Inputs]) -> None:
    plain: Any = getattr(model.output, "py_func", model.output)
    draws = np.random.default_rng(0)
    z, p = np.zeros(0), model.parameters.initial()

    def computed(t: float, x: np.ndarray, u: np.ndarray) -> np.ndarray | None:
        y = np.zeros(len(claimed))
        try:
            plain(t, x.copy(), z, u, p.copy(), y)
        except (ArithmeticError, ValueError):
            return None  # outside the domain of the function
        return y

    for k in range(_POINTS):
        t, size = float(k), 10.0 ** (k % 7 - 3)
        x = model.states.initial() + (k > 0) * size * draws.standard_normal(model.states.size)
        u = model.inputs.initial() + (k > 0) * size * draws.standard_normal(model.inputs.size)
        before = computed(t, x, u)
        for i in range(u.size):
            moved = u.copy()
            moved[i] += size * draws.uniform(0.5, 2.0)
            after = computed(t, x, moved)
            if before is None or after is None:
                continue
            alike = (before == after) | (np.isnan(before) & np.isnan(after))
            for j in np.flatnonzero(~alike).tolist():
                if i not in claimed[j]:
                    read, out = _name_at(model.inputs, i), _name_at(model.outputs, j)
                    raise ScenarioError(
                        f"Differential({model.name}): output {out} changes with input {read} at "
                        "the same instant, but feedthrough= does not say so; write feedthrough="
                        f"{{{out!r}: ({read!r},), …}}, or remove the argument"
                    )


def _name_at(signals: Signals, element: int) -> str:
    return next(s.name for s in signals if element in range(signals.size)[signals.slice(s.name)])


def _helper(function: object) -> object:
    return function if hasattr(function, "py_func") else compiled(function)  # type: ignore[type-var]


class TransportDelay(Block):
    """Delay a signal: ``y(t) = u(t - delay)``, and ``y = initial`` before ``delay`` s.

    Without ``samples``, the delayed value of ``u`` is interpolated from the solver's steps
    (docs/delays.md). Without ``samples``, the block needs one of rtsim's own solvers.

    With ``samples``, any solver works. With ``samples``, the block samples ``u`` at regular
    intervals, ``samples`` times per delay. ``interpolation`` between samples is ``"cubic"`` or
    ``"linear"``. Cubic interpolation between samples has an error of order h^4, linear
    interpolation of order h^2, for an interval h between samples. With ``samples``, a jump of ``u``
    becomes a ramp.
    """

    inputs = (Port("u"),)

    def __init__(
        self,
        delay: Duration,
        samples: int | None = None,
        initial: float = 0.0,
        interpolation: str = "cubic",
        unit: str = block.ANY,
    ) -> None:
        if interpolation not in ("linear", "cubic"):
            raise ScenarioError(
                f"TransportDelay(interpolation={interpolation!r}): give 'linear' or 'cubic'"
            )
        if samples is None and interpolation != "cubic":
            raise ScenarioError(
                "TransportDelay(interpolation='linear') needs samples=, such as samples=20; "
                "without samples, the delay interpolates as the solver does"
            )
        if samples is not None and samples < 2:
            raise ScenarioError(f"TransportDelay(samples={samples}): give at least 2")
        if exact_seconds(delay, "delay") <= 0:
            raise ScenarioError(f"TransportDelay({delay!r}): give a delay > 0 s")
        number(initial, "TransportDelay(initial=")
        self.samples, self.initial, self.cubic = samples, initial, interpolation == "cubic"
        self.unit, self.delay = unit, float(Fraction(Period.of(delay, "delay").ns) / NS_PER_S)
        self._delay_ns = Period.of(delay).ns
        self.inputs = (Port("u", unit=unit),)
        self.outputs = (Port("y", unit=unit),)

    @property
    def label(self) -> str:
        return f"delay {self.delay:g} s"

    def equations(self, wires: Wires) -> Equations:  # noqa: ARG002
        initial = Signal("initial", self.unit, initial=self.initial)
        if self.samples is not None:
            return self._sampled(self.samples, initial)
        return Equations(
            parameters=Signals(initial, Signal("delay", "s", initial=self.delay, low=1e-9)),
            delays={"late": InputDelay("u", lag="delay", before="initial")},
            output="y = late",
        )

    def _sampled(self, samples: int, initial: Signal) -> Equations:
        n, step = samples + 2, Period(self._delay_ns / samples)
        # The ring buffer covers one delay and one interval; the next sample overwrites the oldest.
        a, b, c, d = (f"buffer[(int(at) + {i}) % {n}]" for i in range(4))
        text = [f"_s = (t - since) / {step.seconds!r}", f"_b = {b}", f"_c = {c}"]
        if self.cubic:
            text += [
                f"_d = {d}",
                f"_a = 3.0 * (_b - _c) + _d if count == {samples + 1} else {a}",
                "_v = _b * (_s + 1.0) * (_s - 1.0) * (_s - 2.0) / 2.0"
                " - _c * (_s + 1.0) * _s * (_s - 2.0) / 2.0"
                " + (_d * (_s + 1.0) - _a * (_s - 2.0)) * _s * (_s - 1.0) / 6.0",
            ]
        else:
            text.append("_v = _b + _s * (_c - _b)")
        text.append(f"y = _v if count > {samples} else initial")
        buffer = Signal("buffer", self.unit, shape=(n,), initial=(self.initial,) * n)
        return Equations(
            memory=Signals(buffer, "at", "count", Signal("since", "s")),
            parameters=Signals(initial),
            output="\n".join(text),
            timers={"tick": Timer(step)},
            when=(
                When(
                    ("tick",),
                    f"_place = at\n_value = u\nat = (at + 1.0) % {n}\n"
                    "count = count + 1.0\nsince = t",
                    "buffer[int(_place)] = _value",
                ),
            ),
        )


class StateSpace(Block):
    """A linear system ``x' = A x + B u``, ``y = C x + D u``.

    The matrices have the shapes A (n, n), B (n, m), C (r, n) and D (r, m). Instead of the matrices,
    ``a`` can be an :class:`rtsim.StateSpace`, or a state space or transfer function of
    python-control or ``scipy.signal``. A sampled system reads ``u`` at each multiple of its period,
    just before the changes at that instant. Between these instants, ``y`` is constant.

    An event at ``impulse`` acts as a Dirac impulse at ``u``: the event adds the product of ``B``
    and its value, of m elements, to the state ``x``. A system with an input ``impulse`` needs ``D =
    0``, because the output would otherwise be infinite.
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
    found = {s.unit for s in signals}
    return found.pop() if given == block.ANY and len(found) == 1 else given


class TransferFunction(StateSpace):
    """A transfer function ``numerator(s) / denominator(s)``.

    Coefficients are given from the highest power of s to the lowest. Instead of the numerator, you
    can give a transfer function of python-control or ``scipy.signal``, continuous or sampled.

    The states are those of the controllable canonical form. All states start at 0.
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
    """Return a block for a linear system, or ``None`` for any other object."""
    if is_fraction(system):
        return TransferFunction(system)
    if isinstance(system, LinearSystem) or is_foreign(system):
        return StateSpace(system)
    return None


def _linear(*terms: tuple[np.ndarray, list[str]]) -> str:
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
