"""Finds out why SDL shows no joystick, and what the user can do about it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

_ELSEWHERE = {
    "win32": "type joy.cpl to see whether Windows detects it",
    "darwin": "System Settings, Privacy & Security, Input Monitoring must allow this terminal",
}


def why_none(
    root: Path = Path("/"),
    platform: str = sys.platform,
    readable: Callable[[Path], bool] = lambda path: os.access(path, os.R_OK),
) -> str:
    """Return why no joystick is found and what to do, without a full stop at the end.

    ``root``, ``platform`` and ``readable`` replace the file system and the system for tests.
    """
    if not platform.startswith("linux"):
        more = _ELSEWHERE.get(platform, "check whether the system detects it")
        return f"no joystick or gamepad was found: plug one in; {more}"
    inputs = root / "dev" / "input"
    if not inputs.is_dir():
        return (
            "no joystick or gamepad was found, because /dev/input does not exist. Start a "
            "container with --device /dev/input; under WSL, type on Windows: usbipd attach --wsl"
        )
    found = {
        _text(stick / "device" / "name"): [inputs / event.name for event in _events(stick)]
        for stick in sorted((root / "sys/class/input").glob("js*"))
    }
    shut = {name: [p for p in paths if not readable(p)] for name, paths in found.items()}
    for name, paths in shut.items():
        if paths:
            return (
                f"{name} is plugged in, but you have no permission to read "
                f"/dev/input/{paths[0].name}: type sudo usermod -aG input $USER, then log out and "
                "in again"
            )
    paths = [path for events in found.values() for path in events]
    if paths:
        return (
            f"the kernel detects {', '.join(found)}, but SDL does not: type "
            f"SDL_JOYSTICK_DEVICE=/dev/input/{paths[0].name} before the command"
        )
    return (
        "no joystick or gamepad is plugged in, or the kernel has no driver for it: lsusb lists "
        "the USB devices, sudo modprobe -a joydev xpad hid-generic loads the usual drivers"
    )


def _events(stick: Path) -> list[Path]:
    return sorted((stick / "device").glob("event*"))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip() or "a joystick"
    except OSError:
        return "a joystick"
