"""Several translations, each held against the one before: design, C on the host, C on a board."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hitl.comparison.mismatches import reservation
from hitl.comparison.verdict import BackToBack


@dataclass(frozen=True, eq=False)
class Ladder:
    """The pairs, from the design upwards; each begins with what the one before it ends with."""

    pairs: tuple[BackToBack, ...]

    @property
    def scenario(self) -> str:
        return self.pairs[0].scenario

    @property
    def names(self) -> tuple[str, ...]:
        """Of all columns, the design first."""
        return (self.pairs[0].sides.design, *(pair.sides.translation for pair in self.pairs))

    @property
    def ok(self) -> bool:
        return all(pair.ok for pair in self.pairs)

    @property
    def settings(self) -> dict[str, Any]:
        """Of the uppermost; the others fly as fast as possible."""
        return self.pairs[-1].settings

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(note for pair in self.pairs for note in pair.notes))

    @property
    def in_words(self) -> str:
        """The verdict, then the first failures of each pair that fails."""
        flown = self.ok and self.pairs[-1].flight is not None
        verdicts = ", and ".join(pair.statement for pair in self.pairs)
        loops = ", in open and in closed loop" * flown
        but = reservation(self.notes) if self.ok else ""
        lines = [f"{self.scenario}: {verdicts}{loops}{but}"]
        for pair in self.pairs:
            lines += [f"{pair.sides.gap}, {line}" for line in pair.why]
        return "\n".join(lines)

    def assert_ok(self) -> None:
        """Raise :class:`AssertionError` that names signal, step and values."""
        if not self.ok:
            raise AssertionError(self.in_words)

    def to_json(self) -> dict[str, Any]:
        """Plain data; what is not finite is ``None``."""
        return {
            "scenario": self.scenario,
            "ok": self.ok,
            "columns": list(self.names),
            "settings": self.settings,
            "notes": list(self.notes),
            "pairs": [pair.to_json() for pair in self.pairs],
        }
