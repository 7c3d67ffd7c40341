"""The process that writes the recording has no threads beside its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from record_samples import ticking

from rtsim.record.file import FileRecorder


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="no /proc")
def test_no_thread_of_a_library_takes_the_time_of_the_writer(tmp_path: Path) -> None:
    """Those of OpenBLAS busy-wait at first; numpy starts them if more than one CPU is usable."""
    with FileRecorder(tmp_path / "run.mcap", ticking()) as recorder:
        (process,) = recorder.beside
        recorder.start({})
        assert len(list(Path(f"/proc/{process}/task").iterdir())) == 1
