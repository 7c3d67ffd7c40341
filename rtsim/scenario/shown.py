"""What a scenario shows: which signals say where a body is, and which warn whoever watches."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from rtsim.core.errors import ScenarioError, UnknownName

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


@dataclass(frozen=True)
class Cue:
    """What a person is warned of, by a stick that shakes, by a horn and in the picture.

    ``signal``, ``"plant.signal"``, is a scalar.  The stick begins to shake where it passes
    ``shaker[0]`` and shakes fully from ``shaker[1]`` on; the horn sounds beyond ``horn``.  Passing
    is rising, or, with ``below``, falling.  What has begun ends ``band`` before its limit.  Limits
    are in the signal's unit.
    """

    name: str
    signal: str
    shaker: tuple[float, float] | None = None
    horn: float | None = None
    text: str = ""
    """In the picture; the name in capitals where it is empty."""
    below: bool = False
    band: float = 0.0

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise ScenarioError(f"cue {self.name!r} is not an identifier; use letters, digits, _")
        part, dot, signal = self.signal.partition(".")
        if not (part and dot and signal):
            raise ScenarioError(f"cue {self.name}: {self.signal!r}; write 'plant.signal'")
        given = [*(self.shaker or ()), *(() if self.horn is None else (self.horn,))]
        if not given or len(self.shaker or (0.0, 0.0)) != 2:
            raise ScenarioError(
                f"cue {self.name} has no limit; give shaker=(begins, fully), horn=, or both"
            )
        if not all(map(math.isfinite, (*given, self.band))) or self.band < 0.0:
            raise ScenarioError(f"cue {self.name}: limits are numbers, and band is 0 or more")
        if self.shaker is not None:
            begins, fully = self.shaker
            if (begins < fully) if self.below else (fully < begins):
                raise ScenarioError(
                    f"cue {self.name}: the stick shakes fully at {fully:g}, before it begins at "
                    f"{begins:g}; give the other order, or below={not self.below}"
                )

    def to_plain(self) -> dict[str, Any]:
        """As plain data, for another process."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> Cue:
        """What :meth:`to_plain` made; :class:`ScenarioError` for what is none."""
        known = {field.name for field in fields(cls)}
        given: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in data.items() if k in known
        }
        try:
            return cls(**given)
        except (TypeError, AttributeError, ValueError) as error:
            raise ScenarioError(f"no cue can be made of {dict(data)!r}: {error}") from error
