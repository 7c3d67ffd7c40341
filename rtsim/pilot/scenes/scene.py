"""What every scene is given: the states to show, and how the run stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from rtsim.core.old_names import names_moved
from rtsim.core.signals import Signals, Vector

if TYPE_CHECKING:
    import pygame

COCKPIT, CHASE = "cockpit", "chase"
VIEWS = (COCKPIT, CHASE)


@dataclass(frozen=True)
class Shown:
    """One plant at the moment of the picture: values (n,), their mean rates of change, the time."""

    signals: Signals
    values: Vector
    slope: Vector
    ns: int

    def __getitem__(self, name: str) -> float:
        """A scalar by its name."""
        return float(self.values[self.signals.slice(name).start])

    def vector(self, name: str) -> Vector:
        return self.values[self.signals.slice(name)]

    def rate(self, name: str) -> Vector:
        """Of a vector, per second."""
        return self.slope[self.signals.slice(name)]


@dataclass(frozen=True)
class ScenePast:
    """One plant up to the moment of the picture: simulated times (k,) in ns, values (k, n)."""

    ns: NDArray[np.int64]
    values: NDArray[np.float64]
    span: int
    """ns that a trace across the picture stands for."""


@dataclass(frozen=True)
class Warned:
    """A cue that is on."""

    text: str
    signal: str
    shaker: float
    """How strongly the stick shakes, 0 to 1."""
    horn: bool


@dataclass(frozen=True)
class SceneMoment:
    """Everything there is to draw."""

    plants: Mapping[str, Shown]
    view: str = COCKPIT
    stick: Mapping[str, float] = field(default_factory=dict)
    past: Mapping[str, ScenePast] = field(default_factory=dict)
    """Where it is known; a scene that needs it keeps what it was shown otherwise."""
    page: int = 0
    """Of a scene that does not fit one picture; counts on without end, also below 0."""
    warned: tuple[Warned, ...] = ()

    def seen(self, view: str, page: int) -> SceneMoment:
        """The same from elsewhere."""
        return replace(self, view=view, page=page)


class Scene(Protocol):
    """Draws on any surface of any size; opens no window, reads no device, knows no clock."""

    def draw(self, surface: pygame.Surface, moment: SceneMoment) -> None: ...


if not TYPE_CHECKING:  # a type checker would take any name for one of this module
    __getattr__ = names_moved(__name__, {"scene_named": "rtsim.pilot.scenes.registry"})
