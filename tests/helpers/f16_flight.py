"""The F-16's check cases flown by the plain RK4 of ``flight``, the law sampled and held."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from f16_laws import circle, control_law, course
from flight import fly
from published import Columns

from rtsim.core.signals import Signals, Vector
from rtsim.equations.model import Model
from rtsim.models.f16.controller import LAW_INPUTS, LAW_OUTPUTS, LAW_PARAMETERS, Circle, Course
from rtsim.models.f16.plant import F16
from rtsim.models.f16.scenario import F16Case


class Pilot:
    """Guidance, then law, at each call; commands take effect at the first call not before them."""

    def __init__(self, flown: F16Case, law_parameters: Mapping[str, float] | None = None) -> None:
        self._case = flown
        self._values = dict(flown.law_inputs)
        self._law = LAW_PARAMETERS.initial({**flown.law_parameters, **(law_parameters or {})})
        straight = flown.guidance == "course"
        self._guide = course if straight else circle
        kind = Course if straight else Circle
        self._sees = kind.signals("input")
        self._track = kind.signals("parameter").initial(flown.guidance_parameters)

    def _read(self, layout: Signals, outputs: Mapping[str, float]) -> Vector:
        values = {n: self._values.get(n, layout[n].initial) for n in layout.names}
        values |= {n: outputs[n] for n in layout.names if n in outputs}
        return np.array([values[n] for n in layout.names], dtype=np.float64)

    def __call__(self, t: float, outputs: Mapping[str, float], u: Vector) -> None:
        self._values |= {n: v for at, n, v in self._case.commands if t >= at - 1e-9}
        track, surfaces = np.zeros(2), np.zeros(4)
        self._guide(self._read(self._sees, outputs), self._track, track)
        self._values["lateral_deviation"], self._values["base_course"] = map(float, track)
        control_law(self._read(LAW_INPUTS, outputs), self._law, surfaces)
        assert LAW_OUTPUTS.names == F16.inputs.names
        u[:] = surfaces


def fly_case(
    flown: F16Case,
    *,
    model: Model = F16,
    duration: float | None = None,
    parameters: Mapping[str, float] | None = None,
    law_parameters: Mapping[str, float] | None = None,
    frame: float = 0.02,
    step: float = 0.005,
) -> Columns:
    """Outputs every 0.1 s; with the law at each ``frame`` where the case has a guidance."""
    return fly(
        model,
        flown.state,
        inputs=flown.inputs,
        parameters={**flown.parameters, **(parameters or {})},
        duration=flown.duration if duration is None else duration,
        frame=frame,
        step=step,
        control=Pilot(flown, law_parameters) if flown.guidance != "none" else None,
    )
