"""``--scenario`` and ``--trust``: what a file from somebody else may have executed."""

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
    help="Run this instead of what the file names as its scenario.",
)
_trust = click.option(
    "--trust",
    is_flag=True,
    help="Run whatever code the file names, from wherever (docs/trust.md).",
)


def trust_option(command: F) -> F:
    """The word alone, for what is made of C."""

    @wraps(command)
    def asked(trust: bool, **options: Any) -> Any:
        with permitted(everything=trust):
            return command(**options)

    decorated: Any = _trust(asked)
    return decorated  # type: ignore[no-any-return]


def trust_options(command: F) -> F:
    """Both, for a command that runs again what a recording or a checkpoint names."""

    @wraps(command)
    def asked(instead: str | None, trust: bool, **options: Any) -> Any:
        with permitted(instead, trust):
            return command(**options)

    decorated: Any = _scenario(_trust(asked))
    return decorated  # type: ignore[no-any-return]
