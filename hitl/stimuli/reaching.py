"""Which branches of the C code input sequences reach, measured with probes in its conditions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hitl.building.build import Build
from hitl.building.toolchain import BuildError
from hitl.controllers.parameters import GivenParameters
from hitl.controllers.sil import SERVED
from hitl.interface import Interface
from hitl.stimuli.errors import StimuliError
from hitl.stimuli.file import MARK, MOST_STEPS, Stimuli
from hitl.stimuli.program import program
from hitl.stimuli.ranges import Table
from hitl.stimuli.running import Runner
from rtsim.core.errors import RtsimError

_LINE = re.compile(r":\d+: ")


@dataclass(frozen=True, eq=False)
class Reach:
    """What the input sequences of a comparison reach in the C code of one controller."""

    interface: Interface
    branches: tuple[int, ...] = ()
    """The numbers in ``goals`` of the branches; the others are hazards, or with little to spare."""
    goals: tuple[str, ...] = ()
    """(g,): what can be reached, in words."""
    hits: NDArray[np.bool_] = field(default_factory=lambda: np.zeros((0, 0), np.bool_))
    """(k, g): what each of k sequences reaches."""
    unread: tuple[str, ...] = ()
    """``file:line`` of functions whose branches were not measured."""
    why: str = ""
    """Why nothing was measured; empty if it was."""

    @classmethod
    def of(cls, build: Build, values: Mapping[str, object], tables: Sequence[Table]) -> Reach:
        """Run the sequences ``tables``, (k, m) each, from the start of the C code of ``build``.

        The columns are those of the interface file.  ``values`` are parameters by name.
        """
        interface = build.interface
        try:
            return cls._measured(build, values, tables)
        except (BuildError, RtsimError) as error:
            return cls(interface, why=str(error).partition("\n")[0])

    @classmethod
    def _measured(
        cls, build: Build, values: Mapping[str, object], tables: Sequence[Table]
    ) -> Reach:
        interface = build.interface
        if build.kind == SERVED:
            raise StimuliError("the C code runs on another machine")
        if any(len(table) > MOST_STEPS for table in tables):
            raise StimuliError(f"the run has more than {MOST_STEPS} steps")
        sent = GivenParameters(interface, values).sent
        with program(build) as made:
            found = made.found
            with Runner(made.path, sent, interface.inputs.size, len(found.branches)) as runner:
                reached = runner.run(tables)
        for one in reached:
            if not one.ok:
                how = one.failure or "an input does not fit its type"
                raise StimuliError(f"with probes, {how}")
        goals = [*(b.in_words for b in found.branches), *(b.just for b in found.branches)]
        hits = np.array([one.hits for one in reached]).reshape(len(tables), len(goals))
        branches = tuple(k for k in range(len(found.branches)) if k not in found.hazards)
        return cls(interface, branches, tuple(goals), hits, tuple(found.unread))

    @property
    def open(self) -> list[str]:
        """The branches that no sequence reaches, in words."""
        return [self.goals[k] for k in self.branches if not self.hits[:, k].any()]

    @property
    def in_words(self) -> str:
        """A sentence on branches that were not reached, with the remedy; "" if there are none."""
        if self.why:
            return f"which branches of the C code ran was not measured: {self.why}"
        left = len(self.open)
        if not left:
            return ""
        were = "was" if left == 1 else "were"
        return (
            f"{left} of {len(self.branches)} branches of the C code {were} not reached; "
            f"{MARK} -c {self._file} looks for stimuli that reach them"
        )

    @property
    def _file(self) -> str:
        path = self.interface.path
        if path.is_relative_to(Path.cwd()):
            path = path.relative_to(Path.cwd())
        variant = f":{self.interface.variant}" if self.interface.variant else ""
        return f"{path}{variant}"

    def lacking(self, stimuli: Stimuli, first: int) -> Iterator[str]:
        """Yield a clause for each of ``stimuli`` that does not reach what it names.

        Its sequences begin at the row ``first`` of ``hits``.  If lines were added to the C code
        since, a branch is found by the text of its condition, as long as this text is unique.
        """
        named = [one for one in stimuli.stimuli if one.reaches]
        if self.why and named:
            yield f"whether the stimuli of {stimuli.name} reach what they name was not measured"
        for number, one in enumerate(() if self.why else stimuli.stimuli):
            missed = [text for text in one.reaches if not self._reached(text, first + number)]
            if missed:
                more = f" and {len(missed) - 1} more" if len(missed) > 1 else ""
                remedy = f"type: {MARK} again" if stimuli.generated else "change its steps"
                yield (
                    f"stimulus {number + 1} of {stimuli.name} does not reach {missed[0]}{more}; "
                    f"{remedy}"
                )

    def _reached(self, text: str, row: int) -> bool:
        at = [k for k, goal in enumerate(self.goals) if goal == text]
        if not at:
            at = [k for k, goal in enumerate(self.goals) if _unnumbered(goal) == _unnumbered(text)]
        return len(at) == 1 and bool(self.hits[row, at[0]])

    def to_json(self) -> dict[str, Any]:
        """Return plain data: the branches, the open ones, and why some were not measured."""
        return {
            "branches": len(self.branches),
            "open": self.open,
            "not_measured": [self.why] if self.why else list(self.unread),
        }


def _unnumbered(text: str) -> str:
    """Return the text of a goal without its line number."""
    return _LINE.sub(": ", text, count=1)
