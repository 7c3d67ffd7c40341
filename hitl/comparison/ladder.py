"""Several levels, each compared with the level before: reference model, C on the host, board."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hitl.comparison.mismatches import reservation
from hitl.comparison.verdict import BackToBack, refuse
from rtsim.record.verdict import Outcome


@dataclass(frozen=True, eq=False)
class Ladder:
    """Comparisons of neighbouring levels; the first pair begins with the reference model."""

    pairs: tuple[BackToBack, ...]

    @property
    def scenario(self) -> str:
        return self.pairs[0].scenario

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all levels as in JSON, ``design`` first."""
        return (self.pairs[0].sides.design, *(pair.sides.translation for pair in self.pairs))

    @property
    def outcome(self) -> Outcome:
        """The outcome of all pairs together."""
        return Outcome.of_all(pair.outcome for pair in self.pairs)

    @property
    def ok(self) -> bool:
        """True if the outcome is passed."""
        return self.outcome is Outcome.PASSED

    @property
    def settings(self) -> dict[str, Any]:
        """The options of the last run; the runs before it are as fast as possible."""
        return self.pairs[-1].settings

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes of all pairs, without repetitions."""
        return tuple(dict.fromkeys(note for pair in self.pairs for note in pair.notes))

    @property
    def coverage(self) -> list[str]:
        """Sentences on what was compared, each with the names of its pair."""
        return [f"{pair.sides.gap}, {text}" for pair in self.pairs for text in pair.coverage]

    @property
    def unexercised(self) -> list[str]:
        """Sentences on everything that was not exercised, without repetitions."""
        return list(dict.fromkeys(text for pair in self.pairs for text in pair.unexercised))

    @property
    def in_words(self) -> str:
        """The verdict, followed by the first failures of each pair that fails."""
        verdicts = ", and ".join(pair.statement for pair in self.pairs)
        loops = but = ""
        if self.ok:
            loops = self.pairs[-1].how
            but = reservation(text for pair in self.pairs for text in pair.reserved)
        lines = [f"{self.scenario}: {verdicts}{loops}{but}"]
        for pair in self.pairs:
            lines += [f"{pair.sides.gap}, {line}" for line in pair.why]
        return "\n".join(lines)

    def assert_ok(self) -> None:
        """Raise the same errors as :meth:`BackToBack.assert_ok`."""
        refuse(self.outcome, self.in_words)

    def to_json(self) -> dict[str, Any]:
        """Return plain data; a number that is not finite becomes ``None``."""
        return {
            "scenario": self.scenario,
            "ok": self.ok,
            "outcome": self.outcome.name.lower(),
            "columns": list(self.names),
            "settings": self.settings,
            "notes": list(self.notes),
            "pairs": [pair.to_json() for pair in self.pairs],
        }
