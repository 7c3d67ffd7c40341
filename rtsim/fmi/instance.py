"""An instance of an FMU, with the operations of :mod:`rtsim.fmi.program`.

FMPy loads the binary and declares the C functions.  The operations of a step call these functions
with buffers that are allocated once.
"""

from __future__ import annotations

import ctypes
import math
import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import Ended, ModelError
from rtsim.core.extras import needs
from rtsim.core.signals import Vector
from rtsim.fmi.program import LocalProgram

if TYPE_CHECKING:
    from rtsim.fmi.compiled_steps import FmuFunctions, ValueGroup

_LABELS = ("OK", "Warning", "Discard", "Error", "Fatal", "Pending")
DISCARD = 2
_LAST_TIME, _TERMINATED = 2, 3
"""Kinds of status of FMI 2.0 (fmi2StatusKind)."""
_WHO = "the FMU"
_NUMPY = {
    "Real": np.float64, "Float64": np.float64, "Float32": np.float32, "Integer": np.int32,
    "Int8": np.int8, "Int16": np.int16, "Int32": np.int32, "Int64": np.int64,
    "UInt8": np.uint8, "UInt16": np.uint16, "UInt32": np.uint32, "UInt64": np.uint64,
}  # fmt: skip
_MOST_ITERATIONS = 1000
_SAID = 5


