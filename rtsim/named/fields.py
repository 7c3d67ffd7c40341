"""Fields of plants and controllers: signals declared in a class.

A field declares the role, unit, initial value, range, shape and description of a signal.  Methods
of the class read and write the field as ``self.NAME``. For a run, rtsim replaces these names by
elements of vectors (``rtsim.named.lowering``).
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Generic, TypeVar, overload

import numpy as np

from rtsim.core.errors import ModelError, ScenarioError, UnknownName
from rtsim.core.signals import UNDECLARED, Kind, Signal, Signals, Vector
from rtsim.equations.field_names import article

STATE, ALGEBRAIC, MEMORY, INPUT, PARAMETER, OUTPUT, LINE, DELAYED = ROLES = (
    *("state", "algebraic variable", "memory", "input", "parameter", "output"),
    *("line", "delayed signal"),
)
"""The roles of fields."""
Shape = int | tuple[int, ...]
"""Shape of an array, or the length of a vector."""
Initial = float | Sequence[float] | Sequence[Sequence[float]] | Vector
Elements = Vector | Sequence[float] | float
"""Values that a method can assign to a vector."""


R = TypeVar("R")
W = TypeVar("W")


@dataclass(frozen=True, eq=False)
class Field(Generic[R, W]):
    """A declared field. Before the class exists, the name of ``signal`` is "_".

    Type checkers see the type ``R`` when the field is read, and ``W`` when it is assigned.
    """

    role: str
    signal: Signal
    modes: tuple[str, ...] = ()
    """Names of the values 0, 1, ... of a memory declared by :func:`mode`."""
    delay: tuple[str, Any, Any, float, float | None] | None = None
    """For a delayed signal: signal, lag, value before the run, least and greatest lag."""
    alias: str = ""
    """Name of the signal, if it differs from the name of the field."""

    @overload
    def __get__(self, part: None, owner: type) -> Field[R, W]: ...
    @overload
    def __get__(self, part: object, owner: type) -> R: ...
    def __get__(self, part: Any, owner: type) -> Any:
        """Return this field for a class, and the initial value for an object."""
        if part is None:
            return self
        return part._values.get(self._name(owner), self.signal.initial)

    def __set__(self, part: object, value: W) -> None:
        raise AttributeError("fields are set by NamedSignals.__setattr__")

    def _name(self, owner: type) -> str:
        return next(n for cls in owner.__mro__ for n, v in vars(cls).items() if v is self)

    def __iter__(self) -> Iterator[Field[Any, Any]]:
        """Yield a field for each element of a vector or each row of a matrix.

        A scalar field raises :class:`ModelError`.
        """
        signal = self.signal
        if not signal.shape:
            raise ModelError(
                f"this {self.role} is one number, so it cannot be several fields; give one value "
                "for each, such as (0, 0, 0), or a shape, such as shape=(3,)"
            )
        if self.alias:
            raise ModelError(
                f"this {self.role} has the signal name {self.alias!r}, which several fields cannot "
                "share; leave name= out"
            )
        if signal.kind == "quaternion" or signal.derivative_of:
            what = "derivative_of=" if signal.derivative_of else "kind='quaternion'"
            raise ModelError(
                f"this {self.role} has {what}, so it cannot be divided into several fields; assign "
                f"it to one name, or leave {what} out"
            )
        rest = signal.shape[1:]
        values = np.broadcast_to(np.asarray(signal.initial, dtype=float), signal.size)
        for row in values.reshape(signal.shape[0], -1).tolist():
            first = tuple(row) if rest else row[0]
            given = first if signal.declares_initial else UNDECLARED
            yield replace(self, signal=replace(signal, shape=rest, initial=given))


class VectorField(Field[Vector, Elements]):
    """A vector field; elements can become fields: ``x, y = state(...)``."""

    def __iter__(self) -> Iterator[Field[float, float]]:
        raise NotImplementedError


class MatrixField(Field[Vector, Elements]):
    """A matrix field; rows can become fields."""

    def __iter__(self) -> Iterator[VectorField]:
        raise NotImplementedError


def _field(
    role: str,
    unit: str | Initial,
    initial: Initial,
    shape: Shape | None,
    name: str = "",
    **more: Any,
) -> Any:
    if not isinstance(unit, str):
        if initial is not UNDECLARED or role not in NamedSignals.given_roles:
            right = f'("m", {unit!r}), or ({unit!r}) for a number without a unit'
            raise ModelError(
                f"the unit of this {role} is {unit!r}; the unit comes first, as a text: "
                + (right if role in NamedSignals.given_roles else '("m")')
            )
        initial, dimension = unit, "1"
    else:
        dimension = unit
    values = np.asarray(initial, dtype=object)
    size = values.shape if shape is None else (shape,) if isinstance(shape, int) else tuple(shape)
    flat = tuple(values.ravel().tolist())
    if len(flat) == 1 and size:
        flat *= math.prod(size)
    try:
        signal = Signal(
            "_", dimension, shape=size, initial=flat if size else flat[0] if flat else 0.0, **more
        )
    except ScenarioError as error:
        raise ModelError(str(error).replace("signal _", f"this {role}")) from error
    _check_range(role, signal)
    return Field(role, signal, alias=name)


def _check_range(role: str, signal: Signal) -> None:
    low, high, first = signal.low, signal.high, np.atleast_1d(signal.initial)
    if low > high:
        raise ModelError(f"the range of this {role} is empty: low={low:g} is above high={high:g}")
    outside = first[(first < low) | (first > high)] if first.any() else first[:0]
    if outside.size:
        raise ModelError(
            f"the initial value {outside[0]:g} of this {role} is outside its range "
            f"[{low:g}, {high:g}]; change one of them"
        )


@overload
def state(
    unit: str | float = "1", initial: float = 0.0, *, kind: Kind = "scalar",
    derivative_of: str = "", low: float = -math.inf, high: float = math.inf, description: str = "",
) -> Field[float, float]: ...  # fmt: skip
@overload
def state(
    unit: str | Sequence[float] | Vector = "1", initial: float | Sequence[float] | Vector = 0.0, *,
    shape: int | tuple[int] | None = None, kind: Kind = "scalar", derivative_of: str = "",
    low: float = -math.inf, high: float = math.inf, description: str = "",
) -> VectorField: ...  # fmt: skip
@overload
def state(
    unit: str | Sequence[Sequence[float]] = "1",
    initial: float | Sequence[float] | Sequence[Sequence[float]] | Vector = 0.0, *,
    shape: Shape | None = None, kind: Kind = "scalar", derivative_of: str = "",
    low: float = -math.inf, high: float = math.inf, description: str = "",
) -> MatrixField: ...  # fmt: skip
def state(
    unit: str | Initial = "1",
    initial: Initial = UNDECLARED,
    *,
    shape: Shape | None = None,
    **more: Any,
) -> Any:
    """Declare a state of a plant, whose derivative the method ``derivative`` computes.

    Several names declare one field for each element of a vector or each row of a matrix: ``x, y =
    state("m", (0.0, 1.0))``.  An initial value that does not fit the shape raises
    :class:`ModelError`.

    Args:
        unit: Unit of the state.  For a state without a unit, the initial value can come first:
            ``state(1.0)``.
        initial: Initial value; several numbers declare a vector or a matrix.
        shape: Shape of an array, or length of a vector.
        more: ``low`` and ``high``, the range of the initial value; ``kind``, ``"angle"`` or
            ``"quaternion"`` (see :class:`rtsim.core.signals.Signal`); ``derivative_of``, the field
            whose time derivative this state is.

    Example:
        altitude = state("m", 1000.0, low=0.0)
        position = state("m", (0.0, 0.0, 1.0))
        x, y = state("m", (0.0, 1.0))
    """
    return _field(STATE, unit, initial, shape, **more)


@overload
def memory(
    unit: str | float = "1", initial: float = 0.0, *, low: float = -math.inf,
    high: float = math.inf, description: str = "", name: str = "",
) -> Field[float, float]: ...  # fmt: skip
@overload
def memory(
    unit: str | Sequence[float] | Vector = "1", initial: float | Sequence[float] | Vector = 0.0, *,
    shape: int | tuple[int] | None = None, low: float = -math.inf,
    high: float = math.inf, description: str = "", name: str = "",
) -> VectorField: ...  # fmt: skip
@overload
def memory(
    unit: str | Sequence[Sequence[float]] = "1",
    initial: float | Sequence[float] | Sequence[Sequence[float]] | Vector = 0.0, *,
    shape: Shape | None = None, low: float = -math.inf,
    high: float = math.inf, description: str = "", name: str = "",
) -> MatrixField: ...  # fmt: skip
def memory(
    unit: str | Initial = "1",
    initial: Initial = UNDECLARED,
    *,
    shape: Shape | None = None,
    **more: Any,
) -> Any:
    """Declare a memory: a value that changes at events of a plant or steps of a controller.

    ``name`` is the name of the signal if it differs from the name of the field. Other arguments are
    those of :func:`state`.

    Example:
        bounces = memory()
    """
    return _field(MEMORY, unit, initial, shape, **more)


@overload
def parameter(
    unit: str | float = "1", value: float = 0.0, *, kind: Kind = "scalar", low: float = -math.inf,
    high: float = math.inf, description: str = "",
) -> Field[float, float]: ...  # fmt: skip
@overload
def parameter(
    unit: str | Sequence[float] | Vector = "1", value: float | Sequence[float] | Vector = 0.0, *,
    shape: int | tuple[int] | None = None, kind: Kind = "scalar", low: float = -math.inf,
    high: float = math.inf, description: str = "",
) -> VectorField: ...  # fmt: skip
@overload
def parameter(
    unit: str | Sequence[Sequence[float]] = "1",
    value: float | Sequence[float] | Sequence[Sequence[float]] | Vector = 0.0, *,
    shape: Shape | None = None, kind: Kind = "scalar", low: float = -math.inf,
    high: float = math.inf, description: str = "",
) -> MatrixField: ...  # fmt: skip
def parameter(
    unit: str | Initial = "1",
    value: Initial = UNDECLARED,
    *,
    shape: Shape | None = None,
    **more: Any,
) -> Any:
    """Declare a parameter: a value that methods read, and that only a scenario changes.

    ``value`` is the default.  Other arguments are those of :func:`state`.

    Example:
        mass = parameter("kg", 80.0, low=1.0)
    """
    return _field(PARAMETER, unit, value, shape, **more)


@overload
def input(
    unit: str | float = "1", initial: float = UNDECLARED, *, kind: Kind = "scalar",
    low: float = -math.inf, high: float = math.inf, description: str = "", optional: bool = False,
    name: str = "",
) -> Field[float, float]: ...  # fmt: skip
@overload
def input(
    unit: str | Sequence[float] | Vector = "1",
    initial: float | Sequence[float] | Vector = UNDECLARED, *,
    shape: int | tuple[int] | None = None, kind: Kind = "scalar", low: float = -math.inf,
    high: float = math.inf, description: str = "", optional: bool = False, name: str = "",
) -> VectorField: ...  # fmt: skip
@overload
def input(
    unit: str | Sequence[Sequence[float]] = "1",
    initial: float | Sequence[float] | Sequence[Sequence[float]] | Vector = UNDECLARED, *,
    shape: Shape | None = None, kind: Kind = "scalar", low: float = -math.inf,
    high: float = math.inf, description: str = "", optional: bool = False, name: str = "",
) -> MatrixField: ...  # fmt: skip
def input(
    unit: str | Initial = "1",
    initial: Initial = UNDECLARED,
    *,
    shape: Shape | None = None,
    **more: Any,
) -> Any:
    """Declare an input: a value that another component or a constant supplies.

    ``initial`` is the value before the first message, by default the initial value of the connected
    signal. An input with ``optional=True`` may stay unconnected. ``name`` is the name of the signal
    if it differs from the name of the field. Other arguments are those of :func:`state`.

    Example:
        force = input("N")
    """
    return _field(INPUT, unit, initial, shape, **more)


@overload
def output(
    unit: str = "1", *, kind: Kind = "scalar", derivative_of: str = "", low: float = -math.inf,
    high: float = math.inf, description: str = "", optional: bool = False,
    initial: float = UNDECLARED, name: str = "",
) -> Field[float, float]: ...  # fmt: skip
@overload
def output(  # type: ignore[overload-overlap]  # a tuple of unknown length is that of a matrix
    unit: str = "1", *, shape: int | tuple[int], kind: Kind = "scalar", derivative_of: str = "",
    description: str = "", optional: bool = False, initial: float = UNDECLARED, name: str = "",
) -> VectorField: ...  # fmt: skip
@overload
def output(
    unit: str = "1", *, shape: Shape, kind: Kind = "scalar", derivative_of: str = "",
    description: str = "", optional: bool = False, initial: float = UNDECLARED, name: str = "",
) -> MatrixField: ...  # fmt: skip
def output(
    unit: str = "1", *, shape: Shape | None = None, initial: Initial = UNDECLARED, **more: Any
) -> Any:
    """Declare an output: a value that the method ``outputs`` or ``step`` computes.

    With ``optional=True``, a method may leave the output unwritten; the value is then ``initial``.
    For a controller, ``initial`` is also the value before the first message. ``name`` is the name
    of the signal if it differs from the name of the field. Other arguments are those of
    :func:`state`.

    Example:
        lift = output("N")
    """
    return _field(OUTPUT, unit, initial, shape, **more)


def algebraic(
    unit: str | float = "1", initial: float = UNDECLARED, *, description: str = ""
) -> Field[float, float]:
    """Declare an algebraic variable of a plant, which the equations in ``residual`` determine.

    The first solution starts from the guess ``initial``.

    Example:
        current = algebraic("A")
    """
    out: Field[float, float] = _field(ALGEBRAIC, unit, initial, None, description=description)
    return out


def line(unit: str = "1", *, description: str = "") -> Field[float, float]:
    """Declare a value that the method ``lines`` computes as the source of a delayed signal.

    Example:
        twice = line("m")
    """
    out: Field[float, float] = _field(LINE, unit, 0.0, None, description=description)
    return out


def mode(*names: str, initial: str = "", description: str = "") -> Field[str, str]:
    """Declare the mode of a plant, which is always one of ``names``.

    Without ``initial``, the plant begins in the first mode of ``names``. Raises ``ModelError`` for
    fewer than two names, equal names, or an unknown ``initial``.

    Example:
        heating = mode("off", "on")
    """
    if len(names) < 2 or len(set(names)) != len(names):
        raise ModelError(f"mode{names} needs two or more different names")
    if initial and initial not in names:
        raise ModelError(str(UnknownName("mode", initial, names)))
    first = float(names.index(initial)) if initial else 0.0
    last = float(len(names) - 1)
    signal = Signal(
        "_", initial=first, low=0.0, high=last, description=description or ", ".join(names)
    )
    return Field(MEMORY, signal, modes=names)


def delayed(
    signal: str,
    lag: float | Fraction | str,
    *,
    before: float | str | None = None,
    least: float = 0.0,
    most: float | None = None,
) -> Field[float, float]:
    """Declare a delayed signal: the value that another signal had ``lag`` s before.

    Args:
        signal: Name of the signal.
        lag: A number, s, the name of a parameter, or the name of a method that returns the lag.
        before: Value before the run.
        least: Lower bound of a lag computed by a method, s.
        most: Upper bound of a lag computed by a method, s.

    See :class:`rtsim.equations.delays.Delayed`.

    Example:
        late = delayed("altitude", 0.2, before=1000.0)
    """
    return Field(DELAYED, Signal("_"), delay=(signal, lag, before, least, most))


def snake_case(name: str) -> str:
    """Return ``TwoMassDrive`` as ``two_mass_drive``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


