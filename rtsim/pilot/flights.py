"""What can be flown by a short name, and how it is shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Flyable:
    """``scenario`` as ``rtsim run`` knows it; ``stick`` its inlet, or its only one."""

    scenario: str
    scene: str = ""
    stick: str = ""
    about: Mapping[str, Any] = field(default_factory=dict)


FLOWN_AS: dict[str, Flyable] = {
    "f16": Flyable("f16-by-hand", "f16", "stick", {"plant": "f16"}),
}
FLOWN_AS["f16-by-hand"] = FLOWN_AS["f16"]
