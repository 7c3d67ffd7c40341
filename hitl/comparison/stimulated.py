"""Open loops on generated stimuli: each begins with both controllers just initialised."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hitl.comparison.exercise import Exercise
from hitl.comparison.open_loop import OpenLoop
from hitl.stimuli.file import Stimuli, Table
from rtsim.core.outcome import Judged, Outcome
from rtsim.core.signals import Signals
from rtsim.core.tag import Period

Drive = Callable[[Table, NDArray[np.int64]], OpenLoop]
"""A function that runs an open loop on inputs (k, m) and tags (k, 2)."""


@dataclass(frozen=True, eq=False)
class Stimulated(Judged):
    """The open loops of one controller on the stimuli of a file."""

    name: str
    stimuli: Stimuli
    loops: tuple[OpenLoop, ...]
    """The result of each stimulus, in the order of the file."""

    @classmethod
    def of(
        cls, name: str, stimuli: Stimuli, layout: Signals, period: Period | None, drive: Drive
    ) -> Stimulated:
        """Run all stimuli with ``drive``; ``layout`` are the inputs of the reference model.

        Step k happens at tick k of ``period``, or k ns after the start if there is none.
        """
        loops = []
        for table in stimuli.ordered(layout):
            times = [k if period is None else period.tick(k) for k in range(len(table))]
            tags = np.array([(ns, 0) for ns in times], np.int64)
            # A stimulus is there to reach a branch: it need not move any output.
            loops.append(replace(drive(table, tags), exercise=Exercise()))
        return cls(name, stimuli, tuple(loops))

    def beside(self, run: OpenLoop) -> OpenLoop:
        """Return the open loop ``run`` with the signals that it left still and stimuli moved.

        A signal moved if it had, in a compared step, another value than in the run.
        """
        still, outputs = run.exercise, [signal.name for signal in run.signals]
        answers = [loop.design[: loop.answered] for loop in self.loops]
        given = [loop.inputs[: loop.answered] for loop in self.loops]
        moved = replace(
            still,
            stimulated_outputs=_moved(outputs, still.still_outputs, run.design, answers),
            stimulated_inputs=_moved(run.input_names, still.still_inputs, run.inputs, given),
        )
        return replace(run, exercise=moved)

    def _judge(self) -> Outcome:
        """The outcome of all stimuli together; passed if the file has none."""
        return Outcome.of_all(loop.outcome for loop in self.loops) if self.loops else Outcome.PASSED

    @property
    def title(self) -> str:
        """``controller: 3 stimuli of motor.stimuli.toml, 12 steps``."""
        count = len(self.loops)
        what = f"{count} stimul{'us' if count == 1 else 'i'}"
        return f"{self.name}: {what} of {self.stimuli.name}, {self.stimuli.steps} steps"

    @property
    def why(self) -> list[str]:
        """A sentence on each stimulus that does not pass, with the branches that it reaches."""
        out = []
        for number, loop in enumerate(self.loops, 1):
            if loop.outcome is not Outcome.PASSED:
                first, *more = (*self.stimuli.stimuli[number - 1].reaches, "")
                others = f", and {len(more) - 1} more" if len(more) > 1 else ""
                out.append(
                    f"stimulus {number} of {self.stimuli.name}: {loop.in_words}"
                    + (f" (reaches {first}{others})" if first else "")
                )
        return out

    def reaches(self, number: int) -> str:
        """Return the branches for which stimulus ``number`` was found, as a text."""
        return "; ".join(self.stimuli.stimuli[number].reaches)

    @property
    def covered(self) -> str:
        """A text on what was compared."""
        answered = sum(loop.answered for loop in self.loops)
        return f"{self.title}, {answered} answered"

    def to_json(self) -> dict[str, Any]:
        """Return plain data, without the values of the single steps."""
        return {
            "ok": self._judge() is Outcome.PASSED,
            "outcome": self._judge().name.lower(),
            "file": None if self.stimuli.path is None else str(self.stimuli.path),
            "generated": dict(self.stimuli.generated),
            "stimuli": [
                {**loop.to_json(), "reaches": list(stimulus.reaches)}
                for loop, stimulus in zip(self.loops, self.stimuli.stimuli, strict=True)
            ],
        }


def _moved(
    columns: Sequence[str], still: Sequence[str], run: Table, stimuli: Sequence[Table]
) -> tuple[str, ...]:
    """Return the columns of ``still`` that have another value in ``stimuli`` than in ``run``."""
    at = {name: columns.index(name) for name in still}
    return tuple(n for n in still if any((t[:, at[n]] != run[0, at[n]]).any() for t in stimuli))
