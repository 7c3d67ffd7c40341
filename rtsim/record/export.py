"""Export a table of signals to a file for other programs.

The formats are CSV, Parquet, MATLAB, HDF5, NetCDF and NumPy. Each format stores the exact
double-precision values.
"""

from __future__ import annotations

import csv
import keyword
import re
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from rtsim.core.errors import RecordingError, ScenarioError
from rtsim.core.extension_point import ExtensionPoint
from rtsim.core.extras import extra, needs
from rtsim.record.output_files import atomically
from rtsim.record.table import TIME, TIME_NS, SignalTable

Export = Callable[[SignalTable, Path], object]
"""Function that writes a table to a new file."""
_ROWS = 10_000
_MATLAB_NAME = 63


def to_csv(table: SignalTable, path: Path) -> None:
    """Write one line for each row, with all digits of each double."""
    columns = [table.time, table.ns, *table.columns.values()]
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow([TIME, TIME_NS, *(_titled(table, name) for name in table.columns)])
        for first in range(0, len(table), _ROWS):
            part = [column[first : first + _ROWS].tolist() for column in columns]
            out.writerows(zip(*part, strict=True))


def _titled(table: SignalTable, name: str) -> str:
    unit = table.units.get(name, "")
    return f"{name} [{unit}]" if unit not in ("", "1") else name


def to_parquet(table: SignalTable, path: Path) -> None:
    """Write one column for each signal; metadata contain the units."""
    extra("pyarrow.parquet", "data", "a Parquet file").write_table(table.to_arrow(), path)


def to_numpy(table: SignalTable, path: Path) -> None:
    with path.open("wb") as file:
        arrays: dict[str, Any] = {TIME_NS: table.ns, **_numbers(table)}
        np.savez_compressed(file, **arrays)


def to_matlab(table: SignalTable, path: Path) -> None:
    """Write one vector for each signal, and a table ``names`` with signal names and units."""
    with needs("scipy", "a MATLAB file"):
        from scipy.io import savemat

    taken = {"time_ns", "time", "names"}
    data: dict[str, Any] = {"time_ns": table.ns, "time": table.time}
    names = []
    for name, values in _numbers(table).items():
        variable = matlab_name(name, taken)
        taken.add(variable)
        data[variable] = values
        names.append([variable, name, table.units.get(name, "")])
    data["names"] = np.array(names, dtype=object).reshape(len(names), 3)
    savemat(path, data, appendmat=False, do_compression=True, oned_as="column")


def matlab_name(name: str, taken: Iterable[str]) -> str:
    plain = re.sub(r"\W", "_", name.replace("]", ""), flags=re.ASCII)
    if not plain[:1].isalpha() or keyword.iskeyword(plain):
        plain = f"x_{plain}"
    found = plain[:_MATLAB_NAME]
    for number in count(2):
        if found not in taken:
            return found
        end = f"_no{number}"
        found = plain[: _MATLAB_NAME - len(end)] + end
    raise AssertionError


def to_hdf5(table: SignalTable, path: Path) -> None:
    """Write one dataset for each signal; attributes contain the units."""
    with extra("h5py", "data", "an HDF5 file").File(path, "w") as file:
        file.attrs.update(table.about)
        file.create_dataset(TIME_NS, data=table.ns).attrs["unit"] = "ns"
        for name, values in _numbers(table).items():
            made = file.create_dataset(name.replace("/", "_"), data=values, compression="gzip")
            made.attrs["unit"] = table.units.get(name, "")


def to_netcdf(table: SignalTable, path: Path) -> None:
    """Write one variable for each signal, with the dimension ``time`` and the unit."""
    extra("h5netcdf", "data", "a NetCDF file")
    plain = {name.replace("/", "_"): values for name, values in _numbers(table).items()}
    units = {name.replace("/", "_"): unit for name, unit in table.units.items()}
    dataset = SignalTable(table.ns, plain, units, table.about).to_xarray()
    dataset.to_netcdf(path, engine="h5netcdf")


def _numbers(table: SignalTable) -> dict[str, Any]:
    texts = [name for name, values in table.columns.items() if values.dtype == object]
    if texts:
        raise ScenarioError(
            f"column {texts[0]} contains texts, which this format cannot store; use .csv or "
            ".parquet"
        )
    return dict(table.columns)


def _checked(name: str, made: object) -> Export:
    if name != name.strip(". "):
        raise ScenarioError(
            f"export format {name!r} cannot be chosen: give the suffix without its dot, "
            f"{name.strip('. ')!r}"
        )
    if not callable(made):
        raise ScenarioError(
            f"export format {name!r} is a {type(made).__name__}; expected a function (table, path)"
        )
    return made


EXPORTS: ExtensionPoint[Export] = ExtensionPoint(
    "rtsim.exports",
    "export format",
    {
        "csv": to_csv, "parquet": to_parquet, "mat": to_matlab, "h5": to_hdf5, "nc": to_netcdf,
        "npz": to_numpy,
    },
    _checked,
)  # fmt: skip
"""Export formats by file suffix, without the dot."""


def export(table: SignalTable, path: Path) -> None:
    """Write ``table`` to the file ``path``, whose suffix selects the format.

    An existing file is replaced only when the new file is complete. Raises ``UnknownName`` for an
    unknown suffix, ``ScenarioError`` for a missing package, and ``RecordingError`` if the file
    cannot be written.
    """
    write = EXPORTS.get_or_raise(path.suffix.removeprefix("."), f"the suffix of {path.name}")
    try:
        with atomically(path) as beside:
            write(table, beside)
    except OSError as error:
        why = error.strerror or str(error)
        raise RecordingError(f"cannot write {path}: {why}; give another path") from error
