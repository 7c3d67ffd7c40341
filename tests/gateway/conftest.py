"""Runs of these tests are listed in a folder of their own, where no other run is found."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _runs_listed_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RTSIM_RUNTIME_DIR", str(tmp_path))
