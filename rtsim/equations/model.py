"""Plant models written as signals and equations.

The equations are ordinary Python functions that fill a vector in place. The functions must be pure:
they use no random numbers and no clock, and print nothing. A solver also calls the equations at
trial points that are not part of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from rtsim.core.errors import ModelError, RtsimError
from rtsim.core.raised import from_outside, in_words
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.equations.addresses import EQUATION, IN_PLACE, RESET, TICK, UPDATE
from rtsim.equations.calls import check
from rtsim.equations.compiling import (
    ABSENT,
    LATER,
    Compilation,
    Native,
    plainly,
    prepared,
    shared,
)
from rtsim.equations.constraints import check_declared, explicit, trouble
from rtsim.equations.delays import Delayed, fed, resolve
from rtsim.equations.delays import Equation as Equation
from rtsim.equations.delays import Guard as Guard
from rtsim.equations.delays import Projection as Projection
from rtsim.equations.delays import Reset as Reset
from rtsim.equations.delays import Tick as Tick
from rtsim.equations.delays import Timer as Timer
from rtsim.equations.delays import Update as Update
from rtsim.equations.delays import standing as standing
from rtsim.equations.history import History
from rtsim.equations.index_bounds import Indices
from rtsim.equations.named_arguments import OUT, Arguments, NamedVector, named
from rtsim.equations.other_math import like_compiled_code
from rtsim.equations.reading_functions import check_locals, sometimes_unwritten
from rtsim.equations.same_bits import plain_at_first
from rtsim.equations.sparsity import Sparsity

_GUARD_ELEMENTS = 64
_SENTINEL = -1.2345678901234567e300
_FILLS = {
    "derivative": "dx",
    "output": "y",
    "guard": "g",
    "residual": "r",
    "mass": "m",
    "jacobian": "j",
    "line": "v",
}
_CHANGES = {
    "update": ("", "z", "changes z in place"),
    "reset": ("i, ", "x, z", "changes x and z in place"),
    "stop": ("i, ", "x, z", "changes x and z in place"),
    "tick": ("due, ", "x, z", "changes x and z in place"),
}


def arguments_of(constrained: bool = False) -> dict[str, Arguments]:
    """Return the arguments of each function of a model.

    With ``constrained``, the model has algebraic variables, named ``y``. In a model with algebraic
    variables, the vector of outputs is named ``out``.
    """
    read = "t, x, y, z, u, p" if constrained else "t, x, z, u, p"
    out = {name: Arguments(f"{read}, {fills}", fills) for name, fills in _FILLS.items()}
    if constrained:
        out["output"] = Arguments(f"{read}, {OUT}", OUT)
    for name, (first, changes, does) in _CHANGES.items():
        out[name] = Arguments(first + read, changes=changes, does=does)
    return out | {"project": Arguments("x", "x")}


def vectors_of(x: Signals, z: Signals, u: Signals, p: Signals) -> dict[str, NamedVector]:
    roles = {"x": "state", "z": "discrete signal", "u": "input", "p": "parameter"}
    return {n: NamedVector(s, roles[n]) for n, s in zip("xzup", (x, z, u, p), strict=True)}


def _with_names(model: Model) -> dict[str, Any]:
    vectors = vectors_of(model.states, model.discrete, model.inputs, model.parameters)
    out: dict[str, Any] = {"delays": tuple(one.with_names(vectors) for one in model.delays)}
    vectors["u"] = NamedVector(fed(model), "input")
    if model.algebraic.size:
        vectors["y"] = NamedVector(model.algebraic, "algebraic variable")
    filled = {
        "dx": NamedVector(model.states, "state"),
        "y": NamedVector(model.outputs, "output"),
        OUT: NamedVector(model.outputs, "output"),
        "g": NamedVector(Signals(*(guard.name for guard in model.guards)), "guard"),
        "r": NamedVector(model.algebraic, "algebraic variable"),
        "v": NamedVector(model.lines, "line"),
    }
    for name, arguments in arguments_of(model.algebraic.size > 0).items():
        function, fills = getattr(model, name), arguments.fills
        if callable(function):
            own = {fills: filled[fills]} if fills in filled else {}
            what = f"{name} of model {model.name}"
            out[name] = named(function, arguments, what, vectors | own)
    return out


@dataclass(frozen=True)
class Model:
    """A plant with dx/dt = derivative(t, x, z, u, p) and y = output(t, x, z, u, p).

    Each function declares the arguments that it needs, by name and in any order. A function must
    declare the vector that it fills, such as ``dx``. Functions read and assign signals by name or
    by index: ``x.speed`` or ``x[1]``. The name of an array signal stands for all its elements.

    - ``states``, ``discrete``, ``inputs``, ``outputs``, ``parameters``: the signals in x, z, u, y
      and p. Values are in SI units unless a signal declares another unit.
    - ``derivative`` is ``None`` if the states are constant between events. A model may have no
      states.
    - ``update(t, x, z, u, p)``: changes z once per sample period. The scenario declares the period.
    - ``project(x)``: corrects the states after each step.
    - ``guard(t, x, z, u, p, g)``: fills one value for each guard in ``guards``. When a guard
      crosses zero, ``reset(i, t, x, z, u, p)`` is called.
    - ``stop(i, t, x, z, u, p)``: the stop mode of the model. ``stop`` is called instead of
      ``reset`` if a guard fires infinitely often in a finite time (Zeno behaviour).
    - ``tick(due, t, x, z, u, p)`` is called at each tick of a timer in ``timers``.
    - ``delays``: delayed signals of the model. The functions receive delayed signals at the end of
      the inputs u (docs/delays.md).
    - ``line(t, x, z, u, p, v)``: fills the signals of ``lines``. Only the entries of ``delays`` can
      use the signals of ``lines``.
    - ``modes``: names for the values 0, 1, ... of the last discrete signal
      (:mod:`rtsim.equations.modal`).
    - ``sparsity`` is an array or a SciPy sparse matrix of shape (n, n) for n states. A zero in
      element (i, j) declares that ``dx[i]`` never depends on ``x[j]``. Without ``sparsity``,
      solvers for stiff equations find the sparsity of a large model themselves (docs/sparse.md).
    - ``jacobian(t, x, z, u, p, j)``: fills the derivatives of ``dx[i]`` with respect to ``x[k]``,
      row by row. The vector j has n * n elements, or the elements that ``sparsity`` declares.
    - ``algebraic``: the algebraic variables y. ``residual(t, x, y, z, u, p, r)`` fills the
      residuals, which are solved for y. With algebraic variables, all functions except ``project``
      have the argument y after x.
    - ``mass`` is the mass matrix M in M x' = derivative. Give rows of numbers, or a function
      ``mass(t, x, z, u, p, m)`` that fills ``m`` of shape (n, n).
    - ``assumptions`` and ``limits`` are texts for the recording.

    A parameter that changes during a run changes at a tag.

    Raises ``ModelError`` if functions and signals do not match, or if a function uses an unknown
    argument or signal.

    Example:
        def derivative(x, u, p, dx):
            dx.temperature = (u.supply - x.temperature) / p.time_constant

        heater = Model(
            "heater",
            states=Signals("temperature [K]"),
            inputs=Signals("supply [K]"),
            parameters=Signals(Signal("time_constant", "s", initial=20.0)),
            derivative=derivative,
        )
    """

    name: str
    states: Signals = Signals()
    derivative: Equation | None = None
    discrete: Signals = Signals()
    inputs: Signals = Signals()
    outputs: Signals = Signals()
    parameters: Signals = Signals()
    output: Equation | None = None
    update: Update | Equation | None = None
    project: Projection | None = None
    guards: tuple[Guard, ...] = ()
    guard: Equation | None = None
    reset: Reset | None = None
    stop: Reset | None = None
    timers: tuple[Timer, ...] = ()
    tick: Tick | None = None
    modes: tuple[str, ...] = ()
    sparsity: Any = field(default=None, compare=False)
    jacobian: Equation | None = None
    assumptions: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    delays: tuple[Delayed, ...] = ()
    lines: Signals = Signals()
    line: Equation | None = None
    algebraic: Signals = Signals()
    residual: Equation | None = None
    mass: Sequence[Sequence[float]] | Vector | Callable[..., None] | None = None
    origin: Model | None = None
    """The original model, if this model was made from a model with constraints. Set by rtsim."""

    def __post_init__(self) -> None:
        for name, arguments in arguments_of(self.algebraic.size > 0).items():
            function = getattr(self, name)
            if not (function is None or callable(function) or name == "mass"):
                raise ModelError(
                    f"{name} of model {self.name} is {function!r}; give a function of "
                    f"({arguments.text}), or None"
                )
        if self.outputs.size and self.output is None:
            raise ModelError(f"model {self.name} declares outputs but has no output function")
        if self.update is not None and not self.discrete.size:
            raise ModelError(f"model {self.name} has an update function but no discrete signals")
        self._check_pair("guards", bool(self.guards), "guard")
        if not self.guards and (self.reset is not None or self.stop is not None):
            raise ModelError(f"model {self.name} has a reset or stop function but no guards")
        self._check_pair("timers", bool(self.timers), "tick")
        for drawn in (name for timer in self.timers for name in timer.draws):
            if drawn not in self.discrete:
                raise ModelError(
                    f"a timer of model {self.name} draws random values of {drawn}, which is "
                    f"not a discrete signal of the model; declare {drawn} as discrete"
                )
        if self.sparsity is not None:
            found = Sparsity.of(self.sparsity, self.states.size, f"sparsity of model {self.name}")
            object.__setattr__(self, "sparsity", found)
        names = [g.name for g in self.guards]
        if len(set(names)) != len(names):
            raise ModelError(
                f"model {self.name} has two guards with the same name: {', '.join(names)}"
            )
        for guard in self.guards:
            for name in guard.report:
                if name not in self.discrete or self.discrete[name].shape:
                    raise ModelError(
                        f"guard {guard.name} of model {self.name} reports {name}, which is not a "
                        f"scalar discrete signal of the model; declare {name} as discrete"
                    )
        check_declared(self)
        in_class = " (in a class: line() and the method lines)"
        self._check_pair("lines", bool(self.lines.size), "line", in_class)
        if self.delays:
            resolve(self)
        if self.origin is None:
            for name, function in _with_names(self).items():
                object.__setattr__(self, name, function)

    def _check_pair(self, what: str, given: bool, function: str, in_class: str = "") -> None:
        if given != (getattr(self, function) is not None):
            has, lacks = (what, function) if given else (function, what)
            raise ModelError(
                f"model {self.name} has {has}= but no {lacks}=; give both, or neither{in_class}"
            )

    @cached_property
    def readable(self) -> Signals:
        """All signals that other components can read."""
        return Signals(*self.states, *self.discrete, *self.inputs, *self.outputs)

    @property
    def elements(self) -> Signals:
        """The number of elements that the function ``jacobian`` must fill."""
        whole = self.states.size**2
        count = whole if self.sparsity is None else self.sparsity.count
        return Signals(Signal("j", shape=(count,))) if count else Signals()


@dataclass(frozen=True)
class BoundModel:
    """A model whose functions are ready to run, compiled or in plain Python."""

    model: Model
    derivative: Native
    output: Native
    update: Native
    project: Native
    compiled: bool
    guard: Native = ABSENT
    reset: Native = ABSENT
    stop: Native = ABSENT
    tick: Native = ABSENT
    jacobian: Native = ABSENT
    history: History | None = None
    """The history of the model's signals, or ``None`` if the model has no delays."""
    later: bool = False
    """True if the functions run as plain Python with the same bits as their machine code."""

    def in_machine_code(self) -> BoundModel:
        """Return the compiled model without another check of its functions."""
        return _prepared(self.model, True)


