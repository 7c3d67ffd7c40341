"""Tables of other packages: which of them share the memory of a table, and no time repeats."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rtsim import Guard, Model, Scenario, Signals, simulate
from rtsim.record.table import TIME_NS, Side, SignalTable
from rtsim.runs.result import RunResult


def rise(t: float, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
    dx[0] = 1.0


def full(t: float, x: Any, z: Any, u: Any, p: Any, g: Any) -> None:  # noqa: ARG001
    g[0] = x[0] - 0.25


def empty(i: int, t: float, x: Any, z: Any, u: Any, p: Any) -> None:  # noqa: ARG001
    x[0] = 0.0


@pytest.fixture(scope="module")
def result() -> RunResult:
    """A tank that is emptied four times, so that the recording has two values at four times."""
    tank = Model(
        "tank", Signals("level [m]"), rise, guards=(Guard("full", +1),), guard=full, reset=empty
    )
    out = Scenario("tank", until=1.1)
    out.plant("tank", tank, step=0.125)
    out.plant("slow", Model("slow", Signals("x"), rise), step=0.3)
    return simulate(out, compile=False)


def address(values: Any) -> int:
    return int(values.__array_interface__["data"][0])


def test_arrow_polars_and_xarray_share_the_memory_of_the_table(result: RunResult) -> None:
    pytest.importorskip("pyarrow")
    pytest.importorskip("polars")
    pytest.importorskip("xarray")
    table = result.table()
    arrow, polars, xarray = table.to_arrow(), table.to_polars(), table.to_xarray()
    for name, values in {TIME_NS: table.ns, **table.columns}.items():
        assert arrow[name].chunk(0).buffers()[1].address == address(values)
        assert address(polars[name].to_numpy()) == address(values)
        assert address(xarray[name].values) == address(values)
    # pandas keeps columns of one type in one block of memory, which takes one copy
    assert not np.shares_memory(table.to_pandas()["tank.level"].to_numpy(), table["tank.level"])


def test_arrow_tables_go_on_without_a_copy(result: RunResult) -> None:
    pytest.importorskip("pyarrow")
    polars = pytest.importorskip("polars")
    pytest.importorskip("pandas")
    table = result.table()
    arrow = table.to_arrow()
    frame = arrow.to_pandas(split_blocks=True, zero_copy_only=True)
    for name, values in table.columns.items():
        assert address(polars.from_arrow(arrow)[name].to_numpy()) == address(values)
        assert address(frame[name].to_numpy()) == address(values)


def test_a_column_that_is_not_contiguous_is_copied_once() -> None:
    pytest.importorskip("pyarrow")
    values = np.arange(20.0)[::2]
    arrow = SignalTable(np.arange(10), {"x": values}).to_arrow()
    assert arrow["x"].to_numpy().tolist() == values.tolist()


@pytest.mark.parametrize("side", ["+", "-"])
@pytest.mark.parametrize("how", [{}, {"own": True}, {"rate": 7.0}, {"span": (0.25, 0.75)}])
def test_no_index_has_duplicates(result: RunResult, side: Side, how: Any) -> None:
    for package in ("pandas", "polars", "xarray", "pyarrow"):
        pytest.importorskip(package)
    rows = result.recording().tracks["tank"].ns
    assert len(np.unique(rows)) < len(rows)
    made = result.table("tank", "slow", side=side, **how)
    assert made.to_pandas().index.is_unique
    assert made.to_polars()["time [s]"].is_unique().all()
    assert made.to_xarray().indexes["time"].is_unique
    assert len(made.to_arrow()[TIME_NS].unique()) == len(made) > 0
