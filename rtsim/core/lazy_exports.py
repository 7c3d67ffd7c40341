"""Packages whose public names are imported at their first use.

A process that runs no model should not load a compiler.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module


def lazy_exports(package: str) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for ``package``.

    The package must import the names of ``__all__`` under ``if TYPE_CHECKING:``. ``import NAME as
    OTHER`` exports OTHER.
    """

    def get(name: str) -> object:
        module = sys.modules[package]
        if name not in module.__all__:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module_name, its_name = _places(package)[name]
        return getattr(import_module(module_name), its_name)

    def known() -> list[str]:
        module = sys.modules[package]
        return sorted({*vars(module), *module.__all__})

    return get, known


@cache
def _places(package: str) -> dict[str, tuple[str, str]]:
    import ast  # only needed at the first use of a name
    import inspect

    source = inspect.getsource(sys.modules[package])
    return {
        alias.asname or alias.name: (node.module, alias.name)
        for block in ast.parse(source).body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom) and node.module is not None
        for alias in node.names
    }
