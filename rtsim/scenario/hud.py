"""The signals that the window shows as numbers in its head-up display."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from rtsim.core.errors import ScenarioError, UnknownName

LEFT, RIGHT = "left", "right"


@dataclass(frozen=True)
class Hud:
    """A number of the head-up display: ``signal``, ``"component.signal"``, is a scalar.

    ``text`` stands before the number; if empty, it is the name of the signal.  The number is
    ``factor`` times the value, in ``unit``; if empty, the unit is that of the signal.  ``digits``
    is the number of decimals.  The first number on each ``side`` has a frame.

    Example:
        Hud("car.speed", text="speed", unit="km/h", factor=3.6)
    """

    signal: str
    text: str = ""
    unit: str = ""
    factor: float = 1.0
    digits: int = 0
    side: str = LEFT

    def __post_init__(self) -> None:
        component, dot, signal = self.signal.partition(".")
        if not (component and dot and signal):
            raise ScenarioError(f"hud: signal {self.signal!r} is not of the form 'plant.signal'")
        if self.side not in (LEFT, RIGHT):
            raise UnknownName("side", self.side, (LEFT, RIGHT), f"hud {self.signal}")
        if not (math.isfinite(self.factor) and self.factor):
            raise ScenarioError(
                f"hud {self.signal}: factor {self.factor} must be a finite number other than 0"
            )
        if not 0 <= self.digits <= 6:
            raise ScenarioError(f"hud {self.signal}: digits {self.digits} must be 0 to 6")
        if self.factor != 1.0 and not self.unit:
            raise ScenarioError(
                f"hud {self.signal}: factor {self.factor:g} changes the unit; give unit="
            )

    def added_to(self, presentation: Any) -> Any:
        """Return the :class:`rtsim.scenario.shown.Presentation` with this declaration."""
        return replace(presentation, hud=(*presentation.hud, self))

    def check(self, units: Mapping[str, str]) -> None:
        """Raise :class:`UnknownName` if no component has the signal."""
        if self.signal not in units:
            raise UnknownName("signal", self.signal, units, "hud")

    def with_unit(self, units: Mapping[str, str]) -> Hud:
        """Return this number with the signal's own unit, if it has no other."""
        unit = self.unit or units.get(self.signal, "")
        return self if unit == "1" else replace(self, unit=unit)

    def to_plain(self) -> dict[str, Any]:
        """Return the number as plain data, for another process."""
        return asdict(self)

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> Hud:
        """Return the number from the output of :meth:`to_plain`; raises :class:`ScenarioError`."""
        known = {field.name for field in fields(cls)}
        try:
            return cls(**{k: v for k, v in data.items() if k in known})
        except (TypeError, AttributeError, ValueError) as error:
            raise ScenarioError(f"{dict(data)!r} is not a valid hud: {error}") from error