class NamedSignals:
    """Base class of :class:`rtsim.Plant` and :class:`rtsim.Controller`: a class with fields.

    An object stores only values that differ from the declared values: ``Cart(x=2.0)``.
    """

    t: float
    """Simulated time, s."""
    roles: ClassVar[frozenset[str]] = frozenset()
    """Roles that fields of this class can have."""
    given_roles: ClassVar[frozenset[str]] = frozenset((STATE, ALGEBRAIC, MEMORY, INPUT, PARAMETER))
    """Roles whose initial values an object can replace."""
    reserved: ClassVar[tuple[str, ...]] = ()
    """Names of methods that rtsim calls; fields cannot have these names."""
    fields: ClassVar[dict[str, Field[Any, Any]]] = {}
    """Fields by name, with fields of base classes first."""
    _layouts: ClassVar[dict[str, Signals]] = {}
    _made: ClassVar[Any] = None
    """Result of lowering the methods (see :func:`rtsim.named.lowering.made_once`)."""

    _name: ClassVar[str] = ""

    def __init_subclass__(cls, name: str = "", **more: Any) -> None:
        super().__init_subclass__(**more)
        cls._name = name or snake_case(cls.__name__)
        found: dict[str, Field[Any, Any]] = {}
        for base in reversed(cls.__mro__):
            own = vars(base)
            for name in [n for n in found if n in own and not isinstance(own[n], Field)]:
                del found[name]  # a derived class has a constant or a method in its place
            named = base is not cls and issubclass(base, NamedSignals)
            known = own["fields"] if named else {}
            found |= {n: known.get(n, v) for n, v in own.items() if isinstance(v, Field)}
        for name, field in found.items():
            if name == "t" or name in cls.reserved or _taken(cls, name):
                raise ModelError(
                    f"{cls.__name__}.{name} is declared as a field, but {name} is a name "
                    "that rtsim itself uses; choose another name"
                )
            if field.role not in cls.roles and cls.roles:
                allowed = ", ".join(role for role in ROLES if role in cls.roles)
                raise ModelError(
                    f"{cls.__name__}.{name} is declared as {article(field.role)}, but a "
                    f"{_kind(cls)} has only fields of these roles: {allowed}"
                )
        cls.fields = {
            name: field if field.signal.name != "_" else _called(name, field, cls)
            for name, field in found.items()
        }
        cls._layouts, cls._made = {}, None
        if cls.fields:
            cls.__doc__ = f"{inspect.cleandoc(cls.__doc__ or '')}\n\n{_described(cls)}".strip()

    def __init__(self, **values: Any) -> None:
        for name in values:
            self._check(name)
        self.__dict__["_values"] = values

    _values: dict[str, Any]

    def __setattr__(self, name: str, value: object) -> None:
        self._check(name)
        if self.__dict__.get("_handed_over"):
            raise ModelError(
                f"{type(self).__name__}.{name} is assigned after the object was given to a "
                "scenario; the scenario has copied the value, so use scenario.set(...)"
            )
        self._values[name] = value

    def _check(self, name: str) -> None:
        field = self.fields.get(name)
        if field is None:
            raise ModelError(str(UnknownName("field", name, self.fields, type(self).__name__)))
        if field.role not in self.given_roles:
            raise ModelError(
                f"{type(self).__name__}.{name} is {article(field.role)} of a {_kind(type(self))} "
                "and is computed, so it cannot have an initial value; leave this value out"
            )

    def given(self, *roles: str) -> dict[str, Any]:
        """Return the values assigned to this object, by signal name.

        After this call, the object cannot be changed.
        """
        self.__dict__["_handed_over"] = True
        out = {}
        for name, value in self._values.items():
            field = self.fields[name]
            if field.role in roles:
                out[field.signal.name] = _number_of(value, field, f"{type(self).__name__}.{name}")
        return out

    @classmethod
    def default_name(cls) -> str:
        """Return the default name of the model and its component.

        The default name is the name of the class in snake case. A class can declare another name:
        ``class Cart(Plant, name="wagon")``.
        """
        return cls._name

    @classmethod
    def signals(cls, role: str) -> Signals:
        """Return the signals with a given role, in the order of their declaration.

        Equal names raise :class:`ModelError`.
        """
        if role not in cls._layouts:
            chosen = [f for f in cls.fields.values() if f.role == role]
            ordered = sorted(chosen, key=lambda f: bool(f.modes))
            try:
                cls._layouts[role] = Signals(*(f.signal for f in ordered))
            except ScenarioError as error:
                raise ModelError(f"{cls.__name__}: {error}") from error
        return cls._layouts[role]

    @classmethod
    def aliases(cls) -> dict[str, str]:
        return {name: f.signal.name for name, f in cls.fields.items() if f.alias}


