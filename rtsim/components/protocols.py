"""Optional protocols of controllers.

Each protocol stands for one ability. A controller has the ability if it has all members of the
protocol; inheritance is not necessary. A controller with only some members of a protocol is an
error. The last column says what happens without the protocol.

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
    """A controller that provides a new copy for each run."""

    def fresh(self) -> ControllerProtocol:
        """Return a copy in its initial state."""
        ...


@runtime_checkable
class Prepared(Protocol):
    """A controller whose functions can be compiled for a run."""

    def ready(self, compile: Compilation) -> ControllerProtocol:
        """Return a new copy, which is compiled according to ``compile``."""
        ...


@runtime_checkable
class OwnTime(Protocol):
    """A controller whose lateness is measured on its own clock, such as an emulated board.

    In ``receive``, ``patience`` is a time (s) after the request on this clock.
    """

    @property
    def own_time(self) -> bool:
        """True if lateness is measured on the controller's own clock."""
        ...

    def advance(self, tag: Tag) -> None:
        """Advance the controller's clock to ``tag``."""
        ...

    def anchor(self, tag: Tag) -> None:
        """Set the controller's clock to ``tag``, after the simulation has waited."""
        ...


@runtime_checkable
class Patient(Protocol):
    """A controller that defines how long to wait for its answer."""

    @property
    def silence(self) -> float:
        """Longest time (s) to wait for an answer."""
        ...


@runtime_checkable
class Explaining(Protocol):
    """A controller that can explain its failures."""

    def silent(self, tag: Tag) -> ControllerError:
        """Return an error that explains a missing answer to the request of ``tag``."""
        ...

    def explained(self, tag: Tag, error: ControllerError) -> ControllerError:
        """Return ``error`` with instructions to repeat the request of ``tag``."""
        ...


@runtime_checkable
class Savable(Protocol):
    """A controller whose memory can be saved and restored."""

    def save(self) -> dict[str, Any]:
        """Return the memory as plain data."""
        ...

    def restore(self, saved: dict[str, Any]) -> None:
        """Restore a memory that ``save`` returned."""
        ...


@runtime_checkable
class Resettable(Protocol):
    """A ``Savable`` controller that can be used again in the next run."""

    @property
    def resettable(self) -> bool:
        """True if a restored controller equals a new copy.

        The vectors of a ``ByAddress`` controller must then contain its complete memory.
        """
        ...


@runtime_checkable
class Replayed(Protocol):
    """A controller that replays recorded answers."""

    def asked_for(self, times: int) -> None:
        """Set how often ``receive`` found no answer to the pending request."""
        ...


@runtime_checkable
class StartedAgain(Protocol):
    """A controller that can be started again after a failure."""

    def start_again(self, tag: Tag) -> None:
        """Start the controller at ``tag`` without its memory."""
        ...


@runtime_checkable
class Keeping(Protocol):
    """A controller that writes files, such as the output of a program."""

    def keep_in(self, folder: Path) -> None:
        """Keep the files of the controller in ``folder`` when it is closed."""
        ...


@runtime_checkable
class Stamped(Protocol):
    """A controller that measures its response times for the track ``measured/NAME``."""

    def stamps(self) -> tuple[int, ...]:
        """Return the times (ns) of the last request: sent, begun, ended, received."""
        ...


@runtime_checkable
class WarmedUp(Protocol):
    """A controller that can execute its code before a run, without an effect on the run."""

    def warm_up(self) -> Callable[[], object] | None:
        """Return a function of at most 40 us, which is called after a sleep, or ``None``."""
        ...


@runtime_checkable
class Described(Protocol):
    """A controller that describes itself in the recording."""

    def describe(self) -> dict[str, Any]:
        """Return a description as plain data with an entry ``type``."""
        ...


@runtime_checkable
class Parametrised(Protocol):
    """A controller with declared parameters, which are recorded."""

    @property
    def parameters(self) -> Signals: ...


@runtime_checkable
class Assignable(Parametrised, Protocol):
    """A controller whose parameter values also apply to the controller that replaces it."""

    values: dict[str, object]
    """Values that differ from the declaration, by name."""


@runtime_checkable
class Tunable(Assignable, Protocol):
    """A controller with parameters that can be set and changed."""

    def tunable(self) -> Vector:
        """Return the vector (k,) of the parameters in use, which rtsim may change."""
        ...


