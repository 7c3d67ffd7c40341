"""The guards of one plant: resets when they cross zero, and detection of Zeno behaviour.

:mod:`rtsim.solve.guarded` finds the next crossing on the solver's own steps.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import ModelError, ZenoError
from rtsim.core.signals import Vector
from rtsim.core.tag import NS_PER_S, Tag
from rtsim.equations.addresses import (
    NUMBER,
    WORDS,
    AddressBlock,
    call_equation,
    matrix_at,
    vector_at,
)
from rtsim.equations.compiling import Native, compile_function
from rtsim.equations.evaluation import evaluation_block, resident
from rtsim.equations.first_call import check
from rtsim.equations.layout import Layout
from rtsim.equations.model import BoundModel
from rtsim.solve import Stepper
from rtsim.solve.guarded import Guarded, NativeDrive
from rtsim.solve.look import CAME_TO, LEFT_AT, SIGN
from rtsim.solve.resident import model_sizes

ZENO_NS = 100
"""Crossings are Zeno behaviour if their intervals become ever shorter and fall below this time
(ns)."""
ZENO_IN_A_ROW = 4
"""The number of such intervals in a row that counts as Zeno behaviour."""
_SHORT = 1e-6
"""Interval (s) over which the slope of a guard is computed."""


_LAYOUT = Layout(
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
_AT = _LAYOUT.at


def resident_moving(words: Any, t: float) -> int:
    """Fill ``found`` with all guards at ``t`` s, and with their change over the next 1e-6 s."""
    x, z = vector_at(words, _AT.x), vector_at(words, _AT.z)
    u, p = vector_at(words, _AT.u), vector_at(words, _AT.p)
    slope, ahead = vector_at(words, _AT.slope), vector_at(words, _AT.ahead)
    found = matrix_at(words, _AT.found)
    call_equation(words[_AT.derivative], t, x, z, u, p, slope)
    call_equation(words[_AT.guard], t, x, z, u, p, found[0])
    for j in range(x.size):
        ahead[j] = x[j] + _SHORT * slope[j]
    call_equation(words[_AT.guard], t + _SHORT, ahead, z, u, p, found[1])
    for i in range(found.shape[1]):
        found[1, i] -= found[0, i]
    return 0


@cache
def _native_moving() -> Native:
    return compile_function(resident_moving, (WORDS, NUMBER), "slopes of guards")


def moving(
    bound: BoundModel, of: tuple[Vector, ...], into: NDArray[np.float64]
) -> Callable[[float], object]:
    """Return a function of t (s) that calls :func:`resident_moving`.

    ``of`` are the vectors x, z, u and p; the function fills the array ``into`` (2, m).
    """
    work = {"slope": np.zeros_like(of[0]), "ahead": np.zeros_like(of[0]), "found": into}
    arrays, sizes = {**dict(zip("xzup", of, strict=True)), **work}, model_sizes(bound)
    if bound.compiled:
        handles = (bound.derivative.handle, bound.guard.handle)
        return _native_moving().on(_LAYOUT.block(handles, arrays, sizes, bound))
    functions = (bound.derivative.call, bound.guard.call)
    return partial(resident_moving, _LAYOUT.plain(functions, arrays, sizes))


@dataclass(frozen=True)
class NativeGuards:
    """The guards of a plant for compiled code: arguments of the advance, and values ``g``."""

    drive: NativeDrive
    block: AddressBlock
    g: Vector


class GuardWatch:
    """Watches the guards of one plant: finds the next crossing and applies the resets."""

    def __init__(
        self,
        name: str,
        bound: BoundModel,
        stepper: Stepper,
        vectors: tuple[Vector, ...],
        end: Vector,
    ) -> None:
        """Watch the guards on ``vectors``, which are x, z, u and p of the plant.

        ``name`` is the plant's name for error messages.  ``end`` (n,) receives the state at the end
        of a provisional step.
        """
        guards = bound.model.guards
        self._name, self._bound, self._guards, self._vectors = name, bound, guards, vectors
        self._way = Guarded(bound, stepper, vectors, end)
        self._here = self._way.here
        self._g = np.zeros(len(guards))
        self._evaluate = resident(bound.guard, *vectors, self._g)
        self._then = tuple(vector.copy() for vector in vectors)
        """x, z, u and p at the last tag at which a guard fired, before the reset."""
        self._moves = np.zeros((2, 2, len(guards)))
        """All guards, and their change over a short interval, before and after the reset."""
        states = zip((self._then, vectors), self._moves, strict=True)
        self._ways = [moving(bound, of, into) for of, into in states]
        self._kept = [(k, v) for k, v in zip(self._then, vectors, strict=True) if v.size]
        self._levels = [0.0] * len(guards)
        """The value that each guard crossed at that tag: 0, or the value at which a reset had left
        it.
        """
        self._crossed: tuple[tuple[int, float], ...] = ()
        """The guards that crossed zero at the present tag, and their signs after the crossing."""
        self.fired: tuple[int, ...] = ()
        """The guards that cross zero at the end of the provisional step, by index."""
        self._times: list[deque[int]] = [deque(maxlen=ZENO_IN_A_ROW + 1) for _ in guards]
        """The latest times (ns) at which each guard fired."""
        self._tried: set[tuple[Any, int]] = set()
        """Resets and stop modes, by guard, whose first call was checked."""
        self._stopped_ns = [-ZENO_NS] * len(guards)
        """For each guard, the last time (ns) at which the stop mode was applied."""

    # -- within a step

    def advance(self, from_ns: int, to_ns: int) -> tuple[int, int]:
        """Advance provisionally to ``to_ns``, or to the first ns at which a guard has crossed.

        :attr:`fired` then has the guards that crossed.  Returns the result of the step (see
        ``Stepper.advance``) and the time at which the step ends (ns).
        """
        self._crossed = ()
        answer = self._way.advance(from_ns, to_ns)
        self.fired = self._way.fired
        return answer, from_ns + self._way.way_ns

    def run(
        self, times: NDArray[np.int64], y: Vector, values: Vector
    ) -> tuple[NDArray[np.float64], int]:
        """Take and commit whole steps between ``times`` (k + 1,), in ns, until a guard fires.

        Returns one row of ``values`` for each step, and the length (ns) of the provisional step
        that follows them, or 0 if there is none.
        """
        self._crossed = ()
        rows = self._way.run(times, self._vectors, y, values)
        ahead = len(rows) < times.size - 1
        self.fired = self._way.fired if ahead else ()
        return rows, self._way.way_ns if ahead else 0

    def native(self) -> NativeGuards | None:
        """The guards for compiled code that runs whole steps; None if they are plain Python."""
        drive = self._way.native()
        if drive is None:
            return None
        block = evaluation_block(self._bound.guard, *self._vectors, self._g)
        return NativeGuards(drive, block, self._g)

    def go_on(self) -> None:
        """Continue after compiled code ran steps on which no guard fired."""
        self._crossed = self.fired = ()

    def commit(self) -> None:
        """Commit the provisional step; call this before any reset."""
        self._way.accept()
        if self.fired:
            known = self._here.tolist()
            self._crossed = tuple((i, known[SIGN][i]) for i in self.fired)
            self._levels = known[LEFT_AT]
            if any(self._levels):
                self._here[LEFT_AT, list(self.fired)] = 0.0
            self._keep()

    def _keep(self) -> None:
        for kept, vector in self._kept:
            kept[:] = vector

    # -- when guards fire

    def fire(
        self, ns: int, x: Vector, z: Vector, u: Vector, p: Vector
    ) -> list[tuple[str, str, str]]:
        """Apply the resets of all guards that fired, in order, in place on ``x`` and ``z``.

        Returns for each guard: ``"Crossed"`` or ``"Stopped"``, the guard's name, and the change of
        mode as ``"old -> new"`` or an empty text.

        Raises :class:`ZenoError` if crossings accumulate and the model has no stop mode, and
        :class:`ModelError` if a reset makes a state or a discrete signal not finite.
        """
        happened = []
        for i in self.fired:
            self._times[i].append(ns)
            name, before = self._guards[i].name, self._mode(z)
            if self._accumulate(i):
                self._stop(i, ns, x, z, u, p)
                self._times[i].clear()
                self._stopped_ns[i] = ns
                kind = "Stopped"
            else:
                self._call(self._bound.reset, i, ns, x, z, u, p)
                kind = "Crossed"
            after = self._mode(z)
            happened.append((kind, name, f"{before} -> {after}" if before != after else ""))
            self._check(name, ns, x, z)
        self.fired = ()
        return happened

    def _call(self, native: Native, i: int, ns: int, *vectors: Vector) -> None:
        """Call a reset or a stop mode; the first call for each guard is checked for bad indices."""
        if (native.py_func, i) not in self._tried:
            self._tried.add((native.py_func, i))
            check(native, i, ns / NS_PER_S, *vectors)
        native.call(i, ns / NS_PER_S, *vectors)

    def _mode(self, z: Vector) -> str:
        modes = self._bound.model.modes
        return modes[int(z[-1])] if modes and 0 <= z[-1] < len(modes) else ""

    @property
    def terminal(self) -> str:
        """Name of the guard that fires now and ends the run, or an empty text."""
        return next((self._guards[i].name for i in self.fired if self._guards[i].terminal), "")

    def begin(self) -> None:
        """Start at 0 ns, after the inputs are connected: no guard has crossed yet."""
        self._here[SIGN], self._here[CAME_TO:] = self._sides_at(0), 0.0
        self.fired = ()

    def changed(self, ns: int) -> None:
        """Examine the guards after writes at ``ns``.

        If a write moved a guard across zero, the guard fires in the next microstep.  A guard that
        fired and is still exactly zero does not fire again when it leaves zero, unless the states
        were written: a ball that is put on the floor may fall again.  The same applies to a guard
        that a reset turned back and left slightly beyond zero, such as a ball slightly under the
        floor.
        """
        signs = self._sides_at(ns)
        (before, came_to, left_at), now = self._here.tolist(), signs.tolist()
        self._here[SIGN] = signs
        if any(left_at):
            self._forget(left_at)
        if self._crossed or any(came_to):
            moved = self._vectors[0].tobytes() != self._then[0].tobytes()
            if any(came_to):
                self._here[CAME_TO, (signs != 0.0) | moved] = 0.0
            if moved:
                self._turned_back(ns, now)
        crossed = [
            i
            for i, guard in enumerate(self._guards)
            if before[i] * now[i] < 0 and guard.direction in (0, now[i])
        ]
        if crossed:
            self.fired = tuple(sorted({*crossed, *self.fired}))

    def _forget(self, left_at: list[float]) -> None:
        """Clear ``LEFT_AT`` of each guard that fired, or that a write moved elsewhere."""
        fired = [i for i, _ in self._crossed]
        for i, level in enumerate(left_at):
            at = float(self._g[i])
            if i in fired or not (at * level > 0.0 and abs(at) <= abs(level)):
                self._here[LEFT_AT, i] = 0.0

    def _turned_back(self, ns: int, sides: list[float]) -> None:
        """Set ``LEFT_AT`` of each guard that a reset turned back beyond zero.

        The guard must be beyond zero by no more than its motion within the last ns.  A guard that
        the reset put farther beyond zero, or that still moves away from zero, is not affected.
        """
        beyond = [i for i, side in self._crossed if sides[i] == side != 0.0]
        if not beyond:
            return
        for way in self._ways:
            way(ns / NS_PER_S)
        (came, before), (at, after) = self._moves.tolist()
        for i in beyond:
            level = self._levels[i]
            turned = before[i] != 0.0 and before[i] * after[i] <= 0.0
            if turned and abs(at[i] - level) <= abs(came[i] - level):
                self._here[LEFT_AT, i] = at[i]

    def _sides_at(self, ns: int) -> Vector:
        self._evaluate(ns / NS_PER_S)
        signs: Vector = np.sign(self._g)
        return signs

    def _accumulate(self, i: int) -> bool:
        times = self._times[i]
        if len(times) <= ZENO_IN_A_ROW:
            return False
        if times[1] - times[0] >= ZENO_NS:
            return False
        gaps = [b - a for a, b in pairwise(times)]
        return all(b <= a for a, b in pairwise(gaps))  # equal, because times are rounded to ns

    def _stop(self, i: int, ns: int, x: Vector, z: Vector, u: Vector, p: Vector) -> None:
        if self._bound.model.stop is None or not self._guards[i].stops:
            raise ZenoError(
                f"guard {self._guards[i].name} of {self._name} (model {self._bound.model.name}) "
                f"crosses zero ever faster at {Tag(ns)} (Zeno); give the model a stop mode, which "
                "sets the state after the last crossing. Declare it as stop= in Model(...), as "
                "zeno= in modal(...), or in a diagram as rest= of the Integrator that the guard "
                "resets"
            )
        if self._times[i][0] - self._stopped_ns[i] < ZENO_NS:
            raise ZenoError(
                f"guard {self._guards[i].name} of {self._name} (model {self._bound.model.name}) "
                f"crosses zero ever faster at {Tag(ns)} (Zeno), although its stop mode was "
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
            "times": [list(times) for times in self._times],
            "stopped": self._stopped_ns.copy(),
            "came_to": self._here[CAME_TO].tolist(),
            "left_at": self._here[LEFT_AT].tolist(),
        }

    def restore(self, saved: dict[str, Any], ns: int) -> None:
        """Restore the data that :meth:`save` returned.

        The plant's vectors already have the values at ``ns``.
        """
        for times, said in zip(self._times, saved["times"], strict=True):
            times.clear()
            times.extend(said)
        self._stopped_ns[:] = saved.get("stopped", self._stopped_ns)
        self._here[SIGN], self._here[CAME_TO] = self._sides_at(ns), saved["came_to"]
        self._here[LEFT_AT] = saved.get("left_at", 0.0)  # old checkpoints lack this entry
        self._keep()
        self.fired, self._crossed = (), ()
