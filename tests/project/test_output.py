"""What a command says when nobody can hear it: an error where that is one, never a traceback."""

from __future__ import annotations

import errno
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from rtsim import Recording, simulate
from rtsim.cli import main
from rtsim.core.errors import RtsimError, ScenarioError
from rtsim.core.net.sockets import Broadcast
from rtsim.engine.faults.description import read_faults
from rtsim.gateway.addresses import check_free
from rtsim.gateway.registry import VIEWED, RegisteredRun, enter
from rtsim.record.output_files import write_whole
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.reports.run_page import write_report
from rtsim.scenario.loading import load_scenario

RTSIM = f"{shlex.quote(sys.executable)} -m rtsim"


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    root = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"], cwd=folder, capture_output=True, text=True,
        check=False, env={**os.environ, "PYTHONPATH": path}, timeout=60,
    )  # fmt: skip


LOST = "Error: cannot write to standard output: No space left on device; the output of this"


@pytest.mark.sample(2)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", ["scenarios", "scenarios --json", "--help", "run --help"])
def test_a_full_disk_is_an_error(arguments: str, tmp_path: Path) -> None:
    done = shell(f"{RTSIM} {arguments} > /dev/full", tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(LOST)
    assert done.stderr.count("\n") == 1


def test_a_closed_output_is_an_error(tmp_path: Path) -> None:
    done = shell(f"{RTSIM} scenarios >&-", tmp_path)
    expected = "Error: standard output is closed; redirect it to a file or to /dev/null\n"
    assert (done.returncode, done.stderr) == (2, expected)


def test_a_reader_that_has_seen_enough_changes_no_verdict(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        run = ["run", "nesc", "--until", "0.1", "--plain", "-o", str(tmp_path / f"{name}.mcap")]
        assert CliRunner().invoke(main, [*run, "--seed", str(seed)]).exit_code == 0
    same = shell(f"{RTSIM} compare a.mcap b.mcap --all | true", tmp_path)
    assert (same.returncode, same.stderr) == (0, "")
    (tmp_path / "c.mcap").unlink()
    other = ["run", "ball", "--until", "0.1", "--plain", "-o", str(tmp_path / "c.mcap")]
    assert CliRunner().invoke(main, other).exit_code == 0
    differs = shell(f"{RTSIM} compare a.mcap c.mcap --all | true", tmp_path)
    expected = shell(f"{RTSIM} compare a.mcap c.mcap --all", tmp_path)
    assert differs.returncode == expected.returncode == 1
    assert differs.stderr == expected.stderr


RECURSIVE = "def scenario():\n    return scenario()\n"


def test_a_function_that_calls_itself_prints_no_thousand_lines(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(RECURSIVE)
    with pytest.raises(ScenarioError, match=r"mine\.py raised RecursionError") as raised:
        load_scenario(str(tmp_path / "mine.py"))
    lines = str(raised.value).splitlines()
    assert len(lines) == 8
    assert " more calls ..." in lines[4]


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("sil check", "tables or lists are nested too deeply"),
        ("run ball --faults", "not valid TOML: tables or lists are nested too deeply"),
    ],
)
def test_a_file_nested_a_thousand_deep_is_refused(command: str, text: str, tmp_path: Path) -> None:
    (tmp_path / "deep.toml").write_text("a = " + "[" * 5000 + "]" * 5000)
    done = CliRunner().invoke(main, [*command.split(), str(tmp_path / "deep.toml")])
    if "No such command" in done.output or "no such command" in done.output:
        pytest.skip(f"there is no rtsim {command}")
    assert done.exit_code == 2
    assert text in done.stderr
    assert "raised" not in done.stderr
    with pytest.raises(RtsimError, match="nested too deeply"):
        read_faults(tmp_path / "deep.toml")


def test_a_report_on_a_full_disk_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = MemoryRecorder()
    simulate(load_scenario("ball"), until=0.1, compile=False, recorder=recorder)
    recorded: Recording = recorder.recording()
    target = tmp_path / "report.html"
    really = Path.write_text

    def fails(self: Path, text: str, **how: Any) -> int:
        really(self, text[:100], **how)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", fails)
    with pytest.raises(RtsimError, match="No space left on device"):
        write_report(recorded, target)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.undo()
    write_report(recorded, target)
    before = target.read_text()
    monkeypatch.setattr(Path, "write_text", fails)
    with pytest.raises(RtsimError, match="No space left on device"):
        write_report(recorded, target)
    assert target.read_text() == before
    assert list(tmp_path.iterdir()) == [target]


def test_a_link_stays_a_link_and_a_device_a_device(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    write_whole(tmp_path / "link", "text")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "text"
    write_whole(Path(os.devnull), "text")
    assert not Path(os.devnull).is_file()


def test_plotjugglers_port_in_use_is_told_before_the_run() -> None:
    taken = Broadcast("tcp://127.0.0.1:19872")
    try:
        with pytest.raises(
            ScenarioError, match=r"another run with --plotjuggler or another program"
        ):
            check_free("tcp://127.0.0.1:19872")
    finally:
        taken.close()
    check_free("tcp://127.0.0.1:19872")


def viewed(folder: Path, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    monkeypatch.setenv("RTSIM_RUNTIME_DIR", str(folder / "runtime"))
    for pid, name in enumerate(names, start=os.getpid()):
        enter(RegisteredRun(pid, os.getpid(), name, str(folder / "nothing")), VIEWED)


def test_view_names_the_run_that_it_joins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    viewed(tmp_path, monkeypatch, "f16")
    done = CliRunner().invoke(main, ["view"])
    assert done.stdout.startswith(f"watching f16 (process {os.getpid()})\n")


def test_view_asks_where_there_are_several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    viewed(tmp_path, monkeypatch, "f16", "orbit")
    first, second = os.getpid(), os.getpid() + 1
    done = CliRunner().invoke(main, ["view"])
    assert done.exit_code == 2
    listed = f"several runs are in progress; name one of {first} (f16), {second} (orbit)"
    assert listed in done.stderr
    monkeypatch.setattr("rtsim.cli.window.is_terminal", lambda: True)
    asked = CliRunner().invoke(main, ["view"], input=f"{second}\n")
    assert f"{first}  f16\n{second}  orbit\nwhich one?" in asked.stdout
    assert f"watching orbit (process {second})" in asked.stdout
