"""Controllers: the contract every rung keeps, and the one that is a Python object.

What a controller may have beside the contract is in :mod:`rtsim.components.protocols`.

The executive samples a controller's inputs at a tag, sends them, and asks for the answer when it
is due; where the controller lives never shows in the trace.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Any, NoReturn, Protocol

import numpy as np

from rtsim.components.request_log import RequestLog, steps_of
from rtsim.core.errors import ControllerError
from rtsim.core.raised import blame, in_words
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import Tag
from rtsim.equations.addresses import UPDATE
from rtsim.equations.compiling import Compilation, Native, check_arguments, prepared
from rtsim.equations.first_call import first_checked
from rtsim.equations.reading_functions import never_written

Law = Callable[[float, Vector, Vector, Vector, Vector], None]
"""``(t, u, s, p, y)``: t in s, inputs u (m,), memory s (k,) in place, parameters p, fills y."""


class Controller(Protocol):
    """Wherever it runs: called with one request in flight at most."""

    @property
    def inputs(self) -> Signals: ...

    @property
    def outputs(self) -> Signals: ...

    @property
    def outside(self) -> bool:
        """True where something beyond this process decides when an answer comes."""
        ...

    def send(self, tag: Tag, inputs: Vector) -> None:
        """Begin a step on ``inputs`` (m,), sampled at ``tag``; never blocks."""
        ...

    def receive(self, tag: Tag, patience: float) -> Vector | None:
        """The answer (n,) to the request of ``tag``; ``None`` if it is not there.

        Waits at most ``patience`` seconds of wall time.
        """
        ...

    def close(self) -> None: ...


class PythonController:
    """A control law as a Python function: the design.

    ``parameters`` and ``memory`` are declared like signals; the law updates its memory in place
    and must be a pure function of ``(t, u, s, p)``.
    """

    outside = False

    def __init__(
        self,
        law: Law,
        inputs: Signals,
        outputs: Signals,
        *,
        parameters: Signals | None = None,
        memory: Signals | None = None,
        values: Mapping[str, object] | None = None,
        compile: bool = False,
        name: str = "controller",
    ) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self.parameters = parameters or Signals()
        self.memory = memory or Signals()
        self.law = law
        self.values: dict[str, object] = dict(values or {})
        self.p = self.parameters.initial(self.values)
        self.s = self.memory.initial()
        self.name = f"law {getattr(law, '__name__', 'without a name')} of {name}"
        check_arguments(law, "t, u, s, p, y", self.name)
        self._compile: Compilation = compile
        self._pending: Tag | None = None
        self._u, self._y = np.zeros(inputs.size), self._unwritten()

    def _unwritten(self) -> Vector:
        """Outputs before any was written: 0, or what an optional one holds for good."""
        return Signals(
            *(s if s.optional else replace(s, initial=0.0) for s in self.outputs)
        ).initial()

    @cached_property
    def _native(self) -> Native:
        return prepared(self.law, UPDATE, self.name, self._compile)

    @cached_property
    def _law(self) -> Callable[[float], object]:
        """On vectors that stay where they are, so that a step hands over no more than t."""
        vectors = (self._u, self.s, self.p, self._y)
        return first_checked(
            self._native, vectors, lambda law: vars(self).update(_law=law, checked=True)
        )

    def ready(self, compile: Compilation) -> PythonController:
        """A :meth:`fresh` one for a run whose functions are made ready in this way.

        One that was not declared to be compiled is plain Python in each run.
        """
        self._check_written()
        out = self.fresh()
        out._compile = compile if self._compile else False
        if out._compile != self._compile:
            vars(out).pop("_native", None)
        out._native  # noqa: B018
        return out

    def _check_written(self) -> None:
        """Raise :class:`ControllerError` where an output is never written."""
        columns = [s.optional for s in self.outputs for _ in s.columns]
        for i in never_written(self.law, 4, self.outputs.size):
            if not columns[i]:
                column = self.outputs.columns[i]
                raise ControllerError(
                    f"{self.name} never writes its output {column}: write y[{i}], leave the signal "
                    f"out, or declare that it stays as it is: Signal({column!r}, optional=True)"
                )

    def fresh(self) -> PythonController:
        """One like it at its declared start, with a memory of its own: each run has one."""
        out = copy(self)
        out.p = self.parameters.initial(self.values)
        out.s = self.memory.initial()
        out._u, out._y = np.zeros(self.inputs.size), self._unwritten()
        out._pending = None
        for name in ("_law", "checked"):
            vars(out).pop(name, None)
        return out

    def send(self, tag: Tag, inputs: Vector) -> None:
        self._u[:] = inputs
        try:
            self._law(tag.ns / 1_000_000_000)
        except BaseException as error:
            self._blame(tag, error)
        self._pending = tag

    def _blame(self, tag: Tag, error: BaseException) -> NoReturn:
        if not isinstance(error, IndexError):
            blame(self.name, tag, error, ControllerError, sure=True)
        layouts = {"u": self.inputs, "s": self.memory, "p": self.parameters, "y": self.outputs}
        sizes = ", ".join(f"{k}: {v.size}" for k, v in layouts.items())
        raise ControllerError(
            f"{self.name} raised at {tag}: {in_words(error)}; its vectors have {sizes}"
        ) from error

    def receive(self, tag: Tag, patience: float) -> Vector | None:  # noqa: ARG002
        if self._pending != tag:
            raise ControllerError(f"asked for the answer of {tag}, but {self._pending} is pending")
        self._pending = None
        return self._y

    def close(self) -> None:
        pass

    @cached_property
    def checked(self) -> bool:
        """The first call was checked, or needs no check."""
        return not self._native.unchecked

    def native(self) -> tuple[int, tuple[Vector, ...]] | None:
        """The address of the compiled function, and its vectors u, s, p, y; None: not compiled."""
        handle = self._native.handle
        if not isinstance(handle, np.intp):
            return None
        return int(handle), (self._u, self.s, self.p, self._y)

    def pending(self, tag: Tag | None) -> None:
        """Compiled code ran the step of ``tag``, whose answer was not asked for yet."""
        self._pending = tag

    def functions(self) -> Sequence[Any]:
        return [self.law]

    def tunable(self) -> Vector:
        return self.p

    def save(self) -> dict[str, Any]:
        pending = None if self._pending is None else list(self._pending)
        return {"s": self.s.tolist(), "p": self.p.tolist(), "y": self._y.tolist(), "at": pending}

    def restore(self, saved: dict[str, Any]) -> None:
        self.s[:] = saved["s"]
        self.p[:] = saved["p"]
        self._y[:] = saved["y"]
        self._pending = None if saved["at"] is None else Tag(*saved["at"])


class FedController:
    """Says again what a recording holds: replay of a controller that ran outside.

    ``script`` maps the tag of a request to what was said each time it was asked for: ``None`` for
    not there yet, a text for a failure, else the answer.  ``about`` is what the recording says of
    the one that ran, ``parameters`` what it ran with, as initial values.
    """

    outside = False

    def __init__(
        self,
        inputs: Signals,
        outputs: Signals,
        script: Mapping[Tag, Sequence[Vector | str | None]],
        about: Mapping[str, Any] | None = None,
        parameters: Signals | None = None,
    ) -> None:
        self._about = dict(about or {})
        self.parameters = parameters or Signals()
        self.inputs = inputs
        self.outputs = outputs
        self._script = {tag: tuple(said) for tag, said in script.items()}
        self._history = RequestLog(inputs.size)
        self._known = True

    def send(self, tag: Tag, inputs: Vector) -> None:
        self._history.add(tag, inputs)

    def receive(self, tag: Tag, patience: float) -> Vector | None:  # noqa: ARG002
        left = self._script.get(tag, ())[self._history.asked :]
        said = left[0] if left else None
        if isinstance(said, str):
            raise ControllerError(said)
        if said is not None and np.isnan(said).any():
            self._history.checksum = None  # one that came too late: what it was is not known
        self._history.heard(said)
        return said

    def describe(self) -> dict[str, Any]:
        """What the recording says of the one that ran."""
        return self._about

    def functions(self) -> Sequence[Any]:
        return []

    def close(self) -> None:
        pass

    def save(self) -> dict[str, Any]:
        """What the one that ran would save, so that either goes on from what the other saved."""
        return self._history.save() if self._known else {"known": False}

    def asked_for(self, times: int) -> None:
        """The request under way was asked for so often in vain before the run went on here."""
        self._history.open, self._history.asked = True, times

    def restore(self, saved: dict[str, Any]) -> None:
        """The memory of one that saved it its own way is not needed to say its answers again."""
        self._history = RequestLog(self.inputs.size)
        self._known = "steps" in saved
        if not self._known:
            return
        for tag, inputs in steps_of(saved, self.inputs.size, "what was recorded"):
            self._history.add(tag, inputs)
        self._history.open, self._history.asked = saved["open"], saved["asked"]
        self._history.checksum = saved["checksum"]
