"""Base class of plants: signals are fields, and equations and events are methods."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal, TypeVar, overload

from rtsim.core.errors import ModelError
from rtsim.core.tag import Duration, Period, declared_ns
from rtsim.equations.compiling import like_its_caller
from rtsim.equations.delays import Delayed, Guard, Timer
from rtsim.equations.model import Model
from rtsim.equations.rewriting import calling
from rtsim.named.fields import (
    ALGEBRAIC,
    DELAYED,
    INPUT,
    LINE,
    MEMORY,
    OUTPUT,
    PARAMETER,
    ROLES,
    STATE,
    NamedSignals,
)
from rtsim.named.lowering import (
    TIME,
    VECTORS,
    Form,
    Lowered,
    element_of_call,
    lowered,
    made_once,
)

Method = Callable[[Any], None]
M = TypeVar("M", bound=Callable[[Any], Any])


class guard:
    """A guard of a plant: a method whose value is checked for zero crossings.

    Declare one with :func:`rising`, :func:`falling` or :func:`crossing`. ``@NAME.reset`` marks the
    method to call when the guard NAME fires. ``@NAME.stop`` marks the method to call when the guard
    fires infinitely often in a finite time (Zeno).
    """

    def __init__(
        self, level: Callable[[Any], float], direction: int, options: dict[str, Any]
    ) -> None:
        self.level = level
        self.direction, self.options = direction, options
        self.on_reset: Method | None = None
        self.on_stop: Method | None = None
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def _check_open(self, method: Any) -> None:
        if self.name:
            raise ModelError(
                f"{getattr(method, '__qualname__', method)} would change guard {self.name} in the "
                "base class itself; instead, override the reset or stop of the base class by a "
                "method with the same name, without a decorator"
            )
        if getattr(method, "__name__", "") == getattr(self.level, "__name__", ""):
            raise ModelError(
                f"{method.__qualname__} has the same name as its guard and would replace the "
                "guard; give the method of @reset or @stop another name"
            )

    @property
    def functions(self) -> tuple[Any, ...]:
        return (self.level, self.on_reset, self.on_stop)

    def reset(self, method: M) -> M:
        """Mark the method that sets states and memory when the guard fires."""
        self._check_open(method)
        self.on_reset = method
        return method

    def stop(self, method: M) -> M:
        """Mark the method to call when the guard fires infinitely often in a finite time (Zeno)."""
        self._check_open(method)
        self.on_stop = method
        return method


def _guard(direction: int, level: Any, options: dict[str, Any]) -> Any:
    if level is None:
        return lambda method: guard(method, direction, options)
    if not callable(level):
        raise ModelError(
            f"the decorator of a guard has the argument {level!r}; write the decorator directly "
            "above a method, with options by name, as in @falling(terminal=True)"
        )
    return guard(level, direction, options)


Level = Callable[[Any], Any]
Terminal = bool | Literal["zeno"]


@overload
def rising(level: Level) -> guard: ...
@overload
def rising(
    *, terminal: Terminal = False, failure: str = "", at_start: bool = False,
    report: Sequence[str] = (),
) -> Callable[[Level], guard]: ...  # fmt: skip
def rising(level: Level | None = None, **options: Any) -> Any:
    """Declare a guard that fires when the value of the method rises through zero.

    Options:

    - ``terminal=True`` ends the run when the guard fires; ``terminal="zeno"`` ends the run at a
      Zeno point.
    - ``failure`` is the reason why a run that this guard ends counts as failed.
    - With ``at_start=True``, the guard also fires at the start if its value is already positive.
    - ``report`` contains the names of memory fields that rtsim records with the event.

    Example:
        class Fall(Plant):
            height = state("m", 1.0)

            @rising
            def floor(self):
                return self.height

            @floor.reset
            def lift(self):
                self.height = 1.0
    """
    return _guard(1, level, options)


@overload
def falling(level: Level) -> guard: ...
@overload
def falling(
    *, terminal: Terminal = False, failure: str = "", at_start: bool = False,
    report: Sequence[str] = (),
) -> Callable[[Level], guard]: ...  # fmt: skip
def falling(level: Level | None = None, **options: Any) -> Any:
    """Declare a guard that fires when its value falls through zero, with the options of ``rising``.

    Example:
        class Fall(Plant):
            height = state("m", 1.0)

            @falling
            def floor(self):
                return self.height

            @floor.reset
            def lift(self):
                self.height = 1.0
    """
    return _guard(-1, level, options)


@overload
def crossing(level: Level) -> guard: ...
@overload
def crossing(
    *, terminal: Terminal = False, failure: str = "", report: Sequence[str] = ()
) -> Callable[[Level], guard]: ...
def crossing(level: Level | None = None, **options: Any) -> Any:
    """Declare a guard that fires when the value of the method crosses zero.

    The options have the same meaning as for ``rising``.

    Example:
        class Fall(Plant):
            height = state("m", 1.0)

            @crossing
            def floor(self):
                return self.height

            @floor.reset
            def lift(self):
                self.height = 1.0
    """
    return _guard(0, level, options)


@dataclass(frozen=True, eq=False)
class _Ticks:
    level: Method
    timer: Timer


def every(
    period: Duration | Fraction | Period, *, offset: Duration = 0, draws: Sequence[str] = ()
) -> Callable[[Method], _Ticks]:
    """Declare a method that is called every ``period`` s, first at ``offset`` s.

    Memory fields in ``draws`` receive a new random number from N(0, 1) before each call.

    Example:
        class Counter(Plant):
            count = memory()

            @every(0.25)
            def tick(self):
                self.count += 1
    """
    timer = Timer(Period.of(period), declared_ns(offset, "offset"), tuple(draws))
    return lambda method: _Ticks(method, timer)


def once(at: Duration, *, draws: Sequence[str] = ()) -> Callable[[Method], _Ticks]:
    """Declare a method that is called once, at ``at`` s.

    Example:
        class Filled(Plant):
            level = state("m")

            @once(2.5)
            def fill(self):
                self.level = 1.0
    """
    timer = Timer(None, declared_ns(at, "at"), tuple(draws))
    return lambda method: _Ticks(method, timer)


METHODS = ("derivative", "outputs", "update", "residual", "lines", "project")
"""Names of the methods that rtsim calls."""


class Plant(NamedSignals):
    """Base class of a plant with states, outputs, guards, timers and algebraic variables.

    Declare fields with :func:`rtsim.state`, :func:`rtsim.input`, :func:`rtsim.output`,
    :func:`rtsim.parameter`, :func:`rtsim.memory`, :func:`rtsim.mode`, :func:`rtsim.delayed` and
    :func:`rtsim.algebraic`.  Define only the methods that the plant needs:

    - ``derivative(self, d)`` assigns the time derivative ``d.NAME`` of each state.
    - ``outputs(self)`` assigns each output.
    - ``update(self)`` changes memory once per ``update_period`` of the scenario.
    - ``residual(self, r)`` assigns ``r.NAME`` for each algebraic variable; the solver makes all
      residuals zero.
    - ``lines(self)`` computes values that serve only as sources of delayed signals.
    - ``project(self)`` corrects states that violate their constraint, after each step.

    Class attributes ``mass_matrix``, ``sparsity``, ``assumptions`` and ``limits`` are those of
    :class:`rtsim.Model`.

    Example:
        class Tank(Plant):
            level = state("m", 1.0)
            leak = parameter("1/s", 0.1)

            def derivative(self, d):
                d.level = -self.leak * self.level
    """

    roles = frozenset(ROLES)
    reserved = METHODS
    mass_matrix: ClassVar[Any] = None
    sparsity: ClassVar[Any] = None
    assumptions: ClassVar[tuple[str, ...]] = ()
    limits: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def model(cls) -> Model:
        """Return the class as a ``Model``; raise ``ModelError`` for mistakes in the class."""
        owner: Any = cls
        return made_once(owner, _model)


CHANGES = frozenset((STATE, MEMORY))
"""Roles of the fields that events can change."""


def _model(cls: Any, made: Lowered) -> Model:
    signals = {role: cls.signals(role) for role in ROLES}
    if signals[STATE].size and getattr(cls, "derivative", None) is None:
        methods = [n for n in dir(cls) if inspect.isfunction(getattr(cls, n, None)) and n[0] != "_"]
        near = difflib.get_close_matches("derivative", methods, 1)
        raise ModelError(
            f"{cls.__name__} has states but no method derivative(self, d)"
            + (f"; is {near[0]} meant?" if near else "; what only events change is rtsim.memory()")
        )
    if signals[OUTPUT].size and getattr(cls, "outputs", None) is None:
        raise ModelError(
            f"{cls.__name__} has outputs ({', '.join(signals[OUTPUT].names)}) but no method "
            "outputs(self)" + ("; is output meant?" if hasattr(cls, "output") else "")
        )
    base = (
        TIME,
        VECTORS[STATE],
        *((VECTORS[ALGEBRAIC],) if signals[ALGEBRAIC].size else ()),
        *(VECTORS[role] for role in (MEMORY, INPUT, PARAMETER)),
    )
    forms = {
        "derivative": Form((*base, "_dx"), second=("_dx", STATE), name="derivative"),
        "outputs": Form((*base, VECTORS[OUTPUT]), frozenset((OUTPUT,)), name="outputs"),
        "update": Form(base, frozenset((MEMORY,)), name="update"),
        "residual": Form((*base, "_r"), second=("_r", ALGEBRAIC), name="residual"),
        "lines": Form((*base, VECTORS[LINE]), frozenset((LINE,)), name="lines"),
        "project": Form((VECTORS[STATE],), frozenset((STATE,)), name="project"),
    }
    known = {"outputs": "output", "lines": "line"}
    functions: dict[str, Any] = {
        known.get(name, name): lowered(cls, method, forms[name], made)
        for name in METHODS
        if (method := getattr(cls, name, None)) is not None
    }
    guards = _declared(cls, guard)
    if guards:
        functions |= _events(cls, guards, base, made)
    ticks = _declared(cls, _Ticks)
    if ticks:
        called = [
            lowered(cls, one.level, Form(base, CHANGES, name=n), made) for n, one in ticks.items()
        ]
        functions["timers"] = tuple(one.timer for one in ticks.values())
        functions["tick"] = _dispatcher("due", base, called, "due[{k}] == 1.0")
    return Model(
        cls.default_name(),
        states=signals[STATE],
        discrete=signals[MEMORY],
        inputs=signals[INPUT],
        outputs=signals[OUTPUT],
        parameters=signals[PARAMETER],
        algebraic=signals[ALGEBRAIC],
        lines=signals[LINE],
        delays=tuple(_delays(cls, base, made)),
        modes=next((f.modes for f in cls.fields.values() if f.modes), ()),
        mass=cls.mass_matrix,
        sparsity=cls.sparsity,
        assumptions=tuple(cls.assumptions),
        limits=tuple(cls.limits),
        **functions,
    )


K = TypeVar("K")


def _declared(cls: type, kind: type[K]) -> dict[str, K]:
    out: dict[str, K] = {}
    for base in reversed(cls.__mro__):
        for name, value in vars(base).items():
            if isinstance(value, kind):
                out[name] = value
            elif name in out:
                what, more = ("guard", " with its reset") if kind is guard else ("timer", "")
                raise ModelError(
                    f"{base.__name__}.{name} would replace the {what} {name} of a base class, but "
                    f"is not a {what}; choose another name, or declare a {what}{more}"
                )
    return out


def _latest(cls: type, event: object, method: Any) -> Any:
    for base in cls.__mro__:
        if any(value is event for value in vars(base).values()):
            return method
        own = vars(base).get(method.__name__)
        if inspect.isfunction(own):
            return own
    return method


def _events(
    cls: type[Plant], guards: dict[str, guard], base: tuple[str, ...], made: Lowered
) -> dict[str, Any]:
    levels, declared, actions = [], [], {"reset": {}, "stop": {}}  # type: ignore[var-annotated]
    for k, (name, one) in enumerate(guards.items()):
        levels.append(lowered(cls, one.level, Form(base, name=f"guard {name}"), made))
        for what, method in (("reset", one.on_reset), ("stop", one.on_stop)):
            if method is not None:
                method = _latest(cls, one, method)
                form = Form(base, CHANGES, name=f"{name}.{what}")
                actions[what][k] = lowered(cls, method, form, made)
        options = dict(one.options)
        if "report" in options:
            options["report"] = tuple(options["report"])
        declared.append(Guard(name, one.direction, stops=one.on_stop is not None, **options))
    out: dict[str, Any] = {
        "guards": tuple(declared),
        "guard": _filling("_g", base, levels),
    }
    for what, methods in actions.items():
        if methods:
            out[what] = _dispatcher("_i", base, list(methods.values()), "_i == {k}", list(methods))
    return out


def _filling(vector: str, base: tuple[str, ...], levels: Sequence[Any]) -> Any:
    lines: list[str] = []
    called: list[Any] = []
    results: dict[tuple[Any, str], str] = {}
    for k, level in enumerate(levels):
        helper, given, index = element_of_call(level) or (level, ", ".join(base), None)
        result = f"_f{len(called)}({given})"
        if index is not None:
            call = (helper, given)
            if call not in results:
                results[call] = f"_r{len(results)}"
                lines.append(f"{results[call]} = {result}")
                called.append(helper)
            result = f"{results[call]}[{index}]"
        else:
            called.append(helper)
        lines.append(f"{vector}[{k}] = {result}")
    return calling((*base, vector), lines, list(map(like_its_caller, called)), levels[0])


def _dispatcher(
    first: str,
    base: tuple[str, ...],
    methods: Sequence[Any],
    condition: str,
    numbers: Sequence[int] = (),
) -> Any:
    lines = []
    for n, k in enumerate(numbers or range(len(methods))):
        lines += [f"if {condition.format(k=k)}:", f"    _f{n}({', '.join(base)})"]
    return calling((first, *base), lines, list(map(like_its_caller, methods)), methods[0])


def _delays(cls: type[Plant], base: tuple[str, ...], made: Lowered) -> list[Delayed]:
    out = []
    for name, field in cls.fields.items():
        if field.role != DELAYED:
            continue
        assert field.delay is not None
        signal, lag, before, least, most = field.delay
        method = getattr(cls, lag, None) if isinstance(lag, str) else None
        if callable(method):
            lag = lowered(cls, method, Form(base, name=f"the lag {lag}"), made)
        out.append(Delayed(signal, lag, least=least, most=most, before=before, name=name))
    return out
