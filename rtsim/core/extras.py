"""Imports of optional packages, with one error message for any missing package."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from typing import Any

from rtsim.core.errors import ScenarioError


def extra(module: str, name: str, what: str) -> Any:
    """Import and return an optional module, which users install as the extra ``name`` of rtsim.

    ``what`` names the feature that needs the module. If the import fails, raise ``ScenarioError``
    with the command that installs the extra.
    """
    with needs(name, what):
        return importlib.import_module(module)


@contextmanager
def needs(name: str, what: str) -> Iterator[None]:
    """Context manager that replaces a failed import by the error message of ``extra``.

    Type checkers recognise an import inside ``with needs(...)``, but not the result of
    :func:`extra`.
    """
    try:
        yield
    except ImportError as error:
        raise missing(error.name or "", name, what, error) from None


def installed(module: str, name: str, what: str) -> ModuleSpec:
    """Return the location of an optional module without importing the module.

    Raises the :class:`ScenarioError` of :func:`extra` if the module is missing.
    """
    found = importlib.util.find_spec(module)
    if found is None:
        raise missing(module, name, what, f"there is no module {module}")
    return found


def missing(module: str, name: str, what: str, why: object) -> ScenarioError:
    return ScenarioError(
        f"{what} needs the package {module.partition('.')[0]}, which cannot be imported "
        f"({why}); type pip install 'rtsim[{name}]'"
    )
