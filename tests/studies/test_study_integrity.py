"""A folder of a study that was damaged, edited, or left by a process that ended too early."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from mcap.writer import Writer
from study_commands import parsed, rtsim
from study_samples import made_up, x_of

from rtsim.core.errors import RecordingError, RtsimError
from rtsim.record.file import FileRecorder
from rtsim.record.output_files import MAGIC
from rtsim.record.reading import Recording
from rtsim.studies import Last, MonteCarlo, Study, resume, start, summarise
from rtsim.studies import folder as folder_module
from rtsim.studies.folder import Folder, StudyError, ranges, ranges_text
from rtsim.studies.folder import read as read_part
from rtsim.studies.plan import Plan

STUDY = Study(
    factors={"plant.x": (0.5, 1.0)},
    design=MonteCarlo(28),
    results={"x": Last("plant.x")},
    requirements=["x < 1"],
    until=0.1,
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """Four files of seven runs each; every run passes."""
    monkeypatch.chdir(tmp_path)
    return made_up("out", STUDY, x_of)


@pytest.mark.parametrize("words", [("show",), ("report",)], ids=["show", "report"])
@pytest.mark.usefixtures("folder")
def test_a_command_reads_each_column_once(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[tuple[Path, str]] = []

    def read(path: Path, columns: list[str]) -> Any:
        found.extend((path, name) for name in columns)
        return read_part(path, columns)

    monkeypatch.setattr(folder_module, "read", read)
    assert rtsim(*words, "out").exit_code == 0
    assert len({path for path, _ in found}) == 4
    assert len(found) == len(set(found))


def test_columns_are_kept_within_a_pass_only(folder: Folder) -> None:
    with folder.read_once():
        assert folder.table("x").num_rows == folder.table("run", "x").num_rows == 28
    rewritten(part(1), lambda table: with_value(table, "x", 0, 0.25))
    with pytest.raises(StudyError, match="the checksum of its column x is wrong"):
        folder.table("x")


def part(number: int) -> Path:
    return Path(f"out/results/part-{number:06d}.parquet")


def rewritten(path: Path, change: Callable[[Any], Any]) -> None:
    """Write a file again with other rows, and with the checksums that it had."""
    table = pyarrow.parquet.read_table(path)
    pyarrow.parquet.write_table(change(table).replace_schema_metadata(table.schema.metadata), path)


def with_value(table: Any, name: str, row: int, value: object) -> Any:
    values = table[name].to_pylist()
    values[row] = value
    at = table.schema.get_field_index(name)
    return table.set_column(at, table.schema.field(name), [pyarrow.array(values, table[name].type)])


def refused() -> str:
    """Return why the study is not shown; both commands then say that nothing is decided."""
    with pytest.raises(RtsimError) as raised:
        summarise(Folder.open(Path("out")))
    for words in (("show", "out", "--json"), ("report", "out", "--json"), ("resume", "out")):
        assert rtsim(*words).exit_code == 2
    return str(raised.value)


def test_a_file_that_was_stored_twice_is_no_result(folder: Folder) -> None:
    shutil.copy(part(1), part(2))
    assert "its name is results/part-000001.parquet" in refused()
    part(2).unlink()
    result = parsed(rtsim("show", "out", "--json"))
    assert (result["exit_status"], result["missing"]) == (2, [[7, 13]])
    assert "7 of 28 runs are missing: 7 to 13" in result["why"]
    shutil.copy(part(1), part(9))
    assert "part-000009.parquet" in refused()
    assert folder.path == Path("out")


@pytest.mark.parametrize(("name", "value"), [("x", 0.1), ("state", "nan"), ("run", 2), ("seed", 1)])
def test_an_edited_value_is_found(folder: Folder, name: str, value: object) -> None:
    rewritten(part(3), lambda table: with_value(table, name, 3, value))
    assert f"the checksum of its column {name} is wrong" in refused()
    assert folder.path == Path("out")


def test_a_file_without_checksums_is_refused(folder: Folder) -> None:
    table = pyarrow.parquet.read_table(part(1)).replace_schema_metadata({})
    pyarrow.parquet.write_table(table, part(1))
    assert "no checksums" in refused()
    assert folder.path == Path("out")


def test_no_damaged_byte_gives_another_result(folder: Folder) -> None:
    whole, wanted = part(2).read_bytes(), folder.table().to_pylist()
    silent = 0
    for at in range(0, len(whole), max(1, len(whole) // 150)):
        damaged = bytearray(whole)
        damaged[at] ^= 0x55
        part(2).write_bytes(damaged)
        with suppress(StudyError):
            assert Folder.open(Path("out")).table().to_pylist() == wanted, at
            silent += 1
    assert silent < 100  # bytes that no value depends on, such as statistics


def test_runs_with_two_rows_are_named(folder: Folder) -> None:
    """Two processes can write to a file system without locks."""
    other = Folder.open(Path("out"))
    rows = pyarrow.parquet.read_table(part(1))
    arrays = {name: rows[name].combine_chunks() for name in rows.column_names}
    other._store(part(5), arrays)
    text = refused()
    assert "a second row" in text
    assert "0 to 6" in text
    assert "part-000005.parquet" in text
    assert folder.path == Path("out")


@pytest.mark.parametrize(
    "edit",
    [
        lambda plan: plan["job"]["requirements"][0].update(below=0.1),
        lambda plan: plan["job"]["results"]["x"].update(reduction="max"),
        lambda plan: plan["design"].update(runs=7),
        lambda plan: plan.update(seed=3),
        lambda plan: plan.pop("digest"),
    ],
)
def test_an_edited_plan_is_refused(folder: Folder, edit: Callable[[Any], Any]) -> None:
    path = folder.path / "plan.json"
    plan = json.loads(path.read_text())
    edit(plan)
    path.write_text(json.dumps(plan))
    assert "was changed after the study began" in refused()


def test_a_plan_of_another_study_is_refused(folder: Folder, tmp_path: Path) -> None:
    other = Study(STUDY.factors, STUDY.design, STUDY.results, ["x < 0.0001"], until=0.1)
    Folder.new(tmp_path / "other", Plan.of(other, "unstable"))
    shutil.copy(tmp_path / "other/plan.json", folder.path / "plan.json")
    assert "its plan is" in refused()


def test_margins_are_those_of_the_stored_results(folder: Folder) -> None:
    def with_margins(table: Any) -> Any:
        for row in range(7):
            table = with_value(table, "x.margin", row, 1.0)
        return table

    part(1).unlink()
    rows = pyarrow.parquet.read_table(part(2))
    doctored = with_margins(rows)
    folder._store(part(2), {n: doctored[n].combine_chunks() for n in doctored.column_names})
    table = Folder.open(Path("out")).table("x", "x.margin").to_pylist()
    assert all(row["x.margin"] == 1.0 - row["x"] for row in table)


def test_the_digest_is_that_of_the_rows_in_any_order(folder: Folder, tmp_path: Path) -> None:
    other = Folder.new(tmp_path / "other", folder.plan)
    rows = pyarrow.concat_tables([pyarrow.parquet.read_table(part(k)) for k in (3, 1, 4, 2)])
    slow = rows.set_column(
        rows.schema.get_field_index("wall_s"), "wall_s", [pyarrow.array([9.0] * 28)]
    )
    arrays = {name: slow[name].combine_chunks() for name in slow.column_names}
    other._store(other.path / "results/part-000001.parquet", arrays)
    assert other.digest == folder.digest == summarise(folder)["digest"]
    whole = folder.digest
    assert f"digest: {whole}" in rtsim("show", "out").output
    part(1).unlink()
    assert folder.digest != whole


def test_histories_have_checksums_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    study = replace(STUDY, histories=["plant.x"])
    folder = made_up("out", study, x_of, history=lambda _, t: t)
    first = Path("out/histories/part-000001.parquet")
    assert sum(len(runs) for runs, _ in folder.histories("plant.x")) == 28
    shutil.copy(first, first.with_name("part-000002.parquet"))
    with pytest.raises(StudyError, match="its name is histories/part-000001"):
        list(folder.histories("plant.x"))


def test_the_end_of_a_search_is_sealed(folder: Folder) -> None:
    folder.end(folder_module.Ended(28, "miss"))
    assert folder.ended == (28, "miss")
    path = folder.path / "ended.json"
    path.write_text(path.read_text().replace("28", "7"))
    with pytest.raises(StudyError, match=r"ended.json cannot be read \(its digest is wrong\)"):
        _ = folder.ended


def test_ranges_of_runs() -> None:
    assert ranges([0, 1, 2, 5, 7, 8]) == [(0, 2), (5, 5), (7, 8)]
    assert ranges_text(ranges([0, 1, 2, 5])) == "0 to 2, 5"
    assert ranges_text(ranges(range(0, 20, 2))) == "0, 2, 4, 6, 8, ..."


@pytest.mark.parametrize(
    "left", [(), ("results/",), ("results/", ".plan.json.77.tmp"), ("results/", "lock")], ids=repr
)
def test_what_a_killed_start_leaves_can_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("out").mkdir()
    for name in left:
        Path("out", name).mkdir() if name.endswith("/") else Path("out", name).write_text("{")
    with pytest.raises(StudyError, match="start it again with rtsim study"):
        resume("out")
    done = start("unstable", "out", STUDY)
    assert summarise(done)["states"]["ok"] == 28
    assert not list(Path("out").glob(".*"))


def test_a_folder_with_other_files_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("out/results").mkdir(parents=True)
    Path("out/results/mine.txt").touch()
    with pytest.raises(StudyError, match="exists already"):
        start("unstable", "out", STUDY)


@pytest.mark.parametrize("full_at", range(8))
def test_a_full_disk_at_any_write_leaves_a_study_that_can_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full_at: int
) -> None:
    """The disk is full from one call of fsync or mkdir on, until the next command."""
    monkeypatch.chdir(tmp_path)
    calls = [0]

    def full(real: Callable[..., Any]) -> Callable[..., Any]:
        def refusing(*args: Any, **more: Any) -> Any:
            calls[0] += 1
            if calls[0] > full_at:
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(*args, **more)

        return refusing

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full(os.fsync))
        patch.setattr(Path, "mkdir", full(Path.mkdir))
        with suppress(StudyError):
            start("unstable", "out", STUDY)
    begun = Path("out/plan.json").exists()
    done = resume("out") if begun else start("unstable", "out", STUDY)
    assert summarise(done)["states"]["ok"] == 28
    assert not [one for one in Path("out").rglob("*") if one.name.endswith(".tmp")]


def test_a_recording_that_was_killed_before_its_start_is_not_called_foreign(tmp_path: Path) -> None:
    path, other = tmp_path / "a.mcap", tmp_path / "b.mcap"
    for target, library in ((path, "rtsim"), (other, "other")):
        writer = Writer(str(target))
        writer.start(library=library)
        writer.finish()  # type: ignore[no-untyped-call]
    with pytest.raises(RecordingError, match="rtsim did not write"):
        Recording.open(other)
    with pytest.raises(RecordingError, match="the run ended before its start was recorded"):
        Recording.open(path)


def test_a_recording_that_ends_within_its_first_bytes_is_an_empty_one(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    for size in range(len(MAGIC)):
        path.write_bytes(MAGIC[:size])
        FileRecorder(path, lambda: 0).close()
