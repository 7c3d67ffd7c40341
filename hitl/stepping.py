"""Run a controller in C step by step, with inputs and outputs by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from hitl.building.build import PLAIN
from hitl.controllers.sil import CASES, SilController
from rtsim.core.errors import RtsimError, ScenarioError, ShapeError, UnknownName
from rtsim.core.signals import Signal, Signals, Vector, as_float64
from rtsim.core.tag import Tag


def sil(
    interface: str | Path, /, *, build: str = PLAIN, cases: Path = CASES, **parameters: object
) -> Sil:
    """Start the C code of an interface file in a separate process.

    ``build`` is ``plain``, ``sanitize`` or ``coverage``. A step that fails is saved below
    ``cases``, and the error says how to repeat it. Raises :class:`InterfaceError` or
    :class:`BuildError` if the C code cannot be built, :class:`ControllerError` if it cannot be
    started::

        with sil("motor.toml", gain=0.1) as controller:
            print(controller.step(setpoint=10.0, speed=0.0).voltage)
    """
    return Sil(SilController(interface, parameters, kind=build, cases=cases))


class Outputs(dict[str, Any]):
    """Outputs by name, as ``y["command"]`` or ``y.command``: floats, or arrays of their shape."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(str(UnknownName("output", name, self))) from None


class Sil:
    """A running controller in C.

    Step k is at the tick k of the interface's period. An input that is not given in a step keeps
    its last value, at first its initial value.
    """

    def __init__(self, controller: SilController) -> None:
        self.controller = controller.fresh()
        self.inputs: Signals = self.controller.inputs
        self.outputs: Signals = self.controller.outputs
        self.steps = 0
        self._held = self.inputs.initial()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is None:
            self.close()
            return
        with suppress(RtsimError):  # the error of the with block is raised
            self.close()

    def close(self) -> None:
        """End the process; raise ``ControllerError`` if the process fails at its end."""
        self.controller.close()

    def step(self, /, **inputs: ArrayLike) -> Outputs:
        """Execute a step with inputs by name; return the outputs by name.

        An input is a number, or an array of the signal's shape. Raises ``ControllerError`` if the
        step fails, and ``UnknownName`` or ``ShapeError`` for a wrong input.
        """
        for name, value in inputs.items():
            signal = _known(self.inputs, name)
            self._held[self.inputs.slice(name)] = _shaped(signal, _array(value), ())
        answer = self._exchange()
        return Outputs(
            {
                s.name: answer[self.outputs.slice(s.name)].reshape(s.shape)
                if s.shape
                else float(answer[self.outputs.slice(s.name)][0])
                for s in self.outputs
            }
        )

    def run(self, inputs: Mapping[str, ArrayLike] | Sequence[Sequence[float]] | Vector) -> Outputs:
        """Execute k steps; return the outputs by name, each (k,) or (k, *shape).

        ``inputs`` contains arrays (k,) or (k, *shape) by name, or is one array (k, m). Raises the
        errors of :meth:`step`.
        """
        rows = self._by_name(inputs) if isinstance(inputs, Mapping) else self._table(inputs)
        answers = np.empty((len(rows), self.outputs.size))
        for at, row in enumerate(rows):
            self._held[:] = row
            answers[at] = self._exchange()
        return Outputs(
            {
                s.name: answers[:, self.outputs.slice(s.name)].reshape(len(rows), *s.shape)
                for s in self.outputs
            }
        )

    def _exchange(self) -> Vector:
        tag = Tag(self.controller.interface.period.tick(self.steps))
        self.steps += 1
        return self.controller.step(tag, self._held)

    def _table(self, inputs: object) -> Vector:
        table = as_float64(inputs, "an input")
        if table.ndim != 2 or table.shape[1] != self.inputs.size:
            raise ShapeError(
                f"the inputs have shape {table.shape}; run() needs shape (k, "
                f"{self.inputs.size}): {', '.join(self.inputs.columns)}"
            )
        return table

    def _by_name(self, inputs: Mapping[str, ArrayLike]) -> Vector:
        given = {_known(self.inputs, n).name: _array(v) for n, v in inputs.items()}
        lengths = {n: len(v) if v.ndim else 0 for n, v in given.items()}
        if len(set(lengths.values())) != 1 or not all(v.ndim for v in given.values()):
            shapes = ", ".join(f"{n}: {v.shape}" for n, v in given.items()) or "none"
            raise ScenarioError(f"run() takes arrays of the same length k; got {shapes}")
        steps = next(iter(lengths.values()))
        table = np.tile(self._held, (steps, 1))
        for name, value in given.items():
            table[:, self.inputs.slice(name)] = _shaped(self.inputs[name], value, (steps,))
        return table


def _known(inputs: Signals, name: str) -> Signal:
    if name not in inputs:
        raise UnknownName("input", name, inputs.names)
    return inputs[name]


def _array(value: object) -> Any:
    found = np.asarray(value)
    return np.asarray(value, dtype=object) if found.dtype.kind in "iuO" else found


def _shaped(signal: Signal, value: Any, before: tuple[int, ...]) -> Vector:
    expected = before + signal.shape
    if value.shape != expected:
        raise ShapeError(f"input {signal.name} has shape {value.shape}; expected {expected}")
    return as_float64(value, signal.name).reshape(*before, signal.size)
