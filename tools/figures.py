"""Make the figures that are NASA's anew, from NASA's own files: ``python -m tools.figures FOLDER``.

FOLDER holds, anywhere below it, the files of the check cases of NASA/TM-2015-218675: the time
histories ``Atmos_*_sim_*.csv`` and the aircraft ``F16_*.dml``.  Figures are written to the folder
that the tests read, tests/reference/figures; ``git diff`` then says whether they were as published.

The control law and the guidance have no published check shots.  Their definitions are evaluated as
they are written; the inputs, which are ours, stay as they stand in the files.
"""

from __future__ import annotations

import csv
import math
import operator
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import click

FIGURES = Path(__file__).resolve().parents[1] / "tests/reference/figures"
_ALTITUDE = ("altitudeMsl_ft",)
_ATTITUDE = ("eulerAngle_deg_Yaw", "eulerAngle_deg_Pitch", "eulerAngle_deg_Roll")
_F16 = (*_ALTITUDE, *_ATTITUDE, "trueAirspeed_nmi_h")
TRAJECTORIES = {  # case and simulation: the columns that tests compare with
    "01_sim_04": _ALTITUDE,
    "02_sim_04": (*_ALTITUDE, *_ATTITUDE),
    "03_sim_04": (*_ALTITUDE, *_ATTITUDE),
    "06_sim_04": (*_ALTITUDE, "speedOfSound_ft_s", "airDensity_slug_ft3"),
    "11_sim_05": _F16,
    "13p1_sim_05": (*_F16, *(f"feVelocity_ft_s_{axis}" for axis in "XYZ")),
    "15_sim_05": _F16,
}
_AXES = ("Roll", "Pitch", "Yaw")
COEFFICIENTS = (
    *(f"aeroBodyForceCoefficient_{axis}" for axis in "XYZ"),
    *(f"aeroBodyMomentCoefficient_{axis}" for axis in _AXES),
)
SHOTS = {"aero": COEFFICIENTS, "prop": ("thrustBodyForce_X",)}
_SURFACES = ("el", "ail", "rdr", "PWR")
ANSWERS = {  # a file of ours: the definition, and what to ask it
    "f16_law.csv": ("F16_control.dml", _SURFACES),
    "f16_law_gains.csv": ("F16_control.dml", _SURFACES),
    "f16_guidance.csv": ("F16_gnc.dml", ("latOffset", "baseChiCmd")),
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "plus": lambda *a: reduce(operator.add, a),
    "minus": lambda *a: -a[0] if len(a) == 1 else a[0] - a[1],
    "times": lambda *a: reduce(operator.mul, a),
    "divide": operator.truediv,
    "power": operator.pow,
    "abs": abs,
    "cos": math.cos,
    "atan2": math.atan2,
    "lt": operator.lt,
    "gt": operator.gt,
    "or": lambda *a: any(a),
}


class Definition:
    """The variables of a DAVE-ML file without tables, by ``varID``; knows no law of rtsim."""

    def __init__(self, root: ET.Element) -> None:
        self.constants: dict[str, float] = {}
        self._formulas: dict[str, ET.Element] = {}
        self._limits: dict[str, tuple[float, float]] = {}
        for variable in (e for e in root if _kind(e) == "variableDef"):
            name, attributes = variable.attrib["varID"], variable.attrib
            if "initialValue" in attributes:
                self.constants[name] = float(attributes["initialValue"])
            for child in variable:
                if _kind(child) == "calculation":
                    self._formulas[name] = child[0][0]
            low, high = attributes.get("minValue", "-inf"), attributes.get("maxValue", "inf")
            self._limits[name] = float(low), float(high)

    def evaluate(self, given: Mapping[str, float], *wanted: str) -> list[float]:
        """Each of ``wanted``, in the file's units; what is given is not computed."""
        known: dict[str, float] = {}

        def value(name: str) -> float:
            if name not in known:
                if name in given:
                    raw = given[name]
                elif name in self._formulas:
                    raw = expression(self._formulas[name])
                else:
                    raw = self.constants[name]
                low, high = self._limits[name]
                known[name] = min(max(raw, low), high)
            return known[name]

        def expression(node: ET.Element) -> Any:
            kind, text = _kind(node), (node.text or "").strip()
            if kind == "ci":
                return value(text)
            if kind == "cn":
                return float(text)
            if kind == "piecewise":
                *pieces, otherwise = node
                chosen = (piece[0] for piece in pieces if expression(piece[1]))
                return expression(next(chosen, otherwise[0]))
            first, *arguments = node  # <apply>: an operator, or a piecewise on its own
            if _kind(first) == "piecewise":
                return expression(first)
            function = (first.text or "").strip() or _kind(first)  # <csymbol> says it as text
            return _FUNCTIONS[function](*map(expression, arguments))

        return [value(name) for name in wanted]


