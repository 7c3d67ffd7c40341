"""The log of the steps of a C controller that compiled code has called by their address.

The memory of C code is not known, so compiled code cannot undo a step.  It therefore writes each
step with its answer into this log (``rtsim_step_by_address`` in ``guard.c``).  If compiled code
leaves a step to the interpreter after the C code has run it, the log keeps the answer of this step:
the interpreter takes the kept answer in place of a second step.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rtsim.core.signals import Vector
from rtsim.core.tag import NS_PER_S, Tag

_ROWS = 1 << 16
_HEAD, _ROW_HEAD = 3, 3
_ROW_COUNT, _CLOSED, _LATEST = range(_HEAD)
_LATEST_S = 2**50 / NS_PER_S
"""Up to here, 13 days, the time in s determines its ns; later steps run in the interpreter."""


class CalledSteps(NamedTuple):
    """Steps in their order: tags [ns] (k,), durations [ns] (k,), inputs (k, m), outputs (k, n)."""

    ns: NDArray[np.int64]
    took_ns: NDArray[np.int64]
    inputs: NDArray[np.float64]
    outputs: NDArray[np.float64]


class KeptStep(NamedTuple):
    """A step that the C code has run, and that the interpreter repeats."""

    tag: Tag
    inputs: Vector
    outputs: Vector
    status: int
    took_ns: int

    def repeats(self, tag: Tag, inputs: Vector) -> bool:
        """Return whether ``tag`` and ``inputs`` are those of this step, bit for bit."""
        return self.tag == tag and self.inputs.tobytes() == inputs.tobytes()


class StepLog:
    """The log of a controller with ``inputs`` and ``outputs`` columns."""

    def __init__(self, inputs: int, outputs: int) -> None:
        self._inputs, self._width = inputs, _ROW_HEAD + inputs + outputs
        self.values = np.zeros(_HEAD + _ROWS * self._width)
        """The vector that the C code gets; its layout is in ``guard.c``."""
        self.values[_LATEST] = _LATEST_S
        self.kept: KeptStep | None = None
        """The step that the interpreter has to repeat."""

    def take(self, steps: int) -> CalledSteps:
        """Return the first ``steps`` steps, and keep the answer of the next one, if it was called.

        If a step is kept, no further step is called until :meth:`repeated`.
        """
        called = int(self.values[_ROW_COUNT])
        assert steps <= called <= steps + 1, f"{called} steps were called, {steps} were counted"
        rows = self.values[_HEAD : _HEAD + called * self._width].reshape(called, self._width).copy()
        self.values[_ROW_COUNT] = 0
        ns = np.rint(rows[:, 0] * NS_PER_S).astype(np.int64)
        took_ns, first = rows[:, 1].astype(np.int64), _ROW_HEAD + self._inputs
        inputs, outputs = rows[:, _ROW_HEAD:first], rows[:, first:]
        if called > steps:
            status, took = int(rows[-1, 2]), int(took_ns[-1])
            self.kept = KeptStep(Tag(int(ns[-1])), inputs[-1], outputs[-1], status, took)
            self.values[_CLOSED] = 1
        return CalledSteps(ns[:steps], took_ns[:steps], inputs[:steps], outputs[:steps])

    def repeated(self) -> None:
        """Forget the kept step, which the interpreter has repeated."""
        self.kept = None
        self.values[_CLOSED] = 0
