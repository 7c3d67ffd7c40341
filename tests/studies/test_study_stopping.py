"""A study that stops early: looks that are declared, a corrected level, the same rows.

What a study leaves behind: after a kill of its process, and where a limit cannot be kept.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from rtsim.cli.main import main
from rtsim.core.cache import cache_folder
from rtsim.core.clock import stopwatch
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.estimates import interval
from rtsim.studies import workers as workers_module
from rtsim.studies.designs import Antithetic, LatinHypercube, MonteCarlo, Replications
from rtsim.studies.folder import Folder
from rtsim.studies.interim_analysis import Stop, needed
from rtsim.studies.running import begin, resume, start
from rtsim.studies.study import Study
from rtsim.studies.summary import summarise
from rtsim.studies.workers import Where


def study(stop: Stop | str | None, **more: Any) -> Study:
    given: dict[str, Any] = {
        "factors": {"plant.x": (0.5, 0.9)},
        "design": MonteCarlo(80),
        "results": {"last": "last:plant.x"},
        "requirements": ["last<2"],
        "until": 0.05,
        **more,
    }
    return Study(stop=stop, **given)


def values(folder: Folder) -> list[float]:
    return folder.table("run", "last")["last"].to_pylist()  # type: ignore[no-any-return]


def test_a_study_stops_at_the_first_look_with_a_narrow_interval(tmp_path: Path) -> None:
    whole = start("unstable", tmp_path / "whole", study(None))
    level = 1.0 - 0.05 / 3
    ten, forty = (interval(values(whole)[:n], level).half_width for n in (10, 40))
    assert forty < ten
    stop = Stop("last", half_width=0.5 * (ten + forty), looks=(10, 40))
    folder = start("unstable", tmp_path / "stopped", study(stop))
    assert values(folder) == values(whole)[:40]
    found = summarise(folder)
    assert (found["runs"], found["planned"], found["rows"]) == (40, 80, 40)
    assert found["results"]["last"]["level"] == pytest.approx(level)
    assert values(resume(tmp_path / "stopped")) == values(whole)[:40]
    narrow = start("unstable", tmp_path / "all", study(Stop("last", 1e-9, (10, 40))))
    assert values(narrow) == values(whole)
    wide = start("unstable", tmp_path / "first", study("last:9,looks=10 40"))
    assert len(values(wide)) == 10


def test_equal_values_do_not_stop_a_study(tmp_path: Path) -> None:
    same = Study(
        design=Replications(24),
        results={"last": "last:plant.x"},
        until=0.2,
        stop=Stop("last", 9.0, (10,)),
    )
    assert len(set(values(start("unstable", tmp_path / "same", same)))) == 1
    assert len(values(Folder.open(tmp_path / "same"))) == 24


def test_a_look_takes_the_runs_before_it_and_no_others(tmp_path: Path) -> None:
    folder = start("unstable", tmp_path / "s", study(None))
    stop = Stop("last", 9.0, (10, 40))
    assert needed(folder) == 80
    stopped = Folder.new(tmp_path / "t", folder.plan)
    assert needed(stopped) == 80
    object.__setattr__(stopped.plan, "stop", stop.to_plain())
    vars(stopped.plan).pop("stopping", None)
    assert needed(stopped) == 10
    exact = interval(values(folder)[:10], stop.corrected).half_width
    for half_width, wanted in ((exact * (1 + 1e-9), 10), (exact * (1 - 1e-9), 40)):
        rule = Stop("last", half_width, (10, 40))
        object.__setattr__(stopped.plan, "stop", rule.to_plain())
        vars(stopped.plan).pop("stopping", None)
        assert needed(Folder(folder.path, stopped.plan)) == wanted


def test_the_pass_rate_of_a_requirement_can_stop_a_study(tmp_path: Path) -> None:
    from rtsim.studies.measures import Limit

    rule = [Limit("last", below=2.0, name="near")]
    folder = start("unstable", tmp_path / "s", study("near:0.08,looks=20 50", requirements=rule))
    # All pass: Clopper-Pearson's upper half-width 0.5 * (1 - 0.00833^(1/n)) is 0.107 and 0.046.
    assert len(values(folder)) == 50


def test_the_level_is_corrected_for_the_number_of_looks() -> None:
    assert Stop("x", 1.0, (10,)).corrected == pytest.approx(0.975)
    assert Stop("x", 1.0, (10, 20, 30, 40), level=0.9).corrected == pytest.approx(0.98)
    assert Stop.of(Stop("x", 1.0, (10, 20)).to_plain()) == Stop("x", 1.0, (10, 20))


@pytest.mark.parametrize(
    ("stop", "more", "problem"),
    [
        ("last:0,looks=10 20", {}, "half_width is 0"),
        ("last:1,looks=20 10", {}, "rising order"),
        ("last:1", {}, "missing a required argument: 'looks'"),
        ("last:1,looks=10", {"design": LatinHypercube(50)}, "cannot stop early"),
        ("last:1,looks=11", {"design": Antithetic(50)}, "divides a pair"),
    ],
)
def test_a_rule_that_does_not_fit_is_refused(stop: str, more: dict[str, Any], problem: str) -> None:
    with pytest.raises(ScenarioError, match=problem):
        study(stop, **more)


def test_a_rule_of_an_unknown_result_is_refused_before_the_folder_is_made(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="unknown result 'peak' in the rule for an early stop"):
        begin("unstable", study("peak:1,looks=10"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


LIMITED = Study(design=MonteCarlo(3), results={"x": "last:plant.x"}, until=0.1, limit=2.0)


def test_a_limit_without_workers_is_refused_before_the_folder_is_made(tmp_path: Path) -> None:
    for path in (tmp_path / "a", tmp_path / "b"):
        with pytest.raises(ScenarioError, match=r"limit of 2 s needs worker .*--workers 1"):
            start("unstable", path, LIMITED)
        assert not path.exists()
    begin("unstable", LIMITED, tmp_path / "c")
    with pytest.raises(ScenarioError, match="limit of 2 s needs worker"):
        resume(tmp_path / "c")
    assert len(Folder.open(tmp_path / "c").left(3)) == 3


@pytest.mark.parametrize("wrong", ["plant.xx", "plnt.x"])
@pytest.mark.parametrize("kind", ["result", "history"])
def test_a_study_of_a_signal_that_does_not_exist_leaves_no_folder(
    tmp_path: Path, wrong: str, kind: str
) -> None:
    names: dict[str, Any] = {
        "result": {"results": {"x": f"last:{wrong}"}},
        "history": {"histories": [wrong]},
    }
    made = replace(LIMITED, limit=None, **names[kind])
    with pytest.raises(ScenarioError, match="unknown"):
        start("unstable", tmp_path / "a", made)
    words = ["study", "start", "unstable", "--runs", "3", "--until", "0.1", "--workers", "0"]
    signals = ["--result", f"x=last:{wrong}"] if kind == "result" else ["--history", wrong]
    more = [*signals, "--result", "y=last:plant.x", "-o", str(tmp_path / "a")]
    assert CliRunner().invoke(main, [*words, *more]).exit_code == 2
    assert not (tmp_path / "a").exists()
    begin("unstable", made, tmp_path / "b")
    with pytest.raises(ScenarioError, match="unknown"):
        resume(tmp_path / "b")
    assert (tmp_path / "b").exists()


@pytest.mark.parametrize("words", [("--workers", "-1"), ("--cluster", "foo")])
def test_wrong_workers_leave_no_folder(tmp_path: Path, words: tuple[str, str]) -> None:
    first = ["study", "start", "unstable", "--runs", "3", "--until", "0.1"]
    folder = tmp_path / "a"
    done = CliRunner().invoke(
        main, [*first, "--result", "y=last:plant.x", "-o", str(folder), *words]
    )
    assert done.exit_code == 2
    assert not folder.exists()


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:0", "tls://127.0.0.1:0", "127.0.0.1:0"])
def test_an_address_at_which_nothing_listens_is_refused_at_once(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setattr("rtsim.studies.workers._check_certificates", lambda _: None)
    monkeypatch.setattr("distributed.Client", lambda *_, **__: pytest.fail("Dask is waited for"))
    with pytest.raises(ScenarioError, match="no Dask scheduler answers at"):
        Where(address=address).check_reachable()


@pytest.mark.parametrize("command", ["start", "search"])
def test_no_folder_is_made_before_a_cluster_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr(Folder, "new", lambda *_: pytest.fail("a folder is made"))
    words = ["--factor", "plant.x=range:0,1", "--result", "y=last:plant.x", "--require", "y<1"]
    where = ["--cluster", "tcp://127.0.0.1:0", "-o", str(tmp_path / "a"), "--runs", "20"]
    done = CliRunner().invoke(main, ["study", command, "unstable", *words, *where])
    assert done.exit_code == 2
    assert "no Dask scheduler answers at tcp://127.0.0.1:0" in done.stderr


def test_files_of_workers_lie_in_the_cache_folder_or_else_where_dask_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RTSIM_CACHE_DIR", str(tmp_path / "cache"))
    assert workers_module._folder() == str(tmp_path / "cache" / "workers")
    (tmp_path / "file").touch()
    monkeypatch.setenv("RTSIM_CACHE_DIR", str(tmp_path / "file"))  # no folder can be made in it
    assert workers_module._folder() is None


ENDLESS = """
from pathlib import Path
from rtsim import PythonController, Scenario, Signals
from rtsim.models.unstable import UNSTABLE
from rtsim.studies import MonteCarlo, Study, start