_SIGNATURES = {
    "derivative": EQUATION,
    "output": EQUATION,
    "update": UPDATE,
    "project": IN_PLACE,
    "guard": EQUATION,
    "reset": RESET,
    "stop": RESET,
    "tick": TICK,
    "jacobian": EQUATION,
}


def _prepared(model: Model, compile: Compilation) -> BoundModel:
    given = {name: getattr(model, name) for name in _SIGNATURES}
    given["derivative"] = given["derivative"] or standing
    functions = {name: function for name, function in given.items() if function is not None}
    indices = Indices()
    checked = {
        name: not indices.check(one, _sizes(model, name), f"{name} of model {model.name}")
        for name, one in functions.items()
    }
    plain = _plain_at_first(model, functions, checked) if compile == LATER else {}
    if plain:
        return replace(_bound(model, plain, compiled=False), later=True)
    ready = {}
    for name, function in functions.items():
        what, signature = f"{name} of model {model.name}", _SIGNATURES[name]
        if compile:
            ready[name] = prepared(function, signature, what, compile, checked[name])
        else:
            own = getattr(function, "py_func", function)
            alike = like_compiled_code(own, in_place=signature != EQUATION)
            ready[name] = replace(Native.plain(alike, signature), py_func=own)
    return _bound(model, ready, compiled=bool(compile))


