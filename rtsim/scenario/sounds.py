"""A sound of a scenario: a signal sets the pitch and the level of a tone or of noise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.signals import Signals

Points = tuple[tuple[float, float], ...]
LOWEST_HZ, HIGHEST_HZ = 20.0, 8000.0
_MOST_POINTS, _MOST_HARMONICS = 64, 16


@dataclass(frozen=True)
class Sound:
    """A sound that a window makes while it shows a run, such as an engine or the wind.

    ``signal``, ``"plant.signal"``, is a scalar.  ``pitch`` (Hz, 20 to 8000) and ``level`` (0 to 1)
    are numbers, or points ``((signal, pitch), ...)`` that rise with the signal; between two points
    they are linear, and outside constant.  ``harmonics`` are the amplitudes of the tone and of its
    multiples.  With a ``width`` in Hz, the sound is noise of this bandwidth around the pitch.

    Example:
        Sound("engine", "car.speed", pitch=((0.0, 40.0), (50.0, 200.0)), level=0.4)
    """

    name: str
    signal: str
    pitch: Points
    level: Points
    harmonics: tuple[float, ...] = (1.0,)
    width: float = 0.0

    def __init__(
        self,
        name: str,
        signal: str,
        pitch: float | Sequence[Sequence[float]],
        level: float | Sequence[Sequence[float]],
        harmonics: Sequence[float] = (1.0,),
        width: float = 0.0,
    ) -> None:
        where = f"sound {name}"
        if not name.isidentifier():
            raise ScenarioError(f"sound {name!r} is not an identifier; use letters, digits, _")
        plant, dot, column = signal.partition(".")
        if not (plant and dot and column):
            raise ScenarioError(f"{where}: signal {signal!r} is not of the form 'plant.signal'")
        heard = tuple(float(amplitude) for amplitude in harmonics)
        valid = all(math.isfinite(a) and a >= 0.0 for a in heard) and any(heard)
        if not valid or len(heard) > _MOST_HARMONICS:
            raise ScenarioError(
                f"{where}: harmonics {heard} must be 1 to {_MOST_HARMONICS} amplitudes of 0 or "
                "more, and one of them more than 0"
            )
        if not 0.0 <= width <= HIGHEST_HZ / 2.0:
            raise ScenarioError(
                f"{where}: width {width:g} Hz is not within 0 to {HIGHEST_HZ / 2.0:g} Hz"
            )
        for key, value in (
            ("name", name), ("signal", signal), ("harmonics", heard), ("width", float(width)),
            ("pitch", _points(pitch, LOWEST_HZ, HIGHEST_HZ, f"{where}: pitch")),
            ("level", _points(level, 0.0, 1.0, f"{where}: level")),
        ):  # fmt: skip
            object.__setattr__(self, key, value)

    def added_to(self, presentation: Any) -> Any:
        """Return the :class:`rtsim.scenario.shown.Presentation` with this declaration."""
        return replace(presentation, sounds=(*presentation.sounds, self))

    def check(self, plants: Mapping[str, Signals]) -> None:
        """Raise an error if the signal is unknown, or is not a scalar."""
        check_scalar(self.signal, plants, f"sound {self.name}")

    def to_plain(self) -> dict[str, Any]:
        """Return the sound as plain data, for another process."""
        return asdict(self)

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> Sound:
        """Return the sound from the output of :meth:`to_plain`; raises :class:`ScenarioError`."""
        known = {field.name for field in fields(cls)}
        try:
            return cls(**{key: value for key, value in data.items() if key in known})
        except (TypeError, AttributeError, ValueError) as error:
            raise ScenarioError(f"{data!r} is not a valid sound: {error}") from error


def check_scalar(name: str, plants: Mapping[str, Signals], where: str) -> None:
    """Raise an error if ``name``, ``"plant.signal"``, is unknown or not a scalar.

    ``where`` names the declaration in the message.
    """
    plant, _, signal = name.partition(".")
    if plant not in plants:
        raise UnknownName("plant", plant, sorted(plants), where)
    if signal not in plants[plant]:
        raise UnknownName("signal", signal, plants[plant].names, f"{where}, {plant}")
    if plants[plant][signal].shape:
        raise ScenarioError(f"{where}: {name} is a vector; give a scalar signal")


def _points(
    given: float | Sequence[Sequence[float]], low: float, high: float, where: str
) -> Points:
    """Return ``given`` as points; a number is one point."""
    if isinstance(given, int | float):
        given = ((0.0, given),)
    found = tuple((float(x), float(y)) for x, y in given)
    across = [x for x, _ in found]
    if not 1 <= len(found) <= _MOST_POINTS or not all(map(math.isfinite, across)):
        raise ScenarioError(f"{where} {given!r} must be a number, or 1 to {_MOST_POINTS} points")
    if sorted(set(across)) != across:
        raise ScenarioError(f"{where}: the values of the signal must rise, but are {across}")
    for _, y in found:
        if not low <= y <= high:
            raise ScenarioError(f"{where} {y:g} is not within {low:g} to {high:g}")
    return found
