"""Lets a lever or the mouse take over a value of the stick without a jump; without SDL."""

from __future__ import annotations

from collections.abc import Container

_REACHED = 0.04
"""The distance at which a lever takes over a value, in half travels."""


class Lever:
    """Whether a lever has a value: it takes over when it reaches the value or passes through it."""

    def __init__(self) -> None:
        self.device = ""
        """The name of the device whose lever has not reached the value yet."""
        self.held_by = -1
        """The instance id of the device whose lever has the value."""
        self._number = -1
        self._before = 0.0

    def reaches(self, number: int, name: str, lever: float, value: float) -> bool:
        """Return whether the lever of device ``number`` has the value; both are -1 to 1."""
        if number == self.held_by:
            return True
        near = abs(lever - value) <= _REACHED
        passed = number == self._number and (self._before - value) * (lever - value) <= 0.0
        self.held_by = number if near or passed else -1
        self.device = "" if self.held_by == number else name
        self._number, self._before = number, lever
        return self.held_by == number

    def release(self) -> None:
        """Let the lever reach the value again, because something else moved the value."""
        self.held_by = self._number = -1

    def look(self, sticks: Container[int]) -> None:
        """Forget the device if it was unplugged."""
        if self._number not in sticks:
            self.release()
            self.device = ""


class Pointer:
    """A pointer that the mouse moves, -1 to 1; it begins where the value is."""

    def __init__(self) -> None:
        self._at = self._mouse = 0.0

    def take(self, at: float, mouse: float) -> None:
        self._at, self._mouse = at, mouse

    def moved(self, mouse: float) -> float:
        """Return the position of the pointer; ``mouse`` is the sum of the mouse's movements."""
        self._at = max(-1.0, min(1.0, self._at + mouse - self._mouse))
        self._mouse = mouse
        return self._at
