"""The past of one plant whose model has delays, and the model's functions that read it.

:mod:`rtsim.equations.delayed_values` explains the arrays.  A plant passes the address of its past
as the last element of ``p``, after the parameters; the functions of the model do not see it.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import ModelError
from rtsim.core.signals import Vector
from rtsim.equations.addresses import EQUATION, TICK, UPDATE, plain_tables
from rtsim.equations.compiling import ABSENT, Compilation, Native, plainly, prepared
from rtsim.equations.delayed_values import (
    BREAKS,
    BUMP,
    COUNT,
    END,
    FAULT_LAG,
    FAULT_TIME,
    FAULTY,
    KIND,
    LAYOUT,
    LEAST,
    LEG,
    LIVE,
    MOST,
    TIME,
    TOP_BREAK,
    TOP_ROW,
    VALUE,
    WHEN,
    delayed_derivative,
    delayed_fed,
    delayed_guard,
    delayed_line,
    delayed_output,
    delayed_tick,
    delayed_update,
    feed,
    near,
)
from rtsim.equations.delays import FUNCTION, PARAMETER, resolve
from rtsim.equations.first_call import check

BoundModel = Any
"""A model, whose module imports this one."""

ROWS = 64
"""Number of rows and of breaks for which there is room at first."""
_RINGS = (("rows", COUNT, TOP_ROW), ("breaks", BREAKS, TOP_BREAK))
"""Each ring, with its elements of the memory and of ``live``."""
Function = tuple[Any, Any]
"""The address of a function, or 0, and the same function as plain Python, or 0."""
_NONE: Function = (0, 0)


class History:
    """The past of one plant: what a solver wrote, and where compiled code finds it."""

    def __init__(self, bound: BoundModel, compile: Compilation) -> None:
        """Make an empty past for the model of ``bound``, whose functions are those of the model."""
        model = bound.model
        self._bound, self._compile = bound, compile
        self._resolved = found = resolve(model)
        self.line = _made(model.line, EQUATION, f"line of model {model.name}", compile)
        self._lag = _made(found.lag, EQUATION, f"lag of model {model.name}", compile)
        self._past = _made(found.at_first, EQUATION, f"before of model {model.name}", compile)
        q, d, n, lines = (
            len(found.elements), len(found.lags), model.states.size, model.lines.size,
        )  # fmt: skip
        self.attached = False
        """True once a solver that can keep a past is at work on the model."""
        self._functions: dict[str, Function] = {
            **dict.fromkeys(LAYOUT.functions, _NONE),
            "derivative": _both(bound.derivative),
            "output": _both(bound.output),
            "guard": _both(bound.guard),
            "update": _both(bound.update),
            "tick": _both(bound.tick),
            "line": _both(self.line),
            "lag_function": _both(self._lag),
            "past_function": _both(self._past),
        }
        self._sizes = {"inputs": model.inputs.size, "delayed": q}
        self._arrays: dict[str, NDArray[np.float64]] = {
            "elements": found.elements,
            "lags": found.lags,
            "before": found.before,
            "live": np.zeros(LIVE),
            "lag": np.zeros(d),
            "most": found.lags[:, MOST].copy(),
            "fed": np.zeros(model.inputs.size + q),
            "past": np.zeros(q),
            "start": np.zeros(q),
            "v": np.zeros(lines),
            "rows": np.zeros((1, 1)),
            "breaks": np.zeros((ROWS, 3)),
            "memory": np.zeros(3 + 2 * d),
            "after": np.zeros(3 + 2 * d),
            "began": np.zeros(n),
            "own": np.zeros(0),
            "own_after": np.zeros(0),
            "settings": np.zeros(2),
            "snaps": np.zeros(d),
            "inner_notes": np.zeros(0),
            "notes": np.zeros(0),
            "k": np.zeros((0, n)),
            "dense": np.zeros((0, 0)),
            "slopes": np.zeros((2, n)),
            "y": np.zeros(n),
            "fit": np.zeros((1, 1)),
            "nodes_v": np.zeros((1, lines)),
        }
        self._plain: list[Any] = []
        self._alive: Any = None
        self._words = np.zeros(len(LAYOUT.functions) + 3 * len(LAYOUT.arrays), dtype=np.int64)
        self._write()
        number = self._words.ctypes.data
        plain_tables()[number] = self._plain
        weakref.finalize(self, plain_tables().pop, number, None)

    def _write(self) -> None:
        """Write the addresses of all functions and arrays to the table, which stays in place."""
        arrays, sizes = self._arrays, self._sizes
        addresses = [int(self._functions[name][0]) for name in LAYOUT.functions]
        plain = [self._functions[name][1] for name in LAYOUT.functions]
        words = LAYOUT.block(addresses, arrays, sizes).words
        self._words[: words.size] = words
        self._plain[:] = LAYOUT.plain(plain, arrays, sizes)

    def parameters(self, p: Vector) -> Vector:
        """Return ``p`` (k,) with the address of this past as a further element."""
        return np.append(p, float(self._words.ctypes.data))

    def attach(
        self,
        functions: Mapping[str, Function],
        arrays: Mapping[str, NDArray[np.float64]],
        width: int,
        alive: object,
    ) -> None:
        """Let a solver use this past, with rows of ``width`` elements.

        ``alive`` is kept as long as the table has the addresses of ``functions``.
        """
        self._functions |= functions
        self._arrays |= arrays
        if self._arrays["rows"].shape[1] != width:
            self._arrays["rows"] = np.zeros((ROWS, width))
        self._alive = alive
        self.attached = True
        self._write()

    # -- the functions of the model

    def first(self, x: Vector, z: Vector, u: Vector, p: Vector) -> Vector:
        """Return u and the delayed signals at the start of the run.

        Raises :class:`ModelError` for a lag or a value that is not valid there.
        """
        with plainly():
            fed = np.array(feed(self._plain, 0.0, x, z, u, p))
        if fault := self.fault():
            raise ModelError(fault)
        lines = self._resolved.elements[:, 0] == 3
        late = fed[u.size :]
        if not np.isfinite(late[~lines]).all():
            i = int(np.flatnonzero(~np.isfinite(late) & ~lines)[0])
            raise ModelError(
                f"{self._called(int(self._resolved.elements[i, 2]))} is {late[i]} before the run; "
                "correct before="
            )
        return fed

    def wrapped(self) -> BoundModel:
        """Return the model's functions as a solver calls them: each reads the past by itself."""
        bound = self._bound
        derivative = self._native(delayed_derivative, EQUATION, bound.derivative, "derivative")
        self._functions["slope"] = _both(derivative)
        line = self._native(delayed_line, EQUATION, self.line, "line")
        self._functions["lines_now"] = _both(line)
        self._kept = (derivative, line)
        self._write()
        fed = prepared(delayed_fed, EQUATION, "delayed signals", bool(self._compile)).call
        return replace(
            bound,
            derivative=derivative,
            output=self._native(delayed_output, EQUATION, bound.output, "output"),
            guard=self._native(delayed_guard, EQUATION, bound.guard, "guard"),
            update=self._native(delayed_update, UPDATE, bound.update, "update"),
            tick=self._native(delayed_tick, TICK, bound.tick, "tick"),
            reset=self._from_python(bound.reset, fed),
            stop=self._from_python(bound.stop, fed),
            history=self,
        )

    def _native(self, plain: Callable[..., None], kinds: Any, of: Native, what: str) -> Native:
        if of is ABSENT:
            return ABSENT
        native = prepared(plain, kinds, f"{what} with delays", bool(self._compile))
        return replace(native, unchecked=of.unchecked)

    def _from_python(self, of: Native, fed: Callable[..., None]) -> Native:
        """Return a reset or a stop mode, which only Python calls, with the delayed signals."""
        if of is ABSENT:
            return ABSENT
        found, seen = np.zeros_like(self._arrays["fed"]), set()

        def call(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:
            fed(t, x, z, u, p, found)
            if i not in seen:
                seen.add(i)
                check(of, i, t, x, z, found, p[:-1])
            of.call(i, t, x, z, found, p[:-1].copy())

        return replace(of, call=call, unchecked=False)

    # -- errors

    def _called(self, j: int) -> str:
        model = self._bound.model
        return f"delayed signal {model.delays[j].called} of model {model.name}"

    def fault(self) -> str:
        """Return what is wrong with a lag in the present step; empty if nothing is."""
        live, lags = self._arrays["live"], self._arrays["lags"]
        if live[FAULTY] == 0.0:
            return ""
        j = int(live[FAULTY]) - 1
        least, most = float(lags[j, LEAST]), float(self._arrays["most"][j])
        said = f"{self._called(j)} has the lag {live[FAULT_LAG]:.9g} s at {live[FAULT_TIME]:.9g} s"
        live[FAULTY] = 0.0
        if int(lags[j, KIND]) == PARAMETER:
            name = self._bound.model.parameters.columns[int(lags[j, VALUE])]
            if not math.isfinite(most):  # the lag with which the run begins is itself not valid
                return f"{said}, by the parameter {name}; it must be 0, or at least 1e-09 s"
            return (
                f"{said}, by the parameter {name}; it must be 0, or from 1e-09 s to {most:g} s: "
                "the past is kept for the lag with which the run begins. Declare most= in Delayed "
                "for a lag that grows"
            )
        return (
            f"{said}, outside its bounds, from {least:g} s to {most:g} s; correct the lag, or "
            "declare other bounds least= and most= in Delayed"
        )

    @property
    def elements(self) -> int:
        """The number of delayed elements."""
        return len(self._arrays["elements"])

    @property
    def variable(self) -> bool:
        """True if a lag is a function."""
        return bool((self._arrays["lags"][:, KIND] == FUNCTION).any())

    # -- room, and checkpoints

    def grow(self) -> None:
        """Make room for twice as many rows and breaks, and keep those of the committed steps."""
        memory, live = self._arrays["memory"], self._arrays["live"]
        for name, count, top in _RINGS:
            old = self._arrays[name]
            places, new = len(old), np.zeros((2 * len(old), old.shape[1]))
            for n in range(max(0, int(live[top]) - places), int(memory[count])):
                new[n % len(new)] = old[n % places]
            live[top] = memory[count]
            self._arrays[name] = new
        self._write()

    def save(self) -> dict[str, Any]:
        """Return as plain data the part of the past that the rest of the run can need."""
        arrays = self._arrays
        memory = arrays["memory"]
        since = memory[TIME] - np.nanmax(np.append(arrays["most"], 0.0)) - 1e3 * near(memory[TIME])
        most = [None if np.isnan(longest) else longest for longest in arrays["most"].tolist()]
        kept: dict[str, Any] = {"most": most, "start": arrays["start"].tolist()}
        for name, count, top in _RINGS:
            ring, n = arrays[name], int(memory[count])
            first = max(0, int(arrays["live"][top]) - len(ring))
            found = [ring[i % len(ring)].tolist() for i in range(first, n)]
            end = END if name == "rows" else WHEN
            kept[name] = [row for row in found if row[end] >= since]
        return kept

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Restore what :meth:`save` returned; the memory has its saved values already."""
        arrays = self._arrays
        memory = arrays["memory"]
        arrays["most"][:] = [np.nan if m is None else m for m in saved["most"]]
        arrays["start"][:] = saved["start"]
        arrays["live"][FAULTY] = arrays["live"][LEG] = arrays["live"][BUMP] = 0.0
        for name, count, top in _RINGS:
            while len(arrays[name]) < len(saved[name]) + 2:
                arrays[name] = np.zeros((2 * len(arrays[name]), arrays[name].shape[1]))
            ring, n = arrays[name], int(memory[count])
            ring[:] = 0.0 if name == "rows" else -np.inf
            for i, row in enumerate(reversed(saved[name])):
                ring[(n - 1 - i) % len(ring)] = row
            arrays["live"][top] = n
        self._write()


def _made(function: Any, kinds: Any, what: str, compile: Compilation) -> Native:
    return ABSENT if function is None else prepared(function, kinds, what, compile)


def _both(native: Native) -> Function:
    """Return the address of a function, or 0, and the function as plain Python."""
    if native is ABSENT:
        return _NONE
    compiled = isinstance(native.handle, np.intp)
    return (native.handle if compiled else 0), native.py_func
