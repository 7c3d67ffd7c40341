"""Protocols of controllers: what one may have beside the contract of ``Controller``.

Each protocol here is optional, and stands for one thing that a controller can do.  A controller has
a protocol when it has all of its members; it need not derive from the class.  One that has some
members of a protocol and lacks another is refused when a scenario is built
(:func:`check_controller`).
What holds for a controller without a protocol is in the protocol's description.

================  =====================================  ==========================================
protocol          members                                without it
================  =====================================  ==========================================
Fresh             fresh()                                the one object serves every run
Prepared          ready(compile)                         as Fresh
OwnTime           own_time, advance(), anchor()          late by the clock of the run
Patient           silence                                10 s of wall time count as silence
Explaining        silent(), explained()                  errors name the request and its inputs
Savable           save(), restore()                      no run goes on from a checkpoint of it
Replayed          asked_for()                            nothing to tell it after a restore
Stamped           stamps()                               no track ``measured/NAME``
Described         describe()                             the header names its class
Parametrised      parameters                             it has no parameters
Assignable        parameters, values                     it keeps the parameters that it has
Tunable           parameters, values, tunable()          its parameters cannot be set or changed
Sourced           functions()                            its class, where it runs in this process
Interfaced        interface                              errors name no file and line
FreeRunning       free_running                           it stands still when the run does
Paced             paced                                  a restore does not touch its clock
================  =====================================  ==========================================
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from rtsim.components.controller import Controller
from rtsim.core.errors import ControllerError, ScenarioError
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import Tag
from rtsim.equations.compiling import Compilation

SILENCE_S = 10.0
"""Wall seconds after which a controller in lockstep counts as silent."""


@runtime_checkable
class Fresh(Protocol):
    """One that is started anew for each run: two runs share nothing."""

    def fresh(self) -> Controller:
        """One like it, at its start."""
        ...


@runtime_checkable
class Prepared(Protocol):
    """One whose functions can be compiled for a run."""

    def ready(self, compile: Compilation) -> Controller:
        """A fresh one, compiled as the run is."""
        ...


@runtime_checkable
class OwnTime(Protocol):
    """One with a clock of its own, such as an emulated board: its lateness is judged by that.

    ``receive`` is given the time that is allowed since the request's tag, in s of its own time.
    """

    @property
    def own_time(self) -> bool:
        """False where it is late by the clock of the run after all."""
        ...

    def advance(self, tag: Tag) -> None:
        """Let its time pass up to ``tag``.  ``receive`` reports what goes wrong meanwhile."""
        ...

    def anchor(self, tag: Tag) -> None:
        """Its time is ``tag`` now: the simulation stood still while it was waited for."""
        ...


@runtime_checkable
class Patient(Protocol):
    """One that says how long it may stay silent in lockstep."""

    @property
    def silence(self) -> float:
        """Wall seconds, or seconds of its own time where it has that."""
        ...


@runtime_checkable
class Explaining(Protocol):
    """One that knows more about a failure than the simulation does."""

    def silent(self, tag: Tag) -> ControllerError:
        """Why the request of ``tag`` was not answered."""
        ...

    def explained(self, tag: Tag, error: ControllerError) -> ControllerError:
        """``error`` of the request of ``tag``, with how to reproduce it."""
        ...


@runtime_checkable
class Savable(Protocol):
    """One whose memory is saved with the run, in a checkpoint, and restored."""

    def save(self) -> dict[str, Any]:
        """Its memory as plain data: numbers, text, lists and dicts."""
        ...

    def restore(self, saved: dict[str, Any]) -> None:
        """Go on from what :meth:`save` returned, be it of another object like it."""
        ...


@runtime_checkable
class Replayed(Protocol):
    """One that says again what was recorded, and has to know where it goes on."""

    def asked_for(self, times: int) -> None:
        """The request under way was asked for so often in vain before the run went on here."""
        ...


@runtime_checkable
class Stamped(Protocol):
    """One that measures its answers; they are recorded on the track ``measured/NAME``."""

    def stamps(self) -> tuple[int, ...]:
        """Of the latest answer: sent, begun, ended, received, in ns of one monotonic clock."""
        ...


@runtime_checkable
class Described(Protocol):
    """One that says in the recording's header what it is."""

    def describe(self) -> dict[str, Any]:
        """It as plain data, ``type`` included."""
        ...


@runtime_checkable
class Parametrised(Protocol):
    """One that declares parameters; the recording holds their values."""

    @property
    def parameters(self) -> Signals: ...


@runtime_checkable
class Assignable(Parametrised, Protocol):
    """One whose parameters have values: one that takes another's place is given those of both."""

    values: dict[str, object]
    """By name those that differ from their declaration."""


@runtime_checkable
class Tunable(Assignable, Protocol):
    """One whose parameters are set by ``Scenario.set`` and change during a run."""

    def tunable(self) -> Vector:
        """(k,): the parameters in use, laid out as ``parameters``; changes are written into it."""
        ...


