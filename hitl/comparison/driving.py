"""Starts two controllers for the open loop, and closes them; errors become part of the result."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hitl.comparison.both import Observer
from hitl.comparison.checks import of_interface
from hitl.comparison.open_loop import OpenLoop, open_loop
from hitl.comparison.sides import C_AGAINST_DESIGN, DESIGN, Sides
from hitl.comparison.tolerances import Tolerances
from hitl.controllers.protocols import warnings_of
from rtsim.components.controller import Controller
from rtsim.components.protocols import Fresh
from rtsim.core.errors import ControllerError, ScenarioError
from rtsim.core.signals import Signals
from rtsim.core.tag import Period


def drive(
    name: str,
    design: Controller,
    translation: Controller,
    inputs: NDArray[np.float64],
    tags: NDArray[np.int64],
    *,
    period: Period | None = None,
    tolerances: Tolerances | None = None,
    observe: Observer | None = None,
    sides: Sides = C_AGAINST_DESIGN,
    labels: Signals | None = None,
) -> OpenLoop:
    """Start both controllers, run :func:`open_loop` on them, and close them.

    The arguments are those of :func:`open_loop`.  If the translation fails to initialise, or fails
    when it is closed, the result contains that error.
    """
    with ExitStack() as stack:
        ours = stack.enter_context(closing(fresh(name, design)))
        theirs: Controller
        try:
            theirs = fresh(name, translation)
        except ControllerError as error:
            theirs = _Dead(translation, error)
        stack.callback(closed, theirs)
        out = open_loop(
            ours,
            theirs,
            inputs,
            tags,
            name=name,
            period=period,
            tolerances=tolerances,
            observe=observe,
            sides=sides,
            labels=labels,
        )
        checks = of_interface(name, design, theirs, period) if sides.design == DESIGN else ()
        out = replace(out, checks=(*checks, *out.checks))
        ending = closed(theirs)
        if out.error or ending is None:
            return out
        return replace(out, error=str(ending), environment=ending.environment)


def fresh(name: str, controller: Controller) -> Controller:
    """Return a new controller like ``controller``; raises an error if it has no ``fresh()``."""
    if not isinstance(controller, Fresh):
        raise ScenarioError(
            f"{name}: a back-to-back test starts a controller several times, but a "
            f"{type(controller).__name__} has no method fresh(); add fresh(), which returns a new "
            "controller in its initial state"
        )
    return controller.fresh()


def closed(controller: Controller) -> ControllerError | None:
    """Close the controller; return the error of closing it, or ``None``."""
    try:
        controller.close()
    except ControllerError as error:
        return error
    return None


class _Dead:
    """A stand-in for a controller that failed to start; each of its steps raises this failure."""

    outside = False

    def __init__(self, instead_of: Controller, error: ControllerError) -> None:
        self.inputs, self.outputs = instead_of.inputs, instead_of.outputs
        self.warnings = warnings_of(instead_of)
        self._error = error

    def send(self, tag: object, inputs: object) -> None:  # noqa: ARG002
        raise self._error

    def receive(self, tag: object, patience: float) -> None:
        raise NotImplementedError

    def close(self) -> None:
        pass
