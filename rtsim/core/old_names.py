"""Old names of modules, classes and methods from version 0.1: they work, with a warning.

An old name is removed in the second minor version after the rename (CHANGELOG.md).
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.abc import Loader, MetaPathFinder

    class _Finder(MetaPathFinder, Loader):
        """The methods that the import system needs of an object that finds and loads modules."""

else:  # importlib.abc takes 5 ms to import, and its classes add nothing here
    _Finder = object

_MOVED = {
    "rtsim.core": (
        "clock", "errors", "estimates", "random_streams", "signals", "tag",
    ),
    "rtsim.core.net": ("keys", "messagepack", "sockets"),
    "rtsim.equations": ("compiling", "modal", "model", "source_hash"),
    "rtsim.components": (
        "bus", "controller", "controller_task", "latency", "plant", "ports", "tasks",
    ),
    "rtsim.engine": ("checkpoint", "executive", "faults", "system", "trace"),
    "rtsim.scenario": ("loading", "trust"),
    "rtsim.runs": ("diverging", "replay", "simulation"),
}  # fmt: skip
_RENAMED = {
    "rtsim.bad_day": "rtsim.runs.replay",
    "rtsim.building": "rtsim.scenario.scenario",
    "rtsim.control": "rtsim.engine.commands",
    "rtsim.control.desk": "rtsim.engine.commands.command_handler",
    "rtsim.crossings": "rtsim.solve.guard_watch",
    "rtsim.history": "rtsim.components.request_log",
    "rtsim.inlets": "rtsim.components.external_inputs",
    "rtsim.instant": "rtsim.engine.microsteps",
    "rtsim.models.earth": "rtsim.equations.earth",
    "rtsim.models.f16.law": "rtsim.models.f16.controller",
    "rtsim.parts": "rtsim.scenario.standard_components",
    "rtsim.record.tape": "rtsim.record.recorders",
    "rtsim.resuming": "rtsim.runs.resume",
    "rtsim.scenario.controller_part": "rtsim.scenario.controller_component",
    "rtsim.scenario.parts": "rtsim.scenario.standard_components",
    "rtsim.scene": "rtsim.scenario.shown",
}
_NEW = _RENAMED | {
    f"rtsim.{name}": f"{at}.{name}" for at, names in _MOVED.items() for name in names
}


def new_name(name: str) -> str | None:
    """Return the present name of a module; ``None`` if ``name`` is not an old name."""
    if name in _NEW:
        return _NEW[name]
    package, _, module = name.rpartition(".")
    return f"{_NEW[package]}.{module}" if package in _NEW else None


def names_moved(module: str, to: Mapping[str, str]) -> Callable[[str], object]:
    """Return a ``__getattr__`` for a module from which names have moved; using such a name warns.

    ``to`` gives for each moved name the module that has it now.
    """

    def get(name: str) -> object:
        if name not in to:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        new = to[name]
        warnings.warn(f"{module}.{name} is in {new} now", DeprecationWarning, stacklevel=2)
        return getattr(import_module(new), name)

    return get


def names_replaced(module: str, new: Mapping[str, str]) -> Callable[[str], object]:
    """Return a ``__getattr__`` for a module in which names were replaced; using an old name warns.

    ``new`` gives the present name in the same module for each old name.
    """

    def get(name: str) -> object:
        if name not in new:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warnings.warn(
            f"{module}.{name} is called {new[name]} now", DeprecationWarning, stacklevel=2
        )
        return getattr(import_module(module), new[name])

    return get


class OldName:
    """An attribute of a class that gives the attribute ``new`` of the same object, and warns."""

    def __init__(self, new: str) -> None:
        self._new = new
        self._old = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._old = name

    def __get__(self, owner: object, kind: type | None = None) -> Any:
        if owner is None:
            return self
        warnings.warn(
            f"{type(owner).__name__}.{self._old} is called {self._new} now",
            DeprecationWarning,
            stacklevel=2,
        )
        return getattr(owner, self._new)


class _OldNames(_Finder):
    """Finds a module by its old name."""

    def __init__(self) -> None:
        self._specs: dict[str, ModuleSpec | None] = {}

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        return None if new_name(fullname) is None else ModuleSpec(fullname, self)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        new = str(new_name(spec.name))
        warnings.warn(
            f"{spec.name} was renamed: import {new} instead", DeprecationWarning, stacklevel=2
        )
        module = import_module(new)
        self._specs[module.__name__] = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # Restore the module's own spec: the import system has set the spec of the old name.
        module.__spec__ = self._specs.pop(module.__name__)


def install() -> None:
    """Make old names importable; a second call changes nothing."""
    if not any(isinstance(finder, _OldNames) for finder in sys.meta_path):
        # At the first place, because a package's own path would find a second copy of its modules.
        sys.meta_path.insert(0, _OldNames())
