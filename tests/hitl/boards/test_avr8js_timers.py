"""Timers that are looked at only when something shows of them: the same flags in the same cycle."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from emulated_board_parts import need

from hitl.boards.emulators import FILES, find_node, library

CHECK = Path(__file__).parents[2] / "helpers" / "avr8js_timers.cjs"


@pytest.mark.sample(1)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_random_programs_see_what_avr8js_shows_by_itself(seed: int) -> None:
    """Modes, dividers, compare values and counts written at any moment, all three timers."""
    need("avr8js")
    parts = (find_node(), CHECK, library(), FILES / "timers.cjs", seed, 300)
    command = [str(part) for part in parts]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
