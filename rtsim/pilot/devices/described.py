"""The description of a joystick or gamepad for ``rtsim joystick``, with SDL's raw values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Described:
    """A device; ``axes`` are raw positions -1 to 1, ``hats`` are (right, up), each -1, 0 or 1."""

    number: int
    """The instance id; it differs between two devices of the same model."""
    name: str
    guid: str
    """SDL's identifier of the model; two devices of the same model share it."""
    axes: tuple[float, ...]
    buttons: tuple[bool, ...]
    hats: tuple[tuple[int, int], ...]
    rumble: bool
    gamepad: Mapping[str, str] | None
    """SDL's mapping from gamepad controls to the device's controls; ``None`` if not a gamepad."""
    order: int = 1
    """The number of the device among those of its model, from 1; ``number`` in a mapping."""
    held: tuple[str, ...] = ()
    """The buttons and hats that are held, with the names that a mapping uses."""

    def to_plain(self) -> dict[str, Any]:
        return {**asdict(self), "gamepad": None if self.gamepad is None else dict(self.gamepad)}
