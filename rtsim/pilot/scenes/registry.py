"""Which scenes there are, by name: rtsim's own, and those of packages that are installed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.pilot.scenes.scene import Scene

GROUP = "rtsim.scenes"
"""Packages add scenes by this entry point, ``name = "module:Class"``."""
BUILT_IN = {
    "f16": "rtsim.pilot.scenes.f16:F16Scene",
    "orbit": "rtsim.pilot.scenes.orbit:OrbitScene",
    "strips": "rtsim.pilot.scenes.strips:StripScene",
}

SceneFactory = Callable[[Mapping[str, Any]], Scene]
"""A class of scenes: called with the options that :meth:`Scenario.show` was given."""


def known_scenes() -> dict[str, EntryPoint]:
    """Every scene that a window here can show, by name."""
    found = {name: EntryPoint(name, value, GROUP) for name, value in BUILT_IN.items()}
    for entry in entry_points(group=GROUP):
        found.setdefault(entry.name, entry)
    return found


def check_scene_name(name: str) -> None:
    """Raise :class:`UnknownName` where no scene of that name is installed."""
    if name not in BUILT_IN and name not in (known := known_scenes()):
        raise UnknownName("scene", name, sorted(known), f"entry points of {GROUP}")


def scene_named(name: str, about: Mapping[str, Any]) -> Scene:
    """The scene that a run asks for, made with the options in ``about``.

    Strips of the signals where the run asks for none, or for one that is not installed here.
    Raises :class:`ScenarioError` where the scene cannot be loaded, or refuses its options.
    """
    entry = known_scenes().get(name or "strips")
    if entry is None:
        entry = known_scenes()["strips"]
        about = {"note": f"scene {name} is not installed here"}
    try:
        factory: SceneFactory = entry.load()
        scene = factory(about)
    except Exception as error:  # of somebody else's module or class
        raise ScenarioError(
            f"scene {entry.name} ({entry.value}) cannot be made: {type(error).__name__}: {error}"
        ) from error
    if not callable(getattr(scene, "draw", None)):
        raise ScenarioError(
            f"scene {entry.name} ({entry.value}) is {type(scene).__name__} and has no method "
            "draw(surface, moment); give a class that has one"
        )
    return scene
