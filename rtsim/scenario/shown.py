"""The things that viewers of a run show: plots, bodies, warnings, and the scene of the window.

:meth:`Presented.show` and :meth:`Presented.plot` declare these things.  They do not change a run.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Protocol

from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.record.views import Published, View
from rtsim.scenario.sounds import Sound

SHAPES = ("aircraft", "box")
TAKEN = frozenset(("bodies", "cues", "pid", "scenario", "scene", "sounds"))
"""Names of options that rtsim itself sends to a window; the options of a scene need other names."""


class Displayed(Protocol):
    """An argument of :meth:`Presented.show`: a :class:`Body`, a :class:`Cue` or your own object."""

    def added_to(self, presentation: Presentation) -> Presentation:
        """Return a copy of ``presentation`` with this object added."""
        ...


@dataclass(frozen=True)
class Presentation:
    """The bodies, warnings, scene and views that a scenario declares for its viewers."""

    bodies: tuple[Body, ...] = ()
    """Bodies that Foxglove and some scenes draw."""
    cues: tuple[Cue, ...] = ()
    """Warnings by a text in the window, by the stick and by the horn."""
    sounds: tuple[Sound, ...] = ()
    """Sounds of the window, such as an engine."""
    scene: str = ""
    """Name of the window's scene; if empty, the window shows strips of all signals."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the scene, as plain data."""
    views: tuple[View, ...] = ()
    """The plots of reports and viewers; if empty, they show all signals in a default order."""

    def window(self) -> dict[str, Any]:
        """Return the scene and its options as plain data; empty if no scene is declared."""
        if not self.scene:
            return {}
        bodies = [body.to_plain() for body in self.bodies]
        return {"scene": self.scene, **self.options, **({"bodies": bodies} if bodies else {})}

    def recorded(self) -> dict[str, Any]:
        """Return what a recording's header keeps: the scene as ``shown``, or else the bodies."""
        if self.scene:
            return {"shown": self.window()}
        return {"bodies": [body.to_plain() for body in self.bodies]} if self.bodies else {}

    def with_items(self, items: Sequence[Displayed]) -> Presentation:
        """Return a copy with ``items``; raises :class:`ScenarioError` for a wrong item."""
        out = self
        for item in items:
            if not hasattr(item, "added_to"):
                raise ScenarioError(
                    f"show({item!r}): expected a Body, a Cue or a Sound; to name a scene of the "
                    "window, write show(scene='NAME')"
                )
            out = item.added_to(out)
        return out

    def with_view(self, view: View) -> Presentation:
        """Return a copy with ``view``; raises :class:`ScenarioError` if its title is taken."""
        if any(view.title == one.title for one in self.views):
            raise ScenarioError(
                f"plot {view.title!r} is declared twice; give one of the two another title"
            )
        return replace(self, views=(*self.views, view))

    def with_scene(self, name: str, options: Mapping[str, Any]) -> Presentation:
        """Return a copy with scene ``name``; raises :class:`ScenarioError` for a second scene."""
        if not name:
            if options:
                raise ScenarioError(
                    f"show({', '.join(options)}=...): options need a scene; add scene='NAME'"
                )
            return self
        if self.scene not in ("", name):
            raise ScenarioError(
                f"scenes {self.scene} and {name} are declared, but a window shows only one "
                "scene; remove one of them"
            )
        if taken := sorted(TAKEN & options.keys()):
            raise ScenarioError(
                f"scene {name}: rtsim itself uses an option named {taken[0]}; give your option "
                "another name"
            )
        try:
            plain = json.loads(json.dumps(dict(options)))
        except (TypeError, ValueError) as error:
            raise ScenarioError(
                f"scene {name}: an option must be a number, a text, or a list or dict of them, "
                f"because it goes to another process; {error}"
            ) from error
        return replace(self, scene=name, options={**self.options, **plain})