def _bound(model: Model, natives: Mapping[str, Native], compiled: bool) -> BoundModel:
    def made(name: str) -> Native:
        return natives.get(name, ABSENT)

    return BoundModel(
        model,
        made("derivative"),
        made("output"),
        made("update"),
        made("project"),
        compiled,
        made("guard"),
        made("reset"),
        made("stop"),
        made("tick"),
        made("jacobian"),
    )


def _sizes(model: Model, name: str) -> list[int | None]:
    known = {
        "x": model.states.size, "z": model.discrete.size, "u": fed(model).size,
        "p": model.parameters.size, "due": len(model.timers), "dx": model.states.size,
        "y": sampled(model).size, "g": len(model.guards), "j": model.elements.size,
    }  # fmt: skip
    return [known.get(letter) for letter in arguments_of()[name].names]


def _plain_at_first(
    model: Model, functions: Mapping[str, Any], checked: Mapping[str, bool]
) -> dict[str, Native]:
    if model.delays or model.origin is not None or model.jacobian is not None:
        return {}
    return plain_at_first(
        {name: (one, _SIGNATURES[name], checked[name]) for name, one in functions.items()}
    )


def bind(
    model: Model,
    *,
    compile: Compilation = True,
    x: Vector | None = None,
    p: Vector | None = None,
    u: Vector | None = None,
    z: Vector | None = None,
) -> BoundModel:
    """Prepare ``model`` for a run, and call each of its functions once as a test.

    The test calls use ``x``, ``p``, ``u`` and ``z``, by default the declared initial values. See
    :data:`rtsim.equations.compiling.Compilation` for ``compile``.

    Raises ``ModelError`` if a function fails, cannot be compiled, or returns wrong results.
    """
    _check_paths(model.origin or model)  # the functions of the user
    for name in arguments_of():
        function = getattr(model, name)
        if callable(function):
            check_locals(function, f"{name} of model {model.name}")
    with shared():
        bound = _prepared(explicit(model), compile)
    model = bound.model
    history = History(bound, compile) if model.delays else None
    start = {"x": x, "u": u, "p": p, "z": z}
    _begin(model, start)
    if history is not None:
        given = (("x", model.states), ("z", model.discrete), ("u", model.inputs))
        first_x, first_z, first_u = (_given(start.get(n), layout) for n, layout in given)
        start["u"] = history.first(first_x, first_z, first_u, _given(p, model.parameters))
    for name, native, out in (
        *([] if history is None else [("line", history.line, model.lines)]),
        ("derivative", bound.derivative, model.states),
        ("output", bound.output, sampled(model)),
        ("guard", bound.guard, Signals(*(g.name for g in model.guards))),
        ("jacobian", bound.jacobian, model.elements),
    ):
        if native is not ABSENT:
            with np.errstate(all="ignore"):  # as in machine code, where 1/0 is no error
                _probe(model, name, native, out, start)
    if bound.project is not ABSENT:
        states = model.states.initial() if x is None else x
        try:
            check(bound.project, states)
        except IndexError as error:
            raise ModelError(
                f"the function project of model {model.name} {_no_such(error)}; the vector x of "
                f"the model has {model.states.size} elements"
            ) from error
    return bound if history is None else history.wrapped()


