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


def test_a_module_beside_the_file_is_found_and_only_by_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by an import in the function; as for a script that Python runs."""
    for name in ("rtsim_beside_one", "rtsim_beside_two"):
        monkeypatch.delitem(sys.modules, name, raising=False)
        (tmp_path / f"{name}.py").write_text("STEP = 0.03\n")
    text = TEXT.replace("\ndef", "\nimport rtsim_beside_one\n\ndef").replace(
        "0.01", "rtsim_beside_two.STEP"
    )
    text = text.replace("    out = ", "    import rtsim_beside_two\n    out = ", 1)
    (tmp_path / "mine.py").write_text(text)
    before = list(sys.path)
    assert step_of(tmp_path / "mine.py") == 30_000_000
    assert sys.path == before


def test_modules_of_one_name_beside_two_files_are_two(tmp_path: Path) -> None:
    """And an edited one is read again; modules that are installed stay as they are."""
    text = TEXT.replace("\ndef", "\nimport rtsim_beside\nimport wave\n\ndef")
    found: list[int] = []
    known = set()
    for folder, step in (("a", 0.01), ("b", 0.02), ("a", 0.03)):
        place = tmp_path / folder
        place.mkdir(exist_ok=True)
        (place / "rtsim_beside.py").write_text(f"STEP = {step}  # {len(found) * folder}\n")
        (place / "mine.py").write_text(text.replace("0.01", "rtsim_beside.STEP"))
        found.append(step_of(place / "mine.py"))
        known.add(sys.modules["wave"])
    assert found == [10_000_000, 20_000_000, 30_000_000]
    assert len(known) == 1


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
