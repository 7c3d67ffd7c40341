"""A method at work: its vectors stay where they are, and one call of compiled code steps them.

A method is one function ``resident(words, t, h)`` that answers :data:`GOOD` or what went wrong.
``words`` is a :class:`rtsim.equations.compiling.Block`, or its plain likeness; the places below
say what is where.  ``memory`` is what the method knows of the past, ``after`` what it will know
when the step is committed; all zeros is nothing.  Its own are its coefficients and its scratch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.core.signals import Vector
from rtsim.core.tag import NS_PER_S
from rtsim.equations.addresses import (
    INTEGER,
    MATRIX,
    NUMBER,
    VECTOR,
    WORDS,
    AddressBlock,
    call_step,
    plain_block,
    vector_at,
)
from rtsim.equations.compiling import Native, compile_function, compiled, evaluate, in_both
from rtsim.equations.model import BoundModel
from rtsim.solve.base import GOOD, Stepper
from rtsim.solve.legs import Legs, by_slopes, by_weights

F, PROJECT, X, Z, U, P, OUT, MEMORY, AFTER, OWN = 0, 1, 2, 4, 6, 8, 10, 12, 14, 16
"""Places in a block: two addresses, then address and length of each vector."""

_evaluate = compiled(evaluate)


@in_both
def head(words: Any) -> Any:
    """What each block begins with: f, project, x, z, u, p, out, memory, after.

    Give them names; what is a method's own, find in the call that takes it.  Otherwise references
    to ``words`` are counted at each step, which a short one feels.
    """
    return (
        words[F],
        words[PROJECT],
        vector_at(words, X),
        vector_at(words, Z),
        vector_at(words, U),
        vector_at(words, P),
        vector_at(words, OUT),
        vector_at(words, MEMORY),
        vector_at(words, AFTER),
    )


@dataclass(frozen=True)
class Inner:
    """Of a method that takes several steps up to a tag: one of them, and what it leaves."""

    leg: Callable[..., int]
    retake: Callable[..., int]
    now: Vector
    notes: Vector
    k: NDArray[np.float64]
    dense: NDArray[np.float64]


@dataclass(frozen=True)
class Method:
    """What :func:`stepper` is made of."""

    resident: Callable[..., int]
    own: tuple[NDArray[Any], ...]
    memory: int = 0
    """Doubles that it remembers from step to step."""
    kept: int = 0
    """The first of them that it keeps where something changed from outside."""
    unbounded: int | None = None
    """Where in the memory it counts steps with no bound on their error; ``None``: it takes none."""
    new_frame: Callable[[Vector], None] | None = None
    """Told on its memory that a frame begins."""
    inner: Inner | None = None
    """``None``: a step is one leg."""


def resident_run(step: Any, words: Any, output: Any, times: Any, values: Any, rows: Any) -> int:
    """Steps from each of ``times`` (k + 1,) in ns to the next, as one by one they would be.

    ``output`` is the block of the output function, or empty; x, z, u and y are views of ``values``,
    of which each step leaves a copy in ``rows`` (k, n).  Returns how many steps were good.
    """
    x, out = vector_at(words, X), vector_at(words, OUT)
    memory, after = vector_at(words, MEMORY), vector_at(words, AFTER)
    for i in range(times.size - 1):
        t, later = times[i] / NS_PER_S, times[i + 1] / NS_PER_S
        if call_step(step, words, t, (times[i + 1] - times[i]) / NS_PER_S) != GOOD:
            return i
        for j in range(x.size):
            x[j] = out[j]
        if output.size and _evaluate(output, later) >= 0:
            return i
        for j in range(memory.size):
            memory[j] = after[j]
        for j in range(values.size):
            rows[i, j] = values[j]
    return times.size - 1  # type: ignore[no-any-return]


@cache
def _native(resident: Callable[..., int]) -> Native:
    return compile_function(resident, (WORDS, NUMBER, NUMBER), f"solver {resident.__module__}")


@cache
def _native_run() -> Native:
    signature = (INTEGER, WORDS, WORDS, WORDS, VECTOR, MATRIX)
    return compile_function(resident_run, signature, "several steps at once")


def stepper(method: Method, bound: BoundModel) -> Stepper:
    """``method`` at work on ``bound``, compiled where that is."""
    return (_Resident if bound.compiled else _Plain)(method, bound)


@dataclass(frozen=True)
class NativeStep:
    """A stepper at work on vectors that stay where they are, as compiled code calls it."""

    handle: int
    words: NDArray[np.int64]
    memory: Vector
    after: Vector
    kept: int
    """The first double of the memory that :meth:`Stepper.forget` leaves."""


class _Plain:
    """Takes the vectors up once, and again only where it is given others."""

    def __init__(self, method: Method, bound: BoundModel) -> None:
        self._method = method
        self._bound = bound  # while its functions are called by their addresses
        self._functions = (bound.derivative.handle, bound.project.handle)
        self._memory, self._after = np.zeros(method.memory), np.zeros(method.memory)
        self._x = self._z = self._u = self._p = self._out = np.zeros(0)
        self._words: Any = None
        self._step: Callable[..., int] = method.resident

    def advance(
        self, from_ns: int, to_ns: int, x: Vector, z: Vector, u: Vector, p: Vector, out: Vector
    ) -> int:
        self._settle(x, z, u, p, out)
        return self._step(self._words, from_ns / NS_PER_S, (to_ns - from_ns) / NS_PER_S)

    def legs(self, x: Vector, z: Vector, u: Vector, p: Vector, out: Vector) -> Legs:
        """Its way on these vectors, for :class:`rtsim.solve.guarded.Guarded`."""
        self._settle(x, z, u, p, out)
        inner, whole = self._method.inner, self._of(self._method.resident)
        if inner is None:
            return Legs(whole, whole, self._of(by_slopes), self._words, x, self._compiled)
        leg, retake, between = (self._of(f) for f in (inner.leg, inner.retake, by_weights))
        return Legs(
            leg, retake, between, self._words, inner.now, self._compiled, inner.notes, inner.k,
            inner.dense,
        )  # fmt: skip

    _compiled = False

    def _of(self, function: Callable[..., int]) -> Any:
        """What calls ``function`` from a solver."""
        return function

    def _block(self, vectors: tuple[NDArray[Any], ...]) -> Any:
        return plain_block(self._functions, vectors)

    def _settle(self, x: Vector, z: Vector, u: Vector, p: Vector, out: Vector) -> None:
        if not (
            x is self._x and out is self._out and u is self._u and p is self._p and z is self._z
        ):
            self._x, self._z, self._u, self._p, self._out = x, z, u, p, out
            vectors = (x, z, u, p, out, self._memory, self._after, *self._method.own)
            self._words = self._block(vectors)

    def accept(self) -> None:
        self._memory[:] = self._after

    def forget(self) -> None:
        self._memory[self._method.kept :] = 0.0

    def new_frame(self) -> None:
        """The plant is on its grid: a budget is whole again."""
        if self._method.new_frame is not None:
            self._method.new_frame(self._memory)

    @property
    def unbounded(self) -> int | None:
        """Committed steps whose error nobody has bounded; ``None``: it takes none."""
        place = self._method.unbounded
        return None if place is None else int(self._memory[place])

    def save(self) -> dict[str, Any]:
        return {"memory": self._memory.tolist()} if self._memory.size else {}

    def restore(self, saved: dict[str, Any]) -> None:
        if self._memory.size:
            self._memory[:] = saved["memory"]


class _Resident(_Plain):
    """The same in compiled code."""

    def __init__(self, method: Method, bound: BoundModel) -> None:
        super().__init__(method, bound)
        native, run = _native(method.resident), _native_run()
        self._step, self._step_handle, self._run = native.call, native.handle, run.call
        self._output = bound.output
        self._output_words = np.zeros(0, dtype=np.int64)
        self._y = np.zeros(0)

    _compiled = True

    def native(self, x: Vector, z: Vector, u: Vector, p: Vector, out: Vector) -> NativeStep:
        """The step on these vectors, for code that calls it by its address."""
        self._settle(x, z, u, p, out)
        return NativeStep(
            int(self._step_handle), self._words, self._memory, self._after, self._method.kept
        )

    def _of(self, function: Callable[..., int]) -> Any:
        return _native(function).handle

    def _block(self, vectors: tuple[NDArray[Any], ...]) -> Any:
        self._y = np.zeros(0)
        return AddressBlock.of(self._functions, vectors).words

    def run(
        self, times: NDArray[np.int64], vectors: tuple[Vector, ...], y: Vector, values: Vector
    ) -> NDArray[np.float64]:
        """Several steps at once: rows (k, n) of ``values``, one for each good step.

        ``vectors`` are x, z, u, p and the scratch of :meth:`advance`; x and y are left at the end.
        """
        self._settle(*vectors)
        if y is not self._y:
            self._y = y
            if y.size:
                self._output_words = AddressBlock.of(
                    (self._output.handle,), (*vectors[:4], y)
                ).words
        rows = np.empty((times.size - 1, values.size))
        good = self._run(self._step_handle, self._words, self._output_words, times, values, rows)
        return rows[:good]
