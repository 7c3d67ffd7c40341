"""What can be chosen by name: rtsim's own, what packages add, and what is refused."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.extension_point import ExtensionPoint

GROUP = "rtsim.tests"


def number(name: str, made: object) -> int:
    if not isinstance(made, int):
        raise ScenarioError(f"number {name!r} is {made!r}; expected a whole number")
    return made


@pytest.fixture
def entries(monkeypatch: pytest.MonkeyPatch) -> list[EntryPoint]:
    """The entry points that are installed."""
    found: list[EntryPoint] = []

    def installed(group: str) -> list[EntryPoint]:
        return [entry for entry in found if entry.group == group]

    monkeypatch.setattr("rtsim.core.extension_point.entry_points", installed)
    return found


def point() -> ExtensionPoint[int]:
    return ExtensionPoint(GROUP, "number", {"one": 1, "two": 2}, number)


@pytest.mark.usefixtures("entries")
def test_a_shipped_object_given_as_text_is_imported_at_its_first_use() -> None:
    numbers = ExtensionPoint(GROUP, "number", {"largest": "sys:maxsize", "bad": "sys:x"}, number)
    assert list(numbers) == ["largest", "bad"]
    assert "largest" in numbers
    assert numbers["largest"] == numbers.get_or_raise("largest") == sys.maxsize
    with pytest.raises(AttributeError):
        numbers["bad"]
    with pytest.raises(ScenarioError, match="rtsim's own"):
        numbers.add("largest", 1)


def test_names_in_the_order_shipped_added_installed(entries: list[EntryPoint]) -> None:
    numbers = point()
    entries.append(EntryPoint("maximum", "sys:maxsize", GROUP))
    entries.append(EntryPoint("other", "sys:maxsize", "another.group"))
    numbers.add("four", 4)
    assert list(numbers) == ["one", "two", "four", "maximum"]
    assert len(numbers) == 4
    assert (numbers["one"], numbers["four"]) == (1, 4)
    assert numbers["maximum"] > 2**30
    assert "maximum" in numbers
    assert "other" not in numbers
    assert numbers.get("other") is None


def test_an_unknown_name_lists_the_known_ones(entries: list[EntryPoint]) -> None:
    entries.append(EntryPoint("maximum", "sys:maxsize", GROUP))
    with pytest.raises(UnknownName, match=r"unknown number 'seven'.*known: one, two, maximum"):
        point().get_or_raise("seven")
    with pytest.raises(UnknownName, match=r"unknown number 'maxmum' in file.toml; did you mean m"):
        point().get_or_raise("maxmum", "file.toml")


def test_rtsims_own_cannot_be_replaced_but_what_was_added_can(entries: list[EntryPoint]) -> None:
    numbers = point()
    with pytest.raises(ScenarioError, match="number 'one' is rtsim's own and cannot be replaced"):
        numbers.add("one", 11)
    numbers.add("four", 5)
    numbers.add("four", 4)
    assert numbers["four"] == 4
    entries.append(EntryPoint("one", "sys:maxsize", GROUP))
    assert numbers["one"] == 1
    assert list(numbers).count("one") == 1


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("no_such_module:x", "comes from no_such_module:x, which cannot be imported: ModuleNotFo"),
        ("sys:no_such_name", "cannot be imported: AttributeError"),
        ("sys:version", r"number 'bad' is '.*expected a whole number \(it comes from sys:version"),
    ],
)
def test_a_broken_package_is_named(entries: list[EntryPoint], value: str, said: str) -> None:
    numbers: Any = point()
    entries.append(EntryPoint("bad", value, GROUP))
    assert "bad" in list(numbers), "its name is known without an import"
    with pytest.raises(ScenarioError, match=said):
        numbers["bad"]
    assert numbers["one"] == 1, "the others can still be used"


def test_a_name_that_two_packages_add_is_refused(entries: list[EntryPoint]) -> None:
    numbers = point()
    entries += [EntryPoint("n", "sys:maxsize", GROUP), EntryPoint("n", "sys:maxsize", GROUP)]
    assert numbers["n"] > 0, "one package that is on the path twice"
    entries += [EntryPoint("m", "sys:maxsize", GROUP), EntryPoint("m", "sys:hexversion", GROUP)]
    with pytest.raises(ScenarioError, match="'m' comes from several packages: sys:maxsize, sys:h"):
        numbers.get_or_raise("m")


def test_what_cannot_be_used_is_not_added() -> None:
    numbers: Any = point()
    with pytest.raises(ScenarioError, match="number 'text' is 'x'; expected a whole number"):
        numbers.add("text", "x")
    assert "text" not in numbers
