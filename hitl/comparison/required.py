"""Check the scenario's requirements on the closed-loop runs of a comparison."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hitl.comparison.flight import EnvironmentFailure
from hitl.comparison.outputs import DESIGN, displayed
from rtsim.core.outcome import Outcome
from rtsim.record.reading import Recording
from rtsim.requirements.requirement import Requirement
from rtsim.requirements.verdict import RequirementResult, check_run


@dataclass(frozen=True, eq=False)
class RequiredOfRuns:
    """Verdicts on the requirements in the runs of a comparison."""

    runs: Mapping[str, list[RequirementResult]] = field(default_factory=dict)
    """The verdicts on each run, by the stage that ran in it (``design``, ``C``, ``board``)."""
    unchecked: tuple[str, ...] = ()
    """Clauses about runs that did not take place, so that no requirement was checked on them."""

    @classmethod
    def of(
        cls,
        required: Sequence[Requirement],
        recordings: Mapping[str, Recording | None],
        failures: Mapping[str, EnvironmentFailure | None],
    ) -> RequiredOfRuns:
        """Check ``required`` on each recording; ``None`` stands for a missing run.

        ``failures`` contains the failures of the environment.
        """
        if not required:
            return cls()
        names = ", ".join(one.name for one in required)
        lacking = [displayed(side) for side, run in recordings.items() if run is None]
        ran = {side: run for side, run in recordings.items() if run is not None}
        return cls(
            {side: _checked(required, run, failures.get(side)) for side, run in ran.items()},
            tuple(
                f"{names} not checked with the {one}: the loop was not closed" for one in lacking
            ),
        )

    @property
    def outcomes(self) -> list[Outcome]:
        return [one.result for each in self.runs.values() for one in each]

    @property
    def shown(self) -> dict[str, list[RequirementResult]]:
        return {displayed(side): each for side, each in self.runs.items()}

    @property
    def met(self) -> str:
        return ", and all requirements hold" if self.runs else ""

    @property
    def unmet(self) -> list[str]:
        return list(self._unmet())

    def _unmet(self) -> Iterator[str]:
        for side, each in self.runs.items():
            run = f"the run with the {displayed(side)}"
            violated = [one.name for one in each if one.result is Outcome.FAILED]
            undecided = [one.name for one in each if one.result is Outcome.UNDECIDED]
            if violated:
                already = "already " if side == DESIGN else ""
                yield f"{run} {already}violates {', '.join(violated)}"
            if undecided:
                yield f"{run} does not decide {', '.join(undecided)}"

    @property
    def why(self) -> list[str]:
        """A sentence about each requirement that a run violates."""
        return [
            f"requirement, run with the {displayed(side)}: {one.in_words}"
            for side, each in self.runs.items()
            for one in each
            if one.result is not Outcome.PASSED
        ]

    @property
    def covered(self) -> list[str]:
        """Sentences about the requirements that were checked."""
        return [
            f"requirements on the run with the {displayed(side)}: "
            + ", ".join(f"{one.name}: {one.verdict}" for one in each)
            for side, each in self.runs.items()
        ]

    def to_json(self) -> dict[str, Any]:
        return {side: [one.to_json() for one in each] for side, each in self.runs.items()}


def _checked(
    required: Sequence[Requirement], recording: Recording, failure: EnvironmentFailure | None
) -> list[RequirementResult]:
    if failure is None:
        return check_run(required, lambda: recording, margins=True)
    before = recording.up_to(max(failure.since_ns - 1, 0))
    why = failure.why.partition("\n")[0]
    return [
        replace(one, reason=why) if one.result is Outcome.UNDECIDED else one
        for one in check_run(required, lambda: before, margins=True)
    ]
