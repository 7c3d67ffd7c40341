"""Declarations for the viewers of a run: plots, bodies, warnings and sounds.

These declarations do not affect the results of a run.
"""

from __future__ import annotations

import json
import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Protocol, Self

from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.signals import Signals
from rtsim.record.views import Published, View, check_views
from rtsim.scenario.body import Body, Ground
from rtsim.scenario.handles import SignalName

if TYPE_CHECKING:
    from rtsim.record.reports.drawing import Drawing


class _Sent:
    def to_plain(self) -> dict[str, Any]:
        plain = asdict(self)  # type: ignore[call-overload]
        return {k: list(v) if isinstance(v, tuple) else v for k, v in plain.items()}

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> Self:
        known = {field.name for field in fields(cls)}  # type: ignore[arg-type]
        try:
            given = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
            return cls(**{k: v for k, v in given.items() if k in known})
        except (TypeError, AttributeError, ValueError) as error:
            kind = cls.__name__.lower()
            raise ScenarioError(f"{data!r} is not a valid {kind}: {error}") from error


LEFT, RIGHT = "left", "right"


@dataclass(frozen=True)
class Hud(_Sent):
    """A number in the head-up display.

    Args:
        signal: A scalar signal, ``"component.signal"``.
        text: Label before the number; the default is the name of the signal.
        unit: Displayed unit; the default is the unit of the signal.
        factor: Factor from the signal to the displayed number; needs ``unit``.
        digits: Number of decimals, 0 to 6.
        side: ``"left"`` or ``"right"``. The first number on each side has a frame.

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
        return replace(presentation, hud=(*presentation.hud, self))

    def check(self, units: Mapping[str, str]) -> None:
        if self.signal not in units:
            raise UnknownName("signal", self.signal, units, "hud")

    def with_unit(self, units: Mapping[str, str]) -> Hud:
        """Return a copy with the unit of the signal, if no other unit was given."""
        unit = self.unit or units.get(self.signal, "")
        return self if unit == "1" else replace(self, unit=unit)


Points = tuple[tuple[float, float], ...]
LOWEST_HZ, HIGHEST_HZ = 20.0, 8000.0
_MOST_POINTS, _MOST_HARMONICS = 64, 16


@dataclass(frozen=True)
class Sound(_Sent):
    """A sound during a run, such as an engine or the wind.

    Args:
        name: Name of the sound, an identifier.
        signal: A scalar signal, ``"plant.signal"``, that controls pitch and level.
        pitch: Pitch, 20 to 8000 Hz: a number or points ``((signal, pitch), ...)``. Values between
            the given points are interpolated linearly.
        level: Level, 0 to 1: a number or points, as for ``pitch``.
        harmonics: Amplitudes of the tone and its multiples.
        width: Bandwidth around the pitch, Hz. With ``width`` above 0, the sound is noise instead of
            a tone.

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
                f"{where}: harmonics is {heard}; give 1 to {_MOST_HARMONICS} amplitudes >= 0, at "
                "least one of them > 0"
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
        return replace(presentation, sounds=(*presentation.sounds, self))

    def check(self, plants: Mapping[str, Signals]) -> None:
        check_scalar(self.signal, plants, f"sound {self.name}")


