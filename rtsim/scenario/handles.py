"""Objects that stand for components and their signals in the user's code."""

from __future__ import annotations

import linecache
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from numbers import Number
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from rtsim.components.ports import check_units
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.signals import Signal
from rtsim.core.signals import SignalName as SignalName

if TYPE_CHECKING:
    from rtsim.named.fields import NamedSignals

RESULT_ATTRIBUTES = frozenset(
    (
        "assert_ok", "at", "began", "between", "certificate", "changed_before", "changes",
        "checked", "checkpoints", "component_values", "continues", "digest", "earlier", "end_ns",
        "ended", "ending", "ends", "error", "events", "export", "facts", "final", "footer",
        "from_start", "header", "in_words", "large", "late", "looked", "lost", "lost_messages",
        "messages", "missed", "names", "notes_of_controllers", "ok", "open", "outcome", "overruns",
        "path", "plot", "rate", "reason", "recorder", "recording", "reported", "required",
        "requirements", "restored", "segments", "since", "source", "span_ns", "speed", "system",
        "table", "time", "time_ns", "to_arrow", "to_pandas", "to_polars", "to_xarray", "trace_rows",
        "track", "tracks", "truncated", "up_to", "viewed", "waiting", "wall_ns", "warnings",
    )
)  # fmt: skip
"""Attributes of results. ``run.NAME`` is the attribute, not a component of the same name."""


class SignalReference(str):
    """The name ``component.signal`` of a signal. Arithmetic with the name raises an error."""

    __slots__ = ()

    def _refuse(self, *_: object) -> NoReturn:
        raise TypeError(
            f"{self} is the name of a signal, not a number; after a run, result[{self}] has its "
            "values"
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = _refuse
    __rtruediv__ = __neg__ = __abs__ = __pow__ = __float__ = __int__ = __bool__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __round__ = __mod__ = __rmod__ = _refuse
    __floordiv__ = __rfloordiv__ = __divmod__ = __rdivmod__ = __rpow__ = __pos__ = _refuse
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Number):
            self._refuse()
        return str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __format__(self, spec: str) -> str:
        if spec[-1:] in ("f", "F", "g", "G", "e", "E", "d", "%"):
            self._refuse()
        return str.__format__(self, spec)


class Handle:
    """A component of a scenario.

    ``aliases`` contains the fields whose signals have other names.
    """

    _name: str
    _names: Callable[[], Sequence[str]]
    _aliases: Mapping[str, str]

    def __init__(
        self, name: str, names: Callable[[], Sequence[str]], aliases: Mapping[str, str]
    ) -> None:
        self.__dict__.update(_name=name, _names=names, _aliases=aliases)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        known = [*self._aliases, *self._names()]
        if name not in known:
            raise AttributeError(str(UnknownName("signal", name, known, self._name)))
        return SignalReference(f"{self._name}.{self._aliases.get(name, name)}")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(
            f"{self._name}.{name} cannot be assigned here; use scenario.set(...) before a run, or "
            "scenario.connect(source, target)"
        )

    def __getitem__(self, name: object) -> NoReturn:
        raise TypeError(
            f"{self._name}[{name!r}] is not the name of a signal; write {self._name}.{name} or the "
            f'text "{self._name}.{name}", and in a loop over names f"{self._name}.{{name}}"'
        )

    def __dir__(self) -> list[str]:
        return sorted({*self._aliases, *self._names()})

    def __str__(self) -> str:
        return self._name

    @property
    def __name__(self) -> str:
        return self._name

    def __repr__(self) -> str:
        return f"<component {self._name}: {', '.join(self._names())}>"


Topics: TypeAlias = "Sequence[Topic] | Topic"
"""The topics and guards (``"plant.guard"``) that a component waits for."""
Topic: TypeAlias = "str | Handle | NamedSignals"


def names_of(topics: Topics) -> tuple[str, ...]:
    if isinstance(topics, (str, Handle)):
        return (str(topics),)
    return tuple(map(str, topics))  # type: ignore[arg-type]


def check_signal(given: object, what: str) -> None:
    """Raise ``ScenarioError`` for a component in place of a signal."""
    if isinstance(given, Handle):
        raise ScenarioError(
            f"{what} is the component {given}; give one of its signals, such as "
            f"{given}.{next(iter(dir(given)), 'NAME')}"
        )


def sources_of(inputs: Mapping[str, SignalName] | None) -> dict[str, Any]:
    """Return a copy of ``inputs``; raise ``ScenarioError`` for a component in place of a signal."""
    found = dict(inputs or {})
    try:
        for name, source in found.items():
            check_signal(source, f"the source of {name}")
    except ScenarioError as error:
        raise refused(str(error)) from None
    return found


def _frame_of_the_user() -> FrameType | None:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "rtsim":
        frame = frame.f_back
    return frame


def here() -> str:
    """Return the line of the user's code that called rtsim, as ``"cart.py:12: text"``.

    The result is empty if no file of the user is involved.
    """
    frame = _frame_of_the_user()
    if frame is None:
        return ""
    name, number = frame.f_code.co_filename, frame.f_lineno
    line = linecache.getline(name, number, frame.f_globals).strip()
    return f"{name}:{number}: {line}\n" if line else ""


def refused(problem: str) -> ScenarioError:
    """Return a ``ScenarioError`` that begins with the line of the user's code."""
    return ScenarioError(f"{here()}{problem}")


def warn_if_hidden(component: str) -> None:
    """Warn if a component has the name of an attribute of results.

    The warning shows the line of the user's code.
    """
    if component not in RESULT_ATTRIBUTES:
        return
    said = (
        f"results have an attribute {component!r}, so that run.{component} is not the component; "
        f"read its signals as run['{component}.SIGNAL'], or give the component another name"
    )
    frame = _frame_of_the_user()
    if frame is not None:
        warnings.warn_explicit(said, UserWarning, frame.f_code.co_filename, frame.f_lineno)


def check_connection(source: str, given: Signal, target: str, wanted: Signal) -> None:
    """Raise ``ScenarioError`` if two connected signals have different units or shapes."""
    owner = target.partition(".")[0]
    check_units(source, given, wanted, owner)
    if given.shape != wanted.shape:
        shapes = [str(s.shape) if s.shape else "one number" for s in (given, wanted)]
        raise ScenarioError(
            f"{source} has the shape {shapes[0]}, but {target} has the shape {shapes[1]}"
        )