def endless(t, u, s, p, y):
    y[0] = -8.0 * u[0]
    while p[0] > 0.0 and t > 0.05:
        y[0] += 1.0


def note(t, u, s, p, y):
    y[0] = 0.0
    if t > 0.04:
        Path(__file__).with_name("started").touch()


def scenario():
    out = Scenario("endless", until=0.3)
    noting = PythonController(note, Signals("x"), Signals("n"))
    out.controller("a", noting, period=0.05, inputs={"x": "plant.x"})
    out.plant("plant", UNSTABLE, step=0.05, inputs={"force": "control.force"})
    law = PythonController(endless, Signals("x"), Signals("force [N/kg]"),
                           parameters=Signals("on"), compile=True)
    out.controller("control", law, period=0.1, inputs={"x": "plant.x"})
    return out


def study():
    return Study(design=MonteCarlo(4), settings={"control.on": 1.0},
                 results={"x": "last:plant.x"})


if __name__ == "__main__":
    start(__file__, "out", workers=1)
"""


def of_session(session: int) -> list[str]:
    """The processes of a session that have not ended."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = path.read_text().rpartition(") ")
        except OSError:
            continue
        state, _, _, its = rest.split()[:4]
        if int(its) == session and state != "Z":
            found.append(name)
    return found


def within(seconds: float, done: Callable[[], bool]) -> bool:
    end = stopwatch() + round(seconds * 1e9)
    while not done():
        if stopwatch() > end:
            return False
        threading.Event().wait(0.05)
    return True


