"""The steps of a Co-Simulation FMU in this process, taken by compiled code.

Compiled code calls the C functions of the FMU by their addresses, with the buffers of
:class:`rtsim.fmi.instance.FmuInstance`. The compiled engine calls :func:`step` and :func:`output`
like the step of a solver and the output function of a model. The interpreter calls the same two
functions, so that both engines give equal results.

A step of the plant is provisional. :func:`step` notes the step, and :func:`output` takes the step
at the commit, when nothing can discard the step. In real time, :func:`step` keeps the state of the
FMU and takes the step at once, if the FMU can return to a kept state.

If compiled code takes a step and then undoes the tag, the FMU is ahead of its plant. The
interpreter runs the same tag again, and :func:`step` does not repeat the step of the FMU.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.core.clock import MONOTONIC, system_calls
from rtsim.core.errors import ModelError
from rtsim.core.signals import Vector
from rtsim.core.tag import NS_PER_S
from rtsim.engine.compiled.records import PLACE, place_of, record
from rtsim.equations.addresses import (
    EQUATION,
    NUMBER,
    WORDS,
    AddressBlock,
    call_clock,
    call_fmi2_step,
    call_fmi2_values,
    call_fmi3_step,
    call_fmi3_values,
    call_fmi_state,
    record_at,
    records_of,
    vector_of,
    words_of,
)
from rtsim.equations.calls import evaluation_block, resident
from rtsim.equations.compiling import Native, compile_function, compiled, in_both, kept
from rtsim.solve.base import GOOD, PAUSED
from rtsim.solve.resident import EXACT_NS, NativeStep, step_in_ns

GROUP = record(
    "type",  # index in TYPES
    "put", "get",  # C functions
    "references", "count",  # address and number of the references
    buffer=PLACE,
    at=PLACE,  # index of each value in the vector of the plant
)  # fmt: skip
FMU = record(
    "version", "component",
    "do_step", "keep", "back",  # C functions
    "no_return",  # last argument of the step: 1 if no step is taken back
    "clock", "since",  # clock_gettime, or 0; time of the last pause, ns
    "pauses",  # 1 if steps pause, so that Python can handle signals
    "ahead",  # 1 if a step is taken before its tag
    "begun",  # 1 after the initialisation
    "moved",  # 1 after the first step
    "pending",  # 1 from a step to its commit
    "taken",  # 1 if the FMU has taken the pending step
    "ends",  # 1 if the pending step ends a step of the FMU
    "is_set",  # 1 if the FMU has the inputs ``set``
    "got",  # 1 if the buffers of the outputs contain the present outputs
    "holds",  # 1 if the state before the last step is kept
    "failed", "status",  # C function that failed, and its result or LOST
    inputs=PLACE, outputs=PLACE,  # arrays of GROUP
    u=PLACE, held=PLACE, set=PLACE,  # inputs: of the plant, during the step, in the FMU
    kept=PLACE,  # the pointer to the kept state
    flags=PLACE, last=PLACE,  # results of fmi3DoStep: three booleans and a time
    time=PLACE,  # buffer of clock_gettime
    began=np.float64, length=np.float64,  # the pending step, s
    at=np.float64,  # time of the FMU, s
    before=np.float64,  # time of the FMU before its last step, s
    fixed=np.float64,  # the only length of a step, s, or 0
)  # fmt: skip
DOUBLE, FLOAT, INT, LONG, BOOL, INT_BOOL = range(6)
"""Types of values; a boolean of FMI 2.0 is an ``int``."""
TYPES = {
    ("float64", False): DOUBLE, ("float32", False): FLOAT, ("int32", False): INT,
    ("int64", False): LONG, ("bool", True): BOOL, ("int32", True): INT_BOOL,
}  # fmt: skip
"""The types by the type of the buffer, and whether the values are booleans."""
LOST = -1
"""The status of a step that is not repeated, and from which the FMU cannot return."""
REFUSED = -9
"""The result of a step that the FMU refused, or that the interpreter must take."""
_PAUSE_NS = 10_000_000
"""Wall-clock time after which a step pauses."""
_PAUSE_STEPS = 16
"""Number of steps after which a step pauses, on a system without a clock for compiled code."""
_LAST_GOOD = 1
"""The greatest status that is no failure (Warning)."""
_NS, _EPS = 1 / NS_PER_S, 1e-15


@compiled
def _near(a: float, b: float) -> bool:
    """Return whether two times (s) mean the same ns."""
    return abs(a - b) <= 0.5 * _NS + _EPS * abs(a)


@compiled
def _later(a: float, b: float) -> bool:
    return a > b and not _near(a, b)


@compiled
def _same(one: Any, other: Any) -> bool:
    """Return whether two vectors are equal, bit for bit."""
    a, b = words_of(one), words_of(other)
    same = True
    for i in range(a.size):
        same = same and a[i] == b[i]
    return same


@compiled
def _copy(source: Any, into: Any) -> None:
    a, b = words_of(source), words_of(into)
    for i in range(a.size):
        b[i] = a[i]


@compiled
def _fits(group: Any, vector: Any) -> bool:
    """Convert the values of a group to its type; return False if a value is out of range."""
    at, buffer = words_of(group.at), group.buffer
    if group.type == DOUBLE:
        doubles = records_of(buffer, np.float64)
        for i in range(at.size):
            doubles[i] = vector[at[i]]
        return True
    if group.type == FLOAT:
        floats = records_of(buffer, np.float32)
        for i in range(at.size):
            floats[i] = vector[at[i]]
        return True
    for i in range(at.size):
        value = np.rint(vector[at[i]])
        if group.type == BOOL:
            records_of(buffer, np.uint8)[i] = value != 0.0
        elif group.type == INT_BOOL:
            records_of(buffer, np.int32)[i] = value != 0.0
        else:
            most = 2.0**31 if group.type == INT else 2.0**63
            if not -most <= value < most:
                return False
            if group.type == INT:
                records_of(buffer, np.int32)[i] = int(value)
            else:
                records_of(buffer, np.int64)[i] = int(value)
    return True


@compiled
def _read(group: Any, vector: Any) -> None:
    """Copy the values of a group to the elements of ``vector``."""
    at, buffer = words_of(group.at), group.buffer
    if group.type == DOUBLE:
        doubles = records_of(buffer, np.float64)
        for i in range(at.size):
            vector[at[i]] = doubles[i]
    elif group.type == FLOAT:
        floats = records_of(buffer, np.float32)
        for i in range(at.size):
            vector[at[i]] = floats[i]
    elif group.type == LONG:
        longs = records_of(buffer, np.int64)
        for i in range(at.size):
            vector[at[i]] = longs[i]
    elif group.type == BOOL:
        bools = records_of(buffer, np.uint8)
        for i in range(at.size):
            vector[at[i]] = bools[i]
    else:
        ints = records_of(buffer, np.int32)
        for i in range(at.size):
            vector[at[i]] = ints[i]


@compiled
def _good(f: Any, function: int, status: int) -> bool:
    """Return whether a call succeeded; note a failure, which Python raises later."""
    if status < 0 or status > _LAST_GOOD:
        f.failed, f.status = function, status
        return False
    return True


@compiled
def _exchange(f: Any, group: Any, function: int) -> bool:
    """Call a function that sets or gets the values of a group."""
    where, into = group.references, group.buffer.address
    if f.version == 2:
        status = call_fmi2_values(function, f.component, where, group.count, into)
    else:
        count = group.buffer.length
        status = call_fmi3_values(function, f.component, where, group.count, into, count)
    return _good(f, function, status)


@compiled
def _put(f: Any, place: Any) -> bool:
    """Set the inputs of the FMU to the vector at ``place``, unless the FMU has these values."""
    if f.is_set and _same(place, f.set):
        return True
    f.is_set = f.got = 0
    groups, u = records_of(f.inputs, GROUP), vector_of(place)
    for i in range(groups.size):
        if not _fits(groups[i], u):
            return False  # the interpreter reports the value
        if not _exchange(f, groups[i], groups[i].put):
            return False
    _copy(place, f.set)
    f.is_set = 1
    return True


@compiled
def _state(f: Any, function: int, pointer: int) -> bool:
    return _good(f, function, call_fmi_state(function, f.component, pointer))


@compiled
def _take(f: Any) -> bool:
    """Take the pending step; return False if the FMU refuses the step."""
    begin, length = f.began, f.length
    if f.fixed > 0.0:
        begin, length = f.at, f.fixed
    if not f.moved and not _same(f.held, f.set):  # the FMU must be initialised again
        return False
    if not _put(f, f.held):
        return False
    f.moved, f.taken, f.got = 1, 1, 0
    f.before, f.at = begin, begin + length
    if f.version == 2:
        status = call_fmi2_step(f.do_step, f.component, begin, length, f.no_return)
        return _good(f, f.do_step, status)
    flags, last = f.flags.address, f.last.address
    status = call_fmi3_step(
        f.do_step, f.component, begin, length, f.no_return, flags, flags + 1, flags + 2, last
    )
    if not _good(f, f.do_step, status):
        return False
    ended, early = records_of(f.flags, np.uint8)[1], records_of(f.flags, np.uint8)[2]
    if ended or (early and vector_of(f.last)[0] < early_limit(begin, length)):
        f.failed, f.status = f.do_step, status
        return False
    return True


@in_both
def early_limit(begin: float, length: float) -> float:
    """Return the time (s) that a step must reach, which begins at ``begin``."""
    return begin + length * (1 - 1e-9)


@compiled
def _pauses(f: Any) -> bool:
    """Return whether to pause, so that Python can handle signals and other threads."""
    if not f.pauses:
        return False
    if f.clock == 0:
        f.since += 1
        return bool(f.since % _PAUSE_STEPS == 0)
    call_clock(f.clock, MONOTONIC, f.time.address)
    time = words_of(f.time)
    now = time[0] * NS_PER_S + time[1]
    if now - f.since < _PAUSE_NS:
        return False
    f.since = now
    return True


def step(w: Any, t: float, h: float) -> int:
    """Begin a provisional step from ``t`` (s) with the length ``h`` (s).

    ``w[0]`` is the address of a record FMU. Returns GOOD, PAUSED or REFUSED.
    """
    f = record_at(w[0], FMU)
    if f.failed or not f.begun:
        return REFUSED
    if _pauses(f):
        return PAUSED
    if _later(f.at, t):  # the FMU has taken a step that its plant has not committed
        if _near(f.at, t + h) and (f.fixed > 0.0 or _same(f.u, f.held)):
            f.began, f.length, f.pending, f.ends, f.taken = t, h, 1, 1, 1
            return GOOD
        if not f.holds:
            f.failed, f.status = f.back, LOST
            return REFUSED
        f.is_set = f.got = 0
        if not _good(f, f.back, call_fmi_state(f.back, f.component, words_of(f.kept)[0])):
            return REFUSED
        f.at = f.before
    f.began, f.length, f.pending, f.taken, f.holds = t, h, 1, 0, 0
    if _near(f.at, t):
        _copy(f.u, f.held)
    f.ends = f.fixed == 0.0 or _near(f.at + f.fixed, t + h)
    if f.ahead and f.ends:
        if not _good(f, f.keep, call_fmi_state(f.keep, f.component, f.kept.address)):
            return REFUSED
        f.holds = 1
        if not _take(f):
            return REFUSED
    return GOOD


def output(t: float, x: Any, z: Any, u: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    """Store the outputs at ``t`` (s) in ``y``, after the pending step if ``t`` is its end.

    ``z[0]`` is the address of a record FMU. The first output is NaN after a failure.
    """
    f = record_at(int(z[0]), FMU)
    if not _settles(f, t):
        y[0] = math.nan
        return
    groups = records_of(f.outputs, GROUP)
    for i in range(groups.size):
        _read(groups[i], y)


@compiled
def _settles(f: Any, t: float) -> bool:
    """Commit the pending step if it ends at ``t``, and get the outputs for the present inputs."""
    if f.failed or not f.begun:
        return False
    if f.pending and t > f.began:
        f.pending = 0
        if f.ends:
            if not f.taken and not _take(f):
                return False
            f.at = t
    if not f.moved and not _same(f.u, f.set):  # the FMU must be initialised again
        return False
    if not _put(f, f.u):
        return False
    if f.got:
        return True
    groups = records_of(f.outputs, GROUP)
    for i in range(groups.size):
        if not _exchange(f, groups[i], groups[i].get):
            return False
    f.got = 1
    return True


# Python's side

_STEP, _OUTPUT = (WORDS, NUMBER, NUMBER), EQUATION


def compiled_before() -> bool:
    """Return whether the machine code of these functions is in the cache."""
    return kept(step, _STEP) and kept(output, _OUTPUT)


@dataclass(frozen=True)
class ValueGroup:
    """The variables of one type: C functions, addresses of arrays, and the indices of the values.

    ``type`` is a type of this module, such as DOUBLE.
    """

    type: int
    put: int
    get: int
    references: int
    count: int
    buffer: NDArray[Any]
    at: NDArray[np.int64]


@dataclass(frozen=True)
class FmuFunctions:
    """The C functions of an instance of an FMU, and the buffers of their arguments."""

    version: int
    component: int
    do_step: int
    keep: int
    back: int
    kept: ctypes.c_void_p
    """Pointer to the kept state."""
    flags: NDArray[np.bool_]
    """Results of fmi3DoStep: event needed, terminate, early return."""
    last: Vector
    """Result of fmi3DoStep: the time of the FMU, s."""
    no_return: bool
    """True if no step is taken back."""
    inputs: Sequence[ValueGroup]
    outputs: Sequence[ValueGroup]
    refuse: Callable[[int, int, float, float], None]
    """Raise the error of a C function: its address, its status, begin and length of the step."""
    check: Callable[[Vector], None]
    """Raise an error if inputs (m,) do not fit into their variables."""


class CompiledSteps:
    """The steps of one FMU by compiled code, for the plant ``name``.

    ``u`` and ``held`` are the inputs of the plant, at present and during a step.  ``fixed`` is the
    only possible length of a step (s), or 0.
    """

    def __init__(
        self, name: str, functions: FmuFunctions, u: Vector, held: Vector, y: Vector, fixed: float
    ) -> None:
        self._name, self._functions = name, functions
        self._record: NDArray[np.void] = np.zeros(1, FMU)
        f: Any = self._record[0]
        self._f = f
        calls = system_calls()
        f["version"], f["component"] = functions.version, functions.component
        f["do_step"], f["keep"], f["back"] = functions.do_step, functions.keep, functions.back
        f["no_return"], f["fixed"] = functions.no_return, fixed
        f["clock"] = 0 if calls is None else calls.clock_gettime
        kept_at = np.frombuffer(memoryview(functions.kept), np.int64)
        self._set = np.zeros_like(u)
        places: dict[str, NDArray[Any]] = {
            "kept": kept_at, "flags": functions.flags, "last": functions.last,
            "time": np.zeros(2, np.int64), "u": u, "held": held, "set": self._set,
            "inputs": _rows(functions.inputs), "outputs": _rows(functions.outputs),
        }  # fmt: skip
        for field, array in places.items():
            f[field] = place_of(array)
        self._alive = places
        words = np.array([self._record.ctypes.data], np.int64)
        self._step, self._output = _compiled_functions()
        block = AddressBlock(words, (), (self._step, self))
        nothing = np.zeros(0)
        self.native = NativeStep(int(self._step.handle), block, nothing, nothing, 0)
        """The step, for the compiled engine."""
        address = np.array([float(words[0])])
        vectors = nothing, address, u, nothing, y
        self.native_output = evaluation_block(self._output, *vectors)
        """The outputs, for the compiled engine."""
        self.evaluate = resident(self._output, *vectors)
        """Function of a time (s) that commits a step that ends then, and computes the outputs.

        The function returns -1, or the index of the first output that is not finite.
        """
        self._times, self._bare = step_in_ns(self._step, block)
        self._call, self._at = self._bare.function, self._bare.at
        self.again()

    # -- operations of the plant

    def step(self, from_ns: int, to_ns: int) -> int:
        """Begin a provisional step; return GOOD, PAUSED or REFUSED."""
        if to_ns < EXACT_NS:
            times = self._times
            times[0] = from_ns
            times[1] = to_ns
            return int(self._call(self._at))
        step = self._step.on(self.native.block)  # ns beyond 2^53 are no exact float64
        return int(step(from_ns / NS_PER_S, (to_ns - from_ns) / NS_PER_S))

    def check(self) -> None:
        """Raise the error of the FMU if it has failed, or if an input does not fit its variable."""
        f = self._f
        function, status = int(f["failed"]), int(f["status"])
        if not function:
            self._functions.check(self._alive["held"])
            self._functions.check(self._alive["u"])
        elif status == LOST:
            raise ModelError(
                f"compiled code took a step of {self._name} to {float(f['at']):g} s that the run "
                "does not repeat. This is an error in rtsim: report it, and use --engine "
                "interpreted"
            )
        else:
            length = float(f["fixed"]) or float(f["length"])
            self._functions.refuse(function, status, float(f["before"]), length)

    # -- what the plant does with the FMU

    def begin_run(self, ahead: bool, paced: bool) -> None:
        """Begin a run; with ``ahead``, each step is taken before its tag."""
        self._f["ahead"], self._f["pauses"] = ahead, not paced

    def begun(self, u: Vector) -> None:
        """Note that the FMU was initialised with the inputs ``u`` (m,)."""
        f = self._f
        self._set[:] = u
        f["begun"] = f["is_set"] = 1
        f["moved"] = f["taken"] = f["got"] = f["holds"] = f["failed"] = 0
        f["at"] = f["before"] = 0.0

    def again(self) -> None:
        """Note that the FMU must be initialised before its next step."""
        self._f["begun"] = self._f["pending"] = 0

    @property
    def moved(self) -> bool:
        return bool(self._f["moved"])

    @property
    def at_ns(self) -> int:
        """Time of the FMU, ns."""
        return round(float(self._f["at"]) * NS_PER_S)

    @property
    def before_ns(self) -> int:
        """Time of the FMU before its last step, ns."""
        return round(float(self._f["before"]) * NS_PER_S)

    @property
    def holds(self) -> bool:
        """True if the state before the last step is kept."""
        return bool(self._f["holds"])

    def ahead_of(self, ns: int) -> bool:
        """Return whether the FMU has taken a step that ends after ``ns``."""
        return bool(self._f["moved"]) and self.at_ns > ns

    def forget_outputs(self) -> None:
        """Note that the outputs of the FMU may have changed."""
        self._f["got"] = 0

    def forget(self) -> None:
        """Note that inputs and outputs of the FMU may have changed."""
        self._f["is_set"] = self._f["got"] = 0

    def returned(self) -> None:
        """Note that the FMU is in the kept state again."""
        f = self._f
        self.forget()
        f["at"], f["holds"], f["pending"], f["taken"] = f["before"], 0, 0, 0
        f["failed"] = 0

    def restored(self, ns: int) -> None:
        """Note that the FMU is in a saved state at ``ns``."""
        f = self._f
        self.forget()
        f["begun"] = f["moved"] = 1
        f["pending"] = f["taken"] = f["holds"] = f["failed"] = 0
        f["at"] = f["before"] = ns / NS_PER_S


def _compiled_functions() -> tuple[Native, Native]:
    return (
        compile_function(step, _STEP, "a step of an FMU"),
        compile_function(output, _OUTPUT, "the outputs of an FMU"),
    )


def _rows(groups: Sequence[ValueGroup]) -> NDArray[np.void]:
    rows = np.zeros(len(groups), GROUP)
    for row, group in zip(rows, groups, strict=True):
        for field in ("type", "put", "get", "references", "count"):
            row[field] = getattr(group, field)
        row["buffer"] = group.buffer.ctypes.data, group.buffer.size
        row["at"] = place_of(group.at)
    return rows
