"""Flights of Betaflight: recorded ones, which replay without Betaflight, and one with the program.

``python tests/hitl/programs/test_flights.py`` records the flights again, with Betaflight.
"""

from __future__ import annotations

import lzma
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rtsim as rt
from hitl.programs.betaflight import betaflight_program
from hitl.programs.flights import scenario
from hitl.programs.library import ProgramError
from rtsim.record.file import FileRecorder
from rtsim.record.reading import Recording
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.replay import rerun

_FOLDER = Path(__file__).with_name("flights")
_FAULT = {"probability": 0.05}
_FAULTS = (
    {**_FAULT, "name": "lost", "where": "fc.to_program", "kind": "drop"},
    {**_FAULT, "name": "late", "where": "fc.from_program", "kind": "delay", "delay": 0.01},
)
_SHORT = {"period": 0.01, "seconds": 1.8}
FLIGHTS: dict[str, dict[str, Any]] = {
    "angle": {"flight": 3, "delay": 0.005, **_SHORT},
    "acro": {"flight": 4, "acro": True, "p_roll": 55, **_SHORT},
    "packets": {"flight": 5, **_SHORT},
}


def _flight(name: str) -> rt.Scenario:
    loop = scenario(**FLIGHTS[name])
    if name == "packets":
        loop.faults(*_FAULTS)
    return loop


def _recorded(name: str, folder: Path) -> Recording:
    """Return the recording of the tests."""
    path = folder / f"{name}.mcap"
    path.write_bytes(lzma.decompress((_FOLDER / f"{name}.mcap.xz").read_bytes()))
    return Recording.open(path)


def _record(name: str, folder: Path) -> None:
    """Fly with Betaflight, and replace the recording of the tests."""
    with FileRecorder(folder / f"{name}.mcap") as recorder:
        rt.simulate(_flight(name), recorder=recorder)
    data = lzma.compress((folder / f"{name}.mcap").read_bytes(), preset=9)
    (_FOLDER / f"{name}.mcap.xz").write_bytes(data)


@pytest.mark.parametrize("name", FLIGHTS)
def test_a_recorded_flight_replays_without_betaflight(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hitl.programs.betaflight._BUILT", "nowhere")
    with pytest.raises(ProgramError, match="Betaflight is not installed"):
        betaflight_program()
    recording = _recorded(name, tmp_path)
    assert compare_exact(recording, rerun(recording, _flight(name))) is None
    assert recording["quad.height"].max() > 0.15


@pytest.mark.system("betaflight")
def test_the_quadcopter_flies(tmp_path: Path) -> None:
    for name in FLIGHTS:
        flown = rt.simulate(_flight(name)).recording()
        assert flown.digest() == _recorded(name, tmp_path).digest()
    step = rt.simulate(scenario(seconds=6))
    assert 10 < np.degrees(step["quad.roll"].max()) < 13
    assert step.warnings == []


def _command(begin: re.Match[str]) -> str:
    return {"": "", "python": sys.executable, "rtsim": f"{sys.executable} -m rtsim"}[begin[1]]


@pytest.mark.long
@pytest.mark.system("betaflight")
def test_the_commands_of_the_page(tmp_path: Path) -> None:
    text = (Path(__file__).parents[3] / "docs" / "autopilots.md").read_text(encoding="utf-8")
    printed = []
    for label, block in re.findall(r"^```([^\n]*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        if " file=" in label:
            (tmp_path / label.partition("=")[2]).write_text(block, encoding="utf-8")
        if label:
            continue
        script = re.sub(r"^\$ (rtsim\b|python\b|)", _command, block, flags=re.MULTILINE)
        done = subprocess.run(
            ["sh", "-ec", script.replace("--runs 1000", "--runs 2")],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, script + done.stderr
        printed.append(done.stdout)
    assert any("2 of 2 equal" in one for one in printed)
    assert any("rows equal bit for bit" in one for one in printed)
    assert Recording.open(tmp_path / "late.mcap")["quad.height"].max() > 0.5


if __name__ == "__main__":
    _FOLDER.mkdir(exist_ok=True)
    for which in sys.argv[1:] or FLIGHTS:
        with tempfile.TemporaryDirectory() as folder:
            _record(which, Path(folder))
