"""Named vectors with units, and hashes of their layouts.

A run stores all values as float64; ``Signals`` describes the elements of a vector. ``Signal.type``
is the type in other programs, such as ``float32`` in C.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import ScenarioError, ShapeError, UnknownName

Vector: TypeAlias = NDArray[np.float64]
SignalName: TypeAlias = str | float | Vector
"""A signal of a scenario: ``"cart.x"``, or ``cart.x`` of a handle.

Type checkers see ``cart.x`` as the number or array that the class declares.
"""
Kind = Literal["scalar", "angle", "quaternion"]
_KINDS = get_args(Kind)

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_SPEC = re.compile(
    r"\s*(?P<name>\S+?)\s*(?:\[(?P<unit>[^\]]*)\])?\s*(?:=\s*(?P<initial>\S+))?\s*\Z"
)
TYPES = frozenset(
    {"float64", "float32", "bool"}
    | {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
)


class Undeclared(float):
    """The initial value of a signal that declares none, usually 0."""


UNDECLARED = Undeclared(0.0)

_FACTOR = re.compile(r"(?P<symbol>[^\W\d]+|%|°|1)(?:\^(?P<power>-?\d+(?:\.\d+)?))?\Z")
_TIMES = re.compile(r"[*·⋅]|(?<!\d)\.|\.(?!\d)")
"""Signs between the factors of a unit.  A point between two digits is part of an exponent."""


def unit_factors(unit: str) -> dict[str, Fraction]:
    """Return the exponent of each symbol of ``unit``: ``"N.m/s^2"`` gives ``{N: 1, m: 1, s: -2}``.

    The factors of a unit are separated by a space, a point or a star. Raises ``ScenarioError``
    if ``unit`` is not a valid unit.
    """
    found: dict[str, Fraction] = {}
    for i, part in enumerate(unit.replace("**", "^").split("/")):
        factors = _TIMES.sub(" ", part).split()
        if not factors:
            raise ScenarioError(f"cannot read unit {unit!r}; write it like 'kg m^2/s'")
        for factor in factors:
            match = _FACTOR.match(factor)
            if match is None:
                raise ScenarioError(
                    f"cannot read {factor!r} in unit {unit!r}; write it like 'kg m^2/s'"
                )
            power = Fraction(match["power"] or 1) * (-1 if i else 1)
            symbol = match["symbol"]
            if symbol != "1":
                found[symbol] = found.get(symbol, Fraction()) + power
    return {symbol: n for symbol, n in found.items() if n}


@lru_cache(maxsize=4096)
def same_unit(one: str, other: str) -> bool:
    """Return True if two texts denote the same unit, such as ``"N m"`` and ``"N.m"``.

    ``"1"`` means that no unit was declared, and matches every unit.  Derived units are not
    expanded: ``"J"`` differs from ``"N m"``. Texts that are not units are equal only if they are
    identical.
    """
    if "1" in (one, other) or one.replace(" ", "") == other.replace(" ", ""):
        return True
    try:
        return unit_factors(one) == unit_factors(other)
    except ScenarioError:
        return False


@dataclass(frozen=True)
class Signal:
    """A named quantity with a unit: a scalar, or an array that is flattened row by row.

    ``initial`` is the value before the first message arrives. Without ``initial``, an input starts
    with the initial value of its source, and any other signal with 0. Parameters and commands must
    lie between ``low`` and ``high``. The ``kind`` of a signal can be ``angle``, which wraps, or
    ``quaternion``, of four elements with the scalar first. ``derivative_of`` names another signal,
    of which this signal is the time derivative.

    Raises :class:`ScenarioError` if the name, type or shape is invalid or ``initial`` is not a
    number.  Raises :class:`ShapeError` if ``initial`` has the wrong length.

    Example:
        Signal("altitude", "m", initial=1000.0, low=0.0)
    """

    name: str
    unit: str = "1"
    type: str = "float64"
    shape: tuple[int, ...] = ()
    kind: Kind = "scalar"
    derivative_of: str = ""
    initial: float | tuple[float, ...] = UNDECLARED
    low: float = -math.inf
    high: float = math.inf
    description: str = field(default="", compare=False)
    optional: bool = field(default=False, compare=False)
    """True if an input may stay unconnected, or an output unwritten."""

    def __post_init__(self) -> None:
        if not _NAME.match(self.name):
            raise ScenarioError(
                f"signal name {self.name!r} is not an identifier; use letters, digits and _"
            )
        if self.type not in TYPES:
            raise UnknownName("type", self.type, sorted(TYPES), f"signal {self.name}")
        if self.kind not in _KINDS:
            raise UnknownName("kind", self.kind, _KINDS, f"signal {self.name}")
        if any(n < 1 for n in self.shape):
            raise ScenarioError(
                f"signal {self.name} has shape {self.shape}; each size must be >= 1"
            )
        if self.kind == "quaternion" and self.size != 4:
            raise ScenarioError(f"quaternion {self.name} has {self.size} elements; give shape=(4,)")
        if not _is_numeric(self.initial):
            raise ScenarioError(
                f"initial value {self.initial!r} of signal {self.name} is not a number; give a "
                "number, or a tuple of numbers for an array"
            )
        if isinstance(self.initial, tuple) and len(self.initial) != self.size:
            raise ShapeError(
                f"signal {self.name} has {self.size} elements, but its initial value has "
                f"{len(self.initial)}"
            )

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def declares_initial(self) -> bool:
        """True if the signal declares an initial value, even if the value is 0."""
        first = self.initial[0] if isinstance(self.initial, tuple) else self.initial
        return not isinstance(first, Undeclared)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the elements, such as ``q_0`` to ``q_3``; for a scalar, its name."""
        if not self.shape:
            return (self.name,)
        return tuple("_".join((self.name, *map(str, index))) for index in np.ndindex(*self.shape))

    @classmethod
    def of(cls, spec: str | Signal) -> Signal:
        """Parse a text such as ``"altitude [m] = 100"``; unit and initial value are optional.

        Raises :class:`ScenarioError` if the text is invalid.
        """
        if isinstance(spec, Signal):
            return spec
        match = _SPEC.match(spec)
        if match is None:
            raise ScenarioError(f"cannot read signal {spec!r}; write 'name [unit] = initial'")
        try:
            initial = UNDECLARED if match["initial"] is None else float(match["initial"])
        except ValueError as error:
            raise ScenarioError(f"initial value in {spec!r} is not a number") from error
        return cls(match["name"], match["unit"] or "1", initial=initial)