def _kind(node: ET.Element) -> str:
    return node.tag.rpartition("}")[2]


def trajectory(path: Path, columns: tuple[str, ...]) -> Iterator[list[str]]:
    """A heading, then ``columns`` at every published time, digit for digit.

    The published times are multiples of 0.1 s in single precision.
    """
    with path.open(newline="", encoding="utf-8") as lines:
        yield ["time", *columns]
        for row in csv.DictReader(lines):
            yield [str(round(float(row["time"]), 1)), *(row[name] for name in columns)]


def check_shots(root: ET.Element, wanted: tuple[str, ...]) -> Iterator[list[str]]:
    """A heading, then each shot of ``checkData``: name, inputs, ``wanted`` outputs, tolerance."""
    heading: list[str] = []
    for shot in (e for e in root.iter() if _kind(e) == "staticShot"):
        groups = {_kind(group): [_signal(signal) for signal in group] for group in shot}
        inputs, outputs = groups["checkInputs"], groups["checkOutputs"]
        kept = [signal for signal in outputs if signal["signalName"] in wanted]
        if not heading:
            heading = [signal["signalName"] for signal in inputs + kept]
            yield ["name", *heading, "tol"]
        values = [signal["signalValue"] for signal in inputs + kept]
        yield [shot.attrib["name"], *values, max((signal["tol"] for signal in kept), key=float)]


def tables(root: ET.Element) -> Iterator[list[str]]:
    """A line for each table: its name, what it is over, its breakpoints; then its rows.

    A row begins with its own breakpoint, and with nothing where the table is over one variable.
    Digits are as published.
    """
    points = {e.attrib["bpID"]: _values(e) for e in root.iter() if _kind(e) == "breakpointDef"}
    for table in (e for e in root.iter() if _kind(e) == "griddedTableDef"):
        over = [e.attrib["bpID"] for e in table.iter() if _kind(e) == "bpRef"]
        columns, values = points[over[-1]], _values(table)
        rows = points[over[0]] if len(over) > 1 else [""]
        if len(values) != len(rows) * len(columns):
            raise ValueError(f"{table.attrib['name']} has {len(values)} values over {over}")
        yield [table.attrib["name"], " ".join(over), *columns]
        for k, row in enumerate(rows):
            yield ["", row, *values[k * len(columns) : (k + 1) * len(columns)]]


def _values(node: ET.Element) -> list[str]:
    """The numbers of a list of breakpoints, or of a table."""
    wanted = ("bpVals", "dataTable")
    text = "".join("".join(e.itertext()) for e in node.iter() if _kind(e) in wanted)
    return text.replace(",", " ").split()


def _signal(node: ET.Element) -> dict[str, str]:
    return {_kind(child): (child.text or "").strip() for child in node}


def answers(path: Path, definition: Definition, wanted: tuple[str, ...]) -> Iterator[list[str]]:
    """The inputs of ``path`` as they stand, and what the definition says to 15 digits."""
    with path.open(newline="", encoding="utf-8") as lines:
        rows = csv.DictReader(lines)
        inputs = [name for name in rows.fieldnames or () if name not in wanted]
        yield [*inputs, *wanted]
        for row in rows:
            given = {name: float(row[name]) for name in inputs}
            found = definition.evaluate(given, *wanted)
            yield [*(row[name] for name in inputs), *(f"{value:.15g}" for value in found)]


def _write(name: str, rows: Iterable[Sequence[str]]) -> None:
    rows = list(rows)  # they may come from the file that is written
    with (FIGURES / name).open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
def main(folder: Path) -> None:
    """Make the figures that are NASA's anew, from NASA's files in FOLDER."""

    def find(name: str) -> Path:
        found = sorted(folder.rglob(name))
        if not found:
            raise click.UsageError(f"no {name} below {folder}")
        return found[0]

    def root(name: str) -> ET.Element:
        return ET.parse(find(name)).getroot()

    for name, columns in TRAJECTORIES.items():
        _write(f"nesc_{name}.csv", trajectory(find(f"Atmos_{name}.csv"), columns))
    for part, wanted in SHOTS.items():
        _write(f"f16_{part}_shots.csv", check_shots(root(f"F16_{part}.dml"), wanted))
        _write(f"f16_{part}_tables.csv", tables(root(f"F16_{part}.dml")))
    for name, (file, wanted) in ANSWERS.items():
        _write(name, answers(FIGURES / name, Definition(root(file)), wanted))
    constants = Definition(root("F16_control.dml")).constants
    gains = ((name, repr(value)) for name, value in constants.items() if name not in _SURFACES)
    _write("f16_gains.csv", [("name", "value"), *gains])
    click.echo(f"written to {FIGURES}")


if __name__ == "__main__":
    main()
