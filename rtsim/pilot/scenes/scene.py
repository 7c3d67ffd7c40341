"""The interface of scenes, the data that they draw, and the search for a scene by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.signals import Signals, Vector

if TYPE_CHECKING:
    import pygame


COCKPIT, CHASE, SIGNALS = "cockpit", "chase", "signals"
_BESIDE_NOSE = 0.6
"""Look angle beyond which the nose is outside the picture, rad."""
VIEWS = (COCKPIT, CHASE)
"""The views of a scene that has no attribute ``views``."""


def views_of(scene: object) -> tuple[str, ...]:
    """Return the views of ``scene``.

    The window begins with the first view, and the key V selects the next one.
    """
    return tuple(getattr(scene, "views", VIEWS))


@dataclass(frozen=True)
class Shown:
    """Values (n,) and rates of change (n,) of a plant at the simulated time ``ns``."""

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
        """Return the rate of change of the signal ``name``, per simulated second."""
        return self.slope[self.signals.slice(name)]


@dataclass(frozen=True)
class ScenePast:
    """Past values (k, n) of a plant, with their simulated times (k,), ns."""

    ns: NDArray[np.int64]
    values: NDArray[np.float64]
    span: int
    """Time span of a trace over the full width of the picture, ns."""


@dataclass(frozen=True)
class Warned:
    """An active cue, with its warning text."""

    text: str
    signal: str
    shaker: float
    horn: bool


@dataclass(frozen=True)
class SceneMoment:
    """All data that a scene needs to draw one picture."""

    plants: Mapping[str, Shown]
    view: str = COCKPIT
    stick: Mapping[str, float] = field(default_factory=dict)
    past: Mapping[str, ScenePast] = field(default_factory=dict)
    """Past values by plant, if known. Otherwise a scene keeps the values of earlier pictures."""
    page: int = 0
    """Selected page of a scene with several pages. Any integer is valid, also a negative one."""
    warned: tuple[Warned, ...] = ()
    look: tuple[float, float] = (0.0, 0.0)
    """Direction of looking, to the right and up from the view's usual direction, rad."""

    def seen(self, view: str, page: int, look: tuple[float, float] = (0.0, 0.0)) -> SceneMoment:
        """Return a copy for another view, page and viewing direction."""
        return replace(self, view=view, page=page, look=look)

    @property
    def aside(self) -> bool:
        """True if the nose of the aircraft is outside the picture."""
        return self.view == COCKPIT and max(map(abs, self.look)) > _BESIDE_NOSE


class Scene(Protocol):
    """Interface of a scene, which draws on a surface of any size.

    A scene may have ``views`` and the text ``remark``. The window shows the remark at first, and
    again after each change.
    """

    def draw(self, surface: pygame.Surface, moment: SceneMoment) -> None: ...


# Past values, for traces and tracks.

KEPT = 600
"""Number of pictures whose values are kept: 10 s at 60 pictures per second."""


class KeptStates:
    """The values of a plant in the most recent pictures.

    If the simulated time goes back, later values are removed.
    """

    def __init__(self, size: int, most: int = KEPT) -> None:
        self._most, self._count = most, 0
        self._ns: NDArray[np.int64] = np.zeros(2 * most, dtype=np.int64)
        self._values: NDArray[np.float64] = np.zeros((2 * most, size))

    def note(self, ns: int, values: Vector) -> ScenePast:
        """Add ``values`` (n,) at time ``ns``, and return the past.

        Values at later times are removed first.
        """
        while self._count and self._ns[self._count - 1] >= ns:
            self._count -= 1
        if self._count == 2 * self._most:
            self._ns[: self._most] = self._ns[self._most :]
            self._values[: self._most] = self._values[self._most :]
            self._count = self._most
        self._ns[self._count], self._values[self._count] = ns, values
        self._count += 1
        first = max(0, self._count - self._most)
        times = self._ns[first : self._count]
        return ScenePast(times, self._values[first : self._count], self._span(times))

    def _span(self, times: NDArray[np.int64]) -> int:
        if len(times) < 2:
            return 0
        return int(times[-1] - times[0]) * (self._most - 1) // (len(times) - 1)


class PastStates:
    """Return past values of plants, from a scene's data or from earlier pictures."""

    def __init__(self, most: int = KEPT) -> None:
        self._most = most
        self._kept: dict[str, KeptStates] = {}

    def of(self, moment: SceneMoment, name: str) -> ScenePast:
        if name in moment.past:
            return moment.past[name]
        plant: Shown = moment.plants[name]
        kept = self._kept.setdefault(name, KeptStates(plant.signals.size, self._most))
        return kept.note(plant.ns, plant.values)


# Scenes by name: those of rtsim and those of other installed packages.

GROUP = "rtsim.scenes"
"""Group of entry points by which packages add scenes: ``name = "module:Class"``."""
BUILT_IN = {
    "bodies": "rtsim.pilot.scenes.bodies:BodyScene",
    "f16": "rtsim.pilot.scenes.f16:F16Scene",
    "orbit": "rtsim.pilot.scenes.orbit:OrbitScene",
    "strips": "rtsim.pilot.scenes.strips:StripScene",
    "tracking": "rtsim.pilot.scenes.tracking:TrackingScene",
}

SceneFactory = Callable[[Mapping[str, Any]], Scene]


def known_scenes() -> dict[str, EntryPoint]:
    found = {name: EntryPoint(name, value, GROUP) for name, value in BUILT_IN.items()}
    for entry in entry_points(group=GROUP):
        found.setdefault(entry.name, entry)
    return found


def check_scene_name(name: str) -> None:
    """Raise ``UnknownName`` if the scene ``name`` is not installed."""
    if name not in BUILT_IN and name not in (known := known_scenes()):
        raise UnknownName("scene", name, sorted(known), f"entry points of {GROUP}")


def scene_named(name: str, about: Mapping[str, Any]) -> Scene:
    """Return the scene ``name``, created with the options ``about``.

    If ``name`` is empty or unknown, the result is the scene ``strips``. Raises
    :class:`ScenarioError` if the scene cannot be loaded or rejects its options.
    """
    entry = known_scenes().get(name or "strips")
    if entry is None:
        entry = known_scenes()["strips"]
        about = {"note": f"scene {name} is not installed on this machine"}
    try:
        factory: SceneFactory = entry.load()
        scene = factory(about)
    except Exception as error:  # another package can raise any error
        raise ScenarioError(
            f"scene {entry.name} ({entry.value}) cannot be created: {type(error).__name__}: {error}"
        ) from error
    if not callable(getattr(scene, "draw", None)):
        raise ScenarioError(
            f"scene {entry.name} ({entry.value}) has no method draw(surface, moment); the type of "
            f"the scene is {type(scene).__name__}"
        )
    return scene
