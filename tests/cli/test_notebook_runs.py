"""The notebook of the docs: it is stored without outputs, and nbconvert makes a page of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).resolve().parents[2] / "docs/notebooks/first_run.ipynb"


def test_it_is_stored_without_outputs() -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert [one["cell_type"] for one in cells].count("code") >= 5
    assert not any(one.get("outputs") or one.get("execution_count") for one in cells)


@pytest.mark.long
def test_nbconvert_runs_it_and_makes_a_page(tmp_path: Path) -> None:
    own = {f"JUPYTER_{name}_DIR": str(tmp_path / name) for name in ("CONFIG", "DATA", "RUNTIME")}
    told = subprocess.run(
        [sys.executable, "-m", "nbconvert", "--execute", "--to", "html", "--output-dir",
         str(tmp_path), str(NOTEBOOK)],
        capture_output=True, encoding="utf-8", cwd=tmp_path, timeout=300,
        env={**os.environ, **own, "IPYTHONDIR": str(tmp_path), "PYTHONWARNINGS": "default"},
    )  # fmt: skip
    assert told.returncode == 0, told.stderr[-3000:]
    page = (tmp_path / "first_run.html").read_text(encoding="utf-8")
    for shown in (
        "<svg", "every 100 ms", "after 30 ms", "end at 5.000000000 s", "largest distance 1.",
        "plotly-graph-div", "largest difference",
    ):  # fmt: skip
        assert shown in page, shown
    assert "Traceback" not in page
