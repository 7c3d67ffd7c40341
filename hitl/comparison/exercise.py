"""Reports on the signals that changed in a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hitl.comparison.outputs import displayed
from rtsim.components.controller import ControllerProtocol
from rtsim.core.tag import NS_PER_S, Tag
from rtsim.engine.trace import request_topic
from rtsim.record.events import RunEnding
from rtsim.record.reading import Recording, TrackData
from rtsim.record.verdict import SignalResult, short


@dataclass(frozen=True)
class Exercise:
    """Inputs and outputs of a reference controller that changed in a comparison."""

    still_outputs: tuple[str, ...] = ()
    """Names of the output columns that never changed."""
    still_inputs: tuple[str, ...] = ()
    """Names of the input columns that never changed."""
    any: bool = True
    """True if an output changed, or was finite and neither 0 nor its initial value."""
    never_finite: tuple[str, ...] = ()
    """Names of the output columns that were NaN or infinite in every step."""
    stimulated_outputs: tuple[str, ...] = ()
    """Names of the still output columns that moved in the comparison on stimuli."""
    stimulated_inputs: tuple[str, ...] = ()
    """Names of the still input columns that moved in the comparison on stimuli."""

    @classmethod
    def of(
        cls, design: ControllerProtocol, inputs: NDArray[np.float64], outputs: NDArray[np.float64]
    ) -> Exercise:
        """Return which inputs and outputs changed in a run of the reference controller.

        ``inputs`` (k, m) and ``outputs`` (k, n) have one row per step.
        """
        columns, finite = design.outputs.columns, np.isfinite(outputs)
        never = _where(columns, np.asarray(~finite.any(axis=0))) if len(outputs) else ()
        still = tuple(c for c in _still(columns, outputs) if c not in never)
        # C code without any effect answers 0.
        away = finite & (outputs != 0.0) & (outputs != design.outputs.initial())
        some = len(still) + len(never) < len(columns) or bool(away.any())
        return cls(still, _still(design.inputs.columns, inputs), some, never)

    @property
    def still_in_words(self) -> list[str]:
        """Sentences on the outputs that prove nothing."""
        sentences = {"never moved": self.never_moved, "were never finite": self.never_finite}
        return [f"outputs that {w}: {', '.join(names)}" for w, names in sentences.items() if names]

    @property
    def idle(self) -> list[str]:
        return [
            *(f"{column} never moved" for column in self.never_moved),
            *(
                f"{column} moved only on the stimuli, not in the run"
                for column in self.stimulated_outputs
            ),
            *(f"{column} was never finite" for column in self.never_finite),
        ]

    @property
    def nothing(self) -> str:
        if self.never_finite:
            return (
                f"in these steps of the reference model, {' and '.join(self.idle)}, so there is "
                "no value to compare; change the scenario so that the outputs move"
            )
        outputs = ", ".join(self.still_outputs)
        return (
            f"the reference model never moves {outputs} in these steps, so C code that does "
            "nothing agrees too; change the scenario so that the outputs move, for example with a "
            "longer --until or another setpoint"
        )

    @property
    def in_words(self) -> list[str]:
        columns = {
            "outputs that only the stimuli moved": self.stimulated_outputs,
            "inputs that never changed": self.never_changed,
            "inputs that only the stimuli changed": self.stimulated_inputs,
        }
        more = [f"{what}: {', '.join(names)}" for what, names in columns.items() if names]
        return self.still_in_words + more

    @property
    def never_moved(self) -> list[str]:
        """Names of the outputs that never changed, in the run or with any stimulus."""
        return [name for name in self.still_outputs if name not in self.stimulated_outputs]

    @property
    def never_changed(self) -> list[str]:
        """Names of the inputs that never changed, in the run or in any stimulus."""
        return [name for name in self.still_inputs if name not in self.stimulated_inputs]

    def to_json(self) -> dict[str, Any]:
        return {
            "outputs_that_never_moved": self.never_moved,
            "outputs_that_only_the_stimuli_moved": list(self.stimulated_outputs),
            "outputs_that_were_never_finite": list(self.never_finite),
            "inputs_that_never_changed": self.never_changed,
            "inputs_that_only_the_stimuli_changed": list(self.stimulated_inputs),
        }


@dataclass(frozen=True)
class Effects:
    """Numbers of requests to a controller, and of answers that took effect."""

    asked: int
    """Number of requests."""
    answered: int
    arrived: int
    """Number of answers that took effect before the end."""
    away: bool
    """True if an answer of the reference model differs from the initial outputs."""

    @classmethod
    def of(
        cls, name: str, design: ControllerProtocol, baseline: Recording, candidate: Recording
    ) -> Effects:
        """Count the requests to a controller and its answers in a run.

        ``baseline`` is the run with the reference.
        """
        answers = candidate.tracks.get(f"messages/{name}")
        requests = candidate.tracks.get(f"messages/{request_topic(name)}")
        wanted = baseline.tracks.get(f"messages/{name}")
        return cls(
            0 if requests is None else len(requests),
            0 if answers is None else len(answers),
            0 if answers is None else int(_effective(answers, candidate.end_ns).sum()),
            wanted is not None and _has_effect(wanted, baseline.end_ns, design),
        )

    @property
    def any(self) -> bool:
        """True if an answer arrived and the reference controller changed its outputs."""
        return self.arrived > 0 and self.away

    def nothing(self, name: str) -> str:
        """Return why a controller had no effect in the run, or ""."""
        if not self.arrived:
            return (
                f"no answer of {name} took effect before the end; use a smaller --latency or a "
                "later --until"
            )
        if not self.away:
            return (
                f"every answer of the reference model of {name} equals the value before the first "
                "answer, so no answer has an effect; change the scenario so that the outputs move"
            )
        return ""

    def to_json(self) -> dict[str, Any]:
        return {"requests": self.asked, "answers": self.answered, "took_effect": self.arrived}


@dataclass(frozen=True)
class FlightCoverage:
    """Numbers of compared signals and rows in closed loop, and the ends of both runs."""

    signals: int = 0
    rows: int = 0
    last_ns: int = -1
    endings: Mapping[str, str] = field(default_factory=dict)
    """How each run ended, by the name of its side."""

    @classmethod
    def of(
        cls, results: Sequence[SignalResult], paired: Recording, flights: Mapping[str, Recording]
    ) -> FlightCoverage:
        tracks = [t for t in paired.tracks.values() if t.spec.deterministic and len(t)]
        last = max((int(t.ns.max()) for t in tracks), default=-1)
        ends = {side: RunEnding.of(flight).in_brief for side, flight in flights.items()}
        compared = sum(bool(r.rows) for r in results)
        return cls(compared, sum(len(t) for t in tracks), last, ends)

    @property
    def in_words(self) -> str:
        until = short(Tag(max(self.last_ns, 0)))
        ends = "; ".join(
            f"the run with the {displayed(side)} {how}" for side, how in self.endings.items()
        )
        return f"{self.signals} signals, {self.rows} rows, 0 s to {until}; {ends}"

    def to_json(self) -> dict[str, Any]:
        return {
            "signals": self.signals,
            "rows": self.rows,
            "to_s": max(self.last_ns, 0) / NS_PER_S,
            "ended": dict(self.endings),
        }


def _effective(answers: TrackData, end_ns: int) -> NDArray[np.bool_]:
    arrival = answers.integer("arrival")
    return np.asarray((arrival >= 0) & (arrival <= end_ns))


def _has_effect(answers: TrackData, end_ns: int, design: ControllerProtocol) -> bool:
    known, held = design.outputs, design.outputs.initial()
    rows = answers.rows.floats[_effective(answers, end_ns)]
    return any(
        bool((rows[:, answers.signals.slice(name)] != held[known.slice(name)]).any())
        for name in answers.signals.names
        if name in known
    )


def _still(columns: Sequence[str], values: NDArray[np.float64]) -> tuple[str, ...]:
    moved = (values != values[:1]).any(axis=0) if len(values) else np.zeros(len(columns), np.bool_)
    return _where(columns, ~moved)


def _where(columns: Sequence[str], mask: NDArray[np.bool_]) -> tuple[str, ...]:
    return tuple(c for c, some in zip(columns, mask.tolist(), strict=True) if some)
