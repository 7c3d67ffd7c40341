"""Steppers of rtsim's own solvers, in machine code or in plain Python.

A numerical method is a function ``step(words, t, h)``. The function computes one step from time
``t`` (s) with the length ``h`` (s), and returns :data:`GOOD` or an error code of
:mod:`rtsim.solve.base`. The argument table ``words`` begins with :data:`STEP_LAYOUT` and contains
the addresses of all arrays. A step of a compiled stepper is a single call.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from operator import is_
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.core.signals import Vector
from rtsim.core.tag import NS_PER_S
from rtsim.equations.addresses import (
    INTEGER,
    MATRIX,
    VECTOR,
    WORDS,
    AddressBlock,
    Layout,
    call_step,
)
from rtsim.equations.calls import evaluate, evaluation_block
from rtsim.equations.compiling import Native, compile_function, compiled
from rtsim.equations.machine_code import FAILED, BareCall, EntryPoint
from rtsim.equations.model import BoundModel
from rtsim.solve.base import GOOD, PAUSED, Stall, Stepper
from rtsim.solve.guard_table import GUARD_TABLE, state_within
from rtsim.solve.internal_steps import (
    BEGAN,
    PHASE,
    STEP_LAYOUT,
    TAKEN,
    TRIED,
    WAITING,
    InternalSteps,
    Method,
    functions_of,
    model_sizes,
    native_step,
    nothing,
    to_its_end,
)

_evaluate = compiled(evaluate)


def resident_run(step: Any, words: Any, output: Any, times: Any, values: Any, rows: Any) -> int:
    """Take and commit steps between consecutive ``times`` (ns); return their number.

    ``times`` has the shape (k + 1,). ``output`` is the argument table of the output function, or
    empty. ``values`` contains x, z, u and y, which are copied to a row of ``rows`` after each step.
    """
    x, out, memory, after = words.x, words.out, words.memory, words.after
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


def rows_of(
    run: Callable[[int], int],
    rows: NDArray[np.float64],
    notes: Vector,
    interrupt_check: Callable[[], object],
) -> NDArray[np.float64]:
    """Return the rows of the completed steps; call ``run`` until it does not pause.

    ``run(i)`` begins with step number ``i`` and returns the number of completed steps.
    ``interrupt_check`` is called in each pause.
    """
    good = run(0)
    try:
        while notes[PHASE] == WAITING:
            interrupt_check()
            good += run(good)
    finally:
        notes[PHASE] = 0.0
    return rows[:good]


_VECTORS = ("x", "z", "u", "p", "out")
EXACT_NS = 2**53
"""Up to this time (104 days), compiled code converts ns to seconds exactly like Python."""


def between(words: Any, call: Any) -> int:
    begin, end = call[0], call[1]
    return call_step(call[2], words, begin / NS_PER_S, (end - begin) / NS_PER_S)


@cache
def _native_between() -> EntryPoint:
    entry = compile_function(between, (WORDS, WORDS), "one step").call
    assert isinstance(entry, EntryPoint)
    return entry


def step_in_ns(step: Native, block: AddressBlock) -> tuple[array[int], BareCall]:
    """Return the fastest call of ``step`` from Python, and the array with its times.

    The first two elements of the array are begin and end of the step, ns. ctypes needs 0.2 us for
    two numbers as arguments.
    """
    times = array("q", (0, 0, int(step.handle)))
    return times, _native_between().bare(block, np.frombuffer(times, np.int64))


@cache
def _native_run() -> Native:
    signature = (INTEGER, STEP_LAYOUT.kind, WORDS, WORDS, VECTOR, MATRIX)
    return compile_function(resident_run, signature, "several steps at once")


def stepper(method: Method, bound: BoundModel) -> Stepper:
    """Return a stepper that integrates a model with a numerical method.

    The stepper is compiled if the model is compiled. Raises ``ValueError`` for an array with a
    wrong shape, and ``TypeError`` for one that is not contiguous float64.
    """
    if bound.history is not None:
        from rtsim.solve.delayed import with_history  # few models have delays

        method = with_history(method, bound)
    return (_Resident if bound.compiled else _Plain)(method, bound)


@dataclass(frozen=True)
class NativeStep:
    """Arguments with which compiled code calls the step function of a stepper."""

    handle: int
    block: AddressBlock
    memory: Vector
    after: Vector
    kept: int
    """Number of leading elements of the memory that :meth:`Stepper.forget` does not clear."""

    @property
    def words(self) -> NDArray[np.int64]:
        """The argument table of the step function."""
        return self.block.words


class _Plain:
    """A stepper that runs a method as plain Python."""

    _compiled = False

    def __init__(self, method: Method, bound: BoundModel) -> None:
        self.interrupt_check: Callable[[], object] = nothing
        self._method = method
        self._bound = bound  # keeps the machine code of these functions alive
        steps: tuple[Callable[..., int], ...] = ()
        if method.inner is not None:
            steps = method.inner.internal_step, method.inner.retake
        self._functions = functions_of(bound, *(self._called(step) for step in steps))
        self._sizes = model_sizes(bound)
        self._arrays = method.layout.filled(method.own, self._sizes)
        self._memory, self._after = self._arrays["memory"], self._arrays["after"]
        self._notes = self._arrays["notes"]
        # Check the method's own arrays before the first step.
        self._settle(tuple(self._arrays[name] for name in _VECTORS))

    def advance(
        self, from_ns: int, to_ns: int, x: Vector, z: Vector, u: Vector, p: Vector, out: Vector
    ) -> int:
        if not (
            x is self._x and out is self._out and u is self._u and p is self._p and z is self._z
        ):
            self._settle((x, z, u, p, out))
        step = partial(self._step, from_ns / NS_PER_S, (to_ns - from_ns) / NS_PER_S)
        answer = step()
        if answer == PAUSED:
            return to_its_end(step, self._notes, self.interrupt_check)
        return answer

    def internal_steps(
        self, x: Vector, z: Vector, u: Vector, p: Vector, out: Vector
    ) -> InternalSteps:
        self._settle((x, z, u, p, out))
        inner, whole = self._method.inner, self._called(self._method.step)
        between = self._called(state_within, GUARD_TABLE)
        if inner is None:
            return InternalSteps(whole, whole, between, self._words, x, self._compiled, self._notes)
        internal_step, retake = self._called(inner.internal_step), self._called(inner.retake)
        return InternalSteps(
            internal_step, retake, between, self._words, inner.now, self._compiled, self._notes,
            inner.k, inner.dense,
        )  # fmt: skip

    def _settle(self, vectors: tuple[Vector, ...]) -> None:
        arrays = {**self._arrays, **dict(zip(_VECTORS, vectors, strict=True))}
        if self._method.settle is not None:
            self._method.settle(arrays)
        self._bind(arrays)
        self._vectors = self._x, self._z, self._u, self._p, self._out = vectors

    def _bind(self, arrays: Mapping[str, NDArray[np.float64]]) -> None:
        self._words: Any = self._method.layout.plain(self._functions, arrays, self._sizes)
        self._step: Callable[[float, float], int] = partial(self._method.step, self._words)

    def _called(self, function: Callable[..., int], layout: Layout | None = None) -> Any:  # noqa: ARG002
        return function

    def accept(self) -> None:
        self._memory[:] = self._after

    def forget(self) -> None:
        self._memory[self._method.kept :] = 0.0

    def new_frame(self) -> None:
        if self._method.new_frame is not None:
            self._method.new_frame(self._memory)

    @property
    def unbounded(self) -> int | None:
        place = self._method.unbounded
        return None if place is None else int(self._memory[place])

    def give_up(self) -> None:
        self._notes[PHASE] = 0.0

    def stall(self) -> Stall | None:
        inner, notes = self._method.inner, self._notes
        if inner is None:
            return None
        return Stall(float(notes[BEGAN]), float(notes[TAKEN]), inner.now.copy(), int(notes[TRIED]))

    def save(self) -> dict[str, Any]:
        past = self._bound.history
        return {
            **({"memory": self._memory.tolist()} if self._memory.size else {}),
            **({} if past is None else {"past": past.save()}),
        }

    def restore(self, saved: dict[str, Any]) -> None:
        if self._memory.size:
            self._memory[:] = saved["memory"]
        if self._bound.history is not None:
            self._bound.history.restore(saved["past"])


class _Resident(_Plain):
    """A stepper that runs a method as compiled code."""

    _compiled = True

    def __init__(self, method: Method, bound: BoundModel) -> None:
        self._native, self._run = native_step(method.step, method.layout.kind), _native_run().call
        super().__init__(method, bound)

    def _bind(self, arrays: Mapping[str, NDArray[np.float64]]) -> None:
        self._block = self._method.layout.block(self._functions, arrays, self._sizes)
        self._words = self._block.words
        self._step = self._native.on(self._block)
        self._times, self._bare = step_in_ns(self._native, self._block)
        self._call, self._at = self._bare.function, self._bare.at
        self._output_words = np.zeros(0, dtype=np.int64)
        self._y = np.zeros(0)

    def advance(
        self, from_ns: int, to_ns: int, x: Vector, z: Vector, u: Vector, p: Vector, out: Vector
    ) -> int:
        if (
            x is self._x and out is self._out and u is self._u and p is self._p and z is self._z
            and to_ns < EXACT_NS
        ):  # fmt: skip
            times = self._times
            times[0] = from_ns
            times[1] = to_ns
            answer = self._call(self._at)
            return answer if answer >= GOOD else self._without_end(answer)
        return super().advance(from_ns, to_ns, x, z, u, p, out)

    def _without_end(self, answer: int) -> int:
        if answer == PAUSED:
            answer = to_its_end(lambda: self._call(self._at), self._notes, self.interrupt_check)
        if answer == FAILED:
            raise self._bare.error()
        return answer

    def native(self, x: Vector, z: Vector, u: Vector, p: Vector, out: Vector) -> NativeStep:
        if not all(map(is_, (x, z, u, p, out), self._vectors)):
            self._settle((x, z, u, p, out))
        handle = int(self._native.handle)
        return NativeStep(handle, self._block, self._memory, self._after, self._method.kept)

    def _called(self, function: Callable[..., int], layout: Layout | None = None) -> Any:
        return native_step(function, (layout or self._method.layout).kind).handle

    def run(
        self, times: NDArray[np.int64], vectors: tuple[Vector, ...], y: Vector, values: Vector
    ) -> NDArray[np.float64]:
        if not all(map(is_, vectors, self._vectors)):
            self._settle(vectors)
        if y is not self._y:
            self._y = y
            if y.size:
                self._output = evaluation_block(self._bound.output, *vectors[:4], y)
                self._output_words = self._output.words
        rows = np.empty((times.size - 1, values.size))
        step, words, output = self._native.handle, self._words, self._output_words
        return rows_of(
            lambda i: self._run(step, words, output, times[i:], values, rows[i:]),
            rows,
            self._notes,
            self.interrupt_check,
        )
