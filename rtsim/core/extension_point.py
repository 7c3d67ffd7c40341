"""Registries of objects that a user selects by name, such as solvers.

rtsim ships some objects. A An installed package adds objects to a registry through entry points.
``ExtensionPoint.add`` adds an object for the current process only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

from rtsim.core.errors import ScenarioError, UnknownName

T = TypeVar("T")
Check = Callable[[str, object], T]
"""Function that returns a suitable object, and raises :class:`ScenarioError` for any other."""


class ExtensionPoint(Mapping[str, T], Generic[T]):
    """A mapping from names to objects, to which other packages can add objects.

    Args:
        group: Group of the entry points. An entry point is imported at its first use.
        what: Noun for an object in error messages, such as ``solver``.
        shipped: rtsim's own objects by name, or texts ``module:name``, which are imported at their
            first use.
        check: Function that is called once for each object of another package.
    """

    def __init__(
        self, group: str, what: str, shipped: Mapping[str, T | str], check: Check[T]
    ) -> None:
        self.group = group
        self.what = what
        self._shipped = dict(shipped)
        self._check = check
        self._added: dict[str, T] = {}
        self._loaded: dict[str, T] = {}

    def add(self, name: str, made: T) -> None:
        """Add an object for this process, or replace an object added earlier under the same name.

        Raises ``ScenarioError`` if the name belongs to an object of rtsim, or if the new object is
        unsuitable.
        """
        if name in self._shipped:
            raise ScenarioError(
                f"{self.what} {name!r} is rtsim's own and cannot be replaced; use another name"
            )
        self._added[name] = self._check(name, made)

    def get_or_raise(self, name: str, where: str = "") -> T:
        """Return the object called ``name``.

        Raises :class:`UnknownName`, which lists existing names.  ``where`` is part of the message.
        """
        try:
            return self[name]
        except KeyError:
            raise UnknownName(self.what, name, self, where) from None

    def __getitem__(self, name: str) -> T:
        for known in (self._added, self._loaded):
            if name in known:
                return known[name]
        if name in self._shipped:
            self._loaded[name] = self._imported(self._shipped[name])
            return self._loaded[name]
        entries = self._entries().get(name, [])
        if not entries:
            raise KeyError(name)
        self._loaded[name] = self._load(entries)
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._shipped or name in self._added or name in self._entries()

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._shipped, *self._added, *self._entries())))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @staticmethod
    def _imported(shipped: T | str) -> T:
        if not isinstance(shipped, str):
            return shipped
        module, _, name = shipped.partition(":")
        made: T = getattr(import_module(module), name)
        return made

    def _entries(self) -> dict[str, list[EntryPoint]]:
        found: dict[str, list[EntryPoint]] = {}
        for entry in entry_points(group=self.group):
            others = found.setdefault(entry.name, [])
            if all(entry.value != other.value for other in others):
                others.append(entry)
        return found

    def _load(self, entries: list[EntryPoint]) -> T:
        name = entries[0].name
        if len(entries) > 1:
            several = ", ".join(_source(entry) for entry in entries)
            raise ScenarioError(
                f"{self.what} {name!r} comes from several packages: {several}; uninstall all of "
                "them but one"
            )
        source = _source(entries[0])
        try:
            made = entries[0].load()
        except Exception as error:
            raise ScenarioError(
                f"{self.what} {name!r} comes from {source}, which cannot be imported: "
                f"{type(error).__name__}: {error}; repair or uninstall that package"
            ) from error
        try:
            return self._check(name, made)
        except ScenarioError as error:
            raise ScenarioError(f"{error} (it comes from {source})") from error


def _source(entry: EntryPoint) -> str:
    package = "" if entry.dist is None else f" of package {entry.dist.name}"
    return f"{entry.value}{package}"
