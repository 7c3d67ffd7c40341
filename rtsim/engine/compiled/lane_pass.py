"""Several whole runs in one pass of compiled code, each with the results of its own single run."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.components.plant import RunningPlant
from rtsim.core.clock import stopwatch
from rtsim.engine.compiled.engine import WholeRun
from rtsim.engine.compiled.lanes import stretch_of_lanes
from rtsim.engine.compiled.records import LANE, PASS, WIDE, place_of
from rtsim.equations.addresses import WORDS
from rtsim.equations.calls import EVALUATION_LAYOUT
from rtsim.equations.compiling import Native, compile_function, source_at
from rtsim.equations.lanes import Lanes, lanes_of
from rtsim.equations.llvm_text import NotWidened
from rtsim.solve.internal_steps import STEP_LAYOUT

_MOST_TAGS = 4096
"""Number of tags of each run in one call. The runs stay together only if it is equal for all."""


@cache
def _kernel() -> Native:
    return compile_function(stretch_of_lanes, (WORDS,), "the compiled engine for several runs")


class LanePass:
    """Several runs of equal systems; each has its own :class:`WholeRun`.

    :attr:`alone` contains the parts that are computed run by run, with the reason.
    """

    def __init__(self, runs: Sequence[WholeRun]) -> None:
        self.runs = list(runs)
        self.alone: dict[str, str] = {}
        self._alive: list[Any] = []
        width = len(runs)
        self._lanes, self._passes = np.zeros(width, LANE), np.zeros(1, PASS)
        plants = runs[0].plants
        self._wides = np.zeros(len(plants), WIDE)
        for row, plant in zip(self._wides, plants, strict=True):
            self._fill(row, plant, width)
        self._passes[0]["lanes"] = place_of(self._lanes)
        self._passes[0]["wides"] = place_of(self._wides)
        self._entry = np.array([self._passes.ctypes.data], np.int64)
        self._call = _kernel().on(self._entry)
        self.calls = 0
        """Number of calls that computed several runs."""
        self.steps_alone = 0
        """Number of steps that were computed run by run."""

    def run(self) -> None:
        """Continue all runs that have begun, until each has ended or cannot go on.

        After an exception of a model, no run goes on, because its run cannot be identified.
        """
        passes = self._passes[0]
        while any(one.going for one in self.runs):
            for lane, one in zip(self._lanes, self.runs, strict=True):
                lane["header"], lane["runs"] = int(one.entry[0]), one.going
                if one.going:
                    one.before_call(_MOST_TAGS)
            going = [one.going for one in self.runs]
            began = stopwatch()
            try:
                self._call()
            except KeyboardInterrupt:
                raise
            except Exception:  # the interpreter will raise the same error and report its place
                for one in self.runs:
                    if one.going:
                        one.end(None)
                return
            spent = (stopwatch() - began) // max(1, sum(going))
            self.calls += int(passes["calls"])
            self.steps_alone += int(passes["alone"])
            for lane, one, was in zip(self._lanes, self.runs, going, strict=True):
                if was:
                    one.wall_ns += spent
                    one.after_call(int(lane["tags"]))

    def _fill(self, row: Any, plant: RunningPlant, width: int) -> None:
        row["numbers"] = self._matrix(np.zeros(2), width)
        row["answers"] = self._place(np.zeros(width, np.int64))
        vectors = dict(zip("xzup", (plant.x, plant.z, plant.u, plant.p), strict=True))
        step, output = plant.native_step(), plant.native_output()
        assert step is not None
        arrays = dict(zip(STEP_LAYOUT.arrays, step.block.arrays, strict=False))
        vectors |= {name: arrays[name] for name in ("memory", "after", "out")}
        for name, vector in vectors.items():
            row[name] = self._matrix(vector, width)
        try:
            row["step"], row["step_words"] = self._step(row, plant, width)
        except NotWidened as reason:
            self.alone[f"the steps of {plant.name}"] = str(reason)
        if output is None:
            return
        try:
            function = _at(plant.bound.output, width)
        except NotWidened as reason:
            self.alone[f"the outputs of {plant.name}"] = str(reason)
            return
        y = output.arrays[list(EVALUATION_LAYOUT.arrays).index("out")]
        row["y"] = self._matrix(y, width)
        words = []
        for name, size in (*((n, vectors[n].size) for n in "xzup"), ("y", y.size)):
            words += [int(row[name]["address"]), size]
        self._alive.append(function)
        row["output"] = function.entry
        row["output_words"] = self._place(np.array(words, np.int64))

    def _step(self, row: Any, plant: RunningPlant, width: int) -> tuple[int, tuple[int, int]]:
        step = plant.native_step()
        assert step is not None
        if plant.watch is not None and plant.watch.native() is not None:
            raise NotWidened("the model has guards")
        known = list(STEP_LAYOUT.functions)
        if step.words[known.index("internal_step")]:
            raise NotWidened("the solver chooses the lengths of its steps")
        source = source_at(step.handle)
        if source is None:
            raise NotWidened("the solver is not compiled")
        function = lanes_of(source, width)
        bound = plant.bound
        words = [0] * len(known)
        for name, native in (("f", bound.derivative), ("project", bound.project)):
            if native.handle:
                own = _at(native, width)
                self._alive.append(own)
                words[known.index(name)] = own.handle
        for i, array in enumerate(step.block.arrays):
            name = next((n for k, n in enumerate(STEP_LAYOUT.arrays) if k == i), "")
            if name in (row.dtype.names or ()) and name != "":
                words.append(int(row[name]["address"]))
            else:
                words.append(self._matrix(array, width)[0])
            words += array.shape
        self._alive.append(function)
        return function.entry, self._place(np.array(words, np.int64))

    def _matrix(self, vector: NDArray[np.float64], width: int) -> tuple[int, int]:
        return self._place(np.repeat(vector.reshape(-1), width))

    def _place(self, array: NDArray[Any]) -> tuple[int, int]:
        aligned = np.zeros(array.size + 8, array.dtype)
        first = (-aligned.ctypes.data % 64) // 8
        own = aligned[first : first + array.size]
        own[...] = array
        self._alive.append(own)
        return own.ctypes.data, own.size


def _at(native: Native, width: int) -> Lanes:
    source = source_at(int(native.handle))
    if source is None:
        raise NotWidened("the function is not compiled")
    return lanes_of(source, width)
