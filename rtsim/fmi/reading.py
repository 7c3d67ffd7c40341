"""Read the description of an FMU: its variables as signals of rtsim, and its capabilities."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.extras import needs
from rtsim.core.raised import in_words
from rtsim.core.signals import UNDECLARED, Signal
from rtsim.fmi.archive import digest_of, unpacked
from rtsim.fmi.program import identifier

CO_SIMULATION, MODEL_EXCHANGE = KINDS = ("co-simulation", "model-exchange")
REAL = ("Real", "Float64", "Float32")
WHOLE = {
    "Integer": (-(2**31), 2**31 - 1),
    **{f"Int{n}": (-(2 ** (n - 1)), 2 ** (n - 1) - 1) for n in (8, 16, 32, 64)},
    **{f"UInt{n}": (0, 2**n - 1) for n in (8, 16, 32, 64)},
}
"""Least and greatest value of each integer type."""
SKIPPED = ("Binary", "Clock")
_EXACT = 2**53
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
MOST_ELEMENTS = 1 << 24
"""Greatest number of elements of all arrays, and of event indicators."""


@dataclass(frozen=True)
class Variable:
    """A variable of an FMU.

    ``signal`` describes the variable in rtsim; its name is an identifier made from ``name``, the
    name in the FMU.  ``start`` is a text for a variable of type String.  ``items`` are the names
    and values of an enumeration.
    """

    name: str
    reference: int
    type: str
    signal: Signal
    causality: str
    variability: str
    settable: bool
    start: tuple[float, ...] | str | None
    items: Mapping[str, int]
    nominal: float = 1.0

    def value(self, given: object) -> float | tuple[float, ...]:
        """Return ``given`` as a number; an enumeration also takes the name of an item.

        Raises :class:`UnknownName` for an unknown item, and :class:`ScenarioError` for a value that
        is not a number.
        """
        if isinstance(given, str) and self.items:
            if given not in self.items:
                raise UnknownName("item", given, self.items, self.name)
            return float(self.items[given])
        if isinstance(given, str):
            raise ScenarioError(f"{self.name} is of type {self.type}; give a number")
        try:
            if isinstance(given, Iterable):
                return tuple(map(float, given))
            return float(given)  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            raise ScenarioError(
                f"{self.name} is of type {self.type}, but its value is {given!r}; give numbers"
            ) from None

    @property
    def row(self) -> tuple[int, str, int]:
        """Reference, type and number of elements."""
        return self.reference, self.type, self.signal.size


class Description:
    """The description of the FMU at ``path``, unpacked in ``folder``.

    Raises :class:`ScenarioError` if the file is not an FMU that rtsim can read.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.is_file():
            raise ScenarioError(f"there is no FMU {self.path.absolute()}")
        self.digest = digest_of(self.path)
        self.folder = unpacked(self.path, self.digest)
        with needs("fmi", "an FMU"):
            import fmpy
        try:
            self.xml: Any = fmpy.read_model_description(str(self.folder), validate=True)
        except Exception as error:
            problems = "; ".join(map(str, getattr(error, "problems", [])[:3]))
            if not problems and isinstance(error, IndexError):
                problems = "an index in its ModelStructure is greater than the number of variables"
            raise ScenarioError(
                f"{self.path}: modelDescription.xml is not valid: {problems or in_words(error)}; "
                "report this to the author of the FMU"
            ) from None
        self.version = int(str(self.xml.fmiVersion).partition(".")[0])
        if self.version not in (2, 3):
            raise ScenarioError(
                f"{self.path} is an FMU of FMI {self.xml.fmiVersion}; rtsim reads FMI 2.0 and 3.0, "
                "so export the model again with one of these versions"
            )
        self.skipped: list[str] = []
        """Names of variables of types that rtsim does not read."""
        self.variables = self._read()
        self.by_name = {v.name: v for v in self.variables.values()}

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of FMI that the FMU supports, out of :data:`KINDS`."""
        found = ((CO_SIMULATION, self.xml.coSimulation), (MODEL_EXCHANGE, self.xml.modelExchange))
        return tuple(name for name, one in found if one is not None)

    def part(self, kind: str | None) -> tuple[str, Any]:
        """Return the kind to use and its capabilities; ``None`` prefers co-simulation."""
        if kind is not None and kind not in KINDS:
            raise UnknownName("kind", kind, KINDS, str(self.path))
        if not self.kinds or (kind is not None and kind not in self.kinds):
            raise ScenarioError(
                f"{self.path} does not support {kind or ' or '.join(KINDS)}; "
                f"it supports {', '.join(self.kinds) or 'scheduled execution only'}"
            )
        found = kind or self.kinds[0]
        return found, self.xml.coSimulation if found == CO_SIMULATION else self.xml.modelExchange

    def check_platform(self, identifier: str) -> Path:
        """Return the binary for this computer; raise :class:`ScenarioError` if there is none."""
        import fmpy

        if not _IDENTIFIER.match(identifier):
            raise ScenarioError(
                f"{self.path}: the modelIdentifier {identifier!r} is not an identifier of C, so it "
                "does not name a file in the folder of the FMU"
            )
        # FMI 2.0 has no names for ARM64, so some tools use those of FMI 3.0.
        names = [fmpy.platform_tuple] if self.version == 3 else [fmpy.platform, fmpy.platform_tuple]
        for name in names:
            file: Path = (
                self.folder / "binaries" / name / (identifier + fmpy.sharedLibraryExtension)
            )
            if file.is_file():
                return file
        there = sorted(p.name for p in (self.folder / "binaries").glob("*") if p.is_dir())
        if here := [name for name in names if name in there]:
            found = sorted(p.name for p in (self.folder / "binaries" / here[0]).glob("*"))
            raise ScenarioError(
                f"{self.path}: binaries/{here[0]} contains {', '.join(found) or 'no file'}, but "
                f"the modelIdentifier needs {identifier + fmpy.sharedLibraryExtension}; the file "
                "and the modelIdentifier must have the same name"
            )
        if not there and not (self.folder / "sources").is_dir():
            raise ScenarioError(
                f"{self.path} contains neither binaries nor sources; export the FMU again with a "
                f"binary for {names[0]}"
            )
        raise ScenarioError(
            f"{self.path} has no binary for this computer ({names[0]}); it was built for "
            f"{', '.join(there) or 'no computer (it contains sources only)'}; ask its author for a "
            f"binary, or build one with FMPy: fmpy compile {self.path.name}"
        )

    @property
    def states(self) -> list[Variable]:
        """The continuous states, in the order of the derivatives."""
        out = []
        for unknown in self.xml.derivatives:
            derivative = unknown.variable
            state = None if derivative is None else derivative.derivative
            if state is None:
                raise ScenarioError(
                    f"{self.path}: the derivative {getattr(derivative, 'name', '?')} names no state"
                )
            found = self.by_name[state.name]
            if found.type not in REAL or found.causality in ("input", "parameter"):
                raise ScenarioError(
                    f"{self.path}: {derivative.name} is declared as the derivative of "
                    f"{found.name}, which is no state ({found.type}, {found.causality})"
                )
            out.append(found)
        return out

    def of(self, *causalities: str) -> list[Variable]:
        return [v for v in self.variables.values() if v.causality in causalities]

    def _read(self) -> dict[str, Variable]:
        out: dict[str, Variable] = {}
        self._check_sizes()
        for one in self.xml.modelVariables:
            if one.type in SKIPPED:
                self.skipped.append(one.name)
                continue
            name = identifier(one.name, out)
            out[name] = self._variable(one, name)
        return out

    def _check_sizes(self) -> None:
        sizes = {v.name: math.prod(v.shape or ()) for v in self.xml.modelVariables}
        wrong = [v.name for v in self.xml.modelVariables if any(n < 1 for n in v.shape or ())]
        if wrong:
            raise ScenarioError(
                f"{self.path}: {wrong[0]} is an array without elements; rtsim does not read such "
                "arrays"
            )
        count = sum(sizes.values()) + (self.xml.numberOfEventIndicators or 0)
        if count > MOST_ELEMENTS:
            name = max(sizes, key=sizes.__getitem__, default="")
            raise ScenarioError(
                f"{self.path} declares {count} values; at most {MOST_ELEMENTS} are read. The "
                f"largest variable is {name} with {sizes.get(name, 0)} elements, and "
                f"{self.xml.numberOfEventIndicators or 0} values are event indicators"
            )

    def _variable(self, one: Any, name: str) -> Variable:
        declared = one.declaredType
        items = {} if declared is None else {i.name: int(i.value) for i in declared.items or []}
        shape = tuple(one.shape or ())
        # An alias (FMI 3.0) has the value of another variable, so only that one is set.
        alias = getattr(one, "alias", None) is not None
        causality = "local" if alias and one.causality != "output" else one.causality or "local"
        start = self._start(one, math.prod(shape))
        low, high = self._bounds(one)
        numbers = start if isinstance(start, tuple) else None
        first = UNDECLARED if numbers is None else numbers if shape else numbers[0]
        type_unit = None if declared is None else declared.unit
        unit = one.unit or type_unit or "1"
        signal = Signal(
            name, unit, _signal_type(one.type), shape,
            low=low, high=high, initial=first, description=one.description or "",
        )  # fmt: skip
        variability = one.variability or ("continuous" if one.type in REAL else "discrete")
        initial = one.initial or _default_initial(causality, variability)
        settable = (
            not alias
            and variability != "constant"
            and (causality in ("input", "parameter") or initial in ("exact", "approx"))
        )
        nominal = one.nominal or (declared.nominal if declared is not None else None)
        scale = abs(float(nominal)) if nominal else 1.0
        return Variable(
            one.name, one.valueReference, one.type, signal, causality, variability,
            settable and causality != "structuralParameter", start, items, scale or 1.0,
        )  # fmt: skip

    def _start(self, one: Any, size: int) -> tuple[float, ...] | str | None:
        if one.start is None:
            return None
        if one.type == "String":
            return str(one.start)
        try:
            found = tuple(_number(text, one.type) for text in str(one.start).split())
        except ValueError:
            raise ScenarioError(
                f"{self.path}: the start value {one.start!r} of {one.name} is not a number"
            ) from None
        if len(found) not in (1, size):
            raise ScenarioError(
                f"{self.path}: {one.name} has {size} elements, but {len(found)} start values"
            )
        return found * size if len(found) == 1 else found

    def _bounds(self, one: Any) -> tuple[float, float]:
        declared, low, high = one.declaredType, -math.inf, math.inf
        if one.type in WHOLE:
            low, high = WHOLE[one.type]
            low, high = max(low, -_EXACT), min(high, _EXACT)
        elif one.type == "Boolean":
            return 0.0, 1.0
        given = (one.min, None if declared is None else declared.min)
        low = max([low, *(float(v) for v in given if v is not None)])
        given = (one.max, None if declared is None else declared.max)
        return float(low), float(min([high, *(float(v) for v in given if v is not None)]))


def _number(text: str, type: str) -> float:
    if type == "Boolean":
        return {"true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0}[text.lower()]
    value = float(text)
    if type not in REAL and abs(value) > _EXACT:
        raise ValueError(text)
    return value


def _default_initial(causality: str, variability: str) -> str:
    """Return the default of the attribute ``initial`` (FMI 2.0.4, section 2.2.7)."""
    if causality in ("parameter", "structuralParameter"):
        return "exact"
    if causality in ("local", "output") and variability == "constant":
        return "exact"
    return "calculated"


def _signal_type(type: str) -> str:
    if type in REAL:
        return "float32" if type == "Float32" else "float64"
    if type == "Boolean":
        return "bool"
    if type in ("Enumeration", "Integer", "String"):
        return "int32"
    return type.lower()
