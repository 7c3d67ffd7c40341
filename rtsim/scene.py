"""What a scenario shows in three dimensions: which signals say where a body is, and how turned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rtsim.errors import ScenarioError, UnknownName

SHAPES = ("aircraft", "box")


@dataclass(frozen=True)
class Body:
    """A rigid body and the signals, ``"part.signal"``, that place it.

    Position: ``geodetic`` (latitude, longitude, altitude) or ``north_east_down``.  Attitude:
    ``euler`` (roll, pitch, yaw) or ``quaternion`` (scalar first), each from local north-east-down
    to body axes (forward, right, down).  Units are those of the signals.  ``length`` in m.
    """

    name: str
    geodetic: tuple[str, ...] = ()
    north_east_down: tuple[str, ...] = ()
    euler: tuple[str, ...] = ()
    quaternion: tuple[str, ...] = ()
    shape: str = "box"
    length: float = 10.0

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise ScenarioError(f"body {self.name!r} is not an identifier; use letters, digits, _")
        if self.shape not in SHAPES:
            raise UnknownName("shape", self.shape, SHAPES, f"body {self.name}")
        if not 0.0 < self.length < 1e6:
            raise ScenarioError(f"body {self.name}: length {self.length} m; give more than 0")
        self._one_of("where it is", geodetic=3, north_east_down=3)
        self._one_of("how it is turned", euler=3, quaternion=4)

    def _one_of(self, what: str, **sizes: int) -> None:
        given = {name: len(getattr(self, name)) for name in sizes if getattr(self, name)}
        wanted = " or ".join(f"{name}= with {size} signals" for name, size in sizes.items())
        if len(given) != 1 or any(sizes[name] != size for name, size in given.items()):
            raise ScenarioError(f"body {self.name}: {what} is not said; give {wanted}, one of them")

    def to_plain(self) -> dict[str, Any]:
        """As plain data, for another process."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> Body:
        given: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
        return cls(**given)
