"""Base class and parameters of all kinds of faults.

A kind is a subclass of :class:`SignalFault <rtsim.engine.faults.at_signals.SignalFault>`,
:class:`MessageFault <rtsim.engine.faults.at_messages.MessageFault>`, :class:`LineFault
<rtsim.engine.faults.line_kinds.LineFault>`, :class:`BoardFault
<rtsim.engine.faults.line_kinds.BoardFault>` or :class:`LoopFault
<rtsim.engine.faults.at_loop.LoopFault>`. T A class declares the entries of a fault file. An object
is one fault in one run.
"""

from __future__ import annotations

import math
import operator
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

from rtsim.components.ports import SignalPort, resolve
from rtsim.core import toml
from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Vector
from rtsim.core.tag import NS_PER_S, Period, Tag
from rtsim.record.events import FAULT, FAULT_ENDED, lasts

# A condition on signals, such as ``f16.altitude_msl > 3000``.  The text is parsed, not executed.

_COMPARISON = re.compile(r"\s*(\S+?)\s*(<=|>=|==|!=|<|>)\s*(\S+?)\s*\Z")
_SIGNAL = re.compile(r"[A-Za-z_]\w*\.[A-Za-z_]\w*\Z")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?\Z")
_TESTS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
_EXAMPLE = "write, for example, 'f16.altitude_msl > 3000'; join several with 'and'"
_LONGEST = 500

Operand = float | str
"""An operand of a comparison: a number, or ``component.signal``."""


@dataclass(frozen=True)
class Condition:
    """One or several comparisons (left, operator, right), which must all be true."""

    text: str
    comparisons: tuple[tuple[Operand, str, Operand], ...]

    def bind(self, ports: Mapping[str, SignalPort]) -> Callable[[], bool]:
        """Return a function that tests the present values of ``ports``.

        Comparisons with NaN are false.
        """
        asked = tuple(
            (_bound(left, ports, self.text), _TESTS[test], _bound(right, ports, self.text))
            for left, test, right in self.comparisons
        )

        def holds() -> bool:
            return all(test(a[i], b[j]) for (a, i), test, (b, j) in asked)

        return holds


def parse_condition(text: str) -> Condition:
    """Return the condition in ``text``; raise :class:`ScenarioError` if it is malformed."""
    if len(text) > _LONGEST:
        raise ScenarioError(
            f"the condition of the fault has {len(text)} characters; write at most {_LONGEST}"
        )
    comparisons = []
    for comparison in re.split(r"\s+and\s+", text.strip()):
        found = _COMPARISON.match(comparison)
        if not found:
            raise ScenarioError(f"{comparison!r} is not a comparison; {_EXAMPLE}")
        left, right = _operand(found[1]), _operand(found[3])
        if isinstance(left, float) and isinstance(right, float):
            raise ScenarioError(
                f"{comparison!r} compares two numbers, but a comparison needs a signal; {_EXAMPLE}"
            )
        comparisons.append((left, found[2], right))
    return Condition(text.strip(), tuple(comparisons))


def _operand(text: str) -> Operand:
    if _NUMBER.match(text) and math.isfinite(float(text)):
        return float(text)
    if _SIGNAL.match(text):
        return text
    raise ScenarioError(
        f"{text!r} is neither a number nor a name of the form component.signal; {_EXAMPLE}"
    )


def _bound(
    operand: Operand, ports: Mapping[str, SignalPort], text: str
) -> tuple[Vector | list[float], int]:
    if isinstance(operand, float):
        return [operand], 0
    port, where = resolve(operand, ports, f"condition {text!r}")
    if where.stop - where.start != 1:
        raise ScenarioError(
            f"{operand} has {where.stop - where.start} elements, but a comparison needs one "
            "number; name one element"
        )
    return port.value, where.start


Level = Literal["signal", "message", "line", "loop"]
Check = Literal["number", "positive", "not negative", "whole", "natural", "seconds", "bit"]

_LARGEST = 1e300


def _within(wanted: str, low: float = -_LARGEST, above: float = -math.inf) -> toml.Key:
    return replace(toml.number(low, _LARGEST, above=above), wanted=wanted)


CHECKS: dict[Check, toml.Key] = {
    "number": _within("a finite number"),
    "positive": _within("a number > 0", above=0.0),
    "not negative": _within("a number >= 0", low=0.0),
    "whole": replace(toml.whole(0, 2**31), wanted="a whole number >= 0"),
    "natural": replace(toml.whole(1, 2**31), wanted="a whole number >= 1"),
    "seconds": toml.seconds(zero=True),
    "bit": toml.whole(0, 7),
}
"""Rules for values of parameters; a value in ``seconds`` is converted to ns."""


