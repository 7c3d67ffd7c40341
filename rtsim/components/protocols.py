"""Optional protocols of controllers, in addition to ``ControllerProtocol``.

Each protocol describes one ability of a controller. Any controller that has all members of the
protocol has the ability; inheritance is not necessary. If a controller has only some members of a
protocol, the scenario cannot be built (:func:`check_controller`). The last column of the table
describes what happens if a controller lacks the protocol.

================  =====================================  ==========================================
protocol          members                                without it
================  =====================================  ==========================================
Fresh             fresh()                                all runs share the one object
Prepared          ready(compile)                         as Fresh
OwnTime           own_time, advance(), anchor()          the clock of the run decides lateness
Patient           silence                                a timeout of 10 s of wall time
Explaining        silent(), explained()                  errors name the request and its inputs
Savable           save(), restore()                      no run can resume from a checkpoint
Resettable        resettable                             prepared runs build all anew
Replayed          asked_for()                            nothing to set after a restore
StartedAgain      start_again()                          failure="restart" is an error
Keeping           keep_in()                              it leaves no files beside the recording
Stamped           stamps()                               no track ``measured/NAME``
WarmedUp          warm_up()                              its code can be slow after a sleep
Described         describe()                             the header names its class
Parametrised      parameters                             it has no parameters
Assignable        parameters, values                     its parameters stay as they are
Tunable           parameters, values, tunable()          its parameters cannot be set or changed
Sourced           functions()                            its class, if it runs in this process
Interfaced        interface                              errors name no file and line
FreeRunning       free_running                           it pauses with the run
Paced             paced                                  a restore does not set its clock
NeedsPace         needs_pace                             it can also run as fast as possible
Noted             notes                                  it causes no warnings of the run
Prompt            prompt                                 in real time it needs a compute latency
ByAddress         by_address(), ran_by_address()         its steps run in the interpreter
================  =====================================  ==========================================
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from rtsim.components.controller import ControllerProtocol
from rtsim.core.errors import ControllerError, ScenarioError
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import Tag
from rtsim.equations.compiling import Compilation

SILENCE_S = 10.0
"""Timeout for a controller in lockstep, s of wall-clock time."""


@runtime_checkable
class Fresh(Protocol):
    """A controller that provides a new copy of itself for each run."""

    def fresh(self) -> ControllerProtocol:
        """Return a copy in its initial state."""
        ...


@runtime_checkable
class Prepared(Protocol):
    """A controller whose functions can be compiled for a run."""

    def ready(self, compile: Compilation) -> ControllerProtocol:
        """Return a new copy, compiled according to ``compile``."""
        ...


@runtime_checkable
class OwnTime(Protocol):
    """A controller whose lateness is measured on its own clock, such as an emulated board.

    In ``receive``, ``patience`` is the allowed time after the request's tag, in s on the
    controller's clock.
    """

    @property
    def own_time(self) -> bool:
        """True if lateness is measured on the controller's own clock instead of the run's clock."""
        ...

    def advance(self, tag: Tag) -> None:
        """Advance the controller's clock to ``tag``; the next ``receive`` reports errors."""
        ...

    def anchor(self, tag: Tag) -> None:
        """Set the controller's clock to ``tag`` after the simulation has waited for an answer."""
        ...


@runtime_checkable
class Patient(Protocol):
    """A controller that defines its own timeout for lockstep."""

    @property
    def silence(self) -> float:
        """Timeout in s of wall-clock time, or of the controller's own clock if there is one."""
        ...


@runtime_checkable
class Explaining(Protocol):
    """A controller that can explain its failures."""

    def silent(self, tag: Tag) -> ControllerError:
        """Return an error that explains why the request of ``tag`` has no answer."""
        ...

    def explained(self, tag: Tag, error: ControllerError) -> ControllerError:
        """Return ``error`` with instructions to reproduce the request of ``tag``."""
        ...


@runtime_checkable
class Savable(Protocol):
    """A controller whose memory can be saved in a checkpoint and restored."""

    def save(self) -> dict[str, Any]:
        """Return the memory as plain data: numbers, text, lists and dicts."""
        ...

    def restore(self, saved: dict[str, Any]) -> None:
        """Restore the memory that :meth:`save` returned for this object or another of its class."""
        ...


@runtime_checkable
class Resettable(Protocol):
    """A :class:`Savable` controller that can be reset for a prepared run, without a new start."""

    @property
    def resettable(self) -> bool:
        """True if a controller that is restored to its state before the run equals a new copy.

        If the controller is also a :class:`ByAddress` controller, the vectors of ``by_address()``
        must contain all its memory.
        """
        ...