class FmuInstance(LocalProgram):
    """An instance of an FMU in this process.

    ``spec`` is the mapping that :class:`rtsim.fmi.importing.Fmu` makes.  Raises
    :class:`ModelError` for each call that the FMU answers with Discard, Error or Fatal.
    """

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self._spec, self._two = spec, spec["version"] == 2
        self._exchange = spec["exchange"]
        self._said: deque[str] = deque(maxlen=_SAID)
        self._fmu = self._loaded(Path(spec["folder"]))
        self._instantiate()
        self._open = True
        self._inputs = Values(self, spec["inputs"])
        self._outputs = Values(self, spec["outputs"])
        self._parameters = Values(self, spec["parameters"])
        self._continuous = Values(self, spec["inputs"], [not row[3] for row in spec["inputs"]])
        self._state_values = Values(self, spec["states"])
        self._first_p = np.array(spec["starts"], float)
        self._first_x = np.array(spec["state_starts"], float)
        sizes = self._parameters.size, self._state_values.size, self._inputs.size
        self._ends = np.cumsum(sizes)
        nx, ng = self._state_values.size, spec["indicators"]
        self._x, self._g = np.zeros(nx), np.zeros(ng)
        self._u_set = b""
        self._kept = ctypes.c_void_p()
        self._begun = False
        self._over = False
        """True if the FMU has ended its simulation, after which its values can only be read."""
        self._flags, self._last = np.zeros(3, np.bool_), np.zeros(1)
        """Results of fmi3DoStep."""
        self._names: dict[int, str] = {}
        """Names of C functions by their addresses."""
        self._remembers = True
        """True if no other code sets the inputs of the FMU."""
        self._bind()

    # -- loading

    def _loaded(self, folder: Path) -> Any:
        with needs("fmi", "an FMU"):
            from fmpy import fmi2, fmi3
        two = fmi2.FMU2Model if self._exchange else fmi2.FMU2Slave
        three = fmi3.FMU3Model if self._exchange else fmi3.FMU3Slave
        spec = self._spec
        here = os.getcwd()
        try:
            return (two if self._two else three)(
                guid=spec["token"], modelIdentifier=spec["identifier"],
                unzipDirectory=str(folder), instanceName=spec["name"],
                libraryPath=spec["library"],
            )  # fmt: skip
        except Exception as error:
            raise ModelError(f"cannot load the FMU's binary: {error}") from None
        finally:
            os.chdir(here)  # FMPy changes the folder, and does not return after an error

    def _instantiate(self) -> None:
        fmu, logging = self._fmu, bool(self._spec.get("logging"))
        try:
            if self._two:
                fmu.instantiate(callbacks=self._callbacks(), loggingOn=logging)
            else:
                fmu.instantiate(loggingOn=logging, logMessage=self._log_three)
        except Exception as error:
            raise ModelError(f"the FMU was not instantiated{self._words()} ({error})") from None

    def _callbacks(self) -> Any:
        from fmpy import calloc, fmi2, free

        callbacks = fmi2.fmi2CallbackFunctions()
        callbacks.logger = fmi2.fmi2CallbackLoggerTYPE(self._log_two)
        callbacks.allocateMemory = fmi2.fmi2CallbackAllocateMemoryTYPE(calloc)
        callbacks.freeMemory = fmi2.fmi2CallbackFreeMemoryTYPE(free)
        try:
            from fmpy.logging import addLoggerProxy

            addLoggerProxy(ctypes.byref(callbacks))  # formats the message
        except (ImportError, OSError):  # no proxy for this system: the format stays in the text
            pass
        return callbacks

    def _log_two(self, _c: Any, _name: Any, status: int, _category: Any, message: bytes) -> None:
        self._log(status, message)

    def _log_three(self, _environment: Any, status: int, _category: Any, message: bytes) -> None:
        self._log(status, message)

    def _log(self, status: int, message: bytes | None) -> None:
        if status > 0 and message:
            self._said.append(message.decode(errors="replace").strip())

    def _words(self) -> str:
        said = "; ".join(self._said)
        self._said.clear()
        return f"; it said: {said}" if said else ""

    def function(self, name: str) -> Callable[..., int]:
        """Return the C function ``fmi2NAME`` or ``fmi3NAME`` of this instance.

        A status above Warning raises :class:`ModelError`.
        """
        full = f"fmi{2 if self._two else 3}{name}"
        address, component = getattr(self._fmu.dll, full), self._fmu.component

        def call(*arguments: Any) -> int:
            status: int = address(component, *arguments)
            if status > 1:
                self._failed(full, status)
            return status

        return call

    def _failed(self, function: str, status: int) -> None:
        label = _LABELS[status] if status < len(_LABELS) else str(status)
        hint = self._after_discard() if status == DISCARD and "DoStep" in function else ""
        raise ModelError(f"{function} returned {label}{self._words()}{hint}")

    def _after_discard(self) -> str:
        """Return a text that says how far a discarded step came.

        Raises :class:`Ended` if the FMU has ended its simulation in this step.
        """
        if self._two:
            ended, last = ctypes.c_int(), ctypes.c_double()
            dll, component = self._fmu.dll, self._fmu.component
            reached = dll.fmi2GetRealStatus(component, _LAST_TIME, ctypes.byref(last)) <= 1
            found = dll.fmi2GetBooleanStatus(component, _TERMINATED, ctypes.byref(ended))
            if found <= 1 and ended.value:
                self._end(last.value if reached else math.nan)
            if reached:
                return f"; the step was correct up to {last.value:g} s; try a shorter step="
        return "; try a shorter step="

    def _end(self, time: float, answer: Vector | None = None) -> NoReturn:
        """Raise :class:`Ended` with the ``answer`` of the operation that ended the simulation."""
        self._over = True
        raise Ended(_WHO, time, () if answer is None else answer.tolist())

    def _bind(self) -> None:
        double = ctypes.POINTER(ctypes.c_double)
        self._x_at, self._g_at = (v.ctypes.data_as(double) for v in (self._x, self._g))
        if self._exchange:
            self._set_time = self.function("SetTime")
            self._set_x = self.function("SetContinuousStates")
            self._get_x = self.function("GetContinuousStates")
            dx = "GetDerivatives" if self._two else "GetContinuousStateDerivatives"
            self._get_dx = self.function(dx)
            self._get_g = self.function("GetEventIndicators")
            return
        step = self.function("DoStep")
        if self._two:
            final = 0 if self._spec["keeps"] else 1
            self._do_step: Callable[[float, float], int] = lambda t, h: step(t, h, final)
            return
        flags = [ctypes.c_bool.from_buffer(self._flags.data, i) for i in range(3)]
        where = (
            *map(ctypes.byref, flags),
            ctypes.byref(ctypes.c_double.from_buffer(self._last.data)),
        )
        no_return = ctypes.c_bool(not self._spec["keeps"])

        def do_step(t: float, h: float) -> int:
            status = step(t, h, no_return, *where)
            self._check_end(t, h)
            return status

        self._do_step = do_step

    def _check_end(self, t: float, h: float) -> None:
        """Raise an error if fmi3DoStep ended the simulation, or returned before ``t + h`` (s)."""
        (_, ended, early), last = self._flags, float(self._last[0])
        if ended:
            self._end(last)
        if early and last < t + h * (1 - 1e-9):
            raise ModelError(
                f"fmi3DoStep returned early, at {last:g} s instead of {t + h:g} s, "
                "although early returns were not allowed"
            )

    # -- functions for compiled code

    def functions(self) -> FmuFunctions | None:
        if self._exchange or not self._outputs.size:
            return None
        from rtsim.fmi.compiled_steps import FmuFunctions

        inputs, outputs = self._inputs.for_compiled_code(), self._outputs.for_compiled_code()
        if inputs is None or outputs is None:
            return None
        self._remembers = False
        keeps = bool(self._spec["keeps"])
        names = (f"{kind}{self._state_name}" for kind in ("Get", "Set"))
        keep, back = map(self.address, names) if keeps else (0, 0)
        return FmuFunctions(
            self._spec["version"], ctypes.cast(self._fmu.component, ctypes.c_void_p).value or 0,
            self.address("DoStep"), keep, back, self._kept, self._flags, self._last, not keeps,
            inputs, outputs, self._refuse, self._inputs.check,
        )  # fmt: skip

    def address(self, name: str) -> int:
        """Return the address of the C function ``fmi2NAME`` or ``fmi3NAME``."""
        full = f"fmi{2 if self._two else 3}{name}"
        found = ctypes.cast(getattr(self._fmu.dll, full), ctypes.c_void_p).value
        assert found is not None
        self._names[found] = full
        return found

    def _refuse(self, function: int, status: int, t: float, h: float) -> None:
        if status > 1:
            self._failed(self._names[function], status)
        self._check_end(t, h)

    # -- operations

    def start(self, numbers: Vector) -> Vector:
        t = float(numbers[0])
        p, x, u = np.split(numbers[1:], self._ends[:2])
        if self._begun:
            self.function("Reset")()
        self._begun, self._over, self._u_set = True, False, b""
        self._initialise(t, p, x, u)
        if not self._exchange:
            return np.array([math.inf])
        return self._iterate(t)

    def _initialise(self, t: float, p: Vector, x: Vector, u: Vector) -> None:
        fmu = self._fmu
        try:
            if self._two:
                fmu.setupExperiment(startTime=t)
            for reference, text in self._spec["texts"]:
                (fmu.setString)([reference], [text])
            self._parameters.put(p, p != self._first_p)
            self._state_values.put(x, x != self._first_x)
            if self._two:
                fmu.enterInitializationMode()
            else:
                fmu.enterInitializationMode(startTime=t)
            self._inputs.put(u)
            fmu.exitInitializationMode()
        except ModelError:
            raise
        except Exception as error:
            raise ModelError(f"the initialisation failed: {error}{self._words()}") from None

    def _put_inputs(self, u: Vector, values: Values) -> None:
        data = u.tobytes()
        if data != self._u_set or not self._remembers:  # an FMU keeps its inputs
            values.put(u)
            self._u_set = data

    def step(self, numbers: Vector) -> Vector:
        self._put_inputs(numbers[2:], self._inputs)
        self._do_step(float(numbers[0]), float(numbers[1]))
        return self._outputs.get()

    def _at(self, numbers: Vector) -> None:
        """Set time, states and continuous inputs."""
        if self._over:
            return
        nx = self._x.size
        if self._exchange:
            self._set_time(float(numbers[0]))
            if nx:
                self._x[:] = numbers[1 : 1 + nx]
                self._set_x(self._x_at, nx)
        values = self._continuous if self._exchange else self._inputs
        self._put_inputs(numbers[1 + nx :], values)

    def outputs(self, numbers: Vector) -> Vector:
        self._at(numbers)
        return self._outputs.get()

    def derivative(self, numbers: Vector) -> Vector:
        self._at(numbers)
        if self._x.size:
            self._get_dx(self._x_at, self._x.size)
        return self._x.copy()

    def indicators(self, numbers: Vector) -> Vector:
        self._at(numbers)
        if self._g.size:
            self._get_g(self._g_at, self._g.size)
        return self._g.copy()

    def event(self, numbers: Vector) -> Vector:
        self._at(numbers)
        self.function("EnterEventMode")()
        self._inputs.put(numbers[1 + self._x.size :])
        return self._iterate(float(numbers[0]))

    def completed(self, numbers: Vector) -> Vector:
        self._at(numbers)
        kind = ctypes.c_int if self._two else ctypes.c_bool
        asks, ends = kind(), kind()
        true = 1 if self._two else ctypes.c_bool(True)
        self.function("CompletedIntegratorStep")(true, ctypes.byref(asks), ctypes.byref(ends))
        if ends.value:
            self._end(float(numbers[0]))
        return np.array([float(bool(asks.value))])

    def _read_x(self) -> Vector:
        if self._x.size:
            self._get_x(self._x_at, self._x.size)
        return self._x.copy()

    def _iterate(self, t: float) -> Vector:
        """Iterate the discrete states at ``t`` (s).

        Returns the time of the next event (s) and the states, shape (1 + n,).
        """
        for _ in range(_MOST_ITERATIONS):
            more, ends, defined, at = self._new_discrete_states()
            if ends:
                self._end(t, np.concatenate(((math.inf,), self._read_x())))
            if not more:
                self.function("EnterContinuousTimeMode")()
                self._u_set = b""
                return np.concatenate(((at if defined else math.inf,), self._read_x()))
        raise ModelError(
            f"the discrete states of the FMU did not settle in {_MOST_ITERATIONS} iterations"
        )

    def _new_discrete_states(self) -> tuple[bool, bool, bool, float]:
        if self._two:
            from fmpy import fmi2

            info = fmi2.fmi2EventInfo()
            self.function("NewDiscreteStates")(ctypes.byref(info))
            return (
                bool(info.newDiscreteStatesNeeded), bool(info.terminateSimulation),
                bool(info.nextEventTimeDefined), float(info.nextEventTime),
            )  # fmt: skip
        flags = [ctypes.c_bool() for _ in range(5)]
        at = ctypes.c_double()
        self.function("UpdateDiscreteStates")(*map(ctypes.byref, flags), ctypes.byref(at))
        return flags[0].value, flags[1].value, flags[4].value, at.value

    # -- state

    @property
    def _state_name(self) -> str:
        return "FMUstate" if self._two else "FMUState"

    def keep(self, _: Vector) -> None:
        self.function(f"Get{self._state_name}")(ctypes.byref(self._kept))

    def back(self, _: Vector) -> None:
        self.function(f"Set{self._state_name}")(self._kept)
        self._u_set, self._over = b"", False

    def save(self, given: bytes) -> bytes:
        state = self._kept if given == b"kept" else ctypes.c_void_p()
        if state is not self._kept:
            self.function(f"Get{self._state_name}")(ctypes.byref(state))
        name, size = self._state_name, ctypes.c_size_t()
        length = f"Serialized{name}Size"
        self.function(length)(state, ctypes.byref(size))
        data = (ctypes.c_ubyte * size.value)()
        into = ctypes.cast(data, self._bytes_type(f"Serialize{name}"))
        self.function(f"Serialize{name}")(state, into, size.value)
        if state is not self._kept:
            self.function(f"Free{name}")(ctypes.byref(state))
        return bytes(data)

    def restore(self, data: bytes) -> None:
        name, state = self._state_name, ctypes.c_void_p()
        buffer = (ctypes.c_ubyte * len(data)).from_buffer_copy(data)
        source = ctypes.cast(buffer, self._bytes_type(f"DeSerialize{name}", f"Deserialize{name}"))
        function = f"DeSerialize{name}" if self._two else f"Deserialize{name}"
        self.function(function)(source, len(data), ctypes.byref(state))
        self.function(f"Set{name}")(state)
        self.function(f"Free{name}")(ctypes.byref(state))
        self._u_set, self._over = b"", False

    def _bytes_type(self, *names: str) -> Any:
        """Return the declared type of the pointer to the bytes of a state."""
        full = [f"fmi{2 if self._two else 3}{name}" for name in names]
        types = next(
            t for n in full if (t := getattr(getattr(self._fmu.dll, n, None), "argtypes", None))
        )
        return next(t for t in types if t not in (ctypes.c_void_p, ctypes.c_size_t))

    def tune(self, p: Vector) -> None:
        tunable = np.repeat(*_flags(self._spec["parameters"]))
        if self._exchange:
            self.function("EnterEventMode")()
        self._parameters.put(p, tunable)
        if self._exchange:
            self._iterate(math.nan)

    def close(self) -> None:
        if self._open:
            self._open = False
            try:
                self._fmu.freeInstance()
            except Exception as error:
                raise ModelError(f"the FMU was not freed: {error}") from None


