"""What the rows of a study were made from: each row states it, and other files are refused."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from study_commands import rtsim

from rtsim.core.errors import ScenarioError
from rtsim.core.file_hash import reading, signature, tree_hash
from rtsim.scenario.trust import permitted
from rtsim.studies import Folder, resume, start, summarise
from rtsim.studies import sources as sources_module
from rtsim.studies.one_run import Runner, check_worker, run_batch
from rtsim.studies.plan import Orders, Plan, find_study
from rtsim.studies.running import begin, carry_out
from rtsim.studies.sources import SourcesChanged, _source_of, check_versions, versions
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


@pytest.mark.sample(1)
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


@pytest.mark.parametrize(
    "broken",
    ["float(Path(f'{table}.txt').read_text())", "float(Path('lag.txt').read_text())"],
    ids=["while it is made", "while it runs"],
)
def test_a_run_with_an_error_states_the_files_that_it_read(file: str, broken: str) -> None:
    text = Path(file).read_text()
    if "lag" in broken:
        text = text.replace("    y[0] =", f"    y[0] = {broken} if t > 0.15 else 0.0; y[0] +=")
    Path(file).write_text(text)
    Path("lag.txt").write_text("none")
    Path("b.txt").write_text("0" if "lag" in broken else "none")
    found = find_study(file)
    assert found is not None
    plan = begin(file, found, Path("out")).plan
    row = Runner(plan.job, checked=True).row(Orders(plan)[2])
    assert row.state == "error"
    assert ("lag.txt" if "lag" in broken else "b.txt") in json.loads(row.sources)


def test_a_module_that_is_edited_before_scenario_imports_it_is_refused(alone: Path) -> None:
    text = READER.format(value="gain_helper.gain()", data=(), loaded=False)
    text = text.replace("def scenario():\n", "def scenario():\n    import gain_helper\n")
    (alone / "law.py").write_text(text.replace('/ "lib"', ""))
    put_helper(1.0)
    Path("lib/gain_helper.py").replace("gain_helper.py")
    found = find_study("law.py")
    assert found is not None
    folder = begin("law.py", found, Path("out"))
    sys.modules.pop("gain_helper", None)  # as in a worker
    runner = Runner(folder.plan.job, checked=True)
    Path("gain_helper.py").write_text("def gain():\n    return 22.0\n")
    for _ in range(2):  # Python holds the module the second time
        with pytest.raises(
            SourcesChanged, match=r"imported another version of .*gain_helper.py than"
        ):
            runner.row(Orders(folder.plan)[0])
    sys.modules.pop("gain_helper", None)
    put_helper(1.0)
    Path("lib/gain_helper.py").replace("gain_helper.py")
    assert Runner(folder.plan.job, checked=True).row(Orders(folder.plan)[0]).complete


def test_declared_folders_are_followed_through_links(file: str, empty_project: Path) -> None:
    (empty_project / "real/deep").mkdir(parents=True)
    (empty_project / "real/deep/one.txt").write_text("1")
    (empty_project / "data").mkdir()
    (empty_project / "data/link").symlink_to(empty_project / "real")
    (empty_project / "data/again").symlink_to(empty_project / "real")
    (empty_project / "real/circle").symlink_to(empty_project / "data")

    def digest() -> str:
        found: dict[str, str] = {}
        with sources_module.Sources(file, data=["data"]).watched(found):
            pass
        return found["data"]

    seen = [digest(), digest()]
    assert seen[0] == seen[1]
    (empty_project / "real/deep/one.txt").write_text("one")
    seen.append(digest())
    (empty_project / "real/two.txt").write_text("2")
    seen.append(digest())
    (empty_project / "data/again").unlink()
    seen.append(digest())
    assert len(set(seen)) == 4


def test_a_row_of_another_study_is_refused(file: str) -> None:
    found = find_study(file)
    assert found is not None
    folder = begin(file, found, Path("out"))
    row = Runner(folder.plan.job).row(Orders(folder.plan)[0])
    with pytest.raises(SourcesChanged, match="has no run 0"):
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


def test_a_run_does_not_judge_the_imported_modules_again(
    empty_project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A study of a scenario that imports SciPy took 1 s of processor time for a run of 5 ms."""
    modules = 40
    (empty_project / "law.py").write_text("import package\n" + LAW.replace("from gains", "from g"))
    (empty_project / "g.py").write_text("GAIN = 30.0\n")
    (empty_project / "offset.txt").write_text("0.0")
    package = empty_project / "package"
    package.mkdir()
    names = [f"m{k}" for k in range(modules)]
    (package / "__init__.py").write_text(f"from . import {', '.join(names)}\n")
    for name in names:
        (package / f"{name}.py").write_text("")
    sources = sources_module.Sources("law.py")
    judged: list[Path] = []
    counts = sources._counts

    def noted(path: Path) -> bool:
        judged.append(path)
        return counts(path)

    monkeypatch.setattr(sources, "_counts", noted)
    first: dict[str, str] = {}
    with sources.watched(first):
        find_study("law.py")
    assert len(judged) > modules
    judged.clear()
    for _ in range(3):
        with sources.watched({}):
            (empty_project / "offset.txt").read_text()
    assert judged == [empty_project / "offset.txt"] * 3


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


