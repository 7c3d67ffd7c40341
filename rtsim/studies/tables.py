"""Tables of a study in the format of pyarrow: their columns, and one file of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import ScenarioError
from rtsim.studies.plan import Plan


def pyarrow() -> Any:
    """Return the module; raises :class:`ScenarioError` if the extra ``study`` is not installed."""
    try:
        import pyarrow as module
        import pyarrow.compute
        import pyarrow.parquet
    except ImportError as error:
        raise ScenarioError(
            f"studies need pyarrow, which cannot be imported ({error}); type "
            "pip install 'rtsim[study]'"
        ) from None
    return module


_KEY = b"rtsim"
"""The key of rtsim in the metadata of a file."""


def column_digests(table: Any) -> dict[str, str]:
    """Return the SHA-256 of each column of a pyarrow table, as 64 hex digits, by its name."""
    return {name: _digest(table[name].combine_chunks()) for name in table.column_names}


def _digest(column: Any) -> str:
    arrow = pyarrow()
    out = hashlib.sha256(f"{len(column)}\n".encode())
    if arrow.types.is_list(column.type):
        out.update(json.dumps(column.value_lengths().to_pylist()).encode())
        column = column.flatten()
    out.update(f"{column.type}\n".encode())
    if column.type in (arrow.float64(), arrow.int64(), arrow.int32()):
        out.update(np.asarray(column.is_valid()).tobytes())
        out.update(np.ascontiguousarray(column.fill_null(0).to_numpy()).tobytes())
    else:
        out.update(json.dumps(column.to_pylist()).encode())
    return out.hexdigest()


def sealed(table: Any, about: Mapping[str, str]) -> Any:
    """Return the table with ``about`` and the digests of its columns in its metadata."""
    seal = {**about, "columns": column_digests(table)}
    return table.replace_schema_metadata({_KEY: json.dumps(seal)})


def broken_seal(table: Any, about: Mapping[str, str]) -> str:
    """Return in which way a table that was read is not what :func:`sealed` made; empty if it is.

    ``table`` may have some of the columns only.
    """
    try:
        seal = json.loads((table.schema.metadata or {})[_KEY])
        columns = dict(seal["columns"])
    except (KeyError, ValueError, TypeError):
        return "it has no checksums of rtsim"
    for key, value in about.items():
        if seal.get(key) != value:
            return f"its {key} is {seal.get(key)}, but expected is {value}"
    for name, digest in column_digests(table).items():
        if columns.get(name) != digest:
            return f"the checksum of its column {name} is wrong"
    return ""


def read(path: Path, columns: list[str]) -> Any:
    """Return columns of one file as a pyarrow table; raises what pyarrow raises.

    One thread reads the file as it is.  ``pyarrow.parquet.read_table`` would load pyarrow's
    datasets and start a pool of threads, which takes 10 MB.
    """
    arrow = pyarrow()
    with arrow.parquet.ParquetFile(path) as file:
        table = file.read(columns=columns, use_threads=False)
    if missing := [name for name in columns if name not in table.column_names]:
        raise arrow.ArrowInvalid(f"it has no column {', '.join(missing)}")
    return table.select(columns)


def array_of(column: Any) -> NDArray[Any]:
    """Return a column as an array in which equal texts are one object."""
    if str(column.type) != "string" or column.null_count:
        return np.asarray(column)
    found = column.combine_chunks().dictionary_encode()
    texts = np.array([*found.dictionary.to_pylist(), None], dtype=np.object_)[:-1]
    return np.asarray(texts[found.indices.to_numpy()])


def schema_of(plan: Plan) -> Any:
    """Return the columns of the results of a study, as a pyarrow schema."""
    arrow = pyarrow()
    kinds = {
        "run": arrow.int64(), "seed": arrow.int64(), "state": arrow.string(),
        "cause": arrow.string(), "reason": arrow.string(), "ended_s": arrow.float64(),
        "attempts": arrow.int32(), "wall_s": arrow.float64(), "digest": arrow.string(),
        "sources": arrow.string(), "sources_sha256": arrow.string(),
    }  # fmt: skip
    first = plan.example
    for name, values in {**first.marks, **first.values}.items():
        kind = np.asarray(values).dtype.kind
        kinds[name] = {"b": arrow.bool_(), "i": arrow.int64(), "f": arrow.float64()}.get(
            kind, arrow.string()
        )
    for name in (*plan.results, *plan.margins):
        kinds[name] = arrow.float64()
    return arrow.schema(list(kinds.items()))