def _flags(rows: Sequence[Sequence[Any]]) -> tuple[NDArray[np.bool_], list[int]]:
    return np.array([bool(row[3]) for row in rows], bool), [row[2] for row in rows]


class Values:
    """Variables of an FMU that form one vector; each type needs one call.

    ``rows`` contains reference, type and number of elements of each variable of the vector.
    ``used`` is true for each variable that is read and written; by default, all are.
    """

    def __init__(
        self, instance: FmuInstance, rows: Sequence[Any], used: Sequence[bool] | None = None
    ) -> None:
        groups: dict[str, list[tuple[int, int, int]]] = {}
        self.size = 0
        for k, (reference, kind, size, *_) in enumerate(rows):
            if used is None or used[k]:
                groups.setdefault(kind, []).append((reference, self.size, size))
            self.size += size
        self._groups = [_Group(instance, kind, some) for kind, some in groups.items()]

    def put(self, vector: Vector, where: NDArray[np.bool_] | None = None) -> None:
        """Set the variables to ``vector``, shape (n,), or only those ``where`` it is true."""
        for group in self._groups:
            group.put(vector, where)

    def get(self) -> Vector:
        """Return the values, shape (n,)."""
        out = np.empty(self.size)
        for group in self._groups:
            group.get(out)
        return out

    def check(self, vector: Vector) -> None:
        """Raise an error if a value of ``vector`` (n,) does not fit into its variable."""
        for group in self._groups:
            group.check(vector)

    def for_compiled_code(self) -> list[ValueGroup] | None:
        """Return the groups for compiled code, or ``None`` if compiled code lacks a type."""
        found = [group.for_compiled_code() for group in self._groups]
        return None if None in found else found  # type: ignore[return-value]


