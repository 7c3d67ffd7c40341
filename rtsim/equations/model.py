"""Model: constant data and pure functions; bound to machine code once, before time starts.

The equations are ordinary Python functions that fill a vector in place.  They are pure: no random
draw, no wall clock, no logging, because a solver calls them at points that may never be committed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from rtsim.core.errors import ModelError, RtsimError
from rtsim.core.raised import from_outside, in_words
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import Period
from rtsim.equations.addresses import EQUATION, IN_PLACE, RESET, TICK, UPDATE, Signature
from rtsim.equations.compiling import ABSENT, Compilation, Native, check_arguments, prepared
from rtsim.equations.first_call import check

Equation = Callable[[float, Vector, Vector, Vector, Vector, Vector], None]
"""``(t, x, z, u, p, out)``: t in s, x (n,), z (d,), u (m,), p (k,); fills ``out`` in place."""
Update = Callable[[float, Vector, Vector, Vector, Vector], None]
"""``(t, x, z, u, p)``: the discrete part at its ticks, in place on z."""
Reset = Callable[[int, float, Vector, Vector, Vector, Vector], None]
"""``(i, t, x, z, u, p)``: guard ``i`` has fired; x- and z- become x+ and z+, in place."""
Tick = Callable[[Vector, float, Vector, Vector, Vector, Vector], None]
"""``(due, t, x, z, u, p)``: ``due[k]`` is 1 where timer ``k`` ticks now, else 0; x- and z- become
x+ and z+, in place."""
Projection = Callable[[Vector], None]
"""``(x)``: puts an accepted state back on its manifold, in place (a unit quaternion)."""

_GUARD_ELEMENTS = 64
_SENTINEL = -1.2345678901234567e300


@dataclass(frozen=True)
class Guard:
    """A function of the state that is watched for zero crossings.

    ``direction``: +1 rising (from below zero to above it), -1 falling, 0 both.  A guard that stands
    at zero when a step begins fires if it leaves zero in its direction, and with direction 0 not.
    ``terminal``: the run ends with the tag at which it fires.  ``stops``: the model's stop mode is
    meant for it too.
    """

    name: str
    direction: int = 0
    terminal: bool = False
    stops: bool = True

    def __post_init__(self) -> None:
        if self.direction not in (-1, 0, 1):
            raise ModelError(f"guard {self.name} has direction {self.direction}; give -1, 0 or 1")
        if not self.name.isidentifier():
            raise ModelError(
                f"guard name {self.name!r} is not an identifier; use letters, digits and _"
            )


@dataclass(frozen=True)
class Timer:
    """Instants at which a model changes by itself: ``offset_ns + round(k * period)``, or once.

    ``draws`` names discrete signals: each of their elements is drawn anew from N(0, 1) at each
    tick, before ``tick`` sees it, from a stream that is named after the plant and the signal.
    """

    period: Period | None
    offset_ns: int = 0
    draws: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.offset_ns < 0:
            raise ModelError(f"a timer has an offset of {self.offset_ns} ns; it must be >= 0")


@dataclass(frozen=True)
class Model:
    """A plant: dx/dt = derivative(t, x, z, u, p), y = output(t, x, z, u, p).

    SI units unless a signal says otherwise.  ``assumptions`` and ``limits`` are stated in every
    recording.  A parameter changed while running is a new ``p`` at a tag.

    ``guard(t, x, z, u, p, g)`` fills one value for each of ``guards``; when one crosses zero, a tag
    is inserted and ``reset(i, t, x, z, u, p)`` makes x- and z- to x+ and z+.  ``stop``, of the same
    form, is called instead where crossings accumulate (Zeno): the model's stop mode.

    ``tick(due, t, x, z, u, p)`` is called once at each instant at which any of ``timers`` ticks.
    Unlike ``update``, whose period is the scenario's, they are part of the model.

    ``modes`` names the values 0, 1, ... of the last discrete signal (:mod:`rtsim.equations.modal`).
    """

    name: str
    states: Signals
    derivative: Equation
    discrete: Signals = Signals()
    inputs: Signals = Signals()
    outputs: Signals = Signals()
    parameters: Signals = Signals()
    output: Equation | None = None
    update: Update | None = None
    project: Projection | None = None
    guards: tuple[Guard, ...] = ()
    guard: Equation | None = None
    reset: Reset | None = None
    stop: Reset | None = None
    timers: tuple[Timer, ...] = ()
    tick: Tick | None = None
    modes: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.outputs.size and self.output is None:
            raise ModelError(f"model {self.name} declares outputs but has no output function")
        if self.update is not None and not self.discrete.size:
            raise ModelError(f"model {self.name} has an update function but no discrete signals")
        if bool(self.guards) != (self.guard is not None):
            raise ModelError(
                f"model {self.name} needs both guards and the function guard, or neither"
            )
        if not self.guards and (self.reset is not None or self.stop is not None):
            raise ModelError(f"model {self.name} has a reset or stop function but no guards")
        if bool(self.timers) != (self.tick is not None):
            raise ModelError(
                f"model {self.name} needs both timers and the function tick, or neither"
            )
        for drawn in (name for timer in self.timers for name in timer.draws):
            if drawn not in self.discrete:
                raise ModelError(
                    f"a timer of model {self.name} draws {drawn}, which is not a discrete signal"
                )
        names = [g.name for g in self.guards]
        if len(set(names)) != len(names):
            raise ModelError(
                f"model {self.name} has two guards with the same name: {', '.join(names)}"
            )


@dataclass(frozen=True)
class BoundModel:
    """A model whose functions are ready to run, with the vectors' layouts at hand."""

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


