"""What viewers of a run show: bodies, warnings, and the scene of the window.

:meth:`Presented.show` declares all of it, for the window and for Foxglove.  Nothing of it changes
a run.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Protocol

from rtsim.core.errors import ScenarioError, UnknownName

SHAPES = ("aircraft", "box")
TAKEN = frozenset(("bodies", "cues", "pid", "scenario", "scene"))
"""What a window is told beside the options of its scene."""


class Displayed(Protocol):
    """What :meth:`Presented.show` takes: a :class:`Body`, a :class:`Cue`, or a class of yours."""

    def added_to(self, presentation: Presentation) -> Presentation:
        """``presentation`` with this one in it."""
        ...


@dataclass(frozen=True)
class Presentation:
    """All that a scenario declares for its viewers."""

    bodies: tuple[Body, ...] = ()
    """Drawn by Foxglove, and by scenes that draw bodies."""
    cues: tuple[Cue, ...] = ()
    """Warn in the window, by the stick and by the horn."""
    scene: str = ""
    """The window's, by name; strips of all signals where it is empty."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of the scene: plain data."""

    def window(self) -> dict[str, Any]:
        """What a window is told of its scene, as plain data; empty where none is declared."""
        if not self.scene:
            return {}
        bodies = [body.to_plain() for body in self.bodies]
        return {"scene": self.scene, **self.options, **({"bodies": bodies} if bodies else {})}

    def with_items(self, items: Sequence[Displayed]) -> Presentation:
        """Raises :class:`ScenarioError` for what no viewer shows."""
        out = self
        for item in items:
            if not hasattr(item, "added_to"):
                raise ScenarioError(
                    f"show({item!r}): a viewer shows a Body or a Cue; for a scene of the window "
                    "write show(scene='NAME')"
                )
            out = item.added_to(out)
        return out

    def with_scene(self, name: str, options: Mapping[str, Any]) -> Presentation:
        """Raises :class:`ScenarioError` for a second scene, or options that are no plain data."""
        if not name:
            if options:
                raise ScenarioError(
                    f"show({', '.join(options)}=...): these are options of a scene, and no scene "
                    "is named; add scene='NAME'"
                )
            return self
        if self.scene not in ("", name):
            raise ScenarioError(
                f"a window shows one scene: {self.scene} is declared, and now {name}; name one"
            )
        if taken := sorted(TAKEN & options.keys()):
            raise ScenarioError(f"scene {name}: option {taken[0]} is rtsim's own; use another name")
        try:
            plain = json.loads(json.dumps(dict(options)))
        except (TypeError, ValueError) as error:
            raise ScenarioError(
                f"scene {name}: options are numbers, texts, and lists and dicts of them, as they "
                f"go to another process; {error}"
            ) from error
        return replace(self, scene=name, options={**self.options, **plain})


class Presented:
    """What a scenario declares for its viewers."""

    presentation = Presentation()

    def show(self, *items: Displayed, scene: str = "", **options: Any) -> None:
        """Declare what viewers show: in the window, in Foxglove, and when a recording is played.

        ``items`` are bodies and cues.  ``scene`` names what the window draws: a scene of rtsim
        (``f16``, ``orbit``, ``strips``) or one of an installed package; ``options`` go to the
        scene's class.  The docs show how to write a scene (docs/extending-scenes.md).  Several
        calls add up.  Nothing of it changes the run.  Raises :class:`ScenarioError`.

        Example: ``scenario.show(Body("boat", ...), Cue("fast", ...), scene="harbour", depth=4.0)``
        """
        self.presentation = self.presentation.with_items(items).with_scene(scene, options)

    def warn(self, *cues: Cue) -> None:
        """The old name of :meth:`show` for cues."""
        warnings.warn("scenario.warn() is called show() now", DeprecationWarning, stacklevel=2)
        self.show(*cues)

    @property
    def bodies(self) -> tuple[Body, ...]:
        """The bodies that were declared by :meth:`show`."""
        return self.presentation.bodies

    @property
    def cues(self) -> tuple[Cue, ...]:
        """The cues that were declared by :meth:`show`."""
        return self.presentation.cues


@dataclass(frozen=True)
class Body:
    """A rigid body and the signals, ``"component.signal"``, that place it.

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

    def added_to(self, presentation: Presentation) -> Presentation:
        return replace(presentation, bodies=(*presentation.bodies, self))

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

    def added_to(self, presentation: Presentation) -> Presentation:
        return replace(presentation, cues=(*presentation.cues, self))

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