class _Group:
    """The variables of one type: for each, the reference, the first element and the size."""

    def __init__(
        self, instance: FmuInstance, kind: str, rows: Sequence[tuple[int, int, int]]
    ) -> None:
        self._instance, self._kind, self._rows = instance, kind, rows
        two = instance._two
        self._two = two
        dtype: Any = _NUMPY.get(kind)
        if kind == "Boolean":
            dtype = np.int32 if two else np.bool_
        elif kind == "Enumeration":
            dtype = np.int32 if two else np.int64
        self._whole = kind not in ("Real", "Float64", "Float32")
        self._name = "Integer" if kind == "Enumeration" and two else kind
        self._name = "Int64" if kind == "Enumeration" and not two else self._name
        at = np.concatenate([np.arange(first, first + size) for _, first, size in rows])
        whole = bool((np.diff(at) == 1).all())
        self._at: Any = slice(int(at[0]), int(at[-1]) + 1) if whole else at
        self._sizes = [r[2] for r in rows]
        self._buffer = np.zeros(sum(self._sizes), dtype)
        references = (ctypes.c_uint * len(rows))(*(r[0] for r in rows))
        self._setter: Callable[..., int] | None = None
        self._getter: Callable[..., int] | None = None
        self._arguments = self._call_arguments(references, self._buffer, len(rows))

    def _call_arguments(self, references: Any, buffer: NDArray[Any], count: int) -> tuple[Any, ...]:
        function = getattr(self._instance._fmu.dll, f"fmi{2 if self._two else 3}Get{self._name}")
        pointer = buffer.ctypes.data_as(function.argtypes[3])
        return (references, count, pointer, *(() if self._two else (buffer.size,)))

    def get(self, out: Vector) -> None:
        if self._getter is None:
            self._getter = self._instance.function(f"Get{self._name}")
        self._getter(*self._arguments)
        out[self._at] = self._buffer

    def put(self, vector: Vector, where: NDArray[np.bool_] | None) -> None:
        values = vector[self._at]
        if where is not None and not where[self._at].all():
            self._put_some(values, where[self._at])
            return
        if self._setter is None:
            self._setter = self._instance.function(f"Set{self._name}")
        self._fill(self._buffer, values)
        self._setter(*self._arguments)

    def check(self, vector: Vector) -> None:
        self._fill(self._buffer, vector[self._at])

    def _fill(self, buffer: NDArray[Any], values: Vector) -> None:
        if not self._whole:
            buffer[:] = values
            return
        values = np.rint(values)
        if self._kind == "Boolean":
            buffer[:] = values != 0
            return
        info = np.iinfo(buffer.dtype)
        fits = (values >= float(info.min)) & (values < float(info.max) + 1.0)
        if not fits.all():
            bad = values[~fits][0]
            raise ModelError(f"a variable of type {self._kind} cannot have the value {bad:g}")
        buffer[:] = values

    def for_compiled_code(self) -> ValueGroup | None:
        from rtsim.fmi.compiled_steps import TYPES, ValueGroup

        found = TYPES.get((self._buffer.dtype.name, self._kind == "Boolean"))
        if found is None:
            return None
        at = np.arange(self._at.start, self._at.stop) if isinstance(self._at, slice) else self._at
        put, get = (self._instance.address(f"{verb}{self._name}") for verb in ("Set", "Get"))
        references = self._arguments[0]
        return ValueGroup(
            found, put, get, ctypes.addressof(references), len(references), self._buffer,
            at.astype(np.int64),
        )  # fmt: skip

    def _put_some(self, values: Vector, where: NDArray[np.bool_]) -> None:
        """Set only the variables with an element for which ``where`` is true."""
        ends = np.cumsum(self._sizes)
        chosen = [
            (row, slice(end - row[2], end))
            for row, end in zip(self._rows, ends, strict=True)
            if where[end - row[2] : end].any()
        ]
        if not chosen:
            return
        buffer = np.zeros(sum(row[2] for row, _ in chosen), self._buffer.dtype)
        self._fill(buffer, np.concatenate([values[part] for _, part in chosen]))
        references = (ctypes.c_uint * len(chosen))(*(row[0] for row, _ in chosen))
        arguments = self._call_arguments(references, buffer, len(chosen))
        self._instance.function(f"Set{self._name}")(*arguments)
