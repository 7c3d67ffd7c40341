"""A controller in C in this process, which is fast but not isolated.

A crash or an endless loop of the C code is a crash or an endless loop of Python. Test a controller
as a :class:`hitl.controllers.sil.SilController` first.
"""

from __future__ import annotations

import _ctypes
import ctypes
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from hitl.building.build import PLAIN, Build, build
from hitl.controllers.c_controller import CController, GivenParameters
from hitl.worker.ending import THREW, THROWN_BYTES, refusal
from rtsim.components.request_log import RequestLog
from rtsim.core.clock import stopwatch
from rtsim.core.errors import ControllerError
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import NS_PER_S, Tag

# The memory of C code is unknown, so compiled code cannot undo a step that it has called. It
# therefore writes each step with its answer to a log (rtsim_step_by_address in guard.c). If
# compiled code hands a step to the interpreter after the C code has run this step, the interpreter
# takes the answer from the log instead of running the step twice.

_ROWS = 1 << 16
_HEAD, _ROW_HEAD = 3, 3
_ROW_COUNT, _CLOSED, _LATEST = range(_HEAD)
_LATEST_S = 2**50 / NS_PER_S
"""Last time (13 days, in s) that still determines a time in ns; later steps run in the interpreter.
"""


class CalledSteps(NamedTuple):
    """Steps in order: tags (ns) and durations (ns) of shape (k,), inputs (k, m), outputs (k, n)."""

    ns: NDArray[np.int64]
    took_ns: NDArray[np.int64]
    inputs: NDArray[np.float64]
    outputs: NDArray[np.float64]


class KeptStep(NamedTuple):
    """A step that the C code has already executed, and that the interpreter must repeat."""

    tag: Tag
    inputs: Vector
    outputs: Vector
    status: int
    took_ns: int

    def repeats(self, tag: Tag, inputs: Vector) -> bool:
        """Return whether ``tag`` and ``inputs`` are exactly those of this step."""
        return self.tag == tag and self.inputs.tobytes() == inputs.tobytes()


class CalledStepLog:
    """The steps that compiled code has called.

    ``inputs`` and ``outputs`` are numbers of columns.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        self._inputs, self._width = inputs, _ROW_HEAD + inputs + outputs
        self.values = np.zeros(_HEAD + _ROWS * self._width)
        """The vector that the C code receives; ``guard.c`` describes its layout."""
        self.values[_LATEST] = _LATEST_S
        self.kept: KeptStep | None = None
        """The step that the interpreter has to repeat, or ``None``."""

    def take(self, steps: int) -> CalledSteps:
        """Return the first ``steps`` recorded steps.

        If compiled code called one more step, this step and its outputs are stored. Compiled code
        then calls no further step before ``repeated``.
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
        """Discard the stored step after the interpreter has repeated it."""
        self.kept = None
        self.values[_CLOSED] = 0


_OWN_NAMES_FIRST = os.RTLD_NOW | os.RTLD_LOCAL | getattr(os, "RTLD_DEEPBIND", 0)
"""Flags for loading that make the library's own names precede those of the C library (``index``).
"""

_FLUSHING = ("-ffast-math", "-Ofast", "-funsafe-math-optimizations")
"""Flags with which a library changes the processor's floating-point mode when it is loaded."""


