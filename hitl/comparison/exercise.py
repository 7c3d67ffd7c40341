"""What a comparison put to the test, and what it did not: what stood still says nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.components.controller import Controller
from rtsim.core.tag import NS_PER_S, Tag
from rtsim.engine.trace import request_topic
from rtsim.record.reading import Recording, TrackData
from rtsim.record.verdict import SignalResult, short

_ENDS = {
    "end": "reached its end at",
    "terminal": "ended at a terminal guard at",
    "interrupted": "was interrupted at",
    "quit": "was told to quit at",
    "restored": "went back to a checkpoint at",
    "error": "ended in an error at",
}


@dataclass(frozen=True)
class Exercise:
    """What moved in the steps of one controller, by the design's word."""

    still_outputs: tuple[str, ...] = ()
    """Outputs that never moved, by column."""
    still_inputs: tuple[str, ...] = ()
    """Inputs that never changed."""
    any: bool = True
    """Some output left the value that one has which is never written."""

    @classmethod
    def of(
        cls, design: Controller, inputs: NDArray[np.float64], outputs: NDArray[np.float64]
    ) -> Exercise:
        """From the inputs (k, m) and outputs (k, n) of all steps of ``design``."""
        still = _still(design.outputs.columns, outputs)
        # A bare 0 is what a C answers that does nothing.
        away = (outputs != 0.0) & (outputs != design.outputs.initial())
        some = len(still) < design.outputs.size or bool(away.any())
        return cls(still, _still(design.inputs.columns, inputs), some)

    @property
    def nothing(self) -> str:
        """Why nothing was exercised, in words."""
        outputs = ", ".join(self.still_outputs)
        return (
            f"its design never moves {outputs} in these steps, so that one which does nothing "
            "agrees too; let the scenario ask something of it, such as by a longer --until or "
            "another setpoint"
        )

    @property
    def in_words(self) -> list[str]:
        """Sentences on what was not exercised; none where all was."""
        out = []
        if self.still_outputs:
            out.append(f"outputs that never moved: {', '.join(self.still_outputs)}")
        if self.still_inputs:
            out.append(f"inputs that never changed: {', '.join(self.still_inputs)}")
        return out

    def to_json(self) -> dict[str, Any]:
        return {
            "outputs_that_never_moved": list(self.still_outputs),
            "inputs_that_never_changed": list(self.still_inputs),
        }


@dataclass(frozen=True)
class Effects:
    """What became of the answers of one controller in a flight."""

    asked: int
    """Requests."""
    answered: int
    arrived: int
    """Answers that took effect before the end."""
    away: bool
    """The design says something else at some time than what holds before its first answer."""

    @classmethod
    def of(cls, name: str, design: Controller, baseline: Recording, flown: Recording) -> Effects:
        """Of ``name`` in ``flown``, beside the flight of the design."""
        answers = flown.tracks.get(f"messages/{name}")
        requests = flown.tracks.get(f"messages/{request_topic(name)}")
        wanted = baseline.tracks.get(f"messages/{name}")
        return cls(
            0 if requests is None else len(requests),
            0 if answers is None else len(answers),
            0 if answers is None else int(_effective(answers, flown.end_ns).sum()),
            wanted is not None and _moves(wanted, baseline.end_ns, design),
        )

    @property
    def any(self) -> bool:
        return self.arrived > 0 and self.away

    def nothing(self, name: str) -> str:
        """Why this controller did nothing in the flight; empty where it did something."""
        if not self.arrived:
            return (
                f"no answer of {name} took effect before the end; give it less time to answer "
                "(--latency), or fly longer (--until)"
            )
        if not self.away:
            return (
                f"every answer of the design of {name} is what holds before the first one, so that "
                "none has an effect; let the scenario ask something of it"
            )
        return ""

    def to_json(self) -> dict[str, Any]:
        return {"requests": self.asked, "answers": self.answered, "took_effect": self.arrived}


@dataclass(frozen=True)
class FlightCoverage:
    """Which rows of a flight were compared, and how both flights ended."""

    signals: int = 0
    rows: int = 0
    last_ns: int = -1
    endings: Mapping[str, str] = field(default_factory=dict)
    """By the name of the side."""

    @classmethod
    def of(
        cls, results: Sequence[SignalResult], paired: Recording, flights: Mapping[str, Recording]
    ) -> FlightCoverage:
        """Of the rows that both have, which ``paired`` holds."""
        tracks = [t for t in paired.tracks.values() if t.spec.deterministic and len(t)]
        last = max((int(t.ns.max()) for t in tracks), default=-1)
        ends = {side: ended(flight) for side, flight in flights.items()}
        compared = sum(bool(r.rows) for r in results)
        return cls(compared, sum(len(t) for t in tracks), last, ends)

    @property
    def in_words(self) -> str:
        until = short(Tag(max(self.last_ns, 0)))
        ends = "; ".join(f"the flight with the {side} {how}" for side, how in self.endings.items())
        return f"{self.signals} signals, {self.rows} rows, 0 s to {until}; {ends}"

    def to_json(self) -> dict[str, Any]:
        return {
            "signals": self.signals,
            "rows": self.rows,
            "to_s": max(self.last_ns, 0) / NS_PER_S,
            "ended": dict(self.endings),
        }


def ended(recording: Recording) -> str:
    """How a run ended, by its footer; goes on from the name of the run."""
    footer = recording.footer or {}
    at = short(Tag(int(footer.get("ended", max(recording.end_ns, 0)))))
    return f"{_ENDS.get(str(footer.get('reason', '')), 'was cut off at')} {at}"


def reached_the_end(recording: Recording) -> bool:
    """It came to the end that was asked of it, or to one that it has by itself."""
    return (recording.footer or {}).get("reason") in ("end", "terminal")


def _effective(answers: TrackData, end_ns: int) -> NDArray[np.bool_]:
    """Which of them arrived before the end."""
    arrival = answers.integer("arrival")
    return np.asarray((arrival >= 0) & (arrival <= end_ns))


def _moves(answers: TrackData, end_ns: int, design: Controller) -> bool:
    """Something arrives that is not there before."""
    known, held = design.outputs, design.outputs.initial()
    rows = answers.rows.floats[_effective(answers, end_ns)]
    return any(
        bool((rows[:, answers.signals.slice(name)] != held[known.slice(name)]).any())
        for name in answers.signals.names
        if name in known
    )


def _still(columns: Sequence[str], values: NDArray[np.float64]) -> tuple[str, ...]:
    moved = (values != values[:1]).any(axis=0) if len(values) else np.zeros(len(columns), np.bool_)
    return tuple(c for c, some in zip(columns, moved.tolist(), strict=True) if not some)
