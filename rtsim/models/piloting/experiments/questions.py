"""The questions that a participant answers after each trial."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.models.piloting.reading import check_keys, number, texts

SCALE, CHOICE, TEXT = "scale", "choice", "text"
KINDS = (SCALE, CHOICE, TEXT)
MOST_TEXT = 1000
_KEYS = ("name", "text", "kind", "low", "high", "choices")
Answer = float | str | None


@dataclass(frozen=True)
class Question:
    """A question of one of the :data:`KINDS`; an empty answer skips it.

    A ``scale`` takes a number from ``low`` to ``high``, a ``choice`` one of ``choices``.
    """

    name: str
    text: str
    kind: str = SCALE
    low: float = 1.0
    high: float = 10.0
    choices: tuple[str, ...] = ()

    @classmethod
    def from_data(cls, data: Mapping[str, Any], where: str) -> Self:
        """Return the question from plain data; raises :class:`ScenarioError`."""
        check_keys(data, _KEYS, where)
        for key in ("name", "text"):
            if not isinstance(data.get(key), str) or not data[key]:
                raise ScenarioError(f"{where}: {key} = {data.get(key)!r}; give a text")
        kind = data.get("kind", SCALE)
        if kind not in KINDS:
            raise UnknownName("kind of question", str(kind), KINDS, where)
        if not str(data["name"]).isidentifier():
            raise ScenarioError(
                f"{where}: name = {data['name']!r}; use letters, digits and _, because the name "
                "becomes a column"
            )
        low, high = (number(data.get(k, d), f"{where}: {k}") for k, d in (("low", 1), ("high", 10)))
        choices = texts(data.get("choices", []), f"{where}: choices")
        if kind == SCALE and not low < high:
            raise ScenarioError(f"{where}: low = {low:g}, high = {high:g}; give low < high")
        if kind == CHOICE and len(choices) < 2:
            raise ScenarioError(f"{where}: choices = {list(choices)}; give two or more texts")
        return cls(str(data["name"]), str(data["text"]), str(kind), low, high, choices)

    @property
    def prompt(self) -> str:
        """The question with the answers that it takes."""
        if self.kind == SCALE:
            return f"{self.text} ({self.low:g} to {self.high:g}, Enter to skip)"
        if self.kind == CHOICE:
            return f"{self.text} ({', '.join(self.choices)}; Enter to skip)"
        return f"{self.text} (Enter to skip)"

    def read(self, typed: str) -> Answer:
        """Return the answer; ``None`` for an empty text.

        Raises :class:`ScenarioError`, with what is allowed, for an answer that is not valid.
        """
        given = typed.strip()
        if not given:
            return None
        if self.kind == SCALE:
            return self._scale(given)
        if self.kind == CHOICE and given not in self.choices:
            raise ScenarioError(f"{given!r} is none of {', '.join(self.choices)}; type one of them")
        if len(given) > MOST_TEXT or not given.isprintable():
            raise ScenarioError(f"type at most {MOST_TEXT} printable characters")
        return given

    def _scale(self, given: str) -> float:
        try:
            value = float(given)
        except ValueError:
            value = math.nan
        if not self.low <= value <= self.high:
            raise ScenarioError(
                f"{given!r} is not a number from {self.low:g} to {self.high:g}; type one"
            )
        return value