READER = """
import ctypes, importlib, sqlite3, sys
from pathlib import Path
import pyarrow.parquet as pq
from rtsim import PythonController, Scenario, Signals
from rtsim.models.unstable import UNSTABLE
from rtsim.studies import Last, Replications, Study

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "lib"))
LOADED = importlib.import_module("gain_" + "helper") if {loaded} else None

def law(t, u, s, p, y):
    y[0] = p[0]

def scenario():
    out = Scenario("law", until=0.3)
    out.plant("plant", UNSTABLE, step=0.05, inputs={{"force": "c.force"}})
    c = PythonController(law, Signals("x"), Signals("force"), parameters=Signals("bias"))
    out.controller("c", c, period=0.1, inputs={{"x": "plant.x"}})
    out.set("c.bias", float({value}))
    return out

def study():
    return Study(design=Replications(3), results={{"x": Last("plant.x")}}, data={data})
"""


@pytest.fixture
def alone(empty_project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder whose modules and path Python forgets afterwards."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield empty_project
    sys.modules.pop("gain_helper", None)


def put_library(value: float) -> None:
    Path("g.c").write_text(f"double g(void) {{ return {value}; }}")
    subprocess.run(["gcc", "-shared", "-fPIC", "g.c", "-o", f"g{value}.so"], check=True)
    Path(f"g{value}.so").replace("g.so")


def put_database(value: float) -> None:
    Path("g.db").unlink(missing_ok=True)
    base = sqlite3.connect("g.db")
    base.execute("create table t(g)")
    base.execute("insert into t values(?)", [value])
    base.commit()
    base.close()


def put_link(value: float) -> None:
    Path(f"v{value}").mkdir()
    Path(f"v{value}/g.txt").write_text(str(value))
    Path("cur").unlink(missing_ok=True)
    Path("cur").symlink_to(f"v{value}")


def put_table(value: float) -> None:
    pq.write_table(pa.table({"g": [value]}), "g.parquet")


def put_folder(value: float) -> None:
    for k in range(int(value)):
        Path(f"d/deep/{k}.txt").parent.mkdir(parents=True, exist_ok=True)
        Path(f"d/deep/{k}.txt").write_text("")


def put_helper(value: float) -> None:
    Path("lib").mkdir(exist_ok=True)
    Path("lib/gain_helper.py").write_text(f"def gain():\n    return {value}\n")


DATABASE = "sqlite3.connect({}, uri=True).execute('select g from t').fetchone()[0]"
LIBRARY = "ctypes.CFUNCTYPE(ctypes.c_double)(('g', ctypes.CDLL(str(HERE / 'g.so'))))()"


@pytest.mark.parametrize(
    ("put", "value", "data", "named"),
    [
        pytest.param(
            put_library, LIBRARY, (), "g.so", id="a library of ctypes",
            marks=pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc"),
        ),
        pytest.param(put_database, DATABASE.format("HERE / 'g.db'"), (), "g.db", id="sqlite"),
        pytest.param(
            put_database, DATABASE.format("f'file:{HERE}/g.db?mode=ro'"), (), "g.db",
            id="sqlite by a URI",
        ),
        pytest.param(put_link, "(HERE / 'cur/g.txt').read_text()", (), "cur/g.txt", id="a link"),
        pytest.param(
            put_table, "pq.read_table(str(HERE / 'g.parquet'))['g'][0].as_py()",
            ("g.parquet",), "g.parquet", id="a declared table",
        ),
        pytest.param(put_folder, "len(list(HERE.glob('d/*/*')))", ("d",), "d", id="a folder"),
        pytest.param(put_helper, "LOADED.gain()", (), "lib/gain_helper.py", id="importlib"),
    ],
)  # fmt: skip
def test_a_study_is_not_continued_with_other_data(
    alone: Path, put: Callable[[float], None],
    value: str, data: tuple[str, ...], named: str,
) -> None:  # fmt: skip
    text = READER.format(value=value, data=data, loaded=put is put_helper)
    (alone / "law.py").write_text(text)
    put(1.0)
    found = find_study("law.py")
    assert found is not None
    folder = begin("law.py", found, Path("out"))
    runner = Runner(folder.plan.job, checked=True)
    rows = [runner.row(Orders(folder.plan)[k]) for k in (0, 1)]
    assert [list(json.loads(row.sources)) for row in rows] == [[named], [named]]
    for row in rows:
        folder.add(row)
    folder.write()
    put(2.0)
    sys.modules.pop("gain_helper", None)  # as in the process of a later command
    with pytest.raises(ScenarioError, match=f"{named} is not the file that earlier runs"):
        resume("out")
    assert folder.table().num_rows == 2


def test_an_edit_of_a_module_that_python_holds_already_is_refused(
    alone: Path,
) -> None:
    text = READER.format(value="LOADED.gain()", data=(), loaded=True)
    (alone / "law.py").write_text(text)
    put_helper(1.0)
    found = find_study("law.py")
    assert found is not None
    put_helper(22.0)
    with pytest.raises(SourcesChanged, match=r"gain_helper.py changed"):
        begin("law.py", found, Path("out"))


def test_a_database_that_a_run_changes_is_no_source(tmp_path: Path) -> None:
    with reading() as found:
        for _ in range(2):
            base = sqlite3.connect(tmp_path / "log.db")
            base.execute("create table if not exists t(x)")
            base.execute("insert into t values(1)")
            base.commit()
            base.close()
    assert not found


def test_declared_data_is_relative_to_the_file_of_the_study(file: str, empty_project: Path) -> None:
    found = find_study(file)
    assert found is not None
    Path("sub").mkdir()
    Path("sub/st.py").write_text("")
    given = replace(found, data=["a.txt", str(empty_project / "b.txt")], scenario=str(Path(file)))
    data = Plan.of(given, "sub/st.py").job.data
    assert data == ["sub/a.txt", str(empty_project / "b.txt")]
    with pytest.raises(ScenarioError, match=r"declares the data .*nothing.txt"):
        begin(file, replace(found, data=["nothing.txt"]), Path("out"))
    assert not Path("out").exists()
    with pytest.raises(ScenarioError, match="give a list of files"):
        replace(found, data="a.txt")
    plan = Plan.of(replace(found, data=["a.txt"]), file)
    assert Plan.of_text(plan.to_text(), "plan.json").job.data == ["a.txt"]
    assert '"data"' not in Plan.of(found, file).to_text()  # as plans before this key


@pytest.mark.parametrize(
    "name", ["law.cpython-313.pyc", "law.cpython-311.opt-1.pyc", "law.cpython-311-pytest-9.2.0.pyc"]
)
def test_bytecode_is_traced_to_its_source(name: str) -> None:
    assert _source_of(Path("folder/__pycache__") / name) == Path("folder/law.py")
    assert _source_of(Path("folder") / name) == Path("folder") / name


def test_a_folder_of_data_that_cannot_be_read_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data" / "closed").mkdir(parents=True)
    (tmp_path / "data" / "closed" / "table.csv").write_text("1")
    scandir = os.scandir

    def refusing(path: Any) -> Any:
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    with pytest.raises(SourcesChanged, match=r"closed of the declared data cannot be read .*Perm"):
        sources_module._content(tmp_path / "data")
    with pytest.raises(PermissionError):
        tree_hash(tmp_path / "data")
