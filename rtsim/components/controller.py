"""The interface of controllers, and controllers in Python.

A run samples the inputs of a controller, sends them, and receives the answer when it is due. The
results do not depend on where the answer is computed. Optional methods of controllers are in
:mod:`rtsim.components.protocols`.
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
from rtsim.core.raised import attribute_to, in_words
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import Tag
from rtsim.equations.addresses import UPDATE
from rtsim.equations.calls import first_checked
from rtsim.equations.compiling import LATER, Compilation, Native, prepared
from rtsim.equations.index_bounds import Indices
from rtsim.equations.named_arguments import Arguments, NamedVector, named
from rtsim.equations.reading_functions import check_locals, never_written
from rtsim.equations.same_bits import plain_at_first

Law = Callable[..., None]
"""A control law ``law(t, u, s, p, y)``.

The arguments are time t in s, inputs u (m,), memory s (k,), parameters p and outputs y.  The law
updates s and fills y.  Arguments may be omitted and given in any order (see
:mod:`rtsim.equations.named_arguments`).
"""


_LAW = Arguments("t, u, s, p, y", "y", changes="s, y", does="updates s and fills y in place")


class ControllerProtocol(Protocol):
    """Interface of controllers; a controller has at most one pending request."""

    @property
    def inputs(self) -> Signals: ...

    @property
    def outputs(self) -> Signals: ...

    @property
    def outside(self) -> bool:
        """True if another process or a device computes the answers."""
        ...

    def send(self, tag: Tag, inputs: Vector) -> None:
        """Start a step with ``inputs`` (m,), without waiting for the answer."""
        ...

    def receive(self, tag: Tag, patience: float) -> Vector | None:
        """Return the answer (n,) to the request of ``tag``, or ``None`` if it has not arrived.

        ``patience`` is the longest time (s) to wait.
        """
        ...

    def close(self) -> None: ...


class PythonController:
    """A controller whose control law is a Python function.

    The function must depend only on its arguments ``(t, u, s, p)``, and update the memory s in
    place. Signals are ``u.temperature`` or ``u[0]``. Raises ``ModelError`` for an unknown argument
    or signal.

    Args:
        law: The control law; see :data:`Law`.
        inputs: Inputs u.
        outputs: Outputs y.
        parameters: Parameters p, declared like signals.
        memory: Memory s, declared like signals.
        values: Parameter values that differ from the declaration, by name.
        compile: If True, the law is compiled to machine code.
        name: Name for messages.

    Example:
        def law(u, p, y):
            y.supply = 293.0 + p.gain * (293.0 - u.temperature)

        thermostat = PythonController(
            law,
            inputs=Signals("temperature [K]"),
            outputs=Signals("supply [K]"),
            parameters=Signals(Signal("gain", initial=2.0)),
            compile=True,
        )
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
        self.values: dict[str, object] = dict(values or {})
        self.p = self.parameters.initial(self.values)
        self.s = self.memory.initial()
        owner = name if name == "controller" else f"controller {name}"
        self.name = f"control function {getattr(law, '__name__', 'without a name')} of {owner}"
        self._of_class = hasattr(law, "rewritten")
        self.law = named(law, _LAW, self.name, self._vectors())
        self._compile: Compilation = compile
        self._pending: Tag | None = None
        self._u, self._y = np.zeros(inputs.size), self._unwritten()

    def _vectors(self) -> dict[str, NamedVector]:
        return {
            "u": NamedVector(self.inputs, "input"),
            "s": NamedVector(self.memory, "memory"),
            "p": NamedVector(self.parameters, "parameter"),
            "y": NamedVector(self.outputs, "output"),
        }

    def _unwritten(self) -> Vector:
        return Signals(
            *(s if s.optional else replace(s, initial=0.0) for s in self.outputs)
        ).initial()

    @cached_property
    def _native(self) -> Native:
        layouts = (self.inputs, self.memory, self.parameters, self.outputs)
        sizes = [None, *(one.size for one in layouts)]
        checked = not Indices().check(self.law, sizes, self.name)
        if self._compile == LATER:
            found = plain_at_first({"law": (self.law, UPDATE, checked)})
            if found:
                return found["law"]
        return prepared(self.law, UPDATE, self.name, self._compile, checked)

    @property
    def later(self) -> bool:
        """True if the controller can begin in plain Python and continue in machine code."""
        return self._compile == LATER and not isinstance(self._native.handle, np.intp)

    def to_machine_code(self) -> None:
        """Continue in machine code instead of plain Python, with exactly the same results."""
        if self.later:
            self._compile = True
            for name in ("_native", "_law", "checked"):
                vars(self).pop(name, None)

    @cached_property
    def _law(self) -> Callable[[float], object]:
        vectors = (self._u, self.s, self.p, self._y)
        return first_checked(
            self._native, vectors, lambda law: vars(self).update(_law=law, checked=True)
        )

    def ready(self, compile: Compilation) -> PythonController:
        """Return a new copy (see :meth:`fresh`).  The argument ``compile`` selects the compilation.

        With ``compile=False``, the controller always runs in plain Python.
        """
        self._check_written()
        out = self.fresh()
        out._compile = compile if self._compile else False
        if out._compile != self._compile:
            vars(out).pop("_native", None)
        out._native  # noqa: B018
        return out

    def _check_written(self) -> None:
        check_locals(self.law, self.name)
        columns = [s.optional for s in self.outputs for _ in s.columns]
        for i in never_written(self.law, 4, self.outputs.size):
            if not columns[i]:
                column = self.outputs.columns[i]
                written = f"self.{column}" if self._of_class else f"y[{i}]"
                raise ControllerError(
                    f"{self.name} never writes its output {column}; write {written}, remove the "
                    f"signal, or declare a constant output: Signal({column!r}, optional=True)"
                )

    def fresh(self) -> PythonController:
        """Return a copy in its initial state, for one run."""
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
            self._raise_attributed(tag, error)
        self._pending = tag

    def _raise_attributed(self, tag: Tag, error: BaseException) -> NoReturn:
        if not isinstance(error, IndexError):
            attribute_to(self.name, tag, error, ControllerError, sure=True)
        layouts = {"u": self.inputs, "s": self.memory, "p": self.parameters, "y": self.outputs}
        sizes = ", ".join(f"{k}: {v.size}" for k, v in layouts.items())
        raise ControllerError(
            f"{self.name} raised at {tag}: {in_words(error)}; the sizes of its vectors are {sizes}"
        ) from error

    def receive(self, tag: Tag, patience: float) -> Vector | None:  # noqa: ARG002
        if self._pending != tag:
            pending = "none" if self._pending is None else f"the request of {self._pending}"
            raise ControllerError(
                f"{self.name} has no pending request of {tag}; its pending request is {pending}"
            )
        self._pending = None
        return self._y

    def close(self) -> None:
        pass

    @cached_property
    def checked(self) -> bool:
        """True if the first call of the function was checked."""
        return not self._native.unchecked

    def by_address(self) -> tuple[int, tuple[Vector, ...]] | None:
        """Return the address and the vectors (u, s, p, y) of the function, or None."""
        handle = self._native.handle
        if not isinstance(handle, np.intp):
            return None
        return int(handle), (self._u, self.s, self.p, self._y)

    def ran_by_address(self, steps: int, request: Tag | None) -> None:  # noqa: ARG002
        """Set the pending request after compiled code has computed the answer."""
        self._pending = request

    def functions(self) -> Sequence[Any]:
        return [self.law]

    def tunable(self) -> Vector:
        return self.p

    @property
    def resettable(self) -> bool:
        """True for this class. A subclass without further memory can override this property."""
        return type(self) is PythonController

    def save(self) -> dict[str, Any]:
        pending = None if self._pending is None else list(self._pending)
        return {"s": self.s.tolist(), "p": self.p.tolist(), "y": self._y.tolist(), "at": pending}

    def restore(self, saved: dict[str, Any]) -> None:
        self.s[:] = saved["s"]
        self.p[:] = saved["p"]
        self._y[:] = saved["y"]
        self._pending = None if saved["at"] is None else Tag(*saved["at"])


