"""The folder of runs: what others may have put there is not believed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rtsim.core.errors import ScenarioError
from rtsim.gateway import registry
from rtsim.gateway.registry import RegisteredRun, enter, find, folder, runs

ME = os.getpid()


@pytest.mark.parametrize("wrong", [0, -1, 2**31, 2**63, 10**30])
def test_an_entry_without_a_possible_process_is_no_run(wrong: int) -> None:
    enter(RegisteredRun(ME, ME, "one", "ipc:///x"))
    for pid, gateway in ((wrong, ME), (ME, wrong)):
        row = {"pid": pid, "gateway": gateway, "scenario": "bad", "endpoint": "ipc:///y"}
        (folder() / "bad.json").write_text(json.dumps(row))
        assert [e.scenario for e in runs()] == ["one"]


@pytest.mark.skipif(sys.platform == "win32", reason="no modes there")
def test_a_folder_open_to_other_users_is_refused(tmp_path: Path) -> None:
    enter(RegisteredRun(ME, ME, "one", "ipc:///x"))
    folder().chmod(0o777)
    with pytest.raises(ScenarioError, match="is accessible to other users"):
        runs()
    with pytest.raises(ScenarioError, match="RTSIM_RUNTIME_DIR"):
        enter(RegisteredRun(ME, ME, "two", "ipc:///x"))
    folder().rename(tmp_path / "moved")
    (tmp_path / "moved").chmod(0o700)
    folder().symlink_to(tmp_path / "moved")
    with pytest.raises(ScenarioError, match="is not a folder"):
        runs()


@pytest.mark.skipif(sys.platform == "win32", reason="no owners there")
def test_a_folder_of_somebody_else_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    enter(RegisteredRun(ME, ME, "one", "ipc:///x"))
    other = os.getuid() + 1
    monkeypatch.setattr(os, "getuid", lambda: other)
    with pytest.raises(ScenarioError, match="belongs to another user"):
        runs()


def test_the_registry_lists_living_runs(tmp_path: Path) -> None:
    assert runs() == []
    with pytest.raises(ScenarioError, match="no run can be reached"):
        find()
    me = os.getpid()
    enter(RegisteredRun(me, me, "one", "ipc:///x"))
    enter(RegisteredRun(2**22 + 5, 2**22 + 5, "dead", "ipc:///y"))
    (folder() / "bad.json").write_text("[" * 100_000)
    assert [e.scenario for e in runs()] == ["one"]
    assert not (folder() / f"{2**22 + 5}.json").exists()
    assert find("one") == find(str(me)) == find()
    enter(RegisteredRun(me + 0, me, "one", "ipc:///z"))
    with pytest.raises(ScenarioError, match="runs in progress: "):
        find("two")
    assert tmp_path in folder().parents


def test_a_run_is_found_by_a_prefix_and_a_whole_name_comes_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = [
        RegisteredRun(7, 7, "f16 case 13.1", "a"),
        RegisteredRun(8, 8, "f16", "b"),
        RegisteredRun(9, 9, "ball", "c"),
    ]
    monkeypatch.setattr(registry, "runs", lambda kind: known)  # noqa: ARG005
    assert find("f16 c").pid == 7
    assert find("f16").pid == 8
    assert find("9") == find("b") == known[2]
    with pytest.raises(ScenarioError, match="several runs"):
        find()
    del known[1]
    assert find("f16").pid == 7
    with pytest.raises(ScenarioError, match="no run '16' is in progress; runs in progress: 7"):
        find("16")


def test_without_a_runtime_folder_another_is_chosen_in_silence() -> None:
    """As by ssh or sudo; platformdirs warns once in a process."""
    unset = ("XDG_RUNTIME_DIR", "RTSIM_RUNTIME_DIR")
    told = subprocess.run(
        [sys.executable, "-W", "error", "-c",
         "from rtsim.gateway.registry import folder; folder()"],
        env={k: v for k, v in os.environ.items() if k not in unset},
        capture_output=True, text=True,
    )  # fmt: skip
    assert (told.returncode, told.stderr) == (0, "")


@pytest.mark.skipif(sys.platform != "linux", reason="the state is read as Linux tells it")
def test_the_stopped_process_of_a_run_is_named() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert RegisteredRun(os.getpid(), child.pid, "", "").stopped == ""
        child.send_signal(signal.SIGSTOP)
        os.waitpid(child.pid, os.WUNTRACED)
        says = f"(process {child.pid}) is stopped; type: kill -CONT {child.pid}"
        gateway = RegisteredRun(os.getpid(), child.pid, "", "")
        assert gateway.stopped == f"the gateway of the run {says}"
        assert RegisteredRun(child.pid, os.getpid(), "", "").stopped == f"the run {says}"
    finally:
        child.kill()
        child.communicate()
    assert gateway.stopped == ""
