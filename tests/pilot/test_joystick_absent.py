"""Why no joystick is found, and what to do about it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

from rtsim.pilot.devices.device import why_none


def linux(root: Path, *nodes: str, sticks: dict[str, str] | None = None) -> Path:
    """A tree as the kernel shows it: device nodes, and joysticks with their event nodes."""
    for node in nodes:
        (root / "dev/input").mkdir(parents=True, exist_ok=True)
        (root / "dev/input" / node).touch()
    for k, (name, event) in enumerate((sticks or {}).items()):
        folder = root / f"sys/class/input/js{k}/device"
        (folder / event).mkdir(parents=True)
        (folder / "name").write_text(f"{name}\n")
    return root


@pytest.mark.parametrize(
    ("nodes", "sticks", "readable", "what"),
    [
        ((), {}, True, "/dev/input does not exist.*--device /dev/input"),
        (("event0",), {}, True, "lsusb.*modprobe -a joydev xpad"),
        (("event7",), {"X-52": "event7"}, False, "X-52 .*/event7: type sudo usermod -aG input"),
        (("event7",), {"X-52": "event7"}, True, "X-52.*SDL_JOYSTICK_DEVICE=/dev/input/event7"),
    ],
)
def test_where_the_way_to_a_device_ends(
    tmp_path: Path, nodes: tuple[str, ...], sticks: dict[str, str], readable: bool, what: str
) -> None:
    root = linux(tmp_path, *nodes, sticks=sticks)
    said = why_none(root, "linux", lambda _: readable)
    assert re.search(what, said), said


def test_where_the_way_to_a_device_ends_elsewhere(tmp_path: Path) -> None:
    assert "joy.cpl" in why_none(tmp_path, "win32")
    assert "Input Monitoring" in why_none(tmp_path, "darwin")


@pytest.mark.long
def test_two_that_are_installed_over_one_another_are_told(tmp_path: Path) -> None:
    """Both are there as far as their metadata goes, which is what pip leaves."""
    other = "pygame_ce" if not _has("pygame-ce") else "pygame"
    folder = tmp_path / "site" / f"{other}-2.5.6.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {other}\nVersion: 2.5.6\n")
    done = subprocess.run(
        [sys.executable, "-m", "rtsim", "joystick", "--once"],
        env={**os.environ, "PYTHONPATH": str(folder.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "pip uninstall -y pygame pygame-ce" in done.stderr


def _has(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True
