"""A flight by hand without hands: a virtual joystick in the viewer's process, the real command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rtsim.core.signals import Vector
from rtsim.models.f16.by_wire import STICK
from rtsim.pilot.devices.calibration import own_mapping
from rtsim.record.reading import Recording
from tools.bench.pilot_witness import moved, shown, witnessed

pytestmark = [
    pytest.mark.realtime,
    pytest.mark.skipif(sys.platform == "win32", reason="the joystick's library lies elsewhere"),
]
EVERY_S, START_S = 0.25, 30.0
"""Between two places; and, at most, from the viewer's start to the run's."""


def script(seconds: float) -> list[tuple[float, tuple[float, ...]]]:
    """Turns, climbs and descents, rudder and lever: another place of the stick 4 times a second."""
    t = np.arange(0.0, seconds, EVERY_S)
    axes = np.column_stack([
        0.7 * np.sin(2.0 * t), 0.35 * np.sin(1.1 * t + 1.0), 0.3 * np.sin(0.4 * t),
        0.6 - 0.3 * np.sin(1.3 * t),  # through the value, so that the lever takes over
    ])  # fmt: skip
    return [(float(at), tuple(row)) for at, row in zip(t, axes.tolist(), strict=True)]


@pytest.mark.parametrize(
    "seconds", [4.0, pytest.param(120.0, marks=pytest.mark.full)], ids=["short", "two minutes"]
)
def test_what_a_person_did_replays_bit_for_bit(tmp_path: Path, seconds: float) -> None:
    path = tmp_path / "run.mcap"
    moves = script(seconds + START_S)
    with witnessed(tmp_path, moves):
        flown = rtsim(
            "fly", "f16", "--until", f"{seconds:g}", "--headless", "--size", "320x180",
            "--overrun", "slip", "-o", str(path), "--json",
        )  # fmt: skip
    pilot = json.loads(flown)["pilot"]
    done, wanted = len(moved(tmp_path)), seconds / EVERY_S
    assert done >= wanted
    recording = Recording.open(path)
    assert recording.footer is not None
    assert recording.footer["reason"] == "end"
    assert recording.end_ns == seconds * 1e9
    times = recording.track("inputs/stick").ns
    assert len(times) > 0.5 * wanted
    for axis, name in enumerate(("roll", "pitch", "yaw", "throttle")):
        where = [row[axis] for _, row in moves[:done]]
        assert follows(recording.track("inputs/stick").column(name), where, name) > wanted // 3
    assert np.ptp(recording["f16.roll"]) > 0.3
    assert pilot["input_to_step"]["count"] == len(times)
    assert (np.diff(shown(tmp_path)) > 0).all()
    said = json.loads(rtsim("replay", str(path), "--json"))
    assert said["ok"], said
    assert (said["by"], said["rows"]) == ("bits", recording.trace_rows)
    assert said["until_s"] == seconds


def follows(recorded: Vector, axis: list[float], name: str) -> int:
    """Every value at the external input is one of the script, as the mapping shapes it, in order.

    Which of them was the last.
    """
    (value,) = (v for v in own_mapping(STICK) if v.name == name)
    low, high = STICK[name].low, STICK[name].high
    shaped = np.array([value.shape(raw) for raw in axis]) * (high - low) / 2 + (high + low) / 2
    at = 0
    for found in recorded.tolist():
        later = np.flatnonzero(np.abs(shaped[at:] - found) < 1e-3)
        assert later.size or found == recorded[0], f"{name} = {found} at no place of the stick"
        at += int(later[0]) if later.size else 0
    return at


def rtsim(*arguments: str) -> str:
    """What it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "rtsim", *arguments], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