class FaultError(ScenarioError):
    """A fault is invalid. The text names the fault, its file and the valid entries."""

    key = ""

    @classmethod
    def of(cls, key: str, text: str) -> FaultError:
        error = cls(text)
        error.key = key
        return error


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kind of fault; ``needed`` means that it has no default."""

    name: str
    check: Check
    needed: bool = True


@dataclass(frozen=True)
class Fault:
    """A fault with checked entries.

    Times are in ns. ``parameters`` have the units of the signal.
    """

    name: str
    where: str
    kind: type[FaultKind]
    parameters: Mapping[str, float] = field(default_factory=dict)
    at_ns: int | None = None
    every: Period | None = None
    probability: float | None = None
    when: Condition | None = None
    until_ns: int | None = None
    duration_ns: int | None = None
    count: int | None = None
    period: Period | None = None
    """Period of the fault's items at the inputs of a plant."""
    seed: int | None = None
    given: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """Entries as the user wrote them, with times as exact text."""
    place: str = field(default="", compare=False)
    """``file:line`` of a fault that was read from a file."""

    @property
    def part(self) -> str:
        return self.where.partition(".")[0]

    @property
    def signal(self) -> str:
        return self.where.partition(".")[2]

    def error(self, problem: object) -> FaultError:
        """Return an error that begins with the name and the place of the fault."""
        before = f"{self.place}: " if self.place else ""
        return FaultError(f"{before}fault {self.name}: {problem}")

    def describe(self) -> dict[str, Any]:
        return dict(self.given)


class Places(ABC):
    """Interface that installs the faults of a run.

    ``kind`` is a subclass of ``SignalFault``, ``MessageFault`` or ``LoopFault``.
    """

    @abstractmethod
    def at_signal(self, fault: Fault, kind: Any) -> None:
        """Install a fault between a signal and its readers."""

    @abstractmethod
    def at_messages(self, fault: Fault, kind: Any) -> None:
        """Install a fault for the messages of one sender."""

    @abstractmethod
    def at_line(self, fault: Fault) -> None:
        """Pass a fault to the controller that owns the line."""

    @abstractmethod
    def in_loop(self, fault: Fault, kind: Any) -> None:
        """Install a fault in the real-time loop."""


class FaultKind(ABC):
    """A kind of fault: its entries in a file, and its effect."""

    name: ClassVar[str]
    """Name of the kind in a fault file, as in ``kind = "NAME"``."""
    level: ClassVar[Level]
    does: ClassVar[str]
    """Effect of the kind, for the text of an event, as in ``message 7 DOES``."""
    parameters: ClassVar[tuple[Parameter, ...]] = ()
    entries: ClassVar[tuple[str, ...]] = ()
    """Entries of all kinds of this level, in addition to the entries of every fault."""
    example: ClassVar[str]
    """Example of ``where``, for error messages."""
    once: ClassVar[bool] = False
    """True if a fault of this kind acts only once and takes no duration or count."""
    brief: ClassVar[bool] = False
    """True if an activation is one item by default."""
    has_length: ClassVar[bool] = False
    """True if ``length`` sets the number of items of an activation."""

    @classmethod
    @abstractmethod
    def check_where(cls, where: str) -> None:
        """Raise ``FaultError`` if the kind cannot act at ``where``."""

    @classmethod
    @abstractmethod
    def put(cls, fault: Fault, places: Places) -> None:
        """Install a fault through one of the methods of ``places``."""

    @classmethod
    def check_kind(cls) -> None:
        """Raise :class:`ScenarioError` if the class is incomplete."""
        if cls.has_length and Parameter("length", "natural") not in cls.parameters:
            raise ScenarioError(
                f"fault kind {cls.name!r} has has_length = True but no parameter length; add "
                "Parameter('length', 'natural')"
            )

    @classmethod
    def wanted(cls) -> str:
        """Return an example of ``where``, for error messages."""
        return f"where = '{cls.example}'"


def check_part_signal(kind: type[FaultKind], where: str, what: str) -> str:
    """Return the part ``SIGNAL`` of a text ``COMPONENT.SIGNAL``.

    ``what`` names ``SIGNAL`` in the error message.  Raises :class:`FaultError` for another form.
    """
    part, dot, signal = where.partition(".")
    if not dot or not part.isidentifier() or not signal:
        text = f"where = {where!r}; {kind.name} acts on component.{what}: {kind.wanted()}"
        raise FaultError.of("where", text)
    return signal


# Data that all faults of a run share: the present time, and the receiver of events.

BEFORE_THE_RUN = -1
EventSink = Callable[[Tag, str, str, str, dict[str, float]], None]


class Present:
    """The present simulated time (ns), and the receiver of events."""

    def __init__(self) -> None:
        self.ns = BEFORE_THE_RUN
        self.event: EventSink = _unrecorded

    def began(self, fault: Fault, ns: int, text: str, values: Mapping[str, float]) -> None:
        what = f"{fault.kind.name} at {fault.where}: {text}"
        self.event(Tag(ns), FAULT, fault.name, what, {k: float(v) for k, v in values.items()})

    def ended(self, fault: Fault, ns: int, items: int) -> None:
        """Record the end of an activation that lasted more than one item."""
        if items > 1 or fault.count is None or lasts(fault.given):
            text = f"{fault.kind.name} at {fault.where} is over"
            self.event(Tag(ns), FAULT_ENDED, fault.name, text, {"items": float(items)})


def seconds(ns: float) -> float:
    return ns / NS_PER_S


def _unrecorded(tag: Tag, kind: str, source: str, text: str, values: dict[str, float]) -> None:
    """Ignore an event before the start of the recording."""
