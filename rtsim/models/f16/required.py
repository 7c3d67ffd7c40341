"""The requirement files of the F-16's scenarios (``docs/f16-requirements.md``)."""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parent
REQUIREMENTS = {
    "f16": _FOLDER / "autopilot.toml",
    "f16-by-hand": _FOLDER / "by_hand.toml",
}
"""Requirement file of each scenario, for ``rtsim check --require``.

The requirements are about flights with a scripted stick, and about NASA's check cases 13.1 to 13.4.
"""
