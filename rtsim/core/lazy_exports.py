"""The public names of a package, each imported when it is first used.

The recorder's process and ``rtsim --help`` also import rtsim.  These programs must not load a
compiler that they never call.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module


def lazy_exports(
    package: str, names: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for ``package``.

    ``names`` are the public names by module: ``{"rtsim.core.tag": ("Tag",)}``.
    """
    module_of = {name: module for module, some in names.items() for name in some}

    def get(name: str) -> object:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(module_of[name]), name)

    def known() -> list[str]:
        return sorted({*vars(sys.modules[package]), *module_of})

    return get, known
