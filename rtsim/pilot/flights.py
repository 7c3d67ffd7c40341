"""What can be flown by a short name, and which scene shows which recording of version 0.1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Flyable:
    """``scenario`` as ``rtsim run`` knows it; ``stick`` its external input, or its only one."""

    scenario: str
    stick: str = ""


FLOWN_AS: dict[str, Flyable] = {"f16": Flyable("f16-by-hand", "stick")}
FLOWN_AS["f16-by-hand"] = FLOWN_AS["f16"]

_SCENES: dict[str, Mapping[str, Any]] = {
    "f16": {"scene": "f16", "plant": "f16"},
    "f16-by-hand": {"scene": "f16", "plant": "f16"},
    "orbit": {"scene": "orbit", "plant": "moon"},
}
"""By the scenario's name; later recordings name the scene, as scenarios do."""


def seen_as(scenario: str) -> dict[str, Any]:
    """What the viewer is told of a run whose recording names no scene."""
    return {"scenario": scenario, **_SCENES.get(scenario, {})}