class InProcess(CController):
    """A controller in C in this process, from an interface file or a ``Build``.

    :meth:`fresh` loads the code. Each returned controller has its own static variables. ``values``
    contains parameters by name. ``kind`` is the kind of build, which must be ``"plain"``. ``save``
    returns all steps since the start, and ``restore`` repeats them, because the memory of C code is
    unknown.
    """

    outside = False

    def __init__(
        self,
        source: Build | str | Path,
        values: Mapping[str, object] | None = None,
        kind: str = PLAIN,
    ) -> None:
        self.build = source if isinstance(source, Build) else build(source, kind)
        super().__init__(self.build.interface, values)
        _check_loadable(self.build)
        self._prepare()

    def _prepare(self) -> None:
        super()._prepare()
        self.given = GivenParameters(self.interface, self.values)
        self.p = self.given.values
        self._u, self._y = np.zeros(self.inputs.size), np.zeros(self.outputs.size)
        self._library: ctypes.CDLL | None = None
        self._time: ctypes.c_longlong | None = None
        """The simulated time (ns) in the library, which only Arduino code reads."""
        self._pending: Tag | None = None
        self._left = False
        """True if the code has called exit() or thrown an exception, so that its termination must
        not be called.
        """
        self._history = RequestLog(self.inputs.size)
        self._log = CalledStepLog(self.inputs.size, self.outputs.size)
        self._answer = np.zeros(self.outputs.size)
        """The answer to the latest request; compiled code may have written a later answer to y."""

    def _requests(self) -> RequestLog:
        return self._history

    def fresh(self) -> Self:
        """Return a new, initialised controller.

        Raises :class:`ControllerError` if the C code cannot be loaded or initialised.
        """
        out = self._copy()
        out._load()
        return out

    @property
    def warnings(self) -> str:
        return self.build.warnings

    def describe(self) -> dict[str, object]:
        return {"type": type(self).__name__, **self.build.describe()}

    def _load(self) -> None:
        self._library = library = _private(self.build.library)
        self._step = library.rtsim_guarded_step
        self._step_u, self._step_y = _pointer(self._u), _pointer(self._y)
        if self.interface.language.clock is not None:
            self._time = ctypes.c_longlong.in_dll(library, "rtsim_time_ns")
        self._initialize(library)

    def _initialize(self, library: ctypes.CDLL) -> None:
        sent = self.given.sent
        if self._time is not None:
            self._time.value = 0
        status = library.rtsim_guarded_initialize(_pointer(sent))
        if status:
            text = self._refused(status, self.parameters, self.p)
            self._unload()
            raise ControllerError(text)
        own = (ctypes.c_double * max(1, len(sent))).in_dll(library, "rtsim_own")
        self.given.learn(np.array(own[: len(sent)]))

    @property
    def own(self) -> Vector | None:
        """Parameter values (k,) in the C code; ``None`` before the code is loaded."""
        return self.given.own

    def restart(self) -> bool:
        """Initialise the C code again; see :meth:`hitl.controllers.sil.SilController.restart`."""
        if not self.interface.restarts or self._library is None:
            return False
        library, status = self._library, self._library.rtsim_guarded_terminate()
        if status:
            self._say_how_it_ended(status)
        self._initialize(library)
        return True

    def send(self, tag: Tag, inputs: Vector) -> None:
        """Execute a step; raise ``ControllerError`` if the C code fails."""
        if self._library is None:
            raise ControllerError(
                f"{self.name} is not loaded; use the controller that fresh() returns"
            )
        if len(inputs) != len(self._u):
            self.inputs.check(inputs, self.name)
        self._u[:] = inputs
        if self._log.kept is not None:
            status = self._repeated(self._log.kept, tag)
        else:
            if self._time is not None:
                self._time.value = tag.ns
            began = stopwatch()
            status = self._step(self._step_u, self._step_y)
            self.took_ns.append(stopwatch() - began)
        if status:
            self._left = status >= THREW  # also after exit()
            text = self._refused(status, self.inputs, self._u)
            raise ControllerError(f"{self.name} failed at {tag}: {text}")
        self._pending = tag
        self._answer[:] = self._y
        self._history.add(tag, inputs)

    def _repeated(self, kept: KeptStep, tag: Tag) -> int:
        if not kept.repeats(tag, self._u):
            raise ControllerError(
                f"compiled code ran the step of {kept.tag} of {self.name}, but the interpreter "
                f"requests the step of {tag} with other inputs. This is an error in rtsim: "
                "report it, and use --engine interpreted"
            )
        self._log.repeated()
        self._y[:] = kept.outputs
        self.took_ns.append(kept.took_ns)
        return kept.status

    def by_address(self) -> tuple[int, tuple[Vector, ...]] | None:
        """Return the address of the C function for a step, and the vectors for its arguments.

        Returns None if the C code is not loaded, or if the controller has no outputs. An output is
        necessary, because the C code reports a failed step by NaN in the first output.
        """
        if self._library is None or not self.outputs.size:
            return None
        address = ctypes.cast(self._library.rtsim_step_by_address, ctypes.c_void_p).value
        assert address is not None
        return address, (self._u, np.zeros(0), self._log.values, self._y)

    def ran_by_address(self, steps: int, request: Tag | None) -> None:
        """Record the inputs and outputs of steps that compiled code has called."""
        called = self._log.take(steps)
        if self._pending not in (None, request):
            self._history.heard(self._answer)
        self._pending = request
        if steps:
            answered = steps if request is None else steps - 1
            self._history.extend(called.ns, called.inputs, called.outputs[:answered])
            self.took_ns.extend(called.took_ns.tolist())
            self._answer[:] = called.outputs[-1]

    def receive(self, tag: Tag, patience: float) -> Vector:  # noqa: ARG002
        """Return the outputs (n,) of the step with the tag ``tag``."""
        if self._pending != tag:
            raise ControllerError(
                f"receive() was called for the request of {tag}, but the pending request is "
                f"that of {self._pending}"
            )
        self._pending = None
        self._history.heard(self._y)
        return self._y

    def close(self) -> None:
        """Terminate and unload the controller."""
        if self._library is None:
            return
        status = 0 if self._left else self._library.rtsim_guarded_terminate()
        if status:
            self._say_how_it_ended(status)
        self._unload()

    def _refused(self, status: int, given: Signals, values: Vector) -> str:
        thrown = ""
        if self._library is not None:
            text = (ctypes.c_char * THROWN_BYTES).in_dll(self._library, "rtsim_thrown")
            thrown = text.value.decode("utf-8", "replace")
        return refusal(self.name, status, given, values, self.outputs, thrown)

    def _say_how_it_ended(self, status: int) -> NoReturn:
        text = self._refused(status, self.inputs, self._u)
        self._unload()
        raise ControllerError(f"{self.name} failed when it was terminated: {text}")

    def _unload(self) -> None:
        library, self._library = self._library, None
        if library is not None:
            del self._step
            self._time = None
            _ctypes.dlclose(library._handle)

    def _again(self, tag: Tag) -> Vector:
        return self.receive(tag, 0.0)


def _check_loadable(made: Build) -> None:
    name = made.interface.name
    if made.kind != PLAIN:
        raise ControllerError(
            f"a {made.kind} build of {name} cannot be loaded into this process; use SilController "
            f"instead of InProcess, or kind={PLAIN!r}"
        )
    for flag in made.interface.flags:
        if flag in _FLUSHING:
            raise ControllerError(
                f"{name} is built with the flag {flag}, which would flush denormal numbers to zero "
                "in this whole process; use SilController instead of InProcess"
            )


def _private(library: Path) -> ctypes.CDLL:
    handle, name = tempfile.mkstemp(prefix="loaded-", suffix=".so", dir=library.parent.parent)
    try:
        os.close(handle)
        shutil.copyfile(library, name)
        return ctypes.CDLL(name, mode=_OWN_NAMES_FIRST)
    except OSError as error:
        failed = ControllerError(f"{library} cannot be loaded: {error}")
        failed.environment = True
        raise failed from None
    finally:
        os.unlink(name)


def _pointer(vector: Vector) -> ctypes.c_void_p:
    return ctypes.c_void_p(vector.ctypes.data)
