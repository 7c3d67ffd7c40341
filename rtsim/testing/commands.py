"""Conformance checks for commands of ``rtsim``, including those of other packages."""

from __future__ import annotations

import subprocess
import sys

WITHIN_S = 60


def check_command(name: str) -> None:
    """Check that a command obeys the rules for commands of ``rtsim``.

    - ``rtsim --help`` must list the command with a description.
    - ``rtsim NAME --help`` must exit with 0 and show the usage.
    - With an unknown option, the command must exit with 2 and without a traceback.
    """
    listed = _rtsim("--help").stdout
    rows = [line.split() for line in listed.splitlines()]
    row = next((words for words in rows if words[:1] == [name]), None)
    assert row is not None, f"rtsim --help does not list {name}; see docs/extending.md"
    assert len(row) > 1, f"{name} has no docstring, so rtsim --help shows no text; add one"
    assert row[1:3] != ["(cannot", "be"], f"{name} cannot be loaded: {' '.join(row)}"
    helped = _rtsim(name, "--help")
    assert helped.returncode == 0, f"rtsim {name} --help exits with {helped.returncode}, not 0"
    assert f"rtsim {name}" in helped.stdout, f"rtsim {name} --help does not show the usage"
    refused = _rtsim(name, "--no-such-option")
    assert refused.returncode == 2, (
        f"rtsim {name} --no-such-option exits with {refused.returncode}; expected 2"
    )
    assert "Traceback" not in refused.stderr, refused.stderr


def _rtsim(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rtsim", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, encoding="utf-8", timeout=WITHIN_S, check=False
    )
