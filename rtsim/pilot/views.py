"""Views of a window, and the short names of scenarios for ``rtsim fly``."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rtsim.core.errors import ScenarioError

_ASIDE = 70.0
"""Angle between the views front and left, and front and right, deg.

The angle equals the horizontal field of view, so that three windows side by side show one picture
without a gap.
"""
_ANGLE = re.compile(r"([-+]?[0-9]+(?:\.[0-9]+)?)deg")


@dataclass(frozen=True)
class Viewpoint:
    """A view of a scene, with a direction: ``yaw`` to the right and ``pitch`` up, deg.

    An empty name means the first view of the scene.
    """

    view: str = ""
    yaw: float = 0.0
    pitch: float = 0.0

    @property
    def look(self) -> tuple[float, float]:
        """Viewing direction, to the right and up (rad)."""
        return math.radians(self.yaw), math.radians(self.pitch)


VIEWPOINTS: Mapping[str, Viewpoint] = {
    "front": Viewpoint("cockpit"),
    "left": Viewpoint("cockpit", -_ASIDE),
    "right": Viewpoint("cockpit", _ASIDE),
    "back": Viewpoint("cockpit", 180.0),
    "up": Viewpoint("cockpit", 0.0, 45.0),
    "down": Viewpoint("cockpit", 0.0, -45.0),
    "chase": Viewpoint("chase"),
    "signals": Viewpoint("signals"),
}
"""The named values of ``--view``. Any other value is an angle to the right, such as ``-35deg``."""


def is_viewpoint(word: str) -> bool:
    """Return True if ``word`` is the name of a viewpoint or an angle such as ``-35deg``."""
    return word in VIEWPOINTS or _ANGLE.fullmatch(word) is not None


def read_viewpoint(text: str) -> Viewpoint:
    """Return the view for a name, or for an angle such as ``-35deg``.

    An empty text gives the usual view. Any other text raises :class:`ScenarioError`.
    """
    if not text:
        return Viewpoint()
    found = _ANGLE.fullmatch(text)
    if found is not None and abs(angle := float(found.group(1))) <= 180.0:
        return Viewpoint("cockpit", angle)
    if text not in VIEWPOINTS:
        raise ScenarioError(
            f"--view {text}: no such view; give one of {', '.join(VIEWPOINTS)}, or an angle to the "
            "right from -180deg to 180deg, such as -35deg"
        )
    return VIEWPOINTS[text]


def main_first(views: tuple[str, ...]) -> Iterator[str]:
    """Yield ``views``. The view with the smallest deviation from straight ahead comes first.

    The window of the first view controls the stick.
    """
    yield from sorted(views, key=lambda view: sum(map(abs, read_viewpoint(view).look)))


# Short names of scenarios, and scenes for recordings of version 0.1.


@dataclass(frozen=True)
class Flyable:
    """A scenario for ``rtsim fly``; ``scenario`` is its name for ``rtsim run``.

    ``stick`` is the name of the external input that the pilot moves. ``stick`` can be empty if the
    scenario has only one external input.
    """

    scenario: str
    stick: str = ""
    task: str = ""
    """The pilot task if the user chooses none; may be empty."""


FLYABLES: dict[str, Flyable] = {"f16": Flyable("f16-by-hand", "stick", "gates")}
FLYABLES["f16-by-hand"] = FLYABLES["f16"]

_SCENES: dict[str, Mapping[str, Any]] = {
    "f16": {"scene": "f16", "plant": "f16"},
    "f16-by-hand": {"scene": "f16", "plant": "f16"},
    "orbit": {"scene": "orbit", "plant": "moon"},
}
"""Scenes for recordings of version 0.1, by scenario name. Later recordings name their scene."""


def default_scene(scenario: str) -> dict[str, Any]:
    """Return the description of a window for a recording without a scene."""
    return {"scenario": scenario, **_SCENES.get(scenario, {})}


def with_views(shown: dict[str, Any], views: Sequence[object]) -> dict[str, Any]:
    """Return the description of a window, with ``views`` if its scene shows charts."""
    strips = shown.get("scene", "") in ("", "bodies", "strips")
    return {**shown, "views": list(views)} if strips and views else shown
