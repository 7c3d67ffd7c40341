"""The command ``rtsim`` in this process, and what it prints."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner, Result

from rtsim.cli import main


def rtsim(*arguments: object) -> Result:
    """Run the command with these arguments."""
    return CliRunner().invoke(main, [str(a) for a in arguments])


def data(result: Result) -> Any:
    """Return the JSON value that a command printed, which must be all of its standard output."""
    return json.loads(result.stdout)