@runtime_checkable
class Replayed(Protocol):
    """A controller that replays recorded answers; its position must be set after a restore."""

    def asked_for(self, times: int) -> None:
        """Set the number of ``receive`` calls that found no answer to the pending request."""
        ...


@runtime_checkable
class StartedAgain(Protocol):
    """A controller that can be started again during a run, after it has failed."""

    def start_again(self, tag: Tag) -> None:
        """Start the controller at ``tag``, without its memory."""
        ...


@runtime_checkable
class Keeping(Protocol):
    """A controller that leaves files, such as the output of a program."""

    def keep_in(self, folder: Path) -> None:
        """Keep the files in ``folder`` when the controller is closed."""
        ...


@runtime_checkable
class Stamped(Protocol):
    """A controller that measures its response times for the track ``measured/NAME``."""

    def stamps(self) -> tuple[int, ...]:
        """Return the times of the last request (ns of one clock): sent, begun, ended, received."""
        ...


@runtime_checkable
class WarmedUp(Protocol):
    """A controller that can run its code before a paced run, without an effect on the run."""

    def warm_up(self) -> Callable[[], object] | None:
        """Return a function of at most 40 us that the pacer calls after a sleep, or ``None``."""
        ...


@runtime_checkable
class Described(Protocol):
    """A controller that describes itself in the header of the recording."""

    def describe(self) -> dict[str, Any]:
        """Return the description as plain data with an entry ``type``."""
        ...


@runtime_checkable
class Parametrised(Protocol):
    """A controller with declared parameters, whose values are recorded."""

    @property
    def parameters(self) -> Signals: ...


@runtime_checkable
class Assignable(Parametrised, Protocol):
    """A controller with parameter values; its replacement takes over common parameters."""

    values: dict[str, object]
    """Values that differ from the declaration, by name."""


@runtime_checkable
class Tunable(Assignable, Protocol):
    """A controller whose parameters ``Scenario.set`` can set and a run can change."""

    def tunable(self) -> Vector:
        """Return the vector of parameters in use (k,), in declared order; rtsim writes to it."""
        ...


@runtime_checkable
class Sourced(Protocol):
    """A controller that returns its functions, so that a replay can check their source code."""

    def functions(self) -> Sequence[Any]:
        """Return the functions or classes of the component.

        The result is empty if the functions run in another process.
        """
        ...


class Places(Protocol):
    """A source that declares a controller's signals, such as an interface file."""

    def place(self, table: str, key: str) -> str:
        """Return file and line of ``key`` in ``table`` ("inputs" or "outputs")."""
        ...


@runtime_checkable
class Interfaced(Protocol):
    """A controller whose signals are declared in a file; errors contain the line."""

    @property
    def interface(self) -> Places: ...


@runtime_checkable
class FreeRunning(Protocol):
    """A controller that can continue during a pause, such as a rig that cannot be paused."""

    @property
    def free_running(self) -> bool:
        """True if the controller cannot be paused; rtsim then rejects pauses and checkpoints."""
        ...


@runtime_checkable
class Paced(Protocol):
    """A controller that can run on a board in real time."""

    @property
    def paced(self) -> bool:
        """True if the controller's clock cannot be set back; a restore is then an error."""
        ...


@runtime_checkable
class NeedsPace(Protocol):
    """A controller that can run on the wall clock only."""

    @property
    def needs_pace(self) -> bool:
        """True if a run without a pace is an error."""
        ...


@runtime_checkable
class Prompt(Protocol):
    """A controller outside this process that always has an answer ready."""

    @property
    def prompt(self) -> bool:
        """True if ``receive`` never waits, which allows a compute latency of 0 s in real time."""
        ...


@runtime_checkable
class Noted(Protocol):
    """A controller that reports why its answers are doubtful, such as a program on a real clock."""

    @property
    def notes(self) -> Sequence[str]:
        """One text for each problem so far; each is a warning of the run."""
        ...


@runtime_checkable
class ByAddress(Protocol):
    """A controller whose step compiled code can call directly, instead of ``send``.

    Compiled code may call a step that the interpreter then repeats by ``send`` with the same tag
    and inputs. If a controller has memory outside its vectors, ``send`` must reuse the answer of
    the first call, and must not compute the step again.
    """

    def by_address(self) -> tuple[int, tuple[Vector, ...]] | None:
        """Return the step's address and vectors, or ``None`` if compiled code cannot call the step.

        The step has the arguments (t, u, s, p, y): time in s, inputs, memory, parameters, outputs.
        If an output is not finite after the step, compiled code restores the vectors u, s and y,
        and the interpreter repeats the step.
        """
        ...

    def ran_by_address(self, steps: int, request: Tag | None) -> None:
        """Record ``steps`` steps of compiled code; ``request`` is the pending request."""
        ...


