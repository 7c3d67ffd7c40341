"""A recording never takes the place of what is not its own, nor of one that is being written."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import rtsim
from record_samples import ticking

from rtsim.record.file import FileRecorder
from rtsim.record.output_files import MAGIC, PathTaken
from rtsim.record.reading import Recording


def record(path: Path, overwrite: bool = False) -> None:
    with FileRecorder(path, ticking(), overwrite=overwrite) as recorder:
        recorder.start({})
        recorder.finish({})


def test_an_older_recording_is_written_over_only_when_that_is_said(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    record(path)
    before = path.read_bytes()
    with pytest.raises(PathTaken, match=r"a\.mcap is an existing recording.*--force"):
        record(path)
    assert path.read_bytes() == before
    record(path, overwrite=True)
    assert Recording.open(path).truncated is None


@pytest.mark.parametrize("overwrite", [False, True])
def test_what_is_no_recording_is_never_written_over(tmp_path: Path, overwrite: bool) -> None:
    path = tmp_path / "mine.py"
    path.write_text("precious = 1\n")
    with pytest.raises(PathTaken, match="is not a recording, so it is not overwritten"):
        record(path, overwrite)
    assert path.read_text() == "precious = 1\n"


def test_an_empty_file_was_made_for_us(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    path.touch()
    record(path)
    assert path.read_bytes().startswith(MAGIC)


def test_two_runs_cannot_record_to_one_file(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    with FileRecorder(path, ticking()) as first:
        first.start({})
        with pytest.raises(PathTaken, match=r"another run is recording to .*a\.mcap"):
            record(path, overwrite=True)
        first.finish({})
    assert Recording.open(path).truncated is None


def test_nothing_is_left_of_a_recording_that_never_began(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    FileRecorder(path, ticking()).close()
    assert not path.exists()


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_killed_run_leaves_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    program = (
        "import sys, time, os, signal\n"
        "from rtsim.record.file import FileRecorder\n"
        "recorder = FileRecorder(sys.argv[1], time.monotonic_ns)\n"
        "recorder.start({})\n"
        "print(recorder._process.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        run.stdout.read()  # ends when both have ended: the writer inherits it
        run.wait()
    assert run.returncode == -signal.SIGKILL
    record(path, overwrite=True)
    assert Recording.open(path).truncated is None


def test_a_run_spares_the_scenario_and_older_recordings(tmp_path: Path) -> None:
    source = tmp_path / "mine.py"
    text = "from rtsim.models.orbit import scenario\n"
    source.write_text(text)
    result = rtsim("run", source, "-o", source, "--force")
    assert (result.exit_code, source.read_text()) == (2, text)
    assert "is not a recording" in result.stderr
    path = tmp_path / "a.mcap"
    assert rtsim("run", source, "-o", path, "--until", 1).exit_code == 0
    result = rtsim("run", source, "-o", path, "--until", 1)
    assert (result.exit_code, "--force" in result.stderr) == (2, True)
    assert rtsim("run", source, "-o", path, "--until", 1, "--force").exit_code == 0


def test_a_run_that_cannot_be_built_leaves_no_file(tmp_path: Path) -> None:
    source = tmp_path / "mine.py"
    source.write_text(
        "from rtsim import Model, Scenario, Signals\n"
        "def motor(t, x):\n    pass\n"
        "def scenario():\n"
        "    s = Scenario('s')\n"
        "    s.plant('a', Model('a', Signals('x'), motor), step=0.1)\n"
        "    return s\n"
    )
    assert rtsim("run", source, "-o", tmp_path / "a.mcap").exit_code == 2
    assert not (tmp_path / "a.mcap").exists()


def test_a_report_is_written_over_reports_only(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    assert rtsim("run", "orbit", "--until", 1, "-o", path).exit_code == 0
    before = path.read_bytes()
    result = rtsim("report", path, "-o", path)
    assert (result.exit_code, path.read_bytes()) == (2, before)
    assert "-o PATH" in result.stderr
    other = tmp_path / "b.mcap"
    other.write_bytes(before)
    assert rtsim("report", path, "-o", other).exit_code == 2
    assert other.read_bytes() == before
    source = tmp_path / "mine.py"
    source.write_text("precious = 1\n")
    result = rtsim("report", path, "-o", source)
    assert (result.exit_code, source.read_text()) == (2, "precious = 1\n")
    for _ in range(2):
        assert rtsim("report", path).exit_code == 0
