"""Several levels, each compared with the level before: reference model, C on the host, board."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hitl.comparison.mismatches import reservation
from hitl.comparison.verdict import BackToBack
from rtsim.core.outcome import Judged, Outcome


@dataclass(frozen=True, eq=False)
class Ladder(Judged):
    """Comparisons of neighbouring levels; the first pair begins with the reference model."""

    pairs: tuple[BackToBack, ...]

    @property
    def scenario(self) -> str:
        return self.pairs[0].scenario

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all levels as in JSON, ``design`` first."""
        return (self.pairs[0].sides.design, *(pair.sides.translation for pair in self.pairs))

    def _judge(self) -> Outcome:
        """The outcome of all pairs together."""
        return Outcome.of_all(pair.outcome for pair in self.pairs)

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
    def doubts(self) -> list[str]:
        """Clauses on what ``--strict`` refuses besides faults, without repetitions."""
        return list(dict.fromkeys(text for pair in self.pairs for text in pair.doubts))

    @property
    def in_words(self) -> str:
        """The verdict, followed by the first failures of each pair that fails."""
        verdicts = ", and ".join(pair.statement for pair in self.pairs)
        loops = but = ""
        if self._judge() is Outcome.PASSED:
            loops = self.pairs[-1].how
            but = reservation(text for pair in self.pairs for text in pair.reserved)
        lines = [f"{self.scenario}: {verdicts}{loops}{but}"]
        for pair in self.pairs:
            lines += [f"{pair.sides.gap}, {line}" for line in pair.why]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Return plain data; a number that is not finite becomes ``None``."""
        return {
            "scenario": self.scenario,
            "ok": self._judge() is Outcome.PASSED,
            "outcome": self._judge().name.lower(),
            "columns": list(self.names),
            "settings": self.settings,
            "notes": list(self.notes),
            "pairs": [pair.to_json() for pair in self.pairs],
        }