OPTIONAL: tuple[tuple[type, tuple[str, ...], tuple[str, ...]], ...] = (
    (OwnTime, ("advance", "anchor"), ("own_time",)),
    (Explaining, ("silent", "explained"), ()),
    (Savable, ("save", "restore"), ()),
    (Tunable, ("tunable",), ("parameters", "values")),
    (ByAddress, ("by_address", "ran_by_address"), ()),
)
"""Methods and other members of each protocol that has several members."""

_METHODS = ("send", "receive", "close")
_VALUES = ("inputs", "outputs", "outside")
_SINGLE = (
    "fresh",
    "ready",
    "stamps",
    "warm_up",
    "describe",
    "functions",
    "asked_for",
    "start_again",
    "keep_in",
)


def check_controller(name: str, controller: object) -> None:
    """Raise :class:`ScenarioError` if a member of ``controller`` is missing or has a wrong type."""
    kind = f"controller {name} ({type(controller).__name__})"
    if isinstance(controller, type):
        given = controller.__name__
        raise ScenarioError(f"controller {name} is the class {given}; give an object: {given}(...)")
    for member in (*_VALUES, *_METHODS):
        if not hasattr(controller, member):
            raise ScenarioError(
                f"{kind} has no {_called(member, _METHODS)}; a controller needs "
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
                "it must be a method"
            )


def _check_whole(
    kind: str, controller: object, protocol: str, methods: Sequence[str], others: Sequence[str]
) -> None:
    """Raise :class:`ScenarioError` if the controller has only some members of a protocol."""
    found = [method for method in methods if hasattr(controller, method)]
    flagged = [member for member in others if getattr(controller, member, None) is True]
    if not found and not flagged:
        return
    for member in (*methods, *others):
        if not hasattr(controller, member):
            raise ScenarioError(
                f"{kind} has {_called((*found, *flagged)[0], methods)} but no "
                f"{_called(member, methods)}; {protocol} needs {_list((*others, *methods))} "
                "(rtsim.components.protocols)"
            )


def _called(member: str, methods: Sequence[str]) -> str:
    return f"{member}()" if member in methods else member


def _list(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def by_address(controller: ControllerProtocol) -> ByAddress | None:
    """Return the controller if compiled code can call its step, otherwise None.

    The same class must define ``by_address``, ``send`` and ``receive``.
    """
    if not isinstance(controller, ByAddress):
        return None
    kinds = type(controller).__mro__
    owners = {
        next((k for k in kinds if m in vars(k)), None) for m in ("by_address", "send", "receive")
    }
    return controller if len(owners) == 1 else None


def own_time(controller: ControllerProtocol) -> OwnTime | None:
    """Return the controller if its lateness is measured on its own clock, otherwise None."""
    return controller if isinstance(controller, OwnTime) and controller.own_time else None


def silence_s(controller: ControllerProtocol) -> float:
    """Return the timeout of ``controller`` in lockstep, s."""
    return float(controller.silence) if isinstance(controller, Patient) else SILENCE_S


def parameters_of(controller: ControllerProtocol) -> Signals:
    return controller.parameters if isinstance(controller, Parametrised) else Signals()


def memory_of(controller: ControllerProtocol) -> Signals:
    """Return the declared memory of ``controller``; empty if none is declared."""
    found = getattr(controller, "memory", None)
    return found if isinstance(found, Signals) else Signals()


def values_of(controller: ControllerProtocol) -> dict[str, object]:
    return controller.values if isinstance(controller, Assignable) else {}


def functions_of(controller: ControllerProtocol) -> list[Any]:
    if isinstance(controller, Sourced):
        return list(controller.functions())
    return [] if controller.outside else [type(controller)]


def notes_of(controller: ControllerProtocol) -> list[str]:
    """Return the problems that ``controller`` reports about itself."""
    return list(controller.notes) if isinstance(controller, Noted) else []


def free_running(controller: ControllerProtocol) -> bool:
    """Return whether ``controller`` continues while the simulation is paused."""
    return isinstance(controller, FreeRunning) and controller.free_running


def paced(controller: ControllerProtocol) -> bool:
    """Return whether ``controller`` is a board in real time."""
    return isinstance(controller, Paced) and controller.paced


def needs_pace(controller: ControllerProtocol) -> bool:
    """Return whether ``controller`` can run on the wall clock only."""
    return isinstance(controller, NeedsPace) and controller.needs_pace


def prompt(controller: ControllerProtocol) -> bool:
    """Return whether ``controller`` runs outside this process and always has an answer ready."""
    return isinstance(controller, Prompt) and controller.prompt
