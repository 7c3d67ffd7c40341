"""The guards of a plant: resets at zero crossings, and the detection of Zeno behaviour.

:mod:`rtsim.solve.guarded` finds the next crossing.  Zeno behaviour and chatter are detected from
the times at which a guard fires.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import ModelError, ZenoError
from rtsim.core.signals import Vector
from rtsim.core.tag import NS_PER_S, Tag
from rtsim.equations.addresses import (
    NUMBER,
    AddressBlock,
    Layout,
    call_equation,
    matrix_at,
    vector_at,
)
from rtsim.equations.calls import check, evaluation_block, resident
from rtsim.equations.compiling import Native, compile_function
from rtsim.equations.delays import ZENO
from rtsim.equations.model import BoundModel, Guard
from rtsim.solve.base import Stepper
from rtsim.solve.guard_table import CAME_TO, LATE, LEFT_AT, SIDE_BEFORE, SIGN, sign
from rtsim.solve.guarded import Guarded
from rtsim.solve.internal_steps import model_sizes

SHORT = 1e-6
"""Interval (s) over which the slope of a guard is computed."""
NEAR = 1 / NS_PER_S / SHORT
"""Part of :data:`SHORT` in which a guard near zero reaches zero: 1 ns."""


MOTION = Layout(
    "slopes of guards",
    ("derivative", "guard"),
    {
        "x": ("states",),
        "z": ("discrete",),
        "u": ("inputs",),
        "p": ("parameters",),
        "slope": ("states",),
        "ahead": ("states",),
        "found": (2, "guards"),
    },
)
_AT = MOTION.at


def resident_moving(words: Any, t: float) -> int:
    """Compute all guards at time ``t`` (s), and their changes during the next 1e-6 s."""
    x, z, u = vector_at(words, _AT.x), vector_at(words, _AT.z), vector_at(words, _AT.u)
    p, slope, ahead = (
        vector_at(words, _AT.p),
        vector_at(words, _AT.slope),
        vector_at(words, _AT.ahead),
    )
    found = matrix_at(words, _AT.found)
    call_equation(words[_AT.derivative], t, x, z, u, p, slope)
    call_equation(words[_AT.guard], t, x, z, u, p, found[0])
    for j in range(x.size):
        ahead[j] = x[j] + SHORT * slope[j]
    call_equation(words[_AT.guard], t + SHORT, ahead, z, u, p, found[1])
    for i in range(found.shape[1]):
        found[1, i] -= found[0, i]
    return 0


@cache
def _native_moving() -> Native:
    return compile_function(resident_moving, (MOTION.kind, NUMBER), "slopes of guards")


def moving(
    bound: BoundModel, of: tuple[Vector, ...], into: NDArray[np.float64]
) -> Callable[[float], object]:
    """Return a function of time (s) that computes the guards and their changes during 1e-6 s.

    The function stores both in ``into``, shape (2, m). ``of`` contains the vectors x, z, u and p.
    """
    if bound.compiled:
        return _native_moving().on(motion_block(bound, of, into))
    functions = (bound.derivative.call, bound.guard.call)
    arrays, sizes = _motion_arrays(bound, of, into)
    return partial(resident_moving, MOTION.plain(functions, arrays, sizes))


def _motion_arrays(
    bound: BoundModel, of: tuple[Vector, ...], into: NDArray[np.float64]
) -> tuple[dict[str, NDArray[np.float64]], dict[str, int]]:
    work = {"slope": np.zeros_like(of[0]), "ahead": np.zeros_like(of[0]), "found": into}
    return {**dict(zip("xzup", of, strict=True)), **work}, model_sizes(bound)


def motion_block(
    bound: BoundModel, of: tuple[Vector, ...], into: NDArray[np.float64]
) -> AddressBlock:
    handles = (bound.derivative.handle, bound.guard.handle)
    arrays, sizes = _motion_arrays(bound, of, into)
    return MOTION.block(handles, arrays, sizes, bound)


class Motion(NamedTuple):
    """A guard's value, and its change during 1e-6 s, before and after the resets at a tag.

    ``came`` and ``before`` are the value and the change before the resets. ``at`` and ``after`` are
    the value and the change after the resets.
    """

    came: float
    before: float
    at: float
    after: float

    def near(self, level: float) -> bool:
        """Return whether the guard can reach ``level`` within 1 ns."""
        return abs(self.at - level) <= abs(self.after) * NEAR

    def goes_on(self, side: float) -> bool:
        """Return whether the guard still crosses zero after the resets.

        ``side`` is the sign after the crossing.
        """
        onward = self.before * side > 0.0 and self.after * side > 0.0
        return (onward or self.before == self.after) and self.near(0.0)


class OwnResets:
    """The value and the slope of each guard directly after its own reset.

    These values show whether a later reset at the same tag moves a guard towards zero again.
    """

    def __init__(self, bound: BoundModel, vectors: tuple[Vector, ...]) -> None:
        self._vectors = tuple(vector.copy() for vector in vectors)
        self._found = np.zeros((2, len(bound.model.guards)))
        self._move = moving(bound, self._vectors, self._found)
        self._known: dict[int, tuple[float, float]] = {}

    def continue_from(self, other: OwnResets) -> None:
        self._known = other._known

    def clear(self) -> None:
        self._known.clear()

    def note(self, i: int, t: float, vectors: tuple[Vector, ...], last: bool) -> None:
        """Store the value and slope of a guard at time ``t`` (s), after its own reset.

        With ``last``, no other reset follows, and nothing is stored.
        """
        self._known[i] = (math.inf, 0.0)
        if last:
            return
        for kept, vector in zip(self._vectors, vectors, strict=True):
            kept[:] = vector
        self._move(t)
        self._known[i] = (float(self._found[0, i]), float(self._found[1, i]))

    def __contains__(self, i: int) -> bool:
        return i in self._known

    def undone(self, i: int, side: float, motion: Motion) -> bool:
        """Return whether a later reset has moved the guard towards ``side`` again."""
        level, change = self._known[i]
        return side != 0.0 and change * side <= 0.0 and motion.near(level)


ZENO_NS = 100
"""Shrinking intervals between crossings are Zeno behaviour once they are below this time (ns)."""
ZENO_IN_A_ROW = 4
"""Number of consecutive short intervals that are reported as Zeno behaviour."""
CHATTER_IN_A_ROW = 100
"""Number of consecutive intervals below :data:`ZENO_NS` that are reported as chatter.

