"""The bodies that viewers draw: a shape at the position and attitude that signals give."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.scenario.meshes import Mesh

SHAPES: Mapping[str, float] = {"aircraft": 10.0, "box": 10.0, "car": 4.5, "quadcopter": 0.5}
"""The shapes by name, each with its usual length, m."""

_LENGTHS = {"m": 1.0, "km": 1000.0, "ft": 0.3048}
_ANGLES = {"rad": 1.0, "deg": math.pi / 180.0}
_PLAIN = {"1": 1.0, "": 1.0}
_UNITS: Mapping[str, tuple[Mapping[str, float], ...]] = {
    "geodetic": (_ANGLES, _ANGLES, _LENGTHS),
    "north_east_down": (_LENGTHS,) * 3,
    "euler": (_ANGLES,) * 3,
    "quaternion": (_PLAIN,) * 4,
}
"""For each field, the units of its elements, each with its factor to m, rad or 1."""

Place = str | float
"""A signal ``"component.signal"``, the negative of one (``"-component.signal"``), or a number."""


@dataclass(frozen=True)
class Body:
    """A rigid body with the signals (``"component.signal"``) of its position and attitude.

    Position:  ``geodetic`` (latitude, longitude, altitude) or ``north_east_down``.  Attitude:
    ``euler`` (roll, pitch, yaw) or ``quaternion`` (scalar first), each from local north-east-down
    to body axes (forward, right, down).  The units are the units of the signals.  An element can
    also be a number, in m or rad, or the negative of a signal, such as ``"-drone.height"``.

    ``shape`` is ``aircraft``, ``box``, ``car``, ``quadcopter``, or a :class:`Mesh` of your own.
    ``length`` is in m; if 0, it is the usual length of the shape, or the length of the mesh.  The
    origin of a car is on the ground below its middle, the origin of other shapes in their middle.

    Example:
        Body("plane", geodetic=("f16.latitude", "f16.longitude", "f16.altitude"),
             euler=("f16.roll", "f16.pitch", "f16.yaw"), shape="aircraft", length=15.0)
        Body("car", north_east_down=("car.x", "car.y", 0.0), euler=(0.0, 0.0, "car.yaw"),
             shape="car")
    """

    name: str
    geodetic: tuple[Place, ...] = ()
    north_east_down: tuple[Place, ...] = ()
    euler: tuple[Place, ...] = ()
    quaternion: tuple[Place, ...] = ()
    shape: str | Mesh = "box"
    length: float = 0.0

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise ScenarioError(f"body {self.name!r} is not an identifier; use letters, digits, _")
        if not isinstance(self.shape, Mesh) and self.shape not in SHAPES:
            raise UnknownName("shape", str(self.shape), SHAPES, f"body {self.name}")
        if self.length == 0.0:
            usual = self.shape.length if isinstance(self.shape, Mesh) else SHAPES[self.shape]
            object.__setattr__(self, "length", usual)
        if not 0.0 < self.length < 1e6:
            raise ScenarioError(
                f"body {self.name}: length {self.length} m must be between 0 and 1e6 m"
            )
        self._one_of("position", geodetic=3, north_east_down=3)
        self._one_of("attitude", euler=3, quaternion=4)
        for name in _UNITS:
            object.__setattr__(self, name, tuple(map(self._place, getattr(self, name))))

    def _place(self, given: object) -> Place:
        """Return an element of a position or attitude; raises :class:`ScenarioError`."""
        if isinstance(given, str):
            return given
        if isinstance(given, int | float) and math.isfinite(given):
            return float(given)
        raise ScenarioError(
            f"body {self.name}: {given!r} gives no position or attitude; write 'component.signal', "
            "'-component.signal' or a finite number"
        )

    def added_to(self, presentation: Any) -> Any:
        """Return the :class:`rtsim.scenario.shown.Presentation` with this declaration."""
        return replace(presentation, bodies=(*presentation.bodies, self))

    def _one_of(self, what: str, **sizes: int) -> None:
        given = {name: len(getattr(self, name)) for name in sizes if getattr(self, name)}
        wanted = " or ".join(f"{name}= with {size} signals" for name, size in sizes.items())
        if len(given) != 1 or any(sizes[name] != size for name, size in given.items()):
            raise ScenarioError(
                f"body {self.name}: {what} is missing or given twice; give {wanted}"
            )

    @property
    def signals(self) -> tuple[str, ...]:
        """The names of all signals, without duplicates."""
        given = (place for name in _UNITS for place in getattr(self, name))
        return tuple(dict.fromkeys(p.removeprefix("-") for p in given if isinstance(p, str)))

    @property
    def where(self) -> str:
        """The name of the field of the position."""
        return "geodetic" if self.geodetic else "north_east_down"

    @property
    def turned(self) -> str:
        """The name of the field of the attitude."""
        return "euler" if self.euler else "quaternion"

    def terms(self, field: str, units: Mapping[str, str]) -> Iterator[tuple[str, float]]:
        """Yield for each element of ``field`` its signal and the factor to m, rad or 1.

        The signal of a number is empty, and its factor is the number.  ``units`` has the unit of
        each known signal.  Raises :class:`ScenarioError` for an unknown signal or a wrong unit.
        """
        for place, known in zip(getattr(self, field), _UNITS[field], strict=True):
            if not isinstance(place, str):
                yield "", place
                continue
            name = place.removeprefix("-")
            if name not in units:
                raise UnknownName("signal", name, units, f"body {self.name}")
            if units[name] not in known:
                wanted = ", ".join(k for k in known if k)
                raise ScenarioError(
                    f"body {self.name}: signal {name} has the unit [{units[name]}]; expected one "
                    f"of {wanted}"
                )
            yield name, known[units[name]] * (-1.0 if place.startswith("-") else 1.0)

    def check(self, units: Mapping[str, str]) -> None:
        """Raise :class:`ScenarioError` if a signal is unknown or has a wrong unit."""
        for field in (self.where, self.turned):
            for _ in self.terms(field, units):
                pass

    def to_plain(self) -> dict[str, Any]:
        """Return the body as plain data, for another process."""
        shape = self.shape if isinstance(self.shape, str) else self.shape.to_plain()
        plain = asdict(replace(self, shape="box"))
        return {k: list(v) if isinstance(v, tuple) else v for k, v in plain.items()} | {
            "shape": shape
        }

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> Body:
        """Return the body from the output of :meth:`to_plain`; raises :class:`ScenarioError`."""
        given: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
        if isinstance(given.get("shape"), Mapping):
            given["shape"] = Mesh.from_plain(given["shape"])
        return cls(**given)