def check_scalar(name: str, plants: Mapping[str, Signals], where: str) -> None:
    """Raise an error for an unknown signal or an array.

    The error message begins with ``where``.
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


BODIES = "bodies"
"""Name of the scene of a scenario that declares bodies but no scene."""
TAKEN = frozenset(
    ("bodies", "cues", "ground", "hud", "pid", "scenario", "scene", "sounds", "views")
)
"""Options that rtsim sends to each window. A scene cannot have options of these names."""


class Displayed(Protocol):
    """An object that ``Presented.show`` accepts, such as a ``Body``.

    rtsim's own classes are :class:`Body`, :class:`Cue`, :class:`Hud`, :class:`Ground` and
    :class:`Sound`.
    """

    def added_to(self, presentation: Presentation) -> Presentation:
        """Return a copy of ``presentation`` with this object."""
        ...


@dataclass(frozen=True)
class Presentation:
    """All declarations of a scenario for viewers."""

    bodies: tuple[Body, ...] = ()
    """Bodies that the window, the browser and Foxglove draw."""
    cues: tuple[Cue, ...] = ()
    """Warnings: a text in the window, the stick shaker, or the horn."""
    sounds: tuple[Sound, ...] = ()
    """Sounds of the window, such as an engine."""
    scene: str = ""
    """Scene of the window. If empty, the window draws the bodies or, without bodies, strip charts.
    """
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the scene, as plain data."""
    hud: tuple[Hud, ...] = ()
    """Numbers in the head-up display of the window."""
    ground: Ground | None = None
    """Ground below the bodies; if ``None``, the ground is flat."""
    views: tuple[View, ...] = ()
    """Plots of reports and viewers. If empty, viewers plot all signals in a default order."""

    def window(self) -> dict[str, Any]:
        """Return the scene and its content as plain data."""
        scene = self.scene or (BODIES if self.bodies else "")
        if not scene:
            return {}
        out: dict[str, Any] = {"scene": scene, **self.options}
        if self.bodies:
            out["bodies"] = [body.to_plain() for body in self.bodies]
        if self.hud:
            out["hud"] = [number.to_plain() for number in self.hud]
        if self.ground is not None:
            out["ground"] = self.ground.to_plain()
        return out

    def recorded(self) -> dict[str, Any]:
        """Return the declarations for the header of a recording."""
        shown = self.window()
        return {"shown": shown} if shown else {}

    def check(
        self,
        signals: Mapping[str, Signals],
        adjustable: Mapping[str, str],
        plants: Sequence[str],
    ) -> None:
        """Raise :class:`ScenarioError` if a signal of a declaration is unknown or has a wrong unit.

        Warnings, sounds and the head-up display need signals of plants, because the window receives
        no other signals. Bodies can also use parameters.

        Args:
            signals: Signals of each component.
            adjustable: Units of the parameters that can change during a run.
            plants: Names of the plants.
        """
        check_views(self.views, signals)
        windowed = {name: signals[name] for name in plants}
        for body in self.bodies:
            body.check({**adjustable, **_units(signals)})
        for number in self.hud:
            number.check(_units(windowed))
        for cue in self.cues:
            cue.check(windowed)
        for sound in self.sounds:
            sound.check(windowed)

    def with_items(self, items: Sequence[Displayed]) -> Presentation:
        """Return a copy with ``items``; raise ``ScenarioError`` for an unsuitable item."""
        out = self
        for item in items:
            if not hasattr(item, "added_to"):
                raise ScenarioError(
                    f"show({item!r}): expected a Body, a Cue, a Hud, a Ground or a Sound; to name "
                    "a scene of the window, write show(scene='NAME')"
                )
            out = item.added_to(out)
        return out

    def with_view(self, view: View) -> Presentation:
        """Return a copy with ``view``; raise ``ScenarioError`` for an existing title."""
        if any(view.title == one.title for one in self.views):
            raise ScenarioError(
                f"plot {view.title!r} is declared twice; give one of the two another title"
            )
        return replace(self, views=(*self.views, view))

    def with_scene(self, name: str, options: Mapping[str, Any]) -> Presentation:
        """Return a copy that shows the scene ``name``.

        Raises ``ScenarioError`` for a second scene, and for an invalid option.
        """
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


def _units(signals: Mapping[str, Signals]) -> dict[str, str]:
    return {
        f"{name}.{column}": signal.unit
        for name, some in signals.items()
        for signal in some
        for column in signal.columns
    }


