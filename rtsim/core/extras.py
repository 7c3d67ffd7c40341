"""Optional packages: one error message for all that are missing."""

from __future__ import annotations

import importlib
from typing import Any

from rtsim.core.errors import ScenarioError


def extra(module: str, name: str, what: str) -> Any:
    """Return an optional ``module``, which the extra ``name`` of rtsim installs.

    Raises :class:`ScenarioError`, with what to type, if it cannot be imported.  ``what`` is the
    thing that needs the module, for the message.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ScenarioError(
            f"{what} needs the package {module.partition('.')[0]}, which cannot be imported "
            f"({error}); type pip install 'rtsim[{name}]'"
        ) from None