def _taken(cls: type, name: str) -> bool:
    return any(
        name in vars(base)
        for base in cls.__mro__
        if base.__module__.startswith("rtsim.named") and issubclass(base, NamedSignals)
    )


def _kind(cls: type) -> str:
    return next(c.__name__.lower() for c in cls.__mro__ if c.__module__.startswith("rtsim.named"))


def _called(name: str, field: Field[Any, Any], cls: type) -> Field[Any, Any]:
    try:
        return replace(field, signal=replace(field.signal, name=field.alias or name))
    except ScenarioError as error:
        raise ModelError(f"{cls.__name__}.{name}: {error}") from error


def _number_of(value: Any, field: Field[Any, Any], what: str) -> Any:
    if not field.modes or not isinstance(value, str):
        return value
    if value not in field.modes:
        raise ModelError(str(UnknownName("mode", value, field.modes, what)))
    return float(field.modes.index(value))


def _described(cls: type[NamedSignals]) -> str:
    rows = []
    for name, field in cls.fields.items():
        signal = field.signal
        shape = f", shape {signal.shape}" if signal.shape else ""
        start = f" = {signal.initial:g}" if isinstance(signal.initial, float | int) else ""
        about = f": {signal.description}" if signal.description else ""
        about = f", signal {field.alias}{about}" if field.alias else about
        rows.append(f"- {name} [{signal.unit}]{start}, {field.role}{shape}{about}")
    return "Fields:\n\n" + "\n".join(rows)
