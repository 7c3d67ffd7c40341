"""Short names of scenarios that ``rtsim fly`` takes, and scenes for recordings of version 0.1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Flyable:
    """A scenario for ``rtsim fly``; ``scenario`` is its name for ``rtsim run``.

    ``stick`` is the external input that the pilot moves. It may be empty if the scenario has only
    one external input.
    """

    scenario: str
    stick: str = ""
    task: str = ""
    """The task that the pilot flies if none is chosen; empty for none."""


FLOWN_AS: dict[str, Flyable] = {"f16": Flyable("f16-by-hand", "stick", "gates")}
FLOWN_AS["f16-by-hand"] = FLOWN_AS["f16"]

_SCENES: dict[str, Mapping[str, Any]] = {
    "f16": {"scene": "f16", "plant": "f16"},
    "f16-by-hand": {"scene": "f16", "plant": "f16"},
    "orbit": {"scene": "orbit", "plant": "moon"},
}
"""Scenes of version 0.1 by scenario name; later recordings name their scene themselves."""


def default_scene(scenario: str) -> dict[str, Any]:
    """Return the viewer's description of a run whose recording names no scene."""
    return {"scenario": scenario, **_SCENES.get(scenario, {})}


def with_views(shown: dict[str, Any], views: Sequence[object]) -> dict[str, Any]:
    """Return the description ``shown`` of a window with ``views``, if its scene draws strips."""
    strips = shown.get("scene", "") in ("", "bodies", "strips")
    return {**shown, "views": list(views)} if strips and views else shown
