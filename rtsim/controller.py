"""Controllers: the contract every rung keeps, and the one that is a Python object.

The executive samples a controller's inputs at a tag, sends them, and asks for the answer when it
is due; where the controller lives never shows in the trace.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from rtsim.compiling import UPDATE, compile_function
from rtsim.errors import ControllerError
from rtsim.signals import Signals, Vector
from rtsim.tag import Tag

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


class StatefulController(Controller, Protocol):
    """One whose memory can be saved with the run and restored."""

    def save(self) -> dict[str, Any]: ...

    def restore(self, saved: dict[str, Any]) -> None: ...


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
        self._y = np.zeros(outputs.size)
        self._call = (
            compile_function(law, UPDATE, f"law of {name}").call
            if compile
            else getattr(law, "py_func", law)
        )
        self._pending: Tag | None = None

    def reset(self) -> None:
        """Back to the declared start, for another run."""
        self.p[:] = self.parameters.initial(self.values)
        self.s[:] = self.memory.initial()
        self._pending = None

    def send(self, tag: Tag, inputs: Vector) -> None:
        self._call(tag.ns / 1_000_000_000, inputs, self.s, self.p, self._y)
        self._pending = tag

    def receive(self, tag: Tag, patience: float) -> Vector | None:  # noqa: ARG002
        if self._pending != tag:
            raise ControllerError(f"asked for the answer of {tag}, but {self._pending} is pending")
        self._pending = None
        return self._y

    def close(self) -> None:
        pass

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
    not there yet, else the answer.
    """

    outside = False

    def __init__(
        self, inputs: Signals, outputs: Signals, script: Mapping[Tag, Sequence[Vector | None]]
    ) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self._script = {tag: list(said) for tag, said in script.items()}

    def send(self, tag: Tag, inputs: Vector) -> None:
        pass

    def receive(self, tag: Tag, patience: float) -> Vector | None:  # noqa: ARG002
        said = self._script.get(tag)
        return said.pop(0) if said else None

    def close(self) -> None:
        pass
