"""The variables of an exported model, and its modelDescription.xml for FMI 2.0 and 3.0."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Signal, unit_factors
from rtsim.core.version import __version__


class Kind(IntEnum):
    """The use of a variable; the numbers are those of ``enum kind`` in ``c/model.h``."""

    TIME, COMPUTED, STATE, START, INPUT, DERIVATIVE, INDICATOR = range(7)


SOURCE, NOBODY = -1, -2
"""Owners of a variable that are no plant: a source of a loop, or a component without inputs."""


@dataclass(frozen=True)
class Variable:
    """A scalar variable of an exported model. Its value reference is its position in the list.

    ``place`` is the index of its word in the image, and ``also`` are further words that a new value
    changes. ``owner`` is the number of a plant, ``SOURCE`` or ``NOBODY``. ``state`` is the
    reference of the state of a derivative. ``dependencies`` are references of the variables on
    which the variable depends directly, or ``None`` if they are not known.
    """

    name: str
    kind: Kind
    causality: str
    variability: str
    place: int = 0
    unit: str = "1"
    description: str = ""
    start: float | None = None
    low: float = -math.inf
    high: float = math.inf
    also: tuple[int, ...] = ()
    owner: int = NOBODY
    state: int | None = None
    dependencies: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Description:
    """What modelDescription.xml contains."""

    name: str
    identifier: str
    token: str
    variables: Sequence[Variable]
    """All variables; the first one is the time."""
    exchange: bool
    """True if the FMU supports Model Exchange beside Co-Simulation."""
    step: float
    """The solver step, s."""
    until: float
    text: str = ""
    version: str = field(default=__version__)

    def of(self, *kinds: Kind) -> list[int]:
        """Return the references of all variables of the given kinds."""
        return [i for i, one in enumerate(self.variables) if one.kind in kinds]

    @property
    def outputs(self) -> list[int]:
        return [i for i, one in enumerate(self.variables) if one.causality == "output"]


def elements(signal: Signal) -> list[str]:
    """Return the names of the elements: ``["v"]``, or ``["v[1]", "v[2]"]`` for an array."""
    size = math.prod(signal.shape)
    return [f"{signal.name}[{i + 1}]" for i in range(size)] if signal.shape else [signal.name]


def fmi2(model: Description) -> bytes:
    """Return modelDescription.xml for FMI 2.0."""
    root = _root(model, "2.0", guid=model.token, variableNamingConvention="structured")
    root.set("numberOfEventIndicators", str(len(model.of(Kind.INDICATOR))))
    common = {"modelIdentifier": model.identifier, "canGetAndSetFMUstate": "true",
              "canSerializeFMUstate": "true"}  # fmt: skip
    if model.exchange:
        steps = {} if model.of(Kind.INDICATOR) else {"completedIntegratorStepNotNeeded": "true"}
        ET.SubElement(root, "ModelExchange", common | steps)
    ET.SubElement(root, "CoSimulation", common | _COMMUNICATION)
    _units(root, model)
    _categories(root)
    _experiment(root, model)
    listed = ET.SubElement(root, "ModelVariables")
    for reference, one in enumerate(model.variables):
        scalar = ET.SubElement(listed, "ScalarVariable", _common(one, reference))
        real = _range(one) | ({} if one.start is None else {"start": _number(one.start)})
        if one.unit != "1":
            real["unit"] = one.unit
        if one.state is not None:
            real["derivative"] = str(one.state + 1)
        if initial := _initial(one):
            scalar.set("initial", initial)
        ET.SubElement(scalar, "Real", real)
    structure = ET.SubElement(root, "ModelStructure")
    derivatives = model.of(Kind.DERIVATIVE) if model.exchange else []
    early = [i for i in model.outputs if model.variables[i].kind == Kind.COMPUTED]
    for name, found in (
        ("Outputs", model.outputs),
        ("Derivatives", derivatives),
        ("InitialUnknowns", sorted({*early, *derivatives})),
    ):
        if found:
            part = ET.SubElement(structure, name)
            for i in found:
                known = model.variables[i].dependencies
                unknown = ET.SubElement(part, "Unknown", {"index": str(i + 1)})
                if known is not None and name != "InitialUnknowns":
                    unknown.set("dependencies", " ".join(str(k + 1) for k in known))
    return _text(root)


def fmi3(model: Description) -> bytes:
    """Return modelDescription.xml for FMI 3.0."""
    root = _root(
        model, "3.0", instantiationToken=model.token, variableNamingConvention="structured"
    )
    common = {"modelIdentifier": model.identifier, "canGetAndSetFMUState": "true",
              "canSerializeFMUState": "true"}  # fmt: skip
    if model.exchange:
        # After each step of the importer, the kernel notes the signs of the event indicators.
        steps = {"needsCompletedIntegratorStep": "true"} if model.of(Kind.INDICATOR) else {}
        ET.SubElement(root, "ModelExchange", common | steps)
    step = {"fixedInternalStepSize": _number(model.step)}
    ET.SubElement(root, "CoSimulation", common | _COMMUNICATION | step)
    _units(root, model)
    _categories(root)
    _experiment(root, model)
    listed = ET.SubElement(root, "ModelVariables")
    for reference, one in enumerate(model.variables):
        real = _common(one, reference) | _range(one)
        if one.unit != "1":
            real["unit"] = one.unit
        if one.state is not None:
            real["derivative"] = str(one.state)
        if initial := _initial(one):
            real["initial"] = initial
        if one.start is not None:
            real["start"] = _number(one.start)
        ET.SubElement(listed, "Float64", real)
    structure = ET.SubElement(root, "ModelStructure")
    derivatives = model.of(Kind.DERIVATIVE) if model.exchange else []
    indicators = model.of(Kind.INDICATOR) if model.exchange else []
    early = [i for i in model.outputs if model.variables[i].kind == Kind.COMPUTED]
    for name, found in (
        ("Output", model.outputs),
        ("ContinuousStateDerivative", derivatives),
        ("InitialUnknown", sorted({*early, *derivatives})),
        ("EventIndicator", indicators),
    ):
        for i in found:
            known = model.variables[i].dependencies
            unknown = ET.SubElement(structure, name, {"valueReference": str(i)})
            if known is not None and name != "InitialUnknown":
                unknown.set("dependencies", " ".join(map(str, known)))
    return _text(root)


_COMMUNICATION = {"canHandleVariableCommunicationStepSize": "true"}


def _root(model: Description, version: str, **attributes: str) -> ET.Element:
    head = {"fmiVersion": version, "modelName": model.name, "description": model.text}
    root = ET.Element("fmiModelDescription", {k: v for k, v in head.items() if v} | attributes)
    root.set("generationTool", f"rtsim {model.version}")
    return root


def _categories(root: ET.Element) -> None:
    ET.SubElement(ET.SubElement(root, "LogCategories"), "Category", {"name": "logStatusError"})


def _experiment(root: ET.Element, model: Description) -> None:
    ET.SubElement(
        root,
        "DefaultExperiment",
        {"startTime": "0", "stopTime": _number(model.until), "stepSize": _number(model.step)},
    )


def _common(one: Variable, reference: int) -> dict[str, str]:
    found = {"name": one.name, "valueReference": str(reference), "causality": one.causality,
             "variability": one.variability, "description": one.description}  # fmt: skip
    return {name: value for name, value in found.items() if value}


def _initial(one: Variable) -> str:
    if one.kind in (Kind.STATE, Kind.START):
        return "exact"
    return "calculated" if one.causality in ("output", "local") else ""


def _range(one: Variable) -> dict[str, str]:
    found = {"min": one.low, "max": one.high}
    return {name: _number(value) for name, value in found.items() if math.isfinite(value)}


def _number(value: float) -> str:
    """Return the number as XML Schema writes it."""
    if math.isinf(value):
        return "INF" if value > 0 else "-INF"
    return repr(float(value))


_BASE = {
    "kg": ({"kg": 1}, 1.0), "m": ({"m": 1}, 1.0), "s": ({"s": 1}, 1.0), "A": ({"A": 1}, 1.0),
    "K": ({"K": 1}, 1.0), "mol": ({"mol": 1}, 1.0), "cd": ({"cd": 1}, 1.0),
    "rad": ({"rad": 1}, 1.0), "deg": ({"rad": 1}, math.pi / 180.0),
    "N": ({"kg": 1, "m": 1, "s": -2}, 1.0), "Pa": ({"kg": 1, "m": -1, "s": -2}, 1.0),
    "bar": ({"kg": 1, "m": -1, "s": -2}, 1e5), "J": ({"kg": 1, "m": 2, "s": -2}, 1.0),
    "W": ({"kg": 1, "m": 2, "s": -3}, 1.0), "V": ({"kg": 1, "m": 2, "s": -3, "A": -1}, 1.0),
    "ohm": ({"kg": 1, "m": 2, "s": -3, "A": -2}, 1.0), "Hz": ({"s": -1}, 1.0),
    "ft": ({"m": 1}, 0.3048), "kt": ({"m": 1, "s": -1}, 1852.0 / 3600.0),
    "km": ({"m": 1}, 1000.0), "g": ({"kg": 1}, 0.001), "min": ({"s": 1}, 60.0),
    "h": ({"s": 1}, 3600.0), "%": ({}, 0.01),
}  # fmt: skip
"""Symbols of units: exponents of SI base units, and the factor. A unit with another symbol is
written without base units."""


def _units(root: ET.Element, model: Description) -> None:
    names = sorted({one.unit for one in model.variables} - {"1"})
    if not names:
        return
    listed = ET.SubElement(root, "UnitDefinitions")
    for name in names:
        unit = ET.SubElement(listed, "Unit", {"name": name})
        if (base := base_unit(name)) is not None:
            ET.SubElement(unit, "BaseUnit", base)


def base_unit(unit: str) -> dict[str, str] | None:
    """Return the attributes of the element BaseUnit, or ``None`` for an unknown unit."""
    exponents: dict[str, int] = {}
    factor = 1.0
    try:
        factors = unit_factors(unit)
    except ScenarioError:
        return None
    for symbol, power in factors.items():
        if symbol not in _BASE or power.denominator != 1:
            return None
        base, scale = _BASE[symbol]
        factor *= scale ** int(power)
        for name, n in base.items():
            exponents[name] = exponents.get(name, 0) + n * int(power)
    found = {name: str(n) for name, n in exponents.items() if n}
    return found | ({} if factor == 1.0 else {"factor": _number(factor)})


def _text(root: ET.Element) -> bytes:
    ET.indent(root)
    text: bytes = ET.tostring(root, encoding="UTF-8", xml_declaration=True)
    return text + b"\n"