class Presented:
    """Methods of a scenario for viewers."""

    presentation = Presentation()

    @abstractmethod
    def readable(self) -> Mapping[str, Signals]: ...

    @abstractmethod
    def adjustable(self) -> Mapping[str, str]:
        """Return the unit of each parameter that can change during a run."""

    @abstractmethod
    def plant_names(self) -> Sequence[str]: ...

    def check_presentation(self) -> None:
        """Raise ``ScenarioError`` if a viewer would need an unsuitable signal."""
        if self.presentation != Presentation():
            self.presentation.check(self.readable(), self.adjustable(), self.plant_names())

    def show(self, *items: Displayed, scene: str = "", **options: Any) -> None:
        """Declare what viewers show, such as the window and Foxglove.

        Several calls add up. The declarations do not affect the results of a run. :meth:`build`
        checks that the signals exist. Raises :class:`ScenarioError` for a wrong declaration.

        Args:
            items: Bodies, warnings, sounds, head-up numbers and a ground.
            scene: Scene of the window: ``bodies``, ``f16``, ``orbit``, ``strips`` or a scene of
                another package (docs/extending-scenes.md). By default, the scene draws the bodies.
            options: Options of the scene.

        Example: ``scenario.show(Body("boat", ...), Cue("fast", ...), scene="harbour", depth=4.0)``
        """
        self.presentation = self.presentation.with_items(items).with_scene(scene, options)

    def plot(
        self,
        title: str,
        *signals: SignalName,
        over: SignalName | None = None,
        band: float | None = None,
        unit: str | None = None,
        marks: bool = True,
        published: Sequence[Published] = (),
    ) -> None:
        """Declare a plot for reports, web page, ``rtsim top`` and window.

        The plot does not affect the results of a run. :meth:`build` checks that the signals exist.
        Raises :class:`ScenarioError` for a wrong declaration. :class:`~rtsim.record.views.View`
        describes all arguments.

        Args:
            title: Title of the plot.
            signals: Signals to draw, ``"component.signal"``. Give a response before its command.
            over: Signal of the horizontal axis, by default the time.
            band: Tolerance around the last signal.
            unit: See ``rtsim.record.views.View``.
            marks: See ``rtsim.record.views.View``.
            published: Values from other sources, for comparison.

        Example: ``out.plot("altitude [ft]", "f16.altitude_ft", "pilot.altitude_command", band=20)``
        """
        names = tuple(map(str, signals))
        across = None if over is None else str(over)
        view = View(title, names, across, band, unit, marks, tuple(published))
        self.presentation = self.presentation.with_view(view)

    @property
    def bodies(self) -> tuple[Body, ...]:
        return self.presentation.bodies

    @property
    def cues(self) -> tuple[Cue, ...]:
        return self.presentation.cues


@dataclass(frozen=True)
class Cue(_Sent):
    """A warning to the pilot by stick shaker, horn and text.

    Args:
        name: Name of the warning, an identifier.
        signal: A scalar signal, ``"plant.signal"``. All limits are in the unit of the signal.
        shaker: Two limits: the stick begins to shake at the first, and shakes fully at the second.
        horn: Limit at which the horn sounds.
        text: Text in the window.
        below: If True, the warning begins when the signal falls below a limit, not above.
        band: Hysteresis: the warning ends when the signal is inside its limit by this amount.

    Example:
        Cue("stall", "f16.alpha", shaker=(0.35, 0.5), horn=0.45, text="STALL", band=0.02)
    """

    name: str
    signal: str
    shaker: tuple[float, float] | None = None
    horn: float | None = None
    text: str = ""
    """The text in the window; the default is the name in capitals."""
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
                f"cue {self.name} has shaker={self.shaker} and horn={self.horn}; give two limits, "
                "shaker=(BEGIN, FULL), or one limit, horn=LIMIT, or both"
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

    def check(self, plants: Mapping[str, Signals]) -> None:
        check_scalar(self.signal, plants, f"cue {self.name}")


class Drawn:
    """Methods that draw a scenario."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return the scenario as plain data."""

    def draw(self) -> Drawing:
        """Return a drawing of the components, their connections and their latencies.

        A notebook displays the drawing. ``draw().svg`` is the picture as SVG text, and
        ``draw().save("x.svg")`` writes the picture to a file. Incomplete scenarios can also be
        drawn.
        """
        from rtsim.record.reports.drawing import drawn  # only drawing needs this import

        return drawn(self.describe())

    def _repr_html_(self) -> str:
        from rtsim.record.reports.drawing import component_table

        return self.draw().html() + component_table(self.describe())