@pytest.mark.long
@pytest.mark.live
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_workers_end_with_the_process_of_the_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is compiled code that never returns, so that no thread of Python can end it."""
    (tmp_path / "endless.py").write_text(ENDLESS)
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "cache").mkdir()
    for one in cache_folder().glob("*"):  # what is compiled, but not the folder of the workers
        if one.name != "workers":
            (tmp_path / "cache" / one.name).symlink_to(one)
    client = subprocess.Popen(
        [sys.executable, "endless.py"], cwd=tmp_path, start_new_session=True,
        env={**os.environ, "RTSIM_CACHE_DIR": str(tmp_path / "cache")}, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        assert within(60, (tmp_path / "started").exists)
        threading.Event().wait(0.3)  # the next tag of the run never ends
        client.kill()
        client.wait()
        assert within(10, lambda: not of_session(client.pid)), of_session(client.pid)
        left = list((tmp_path / "cache" / "workers").glob("*/worker-*/"))
        assert left
        monkeypatch.setenv("RTSIM_CACHE_DIR", str(tmp_path / "cache"))
        start("unstable", tmp_path / "next", replace(LIMITED, limit=None), workers=1)
        assert not any(folder.exists() for folder in left)
    finally:
        if of_session(client.pid):
            os.killpg(client.pid, signal.SIGKILL)
