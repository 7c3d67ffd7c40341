"""NASA's control law and guidance for the F-16 as functions of inputs, parameters and outputs."""

from __future__ import annotations

from collections.abc import Callable

from rtsim.core.signals import Vector
from rtsim.models.f16.controller import Circle, ControlLaw, Course
from rtsim.named.controller import Controller

Law = Callable[[Vector, Vector, Vector], None]


def _law(kind: type[Controller]) -> Law:
    step = kind().controller().law

    def law(inputs: Vector, parameters: Vector, outputs: Vector) -> None:
        step(0.0, inputs, (), parameters, outputs)

    return law


control_law, circle, course = _law(ControlLaw), _law(Circle), _law(Course)
