"""A joystick or gamepad as ``rtsim joystick`` shows it: everything that SDL says of it, raw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Described:
    """``axes``: raw positions -1 to 1; ``hats``: right and up, each -1, 0 or 1."""

    number: int
    """Its instance id: two of a kind differ by it."""
    name: str
    guid: str
    """Of its make, in SDL's writing; two of a kind share it."""
    axes: tuple[float, ...]
    buttons: tuple[bool, ...]
    hats: tuple[tuple[int, int], ...]
    rumble: bool
    gamepad: Mapping[str, str] | None
    """SDL's mapping of a gamepad, its name of a control to what that is here; else none."""

    def to_plain(self) -> dict[str, Any]:
        return {**asdict(self), "gamepad": None if self.gamepad is None else dict(self.gamepad)}
