"""Requirements from Python code, TOML files and the command line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from rtsim.core.errors import RecordingError, ScenarioError
from rtsim.core.toml import ListKey, Place, TableKey, open_toml, read, text
from rtsim.requirements.chains import ChainLimit

if TYPE_CHECKING:
    from rtsim.requirements.formula import UnitOf
    from rtsim.requirements.language import Node

NOT_EXERCISED = "not exercised"
"""Beginning of the reason of a requirement about which a run says nothing."""


@dataclass(frozen=True)
class Requirement:
    """A requirement: its name, its formula, and a sentence for the reader."""

    name: str
    formula: str
    text: str = ""
    chain: ChainLimit | None = None
    """The limit of a chain; ``formula`` is then only its text."""

    def __post_init__(self) -> None:
        for given in (self.name, self.formula, self.text):
            if not isinstance(given, str):
                raise ScenarioError(f"{given!r} is not a text; a requirement is {_EXAMPLE}")
        object.__setattr__(self, "formula", " ".join(self.formula.split()))
        if not self.name.strip():
            raise ScenarioError(f"the requirement {self.formula!r} has no name; give it a name")
        if not self.formula:
            raise ScenarioError(f"requirement {self.name} has no formula; write {_EXAMPLE}")

    def check(self, unit_of: UnitOf) -> Node:
        """Return the tree of the formula.

        Raises ``ScenarioError`` if the formula does not match the signals of the run.
        """
        from rtsim.requirements.formula import checked  # only a run with requirements needs it

        if self.chain is not None:
            raise ScenarioError(
                f"{self.name} limits a chain and has no formula; it is checked at the end of a run"
            )
        try:
            return checked(self.formula, unit_of)
        except ScenarioError as error:
            raise ScenarioError(f"requirement {self.name}: {error}") from None

    def text_of(self, part: Node) -> str:
        """Return the text of a part of the formula."""
        return self.formula[part.at : part.end].strip()

    def to_plain(self) -> dict[str, Any]:
        """Return JSON data for :meth:`of_plain`."""
        plain: dict[str, Any] = {"name": self.name, "formula": self.formula}
        if self.text:
            plain["text"] = self.text
        return plain if self.chain is None else {**plain, "chain": self.chain.to_plain()}

    @classmethod
    def of_plain(cls, plain: Mapping[str, Any]) -> Self:
        chain = ChainLimit.of_plain(plain["chain"]) if "chain" in plain else None
        return cls(str(plain["name"]), str(plain["formula"]), str(plain.get("text", "")), chain)

    @classmethod
    def of_text(cls, given: str) -> Requirement:
        """Return the requirement for a text ``NAME: FORMULA``; the name is optional.

        Raises ``ScenarioError`` for a text that cannot be a formula.
        """
        name, colon, formula = given.partition(":")
        if colon and _NAME.fullmatch(name.strip()):
            return cls(name.strip(), formula)
        if not set(given) & set("<>="):
            raise ScenarioError(
                f"{given!r} is neither a requirement nor a requirement file (.toml); write "
                f"{_EXAMPLE}"
            )
        return cls(given.strip(), given)

    def __str__(self) -> str:
        return self.name if self.name == self.formula else f"{self.name}: {self.formula}"


_NAME = re.compile(r"[\w.-]+( [\w.-]+)*")
_EXAMPLE = "NAME: FORMULA, such as 'SPEED: always cart.v < 2 m/s'"
KEYS = {
    "name": text(wanted="a unique name, such as name = 'REQ-12'"),
    "formula": text(wanted="a formula, such as formula = 'always cart.x < 0.1 m'"),
    "text": text(""),
}
"""Keys of a requirement in a TOML file."""
Given = Requirement | str | Path | Mapping[str, Any]
"""A requirement, its text ``NAME: FORMULA``, its entries, or the path of a requirement file."""


def read_requirements(path: str | Path) -> tuple[Requirement, ...]:
    """Return the requirements of a TOML file.

    Each table ``[[requirement]]`` has the keys ``name``, ``formula`` and, optionally, ``text``.
    Raises :class:`ScenarioError` with file and line.
    """
    file = open_toml(Path(path), "a requirement file", "requirements.toml")
    keys = {"requirement": ListKey("a list of tables [[requirement]]", of=TableKey(keys=KEYS))}
    return gather(Requirement(**one) for one in read(file.data, keys, file.place)["requirement"])


def gather(given: Iterable[Given]) -> tuple[Requirement, ...]:
    """Return the requirements in files, texts or dictionaries.

    Requirements with the same name and formula count once. Raises ``ScenarioError`` for different
    formulas with the same name.
    """
    out: dict[str, Requirement] = {}
    for one in given:
        for requirement in _read(one):
            other = out.setdefault(requirement.name, requirement)
            if requirement.formula != other.formula:
                raise ScenarioError(
                    f"two requirements have the name {requirement.name}; rename one of them"
                )
            if not other.text:
                out[requirement.name] = requirement
    return tuple(out.values())


def _read(given: Given) -> tuple[Requirement, ...]:
    if isinstance(given, Requirement):
        return (given,)
    if isinstance(given, Mapping):
        place = Place(label=f"requirement {given.get('name', '')}".strip())
        return (Requirement(**read(given, KEYS, place)),)
    if isinstance(given, Path) or str(given).endswith(".toml"):
        return read_requirements(given)
    return (Requirement.of_text(str(given)),)


def required_by(header: Mapping[str, Any]) -> tuple[Requirement, ...]:
    """Return the requirements in the header of a recording.

    A malformed header raises :class:`RecordingError`.
    """
    given = header.get("requirements", [])
    try:
        return gather(Requirement.of_plain(one) for one in given)
    except (TypeError, KeyError, AttributeError, ScenarioError) as error:
        raise RecordingError(
            f"the requirements in the header of the recording are not valid: {error}"
        ) from None
