"""``--scenario`` and ``--trust``: which code a recording or a checkpoint may run."""

from __future__ import annotations

from functools import wraps
from typing import Any

import click

from rtsim.cli.common import F
from rtsim.scenario.trust import permitted

_scenario = click.option(
    "--scenario",
    "instead",
    metavar="FILE.py[:FUNCTION]",
    default=None,
    help="Run this scenario instead of the scenario that the recording or checkpoint names.",
)
_trust = click.option(
    "--trust",
    is_flag=True,
    help="Run the code that the recording or checkpoint names, in whichever folder it is stored "
    "(docs/trust.md).",
)


def trust_option(command: F) -> F:
    """Decorator: add ``--trust`` alone, for commands that build C code."""

    @wraps(command)
    def asked(trust: bool, **options: Any) -> Any:
        with permitted(everything=trust):
            return command(**options)

    decorated: Any = _trust(asked)
    return decorated  # type: ignore[no-any-return]


def trust_options(command: F) -> F:
    """Decorator: add ``--scenario`` and ``--trust``, for commands that run code named in files."""

    @wraps(command)
    def asked(instead: str | None, trust: bool, **options: Any) -> Any:
        with permitted(instead, trust):
            return command(**options)

    decorated: Any = _scenario(_trust(asked))
    return decorated  # type: ignore[no-any-return]