class FedController:
    """A controller that replays recorded answers.

    Args:
        inputs: Inputs of the recorded controller.
        outputs: Outputs of the recorded controller.
        script: Results of the ``receive`` calls of each request, by its tag: ``None`` for no answer
            yet, text for a failure, otherwise the answer.
        about: Recorded description of the controller.
        parameters: Parameters, with the recorded values as initial values.
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
        self._answer: Vector | None = None
        """The latest answer."""

    def send(self, tag: Tag, inputs: Vector) -> None:
        self._history.add(tag, inputs)

    def receive(self, tag: Tag, patience: float) -> Vector | None:  # noqa: ARG002
        left = self._script.get(tag, ())[self._history.asked :]
        said = left[0] if left else None
        if isinstance(said, str):
            raise ControllerError(said)
        if said is not None and np.isnan(said).any():
            self._history.checksum = (
                None  # the answer came too late, so its values were not recorded
            )
        self._history.heard(said)
        self._answer = self._answer if said is None else said
        return said

    def start_again(self, tag: Tag) -> None:  # noqa: ARG002
        """Forget the requests, because the recorded controller was started again."""
        self._history, self._known = RequestLog(self.inputs.size), False

    def describe(self) -> dict[str, Any]:
        return self._about

    def functions(self) -> Sequence[Any]:
        return []

    def close(self) -> None:
        pass

    def save(self) -> dict[str, Any]:
        """Return the request log in the format of external controllers, and the latest answer.

        The key ``replayed`` says that the rest of the controller's memory is not known.
        """
        if not self._known:
            return {"known": False}
        answer = {} if self._answer is None else {"answer": self._answer.copy()}
        return {**self._history.save(), "replayed": answer}

    def asked_for(self, times: int) -> None:
        """Set how often ``receive`` found no answer to the pending request."""
        self._history.open, self._history.asked = True, times

    def restore(self, saved: dict[str, Any]) -> None:
        """Restore the request log and the latest answer of ``saved``, if any."""
        self._history = RequestLog(self.inputs.size)
        self._answer = saved.get("replayed", {}).get("answer")
        self._known = "steps" in saved
        if not self._known:
            return
        for tag, inputs in steps_of(saved, self.inputs.size, "the recorded controller"):
            self._history.add(tag, inputs)
        self._history.open, self._history.asked = saved["open"], saved["asked"]
        self._history.checksum = saved["checksum"]
