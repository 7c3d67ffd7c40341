"""What the rows of a study were made from: each row states it, and other files are refused."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from study_commands import rtsim

from rtsim.core.errors import ScenarioError
from rtsim.core.read_files import reading, signature
from rtsim.scenario.trust import permitted
from rtsim.studies import Folder, resume, start, summarise
from rtsim.studies import sources as sources_module
from rtsim.studies.batch import check_worker, run_batch
from rtsim.studies.one_run import Runner
from rtsim.studies.plan import Orders, find_study
from rtsim.studies.running import begin, carry_out
from rtsim.studies.sources import SourcesChanged, check_versions, versions
from rtsim.studies.workers import Where

LAW = """
from pathlib import Path
from gains import GAIN
from rtsim import PythonController, Scenario, Signals
from rtsim.models.unstable import UNSTABLE
from rtsim.studies import Last, Study, Table

OFFSET = float(Path("offset.txt").read_text())

def law(t, u, s, p, y):
    y[0] = -GAIN * u[0] - 4.0 * u[1] + OFFSET + p[0]

def scenario(table="a"):
    out = Scenario("law", until=0.3)
    out.plant("plant", UNSTABLE, step=0.05, inputs={"force": "c.force"})
    c = PythonController(law, Signals("x", "v"), Signals("force"), parameters=Signals("bias"))
    out.controller("c", c, period=0.1, inputs={"x": "plant.x", "v": "plant.v"})
    out.set("c.bias", float(Path(f"{table}.txt").read_text()))
    return out

def study():
    return Study(design=Table({"table": ["a", "a", "b", "a"]}), results={"x": Last("plant.x")})
"""


@pytest.fixture
def file(empty_project: Path) -> str:
    (empty_project / "law.py").write_text(LAW)
    (empty_project / "gains.py").write_text("GAIN = 8.0\n")
    for name in ("a", "b", "offset"):
        (empty_project / f"{name}.txt").write_text("0")
    return "law.py"


def sources_of(folder: Folder) -> list[Any]:
    return [json.loads(row["sources"] or "{}") for row in folder.table().to_pylist()]


def test_each_row_states_the_files_that_its_run_read(file: str) -> None:
    folder = start(file, "out")
    found = sources_of(folder)
    assert [sorted(one) for one in found] == [
        ["a.txt", "offset.txt"], ["a.txt", "offset.txt"], ["b.txt", "offset.txt"],
        ["a.txt", "offset.txt"],
    ]  # fmt: skip
    hashes = folder.table("sources_sha256")["sources_sha256"].to_pylist()
    assert hashes[0] == hashes[1] == hashes[3] != hashes[2]
    Path("gains.py").write_text("GAIN = 7.0\n")
    other = start(file, "other").table("sources_sha256")["sources_sha256"].to_pylist()
    assert not set(other) & set(hashes)


@pytest.mark.parametrize("name", ["law.py", "gains.py"])
def test_a_worker_refuses_code_that_was_edited_after_the_start(file: str, name: str) -> None:
    found = find_study(file)
    assert found is not None
    folder = begin(file, found, Path("out"))
    Path(name).write_text(Path(name).read_text().replace("8.0", "9.0") + "\n# edited\n")
    job, order = folder.plan.job.to_text(), Orders(folder.plan)[0]
    assert "is not the one with which the study began" in check_worker(job, order)
    with pytest.raises(SourcesChanged):
        run_batch(job, [order])
    with folder.locked(), pytest.raises(ScenarioError, match="with which the study began"):
        carry_out(folder, Where(0), named=True)
    assert not folder.table().num_rows


def test_a_worker_that_starts_again_refuses_an_edited_file(file: str) -> None:
    """As after a crash of the first process: the second one loads the edited file."""
    found = find_study(file)
    assert found is not None
    folder = begin(file, found, Path("out"))
    job, orders = folder.plan.job, Orders(folder.plan)
    assert Runner(job, checked=True).row(orders[0]).complete
    Path("gains.py").write_text("GAIN = 7.0\n")
    with pytest.raises(SourcesChanged, match=r"law.py, or a module that it imports"):
        Runner(job, checked=True)


@pytest.mark.parametrize("name", ["law.py", "gains.py"])
def test_trust_does_not_let_edited_code_continue_a_study(file: str, name: str) -> None:
    folder = start(file, "out")
    next(folder.path.glob("results/*")).unlink()
    Path(name).write_text(Path(name).read_text() + "\n# edited\n")
    with permitted(everything=True), pytest.raises(ScenarioError, match="start a new study"):
        resume("out")
    assert rtsim("resume", "out", "--trust").exit_code == 2


@pytest.mark.parametrize("name", ["a.txt", "offset.txt"])
def test_a_data_file_that_was_edited_between_runs_is_refused(file: str, name: str) -> None:
    found = find_study(file)
    assert found is not None
    folder = begin(file, found, Path("out"))
    orders = Orders(folder.plan)
    folder.add(Runner(folder.plan.job).row(orders[0]))
    folder.write()
    Path(name).write_text("0.5")
    with folder.locked(), pytest.raises(SourcesChanged, match=f"{name} is not the file"):
        carry_out(folder, Where(0), named=True)
    Path(name).write_text("0")
    done = resume("out")
    assert summarise(done)["states"]["ok"] == 4


def test_a_file_that_changes_while_it_is_read_is_refused(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Path.read_text

    def changing(path: Path, *args: Any, **more: Any) -> str:
        text = real(path, *args, **more)
        if path.name == "b.txt":
            os.utime(path, ns=(1, 1))  # as if another process changed it
        return text

    monkeypatch.setattr(Path, "read_text", changing)
    with pytest.raises(SourcesChanged, match=r"b.txt changed while"):
        start(file, "out")


def test_a_project_below_a_folder_of_the_system_counts(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As ``/usr/src/app`` in a container."""
    around = Path(file).resolve().parent.parent
    monkeypatch.setattr(sources_module, "_SYSTEM", (str(around),))
    monkeypatch.setattr(sources_module, "cache_folder", lambda: around / "nothing")
    sources, found = sources_module.Sources(file), dict[str, str]()
    outside = around / "outside.txt"
    outside.write_text("")
    with sources.watched(found):
        Path("a.txt").read_text()
        Path("gains.py").read_text()
        outside.read_text()
    assert list(found) == ["a.txt"]
    assert tmp_path.exists()


