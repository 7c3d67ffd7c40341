"""What a scenario returns for a component: its signals by name, for wires, settings and results."""

from __future__ import annotations

import linecache
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from numbers import Number
from types import FrameType
from typing import Any, NoReturn

from rtsim.components.ports import check_units
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.signals import Signal
from rtsim.core.signals import SignalName as SignalName

RESULT_ATTRIBUTES = frozenset(
    (
        "assert_ok", "at", "began", "between", "certificate", "changed_before", "changes",
        "checked", "checkpoints", "component_values", "continues", "digest", "earlier", "end_ns",
        "ended", "ending", "ends", "error", "events", "facts", "final", "footer", "header",
        "in_words", "large", "late", "looked", "lost", "messages", "missed", "names", "ok",
        "open", "outcome", "overruns", "path", "plot", "rate", "reason", "recorder", "recording",
        "restored", "segments", "since", "source", "speed", "system", "table", "time", "time_ns",
        "to_arrow", "to_pandas", "to_polars", "to_xarray", "told", "trace_rows", "track",
        "tracks", "truncated", "up_to", "viewed", "waiting", "wall_ns", "warnings",
    )
)  # fmt: skip
"""Public attributes of results and recordings: a component of this name is not ``run.NAME``."""


class SignalReference(str):
    """The name of a signal, ``component.signal``; a text, which is not its value."""

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
    """A component of a scenario; ``handle.NAME`` is the name of its signal or parameter.

    ``aliases`` has the names of signals by the names of their fields, where they differ.
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

    def __dir__(self) -> list[str]:
        return sorted({*self._aliases, *self._names()})

    def __str__(self) -> str:
        return self._name

    @property
    def __name__(self) -> str:
        return self._name

    def __repr__(self) -> str:
        return f"<component {self._name}: {', '.join(self._names())}>"


def _frame_of_the_user() -> FrameType | None:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "rtsim":
        frame = frame.f_back
    return frame


def here() -> str:
    """Return the user's line that called rtsim, as ``"cart.py:12: text: "``; empty without one."""
    frame = _frame_of_the_user()
    if frame is None:
        return ""
    name, number = frame.f_code.co_filename, frame.f_lineno
    line = linecache.getline(name, number, frame.f_globals).strip()
    return f"{name}:{number}: {line}\n" if line else ""


def refused(problem: str) -> ScenarioError:
    """Return the error for a line of a scenario; the message begins with this line."""
    return ScenarioError(f"{here()}{problem}")


def warn_if_hidden(component: str) -> None:
    """Warn at the user's line if results have an attribute with the name of a component."""
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
    """Raise :class:`ScenarioError` if two connected signals differ in unit or shape."""
    owner = target.partition(".")[0]
    check_units(source, given, wanted, owner)
    if given.shape != wanted.shape:
        shapes = [str(s.shape) if s.shape else "one number" for s in (given, wanted)]
        raise ScenarioError(
            f"{source} has the shape {shapes[0]}, but {target} has the shape {shapes[1]}"
        )
