"""What the tests of ``rtsim study`` share: a call of the command, and its JSON output."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner, Result

from rtsim.cli.main import main


def rtsim(*words: str) -> Result:
    """Run ``rtsim study`` with these words."""
    return CliRunner().invoke(main, ["study", *words])


def parsed(result: Result) -> dict[str, Any]:
    """Return the JSON output, whose exit status is that of the command."""
    found: dict[str, Any] = json.loads(result.stdout)
    assert found["exit_status"] == result.exit_code
    return found