def bind(
    model: Model,
    *,
    compile: Compilation = True,
    x: Vector | None = None,
    p: Vector | None = None,
    u: Vector | None = None,
) -> BoundModel:
    """Make ``model`` ready to run, and try each function once at its initial values.

    Raises :class:`ModelError` where a function takes other arguments, does not compile, raises,
    leaves elements unwritten, writes past its vector or returns NaN at the start.
    """

    def ready(
        function: Callable[..., None] | None, signature: Signature, name: str, arguments: str
    ) -> Native:
        if function is None:
            return ABSENT
        what = f"{name} of model {model.name}"
        check_arguments(function, arguments, what)
        return prepared(function, signature, what, compile)

    bound = BoundModel(
        model,
        ready(model.derivative, EQUATION, "derivative", "t, x, z, u, p, dx"),
        ready(model.output, EQUATION, "output", "t, x, z, u, p, y"),
        ready(model.update, UPDATE, "update", "t, x, z, u, p"),
        ready(model.project, IN_PLACE, "project", "x"),
        bool(compile),
        ready(model.guard, EQUATION, "guard", "t, x, z, u, p, g"),
        ready(model.reset, RESET, "reset", "i, t, x, z, u, p"),
        ready(model.stop, RESET, "stop", "i, t, x, z, u, p"),
        ready(model.tick, TICK, "tick", "due, t, x, z, u, p"),
    )
    start = {"x": x, "u": u, "p": p}
    for name, native, out in (
        ("derivative", bound.derivative, model.states),
        ("output", bound.output, model.outputs),
        ("guard", bound.guard, Signals(*(g.name for g in model.guards))),
    ):
        if native is not ABSENT:
            _probe(model, name, native, out, start)
    if bound.project is not ABSENT:
        states = model.states.initial() if x is None else x
        try:
            check(bound.project, states)
        except IndexError as error:
            raise ModelError(
                f"project of model {model.name} {_no_such(error)}; its vector x has "
                f"{model.states.size} elements"
            ) from error
    return bound


def _no_such(error: IndexError) -> str:
    return f"uses an element that does not exist ({in_words(error)})"


def _probe(
    model: Model, name: str, native: Native, out: Signals, start: Mapping[str, Vector | None]
) -> None:
    """Call once between guard elements: a compiled function does not check its own bounds."""
    where = f"{name} of model {model.name}"
    layouts = {
        "x": model.states,
        "z": model.discrete,
        "u": model.inputs,
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
    for i, value in enumerate(vectors[-1]):
        if value == _SENTINEL:
            raise ModelError(
                f"{where} never writes element {i} ({out.columns[i]}); "
                f"it must fill all {out.size} elements"
            )
        if not np.isfinite(value):
            raise ModelError(
                f"{where} gives {value} for {out.columns[i]} at the initial values; "
                "check the initial state and the parameters"
            )


def _fenced(values: Vector) -> tuple[Vector, Vector]:
    fence = np.full(values.size + 2 * _GUARD_ELEMENTS, _SENTINEL)
    vector = fence[_GUARD_ELEMENTS : _GUARD_ELEMENTS + values.size]
    vector[:] = values
    return fence, vector
