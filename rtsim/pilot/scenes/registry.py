"""The registry of scenes by name: those of rtsim and those of other installed packages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.pilot.scenes.scene import Scene

GROUP = "rtsim.scenes"
"""The group of entry points by which packages add scenes: ``name = "module:Class"``."""
BUILT_IN = {
    "bodies": "rtsim.pilot.scenes.bodies:BodyScene",
    "f16": "rtsim.pilot.scenes.f16:F16Scene",
    "orbit": "rtsim.pilot.scenes.orbit:OrbitScene",
    "strips": "rtsim.pilot.scenes.strips:StripScene",
    "tracking": "rtsim.pilot.scenes.tracking:TrackingScene",
}

SceneFactory = Callable[[Mapping[str, Any]], Scene]
"""Type of a scene class; it is called with the options of :meth:`Scenario.show`."""


def known_scenes() -> dict[str, EntryPoint]:
    """Return every installed scene by name."""
    found = {name: EntryPoint(name, value, GROUP) for name, value in BUILT_IN.items()}
    for entry in entry_points(group=GROUP):
        found.setdefault(entry.name, entry)
    return found


def check_scene_name(name: str) -> None:
    """Raise :class:`UnknownName` if no installed scene has the name ``name``."""
    if name not in BUILT_IN and name not in (known := known_scenes()):
        raise UnknownName("scene", name, sorted(known), f"entry points of {GROUP}")


def scene_named(name: str, about: Mapping[str, Any]) -> Scene:
    """Return the scene ``name``, created with the options ``about``.

    Returns the scene ``strips`` if ``name`` is empty or not installed.  Raises
    :class:`ScenarioError` if the scene cannot be loaded or refuses its options.
    """
    entry = known_scenes().get(name or "strips")
    if entry is None:
        entry = known_scenes()["strips"]
        about = {"note": f"scene {name} is not installed on this machine"}
    try:
        factory: SceneFactory = entry.load()
        scene = factory(about)
    except Exception as error:  # the module of another package can raise any error
        raise ScenarioError(
            f"scene {entry.name} ({entry.value}) cannot be created: {type(error).__name__}: {error}"
        ) from error
    if not callable(getattr(scene, "draw", None)):
        raise ScenarioError(
            f"scene {entry.name} ({entry.value}) has no method draw(surface, moment); the type of "
            f"the scene is {type(scene).__name__}"
        )
    return scene