class Presented:
    """The methods of a scenario that declare bodies, warnings and a scene for viewers."""

    presentation = Presentation()

    def show(self, *items: Displayed, scene: str = "", **options: Any) -> None:
        """Declare what viewers show: in the window, in Foxglove, and when a recording is played.

        ``items`` are bodies, cues and sounds.  ``scene`` names what the window draws: a scene of
        rtsim (``f16``, ``orbit``, ``strips``) or one of an installed package; ``options`` go to the
        scene's class.  The docs show how to write a scene (docs/extending-scenes.md).  A later call
        adds to earlier calls.  The call does not affect the results of a run.  Raises
        :class:`ScenarioError`.

        Example: ``scenario.show(Body("boat", ...), Cue("fast", ...), scene="harbour", depth=4.0)``
        """
        self.presentation = self.presentation.with_items(items).with_scene(scene, options)

    def plot(
        self,
        title: str,
        *signals: str,
        over: str | None = None,
        band: float | None = None,
        unit: str | None = None,
        marks: bool = True,
        published: Sequence[Published] = (),
    ) -> None:
        """Declare a view: a plot for the report, the browser, ``rtsim top`` and the window.

        ``signals`` (``"component.signal"``) are drawn over time, or ``over`` another signal.  Give
        a response first and then its command.  ``band`` is the tolerance around the last signal;
        ``published`` are values of other sources.
        :class:`~rtsim.record.views.View` describes all arguments.  The call does not affect the
        results of a run.  :meth:`build` checks that the signals exist.  Raises
        :class:`ScenarioError`.

        Example: ``out.plot("altitude [ft]", "f16.altitude_ft", "pilot.altitude_command", band=20)``
        """
        view = View(title, signals, over, band, unit, marks, tuple(published))
        self.presentation = self.presentation.with_view(view)

    def warn(self, *cues: Cue) -> None:
        """Declare ``cues``; deprecated, use :meth:`show`."""
        warnings.warn("scenario.warn() is deprecated; use show()", DeprecationWarning, stacklevel=2)
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
    """A rigid body with the signals (``"component.signal"``) of its position and attitude.

    Position:  ``geodetic`` (latitude, longitude, altitude) or ``north_east_down``.  Attitude:
    ``euler`` (roll, pitch, yaw) or ``quaternion`` (scalar first), each from local north-east-down
    to body axes (forward, right, down).  The units are the units of the signals.  ``length`` is in
    m.

    Example:
        Body("plane", geodetic=("f16.latitude", "f16.longitude", "f16.altitude"),
             euler=("f16.roll", "f16.pitch", "f16.yaw"), shape="aircraft", length=15.0)
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
            raise ScenarioError(
                f"body {self.name}: length {self.length} m must be between 0 and 1e6 m"
            )
        self._one_of("position", geodetic=3, north_east_down=3)
        self._one_of("attitude", euler=3, quaternion=4)

    def added_to(self, presentation: Presentation) -> Presentation:
        return replace(presentation, bodies=(*presentation.bodies, self))

    def _one_of(self, what: str, **sizes: int) -> None:
        given = {name: len(getattr(self, name)) for name in sizes if getattr(self, name)}
        wanted = " or ".join(f"{name}= with {size} signals" for name, size in sizes.items())
        if len(given) != 1 or any(sizes[name] != size for name, size in given.items()):
            raise ScenarioError(
                f"body {self.name}: {what} is missing or given twice; give {wanted}"
            )

    def to_plain(self) -> dict[str, Any]:
        """Return the body as plain data, for another process."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> Body:
        given: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
        return cls(**given)


@dataclass(frozen=True)
class Cue:
    """A warning for the pilot: the stick shakes, a horn sounds, and the picture shows a text.

    ``signal``, ``"plant.signal"``, is a scalar.  The stick begins to shake when the signal rises
    above ``shaker[0]`` and shakes fully above ``shaker[1]``; the horn sounds above ``horn``.  With
    ``below`` the signal must fall below these limits.  A warning ends when the signal is inside its
    limit by ``band``.  Limits are in the unit of the signal.

    Example:
        Cue("stall", "f16.alpha", shaker=(0.35, 0.5), horn=0.45, text="STALL", band=0.02)
    """

    name: str
    signal: str
    shaker: tuple[float, float] | None = None
    horn: float | None = None
    text: str = ""
    """The text in the window; if empty, the name in capitals."""
    below: bool = False
    band: float = 0.0

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise ScenarioError(f"cue {self.name!r} is not an identifier; use letters, digits, _")
        component, dot, signal = self.signal.partition(".")
        if not (component and dot and signal):
            raise ScenarioError(
                f"cue {self.name}: signal {self.signal!r} is not of the form 'plant.signal'"
            )
        given = [*(self.shaker or ()), *(() if self.horn is None else (self.horn,))]
        if not given or len(self.shaker or (0.0, 0.0)) != 2:
            raise ScenarioError(
                f"cue {self.name} has neither a shaker nor a horn; give shaker=(begins, "
                "fully), horn=, or both"
            )
        if not all(map(math.isfinite, (*given, self.band))) or self.band < 0.0:
            raise ScenarioError(
                f"cue {self.name}: limits must be finite numbers, and band must be 0 or more"
            )
        if self.shaker is not None:
            begins, fully = self.shaker
            if (begins < fully) if self.below else (fully < begins):
                raise ScenarioError(
                    f"cue {self.name}: the shaker begins at {begins:g} and is full at "
                    f"{fully:g}, which is the wrong order for below={self.below}; swap the two "
                    f"limits, or give below={not self.below}"
                )

    def added_to(self, presentation: Presentation) -> Presentation:
        return replace(presentation, cues=(*presentation.cues, self))

    def to_plain(self) -> dict[str, Any]:
        """Return the cue as plain data, for another process."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> Cue:
        """Return the cue from the output of :meth:`to_plain`; raises :class:`ScenarioError`."""
        known = {field.name for field in fields(cls)}
        given: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in data.items() if k in known
        }
        try:
            return cls(**given)
        except (TypeError, AttributeError, ValueError) as error:
            raise ScenarioError(f"{dict(data)!r} is not a valid cue: {error}") from error