def _given(values: Vector | None, layout: Signals) -> Vector:
    return layout.initial() if values is None else values


def sampled(model: Model) -> Signals:
    """Return the signals that the output function fills.

    Without outputs, these are the algebraic variables.
    """
    if model.outputs.size or model.origin is None:
        return model.outputs
    return model.origin.algebraic


def _begin(model: Model, start: Mapping[str, Vector | None]) -> None:
    origin = model.origin
    if origin is None or origin.residual is None:
        return
    given, first = origin.residual, origin.discrete.size
    plain = getattr(given, "py_func", given)

    def residual(t: float, x: Vector, z: Vector, u: Vector, p: Vector, r: Vector) -> None:
        plain(t, x, z[first:], z[:first], u, p, r)

    with plainly():
        _probe(model, "residual", Native.plain(residual, EQUATION), origin.algebraic, start)
    layouts = {"x": model.states, "z": model.discrete, "u": model.inputs, "p": model.parameters}
    vectors = [
        layout.initial() if (value := start.get(letter)) is None else value
        for letter, layout in layouts.items()
    ]
    said = trouble(origin, 0.0, *vectors)
    if said:
        raise ModelError(
            f"the algebraic equations of model {model.name} have no solution at the initial "
            f"values: {said}"
        )


def _no_such(error: IndexError) -> str:
    return f"uses an element that does not exist ({in_words(error)})"


