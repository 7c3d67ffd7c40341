"""Optional packages: one error message for all that are missing."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from typing import Any

from rtsim.core.errors import ScenarioError


def extra(module: str, name: str, what: str) -> Any:
    """Return an optional ``module``, which the extra ``name`` of rtsim installs.

    Raises :class:`ScenarioError`, with what to type, if it cannot be imported.  ``what`` is the
    thing that needs the module, for the message.
    """
    with needs(name, what):
        return importlib.import_module(module)


@contextmanager
def needs(name: str, what: str) -> Iterator[None]:
    """Raise as :func:`extra` does if an import in the body fails, for imports that have types."""
    try:
        yield
    except ImportError as error:
        raise missing(error.name or "", name, what, error) from None


def installed(module: str, name: str, what: str) -> ModuleSpec:
    """Return where the optional top-level ``module`` is, which is not imported.

    Raises as :func:`extra` does: a command calls this before it begins its work.
    """
    found = importlib.util.find_spec(module)
    if found is None:
        raise missing(module, name, what, f"there is no module {module}")
    return found


def missing(module: str, name: str, what: str, why: object) -> ScenarioError:
    """Return the error of :func:`extra`, with the reason ``why``."""
    return ScenarioError(
        f"{what} needs the package {module.partition('.')[0]}, which cannot be imported "
        f"({why}); type pip install 'rtsim[{name}]'"
    )
