"""The input of every scene: the states to show, warnings, and the selected view."""

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

COCKPIT, CHASE, SIGNALS = "cockpit", "chase", "signals"
_BESIDE_NOSE = 0.6
"""Look angle, rad, beyond which the nose is outside of the picture."""
VIEWS = (COCKPIT, CHASE)
"""The views of a scene that has no attribute ``views`` with names of its own."""


def views_of(scene: object) -> tuple[str, ...]:
    """Return the views of ``scene``, between which the key V changes; the first one is shown."""
    return tuple(getattr(scene, "views", VIEWS))


@dataclass(frozen=True)
class Shown:
    """One plant at the time ``ns`` of a picture: its values (n,) and mean rates of change (n,)."""

    signals: Signals
    values: Vector
    slope: Vector
    ns: int

    def __getitem__(self, name: str) -> float:
        """Return the value of the scalar signal ``name``."""
        return float(self.values[self.signals.slice(name).start])

    def vector(self, name: str) -> Vector:
        return self.values[self.signals.slice(name)]

    def rate(self, name: str) -> Vector:
        """Return the rate of change of the signal ``name``, per second of simulated time."""
        return self.slope[self.signals.slice(name)]


@dataclass(frozen=True)
class ScenePast:
    """The past of one plant up to a picture: simulated times (k,), ns, and values (k, n)."""

    ns: NDArray[np.int64]
    values: NDArray[np.float64]
    span: int
    """The time span of a trace over the full width of the picture, ns."""


@dataclass(frozen=True)
class Warned:
    """A cue that is on, with the warning to show."""

    text: str
    signal: str
    shaker: float
    """Strength of the stick shaker, 0 to 1."""
    horn: bool


@dataclass(frozen=True)
class SceneMoment:
    """All data that a scene needs to draw a picture."""

    plants: Mapping[str, Shown]
    view: str = COCKPIT
    stick: Mapping[str, float] = field(default_factory=dict)
    past: Mapping[str, ScenePast] = field(default_factory=dict)
    """The past by plant if known; otherwise a scene keeps the values of earlier pictures."""
    page: int = 0
    """The selected page of a scene with several pages; any integer, also negative."""
    warned: tuple[Warned, ...] = ()
    look: tuple[float, float] = (0.0, 0.0)
    """Where the person looks: to the right and up of the view's usual direction, rad."""

    def seen(self, view: str, page: int, look: tuple[float, float] = (0.0, 0.0)) -> SceneMoment:
        """Return this moment with another view, page and direction of looking."""
        return replace(self, view=view, page=page, look=look)

    @property
    def aside(self) -> bool:
        """True if the nose is outside of the picture, so that there is no head-up display."""
        return self.view == COCKPIT and max(map(abs, self.look)) > _BESIDE_NOSE


class Scene(Protocol):
    """Draws on a surface of any size, without opening a window or reading a device or clock."""

    def draw(self, surface: pygame.Surface, moment: SceneMoment) -> None: ...


if not TYPE_CHECKING:  # with __getattr__, a type checker would accept any name
    __getattr__ = names_moved(__name__, {"scene_named": "rtsim.pilot.scenes.registry"})