def _check_paths(model: Model) -> None:
    arguments = arguments_of(model.algebraic.size > 0)
    for name, out in (
        ("derivative", model.states),
        ("output", model.outputs),
        ("residual", model.algebraic),
        ("guard", Signals(*(g.name for g in model.guards))),
        ("line", model.lines),
        ("jacobian", model.elements),
    ):
        function, position = getattr(model, name), len(arguments[name].names) - 1
        if function is None:
            continue
        for i, line in sometimes_unwritten(function, position, out.size).items():
            place = f"{getattr(function, 'py_func', function).__code__.co_filename}:{line}"
            raise ModelError(
                f"{name} of model {model.name} does not write {out.columns[i]} on every path "
                f"({place}); without a value it would keep that of an earlier call: write it "
                "before the if, or in its else"
            )


def _probe(
    model: Model, name: str, native: Native, out: Signals, start: Mapping[str, Vector | None]
) -> None:
    where = f"{name} of model {model.name}"
    layouts = {
        "x": model.states,
        "z": model.discrete,
        "u": fed(model),
        "p": model.parameters,
    }
    vectors: list[Vector] = []
    fences: list[tuple[str, Signals, Vector]] = []
    for letter, layout in (*layouts.items(), ("out", out)):
        given = start.get(letter)
        fence, vector = _fenced(layout.initial() if given is None else given)
        fences.append((letter, layout, fence))
        vectors.append(vector)
    vectors[-1].fill(_SENTINEL)
    try:
        check(native, 0.0, *vectors)
        native.call(0.0, *vectors)
    except IndexError as error:
        raise ModelError(
            f"{where} {_no_such(error)}; its vectors have "
            + ", ".join(f"{k}: {s.size}" for k, s in (*layouts.items(), ("out", out)))
        ) from error
    except BaseException as error:
        if isinstance(error, RtsimError) or from_outside(error):
            raise
        raise ModelError(
            f"{where} raised an error at the initial values: {in_words(error)}; "
            "check the initial state and the parameters"
        ) from error
    for letter, layout, fence in fences:
        edges = np.concatenate((fence[:_GUARD_ELEMENTS], fence[-_GUARD_ELEMENTS:]))
        if np.any(edges != _SENTINEL):
            raise ModelError(
                f"{where} writes outside its vector {letter}, which has {layout.size} elements "
                f"({', '.join(layout.columns)}); declare the missing signals or correct the index"
            )
    for (letter, layout), vector in zip(layouts.items(), vectors, strict=False):
        if model.origin is not None:
            break  # the search stores its solution in z, where the next search begins
        first = _given(start.get(letter), layout)
        same = (vector == first) | (np.isnan(vector) & np.isnan(first))
        if not same.all():
            i = int(same.argmin())
            raise ModelError(
                f"{where} changes {layout.columns[i]} from {first[i]:g} to {vector[i]:g}, but may "
                f"only read the vector {letter}; change a copy of the vector"
            )
    for i, value in enumerate(vectors[-1]):
        if value == _SENTINEL:
            raise ModelError(
                f"{where} never writes element {i} ({out.columns[i]}); "
                f"it must fill all {out.size} elements"
            )
        if not np.isfinite(value):
            raise ModelError(
                f"{where} returns {value} for {out.columns[i]} at the initial values; check "
                "the initial state and the parameters"
            )


def _fenced(values: Vector) -> tuple[Vector, Vector]:
    fence = np.full(values.size + 2 * _GUARD_ELEMENTS, _SENTINEL)
    vector = fence[_GUARD_ELEMENTS : _GUARD_ELEMENTS + values.size]
    vector[:] = values
    return fence, vector