@runtime_checkable
class Sourced(Protocol):
    """One that names the functions that it computes with: a change of their source is noticed."""

    def functions(self) -> Sequence[Any]:
        """Functions or classes; none where nothing is computed here."""
        ...


class Places(Protocol):
    """An interface file, or whatever else a controller's signals are declared in."""

    def place(self, table: str, key: str) -> str:
        """Where ``key`` of ``table`` ("inputs", "outputs") is declared: file and line."""
        ...


@runtime_checkable
class Interfaced(Protocol):
    """One whose signals are declared in a file: errors name the line."""

    @property
    def interface(self) -> Places: ...


@runtime_checkable
class FreeRunning(Protocol):
    """One that may go on when the simulation stands, as a rig without a hold does."""

    @property
    def free_running(self) -> bool:
        """True where it does: then no pause, no other rate and no checkpoint is accepted."""
        ...


@runtime_checkable
class Paced(Protocol):
    """One that may be a board in real time."""

    @property
    def paced(self) -> bool:
        """True where its clock cannot be set back: then no restore is accepted."""
        ...


OPTIONAL: tuple[tuple[type, tuple[str, ...], tuple[str, ...]], ...] = (
    (OwnTime, ("advance", "anchor"), ("own_time",)),
    (Explaining, ("silent", "explained"), ()),
    (Savable, ("save", "restore"), ()),
    (Tunable, ("tunable",), ("parameters", "values")),
)
"""Protocols with several members: their methods, and their other members."""

_METHODS = ("send", "receive", "close")
_VALUES = ("inputs", "outputs", "outside")
_SINGLE = ("fresh", "ready", "stamps", "describe", "functions", "asked_for")


def check_controller(name: str, controller: object) -> None:
    """Raise :class:`ScenarioError` for what breaks the contract, naming what is missing."""
    kind = f"controller {name} ({type(controller).__name__})"
    if isinstance(controller, type):
        given = controller.__name__
        raise ScenarioError(f"controller {name} is the class {given}; write {given}(...)")
    for member in (*_VALUES, *_METHODS):
        if not hasattr(controller, member):
            raise ScenarioError(
                f"{kind} has no {_called(member, _METHODS)}; a controller has "
                f"{', '.join(_VALUES)}, {_list(_METHODS)}"
            )
    for member in ("inputs", "outputs"):
        if not isinstance(getattr(controller, member), Signals):
            found = type(getattr(controller, member)).__name__
            raise ScenarioError(f"{member} of {kind} is a {found}; give Signals(...)")
    for protocol, methods, others in OPTIONAL:
        _check_whole(kind, controller, protocol.__name__, methods, others)
    every = (*_METHODS, *_SINGLE, *(m for _, methods, _ in OPTIONAL for m in methods))
    for member in every:
        if hasattr(controller, member) and not callable(getattr(controller, member)):
            raise ScenarioError(
                f"{member} of {kind} is a {type(getattr(controller, member)).__name__}; "
                "it has to be a method"
            )


def _check_whole(
    kind: str, controller: object, protocol: str, methods: Sequence[str], others: Sequence[str]
) -> None:
    """All of a protocol's members or none of its methods."""
    found = [method for method in methods if hasattr(controller, method)]
    flagged = [member for member in others if getattr(controller, member, None) is True]
    if not found and not flagged:
        return
    for member in (*methods, *others):
        if not hasattr(controller, member):
            raise ScenarioError(
                f"{kind} has {_called((*found, *flagged)[0], methods)} and no "
                f"{_called(member, methods)}; {protocol} takes {_list((*others, *methods))} "
                "(rtsim.components.protocols)"
            )


def _called(member: str, methods: Sequence[str]) -> str:
    return f"{member}()" if member in methods else member


def _list(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def own_time(controller: Controller) -> OwnTime | None:
    """The controller, where it is late by a clock of its own."""
    return controller if isinstance(controller, OwnTime) and controller.own_time else None


def silence_s(controller: Controller) -> float:
    """Seconds after which it counts as silent in lockstep."""
    return float(controller.silence) if isinstance(controller, Patient) else SILENCE_S


def parameters_of(controller: Controller) -> Signals:
    """Its parameters; none where it does not declare any."""
    return controller.parameters if isinstance(controller, Parametrised) else Signals()


def values_of(controller: Controller) -> dict[str, object]:
    """By name the parameters that are set."""
    return controller.values if isinstance(controller, Assignable) else {}


def functions_of(controller: Controller) -> list[Any]:
    """What it computes with in this process."""
    if isinstance(controller, Sourced):
        return list(controller.functions())
    return [] if controller.outside else [type(controller)]


def free_running(controller: Controller) -> bool:
    """It would go on alone while the simulation stands."""
    return isinstance(controller, FreeRunning) and controller.free_running


def paced(controller: Controller) -> bool:
    """It is a board in real time."""
    return isinstance(controller, Paced) and controller.paced
