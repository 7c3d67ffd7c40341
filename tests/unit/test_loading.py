"""A scenario in a file is the one that stands there now."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from rtsim.scenario.loading import load_scenario
from rtsim.scenario.standard_components import PlantComponent

TEXT = """from rtsim import Scenario
from rtsim.models.unstable import UNSTABLE

def scenario():
    out = Scenario("mine")
    out.plant("plant", UNSTABLE, step=0.01, inputs={"force": 1.0})
    return out
"""


def step_of(file: Path) -> int:
    part = load_scenario(str(file)).component("plant")
    assert isinstance(part, PlantComponent)
    return part.step.tick(1)


def test_an_edit_that_changes_neither_size_nor_second_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By these Python tells whether its bytecode is of this text."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    file = tmp_path / "mine.py"
    found = []
    for step in ("0.01", "0.02"):
        file.write_text(TEXT.replace("0.01", step))
        os.utime(file, (1e9, 1e9))
        found.append(step_of(file))
    assert found == [10_000_000, 20_000_000]
    assert not (tmp_path / "__pycache__").exists()