def _is_numeric(value: object) -> bool:
    if type(value) in (float, int, Undeclared):
        return True
    elements = np.asarray(value, dtype=object).ravel().tolist()
    if any(isinstance(e, str | bytes) for e in elements):
        return False
    try:
        np.array(list(map(float, elements)))
    except (TypeError, ValueError):
        return False
    return True


def as_float64(value: object, name: str) -> NDArray[np.float64]:
    """Return ``value`` as a float64 array of the same shape.

    Raises :class:`ScenarioError` for an integer that float64 cannot represent, such as
    ``2**53 + 1``, because rounding would change the value silently.  The message begins with
    ``name``.
    """
    out = np.asarray(value, dtype=np.float64)
    if np.abs(out).max(initial=0.0) >= 2.0**53:
        given = np.asarray(value, dtype=object)
        for exact, rounded in zip(given.flat, out.flat, strict=True):
            if isinstance(exact, (int, np.integer)) and int(exact) != float(rounded):
                raise ScenarioError(
                    f"{name} = {exact} cannot be represented exactly as float64; integers up to "
                    "2**53 can"
                )
    return out


class Signals:
    """An ordered, immutable set of signals, which describes the elements of a vector.

    Example:
        Signals("x [m]", "v [m/s]", Signal("mass", "kg", initial=1.0))
    """

    def __init__(self, *signals: Signal | str) -> None:
        self._signals = tuple(Signal.of(s) for s in signals)
        seen: set[str] = set()
        for signal in self._signals:
            if signal.name in seen:
                raise ScenarioError(f"signal {signal.name} is declared twice")
            seen.add(signal.name)

    def __iter__(self) -> Iterator[Signal]:
        return iter(self._signals)

    def __len__(self) -> int:
        return len(self._signals)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Signals) and self._signals == other._signals

    def __hash__(self) -> int:
        return hash(self._signals)

    def __contains__(self, name: object) -> bool:
        return name in self._slices

    def __getitem__(self, name: str) -> Signal:
        self.slice(name)
        return next(s for s in self._signals if s.name == name)

    def __add__(self, other: Signals) -> Signals:
        return Signals(*self, *other)

    def __repr__(self) -> str:
        return f"Signals({', '.join(f'{s.name} [{s.unit}]' for s in self)})"

    @cached_property
    def size(self) -> int:
        """Number of elements of the flat vector."""
        return sum(s.size for s in self)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(s.name for s in self)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The names of all elements of the vector."""
        return tuple(c for s in self for c in s.columns)

    @cached_property
    def _slices(self) -> dict[str, slice]:
        at, out = 0, {}
        for signal in self:
            out[signal.name] = slice(at, at + signal.size)
            at += signal.size
        return out

    def slice(self, name: str) -> slice:
        """Return the slice of the vector that contains the signal ``name``.

        Raises :class:`UnknownName` for an unknown name.
        """
        try:
            return self._slices[name]
        except KeyError:
            raise UnknownName("signal", name, self.names) from None

    def initial(self, values: Mapping[str, object] | None = None) -> Vector:
        """Return a new flat vector (n,) of initial values.

        ``values``, by name, replace declared initial values.  Raises :class:`UnknownName` for an
        unknown name and :class:`ShapeError` for a wrong length. Raises ``ScenarioError`` for a
        value out of range.
        """
        out = np.empty(self.size)
        for signal in self:
            out[self._slices[signal.name]] = signal.initial
        for name, value in (values or {}).items():
            where = self.slice(name)
            given = as_float64(value, name).ravel()
            if given.size != where.stop - where.start:
                raise ShapeError(
                    f"signal {name} has {where.stop - where.start} elements, but got "
                    f"{given.size} values"
                )
            signal = self[name]
            if not np.all((given >= signal.low) & (given <= signal.high)):
                unit = "" if signal.unit in ("", "1") else f" {signal.unit}"
                raise ScenarioError(
                    f"{name} = {value}{unit} is outside its range "
                    f"[{signal.low:g}, {signal.high:g}]{unit}"
                )
            out[where] = given
        return out

    def beginning_with(self, values: Mapping[str, object]) -> Signals:
        """Return the same layout with other initial values, given by name.

        Raises the errors of :meth:`initial`.
        """
        vector = self.initial(values)
        found = {name: vector[self.slice(name)].tolist() for name in values}
        return Signals(
            *(
                replace(s, initial=tuple(found[s.name]) if s.shape else found[s.name][0])
                if s.name in found
                else s
                for s in self
            )
        )

    def declared_initial(self) -> dict[str, float | list[float]]:
        """Return the declared initial values by name: numbers, and lists for arrays."""
        vector = self.initial()
        found = {s: vector[self.slice(s.name)].tolist() for s in self if s.declares_initial}
        return {s.name: values if s.shape else values[0] for s, values in found.items()}

    def check(self, vector: Vector, where: str) -> Vector:
        """Return ``vector`` if its shape fits this layout.

        Raises :class:`ShapeError` for any other shape than (n,).  The message begins with
        ``where``.
        """
        if getattr(vector, "shape", None) != (self.size,):
            raise ShapeError(
                f"{where}: expected a vector of {self.size} ({', '.join(self.columns)}), "
                f"got shape {getattr(vector, 'shape', type(vector).__name__)}"
            )
        return vector

    def prefixed(self, prefix: str) -> Signals:
        """Return the same layout with ``prefix`` before each name."""
        return Signals(*(replace(s, name=prefix + s.name) for s in self))

    def to_json(self) -> list[dict[str, object]]:
        """Return plain data for :meth:`from_json`.  Infinite bounds become ``None``."""
        rows = []
        for s in self:
            row = asdict(s)
            row["shape"] = list(s.shape)
            row["initial"] = list(s.initial) if isinstance(s.initial, tuple) else s.initial
            del row["optional"]  # recordings do not need this field; only the wiring uses it
            row["low"] = None if math.isinf(s.low) else s.low
            row["high"] = None if math.isinf(s.high) else s.high
            rows.append(row)
        return rows

    @classmethod
    def from_json(cls, rows: list[dict[str, object]]) -> Signals:
        """Return the signals that :meth:`to_json` described.

        Raises TypeError for an unknown key.
        """
        out: list[Signal] = []
        for row in rows:
            values = dict(row)
            values["shape"] = tuple(values.get("shape") or ())  # type: ignore[arg-type]
            if values.get("initial") == 0.0:  # the data do not distinguish 0 from undeclared
                values["initial"] = UNDECLARED
            if isinstance(values.get("initial"), list):
                values["initial"] = tuple(values["initial"])  # type: ignore[arg-type]
            if values.get("low") is None:
                values["low"] = -math.inf
            if values.get("high") is None:
                values["high"] = math.inf
            out.append(Signal(**values))  # type: ignore[arg-type]
        return cls(*out)

    @cached_property
    def schema_hash(self) -> str:
        """A hash of the names, units, types and shapes of the signals, as 16 hex digits."""
        layout = [[s.name, s.unit, s.type, list(s.shape), s.kind, s.derivative_of] for s in self]
        return hashlib.sha256(json.dumps(layout).encode()).hexdigest()[:16]
