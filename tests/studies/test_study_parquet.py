"""pandas, Polars and DuckDB read the results of a study as they lie in its folder."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rtsim.studies.designs import Replications, Strata
from rtsim.studies.folder import Folder, StudyError
from rtsim.studies.measures import Row
from rtsim.studies.plan import Orders, Plan
from rtsim.studies.study import Study

VALUES = [0.5, math.inf, math.nan, -1e300, 5e-324, 0.1, 2.0, 3.0]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """Eight runs in two files, not in order; one has failed and one is not a number."""
    study = Study(
        {"plant.x": (0.0, 1.0), "controller": ["a", "b"], "plant.v": [1, 2]},
        Strata("plant.x", at=(0.5,), runs=(4, 4)),
        {"peak": "max:plant.x"},
        requirements=["peak<1"],
    )
    plan = Plan.of(study, "unstable")
    folder, orders = Folder.new(tmp_path / "study", plan), Orders(plan)
    for k in (3, 1, 2, 0, 7, 5, 6, 4):
        if k == 5:
            folder.add(Row(orders[k], "error", "it broke: \u00e4, 'quoted'"))
        else:
            values = {"peak": VALUES[k], "peak.margin": 1.0 - VALUES[k]}
            state = "nan" if math.isnan(VALUES[k]) else "ok"
            folder.add(Row(orders[k], state, "", "end", 1.0, values, "0" * 64))
        if k == 0:
            folder.write()
    folder.write()
    assert len(list((folder.path / "results").iterdir())) == 2
    return folder


def by_pandas(results: Path) -> list[dict[str, Any]]:
    pandas = pytest.importorskip("pandas")
    return pandas.read_parquet(results).to_dict("records")  # type: ignore[no-any-return]


def by_polars(results: Path) -> list[dict[str, Any]]:
    polars = pytest.importorskip("polars")
    return polars.read_parquet(results / "*.parquet").to_dicts()  # type: ignore[no-any-return]


def by_duckdb(results: Path) -> list[dict[str, Any]]:
    duckdb = pytest.importorskip("duckdb")
    found = duckdb.sql(f"select * from '{results}/*.parquet'")
    return [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]


@pytest.mark.parametrize("read", [by_pandas, by_polars, by_duckdb])
def test_the_results_are_one_table(
    folder: Folder, read: Callable[[Path], list[dict[str, Any]]]
) -> None:
    wanted = folder.table().to_pylist()
    found = sorted(read(folder.path / "results"), key=lambda row: row["run"])
    assert [list(row) for row in found] == [folder.schema.names] * 8
    for name in folder.schema.names:
        mine, theirs = ([row[name] for row in rows] for rows in (wanted, found))
        assert _plain(theirs) == _plain(mine), name
    assert [row["peak"] for row in found if row["state"] == "ok"] == [
        0.5,
        math.inf,
        *VALUES[3:5],
        *VALUES[6:],
    ]


def _plain(values: list[Any]) -> list[Any]:
    """Without the difference between a missing value and one that is not a number."""
    return [None if isinstance(v, float) and math.isnan(v) else v for v in values]


def test_a_missing_result_is_null_and_not_a_number(folder: Folder) -> None:
    column = folder.table()["peak"]
    assert column.null_count == 1
    assert int(np.isnan(np.array(column.drop_null())).sum()) == 1


@pytest.mark.parametrize("read", [by_pandas, by_polars, by_duckdb])
def test_numbers_of_64_bits_are_exact(
    tmp_path: Path, read: Callable[[Path], list[dict[str, Any]]]
) -> None:
    plan = Plan.of(Study(design=Replications(50), results={"x": "last:plant.x"}), "unstable")
    folder, orders = Folder.new(tmp_path / "s", plan), Orders(plan)
    for k in range(50):
        folder.add(Row(orders[k], "ok", values={"x": 0.1 * k}))
    folder.write()
    found = {row["run"]: (row["seed"], row["x"]) for row in read(folder.path / "results")}
    assert found == {k: (orders[k].seed, 0.1 * k) for k in range(50)}
    assert max(orders[k].seed for k in range(50)) > 2**52


@pytest.mark.long
def test_reading_results_loads_no_datasets_and_starts_no_threads(folder: Folder) -> None:
    """They would add 10 MB to the memory of a study at its end."""
    program = (
        "import sys\nfrom pathlib import Path\nfrom rtsim.studies import Folder, summarise\n"
        f"folder = Folder.open(Path({str(folder.path)!r}))\n"
        "summarise(folder)\nassert list(folder.left(8)) == []\n"
        "print([name for name in sys.modules if name.startswith('pyarrow.dataset')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


def test_a_file_without_a_column_is_named(folder: Folder) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    path = sorted((folder.path / "results").iterdir())[0]
    parquet.write_table(parquet.read_table(path).drop_columns(["peak"]), path)
    with pytest.raises(StudyError, match=r"part-0+1.parquet cannot .*\(it has no column peak"):
        folder.table()
    assert folder.table("run").num_rows == 8