@runtime_checkable
class Sourced(Protocol):
    """A controller that names its functions, so that a replay can check their source."""

    def functions(self) -> Sequence[Any]:
        """Return the functions or classes of the controller.

        The result is empty for functions in another process.
        """
        ...


class Places(Protocol):
    """A file that declares the signals of a controller, such as an interface file."""

    def place(self, table: str, key: str) -> str:
        """Return file and line of ``key`` in ``table`` ("inputs" or "outputs")."""
        ...


@runtime_checkable
class Interfaced(Protocol):
    """A controller whose signals a file declares; errors contain the line."""

    @property
    def interface(self) -> Places: ...


@runtime_checkable
class FreeRunning(Protocol):
    """A controller that may continue during a pause, such as a rig."""

    @property
    def free_running(self) -> bool:
        """True if the controller cannot be paused."""
        ...


@runtime_checkable
class Paced(Protocol):
    """A controller that can run on a board in real time."""

    @property
    def paced(self) -> bool:
        """True if the controller's clock cannot be set back."""
        ...


@runtime_checkable
class NeedsPace(Protocol):
    """A controller that can run in real time only."""

    @property
    def needs_pace(self) -> bool:
        """True if a run without real time is an error."""
        ...


@runtime_checkable
class Prompt(Protocol):
    """A controller outside this process that always has an answer ready."""

    @property
    def prompt(self) -> bool:
        """True if ``receive`` never waits."""
        ...


@runtime_checkable
class Noted(Protocol):
    """A controller that reports why its answers are doubtful."""

    @property
    def notes(self) -> Sequence[str]:
        """Problems so far, one text for each; each is a warning."""
        ...


@runtime_checkable
class ByAddress(Protocol):
    """A controller whose step compiled code can call, in place of ``send``.

    The interpreter may repeat a step that compiled code has called, with the same tag and inputs. A
    controller with other memory than its vectors must then return the first answer again.
    """

    def by_address(self) -> tuple[int, tuple[Vector, ...]] | None:
        """Return the address and the vectors of the step, or ``None``.

        The step has the arguments (t, u, s, p, y): time (s), inputs, memory, parameters, outputs.
        After a step with an output that is not finite, the interpreter repeats the step.
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
    """Raise ``ScenarioError`` for a controller with a missing member or a wrong type."""
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
    """Return the controller if compiled code can call its step, else None.

    One class must define ``by_address``, ``send`` and ``receive``.
    """
    if not isinstance(controller, ByAddress):
        return None
    kinds = type(controller).__mro__
    owners = {
        next((k for k in kinds if m in vars(k)), None) for m in ("by_address", "send", "receive")
    }
    return controller if len(owners) == 1 else None


def own_time(controller: ControllerProtocol) -> OwnTime | None:
    """Return the controller if its lateness is measured on its own clock, else None."""
    return controller if isinstance(controller, OwnTime) and controller.own_time else None


def silence_s(controller: ControllerProtocol) -> float:
    """Return the longest time (s) to wait for an answer of a controller."""
    return float(controller.silence) if isinstance(controller, Patient) else SILENCE_S


def parameters_of(controller: ControllerProtocol) -> Signals:
    return controller.parameters if isinstance(controller, Parametrised) else Signals()


def memory_of(controller: ControllerProtocol) -> Signals:
    """Return the declared memory of a controller, if any."""
    found = getattr(controller, "memory", None)
    return found if isinstance(found, Signals) else Signals()


def values_of(controller: ControllerProtocol) -> dict[str, object]:
    return controller.values if isinstance(controller, Assignable) else {}


def functions_of(controller: ControllerProtocol) -> list[Any]:
    if isinstance(controller, Sourced):
        return list(controller.functions())
    return [] if controller.outside else [type(controller)]


def notes_of(controller: ControllerProtocol) -> list[str]:
    """Return the problems that a controller reports."""
    return list(controller.notes) if isinstance(controller, Noted) else []


def free_running(controller: ControllerProtocol) -> bool:
    """Return whether a controller continues during a pause."""
    return isinstance(controller, FreeRunning) and controller.free_running


def paced(controller: ControllerProtocol) -> bool:
    """Return whether a controller is on a board in real time."""
    return isinstance(controller, Paced) and controller.paced


def needs_pace(controller: ControllerProtocol) -> bool:
    """Return whether a controller can run in real time only."""
    return isinstance(controller, NeedsPace) and controller.needs_pace


def prompt(controller: ControllerProtocol) -> bool:
    """Return whether a controller outside this process always has an answer ready."""
    return isinstance(controller, Prompt) and controller.prompt
