"""Models with modes: each mode has its own derivative, and transitions lead to other modes.

:func:`modal` combines several modes into one :class:`rtsim.equations.model.Model`. The discrete
signal ``mode`` contains the number of the present mode and selects the derivative. Each transition
is implemented as a guard and a reset. A transition fires only while its mode is active. The reset
executes the transition's action and changes the mode.

If the level of a transition is already beyond zero when its mode begins, the transition fires in
the next microstep.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rtsim.core.errors import ModelError, UnknownName
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.equations.compiling import in_both
from rtsim.equations.model import (
    Equation,
    Guard,
    Model,
    Projection,
    Update,
    arguments_of,
    standing,
    vectors_of,
)
from rtsim.equations.named_arguments import (
    Arguments,
    NamedVector,
    Vectors,
    check_arguments,
    named,
)
from rtsim.equations.reading_functions import check_value

Level = Callable[..., float]
"""``level(t, x, z, u, p)`` returns the value whose zero crossing triggers a transition."""
_DERIVATIVE, _OUTPUT = arguments_of()["derivative"], arguments_of()["output"]
_LEVEL = Arguments("t, x, z, u, p", does="returns a number")
_ACTION = Arguments("t, x, z, u, p", changes="x, z", does="sets x and z in place")
MODE = "mode"
"""Name of the last discrete signal of a modal model, which contains the number of the mode."""


@dataclass(frozen=True)
class Transition:
    """A transition to the mode ``to``, which fires when ``level`` crosses zero.

    - ``direction`` is 1 for a rising level, -1 for a falling level, and 0 for both.
    - ``action(t, x, z, u, p)`` sets states and discrete signals at the transition.
    - With ``terminal``, the transition ends the run.

    Raises :class:`ModelError` for an invalid name, direction or function.

    Example:
        def depth(t, x, z, u, p):
            return x[0]

        landed = Transition("landed", depth, to="ground", direction=-1)
    """

    name: str
    level: Level
    to: str
    direction: int = 0
    action: Update | None = None
    terminal: bool = False

    def __post_init__(self) -> None:
        if not (isinstance(self.name, str) and self.name.isidentifier()):
            raise ModelError(
                f"transition name {self.name!r} is not an identifier; use letters, digits, _"
            )
        what = f"transition {self.name}"
        if not isinstance(self.to, str):
            raise ModelError(f"to={self.to!r} of {what} is not a text; give the name of a mode")
        if self.direction not in (-1, 0, 1):
            raise ModelError(f"{what} has direction {self.direction!r}; give -1, 0 or 1")
        _checked(self.level, _LEVEL, f"level of {what}")
        check_value(self.level, f"level of {what}")
        _checked(self.action, _ACTION, f"action of {what}")


@dataclass(frozen=True)
class Mode:
    """A mode with its ``derivative``, its ``output``, and its transitions to other modes.

    In a mode without a derivative, all states are constant.

    Example:
        def falling_down(t, x, z, u, p, dx):
            dx[0] = -1.0

        air = Mode("air", falling_down)
        ground = Mode("ground")
    """

    name: str
    derivative: Equation | None = None
    transitions: tuple[Transition, ...] = ()
    output: Equation | None = None

    def __post_init__(self) -> None:
        if not all(isinstance(t, Transition) for t in _several(self.transitions)):
            raise ModelError(
                f"mode {self.name} needs a tuple of transitions; write (Transition(…),) for a "
                "single one"
            )
        _checked(self.derivative, _DERIVATIVE, f"derivative of mode {self.name}")
        _checked(self.output, _OUTPUT, f"output of mode {self.name}")


def _several(given: object) -> tuple[object, ...]:
    return tuple(given) if isinstance(given, (tuple, list)) else (None,)


def _checked(function: Any, arguments: Arguments, what: str, vectors: Vectors | None = None) -> Any:
    if function is None:
        return None
    if not callable(function):
        raise ModelError(f"{what} is {function!r}; give a function of ({arguments.text})")
    if vectors is None:
        check_arguments(function, arguments, what)
        return function
    return named(function, arguments, what, vectors)


def modal(
    name: str,
    states: Signals,
    modes: Sequence[Mode],
    *,
    discrete: Signals | None = None,
    inputs: Signals | None = None,
    outputs: Signals | None = None,
    parameters: Signals | None = None,
    output: Equation | None = None,
    update: Update | None = None,
    project: Projection | None = None,
    zeno: str = "",
    rest: Update | None = None,
    assumptions: tuple[str, ...] = (),
    limits: tuple[str, ...] = (),
) -> Model:
    """Return a model that begins in the first of ``modes``.

    - ``output``: one output function for all modes. Without it, each mode needs its own.
    - ``zeno`` is the name of the mode that the model enters after infinitely many transitions in a
      finite time.
    - ``rest(t, x, z, u, p)`` sets states and discrete signals when the model enters the mode
      ``zeno``.
    - All other arguments are those of :class:`rtsim.equations.model.Model`.

    Raises ``ModelError`` for invalid modes, and ``UnknownName`` for an unknown mode.

    Example:
        lift = modal("lift", Signals("height [m]"), [Mode("down"), Mode("up")])
    """
    if not all(isinstance(mode, Mode) for mode in _several(modes)):
        raise ModelError(f"model {name} needs a list of modes; write [Mode(…)] for a single one")
    names = tuple(mode.name for mode in modes)
    if not names or len(set(names)) != len(names):
        raise ModelError(
            f"model {name} needs one or more modes, each with another name, but got: "
            f"{', '.join(names)}"
        )
    own = discrete or Signals()
    if MODE in own:
        raise ModelError(
            f"model {name} declares a discrete signal {MODE}, but modal() adds a signal of "
            "this name; rename your signal"
        )
    said = ", ".join(f"{i} {n}" for i, n in enumerate(names))
    place = own.size
    discrete = own + Signals(Signal(MODE, description=said))
    vectors: dict[str, NamedVector] = vectors_of(
        states, discrete, inputs or Signals(), parameters or Signals()
    )
    modes = [_with_names(mode, vectors, states, outputs or Signals()) for mode in modes]
    rest = _checked(rest, _ACTION, f"rest of model {name}", vectors)
    found = [(names.index(mode.name), t) for mode in modes for t in mode.transitions]

    def number(mode: str, what: str) -> int:
        if mode not in names:
            raise UnknownName("mode", mode, names, what)
        return names.index(mode)

    resets = [(own, t.action, number(t.to, f"transition {t.name} of {name}")) for own, t in found]
    if zeno and not found:
        raise ModelError(f"model {name} has zeno={zeno!r} but no transitions; leave zeno out")
    return Model(
        name=name,
        states=states,
        discrete=discrete,
        inputs=inputs or Signals(),
        outputs=outputs or Signals(),
        parameters=parameters or Signals(),
        derivative=_chosen(place, [mode.derivative or standing for mode in modes]),
        output=_output(name, place, modes, output),
        update=update,
        project=project,
        guards=tuple(
            Guard(t.name, t.direction, t.terminal, at_start=t.direction != 0) for _, t in found
        ),
        guard=_levels(place, found) if found else None,
        reset=_reset(place, resets) if found else None,
        stop=_stop(place, rest, number(zeno, f"zeno of {name}")) if zeno else None,
        modes=names,
        assumptions=assumptions,
        limits=limits,
    )


def _with_names(
    mode: Mode, vectors: dict[str, NamedVector], states: Signals, outputs: Signals
) -> Mode:
    dx, y = NamedVector(states, "state"), NamedVector(outputs, "output")
    what = f"mode {mode.name}"
    return replace(
        mode,
        derivative=_checked(
            mode.derivative, _DERIVATIVE, f"derivative of {what}", vectors | {"dx": dx}
        ),
        output=_checked(mode.output, _OUTPUT, f"output of {what}", vectors | {"y": y}),
        transitions=tuple(
            replace(
                one,
                level=_checked(one.level, _LEVEL, f"level of transition {one.name}", vectors),
                action=_checked(one.action, _ACTION, f"action of transition {one.name}", vectors),
            )
            for one in mode.transitions
        ),
    )


def _output(
    name: str, place: int, modes: Sequence[Mode], output: Equation | None
) -> Equation | None:
    own = [mode.output for mode in modes if mode.output is not None]
    if not own:
        return output
    if output is not None or len(own) != len(modes):
        raise ModelError(
            f"model {name}: give one output for all modes, or one output for each mode"
        )
    return _chosen(place, own)


# A chain of closures, one for each mode, selects the function of the present mode. A chain compiles
# to one function, and also runs as plain Python.


@in_both
def _nothing(t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:
    pass


def _chosen(place: int, functions: Sequence[Equation]) -> Equation:
    chosen: Equation = in_both(functions[-1])
    for mode in range(len(functions) - 2, -1, -1):
        chosen = _either(place, mode, in_both(functions[mode]), chosen)
    return chosen


def _either(place: int, mode: int, first: Equation, other: Equation) -> Equation:
    @in_both
    def either(t: float, x: Vector, z: Vector, u: Vector, p: Vector, out: Vector) -> None:
        if z[place] == mode:
            first(t, x, z, u, p, out)
        else:
            other(t, x, z, u, p, out)

    return either


def _levels(place: int, transitions: Sequence[tuple[int, Transition]]) -> Equation:
    @in_both
    def none(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:
        pass

    levels: Equation = none
    for i, (mode, transition) in enumerate(transitions):
        away = -float(transition.direction)
        levels = _and_level(place, i, mode, in_both(transition.level), away, levels)
    return levels


def _and_level(
    place: int, i: int, mode: int, level: Level, away: float, others: Equation
) -> Equation:
    @in_both
    def levels(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:
        others(t, x, z, u, p, g)
        if z[place] == mode:
            g[i] = level(t, x, z, u, p)
        else:
            g[i] = away

    return levels


def _reset(place: int, actions: Sequence[tuple[int, Update | None, int]]) -> Any:
    @in_both
    def none(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:
        pass

    reset: Any = none
    for i, (own, action, to) in enumerate(actions):
        reset = _or_reset(place, i, (own, to), in_both(action or _nothing), reset)
    return reset


def _or_reset(place: int, number: int, modes: tuple[int, int], action: Update, others: Any) -> Any:
    own, to = modes

    @in_both
    def reset(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:
        if i == number:
            if z[place] == own:
                action(t, x, z, u, p)
                z[place] = to
        else:
            others(i, t, x, z, u, p)

    return reset


def _stop(place: int, rest: Update | None, to: int) -> Any:
    action = in_both(rest or _nothing)

    @in_both
    def stop(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
        action(t, x, z, u, p)
        z[place] = to

    return stop