The same number of crossings of one guard at one time is reported as Zeno behaviour.
"""


class Crossings:
    """The last crossing times (ns) of each guard, for the detection of Zeno behaviour."""

    def __init__(self, guards: int) -> None:
        self._times: list[deque[int]] = [deque(maxlen=ZENO_IN_A_ROW + 1) for _ in range(guards)]
        self._at_once = [0] * guards
        self._close = [0] * guards
        """Number of consecutive intervals below :data:`ZENO_NS`, for each guard."""
        self._began_ns = [0] * guards
        """The time (ns) at which the first of these intervals began."""
        self._stopped_ns = [-ZENO_NS] * guards
        """The last time (ns) at which each guard's stop mode was applied."""

    def add(self, i: int, ns: int) -> None:
        times = self._times[i]
        if times and times[-1] == ns:
            self._at_once[i] += 1
            return
        self._at_once[i] = 1
        if times and ns - times[-1] < ZENO_NS:
            self._close[i] += 1
        else:
            self._close[i], self._began_ns[i] = 0, ns
        times.append(ns)

    def accumulate(self, i: int) -> str:
        """Return a text if the guard crosses zero infinitely often in a finite time, else ""."""
        times = self._times[i]
        if self._at_once[i] >= CHATTER_IN_A_ROW:
            return f"crosses zero {CHATTER_IN_A_ROW} times at one instant,"
        if self._close[i] >= CHATTER_IN_A_ROW:
            return (
                f"chatters: {CHATTER_IN_A_ROW} intervals in a row between its crossings are "
                f"shorter than {ZENO_NS} ns,"
            )
        if len(times) <= ZENO_IN_A_ROW or times[1] - times[0] >= ZENO_NS:
            return ""
        # Equal gaps are possible, because times are rounded to ns.
        gaps = [b - a for a, b in pairwise(times)]
        return "crosses zero ever faster" if all(b <= a for a, b in pairwise(gaps)) else ""

    def stop(self, i: int, ns: int) -> bool:
        """Clear the crossing times of a guard when its stop mode begins at the time ``ns``.

        Returns False if the crossings began less than ``ZENO_NS`` after the previous stop.
        """
        chatters = self._close[i] >= CHATTER_IN_A_ROW
        began = self._began_ns[i] if chatters else self._times[i][0]
        first = began - self._stopped_ns[i] >= ZENO_NS
        self._times[i].clear()
        self._at_once[i] = self._close[i] = 0
        self._stopped_ns[i] = ns
        return first

    def save(self) -> dict[str, Any]:
        return {
            "times": [list(times) for times in self._times],
            "stopped": self._stopped_ns.copy(),
            "close": self._close.copy(),
            "began": self._began_ns.copy(),
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Restore the data that :meth:`save` returned. Old checkpoints lack some entries."""
        for times, said in zip(self._times, saved["times"], strict=True):
            times.clear()
            times.extend(said)
        self._stopped_ns[:] = saved.get("stopped", self._stopped_ns)
        self._close[:] = saved.get("close", [0] * len(self._close))
        self._began_ns[:] = saved.get("began", self._began_ns)


@dataclass(frozen=True)
class NativeGuards:
    """Arguments with which compiled code advances a plant with guards.

    ``handle`` is the address of :func:`rtsim.solve.guarded.drive`. ``words`` is the argument table
    of the step, and ``table`` the guard table. The array ``here``, shape (5, m), belongs to the
    guard table. ``block`` evaluates the guards and stores them in ``g`` (m,).
    """

    handle: int
    words: NDArray[np.int64]
    table: AddressBlock
    here: NDArray[np.float64]
    block: AddressBlock
    g: Vector


class GuardWatch:
    """The guards of a plant, with the search for crossings and with the resets."""

    def __init__(
        self,
        name: str,
        bound: BoundModel,
        stepper: Stepper,
        vectors: tuple[Vector, ...],
        end: Vector,
    ) -> None:
        """Watch the guards of a plant with the vectors x, z, u and p.

        Error messages contain the name of the plant. ``end`` (n,) receives the state at the end of
        a provisional step.
        """
        guards = bound.model.guards
        self._name, self._bound, self._guards, self._vectors = name, bound, guards, vectors
        self._way = Guarded(bound, stepper, vectors, end)
        self._here = self._way.here
        self._g = np.zeros(len(guards))
        self._evaluate = resident(bound.guard, *vectors, self._g)
        self._then = tuple(vector.copy() for vector in vectors)
        """Copies of x, z, u and p from before the latest reset."""
        self._moves = np.zeros((2, 2, len(guards)))
        states = zip((self._then, vectors), self._moves, strict=True)
        self._ways = [moving(bound, of, into) for of, into in states]
        self._end, self._held = end, np.zeros((2, len(guards)))
        self._hold = moving(bound, (end, *vectors[1:]), self._held)
        """Function that computes the motion of the guards without the writes at the present tag."""
        self._kept = [(k, v) for k, v in zip(self._then, vectors, strict=True) if v.size]
        self._levels = [0.0] * len(guards)
        """The value that each guard crossed at its latest crossing. The value is 0, unless a reset
        left the guard beyond zero.
        """
        self._noted: set[int] = set()
        self._crossed: dict[int, float] = {}
        self._own = OwnResets(bound, vectors)
        self._starting: set[int] = set()
        """Guards that are beyond zero at the start of the run and have not fired yet."""
        self.fired: tuple[int, ...] = ()
        """Indices of the guards that fire at the end of the provisional step."""
        self.accumulated: Guard | None = None
        """The guard whose accumulating crossings end the run, or ``None``."""
        self._tried: set[tuple[Any, int]] = set()
        """Guards and methods (reset or stop mode) whose first call has been checked."""
        self._crossings = Crossings(len(guards))

    def continue_from(self, other: GuardWatch) -> None:
        self._here[:] = other._here
        for kept, known in zip(self._then, other._then, strict=True):
            kept[:] = known
        self._levels, self._noted, self._crossed = other._levels, other._noted, other._crossed
        self._starting, self.fired = other._starting, other.fired
        self._crossings, self._tried = other._crossings, other._tried
        self._own.continue_from(other._own)

    def advance(self, from_ns: int, to_ns: int) -> tuple[int, int]:
        """Advance provisionally to ``to_ns``, or to the first ns at which a guard has crossed zero.

        Returns the result of ``Stepper.advance`` and the end of the step (ns). :attr:`fired` then
        contains the guards that crossed.
        """
        self._leave()
        answer = self._way.advance(from_ns, to_ns)
        self.fired = self._way.fired
        return answer, from_ns + self._way.way_ns

    def run(
        self, times: NDArray[np.int64], y: Vector, values: Vector
    ) -> tuple[NDArray[np.float64], int]:
        """Take and commit steps between consecutive ``times`` (ns), until a guard fires.

        ``times`` has the shape (k + 1,). Returns a row of ``values`` for each committed step, and
        the length (ns) of the next, provisional step. The length is 0 if all steps were committed,
        or if a step failed.
        """
        self._leave()
        rows = self._way.run(times, self._vectors, y, values)
        ahead = len(rows) < times.size - 1
        self.fired = self._way.fired if ahead else ()
        return rows, self._way.way_ns if ahead else 0

    def native(self) -> NativeGuards | None:
        """Return arguments for compiled code, or ``None`` if the guards run in plain Python."""
        way = self._way
        if not way.internal_steps.compiled:
            return None
        block = evaluation_block(self._bound.guard, *self._vectors, self._g)
        return NativeGuards(
            way.handle(), way.internal_steps.words, way.block, way.here, block, self._g
        )

    def adopt_compiled_state(self) -> None:
        """Update the guards after compiled code took steps in which no guard fired."""
        self._leave()
        self.fired = ()

    def _leave(self) -> None:
        self._crossed.clear()
        self._own.clear()

    def commit(self) -> None:
        """Commit the provisional step, before any reset."""
        self._way.accept()
        if self.fired or self._here[CAME_TO].any():
            self._note_fired()

    def _note_fired(self) -> None:
        known = self._here.tolist()
        for i in self.fired:
            if i in self._noted:
                continue
            self._noted.add(i)
            self._crossed[i] = known[SIGN][i] or known[CAME_TO][i]
            self._levels[i] = known[LEFT_AT][i]
            if self._levels[i]:
                self._here[LEFT_AT, i] = 0.0
        for kept, vector in self._kept:
            kept[:] = vector

    def fire(
        self, ns: int, x: Vector, z: Vector, u: Vector, p: Vector
    ) -> list[tuple[str, str, str, dict[str, float]]]:
        """Apply the resets of all guards that have fired, in order, to ``x`` and ``z``.

        Returns a tuple for each guard: ``"Crossed"`` or ``"Stopped"``, its name, a text, and
        reported values. The text is a change of mode, such as ``"old -> new"``, or a declared
        failure.

        Raises ``ZenoError`` for Zeno behaviour in a model without a stop mode. Raises
        :class:`ModelError` if a reset makes a state or a discrete signal infinite or NaN.
        """
        happened = []
        self._note_fired()
        self._noted.clear()
        self._starting.clear()
        self._own.clear()
        self.accumulated = None
        for i in self.fired:
            self._crossings.add(i, ns)
            name, before = self._guards[i].name, self._mode(z)
            if why := self._crossings.accumulate(i):
                self._stop(i, why, ns, x, z, u, p)
                kind = "Stopped"
            else:
                self._call(self._bound.reset, i, ns, x, z, u, p)
                kind = "Crossed"
            after = self._mode(z)
            text = f"{before} -> {after}" if before != after else self._guards[i].failure
            happened.append((kind, name, text, self._reported(i, z)))
            self._check(name, ns, x, z)
            self._own.note(i, self._seconds(ns), (x, z, u, p), last=i == self.fired[-1])
        self.fired = ()
        return happened

    def _reported(self, i: int, z: Vector) -> dict[str, float]:
        discrete = self._bound.model.discrete
        return {name: float(z[discrete.slice(name).start]) for name in self._guards[i].report}

    def _call(self, native: Native, i: int, ns: int, *vectors: Vector) -> None:
        if (native.py_func, i) not in self._tried:
            self._tried.add((native.py_func, i))
            check(native, i, self._seconds(ns), *vectors)
        native.call(i, self._seconds(ns), *vectors)

    def _seconds(self, ns: int) -> float:
        return ns / NS_PER_S - float(self._here[LATE, 0])

    def _mode(self, z: Vector) -> str:
        modes = self._bound.model.modes
        return modes[int(z[-1])] if modes and 0 <= z[-1] < len(modes) else ""

    @property
    def terminal(self) -> Guard | None:
        """The guard that fires now and ends the run."""
        return next((self._guards[i] for i in self.fired if self._guards[i].terminal is True), None)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._guards[i].name for i in self.fired)

    def begin(self) -> None:
        """Initialise the guards at the start of the run.

        A guard that is already beyond zero can fire at the start.
        """
        self._here[:] = 0.0
        self._here[SIGN] = self._here[SIDE_BEFORE] = signs = self._sides_at(0)
        self._starting = {i for i, way in enumerate(self._way.at_start) if signs[i] == way != 0.0}
        self.fired = tuple(sorted(self._starting))

    def adopt(self, ns: int) -> None:
        """Store the present signs of the guards, so that no guard fires again at ``ns``.

        An FMU handles crossings that its own events cause.
        """
        self._here[SIGN] = self._here[SIDE_BEFORE] = self._sides_at(ns)
        self._here[CAME_TO] = self._here[LEFT_AT] = 0.0
        self._leave()
        self._starting.clear()

    def changed(self, ns: int) -> None:
        """Find the guards that fire because states or inputs changed at the time ``ns``.

        A guard fires if the change moved it across zero in the declared direction. A guard at zero
        also fires if a reset gave it a slope in the declared direction.
        """
        signs = self._sides_at(ns)
        now, (before, came_to, left_at, side_before, _) = signs.tolist(), self._here.tolist()
        self._here[SIGN] = signs
        np.copyto(self._here[SIDE_BEFORE], signs, where=signs != 0.0)
        if any(left_at):
            self._forget(left_at)
        fires = {*self.fired} - self._starting
        self._starting = {i for i in self._starting if now[i] == self._guards[i].direction}
        fires |= self._starting
        for i, guard in enumerate(self._guards):
            side = before[i] or came_to[i] or -guard.direction or side_before[i]
            if now[i] == -side != 0.0 and guard.direction in (0, now[i]):
                fires.add(i)
        beyond = any(now[i] == side != 0.0 for i, side in self._crossed.items())
        several = bool(self._crossed) and len(now) > 1
        motions = self._motions(ns) if beyond or several or any(came_to) else []
        if any(came_to):
            self._still_at_zero(ns, came_to, now, motions)
        if motions and self._crossed:
            self._turned_back(ns, now, motions)
            fires.update(i for i in range(len(now)) if i not in fires and self._arrives(i, motions))
        self.fired = tuple(sorted(fires))

    def _motions(self, ns: int) -> list[Motion]:
        for way in self._ways:
            way(self._seconds(ns))
        (came, before), (at, after) = self._moves.tolist()
        if not self._crossed:
            before = [0.0] * len(before)
        return [Motion(*four) for four in zip(came, before, at, after, strict=True)]

    def _still_at_zero(
        self, ns: int, came_to: list[float], now: list[float], motions: list[Motion]
    ) -> None:  # fmt: skip
        for i, side in enumerate(came_to):
            if side == 0.0:
                continue
            leaves = now[i] == -side or (now[i] == 0.0 and self._states_turn(i, ns, motions[i]))
            if now[i] == side or (leaves and not motions[i].goes_on(side)):
                self._here[CAME_TO, i] = 0.0
            else:
                self._here[SIGN, i] = 0.0

    def _states_turn(self, i: int, ns: int, motion: Motion) -> bool:
        if self._vectors[0].tobytes() == self._end.tobytes():
            return False
        self._hold(self._seconds(ns))
        return sign(float(self._held[1, i])) != sign(motion.after)

    def _arrives(self, i: int, motions: list[Motion]) -> bool:
        motion, direction, known = motions[i], self._guards[i].direction, self._here[:, i]
        side = sign(motion.after)
        if i in self._own:
            fires = side == self._crossed[i] and self._own.undone(i, side, motion)
        elif side == 0.0 or motion.before * side > 0.0 or direction not in (0, side):
            fires = False
        elif direction == 0:
            fires = motion.at == 0.0 and known[SIDE_BEFORE] == -side
        else:
            fires = motion.near(0.0) or (known[LEFT_AT] != 0.0 and motion.near(known[LEFT_AT]))
        # The guard reaches zero within 1 ns, so it fires at this tag.
        if fires and sign(motion.at) != side:
            known[SIGN], known[CAME_TO], known[SIDE_BEFORE] = 0.0, side, 0.0
        return bool(fires)

    def _forget(self, left_at: list[float]) -> None:
        for i, level in enumerate(left_at):
            at = float(self._g[i])
            if not (at * level > 0.0 and abs(at) <= abs(level)):
                self._here[LEFT_AT, i] = 0.0

    def _turned_back(self, ns: int, sides: list[float], motions: list[Motion]) -> None:
        for i, side in self._crossed.items():
            motion, level = motions[i], self._levels[i]
            turned = motion.before != 0.0 and motion.before * motion.after <= 0.0
            no_farther = abs(motion.at - level) <= abs(motion.came - level)
            paused = motion.after == 0.0 and not self._states_turn(i, ns, motion)
            if sides[i] == side != 0.0 and turned and no_farther and not paused:
                self._here[LEFT_AT, i] = motion.at

    def _sides_at(self, ns: int) -> Vector:
        self._evaluate(self._seconds(ns))
        if np.isnan(self._g).any():
            raise self.no_number(f"at {Tag(ns)}")
        signs: Vector = np.sign(self._g)
        return signs

    def no_number(self, when: str) -> ModelError:
        bad = np.isnan(self._g) | self._way.no_numbers()
        names = ", ".join(guard.name for guard, no in zip(self._guards, bad, strict=True) if no)
        return ModelError(
            f"guard {names} of {self._name} (model {self._bound.model.name}) is nan {when}; a "
            "guard must be a number at every state that the plant can reach"
        )

    def _stop(
        self, i: int, why: str, ns: int, x: Vector, z: Vector, u: Vector, p: Vector
    ) -> None:  # fmt: skip
        model = self._bound.model
        name = self._guards[i].name
        what = f"guard {name} of {self._name} (model {model.name}) {why}"
        ends = self._guards[i].terminal == ZENO
        self.accumulated = self._guards[i] if ends else self.accumulated
        if model.stop is None or not self._guards[i].stops:
            if ends:
                self._call(self._bound.reset, i, ns, x, z, u, p)
                return
            raise ZenoError(
                f"{what} at {Tag(ns)} (Zeno); give the model a stop mode, which sets the state "
                f"after the last crossing: @{name}.stop in a class, stop= in Model(...), zeno= in "
                "modal(...), or, in a diagram, rest= of the Integrator that the guard resets. To "
                "end the run at this time instead, give the guard terminal='zeno'. For a switch "
                "that chatters, add a hysteresis or a sliding mode"
            )
        if not self._crossings.stop(i, ns):
            raise ZenoError(
                f"{what} at {Tag(ns)} (Zeno), although its stop mode was "
                "applied; the stop mode must set a state from which the guard does not cross again"
            )
        self._call(self._bound.stop, i, ns, x, z, u, p)

    def _check(self, name: str, ns: int, x: Vector, z: Vector) -> None:
        model = self._bound.model
        for signals, vector in ((model.states, x), (model.discrete, z)):
            values = vector.tolist()
            if not all(map(math.isfinite, values)):
                bad = next(i for i, value in enumerate(values) if not math.isfinite(value))
                raise ModelError(
                    f"reset of {self._name} (model {model.name}) set {signals.columns[bad]} to a "
                    f"value that is not finite at {Tag(ns)}, when {name} crossed zero; correct "
                    "the reset"
                )

    def save(self) -> dict[str, Any]:
        return {
            **self._crossings.save(),
            "came_to": self._here[CAME_TO].tolist(),
            "left_at": self._here[LEFT_AT].tolist(),
            "side_before": self._here[SIDE_BEFORE].tolist(),
            "late": float(self._here[LATE, 0]),
        }

    def restore(self, saved: dict[str, Any], ns: int) -> None:
        """Restore the data that :meth:`save` returned. Old checkpoints do not contain all entries.

        The vectors of the plant must be restored first.
        """
        self._crossings.restore(saved)
        self._here[LATE] = saved.get("late", 0.0)
        signs = self._sides_at(ns)
        self._here[CAME_TO] = saved["came_to"]
        self._here[SIGN] = np.where(self._here[CAME_TO] == 0.0, signs, 0.0)
        self._here[LEFT_AT] = saved.get("left_at", 0.0)
        self._here[SIDE_BEFORE] = saved.get("side_before", signs)
        self.fired = ()
        self._leave()
        self._note_fired()
