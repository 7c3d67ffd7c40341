"""Signals as tables: times without repeats, held values, messages by arrival, export and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from rtsim import Fixed, Guard, Model, PythonController, Scenario, Signals, simulate
from rtsim.cli.main import main
from rtsim.components.latency import Loss
from rtsim.core.errors import RecordingError, ScenarioError, UnknownName
from rtsim.core.tag import NS_PER_S
from rtsim.record.export import EXPORTS, export, matlab_name
from rtsim.record.file import FileRecorder
from rtsim.record.table import SignalTable, event_table, message_table
from rtsim.runs.result import RunResult


def grow(t: float, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
    dx[0], dx[1] = 1.0, -2.0


def passed(t: float, x: Any, z: Any, u: Any, p: Any, g: Any) -> None:  # noqa: ARG001
    g[0] = x[0] - 0.25


def back(i: int, t: float, x: Any, z: Any, u: Any, p: Any) -> None:  # noqa: ARG001
    x[0] = -1.0


def law(t: float, u: Any, s: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    y[0] = 10.0 * t


AT_ONCE = Fixed(0.0)


def scenario(latency: Any = AT_ONCE, **transport: Any) -> Scenario:
    """A plant of 10 Hz that is reset at 0.25 s, and a controller of 4 Hz."""
    out = Scenario("tables", until=1)
    body = Model(
        "cart",
        Signals("s [m]", "w [m/s]"),
        grow,
        guards=(Guard("passed", direction=+1),),
        guard=passed,
        reset=back,
    )
    out.plant("cart", body, step=0.1)
    out.plant("slow", Model("slow", Signals("s [m]", "w"), grow), step=0.5)
    out.controller(
        "pilot", PythonController(law, Signals("s [m]"), Signals("stick [deg]")), period=0.25,
        inputs={"s": "cart.s"}, compute=latency, **transport,
    )  # fmt: skip
    return out


@pytest.fixture(scope="module")
def result() -> RunResult:
    return simulate(scenario(Fixed(0.05)))


def test_a_result_gives_signals_by_name_at_common_times(result: RunResult) -> None:
    time = result.time
    assert np.all(np.diff(time) > 0.0)
    assert time[0] == 0.0
    assert time[-1] == 1.0
    for name in ("cart.s", "slow.s", "pilot.stick"):
        assert result[name].shape == time.shape, name
    (event,) = [e for e in result.events if e.source == "cart.passed"]
    at = event.tag.ns
    assert result["cart.s"][result.time_ns == at].tolist() == [-1.0], "after the reset"
    before = result.table("cart.s", side="minus")
    assert before["cart.s"][before.ns == at] == pytest.approx([0.25], abs=1e-8)


@pytest.mark.parametrize(("word", "sign"), [("plus", "+"), ("minus", "-")])
def test_a_side_has_a_word_and_a_sign(result: RunResult, word: Any, sign: Any) -> None:
    named, signed = (result.to_pandas("cart", side=side) for side in (word, sign))
    assert named.index.is_unique
    assert named.equals(signed)
    assert named.equals(result.to_pandas("cart")) is (word == "plus")


def test_every_value_is_the_recorded_one_at_its_own_times(result: RunResult) -> None:
    recording = result.recording()
    own = recording.table("slow", own=True)
    rows = recording.track("slow").rows
    assert own.ns.tolist() == sorted(set(rows.ns.tolist()))
    assert own["slow.s"].tobytes() == rows.floats[-len(own) :, 0].tobytes()
    mixed = recording.table("slow.s", "cart.s", own=True)
    known = ~np.isnan(mixed["slow.s"])
    assert mixed.ns[known].tolist() == own.ns.tolist()
    assert not np.isnan(result["slow.s"]).any(), "held"


@pytest.mark.rule("held-before-arrival")
def test_a_message_counts_from_its_arrival_and_is_its_initial_value_before(
    result: RunResult,
) -> None:
    time, stick = result.time, result["pilot.stick"]
    assert set(stick[time < 0.05]) == {0.0}
    assert (time < 0.05).any()
    assert stick[time == 0.1].tolist() == [0.0]
    assert stick[(time >= 0.3) & (time < 0.55)].tolist() == [2.5] * 3
    table = result.messages["pilot"]
    assert (table["arrival"] - table["initiated"]).tolist() == [50_000_000] * len(table)
    assert set(result.messages) == {"pilot", "pilot.inputs"}


def test_lost_messages_leave_the_initial_value() -> None:
    result = simulate(scenario(transport=Loss(Fixed(0.0), 1.0)))
    assert set(result["pilot.stick"]) == {0.0}
    assert len(result.messages["pilot"]) == 4 + 1


def test_a_rate_gives_a_grid_and_a_span_its_ends(result: RunResult) -> None:
    table = result.recording().table("cart", "pilot", rate=40.0, span=(0.1, "0.9"))
    assert table.ns.tolist() == [100_000_000 + k * 25_000_000 for k in range(33)]
    at = result.recording().table("cart", span=(0.3, 0.3))
    assert at.ns.tolist() == [300_000_000]
    assert table["cart.s"][8] == at["cart.s"][0]
    third = result.recording().table(rate=3.0).ns
    assert third.tolist() == [round(k * NS_PER_S / 3) for k in range(4)]


@pytest.mark.parametrize(
    ("names", "how", "says"),
    [
        (["cart.z"], {}, "did you mean cart"),
        (["cat"], {}, "cart"),
        (["*.zz"], {}, "unknown signal"),
        ([], {"side": "both"}, r"side of an instant 'both'; known: plus, \+, minus"),
        ([], {"side": None}, "side of an instant 'None'"),
        ([], {"rate": 0.0}, "rate of 0 Hz"),
        ([], {"rate": float("nan")}, "impossible"),
        ([], {"span": (2, 1)}, "give the earlier"),
        ([], {"rate": 1e9}, "rows"),
    ],
)
def test_wrong_requests_are_named(
    result: RunResult, names: list[str], how: dict[str, Any], says: str
) -> None:
    with pytest.raises(ScenarioError, match=says):
        result.recording().table(*names, **how)


def test_patterns_choose_signals_in_the_order_of_the_recording(result: RunResult) -> None:
    table = result.recording().table("pilot.stick", "*.s")
    assert list(table.columns) == ["cart.s", "slow.s", "pilot.stick", "pilot.inputs.s"]
    assert table.units["pilot.stick"] == "deg"


def test_pandas_polars_xarray_and_arrow_hold_the_same_numbers(result: RunResult) -> None:
    table = result.recording().table()
    frame, other, dataset, arrow = (
        result.to_pandas(), result.to_polars(), result.to_xarray(), result.to_arrow(),
    )  # fmt: skip
    assert frame.index.is_unique
    assert frame.index.is_monotonic_increasing
    for name, values in table.columns.items():
        wanted = values.tobytes()
        assert frame[name].to_numpy().tobytes() == wanted
        assert other[name].to_numpy().tobytes() == wanted
        assert dataset[name].to_numpy().tobytes() == wanted
        assert arrow[name].to_numpy().tobytes() == wanted
    assert frame.attrs["units"]["cart.s"] == dataset["cart.s"].attrs["units"] == "m"
    assert arrow.schema.field("cart.s").metadata == {b"unit": b"m"}
    assert "s [s]" not in frame
    assert frame.index.name == "time [s]"


def test_an_arrow_column_is_the_array_itself(result: RunResult) -> None:
    table = result.recording().table()
    arrow = table.to_arrow()["cart.s"].chunk(0)
    assert arrow.buffers()[1].address == table["cart.s"].ctypes.data


def read(path: Path) -> dict[str, Any]:
    """Return the columns of an exported file with the library that reads it elsewhere."""
    kind = path.suffix
    if kind == ".csv":
        import polars

        return {n.split(" [")[0]: v.to_numpy() for n, v in polars.read_csv(path).to_dict().items()}
    if kind == ".parquet":
        import polars

        return {n: v.to_numpy() for n, v in polars.read_parquet(path).to_dict().items()}
    if kind == ".npz":
        return dict(np.load(path))
    if kind == ".h5":
        import h5py  # type: ignore[import-untyped,unused-ignore]

        with h5py.File(path) as file:
            return {name: file[name][()] for name in file}
    if kind == ".nc":
        import xarray

        with xarray.open_dataset(path, engine="h5netcdf", decode_times=False) as data:
            return {str(name): data[name].to_numpy() for name in data.variables}
    from scipy.io import loadmat

    found = loadmat(path, squeeze_me=True)
    names = {row[1]: row[0] for row in found["names"].tolist()}
    return {name: found[plain] for name, plain in names.items()} | {"time_ns": found["time_ns"]}


def test_the_suffix_of_a_format_has_no_dot() -> None:
    with pytest.raises(ScenarioError, match=r"'\.feather' cannot be chosen.* its dot, 'feather'"):
        EXPORTS.add(".feather", lambda table, path: None)  # noqa: ARG005
    assert ".feather" not in EXPORTS


@pytest.mark.parametrize("suffix", sorted(EXPORTS))
def test_an_exported_file_holds_every_bit(suffix: str, tmp_path: Path) -> None:
    values = np.array([0.1, -0.0, 5e-324, 1.7976931348623157e308, np.inf, -np.inf, np.nan])
    table = SignalTable(
        np.arange(7) * 10**17, {"a.b[0]": values, "a.b_0": values[::-1], "a.n": np.arange(7)},
        {"a.b[0]": "m/s"}, {"scenario": "x"},
    )  # fmt: skip
    path = tmp_path / f"x.{suffix}"
    export(table, path)
    back = read(path)
    assert np.asarray(back["time_ns"]).tolist() == table.ns.tolist()
    for name, wanted in table.columns.items():
        assert np.asarray(back[name], wanted.dtype).tobytes() == wanted.tobytes(), name
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_names_for_matlab_are_unique_and_short() -> None:
    assert matlab_name("f16.position[0]", []) == "f16_position_0"
    assert matlab_name("a.b", ["a_b"]) == "a_b_no2"
    assert matlab_name("1.x", []) == "x_1_x"
    long = "a" * 80
    assert matlab_name(long, [long[:63]]) == "a" * 59 + "_no2"


def test_events_become_a_table(result: RunResult) -> None:
    frame = event_table(result.events).to_pandas()
    assert list(frame["kind"]) == [e.kind for e in result.events]
    assert list(frame.columns) == ["step", "kind", "source", "text"]


def test_texts_are_refused_where_a_format_has_none(tmp_path: Path) -> None:
    table = SignalTable(np.arange(1), {"kind": np.array(["Guard"], object)})
    with pytest.raises(ScenarioError, match="contains texts"):
        export(table, tmp_path / "x.h5")
    assert list(tmp_path.iterdir()) == []
    export(table, tmp_path / "x.csv")


def test_a_run_without_a_recording_says_so() -> None:
    result = simulate(scenario(), record=False)
    with pytest.raises(RecordingError, match="was not recorded"):
        result["cart.s"]
    assert result.final("cart.s") == simulate(scenario()).final("cart.s")


def test_reprs_are_short_and_say_what_it_is(result: RunResult) -> None:
    recording = result.recording()
    for shown in (repr(result), repr(recording), repr(recording.table())):
        assert len(shown) < 300
        assert "\n" not in shown
    assert "end at 1" in repr(result)
    for shown in (result._repr_html_(), recording._repr_html_(), recording.table()._repr_html_()):
        assert shown.startswith(("<table", "<div"))
        assert len(shown) < 10_000


def test_a_plot_has_one_row_for_each_unit(result: RunResult) -> None:
    figure = result.plot("cart", "pilot.stick")
    assert [line.name for line in figure.data] == ["cart.s", "cart.w", "pilot.stick"]
    assert [line.yaxis for line in figure.data] == ["y", "y2", "y3"]
    assert figure.layout.yaxis3.title.text == "deg"


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    path = tmp_path / "run.mcap"
    simulate(scenario(Fixed(0.05)), recorder=FileRecorder(path))
    return path


def test_the_command_writes_signals_and_messages(recorded: Path, tmp_path: Path) -> None:
    run = CliRunner().invoke
    out = tmp_path / "x.csv"
    done = run(main, ["export", str(recorded), "-o", str(out), "-s", "cart", "--to", "0.2"])
    assert done.exit_code == 0, done.output
    assert out.read_text().splitlines()[0] == "time [s],time_ns,cart.s [m],cart.w [m/s]"
    assert len(out.read_text().splitlines()) == 5
    again = run(main, ["export", str(recorded), "-o", str(out)])
    assert again.exit_code == 2
    assert "--force" in again.output
    command = ["export", str(recorded), "-o", str(out), "--messages", "pilot", "--force", "--json"]
    done = run(main, command)
    assert done.exit_code == 0, done.output
    assert '"rows": 4' in done.output
    assert "arrival" in out.read_text()


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["-o", "x.xls"], "known: csv, .*, pftrace"),
        (["-o", "x.csv", "-s", "cart.q"], "unknown signal"),
        (["-o", "x.csv", "--from", "5"], "ends at 1 s"),
        (["-o", "x.csv", "--from", "2", "--to", "3"], "ends at 1 s"),
        (["-o", "x.csv", "--messages", "nobody"], "port with messages"),
        (["-o", "x.csv", "--messages", "pilot", "--rate", "3"], "leave"),
        (["-o", "missing/x.csv"], "cannot write"),
    ],
)
def test_the_command_names_what_is_wrong(
    options: list[str], says: str, recorded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import re

    monkeypatch.chdir(recorded.parent)
    done = CliRunner().invoke(main, ["export", str(recorded), *options])
    assert done.exit_code == 2, done.output
    assert re.search(says, done.output), done.output
    assert [p.name for p in recorded.parent.iterdir()] == [recorded.name]


def test_unknown_columns_and_ports_are_named(result: RunResult) -> None:
    with pytest.raises(UnknownName, match=r"cart\.s"):
        result.recording().table("cart")["cart.a"]
    with pytest.raises(UnknownName, match="pilot"):
        message_table(result.recording(), "pilo")