def test_a_row_of_another_study_is_refused(file: str) -> None:
    found = find_study(file)
    assert found is not None
    folder = begin(file, found, Path("out"))
    row = Runner(folder.plan.job).row(Orders(folder.plan)[0])
    with pytest.raises(SourcesChanged, match="run 0 is not one of the study"):
        folder.add(row._replace(sources_sha256="0" * 64))


@pytest.mark.parametrize("name", ["rtsim", "python", "numpy", "numba", "source of rtsim"])
def test_a_worker_with_other_versions_is_refused(file: str, name: str) -> None:
    found = find_study(file)
    assert found is not None
    plan = begin(file, found, Path("out")).plan
    job = replace(plan.job, versions={**plan.job.versions, name: "0.0"})
    says = check_worker(job.to_text(), Orders(plan)[0])
    assert f"made with {name} 0.0, but this process has {versions()[name]}" in says
    with pytest.raises(SourcesChanged, match="of no known version"):
        check_versions({})


def test_only_files_that_this_thread_reads_are_collected(tmp_path: Path) -> None:
    for name in ("read", "other", "both"):
        (tmp_path / name).write_text(name)
    with reading() as found:
        (tmp_path / "read").read_text()
        (tmp_path / "written").write_text("")
        (tmp_path / "written").read_text()
        (tmp_path / "both").read_text()
        (tmp_path / "both").write_text("")
        with pytest.raises(OSError, match="missing"):
            (tmp_path / "missing").read_text()
        Path(os.devnull).read_text()
        thread = threading.Thread(target=(tmp_path / "other").read_text)
        thread.start()
        thread.join()
        with reading() as inner:
            (tmp_path / "other").read_text()
    (tmp_path / "other").read_text()
    assert found == {tmp_path / "read": signature(tmp_path / "read")}
    assert list(inner) == [tmp_path / "other"]
    assert signature(tmp_path) is None
